//! Whether trials of this host measured what is to be rolled out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use heaptrial_adoption::Adopted;
use heaptrial_allocator::Obtained;
use heaptrial_change::{Prepared, TrialStage, read_prepared, read_state, trials};
use heaptrial_host::{HostFacts, HostRoot, Paths};
use heaptrial_rollout::{Evidence, HostNow, Whole, is_rollout, settings_of};
use heaptrial_store::Store;

use super::target::{Target, found_against};

/// Where a host's facts name its mode of transparent huge pages.
const THP_MODE: &str = "thp_mode";

/// What the trials of this host, or a verdict's on hosts like it, say of the treatment with the library at hand.
pub fn evidence(
    target: &Target,
    paths: &Paths,
    database: &Path,
    obtained: &BTreeMap<String, Obtained>,
    host: &HostNow,
) -> Evidence {
    let wanted = wanted(target, obtained);
    let proved: Vec<(String, Whole)> = match &target.verdict {
        Some((verdict, _)) => {
            let of = format!("arm `{}` of trial `{}`", verdict.arm.name, verdict.trial);
            verdict.proved_like(host).into_iter().map(|whole| (of.clone(), whole.clone())).collect()
        }
        None => {
            let own = proved(paths, database).into_iter().map(|proved| (proved.to_string(), proved.whole));
            own.chain(target.adopted.as_ref().map(of_adoption)).collect()
        }
    };
    wanted.evidence(proved.iter().map(|(name, whole)| (name.clone(), whole)))
}

/// What other trials of this host that measured the very same treatment found that speaks against it.
pub fn against_elsewhere(
    target: &Target,
    paths: &Paths,
    database: &Path,
    obtained: &BTreeMap<String, Obtained>,
) -> Vec<String> {
    let wanted = wanted(target, obtained);
    let is_same = |proved: &Proved| {
        let is_own = target.trial.as_ref().is_some_and(|own| own.plan.name == proved.prepared.plan.name);
        !is_own && wanted.evidence([(String::new(), &proved.whole)]) == Evidence::Measured
    };
    let same = proved(paths, database).into_iter().filter(is_same);
    same.flat_map(|proved| found_against(database, &proved.prepared, &proved.arm)).collect()
}

/// A treatment that ran in a process of a trial.
struct Proved {
    prepared: Rc<Prepared>,
    arm: String,
    whole: Whole,
}

impl fmt::Display for Proved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arm `{}` of trial `{}`", self.arm, self.prepared.plan.name)
    }
}

/// What the processes of an adoption run: what is read of them is the rollout's forecast.
fn of_adoption(adopted: &Adopted) -> (String, Whole) {
    let (expected, facts) = (&adopted.expected, &adopted.trial.plan.host_facts);
    let whole = Whole {
        library: expected.object.as_ref().map(|_| expected.sha256.clone()),
        settings: settings_of(&expected.settings),
        thp_mode: facts.get(THP_MODE).and_then(|mode| mode.as_str()).map(str::to_owned),
        ..Whole::default()
    };
    (format!("arm `{}` of adoption `{}`", adopted.arm.name, adopted.trial.plan.name), whole)
}

/// The treatment as services would get it now.
fn wanted(target: &Target, obtained: &BTreeMap<String, Obtained>) -> Whole {
    let treatment = &target.arm.treatment;
    let obtained = obtained.get(&target.arm.name);
    let library = obtained.filter(|obtained| obtained.library.is_some());
    let own = obtained.filter(|obtained| obtained.library.is_none());
    Whole {
        library: library.map(|obtained| obtained.sha256.clone()),
        c_library: own.and_then(|obtained| obtained.version.as_ref()).map(ToString::to_string),
        settings: obtained.map(|obtained| settings_of(&obtained.settings)).unwrap_or_default(),
        torrc: treatment.torrc.clone(),
        restart_every: treatment.restart_every,
        thp_mode: HostFacts::read(&HostRoot::default()).ok().and_then(|facts| facts.thp_mode),
    }
}

/// Every treatment that a trial of this host that has ended proved in a running process.
fn proved(paths: &Paths, database: &Path) -> Vec<Proved> {
    let mut found: Vec<Proved> = Vec::new();
    let store = Store::open(database).ok();
    for name in trials(paths).unwrap_or_default() {
        let (Ok(prepared), Ok(state)) = (read_prepared(paths, &name), read_state(paths, &name)) else {
            continue;
        };
        if is_rollout(&prepared) || !matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted) {
            continue;
        }
        let prepared = Rc::new(prepared);
        let thp_mode = store.as_ref().and_then(|store| thp_mode(store, &prepared));
        for treatment in &prepared.services {
            let Some(service) = state.services.get(&treatment.service) else { continue };
            let Some(whole) = Whole::proved(treatment, service, thp_mode.as_deref()) else { continue };
            let is_known = |known: &Proved| {
                Rc::ptr_eq(&known.prepared, &prepared) && known.arm == treatment.arm && known.whole == whole
            };
            if !found.iter().any(is_known) {
                found.push(Proved { prepared: Rc::clone(&prepared), arm: treatment.arm.clone(), whole });
            }
        }
    }
    found
}

/// The host's mode when the trial was started.
fn thp_mode(store: &Store, prepared: &Prepared) -> Option<String> {
    let row = store.trials().ok()?.into_iter().rfind(|row| row.is_of(&prepared.plan.id))?;
    Some(row.plan.host_facts.get(THP_MODE)?.as_str()?.to_owned())
}
