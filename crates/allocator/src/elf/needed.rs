//! What a library needs of others: their names, and the versions of their symbols.

use std::path::Path;

use object::elf;

use super::{Elf, ElfError, ElfFile, MOST_NEEDED_FILES, MOST_NEEDED_VERSIONS, u16_at, u32_at};

/// A file that a library needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededFile {
    /// Its name, such as `libc.so.6`.
    pub name: String,
    /// Versions of the symbols taken from it, such as `GLIBC_2.34`.
    pub versions: Vec<String>,
}

/// What a library needs of others, in the order in which it names them.
pub fn needed_files(path: &Path) -> Result<Vec<NeededFile>, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    let versions = elf.needed_versions().ok_or(ElfError::Damaged {
        path: path.to_owned(),
        what: "the versions of the symbols that it needs",
    })?;
    let of_name = |name: &str| {
        let own = versions.iter().filter(|(file, _)| file == name);
        own.map(|(_, version)| version.clone()).collect()
    };
    // The dynamic loader is named by its symbols' versions alone, in some libraries.
    let mut names = elf.needed();
    for (name, _) in &versions {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names.into_iter().map(|name| NeededFile { versions: of_name(&name), name }).collect())
}

impl Elf<'_> {
    /// Pairs of a needed file and a version of its symbols; nothing where it needs none.
    pub(super) fn needed_versions(&self) -> Option<Vec<(String, String)>> {
        let Some(table) = self.tag(elf::DT_VERNEED) else { return Some(Vec::new()) };
        let bytes = self.at_address(table, 64 * 1024)?;
        let count = self.tag(elf::DT_VERNEEDNUM)?;
        let mut found = Vec::new();
        let mut entry = 0_usize;
        for _ in 0..count.min(MOST_NEEDED_FILES) {
            let file = self.string(u64::from(u32_at(bytes, entry + 4, self.endian)?))?;
            let mut auxiliary = entry.checked_add(u32_at(bytes, entry + 8, self.endian)? as usize)?;
            for _ in 0..u16_at(bytes, entry + 2, self.endian)?.min(MOST_NEEDED_VERSIONS) {
                let version = self.string(u64::from(u32_at(bytes, auxiliary + 8, self.endian)?))?;
                found.push((file.clone(), version));
                match u32_at(bytes, auxiliary + 12, self.endian)? as usize {
                    0 => break,
                    next => auxiliary = auxiliary.checked_add(next)?,
                }
            }
            match u32_at(bytes, entry + 12, self.endian)? as usize {
                0 => break,
                next => entry = entry.checked_add(next)?,
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_versions_of_the_c_library() {
        let needed = needed_files(&std::env::current_exe().unwrap()).unwrap();
        let libc = needed.iter().find(|file| file.name.starts_with("libc.so")).unwrap();
        assert!(libc.versions.iter().any(|version| version.starts_with("GLIBC_2.")), "{libc:?}");
    }
}
