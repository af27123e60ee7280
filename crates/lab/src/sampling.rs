//! Ticks: what is read of the services of a round, and what that costs.

use std::time::{Duration, Instant};

use heaptrial_host::{CpuUsage, HostRoot, ProcessTree, SlowBudget, TickCost};
use heaptrial_model::{KnownEvent, Metric};
use heaptrial_store::TickInput;

use crate::progress::ServiceView;
use crate::service::RunningService;
use crate::workload::{Event, Round, Slot};

/// `smaps_rollup` stalls the process that it reads: it may take this share of the time.
const SLOW_SHARE: f64 = 0.002;
const SLOW_LEAST_GAP: Duration = Duration::from_secs(10);
/// The process tree is read anew this often, and at every tick where processes may have come or gone; that may take
/// this share of the time.
const TREE_GAP: Duration = Duration::from_secs(1);
const TREE_SHARE: f64 = 0.05;
/// Above this share of all processors the run is called saturated.
const SATURATED_SHARE: f64 = 0.95;
/// A gap of this many ticks is recorded.
const GAP_TICKS: u32 = 3;

/// The sampling of one round.
pub(crate) struct Sampling {
    root: HostRoot,
    metric: Metric,
    started: Instant,
    views: Vec<ServiceView>,
    slow_budget: SlowBudget,
    slow_turn: usize,
    tree_read: Option<Instant>,
    tree_budget: SlowBudget,
    usage: Option<CpuUsage>,
    busy_shares: Vec<f64>,
    previous_boottime_us: Option<i64>,
    /// Of writing the previous tick, which is entered with the next one.
    write_cost: TickCost,
}

impl Sampling {
    /// Of services that were started at `started`.
    pub(crate) fn new(root: &HostRoot, metric: Metric, slots: &[Slot], started: Instant) -> Self {
        let view = |slot: &Slot| ServiceView { arm: slot.arm.arm.name.clone(), ..ServiceView::default() };
        Self {
            root: root.clone(),
            metric,
            started,
            views: slots.iter().map(view).collect(),
            slow_budget: SlowBudget::new(SLOW_SHARE, SLOW_LEAST_GAP),
            slow_turn: 0,
            tree_read: None,
            tree_budget: SlowBudget::new(TREE_SHARE, Duration::ZERO),
            usage: CpuUsage::read(root).ok(),
            busy_shares: Vec::new(),
            previous_boottime_us: None,
            write_cost: TickCost::default(),
        }
    }

    /// What to show of the services.
    pub(crate) fn views(&self) -> &[ServiceView] {
        &self.views
    }

    /// Shows that a service has ended.
    pub(crate) fn ended(&mut self, slot: usize, services: &[RunningService]) {
        let service = services.iter().find(|service| service.slot == slot);
        let ending = service.and_then(|service| service.ending.as_ref());
        self.views[slot].ended = ending.map(ToString::to_string);
    }

    /// Takes one tick, with the expensive reading of one service if the budget allows it; the last one with that of every service:
    /// what it stalls is over.
    pub(crate) fn take(
        &mut self,
        services: &mut [RunningService],
        round: &mut dyn Round,
        sequence: i64,
        last: bool,
    ) -> TickInput {
        let now = heaptrial_host::Instant::now();
        let mut tick = empty_tick(sequence, now);
        let ((), cost) = TickCost::measure(|| {
            self.follow_trees(services);
            self.read_samples(services, round, &mut tick, now);
            let mut alive: Vec<_> = services.iter_mut().filter(|service| service.ending.is_none()).collect();
            let allowed = self.slow_budget.allows(self.started.elapsed());
            self.slow_turn += usize::from(allowed);
            let turn = self.slow_turn % alive.len().max(1);
            let due = alive.iter_mut().enumerate().filter(|(at, _)| last || (allowed && *at == turn));
            let spent: Duration = due.map(|(_, service)| read_slow(service, &mut tick)).sum();
            if !spent.is_zero() {
                self.slow_budget.spent(self.started.elapsed(), spent);
            }
        });
        tick.cost_wall_us = cost.wall_us + self.write_cost.wall_us;
        tick.cost_cpu_us = cost.cpu_us + self.write_cost.cpu_us;
        if let (Some(before), Ok(after)) = (self.usage, CpuUsage::read(&self.root)) {
            self.busy_shares.extend(after.busy_share_since(&before));
            self.usage = Some(after);
        }
        tick
    }

    /// The expensive reading of every service alone: its samples of the time that counts are taken.
    pub(crate) fn take_slow(&self, services: &mut [RunningService], sequence: i64) -> TickInput {
        let mut tick = empty_tick(sequence, heaptrial_host::Instant::now());
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            read_slow(service, &mut tick);
        }
        tick
    }

    /// Accounts for the writing of a tick; returns a gap before it.
    pub(crate) fn wrote(&mut self, tick: &TickInput, cost: TickCost, period: Duration) -> Option<Event> {
        self.write_cost = cost;
        let previous = self.previous_boottime_us.replace(tick.boottime_us)?;
        // On the boot clock, which counts the time that the machine was suspended.
        let gap = Duration::from_micros((tick.boottime_us - previous).max(0) as u64);
        let text = format!("no sample could be taken for {:.1} s", gap.as_secs_f64());
        (gap >= period * GAP_TICKS).then_some(Event { slot: None, kind: KnownEvent::Gap, text })
    }

    /// What to say when the processors were saturated.
    pub(crate) fn saturation(&mut self, services: usize) -> Option<Event> {
        self.busy_shares.sort_unstable_by(f64::total_cmp);
        let shares = &self.busy_shares;
        let median = *shares.get(shares.len() / 2)?;
        let over = shares.iter().filter(|share| **share >= SATURATED_SHARE).count();
        let effect = match services {
            1 => "the service had to wait for processors",
            _ => "services waited for each other, and figures of arms that need much CPU may be too low",
        };
        let text = format!(
            "the processors were {:.0}% busy in the median and saturated in {:.0}% of the time: {effect}",
            median * 100.0,
            over as f64 / shares.len() as f64 * 100.0
        );
        (median >= SATURATED_SHARE).then_some(Event { slot: None, kind: KnownEvent::CpuSaturated, text })
    }

    /// Where processes may have come or gone, and now and then.
    fn follow_trees(&mut self, services: &mut [RunningService]) {
        let due = self.tree_read.is_none_or(|read| read.elapsed() >= TREE_GAP);
        let mut alive: Vec<_> = services.iter_mut().filter(|service| service.ending.is_none()).collect();
        let mut moved = false;
        for service in &mut alive {
            // Each of them is asked: it remembers what it has seen.
            moved |= service.sampler.may_have_moved();
        }
        let elapsed = self.started.elapsed();
        if due || (moved && self.tree_budget.allows(elapsed)) {
            // Without `/proc` the samples fail as well, and say so.
            let (tree, cost) = TickCost::measure(|| ProcessTree::scan(&self.root));
            if let Ok(tree) = tree {
                alive.iter_mut().for_each(|service| service.sampler.follow(&tree));
            }
            self.tree_budget.spent(elapsed, Duration::from_micros(cost.cpu_us));
        }
        if due {
            self.tree_read = Some(Instant::now());
        }
    }

    fn read_samples(
        &mut self,
        services: &mut [RunningService],
        round: &mut dyn Round,
        tick: &mut TickInput,
        now: heaptrial_host::Instant,
    ) {
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            // A service that ended since is noticed at the next tick.
            let Ok(sample) = service.read() else { continue };
            tick.samples.push((service.life_id, sample));
            let view = &mut self.views[service.slot];
            view.age_seconds = (now.boottime_us - service.started.boottime_us) as f64 / 1e6;
            view.cpu = Some(Duration::from_micros(sample.cpu_us));
            view.metric_bytes = Some(match self.metric {
                Metric::Rss => sample.rss_bytes,
                Metric::Cgroup => sample.cgroup_current_bytes.unwrap_or_default(),
                _ => sample.anon_bytes + sample.swap_bytes,
            });
            let work = round.work(service.slot).into_iter();
            tick.work.extend(work.map(|(name, value)| (service.life_id, name, value)));
            for (name, value) in round.observe(service.slot) {
                tick.observations.push((service.life_id, name, value));
            }
        }
    }
}

/// A tick with nothing in it yet.
pub(crate) fn empty_tick(sequence: i64, now: heaptrial_host::Instant) -> TickInput {
    TickInput { sequence, wall_us: now.wall_us, boottime_us: now.boottime_us, ..TickInput::default() }
}

/// Takes the expensive reading of a service; gives what it cost.
fn read_slow(service: &mut RunningService, tick: &mut TickInput) -> Duration {
    match service.sampler.read_slow() {
        Ok(slow) => {
            tick.slow_samples.push((service.life_id, slow));
            Duration::from_micros(slow.cost_us)
        }
        Err(_) => Duration::ZERO,
    }
}
