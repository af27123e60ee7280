//! What a trial found of an arm, as a file that other hosts take for their rollouts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::{HostFacts, release};
use heaptrial_model::{Arm, Classified, ErrorClass, MappedLibrary, Metric, ServiceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::measured::Whole;
use crate::strata::{Kind, Stratum, strata_of};

const SCHEMA_VERSION: u32 = 1;
/// The member that holds the digest of all others.
const DIGEST: &str = "sha256";
/// A host's memory is that of the trial's where it is apart by at most this factor.
const SAME_MEMORY: f64 = 1.25;
/// Verdicts on growth that speak against an arm. That memory grows is no such: most allocators' does, and gates know how fast.
const BLOATS: [&str; 2] = ["bloating", "some_bloat"];

/// What a trial found of an arm: the treatment as it was proved, how memory goes with age under it, on which hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub schema_version: u32,
    /// Version of Heaptrial that wrote it.
    pub tool_version: String,
    pub written_at: String,
    pub trial: String,
    pub plan_id: String,
    pub arm: Arm,
    pub control: String,
    pub metric: Metric,
    /// How memory goes with age, by kind of service.
    pub kinds: Vec<Kind>,
    pub hosts: Vec<MeasuredHost>,
    /// What was found of its memory.
    pub ratio: Option<MeasuredRatio>,
    /// The verdict on its growth, in the words of a report; `None` where there is none.
    pub verdict: Option<String>,
    /// Grave findings about the arm, the control or the whole trial, in sentences.
    pub findings: Vec<String>,
    /// Those of them that its figures bear, since they are without the services that they are about.
    pub borne: Vec<String>,
}

/// A host of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredHost {
    /// As the plan calls it.
    pub name: String,
    /// Operating system and its release.
    pub system: String,
    pub architecture: String,
    pub processors: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The treatment as it was proved in running processes there, each once.
    pub proved: Vec<Whole>,
    /// The shared libraries that the arm's services mapped there.
    pub libraries: Vec<MappedLibrary>,
}

/// A host that a rollout or a watch is for.
#[derive(Debug, Clone)]
pub struct HostNow {
    /// What bears on memory there.
    pub facts: HostFacts,
    /// What its services map now.
    pub libraries: Vec<MappedLibrary>,
}

/// Memory of an arm over that of the control, at a matched age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRatio {
    pub value: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// At which age, in seconds.
    pub age_seconds: f64,
    /// Services of the arm that were compared.
    pub services: u32,
}

/// Why a file is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum VerdictError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} is no verdict of a trial ({why}); `heaptrial trial verdict` writes one")]
    Other { path: PathBuf, why: String },
    /// Its content is not what was written.
    #[error(
        "{path} was changed after it was written: its content has the digest {found}, and it says {told}. Take it anew from where \
         it was written"
    )]
    Changed {
        path: PathBuf,
        /// The digest of what is there.
        found: String,
        /// The digest that it names.
        told: String,
    },
    /// It is another one than was wanted.
    #[error("{path} has the digest {found}, and {wanted} is wanted")]
    Another {
        path: PathBuf,
        found: String,
        /// The one that was given.
        wanted: String,
    },
}

impl Classified for VerdictError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl Verdict {
    /// The version that is written now.
    pub const VERSION: u32 = SCHEMA_VERSION;

    /// The file's text, with the digest of the rest, and that digest.
    pub fn sealed(&self) -> Result<(String, String), serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        let digest = digest(&value)?;
        value[DIGEST] = Value::from(digest.clone());
        Ok((serde_json::to_string_pretty(&value)? + "\n", digest))
    }

    /// Reads a file whose content is as it was written, and gives its digest. `wanted` is the digest that somebody was told
    /// by another way than the file: the file's own only shows that nothing was changed by mistake.
    pub fn read(path: &Path, wanted: Option<&str>) -> Result<(Self, String), VerdictError> {
        let text = fs::read_to_string(path)
            .map_err(|source| VerdictError::File { path: path.to_owned(), source })?;
        let other = |why: String| VerdictError::Other { path: path.to_owned(), why };
        let mut value: Value = serde_json::from_str(&text).map_err(|error| other(error.to_string()))?;
        let told = value.as_object_mut().and_then(|members| members.remove(DIGEST));
        let Some(Value::String(told)) = told else { return Err(other("it has no digest".into())) };
        let found = digest(&value).map_err(|error| other(error.to_string()))?;
        if found != told {
            return Err(VerdictError::Changed { path: path.to_owned(), found, told });
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(VerdictError::Another { path: path.to_owned(), found, wanted: wanted.to_owned() });
        }
        let version = value["schema_version"].as_u64().unwrap_or_default();
        if version != u64::from(SCHEMA_VERSION) {
            return Err(other(format!("its format is {version}, and this program knows {SCHEMA_VERSION}")));
        }
        let verdict = serde_json::from_value(value).map_err(|error| other(error.to_string()))?;
        Ok((verdict, found))
    }

    /// What speaks against rolling it out, in words.
    pub fn against(&self) -> Vec<String> {
        against((&self.trial, &self.arm.name), self.verdict.as_deref(), &self.findings)
    }

    /// What a rollout is warned of, in words.
    pub fn warnings(&self) -> Vec<String> {
        warnings(&self.trial, &self.borne)
    }

    /// In what a host is unlike all hosts of the trial, in words: the differences to the nearest of them.
    pub fn differences(&self, host: &HostNow) -> Vec<String> {
        self.nearest(host).into_iter().next().map(|(_, differences)| differences).unwrap_or_default()
    }

    /// The treatment as it was proved on the hosts of the trial that a host is most like, each once.
    pub fn proved_like(&self, host: &HostNow) -> Vec<&Whole> {
        let mut proved: Vec<&Whole> = Vec::new();
        for (measured, _) in self.nearest(host) {
            for whole in &measured.proved {
                if !proved.contains(&whole) {
                    proved.push(whole);
                }
            }
        }
        proved
    }

    /// The hosts of the trial from which a host differs in the fewest traits, with the differences.
    fn nearest(&self, host: &HostNow) -> Vec<(&MeasuredHost, Vec<String>)> {
        let mut told: Vec<_> =
            self.hosts.iter().map(|measured| (measured, self.unlike(host, measured))).collect();
        let fewest = told.iter().map(|(_, differences)| differences.len()).min();
        told.retain(|(_, differences)| Some(differences.len()) == fewest);
        told
    }

    fn unlike(&self, HostNow { facts, libraries }: &HostNow, measured: &MeasuredHost) -> Vec<String> {
        let mut told = Vec::new();
        let mut unlike = |what: &str, own: String, other: String| {
            if own != other {
                told.push(format!("{what}: {own} here, {other} in the trial"));
            }
        };
        unlike("system", release(&facts.os), release(&measured.system));
        unlike("architecture", facts.architecture.clone(), measured.architecture.clone());
        unlike("processors", facts.cpu_count.to_string(), measured.processors.to_string());
        let factor = facts.ram_bytes.max(1) as f64 / measured.memory_bytes.max(1) as f64;
        if !(1.0 / SAME_MEMORY..=SAME_MEMORY).contains(&factor) {
            let memory = |bytes: u64| heaptrial_model::units::memory(bytes as f64);
            unlike("memory", memory(facts.ram_bytes), memory(measured.memory_bytes));
        }
        told.extend(other_libraries(libraries, &measured.libraries));
        told
    }

    /// The strata of a rollout's services on a host, with the forecast of the arm in each.
    pub fn strata(
        &self,
        host: &str,
        services: &[ServiceName],
        is_relay: &dyn Fn(&str) -> bool,
    ) -> Vec<Stratum> {
        strata_of(&self.kinds, &self.arm.name, Some(host), services, is_relay)
    }
}

/// Libraries of which the trial saw other builds alone. Those that nothing of it mapped may be another allocator's, or loaded by chance.
fn other_libraries(libraries: &[MappedLibrary], of_trial: &[MappedLibrary]) -> Option<String> {
    // `libssl.so.1.1` and `libssl.so.3` are one library.
    let stem = |library: &MappedLibrary| library.name.split(".so").next().map(str::to_owned);
    let is_other = |own: &&MappedLibrary| {
        let same = |library: &MappedLibrary| library.name == own.name && library.build() == own.build();
        of_trial.iter().any(|library| stem(library) == stem(own)) && !of_trial.iter().any(same)
    };
    let other = libraries.iter().filter(is_other).map(|own| format!("{} {}", own.name, own.build()));
    let other = other.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    (!other.is_empty()).then(|| format!("libraries in other builds than in the trial: {other}"))
}

/// What speaks against rolling out an arm of a trial, in words: the verdict on its growth, and grave findings that bear on it.
pub fn against((trial, arm): (&str, &str), verdict: Option<&str>, findings: &[String]) -> Vec<String> {
    let bloats = verdict.filter(|word| BLOATS.contains(word));
    let bloats = bloats.map(|word| format!("trial `{trial}` found {arm} {word}"));
    let findings = findings.iter().map(|finding| format!("grave finding of trial `{trial}`: {finding}"));
    bloats.into_iter().chain(findings).collect()
}

/// What a rollout of an arm is warned of, in words.
pub fn warnings(trial: &str, borne: &[String]) -> Vec<String> {
    borne.iter().map(|finding| format!("trial `{trial}`: {finding}; its figures are without them")).collect()
}

/// SHA-256 of a value whose members are in the order of their names, as `serde_json` keeps them.
fn digest(value: &Value) -> Result<String, serde_json::Error> {
    let bytes = serde_json::to_vec(value)?;
    Ok(hex::encode(Sha256::digest(&bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host() -> HostFacts {
        let facts = serde_json::json!({
            "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1", "architecture": "x86_64", "cpu_count": 64,
            "ram_bytes": 768_u64 << 30, "thp_mode": "madvise", "cgroup_version": "v2", "boot_id": "b",
            "cpu_model": null, "overcommit_memory": null,
        });
        serde_json::from_value(facts).unwrap()
    }

    fn library(name: &str, version: &str) -> MappedLibrary {
        MappedLibrary {
            name: name.into(),
            path: format!("/usr/lib/{name}").into(),
            package: Some(name.into()),
            version: Some(version.into()),
            build_id: None,
        }
    }

    fn verdict() -> Verdict {
        let measured = |processors| MeasuredHost {
            name: "alpha".into(),
            system: host().os,
            architecture: "x86_64".into(),
            processors,
            memory_bytes: 768 << 30,
            proved: vec![Whole { library: Some("ab".into()), ..Whole::default() }],
            libraries: vec![library("libzstd.so.1", "1.5.4"), library("libc.so.6", "2.36")],
        };
        Verdict {
            schema_version: SCHEMA_VERSION,
            tool_version: "0.1.0".into(),
            written_at: "2026-11-23T12:00:00Z".into(),
            trial: "five-way".into(),
            plan_id: "0123".into(),
            arm: Arm {
                name: "mimalloc@2.0.9".into(),
                control: false,
                treatment: serde_json::from_value(serde_json::json!({ "allocator": "mimalloc@2.0.9" }))
                    .unwrap(),
            },
            control: "glibc".into(),
            metric: Metric::Rss,
            kinds: Vec::new(),
            hosts: vec![measured(32), measured(64)],
            ratio: Some(MeasuredRatio {
                value: 0.21,
                low: Some(0.1 + 0.1),
                high: Some(0.22),
                age_seconds: 1.0 / 3.0,
                services: 40,
            }),
            verdict: Some("stable".into()),
            findings: Vec::new(),
            borne: Vec::new(),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verdict.json");
        let (text, digest) = verdict().sealed().unwrap();
        fs::write(&path, &text).unwrap();
        assert_eq!(Verdict::read(&path, Some(&digest)).unwrap(), (verdict(), digest.clone()));
        let error = Verdict::read(&path, Some("00")).unwrap_err().to_string();
        assert!(error.contains("00 is wanted"), "{error}");
        // Written with other spaces it is the same.
        fs::write(&path, text.replace("  ", "\t")).unwrap();
        assert_eq!(Verdict::read(&path, None).unwrap().1, digest);
        for (text, why) in [("{}", "no digest"), ("[]", "no digest"), ("x", "expected value"), ("", "EOF")] {
            fs::write(&path, text).unwrap();
            let error = Verdict::read(&path, None).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        /// Whatever is changed in a file, it is no more taken for the verdict that it was.
        #[test]
        fn a_changed_file_is_refused(at in any::<prop::sample::Index>(), with in b' '..b'~') {
            let (text, _) = verdict().sealed().unwrap();
            let mut bytes = text.clone().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != with);
            bytes[at] = with;
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("verdict.json");
            fs::write(&path, &bytes).unwrap();
            if let Ok((read, _)) = Verdict::read(&path, None) {
                // A space in place of a line end.
                prop_assert_eq!(read, verdict());
            }
        }
    }

    #[test]
    fn bloat_and_grave_findings_speak_against_it_and_growth_does_not() {
        for word in ["stable", "growing", "inconclusive"] {
            assert!(Verdict { verdict: Some(word.into()), ..verdict() }.against().is_empty(), "{word}");
        }
        assert!(Verdict { verdict: None, ..verdict() }.against().is_empty());
        for word in ["bloating", "some_bloat"] {
            let against = Verdict { verdict: Some(word.into()), ..verdict() }.against();
            assert_eq!(against, [format!("trial `five-way` found mimalloc@2.0.9 {word}")]);
        }
        let found = Verdict { findings: vec!["3 of 9 services crash".into()], ..verdict() }.against();
        assert_eq!(found, ["grave finding of trial `five-way`: 3 of 9 services crash"]);
        let borne = Verdict { borne: vec!["1 of its 9 services ran another".into()], ..verdict() };
        assert!(borne.against().is_empty());
        assert_eq!(
            borne.warnings(),
            ["trial `five-way`: 1 of its 9 services ran another; its figures are without them"]
        );
    }

    #[test]
    fn a_file_of_a_newer_version_is_refused_in_one_sentence() {
        let (text, _) = Verdict { schema_version: 2, ..verdict() }.sealed().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verdict.json");
        fs::write(&path, text).unwrap();
        let error = Verdict::read(&path, None).unwrap_err().to_string();
        assert!(error.contains("its format is 2, and this program knows 1"), "{error}");
    }

    proptest! {
        #[test]
        fn numbers_come_back_as_they_were(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            let mut verdict = verdict();
            verdict.ratio.as_mut().unwrap().value = value;
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("verdict.json");
            fs::write(&path, verdict.sealed().unwrap().0).unwrap();
            prop_assert_eq!(Verdict::read(&path, None).unwrap().0, verdict);
        }
    }

    fn differences(verdict: &Verdict, facts: &HostFacts, libraries: &[MappedLibrary]) -> Vec<String> {
        verdict.differences(&HostNow { facts: facts.clone(), libraries: libraries.to_vec() })
    }

    #[test]
    fn a_host_is_compared_with_the_nearest_one_of_the_trial() {
        let same = [library("libzstd.so.1", "1.5.4"), library("libm.so.6", "2.36")];
        assert!(differences(&verdict(), &host(), &same).is_empty());
        let other = HostFacts { os: "Debian GNU/Linux 13 (trixie)".into(), cpu_count: 32, ..host() };
        let told = differences(&verdict(), &other, &[library("libzstd.so.1", "1.5.7")]);
        assert_eq!(
            told,
            [
                "system: Debian GNU/Linux 13 (trixie) here, Debian GNU/Linux 12 (bookworm) in the trial",
                "libraries in other builds than in the trial: libzstd.so.1 1.5.7"
            ]
        );
        let small = HostFacts { ram_bytes: 64 << 30, cpu_count: 8, ..host() };
        let told = differences(&verdict(), &small, &[library("libc.so.7", "3.0")]);
        assert_eq!(
            told,
            [
                "processors: 8 here, 32 in the trial",
                "memory: 64.0 GiB here, 768 GiB in the trial",
                "libraries in other builds than in the trial: libc.so.7 3.0"
            ]
        );
    }

    /// What two hosts of a trial ran makes no third one that has one trait of each.
    #[test]
    fn a_host_is_like_one_host_of_the_trial_as_a_whole() {
        let build = |digest: &str| Whole { library: Some(digest.into()), ..Whole::default() };
        let mut verdict = verdict();
        let [alpha, beta] = &mut verdict.hosts[..] else { panic!("two hosts") };
        (alpha.processors, alpha.proved) = (64, vec![build("a")]);
        alpha.libraries = vec![library("libzstd.so.1", "1.5.4")];
        (beta.processors, beta.proved) = (8, vec![build("b")]);
        beta.libraries = vec![library("libzstd.so.1", "1.5.7")];
        let (one, other) = (library("libzstd.so.1", "1.5.4"), library("libzstd.so.1", "1.5.7"));
        let now = HostNow { facts: host(), libraries: vec![one] };
        assert!(verdict.differences(&now).is_empty());
        assert_eq!(verdict.proved_like(&now), [&build("a")]);
        let now = HostNow { facts: host(), libraries: vec![other] };
        assert_eq!(
            verdict.differences(&now),
            ["libraries in other builds than in the trial: libzstd.so.1 1.5.7"]
        );
        // As far from the one as from the other.
        assert_eq!(verdict.proved_like(&now), [&build("a"), &build("b")]);
    }
}
