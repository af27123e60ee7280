//! Where Heaptrial keeps things on a host.

use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass, ServiceName};

use crate::Scope;

/// Name of the drop-in that carries a treatment's environment. Drop-ins apply in the order of their names, whatever folder
/// they are in (systemd.unit(5)), and what comes last counts: this one comes after `override.conf`, which is what `systemctl
/// edit` writes.
pub const DROP_IN: &str = "zz-heaptrial.conf";

/// Whether a file is a drop-in that carries a treatment, by its name.
pub fn is_drop_in(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == DROP_IN)
}

/// The folders in which Heaptrial keeps state, libraries and unit files on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// State that must last: trials with plan, journal and saved originals.
    pub state: PathBuf,
    /// Allocator libraries, and the copy of the program that the recovery timer runs.
    pub libraries: PathBuf,
    pub units: PathBuf,
    pub scope: Scope,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{variable} must be an absolute path of letters, digits and / - _ . + @, as unit files name what is below it; it is {found}"
)]
pub struct NoFolders {
    variable: &'static str,
    found: String,
}

impl Classified for NoFolders {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            state: "/var/lib/heaptrial".into(),
            libraries: "/usr/lib/heaptrial".into(),
            units: "/etc/systemd/system".into(),
            scope: Scope::System,
        }
    }
}

/// Where a user keeps state and settings, below the home folder (XDG Base Directory Specification).
const STATE_HOME: (&str, &str) = ("XDG_STATE_HOME", ".local/state");
const CONFIG_HOME: (&str, &str) = ("XDG_CONFIG_HOME", ".config");

impl Paths {
    /// Those of a service manager: the system's, or those of the user who runs this program.
    pub fn of(scope: Scope) -> Result<Self, NoFolders> {
        match scope {
            Scope::System => Ok(Self::default()),
            Scope::User => Self::of_user(|name| std::env::var_os(name).map(PathBuf::from)),
        }
    }

    fn of_user(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, NoFolders> {
        let folder = |name, found: Option<PathBuf>| match found {
            Some(path) if can_stand_in_a_unit(&path) => Ok(path),
            Some(path) => Err(NoFolders { variable: name, found: path.display().to_string() }),
            None => Err(NoFolders { variable: name, found: "not set".to_owned() }),
        };
        let home = folder("HOME", variable("HOME"))?;
        let below = |(name, usual): (&'static str, &str)| {
            let given = variable(name).filter(|path| path.is_absolute());
            folder(name, given.or_else(|| Some(home.join(usual))))
        };
        Ok(Self {
            state: below(STATE_HOME)?.join("heaptrial"),
            libraries: home.join(".local/lib/heaptrial"),
            units: below(CONFIG_HOME)?.join("systemd/user"),
            scope: Scope::User,
        })
    }

    /// The environment in which a program that the service manager starts finds the same folders: the manager's own
    /// may differ from that of this program.
    pub fn environment(&self) -> Vec<(&'static str, &Path)> {
        match self.scope {
            Scope::System => Vec::new(),
            Scope::User => {
                let state = self.state.parent().map(|path| (STATE_HOME.0, path));
                let config = self.units.ancestors().nth(2).map(|path| (CONFIG_HOME.0, path));
                state.into_iter().chain(config).collect()
            }
        }
    }

    pub fn trials(&self) -> PathBuf {
        self.state.join("trials")
    }

    pub fn watches(&self) -> PathBuf {
        self.state.join("watches")
    }

    pub fn trial(&self, name: &str) -> PathBuf {
        self.trials().join(name)
    }

    pub fn drop_in(&self, service: &ServiceName) -> PathBuf {
        self.units.join(format!("{service}.d")).join(DROP_IN)
    }

    pub fn unit(&self, name: &str) -> PathBuf {
        self.units.join(name)
    }

    pub fn program(&self) -> PathBuf {
        self.libraries.join("bin/heaptrial")
    }

    pub fn allocators(&self) -> PathBuf {
        self.libraries.join("allocators")
    }

    /// Whether a path is below one of the folders that only Heaptrial writes.
    pub fn owns(&self, path: &Path) -> bool {
        path.starts_with(&self.libraries) || path.starts_with(&self.state)
    }
}

/// Whether a path can stand in a unit file as it is.
fn can_stand_in_a_unit(path: &Path) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@".contains(c);
    path.is_absolute() && path.to_str().is_some_and(|path| path.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Paths, NoFolders> {
        let found = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Paths::of_user(|name| found(name).map(|(_, value)| PathBuf::from(value)))
    }

    #[test]
    fn a_user_has_folders_below_home_or_where_the_environment_says() {
        let usual = of(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "")]).unwrap();
        assert_eq!(usual.state, Path::new("/home/a/.local/state/heaptrial"));
        assert_eq!(usual.libraries, Path::new("/home/a/.local/lib/heaptrial"));
        assert_eq!(usual.units, Path::new("/home/a/.config/systemd/user"));
        let other = of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")]).unwrap();
        assert_eq!(
            (other.state.as_path(), other.units.as_path()),
            (Path::new("/s/heaptrial"), Path::new("/c/systemd/user"))
        );
        let expected = [("XDG_STATE_HOME", Path::new("/s")), ("XDG_CONFIG_HOME", Path::new("/c"))];
        assert_eq!(other.environment(), expected);
        assert!(Paths::default().environment().is_empty());
    }

    #[test]
    fn a_home_that_unit_files_cannot_name_is_refused() {
        for home in [&[][..], &[("HOME", "a")], &[("HOME", "/home/a b")], &[("HOME", "/h/%i")]] {
            assert!(of(home).unwrap_err().to_string().starts_with("HOME must be an absolute path"));
        }
    }
}
