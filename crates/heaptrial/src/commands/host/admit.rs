//! Whether services of this host may be changed.

use std::path::Path;

use heaptrial_change::{Claim, Ledger, Prepared, ServiceTreatment, Stage, free, preflight, read_state};
use heaptrial_host::Instant;
use heaptrial_host::systemd::Systemd;
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::Finding;
use heaptrial_model::ServiceName;
use serde_json::{Value, json};

use super::Host;
use super::findings;
use super::obtain::Allocators;
use crate::answer::Answer;
use crate::exit::Failure;

impl Host<'_> {
    /// Refuses services that belong to a trial, a rollout or a watch of this host, and those that have files of one that is
    /// gone. Not those of `own`, nor those of the watch `watched`, which a rollout may mend.
    pub fn require_free<'s>(
        &self,
        own: &str,
        watched: &str,
        services: impl Iterator<Item = &'s ServiceName> + Clone,
    ) -> Result<(), Failure> {
        let ledger = Ledger::of_this_host(&self.paths)?;
        ledger.refuse_strays(services.clone())?;
        let mut claims = ledger.without(own).claims();
        let now = Instant::now().wall_us as f64 / 1e6;
        for (service, name) in heaptrial_fleet::watch::claims(&self.paths.state, watched, now)? {
            claims.entry(service).or_insert(Claim { kind: "watch".to_owned(), name, unread: None });
        }
        Ok(free(&claims, services)?)
    }

    /// Refuses to change what a trial or rollout left on services that a later one has now.
    pub fn require_latest(&self, name: &str) -> Result<(), Failure> {
        let ledger = Ledger::of_this_host(&self.paths)?;
        if let Some(rollout) = ledger.taken_over_by(name) {
            return Err(Failure::refused(format!(
                "rollout `{rollout}` has replaced what `{name}` left on services; `heaptrial rollout rollback {rollout}` first"
            )));
        }
        let state = read_state(&self.paths, name)?;
        let changed = state
            .services
            .iter()
            .filter(|(_, found)| found.stage != Stage::Reverted && !found.changes.is_empty());
        Ok(free(&ledger.without(name).claims(), changed.map(|(service, _)| service))?)
    }

    /// Warns of what speaks against the treatments, and refuses what would not take hold. Only a dry run copies libraries to
    /// try them: before a start has its journal it writes nothing.
    pub fn admit(
        &self,
        systemd: &Systemd,
        prepared: &Prepared,
        services: &[Service],
        allocators: &Allocators,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let found = preflight(systemd, &self.paths, prepared, services, allocators, dry_run);
        let (refusals, warnings): (Vec<Finding>, Vec<Finding>) =
            found.into_iter().partition(Finding::refuses);
        eprint!("{}", findings::text(&warnings, self.global.colored_stderr()));
        if refusals.is_empty() {
            return Ok(());
        }
        let reasons = findings::text(&refusals, false);
        Err(Failure::refused(format!(
            "nothing was changed, because some treatments would not take hold\n{}",
            reasons.trim_end()
        )))
    }

    /// The files that treatments write, by service.
    pub fn preview(&self, prepared: &Prepared, treatments: &[&ServiceTreatment]) -> (Value, String) {
        let mark = prepared.mark();
        let (mut list, mut text) = (Vec::new(), String::new());
        for treatment in treatments {
            let files = treatment.preview(&self.paths, &mark);
            text += &format!("{}: {}\n", treatment.service, treatment.arm);
            for (path, content) in &files {
                text += &format!("  {}\n{}", path.display(), indented(content));
            }
            let files: Vec<Value> =
                files.iter().map(|(path, text)| json!({ "path": path, "text": text })).collect();
            list.push(json!({ "arm": treatment.arm, "service": treatment.service, "files": files }));
        }
        (Value::Array(list), text)
    }

    /// What a dry run of a start shows.
    pub fn would_change(&self, kind: &str, prepared: &Prepared) -> Answer {
        let libraries = prepared.libraries.iter().map(|library| library.installed.as_path());
        let libraries: Vec<&Path> = libraries.collect();
        let (services, files) = self.preview(prepared, &prepared.services.iter().collect::<Vec<_>>());
        let mut text: String =
            libraries.iter().map(|path| format!("would install {}\n", path.display())).collect();
        text += &format!("{files}nothing was changed\n");
        let name = &prepared.plan.name;
        Answer::new(
            json!({ kind: name, "dry_run": true, "services": services, "libraries": libraries }),
            text,
        )
    }
}

/// The lines of a file that are no comments.
pub fn indented(content: &str) -> String {
    let lines = content.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| format!("    {line}\n")).collect()
}
