//! Options that every command takes, and commands named in texts.

use std::fmt::Display;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{ArgAction, Args, ColorChoice};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{Paths, Scope};

use heaptrial_report::Screen;

use crate::exit::Failure;
use crate::output;

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub struct GlobalOptions {
    /// Use this database instead of the usual one
    #[arg(long, global = true, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Manage your own services (`systemctl --user`), as yourself
    #[arg(long, global = true)]
    pub user: bool,
    /// Where the run's folder or the report goes
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print more about what is done
    #[arg(short, long, global = true, action = ArgAction::Count, hide_short_help = true)]
    pub verbose: u8,
    /// Whether to use colour; NO_COLOR is heeded
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    #[arg(hide_short_help = true)]
    pub color: ColorChoice,
}

impl GlobalOptions {
    pub fn scope(&self) -> Scope {
        if self.user { Scope::User } else { Scope::System }
    }

    /// Where Heaptrial keeps its files.
    pub fn paths(&self) -> Result<Paths, Failure> {
        Ok(Paths::of(self.scope())?)
    }

    pub fn systemd(&self) -> Result<Systemd, Failure> {
        Ok(Systemd::connect(self.scope())?)
    }

    /// Standard output.
    pub fn screen(&self) -> Screen {
        Screen { colored: self.colored(std::io::stdout().is_terminal()), width: output::width() }
    }

    pub fn colored_stderr(&self) -> bool {
        self.colored(std::io::stderr().is_terminal())
    }

    fn colored(&self, terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}

/// Whether this process manages services of a user.
static OF_USER: OnceLock<bool> = OnceLock::new();

/// Fixes for which services [`command`] names commands.
pub fn name_commands_for(global: &GlobalOptions) {
    let _ = OF_USER.set(global.user);
}

/// A command in a text, between backticks, for the same services as the command that runs.
pub fn command(words: impl Display) -> String {
    let user = if OF_USER.get() == Some(&true) { "--user " } else { "" };
    format!("`heaptrial {user}{words}`")
}
