//! How a command ends: its exit code, and what is told of an error.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use heaptrial_model::{Classified, ErrorClass};
use serde_json::json;

use crate::hint;

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
    /// What it is about, such as `arm x`; told before the error itself.
    about: Vec<String>,
    /// What to do next, where whoever tried it knows.
    hint: Option<String>,
    error: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Of a class that the circumstances tell; an error that knows its own becomes a failure by `?`.
    pub fn of(class: ErrorClass, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class, about: Vec::new(), hint: None, error: error.into() }
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

    /// Says what it is about.
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.about.insert(0, what.to_string());
        self
    }

    /// Says what to do next, in place of what was said from within.
    pub fn hint(mut self, what: impl fmt::Display) -> Self {
        self.hint = Some(what.to_string());
        self
    }

    /// What the error itself asks for, then what its command does.
    fn hints(&self) -> Option<String> {
        let hints: Vec<String> = hint::of(self.error.as_ref()).into_iter().chain(self.hint.clone()).collect();
        (!hints.is_empty()).then(|| hints.join("; "))
    }

    /// What went wrong, and its causes, outermost first. Many an error's text ends with that of its cause, for those who
    /// write it into a log as one line; here nothing is told twice.
    fn texts(&self) -> Vec<String> {
        let mut texts = vec![self.error.to_string()];
        let mut cause = self.error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            match texts.last_mut() {
                Some(outer) if outer.ends_with(&text) => {
                    outer.truncate(outer.len() - text.len());
                    outer.truncate(outer.trim_end_matches([' ', ':']).len());
                    if outer.is_empty() {
                        texts.pop();
                    }
                    texts.push(text);
                }
                Some(outer) if outer.contains(&text) => {}
                _ => texts.push(text),
            }
            cause = error.source();
        }
        if let Some(first) = texts.first_mut() {
            *first =
                self.about.iter().rev().fold(std::mem::take(first), |text, what| format!("{what}: {text}"));
        }
        texts
    }

    /// Tells it on standard error, with commands as `told` gives them, and gives the exit code.
    pub fn tell(&self, as_json: bool, colored: bool, told: &dyn Fn(&str) -> String) -> ExitCode {
        if as_json {
            eprintln!("{}", told(&self.json().to_string()));
        } else {
            eprint!("{}", told(&self.text(colored)));
        }
        code(self.class)
    }

    /// One line, so that it can be told from what was said before it.
    fn json(&self) -> serde_json::Value {
        let mut texts = self.texts().into_iter();
        json!({
            "schema_version": 1,
            "class": self.class,
            "message": texts.next().unwrap_or_default(),
            "causes": texts.collect::<Vec<_>>(),
            "hint": self.hints(),
        })
    }

    fn text(&self, colored: bool) -> String {
        let (red, plain) = if colored { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let mut texts = self.texts().into_iter();
        let mut told = format!("{red}error:{plain} {}\n", texts.next().unwrap_or_default());
        texts.for_each(|cause| told.push_str(&format!("  caused by: {cause}\n")));
        if let Some(hint) = self.hints() {
            told.push_str(&format!("  hint: {hint}\n"));
        }
        told
    }
}

/// The message and its causes in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().join(": "))
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
    use std::path::PathBuf;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Told {
        #[error("{}: {source}", path.display())]
        AtTheEnd { path: PathBuf, source: io::Error },
        #[error("cannot go on: {source}; try again")]
        Within { source: io::Error },
        #[error("the run ended")]
        Not { source: Box<Told> },
        #[error(transparent)]
        Same(Box<Told>),
    }

    fn at_the_end() -> Told {
        Told::AtTheEnd { path: "/x".into(), source: io::Error::other("the disk is gone") }
    }

    #[test]
    fn every_cause_has_a_line_and_nothing_is_told_twice() {
        let chain = Failure::failed(Told::Not { source: Box::new(Told::Same(Box::new(at_the_end()))) });
        let text = "error: arm `a`: the run ended\n  caused by: /x\n  caused by: the disk is gone\n";
        assert_eq!(chain.about("arm `a`").text(false), text);
        let within = Failure::failed(Told::Within { source: io::Error::other("the disk is gone") });
        assert_eq!(within.text(false), "error: cannot go on: the disk is gone; try again\n");
        assert_eq!(Failure::failed(at_the_end()).to_string(), "/x: the disk is gone");
        assert_eq!(Failure::usage("no").text(true), "\x1b[1;31merror:\x1b[0m no\n");
    }

    #[test]
    fn json_has_the_same() {
        let found = Failure::refused(at_the_end()).about("arm `a`").json();
        let expected = json!({
            "schema_version": 1, "class": "refused", "message": "arm `a`: /x", "causes": ["the disk is gone"], "hint": null,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn whoever_goes_on_knows_what_is_next() {
        let failure = Failure::failed("no results").hint("`attach` goes on").hint("`--continue` goes on");
        assert_eq!(failure.text(false), "error: no results\n  hint: `--continue` goes on\n");
        assert_eq!(failure.json()["hint"], "`--continue` goes on");
    }

    #[test]
    fn every_class_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<String> =
            ErrorClass::ALL.iter().map(|class| format!("{:?}", code(*class))).collect();
        assert_eq!(codes.len(), ErrorClass::ALL.len());
        assert!(!codes.contains(&format!("{:?}", ExitCode::SUCCESS)));
    }
}
