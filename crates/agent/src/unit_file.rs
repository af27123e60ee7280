//! The systemd unit that runs the agent.

use std::path::Path;

use heaptrial_host::Paths;

/// Its name.
pub const UNIT_NAME: &str = "heaptrial-agent.service";

/// Its text, for a program at `/usr/bin/heaptrial`.
pub const UNIT_FILE: &str = include_str!("../../../packaging/heaptrial-agent.service");

/// The same for the service manager of a user, which cannot confine as much.
const USER_UNIT_FILE: &str = include_str!("../../../packaging/heaptrial-agent-user.service");

const PROGRAM: &str = "/usr/bin/heaptrial";

/// The text for a program elsewhere and what it keeps in these folders. `None` where the path cannot stand in a unit file as one word.
pub fn unit_file(program: &Path, paths: &Paths) -> Option<String> {
    let path = program.to_str().filter(|path| path.starts_with('/'))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@".contains(c);
    let text = if paths.scope.is_system() { UNIT_FILE } else { USER_UNIT_FILE };
    let found = paths.environment();
    let environment: String =
        found.iter().map(|(name, value)| format!("Environment={name}={}\n", value.display())).collect();
    path.chars().all(plain).then(|| {
        text.replace(PROGRAM, path).replacen("Restart=always\n", &format!("{environment}Restart=always\n"), 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_may_stand_elsewhere() {
        let text = unit_file(Path::new("/opt/ht/heaptrial"), &Paths::default()).unwrap();
        assert!(text.contains("ExecStart=/opt/ht/heaptrial agent\n") && !text.contains(PROGRAM), "{text}");
        assert_eq!(unit_file(Path::new("/opt/h t/%i"), &Paths::default()), None);
        assert_eq!(unit_file(Path::new("heaptrial"), &Paths::default()), None);
    }
}
