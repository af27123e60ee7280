//! Treatments, arms and the plan of a trial as written in TOML.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::word::text_type;
use crate::{About, AboutError, AllocatorSpec, HumanDuration, Metric, ServicePattern, ServicePatternError};

/// The name of a service: a systemd unit, or a name that a lab run gave.
///
/// Letters, digits and `: - _ . @ \` as systemd allows in unit names, at most 255 characters, not
/// starting with `-` or `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServiceName(String);

/// Why a text is not a service name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a service name; expected 1 to 255 of the characters a-z A-Z 0-9 : - _ . @ \\, not starting with `-` or `.`"
)]
pub struct ServiceNameError(String);

text_type!(ServiceName);

impl ServiceName {
    /// The unit that somebody means by a text, as for systemctl(1): `php8.2-fpm` is `php8.2-fpm.service`.
    pub fn of_unit(text: &str) -> Result<Self, ServiceNameError> {
        with_unit_type(text).parse()
    }
}

/// Ends of units' names (systemd.unit(5)).
const UNIT_TYPES: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// A unit's name, or a pattern of such, with its type: that of a service where none is given. Any other dot is a part of
/// the name.
pub(crate) fn with_unit_type(text: &str) -> String {
    let complete = UNIT_TYPES.iter().any(|end| text.ends_with(end));
    if complete { text.to_owned() } else { format!("{text}.service") }
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(text: &str) -> Result<Self, ServiceNameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\".contains(c);
        let valid =
            (1..=255).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with(['-', '.']);
        if valid { Ok(Self(text.to_owned())) } else { Err(ServiceNameError(text.to_owned())) }
    }
}

/// What is applied to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Treatment {
    /// The allocator; `None` leaves the service with what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorSpec>,
    /// torrc options, name to value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub torrc: BTreeMap<String, String>,
    /// Restart the service this often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_every: Option<HumanDuration>,
    /// Environment variables of a service that `lab run` starts, name to value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Program and arguments that `lab run` starts in place of the run's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl Treatment {
    /// What is applied beside the allocator, each in a few words: `DirCache 0`, `restart every 2d`, `POOL=4`.
    pub fn options(&self) -> Vec<String> {
        let torrc = self.torrc.iter().map(|(option, value)| format!("{option} {value}"));
        let restart = self.restart_every.map(|every| format!("restart every {every}"));
        let environment = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let command = Some(self.command.join(" ")).filter(|command| !command.is_empty());
        torrc.chain(restart).chain(environment).chain(command).collect()
    }

    /// Of what only a service can be given that `lab run` starts itself: the keys in a plan.
    pub fn of_lab_run_only(&self) -> Option<&'static str> {
        match self {
            Self { command, .. } if !command.is_empty() => Some("command"),
            Self { environment, .. } if !environment.is_empty() => Some("environment"),
            _ => None,
        }
    }
}

/// A named treatment in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arm {
    /// The arm's name, unique in its trial.
    pub name: String,
    /// Whether the other arms are compared to this one. Exactly one arm of a trial is the control.
    pub control: bool,
    /// What is applied.
    #[serde(flatten)]
    pub treatment: Treatment,
}

/// Why a text cannot name an arm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an arm's name; expected 1 to 120 printable characters without spaces at either end")]
pub struct ArmError(String);

impl Arm {
    /// An arm that applies one allocator and is named by its spec.
    pub fn from_spec(spec: AllocatorSpec, control: bool) -> Self {
        Self {
            name: spec.to_string(),
            control,
            treatment: Treatment { allocator: Some(spec), ..Treatment::default() },
        }
    }

    /// The allocator spec as given; `glibc` where the treatment names none.
    pub fn allocator(&self) -> AllocatorSpec {
        self.treatment.allocator.clone().unwrap_or_else(|| AllocatorSpec::family("glibc"))
    }

    fn check_name(name: &str) -> Result<(), ArmError> {
        let printable = name.chars().all(|c| !c.is_control());
        let fits = (1..=120).contains(&name.chars().count());
        if printable && fits && name.trim() == name { Ok(()) } else { Err(ArmError(name.to_owned())) }
    }
}

/// How services of a fleet are restarted while a trial or a rollout changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Services that are down or not yet healthy at any time, at most. Two services of one family never are.
    pub at_once: u32,
    /// From one service's restart to the next one's, at least.
    pub pause: HumanDuration,
    /// A service that is not healthy this long after its restart has failed.
    pub health_timeout: HumanDuration,
    /// A healthy service must stay so, in the same life, for this long before it is committed.
    pub settle: HumanDuration,
    /// Failed services over the whole run after which it stops; the failed ones are put back one by one.
    pub failure_budget: u32,
}

impl Default for Pace {
    fn default() -> Self {
        let seconds = |seconds| HumanDuration(std::time::Duration::from_secs(seconds));
        Self {
            at_once: 1,
            pause: seconds(30),
            health_timeout: seconds(600),
            settle: seconds(3),
            failure_budget: 1,
        }
    }
}

/// A trial as described in TOML (design: one table `[[arm]]` per arm).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialPlan {
    /// The trial's name.
    pub name: String,
    /// Which services, as systemd unit patterns separated by spaces; unused in a lab run.
    pub services: Option<String>,
    /// How long.
    pub duration: Option<HumanDuration>,
    /// Which reading is compared.
    pub metric: Option<Metric>,
    /// Looks at the running trial, as times since its start, ascending; unused in a lab run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<HumanDuration>,
    /// How services of a fleet are restarted; unused in a lab run.
    #[serde(default)]
    pub pace: Pace,
    /// What the trial is about.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    pub about: About,
    /// The arms; exactly one is the control.
    #[serde(rename = "arm", default)]
    pub arms: Vec<Arm>,
}

/// Why a text is not a trial plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrialPlanError {
    /// Not TOML, or not the fields of a plan.
    #[error("the trial plan cannot be read: {0}")]
    Syntax(String),
    /// Fewer than one arm.
    #[error("the trial plan has no [[arm]]; add one per treatment, one of them with `control = true`")]
    NoArms,
    /// No control, or several.
    #[error(
        "exactly one arm must be the control, but {count} are: {names}; set `control = true` on one [[arm]]"
    )]
    Control {
        /// How many arms say `control = true`.
        count: usize,
        /// Which.
        names: String,
    },
    /// Nothing to compare the control to.
    #[error("the trial has only its control; add an [[arm]] for what is to be compared to it")]
    OneArm,
    /// A restart interval that never comes, or always.
    #[error("arm `{arm}`: restart_every must be from 1s to less than the trial's duration of {duration}")]
    RestartEvery {
        /// The arm.
        arm: String,
        /// The trial's.
        duration: HumanDuration,
    },
    /// Two arms of one name.
    #[error("two arms are called `{0}`; give each arm a name of its own")]
    DuplicateArm(String),
    /// A name that cannot be used.
    #[error(transparent)]
    ArmName(#[from] ArmError),
    /// Looks that are not in order, or after the end.
    #[error("looks must ascend and lie within the duration: {0}")]
    Looks(String),
    /// What the trial is about.
    #[error("[about]: {0}")]
    About(#[from] AboutError),
    /// A pace that makes no restart.
    #[error("[pace]: {0}")]
    Pace(&'static str),
    /// A torrc option that is not one.
    #[error("arm `{arm}`: `{option}` is not a torrc option (letters, digits and _) with a value on one line")]
    Torrc {
        /// The arm.
        arm: String,
        /// The option's name.
        option: String,
    },
    /// An environment variable or a command that no process can be given.
    #[error("arm `{arm}`: {problem}")]
    Launch {
        /// The arm.
        arm: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The keys of an arm. Flattening `Treatment` would lose the unknown-key check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmTable {
    name: String,
    #[serde(default)]
    control: bool,
    allocator: Option<AllocatorSpec>,
    #[serde(default)]
    torrc: BTreeMap<String, String>,
    restart_every: Option<HumanDuration>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    command: Vec<String>,
}

impl<'de> Deserialize<'de> for Arm {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = ArmTable::deserialize(deserializer)?;
        Ok(Self {
            name: table.name,
            control: table.control,
            treatment: Treatment {
                allocator: table.allocator,
                torrc: table.torrc,
                restart_every: table.restart_every,
                environment: table.environment,
                command: table.command,
            },
        })
    }
}

impl TrialPlan {
    /// Reads a plan from TOML and checks that its arms make a trial.
    pub fn from_toml(text: &str) -> Result<Self, TrialPlanError> {
        let plan: Self = toml::from_str(text).map_err(|error| TrialPlanError::Syntax(error.to_string()))?;
        plan.check()?;
        Ok(plan)
    }

    /// A plan of one arm per spec; the first is the control.
    pub fn from_specs(name: &str, specs: &[AllocatorSpec]) -> Result<Self, TrialPlanError> {
        let arms = specs.iter().enumerate().map(|(i, spec)| Arm::from_spec(spec.clone(), i == 0));
        let plan = Self {
            name: name.to_owned(),
            services: None,
            duration: None,
            metric: None,
            looks: Vec::new(),
            pace: Pace::default(),
            about: About::default(),
            arms: arms.collect(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// The control arm.
    pub fn control(&self) -> &Arm {
        // `check` has seen to it that there is one.
        self.arms.iter().find(|arm| arm.control).unwrap_or(&self.arms[0])
    }

    fn check_launch(treatment: &Treatment) -> Result<(), String> {
        for (name, value) in &treatment.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!(
                    "`{name}` is not an environment variable: no `=` in its name, no NUL byte"
                ));
            }
            if name == "LD_PRELOAD" {
                return Err(
                    "LD_PRELOAD is how an allocator comes to a service; name it with `allocator`".to_owned()
                );
            }
        }
        match treatment.command.first() {
            Some(program) if program.is_empty() => Err("the first word of `command` is empty".to_owned()),
            _ if treatment.command.iter().any(|word| word.contains('\0')) => {
                Err("`command` has a NUL byte".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_looks(&self) -> Result<(), TrialPlanError> {
        let ascend = self.looks.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let first_ok = self.looks.first().is_none_or(|first| !first.0.is_zero());
        let last_ok = match (self.looks.last(), self.duration) {
            (Some(last), Some(duration)) => last.0 <= duration.0,
            _ => true,
        };
        if ascend && first_ok && last_ok {
            return Ok(());
        }
        let told: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
        Err(TrialPlanError::Looks(told.join(", ")))
    }

    /// Refuses arms that make no trial on services of this length.
    pub fn check_arms(arms: &[Arm], duration: HumanDuration) -> Result<(), TrialPlanError> {
        if arms.len() < 2 {
            return Err(TrialPlanError::OneArm);
        }
        let fits = |every: HumanDuration| every >= HumanDuration::from_secs(1) && every < duration;
        match arms.iter().find(|arm| !arm.treatment.restart_every.is_none_or(fits)) {
            Some(arm) => Err(TrialPlanError::RestartEvery { arm: arm.name.clone(), duration }),
            None => Ok(()),
        }
    }

    /// The patterns of `services`.
    pub fn service_patterns(&self) -> Result<Vec<ServicePattern>, ServicePatternError> {
        self.services.as_deref().unwrap_or_default().split_whitespace().map(str::parse).collect()
    }

    /// Checks that the arms make a trial, and looks and pace.
    pub fn check(&self) -> Result<(), TrialPlanError> {
        if self.arms.is_empty() {
            return Err(TrialPlanError::NoArms);
        }
        let controls: Vec<&str> =
            self.arms.iter().filter(|arm| arm.control).map(|arm| arm.name.as_str()).collect();
        if controls.len() != 1 {
            let names = if controls.is_empty() { "none".to_owned() } else { controls.join(", ") };
            return Err(TrialPlanError::Control { count: controls.len(), names });
        }
        self.check_looks()?;
        self.about.check()?;
        if self.pace.at_once == 0 {
            return Err(TrialPlanError::Pace("at_once must be 1 or more"));
        }
        if self.pace.health_timeout.0.is_zero() {
            return Err(TrialPlanError::Pace("health_timeout must be more than 0s"));
        }
        let mut seen = BTreeSet::new();
        for arm in &self.arms {
            Arm::check_name(&arm.name)?;
            if !seen.insert(&arm.name) {
                return Err(TrialPlanError::DuplicateArm(arm.name.clone()));
            }
            for (option, value) in &arm.treatment.torrc {
                let name_ok =
                    !option.is_empty() && option.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                // A backslash at the end would take the next line in.
                if !name_ok || value.contains(['\n', '\r', '\0']) || value.ends_with('\\') {
                    return Err(TrialPlanError::Torrc { arm: arm.name.clone(), option: option.clone() });
                }
            }
            Self::check_launch(&arm.treatment)
                .map_err(|problem| TrialPlanError::Launch { arm: arm.name.clone(), problem })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        name = "five-way"
        services = "tor@*.service"
        duration = "10d"
        metric = "rss"
        [[arm]]
        name = "glibc"
        control = true
        [[arm]]
        name = "mimalloc-2.0.9"
        allocator = "mimalloc@2.0.9"
        [[arm]]
        name = "dircache-0"
        torrc = { DirCache = "0" }
        [[arm]]
        name = "restart-48h"
        restart_every = "48h"
        [[arm]]
        name = "pooled"
        environment = { POOL = "{dir}/pool" }
        command = ["server", "--port", "{port}"]
    "#;

    #[test]
    fn the_plan_of_the_design_is_read() {
        let plan = TrialPlan::from_toml(PLAN).unwrap();
        assert_eq!(plan.control().name, "glibc");
        assert_eq!(plan.arms[1].allocator().to_string(), "mimalloc@2.0.9");
        assert_eq!(plan.arms[2].treatment.torrc["DirCache"], "0");
        assert_eq!(plan.arms[3].treatment.restart_every.unwrap().to_string(), "2d");
        assert_eq!(plan.duration.unwrap().to_string(), "10d");
        assert_eq!(plan.arms[4].treatment.environment["POOL"], "{dir}/pool");
        assert_eq!(plan.arms[4].treatment.command, ["server", "--port", "{port}"]);
        assert_eq!(plan.arms[4].treatment.of_lab_run_only(), Some("command"));
        assert_eq!(plan.arms[3].treatment.of_lab_run_only(), None);
    }

    #[test]
    fn what_no_process_can_be_given_is_refused() {
        for (from, to) in [("POOL =", "\"PO=OL\" ="), ("POOL =", "LD_PRELOAD ="), ("\"server\"", "\"\"")] {
            let found = TrialPlan::from_toml(&PLAN.replace(from, to));
            assert!(matches!(found, Err(TrialPlanError::Launch { .. })), "{to}: {found:?}");
        }
    }

    #[test]
    fn a_plan_without_exactly_one_control_is_refused() {
        let none = PLAN.replace("control = true", "");
        assert!(matches!(TrialPlan::from_toml(&none), Err(TrialPlanError::Control { count: 0, .. })));
        let two = PLAN.replace("name = \"mimalloc-2.0.9\"", "name = \"mimalloc-2.0.9\"\ncontrol = true");
        let error = TrialPlan::from_toml(&two).unwrap_err();
        assert!(error.to_string().contains("glibc, mimalloc-2.0.9"), "{error}");
    }

    #[test]
    fn unknown_keys_twins_and_torrc_injections_are_refused() {
        let unknown = PLAN.replace("restart_every", "restart_evry");
        assert!(matches!(TrialPlan::from_toml(&unknown), Err(TrialPlanError::Syntax(_))));
        let twin = PLAN.replace("\"dircache-0\"", "\"glibc\"");
        assert!(matches!(TrialPlan::from_toml(&twin), Err(TrialPlanError::DuplicateArm(_))));
        let injection = PLAN.replace("DirCache = \"0\"", "DirCache = \"0\\nORPort 1\"");
        assert!(matches!(TrialPlan::from_toml(&injection), Err(TrialPlanError::Torrc { .. })));
    }

    #[test]
    fn a_unit_without_a_type_is_a_service() {
        for (text, unit) in [
            ("php8.2-fpm", "php8.2-fpm.service"),
            ("foo@q:1_2.3", "foo@q:1_2.3.service"),
            (r"foo@a\x2db", r"foo@a\x2db.service"),
            ("tor@a.service", "tor@a.service"),
            ("x.timer", "x.timer"),
        ] {
            assert_eq!(ServiceName::of_unit(text).unwrap().as_str(), unit);
        }
        assert!(ServiceName::of_unit(&"x".repeat(250)).is_err(), "with its type it is too long");
    }

    #[test]
    fn service_names_follow_systemd() {
        for good in ["tor@relay1.service", "a", "glibc-1", "my\\x2dunit.service"] {
            assert!(good.parse::<ServiceName>().is_ok(), "{good}");
        }
        for bad in ["", "a b", "-x", ".hidden", "a/b", "a;b", "ü"] {
            assert!(bad.parse::<ServiceName>().is_err(), "{bad}");
        }
    }
}
