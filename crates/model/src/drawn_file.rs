//! The plan as a file.

use std::collections::BTreeSet;

use serde::Serialize;
use sha2::{Digest, Sha256};
use toml::ser::ValueSerializer;

use crate::{
    Build, Classified, DrawnPlan, ErrorClass, HumanDuration, PlanId, ServiceName, TrialName, TrialNameError,
    TrialPlan, TrialPlanError,
};

/// Why a file is not a plan, or no longer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    /// Not TOML, or not the fields of a plan.
    #[error("the plan cannot be read: {0}")]
    Syntax(String),
    /// The name cannot name files and units.
    #[error(transparent)]
    Name(#[from] TrialNameError),
    /// Arms, looks or pace that make no trial.
    #[error(transparent)]
    Trial(#[from] TrialPlanError),
    #[error("the last look must be the trial's end, {duration}; the looks are: {looks}")]
    LastLook { duration: HumanDuration, looks: String },
    #[error("the plan has no services")]
    NoServices,
    #[error("{service} is assigned to `{arm}`, but the arms are {known}")]
    UnknownArm {
        service: ServiceName,
        arm: String,
        /// The arms that there are.
        known: String,
    },
    #[error("no service is assigned to the arm `{0}`; remove the arm, or assign services to it")]
    EmptyArm(String),
    #[error("{service} of {host} is there twice; a service has one place and one arm")]
    Twice { service: ServiceName, host: String },
    /// Part of a path, or of a message on one line.
    #[error("{what} `{text}`: expected {expected}")]
    Text { what: &'static str, text: String, expected: &'static str },
    #[error("[builds] has two builds of `{arm}` for host {host}")]
    TwoBuilds { arm: String, host: String },
    #[error("[builds] has no build of `{arm}` for host {host}, which has services of it")]
    NoBuild { arm: String, host: String },
    #[error("[builds] has `{arm}`, but the arms are {known}")]
    UnknownBuild {
        arm: String,
        /// The arms that there are.
        known: String,
    },
}

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
        let plan: Self = toml::from_str(text).map_err(|error| PlanFileError::Syntax(error.to_string()))?;
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
        self.name.parse::<TrialName>()?;
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
        trial.check()?;
        TrialPlan::check_arms(&self.arms, self.duration)?;
        if self.looks.last() != Some(&self.duration) {
            let looks: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
            return Err(PlanFileError::LastLook { duration: self.duration, looks: looks.join(", ") });
        }
        self.check_services()?;
        self.builds.keys().try_for_each(|arm| self.check_builds(arm))
    }

    fn known_arms(&self) -> String {
        self.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn check_services(&self) -> Result<(), PlanFileError> {
        if self.services.is_empty() {
            return Err(PlanFileError::NoServices);
        }
        let mut seen = BTreeSet::new();
        for assignment in &self.services {
            let service = assignment.service.clone();
            if !seen.insert((&assignment.host, &assignment.service)) {
                return Err(PlanFileError::Twice { service, host: assignment.host.clone() });
            }
            if self.arms.iter().all(|arm| arm.name != assignment.arm) {
                let arm = assignment.arm.clone();
                return Err(PlanFileError::UnknownArm { service, arm, known: self.known_arms() });
            }
            check_text("host", &assignment.host)?;
            assignment.family.iter().try_for_each(|family| check_text("family", family))?;
        }
        let empty =
            self.arms.iter().find(|arm| self.services.iter().all(|assigned| assigned.arm != arm.name));
        empty.map_or(Ok(()), |arm| Err(PlanFileError::EmptyArm(arm.name.clone())))
    }

    fn check_builds(&self, arm: &str) -> Result<(), PlanFileError> {
        if self.arms.iter().all(|known| known.name != arm) {
            return Err(PlanFileError::UnknownBuild { arm: arm.to_owned(), known: self.known_arms() });
        }
        let builds = &self.builds[arm];
        let mut hosts = BTreeSet::new();
        if let Some(host) = builds.iter().flat_map(|group| &group.hosts).find(|host| !hosts.insert(*host)) {
            return Err(PlanFileError::TwoBuilds { arm: arm.to_owned(), host: host.clone() });
        }
        if let Some(own) = self.services.iter().find(|own| own.arm == arm && !hosts.contains(&own.host)) {
            return Err(PlanFileError::NoBuild { arm: arm.to_owned(), host: own.host.clone() });
        }
        builds.iter().try_for_each(|group| check_build(&group.build))
    }
}

/// The file's name becomes a part of a path.
fn check_build(build: &Build) -> Result<(), PlanFileError> {
    let bad = |what, text: &str, expected| PlanFileError::Text { what, text: text.to_owned(), expected };
    let digest = build.sha256.len() == 64
        && build.sha256.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    if !digest {
        return Err(bad("sha256", &build.sha256, "64 hexadecimal digits"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let file = !build.file.is_empty() && build.file.chars().all(plain) && !build.file.starts_with(['.', '-']);
    if file { Ok(()) } else { Err(bad("file", &build.file, "the name of a library without a folder")) }
}

fn check_text(what: &'static str, text: &str) -> Result<(), PlanFileError> {
    let fits = (1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    let expected = "1 to 255 printable characters";
    if fits { Ok(()) } else { Err(PlanFileError::Text { what, text: text.to_owned(), expected }) }
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
