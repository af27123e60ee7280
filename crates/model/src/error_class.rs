//! What an error means to whoever asked.

use crate::InvalidText;
use crate::word::words;

words! {
    /// How something ended that is not simply done. What a class means is the same for every command, and the program
    /// that runs them has one exit code for each.
    pub enum ErrorClass: "class of an error" {
        /// Something went wrong while doing it.
        Failed = "failed",
        /// What was asked for makes no sense.
        Usage = "usage",
        /// It cannot be done here, and nothing was changed.
        Refused = "refused",
        /// A verdict was asked for, and the data do not decide it.
        Inconclusive = "inconclusive",
        /// Alerts of a watch stand.
        Alerts = "alerts",
        /// It was paused on request, and goes on when it is resumed.
        Paused = "paused",
    }
}

/// An error that knows its class.
pub trait Classified: std::error::Error {
    /// What kind of error it is, which decides the exit code.
    fn class(&self) -> ErrorClass;
}

/// Whoever gave the text meant something else.
impl Classified for InvalidText {
    fn class(&self) -> ErrorClass {
        ErrorClass::Usage
    }
}
