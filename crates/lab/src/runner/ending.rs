//! The end of services: what is known of their processes, a last look at their identity, and the ledger.

use heaptrial_model::{Ending, KnownEvent, units};

use super::{Control, Run};
use crate::LabError;
use crate::ends::Ends;
use crate::service::{RunningService, clause, last_words, prove_at_the_end};
use crate::supervisor::Supervisor;
use crate::workload::{Event, Slot};

/// Where no treatment reaches more than this share of a service's memory, arms say little about it.
const MOST_OF_IT: f64 = 0.5;

impl Run<'_> {
    /// Ends what still lives, after a last look at its identity. The first error comes back when all is ended.
    pub(super) fn end(&mut self, slots: &[Slot], services: &mut [RunningService]) -> Result<(), LabError> {
        let mut results = vec![self.notice_endings(slots, services, RunningService::ended_at_last).map(drop)];
        let mut events = Vec::new();
        for service in services.iter_mut().filter(|service| service.ending.is_none()) {
            let slot = &slots[service.slot];
            let proved = self.prove_again(slot, service);
            for found in [proved, self.account_for_processes(slot, service)] {
                match found {
                    Ok(found) => events.extend(found),
                    Err(error) => results.push(Err(error)),
                }
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

    fn prove_again(&mut self, slot: &Slot, service: &RunningService) -> Result<Vec<Event>, LabError> {
        let mut events = Vec::new();
        match prove_at_the_end(&self.root, service.processes, &slot.arm, &service.passed) {
            Ok(found) => {
                self.see_control(slot, Control::Proved);
                if found.identity.is_some() {
                    self.store.set_identity(service.life_id, found.identity.as_ref(), None)?;
                }
                events.extend(found.beyond_reach.map(|(which, share)| Event {
                    slot: Some(service.slot),
                    kind: if share > MOST_OF_IT { KnownEvent::Warning } else { KnownEvent::Note },
                    text: format!(
                        "no treatment reaches {which}: such processes hold {} of its memory",
                        units::percent(share)
                    ),
                }));
            }
            Err(why) => {
                self.see_control(slot, Control::Refuted);
                self.outcome.failed_services += 1;
                self.progress.message(&format!("{} {why}", slot.service));
                self.store.contaminate(service.life_id, &why)?;
            }
        }
        Ok(events)
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

    /// Enters in the ledger what `ended` by itself; returns the slots.
    pub(super) fn notice_endings(
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

    /// Enters that a service ended by itself. That it does not live under its memory limit is a result, anything else a failure.
    pub(super) fn enter_end(
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
}
