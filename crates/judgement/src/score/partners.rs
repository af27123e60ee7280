//! Which arm of a lab is which arm of a trial in the field.

use std::collections::BTreeMap;

use heaptrial_model::{AllocatorSpec, Arm, family_in, version_first};
use serde::{Deserialize, Serialize};

use super::ScoreError;

/// An arm of the lab with its partner in the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partners {
    /// Name of the lab's arm.
    pub lab: String,
    /// Name of the field's arm.
    pub field: String,
    /// How they were found to be of one treatment.
    pub by: MatchedBy,
}

/// How two arms were found to be of one treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// Whoever asked said so.
    Hand,
    /// Family, version, variants, settings and options are the same.
    Spec,
    /// The same, but one of them tells no version.
    Family,
    /// They have the same name.
    Name,
}

/// What an arm is, as far as its treatment or its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct What {
    family: String,
    /// Digits of the version: `301` is how lists write 3.0.1.
    version: String,
    /// Variants, settings and options.
    rest: Vec<String>,
}

impl What {
    fn of(arm: &Arm) -> Option<Self> {
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let mut rest: Vec<String> =
            arm.treatment.torrc.iter().map(|(option, value)| format!("{option} {value}")).collect();
        rest.extend(arm.treatment.restart_every.map(|every| format!("restart every {every}")));
        let (family, version) = match &arm.treatment.allocator {
            Some(AllocatorSpec { family, version, variants, settings }) => {
                rest.extend(variants.iter().cloned());
                rest.extend(settings.iter().map(|setting| format!("{}={}", setting.name, setting.value)));
                (
                    family.clone(),
                    version.as_ref().map_or_else(String::new, |version| digits(&version.to_string())),
                )
            }
            None => {
                let (family, after) = family_in(&arm.name)?;
                (family.to_owned(), digits(version_first(&after).0))
            }
        };
        if arm.treatment.allocator.as_ref().is_none_or(|allocator| allocator.settings.is_empty()) {
            rest.extend(setting_in(&arm.name));
        }
        rest.sort();
        Some(Self { family, version, rest })
    }

    fn is_alike(&self, other: &Self) -> bool {
        let versions = self.version.is_empty() || other.version.is_empty() || self.version == other.version;
        self.family == other.family && self.rest == other.rest && versions
    }
}

/// What the name of an arm says beyond allocator and version, where that may be a setting: `mimalloc301-purge0`, `jemalloc
/// narenas:256`. Words alone (`mimalloc217_historical`) tell groups apart.
fn setting_in(name: &str) -> Option<String> {
    let (_, after) = family_in(name)?;
    let more = version_first(&after).1.trim_matches(|c: char| !c.is_alphanumeric());
    more.contains(|c: char| c.is_ascii_digit() || matches!(c, '=' | ':')).then(|| more.to_owned())
}

/// Pairs positions of `lab` and `field`. By hand goes first; then only what is alone in being alike is paired.
pub(super) fn find(
    lab: &[Arm],
    field: &[Arm],
    by_hand: &[String],
) -> Result<Vec<(usize, usize, MatchedBy)>, ScoreError> {
    let mut found: BTreeMap<usize, (usize, MatchedBy)> = BTreeMap::new();
    for text in by_hand {
        let (of_lab, of_field) = named_pair(lab, field, text)?;
        if found.contains_key(&of_lab) || found.values().any(|(other, _)| *other == of_field) {
            return Err(ScoreError::MatchedTwice { text: text.clone() });
        }
        found.insert(of_lab, (of_field, MatchedBy::Hand));
    }
    let what = |arms: &[Arm]| arms.iter().map(What::of).collect::<Vec<_>>();
    let (of_lab, of_field) = (what(lab), what(field));
    let same = |l: usize, f: usize| of_lab[l].is_some() && of_lab[l] == of_field[f];
    let alike = |l: usize, f: usize| {
        of_lab[l].as_ref().zip(of_field[f].as_ref()).is_some_and(|(lab, field)| lab.is_alike(field))
    };
    let named =
        |l: usize, f: usize| lab[l].name == field[f].name && (of_lab[l].is_none() || of_field[f].is_none());
    pair(&mut found, (lab.len(), field.len()), &same, MatchedBy::Spec);
    pair(&mut found, (lab.len(), field.len()), &alike, MatchedBy::Family);
    pair(&mut found, (lab.len(), field.len()), &named, MatchedBy::Name);
    Ok(found.into_iter().map(|(lab, (field, by))| (lab, field, by)).collect())
}

/// The arms that `LAB=FIELD` names. Names may have `=` in them: the one counts that has an arm on either side.
fn named_pair(lab: &[Arm], field: &[Arm], text: &str) -> Result<(usize, usize), ScoreError> {
    let place = |arms: &[Arm], name: &str| arms.iter().position(|arm| arm.name == name);
    let mut cuts = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
    cuts.find_map(|(left, right)| Some((place(lab, left)?, place(field, right)?))).ok_or_else(|| {
        let names = |arms: &[Arm]| arms.iter().map(|arm| arm.name.clone()).collect();
        ScoreError::NoSuchArms { text: text.to_owned(), lab: names(lab), field: names(field) }
    })
}

/// Pairs what is free on both sides, like each other, and like nothing else that is free.
fn pair(
    found: &mut BTreeMap<usize, (usize, MatchedBy)>,
    (of_lab, of_field): (usize, usize),
    like: &dyn Fn(usize, usize) -> bool,
    by: MatchedBy,
) {
    let free_lab: Vec<usize> = (0..of_lab).filter(|lab| !found.contains_key(lab)).collect();
    let taken = |field: &usize| found.values().any(|(other, _)| other == field);
    let free_field: Vec<usize> = (0..of_field).filter(|field| !taken(field)).collect();
    for lab in &free_lab {
        let own: Vec<usize> = free_field.iter().copied().filter(|field| like(*lab, *field)).collect();
        let [field] = own[..] else { continue };
        if free_lab.iter().filter(|other| like(**other, field)).count() == 1 {
            found.insert(*lab, (field, by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaptrial_model::Treatment;

    fn arm(name: &str, spec: &str) -> Arm {
        let treatment = Treatment { allocator: spec.parse().ok(), ..Treatment::default() };
        Arm { name: name.to_owned(), control: false, treatment }
    }

    fn pairs(lab: &[Arm], field: &[Arm], by_hand: &[&str]) -> Vec<(usize, usize, MatchedBy)> {
        let by_hand: Vec<String> = by_hand.iter().map(|text| (*text).to_owned()).collect();
        find(lab, field, &by_hand).unwrap()
    }

    #[test]
    fn arms_are_matched_by_what_they_are() {
        let lab = [
            arm("glibc", "glibc"),
            arm("jemalloc@5.3.0", "jemalloc@5.3.0"),
            arm("mimalloc@3.0.1", "mimalloc@3.0.1"),
            arm("mimalloc@3.0.1?purge_delay=0", "mimalloc@3.0.1?purge_delay=0"),
            arm("mimalloc@2.0.9", "mimalloc@2.0.9"),
        ];
        // Specs on one side, names of lists on the other.
        let field = [
            arm("group_A_mimalloc301", ""),
            arm("group_B", "mimalloc@2.0.9"),
            arm("group_D_jemalloc", ""),
            arm("group_E_glibc", "glibc"),
        ];
        assert_eq!(
            pairs(&lab, &field, &[]),
            [
                (0, 3, MatchedBy::Spec),
                (1, 2, MatchedBy::Family),
                (2, 0, MatchedBy::Spec),
                (4, 1, MatchedBy::Spec)
            ]
        );
    }

    #[test]
    fn a_name_that_may_tell_a_setting_is_left_to_the_hand() {
        let lab = [
            arm("plain", "mimalloc@3.0.1"),
            arm("control", "glibc"),
            arm("many", "jemalloc@5.3.0?narenas=256"),
            arm("mimalloc 2 x 1", "mimalloc@2.0.9?decommit_delay=0"),
        ];
        for (name, paired) in [
            ("group_A_mimalloc301", true),
            ("mimalloc v3.0.1", true),
            ("mimalloc_3_0_1_historical", true),
            ("mimalloc301-purge0", false),
            ("Mimalloc 3.0.1 purge_delay=0", false),
        ] {
            for spec in ["", "mimalloc@3.0.1"] {
                let found = pairs(&lab, &[arm(name, spec)], &[]);
                assert_eq!(!found.is_empty(), paired, "{name} {spec} {found:?}");
            }
        }
        let field = [
            arm("glibc_20", ""),
            arm("jemalloc 5.3.0 narenas:256", "jemalloc@5.3.0"),
            // What the treatment says stands above the name.
            arm("mimalloc 2 y 7", "mimalloc@2.0.9?decommit_delay=0"),
        ];
        let (glibc, settings) = ((1, 0, MatchedBy::Family), (3, 2, MatchedBy::Spec));
        assert_eq!(pairs(&lab, &field, &[]), [glibc, settings]);
        let by_hand = pairs(&lab, &field, &["many=jemalloc 5.3.0 narenas:256"]);
        assert_eq!(by_hand, [glibc, (2, 1, MatchedBy::Hand), settings]);
    }

    #[test]
    fn what_could_be_two_is_left_to_the_hand() {
        let lab = [arm("a", "jemalloc@5.2.1"), arm("b", "jemalloc@5.3.0")];
        let field = [arm("jemalloc", "jemalloc")];
        assert_eq!(pairs(&lab, &field, &[]), []);
        assert_eq!(pairs(&lab, &field, &["b=jemalloc"]), [(1, 0, MatchedBy::Hand)]);
        let unknown = find(&lab, &field, &["c=jemalloc".to_owned()]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "--match c=jemalloc: it names no arm of the lab and one of the field; the lab has a, b; the field has jemalloc"
        );
        assert!(find(&lab, &field, &["a=jemalloc", "b=jemalloc"].map(str::to_owned)).is_err());
        let (lab, field) = ([arm("x?a=0", "mimalloc?a=0")], [arm("y?b=1=2", "glibc")]);
        assert_eq!(pairs(&lab, &field, &["x?a=0=y?b=1=2"]), [(0, 0, MatchedBy::Hand)]);
    }
}
