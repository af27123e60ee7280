//! The workload that is any program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use heaptrial_model::{Arm, TrialKind};
use serde_json::{Value, json};

use crate::program::find_program;
use crate::workload::{Arrangement, Event, Launch, Round, RoundContext, Workload};
use crate::{EndRequest, LabError};

/// Runs a command once per arm and repeat, one after the other.
#[derive(Debug, Clone)]
pub struct CommandWorkload {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl CommandWorkload {
    /// A workload of `command`: the program (looked for in `PATH`) and its arguments.
    pub fn new(command: &[OsString]) -> Result<Self, LabError> {
        let missing = |program: String| LabError::ProgramMissing {
            program,
            hint: "; check the name, or give its path; the command comes after `--`",
        };
        let (program, arguments) = command.split_first().ok_or_else(|| missing(String::new()))?;
        let found = find_program(program).ok_or_else(|| missing(program.to_string_lossy().into_owned()))?;
        Ok(Self { program: found, arguments: arguments.to_vec() })
    }
}

impl Workload for CommandWorkload {
    fn kind(&self) -> TrialKind {
        TrialKind::LabCommand
    }

    fn parameters(&self) -> Value {
        let words: Vec<_> = self.arguments.iter().map(|word| word.to_string_lossy()).collect();
        json!({ "program": self.program.to_string_lossy(), "arguments": words })
    }

    fn arrangement(&self) -> Arrangement {
        Arrangement::OneByOne
    }

    fn check(&self, arms: &[Arm]) -> Result<(), LabError> {
        let problem =
            |arm: &Arm, problem: &str| LabError::Treatment { arm: arm.name.clone(), problem: problem.into() };
        for arm in arms {
            if !arm.treatment.torrc.is_empty() {
                return Err(problem(arm, "torrc options apply to Tor relays only; use `heaptrial lab tor`"));
            }
            if arm.treatment.restart_every.is_some() {
                return Err(problem(
                    arm,
                    "restart_every is for trials on a fleet; a lab run does not restart services",
                ));
            }
        }
        Ok(())
    }

    fn begin(&self, _: &RoundContext<'_>) -> Result<Box<dyn Round>, LabError> {
        Ok(Box::new(CommandRound(self.clone())))
    }
}

struct CommandRound(CommandWorkload);

impl Round for CommandRound {
    fn launch(&self, _: usize) -> Launch {
        Launch {
            program: self.0.program.clone(),
            arguments: self.0.arguments.clone(),
            environment: BTreeMap::new(),
            working_directory: None,
            end: EndRequest::default(),
        }
    }

    fn tick(&mut self, _: &[bool]) -> Result<Vec<Event>, LabError> {
        Ok(Vec::new())
    }

    fn observe(&self, _: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn finish(&mut self) -> Vec<Event> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaptrial_model::TrialPlan;

    #[test]
    fn a_program_is_found_in_the_path_or_refused() {
        assert!(CommandWorkload::new(&["sleep".into(), "1".into()]).unwrap().program.is_absolute());
        let error = CommandWorkload::new(&["no-such-program-anywhere".into()]).unwrap_err().to_string();
        assert!(error.contains("no-such-program-anywhere"), "{error}");
    }

    #[test]
    fn treatments_of_relays_are_refused() {
        let plan = "name = \"x\"\n[[arm]]\nname = \"a\"\ncontrol = true\ntorrc = { DirCache = \"0\" }";
        let arms = TrialPlan::from_toml(plan).unwrap().arms;
        let workload = CommandWorkload::new(&["sleep".into()]).unwrap();
        assert!(matches!(workload.check(&arms), Err(LabError::Treatment { .. })));
    }
}
