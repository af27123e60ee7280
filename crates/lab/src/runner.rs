//! The run: order, children, identities, samples and the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use heaptrial_host::{HostFacts, HostRoot, Process, ServiceProcesses, ServiceSampler, TickCost};
use heaptrial_model::{Ending, KnownEvent, MemorySplit, Metric, units};
use heaptrial_store::{NewTrial, READY_SECONDS, Store, TickInput};

use crate::end_watch::ProcessEnd;
use crate::ends::Ends;
use crate::memory_split::memory_split;
use crate::processors::{not_as_on, with_processors};
use crate::progress::{Progress, RoundView, ServiceView};
use crate::sampling::{Sampling, empty_tick};
use crate::schedule::{RoundPlan, Schedule};
use crate::service::{
    RunningService, When, clause, ending_of, kept_command, last_words, prove_at_the_end, prove_identity,
};
use crate::sharing::Sharing;
use crate::supervisor::{KeptCgroup, Supervisor, SupervisorMessage};
use crate::workload::{Event, Round, RoundContext, Slot, SlotState, Workload};
use crate::{Accounting, Inside, Interrupt, LabError, PreparedArm};

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
    /// The userland that all of it runs in, where that is not the host's.
    pub userland: Option<Inside>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// Row id of the trial in the run's database.
    pub trial_id: i64,
    pub interrupted: bool,
    /// Services whose treatment was not proved or that did not live to the end.
    pub failed_services: usize,
    /// Services that the kernel killed processes of for want of memory, without a limit of the run's own.
    pub out_of_memory: usize,
    /// Measures of work that were asked for, and whether some service told anything of each.
    pub work_read: BTreeMap<String, bool>,
}

impl RunOutcome {
    /// Measures of work of which no service told anything.
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
}

/// Carries out a lab run: every round in turn. Ends all children before it returns, also on an error.
pub fn run(
    plan: &LabPlan,
    workload: &dyn Workload,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, LabError> {
    run_part(plan, workload, None, interrupt, progress)
}

/// Carries out one block of a lab run, as a run of all blocks would have: the same services, seeds, order and numbers. The
/// database then has that block alone.
pub fn run_block(
    plan: &LabPlan,
    workload: &dyn Workload,
    block: u32,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, LabError> {
    run_part(plan, workload, Some(block), interrupt, progress)
}

fn run_part(
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
    facts.userland = plan.userland.as_ref().map(ToString::to_string);
    let mut parameters = with_processors(workload.parameters(), plan);
    // The group of a service has all of its processes.
    let counted = parameters.get("count").map(|pattern| format!("only processes like {pattern} count"));
    parameters["memory_accounting"] = match counted {
        Some(why) if plan.accounting.why_none().is_none() => Accounting::Processes { why }.describe(),
        _ => plan.accounting.describe(),
    };
    if let Some(bytes) = plan.memory_limit_bytes {
        parameters["memory_limit_bytes"] = bytes.into();
    }
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
        parameters,
        command: plan.command.clone(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: heaptrial_host::Instant::now().wall_us,
    })?;
    for (arm_id, prepared) in arm_ids.iter().zip(&plan.arms) {
        store.set_obtained(*arm_id, &serde_json::to_value(&prepared.obtained).unwrap_or_default())?;
    }
    for text in not_as_on(plan) {
        progress.message(&text);
        store.add_event(
            trial_id,
            None,
            heaptrial_host::Instant::now().wall_us,
            KnownEvent::Warning,
            &text,
        )?;
    }
    let mut run = Run {
        plan,
        root,
        logs,
        store,
        trial_id,
        arm_ids,
        sequence: 0,
        positions: 0,
        ready: BTreeSet::new(),
        never_ready: BTreeSet::new(),
        printed: BTreeSet::new(),
        interrupt,
        progress,
        control: Control::NotSeen,
        outcome: RunOutcome {
            trial_id,
            interrupted: false,
            failed_services: 0,
            out_of_memory: 0,
            work_read: BTreeMap::new(),
        },
    };
    let result = run.all_rounds(workload, block);
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
    /// Arms whose service was ready once, and arms whose service waited in vain to be.
    ready: BTreeSet<i64>,
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
                self.progress.message(text);
                let now = heaptrial_host::Instant::now().wall_us;
                self.store.add_event(self.trial_id, None, now, KnownEvent::Warning, text)?;
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
            services.extend(self.start(
                index,
                slot,
                self.arm_ids[plan.arms[index]],
                plan.block,
                round.as_mut(),
            )?);
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
        let told = sampled.and_then(|()| self.take_last_work(&services, round.as_ref()));
        // Children are ended and entered in the ledger whether or not sampling failed.
        let ended = self.end(&slots, &mut services);
        told.and(ended)?;
        self.tell(&slots, &services, events)
    }

    /// Stores what was told of the services' work when their load ended.
    fn take_last_work(&mut self, services: &[RunningService], round: &dyn Round) -> Result<(), LabError> {
        let now = heaptrial_host::Instant::now();
        let of = |service: &RunningService| {
            let life = service.life_id;
            round.work(service.slot).into_iter().map(move |(name, value)| (life, name, value))
        };
        let work: Vec<_> = services.iter().flat_map(of).collect();
        if work.is_empty() {
            return Ok(());
        }
        let tick = TickInput { work, ..empty_tick(self.sequence, now) };
        self.sequence += 1;
        Ok(self.store.write_tick(self.trial_id, &tick)?)
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
        let mut attributes = serde_json::Map::new();
        if let Some(bytes) = self.plan.memory_limit_bytes {
            attributes.insert("memory_max_bytes".to_owned(), bytes.into());
            self.store.set_attributes(service_id, &attributes.clone().into())?;
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
        let counted = launch.counted.clone();
        let command = kept_command(slot, launch, &self.logs, self.plan.cgroup());
        let started = heaptrial_host::Instant::now();
        let (supervisor, key) =
            match Supervisor::start(&self.plan.supervisor, &self.plan.accounting, &command) {
                Ok(kept) => kept,
                Err(LabError::Supervisor { problem, .. }) => {
                    self.fail(service_id, slot, &format!("could not be started: {problem}"))?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
        let process = Process::new(&self.root, key.pid);
        let at = (started.wall_us, started.boottime_us);
        let proof = prove_identity(&process, &supervisor, slot, &command, self.interrupt);
        let life_id = self.store.add_life(
            service_id,
            &key,
            at,
            proof.identity.as_ref(),
            proof.contamination.as_deref(),
        )?;
        if let Some(why) = &proof.contamination {
            self.see_control(slot, Control::Refuted);
            // Nothing that it does would count.
            self.fail(service_id, slot, &format!("its treatment did not take: {why}"))?;
            supervisor.close()?;
            let now = heaptrial_host::Instant::now();
            self.store.end_life(life_id, (now.wall_us, now.boottime_us), &Ending::Interrupted)?;
            return Ok(None);
        }
        let processes = ServiceProcesses::kept_by(supervisor.pid(), key.pid);
        let sampler = ServiceSampler::of(&self.root, processes, supervisor.group().cloned());
        let ending = match (&proof.ended, &sampler) {
            (Some(ending), _) => Some(ending.clone()),
            (None, Err(_)) => supervisor.wait_for_end().and_then(ending_of),
            (None, Ok(_)) => None,
        };
        if let Some(ending) = ending {
            let now = heaptrial_host::Instant::now();
            self.store.end_life(life_id, (now.wall_us, now.boottime_us), &ending)?;
            let hint = match ending {
                Ending::Exited(_) => "; a program must stay in the foreground for longer than --duration",
                Ending::ForkedAway => {
                    "; start it in the foreground, for instance with its option against running as a daemon"
                }
                _ => "",
            };
            if ending != Ending::Interrupted {
                let otherwise = format!("{}{hint}{}", clause(&ending), last_words(&command.stderr));
                self.enter_end(service_id, slot, supervisor.oom_kills(), "as it started", &otherwise)?;
            }
            return Ok(None);
        }
        let mut sampler = sampler?;
        let cgroup = sampler.cgroup().cloned();
        counted.into_iter().for_each(|pattern| sampler.count_only(pattern));
        let service = RunningService {
            slot: index,
            service_id,
            life_id,
            process,
            processes,
            started,
            sampler,
            cgroup,
            ends: Ends::default(),
            sharing: Sharing::default(),
            supervisor: Some(supervisor),
            ending: None,
            stderr: command.stderr,
            end: command.end,
            passed: command.environment.into_iter().collect(),
            unread: (0, None),
        };
        match round.ready(index, &|| service.is_alive()) {
            Ok(ages_count_now) => {
                self.ready.insert(arm_id);
                if ages_count_now {
                    let now = heaptrial_host::Instant::now();
                    let seconds = (now.boottime_us - service.started.boottime_us) as f64 / 1e6;
                    attributes.insert(READY_SECONDS.to_owned(), seconds.into());
                    self.store.set_attributes(service_id, &attributes.into())?;
                    let text = format!("it was ready after {seconds:.1} s; its age counts from then");
                    self.store.add_event(
                        self.trial_id,
                        Some(service_id),
                        now.wall_us,
                        KnownEvent::Note,
                        &text,
                    )?;
                }
                Ok(Some(service))
            }
            Err(why) => {
                let now = heaptrial_host::Instant::now();
                let ending = service.ended(When::AtTheEnd).unwrap_or(Ending::Interrupted);
                self.store.end_life(life_id, (now.wall_us, now.boottime_us), &ending)?;
                if !self.interrupt.requested() {
                    // Without a control nothing can be compared, and another wait would be as long.
                    if ending == Ending::Interrupted && !self.ready.contains(&arm_id) {
                        self.never_ready.insert(arm_id);
                        self.see_control(slot, Control::Refuted);
                    }
                    let how = match ending {
                        Ending::Interrupted => String::new(),
                        ending => format!("; it {}", clause(&ending)),
                    };
                    let otherwise = format!("{why}{how}{}", last_words(&service.stderr));
                    self.enter_end(service_id, slot, service.oom_kills(), "before it was ready", &otherwise)?;
                }
                Ok(None)
            }
        }
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
        self.progress.message(&text);
        let now = heaptrial_host::Instant::now().wall_us;
        Ok(self.store.add_event(self.trial_id, Some(service_id), now, KnownEvent::ArmFailed, &text)?)
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
                let text = format!("does not live under {limit}: OOM-killed {when}");
                self.outlived(service_id, slot, &text)
            }
            (None, 1..) => {
                self.outcome.out_of_memory += 1;
                let text = format!(
                    "was OOM-killed {when}, without a --memory-limit: this machine, or the control group that the run is in, has \
                     too little memory"
                );
                self.fail(service_id, slot, &text)
            }
            _ => self.fail(service_id, slot, otherwise),
        }
    }

    fn outlived(&mut self, service_id: i64, slot: &Slot, why: &str) -> Result<(), LabError> {
        let text = format!("{} ({}) {why}", slot.arm.arm.name, slot.service);
        self.progress.message(&text);
        let now = heaptrial_host::Instant::now().wall_us;
        Ok(self.store.add_event(self.trial_id, Some(service_id), now, KnownEvent::OomKill, &text)?)
    }

    /// Enters what is known of a service's processes at its end: crashes, sharing, its memory limit.
    fn account_for_processes(
        &mut self,
        slot: &Slot,
        service: &mut RunningService,
    ) -> Result<Vec<Event>, LabError> {
        let mut events = service.follow_ends(self.plan.tick);
        let at = Some(service.slot);
        let warning = |text| Event { slot: at, kind: KnownEvent::Warning, text };
        if let Some(why) = service.ends.crash() {
            self.fail(service.service_id, slot, &why)?;
            self.store.fail_life(service.life_id, &why)?;
        }
        let counted = service.sampler.counted().map(|pattern| format!("only processes like {pattern} count"));
        let why_no_cgroup = self.plan.accounting.why_none().or(counted.as_deref());
        events
            .extend(service.ends.warnings(why_no_cgroup.is_none(), self.plan.tick).into_iter().map(warning));
        if let Some(pattern) = service.sampler.never_counted() {
            let lines = service.command_lines(&self.root);
            let why = format!(
                "no process of it has a command line like --count '{pattern}', so nothing of it was read; there were: {lines}"
            );
            self.fail(service.service_id, slot, &why)?;
        } else if let (times @ 1.., Some(why)) = &service.unread {
            events.push(warning(format!(
                "it could not be read at {times} ticks, at the first because of: {why}"
            )));
        }
        let limit = self.plan.memory_limit_bytes.map(|bytes| units::memory(bytes as f64));
        // Figures of processes that count are their own.
        let outside = service.sampler.outside().filter(|_| counted.is_none() || limit.is_some());
        if let Some((pid, group)) = outside {
            let without = match &limit {
                Some(limit) => format!("was not under the limit of {limit}"),
                None => "is in none of its figures".to_owned(),
            };
            let why =
                format!("its process {pid} was in another control group ({group}): what it used {without}");
            self.fail(service.service_id, slot, &why)?;
            self.store.fail_life(service.life_id, &why)?;
        }
        for program in service.own_heaps(&self.root) {
            let text = format!(
                "{program} keeps its objects in a heap that it maps itself, which no allocator gives: arms can differ by the rest alone"
            );
            events.push(Event { slot: at, kind: KnownEvent::Note, text });
        }
        let ends_seen = service.supervisor.as_ref().is_none_or(Supervisor::ends_seen);
        if service.sharing.several && !ends_seen {
            let text = "the kernel does not tell here of every end of its processes (that needs one with the process \
                        connector, and the right to administer the host's own network, as root has it): crashes that a \
                        parent of theirs collects are not seen";
            events.push(warning(text.to_owned()));
        }
        events.extend(service.sharing.events(service.slot, self.plan.metric, why_no_cgroup));
        let kills = service.oom_kills();
        self.outcome.out_of_memory += usize::from(limit.is_none() && kills > 0);
        if let (Some(limit), Some(cgroup)) = (limit, &service.cgroup) {
            if kills > 0 {
                let why = format!("does not live under {limit}: {kills} of its processes were OOM-killed");
                self.outlived(service.service_id, slot, &why)?;
                self.store.fail_life(service.life_id, &why)?;
            } else if service.sampler.outside().is_none() {
                let times = cgroup.times_at_limit().unwrap_or(0);
                let text = format!("lives under {limit}, which it reached {times} times");
                events.push(Event { slot: at, kind: KnownEvent::Note, text });
            }
        }
        Ok(events)
    }

    /// Enters what was told of a service's processes since it was asked to end.
    fn account_for_the_end(
        &mut self,
        slot: &Slot,
        service: &RunningService,
        told: &[SupervisorMessage],
    ) -> Result<(), LabError> {
        let asked_by = i32::from(service.end.signal);
        let main = service.process.pid();
        let mut crashes: BTreeMap<i32, String> = BTreeMap::new();
        for message in told {
            match message {
                SupervisorMessage::ProcessEnded(end) => {
                    crashes.extend(Ends::crash_when_asked(end, asked_by).map(|why| (end.pid, why)));
                }
                // Where the kernel does not tell of ends, the supervisor does of this one.
                SupervisorMessage::Ended { code, signal, at_boottime_us, .. }
                    if !crashes.contains_key(&main) =>
                {
                    let (code, signal, at_boottime_us) = (*code, *signal, *at_boottime_us);
                    let program = String::new();
                    let end = ProcessEnd { pid: main, program, code, signal, lived: None, at_boottime_us };
                    crashes.extend(Ends::crash_when_asked(&end, asked_by).map(|why| (main, why)));
                }
                SupervisorMessage::Outlasted(left) => {
                    let (grace, signal) = (service.end.grace.as_secs_f64(), service.end.signal);
                    let text = format!(
                        "{left} of its processes had not ended {grace} s after they were asked to (SIG{signal}), and were killed"
                    );
                    self.progress.message(&format!("{}: {text}", slot.arm.arm.name));
                    let now = heaptrial_host::Instant::now().wall_us;
                    let id = Some(service.service_id);
                    self.store.add_event(self.trial_id, id, now, KnownEvent::Warning, &text)?;
                }
                _ => {}
            }
        }
        let Some(first) = crashes.values().next().filter(|_| !self.interrupt.requested()) else {
            return Ok(());
        };
        let more = match crashes.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more of its processes crashed"),
        };
        let why = format!("crashed when it was asked to end (SIG{}): {first}{more}", service.end.signal);
        self.fail(service.service_id, slot, &why)?;
        Ok(self.store.fail_life(service.life_id, &why)?)
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
            for slot in self.notice_endings(slots, services, When::Now)? {
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
            events.extend(alive.flat_map(|service| service.follow_ends(self.plan.tick)));
            self.tell(slots, services, events)?;
            // What is read after the work is of a service at rest.
            if round.is_over() {
                break;
            }
            let tick = sampling.take(services, round, self.sequence);
            let (written, cost) = TickCost::measure(|| self.store.write_tick(self.trial_id, &tick));
            written?;
            self.sequence += 1;
            round.sampled();
            let gap = sampling.wrote(&tick, cost, self.plan.tick);
            self.tell(slots, services, gap.into_iter().collect())?;
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
            self.progress.message(
                "interrupted: the services are ended and the report is written; Ctrl-C again ends at once, without a \
                 report (heaptrial report makes one later)",
            );
        }
        // The last reading is at the end, whatever the tick, and with PSS. When the work is over, so are the samples.
        self.notice_endings(slots, services, When::Now)?;
        let mut last = match round.is_over() {
            true => sampling.take_slow(services, self.sequence),
            false => sampling.take_last(services, round, self.sequence),
        };
        for service in services.iter().filter(|service| service.ending.is_none()) {
            let split = memory_split(&self.root, service.processes, &service.passed);
            let parts = split.into_iter().flat_map(|split| split.parts());
            let named = MemorySplit::OBSERVATIONS.into_iter().zip(parts);
            last.observations.extend(named.map(|(name, bytes)| (service.life_id, name, bytes as f64)));
        }
        self.store.write_tick(self.trial_id, &last)?;
        self.sequence += 1;
        self.outcome.interrupted |= self.interrupt.requested();
        let saturation = sampling.saturation(slots.len());
        self.tell(slots, services, saturation.into_iter().collect())
    }

    /// Enters in the ledger what ended by itself; gives the slots.
    fn notice_endings(
        &mut self,
        slots: &[Slot],
        services: &mut [RunningService],
        when: When,
    ) -> Result<Vec<usize>, LabError> {
        let mut noticed = Vec::new();
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let Some(ending) = service.ended(when) else { continue };
            let at =
                service.supervisor.as_ref().map_or_else(heaptrial_host::Instant::now, Supervisor::ended_at);
            self.store.end_life(service.life_id, (at.wall_us, at.boottime_us), &ending)?;
            let age = (at.boottime_us - service.started.boottime_us) as f64 / 1e6;
            let planned = self.plan.duration.map(|planned| format!(" of {}", planned.as_secs_f64()));
            let after = format!("after {age:.1}{} s", planned.unwrap_or_default());
            let slot = &slots[service.slot];
            // What a process of it died of may be why it ended.
            service.follow_ends(self.plan.tick);
            let crash = service.ends.crash().map_or_else(String::new, |crash| format!("; {crash}"));
            let otherwise = format!("{} {after}{crash}{}", clause(&ending), last_words(&service.stderr));
            self.enter_end(service.service_id, slot, service.oom_kills(), &after, &otherwise)?;
            service.ending = Some(ending);
            // Ends what the service left behind.
            service.supervisor.take();
            noticed.push(service.slot);
        }
        Ok(noticed)
    }

    fn tell(
        &mut self,
        slots: &[Slot],
        services: &[RunningService],
        events: Vec<Event>,
    ) -> Result<(), LabError> {
        for event in events {
            if let (KnownEvent::ArmFailed, Some(slot)) = (event.kind, event.slot) {
                if let Some(failed) = services.iter().find(|service| service.slot == slot) {
                    let (id, oom_kills) = (failed.service_id, failed.oom_kills());
                    self.enter_end(id, &slots[slot], oom_kills, "under its load", &event.text)?;
                }
                continue;
            }
            let service = event.slot.and_then(|slot| services.iter().find(|service| service.slot == slot));
            let named = event.slot.map(|slot| format!("{}: ", slots[slot].arm.arm.name));
            // What is the same of further services is in the report.
            let is_new = self.printed.insert(event.text.clone());
            if is_new || !matches!(event.kind, KnownEvent::Warning | KnownEvent::Note) {
                self.progress.message(&format!("{}{}", named.unwrap_or_default(), event.text));
            }
            let now = heaptrial_host::Instant::now().wall_us;
            let id = service.map(|service| service.service_id);
            self.store.add_event(self.trial_id, id, now, event.kind, &event.text)?;
        }
        Ok(())
    }

    /// Ends what still lives, after a last look at its identity.
    fn end(&mut self, slots: &[Slot], services: &mut [RunningService]) -> Result<(), LabError> {
        let mut first_error = self.notice_endings(slots, services, When::AtTheEnd).err();
        let mut events = Vec::new();
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let arm = &slots[service.slot].arm;
            let proved = prove_at_the_end(&self.root, service.processes, arm, &service.passed);
            let entered = match proved {
                Ok(identity) => {
                    self.see_control(&slots[service.slot], Control::Proved);
                    match identity {
                        Some(identity) => self.store.set_identity(service.life_id, Some(&identity), None),
                        None => Ok(()),
                    }
                }
                Err(why) => {
                    self.see_control(&slots[service.slot], Control::Refuted);
                    self.outcome.failed_services += 1;
                    self.progress.message(&format!("{} {why}", slots[service.slot].service));
                    self.store.contaminate(service.life_id, &why)
                }
            };
            if let Err(error) = entered {
                first_error.get_or_insert(error.into());
            }
            match self.account_for_processes(&slots[service.slot], service) {
                Ok(found) => events.extend(found),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
            if let Some(supervisor) = &mut service.supervisor {
                supervisor.ask_to_end();
            }
        }
        if let Err(error) = self.tell(slots, services, events) {
            first_error.get_or_insert(error);
        }
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let closed = service.supervisor.take().map_or(Ok(Vec::new()), Supervisor::close);
            let closed =
                closed.and_then(|told| self.account_for_the_end(&slots[service.slot], service, &told));
            let ending = if self.interrupt.requested() { Ending::Interrupted } else { Ending::Planned };
            let now = heaptrial_host::Instant::now();
            let entered = self.store.end_life(service.life_id, (now.wall_us, now.boottime_us), &ending);
            service.ending = Some(ending);
            if let Some(error) = closed.err().or(entered.err().map(LabError::from)) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}
