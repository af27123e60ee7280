//! The workload that is any program, by itself or as a service under load.

mod round;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_allocator::Unreached;
use heaptrial_model::{Arm, TrialKind};
use serde_json::{Value, json};

use self::round::CommandRound;
use crate::placeholders::{Ports, has_any};
use crate::program::find_program;
use crate::ready::Ready;
use crate::work::Work;
use crate::workload::{Arrangement, NO_RESTARTS, Round, RoundContext, Workload};
use crate::{EndRequest, LabError};

/// How a program is run as a service. `{port}`, `{dir}`, `{arm}`, `{repeat}` and `{seed}` stand for a free port, a new folder, the
/// arm's name, the number of the repeat and a seed that all arms of a repeat share, in all commands, arguments, variables and sources.
#[derive(Debug, Clone, Default)]
pub struct CommandOptions {
    /// The program (looked for in `PATH`) and its arguments, of arms that have none of their own.
    pub command: Vec<String>,
    /// Shell command that is run before the service starts.
    pub prepare: Option<String>,
    /// What shows that the service can be used; it can at once where there is nothing.
    pub ready: Option<Ready>,
    /// How long that is waited for.
    pub ready_patience: Duration,
    /// Shell command that puts load on the service.
    pub load: Option<String>,
    /// Shell command that is run after the load and before the end of the service.
    pub conclude: Option<String>,
    /// What the service does for its users.
    pub work: Vec<Work>,
    /// How services are asked to end.
    pub end: EndRequest,
    /// Whether `{dir}` stays after the service.
    pub keep_dirs: bool,
    /// Time between samples, which is that between questions for work as well.
    pub tick: Duration,
    /// Whether the run of a service ends with its load.
    pub ends_with_load: bool,
    /// Warm-up that reports leave out; a share of the run where there is none.
    pub warm_up: Option<Duration>,
    /// An arm that does its work at more than this factor of the control's cost has no rank.
    pub work_margin: Option<f64>,
}

/// Runs a command once per arm and repeat, one after the other.
#[derive(Debug)]
pub struct CommandWorkload {
    options: CommandOptions,
    ports: RefCell<Ports>,
}

impl CommandWorkload {
    /// A workload of these options; the program must be there, unless its name has a placeholder.
    pub fn new(options: CommandOptions) -> Result<Self, LabError> {
        if let Some(program) = options.command.first() {
            found(program)?;
        }
        Ok(Self { options, ports: RefCell::default() })
    }
}

/// Where a program is; `None` for one whose name has a placeholder, which is looked for when it is started.
fn found(program: &str) -> Result<Option<PathBuf>, LabError> {
    if has_any(program) {
        return Ok(None);
    }
    find_program(program).map(Some).map_err(LabError::Refused)
}

impl Workload for CommandWorkload {
    fn kind(&self) -> TrialKind {
        TrialKind::LabCommand
    }

    fn parameters(&self) -> Value {
        let options = &self.options;
        let (program, arguments) = match options.command.split_first() {
            Some((program, arguments)) => (Some(program), arguments),
            None => (None, [].as_slice()),
        };
        let work: Vec<String> = options.work.iter().map(ToString::to_string).collect();
        let mut parameters = json!({ "program": program, "arguments": arguments });
        let further = [
            ("prepare", options.prepare.clone().map(Value::from)),
            ("ready", options.ready.as_ref().map(|ready| ready.to_string().into())),
            ("load", options.load.clone().map(Value::from)),
            ("conclude", options.conclude.clone().map(Value::from)),
            ("work", (!work.is_empty()).then(|| work.into())),
            ("warm_up_seconds", options.warm_up.map(|warm_up| warm_up.as_secs_f64().into())),
            ("work_margin", options.work_margin.map(Value::from)),
        ];
        for (name, value) in further {
            if let Some(value) = value {
                parameters[name] = value;
            }
        }
        parameters
    }

    fn arrangement(&self) -> Arrangement {
        Arrangement::OneByOne
    }

    fn check(&self, arms: &[Arm]) -> Result<(), LabError> {
        for arm in arms {
            let refuse = |problem: &str| Err(LabError::treatment(&arm.name, problem));
            if !arm.treatment.torrc.is_empty() {
                return refuse("torrc options apply to Tor relays only; use `heaptrial lab tor`");
            }
            if arm.treatment.restart_every.is_some() {
                return refuse(NO_RESTARTS);
            }
            let own = arm.treatment.command.first();
            let Some(program) = own.or(self.options.command.first()) else {
                return refuse("it has no `command`, and no CMD comes after `--`");
            };
            let path = found(program)?;
            let unreached =
                path.and_then(|path| Unreached::of_program(&path, arm.treatment.allocator.as_ref()));
            if let Some(unreached) = unreached {
                let (why, fix) = (unreached.why(), unreached.fix());
                return refuse(&format!("{program} {unreached}: {why}; {fix}"));
            }
        }
        Ok(())
    }

    fn begin(&self, context: &RoundContext<'_>) -> Result<Box<dyn Round>, LabError> {
        let port = self.ports.borrow_mut().give()?;
        Ok(Box::new(CommandRound::new(self.options.clone(), context, port)?))
    }
}
