//! What a library needs of the system, as Debian packages with the least versions that have it.

use std::collections::BTreeSet;
use std::path::Path;

use heaptrial_model::Version;

use super::PackageError;
use crate::elf::LibraryFacts;

const C_LIBRARY: &str = "libc6";
const CXX_LIBRARY: &str = "libstdc++6";
/// Packages of files, by the start of their names.
const FILES: [(&str, &[&str]); 4] = [
    (C_LIBRARY, &["libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "ld-linux-"]),
    (CXX_LIBRARY, &["libstdc++.so.6"]),
    ("libgcc-s1", &["libgcc_s.so.1"]),
    ("libatomic1", &["libatomic.so.1"]),
];
/// The release of GCC in which a version of libstdc++'s symbols appeared, from its documentation (ABI Policy and
/// Guidelines). Older ones are in every libstdc++ that is still in use.
const LIBSTDCXX: [(&str, &str); 8] = [
    ("3.4.26", "9"),
    ("3.4.27", "9.2"),
    ("3.4.28", "9.3"),
    ("3.4.29", "11"),
    ("3.4.30", "12"),
    ("3.4.31", "13.1"),
    ("3.4.32", "13.2"),
    ("3.4.33", "14"),
];

pub(super) fn of(library: &Path, facts: &LibraryFacts) -> Result<String, PackageError> {
    let unknown = |needed: &str| {
        PackageError::Refused(format!(
            "{} needs {needed}, and it is not known which Debian package has that; a package that does not name it could be installed where the library cannot be loaded",
            library.display()
        ))
    };
    let mut packages = BTreeSet::new();
    for name in &facts.needed {
        let has_it = |(_, files): &&(&str, &[&str])| files.iter().any(|start| name.starts_with(start));
        let (package, _) = FILES.iter().find(has_it).ok_or_else(|| unknown(name))?;
        let least = match *package {
            C_LIBRARY => facts.needed_glibc.clone(),
            CXX_LIBRARY => needed_gcc(&facts.symbol_versions).map_err(|version| unknown(&version))?,
            _ => None,
        };
        packages.insert(least.map_or((*package).to_owned(), |least| format!("{package} (>= {least})")));
    }
    Ok(packages.into_iter().collect::<Vec<_>>().join(", "))
}

/// The release of GCC whose libstdc++ has the newest of these versions of symbols; an error for one that is not known.
fn needed_gcc(symbol_versions: &[String]) -> Result<Option<Version>, String> {
    let number = |version: &String| version.strip_prefix("GLIBCXX_").map(Version::new);
    let Some(newest) = symbol_versions.iter().filter_map(number).max() else { return Ok(None) };
    match LIBSTDCXX.iter().find(|(version, _)| *version == newest.as_str()) {
        Some((_, release)) => Ok(Some(Version::new(*release))),
        None if newest < Version::new(LIBSTDCXX[0].0) => Ok(None),
        None => Err(format!("GLIBCXX_{newest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depends(needed: &[&str], symbol_versions: &[&str]) -> Result<String, PackageError> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let facts = LibraryFacts {
            build_id: None,
            needed_glibc: Some(Version::new("2.34")),
            needed: texts(needed),
            symbol_versions: texts(symbol_versions),
        };
        of(Path::new("/x.so"), &facts)
    }

    #[test]
    fn files_are_of_packages_with_the_least_version_and_what_is_not_known_is_refused() {
        let found = depends(&["libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"], &[]);
        assert_eq!(found.unwrap(), "libc6 (>= 2.34)");
        let cxx = ["libstdc++.so.6", "libgcc_s.so.1", "libc.so.6"];
        let found = depends(&cxx, &["GLIBCXX_3.4", "CXXABI_1.3", "GLIBCXX_3.4.30"]).unwrap();
        assert_eq!(found, "libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 12)");
        assert_eq!(depends(&["libstdc++.so.6"], &["GLIBCXX_3.4.21"]).unwrap(), "libstdc++6");
        assert!(depends(&["libunwind.so.8"], &[]).is_err());
        assert!(depends(&["libstdc++.so.6"], &["GLIBCXX_3.4.99"]).is_err());
    }
}
