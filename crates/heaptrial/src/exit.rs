//! How a command ends: its exit code, and what is printed of an error.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use heaptrial_model::{Classified, ErrorClass};
use serde_json::json;

use crate::hint;
use crate::options::GlobalOptions;

/// The exit code of a class: the only place that has these numbers. What is simply done ends with 0.
pub fn code(class: ErrorClass) -> ExitCode {
    ExitCode::from(match class {
        ErrorClass::Failed => 1,
        ErrorClass::Usage => 2,
        ErrorClass::Refused => 3,
        ErrorClass::Inconclusive => 4,
        ErrorClass::Alerts => 5,
        ErrorClass::Paused => 6,
    })
}

/// An error that ends a command.
#[derive(Debug)]
pub struct Failure {
    pub class: ErrorClass,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// An error that knows its own class becomes a failure by `?`.
    pub fn of(class: ErrorClass, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let mut causes = texts(error.as_ref());
        let message = if causes.is_empty() { String::new() } else { causes.remove(0) };
        Self { class, message, causes, hints: hint::of(error.as_ref()).into_iter().collect() }
    }

    /// Something went wrong while doing it.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorClass::Failed, error)
    }

    /// What was asked for makes no sense.
    pub fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorClass::Usage, error)
    }

    /// It cannot be done here, and nothing was changed.
    pub fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorClass::Refused, error)
    }

    /// A file could not be read or written.
    pub fn file<E: fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self {
        move |error| Self::failed(format!("{}: {error}", path.display()))
    }

    /// Says what it is about, such as `arm x`.
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Says what to do next, after what the error itself asks for.
    pub fn hint(mut self, what: impl fmt::Display) -> Self {
        self.hints.push(what.to_string());
        self
    }

    /// Prints it on standard error, and gives the exit code.
    pub fn print(&self, global: &GlobalOptions) -> ExitCode {
        if global.json {
            eprintln!("{}", self.json());
        } else {
            eprint!("{}", self.text(global.colored_stderr()));
        }
        code(self.class)
    }

    fn hints(&self) -> Option<String> {
        (!self.hints.is_empty()).then(|| self.hints.join("; "))
    }

    /// One line, which a program finds behind what was printed before it.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "schema_version": 1,
            "class": self.class,
            "message": self.message,
            "causes": self.causes,
            "hint": self.hints(),
        })
    }

    fn text(&self, colored: bool) -> String {
        let (red, plain) = if colored { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let causes: String = self.causes.iter().map(|cause| format!("  caused by: {cause}\n")).collect();
        let hint = self.hints().map_or(String::new(), |hint| format!("  hint: {hint}\n"));
        format!("{red}error:{plain} {}\n{causes}{hint}", self.message)
    }
}

/// What went wrong, and its causes. Many an error's text ends with that of its cause, for those who write it into a log as
/// one line; here each is a text of its own.
fn texts(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        match texts.last_mut() {
            Some(outer) if outer.ends_with(&text) => {
                outer.truncate(outer.len() - text.len());
                outer.truncate(outer.trim_end_matches([' ', ':']).len());
                texts.push(text);
            }
            Some(outer) if outer.contains(&text) => {}
            _ => texts.push(text),
        }
        cause = error.source();
    }
    texts.retain(|text| !text.is_empty());
    texts
}

/// The message and its causes in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl<E: Classified + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(error.class(), error)
    }
}

/// Rust ignores SIGPIPE, so that printing to a closed pipe panics. A panic about that ends the process
/// as quietly as the signal would; any other panic is reported as usual.
pub fn end_quietly_on_closed_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.contains("failed printing to stdout") && message.contains("Broken pipe") {
            std::process::exit(0);
        }
        usual(panic);
    }));
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Shown {
        #[error("/x: {0}")]
        AtTheEnd(#[source] io::Error),
        #[error("cannot go on: {0}; try again")]
        Within(#[source] io::Error),
        #[error("the run ended")]
        Not(#[source] Box<Shown>),
    }

    #[test]
    fn every_cause_has_a_line_of_its_own() {
        let gone = || io::Error::other("the disk is gone");
        let chain = Failure::failed(Shown::Not(Box::new(Shown::AtTheEnd(gone()))));
        let text = "error: arm `a`: the run ended\n  caused by: /x\n  caused by: the disk is gone\n";
        assert_eq!(chain.about("arm `a`").text(false), text);
        let within = Failure::failed(Shown::Within(gone()));
        assert_eq!(within.text(false), "error: cannot go on: the disk is gone; try again\n");
        assert_eq!(Failure::failed(Shown::AtTheEnd(gone())).to_string(), "/x: the disk is gone");
        let hinted = Failure::usage("no").hint("`x` does");
        assert_eq!(hinted.text(true), "\x1b[1;31merror:\x1b[0m no\n  hint: `x` does\n");
    }

    #[test]
    fn every_class_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<String> =
            ErrorClass::ALL.iter().map(|class| format!("{:?}", code(*class))).collect();
        assert_eq!(codes.len(), ErrorClass::ALL.len());
        assert!(!codes.contains(&format!("{:?}", ExitCode::SUCCESS)));
    }
}
