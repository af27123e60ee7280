//! Options of every command.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{Paths, Scope};

use crate::exit::Failure;

const OF_USERS: [&str; 7] = ["services", "preflight", "trial", "agent", "report", "export", "serve"];

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub struct GlobalOptions {
    /// Use this database instead of the usual one
    #[arg(long, global = true, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Deal with your own services (`systemctl --user`) instead of the system's, as yourself and not as root
    #[arg(long, global = true)]
    pub user: bool,
    /// Where the run's folder or the report goes
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print more about what is done
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour; NO_COLOR is heeded
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl GlobalOptions {
    pub fn scope(&self) -> Scope {
        if self.user { Scope::User } else { Scope::System }
    }

    /// The folders of what is kept about them.
    pub fn paths(&self) -> Result<Paths, Failure> {
        Ok(Paths::of(self.scope())?)
    }

    pub fn systemd(&self) -> Result<Systemd, Failure> {
        Ok(Systemd::connect(self.scope())?)
    }

    /// A text that is to be shown: commands in it, which stand between backticks, are about the same services as this one.
    pub fn told(&self, text: &str) -> String {
        if !self.user {
            return text.to_owned();
        }
        let mut parts = text.split("`heaptrial ");
        let mut told = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let word: String = part.chars().take_while(char::is_ascii_lowercase).collect();
            let own = if OF_USERS.contains(&word.as_str()) { "--user " } else { "" };
            told += &format!("`heaptrial {own}{part}");
        }
        told
    }

    /// Whether what is written to standard output is coloured.
    pub fn colored_stdout(&self) -> bool {
        self.colored(std::io::stdout().is_terminal())
    }

    fn colored(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Whether what is written to standard error is coloured.
    pub fn colored_stderr(&self) -> bool {
        self.colored(std::io::stderr().is_terminal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_told_are_about_the_same_services() {
        let global =
            |user| GlobalOptions { db: None, json: false, user, out: None, verbose: 0, color: Color::Never };
        let text = "`heaptrial trial resume a` goes on, `heaptrial rollout status`; see `a`";
        assert_eq!(global(false).told(text), text);
        assert_eq!(
            global(true).told(text),
            "`heaptrial --user trial resume a` goes on, `heaptrial rollout status`; see `a`"
        );
    }
}
