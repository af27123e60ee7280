//! A lab run for a terminal.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{GUTTER, LONGEST_NAME, Paint, pad, table_lines};
use crate::chart::shorten;
use crate::table::{self, Detail};
use crate::{Report, summary, units};

/// Enough to tell builds apart; the whole id is in the other forms.
const BUILD_ID_DIGITS: usize = 12;

/// The result, the table, what really ran,
/// warnings, and the command that repeats it.
pub(super) fn lines(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    let mut put = |line: &str| {
        let _ = writeln!(out, "{}", line.trim_end());
    };
    put(&paint.bold(&format!("{}: {}, {}", report.name, report.kind().describe(), report.outcome.as_str())));
    put(&paint.dim(&circumstances(report)));
    put("");
    for sentence in summary::lab::result(report) {
        put(&sentence);
    }
    put("");
    for line in table_lines(&table::lab::results(report, Detail::Brief), LONGEST_NAME, paint) {
        put(&line);
    }
    if let Some(table) = table::work::measures(report) {
        put("");
        put(&paint.bold("Work"));
        table_lines(&table, LONGEST_NAME, paint).iter().for_each(|line| put(line));
    }
    put("");
    put(&paint.bold("What really ran"));
    for line in identities(report, paint) {
        put(&line);
    }
    for (title, lines, code) in [
        ("Warnings", &summary::warnings(report), Paint::YELLOW),
        ("Not measured", &report.unmeasured, Paint::DIM),
        ("Notes", &report.notes, Paint::DIM),
    ] {
        if !lines.is_empty() {
            put("");
            put(&paint.with(code, title));
            for line in lines {
                put(&format!("- {line}"));
            }
        }
    }
    put("");
    put(&paint.dim(&format!("{} {}", summary::lab::figures_in_brief(report), units::LEGEND)));
    put(&format!("Repeat it: {}", report.command));
    out
}

fn circumstances(report: &Report) -> String {
    let host = &report.host;
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let parts = [
        Some(report.started_at.clone()),
        Some(units::duration(report.duration_seconds)),
        Some(format!("seed {}", report.seed)),
        Some(if report.repeats() == 1 {
            "1 repeat".to_owned()
        } else {
            format!("{} repeats", report.repeats())
        }),
        host.os.clone(),
        named("kernel", &host.kernel),
        host.cpu_count.map(|count| if count == 1 { "1 CPU".to_owned() } else { format!("{count} CPUs") }),
        host.ram_bytes.map(|bytes| format!("{} RAM", units::memory(bytes as f64))),
        named("THP", &host.thp_mode),
        named("cgroup", &host.cgroup_version),
        Some(format!("heaptrial {}", report.tool_version)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn identities(report: &Report, paint: Paint) -> Vec<String> {
    let name = |index: usize| shorten(&report.arms[index].name, LONGEST_NAME);
    let width = (0..report.arms.len()).map(|index| name(index).width()).max().unwrap_or(0);
    let lines = report.arms.iter().enumerate().map(|(index, arm)| {
        let name = pad(&name(index), width, false);
        let Some(identity) = &arm.identity else {
            return format!(
                "{name}{GUTTER}{}",
                paint.with(Paint::YELLOW, "not proved in any service that counts")
            );
        };
        let path = identity.path.as_ref().map(|path| path.display().to_string());
        let build_id = identity
            .build_id
            .as_ref()
            .map(|id| format!("build id {}", id.get(..BUILD_ID_DIGITS).unwrap_or(id)));
        let settings: Vec<String> =
            identity.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = (!settings.is_empty()).then(|| settings.join(" "));
        let parts =
            [Some(identity.label()), Some(identity.linkage.as_str().to_owned()), path, build_id, settings];
        format!("{name}{GUTTER}{}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    });
    lines.collect()
}
