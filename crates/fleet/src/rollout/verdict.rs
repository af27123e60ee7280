//! What a trial found of an arm, as a file that other hosts take for their rollouts.

use std::fs;
use std::path::Path;

use heaptrial_host::{HostFacts, release};
use heaptrial_model::{AllocatorSpec, Arm, Metric, Pace, Treatment};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::rollout::Refused;
use crate::rollout::expected::Kind;
use crate::rollout::measured::MeasuredTreatment;

const SCHEMA_VERSION: u32 = 1;
/// The member that holds the digest of all others.
const DIGEST: &str = "sha256";
/// A host's memory is that of the trial's where it is apart by at most this factor.
const SAME_MEMORY: f64 = 1.25;

/// What a trial found of an arm: the treatment as it was proved, how memory goes with age under it, on which hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub schema_version: u32,
    pub tool_version: String,
    pub written_at: String,
    /// The trial; `None` of an allocator that nobody measured.
    pub trial: Option<String>,
    pub arm: Arm,
    pub control: String,
    /// What the control ran: as its treatment names it, else as it was proved.
    pub control_allocator: Option<AllocatorSpec>,
    pub metric: Metric,
    pub pace: Pace,
    pub kinds: Vec<Kind>,
    pub hosts: Vec<MeasuredHost>,
    pub ratio: Option<MeasuredRatio>,
    /// The verdict on its growth, in the words of a report; `None` where there is none.
    pub verdict: Option<String>,
    /// What the analysis found that blocks a recommendation of it, in sentences.
    pub objections: Vec<String>,
    /// What is uncertain about it, in sentences.
    pub caveats: Vec<String>,
}

/// A host of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredHost {
    pub name: String,
    pub system: String,
    pub architecture: String,
    pub processors: u32,
    pub memory_bytes: u64,
    /// The treatment as it was proved in running processes there, each once.
    pub proved: Vec<MeasuredTreatment>,
}

/// Memory of an arm over that of the control, at a matched age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRatio {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub age_seconds: f64,
    pub services: u32,
}

impl Verdict {
    /// The file's text, with the digest of the rest, and that digest.
    pub fn sealed(&self) -> Result<(String, String), serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        let digest = digest(&value)?;
        value[DIGEST] = Value::from(digest.clone());
        Ok((serde_json::to_string_pretty(&value)? + "\n", digest))
    }

    /// Reads a file whose content is as it was written, and gives its digest, which shows that nothing was changed by mistake.
    pub fn read(path: &Path) -> Result<(Self, String), Refused> {
        let other = |why: String| {
            let path = path.display();
            Refused(format!(
                "{path} is not a verdict of a trial ({why}); `heaptrial trial verdict` writes one"
            ))
        };
        let text = fs::read_to_string(path).map_err(|error| other(error.to_string()))?;
        let mut value: Value = serde_json::from_str(&text).map_err(|error| other(error.to_string()))?;
        let named = value.as_object_mut().and_then(|members| members.remove(DIGEST));
        let Some(Value::String(named)) = named else { return Err(other("it has no digest".into())) };
        let found = digest(&value).map_err(|error| other(error.to_string()))?;
        if found != named {
            let why = "it was changed after it was written: copy it again from where it was written";
            return Err(other(why.to_owned()));
        }
        let version = value["schema_version"].as_u64().unwrap_or_default();
        if version != u64::from(SCHEMA_VERSION) {
            return Err(other(format!("its format is {version}, and this program knows {SCHEMA_VERSION}")));
        }
        let verdict = serde_json::from_value(value).map_err(|error| other(error.to_string()))?;
        Ok((verdict, found))
    }

    /// Of an allocator that no trial measured.
    pub fn of_spec(spec: &AllocatorSpec) -> Self {
        let treatment = Treatment { allocator: Some(spec.clone()), ..Treatment::default() };
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            written_at: String::new(),
            trial: None,
            arm: Arm { name: spec.to_string(), control: true, treatment },
            control: String::new(),
            control_allocator: None,
            metric: Metric::Rss,
            pace: Pace::default(),
            kinds: Vec::new(),
            hosts: Vec::new(),
            ratio: None,
            verdict: None,
            objections: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// What speaks against rolling out `wanted` on a host, in sentences: what its trial found, another treatment than was measured, and
    /// a host unlike all of its hosts.
    pub fn refusals(&self, host: &HostFacts, wanted: &MeasuredTreatment) -> Vec<String> {
        let Some(trial) = &self.trial else {
            return vec![format!("no trial measured {}", self.arm.name)];
        };
        let mut objections = self.objections.clone();
        // What two hosts of the trial ran makes no third one that has one trait of each.
        let nearest =
            self.hosts.iter().map(|measured| objections_by(measured, host, wanted)).min_by_key(Vec::len);
        match nearest {
            Some(nearest) => objections.extend(nearest),
            None => objections.push(format!("trial `{trial}` proved {} in no process", self.arm.name)),
        }
        objections
    }
}

/// In what a treatment and a host are unlike those of one host of the trial.
fn objections_by(measured: &MeasuredHost, host: &HostFacts, wanted: &MeasuredTreatment) -> Vec<String> {
    let treatments = measured.proved.iter().map(|proved| wanted.differences(proved));
    let treatment = treatments.min_by_key(Vec::len).unwrap_or_default();
    let treatment =
        treatment.into_iter().map(|one| format!("this is not the treatment that was measured: {one}"));
    let host = unlike(host, measured)
        .into_iter()
        .map(|one| format!("this host is unlike those of the trial: {one}"));
    treatment.chain(host).collect()
}

/// In what a host is unlike one of the trial.
fn unlike(host: &HostFacts, measured: &MeasuredHost) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, own: String, other: String| {
        if own != other {
            found.push(format!("{what}: {own} here, {other} in the trial"));
        }
    };
    differs("system", release(&host.os), release(&measured.system));
    differs("architecture", host.architecture.clone(), measured.architecture.clone());
    differs("processors", host.cpu_count.to_string(), measured.processors.to_string());
    let factor = host.ram_bytes.max(1) as f64 / measured.memory_bytes.max(1) as f64;
    if !(1.0 / SAME_MEMORY..=SAME_MEMORY).contains(&factor) {
        let memory = |bytes: u64| heaptrial_model::units::memory(bytes as f64);
        differs("memory", memory(host.ram_bytes), memory(measured.memory_bytes));
    }
    found
}

/// SHA-256 of a value whose members are in the order of their names, as `serde_json` keeps them.
fn digest(value: &Value) -> Result<String, serde_json::Error> {
    let bytes = serde_json::to_vec(value)?;
    Ok(hex::encode(Sha256::digest(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostFacts {
        let facts = serde_json::json!({
            "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1", "architecture": "x86_64", "cpu_count": 64,
            "ram_bytes": 768_u64 << 30, "thp_mode": "madvise", "cgroup_version": "v2", "boot_id": "b",
            "cpu_model": null, "overcommit_memory": null,
        });
        serde_json::from_value(facts).unwrap()
    }

    fn verdict() -> Verdict {
        let measured = |processors| MeasuredHost {
            name: "alpha".into(),
            system: host().os,
            architecture: "x86_64".into(),
            processors,
            memory_bytes: 768 << 30,
            proved: vec![MeasuredTreatment { library: Some("ab".into()), ..MeasuredTreatment::default() }],
        };
        Verdict {
            trial: Some("five-way".into()),
            hosts: vec![measured(32), measured(64)],
            ratio: Some(MeasuredRatio {
                value: 0.21,
                low: Some(0.1 + 0.1),
                high: Some(0.22),
                age_seconds: 1.0 / 3.0,
                services: 40,
            }),
            ..Verdict::of_spec(&"mimalloc@2.0.9".parse().unwrap())
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verdict.json");
        let (text, digest) = verdict().sealed().unwrap();
        fs::write(&path, &text).unwrap();
        assert_eq!(Verdict::read(&path).unwrap(), (verdict(), digest.clone()));
        // Written with other spaces it is the same.
        fs::write(&path, text.replace("  ", "\t")).unwrap();
        assert_eq!(Verdict::read(&path).unwrap().1, digest);
        let changed = text.replace("five-way", "other");
        let newer = Verdict { schema_version: 2, ..verdict() }.sealed().unwrap().0;
        for (text, why) in [
            ("[]", "no digest"),
            ("x", "expected value"),
            (&changed, "changed after it was written"),
            (&newer, "its format is 2"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Verdict::read(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_host_and_its_treatment_are_compared_with_one_host_of_the_trial_as_a_whole() {
        let build =
            |digest: &str| MeasuredTreatment { library: Some(digest.into()), ..MeasuredTreatment::default() };
        let mut verdict = verdict();
        let [alpha, beta] = &mut verdict.hosts[..] else { panic!("two hosts") };
        (alpha.processors, alpha.proved) = (64, vec![build("a")]);
        (beta.processors, beta.proved) = (8, vec![build("b")]);
        assert_eq!(verdict.refusals(&host(), &build("a")), Vec::<String>::new());
        let small = HostFacts { cpu_count: 8, ..host() };
        assert_eq!(verdict.refusals(&small, &build("b")), Vec::<String>::new());
        assert_eq!(verdict.refusals(&small, &build("a")).len(), 1);
        verdict.objections = vec!["it is bloating".into()];
        let refusals =
            verdict.refusals(&HostFacts { ram_bytes: 64 << 30, cpu_count: 9, ..host() }, &build("a"));
        assert_eq!(
            refusals,
            [
                "it is bloating",
                "this host is unlike those of the trial: processors: 9 here, 64 in the trial",
                "this host is unlike those of the trial: memory: 64.0 GiB here, 768 GiB in the trial",
            ]
        );
        verdict.hosts.clear();
        assert_eq!(verdict.refusals(&host(), &build("a")).len(), 2);
        assert_eq!(Verdict::of_spec(&"jemalloc".parse().unwrap()).refusals(&host(), &build("a")).len(), 1);
    }
}
