//! The plan as a file.

use std::collections::BTreeSet;

use serde::Serialize;
use sha2::{Digest, Sha256};
use toml::ser::ValueSerializer;

use crate::{Build, Classified, DrawnPlan, ErrorClass, PlanId, TrialName, TrialPlan};

/// Why a file is not a plan, or no longer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanFileError(String);

impl Classified for PlanFileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

const BEFORE: &str = "\
# Nothing is applied before `heaptrial trial start`. The file may be edited until then, as the comments say; the start
# warns of services whose arm or block is not as drawn.
";
const DRAWN: &str = "
# What was drawn, by which version, from which seed. Must not be edited.
";
const METRIC: &str = "
# Which reading is compared: rss, anon, pss or cgroup.
";
const DURATION: &str = "
# How long, from the last restart on, and when it is looked at. May be edited before the start; the last look is the
# end. To add looks after the start makes false findings more likely.
";
const PACE: &str = "
# How services are restarted: at_once are down or not yet healthy at any time, at most; pause is from one restart to the
# next; a service that is not healthy within health_timeout has failed; it is committed after settle; after
# failure_budget failures the run stops. May be edited.
";
const ABOUT: &str = "
# What the trial is about. May be edited before the start.
";
const ARMS: &str = "
# The arms; exactly one is the control. To change a treatment, draw a new plan: builds belong to it.
";
const SERVICES: &str = "
# The services in the order in which they are restarted. Lines may be removed (a service that shall not take part), and
# moved as long as arms stay spread evenly; family may be set to keep services from being restarted together. arm and
# block must not be edited: the analysis assumes that within a block chance alone decided who got which arm. drawn is a
# mark of both; where they do not fit it, the report says so, and no verdict is written.
";
const BUILDS: &str = "
# The very build of each arm's allocator, by host. Must not be edited: services that run another file are contaminated.
# Arms on the services' own C library have none.
[builds]
";

impl DrawnPlan {
    /// The plan as TOML with comments.
    pub fn to_toml(&self) -> String {
        let mut text =
            format!("# The plan of the trial {}, as drawn by `heaptrial trial plan`.\n", self.name);
        let mut part = |comment: &str, key: &str, value: String| {
            text += comment;
            text += &format!("{key} = {value}\n");
        };
        part(BEFORE, "name", inline(&self.name));
        part(DRAWN, "id", inline(&self.id));
        part("", "tool_version", inline(&self.tool_version));
        part("", "seed", inline(&self.seed));
        part(METRIC, "metric", inline(&self.metric));
        part(DURATION, "duration", inline(&self.duration));
        part("", "looks", inline(&self.looks));
        part(PACE, "pace", inline(&self.pace));
        if !self.about.is_empty() {
            part(ABOUT, "about", inline(&self.about));
        }
        part(ARMS, "arms", one_a_line(&self.arms));
        part(SERVICES, "services", one_a_line(&self.services));
        text += BUILDS;
        for (arm, builds) in &self.builds {
            text += &format!("{} = {}\n", inline(arm), one_a_line(builds));
        }
        text
    }

    /// Reads a plan and checks what an edit may have broken.
    pub fn from_toml(text: &str) -> Result<Self, PlanFileError> {
        let plan: Self =
            toml::from_str(text).map_err(|error| refused(format!("the plan cannot be read: {error}")))?;
        plan.check()?;
        Ok(plan)
    }

    /// The id of all that the plan says, but its id.
    pub fn digest(&self) -> PlanId {
        let plan = Self { id: PlanId::default(), ..self.clone() };
        PlanId::of(Sha256::digest(plan.to_toml()).into())
    }

    /// Checks what types do not.
    fn check(&self) -> Result<(), PlanFileError> {
        self.name.parse::<TrialName>().map_err(refused)?;
        let trial = TrialPlan {
            name: self.name.clone(),
            services: None,
            duration: Some(self.duration),
            metric: Some(self.metric),
            looks: self.looks.clone(),
            pace: self.pace,
            about: self.about.clone(),
            arms: self.arms.clone(),
        };
        trial.check().map_err(refused)?;
        TrialPlan::check_arms(&self.arms, self.duration).map_err(refused)?;
        if self.looks.last() != Some(&self.duration) {
            let looks: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
            let (end, looks) = (self.duration, looks.join(", "));
            return Err(refused(format!(
                "the last look must be the trial's end, {end}; the looks are: {looks}"
            )));
        }
        self.check_services()?;
        self.builds.keys().try_for_each(|arm| self.check_builds(arm))
    }

    /// Refuses an arm that the plan does not have.
    fn check_arm(&self, arm: &str, what: &str) -> Result<(), PlanFileError> {
        let known: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        match known.contains(&arm) {
            true => Ok(()),
            false => Err(refused(format!("{what} `{arm}`, but the arms are {}", known.join(", ")))),
        }
    }

    fn check_services(&self) -> Result<(), PlanFileError> {
        if self.services.is_empty() {
            return Err(refused("the plan has no services"));
        }
        let mut seen = BTreeSet::new();
        for own in &self.services {
            if !seen.insert((&own.host, &own.service)) {
                return Err(refused(format!(
                    "{} of {} is there twice; a service has one place and one arm",
                    own.service, own.host
                )));
            }
            self.check_arm(&own.arm, &format!("{} is assigned to", own.service))?;
            check_text("host", &own.host)?;
            own.family.iter().try_for_each(|family| check_text("family", family))?;
        }
        let empty = self.arms.iter().find(|arm| self.services.iter().all(|own| own.arm != arm.name));
        empty.map_or(Ok(()), |arm| {
            let name = &arm.name;
            Err(refused(format!(
                "no service is assigned to the arm `{name}`; remove the arm, or assign services to it"
            )))
        })
    }

    fn check_builds(&self, arm: &str) -> Result<(), PlanFileError> {
        self.check_arm(arm, "[builds] has")?;
        let builds = &self.builds[arm];
        let mut hosts = BTreeSet::new();
        if let Some(host) = builds.iter().flat_map(|group| &group.hosts).find(|host| !hosts.insert(*host)) {
            return Err(refused(format!("[builds] has two builds of `{arm}` for host {host}")));
        }
        if let Some(own) = self.services.iter().find(|own| own.arm == arm && !hosts.contains(&own.host)) {
            let host = &own.host;
            return Err(refused(format!(
                "[builds] has no build of `{arm}` for host {host}, which has services of it"
            )));
        }
        builds.iter().try_for_each(|group| check_build(&group.build))
    }
}

fn refused(why: impl ToString) -> PlanFileError {
    PlanFileError(why.to_string())
}

/// The file's name becomes a part of a path.
fn check_build(build: &Build) -> Result<(), PlanFileError> {
    let digest = build.sha256.len() == 64
        && build.sha256.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    if !digest {
        return Err(refused(format!("sha256 `{}`: expected 64 hexadecimal digits", build.sha256)));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    match !build.file.is_empty() && build.file.chars().all(plain) && !build.file.starts_with(['.', '-']) {
        true => Ok(()),
        false => {
            Err(refused(format!("file `{}`: expected the name of a library without a folder", build.file)))
        }
    }
}

fn check_text(what: &str, text: &str) -> Result<(), PlanFileError> {
    match (1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(refused(format!("{what} `{text}`: expected 1 to 255 printable characters"))),
    }
}

fn one_a_line(items: &[impl Serialize]) -> String {
    let lines: String = items.iter().map(|item| format!("    {},\n", inline(item))).collect();
    format!("[\n{lines}]")
}

/// As a TOML value, also where it is a key.
fn inline(value: &impl Serialize) -> String {
    let mut text = String::new();
    match value.serialize(ValueSerializer::new(&mut text)) {
        Ok(written) => written.to_owned(),
        Err(error) => unreachable!("whatever a plan holds can be written as TOML: {error}"),
    }
}
