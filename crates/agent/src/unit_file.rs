//! The systemd unit that runs the agent.

use std::path::Path;

/// Its name.
pub const UNIT_NAME: &str = "heaptrial-agent.service";

/// Its text, for a program at `/usr/bin/heaptrial`.
pub const UNIT_FILE: &str = include_str!("../../../packaging/heaptrial-agent.service");

const PROGRAM: &str = "/usr/bin/heaptrial";

/// The text for a program elsewhere. `None` where the path cannot stand in a unit file as one word.
pub fn unit_file(program: &Path) -> Option<String> {
    let path = program.to_str().filter(|path| path.starts_with('/'))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@".contains(c);
    path.chars().all(plain).then(|| UNIT_FILE.replace(PROGRAM, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_may_stand_elsewhere() {
        let text = unit_file(Path::new("/opt/ht/heaptrial")).unwrap();
        assert!(text.contains("ExecStart=/opt/ht/heaptrial agent\n") && !text.contains(PROGRAM), "{text}");
        assert_eq!(unit_file(Path::new("/opt/h t/%i")), None);
        assert_eq!(unit_file(Path::new("heaptrial")), None);
    }
}
