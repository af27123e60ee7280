use std::io;

use heaptrial_evaluate::judgement::JudgementError;
use heaptrial_model::{Classified, ErrorClass};
use heaptrial_report::ReportError;
use heaptrial_store::StoreError;

/// Why the dashboard cannot be served, or a page not be made.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Judgement(#[from] JudgementError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(
        "{listen} can be reached from other machines, and the dashboard asks for no password; listen on 127.0.0.1 \
         or unix:PATH, or add --listen-anywhere if that is meant"
    )]
    NotLocal { listen: String },
    #[error("cannot listen on {listen}: {source}")]
    Listen { listen: String, source: io::Error },
    #[error("{doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl Classified for DashboardError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Judgement(error) => error.class(),
            Self::Report(error) => error.class(),
            Self::NotLocal { .. } => ErrorClass::Usage,
            Self::Listen { .. } => ErrorClass::Refused,
            Self::System { .. } => ErrorClass::Failed,
        }
    }
}
