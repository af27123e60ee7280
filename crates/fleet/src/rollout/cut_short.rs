//! What the journal has last of the process that worked on a rollout.

use heaptrial_change::journal::{Action, Event, Record};

/// The last record of the last process that worked on a rollout, in words; `None` where none did. The recovery timer is not
/// one.
pub fn cut_short(records: &[Record]) -> Option<String> {
    let works =
        |record: &Record| matches!(&record.event, Event::Opened { action, .. } if *action != Action::Recover);
    let (first, later) = records[records.iter().rposition(works)?..].split_first()?;
    let opens = |record: &Record| matches!(record.event, Event::Opened { .. });
    let end = later.iter().position(opens).unwrap_or(later.len());
    let last = later[..end].last().unwrap_or(first);
    let time = jiff::Timestamp::from_microsecond(last.wall_us).unwrap_or_default();
    Some(format!("last record, {}: {}", time.strftime("%Y-%m-%d %H:%M:%S UTC"), words(&last.event)))
}

fn words(event: &Event) -> String {
    if let Event::Interrupted { why } = event {
        return why.clone();
    }
    let value = serde_json::to_value(event).unwrap_or_default();
    let what = match event {
        Event::Note { note } => &note["kind"],
        _ => &value["what"],
    };
    let what = what.as_str().unwrap_or_default().replace('_', " ");
    event.service().map_or(what.clone(), |service| format!("{service} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::step::RolloutStep;

    fn shown(events: &[Event]) -> Option<String> {
        let record =
            |(at, event): (usize, &Event)| Record { wall_us: at as i64 * 1_000_000, event: event.clone() };
        cut_short(&events.iter().enumerate().map(record).collect::<Vec<_>>())
    }

    fn opened(action: Action) -> Event {
        Event::Opened { action, tool_version: "0".into(), pid: 1 }
    }

    #[test]
    fn the_last_record_of_the_process_that_worked_last_is_reported() {
        let service: heaptrial_model::ServiceName = "b.service".parse().unwrap();
        let mut events = vec![opened(Action::Start)];
        assert_eq!(shown(&[]), None);
        assert_eq!(shown(&events).unwrap(), "last record, 1970-01-01 00:00:00 UTC: opened");
        let begun = serde_json::to_value(RolloutStep::WaveBegun { wave: 1 }).unwrap();
        events.push(Event::Note { note: begun });
        assert_eq!(shown(&events).unwrap(), "last record, 1970-01-01 00:00:01 UTC: wave begun");
        events.push(Event::Reverting { service: service.clone(), why: None });
        let last = "last record, 1970-01-01 00:00:02 UTC: b.service reverting";
        assert_eq!(shown(&events).unwrap(), last);
        // The recovery timer is another process.
        events.extend([opened(Action::Recover), Event::Reverted { service }]);
        assert_eq!(shown(&events).unwrap(), last);
        events.extend([opened(Action::Resume), Event::Interrupted { why: "no bus".into() }]);
        assert_eq!(shown(&events).unwrap(), "last record, 1970-01-01 00:00:06 UTC: no bus");
    }
}
