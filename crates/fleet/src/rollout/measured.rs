//! A treatment as a whole: the library alone says little of it.

use std::collections::BTreeMap;

use heaptrial_change::PRELOAD;
use heaptrial_model::HumanDuration;
use serde::{Deserialize, Serialize};

/// Everything of a treatment that bears on memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
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

impl Whole {
    /// Where it differs from what was measured, in words.
    pub fn differences(&self, measured: &Self) -> Vec<String> {
        let mut told = Vec::new();
        match (&self.library, &measured.library) {
            (Some(own), Some(other)) if own != other => {
                told.push(format!("the library is {}, and {} was measured", short(own), short(other)));
            }
            (Some(own), None) => {
                told.push(format!("the library is {}, and the C library alone was measured", short(own)));
            }
            (None, Some(other)) => {
                told.push(format!("the C library alone, and the library {} was measured", short(other)));
            }
            _ => {}
        }
        if let (Some(own), Some(other)) = (&self.c_library, &measured.c_library) {
            if own != other {
                told.push(format!("the C library is {own}, and {other} was measured"));
            }
        }
        unlike("", &self.settings, &measured.settings, &mut told);
        unlike("torrc: ", &lower(&self.torrc), &lower(&measured.torrc), &mut told);
        if self.restart_every != measured.restart_every {
            let every = |every: Option<HumanDuration>| {
                every.map_or("no restarts".to_owned(), |every| format!("a restart every {every}"))
            };
            let (own, other) = (every(self.restart_every), every(measured.restart_every));
            told.push(format!("{own}, and {other} was measured"));
        }
        if let (Some(own), Some(other)) = (&self.thp_mode, &measured.thp_mode) {
            if own != other {
                told.push(format!(
                    "transparent huge pages are `{own}` on this host now, and were `{other}` in the trial"
                ));
            }
        }
        told
    }
}

/// Variables other than the one that names the library, which is compared by its bytes and not by where it lies.
pub fn settings_of(environment: &[(String, String)]) -> BTreeMap<String, String> {
    environment.iter().filter(|(name, _)| name != PRELOAD).cloned().collect()
}

fn unlike(
    of: &str,
    own: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
    told: &mut Vec<String>,
) {
    for (name, value) in own {
        match other.get(name) {
            Some(measured) if measured == value => {}
            Some(measured) => told.push(format!("{of}{name} is `{value}`, and `{measured}` was measured")),
            None => told.push(format!("{of}{name} is `{value}`, and was measured without it")),
        }
    }
    for (name, value) in other.iter().filter(|(name, _)| !own.contains_key(*name)) {
        told.push(format!("{of}{name} is not set, and `{value}` was measured"));
    }
}

/// Tor takes names of options in any case.
fn lower(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect()
}

/// A digest as long as folders of builds show it.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn whole() -> Whole {
        Whole {
            library: Some("0123456789abcdef".into()),
            settings: map(&[("MIMALLOC_PURGE_DELAY", "0")]),
            torrc: map(&[("NumCPUs", "4")]),
            restart_every: Some("48h".parse().unwrap()),
            thp_mode: Some("madvise".into()),
            ..Whole::default()
        }
    }

    /// What makes a treatment another one, and the words that tell it.
    type Difference = (fn(&mut Whole), &'static str);

    /// Each way in which a treatment with the same library can be another one, and the word that tells it.
    const CHANGES: [Difference; 10] = [
        (|whole| whole.library = Some("fedcba98765432".into()), "the library is fedcba987654"),
        (|whole| whole.library = None, "the C library alone, and the library 0123456789ab"),
        (|whole| drop(whole.settings.insert("MIMALLOC_PURGE_DELAY".into(), "10".into())), "is `10`, and `0`"),
        (|whole| whole.settings.clear(), "MIMALLOC_PURGE_DELAY is not set, and `0` was measured"),
        (
            |whole| drop(whole.settings.insert("MIMALLOC_ALLOW_LARGE_OS_PAGES".into(), "1".into())),
            "MIMALLOC_ALLOW_LARGE_OS_PAGES is `1`, and was measured without it",
        ),
        (|whole| drop(whole.torrc.insert("DirCache".into(), "0".into())), "torrc: dircache is `0`"),
        (|whole| whole.torrc.clear(), "torrc: numcpus is not set, and `4` was measured"),
        (|whole| whole.restart_every = None, "no restarts, and a restart every 2d was measured"),
        (|whole| whole.restart_every = Some("24h".parse().unwrap()), "a restart every 1d"),
        (|whole| whole.thp_mode = Some("always".into()), "transparent huge pages are `always`"),
    ];

    #[test]
    fn every_part_of_a_treatment_is_compared() {
        assert_eq!(whole().differences(&whole()), Vec::<String>::new());
        for (change, words) in CHANGES {
            let mut wanted = whole();
            change(&mut wanted);
            let differences = wanted.differences(&whole());
            assert!(differences.len() == 1 && differences[0].contains(words), "{differences:?} {words}");
        }
    }

    #[test]
    fn another_c_library_is_another_treatment_and_an_unknown_one_is_not() {
        let own = |version: Option<&str>| Whole {
            c_library: version.map(str::to_owned),
            settings: map(&[("MALLOC_ARENA_MAX", "1")]),
            ..Whole::default()
        };
        assert_eq!(
            own(Some("2.41")).differences(&own(Some("2.36"))),
            ["the C library is 2.41, and 2.36 was measured"]
        );
        assert!(own(Some("2.36")).differences(&own(Some("2.36"))).is_empty());
        assert!(own(None).differences(&own(Some("2.36"))).is_empty());
    }

    #[test]
    fn names_of_tor_s_options_are_taken_in_any_case() {
        let other = Whole { torrc: map(&[("numcpus", "4 ")]), ..whole() };
        assert!(whole().differences(&other).is_empty());
    }
}
