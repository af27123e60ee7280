//! The run: order, children, identities, samples and the ledger.

mod ending;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_allocator::memory_split;
use heaptrial_host::{HostFacts, HostRoot, Process, ServiceProcesses, ServiceSampler, TickCost};
use heaptrial_model::{Ending, KnownEvent, MemorySplit};
use heaptrial_store::{NewTrial, READY_SECONDS, Store, TickInput};
use serde_json::json;

use crate::ends::Ends;
use crate::plan::{LabPlan, RunOutcome};
use crate::progress::{Progress, RoundView, ServiceView};
use crate::sampling::{Sampling, empty_tick};
use crate::schedule::RoundPlan;
use crate::service::{Proof, RunningService, clause, kept_command, last_words, prove_identity};
use crate::supervisor::Supervisor;
use crate::workload::{Event, Round, RoundContext, Slot, SlotState, Workload};
use crate::{Interrupt, LabError};

/// Carries out a lab run: every round in turn, or those of one block as a run of all blocks would have: with the same services,
/// seeds, order and numbers. Ends all children before it returns, also on an error.
pub fn run(
    plan: &LabPlan,
    workload: &dyn Workload,
    block: Option<u32>,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, LabError> {
    let logs = plan.folder.join("logs");
    std::fs::create_dir_all(&logs).map_err(LabError::file(&logs))?;
    let root = HostRoot::default();
    let mut facts = HostFacts::read(&root)?;
    facts.userland = plan.userland.clone();
    let mut store = Store::create(&plan.database)?;
    let (trial_id, arm_ids) = store.begin_trial(&NewTrial {
        name: plan.name.clone(),
        kind: workload.kind().to_owned(),
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(&facts).unwrap_or_default(),
        metric: plan.metric,
        seed: plan.seed,
        repeats: plan.repeats,
        planned_us: plan.duration.unwrap_or_default().as_micros() as i64,
        arms: plan.arms.iter().map(|prepared| prepared.arm.clone()).collect(),
        parameters: plan.parameters(workload),
        command: plan.command.clone(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: heaptrial_host::Instant::now().wall_us,
    })?;
    for (arm_id, prepared) in arm_ids.iter().zip(&plan.arms) {
        store.set_obtained(*arm_id, &serde_json::to_value(&prepared.obtained).unwrap_or_default())?;
    }
    let outcome = RunOutcome { trial_id, ..RunOutcome::default() };
    let mut run = Run {
        plan,
        root,
        logs,
        store,
        trial_id,
        arm_ids,
        sequence: 0,
        positions: 0,
        never_ready: BTreeSet::new(),
        printed: BTreeSet::new(),
        interrupt,
        progress,
        control: Control::NotSeen,
        outcome,
    };
    let result = run.warn_of_processors().and_then(|()| run.all_rounds(workload, block));
    let word = match &result {
        Err(_) => "failed",
        Ok(()) if run.outcome.interrupted => "interrupted",
        Ok(()) => "completed",
    };
    let ended = run.store.end_trial(trial_id, heaptrial_host::Instant::now().wall_us, word);
    result?;
    ended?;
    Ok(run.outcome)
}

struct Run<'a> {
    plan: &'a LabPlan,
    root: HostRoot,
    logs: PathBuf,
    store: Store,
    trial_id: i64,
    arm_ids: Vec<i64>,
    sequence: i64,
    positions: u32,
    /// Arms whose service did not become ready: another wait would be as long.
    never_ready: BTreeSet<i64>,
    /// Warnings and notes that were printed.
    printed: BTreeSet<String>,
    interrupt: &'a Interrupt,
    progress: &'a mut dyn Progress,
    control: Control,
    outcome: RunOutcome,
}

/// Whether the control's treatment took, from its start to its end, when it was started for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    NotSeen,
    Proved,
    Refuted,
}

impl Run<'_> {
    fn warn_of_processors(&mut self) -> Result<(), LabError> {
        for (arm, as_on) in self.plan.as_on() {
            if let (true, Some(number)) = (as_on.is_impossible, self.plan.processors) {
                let text = format!("{arm} could not be run as on {number} processors; it ran {}", as_on.how);
                self.enter(None, KnownEvent::Warning, &text, &text)?;
            }
        }
        Ok(())
    }

    /// Enters an event, and prints it as `shown`.
    fn enter(
        &mut self,
        service_id: Option<i64>,
        kind: KnownEvent,
        text: &str,
        shown: &str,
    ) -> Result<(), LabError> {
        self.progress.message(shown);
        let now = heaptrial_host::Instant::now().wall_us;
        Ok(self.store.add_event(self.trial_id, service_id, now, kind, text)?)
    }

    fn write(&mut self, tick: &TickInput) -> Result<(), LabError> {
        self.sequence += 1;
        Ok(self.store.write_tick(self.trial_id, tick)?)
    }

    /// Enters the end of a life that happens now.
    fn end_life_now(&mut self, life_id: i64, ending: &Ending) -> Result<(), LabError> {
        let now = heaptrial_host::Instant::now();
        Ok(self.store.end_life(life_id, (now.wall_us, now.boottime_us), ending)?)
    }

    /// All rounds, or those of one block.
    fn all_rounds(&mut self, workload: &dyn Workload, block: Option<u32>) -> Result<(), LabError> {
        let schedule = self.plan.schedule(workload);
        let count = schedule.rounds.len();
        for (number, round) in schedule.rounds.iter().enumerate() {
            if block.is_some_and(|block| block != round.block) {
                self.positions += round.arms.len() as u32;
                continue;
            }
            if self.interrupt.requested() {
                self.outcome.interrupted = true;
                break;
            }
            self.progress.round(number + 1, count, round.repeat);
            self.one_round(workload, round)?;
            self.progress.round_ended();
            if self.control == Control::Refuted {
                let text = "nothing can be compared without the control: the run ends here";
                self.enter(None, KnownEvent::Warning, text, text)?;
                break;
            }
        }
        Ok(())
    }

    fn one_round(&mut self, workload: &dyn Workload, plan: &RoundPlan) -> Result<(), LabError> {
        let slots: Vec<Slot> = plan.arms.iter().map(|arm| self.slot(*arm, plan)).collect();
        let context = RoundContext {
            repeat: plan.repeat,
            name: &plan.name(),
            // Splitmix's odd constant keeps the seeds of neighbouring repeats apart.
            seed: self.plan.seed ^ u64::from(plan.repeat).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            slots: &slots,
            folder: &self.plan.folder,
            logs: &self.logs,
            supervisor: &self.plan.supervisor,
            interrupt: self.interrupt,
        };
        let mut round = workload.begin(&context)?;
        let mut services = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            if self.interrupt.requested() || self.control == Control::Refuted {
                break;
            }
            let arm_id = self.arm_ids[plan.arms[index]];
            services.extend(self.start(index, slot, arm_id, plan.block, round.as_mut())?);
        }
        let sampled = match self.control {
            Control::Refuted => Ok(()),
            Control::NotSeen | Control::Proved => {
                self.sample_until_the_end(&slots, &mut services, round.as_mut())
            }
        };
        let events = round.finish();
        for (name, read) in round.work_read() {
            *self.outcome.work_read.entry(name).or_default() |= read;
        }
        let stored = sampled.and_then(|()| self.store_last_work(&services, round.as_mut()));
        // Children are ended and entered in the ledger whether or not sampling failed.
        let ended = self.end(&slots, &mut services);
        stored.and(ended)?;
        self.enter_all(&slots, &services, events)
    }

    /// Stores the figures of the services' work that came when their load ended.
    fn store_last_work(
        &mut self,
        services: &[RunningService],
        round: &mut dyn Round,
    ) -> Result<(), LabError> {
        let now = heaptrial_host::Instant::now();
        let mut work = Vec::new();
        for service in services {
            let figures = round.work(service.slot).into_iter();
            work.extend(figures.map(|(name, value)| (service.life_id, name, value)));
        }
        if work.is_empty() {
            return Ok(());
        }
        self.write(&TickInput { work, ..empty_tick(self.sequence, now) })
    }

    fn slot(&self, arm: usize, round: &RoundPlan) -> Slot {
        // Names of arms may hold anything printable; names of services become file names.
        let service = format!("arm{}-{}", arm + 1, round.name());
        Slot { service, arm: self.plan.arms[arm].clone() }
    }

    /// Starts a service and proves its identity; `None` where it did not get that far.
    fn start(
        &mut self,
        index: usize,
        slot: &Slot,
        arm_id: i64,
        block: u32,
        round: &mut dyn Round,
    ) -> Result<Option<RunningService>, LabError> {
        let service_id =
            self.store.add_service(self.trial_id, arm_id, &slot.service, block, self.positions)?;
        self.positions += 1;
        if let Some(bytes) = self.plan.memory_limit_bytes {
            self.store.set_attributes(service_id, &json!({ "memory_max_bytes": bytes }))?;
        }
        if self.never_ready.contains(&arm_id) {
            self.fail(service_id, slot, "was not started: it did not become ready in an earlier repeat")?;
            return Ok(None);
        }
        if let Err(why) = round.prepare(index) {
            if !self.interrupt.requested() {
                self.fail(service_id, slot, &why)?;
            }
            return Ok(None);
        }
        let launch = round.launch(index);
        let command = kept_command(slot, launch, &self.logs, self.plan.cgroup());
        let started = heaptrial_host::Instant::now();
        let kept = Supervisor::start(&self.plan.supervisor, &self.plan.accounting, &command);
        let (mut supervisor, key) = match kept {
            Ok(kept) => kept,
            Err(LabError::Supervisor { problem, .. }) => {
                self.fail(service_id, slot, &format!("could not be started: {problem}"))?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let proof = prove_identity(key.pid, &mut supervisor, &slot.arm, &command, self.interrupt);
        let (identity, refuted) = match &proof {
            Proof::Proved(identity) => (Some(identity), None),
            Proof::Refuted { identity, why } => (identity.as_ref(), Some(why.as_str())),
            Proof::Ended(_) => (None, None),
        };
        let at = (started.wall_us, started.boottime_us);
        let life_id = self.store.add_life(service_id, &key, at, identity, refuted)?;
        if let Some(why) = refuted {
            self.see_control(slot, Control::Refuted);
            // Nothing that it does would count.
            self.fail(service_id, slot, &format!("its treatment did not take: {why}"))?;
            supervisor.close()?;
            self.end_life_now(life_id, &Ending::Interrupted)?;
            return Ok(None);
        }
        let processes = ServiceProcesses::kept_by(supervisor.pid(), key.pid);
        let sampler = ServiceSampler::of(&self.root, processes, supervisor.group().cloned());
        let ending = match (proof, &sampler) {
            (Proof::Ended(ending), _) => Some(ending),
            (_, Err(_)) => supervisor.wait_for_end(),
            (_, Ok(_)) => None,
        };
        if let Some(ending) = ending {
            self.end_life_now(life_id, &ending)?;
            if ending != Ending::Interrupted {
                let hint = match ending {
                    Ending::Exited(_) => "; a program must stay in the foreground for longer than --duration",
                    Ending::ForkedAway => {
                        "; start it in the foreground, for instance with its option against running as a daemon"
                    }
                    _ => "",
                };
                let otherwise = format!("{}{hint}{}", clause(&ending), last_words(&command.stderr));
                self.enter_end(service_id, slot, supervisor.oom_kills(), "as it started", &otherwise)?;
            }
            return Ok(None);
        }
        let sampler = sampler?;
        let cgroup = sampler.cgroup().map(|reader| reader.cgroup().clone());
        let service = RunningService {
            slot: index,
            service_id,
            life_id,
            process: Process::new(&self.root, key.pid),
            processes,
            started,
            sampler,
            cgroup,
            ends: Ends::default(),
            several: false,
            supervisor: Some(supervisor),
            ending: None,
            stderr: command.stderr,
            end: command.end,
            passed: command.environment.into_iter().collect(),
        };
        self.wait_until_ready(service, slot, arm_id, round)
    }

    /// Waits until a service can be used; `None` where that did not happen.
    fn wait_until_ready(
        &mut self,
        mut service: RunningService,
        slot: &Slot,
        arm_id: i64,
        round: &mut dyn Round,
    ) -> Result<Option<RunningService>, LabError> {
        let why = match round.ready(service.slot, &|| service.is_alive()) {
            Ok(false) => return Ok(Some(service)),
            Ok(true) => {
                let now = heaptrial_host::Instant::now();
                let seconds = (now.boottime_us - service.started.boottime_us) as f64 / 1e6;
                let mut attributes = json!({ READY_SECONDS: seconds });
                if let Some(bytes) = self.plan.memory_limit_bytes {
                    attributes["memory_max_bytes"] = bytes.into();
                }
                self.store.set_attributes(service.service_id, &attributes)?;
                let text = format!("it was ready after {seconds:.1} s; its age counts from then");
                let at = Some(service.service_id);
                self.store.add_event(self.trial_id, at, now.wall_us, KnownEvent::Note, &text)?;
                return Ok(Some(service));
            }
            Err(why) => why,
        };
        let ending = service.ended_at_last().unwrap_or(Ending::Interrupted);
        self.end_life_now(service.life_id, &ending)?;
        if self.interrupt.requested() {
            return Ok(None);
        }
        let how = match ending {
            Ending::Interrupted => {
                self.never_ready.insert(arm_id);
                // Without a control nothing can be compared.
                self.see_control(slot, Control::Refuted);
                String::new()
            }
            ending => format!("; it {}", clause(&ending)),
        };
        let otherwise = format!("{why}{how}{}", last_words(&service.stderr));
        self.enter_end(service.service_id, slot, service.oom_kills(), "before it was ready", &otherwise)?;
        Ok(None)
    }

    /// What was seen of a service's treatment decides about the run where it is the control's first.
    fn see_control(&mut self, slot: &Slot, seen: Control) {
        if slot.arm.arm.control && self.control == Control::NotSeen {
            self.control = seen;
        }
    }

    fn fail(&mut self, service_id: i64, slot: &Slot, why: &str) -> Result<(), LabError> {
        self.outcome.failed_services += 1;
        let text = format!("{} ({}) {why}", slot.arm.arm.name, slot.service);
        self.enter(Some(service_id), KnownEvent::ArmFailed, &text, &text)
    }

    /// Fails a service that runs, so that its figures do not count.
    fn fail_life(&mut self, service: &RunningService, slot: &Slot, why: &str) -> Result<(), LabError> {
        self.fail(service.service_id, slot, why)?;
        Ok(self.store.fail_life(service.life_id, why)?)
    }

    /// Samples until the planned end, an interrupt, or the end of the last service.
    fn sample_until_the_end(
        &mut self,
        slots: &[Slot],
        services: &mut [RunningService],
        round: &mut dyn Round,
    ) -> Result<(), LabError> {
        let started = Instant::now();
        let mut sampling = Sampling::new(&self.root, self.plan.metric, slots, started);
        let mut due = Instant::now();
        let end = self.plan.duration.map(|duration| started + duration);
        let is_over = |round: &dyn Round| round.is_over() || end.is_some_and(|end| Instant::now() >= end);
        while !is_over(round) && !self.interrupt.requested() {
            for slot in self.notice_endings(slots, services, RunningService::ended)? {
                sampling.ended(slot, services);
            }
            let process = |slot| {
                services.iter().find(|at| at.slot == slot && at.ending.is_none()).map(|at| &at.process)
            };
            let state =
                |(slot, view): (usize, &ServiceView)| SlotState { process: process(slot), cpu: view.cpu };
            let states: Vec<SlotState> = sampling.views().iter().enumerate().map(state).collect();
            if !states.iter().any(|state| state.process.is_some()) {
                break;
            }
            let mut events = round.tick(&states)?;
            let alive = services.iter_mut().filter(|service| service.ending.is_none());
            events.extend(alive.flat_map(RunningService::follow_ends));
            self.enter_all(slots, services, events)?;
            // What is read after the work is of a service at rest.
            if round.is_over() {
                break;
            }
            let tick = sampling.take(services, round, self.sequence, false);
            let (written, cost) = TickCost::measure(|| self.write(&tick));
            written?;
            round.sampled();
            let gap = sampling.wrote(&tick, cost, self.plan.tick);
            self.enter_all(slots, services, gap.into_iter().collect())?;
            self.progress.tick(&RoundView {
                elapsed: started.elapsed(),
                duration: self.plan.duration,
                course: round.course(),
                services: sampling.views(),
            });
            due = (due + self.plan.tick).max(Instant::now());
            let next = end.map_or(due, |end| due.min(end));
            if !round.is_over() {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
        if self.interrupt.requested() {
            self.outcome.interrupted = true;
            self.progress.message(
                "interrupted: the services are ended and the report is written; Ctrl-C again ends at once, without a \
                 report (heaptrial report makes one later)",
            );
        }
        // The last reading is at the end, whatever the tick, and with PSS. When the work is over, so are the samples.
        self.notice_endings(slots, services, RunningService::ended)?;
        let mut last = match round.is_over() {
            true => sampling.take_slow(services, self.sequence),
            false => sampling.take(services, round, self.sequence, true),
        };
        for service in services.iter().filter(|service| service.ending.is_none()) {
            let split = memory_split(&self.root, service.processes, &service.passed);
            let parts = split.into_iter().flat_map(|split| split.parts());
            let named = MemorySplit::OBSERVATIONS.into_iter().zip(parts);
            last.observations.extend(named.map(|(name, bytes)| (service.life_id, name, bytes as f64)));
        }
        self.write(&last)?;
        let saturation = sampling.saturation(slots.len());
        self.enter_all(slots, services, saturation.into_iter().collect())
    }

    fn enter_all(
        &mut self,
        slots: &[Slot],
        services: &[RunningService],
        events: Vec<Event>,
    ) -> Result<(), LabError> {
        for Event { slot, kind, text } in events {
            let service = slot.and_then(|slot| services.iter().find(|service| service.slot == slot));
            if let (KnownEvent::ArmFailed, Some(failed)) = (kind, service) {
                let oom_kills = failed.oom_kills();
                self.enter_end(failed.service_id, &slots[failed.slot], oom_kills, "under its load", &text)?;
                continue;
            }
            let id = service.map(|service| service.service_id);
            let named = slot.map_or_else(String::new, |slot| format!("{}: ", slots[slot].arm.arm.name));
            // A warning that is the same of further services is in the report.
            let is_new = self.printed.insert(text.clone());
            if is_new || !matches!(kind, KnownEvent::Warning | KnownEvent::Note) {
                self.enter(id, kind, &text, &format!("{named}{text}"))?;
            } else {
                let now = heaptrial_host::Instant::now().wall_us;
                self.store.add_event(self.trial_id, id, now, kind, &text)?;
            }
        }
        Ok(())
    }
}
