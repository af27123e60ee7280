//! The run: order, children, identities, samples and the ledger.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use heaptrial_host::{
    CpuUsage, HostFacts, HostRoot, Process, ProcessTree, ServiceSampler, SlowBudget, TickCost,
};
use heaptrial_model::{Ending, Metric};
use heaptrial_store::{NewTrial, Store, TickInput};

use crate::keeper::Keeper;
use crate::progress::{Progress, RoundView, ServiceView};
use crate::schedule::{RoundPlan, Schedule};
use crate::service::{RunningService, ending_of, kept_command, last_words, prove_identity};
use crate::workload::{Event, Round, RoundContext, Slot, Workload};
use crate::{Interrupt, LabError, PreparedArm};

/// `smaps_rollup` stalls the process that it reads: it may take this share of the time.
const SLOW_SHARE: f64 = 0.002;
const SLOW_LEAST_GAP: Duration = Duration::from_secs(10);
/// The process tree is read anew this often, beside the samples of known processes.
const TREE_GAP: Duration = Duration::from_secs(1);
/// Above this share of all processors the run is called saturated.
const SATURATED_SHARE: f64 = 0.95;
/// A gap of this many ticks is recorded.
const GAP_TICKS: u32 = 3;

/// A lab run that is ready to start.
#[derive(Debug)]
pub struct LabPlan {
    /// Its name.
    pub name: String,
    /// The arms with their allocators; exactly one is the control.
    pub arms: Vec<PreparedArm>,
    /// Repeats of each arm.
    pub repeats: u32,
    /// How long each service lives.
    pub duration: Duration,
    /// Time between samples.
    pub tick: Duration,
    /// Which reading is compared.
    pub metric: Metric,
    /// Seed of everything random.
    pub seed: u64,
    /// The command that repeats the run.
    pub command: String,
    /// The run's folder, which exists.
    pub folder: PathBuf,
    /// The program whose hidden subcommand [`crate::KEEPER_COMMAND`] is the keeper.
    pub keeper: PathBuf,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// Row id of the trial in the run's database.
    pub trial_id: i64,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Services whose treatment was not proved or that did not live to the end.
    pub failed_services: usize,
    /// Services that did.
    pub complete_services: usize,
}

impl LabPlan {
    /// The run's database.
    pub fn database(&self) -> PathBuf {
        self.folder.join("heaptrial.db")
    }
}

/// Carries out a lab run: every round in turn. Ends all children before it returns, also on an error.
pub fn run(
    plan: &LabPlan,
    workload: &dyn Workload,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, LabError> {
    let logs = plan.folder.join("logs");
    std::fs::create_dir_all(&logs).map_err(LabError::file(&logs))?;
    let root = HostRoot::default();
    let facts = HostFacts::read(&root)?;
    let mut store = Store::create(&plan.database())?;
    let (trial_id, arm_ids) = store.begin_trial(&NewTrial {
        name: plan.name.clone(),
        kind: workload.kind().to_owned(),
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(&facts).unwrap_or_default(),
        metric: plan.metric,
        seed: plan.seed,
        repeats: plan.repeats,
        planned_us: plan.duration.as_micros() as i64,
        arms: plan.arms.iter().map(|prepared| prepared.arm.clone()).collect(),
        parameters: workload.parameters(),
        command: plan.command.clone(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: heaptrial_host::Instant::now().wall_us,
    })?;
    for (arm_id, prepared) in arm_ids.iter().zip(&plan.arms) {
        store.set_obtained(*arm_id, &serde_json::to_value(&prepared.obtained).unwrap_or_default())?;
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
        interrupt,
        progress,
        outcome: RunOutcome { trial_id, interrupted: false, failed_services: 0, complete_services: 0 },
    };
    let result = run.all_rounds(workload);
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
    interrupt: &'a Interrupt,
    progress: &'a mut dyn Progress,
    outcome: RunOutcome,
}

impl Run<'_> {
    fn all_rounds(&mut self, workload: &dyn Workload) -> Result<(), LabError> {
        let schedule =
            Schedule::draw(self.plan.arms.len(), self.plan.repeats, workload.arrangement(), self.plan.seed);
        let count = schedule.rounds.len();
        for (number, round) in schedule.rounds.iter().enumerate() {
            if self.interrupt.requested() {
                self.outcome.interrupted = true;
                break;
            }
            self.progress.round(number + 1, count, round.repeat);
            self.one_round(workload, round)?;
            self.progress.round_ended();
        }
        Ok(())
    }

    fn one_round(&mut self, workload: &dyn Workload, plan: &RoundPlan) -> Result<(), LabError> {
        let slots: Vec<Slot> = plan.arms.iter().map(|arm| self.slot(*arm, plan.repeat)).collect();
        let context = RoundContext {
            repeat: plan.repeat,
            // Splitmix's odd constant keeps the seeds of neighbouring repeats apart.
            seed: self.plan.seed ^ u64::from(plan.repeat).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            duration: self.plan.duration,
            slots: &slots,
            folder: &self.plan.folder,
            interrupt: self.interrupt,
        };
        let mut round = workload.begin(&context)?;
        let started = Instant::now();
        let mut services = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            services.extend(self.start(
                index,
                slot,
                self.arm_ids[plan.arms[index]],
                plan.repeat,
                round.as_ref(),
            )?);
        }
        let sampled = self.sample_until_the_end(&slots, &mut services, round.as_mut(), started);
        let events = round.finish();
        self.tell(&services, events)?;
        // Children are ended and entered in the ledger whether or not sampling failed.
        let ended = self.end(&slots, &mut services);
        sampled?;
        ended
    }

    fn slot(&self, arm: usize, repeat: u32) -> Slot {
        // Names of arms may hold anything printable; names of services become file names.
        let service = format!("arm{}-repeat{}", arm + 1, repeat + 1);
        Slot { service, arm: self.plan.arms[arm].clone() }
    }

    /// Starts a service and proves its identity; `None` where it did not get that far.
    fn start(
        &mut self,
        index: usize,
        slot: &Slot,
        arm_id: i64,
        repeat: u32,
        round: &dyn Round,
    ) -> Result<Option<RunningService>, LabError> {
        let service_id =
            self.store.add_service(self.trial_id, arm_id, &slot.service, repeat, self.positions)?;
        self.positions += 1;
        let command = kept_command(slot, round.launch(index), &self.logs);
        let started = heaptrial_host::Instant::now();
        let (keeper, key) = match Keeper::start(&self.plan.keeper, &command) {
            Ok(kept) => kept,
            Err(LabError::Keeper { problem, .. }) => {
                self.fail(service_id, slot, &format!("could not be started: {problem}"))?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let process = Process::new(&self.root, key.pid);
        let at = (started.wall_us, started.boottime_us);
        let proof = prove_identity(&process, &keeper, slot, &command.stderr, self.interrupt);
        let life_id = self.store.add_life(
            service_id,
            &key,
            at,
            proof.identity.as_ref(),
            proof.contamination.as_deref(),
        )?;
        if let Some(why) = &proof.contamination {
            // Nothing that it does would count.
            self.fail(service_id, slot, &format!("its treatment did not take: {why}"))?;
            keeper.close()?;
            let now = heaptrial_host::Instant::now();
            self.store.end_life(life_id, (now.wall_us, now.boottime_us), &Ending::Interrupted)?;
            return Ok(None);
        }
        let sampler = ServiceSampler::open(&self.root, key.pid);
        let ending = match (&proof.ended, &sampler) {
            (Some(ending), _) => Some(ending.clone()),
            (None, Err(_)) => keeper.wait_for_end().and_then(ending_of),
            (None, Ok(_)) => None,
        };
        if let Some(ending) = ending {
            let now = heaptrial_host::Instant::now();
            self.store.end_life(life_id, (now.wall_us, now.boottime_us), &ending)?;
            let hint = match ending {
                Ending::ForkedAway => {
                    "; start it in the foreground, for instance with its option against running as a daemon"
                }
                _ => "",
            };
            self.fail(service_id, slot, &format!("{ending}{hint}{}", last_words(&command.stderr)))?;
            return Ok(None);
        }
        Ok(Some(RunningService {
            slot: index,
            service_id,
            life_id,
            process,
            started,
            sampler: sampler?,
            keeper: Some(keeper),
            ending: None,
            stderr: command.stderr,
        }))
    }

    fn fail(&mut self, service_id: i64, slot: &Slot, why: &str) -> Result<(), LabError> {
        self.outcome.failed_services += 1;
        let text = format!("{} ({}) {why}", slot.arm.arm.name, slot.service);
        self.progress.message(&text);
        let now = heaptrial_host::Instant::now().wall_us;
        Ok(self.store.add_event(self.trial_id, Some(service_id), now, "arm_failed", &text)?)
    }

    fn sample_until_the_end(
        &mut self,
        slots: &[Slot],
        services: &mut [RunningService],
        round: &mut dyn Round,
        started: Instant,
    ) -> Result<(), LabError> {
        let mut views: Vec<ServiceView> = slots
            .iter()
            .map(|slot| ServiceView { arm: slot.arm.arm.name.clone(), ..ServiceView::default() })
            .collect();
        let mut slow_budget = SlowBudget::new(SLOW_SHARE, SLOW_LEAST_GAP);
        let mut slow_turn = 0;
        let mut tree_read: Option<Instant> = None;
        let mut usage = CpuUsage::read(&self.root).ok();
        let mut busy_shares = Vec::new();
        let mut due = Instant::now();
        while started.elapsed() < self.plan.duration && !self.interrupt.requested() {
            self.notice_endings(slots, services, &mut views)?;
            let alive: Vec<bool> = (0..slots.len())
                .map(|slot| services.iter().any(|service| service.slot == slot && service.ending.is_none()))
                .collect();
            if !alive.contains(&true) {
                break;
            }
            let events = round.tick(&alive)?;
            self.tell(services, events)?;
            if tree_read.is_none_or(|read| read.elapsed() >= TREE_GAP) {
                let tree = ProcessTree::scan(&self.root)?;
                services
                    .iter_mut()
                    .filter(|service| service.ending.is_none())
                    .for_each(|s| s.sampler.follow(&tree));
                tree_read = Some(Instant::now());
            }
            let now = heaptrial_host::Instant::now();
            let mut tick = TickInput {
                sequence: self.sequence,
                wall_us: now.wall_us,
                boottime_us: now.boottime_us,
                ..TickInput::default()
            };
            let slow_allowed = slow_budget.allows(started.elapsed());
            let ((), cost) = TickCost::measure(|| {
                read_samples(services, round, &mut tick, &mut views, now, self.plan.metric);
                if slow_allowed {
                    slow_turn += 1;
                    slow_budget.spent(started.elapsed(), read_slow_sample(services, slow_turn, &mut tick));
                }
            });
            (tick.cost_wall_us, tick.cost_cpu_us) = (cost.wall_us, cost.cpu_us);
            self.store.write_tick(self.trial_id, &tick)?;
            self.sequence += 1;
            if let (Some(before), Ok(after)) = (usage, CpuUsage::read(&self.root)) {
                busy_shares.extend(after.busy_share_since(&before));
                usage = Some(after);
            }
            self.progress.tick(&RoundView {
                elapsed: started.elapsed(),
                duration: self.plan.duration,
                services: &views,
            });
            due += self.plan.tick;
            let late = Instant::now().saturating_duration_since(due);
            if late >= self.plan.tick * GAP_TICKS {
                let text = format!("no sample could be taken for {:.1} s", late.as_secs_f64());
                self.tell(services, vec![Event { slot: None, kind: "gap", text }])?;
            }
            if !late.is_zero() {
                due = Instant::now();
            }
            let end = started + self.plan.duration;
            std::thread::sleep(due.min(end).saturating_duration_since(Instant::now()));
        }
        self.outcome.interrupted |= self.interrupt.requested();
        self.tell_saturation(services, busy_shares)
    }

    fn tell_saturation(&mut self, services: &[RunningService], mut shares: Vec<f64>) -> Result<(), LabError> {
        shares.sort_unstable_by(f64::total_cmp);
        let Some(median) = shares.get(shares.len() / 2) else { return Ok(()) };
        if *median < SATURATED_SHARE {
            return Ok(());
        }
        let over = shares.iter().filter(|share| **share >= SATURATED_SHARE).count();
        let text = format!(
            "the processors were {:.0}% busy in the median and saturated in {:.0}% of the time: services waited for \
             each other, and figures of arms that need much CPU may be too low",
            median * 100.0,
            over as f64 / shares.len() as f64 * 100.0
        );
        self.tell(services, vec![Event { slot: None, kind: "cpu_saturated", text }])
    }

    /// Enters in the ledger what ended by itself.
    fn notice_endings(
        &mut self,
        slots: &[Slot],
        services: &mut [RunningService],
        views: &mut [ServiceView],
    ) -> Result<(), LabError> {
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let Some(ending) = service.keeper.as_ref().and_then(Keeper::ended).and_then(ending_of) else {
                continue;
            };
            let now = heaptrial_host::Instant::now();
            self.store.end_life(service.life_id, (now.wall_us, now.boottime_us), &ending)?;
            views[service.slot].ended = Some(ending.to_string());
            let age = (now.boottime_us - service.started.boottime_us) as f64 / 1e6;
            let text = format!("{ending} after {age:.1} s{}", last_words(&service.stderr));
            self.fail(service.service_id, &slots[service.slot], &text)?;
            service.ending = Some(ending);
            if let Some(keeper) = service.keeper.take() {
                keeper.close()?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, services: &[RunningService], events: Vec<Event>) -> Result<(), LabError> {
        for event in events {
            let service = event.slot.and_then(|slot| services.iter().find(|service| service.slot == slot));
            self.progress.message(&event.text);
            let now = heaptrial_host::Instant::now().wall_us;
            let id = service.map(|service| service.service_id);
            self.store.add_event(self.trial_id, id, now, event.kind, &event.text)?;
        }
        Ok(())
    }

    /// Ends what still lives, after a last look at its identity.
    fn end(&mut self, slots: &[Slot], services: &mut [RunningService]) -> Result<(), LabError> {
        let mut first_error = None;
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let prepared = &slots[service.slot].arm;
            if let Ok(identity) = heaptrial_allocator::identify(&service.process) {
                if let Err(mismatch) = heaptrial_allocator::prove(&prepared.obtained, &identity) {
                    let why = format!("at its end: {mismatch}");
                    let _ = self
                        .store
                        .contaminate(service.life_id, &why)
                        .map_err(|e| first_error.get_or_insert(e.into()));
                }
            }
            if let Some(keeper) = &mut service.keeper {
                keeper.ask_to_end();
            }
        }
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let closed = service.keeper.take().map_or(Ok(()), Keeper::close);
            let ending = if self.interrupt.requested() { Ending::Interrupted } else { Ending::Planned };
            let now = heaptrial_host::Instant::now();
            let entered = self.store.end_life(service.life_id, (now.wall_us, now.boottime_us), &ending);
            service.ending = Some(ending);
            self.outcome.complete_services += 1;
            if let Some(error) = closed.err().or(entered.err().map(LabError::from)) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

fn read_samples(
    services: &mut [RunningService],
    round: &dyn Round,
    tick: &mut TickInput,
    views: &mut [ServiceView],
    now: heaptrial_host::Instant,
    metric: Metric,
) {
    for service in services.iter_mut().filter(|service| service.ending.is_none()) {
        // A service that ended since is noticed at the next tick.
        let Ok(sample) = service.sampler.read() else { continue };
        tick.samples.push((service.life_id, sample));
        let observed = round.observe(service.slot);
        let view = &mut views[service.slot];
        view.age_seconds = (now.boottime_us - service.started.boottime_us) as f64 / 1e6;
        view.rss_bytes = sample.rss_bytes;
        view.metric_bytes.push(match metric {
            Metric::Rss => sample.rss_bytes,
            Metric::Cgroup => sample.cgroup_current_bytes.unwrap_or(sample.rss_bytes),
            Metric::Anon | Metric::Pss => sample.anon_bytes + sample.swap_bytes,
        });
        for (name, value) in observed {
            if name == crate::tor::CONSENSUS_AGE {
                view.consensus_age_seconds = Some(value);
            }
            tick.observations.push((service.life_id, name, value));
        }
    }
}

/// Takes the expensive reading of one service, each in turn; gives what it cost.
fn read_slow_sample(services: &mut [RunningService], turn: usize, tick: &mut TickInput) -> Duration {
    let mut alive: Vec<&mut RunningService> =
        services.iter_mut().filter(|service| service.ending.is_none()).collect();
    if alive.is_empty() {
        return Duration::ZERO;
    }
    let index = turn % alive.len();
    match alive[index].sampler.read_slow() {
        Ok(slow) => {
            tick.slow_samples.push((alive[index].life_id, slow));
            Duration::from_micros(slow.cost_us)
        }
        Err(_) => Duration::ZERO,
    }
}
