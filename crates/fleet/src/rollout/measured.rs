//! A treatment as it was measured: the library alone says little of it.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_change::PRELOAD;
use heaptrial_model::HumanDuration;
use serde::{Deserialize, Serialize};

/// A digest as long as folders of builds show it.
const SHORT: usize = 12;

/// Everything of a treatment that bears on memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredTreatment {
    /// SHA-256 of the preloaded library in hexadecimal; `None` for the service's own C library.
    pub library: Option<String>,
    /// Version of that C library; `None` is not compared.
    pub c_library: Option<String>,
    pub settings: BTreeMap<String, String>,
    pub torrc: BTreeMap<String, String>,
    pub restart_every: Option<HumanDuration>,
    /// The host's mode of transparent huge pages; `None` is not compared.
    pub thp_mode: Option<String>,
}

impl MeasuredTreatment {
    /// Where it differs from what was measured, in words.
    pub fn differences(&self, measured: &Self) -> Vec<String> {
        let (own, other) = (self.traits(measured), measured.traits(self));
        let names: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
        let difference = |name: &&String| match (own.get(*name), other.get(*name)) {
            (Some(own), Some(other)) if own == other => None,
            (Some(own), Some(other)) => Some(format!("{name} is `{own}`, and `{other}` was measured")),
            (Some(own), None) => Some(format!("{name} is `{own}`, and was measured without it")),
            (None, other) => {
                Some(format!("{name} is not set, and `{}` was measured", other.map_or("", String::as_str)))
            }
        };
        names.iter().filter_map(difference).collect()
    }

    /// What is compared, by name; of what `other` does not know nothing.
    fn traits(&self, other: &Self) -> BTreeMap<String, String> {
        // Tor takes names of options in any case.
        let torrc = self.torrc.iter();
        let torrc = torrc.map(|(name, value)| (format!("torrc {}", name.to_ascii_lowercase()), value.trim()));
        let mut traits: BTreeMap<String, String> = self.settings.clone();
        traits.extend(torrc.map(|(name, value)| (name, value.to_owned())));
        let library = self.library.as_deref().map(|sha256| sha256.get(..SHORT).unwrap_or(sha256));
        traits.insert("the library".to_owned(), library.unwrap_or("the C library").to_owned());
        let restart_every = self.restart_every.map_or("never".to_owned(), |every| every.to_string());
        traits.insert("the time between restarts".to_owned(), restart_every);
        let known = [
            ("the version of the C library", &self.c_library, &other.c_library),
            ("the mode of transparent huge pages", &self.thp_mode, &other.thp_mode),
        ];
        for (name, own, other) in known {
            if let (Some(own), Some(_)) = (own, other) {
                traits.insert(name.to_owned(), own.clone());
            }
        }
        traits
    }
}

/// Variables other than the one that names the library, which is compared by its bytes and not by where it lies.
pub fn settings_of(environment: &[(String, String)]) -> BTreeMap<String, String> {
    environment.iter().filter(|(name, _)| name != PRELOAD).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn measured() -> MeasuredTreatment {
        MeasuredTreatment {
            library: Some("0123456789abcdef".into()),
            c_library: None,
            settings: map(&[("MIMALLOC_PURGE_DELAY", "0")]),
            torrc: map(&[("NumCPUs", "4")]),
            restart_every: Some("48h".parse().unwrap()),
            thp_mode: Some("madvise".into()),
        }
    }

    #[test]
    fn every_part_of_a_treatment_is_compared() {
        assert_eq!(measured().differences(&measured()), Vec::<String>::new());
        let other = MeasuredTreatment { settings: map(&[("X", "1")]), ..MeasuredTreatment::default() };
        let expected = [
            "MIMALLOC_PURGE_DELAY is not set, and `0` was measured",
            "X is `1`, and was measured without it",
            "the library is `the C library`, and `0123456789ab` was measured",
            "the time between restarts is `never`, and `2d` was measured",
            "torrc numcpus is not set, and `4` was measured",
        ];
        assert_eq!(other.differences(&measured()), expected);
        let always = MeasuredTreatment { thp_mode: Some("always".into()), ..measured() };
        assert!(always.differences(&measured())[0].contains("`always`, and `madvise` was measured"));
        // Tor takes names of options in any case.
        let torrc = MeasuredTreatment { torrc: map(&[("numcpus", "4 ")]), ..measured() };
        assert!(measured().differences(&torrc).is_empty());
    }
}
