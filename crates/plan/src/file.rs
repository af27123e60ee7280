//! The plan as a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use heaptrial_model::{
    About, Classified, ErrorClass, HumanDuration, PlanId, ServiceName, TrialName, TrialNameError, TrialPlan,
    TrialPlanError,
};
use sha2::{Digest, Sha256};
use toml::Value;

use crate::draw::check_arms;
use crate::{Build, BuildOfHosts, Builds, DrawnPlan, PlanError};

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
    /// Arms that make no trial of this length.
    #[error(transparent)]
    Arms(#[from] PlanError),
    /// The last look is not the end.
    #[error("the last look must be the trial's end, {duration}; the looks are: {looks}")]
    LastLook { duration: HumanDuration, looks: String },
    #[error("the plan has no services")]
    NoServices,
    /// A service in an arm that is not there.
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
    /// A text that cannot be.
    #[error("{what} `{text}`: expected {expected}")]
    Text { what: &'static str, text: String, expected: &'static str },
    /// Which build a host runs is not clear.
    #[error("[builds] has two builds of `{arm}` for host {host}")]
    TwoBuilds { arm: String, host: String },
    /// A host whose services have no build.
    #[error("[builds] has no build of `{arm}` for host {host}, which has services of it")]
    NoBuild { arm: String, host: String },
    /// A build of an arm that is not there.
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

/// A part of the file: what stands above it, its key, and its value.
struct Part {
    comment: &'static str,
    key: &'static str,
    value: String,
}

impl DrawnPlan {
    /// The plan as TOML with comments.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# The plan of the trial {}, as drawn by `heaptrial trial plan`.\n\
             # Nothing is applied before `heaptrial trial start`. The file may be edited until then, as the comments\n\
             # say; the start tells of a plan that differs from what was drawn.\n",
            self.name
        );
        for part in self.parts() {
            if !part.comment.is_empty() {
                text.push('\n');
                part.comment.lines().for_each(|line| {
                    let _ = writeln!(text, "# {line}");
                });
            }
            let _ = writeln!(text, "{} = {}", part.key, part.value);
        }
        text.push_str(
            "\n# The very build of each arm's allocator. Must not be edited: services that run another file are\n\
             # contaminated. Arms on the services' own C library have none.\n[builds]\n",
        );
        text + &self.builds_text()
    }

    /// Reads a plan and checks all that an edit may have broken. A plan that was edited and holds together is accepted;
    /// [`DrawnPlan::is_edited`] tells.
    pub fn from_toml(text: &str) -> Result<Self, PlanFileError> {
        let mut plan: Self =
            toml::from_str(text).map_err(|error| PlanFileError::Syntax(error.to_string()))?;
        // Whoever edits it may leave out what everybody leaves out.
        for assignment in &mut plan.services {
            assignment.service = ServiceName::of_unit(assignment.service.as_str())
                .map_err(|error| PlanFileError::Syntax(error.to_string()))?;
        }
        plan.check()?;
        Ok(plan)
    }

    /// Whether this is no longer what was drawn.
    pub fn is_edited(&self) -> bool {
        self.id != self.digest()
    }

    /// The id of all that the plan says, but its id.
    pub fn digest(&self) -> PlanId {
        let mut digest = Sha256::new();
        // Notes may be written on; what was expected may not. Marks follow from the rest.
        for part in self.parts().iter().filter(|part| !matches!(part.key, "id" | "about" | "services")) {
            digest.update(format!("{} = {}\n", part.key, part.value));
        }
        digest.update(format!("services = [\n{}]\n", self.services_text(false)));
        if let Some(hypothesis) = &self.about.hypothesis {
            digest.update(format!("hypothesis = {}\n", quoted(hypothesis)));
        }
        digest.update(self.builds_text());
        PlanId::of(digest.finalize().into())
    }

    fn parts(&self) -> Vec<Part> {
        let looks: Vec<String> = self.looks.iter().map(|look| quoted(&look.to_string())).collect();
        let arms: String = self.arms.iter().map(|arm| format!("    {},\n", arm_line(arm))).collect();
        let part = |comment, key, value| Part { comment, key, value };
        let mut parts = vec![
            part("", "name", quoted(&self.name)),
            part(
                "What was drawn, by which version, from which seed. Must not be edited.",
                "id",
                quoted(self.id.as_str()),
            ),
            part("", "tool_version", quoted(&self.tool_version)),
            part("", "seed", self.seed.to_string()),
            part(
                "Which reading is compared: rss, anon, pss or cgroup.",
                "metric",
                quoted(self.metric.as_str()),
            ),
            part(
                "How long, from the last restart on, and when it is looked at. May be edited before the start; the last\n\
                 look is the end. To add looks after the start makes false findings more likely.",
                "duration",
                quoted(&self.duration.to_string()),
            ),
            part("", "looks", format!("[{}]", looks.join(", "))),
            part(
                "How services are restarted: at_once are down or not yet healthy at any time, at most; pause is from one\n\
                 restart to the next; a service that is not healthy within health_timeout has failed; it is committed\n\
                 after settle; after failure_budget failures the run stops. May be edited.",
                "pace",
                format!(
                    "{{ at_once = {}, pause = {}, health_timeout = {}, settle = {}, failure_budget = {} }}",
                    self.pace.at_once,
                    quoted(&self.pace.pause.to_string()),
                    quoted(&self.pace.health_timeout.to_string()),
                    quoted(&self.pace.settle.to_string()),
                    self.pace.failure_budget
                ),
            ),
            part(
                "The arms; exactly one is the control. To change a treatment, draw a new plan: builds belong to it.",
                "arms",
                format!("[\n{arms}]"),
            ),
            part(
                "The services in the order in which they are restarted. Lines may be removed (a service that shall not\n\
                 take part), and moved as long as arms stay spread evenly; family may be set to keep services from being\n\
                 restarted together. arm and block must not be edited: the analysis takes for granted that within a\n\
                 block chance alone decided who got which arm. drawn tells whether they are what was drawn; where they are\n\
                 not, the report says so, and no verdict is written.",
                "services",
                format!("[\n{}]", self.services_text(true)),
            ),
        ];
        if !self.about.is_empty() {
            let comment = "What the trial is about. notes and next_steps may be edited; the start tells of an edited hypothesis.";
            parts.insert(parts.len() - 2, part(comment, "about", self.about_text()));
        }
        parts
    }

    fn about_text(&self) -> String {
        let About { hypothesis, notes, next_steps } = &self.about;
        let texts = [("hypothesis", hypothesis), ("notes", notes), ("next_steps", next_steps)];
        let told = texts
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name} = {}", one_line(text.as_ref()?))));
        format!("{{ {} }}", told.collect::<Vec<_>>().join(", "))
    }

    fn services_text(&self, marked: bool) -> String {
        let lines = self.services.iter().map(|assignment| {
            let mut line = format!(
                "    {{ service = {}, host = {}, arm = {}, block = {}, stratum = {}",
                quoted(assignment.service.as_str()),
                quoted(&assignment.host),
                quoted(&assignment.arm),
                assignment.block,
                quoted(&assignment.stratum)
            );
            if let Some(family) = &assignment.family {
                let _ = write!(line, ", family = {}", quoted(family));
            }
            if let Some(drawn) = assignment.drawn.as_ref().filter(|_| marked) {
                let _ = write!(line, ", drawn = {}", quoted(drawn));
            }
            line + " },\n"
        });
        lines.collect()
    }

    fn builds_text(&self) -> String {
        let own = |build: &Build| {
            let version = build.version.as_ref();
            let version = version.map_or(String::new(), |text| format!(", version = {}", quoted(text)));
            format!("{{ file = {}{version}, sha256 = {} }}", quoted(&build.file), quoted(&build.sha256))
        };
        let of_hosts = |group: &BuildOfHosts| {
            let hosts: Vec<String> = group.hosts.iter().map(|host| quoted(host)).collect();
            format!("    {{ hosts = [{}], build = {} }},\n", hosts.join(", "), own(&group.build))
        };
        let lines = self.builds.iter().map(|(arm, builds)| {
            let text = match builds {
                Builds::One(build) => own(build),
                Builds::OfHosts(groups) => {
                    format!("[\n{}]", groups.iter().map(of_hosts).collect::<String>())
                }
            };
            format!("{} = {text}\n", quoted(arm))
        });
        lines.collect()
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
        check_arms(&self.arms, self.duration)?;
        if self.looks.last() != Some(&self.duration) {
            let looks: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
            return Err(PlanFileError::LastLook { duration: self.duration, looks: looks.join(", ") });
        }
        self.check_services()?;
        self.builds.iter().try_for_each(|(arm, builds)| self.check_builds(arm, builds))
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

    fn check_builds(&self, arm: &str, builds: &Builds) -> Result<(), PlanFileError> {
        if self.arms.iter().all(|known| known.name != arm) {
            return Err(PlanFileError::UnknownBuild { arm: arm.to_owned(), known: self.known_arms() });
        }
        let mut hosts: Vec<&String> = builds.each().flat_map(|(hosts, _)| hosts).collect();
        hosts.sort_unstable();
        if let Some(pair) = hosts.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PlanFileError::TwoBuilds { arm: arm.to_owned(), host: pair[0].clone() });
        }
        let without = self.services.iter().find(|own| own.arm == arm && builds.on(&own.host).is_none());
        if let Some(without) = without {
            return Err(PlanFileError::NoBuild { arm: arm.to_owned(), host: without.host.clone() });
        }
        builds.each().try_for_each(|(_, build)| check_build(build))
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

fn arm_line(arm: &heaptrial_model::Arm) -> String {
    let mut line = format!("{{ name = {}", quoted(&arm.name));
    if arm.control {
        line.push_str(", control = true");
    }
    if let Some(allocator) = &arm.treatment.allocator {
        let _ = write!(line, ", allocator = {}", quoted(&allocator.to_string()));
    }
    if !arm.treatment.torrc.is_empty() {
        let options: Vec<String> = arm
            .treatment
            .torrc
            .iter()
            .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
            .collect();
        let _ = write!(line, ", torrc = {{ {} }}", options.join(", "));
    }
    if let Some(every) = arm.treatment.restart_every {
        let _ = write!(line, ", restart_every = {}", quoted(&every.to_string()));
    }
    line + " }"
}

/// As a TOML string on one line, whatever it holds.
fn one_line(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            other => other.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// As a TOML string, also where it stands as a key. These texts of a plan are one line.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
