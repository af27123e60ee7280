//! Services as a table, with what it adds up to.

use heaptrial_allocator::{Explanation, Split};
use heaptrial_host::HostRoot;
use heaptrial_host::systemd::{Unit, UnitStatus};
use heaptrial_inspect::{MainProcess, Service, host_preloads};
use heaptrial_model::{Identity, Linkage, units};

use super::Shown;
use crate::output::{Table, some};

/// The table and what it comes to.
pub(super) fn text(services: &[Shown]) -> String {
    let columns: [Column; 11] = [
        ("SERVICE", |shown| short_name(&shown.service).to_owned()),
        ("ALLOCATOR", |shown| of_process(shown, allocator)),
        ("RSS", |shown| of_process(shown, |process| units::memory(process.sample.rss_bytes as f64))),
        ("IN USE", |shown| of_split(shown, |split| split.in_use_bytes)),
        ("FREE IN PAGES", |shown| of_split(shown, |split| split.free_in_pages_bytes)),
        ("KEPT FREE", |shown| of_split(shown, |split| split.kept_free_bytes)),
        ("THREADS", |shown| explained(shown, |explanation| Some(explanation.threads.to_string()))),
        ("AGE", |shown| of_process(shown, |process| units::duration(process.age_seconds))),
        ("RELAY", |shown| relay(&shown.service)),
        ("DROP-INS", drop_ins),
        ("NOTES", |shown| notes(&shown.service).join(", ")),
    ];
    let mut kept: Vec<Vec<String>> = Vec::new();
    for (head, cell) in columns {
        let cells: Vec<String> = services.iter().map(cell).collect();
        // What no service has anything to say about is no column.
        if cells.iter().any(|cell| !matches!(cell.as_str(), "" | "-")) {
            kept.push(std::iter::once(head.to_owned()).chain(cells).collect());
        }
    }
    let rows: Vec<Vec<String>> =
        (0..=services.len()).map(|row| kept.iter().map(|column| column[row].clone()).collect()).collect();
    format!("{}\n{}", Table::from(rows), summary(services))
}

type Column = (&'static str, fn(&Shown) -> String);

/// How many services run each allocator, as far as it is known, the most frequent first.
pub(super) fn allocators(services: &[Shown]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let processes = services.iter().filter_map(|shown| shown.service.process.as_ref());
    for label in processes.filter_map(|process| process.identity.as_ref()).map(label) {
        match counts.iter_mut().find(|(counted, _)| *counted == label) {
            Some((_, count)) => *count += 1,
            None => counts.push((label, 1)),
        }
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn summary(services: &[Shown]) -> String {
    let counts = allocators(services);
    let known: usize = counts.iter().map(|(_, count)| count).sum();
    let processes = services.iter().filter_map(|shown| shown.service.process.as_ref());
    let unknown = processes.filter(|process| process.identity.is_none()).count();
    let mut lines = match counts.as_slice() {
        [] if unknown == 0 => "none has a main process\n".to_owned(),
        [] => String::new(),
        [(only, count)] => format!("all {count} run {only}\n"),
        [(first, count), others @ ..] => {
            let others: String = others.iter().map(|(label, count)| format!(", {count} {label}")).collect();
            format!("{count} of {known} run {first}{others}\n")
        }
    };
    if unknown > 0 {
        lines.push_str(&format!("of {unknown} the allocator is not known\n"));
    }
    for library in host_preloads(&HostRoot::default()) {
        lines.push_str(&format!("/etc/ld.so.preload loads {} into every program\n", library.display()));
    }
    let ignoring: Vec<&str> = services
        .iter()
        .filter(|shown| shown.service.process.as_ref().is_some_and(preload_failed))
        .map(|shown| short_name(&shown.service))
        .collect();
    if !ignoring.is_empty() {
        lines += &format!("not running what LD_PRELOAD asks for: {}\n", some(ignoring));
    }
    lines
}

fn short_name(service: &Service) -> &str {
    let name = service.name().as_str();
    name.strip_suffix(".service").unwrap_or(name)
}

fn of_process(shown: &Shown, cell: impl Fn(&MainProcess) -> String) -> String {
    shown.service.process.as_ref().map_or_else(|| "-".to_owned(), cell)
}

fn explained(shown: &Shown, cell: impl Fn(&Explanation) -> Option<String>) -> String {
    shown.explanation.as_ref().and_then(cell).unwrap_or_else(|| "-".to_owned())
}

fn of_split(shown: &Shown, part: fn(&Split) -> u64) -> String {
    explained(shown, |explanation| Some(units::memory(part(explanation.split.as_ref()?) as f64)))
}

fn label(identity: &Identity) -> String {
    if identity.family == "unknown" { identity.family.clone() } else { identity.label() }
}

fn allocator(process: &MainProcess) -> String {
    let mut remarks: Vec<String> = Vec::new();
    let name = match &process.identity {
        Some(identity) => {
            if !matches!(identity.linkage, Linkage::Libc | Linkage::Unknown) {
                remarks.push(identity.linkage.as_str().to_owned());
            }
            label(identity)
        }
        None => "not known".to_owned(),
    };
    let settings = process.identity.iter().flat_map(|identity| &identity.settings);
    remarks.extend(settings.map(|(name, value)| format!("{name}={value}")));
    remarks.extend(process.preloads.iter().filter_map(|preload| {
        let library = preload.library.as_str();
        let name = library.rsplit('/').next().unwrap_or(library);
        match preload.loaded {
            Some(true) => None,
            Some(false) if preload.is_alternative(&process.preloads) => None,
            Some(false) => Some(format!("asked for {name}: not loaded")),
            None => Some(format!("asked for {name}")),
        }
    }));
    if remarks.is_empty() { name } else { format!("{name} ({})", remarks.join(", ")) }
}

fn preload_failed(process: &MainProcess) -> bool {
    process
        .preloads
        .iter()
        .any(|preload| preload.loaded == Some(false) && !preload.is_alternative(&process.preloads))
}

fn relay(service: &Service) -> String {
    let Some(relay) = &service.relay else { return "-".to_owned() };
    relay.nickname.clone().unwrap_or_else(|| format!("({})", relay.role))
}

fn drop_ins(shown: &Shown) -> String {
    let count = shown.service.unit.drop_ins.len();
    let setting: Vec<_> = shown
        .preload_files
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    match (count, setting.is_empty()) {
        (0, true) => "-".to_owned(),
        (_, true) => count.to_string(),
        (_, false) => format!("{count}, LD_PRELOAD by {}", setting.join(" and ")),
    }
}

/// What is out of the ordinary.
fn notes(service: &Service) -> Vec<String> {
    let Service { unit, process, relay_unread, .. } = service;
    let mut notes = Vec::new();
    if unit.load_state != "loaded" {
        notes.push(unit.load_state.clone());
    }
    notes.extend(state(unit));
    match unit.status.restarts {
        0 => {}
        1 => notes.push("1 restart by itself".to_owned()),
        restarts => notes.push(format!("{restarts} restarts by itself")),
    }
    if unit.needs_reload {
        notes.push("files changed: needs `systemctl daemon-reload`".to_owned());
    }
    if process.is_none() && unit.status.main_pid.is_some() {
        notes.push("its process cannot be seen".to_owned());
    }
    let identity = process.as_ref().and_then(|process| process.identity.as_ref());
    if identity.is_some_and(|identity| identity.family == "unknown") {
        notes.push("see `heaptrial allocators identify`".to_owned());
    }
    notes.extend(relay_unread.clone());
    notes
}

fn state(unit: &Unit) -> Option<String> {
    let UnitStatus { active_state, sub_state, result, exec_main_status, main_pid, .. } = &unit.status;
    match active_state.as_str() {
        "active" if main_pid.is_some() => None,
        "failed" => Some(format!("failed: {result} {exec_main_status}")),
        active => Some(format!("{active} ({sub_state})")),
    }
}
