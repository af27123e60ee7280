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
}

impl Answer {
    /// What is printed with `--json`, and what is printed without.
    pub fn new(document: impl Serialize, text: impl Into<String>) -> Self {
        let mut document = json!(document);
        if let Some(members) = document.as_object_mut() {
            members.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
        }
        Self { document: format!("{document:#}\n"), text: text.into(), code: ExitCode::SUCCESS }
    }

    /// A result with one form only, such as a script or a unit file.
    pub fn verbatim(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { document: text.clone(), text, code: ExitCode::SUCCESS }
    }

    /// Of a command that printed its result itself.
    pub fn printed(code: ExitCode) -> Self {
        Self { document: String::new(), text: String::new(), code }
    }

    /// A document of the report crate, which has a form of its own; `further` follows it on a terminal.
    pub fn of_report(report: &impl Document, further: &str, global: &GlobalOptions) -> Result<Self, Failure> {
        let text = report.terminal(global.colored_stdout()) + further;
        Ok(Self { document: report.json()?, text, code: ExitCode::SUCCESS })
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

    pub fn print(&self, global: &GlobalOptions) -> Result<ExitCode, Failure> {
        print(if global.json { &self.document } else { &self.text })?;
        Ok(self.code)
    }
}
