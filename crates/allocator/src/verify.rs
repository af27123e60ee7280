//! Proof that a library is what the spec says: a probe process runs under it and is asked.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heaptrial_model::{Classified, ErrorClass, Setting, Version};
use serde::{Deserialize, Serialize};

use crate::application::Application;
use crate::catalog::{Family, Variant, VersionCall};
use crate::elf::{Elf, ElfFile};
use crate::identify::Constants;
use crate::probe::ProbeAnswer;
use crate::probe_process::{ask, without_foreign_settings};
use crate::provenance::{Origin, Provenance};
use crate::resolve::{Resolved, same_value};

/// What was proved of an allocator by running a process under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Version as the loaded code reports it; `None` where the family has no such call.
    pub version: Option<Version>,
    pub malloc_from: PathBuf,
    pub evidence: Vec<String>,
    pub options: BTreeMap<String, String>,
    /// What the spec says and nothing in the library shows, each with what it rests on.
    pub unproved: Vec<String>,
}

pub(crate) struct Claim<'a> {
    pub(crate) family: &'a Family,
    pub(crate) version: Option<&'a Version>,
    pub(crate) variants: &'a [Variant],
    /// The object that has to hold `malloc`; `None` for the host's C library.
    pub(crate) object: Option<&'a Path>,
    pub(crate) settings: &'a [Setting],
}

impl<'a> Claim<'a> {
    /// The build of a spec, without its settings.
    pub(crate) fn of(resolved: &'a Resolved, object: Option<&'a Path>) -> Self {
        let (family, version) = (&*resolved.family, resolved.spec.version.as_ref());
        Self { family, version, variants: &resolved.variants, object, settings: &[] }
    }
}

/// Why a library is not what the spec says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VerifyError(pub(crate) String);

impl Classified for VerifyError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl VerifyError {
    /// The probe did not answer as it should; with what it and the loader wrote.
    pub(crate) fn failed(how: &str, stderr: &str) -> Self {
        Self(format!("the probe process under it {how}{}", said(stderr)))
    }

    fn other_family(family: &Family, why: &str) -> Self {
        Self(format!("it is not {}: {why}", family.name))
    }

    fn other_variant(variant: &str, expected: &str, found: &str) -> Self {
        Self(format!(
            "it is not the `{variant}` build: expected `{expected}` among what the library says, found `{found}`"
        ))
    }

    fn not_in_force(name: &str, expected: &str, found: &str) -> Self {
        Self(format!("the setting `{name}` is {found} and not {expected} in the running library"))
    }
}

fn said(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !is_chatter(line)).take(6).collect();
    if lines.is_empty() { String::new() } else { format!("; it said:\n    {}", lines.join("\n    ")) }
}

/// Lines that mimalloc writes in verbose mode.
fn is_chatter(line: &str) -> bool {
    let line = line.strip_prefix("mimalloc: ").unwrap_or(line);
    line.trim().is_empty() || line.starts_with("option '") || line.contains(" level") || line.contains("numa")
}

/// Runs the probe under `application` and compares its answers with what is expected.
pub(crate) fn examine(
    probe_exe: &Path,
    application: &Application,
    claim: &Claim<'_>,
) -> Result<Verification, VerifyError> {
    let (answer, stderr) = ask(probe_exe, application, claim.family)?;
    let found = answer.malloc_from.clone().unwrap_or_else(|| PathBuf::from("(nothing)"));
    let in_force = match claim.object {
        Some(object) => same_file(&found, object),
        None => found.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so")),
    };
    if !in_force {
        let expected = claim.object.map_or("the C library".to_owned(), |path| path.display().to_string());
        return Err(VerifyError(format!(
            "`malloc` came from {} and not from {expected}{}",
            named_by(&found),
            said(&stderr)
        )));
    }
    let mut evidence = vec![format!("`malloc` of the probe is in {}", file_name(&found))];
    let version = check_version(&answer, claim, &found, &mut evidence)?;
    check_variants(&stderr, claim, &mut evidence)?;
    let mut options = answer.options;
    options.extend(mimalloc_options(&stderr, claim.family));
    if claim.family.version_call == VersionCall::GnuGetLibcVersion && !claim.settings.is_empty() {
        options.extend(tunables(application, claim.family));
    }
    check_settings(&stderr, &options, claim, &mut evidence)?;
    // What the library sizes by the processors of this machine is none of its own.
    let sized = claim.family.processors.as_ref().and_then(|sizing| sizing.setting.as_ref());
    options.retain(|name, _| Some(name) != sized || claim.settings.iter().any(|given| given.name == *name));
    Ok(Verification { version, malloc_from: found, evidence, options, unproved: Vec::new() })
}

/// An object, and whether every program of this host loads it.
fn named_by(object: &Path) -> String {
    let preloads = std::fs::read_to_string(HOST_PRELOADS).unwrap_or_default();
    let is_it = |word: &str| same_file(Path::new(word), object) || object.ends_with(word);
    match preloads.split_whitespace().any(is_it) {
        true => format!("{}, which {HOST_PRELOADS} names (take it out there)", object.display()),
        false => object.display().to_string(),
    }
}

const HOST_PRELOADS: &str = "/etc/ld.so.preload";

impl Verification {
    /// Adds what of `claim` no probe can show, and what it rests on: where the library came from.
    pub(crate) fn resting_on(mut self, claim: &Claim<'_>, provenance: &Provenance) -> Self {
        let mut shown = Vec::new();
        match claim.version {
            Some(version) if self.version.is_none() => {
                let rests_on = match provenance.origin {
                    Origin::Local { .. } => "the spec alone says so".to_owned(),
                    _ => format!("it is that of the {provenance}"),
                };
                let family = &claim.family.name;
                shown.push(format!("version {version}: {family} has no call for it; {rests_on}"));
            }
            None if self.version.is_none() => self.evidence.push(format!("content: {provenance}")),
            _ => {}
        }
        for variant in claim.variants.iter().filter(|variant| variant.says.is_none()) {
            let rests_on = match provenance.build {
                Some(_) => format!("it was compiled with {}", variant.flags.join(" ")),
                None => "the spec alone says so".to_owned(),
            };
            shown.push(format!("variant {}: the library does not report it; {rests_on}", variant.name));
        }
        self.unproved = shown;
        self
    }
}

fn check_version(
    answer: &ProbeAnswer,
    claim: &Claim<'_>,
    object: &Path,
    evidence: &mut Vec<String>,
) -> Result<Option<Version>, VerifyError> {
    let family = claim.family;
    match (family.version_call.function(), answer.versions.get(&family.version_call)) {
        (Some(call), Some(text)) => evidence.push(format!("{call} = {text}")),
        (Some(call), None) => return Err(VerifyError::other_family(family, &format!("it has no {call}"))),
        (None, _) => check_marks(family, object, evidence)?,
    }
    let version = answer.version(family.version_call);
    match (&version, claim.version) {
        (Some(found), Some(expected)) if !family.reports(expected, found) => {
            Err(VerifyError(format!("it is {} {found} and not {expected}, by its own answer", family.name)))
        }
        _ => Ok(version),
    }
}

/// Families without a version call are known by their functions and texts.
fn check_marks(family: &Family, object: &Path, evidence: &mut Vec<String>) -> Result<(), VerifyError> {
    let missing = |what: String| VerifyError::other_family(family, &what);
    let file = ElfFile::open(object).map_err(|error| missing(error.to_string()))?;
    let elf = Elf::parse(&file).map_err(|error| missing(error.to_string()))?;
    let constants = Constants::of(&elf);
    for name in &family.symbols {
        if elf.exported(name).is_none() {
            return Err(missing(format!("it does not define `{name}`")));
        }
        evidence.push(format!("it defines `{name}`"));
    }
    for text in &family.strings {
        if constants.find(text).is_none() {
            return Err(missing(format!("it does not hold the text `{text}`")));
        }
        evidence.push(format!("it holds the text `{}`", text.trim()));
    }
    evidence.push(format!("{} has no call for its version", family.name));
    Ok(())
}

fn check_variants(stderr: &str, claim: &Claim<'_>, evidence: &mut Vec<String>) -> Result<(), VerifyError> {
    for variant in claim.family.variants.iter() {
        let Some(says) = &variant.says else { continue };
        let asked = claim.variants.iter().any(|asked| asked.name == variant.name);
        let subject = says.rsplit_once(' ').map_or(says.as_str(), |(subject, _)| subject);
        let found = stderr.lines().find_map(|line| Some(line[line.find(subject)?..].trim().to_owned()));
        match (asked, &found) {
            (true, found) if found.as_deref() != Some(says.as_str()) => {
                let found = found.as_deref().unwrap_or("nothing");
                return Err(VerifyError::other_variant(&variant.name, says, found));
            }
            (false, Some(found)) if found == says => {
                return Err(VerifyError::other_variant("plain", "the plain build", found));
            }
            (_, Some(found)) => evidence.push(format!("the library says `{found}`")),
            (_, None) => {}
        }
    }
    Ok(())
}

fn check_settings(
    stderr: &str,
    options: &BTreeMap<String, String>,
    claim: &Claim<'_>,
    evidence: &mut Vec<String>,
) -> Result<(), VerifyError> {
    if claim.settings.is_empty() {
        return Ok(());
    }
    let complaint = ["Invalid conf", "invalid value", "unrecognized flag", "invalid flag"];
    if let Some(line) = stderr.lines().find(|line| complaint.iter().any(|text| line.contains(text))) {
        return Err(VerifyError(format!("the library refused a setting: {line}")));
    }
    for Setting { name, value } in claim.settings {
        match options.get(name) {
            Some(found) if same_value(found, value) => {
                evidence.push(format!("setting {name} = {found} is in force"))
            }
            Some(found) => return Err(VerifyError::not_in_force(name, value, found)),
            // It lists all but the one by which it is made to.
            None if claim.family.version_call == VersionCall::MiVersion && name != "verbose" => {
                return Err(VerifyError::not_in_force(name, value, "unknown"));
            }
            None => evidence
                .push(format!("setting {name} = {value} is in the environment; the library cannot be asked")),
        }
    }
    Ok(())
}

/// mimalloc in verbose mode prints every option with the value in force; these are the values as they are given.
fn mimalloc_options<'a>(stderr: &'a str, family: &'a Family) -> impl Iterator<Item = (String, String)> + 'a {
    stderr.lines().filter_map(|line| {
        let (_, rest) = line.split_once("option '")?;
        let (name, rest) = rest.split_once("':")?;
        let value = rest.split_ascii_whitespace().next()?;
        let value: i64 = value.parse().ok()?;
        let given = family.setting(name).map_or(value, |entry| entry.given(value));
        Some((name.to_owned(), given.to_string()))
    })
}

/// The dynamic loader lists the C library's tunables with the values in force.
fn tunables(application: &Application, family: &Family) -> BTreeMap<String, String> {
    let loader = match application.argv_prefix.first() {
        Some(loader) => PathBuf::from(loader),
        None => match host_loader() {
            Some(loader) => loader,
            None => return BTreeMap::new(),
        },
    };
    let mut command = Command::new(loader);
    command.arg("--list-tunables").envs(application.env.iter().map(|(name, value)| (name, value)));
    without_foreign_settings(&mut command, application, family);
    let Ok(output) = command.stdin(Stdio::null()).output() else { return BTreeMap::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    family
        .settings
        .iter()
        .filter_map(|setting| {
            let key = setting.key.clone().unwrap_or_else(|| format!("glibc.malloc.{}", setting.name));
            let line = text.lines().find_map(|line| line.strip_prefix(&key)?.strip_prefix(": "))?;
            Some((setting.name.clone(), line.split(' ').next()?.to_owned()))
        })
        .collect()
}

fn host_loader() -> Option<PathBuf> {
    let names = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    names.iter().map(PathBuf::from).find(|path| path.exists())
}

/// 209 is 2.0.9, 3208 is 3.2.8, 30302 is 3.3.2: two digits for the patch in 3.0.10 to 3.0.12 and 3.2.x, and for the minor too
/// since 1.9.8, 2.3.0 and 3.3.0.
pub(crate) fn mimalloc_version(number: i32) -> Version {
    let (major, minor, patch) = match number {
        10_000.. => (number / 10_000, number / 100 % 100, number % 100),
        1_000.. => (number / 1_000, number / 100 % 10, number % 100),
        _ => (number / 100, number / 10 % 10, number % 10),
    };
    Version::new(format!("{major}.{minor}.{patch}"))
}

/// jemalloc reports `5.3.0-171-g` and the commit: its release, and how many commits it is beyond that, which are none of the release's.
pub(crate) fn jemalloc_version(shown: &str) -> Version {
    let shown = shown.rsplit_once("-g").map_or(shown, |(version, _commit)| version);
    Version::new(shown.strip_suffix("-0").unwrap_or(shown))
}

/// The last part of a path: the whole one differs between the making of a cache entry and its use.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.evidence.join("; "))?;
        if self.unproved.is_empty() {
            Ok(())
        } else {
            write!(f, "; not proved: {}", self.unproved.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_numbers_are_read_as_the_libraries_mean_them() {
        for (number, version) in [
            (171, "1.7.1"),
            (209, "2.0.9"),
            (301, "3.0.1"),
            (3010, "3.0.10"),
            (3208, "3.2.8"),
            (10908, "1.9.8"),
            (20302, "2.3.2"),
            (30600, "3.6.0"),
        ] {
            assert_eq!(mimalloc_version(number).as_str(), version);
        }
        assert_eq!(jemalloc_version("5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c").as_str(), "5.3.0");
        assert_eq!(jemalloc_version("5.3.0-171-ge4817c8d89a2").as_str(), "5.3.0-171");
    }

    #[test]
    fn options_are_read_from_what_mimalloc_prints() {
        let stderr =
            "mimalloc: option 'purge_delay': 0 \nmimalloc: option 'arena_reserve': 1048576 KiB\nnoise\n";
        let family = crate::Catalog::builtin().family("mimalloc").unwrap();
        let options: BTreeMap<_, _> = mimalloc_options(stderr, family).collect();
        assert_eq!(options["purge_delay"], "0");
        assert_eq!(options["arena_reserve"], "1073741824");
        assert_eq!(said(stderr), "; it said:\n    noise");
    }
}
