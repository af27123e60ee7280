//! Treatments, arms and the plan of a trial as written in TOML.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::word::text_type;
use crate::{About, AllocatorSpec, HumanDuration, InvalidText, Metric, ServicePattern};

text_type! {
    /// The name of a service: a systemd unit, or a name that a lab run gave.
    ///
    /// Letters, digits and `: - _ . @ \` as systemd allows in unit names, at most 255 characters, not
    /// starting with `-` or `.`.
    pub struct ServiceName, valid by is_service_name, else
        "`{0}` is not a service name; expected 1 to 255 of the characters a-z A-Z 0-9 : - _ . @ \\, not starting with `-` or `.`"
}

fn is_service_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\".contains(c);
    (1..=255).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with(['-', '.'])
}

impl ServiceName {
    /// The unit that somebody means by a text, as for systemctl(1): `php8.2-fpm` is `php8.2-fpm.service`.
    pub fn of_unit(text: &str) -> Result<Self, InvalidText> {
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

/// A unit's name, or a pattern of such, with its type: that of a service where none is given. Any other dot is
/// a part of the name.
pub(crate) fn with_unit_type(text: &str) -> String {
    let complete = UNIT_TYPES.iter().any(|end| text.ends_with(end));
    if complete { text.to_owned() } else { format!("{text}.service") }
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

    /// Why a service cannot be given it, if it cannot.
    fn check(&self) -> Result<(), String> {
        for (option, value) in &self.torrc {
            let name_ok = !option.is_empty() && option.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // A backslash at the end would take the next line in.
            if !name_ok || value.contains(['\n', '\r', '\0']) || value.ends_with('\\') {
                return Err(format!(
                    "`{option}` is not a torrc option (letters, digits and _) with a value on one line"
                ));
            }
        }
        for (name, value) in &self.environment {
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
        match self.command.first() {
            Some(program) if program.is_empty() => Err("the first word of `command` is empty".to_owned()),
            _ if self.command.iter().any(|word| word.contains('\0')) => {
                Err("`command` has a NUL byte".to_owned())
            }
            _ => Ok(()),
        }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The arm's name, unique in its trial.
    pub name: String,
    /// Whether the other arms are compared to this one. Exactly one arm of a trial is the control.
    #[serde(default)]
    pub control: bool,
    #[serde(flatten)]
    pub treatment: Treatment,
}

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

    /// Why its name cannot be used, if it cannot.
    fn check_name(&self) -> Result<(), InvalidText> {
        let name = &self.name;
        let fits = (1..=120).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if fits && name.trim() == name {
            return Ok(());
        }
        Err(InvalidText(format!(
            "`{name}` is not an arm's name; expected 1 to 120 printable characters without spaces at either end"
        )))
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialPlan {
    pub name: String,
    /// Which services, as systemd unit patterns separated by spaces; unused in a lab run.
    pub services: Option<String>,
    pub duration: Option<HumanDuration>,
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

impl TrialPlan {
    /// Reads a plan from TOML and checks that its arms make a trial.
    pub fn from_toml(text: &str) -> Result<Self, InvalidText> {
        let plan: Self = toml::from_str(text).map_err(|error| {
            InvalidText(format!("cannot be read as a description of a trial and its arms: {error}"))
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// A plan of one arm per spec; the first is the control.
    pub fn from_specs(name: &str, specs: &[AllocatorSpec]) -> Result<Self, InvalidText> {
        let arms = specs.iter().enumerate().map(|(i, spec)| Arm::from_spec(spec.clone(), i == 0));
        let plan = Self { name: name.to_owned(), arms: arms.collect(), ..Self::default() };
        plan.check()?;
        Ok(plan)
    }

    pub fn control(&self) -> &Arm {
        // `check` has seen to it that there is one.
        self.arms.iter().find(|arm| arm.control).unwrap_or(&self.arms[0])
    }

    fn check_looks(&self) -> Result<(), InvalidText> {
        let ascend = self.looks.windows(2).all(|pair| pair[0] < pair[1]);
        let first_ok = self.looks.first().is_none_or(|first| !first.0.is_zero());
        let last_ok = self.looks.last().zip(self.duration).is_none_or(|(last, duration)| *last <= duration);
        if ascend && first_ok && last_ok {
            return Ok(());
        }
        let looks: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
        Err(InvalidText(format!("looks must ascend and lie within the duration: {}", looks.join(", "))))
    }

    /// Refuses arms that make no trial on services of this length.
    pub fn check_arms(arms: &[Arm], duration: HumanDuration) -> Result<(), InvalidText> {
        if arms.len() < 2 {
            let why = "the trial has only its control; add an [[arm]] for what is to be compared to it";
            return Err(InvalidText(why.to_owned()));
        }
        let fits = |every: HumanDuration| every >= HumanDuration::from_secs(1) && every < duration;
        match arms.iter().find(|arm| !arm.treatment.restart_every.is_none_or(fits)) {
            Some(arm) => Err(InvalidText(format!(
                "arm `{}`: restart_every must be from 1s to less than the trial's duration of {duration}",
                arm.name
            ))),
            None => Ok(()),
        }
    }

    pub fn service_patterns(&self) -> Result<Vec<ServicePattern>, InvalidText> {
        self.services.as_deref().unwrap_or_default().split_whitespace().map(str::parse).collect()
    }

    /// Checks that the arms make a trial, and looks and pace.
    pub fn check(&self) -> Result<(), InvalidText> {
        let refused = |why: String| Err(InvalidText(why));
        if self.arms.is_empty() {
            return refused(
                "the trial plan has no [[arm]]; add one per treatment, one of them with `control = true`"
                    .to_owned(),
            );
        }
        let controls: Vec<&str> =
            self.arms.iter().filter(|arm| arm.control).map(|arm| arm.name.as_str()).collect();
        if controls.len() != 1 {
            let names = if controls.is_empty() { "none".to_owned() } else { controls.join(", ") };
            return refused(format!(
                "exactly one arm must be the control, but {} are: {names}; set `control = true` on one [[arm]]",
                controls.len()
            ));
        }
        self.check_looks()?;
        self.about.check().map_err(|error| InvalidText(format!("[about]: {error}")))?;
        if self.pace.at_once == 0 {
            return refused("[pace]: at_once must be 1 or more".to_owned());
        }
        if self.pace.health_timeout.0.is_zero() {
            return refused("[pace]: health_timeout must be more than 0s".to_owned());
        }
        let mut seen = BTreeSet::new();
        for arm in &self.arms {
            arm.check_name()?;
            if !seen.insert(&arm.name) {
                return refused(format!(
                    "two arms are called `{}`; give each arm a name of its own",
                    arm.name
                ));
            }
            if let Err(why) = arm.treatment.check() {
                return refused(format!("arm `{}`: {why}", arm.name));
            }
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
            let error = TrialPlan::from_toml(&PLAN.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("arm `pooled`: "), "{to}: {error}");
        }
    }

    #[test]
    fn a_plan_without_exactly_one_control_is_refused() {
        let none = PLAN.replace("control = true", "");
        let error = TrialPlan::from_toml(&none).unwrap_err().to_string();
        assert!(error.contains("but 0 are: none"), "{error}");
        let two = PLAN.replace("name = \"mimalloc-2.0.9\"", "name = \"mimalloc-2.0.9\"\ncontrol = true");
        let error = TrialPlan::from_toml(&two).unwrap_err();
        assert!(error.to_string().contains("glibc, mimalloc-2.0.9"), "{error}");
    }

    #[test]
    fn unknown_keys_twins_and_torrc_injections_are_refused() {
        for (from, to, why) in [
            ("restart_every", "restart_evry", "cannot be read"),
            ("\"dircache-0\"", "\"glibc\"", "two arms are called `glibc`"),
            ("DirCache = \"0\"", "DirCache = \"0\\nORPort 1\"", "`DirCache` is not a torrc option"),
        ] {
            let error = TrialPlan::from_toml(&PLAN.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
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
