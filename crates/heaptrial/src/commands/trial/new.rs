//! `heaptrial trial new`: writes a trial's description, to be edited and then planned.

use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_allocator::Catalog;
use heaptrial_model::{AllocatorSpec, HumanDuration, ServicePattern, TrialName, TrialPlan};
use heaptrial_plan::default_looks;
use heaptrial_report::TuneReport;

use crate::answer::Answer;
use crate::commands::explain;
use crate::commands::lab::report_in;
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::write_whole;

#[derive(Debug, Args)]
pub struct NewOptions {
    /// The trial's name: letters, digits and - _ .; its description is written to NAME.toml
    name: TrialName,
    /// Which services, such as 'tor@*'; several patterns may be given
    #[arg(long, required = true, num_args = 1.., value_name = "PATTERN")]
    services: Vec<ServicePattern>,
    /// An arm: an allocator such as glibc or mimalloc@2.0.9; repeat it, the first is the control
    /// [default: glibc, jemalloc@5.3.0 and mimalloc@2.0.9]
    #[arg(short, long = "allocator", value_name = "SPEC")]
    allocators: Vec<AllocatorSpec>,
    /// Arms from a search of `lab tune`: its control, what it was verified against, and its winners
    #[arg(long, value_name = "FOLDER", conflicts_with = "allocators")]
    from_tune: Option<PathBuf>,
    /// Arms from where the memory of the services is now: what they run, and what could help (`heaptrial explain`)
    #[arg(long, conflicts_with_all = ["allocators", "from_tune"])]
    from_explain: bool,
    /// How long the trial lasts
    #[arg(long, default_value = "10d", value_name = "DURATION")]
    duration: HumanDuration,
}

pub fn run(options: &NewOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let allocators = match &options.from_tune {
        Some(folder) => of_search(folder)?,
        None if options.from_explain => explain::arms(&options.services, global)?,
        None if options.allocators.is_empty() => usual(),
        None => options.allocators.clone(),
    };
    if let [only] = allocators.as_slice() {
        return Err(Failure::usage(format!(
            "-a {only} alone is a control without anything to compare; name another arm with -a SPEC"
        )));
    }
    for spec in &allocators {
        Catalog::builtin().resolve(spec)?;
    }
    if options.duration.0.is_zero() {
        return Err(Failure::usage("--duration must be more than 0s"));
    }
    let text = description(&options.name, &options.services, &allocators, options.duration);
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

fn usual() -> Vec<AllocatorSpec> {
    ["glibc", "jemalloc@5.3.0", "mimalloc@2.0.9"].iter().filter_map(|spec| spec.parse().ok()).collect()
}

/// A path as a word for a shell.
pub fn as_word(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

fn description(
    name: &TrialName,
    services: &[ServicePattern],
    allocators: &[AllocatorSpec],
    duration: HumanDuration,
) -> String {
    let patterns: Vec<&str> = services.iter().map(ServicePattern::as_str).collect();
    let looks: Vec<String> = default_looks(duration).iter().map(|look| format!("\"{look}\"")).collect();
    let mut text = include_str!("new.toml")
        .replace("{name}", name.as_str())
        .replace("{services}", &toml_string(&patterns.join(" ")))
        .replace("{duration}", &duration.to_string())
        .replace("{looks}", &looks.join(", "))
        .replace("{control}", &allocators[0].to_string());
    for (index, spec) in allocators.iter().enumerate() {
        text.push_str(&format!("\n[[arm]]\nname = \"{spec}\"\n"));
        if index == 0 {
            text.push_str("control = true\n");
        }
        text.push_str(&format!("allocator = \"{spec}\"\n"));
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
        let allocators = if allocators.is_empty() { usual() } else { allocators };
        description(&"five-way".parse().unwrap(), &services, &allocators, duration.parse().unwrap())
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
