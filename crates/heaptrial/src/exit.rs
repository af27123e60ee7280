//! How a command ends.

use std::fmt;

use miette::Report;

/// Something went wrong while doing it.
pub const GENERAL_FAILURE: u8 = 1;
/// What was asked for makes no sense.
pub const USAGE: u8 = 2;
/// It cannot be done here, and nothing was changed.
pub const REFUSED: u8 = 3;
/// A verdict was asked for, and the data do not tell.
pub const INCONCLUSIVE: u8 = 4;
/// A watch has alerts that stand.
pub const ALERTS: u8 = 5;

/// An error with the exit code that it means.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// What to tell.
    pub report: Report,
}

impl Failure {
    /// Something went wrong while doing it.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self { code: GENERAL_FAILURE, report: miette::miette!("{error}") }
    }

    /// What was asked for makes no sense.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self { code: USAGE, report: miette::miette!("{error}") }
    }

    /// It cannot be done here, and nothing was changed.
    pub fn refused(error: impl fmt::Display) -> Self {
        Self { code: REFUSED, report: miette::miette!("{error}") }
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self { code: GENERAL_FAILURE, report }
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
