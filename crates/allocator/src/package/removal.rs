//! The script that dpkg asks before it removes a package.

use std::path::Path;

const SCRIPT: &str = include_str!("prerm.sh");

/// The script of a package with this library. Neither name nor path has a character that a shell reads in single quotes:
/// both were checked.
pub(crate) fn script(package: &str, library: &Path) -> String {
    SCRIPT.replace("@PACKAGE@", package).replace("@LIBRARY@", &library.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_script_is_one_that_a_plain_shell_can_read() {
        let text = script("heaptrial-x-0", Path::new("/usr/lib/heaptrial/allocators/x-0/x.so"));
        assert!(!text.contains("@PACKAGE@") && !text.contains("@LIBRARY@"));
        assert!(text.contains("library='/usr/lib/heaptrial/allocators/x-0/x.so'\n"), "{text}");
        let checked = Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
