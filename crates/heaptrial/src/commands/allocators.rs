//! `heaptrial allocators`: what there is, getting it, proving it, and what a process uses.

mod package;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use heaptrial_allocator::{
    Cache, Catalog, Family, Identity, MITIGATIONS, Mitigation, MitigationState, ObtainOptions, Obtained,
    Obtainer, OtherAllocator, Release, ResolveError, Resolved, SourceKind, identify, other_allocators,
};
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{AllocatorSpec, ErrorClass};
use serde_json::{Value, json};

use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::output::{print, print_json, table};

/// What to do with allocators.
#[derive(Debug, Subcommand)]
pub enum AllocatorsCommand {
    /// List the allocators that can be asked for, or the versions and settings of one
    List {
        /// A family such as `mimalloc`, or one of its versions such as `mimalloc@2.0.9`
        #[arg(value_name = "FAMILY[@VERSION]")]
        family: Option<AllocatorSpec>,
    },
    /// Get an allocator into the cache and print where it is
    Get(GetOptions),
    /// Get an allocator and ask a process under it what it is
    Verify(GetOptions),
    /// Show which allocator running processes use, without attaching to them
    Identify {
        /// Process ids
        #[arg(required = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pids: Vec<i32>,
    },
    /// Compare the heap-security properties of the allocators
    Mitigations,
    /// Get an allocator and make a Debian package of exactly that build
    Package(GetOptions),
}

/// Which allocator, and where it may come from.
#[derive(Debug, Args)]
pub struct GetOptions {
    /// The allocator, such as `mimalloc@2.0.9+secure` or `glibc?arena_max=1`
    spec: AllocatorSpec,
    /// Take this library or source folder
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Where allocators may come from.
#[derive(Debug, Default, Args)]
pub struct SourceOptions {
    /// Clone from here instead of upstream: a URL or folder that holds repositories by name
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Use only what is on this machine
    #[arg(long)]
    offline: bool,
    /// Use only these sources
    #[arg(long = "source", value_name = "SOURCE", value_delimiter = ',')]
    sources: Vec<SourceName>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SourceName {
    /// Builds that packages of `allocators package` installed
    Package,
    /// Libraries installed on this host
    Host,
    /// Packages of the host's suite and of others
    Debian,
    /// Source inside crates
    Crate,
    /// Upstream repositories
    Git,
}

/// Runs one of the commands.
pub fn run(command: AllocatorsCommand, options: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        AllocatorsCommand::List { family: None } => list(options),
        AllocatorsCommand::List { family: Some(spec) } => list_family(&spec, options),
        AllocatorsCommand::Get(get) => obtain(&get, options, false),
        AllocatorsCommand::Verify(get) => obtain(&get, options, true),
        AllocatorsCommand::Identify { pids } => identify_all(&pids, options),
        AllocatorsCommand::Mitigations => mitigations(options),
        AllocatorsCommand::Package(get) => package::run(&get, options),
    }
}

fn list(options: &GlobalOptions) -> Result<ExitCode, Failure> {
    let families: Vec<_> = Catalog::builtin().families().filter(|family| !family.identify_only).collect();
    if options.json {
        let families: Vec<Value> = families.iter().map(|family| family_json(family)).collect();
        return print_json(json!({ "families": families }));
    }
    let mut text = String::new();
    for family in families {
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<10} {value}\n"));
        line(&family.name, &family.summary);
        match family.versions.as_slice() {
            [] => line("", "versions: whatever is at hand"),
            releases => line(
                "",
                &format!("versions: {}", join(releases.iter().map(|release| release.version.as_str()))),
            ),
        }
        if !family.variants.is_empty() {
            line(
                "",
                &format!("variants: {}", join(family.variants.iter().map(|variant| variant.name.as_str()))),
            );
        }
    }
    text.push_str("\n`heaptrial allocators list FAMILY` shows sources and settings.\n");
    print(&text)
}

fn list_family(spec: &AllocatorSpec, options: &GlobalOptions) -> Result<ExitCode, Failure> {
    let family = family_of(spec)?;
    if options.json {
        return print_json(json!({ "families": [family_json(&family)] }));
    }
    let mut text = format!("{}: {}\n", family.name, family.summary);
    let mut rows = vec![vec!["VERSION".to_owned(), "SOURCES".to_owned()]];
    for release in &family.versions {
        rows.push(vec![release.version.to_string(), sources_of(&family, release).join(", ")]);
    }
    for package in &family.unversioned {
        rows.push(vec!["?".to_owned(), format!("{} of {}", package.package, package.suite)]);
    }
    text.push_str(&format!("\n{}", table(&rows)));
    for variant in &family.variants {
        text.push_str(&format!("\nvariant +{}: {}\n", variant.name, variant.about));
    }
    if !family.settings.is_empty() {
        let head = ["SETTING", "VERSIONS", "DEFAULT", "UNIT", "VARIABLE", "WHAT IT DOES"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for setting in &family.settings {
            for (index, range) in setting.in_versions.iter().enumerate() {
                let first = |text: String| if index == 0 { text } else { String::new() };
                rows.push(vec![
                    first(setting.name.clone()),
                    range.to_string(),
                    range.default.clone().unwrap_or_default(),
                    first(setting.unit.clone().unwrap_or_default()),
                    first(setting.variable(&family.environment)),
                    first(setting.about.clone()),
                ]);
            }
        }
        text.push_str(&format!("\n{}", table(&rows)));
    }
    print(&text)
}

/// A family, or what the catalog has of one version of it.
fn family_of(spec: &AllocatorSpec) -> Result<Family, Failure> {
    if !spec.variants.is_empty() || !spec.settings.is_empty() {
        let asked = AllocatorSpec { version: spec.version.clone(), ..AllocatorSpec::family(&spec.family) };
        return Err(Failure::usage(format!(
            "`list` shows families and their versions: `heaptrial allocators list {asked}`; `heaptrial allocators verify \
             '{spec}'` shows whether that can be had"
        )));
    }
    let catalog = Catalog::builtin();
    let mut family = Family::clone(&*catalog.resolve_local(&AllocatorSpec::family(&spec.family))?.family);
    if let Some(version) = &spec.version {
        catalog.resolve(spec)?;
        family.versions.retain(|release| release.version == *version);
        family.unversioned.clear();
        for setting in &mut family.settings {
            setting.in_versions.retain(|range| range.contains(version));
        }
        family.settings.retain(|setting| !setting.in_versions.is_empty());
    }
    Ok(family)
}

fn sources_of(family: &Family, release: &Release) -> Vec<String> {
    let packages = release.debian.iter().map(|package| format!("{} of {}", package.package, package.suite));
    let source =
        release.crate_source.iter().map(|source| format!("crate {} {}", source.name, source.version));
    let commit =
        release.commit.iter().filter(|_| family.git.is_some()).map(|commit| format!("git {}", commit.tag));
    packages.chain(source).chain(commit).collect()
}

fn family_json(family: &Family) -> Value {
    let versions: Vec<Value> = family
        .versions
        .iter()
        .map(|release| json!({ "version": release.version, "sources": sources_of(family, release) }))
        .collect();
    let settings: Vec<Value> = family
        .settings
        .iter()
        .map(|setting| {
            let ranges: Vec<Value> = setting
                .in_versions
                .iter()
                .map(|range| json!({ "from": range.from, "to": range.to, "default": range.default }))
                .collect();
            json!({
                "name": setting.name, "kind": setting.kind, "unit": setting.unit, "about": setting.about,
                "variable": setting.variable(&family.environment), "in_versions": ranges,
            })
        })
        .collect();
    let variants: Vec<&str> = family.variants.iter().map(|variant| variant.name.as_str()).collect();
    json!({
        "name": family.name, "summary": family.summary, "versions": versions, "variants": variants,
        "settings": settings,
    })
}

impl SourceOptions {
    /// The mirror, where it is a folder of this machine.
    pub fn mirror_folder(&self) -> Option<&Path> {
        self.mirror.as_deref().map(Path::new).filter(|folder| folder.is_dir())
    }

    /// An obtainer with these sources, or of the library or source folder `from`, whose progress goes
    /// to standard error.
    pub fn obtainer(&self, from: Option<&Path>) -> Result<Obtainer, Failure> {
        Ok(Obtainer::new(Cache::of_user()?, self.obtain_options(from)?))
    }

    fn obtain_options(&self, from: Option<&Path>) -> Result<ObtainOptions, Failure> {
        // The very program that runs, also where its path means something else: in a userland, or after an upgrade. Not
        // `/proc/self`, which would be the dynamic loader where an allocator is probed under one.
        let mut options = ObtainOptions::new(format!("/proc/{}/exe", std::process::id()));
        options.offline = self.offline;
        options.mirror = self.mirror.clone();
        options.from = from.map(Path::to_owned);
        options.progress = Arc::new(|line| {
            // Progress that nobody can see is no failure.
            let _ = writeln!(io::stderr(), "{line}");
        });
        if !self.sources.is_empty() {
            options.sources = self.sources.iter().map(|name| SourceKind::from(*name)).collect();
        }
        Ok(options)
    }
}

impl From<SourceName> for SourceKind {
    fn from(name: SourceName) -> Self {
        match name {
            SourceName::Package => Self::Package,
            SourceName::Host => Self::Host,
            SourceName::Debian => Self::Debian,
            SourceName::Crate => Self::Crate,
            SourceName::Git => Self::Git,
        }
    }
}

fn resolve(get: &GetOptions) -> Result<Resolved, ResolveError> {
    let catalog = Catalog::builtin();
    match get.from {
        Some(_) => catalog.resolve_local(&get.spec),
        None => catalog.resolve(&get.spec),
    }
}

fn obtain(get: &GetOptions, options: &GlobalOptions, verify: bool) -> Result<ExitCode, Failure> {
    let resolved = resolve(get)?;
    let obtainer = get.sources.obtainer(get.from.as_deref())?;
    let mut obtained = obtainer.obtain(&resolved)?;
    if verify {
        obtained.verification = obtainer.verify(&resolved, &obtained)?;
    }
    if options.json {
        return print_json(obtained_json(&obtained));
    }
    print(&obtained_text(&resolved, &obtained, verify))
}

fn obtained_json(obtained: &Obtained) -> Value {
    let application = obtained.application();
    let prefix: Vec<String> =
        application.argv_prefix.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    json!({
        "spec": obtained.spec,
        "version": obtained.version,
        "library": obtained.library,
        "loader": obtained.loader,
        "sha256": obtained.sha256,
        "build_id": obtained.build_id,
        "source": obtained.provenance.to_string(),
        "provenance": obtained.provenance,
        "verification": obtained.verification,
        "application": { "env": application.env, "argv_prefix": prefix },
    })
}

fn obtained_text(resolved: &Resolved, obtained: &Obtained, verify: bool) -> String {
    let version = obtained.version.as_ref().map_or("version not reported".to_owned(), ToString::to_string);
    let mut rows = vec![
        vec!["allocator".to_owned(), format!("{} {version}", resolved.family.name)],
        vec!["source".to_owned(), obtained.provenance.to_string()],
    ];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    if let Some(library) = &obtained.library {
        row("library", library.display().to_string());
    }
    if let Some(loader) = &obtained.loader {
        row("runs under", format!("glibc {} ({})", loader.version, loader.program.display()));
    }
    row("sha256", obtained.sha256.clone());
    if let Some(build_id) = &obtained.build_id {
        row("build id", build_id.clone());
    }
    for (name, value) in &obtained.settings {
        row("setting", format!("{name}={value}"));
    }
    for finding in obtained.verification.evidence.iter().filter(|_| verify) {
        row("verified", finding.clone());
    }
    for claim in &obtained.verification.unproved {
        row("not proved", claim.clone());
    }
    table(&rows)
}

fn identify_all(pids: &[i32], options: &GlobalOptions) -> Result<ExitCode, Failure> {
    let root = HostRoot::default();
    let results: Vec<_> = pids
        .iter()
        .map(|pid| {
            let process = Process::new(&root, *pid);
            let identity = identify(&process);
            let others = identity.as_ref().ok().and_then(|found| other_allocators(&process, found).ok());
            (*pid, identity.map(|identity| (identity, others.unwrap_or_default())))
        })
        .collect();
    let failed = results.iter().any(|(_, result)| result.is_err());
    let code = if failed { code(ErrorClass::Failed) } else { ExitCode::SUCCESS };
    if options.json {
        let processes: Vec<Value> = results
            .iter()
            .map(|(pid, result)| match result {
                Ok((identity, others)) => {
                    json!({ "pid": pid, "identity": identity, "other_allocators": others })
                }
                Err(error) => json!({ "pid": pid, "error": error.to_string() }),
            })
            .collect();
        print_json(json!({ "processes": processes }))?;
        return Ok(code);
    }
    let mut text = String::new();
    for (pid, result) in &results {
        match result {
            Ok((identity, others)) => text.push_str(&identity_text(*pid, identity, others)),
            Err(error) => drop(writeln!(io::stderr(), "error: {error}")),
        }
    }
    print(&text)?;
    Ok(code)
}

fn identity_text(pid: i32, identity: &Identity, others: &[OtherAllocator]) -> String {
    let mut rows = vec![
        vec!["process".to_owned(), pid.to_string()],
        vec!["allocator".to_owned(), format!("{} ({})", identity.label(), identity.linkage.as_str())],
    ];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    if let Some(path) = &identity.path {
        row("file", path.display().to_string());
    }
    if let Some(build_id) = &identity.build_id {
        row("build id", build_id.clone());
    }
    for (name, value) in &identity.settings {
        row("setting", format!("{name}={value}"));
    }
    for finding in &identity.evidence {
        row("evidence", finding.clone());
    }
    for other in others {
        row("other allocator", format!("{} in {}: no treatment reaches it", other.name, other.object));
    }
    table(&rows) + "\n"
}

fn mitigations(options: &GlobalOptions) -> Result<ExitCode, Failure> {
    let builds: Vec<_> = Catalog::builtin()
        .families()
        .filter(|family| !family.identify_only)
        .flat_map(|family| {
            let variants = family.variants.iter().map(move |variant| (family, Some(variant.name.as_str())));
            std::iter::once((family, None)).chain(variants)
        })
        .collect();
    let label = |family: &Family, variant: Option<&str>| match variant {
        Some(variant) => format!("{}+{variant}", family.name),
        None => family.name.clone(),
    };
    if options.json {
        let builds: Vec<Value> = builds
            .iter()
            .map(|(family, variant)| {
                let cells: Vec<Value> = MITIGATIONS
                    .iter()
                    .map(|name| match family.mitigation(name, *variant) {
                        Some(Mitigation { state, note, source, .. }) => {
                            json!({ "name": name, "state": state, "note": note, "source": source })
                        }
                        None => json!({ "name": name, "state": MitigationState::Unknown }),
                    })
                    .collect();
                json!({ "allocator": label(family, *variant), "mitigations": cells })
            })
            .collect();
        return print_json(json!({ "builds": builds }));
    }
    let heads = MITIGATIONS.iter().map(|name| name.replace('_', " "));
    let mut rows = vec![std::iter::once("allocator".to_owned()).chain(heads).collect::<Vec<_>>()];
    let mut notes = String::new();
    for (family, variant) in builds {
        let name = label(family, variant);
        let mut row = vec![name.clone()];
        for column in MITIGATIONS {
            let cell = family.mitigation(column, variant);
            row.push(cell.map_or(MitigationState::Unknown, |cell| cell.state).to_string());
            if let Some(cell) = cell {
                let note = cell.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
                notes.push_str(&format!("{name}, {}{note} [{}]\n", column.replace('_', " "), cell.source));
            }
        }
        rows.push(row);
    }
    print(&format!("{}\n{notes}\n`unknown` means that the catalog has no source for it.\n", table(&rows)))
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
