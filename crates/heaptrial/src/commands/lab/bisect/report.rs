//! The plan of a search, and its report.

use heaptrial_model::HumanDuration;
use heaptrial_report::{
    BISECT_SCHEMA_VERSION, BisectReport, ChangeReport, CommitReport, MeasuredPosition, SearchRun,
    SkippedPosition, units,
};
use heaptrial_search::bisect::Rules;
use serde_json::json;

use super::Bisect;
use super::subject::Subject;
use crate::answer::Answer;
use crate::commands::lab::search::{Record, Step};
use crate::exit::Failure;

/// Commits of a range whose files are looked up.
const DETAILED: usize = 3;

/// Blocks that a search usually takes: by simulation, with noise as in the lab.
fn usual_blocks(positions: usize) -> usize {
    let halvings = (positions.max(2) as f64).log2();
    (5.0 + halvings).round() as usize
}

/// What will be done; `block` is how long a block lasts, without what comes before and after its services.
pub(super) fn plan_line(subject: &Subject, rules: Rules, block: Option<HumanDuration>) -> String {
    let what = if subject.repository.is_some() { "commits" } else { "releases" };
    let left_out = match subject.history.left_out {
        0 => String::new(),
        count => format!(" ({count} more change nothing that is compiled)"),
    };
    let releases = match subject.repository {
        Some(_) => format!(", {} of them releases, which are asked first", subject.releases().len()),
        None => String::new(),
    };
    let usual = usual_blocks(subject.history.positions.len()).min(rules.most_blocks);
    let length = block.map_or(String::new(), |block| {
        format!("; a block is {block}, so {} to {}", lasting(block, usual), lasting(block, rules.most_blocks))
    });
    format!(
        "{} to {}: {} {what}{left_out}{releases}; usually {usual} blocks of two runs, at most {}{length}",
        subject.history.positions[0].name,
        subject.history.positions[subject.last()].name,
        subject.history.positions.len(),
        rules.most_blocks
    )
}

fn lasting(block: HumanDuration, blocks: usize) -> String {
    units::duration(block.0.as_secs_f64() * blocks as f64)
}

/// The plan as the answer of a dry run.
pub(super) fn plan(subject: &Subject, rules: Rules, block: Option<HumanDuration>) -> Answer {
    let positions: Vec<&str> =
        subject.history.positions.iter().map(|position| position.name.as_str()).collect();
    let document = json!({
        "older_is_good": subject.history.older_is_good,
        "positions": positions,
        "left_out": subject.history.left_out,
        "forks": subject.history.forks,
        "usual_blocks": usual_blocks(subject.history.positions.len()).min(rules.most_blocks),
        "most_blocks": rules.most_blocks,
        "block_seconds": block.map(|block| block.0.as_secs_f64()),
    });
    let mut text = plan_line(subject, rules, block) + "\n";
    for at in subject.releases() {
        text.push_str(&format!("  {at:>5}  {}\n", subject.history.positions[at].name));
    }
    Answer::new(document, text)
}

/// The report of what there is.
pub(super) fn of(bisect: &Bisect<'_>, record: &Record, run: SearchRun) -> Result<BisectReport, Failure> {
    let Bisect { subject, search, confidence, .. } = bisect;
    let history = &subject.history;
    let answer = search.answer();
    let name = |at: usize| history.positions[at].name.clone();
    let skipped: Vec<SkippedPosition> = record
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Excluded { at, name, why } => {
                Some(SkippedPosition { position: *at, name: name.clone(), why: why.clone() })
            }
            _ => None,
        })
        .collect();
    let changes = answer.changes.iter().map(|change| -> Result<ChangeReport, Failure> {
        let range = change.after + 1..=change.to;
        let detailed = range.clone().count() <= DETAILED;
        let mut commits = Vec::new();
        for at in range {
            // Where the line forks off is older than the older end: a commit there is no change from that.
            if subject.history.forks && at == 1 {
                continue;
            }
            let Some(commit) = &subject.history.positions[at].commit else { continue };
            let files = match &subject.repository {
                Some(repository) if detailed => repository.changes(&commit.id)?,
                _ => Vec::new(),
            };
            let why =
                skipped.iter().find(|skipped| skipped.position == at).map(|skipped| skipped.why.clone());
            commits.push(CommitReport {
                id: commit.id.clone(),
                day: commit.day.clone(),
                subject: commit.subject.clone(),
                tags: commit.tags.clone(),
                files,
                skipped: why,
            });
        }
        Ok(ChangeReport { after: name(change.after), to: name(change.to), commits })
    });
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let posterior = search.posterior();
    let levels = posterior.iter().flat_map(|posterior| &posterior.levels);
    let measured =
        levels.filter(|level| level.position == 0 || level.measured > 0).map(|level| MeasuredPosition {
            position: level.position,
            name: name(level.position),
            blocks: level.measured,
            // What the others are measured against.
            log_ratio: if level.position == 0 { 0.0 } else { level.mean },
            sd: if level.position == 0 { 0.0 } else { level.sd() },
        });
    let same = record.steps.iter().filter_map(|step| match step {
        Step::Same { at, with } => Some((name(*at), name(*with))),
        _ => None,
    });
    let settings = subject.bad.settings.iter().map(|setting| format!("{}={}", setting.name, setting.value));
    Ok(BisectReport {
        schema_version: BISECT_SCHEMA_VERSION,
        family: subject.bad.family.clone(),
        older: name(0),
        newer: name(subject.last()),
        older_is_good: subject.history.older_is_good,
        settings: settings.collect(),
        positions: subject.history.positions.len(),
        left_out: subject.history.left_out,
        forks_at: subject.history.forks.then(|| name(1)),
        of_commits: subject.repository.is_some(),
        confidence: *confidence,
        answer,
        changes,
        measured: measured.collect(),
        skipped,
        same: same.collect(),
        noise: posterior.as_ref().map_or(0.0, |posterior| posterior.noise),
        run,
    })
}
