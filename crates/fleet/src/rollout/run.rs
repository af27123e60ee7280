//! Carrying a rollout out: wave after wave, with a gate after each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heaptrial_change::edges::Host;
use heaptrial_change::{ChangeError, Prepared, Standing, Trial, read_state, standings};
use heaptrial_host::Instant as Moment;
use heaptrial_host::{HostRoot, Paths, boot_id};
use heaptrial_model::{Pace, ServiceName, units};

use crate::rollout::QuietHours;
use crate::rollout::gate::{Gate, Grounds, Observed, Outcome, Subject, judge};
use crate::rollout::marker::paused;
use crate::rollout::plan::RolloutPlan;
use crate::rollout::progress::{Progress, WaveStage};
use crate::rollout::step::{Boot, Reason, RolloutStep};

/// Between two looks at what is watched.
const LOOK_EVERY_LEAST: Duration = Duration::from_secs(1);
const LOOK_EVERY_MOST: Duration = Duration::from_secs(60);
/// So long a gate waits, once a wave's time is over, for data that it misses.
const PATIENCE: Duration = Duration::from_secs(3600);
/// While nothing is to be done, a pause or an interrupt is seen after this long.
const NAP: Duration = Duration::from_millis(200);

/// Reads what samples and events show of services, and prints what happens to the rollout.
pub trait Observer {
    /// What is known of each of some services since it has its treatment.
    fn observe(&mut self, services: &[ServiceName]) -> BTreeMap<ServiceName, Observed>;
    /// Something that a person wants to read.
    fn say(&mut self, text: &str);
    /// The same, of something that goes on for long: printed seldom.
    fn waiting(&mut self, text: &str);
}

/// How a run of a rollout ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Complete,
    /// It stopped within a wave, counted from 0.
    Stopped {
        wave: usize,
        reasons: Vec<Reason>,
        /// Services of it that could not be put back, with the reason.
        stuck: Vec<(ServiceName, String)>,
    },
    Paused,
    Interrupted,
}

/// A rollout of this host, locked against every other process that changes services.
pub struct Rollout<'r, 'a> {
    trial: &'r mut Trial<'a>,
    plan: RolloutPlan,
    pace: Pace,
    observer: &'r mut dyn Observer,
    holds: Holds<'r>,
}

/// What may hold a rollout, apart from the transaction that is changed meanwhile.
struct Holds<'h> {
    paths: Paths,
    name: String,
    quiet: Option<QuietHours>,
    interrupt: &'h AtomicBool,
}

impl<'r, 'a> Rollout<'r, 'a> {
    /// Of an opened transaction with what was frozen.
    pub fn new(
        trial: &'r mut Trial<'a>,
        plan: RolloutPlan,
        paths: Paths,
        observer: &'r mut dyn Observer,
        interrupt: &'r AtomicBool,
    ) -> Self {
        let (name, pace) = (trial.prepared().plan.name.clone(), trial.prepared().plan.pace);
        let holds = Holds { paths, name, quiet: plan.quiet_hours, interrupt };
        Self { trial, plan, pace, observer, holds }
    }

    /// Goes on from where the journal says until the end, a stop or a pause.
    pub fn go(&mut self) -> Result<Ending, ChangeError> {
        self.trial.open_for_parts()?;
        let ending = self.waves()?;
        self.trial.rest();
        Ok(ending)
    }

    fn waves(&mut self) -> Result<Ending, ChangeError> {
        while let Some(wave) = self.current()? {
            if let Some(ending) = self.wave(wave)? {
                match ending {
                    Ending::Paused => self.trial.note(&RolloutStep::Paused)?,
                    Ending::Interrupted => self.trial.note_or_warn(&RolloutStep::Interrupted)?,
                    Ending::Complete | Ending::Stopped { .. } => {}
                }
                return Ok(ending);
            }
        }
        self.trial.finish()?;
        Ok(Ending::Complete)
    }

    /// The first wave that has not passed, or of which a service has lost the treatment since.
    fn current(&self) -> Result<Option<usize>, ChangeError> {
        let progress = self.progress()?;
        let found = (0..self.plan.waves.len()).find(|wave| {
            let open = |service: &ServiceName| !self.trial.state().is_committed(service);
            progress.waves[*wave] != WaveStage::Passed || self.plan.waves[*wave].iter().any(open)
        });
        Ok(found)
    }

    /// Puts a wave back, without canary and gates.
    pub fn roll_back_wave(
        &mut self,
        wave: usize,
        pace: Pace,
    ) -> Result<Vec<(ServiceName, String)>, ChangeError> {
        let services = self.plan.waves.get(wave).cloned().unwrap_or_default();
        let holds = &self.holds;
        // First of all: a wave that is half put back has not passed any more.
        self.trial.note_or_warn(&RolloutStep::WaveRolledBack { wave: wave as u32 })?;
        let outcome = self.trial.put_back(&services, pace, &|| holds.interrupted())?;
        self.trial.rest();
        Ok(outcome.stuck)
    }

    fn progress(&self) -> Result<Progress, ChangeError> {
        Progress::of(self.trial.state(), self.plan.waves.len())
    }

    /// One wave from its beginning, or from where it stands. `None` when it has passed.
    fn wave(&mut self, wave: usize) -> Result<Option<Ending>, ChangeError> {
        let services = self.plan.waves[wave].clone();
        let number = wave as u32;
        if let Some(ending) = self.check_earlier(wave)? {
            return Ok(Some(ending));
        }
        if self.progress()?.waves[wave] == WaveStage::Stopped {
            // What a stop that was cut short had left of it.
            let outcome = self.trial.put_back(&services, self.pace, &|| None)?;
            if !outcome.stuck.is_empty() {
                let reasons = self.progress()?.reasons;
                return Ok(Some(Ending::Stopped { wave, reasons, stuck: outcome.stuck }));
            }
        }
        if self.progress()?.waves[wave] != WaveStage::Soaking || !self.has_all(&services)? {
            self.trial.note(&RolloutStep::WaveBegun { wave: number })?;
            self.observer.say(&format!(
                "wave {} of {}: {}",
                wave + 1,
                self.plan.waves.len(),
                units::counted(services.len(), "service")
            ));
            if wave == 0 && !self.progress()?.rollback_proved {
                if let Some(ending) = self.prove_rollback(wave, &services[0])? {
                    return Ok(Some(ending));
                }
            }
            if let Some(ending) = self.apply(wave, &services)? {
                return Ok(Some(ending));
            }
            let id = boot_id(&HostRoot::default()).unwrap_or_default();
            let boot = Boot { id, boottime_us: Moment::now().boottime_us };
            self.trial.note(&RolloutStep::WaveApplied { wave: number, boot })?;
        }
        self.soak(wave)
    }

    /// What the gate before a wave says once more: going on would only add to what failed since.
    fn check_earlier(&mut self, wave: usize) -> Result<Option<Ending>, ChangeError> {
        let Some(before) = wave.checked_sub(1) else { return Ok(None) };
        let gate = self.gate(before)?;
        if gate.outcome == Outcome::Stop { self.stop(wave, gate.reasons).map(Some) } else { Ok(None) }
    }

    /// Whether all of them have their treatment; lives that a reboot or somebody replaced are proved again.
    fn has_all(&mut self, services: &[ServiceName]) -> Result<bool, ChangeError> {
        let standings = self.trial.standings(services)?;
        Ok(standings.iter().all(|standing| *standing != Standing::Untreated))
    }

    /// Applies, puts back and thereby shows that it can be.
    fn prove_rollback(&mut self, wave: usize, canary: &ServiceName) -> Result<Option<Ending>, ChangeError> {
        if let Some(ending) = self.apply(wave, std::slice::from_ref(canary))? {
            return Ok(Some(ending));
        }
        if !self.trial.state().is_committed(canary) {
            let what = "it failed, so that putting it back could not be tried".to_owned();
            return self.stop(wave, vec![Reason { service: Some(canary.clone()), what }]).map(Some);
        }
        self.observer.say(&format!("{canary}: putting it back, to prove that it can be"));
        let holds = &self.holds;
        let canary_alone = std::slice::from_ref(canary);
        let halt = || holds.interrupted();
        let outcome = self.trial.put_back(canary_alone, self.pace, &halt)?;
        if let Some((service, why)) = outcome.stuck.first() {
            let reason = Reason {
                service: Some(service.clone()),
                what: format!("it could not be put back when that was tried: {why}"),
            };
            return self.stop(wave, vec![reason]).map(Some);
        }
        if !outcome.is_complete() {
            return Ok(Some(Ending::Interrupted));
        }
        self.trial.note(&RolloutStep::RollbackProved { service: canary.clone() })?;
        Ok(None)
    }

    /// Gives services of a wave their treatment; waits through quiet hours.
    fn apply(&mut self, wave: usize, services: &[ServiceName]) -> Result<Option<Ending>, ChangeError> {
        loop {
            match self.holds.hold() {
                Err(ending) => return Ok(Some(ending)),
                Ok(Some(why)) => {
                    self.trial.rest();
                    self.observer.waiting(&why);
                    std::thread::sleep(NAP);
                    continue;
                }
                Ok(None) => {}
            }
            let holds = &self.holds;
            let halt = || match holds.hold() {
                Err(Ending::Paused) => Some("paused".to_owned()),
                Err(_) => Some("interrupted".to_owned()),
                Ok(quiet) => quiet,
            };
            let outcome = self.trial.apply_to(services, &halt)?;
            if outcome.is_complete() {
                return Ok(None);
            }
            if outcome.failed.is_empty() && outcome.stuck.is_empty() {
                // What held it is looked at above.
                continue;
            }
            let named = outcome.failed.iter().chain(&outcome.stuck);
            let reasons = named
                .map(|(service, why)| Reason { service: Some(service.clone()), what: why.clone() })
                .collect();
            return self.stop(wave, reasons).map(Some);
        }
    }

    /// Watches a wave that was changed until its gate decides.
    fn soak(&mut self, wave: usize) -> Result<Option<Ending>, ChangeError> {
        self.trial.rest();
        let soak = self.plan.soak_of(wave).0;
        loop {
            let gate = self.gate(wave)?;
            let left = self.left_of(wave, soak)?;
            match gate.outcome {
                Outcome::Stop => return self.stop(wave, gate.reasons).map(Some),
                Outcome::Go if left.is_zero() => {
                    for line in &gate.evidence {
                        self.observer.say(&format!("  {line}"));
                    }
                    self.observer.say(&format!("gate {}: go", wave + 1));
                    let step = RolloutStep::WavePassed { wave: wave as u32, evidence: gate.evidence };
                    self.trial.note(&step)?;
                    return Ok(None);
                }
                Outcome::NotEnough if self.left_of(wave, soak + PATIENCE)?.is_zero() => {
                    let patience = units::duration(PATIENCE.as_secs_f64());
                    let what =
                        format!("what a gate must know is still missing {patience} after the wave's time");
                    let mut reasons = vec![Reason { service: None, what }];
                    reasons.extend(gate.reasons);
                    return self.stop(wave, reasons).map(Some);
                }
                Outcome::Go | Outcome::NotEnough => {
                    let stops = self.left_of(wave, soak + PATIENCE)?;
                    self.observer.waiting(&format!(
                        "gate {}: {}",
                        wave + 1,
                        waits(left, stops, &gate.reasons)
                    ));
                }
            }
            let until = Instant::now() + (left / 2).clamp(LOOK_EVERY_LEAST, LOOK_EVERY_MOST);
            while Instant::now() < until {
                if let Err(ending) = self.holds.hold() {
                    return Ok(Some(ending));
                }
                std::thread::sleep(NAP);
            }
        }
    }

    /// What a gate says now of all services changed so far.
    fn gate(&mut self, wave: usize) -> Result<Gate, ChangeError> {
        let services = self.plan.up_to(wave);
        let standings = self.trial.standings(&services)?;
        let observed = self.observer.observe(&services);
        let known = services.iter().zip(&standings);
        Ok(gate_of((&self.plan, self.trial.prepared()), wave, known, &observed))
    }

    /// What is left of a time since a wave was changed, or since the host came up after that.
    fn left_of(&self, wave: usize, time: Duration) -> Result<Duration, ChangeError> {
        let boot_id = boot_id(&HostRoot::default()).unwrap_or_default();
        let applied = self.progress()?.applied[wave].clone();
        let passed = applied.map(|applied| applied.passed(&boot_id, Moment::now().boottime_us));
        Ok(time.saturating_sub(passed.unwrap_or_default()))
    }

    /// Puts the wave back and says why.
    fn stop(&mut self, wave: usize, reasons: Vec<Reason>) -> Result<Ending, ChangeError> {
        for reason in &reasons {
            self.observer.say(&format!("stop: {reason}"));
        }
        let services = self.plan.waves[wave].clone();
        // Known before it is done, so that a resume does not take a condemned wave for one that is being changed.
        let stopped = RolloutStep::Stopped { wave: wave as u32, reasons: reasons.clone() };
        self.trial.note_or_warn(&stopped)?;
        // Putting back is not stopped half-way by what stopped the wave.
        let outcome = self.trial.put_back(&services, self.pace, &|| None)?;
        Ok(Ending::Stopped { wave, reasons, stuck: outcome.stuck })
    }
}

impl Holds<'_> {
    /// Why no further service is restarted now: quiet hours, or what ends this run.
    fn hold(&self) -> Result<Option<String>, Ending> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Ending::Interrupted);
        }
        if paused(&self.paths, &self.name) {
            return Err(Ending::Paused);
        }
        Ok(self.quiet.and_then(|hours| hours.hold_now()))
    }

    fn interrupted(&self) -> Option<String> {
        self.interrupt.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
    }
}

/// What the gate of a wave says of services.
fn gate_of<'s>(
    (plan, prepared): (&'s RolloutPlan, &Prepared),
    wave: usize,
    known: impl Iterator<Item = (&'s ServiceName, &'s Standing)>,
    observed: &'s BTreeMap<ServiceName, Observed>,
) -> Gate {
    let subject = |(service, standing)| Subject {
        service,
        standing,
        observed: observed.get(service),
        before: plan.before.get(service),
        stratum: plan.stratum(service),
        is_new: plan.waves[wave].contains(service),
    };
    let subjects: Vec<Subject<'_>> = known.map(subject).collect();
    let restart_every = prepared.services.iter().find_map(|treatment| treatment.restart_every);
    let work_seconds = plan.work_seconds(wave, restart_every);
    let grounds = Grounds { work_seconds, judges_work: plan.judges_work };
    judge(&subjects, &grounds)
}

/// What the gate of the last wave that was begun would say now of the services that have the treatment, and which these are;
/// another process may be at work on the rollout.
pub fn judge_now(
    (plan, prepared): (&RolloutPlan, &Prepared),
    (host, paths): (Host<'_>, &Paths),
    observer: &mut dyn Observer,
) -> Result<(Vec<ServiceName>, Gate), ChangeError> {
    let name = &prepared.plan.name;
    let state = read_state(paths, name)?;
    let progress = Progress::of(&state, plan.waves.len())?;
    let begun = |stage: &WaveStage| *stage != WaveStage::Waiting;
    let wave = progress.waves.iter().rposition(begun).unwrap_or(0);
    let all = plan.waves.concat();
    let seen = standings(host, paths, prepared, &state, &all);
    let (services, standings): (Vec<ServiceName>, Vec<Standing>) =
        all.into_iter().zip(seen).filter(|(service, _)| state.is_committed(service)).unzip();
    let observed = observer.observe(&services);
    let known = services.iter().zip(&standings);
    let gate = gate_of((plan, prepared), wave, known, &observed);
    Ok((services, gate))
}

/// What a gate waits for, and how long.
fn waits(left: Duration, stops: Duration, missing: &[Reason]) -> String {
    let duration = |time: Duration| units::duration(time.as_secs_f64());
    let time = match left.is_zero() {
        false => format!("{} to go", duration(left)),
        true => format!("its time is over, and it stops in {} unless it gets to know", duration(stops)),
    };
    match missing.split_first() {
        None => time,
        Some((first, [])) => format!("{time}; missing: {first}"),
        Some((first, more)) => format!("{time}; missing: {first} (and {} more)", more.len()),
    }
}
