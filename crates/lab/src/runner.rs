//! The run: order, children, identities, samples and the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use heaptrial_allocator::{AsOn, Catalog, Expected, Obtained};
use heaptrial_host::{HostFacts, HostRoot, Process, ServiceProcesses, ServiceSampler, TickCost};
use heaptrial_model::{Arm, Ending, Identity, KnownEvent, MemorySplit, Metric, units};
use heaptrial_store::{NewTrial, READY_SECONDS, Store, TickInput};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ends::Ends;
use crate::memory_split::memory_split;
use crate::progress::{Progress, RoundView, ServiceView};
use crate::sampling::{Sampling, empty_tick};
use crate::schedule::{RoundPlan, Schedule};
use crate::service::{
    Proof, RunningService, clause, kept_command, last_words, prove_at_the_end, prove_identity,
};
use crate::supervisor::{KeptCgroup, Supervisor};
use crate::workload::{Event, Round, RoundContext, Slot, SlotState, Workload};
use crate::{Accounting, Interrupt, LabError};

/// An arm with the allocator that was obtained and verified for it.
#[derive(Debug, Clone)]
pub struct PreparedArm {
    pub arm: Arm,
    /// The allocator it runs under; the host's C library where the treatment names none.
    pub obtained: Obtained,
}

impl PreparedArm {
    /// What a process of its services must run: of an arm that names no allocator, what the program has.
    pub(crate) fn expected(&self, found: &Identity) -> Expected {
        if self.arm.treatment.allocator.is_some() {
            return self.obtained.expected();
        }
        let given = &self.arm.treatment.environment;
        let own = found.settings.iter().filter(|(name, value)| given.get(*name) == Some(*value));
        Expected::as_it_is(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// A lab run that is ready to start.
#[derive(Debug)]
pub struct LabPlan {
    pub name: String,
    /// The arms with their allocators; exactly one is the control.
    pub arms: Vec<PreparedArm>,
    pub repeats: u32,
    /// How long each service lives at most. Without it the workload decides when it is done.
    pub duration: Option<Duration>,
    pub tick: Duration,
    pub metric: Metric,
    /// Where the figures of anonymous memory come from.
    pub accounting: Accounting,
    /// Memory and swap that each service may have at most, in bytes. Needs control groups.
    pub memory_limit_bytes: Option<u64>,
    pub seed: u64,
    /// As on how many processors the arms' allocators run; `None` is as on those that are there. The arms were obtained
    /// with what that needs ([`heaptrial_allocator::Catalog::as_on`]).
    pub processors: Option<u32>,
    /// The command that repeats the run.
    pub command: String,
    /// The run's folder, which exists.
    pub folder: PathBuf,
    /// The run's database, which need not exist.
    pub database: PathBuf,
    /// The program whose internal command [`crate::SUPERVISOR_COMMAND`] is the supervisor.
    pub supervisor: PathBuf,
    /// The userland that all of it runs in, in words, where that is not the host's.
    pub userland: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Row id of the trial in the run's database.
    pub trial_id: i64,
    pub interrupted: bool,
    /// Services whose treatment was not proved or that did not live to the end.
    pub failed_services: usize,
    /// Measures of work that were asked for, and whether some service gave a figure of each.
    pub work_read: BTreeMap<String, bool>,
}

impl RunOutcome {
    /// With what became of another part of the run.
    pub fn add(&mut self, part: Self) {
        self.interrupted |= part.interrupted;
        self.failed_services += part.failed_services;
        for (name, read) in part.work_read {
            *self.work_read.entry(name).or_default() |= read;
        }
    }

    /// Measures of work of which no service gave a figure.
    pub fn unread_work(&self) -> Vec<&str> {
        self.work_read.iter().filter(|(_, read)| !**read).map(|(name, _)| name.as_str()).collect()
    }
}

impl LabPlan {
    pub fn schedule(&self, workload: &dyn Workload) -> Schedule {
        let control = self.arms.iter().position(|prepared| prepared.arm.control).unwrap_or(0);
        Schedule::draw(self.arms.len(), control, self.repeats, workload.arrangement(), self.seed)
    }

    /// The control group that each service gets.
    fn cgroup(&self) -> Option<KeptCgroup> {
        let place = match &self.accounting {
            Accounting::Cgroup(place) => Some(place.clone()),
            Accounting::Scope => None,
            Accounting::Processes { .. } => return None,
        };
        Some(KeptCgroup { place, limit_bytes: self.memory_limit_bytes })
    }

    /// How each arm's allocator runs as on the number of processors asked for.
    fn as_on(&self) -> BTreeMap<&str, AsOn> {
        let as_on = |prepared: &'_ PreparedArm| {
            self.processors.map(|number| Catalog::builtin().as_on(&prepared.arm.allocator(), number))
        };
        self.arms.iter().filter_map(|arm| Some((arm.arm.name.as_str(), as_on(arm)?))).collect()
    }

    fn parameters(&self, workload: &dyn Workload) -> Value {
        let mut parameters = workload.parameters();
        // Processors that services see are those that this process may run on.
        let seen = rustix::thread::sched_getaffinity(None).ok().map(|set| set.count());
        let as_on: BTreeMap<&str, String> =
            self.as_on().into_iter().map(|(arm, as_on)| (arm, as_on.how)).collect();
        parameters["processors"] = match self.processors {
            Some(number) => json!({ "seen": seen, "as_on": number, "arms": as_on }),
            None => json!({ "seen": seen }),
        };
        parameters["memory_accounting"] = self.accounting.describe();
        if let Some(bytes) = self.memory_limit_bytes {
            parameters["memory_limit_bytes"] = bytes.into();
        }
        parameters
    }
}

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
        let cgroup = sampler.cgroup().cloned();
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

    /// Enters that a service ended by itself. That it does not live under its memory limit is a result, anything else a failure.
    fn enter_end(
        &mut self,
        service_id: i64,
        slot: &Slot,
        oom_kills: u64,
        when: &str,
        otherwise: &str,
    ) -> Result<(), LabError> {
        match (self.plan.memory_limit_bytes, oom_kills) {
            (Some(limit), 1..) => {
                let limit = units::memory(limit as f64);
                self.enter_too_large(
                    service_id,
                    slot,
                    &format!("does not live under {limit}: OOM-killed {when}"),
                )
            }
            (None, 1..) => {
                let text = format!(
                    "was OOM-killed {when}, without a --memory-limit: this machine, or the control group that the run is in, has \
                     too little memory"
                );
                self.fail(service_id, slot, &text)
            }
            _ => self.fail(service_id, slot, otherwise),
        }
    }

    fn enter_too_large(&mut self, service_id: i64, slot: &Slot, why: &str) -> Result<(), LabError> {
        let text = format!("{} ({}) {why}", slot.arm.arm.name, slot.service);
        self.enter(Some(service_id), KnownEvent::OomKill, &text, &text)
    }

    /// Enters what is known of a service's processes at its end: crashes, sharing, its memory limit. Returns further events.
    fn account_for_processes(
        &mut self,
        slot: &Slot,
        service: &mut RunningService,
    ) -> Result<Vec<Event>, LabError> {
        let mut events = service.follow_ends();
        let event = |kind, text| Event { slot: Some(service.slot), kind, text };
        if let Some(why) = service.ends.crash() {
            self.fail_life(service, slot, &why)?;
        }
        let limit = self.plan.memory_limit_bytes.map(|bytes| units::memory(bytes as f64));
        if let Some((pid, group)) = service.sampler.outside() {
            let why = format!(
                "its process {pid} was in another control group ({group}), so what it used is in no figure and under no limit"
            );
            self.fail_life(service, slot, &why)?;
        }
        if let (Some(why), true) = (self.plan.accounting.why_none(), service.several) {
            let text = format!(
                "its figures are the sum over its processes, in which pages that they share count once for each: they are not \
                 those of a control group ({why})"
            );
            events.push(event(KnownEvent::Warning, text));
        }
        if service.several && !service.supervisor.as_ref().is_none_or(Supervisor::ends_seen) {
            let text = "crashes of processes other than its main one are not seen: the kernel reports them only to those who may \
                        administer the host's own network, as root may";
            events.push(event(KnownEvent::Warning, text.to_owned()));
        }
        if let (Some(limit), Some(cgroup)) = (limit, &service.cgroup) {
            let kills = service.oom_kills();
            if kills > 0 {
                let why = format!("does not live under {limit}: {kills} of its processes were OOM-killed");
                self.enter_too_large(service.service_id, slot, &why)?;
                self.store.fail_life(service.life_id, &why)?;
            } else if service.sampler.outside().is_none() {
                let times = cgroup.times_at_limit().unwrap_or(0);
                let text = format!("lives under {limit}, which it reached {times} times");
                events.push(event(KnownEvent::Note, text));
            }
        }
        Ok(events)
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

    /// Enters in the ledger what `ended` by itself; returns the slots.
    fn notice_endings(
        &mut self,
        slots: &[Slot],
        services: &mut [RunningService],
        ended: impl Fn(&mut RunningService) -> Option<Ending>,
    ) -> Result<Vec<usize>, LabError> {
        let mut noticed = Vec::new();
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let Some(ending) = ended(service) else { continue };
            let at =
                service.supervisor.as_ref().map_or_else(heaptrial_host::Instant::now, Supervisor::ended_at);
            self.store.end_life(service.life_id, (at.wall_us, at.boottime_us), &ending)?;
            let age = (at.boottime_us - service.started.boottime_us) as f64 / 1e6;
            let planned = self.plan.duration.map(|planned| format!(" of {}", planned.as_secs_f64()));
            let after = format!("after {age:.1}{} s", planned.unwrap_or_default());
            // A crash of another process of it may be why it ended.
            service.follow_ends();
            let crash = service.ends.crash().map_or_else(String::new, |crash| format!("; {crash}"));
            let otherwise = format!("{} {after}{crash}{}", clause(&ending), last_words(&service.stderr));
            let (id, slot) = (service.service_id, &slots[service.slot]);
            self.enter_end(id, slot, service.oom_kills(), &after, &otherwise)?;
            service.ending = Some(ending);
            // Ends what the service left behind.
            service.supervisor.take();
            noticed.push(service.slot);
        }
        Ok(noticed)
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

    /// Ends what still lives, after a last look at its identity. The first error comes back when all is ended.
    fn end(&mut self, slots: &[Slot], services: &mut [RunningService]) -> Result<(), LabError> {
        let mut results = vec![self.notice_endings(slots, services, RunningService::ended_at_last).map(drop)];
        let mut events = Vec::new();
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let slot = &slots[service.slot];
            results.push(self.prove_again(slot, service));
            match self.account_for_processes(slot, service) {
                Ok(found) => events.extend(found),
                Err(error) => results.push(Err(error)),
            }
            if let Some(supervisor) = &mut service.supervisor {
                supervisor.ask_to_end();
            }
        }
        results.push(self.enter_all(slots, services, events));
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            results.push(self.close(&slots[service.slot], service));
        }
        results.into_iter().collect()
    }

    fn prove_again(&mut self, slot: &Slot, service: &RunningService) -> Result<(), LabError> {
        match prove_at_the_end(&self.root, service.processes, &slot.arm, &service.passed) {
            Ok(identity) => {
                self.see_control(slot, Control::Proved);
                if identity.is_some() {
                    self.store.set_identity(service.life_id, identity.as_ref(), None)?;
                }
            }
            Err(why) => {
                self.see_control(slot, Control::Refuted);
                self.outcome.failed_services += 1;
                self.progress.message(&format!("{} {why}", slot.service));
                self.store.contaminate(service.life_id, &why)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, slot: &Slot, service: &mut RunningService) -> Result<(), LabError> {
        let ending = if self.interrupt.requested() { Ending::Interrupted } else { Ending::Planned };
        let ends = service.supervisor.take().map_or(Ok(Vec::new()), Supervisor::close);
        self.end_life_now(service.life_id, &ending)?;
        service.ending = Some(ending);
        let crash = Ends::crash_when_asked(&ends?, service.end.signal.signal().as_raw());
        match crash.filter(|_| !self.interrupt.requested()) {
            Some(crash) => {
                let why = format!("crashed when it was asked to end (SIG{}): {crash}", service.end.signal);
                self.fail_life(service, slot, &why)
            }
            None => Ok(()),
        }
    }
}
