//! The gate of several hosts: what the gates of each see, and their services taken together.

use heaptrial_model::{Classified, ErrorClass, units};
use serde::{Deserialize, Serialize};

use super::{Findings, Gate, Level, Outcome, Reason, memory, work};
use crate::rollout::progress::Course;

/// What a host saw so long ago, in seconds, says nothing of now.
const STALE_SECONDS: f64 = 600.0;
/// A clock that is ahead by more hides how old it is.
const AHEAD_SECONDS: f64 = 60.0;
const SECOND_US: f64 = 1e6;

/// What the gate of a host sees now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub host: String,
    pub rollout: String,
    pub arm: String,
    /// The digest of the verdict by which it goes, where it goes by one.
    pub verdict: Option<String>,
    /// When that was, microseconds since 1970.
    pub wall_us: i64,
    /// How far it has come.
    pub standing: Course,
    /// Services that have the treatment, and are judged.
    pub services: usize,
    /// Why it stopped, if it did.
    pub reasons: Vec<Reason>,
    /// What its gate would say.
    pub gate: Gate,
}

/// Why hosts cannot be judged together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("no host to judge")]
    Nothing,
    /// One of them is there twice.
    #[error("host `{0}` is there twice: give what each host sees once")]
    Twice(String),
    /// They do not bring the same.
    #[error(
        "rollout `{first}` of {first_host} and `{other}` of {other_host} do not go by one verdict for one arm"
    )]
    Unlike { first: String, first_host: String, other: String, other_host: String },
}

impl Classified for PoolError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl Judged {
    /// How old what it saw is, in seconds; below 0 by a clock that is ahead.
    fn age(&self, now_us: i64) -> f64 {
        (now_us - self.wall_us) as f64 / SECOND_US
    }
}

/// Judges hosts together; `now_us` are microseconds since 1970.
///
/// A stop of one is a stop of all; means and medians are taken of all services that were seen just now, so that a little too much on
/// each of several hosts is seen though none of them stands out.
pub fn pool(hosts: &[Judged], now_us: i64) -> Result<Gate, PoolError> {
    check(hosts)?;
    let mut findings = Findings::default();
    for host in hosts {
        one(host, now_us, &mut findings);
    }
    let fresh = hosts.iter().filter(|host| (-AHEAD_SECONDS..=STALE_SECONDS).contains(&host.age(now_us)));
    let (mut levels, mut work) = (Vec::new(), Vec::new());
    for host in fresh {
        let named = |service: &str| format!("{}/{service}", host.host);
        let own = host.gate.levels.iter();
        levels.extend(own.map(|level| Level { service: named(&level.service), ..level.clone() }));
        work.extend(host.gate.work.iter().map(|(service, ratio)| (named(service), *ratio)));
    }
    memory::together(&levels, &mut findings);
    work::together(work.clone(), &mut findings);
    Ok(findings.gate(levels, work, hosts.iter().map(|host| host.services).sum()))
}

fn check(hosts: &[Judged]) -> Result<(), PoolError> {
    let Some(first) = hosts.first() else { return Err(PoolError::Nothing) };
    for (index, host) in hosts.iter().enumerate() {
        if hosts[..index].iter().any(|before| before.host == host.host) {
            return Err(PoolError::Twice(host.host.clone()));
        }
        if (&host.arm, &host.verdict) != (&first.arm, &first.verdict) {
            return Err(PoolError::Unlike {
                first: first.rollout.clone(),
                first_host: first.host.clone(),
                other: host.rollout.clone(),
                other_host: host.host.clone(),
            });
        }
    }
    Ok(())
}

/// What a host says by itself.
fn one(host: &Judged, now_us: i64, findings: &mut Findings) {
    let told = |what: String| Reason { service: None, what: format!("{}: {what}", host.host) };
    let because = |findings: &mut Findings, what: &str| {
        let of_gate = host.gate.reasons.iter().filter(|_| host.gate.outcome == Outcome::Stop);
        let reasons: Vec<String> = host.reasons.iter().chain(of_gate).map(ToString::to_string).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        findings.against.push(told(format!("{what}{why}")));
    };
    let age = host.age(now_us);
    match (host.standing, host.gate.outcome) {
        (Course::Stopped | Course::CompleteInPart | Course::BeingRolledBack | Course::RolledBack, _) => {
            because(findings, host.standing.as_str());
        }
        (_, Outcome::Stop) => because(findings, "its gate says stop"),
        (_, _) if age > STALE_SECONDS => {
            findings.missing.push(told(format!("what it saw is {} old", units::duration(age))));
        }
        (_, _) if age < -AHEAD_SECONDS => {
            let ahead = units::duration(-age);
            findings
                .missing
                .push(told(format!("how old it is cannot be told: its clock is {ahead} ahead of this one")));
        }
        (Course::NotBegun | Course::Paused | Course::CutShort, _) => {
            findings.missing.push(told(host.standing.as_str().to_owned()));
        }
        (Course::InProgress | Course::Complete, Outcome::NotEnough) if host.gate.reasons.is_empty() => {
            findings.missing.push(told("no service has the treatment yet".to_owned()));
        }
        (Course::InProgress | Course::Complete, Outcome::NotEnough) => {
            findings.missing.extend(host.gate.reasons.iter().map(|reason| told(reason.to_string())));
        }
        (Course::InProgress | Course::Complete, Outcome::Go) => {}
    }
    findings.evidence.push(format!(
        "{}: {}, {} judged",
        host.host,
        host.standing.as_str(),
        units::counted(host.services, "service")
    ));
}
