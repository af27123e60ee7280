//! `events.csv`: what the operators did, when, and to which group.

use csv::ByteRecord;
use heaptrial_model::EventKind;

use super::table::Table;
use super::time::Timezone;
use super::{Content, Rows, Times};
use crate::ImportError;
use crate::problem::Problems;

/// Longer texts are cut: they end up in a report.
const LONGEST_TEXT: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorEvent {
    pub wall_us: i64,
    pub kind: EventKind,
    pub text: String,
    /// The group as written; `all` and nothing mean everything.
    pub group: String,
}

/// Reads `events.csv`: the events in order of time.
pub fn read_events(
    content: Content<'_>,
    timezone: &Timezone,
    problems: &mut Problems,
) -> Result<(Vec<OperatorEvent>, Rows, Times), ImportError> {
    let mut table = Table::open(content, "`timestamp,event_type,description,group`", timezone, problems)?;
    table.has_texts = true;
    let time = table.time_columns(None)?;
    let kind = table.require("kinds of events", &["event_type", "event", "kind"], "")?;
    let description = table.column(&["description", "text", "notes"]);
    let group = table.column(&["group"]);
    let mut events = Vec::new();
    let mut record = ByteRecord::new();
    while table.next(&mut record)? {
        let Some(wall_us) = table.time(&record, time)? else { continue };
        let text = |column: usize| {
            let text = String::from_utf8_lossy(record[column].trim_ascii());
            text.chars().filter(|c| !c.is_control()).take(LONGEST_TEXT).collect::<String>()
        };
        if !is_kind(&record[kind]) {
            let what = "expected a kind of event such as `restart`: letters, digits, `_` and `-`";
            table.skip(&record, kind, what)?;
            continue;
        }
        events.push(OperatorEvent {
            wall_us,
            kind: EventKind::from(text(kind).as_str()),
            text: description.map(text).unwrap_or_default(),
            group: group.map(text).unwrap_or_default(),
        });
    }
    events.sort_by_key(|event| event.wall_us);
    let (rows, times) = table.finish();
    Ok((events, rows, times))
}

fn is_kind(field: &[u8]) -> bool {
    let field = field.trim_ascii();
    (1..=60).contains(&field.len())
        && field.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
}

impl OperatorEvent {
    /// Whether it is about everything.
    pub fn is_about_all(&self) -> bool {
        self.group.is_empty() || self.group == "all"
    }

    /// Whether it is about this arm: its group is `all`, the arm's name, or the start of it before a `_` or `-`.
    ///
    /// Letters are not folded: operators use `group_c` and `group_C` for different things.
    pub fn is_about(&self, arm: &str) -> bool {
        let rest = arm.strip_prefix(self.group.as_str());
        self.is_about_all() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_matched_to_arms() {
        let zone: Timezone = "-08:00".parse().unwrap();
        let mut problems = Problems::new(false);
        let text = "timestamp,event_type,description,group\n2026-01-05T10:58:00,restart,all of them,all\n\
                    2026-01-05T10:47:43-08:00,migration,60 relays 3.0.1 → 2.0.9,group_B\n\
                    soon,restart,x,all\n2026-01-05T10:58:00,re start,x,all\n";
        let content = Content { file: "e.csv", bytes: text.as_bytes() };
        let (events, rows, times) = read_events(content, &zone, &mut problems).unwrap();
        assert_eq!((events.len(), rows), (2, Rows { read: 4, skipped: 2 }));
        assert_eq!((events[0].kind.as_str(), times.local), ("migration", 2));
        assert_eq!(times.offsets.iter().collect::<Vec<_>>(), [&-28_800]);
        assert!(events[1].is_about("group_A_x"));
        for (arm, about) in [
            ("group_B", true),
            ("group_B_mimalloc209", true),
            ("group_B-x", true),
            ("group_BB", false),
            ("group_b", false),
        ] {
            assert_eq!(events[0].is_about(arm), about, "{arm}");
        }
    }
}
