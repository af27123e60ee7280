//! `heaptrial report --factorial RUN`: what is the version and what its settings.

use std::process::ExitCode;

use heaptrial_allocator::Catalog;
use heaptrial_judgement::Judgement;
use heaptrial_model::AllocatorSpec;
use heaptrial_report::FactorialReport;

use super::ReportOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::target::Target;

/// Prints the factorial of a run.
pub fn run(named: &str, options: &ReportOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    if !options.trials.is_empty() {
        return Err(Failure::usage(format!(
            "--factorial {named} is itself the run; leave {} out, or name them with --bug SPEC",
            options.trials.join(" ")
        )));
    }
    let target = Target::find(Some(named), global)?;
    let how = super::how(options, &target)?;
    let judgement = Judgement::of(&target.store, target.trial.id, &how).map_err(Failure::failed)?;
    let found = of_judgement(&judgement, options.good.as_ref(), None).ok_or_else(|| none(named, None))?;
    if global.json {
        print!("{}", found.json().map_err(Failure::failed)?);
    } else {
        print!("{}", found.terminal(global.colored_stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The factorial that a run's arms make, if they make one.
pub fn of_judgement(
    judgement: &Judgement,
    good: Option<&AllocatorSpec>,
    bad: Option<&AllocatorSpec>,
) -> Option<FactorialReport> {
    let arms = judgement.rows.arms.iter().map(|record| &record.arm);
    let plain = arms.filter(|arm| arm.treatment.options().is_empty());
    let mut specs: Vec<(bool, AllocatorSpec)> = plain.map(|arm| (!arm.control, arm.allocator())).collect();
    // The control's build is the good one, unless told otherwise.
    specs.sort_by_key(|(other, _)| *other);
    let specs: Vec<AllocatorSpec> = specs.into_iter().map(|(_, spec)| spec).collect();
    let design = Catalog::builtin().factorial_of(&specs, good, bad)?;
    FactorialReport::of(judgement, &design)
}

/// Why a run is no factorial, and what makes one.
pub fn none(named: &str, bad: Option<&AllocatorSpec>) -> Failure {
    let (of, bad) = match bad {
        Some(bad) => (format!(" of {}", bad.without_settings()), bad.without_settings().to_string()),
        None => (String::new(), "BAD".to_owned()),
    };
    Failure::refused(format!(
        "{named} is no factorial{of}: two versions of an allocator with at least two values of a setting each. \
         heaptrial lab tor --factorial GOOD,{bad} --settings NAME --repeat 3 makes one, and so does heaptrial lab run"
    ))
}
