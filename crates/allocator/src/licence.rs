//! Licence texts that came with an obtained allocator.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A licence text as it lay beside the source or in the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenceText {
    pub name: String,
    pub text: String,
}

/// Far above what any licence has.
const MOST_BYTES: u64 = 256 * 1024;
/// How files with licences are named, in capitals and without an ending.
const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT"];

/// The texts in a source folder, in order of their names.
pub(crate) fn of_source(folder: &Path) -> Vec<LicenceText> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut texts: Vec<LicenceText> = entries
        .filter(|entry| is_licence(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| of_file(&entry.path()))
        .collect();
    texts.sort_by(|a, b| a.name.cmp(&b.name));
    texts
}

/// The `copyright` file of a Debian package, below the folder that it is unpacked or installed in.
pub(crate) fn of_package(root: &Path, package: &str) -> Vec<LicenceText> {
    of_file(&root.join("usr/share/doc").join(package).join("copyright")).into_iter().collect()
}

fn is_licence(name: &str) -> bool {
    let stem = name.split(['.', '-']).next().unwrap_or(name).to_ascii_uppercase();
    NAMES.contains(&stem.as_str())
}

fn of_file(path: &Path) -> Option<LicenceText> {
    let found = fs::metadata(path).ok().filter(|found| found.is_file() && found.len() <= MOST_BYTES)?;
    let text = fs::read(path).ok().filter(|_| found.len() > 0)?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(LicenceText { name, text: String::from_utf8_lossy(&text).into_owned() })
}
