//! The systemd unit that runs the agent.

use std::path::{Path, PathBuf};

use heaptrial_host::Paths;
use heaptrial_host::systemd::unit_word;

pub const UNIT_NAME: &str = "heaptrial-agent.service";

/// Its text, for a program at `/usr/bin/heaptrial`.
pub const UNIT_FILE: &str = include_str!("../../../packaging/heaptrial-agent.service");

/// The same for the service manager of a user, which cannot confine as much.
const USER_UNIT_FILE: &str = include_str!("../../../packaging/heaptrial-agent-user.service");

const PROGRAM: &str = "/usr/bin/heaptrial";
const OWN_FOLDER: &str = "ReadWritePaths=/var/lib/heaptrial\n";

/// What a unit has the agent do that is not the usual.
#[derive(Debug, Clone, Default)]
pub struct UnitOptions {
    pub arguments: Vec<String>,
    /// Folders that it writes to beside its own.
    pub writes_to: Vec<PathBuf>,
}

/// The text for a program elsewhere, with folders and options; `None` where one of them cannot stand in a unit file.
pub fn unit_file(program: &Path, paths: &Paths, options: &UnitOptions) -> Option<String> {
    let program = program.to_str().filter(|path| path.starts_with('/')).and_then(unit_word)?;
    let text = if paths.scope.is_system() { UNIT_FILE } else { USER_UNIT_FILE };
    let written: Option<Vec<&str>> = options.writes_to.iter().map(|path| path.to_str()).collect();
    let words = |words: &mut dyn Iterator<Item = &str>| -> Option<String> {
        words.map(|word| unit_word(word).map(|word| format!(" {word}"))).collect()
    };
    let arguments = words(&mut options.arguments.iter().map(String::as_str))?;
    let written = words(&mut written?.into_iter())?;
    let text = text.replacen(" agent\n", &format!(" agent{arguments}\n"), 1).replacen(
        OWN_FOLDER,
        &format!("{}{written}\n", OWN_FOLDER.trim_end()),
        1,
    );
    let found = paths.environment();
    let environment: String =
        found.iter().map(|(name, value)| format!("Environment={name}={}\n", value.display())).collect();
    let text = text.replacen(&format!("={PROGRAM} "), &format!("={program} "), 1);
    Some(text.replacen("Restart=always\n", &format!("{environment}Restart=always\n"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_to_do_stands_in_it() {
        let mut options = UnitOptions {
            arguments: ["--db", "/srv/a b/50%.db", "--services", "tor@*", "x[0-9]"].map(str::to_owned).into(),
            writes_to: vec!["/srv/a b".into()],
        };
        let text = unit_file(Path::new("/usr/bin/heaptrial"), &Paths::default(), &options).unwrap();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(
            line("ExecStart="),
            r#"ExecStart=/usr/bin/heaptrial agent --db "/srv/a b/50%%.db" --services tor@* "x[0-9]""#
        );
        assert_eq!(line("ReadWritePaths="), r#"ReadWritePaths=/var/lib/heaptrial "/srv/a b""#);
        options.arguments.push("a\nExecStartPre=/bin/true".into());
        assert_eq!(unit_file(Path::new("/usr/bin/heaptrial"), &Paths::default(), &options), None);
    }
}
