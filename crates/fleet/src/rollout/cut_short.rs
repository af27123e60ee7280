//! What the journal has last of the process that worked on a rollout.

use heaptrial_change::journal::{Action, Event, Record};

/// The last record of the last process that worked on a rollout, in words; `None` where none did. The recovery timer is not
/// one.
pub fn cut_short(records: &[Record]) -> Option<String> {
    let works = |record: &Record| match &record.event {
        Event::Opened { action, .. } => Some(*action != Action::Recover),
        _ => None,
    };
    let (first, later) =
        records[records.iter().rposition(|own| works(own) == Some(true))?..].split_first()?;
    let last = later.iter().take_while(|record| works(record).is_none()).last().unwrap_or(first);
    let time = jiff::Timestamp::from_microsecond(last.wall_us).unwrap_or_default();
    let event = serde_json::to_value(&last.event).unwrap_or_default();
    let words = [&event["why"], &event["note"]["kind"], &event["stage"], &event["what"]];
    let what = words.into_iter().find_map(|what| what.as_str()).unwrap_or_default().replace('_', " ");
    let service = event["service"].as_str().map_or(String::new(), |service| format!("{service} "));
    Some(format!("last record, {}: {service}{what}", time.strftime("%Y-%m-%d %H:%M:%S UTC")))
}

#[cfg(test)]
mod tests {
    use heaptrial_change::Stage::{Reverted, Reverting};

    use super::*;

    #[test]
    fn the_last_record_of_the_process_that_worked_last_is_reported() {
        let opened = |action| Event::Opened { action, tool_version: "0".into(), pid: 1 };
        let service: heaptrial_model::ServiceName = "b.service".parse().unwrap();
        let revert = |stage| Event::Revert { service: service.clone(), stage, why: None };
        let events = [opened(Action::Start), revert(Reverting), opened(Action::Recover), revert(Reverted)];
        let record = |event: &Event| Record { wall_us: 2_000_000, event: event.clone() };
        let records: Vec<Record> = events.iter().map(record).collect();
        assert_eq!(cut_short(&records).unwrap(), "last record, 1970-01-01 00:00:02 UTC: b.service reverting");
        assert_eq!(cut_short(&records[2..]), None);
    }
}
