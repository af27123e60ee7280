//! What is rolled out: always a verdict, from a file, from a trial of this host or of an allocator that nobody measured.

use std::collections::BTreeSet;
use std::path::Path;

use heaptrial_allocator::Catalog;
use heaptrial_change::read_state;
use heaptrial_evaluate::analysis::Fleet;
use heaptrial_evaluate::judgement::{Judgement, Options};
use heaptrial_fleet::rollout::{Stratum, Verdict, strata};
use heaptrial_inspect::Service;
use heaptrial_model::{AllocatorSpec, Arm, ServiceName, ServicePattern, TrialName};
use heaptrial_store::Store;

use super::options::StartOptions;
use crate::commands::host::Host;
use crate::commands::host::record::is_over;
use crate::commands::trial::verdict;
use crate::exit::Failure;
use crate::output::some;

/// What is rolled out, to which services.
pub struct Target {
    pub verdict: Verdict,
    /// The digest of its file.
    pub digest: Option<String>,
    pub patterns: Vec<ServicePattern>,
    /// The readings of a trial of this host.
    pub fleet: Option<Fleet>,
    /// Services of that trial that are relays, also where they do not run now.
    relays: BTreeSet<ServiceName>,
}

impl Target {
    /// Finds what `rollout start` names.
    pub fn find(options: &StartOptions, host: &Host<'_>) -> Result<Self, Failure> {
        let what = options.what.as_str();
        let file = Path::new(what);
        if file.is_file() {
            let (verdict, digest) = Verdict::read(file)?;
            return Self::elsewhere(verdict, Some(digest), options);
        }
        let is_trial = what.parse::<TrialName>().is_ok() && host.paths.trial(what).exists();
        let spec: Option<AllocatorSpec> = what.parse().ok();
        match spec.filter(|spec| Catalog::builtin().family(&spec.family).is_some()) {
            _ if is_trial => Self::of_trial(what, host, options),
            Some(spec) => Self::elsewhere(Verdict::of_spec(&spec), None, options),
            None => Err(Failure::usage(format!(
                "`{what}` is no trial of this host, no file and no allocator; `heaptrial trial status` lists trials, `heaptrial \
                 allocators list` allocators"
            ))),
        }
    }

    fn elsewhere(verdict: Verdict, digest: Option<String>, options: &StartOptions) -> Result<Self, Failure> {
        if options.services.is_empty() {
            return Err(Failure::usage(format!(
                "which services get `{}`? Name them, such as --services 'tor@*'",
                options.what
            )));
        }
        if options.arm.is_some() {
            return Err(Failure::usage("--arm is for a trial of this host"));
        }
        let patterns = options.services.clone();
        Ok(Self { verdict, digest, patterns, fleet: None, relays: BTreeSet::new() })
    }

    /// An arm of a trial that has ended on this host.
    fn of_trial(name: &str, host: &Host<'_>, options: &StartOptions) -> Result<Self, Failure> {
        let prepared = host.trial(name)?;
        if !is_over(&read_state(&host.paths, name)?) {
            return Err(Failure::refused(format!(
                "trial `{name}` has not ended, and a rollout would change what its arms run; `heaptrial trial stop {name}` ends it \
                 and leaves services as they are"
            )));
        }
        let Some(arm) = options.arm.as_deref() else {
            let known = some(prepared.plan.arms.iter().map(|arm| &arm.name));
            return Err(Failure::usage(format!("which arm of trial `{name}`? --arm takes one of: {known}")));
        };
        let store = Store::open(&host.database)?;
        let row = store.trials()?.into_iter().rfind(|row| row.is_of(&prepared.plan.id)).ok_or_else(|| {
            Failure::refused(format!(
                "{} has no readings of trial `{name}`; an allocator by its name, with --force, is rolled out without them",
                host.database.display()
            ))
        })?;
        let judgement = Judgement::of(&store, row.id, &Options::default())?;
        let own = prepared.services.iter().map(|treatment| ServicePattern::of(&treatment.service));
        let relays = prepared.services.iter().filter(|treatment| treatment.relay.is_some());
        Ok(Self {
            verdict: verdict::of(&judgement, arm)?,
            digest: None,
            patterns: if options.services.is_empty() { own.collect() } else { options.services.clone() },
            fleet: Some(judgement.fleet),
            relays: relays.map(|treatment| treatment.service.clone()).collect(),
        })
    }

    /// What services are given, as the one arm of a rollout.
    pub fn arm(&self) -> Arm {
        Arm { control: true, ..self.verdict.arm.clone() }
    }

    /// What services are held to, by kind and by what they ran before.
    pub fn strata(&self, services: &[Service], names: &[ServiceName]) -> Vec<Stratum> {
        let loaded = |name: &str| services.iter().find(|service| service.name().as_str() == name);
        let is_relay = |name: &str| {
            let of_trial = self.relays.iter().any(|own| own.as_str() == name);
            of_trial || loaded(name).is_some_and(|service| service.relay.is_some())
        };
        // The arm of its trial here, or else the control, where that is what it runs.
        let ran = |name: &ServiceName| {
            if let Some(fleet) = &self.fleet {
                if let Some(own) = fleet.services.iter().find(|own| own.name == name.as_str()) {
                    return Some(fleet.arms[*own.arms.first()?].name.clone());
                }
            }
            let identity = loaded(name.as_str())?.process.as_ref()?.identity.as_ref()?;
            let control = self.verdict.control_allocator.as_ref();
            let runs_control = control.is_none_or(|control| control.family == identity.family);
            // Without a trial there is none.
            Some(self.verdict.control.clone()).filter(|control| runs_control && !control.is_empty())
        };
        strata(&self.verdict.kinds, names, &is_relay, &ran)
    }
}
