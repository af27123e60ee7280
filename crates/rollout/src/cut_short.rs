//! Why a rollout goes on no more, by what the journal knows of the process that worked on it last.

use heaptrial_change::journal::{Action, Event, Record};
use heaptrial_model::{ServiceName, units};
use serde::Deserialize;

use crate::step::RolloutStep;

/// What is told of the end of the last process that worked on a rollout; `None` where none did. `boot_id` is that of the
/// host now.
pub fn cut_short(records: &[Record], waves: &[Vec<ServiceName>], boot_id: Option<&str>) -> Option<String> {
    let opened = |event: &Event| match event {
        Event::Opened { action, pid, .. } => Some((*action, *pid)),
        _ => None,
    };
    let works = |record: &Record| opened(&record.event).is_some_and(|(action, _)| action != Action::Recover);
    let begin = records.iter().rposition(works)?;
    let (action, pid) = opened(&records[begin].event)?;
    let later = &records[begin..];
    let end = later.iter().skip(1).position(|record| opened(&record.event).is_some());
    let (own, recovery) = later.split_at(end.map_or(later.len(), |end| end + 1));
    let last = own.last()?;
    let who = format!("process {pid}, which began its {action} at {}", time(records[begin].wall_us));
    let mut told = match said(&last.event) {
        Some(why) => {
            let before = own.len().checked_sub(2).and_then(|at| doing(&own[at].event, waves));
            let where_to = before.map_or(String::new(), |doing| format!("; until then {doing}"));
            format!("{who}, ended at {}: {why}{where_to}", time(last.wall_us))
        }
        None => {
            let how = match boot_of(own).zip(boot_id) {
                Some((then, now)) if then != now => "the host went down and was booted since",
                _ => "it was killed, or the host went down",
            };
            let doing = doing(&last.event, waves).unwrap_or_else(|| "nothing was changed yet".to_owned());
            format!(
                "{who}, ended without a word ({how}); its last record, at {}: {doing}",
                time(last.wall_us)
            )
        }
    };
    if !recovery.is_empty() {
        let back = recovery.iter().filter(|record| matches!(record.event, Event::Reverted { .. })).count();
        told += &format!(
            ". The recovery timer came at {} and put back {}",
            time(recovery[0].wall_us),
            units::counted(back, "service")
        );
    }
    Some(told)
}

/// Why a process ended, where it could still tell.
fn said(event: &Event) -> Option<String> {
    match event {
        Event::Interrupted { why } => Some(why.clone()),
        Event::Note { note } => match RolloutStep::deserialize(note) {
            Ok(RolloutStep::Interrupted) => Some("somebody ended it (Ctrl-C or SIGTERM)".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// The boot in which a process worked.
fn boot_of(records: &[Record]) -> Option<&str> {
    records.iter().rev().find_map(|record| match &record.event {
        Event::Healthy { life, .. }
        | Event::Committed { life, .. }
        | Event::Intent { life: Some(life), .. } => Some(life.boot_id.as_str()),
        _ => None,
    })
}

/// What was being done when a record was written.
fn doing(event: &Event, waves: &[Vec<ServiceName>]) -> Option<String> {
    if let Some(service) = event.service() {
        let wave = waves.iter().position(|wave| wave.contains(service));
        let wave = wave.map_or(String::new(), |wave| format!(" (wave {})", wave + 1));
        return Some(format!("{service}{wave} {}", of_service(event)));
    }
    match event {
        Event::Opened { .. } => None,
        Event::HostIntent { .. } => {
            Some("libraries, the program or the recovery timer were put in place".to_owned())
        }
        Event::Note { note } => RolloutStep::deserialize(note).ok().map(|step| of_step(&step)),
        Event::Started => Some("every service had its treatment".to_owned()),
        Event::HostReverted | Event::Ended { .. } => Some("it had ended".to_owned()),
        _ => None,
    }
}

fn of_service(event: &Event) -> String {
    match event {
        Event::Restarting { .. } | Event::Healthy { .. } => "was being restarted".to_owned(),
        Event::Committed { .. } => "had its treatment".to_owned(),
        Event::Failed { why, .. } => format!("had failed: {why}"),
        Event::Reverting { .. } | Event::Undone { .. } => "was being put back".to_owned(),
        Event::Reverted { .. } => "was put back".to_owned(),
        Event::RevertFailed { why, .. } => format!("could not be put back: {why}"),
        _ => "was being given its files".to_owned(),
    }
}

fn of_step(step: &RolloutStep) -> String {
    match step {
        RolloutStep::RollbackProved { service } => format!("{service} was put back, to prove that it can be"),
        RolloutStep::WaveBegun { wave } => format!("wave {} had begun", wave + 1),
        RolloutStep::WaveApplied { wave, .. } => format!("wave {} was being watched", wave + 1),
        RolloutStep::WavePassed { wave, .. } => format!("wave {} had passed", wave + 1),
        RolloutStep::Stopped { wave, .. } => format!("wave {} was stopped and being put back", wave + 1),
        RolloutStep::Paused => "it was paused".to_owned(),
        RolloutStep::WaveRolledBack { wave } => format!("wave {} was being rolled back", wave + 1),
        RolloutStep::Interrupted => "it was interrupted".to_owned(),
    }
}

fn time(wall_us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(wall_us);
    time.map_or_else(
        |_| "an unknown time".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use heaptrial_model::LifeKey;

    use super::*;
    use crate::step::Boot;

    fn records(events: Vec<Event>) -> Vec<Record> {
        let record = |(at, event): (usize, Event)| Record { wall_us: at as i64 * 1_000_000, event };
        events.into_iter().enumerate().map(record).collect()
    }

    fn opened(action: Action, pid: u32) -> Event {
        Event::Opened { schema_version: 1, action, tool_version: "0".into(), pid }
    }

    fn step(step: &RolloutStep) -> Event {
        Event::Note { note: serde_json::to_value(step).unwrap() }
    }

    fn told(events: Vec<Event>) -> String {
        let waves = [vec!["a.service".parse().unwrap()], vec!["b.service".parse().unwrap()]];
        cut_short(&records(events), &waves, Some("now")).unwrap_or_default()
    }

    #[test]
    fn which_process_ended_where_is_told() {
        let service: ServiceName = "b.service".parse().unwrap();
        let life = LifeKey { boot_id: "now".into(), pid: 7, start_ticks: 1 };
        let healthy = Event::Healthy { service: service.clone(), life: life.clone() };
        let begun =
            || vec![opened(Action::Start, 1), step(&RolloutStep::WavePassed { wave: 0, evidence: vec![] })];
        assert_eq!(told(vec![]), "");
        assert_eq!(
            told(vec![opened(Action::Start, 12)]),
            "process 12, which began its start at 1970-01-01 00:00:00 UTC, ended without a word (it was killed, or the host \
             went down); its last record, at 1970-01-01 00:00:00 UTC: nothing was changed yet"
        );
        let mut events = begun();
        events.extend([opened(Action::Resume, 13), healthy]);
        let text = told(events.clone());
        assert!(text.starts_with("process 13, which began its resumption"), "{text}");
        assert!(text.ends_with(": b.service (wave 2) was being restarted"), "{text}");
        // The recovery timer is another process.
        events.extend([
            opened(Action::Recover, 14),
            Event::Reverted { service: service.clone(), stopped: false },
        ]);
        events.push(Event::Interrupted { why: "the process that started the trial ended".into() });
        let text = told(events);
        assert!(
            text.contains("process 13") && text.contains("was being restarted. The recovery timer"),
            "{text}"
        );
        assert!(text.ends_with("put back 1 service"), "{text}");

        let mut events = begun();
        let other = LifeKey { boot_id: "before".into(), ..life };
        events.push(Event::Committed { service, life: other, identity: None });
        events.push(step(&RolloutStep::WaveApplied {
            wave: 1,
            boot: Boot { id: String::new(), boottime_us: 0 },
        }));
        let text = told(events.clone());
        assert!(text.contains("booted since") && text.ends_with("wave 2 was being watched"), "{text}");
        events.push(step(&RolloutStep::Interrupted));
        let text = told(events.clone());
        assert!(
            text.ends_with("somebody ended it (Ctrl-C or SIGTERM); until then wave 2 was being watched"),
            "{text}"
        );
        events.push(Event::Interrupted { why: "no bus".into() });
        assert!(told(events).contains(": no bus"));
    }
}
