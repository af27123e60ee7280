//! Proofs of what main processes run, and checks of what is proved.

use std::collections::HashMap;

use heaptrial_allocator::prove;
use heaptrial_host::systemd::{Manager as _, UnitEnvironment};
use heaptrial_model::{KnownEvent, ServiceName, with_reason};

use crate::agent::Agent;
use crate::examine::{Answer, Found, Request};
use crate::ledger::Write;
use crate::watched::{Main, Proof, Seat};

/// A process that starts runs through shells and its dynamic loader first: it is examined from this age on, and again while it is younger
/// than that in which a wrong identity may become right, or an unknown one known.
pub(crate) const STARTED_US: i64 = 2_000_000;
const MISMATCH_PATIENCE_US: i64 = 12_000_000;
const UNKNOWN_PATIENCE_US: i64 = 30_000_000;
const RETRY_US: i64 = 1_000_000;
/// One that was examined so young is examined again soon.
const YOUNG_US: i64 = 30_000_000;
const CHECK_SOON_US: i64 = 15_000_000;
/// Identities are looked at again this often.
const CHECK_EVERY_US: i64 = 3_600_000_000;

impl Agent {
    /// Has examined what is due.
    pub(crate) fn examine_due(&mut self) {
        let now_us = self.clock.now().boottime_us;
        let is_due = |main: &&Main| main.examine_at_us().is_some_and(|at_us| at_us <= now_us);
        let due = self.names(|watched| watched.main.as_ref().filter(is_due).is_some());
        // When a life is new, systemd has loaded what it was started with.
        let is_new = |main: &Main| main.passed.is_none();
        let new = self.names(|watched| watched.main.as_ref().filter(is_due).is_some_and(is_new));
        let environments = match new.as_slice() {
            [] => None,
            names => self.manager.ask(|systemd| systemd.environments(names)),
        };
        let passed = new.into_iter().zip(environments.into_iter().flatten());
        let mut passed: HashMap<ServiceName, UnitEnvironment> = passed.collect();
        for name in due {
            let main = self.watched.get_mut(&name).and_then(|watched| watched.main.as_mut());
            let Some(main) = main else { continue };
            if let Proof::Due { .. } = main.proof {
                main.proof = Proof::Asked;
            }
            main.next_check_us = now_us + CHECK_EVERY_US;
            main.passed = passed.remove(&name).map(|found| found.variables()).or(main.passed.take());
            let (key, known, passed) = (main.key.clone(), main.signature.clone(), main.passed.clone());
            self.examiner.ask(Request { name, key, known, passed, larger: main.larger() });
        }
    }

    /// Takes note of what was examined.
    pub(crate) fn take_answers(&mut self) {
        self.examiner.answers().into_iter().for_each(|answer| self.take_answer(answer));
    }

    fn take_answer(&mut self, answer: Answer) {
        let now = self.clock.now();
        let name = answer.name;
        let Some(watched) = self.watched.get_mut(&name) else { return };
        let Some(main) = watched.main.as_mut().filter(|main| main.key == answer.key) else { return };
        let before = main.proved().cloned();
        let age_us = now.boottime_us - main.started.boottime_us;
        let again = Proof::Due { at_us: now.boottime_us + RETRY_US };
        match answer.found {
            Found::Gone => return,
            Found::Same => {}
            Found::Unknown(_) if before.is_none() && age_us < UNKNOWN_PATIENCE_US => main.proof = again,
            // What was proved stays, as of a program whose file was replaced.
            Found::Unknown(why) if before.is_none() => main.proof = Proof::Unknown(why),
            Found::Unknown(_) => {}
            Found::Identity(identity, signature) => {
                let wrong = watched.seats.iter().any(|seat| {
                    let treated = seat.expected.as_ref().filter(|_| !seat.older_than_trial);
                    treated.is_some_and(|expected| prove(expected, &identity).is_err())
                });
                if before.is_none() && wrong && age_us < MISMATCH_PATIENCE_US {
                    main.proof = again;
                } else {
                    main.signature = Some(signature);
                    main.proof = Proof::Done(identity);
                    if age_us < YOUNG_US {
                        main.next_check_us = now.boottime_us + CHECK_SOON_US;
                    }
                }
            }
        }
        let differences = before.as_ref().zip(main.proved()).map(|(before, after)| after.differences(before));
        if let Some(differences) = differences.filter(|differences| !differences.is_empty()) {
            watched.seats.iter_mut().for_each(|seat| seat.settled = false);
            // One that has just begun was a script that became the program.
            if age_us >= 2 * YOUNG_US {
                let text = format!("it now runs {}", differences.join("; "));
                self.record(&name, now.wall_us, KnownEvent::IdentityChange, &text);
            }
        }
        self.settle(&name);
        self.record_replaced(&name, &answer.replaced);
    }

    /// Records once each file that was removed or replaced on disk, as by an upgrade, while the process runs on with it.
    fn record_replaced(&mut self, name: &ServiceName, replaced: &[String]) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = watched.main.as_mut().filter(|_| !replaced.is_empty()) else { return };
        let new = replaced.iter().filter(|file| main.replaced.insert((*file).clone()));
        let files: Vec<&str> = new.map(String::as_str).collect();
        let allocator = main.proved().and_then(|identity| identity.path.as_ref()?.to_str());
        let (kind, what) = match allocator {
            Some(path) if files.contains(&path) => (KnownEvent::AllocatorReplaced, "its allocator's library"),
            _ => (KnownEvent::FileReplaced, "a mapped library"),
        };
        if files.is_empty() {
            return;
        }
        let text = format!(
            "{what} was replaced on disk; the next restart will load the new one: {}",
            files.join(", ")
        );
        self.record(name, self.clock.now().wall_us, kind, &text);
    }

    /// Compares what the main process of a service runs with what each of its arms wants, and records it.
    pub(crate) fn settle(&mut self, name: &ServiceName) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = &watched.main else { return };
        if matches!(main.proof, Proof::Due { .. } | Proof::Asked) {
            return;
        }
        let identity = main.proved();
        let wall_us = self.clock.now().wall_us;
        for seat in watched.seats.iter_mut().filter(|seat| !seat.settled) {
            let Some(life_id) = seat.life_id else { continue };
            let fault = fault(seat, &main.proof).filter(|_| !seat.older_than_trial);
            seat.settled = true;
            // The host's own trial has no treatment that something could be foreign to.
            let kind = if seat.of_host { KnownEvent::IdentityChange } else { KnownEvent::Contaminated };
            if let Some(fault) = &fault
                && (identity.is_some() || !seat.of_host)
            {
                self.ledger.submit(Write::event(seat, wall_us, kind, fault.clone()));
            }
            if seat.of_host || seat.earlier.is_none() {
                seat.earlier = identity.cloned().or(seat.earlier.take());
            }
            // A life that was found wrong once stays so.
            if let Some(why) = fault.filter(|_| !seat.of_host) {
                seat.contamination = Some(with_reason(seat.contamination.take(), &why));
            }
            self.ledger.submit(Write::Identity {
                life_id,
                identity: identity.cloned().map(Box::new),
                contamination: seat.contamination.clone(),
            });
        }
    }
}

/// Why a main process does not run what its place in a trial wants, where it does not.
fn fault(seat: &Seat, proof: &Proof) -> Option<String> {
    let identity = match proof {
        Proof::Done(identity) => identity,
        Proof::Unknown(why) => return Some(format!("its allocator is unknown: {why}")),
        Proof::Due { .. } | Proof::Asked => return None,
    };
    if let Some(expected) = &seat.expected {
        return prove(expected, identity).err().map(|mismatch| mismatch.to_string());
    }
    let differences = identity.differences(seat.earlier.as_ref()?);
    (!differences.is_empty()).then(|| format!("unlike an earlier life it runs {}", differences.join("; ")))
}
