//! `heaptrial rollout status`: where rollouts of this host are.

use heaptrial_change::{TrialStage, TrialState, journal};
use heaptrial_fleet::rollout::{Course, Progress, RolloutPlan, WaveStage, cut_short, paused, read_plan};
use heaptrial_model::{ServiceName, units};
use serde_json::{Value, json};

use super::start::ratio_lines;
use crate::answer::Answer;
use crate::commands::host::standing::{Problem, Standing, Status, standings};
use crate::commands::host::{Host, StatusOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;

pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::readable(global)?;
    if let Some(name) = &options.name {
        return Ok(status(&host, Standing::read(&host, name.as_str())?)?.answer());
    }
    let (found, damaged) = standings(&host, true)?;
    let all = found.into_iter().map(|standing| status(&host, standing)).collect::<Result<Vec<_>, _>>()?;
    let none = "no rollout on this host; `heaptrial rollout start TRIAL --arm ARM` begins one";
    Ok(Status::list("rollouts", &all, &damaged, none))
}

fn status(host: &Host<'_>, standing: Standing) -> Result<Status, Failure> {
    let Standing { prepared, state, at_work, mut problems } = standing;
    let name = &prepared.plan.name;
    let plan = read_plan(&prepared)?;
    let progress = Progress::of(&state, plan.waves.len())?;
    let course = course(&state, &progress, at_work, paused(&host.paths, name));
    let last = cut_short(&journal::read(&host.paths.trial(name))?).filter(|_| course == Course::CutShort);
    let next = match course {
        Course::CutShort if state.stage == TrialStage::Reverting => {
            format!("; `heaptrial rollout rollback {name}` continues")
        }
        Course::Stopped | Course::CutShort => format!(
            "; `heaptrial rollout resume {name}` continues, `heaptrial rollout rollback {name}` puts everything back"
        ),
        _ => String::new(),
    };
    let what = progress.reasons.iter().map(ToString::to_string).chain(last.clone());
    let what = what.collect::<Vec<_>>().join("; ") + &next;
    match course {
        Course::Stopped => problems.push(Problem::grave("stopped", None, what)),
        Course::CutShort => problems.push(Problem::grave("cut_short", None, what)),
        _ => {}
    }
    let measured = match &plan.trial {
        Some(trial) => format!("measured in trial {trial}"),
        None => "no trial measured it".to_owned(),
    };
    Ok(Status {
        headline: format!("rollout {name}: {}, {course}; {measured}", plan.arm),
        detail: detail(&plan, &progress, &state, &problems),
        document: json!({
            "rollout": name,
            "id": prepared.plan.id,
            "trial": plan.trial,
            "verdict": plan.verdict,
            "arm": plan.arm,
            "forced": plan.forced,
            "standing": course,
            "process_at_work": at_work,
            "rollback_proved": progress.rollback_proved,
            "waves": waves(&plan, &progress, &state, &problems),
            "already": plan.already,
            "quiet_hours": plan.quiet_hours,
            "judges_work": plan.judges_work,
            "reasons": progress.reasons,
            "cut_short": last,
            "services": state.services,
        }),
        problems,
    })
}

/// How many services of a wave have their treatment, as it was written.
fn in_force(plan: &RolloutPlan, state: &TrialState, problems: &[Problem], wave: usize) -> usize {
    let is_changed = |service: &str| {
        let of_service = |problem: &&Problem| problem.service.as_deref() == Some(service);
        problems.iter().filter(of_service).any(|problem| problem.kind == "changed_file")
    };
    let is_in_force = |service: &&ServiceName| state.is_committed(service) && !is_changed(service.as_str());
    plan.waves[wave].iter().filter(is_in_force).count()
}

fn waves(plan: &RolloutPlan, progress: &Progress, state: &TrialState, problems: &[Problem]) -> Vec<Value> {
    let wave = |wave: usize| {
        json!({
            "wave": wave + 1,
            "stage": progress.waves[wave],
            "services": plan.waves[wave].len(),
            "in_force": in_force(plan, state, problems, wave),
            "soak_seconds": plan.soak_of(wave).0.as_secs_f64(),
            "evidence": progress.evidence[wave],
            "names": plan.waves[wave],
        })
    };
    (0..plan.waves.len()).map(wave).collect()
}

fn detail(plan: &RolloutPlan, progress: &Progress, state: &TrialState, problems: &[Problem]) -> String {
    let mut text = String::new();
    if let Some(forced) = &plan.forced {
        text += &format!("  forced ({}) though {}\n", forced.reason, forced.objections.join("; "));
    }
    for (wave, stage) in progress.waves.iter().enumerate() {
        let services = units::counted(plan.waves[wave].len(), "service");
        let committed = in_force(plan, state, problems, wave);
        text += &format!("  wave {}: {committed} of {services} in force, {}\n", wave + 1, stage_word(*stage));
        for line in progress.evidence[wave].iter().filter(|_| *stage == WaveStage::Passed) {
            text += &format!("    {line}\n");
        }
    }
    if let Some(hours) = plan.quiet_hours {
        text += &format!("  quiet hours {hours}: no service is changed in them\n");
    }
    ratio_lines(plan).lines().for_each(|line| text += &format!("  {line}\n"));
    if !plan.judges_work {
        text += "  gates do not go by work and flags (--no-work)\n";
    }
    if !plan.already.is_empty() {
        text += &format!("  already running it before: {}\n", units::counted(plan.already.len(), "service"));
    }
    text
}

/// How far a rollout has come; whether a process works on it, and whether it is to pause, is in no journal.
pub(super) fn course(state: &TrialState, progress: &Progress, at_work: bool, is_paused: bool) -> Course {
    match state.stage {
        TrialStage::Reverted => Course::RolledBack,
        TrialStage::Reverting if at_work => Course::BeingRolledBack,
        TrialStage::Reverting => Course::CutShort,
        TrialStage::Stopped if progress.current().is_none() => Course::Complete,
        TrialStage::Stopped => Course::CompleteInPart,
        TrialStage::Planned if is_paused => Course::Paused,
        TrialStage::Planned if at_work => Course::InProgress,
        TrialStage::Planned => Course::NotBegun,
        // Of what a process resumed, the stop before is past.
        _ if progress.waves.contains(&WaveStage::Stopped) && (progress.stopped_since || !at_work) => {
            Course::Stopped
        }
        _ if is_paused => Course::Paused,
        _ if at_work => Course::InProgress,
        _ => Course::CutShort,
    }
}

fn stage_word(stage: WaveStage) -> &'static str {
    match stage {
        WaveStage::Waiting => "waiting",
        WaveStage::Begun => "being changed",
        WaveStage::Soaking => "watched",
        WaveStage::Passed => "passed",
        WaveStage::Stopped => "stopped and put back",
        WaveStage::RolledBack => "rolled back",
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_change::journal::{Action, Event, Record};
    use heaptrial_fleet::rollout::RolloutStep;

    use super::*;

    fn opened(action: Action) -> Event {
        Event::Opened { action, tool_version: "0".to_owned(), pid: 1 }
    }

    fn note(step: &RolloutStep) -> Event {
        Event::Note { note: serde_json::to_value(step).unwrap() }
    }

    /// How far a rollout of two waves is while a process works on it, and while none does.
    fn courses(events: &[Event]) -> (Course, Course) {
        let records: Vec<Record> =
            events.iter().map(|event| Record { wall_us: 0, event: event.clone() }).collect();
        let state = TrialState::of(&records);
        let progress = Progress::of(&state, 2).unwrap();
        (course(&state, &progress, true, false), course(&state, &progress, false, false))
    }

    #[test]
    fn one_that_a_process_resumed_after_a_stop_is_in_progress_until_it_stops_again() {
        use Course::{CutShort, InProgress, NotBegun, Stopped};
        let stop = |wave| note(&RolloutStep::Stopped { wave, reasons: Vec::new() });
        assert_eq!(courses(&[]), (InProgress, NotBegun));
        let mut events = vec![opened(Action::Start), note(&RolloutStep::WaveBegun { wave: 1 }), stop(1)];
        assert_eq!(courses(&events), (Stopped, Stopped));
        events.push(opened(Action::Resume));
        assert_eq!(courses(&events), (InProgress, Stopped));
        events.push(note(&RolloutStep::WaveBegun { wave: 1 }));
        assert_eq!(courses(&events), (InProgress, CutShort));
        events.push(stop(1));
        assert_eq!(courses(&events), (Stopped, Stopped));
    }
}
