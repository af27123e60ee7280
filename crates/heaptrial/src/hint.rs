//! What to do next after an error: the commands that a library cannot name.

use std::error::Error;

use heaptrial_agent::AgentError;
use heaptrial_allocator::package::PackageError;
use heaptrial_change::{ChangeError, TrialStage};
use heaptrial_evaluate::judgement::JudgementError;
use heaptrial_fleet::rollout::RolloutPlanError;
use heaptrial_fleet::watch::WatchError;
use heaptrial_lab::LabError;
use heaptrial_plan::PlanError;
use heaptrial_report::ReportError;
use heaptrial_store::StoreError;

/// The hint for the outermost error of a chain that has one.
pub fn of(error: &(dyn Error + 'static)) -> Option<String> {
    let error = within(error).unwrap_or(error);
    of_one(error).or_else(|| of(error.source()?))
}

/// What an error is that shows as the one within it, and has no other cause.
fn within<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    if let Some(LabError::Store(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(AgentError::Store(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref() {
        Some(WatchError::Store(error)) => return Some(error),
        Some(WatchError::Report(error)) => return within(error).or(Some(error)),
        _ => {}
    }
    if let Some(JudgementError::Store(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref() {
        Some(ReportError::Store(error)) => Some(error),
        Some(ReportError::Judgement(error)) => within(error).or(Some(error)),
        _ => None,
    }
}

fn of_one(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return of_store(error);
    }
    if let Some(error) = error.downcast_ref::<ChangeError>() {
        return of_change(error);
    }
    if let Some(error) = error.downcast_ref::<WatchError>() {
        return of_watch(error);
    }
    let accept = "--accept-gap takes the look on the data that there are, and says so in it";
    match error.downcast_ref() {
        Some(JudgementError::LookGap { .. }) => {
            return Some(format!("is heaptrial-agent.service active, and has the disk space? {accept}"));
        }
        Some(JudgementError::LookAfterEnd { .. }) => return Some(accept.to_owned()),
        _ => {}
    }
    if let Some(PackageError::NoLibrary { .. }) = error.downcast_ref::<PackageError>() {
        return Some("`heaptrial lab run` compares C libraries".to_owned());
    }
    if let Some(PlanError::TooFewServices { .. }) = error.downcast_ref::<PlanError>() {
        return Some("`heaptrial trial power` tells how many services find what".to_owned());
    }
    if let Some(RolloutPlanError::Trial(name)) = error.downcast_ref::<RolloutPlanError>() {
        return Some(format!("`heaptrial trial status {name}` tells how the trial goes"));
    }
    None
}

fn of_store(error: &StoreError) -> Option<String> {
    match error {
        StoreError::DiskFull { .. } => {
            Some("free some space; `heaptrial report` shows what there is".to_owned())
        }
        _ => None,
    }
}

/// The commands that go on from where a transaction stands.
fn of_change(error: &ChangeError) -> Option<String> {
    let back = |kind: &str, name: &str| match kind {
        "rollout" => format!("`heaptrial rollout rollback {name}`"),
        _ => format!("`heaptrial trial stop {name} --revert`"),
    };
    match error {
        ChangeError::File(error) if error.source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("what is on this host is for root to read: use sudo".to_owned())
        }
        ChangeError::Claimed { taken } => {
            let (_, first) = taken.first()?;
            let end = match first.kind.as_str() {
                "watch" => format!("`heaptrial watch stop {}` ends that", first.name),
                "rollout" => format!("`heaptrial rollout status {}` tells how that stands", first.name),
                _ => format!("`heaptrial trial stop {}` ends that", first.name),
            };
            Some(format!("{end}; or leave them out"))
        }
        ChangeError::JournalLost(_) | ChangeError::Strays(_) => {
            Some("docs/rollback-by-hand.md has the commands that find and remove such files".to_owned())
        }
        ChangeError::Stage { kind, name, stage: TrialStage::Reverting, .. } => {
            Some(format!("{} goes on with that", back(kind, name)))
        }
        ChangeError::Stage { kind, .. } => Some(format!("a new {kind} takes another name")),
        ChangeError::InFlight { kind, name, .. } => {
            Some(format!("`heaptrial {kind} resume {name}` or {} first", back(kind, name)))
        }
        ChangeError::Taken { by, .. } => {
            Some(format!("`heaptrial trial stop {by}`, or `heaptrial rollout rollback {by}`"))
        }
        _ => None,
    }
}

fn of_watch(error: &WatchError) -> Option<String> {
    match error {
        WatchError::Exists { name } => Some(format!(
            "`heaptrial watch status {name}` tells how it goes, `heaptrial watch stop {name}` ends it"
        )),
        WatchError::Damaged { name, .. } => {
            Some(format!("`heaptrial watch stop {name}` ends the watch; then start it anew"))
        }
        _ => None,
    }
}
