//! `heaptrial explain`: where the memory of a running process is.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::str::FromStr;

use clap::Args;
use heaptrial_allocator::{Explanation, IdentifyError, explain, identify};
use heaptrial_host::{HostRoot, Process, ProcessTree};
use heaptrial_model::{AllocatorSpec, ServicePattern, units};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::Table;

/// A process of a service with less of its memory is not shown.
const LEAST_SHARE: f64 = 0.05;
/// Largest processes that the arms of a trial are for.
const LARGEST: usize = 3;
const LOWEST_PRIORITY: i32 = 19;
/// Reads that are further apart are reported.
const WORTH_SAYING_SPREAD: f64 = 0.05;
/// Whose reading is announced, in bytes, and the seconds that a GiB takes at most.
const LARGE_BYTES: u64 = 4 << 30;
const SECONDS_PER_GIB: f64 = 2.0;

/// Show where the memory of running processes is: in use, free and kept, or elsewhere
///
/// The heap is read from outside: no process is stopped, attached to or written to. Of glibc its arenas are read, of other
/// allocators the totals of the kernel alone. It needs the same user or root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial explain 4711               a process
  heaptrial explain 'tor@*'            services, each with its processes that hold 5% of its memory or more
  heaptrial explain --json tor@r1      for programs")]
pub struct ExplainOptions {
    /// Process ids, or names of services with `*`, `?` and `[]` as in a shell
    #[arg(value_name = "PID|PATTERN", required = true)]
    targets: Vec<Target>,
}

#[derive(Debug, Clone)]
enum Target {
    Process(i32),
    Services(ServicePattern),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(pid) if pid > 0 => Ok(Self::Process(pid)),
            _ => text
                .parse()
                .map(Self::Services)
                .map_err(|error: heaptrial_model::InvalidText| error.to_string()),
        }
    }
}

/// A process, with the service that it belongs to.
struct Found {
    service: Option<String>,
    pid: i32,
    explained: Result<Explanation, String>,
}

pub fn run(options: &ExplainOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    // What it does is worth no delay of whom it looks at.
    let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
    let root = HostRoot::default();
    let mut found = Vec::new();
    let mut unmatched = Vec::new();
    for target in &options.targets {
        match target {
            Target::Process(pid) => found.push(look(&root, None, *pid)),
            Target::Services(pattern) => {
                let of_services = processes(&root, pattern, global)?;
                if of_services.is_empty() {
                    unmatched.push(pattern.to_string());
                }
                found.extend(of_services.into_iter().map(|(service, pid)| look(&root, Some(service), pid)));
            }
        }
    }
    let documents: Vec<Value> = found.iter().map(value).collect();
    let (mut shown, mut well) = (String::new(), unmatched.is_empty());
    for process in &found {
        match &process.explained {
            Ok(explanation) => shown += &text(process.service.as_deref(), explanation),
            Err(error) => {
                well = false;
                eprintln!("error: {error}");
            }
        }
    }
    unmatched.iter().for_each(|pattern| eprintln!("error: no service that runs matches `{pattern}`"));
    Ok(Answer::new(json!({ "processes": documents, "unmatched": unmatched }), shown).unless(well))
}

/// Services that run, each with its processes that hold a good part of its memory, the main one first.
fn processes(
    root: &HostRoot,
    pattern: &ServicePattern,
    global: &GlobalOptions,
) -> Result<Vec<(String, i32)>, Failure> {
    let units = global.systemd()?.services(std::slice::from_ref(pattern))?.units;
    let tree = ProcessTree::scan(root)?;
    let mut found = Vec::new();
    for unit in units {
        let Some(main) = unit.status.main_pid else { continue };
        let family: Vec<(i32, u64)> =
            tree.family(main).into_iter().map(|pid| (pid, rss_bytes(root, pid))).collect();
        let whole: u64 = family.iter().map(|(_, bytes)| bytes).sum();
        let counts = |(pid, bytes): &(i32, u64)| *pid == main || *bytes as f64 >= LEAST_SHARE * whole as f64;
        found.extend(family.into_iter().filter(counts).map(|(pid, _)| (unit.name.to_string(), pid)));
    }
    Ok(found)
}

fn rss_bytes(root: &HostRoot, pid: i32) -> u64 {
    Process::new(root, pid).memory_totals().map_or(0, |[rss, ..]| rss)
}

/// Arms of a trial: what could help the largest processes of services of these patterns.
pub(super) fn arms(
    patterns: &[ServicePattern],
    global: &GlobalOptions,
) -> Result<Vec<AllocatorSpec>, Failure> {
    let root = HostRoot::default();
    let mut found = Vec::new();
    for pattern in patterns {
        found.extend(processes(&root, pattern, global)?);
    }
    found.sort_by_cached_key(|(_, pid)| Reverse(rss_bytes(&root, *pid)));
    found.truncate(LARGEST);
    let mut arms = Vec::new();
    for (service, pid) in found {
        let explanation = look(&root, Some(service), pid).explained.map_err(Failure::failed)?;
        for spec in explanation.advice.into_iter().flat_map(|advice| advice.specs) {
            if !arms.contains(&spec) {
                arms.push(spec);
            }
        }
    }
    if arms.is_empty() {
        let names: Vec<&str> = patterns.iter().map(ServicePattern::as_str).collect();
        return Err(Failure::refused("nothing is shown to help the services that run")
            .hint(format!("`heaptrial explain {}` shows where their memory is", names.join(" "))));
    }
    Ok(arms)
}

/// Says how long the reading of a large process may take.
pub(super) fn announce(pid: i32, rss_bytes: u64) {
    if rss_bytes > LARGE_BYTES {
        let seconds = SECONDS_PER_GIB * rss_bytes as f64 / units::GIB;
        let (memory, time) = (units::memory(rss_bytes as f64), units::duration(seconds));
        eprintln!("process {pid} has {memory}: reading where its memory is takes up to {time}");
    }
}

fn look(root: &HostRoot, service: Option<String>, pid: i32) -> Found {
    let process = Process::new(root, pid);
    announce(pid, rss_bytes(root, pid));
    let explained = identify(&process).and_then(|identity| explain(&process, &identity));
    Found { service, pid, explained: explained.map_err(|error| with_command(pid, &error)) }
}

/// An error, with the command that would succeed.
fn with_command(pid: i32, error: &IdentifyError) -> String {
    match error.needs_permission() && !rustix::process::geteuid().is_root() {
        true => format!("{error}: `sudo heaptrial explain {pid}`"),
        false => error.to_string(),
    }
}

fn value(found: &Found) -> Value {
    let mut value = match &found.explained {
        Ok(explanation) => json!(explanation),
        Err(error) => json!({ "pid": found.pid, "error": error }),
    };
    value["service"] = json!(found.service);
    value
}

fn text(service: Option<&str>, explanation: &Explanation) -> String {
    let mut text = String::new();
    let arenas = match explanation.split.as_ref().map(|split| split.arenas) {
        Some(arenas) => format!(", {}", units::counted(arenas as usize, "arena")),
        None => String::new(),
    };
    let name = service.map_or(format!("process {}", explanation.pid), |name| {
        format!("{name}, process {}", explanation.pid)
    });
    let threads = units::counted(explanation.threads as usize, "thread");
    let _ = writeln!(text, "{name}: {}, {threads}{arenas}\n", explanation.allocator);
    let memory = |bytes: u64| units::memory(bytes as f64);
    let mut table = Table::default();
    let mut row = |name: &str, bytes: u64, note: &str| {
        let share = 100.0 * bytes as f64 / explanation.rss_bytes.max(1) as f64;
        let figures = format!("{:>9}  {share:>3.0}%", memory(bytes));
        table.row(&[&format!("  {name}"), &figures, &note]);
    };
    let stacks = explanation.stack_bytes;
    if let Some(split) = &explanation.split {
        let mapped = match split.mapped_blocks {
            0 => String::new(),
            blocks => {
                let mappings = units::counted(blocks as usize, "mapping");
                format!("{} of it in {mappings} of its own", memory(split.mapped_bytes))
            }
        };
        row("in use", split.in_use_bytes, &mapped);
        let cached = format!("{} of it cached", memory(split.cached_bytes));
        row("free in pages in use", split.free_in_pages_bytes, &cached);
        let ends = format!("{} of it at the ends of arenas", memory(split.kept_at_ends_bytes));
        row("kept free", split.kept_free_bytes, &ends);
        row("stacks", stacks, "");
        row("other anonymous", explanation.other_bytes, "neither malloc's nor a stack");
    } else {
        row("anonymous", explanation.anon_bytes, &format!("{} of it stacks", memory(stacks)));
    }
    row("files", explanation.rss_bytes.saturating_sub(explanation.anon_bytes), "");
    row("RSS", explanation.rss_bytes, "");
    if explanation.swap_bytes > 0 {
        row("swapped out", explanation.swap_bytes, "not read");
    }
    text += &table.to_string();
    if let Some(why) = &explanation.why_no_split {
        let _ = writeln!(text, "\nWhat the heap holds is not shown: {why}.");
    }
    let spread = explanation.split.as_ref().map_or(0.0, |split| split.spread);
    if spread > WORTH_SAYING_SPREAD {
        let _ = writeln!(
            text,
            "\nIt changed while it was read: three reads of what is in use are {} apart.",
            units::percent(spread)
        );
    }
    if !explanation.other_allocators.is_empty() {
        let named =
            explanation.other_allocators.iter().map(|other| format!("{} in {}", other.name, other.object));
        let _ =
            writeln!(text, "\nOther allocators of the process: {}.", named.collect::<Vec<_>>().join(", "));
    }
    for advice in &explanation.advice {
        let specs: Vec<String> = advice.specs.iter().map(|spec| format!("`{spec}`")).collect();
        let tried = if specs.is_empty() { String::new() } else { format!(" Try {}.", specs.join(" or ")) };
        let _ = writeln!(text, "\n- {}{tried}", advice.reason);
    }
    text.push('\n');
    text
}
