//! `heaptrial allocators`: what there is, getting it, proving it, and what a process uses.

mod package;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use heaptrial_allocator::{
    Cache, Catalog, Family, Identifier, Identity, MITIGATIONS, Mitigation, MitigationState, ObtainOptions,
    Obtained, Obtainer, OtherAllocator, Release, ResolveError, Resolved, SourceKind, other_allocators,
};
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{AllocatorSpec, Version};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::Table;

#[derive(Debug, Subcommand)]
pub enum AllocatorsCommand {
    /// List the allocators that can be asked for, or the versions and settings of one
    List {
        /// A family such as `mimalloc`
        #[arg(value_name = "FAMILY")]
        family: Option<String>,
    },
    /// Get an allocator into the cache and print where it is
    Get(GetOptions),
    /// Get an allocator and ask a process under it what it is
    Verify(GetOptions),
    /// Show which allocator running processes use, without attaching to them
    Identify {
        /// Ids of the processes to look at
        #[arg(required = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pids: Vec<i32>,
    },
    /// Compare the heap-security properties of the allocators
    Mitigations,
    /// Get an allocator and make a Debian package of exactly that build
    Package(GetOptions),
}

#[derive(Debug, Args)]
pub struct GetOptions {
    /// The allocator, such as `mimalloc@2.0.9+secure` or `glibc?arena_max=1`
    spec: AllocatorSpec,
    /// Take this library or source folder
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    from: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceOptions,
}

#[derive(Debug, Default, Args)]
pub struct SourceOptions {
    /// Clone from here instead of upstream: a URL or folder that holds repositories by name
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Use only what is on this machine
    #[arg(long)]
    offline: bool,
    /// Use only these sources: package (builds that `allocators package` made), host (installed libraries), debian (packages of
    /// any suite), crate (source inside crates), git (upstream repositories)
    #[arg(long = "source", value_name = "SOURCE", value_delimiter = ',', value_parser = source)]
    #[arg(hide_short_help = true)]
    sources: Vec<SourceKind>,
}

fn source(text: &str) -> Result<SourceKind, String> {
    match text {
        "package" => Ok(SourceKind::Package),
        "host" => Ok(SourceKind::Host),
        "debian" => Ok(SourceKind::Debian),
        "crate" => Ok(SourceKind::Crate),
        "git" => Ok(SourceKind::Git),
        _ => Err("expected package, host, debian, crate or git".to_owned()),
    }
}

pub fn run(command: AllocatorsCommand, options: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        AllocatorsCommand::List { family: None } => Ok(list()),
        AllocatorsCommand::List { family: Some(name) } => list_family(&name),
        AllocatorsCommand::Get(get) => obtain(&get, false),
        AllocatorsCommand::Verify(get) => obtain(&get, true),
        AllocatorsCommand::Identify { pids } => Ok(identify_all(&pids)),
        AllocatorsCommand::Mitigations => Ok(mitigations()),
        AllocatorsCommand::Package(get) => package::run(&get, options),
    }
}

fn list() -> Answer {
    let families: Vec<_> = Catalog::builtin().families().filter(|family| !family.identify_only).collect();
    let mut table = Table::new(&["FAMILY", "VERSIONS", "VARIANTS", "WHAT IT IS"]);
    for family in &families {
        let versions: Vec<&str> = family.versions.iter().map(|release| release.version.as_str()).collect();
        let variants: Vec<&str> = family.variants.iter().map(|variant| variant.name.as_str()).collect();
        let versions = if versions.is_empty() { "any".to_owned() } else { versions.join(", ") };
        table.row(&[&family.name, &versions, &variants.join(", "), &family.summary]);
    }
    let text = format!("{table}\n`heaptrial allocators list FAMILY` shows sources and settings.\n");
    let families: Vec<Value> = families.iter().map(|family| family_json(family)).collect();
    Answer::new(json!({ "families": families }), text)
}

fn list_family(name: &str) -> Result<Answer, Failure> {
    let family = Catalog::builtin().resolve_local(&AllocatorSpec::family(name))?.family;
    let mut text = format!("{}: {}\n", family.name, family.summary);
    let mut table = Table::new(&["VERSION", "SOURCES"]);
    for release in &family.versions {
        table.row(&[&release.version, &sources_of(&family, release).join(", ")]);
    }
    for package in &family.unversioned {
        table.row(&[&"?", &format!("{} of {}", package.package, package.suite)]);
    }
    text += &format!("\n{table}");
    for variant in &family.variants {
        text.push_str(&format!("\nvariant +{}: {}\n", variant.name, variant.about));
    }
    let mut table = Table::new(&["SETTING", "VERSIONS", "DEFAULT", "UNIT", "VARIABLE", "WHAT IT DOES"]);
    for setting in &family.settings {
        for range in &setting.in_versions {
            let (default, unit) = (range.default.as_deref(), setting.unit.as_deref());
            let (default, unit) = (default.unwrap_or_default(), unit.unwrap_or_default());
            let variable = setting.variable(&family.environment);
            table.row(&[&setting.name, &range, &default, &unit, &variable, &setting.about]);
        }
    }
    if !family.settings.is_empty() {
        text += &format!("\n{table}");
    }
    Ok(Answer::new(json!({ "families": [family_json(&family)] }), text))
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
    let versions: Vec<&Version> = family.versions.iter().map(|release| &release.version).collect();
    let variants: Vec<&str> = family.variants.iter().map(|variant| variant.name.as_str()).collect();
    let settings = family.settings.iter().map(|setting| {
        json!({
            "name": setting.name, "kind": setting.kind, "unit": setting.unit, "about": setting.about,
            "variable": setting.variable(&family.environment),
        })
    });
    let settings: Vec<Value> = settings.collect();
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

    /// Obtains an allocator that stands alone, from the library or source folder `from` where that is given.
    pub fn obtain(&self, spec: &AllocatorSpec, from: Option<&Path>) -> Result<(Resolved, Obtained), Failure> {
        let resolved = resolve(spec, from)?;
        let obtained = self.obtainer(from)?.obtain(&resolved)?;
        Ok((resolved, obtained))
    }

    /// An obtainer with these sources, or of the library or source folder `from`; its progress goes to standard error.
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
        options.progress = Arc::new(|line| eprintln!("{line}"));
        if !self.sources.is_empty() {
            options.sources.clone_from(&self.sources);
        }
        Ok(options)
    }
}

fn resolve(spec: &AllocatorSpec, from: Option<&Path>) -> Result<Resolved, ResolveError> {
    match from {
        Some(_) => Catalog::builtin().resolve_local(spec),
        None => Catalog::builtin().resolve(spec),
    }
}

fn obtain(get: &GetOptions, verify: bool) -> Result<Answer, Failure> {
    let (resolved, mut obtained) = get.sources.obtain(&get.spec, get.from.as_deref())?;
    if verify {
        obtained.verification = get.sources.obtainer(get.from.as_deref())?.verify(&resolved, &obtained)?;
    }
    Ok(Answer::new(obtained_json(&obtained), obtained_text(&resolved, &obtained, verify)))
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
    let mut table = Table::default();
    table.row(&[&"allocator", &format!("{} {version}", resolved.family.name)]);
    table.row(&[&"source", &obtained.provenance]);
    if let Some(library) = &obtained.library {
        table.row(&[&"library", &library.display()]);
    }
    if let Some(loader) = &obtained.loader {
        table.row(&[&"runs under", &format!("glibc {} ({})", loader.version, loader.program.display())]);
    }
    table.row(&[&"sha256", &obtained.sha256]);
    obtained.build_id.iter().for_each(|id| table.row(&[&"build id", id]));
    for (name, value) in &obtained.settings {
        table.row(&[&"setting", &format!("{name}={value}")]);
    }
    let proved = obtained.verification.evidence.iter().filter(|_| verify);
    proved.for_each(|finding| table.row(&[&"verified", finding]));
    obtained.verification.unproved.iter().for_each(|claim| table.row(&[&"not proved", claim]));
    table.to_string()
}

fn identify_all(pids: &[i32]) -> Answer {
    let (root, identifier) = (HostRoot::default(), Identifier::default());
    let (mut documents, mut text, mut well) = (Vec::new(), String::new(), true);
    for pid in pids {
        let process = Process::new(&root, *pid);
        match identifier.identify(&process, &|| None) {
            Ok(identity) => {
                let others = other_allocators(&process, &identity).unwrap_or_default();
                text += &identity_text(*pid, &identity, &others);
                documents.push(json!({ "pid": pid, "identity": identity, "other_allocators": others }));
            }
            Err(error) => {
                well = false;
                eprintln!("error: {error}");
                documents.push(json!({ "pid": pid, "error": error.to_string() }));
            }
        }
    }
    Answer::new(json!({ "processes": documents }), text).unless(well)
}

fn identity_text(pid: i32, identity: &Identity, others: &[OtherAllocator]) -> String {
    let mut table = Table::default();
    table.row(&[&"process", &pid]);
    table.row(&[&"allocator", &format!("{} ({})", identity.label(), identity.linkage.as_str())]);
    if let Some(path) = &identity.path {
        table.row(&[&"file", &path.display()]);
    }
    identity.build_id.iter().for_each(|id| table.row(&[&"build id", id]));
    for (name, value) in &identity.settings {
        table.row(&[&"setting", &format!("{name}={value}")]);
    }
    identity.evidence.iter().for_each(|finding| table.row(&[&"evidence", finding]));
    for other in others {
        let text = format!("{} in {}: no treatment reaches it", other.name, other.object);
        table.row(&[&"other allocator", &text]);
    }
    format!("{table}\n")
}

fn mitigations() -> Answer {
    let columns = MITIGATIONS.iter().map(|name| name.replace('_', " "));
    let mut rows = vec![std::iter::once("allocator".to_owned()).chain(columns).collect::<Vec<_>>()];
    let (mut builds, mut notes) = (Vec::new(), String::new());
    for family in Catalog::builtin().families().filter(|family| !family.identify_only) {
        let variants = family.variants.iter().map(|variant| Some(variant.name.as_str()));
        for variant in std::iter::once(None).chain(variants) {
            let name = variant.map_or(family.name.clone(), |variant| format!("{}+{variant}", family.name));
            let (mut row, mut cells) = (vec![name.clone()], Vec::new());
            for column in MITIGATIONS {
                let (state, note, source) = match family.mitigation(column, variant) {
                    Some(Mitigation { state, note, source, .. }) => (*state, note.clone(), Some(source)),
                    None => (MitigationState::Unknown, None, None),
                };
                row.push(state.to_string());
                if let Some(source) = source {
                    let note = note.as_ref().map_or(String::new(), |note| format!(": {note}"));
                    notes += &format!("{name}, {}{note} [{source}]\n", column.replace('_', " "));
                }
                cells.push(json!({ "name": column, "state": state, "note": note, "source": source }));
            }
            rows.push(row);
            builds.push(json!({ "allocator": name, "mitigations": cells }));
        }
    }
    let text =
        format!("{}\n{notes}\n`unknown` means that the catalog has no source for it.\n", Table::from(rows));
    Answer::new(json!({ "builds": builds }), text)
}
