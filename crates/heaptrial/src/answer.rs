//! What a command found or did, for people and for programs.

use std::process::ExitCode;

use heaptrial_model::ErrorClass;
use heaptrial_report::Document;
use serde::Serialize;
use serde_json::json;

use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::output::print;

/// Version of the form of what commands print with `--json`.
const SCHEMA_VERSION: u32 = 1;

/// The result of a command, which `main` prints in one of its two forms.
#[derive(Debug)]
pub struct Answer {
    document: String,
    text: String,
    code: ExitCode,
    /// What went wrong all the same.
    failure: Option<Failure>,
}

impl Answer {
    /// What is printed with `--json`, and what is printed without.
    pub fn new(document: impl Serialize, text: impl Into<String>) -> Self {
        let mut document = json!(document);
        if let Some(members) = document.as_object_mut() {
            members.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
        }
        Self::of(format!("{document:#}\n"), text.into())
    }

    /// A result with one form only, such as a script or a unit file.
    pub fn verbatim(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::of(text.clone(), text)
    }

    fn of(document: String, text: String) -> Self {
        Self { document, text, code: ExitCode::SUCCESS, failure: None }
    }

    /// A document of the report crate, which has a form of its own; `further` follows it on a terminal.
    pub fn of_report(report: &impl Document, further: &str, global: &GlobalOptions) -> Result<Self, Failure> {
        let text = report.terminal(global.screen()) + further;
        Ok(Self::of(report.json()?, text))
    }

    /// The same behind another text, where it is printed for people.
    pub fn after(self, text: &str) -> Self {
        Self { text: format!("{text}{}", self.text), ..self }
    }

    /// The same with another exit code than that of success.
    pub fn ending(self, class: ErrorClass) -> Self {
        Self { code: code(class), ..self }
    }

    /// The same as a failure, unless all is well.
    pub fn unless(self, well: bool) -> Self {
        if well { self } else { self.ending(ErrorClass::Failed) }
    }

    /// The same, and then this failure ends the command.
    pub fn but(self, failure: Failure) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// What is printed for people.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn print(self, global: &GlobalOptions) -> Result<ExitCode, Failure> {
        print(if global.json { &self.document } else { &self.text })?;
        self.failure.map_or(Ok(self.code), Err)
    }
}
