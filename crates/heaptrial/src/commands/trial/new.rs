//! `heaptrial trial new`: writes a trial's description, to be edited and then planned.

use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_allocator::Catalog;
use heaptrial_model::{AllocatorSpec, HumanDuration, ServicePattern, TrialName, TrialPlan};
use heaptrial_plan::default_looks;
use heaptrial_report::TuneReport;

use crate::answer::Answer;
use crate::commands::explain;
use crate::commands::lab::{USUAL_ARMS, report_in};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::write_whole;

/// The name of a control that leaves services what they run.
const CURRENT: &str = "current";

#[derive(Debug, Args)]
pub struct NewOptions {
    /// The trial's name: letters, digits and - _ .; its description is written to NAME.toml
    name: TrialName,
    /// Which services, such as 'tor@*'; several patterns may be given
    #[arg(long, required = true, num_args = 1.., value_name = "PATTERN")]
    services: Vec<ServicePattern>,
    /// An arm: an allocator such as glibc or mimalloc@2.0.9; repeat it, the first is the control
    /// [default: what the services run, which is the control, glibc?trim_threshold=131072, jemalloc@5.3.0 and
    /// mimalloc@2.0.9]
    #[arg(short, long = "allocator", value_name = "SPEC")]
    allocators: Vec<AllocatorSpec>,
    /// Arms from a search of `lab tune`: its control, what it was verified against, and its winners
    #[arg(long, value_name = "FOLDER", conflicts_with = "allocators")]
    from_tune: Option<PathBuf>,
    /// Arms from where the memory of the services is now: what could help, against what they run (`heaptrial explain`)
    #[arg(long, conflicts_with_all = ["allocators", "from_tune"])]
    from_explain: bool,
    /// How long the trial lasts
    #[arg(long, default_value = "10d", value_name = "DURATION")]
    duration: HumanDuration,
}

pub fn run(options: &NewOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let arms = match &options.from_tune {
        Some(folder) => Arms::with_control(of_search(folder)?),
        None if options.from_explain => Arms::against_current(explain::arms(&options.services, global)?),
        None if options.allocators.is_empty() => Arms::against_current(usual()?),
        None => Arms::with_control(options.allocators.clone()),
    };
    if let (Some(only), []) = (&arms.control, arms.others.as_slice()) {
        return Err(Failure::usage(format!(
            "-a {only} alone is a control without anything to compare; name another arm with -a SPEC"
        )));
    }
    for spec in arms.control.iter().chain(&arms.others) {
        Catalog::builtin().resolve(spec)?;
    }
    if options.duration.0.is_zero() {
        return Err(Failure::usage("--duration must be more than 0s"));
    }
    let text = description(&options.name, &options.services, &arms, options.duration);
    TrialPlan::from_toml(&text).map_err(Failure::usage)?;
    let folder = global.out.as_deref().unwrap_or(Path::new(""));
    let path = folder.join(format!("{}.toml", options.name));
    if path.exists() {
        return Err(Failure::refused(format!(
            "{} exists and is never overwritten; give the trial another name, or remove it",
            path.display()
        )));
    }
    write_whole(&path, text.as_bytes())?;
    let next = command(format_args!("trial plan {}", as_word(&path)));
    eprintln!("edit it, then draw the assignment with {next}");
    Ok(Answer::new(serde_json::json!({ "file": path }), format!("{}\n", path.display())))
}

/// The arms of a new trial.
struct Arms {
    /// `None` leaves services what they run.
    control: Option<AllocatorSpec>,
    others: Vec<AllocatorSpec>,
}

impl Arms {
    /// Of specs whose first is the control.
    fn with_control(mut specs: Vec<AllocatorSpec>) -> Self {
        let others = specs.split_off(specs.len().min(1));
        Self { control: specs.pop(), others }
    }

    fn against_current(others: Vec<AllocatorSpec>) -> Self {
        Self { control: None, others }
    }
}

/// Arms of a search that found something.
fn of_search(folder: &Path) -> Result<Vec<AllocatorSpec>, Failure> {
    let report = report_in::<TuneReport>(folder)?;
    if !report.found() {
        return Err(Failure::refused(format!(
            "the search in {} has no winner on fresh seeds, so there is nothing to try on services; `heaptrial report {}` shows \
             what it found",
            folder.display(),
            folder.display()
        )));
    }
    let arms = report.arms().into_iter().map(|spec| {
        spec.parse().map_err(|error| Failure::refused(format!("{}: {spec}: {error}", folder.display())))
    });
    arms.collect()
}

/// What `lab run` tries beside what runs now.
fn usual() -> Result<Vec<AllocatorSpec>, Failure> {
    let arms = TrialPlan::from_toml(USUAL_ARMS).map_err(Failure::failed)?.arms;
    Ok(arms.into_iter().filter_map(|arm| arm.treatment.allocator).collect())
}

/// A path as a word for a shell.
pub fn as_word(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

fn description(
    name: &TrialName,
    services: &[ServicePattern],
    arms: &Arms,
    duration: HumanDuration,
) -> String {
    let patterns: Vec<&str> = services.iter().map(ServicePattern::as_str).collect();
    let looks: Vec<String> = default_looks(duration).iter().map(|look| format!("\"{look}\"")).collect();
    let control = arms.control.as_ref().map_or_else(|| CURRENT.to_owned(), ToString::to_string);
    let allocator = arms.control.as_ref().map(|spec| format!("allocator = \"{spec}\"\n"));
    let mut text = include_str!("new.toml")
        .replace("{name}", name.as_str())
        .replace("{services}", &toml_string(&patterns.join(" ")))
        .replace("{duration}", &duration.to_string())
        .replace("{looks}", &looks.join(", "))
        .replace("{control}", &control)
        .replace("{allocator}", &allocator.iter().map(|line| format!("#{line}")).collect::<String>());
    text.push_str(&format!(
        "\n[[arm]]\nname = \"{control}\"\ncontrol = true\n{}",
        allocator.unwrap_or_default()
    ));
    for spec in &arms.others {
        text.push_str(&format!("\n[[arm]]\nname = \"{spec}\"\nallocator = \"{spec}\"\n"));
    }
    text
}

/// The characters of patterns need no quoting but the backslash.
fn toml_string(text: &str) -> String {
    if text.contains('\\') { format!("'{text}'") } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(services: &[&str], allocators: &[&str], duration: &str) -> String {
        let services: Vec<ServicePattern> = services.iter().map(|text| text.parse().unwrap()).collect();
        let allocators: Vec<AllocatorSpec> = allocators.iter().map(|text| text.parse().unwrap()).collect();
        let arms = match allocators.is_empty() {
            true => Arms::against_current(usual().unwrap()),
            false => Arms::with_control(allocators),
        };
        description(&"five-way".parse().unwrap(), &services, &arms, duration.parse().unwrap())
    }

    #[test]
    fn the_description_reads_well() {
        insta::assert_snapshot!(written(&["tor@*"], &[], "10d"));
    }

    #[test]
    fn what_is_written_is_read_back_with_and_without_its_examples() {
        for (services, allocators, duration) in [
            (vec!["tor@*", "my\\x2dunit@[12].service"], vec![], "10d"),
            (vec!["web-?.service"], vec!["glibc?arena_max=1", "mimalloc@3.0.1+secure?purge_delay=0"], "4m"),
        ] {
            let text = written(&services, &allocators, duration);
            let plan = TrialPlan::from_toml(&text).unwrap();
            let patterns = plan.service_patterns().unwrap();
            assert_eq!(patterns.iter().map(ServicePattern::as_str).collect::<Vec<_>>(), services);
            assert_eq!(plan.looks.last(), plan.duration.as_ref());
            assert_eq!(plan.pace, heaptrial_model::Pace::default());
            let start = text.find("\n#[[arm]]").unwrap();
            let lines = text[start..].lines().map(|line| line.strip_prefix('#').unwrap_or(line));
            let all = text[..start].to_owned() + &lines.collect::<Vec<_>>().join("\n");
            assert_eq!(TrialPlan::from_toml(&all).unwrap().arms.len(), plan.arms.len() + 2, "{all}");
        }
    }
}
