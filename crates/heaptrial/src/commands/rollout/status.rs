//! `heaptrial rollout status`: where rollouts stand on this host.

use std::process::ExitCode;

use clap::Args;
use heaptrial_change::journal;
use heaptrial_change::{
    Holder, Lock, Prepared, Stage, TrialStage, TrialState, changed_files, check_trusted, read_prepared,
    read_state, trials,
};
use heaptrial_fleet::rollout::{
    Course, Progress, RolloutPlan, Stratum, WaveStage, cut_short, is_rollout, paused, read_plan,
};
use heaptrial_host::Paths;
use heaptrial_model::{ErrorClass, ServiceName, TrialName, units};
use serde_json::{Value, json};

use super::preview::ratio_lines;
use crate::commands::trial::on_host;
use crate::commands::trial::unfound::Unfound;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Which rollout.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// The rollout's name; without it all rollouts of this host
    #[arg(value_name = "NAME")]
    rollout: Option<TrialName>,
}

/// What is shown of a rollout.
struct Status {
    prepared: Prepared,
    state: TrialState,
    plan: RolloutPlan,
    progress: Progress,
    paused: bool,
    at_work: bool,
    /// Another trial or rollout for which services are being changed now.
    other: Option<Holder>,
    /// Services that do not run, and how they are.
    down: Vec<(ServiceName, String)>,
    untrusted: Option<String>,
    /// What the journal knows of the end of the last process that worked on it.
    ended: Option<String>,
}

pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    on_host::require_readable(&paths, global)?;
    let names = match &options.rollout {
        Some(name) => vec![name.to_string()],
        None => trials(&paths)?
            .into_iter()
            .filter(|name| read_prepared(&paths, name).is_ok_and(|prepared| is_rollout(&prepared)))
            .collect(),
    };
    let mut found = Vec::new();
    for name in &names {
        let status = Status::read(&paths, name);
        found.push(status.map_err(|failure| on_host::unless_unfound(failure, name, &paths, global))?);
    }
    let unfound = if options.rollout.is_none() { Unfound::all(&paths, global)? } else { Vec::new() };
    unfound.iter().for_each(|found| eprintln!("{found}"));
    if global.json {
        let list: Vec<Value> = found.iter().map(Status::json).collect();
        println!("{:#}", json!({ "schema_version": 1, "rollouts": list, "without_folder": unfound }));
    } else if found.is_empty() && unfound.is_empty() {
        println!("no rollout on this host; `heaptrial rollout start TRIAL --arm ARM` begins one");
    }
    for status in found.iter().filter(|_| !global.json) {
        print!("{}", status.text());
    }
    let well = found.iter().all(Status::is_well) && unfound.is_empty();
    Ok(if well { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

impl Status {
    fn read(paths: &Paths, name: &str) -> Result<Self, Failure> {
        let prepared = read_prepared(paths, name)?;
        let plan = read_plan(&prepared).map_err(Failure::refused)?;
        let state = read_state(paths, name)?;
        Ok(Self {
            progress: Progress::of(&state, plan.waves.len())?,
            paused: paused(paths, name),
            at_work: on_host::is_at_work(paths, name),
            other: Lock::holder(&paths.state).filter(|holder| holder.name != name),
            down: on_host::not_running(&state, paths.scope),
            untrusted: check_trusted(paths, name).err().map(|error| error.to_string()),
            ended: cut_short(&journal::read(&paths.trial(name))?),
            prepared,
            state,
            plan,
        })
    }

    fn is_well(&self) -> bool {
        let troubled = self.state.count(Stage::RevertFailed);
        let is_known = self.untrusted.is_none() && changed_files(&self.state).is_empty();
        troubled == 0 && is_known && !matches!(self.course(), Course::Stopped | Course::CutShort)
    }

    fn course(&self) -> Course {
        course(&self.state, &self.progress, self.at_work, self.paused)
    }

    fn cut_short(&self) -> Option<&str> {
        self.ended.as_deref().filter(|_| self.course() == Course::CutShort)
    }

    fn wave_counts(&self, wave: usize) -> (usize, usize) {
        let services = &self.plan.waves[wave];
        let lost = changed_files(&self.state);
        let committed = services.iter().filter(|service| {
            let found = self.state.services.get(*service);
            found.is_some_and(|found| found.stage == Stage::Committed)
                && lost.iter().all(|(lost, _)| lost != *service)
        });
        (committed.count(), services.len())
    }

    fn json(&self) -> Value {
        let waves: Vec<Value> = (0..self.plan.waves.len())
            .map(|wave| {
                let (committed, services) = self.wave_counts(wave);
                json!({
                    "wave": wave + 1,
                    "stage": self.progress.waves[wave],
                    "services": services,
                    "in_force": committed,
                    "soak_seconds": self.plan.soak_of(wave).0.as_secs_f64(),
                    "evidence": self.progress.evidence[wave],
                    "names": self.plan.waves[wave],
                })
            })
            .collect();
        let strata: Vec<Value> = self.plan.strata.iter().map(stratum_json).collect();
        json!({
            "rollout": self.prepared.plan.name,
            "id": self.prepared.plan.id,
            "trial": self.plan.trial,
            "verdict": self.plan.verdict,
            "arm": self.plan.arm,
            "forced": self.plan.forced,
            "standing": self.course(),
            "process_at_work": self.at_work,
            "rollback_proved": self.progress.rollback_proved,
            "waves": waves,
            "already": self.plan.already,
            "quiet_hours": self.plan.quiet_hours,
            "judges_work": self.plan.judges_work,
            "strata": strata,
            "not_running": self.down.iter().map(|(service, how)| json!({ "service": service, "how": how })).collect::<Vec<_>>(),
            "other_process": self.other,
            "untrusted": self.untrusted,
            "lost": changed_files(&self.state).into_iter().map(|(service, path)| json!({ "service": service, "file": path })).collect::<Vec<_>>(),
            "reasons": self.progress.reasons,
            "interrupted": self.state.interrupted,
            "cut_short": self.cut_short(),
            "services": self.state.services,
        })
    }

    fn text(&self) -> String {
        let name = &self.prepared.plan.name;
        let mut text = format!("rollout {name}: {}, {}", self.plan.arm, self.course().as_str());
        text += &match &self.plan.trial {
            Some(trial) => format!("; measured in trial {trial}\n"),
            None => "; no trial measured it\n".to_owned(),
        };
        if let Some(forced) = &self.plan.forced {
            text += &format!("  forced ({}) though {}\n", forced.reason, forced.objections.join("; "));
        }
        let is_back = self.state.stage == TrialStage::Reverted;
        for (wave, stage) in self.progress.waves.iter().enumerate() {
            let (committed, services) = self.wave_counts(wave);
            text += &format!(
                "  wave {}: {committed} of {} in force, {}\n",
                wave + 1,
                units::counted(services, "service"),
                match stage {
                    _ if is_back => "put back",
                    WaveStage::RolledBack if committed > 0 => "rolled back in part",
                    stage => stage_word(*stage),
                }
            );
            let passed = *stage == WaveStage::Passed && !is_back;
            for line in self.progress.evidence[wave].iter().filter(|_| passed) {
                text += &format!("    {line}\n");
            }
        }
        if let Some(hours) = self.plan.quiet_hours {
            text += &format!("  quiet hours {hours}: no service is changed in them\n");
        }
        for line in ratio_lines(&self.plan) {
            text += &format!("  {line}\n");
        }
        if !self.plan.judges_work {
            text += "  gates do not go by work and flags (--no-work)\n";
        }
        if !self.plan.already.is_empty() {
            let services = units::counted(self.plan.already.len(), "service");
            text += &format!(
                "  {services} ran it before and {} left alone\n",
                if self.plan.already.len() == 1 { "is" } else { "are" }
            );
        }
        if let Some(why) = self.cut_short() {
            text += &format!("  cut short: {why}\n");
        }
        for reason in &self.progress.reasons {
            text += &format!("  {reason}\n");
        }
        for (service, path) in changed_files(&self.state) {
            text += &format!("  {service}: {} is not what the rollout wrote\n", path.display());
        }
        for (service, how) in &self.down {
            text += &format!("  {service} does not run: it is {how}\n");
        }
        if let Some(why) = &self.untrusted {
            text += &format!("  not to be trusted: {why}\n");
        }
        if let Some(other) = &self.other {
            text += &format!("  {other} is changing services of this host now\n");
        }
        if self.state.stage == TrialStage::Reverting && !self.at_work {
            text += &format!("  `heaptrial rollout rollback {name}` goes on putting everything back\n");
        } else if matches!(
            self.course(),
            Course::NotBegun | Course::Paused | Course::Stopped | Course::CutShort | Course::CompleteInPart
        ) {
            text += &format!(
                "  `heaptrial rollout resume {name}` goes on, `heaptrial rollout rollback {name}` puts everything back\n"
            );
        }
        text
    }
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

fn stratum_json(stratum: &Stratum) -> Value {
    let ratio = stratum.ratio.as_ref().and_then(|ratio| {
        let age_seconds = ratio.last_age();
        let expected = ratio.expected(1.0, age_seconds)?;
        Some(json!({ "age_seconds": age_seconds, "trial_services": ratio.services(), "ratio": expected.bytes }))
    });
    json!({ "name": stratum.name, "services": stratum.services, "ratio": ratio })
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

    /// How a rollout of two waves stands while a process works on it, and while none does.
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
        // Before the first word of the wave that is tried again.
        events.push(opened(Action::Resume));
        assert_eq!(courses(&events), (InProgress, Stopped));
        // An earlier wave, of which a service lost its treatment, comes first.
        events.push(note(&RolloutStep::WaveBegun { wave: 0 }));
        assert_eq!(courses(&events), (InProgress, Stopped));
        events.push(note(&RolloutStep::WaveBegun { wave: 1 }));
        assert_eq!(courses(&events), (InProgress, CutShort));
        events.push(stop(1));
        assert_eq!(courses(&events), (Stopped, Stopped));
    }
}
