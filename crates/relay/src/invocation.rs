//! What a tor command line says.

use std::path::{Path, PathBuf};

use super::torrc::{Change, Line};

/// Where tor looks without `-f`.
const DEFAULT_TORRC: &str = "/etc/tor/torrc";
/// Where tor looks without `--defaults-torrc`.
const DEFAULT_DEFAULTS: &str = "/etc/tor/torrc-defaults";
/// Options of the command line alone that a service has; they have no value.
const FLAGS: [&str; 4] = ["--allow-missing-torrc", "--ignore-missing-torrc", "--hush", "--quiet"];

/// A tor command line, taken apart.
#[derive(Debug, Clone)]
pub(super) struct Invocation {
    pub(super) torrc: PathBuf,
    pub(super) defaults_torrc: PathBuf,
    /// Whether the command line names it.
    pub(super) names_defaults: bool,
    /// Whether the torrc may be missing.
    pub(super) may_miss_torrc: bool,
    /// Options of a torrc that are given on the command line.
    pub(super) lines: Vec<Line>,
    /// All arguments but those that name files.
    pub(super) other_arguments: Vec<String>,
}

impl Invocation {
    /// `None` where the command is not one of a program called tor.
    pub(super) fn of(command: &[String]) -> Option<Self> {
        let (program, arguments) = command.split_first()?;
        if Path::new(program).file_name()? != "tor" {
            return None;
        }
        let mut invocation = Self {
            torrc: PathBuf::from(DEFAULT_TORRC),
            defaults_torrc: PathBuf::from(DEFAULT_DEFAULTS),
            names_defaults: false,
            may_miss_torrc: false,
            lines: Vec::new(),
            other_arguments: Vec::new(),
        };
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "-f" | "--torrc-file" => invocation.torrc = rest.next()?.into(),
                "--defaults-torrc" => {
                    invocation.defaults_torrc = rest.next()?.into();
                    invocation.names_defaults = true;
                }
                flag if FLAGS.contains(&flag) => {
                    invocation.may_miss_torrc |= flag.ends_with("-missing-torrc");
                    invocation.other_arguments.push(argument.clone());
                }
                option => {
                    invocation.other_arguments.push(argument.clone());
                    let option = option.strip_prefix('-').unwrap_or(option);
                    let option = option.strip_prefix('-').unwrap_or(option);
                    let (change, name) = match option.split_at_checked(1) {
                        Some(("+", name)) => (Change::Add, name),
                        Some(("/", name)) => (Change::Clear, name),
                        _ => (Change::Set, option),
                    };
                    let value = if change == Change::Clear {
                        None
                    } else {
                        rest.next_if(|next| !next.starts_with('-'))
                    };
                    invocation.other_arguments.extend(value.cloned());
                    let value = value.map(|value| value.as_bytes().to_vec()).unwrap_or_default();
                    invocation.lines.push(Line { change, option: name.to_owned(), value });
                }
            }
        }
        Some(invocation)
    }
}
