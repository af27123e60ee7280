//! Whether a rollout may go on. What judges here cannot change anything.

use heaptrial_analysis::Forecast;
use heaptrial_field::Standing;
use heaptrial_field::journal::Reason;
use heaptrial_model::{ServiceName, units};
use heaptrial_stats::geometric_mean;

use crate::plan::Before;

/// How often a gate over all services may stop though everything is as in the trial.
const FALSE_STOPS: f64 = 0.01;
/// From so many services on, their mean is held to a narrower limit than each of them.
const ENOUGH_FOR_A_MEAN: usize = 4;
/// Memory within this many times what is expected is nothing to stop for, however well the trial's services agree.
const HARMLESS: f64 = 1.1;
/// Without a forecast: memory above this many times that of before stops.
const MOST_OF_BEFORE: f64 = 1.25;
/// Work below this share of that of before stops; of a few services, whose work varies, below the other.
const LEAST_WORK: f64 = 0.5;
const LEAST_WORK_OF_FEW: f64 = 0.25;
/// Flags that a relay keeps over a restart, and whose loss costs the network what the memory is spent for.
const KEPT_FLAGS: [&str; 2] = ["Guard", "V2Dir"];

/// What samples and events tell of a service since it has its treatment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Median memory over the last window of its life, in bytes, and the life's age at its end in seconds.
    pub level: Option<(f64, f64)>,
    /// Seconds since its last reading.
    pub last_reading_seconds: Option<f64>,
    /// What events tell of its crashes.
    pub crashes: Vec<String>,
    /// The same of kills for want of memory.
    pub oom_kills: Vec<String>,
    /// Bytes read and written a second.
    pub work_bytes_per_second: Option<f64>,
    /// Flags of its network; `None` where they are not known.
    pub flags: Option<Vec<String>>,
}

/// A service before the judge.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// Which.
    pub service: &'a ServiceName,
    /// How it is.
    pub standing: &'a Standing,
    /// What samples tell.
    pub observed: Option<&'a Observed>,
    /// What it was before.
    pub before: Option<&'a Before>,
    /// Whether it is of the wave that is judged: what is older than all the trial saw has passed its own gate.
    pub is_new: bool,
}

/// What a gate goes by.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// What the services are expected to use.
    pub forecast: Option<&'a Forecast>,
    /// Readings may be this old, in seconds.
    pub stale_seconds: f64,
}

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that has to be known is known and as expected.
    Go,
    /// Something is not as expected.
    Stop,
    /// Something is not known. Missing data never passes.
    NotEnough,
}

/// A gate's decision and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// What it says.
    pub outcome: Outcome,
    /// What speaks against going on, or what is missing.
    pub reasons: Vec<Reason>,
    /// What speaks for it.
    pub evidence: Vec<String>,
}

#[derive(Default)]
struct Findings {
    against: Vec<Reason>,
    missing: Vec<Reason>,
    evidence: Vec<String>,
}

impl Findings {
    fn against(&mut self, service: &ServiceName, what: String) {
        self.against.push(Reason { service: Some(service.clone()), what });
    }

    fn missing(&mut self, service: &ServiceName, what: impl Into<String>) {
        self.missing.push(Reason { service: Some(service.clone()), what: what.into() });
    }
}

/// Judges all services that have the treatment.
pub fn judge(subjects: &[Subject<'_>], grounds: &Grounds<'_>) -> Gate {
    let mut findings = Findings::default();
    standings(subjects, &mut findings);
    failures(subjects, &mut findings);
    memory(subjects, grounds, &mut findings);
    work(subjects, &mut findings);
    let Findings { against, missing, evidence } = findings;
    if !against.is_empty() {
        return Gate { outcome: Outcome::Stop, reasons: against, evidence };
    }
    let outcome = if missing.is_empty() && !subjects.is_empty() { Outcome::Go } else { Outcome::NotEnough };
    Gate { outcome, reasons: missing, evidence }
}

fn standings(subjects: &[Subject<'_>], findings: &mut Findings) {
    let mut well = 0;
    for subject in subjects {
        match subject.standing {
            Standing::Well { .. } => well += 1,
            Standing::Untreated => findings.missing(subject.service, "it does not have the treatment"),
            Standing::NotReady(why) => findings.missing(subject.service, why.clone()),
            Standing::Failed(why) => findings.against(subject.service, why.clone()),
        }
    }
    findings.evidence.push(format!(
        "{well} of {} active, healthy, and proved to run what was measured",
        units::counted(subjects.len(), "service")
    ));
}

fn failures(subjects: &[Subject<'_>], findings: &mut Findings) {
    let of = |subject: &Subject<'_>| -> Vec<String> {
        let seen = subject.observed.into_iter();
        seen.flat_map(|seen| seen.crashes.iter().chain(&seen.oom_kills)).cloned().collect()
    };
    let all: Vec<(&ServiceName, Vec<String>)> =
        subjects.iter().map(|subject| (subject.service, of(subject))).collect();
    let count: usize = all.iter().map(|(_, told)| told.len()).sum();
    for (service, told) in all.into_iter().filter(|(_, told)| !told.is_empty()) {
        findings.against(service, told.join("; "));
    }
    findings.evidence.push(format!("crashes and OOM kills: {count}"));
}

fn memory(subjects: &[Subject<'_>], grounds: &Grounds<'_>, findings: &mut Findings) {
    let mut ratios = Vec::new();
    let mut narrowest: f64 = f64::INFINITY;
    let mut older = 0;
    for subject in subjects {
        let level = subject.observed.and_then(|seen| {
            let fresh = seen.last_reading_seconds.is_some_and(|age| age <= grounds.stale_seconds);
            seen.level.filter(|_| fresh)
        });
        let Some((bytes, age)) = level else {
            findings.missing(
                subject.service,
                "no readings of its memory yet; is heaptrial-agent.service active?",
            );
            continue;
        };
        let (expected, limit, whose) =
            match (grounds.forecast, subject.before.and_then(|before| before.bytes)) {
                (Some(forecast), _) => {
                    let confidence = 1.0 - FALSE_STOPS / subjects.len() as f64;
                    match forecast.at(age, confidence) {
                        Some(expected) => {
                            let limit = expected.high_bytes.max(HARMLESS * expected.median_bytes);
                            (expected.median_bytes, limit, "the trial's services used")
                        }
                        None if subject.is_new || age < forecast.last_age() => {
                            let age = units::duration(age);
                            let what = format!("the trial tells nothing of memory at age {age}");
                            findings.missing(subject.service, what);
                            continue;
                        }
                        None => {
                            older += 1;
                            continue;
                        }
                    }
                }
                (None, Some(before)) => (before, MOST_OF_BEFORE * before, "before it used"),
                (None, None) => {
                    findings.missing(subject.service, "neither a forecast nor its memory before is known");
                    continue;
                }
            };
        if bytes > limit {
            findings.against(
                subject.service,
                format!(
                    "uses {} at age {}; {whose} {}, and the limit for one service is {}",
                    units::memory(bytes),
                    units::duration(age),
                    units::memory(expected),
                    units::memory(limit)
                ),
            );
        }
        ratios.push(bytes / expected);
        narrowest = narrowest.min(limit / expected);
    }
    if older > 0 {
        let services = units::counted(older, "service");
        findings
            .evidence
            .push(format!("{services} of earlier waves are older than what the trial can tell of"));
    }
    let Some(mean) = geometric_mean(&ratios) else { return };
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    let what = if grounds.forecast.is_some() { "the trial's forecast" } else { "that of before" };
    findings
        .evidence
        .push(format!("memory is {mean:.2} of {what} (geometric mean), the highest {highest:.2}"));
    if ratios.len() >= ENOUGH_FOR_A_MEAN {
        // A mean of n spreads over 1/sqrt(n) of what one does, but for the error of the forecast itself.
        let share = (ratios.len() as f64).sqrt().recip().max(0.5);
        let limit = narrowest.powf(share).max(HARMLESS);
        if mean > limit {
            let services = units::counted(ratios.len(), "service");
            let what = format!(
                "memory of {services} is {mean:.2} of {what} (geometric mean); the limit for so many is {limit:.2}"
            );
            findings.against.push(Reason { service: None, what });
        }
    }
}

fn work(subjects: &[Subject<'_>], findings: &mut Findings) {
    let mut ratios = Vec::new();
    for subject in subjects {
        let (Some(before), Some(seen)) = (subject.before, subject.observed) else { continue };
        if let Some(flags) = &seen.flags {
            let lost = |flag: &&str| {
                before.flags.iter().any(|had| had == flag) && !flags.iter().any(|has| has == flag)
            };
            for flag in KEPT_FLAGS.iter().copied().filter(lost) {
                findings.against(subject.service, format!("lost the {flag} flag that it had before"));
            }
        }
        match (before.work_bytes_per_second.filter(|rate| *rate > 0.0), seen.work_bytes_per_second) {
            (Some(before), Some(now)) => ratios.push((now / before).max(1e-6)),
            (Some(_), None) => findings.missing(subject.service, "its work is not known yet, and was before"),
            (None, _) => {}
        }
    }
    let Some(mean) = geometric_mean(&ratios) else {
        findings.evidence.push("work beside memory is not known of these services".to_owned());
        return;
    };
    let least = if ratios.len() >= ENOUGH_FOR_A_MEAN { LEAST_WORK } else { LEAST_WORK_OF_FEW };
    let told = format!("work is {mean:.2} of that of before");
    if mean < least {
        findings.against.push(Reason { service: None, what: format!("{told}, and the limit is {least}") });
    }
    findings.evidence.push(told);
}

#[cfg(test)]
mod tests {
    use heaptrial_model::LifeKey;

    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn name(number: usize) -> ServiceName {
        format!("tor@r{number}.service").parse().unwrap()
    }

    fn well() -> Standing {
        Standing::Well { life: LifeKey { boot_id: "b".into(), pid: 7, start_ticks: 1 } }
    }

    fn seen() -> Observed {
        Observed {
            level: Some((100.0 * MIB, 3600.0)),
            last_reading_seconds: Some(10.0),
            work_bytes_per_second: Some(1e6),
            flags: Some(vec!["Guard".into(), "V2Dir".into()]),
            ..Observed::default()
        }
    }

    fn before() -> Before {
        Before {
            bytes: Some(100.0 * MIB),
            work_bytes_per_second: Some(1e6),
            flags: vec!["Guard".into(), "HSDir".into()],
        }
    }

    /// Judges services that are well but for what `change` does to the first of them.
    fn judged(count: usize, change: impl Fn(&mut Standing, &mut Observed, &mut Before)) -> Gate {
        let mut all: Vec<(ServiceName, Standing, Observed, Before)> =
            (0..count).map(|number| (name(number), well(), seen(), before())).collect();
        if let Some((_, standing, observed, before)) = all.first_mut() {
            change(standing, observed, before);
        }
        let subjects: Vec<Subject<'_>> = all
            .iter()
            .map(|(service, standing, observed, before)| Subject {
                service,
                standing,
                observed: Some(observed),
                before: Some(before),
                is_new: true,
            })
            .collect();
        judge(&subjects, &Grounds { forecast: None, stale_seconds: 300.0 })
    }

    #[track_caller]
    fn stops(change: impl Fn(&mut Standing, &mut Observed, &mut Before), why: &str) {
        let gate = judged(3, change);
        assert_eq!(gate.outcome, Outcome::Stop, "{gate:?}");
        assert!(gate.reasons.iter().any(|reason| reason.to_string().contains(why)), "{gate:?}");
    }

    #[track_caller]
    fn waits(change: impl Fn(&mut Standing, &mut Observed, &mut Before), why: &str) {
        let gate = judged(3, change);
        assert_eq!(gate.outcome, Outcome::NotEnough, "{gate:?}");
        assert!(gate.reasons.iter().all(|reason| reason.to_string().contains(why)), "{gate:?}");
    }

    #[test]
    fn what_is_known_and_as_before_goes_on() {
        let gate = judged(3, |_, _, _| {});
        assert_eq!((gate.outcome, gate.reasons.len()), (Outcome::Go, 0));
        let evidence = gate.evidence.join("; ");
        for part in ["3 of 3 services active", "crashes and OOM kills: 0", "memory is 1.00", "work is 1.00"] {
            assert!(evidence.contains(part), "{evidence}");
        }
    }

    #[test]
    fn each_kind_of_trouble_stops_and_names_the_service() {
        stops(
            |standing, _, _| *standing = Standing::Failed("it is failed".into()),
            "tor@r0.service: it is failed",
        );
        stops(|_, seen, _| seen.crashes = vec!["exit code 3".into()], "tor@r0.service: exit code 3");
        stops(|_, seen, _| seen.oom_kills = vec!["no memory".into(); 2], "no memory; no memory");
        stops(|_, seen, _| seen.level = Some((126.0 * MIB, 60.0)), "tor@r0.service: uses 126 MiB");
        stops(|_, seen, _| seen.flags = Some(vec!["V2Dir".into()]), "lost the Guard flag");
        stops(|_, seen, _| seen.work_bytes_per_second = Some(1e3), "work is 0.10");
        // One that is known to fail outweighs one that is not known.
        let gate = judged(2, |_, seen, _| {
            seen.crashes = vec!["exit code 3".into()];
            seen.level = None;
        });
        assert_eq!(gate.outcome, Outcome::Stop);
    }

    #[test]
    fn what_is_missing_never_passes() {
        assert_eq!(judged(0, |_, _, _| {}).outcome, Outcome::NotEnough);
        waits(|standing, _, _| *standing = Standing::Untreated, "does not have the treatment");
        waits(|standing, _, _| *standing = Standing::NotReady("45%".into()), "45%");
        waits(|_, seen, _| seen.level = None, "no readings");
        waits(|_, seen, _| seen.last_reading_seconds = Some(301.0), "no readings");
        waits(|_, seen, _| seen.last_reading_seconds = None, "no readings");
        waits(|_, _, before| before.bytes = None, "neither a forecast");
        waits(|_, seen, _| seen.work_bytes_per_second = None, "work is not known");
        let service = name(0);
        let bare =
            Subject { service: &service, standing: &well(), observed: None, before: None, is_new: true };
        let grounds = Grounds { forecast: None, stale_seconds: 300.0 };
        assert_eq!(judge(&[bare], &grounds).outcome, Outcome::NotEnough);
    }

    #[test]
    fn flags_and_work_that_nobody_knew_before_are_not_asked_for() {
        let gate = judged(2, |_, seen, before| {
            *before = Before { bytes: before.bytes, ..Before::default() };
            seen.flags = None;
            seen.work_bytes_per_second = None;
        });
        assert_eq!(gate.outcome, Outcome::Go, "{gate:?}");
    }

    #[test]
    fn many_services_a_little_above_stop_where_one_would_not() {
        let all: Vec<ServiceName> = (0..9).map(name).collect();
        let (standing, before) = (well(), before());
        for (ratio, outcome) in [(1.05, Outcome::Go), (1.2, Outcome::Stop)] {
            let observed = Observed { level: Some((ratio * 100.0 * MIB, 60.0)), ..seen() };
            let subject = |service| Subject {
                service,
                standing: &standing,
                observed: Some(&observed),
                before: Some(&before),
                is_new: true,
            };
            let subjects: Vec<Subject<'_>> = all.iter().map(subject).collect();
            let grounds = Grounds { forecast: None, stale_seconds: 300.0 };
            let gate = judge(&subjects, &grounds);
            assert_eq!(gate.outcome, outcome, "{ratio} {gate:?}");
            assert!(judge(&subjects[..1], &grounds).outcome == Outcome::Go);
        }
    }
}
