//! What a library needs of the system, as Debian packages with the least versions that have it.

use std::path::Path;

use heaptrial_model::Version;

use super::PackageError;
use crate::elf::NeededFile;

/// Files of Debian packages, by the start of their names.
const FILES: [(&str, &str); 10] = [
    ("libc.so.6", C_LIBRARY),
    ("libpthread.so.0", C_LIBRARY),
    ("libdl.so.2", C_LIBRARY),
    ("librt.so.1", C_LIBRARY),
    ("libm.so.6", C_LIBRARY),
    ("libresolv.so.2", C_LIBRARY),
    ("ld-linux-", C_LIBRARY),
    ("libstdc++.so.6", "libstdc++6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libatomic.so.1", "libatomic1"),
];
const C_LIBRARY: &str = "libc6";
/// The release of GCC in which a version of libstdc++'s symbols appeared, from its documentation (ABI Policy and
/// Guidelines).
const LIBSTDCXX: [(&str, &str); 8] = [
    ("GLIBCXX_3.4.26", "9"),
    ("GLIBCXX_3.4.27", "9.2"),
    ("GLIBCXX_3.4.28", "9.3"),
    ("GLIBCXX_3.4.29", "11"),
    ("GLIBCXX_3.4.30", "12"),
    ("GLIBCXX_3.4.31", "13.1"),
    ("GLIBCXX_3.4.32", "13.2"),
    ("GLIBCXX_3.4.33", "14"),
];
/// The glibc from which on relative relocations in packed form are loaded; a library that has some needs this version.
const PACKED_RELOCATIONS: (&str, &str) = ("GLIBC_ABI_DT_RELR", "2.36");

/// The `Depends` field of a library that needs these files.
pub(super) fn of(library: &Path, needed: &[NeededFile]) -> Result<String, PackageError> {
    let unknown = |needed: &str| {
        PackageError::Refused(format!(
            "{} needs {needed}, and it is not known which Debian package has that; a package that does not name it could be installed where the library cannot be loaded",
            library.display()
        ))
    };
    let mut packages: Vec<(&str, Option<Version>)> = Vec::new();
    for file in needed {
        let known = FILES.iter().find(|(start, _)| file.name.starts_with(start));
        let package = known.ok_or_else(|| unknown(&file.name))?.1;
        let mut least = None;
        for version in &file.versions {
            least = least.max(least_version(package, version).ok_or_else(|| unknown(version))?);
        }
        match packages.iter_mut().find(|(known, _)| *known == package) {
            Some((_, known)) => *known = known.take().max(least),
            None => packages.push((package, least)),
        }
    }
    packages.sort();
    let words = packages.into_iter().map(|(package, least)| match least {
        Some(version) => format!("{package} (>= {version})"),
        None => package.to_owned(),
    });
    Ok(words.collect::<Vec<_>>().join(", "))
}

/// The least version of a package that has a version of symbols; `Some(None)` where any has it.
fn least_version(package: &str, symbols: &str) -> Option<Option<Version>> {
    let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()).then(|| Version::new(text));
    match package {
        C_LIBRARY if symbols == PACKED_RELOCATIONS.0 => Some(Some(Version::new(PACKED_RELOCATIONS.1))),
        C_LIBRARY => number(symbols.strip_prefix("GLIBC_")?).map(Some),
        "libstdc++6" => {
            let Some(wanted) = symbols.strip_prefix("GLIBCXX_").and_then(number) else {
                // CXXABI_1.3 and its likes come with the GLIBCXX_ versions of the same release.
                return symbols.starts_with("CXXABI_").then_some(None);
            };
            let of = |name: &str| Version::new(name.trim_start_matches("GLIBCXX_"));
            if wanted > of(LIBSTDCXX[LIBSTDCXX.len() - 1].0) {
                return None;
            }
            // Older ones than these are in every libstdc++ that is still in use.
            let known = LIBSTDCXX.iter().find(|(name, _)| of(name) == wanted);
            Some(known.map(|(_, release)| Version::new(*release)))
        }
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(name: &str, versions: &[&str]) -> NeededFile {
        NeededFile {
            name: name.to_owned(),
            versions: versions.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    fn depends(files: &[NeededFile]) -> Result<String, PackageError> {
        of(Path::new("/x.so"), files)
    }

    #[test]
    fn the_newest_version_of_all_files_of_a_package_counts() {
        let files = [
            needed("libc.so.6", &["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4"]),
            needed("libpthread.so.0", &["GLIBC_2.3.2"]),
            needed("ld-linux-x86-64.so.2", &["GLIBC_2.3"]),
        ];
        assert_eq!(depends(&files).unwrap(), "libc6 (>= 2.34)");
        let packed = [needed("libc.so.6", &["GLIBC_2.34", "GLIBC_ABI_DT_RELR"])];
        assert_eq!(depends(&packed).unwrap(), "libc6 (>= 2.36)");
        let files = [
            needed("libstdc++.so.6", &["GLIBCXX_3.4", "CXXABI_1.3", "GLIBCXX_3.4.30"]),
            needed("libgcc_s.so.1", &["GCC_3.0"]),
            needed("libc.so.6", &["GLIBC_2.38"]),
        ];
        assert_eq!(depends(&files).unwrap(), "libc6 (>= 2.38), libgcc-s1, libstdc++6 (>= 12)");
        assert_eq!(depends(&[needed("libstdc++.so.6", &["GLIBCXX_3.4.21"])]).unwrap(), "libstdc++6");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for files in [
            needed("libunwind.so.8", &[]),
            needed("libc.so.6", &["GLIBC_PRIVATE"]),
            needed("libstdc++.so.6", &["GLIBCXX_3.4.99"]),
        ] {
            assert!(matches!(depends(&[files]), Err(PackageError::Refused(_))));
        }
    }
}
