//! What is done beside samples: proofs, checks of identities, rolling up old samples.

use heaptrial_allocator::prove;
use heaptrial_model::{Identity, KnownEvent, ServiceName, with_reason};
use heaptrial_store::{RollupHorizon, Store};

use crate::clock::micros;
use crate::examine::{Answer, Found, Request};
use crate::ledger::Write;
use crate::session::Session;
use crate::watched::{Proof, Watched};

/// A process that starts runs through shells and its dynamic loader first: how long a wrong identity is given to
/// become right, and how long one that cannot be told.
const MISMATCH_PATIENCE_US: i64 = 10_000_000;
const UNKNOWN_PATIENCE_US: i64 = 30_000_000;
const RETRY_US: i64 = 500_000;
/// A process of this age has become what it will be; a younger one is looked at twice, and soon once more.
const STARTING_US: i64 = 30_000_000;
const CHECK_SOON_US: i64 = 15_000_000;
/// Identities are looked at again this often.
const CHECK_EVERY_US: i64 = 3_600_000_000;
const ROLLUP_EVERY_US: i64 = 3_600_000_000;
/// Between two steps of a rollup, each of a thousand samples, so that other writers get their turn.
const ROLLUP_PAUSE_US: i64 = 200_000;
const ROLLUP_SAMPLES: u64 = 1_000;

impl Watched {
    /// When its main process is to be examined next, on the boot clock.
    pub(crate) fn examine_at_us(&self) -> Option<i64> {
        let main = self.main.as_ref()?;
        match &main.proof {
            Proof::Due { at_us, .. } => Some(*at_us),
            Proof::Asked { .. } => None,
            Proof::Done(_) | Proof::Unknown(_) => Some(main.next_check_us),
        }
    }
}

impl Session {
    /// Has examined what is due.
    pub(crate) fn examine_due(&mut self) {
        let now_us = self.clock.now().boottime_us;
        let mut requests = Vec::new();
        for watched in self.watched.values_mut() {
            if watched.examine_at_us().is_none_or(|at_us| at_us > now_us) {
                continue;
            }
            let Some(main) = &mut watched.main else { continue };
            if let Proof::Due { since_us, .. } = main.proof {
                main.proof = Proof::Asked { since_us };
            }
            main.next_check_us = now_us + CHECK_EVERY_US;
            requests.push(Request {
                name: watched.name.clone(),
                key: main.key.clone(),
                known: main.signature.clone(),
                passed: main.passed.clone(),
            });
        }
        // When a life is new, systemd has loaded what it was started with.
        let new = requests.iter().filter(|request| request.passed.is_none());
        let new: Vec<ServiceName> = new.map(|request| request.name.clone()).collect();
        let told = match new.as_slice() {
            [] => None,
            names => self.ask(|systemd| systemd.environments(names)),
        };
        for environment in told.iter().flatten() {
            let of_it = |request: &&mut Request| request.name == environment.name;
            if let Some(request) = requests.iter_mut().find(of_it) {
                request.passed = Some(environment.variables());
                let main = self.watched.get_mut(&request.name).and_then(|watched| watched.main.as_mut());
                main.into_iter().for_each(|main| main.passed.clone_from(&request.passed));
            }
        }
        requests.into_iter().for_each(|request| self.examiner.ask(request));
    }

    /// Takes note of what was examined.
    pub(crate) fn take_answers(&mut self) {
        for answer in self.examiner.answers() {
            let is_current = self
                .watched
                .get(&answer.name)
                .and_then(|watched| watched.main.as_ref())
                .is_some_and(|main| main.key == answer.key);
            if is_current {
                self.take_answer(answer);
            }
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        let now = self.clock.now();
        let name = answer.name;
        let Some(watched) = self.watched.get_mut(&name) else { return };
        let Some(main) = &mut watched.main else { return };
        let asked_since = match &main.proof {
            Proof::Asked { since_us } => Some(*since_us),
            _ => None,
        };
        let before = match &main.proof {
            Proof::Done(identity) => Some(Identity::clone(identity)),
            _ => None,
        };
        let age_us = now.boottime_us - main.started.boottime_us;
        let again = |since_us| Proof::Due { at_us: now.boottime_us + RETRY_US, since_us };
        let (identity, signature, is_same) = match answer.found {
            Found::Gone => return,
            Found::Starting => match asked_since {
                Some(since_us) => {
                    main.proof = again(since_us);
                    return;
                }
                None => return,
            },
            Found::Unknown(why) => {
                match asked_since {
                    Some(since_us) if now.boottime_us - since_us < UNKNOWN_PATIENCE_US => {
                        main.proof = again(since_us)
                    }
                    Some(_) => main.proof = Proof::Unknown(why),
                    // What was proved stays, as of a program whose file was replaced.
                    None => {}
                }
                (None, None, false)
            }
            Found::Same => {
                if let (Some(since_us), None) = (asked_since, &main.tentative) {
                    main.signature = None;
                    main.proof = again(since_us);
                }
                (main.tentative.take(), main.signature.clone(), true)
            }
            Found::Identity(identity, signature) => (Some(*identity), Some(signature), false),
        };
        if let Some(identity) = identity {
            let wrong = watched.seats.iter().any(|seat| {
                let treated = seat.expected.as_ref().filter(|_| !seat.older_than_trial);
                treated.is_some_and(|expected| prove(expected, &identity).is_err())
            });
            match asked_since {
                Some(since_us) if wrong && now.boottime_us - since_us < MISMATCH_PATIENCE_US => {
                    // Without the signature everything is read anew.
                    main.signature = None;
                    main.proof = again(since_us);
                }
                Some(since_us) if !wrong && !is_same && age_us < STARTING_US => {
                    main.signature = signature;
                    main.tentative = Some(identity);
                    main.proof = again(since_us);
                }
                _ => {
                    main.signature = signature;
                    main.proof = Proof::Done(Box::new(identity));
                    if age_us < STARTING_US {
                        main.next_check_us = now.boottime_us + CHECK_SOON_US;
                    }
                }
            }
        }
        if let (Some(before), Proof::Done(after)) = (before, &main.proof) {
            if !same_allocator(&before, after) {
                let text = format!("it ran {} and now runs {}", describe(&before), describe(after));
                watched.seats.iter_mut().for_each(|seat| seat.settled = false);
                // One that has just begun was a script that became the program.
                if age_us >= 2 * STARTING_US {
                    self.tell(&name, now.wall_us, KnownEvent::IdentityChange, &text);
                }
            }
        }
        self.settle(&name);
        self.tell_replaced(&name, &answer.replaced);
    }

    /// Files that were removed or replaced on disk, as by an upgrade, while the process runs on with the old ones.
    fn tell_replaced(&mut self, name: &ServiceName, replaced: &[String]) {
        let Some(main) = self.watched.get_mut(name).and_then(|watched| watched.main.as_mut()) else { return };
        if replaced.is_empty() || main.told_replaced {
            return;
        }
        main.told_replaced = true;
        let allocator = match &main.proof {
            Proof::Done(identity) => identity.path.as_ref().map(|path| path.display().to_string()),
            _ => None,
        };
        let (kind, what) = match allocator {
            Some(path) if replaced.contains(&path) => (KnownEvent::AllocatorReplaced, "its allocator's file"),
            _ => (KnownEvent::FileReplaced, "a file of its code"),
        };
        let text = format!(
            "{what} was removed or replaced on disk while it runs on with the old one, so its next life may run something else: {}",
            replaced.join(", ")
        );
        self.tell(name, self.clock.now().wall_us, kind, &text);
    }

    /// Compares what the main process of a service runs with what each of its arms wants, and records it.
    pub(crate) fn settle(&mut self, name: &ServiceName) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = &watched.main else { return };
        let wall_us = self.clock.now().wall_us;
        for seat in watched.seats.iter_mut().filter(|seat| !seat.settled) {
            let Some(life_id) = seat.life_id else { continue };
            let (identity, fault) = match &main.proof {
                Proof::Done(identity) => {
                    let identity = &**identity;
                    let fault = match (&seat.expected, &seat.earlier) {
                        (Some(expected), _) => prove(expected, identity).err().map(|mismatch| {
                            if is_put_back(&self.ledger.store, seat.service_id) {
                                return format!(
                                    "Heaptrial put it back, so that it runs {} as before the trial",
                                    describe(identity)
                                );
                            }
                            mismatch.to_string()
                        }),
                        (None, Some(earlier)) if !same_allocator(earlier, identity) => Some(format!(
                            "it runs {}, and an earlier life of it {}",
                            describe(identity),
                            describe(earlier)
                        )),
                        _ => None,
                    };
                    (Some(identity), fault)
                }
                Proof::Unknown(why) => (None, Some(format!("its allocator cannot be told: {why}"))),
                Proof::Due { .. } | Proof::Asked { .. } => continue,
            };
            seat.settled = true;
            let mut event = |kind, text: &str| {
                self.ledger.submit(Write::Event {
                    trial_id: seat.trial_id,
                    service_id: Some(seat.service_id),
                    wall_us,
                    kind,
                    text: text.to_owned(),
                });
            };
            // The host's own trial has no treatment that something could be foreign to.
            let contamination = match &fault {
                Some(fault) if seat.of_host => {
                    if identity.is_some() {
                        event(KnownEvent::IdentityChange, fault);
                    }
                    None
                }
                Some(fault) if !seat.older_than_trial => {
                    event(KnownEvent::Contaminated, fault);
                    Some(fault.clone())
                }
                _ => None,
            };
            if let (Some(identity), None) = (identity, &seat.earlier) {
                seat.earlier = Some(identity.clone());
            }
            if seat.of_host {
                seat.earlier = identity.cloned().or(seat.earlier.take());
            }
            // A life that was found wrong once stays so.
            if let Some(why) = contamination {
                seat.contamination = Some(with_reason(seat.contamination.take(), &why));
            }
            self.ledger.submit(Write::Identity {
                life_id,
                identity: identity.cloned().map(Box::new),
                contamination: seat.contamination.clone(),
            });
        }
    }

    /// One step of rolling up old samples.
    pub(crate) fn roll_up(&mut self) {
        let now = self.clock.now();
        let keep_us = micros(self.config.keep_raw);
        let horizon = RollupHorizon {
            wall_us: now.wall_us - keep_us,
            host_id: self.host_id,
            boottime_us: now.boottime_us - keep_us,
        };
        self.due.rollup_us = now.boottime_us + ROLLUP_EVERY_US;
        let ids = match self.ledger.store.trials_on_services() {
            Ok(ids) => ids,
            Err(error) => return self.ledger.tell(&error),
        };
        for id in ids {
            match self.ledger.store.roll_up(id, &horizon, ROLLUP_SAMPLES) {
                Ok(step) if step.more => {
                    self.due.rollup_us = self.clock.now().boottime_us + ROLLUP_PAUSE_US;
                    return;
                }
                Ok(_) => {}
                Err(error) => return self.ledger.tell(&error),
            }
        }
    }
}

/// Whether Heaptrial itself took the treatment from a service, or is about to.
fn is_put_back(store: &Store, service_id: i64) -> bool {
    let last = |kind| store.last_event(service_id, kind).ok().flatten();
    let back = last(KnownEvent::TreatmentReverted).max(last(KnownEvent::TreatmentFailed));
    back > last(KnownEvent::TreatmentCommitted)
}

/// Whether two identities are of the same allocator with the same settings, however they were found out.
fn same_allocator(a: &Identity, b: &Identity) -> bool {
    let same_build = match (&a.sha256, &b.sha256) {
        (Some(a), Some(b)) => a == b,
        _ => a.build_id == b.build_id,
    };
    a.family == b.family && a.version == b.version && a.settings == b.settings && same_build
}

fn describe(identity: &Identity) -> String {
    let settings: Vec<String> =
        identity.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match settings.is_empty() {
        true => identity.label(),
        false => format!("{} with {}", identity.label(), settings.join(" ")),
    }
}
