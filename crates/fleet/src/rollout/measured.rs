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
    /// Environment variables that it sets.
    pub settings: BTreeMap<String, String>,
    /// torrc options that it sets.
    pub torrc: BTreeMap<String, String>,
    /// How often it restarts the service.
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

    /// What makes a treatment with the same library another one, and the words that say so.
    type Difference = (fn(&mut MeasuredTreatment), &'static str);

    const CHANGES: [Difference; 8] = [
        (
            |own| own.library = Some("fedcba98765432".into()),
            "the library is `fedcba987654`, and `0123456789ab`",
        ),
        (|own| own.library = None, "the library is `the C library`, and `0123456789ab` was measured"),
        (|own| drop(own.settings.insert("MIMALLOC_PURGE_DELAY".into(), "10".into())), "is `10`, and `0`"),
        (|own| own.settings.clear(), "MIMALLOC_PURGE_DELAY is not set, and `0` was measured"),
        (|own| drop(own.settings.insert("X".into(), "1".into())), "X is `1`, and was measured without it"),
        (|own| own.torrc.clear(), "torrc numcpus is not set, and `4` was measured"),
        (|own| own.restart_every = None, "the time between restarts is `never`, and `2d` was measured"),
        (|own| own.thp_mode = Some("always".into()), "transparent huge pages is `always`, and `madvise`"),
    ];

    #[test]
    fn every_part_of_a_treatment_is_compared() {
        assert_eq!(measured().differences(&measured()), Vec::<String>::new());
        for (change, words) in CHANGES {
            let mut wanted = measured();
            change(&mut wanted);
            let differences = wanted.differences(&measured());
            assert!(differences.len() == 1 && differences[0].contains(words), "{differences:?} {words}");
        }
    }

    #[test]
    fn what_is_unknown_and_how_an_option_is_written_make_no_difference() {
        let own = |version: Option<&str>| MeasuredTreatment {
            c_library: version.map(str::to_owned),
            ..MeasuredTreatment::default()
        };
        assert_eq!(own(Some("2.41")).differences(&own(Some("2.36"))).len(), 1);
        assert!(own(None).differences(&own(Some("2.36"))).is_empty());
        let torrc = MeasuredTreatment { torrc: map(&[("numcpus", "4 ")]), ..measured() };
        assert!(measured().differences(&torrc).is_empty());
    }
}
