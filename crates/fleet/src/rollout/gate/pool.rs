//! The gate of several hosts: what the gates of each see, and their services taken together.

use heaptrial_model::units;
use serde::{Deserialize, Serialize};

use super::{Findings, Gate, Level, Outcome, Reason, memory, work};
use crate::rollout::Refused;
use crate::rollout::progress::Course;

/// What hosts saw longer ago than so many seconds says nothing of now; nor does what a clock says that is ahead by more.
const FRESH_SECONDS: f64 = 600.0;

/// What the gate of a host sees now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub host: String,
    pub rollout: String,
    pub arm: String,
    /// The digest of the verdict by which it goes, where it goes by one.
    pub verdict: Option<String>,
    pub wall_us: i64,
    pub standing: Course,
    /// Services that have the treatment, and are judged.
    pub services: usize,
    pub reasons: Vec<Reason>,
    pub gate: Gate,
}

/// Judges hosts together; `now_us` are microseconds since 1970.
///
/// A stop of one is a stop of all; means and medians are taken of all services, so that a little too much on each of several
/// hosts is seen though none of them stands out.
pub fn pool(hosts: &[Judged], now_us: i64) -> Result<Gate, Refused> {
    check(hosts, now_us)?;
    let mut findings = Findings::default();
    let (mut levels, mut work) = (Vec::new(), Vec::new());
    for host in hosts {
        one(host, &mut findings);
        let named = |service: &str| format!("{}/{service}", host.host);
        let own = host.gate.levels.iter();
        levels.extend(own.map(|level| Level { service: named(&level.service), ..level.clone() }));
        work.extend(host.gate.work.iter().map(|(service, ratio)| (named(service), *ratio)));
    }
    memory::together(&levels, &mut findings);
    work::together(&work, &mut findings);
    Ok(findings.gate(levels, work, hosts.iter().map(|host| host.services).sum()))
}

fn check(hosts: &[Judged], now_us: i64) -> Result<(), Refused> {
    let Some(first) = hosts.first() else { return Err(Refused("no host to judge".to_owned())) };
    for (index, host) in hosts.iter().enumerate() {
        let name = &host.host;
        if hosts[..index].iter().any(|before| before.host == *name) {
            return Err(Refused(format!(
                "host `{name}` is there twice: give the readings of each host once"
            )));
        }
        if (&host.arm, &host.verdict) != (&first.arm, &first.verdict) {
            return Err(Refused(format!(
                "rollout `{}` of {} and `{}` of {name} have different verdicts or arms",
                first.rollout, first.host, host.rollout
            )));
        }
        let age = (now_us - host.wall_us) as f64 / 1e6;
        if age.abs() > FRESH_SECONDS {
            let apart = units::duration(age.abs());
            return Err(Refused(format!(
                "the readings of `{name}` are {apart} from now: ask it again, and compare its clock"
            )));
        }
    }
    Ok(())
}

/// What a host says by itself.
fn one(host: &Judged, findings: &mut Findings) {
    let reason = |what: &str| Reason { service: None, what: format!("{}: {what}", host.host) };
    let (standing, gate) = (host.standing, &host.gate);
    let has_stopped = matches!(
        standing,
        Course::Stopped | Course::CompleteInPart | Course::BeingRolledBack | Course::RolledBack
    );
    if has_stopped || gate.outcome == Outcome::Stop {
        let what = if has_stopped { standing.to_string() } else { "its gate says stop".to_owned() };
        let of_gate = gate.reasons.iter().filter(|_| gate.outcome == Outcome::Stop);
        let why = host.reasons.iter().chain(of_gate).map(|reason| format!("; {reason}"));
        findings.against.push(reason(&format!("{what}{}", why.collect::<String>())));
    } else if matches!(standing, Course::NotBegun | Course::Paused | Course::CutShort) {
        findings.missing.push(reason(&standing.to_string()));
    } else if gate.outcome == Outcome::NotEnough && gate.reasons.is_empty() {
        findings.missing.push(reason("no service has the treatment yet"));
    } else if gate.outcome == Outcome::NotEnough {
        findings.missing.extend(gate.reasons.iter().map(|missing| reason(&missing.to_string())));
    }
    findings.evidence.push(format!(
        "{}: {standing}, {} judged",
        host.host,
        units::counted(host.services, "service")
    ));
}
