//! Which arm of a lab is which arm of a trial in the field.

use std::collections::BTreeMap;
use std::fmt;

use heaptrial_model::{AllocatorSpec, Arm, family_in, version_first};
use serde::{Deserialize, Serialize};

use super::ScoreError;

/// Families of which every version is taken for one treatment.
const C_LIBRARIES: [&str; 2] = ["glibc", "musl"];

/// An arm of the lab with its partner in the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partners {
    /// Name of the lab's arm.
    pub lab: String,
    /// Name of the field's arm.
    pub field: String,
    /// How they were found to be of one treatment.
    pub by: MatchedBy,
    /// Words of the field's name that were passed over: they may name a group, or a setting.
    pub unread: Option<String>,
    /// Versions of both, where they are not the same.
    pub versions: Option<(String, String)>,
    /// Services of the lab's arm that are in no figure.
    pub lab_left_out: LeftOut,
    /// The same of the field's arm.
    pub field_left_out: LeftOut,
}

/// Services that were put into an arm and are in none of its figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Those that were proved to run something else.
    pub proved: Vec<String>,
    /// Those of which memory alone hints that they do, each with the arm that it goes as, where it does as one.
    pub inferred: Vec<(String, Option<String>)>,
    /// How many ended early or were not read.
    pub not_read: u32,
}

/// How two arms were found to be of one treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    Hand,
    /// Family, version, variants, settings and options are the same.
    Spec,
    /// The same, but one of them tells no version, or only its first parts.
    Family,
    /// They have the same name.
    Name,
}

/// An arm that has no partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    pub arm: String,
    /// Whether it is an arm of the lab; of the field otherwise.
    pub in_lab: bool,
    pub why: WhyAlone,
    /// Arms of the other side without a partner that it may be.
    pub may_be: Vec<String>,
}

/// Why an arm has no partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyAlone {
    /// Neither its treatment nor its name tells an allocator.
    NoAllocator,
    /// No arm of the other side is of this family.
    NoneOfFamily(String),
    /// Those of this family have other partners.
    Taken(String),
    /// Those of its family have another version, variant, setting or option.
    Otherwise,
    /// It is like one, but one of both is like further arms too.
    Several,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, in_lab, why, may_be } = self;
        let (own, other) = if *in_lab { ("lab", "field") } else { ("field", "lab") };
        write!(f, "`{arm}` of the {own} has no partner: ")?;
        match why {
            WhyAlone::NoAllocator => f.write_str("its name tells no allocator")?,
            WhyAlone::NoneOfFamily(family) => write!(f, "no arm of the {other} is told to be {family}")?,
            WhyAlone::Taken(family) => write!(f, "arms of {family} in the {other} have other partners")?,
            WhyAlone::Otherwise => {
                f.write_str("those of its allocator have another version or other settings")?
            }
            WhyAlone::Several => f.write_str("more than one pair of arms is alike")?,
        }
        let option = |other: &str| {
            let text = if *in_lab { format!("{arm}={other}") } else { format!("{other}={arm}") };
            let plain = text.chars().all(|c| c.is_alphanumeric() || "=@._-+:,/".contains(c));
            if plain {
                format!("--match {text}")
            } else {
                format!("--match '{}'", text.replace('\'', "'\\''"))
            }
        };
        match &may_be[..] {
            [] => Ok(()),
            [one] => write!(f, "; if it is {one} of the {other}: {}", option(one)),
            several => write!(
                f,
                "; if it is one of {} of the {other}: {}",
                several.join(", "),
                option(&other.to_uppercase())
            ),
        }
    }
}

/// What an arm is, as far as its treatment or its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct What {
    family: String,
    version: Told,
    rest: Vec<String>,
}

/// A version as an arm tells it. Empty where it tells none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    parts: Vec<String>,
    /// Whether its only part may be several: `301` is how lists write 3.0.1.
    run_together: bool,
}

impl Told {
    fn of(text: &str) -> Self {
        let parts: Vec<String> = text
            .split(|c: char| !c.is_ascii_digit())
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let run_together = parts.len() == 1 && parts[0].len() > 1;
        Self { parts, run_together }
    }

    /// Whether both are the same; where not `whole`, one may be the begin of the other.
    fn agrees(&self, other: &Self, whole: bool) -> bool {
        if self.run_together || other.run_together {
            let (a, b) = (self.parts.concat(), other.parts.concat());
            return if whole { a == b } else { a.starts_with(&b) || b.starts_with(&a) };
        }
        let (a, b) = (&self.parts, &other.parts);
        if whole { a == b } else { a.starts_with(b) || b.starts_with(a) }
    }
}

impl What {
    /// What an arm is. Options of Tor that all `arms` have are no part of a treatment.
    fn of(arm: &Arm, arms: &[Arm]) -> Option<Self> {
        let of_all = |name: &String, value: &String| {
            arms.iter().all(|arm| arm.treatment.torrc.get(name) == Some(value))
        };
        let own = arm.treatment.torrc.iter().filter(|(name, value)| !of_all(name, value));
        let mut rest: Vec<String> = own.map(|(name, value)| format!("{name} {value}")).collect();
        rest.extend(arm.treatment.restart_every.map(|every| format!("restart every {every}")));
        let (family, version) = match &arm.treatment.allocator {
            Some(AllocatorSpec { family, version, variants, settings }) => {
                rest.extend(variants.iter().cloned());
                rest.extend(settings.iter().map(|setting| format!("{}={}", setting.name, setting.value)));
                let told = version.as_ref().map(ToString::to_string);
                (family.clone(), Told::of(&told.unwrap_or_else(|| version_in(&arm.name, family))))
            }
            None => {
                let (family, _) = family_in(&arm.name)?;
                (family.to_owned(), Told::of(&version_in(&arm.name, family)))
            }
        };
        rest.extend(unread(arm).filter(|more| may_be_setting(more)));
        rest.sort();
        Some(Self { family, version, rest })
    }

    /// Whether both are one treatment; where not `whole`, one may tell no version or only its first parts, and a C library be
    /// of any: it comes with the system.
    fn is_alike(&self, other: &Self, whole: bool) -> bool {
        let any_version = !whole && C_LIBRARIES.contains(&self.family.as_str());
        self.family == other.family
            && self.rest == other.rest
            && (any_version || self.version.agrees(&other.version, whole))
    }
}

/// The versions of two partners in words, where both tell one and they are not the same.
pub(super) fn other_versions(lab: &Arm, field: &Arm) -> Option<(String, String)> {
    let told = |arm: &Arm| What::of(arm, std::slice::from_ref(arm)).map(|what| what.version);
    let (lab, field) = (told(lab)?, told(field)?);
    let is_whole = |told: &Told| told.parts.len() > 1;
    let differ = is_whole(&lab) && is_whole(&field) && !lab.agrees(&field, false);
    differ.then(|| (lab.parts.join("."), field.parts.join(".")))
}

/// The version of `family` that a name tells: `mimalloc-2.0.9`, `3.0.1-mimalloc`, `v3_mimalloc`, and of a library of mimalloc the
/// number of its ABI, which is that of the version. Empty where it tells none.
fn version_in(name: &str, family: &str) -> String {
    let name = name.to_ascii_lowercase();
    let after = family_in(&name).map_or_else(String::new, |(_, after)| after);
    let behind = version_first(&after).0;
    if !behind.is_empty() {
        return behind.to_owned();
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let of_abi = name.split_once("libmimalloc").filter(|_| family == "mimalloc").map(|(_, after)| after);
    let of_abi = of_abi.map(|after| after.trim_end_matches(|c| !is_of_number(c)).trim_matches('.'));
    if let Some(number) = of_abi.filter(|number| !number.is_empty() && number.chars().all(is_of_number)) {
        return number.to_owned();
    }
    let dotted = name.split(|c| !is_of_number(c)).map(|part| part.trim_matches('.'));
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let short = words.filter_map(|word| word.strip_prefix("mi").or_else(|| word.strip_prefix('v')));
    let is_number = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let found = dotted.filter(|part| part.contains('.')).chain(short.filter(is_number)).next();
    found.unwrap_or_default().to_owned()
}

/// What the name of an arm says behind allocator and version, where its treatment tells no settings.
pub(super) fn unread(arm: &Arm) -> Option<String> {
    let is_told = |allocator: &AllocatorSpec| !allocator.settings.is_empty();
    if arm.treatment.allocator.as_ref().is_some_and(is_told) {
        return None;
    }
    let (_, after) = family_in(&arm.name)?;
    let more = version_first(&after).1.trim_matches(|c: char| !c.is_alphanumeric());
    Some(more.to_owned()).filter(|more| !more.is_empty())
}

/// Whether that may be a setting: `mimalloc301-purge0`, `jemalloc narenas:256`. Words alone (`mimalloc217_historical`) mostly
/// tell groups apart.
fn may_be_setting(more: &str) -> bool {
    more.contains(|c: char| c.is_ascii_digit() || matches!(c, '=' | ':'))
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
    let (of_lab, of_field) = (all(lab), all(field));
    let alike = |whole: bool| {
        let (of_lab, of_field) = (&of_lab, &of_field);
        move |l: usize, f: usize| {
            of_lab[l]
                .as_ref()
                .zip(of_field[f].as_ref())
                .is_some_and(|(lab, field)| lab.is_alike(field, whole))
        }
    };
    let named =
        |l: usize, f: usize| lab[l].name == field[f].name && (of_lab[l].is_none() || of_field[f].is_none());
    pair(&mut found, (lab.len(), field.len()), &alike(true), MatchedBy::Spec);
    pair(&mut found, (lab.len(), field.len()), &alike(false), MatchedBy::Family);
    pair(&mut found, (lab.len(), field.len()), &named, MatchedBy::Name);
    Ok(found.into_iter().map(|(lab, (field, by))| (lab, field, by)).collect())
}

fn all(arms: &[Arm]) -> Vec<Option<What>> {
    arms.iter().map(|arm| What::of(arm, arms)).collect()
}

/// The arms of both sides that have no partner, those of the lab first.
pub(super) fn alone(lab: &[Arm], field: &[Arm], found: &[(usize, usize, MatchedBy)]) -> Vec<Alone> {
    let in_lab = without(lab, field, &|arm| found.iter().find(|pair| pair.0 == arm).map(|pair| pair.1), true);
    let in_field =
        without(field, lab, &|arm| found.iter().find(|pair| pair.1 == arm).map(|pair| pair.0), false);
    in_lab.into_iter().chain(in_field).collect()
}

fn without(own: &[Arm], other: &[Arm], partner: &dyn Fn(usize) -> Option<usize>, in_lab: bool) -> Vec<Alone> {
    let taken: Vec<usize> = (0..own.len()).filter_map(partner).collect();
    let free: Vec<usize> = (0..other.len()).filter(|arm| !taken.contains(arm)).collect();
    let others = all(other);
    let alone = |arm: usize| {
        let named = |arms: &[usize]| arms.iter().map(|arm| other[*arm].name.clone()).collect::<Vec<_>>();
        let of_free = |like: &dyn Fn(&What) -> bool| -> Vec<usize> {
            free.iter().copied().filter(|arm| others[*arm].as_ref().is_some_and(like)).collect()
        };
        // Of an arm that tells no allocator one of the same version is the likely one.
        let untold = || {
            let version = Told::of(&own[arm].name);
            let is_told = |told: &Told| told.parts.concat().len() > 1;
            let same = of_free(&|what| {
                is_told(&what.version) && is_told(&version) && what.version.agrees(&version, false)
            });
            if same.len() == 1 { same } else { free.clone() }
        };
        let (why, may_be) = match What::of(&own[arm], own) {
            None => (WhyAlone::NoAllocator, untold()),
            Some(what) => {
                let is_there = others.iter().flatten().any(|other| other.family == what.family);
                let (like, family) = (
                    of_free(&|other| other.is_alike(&what, false)),
                    of_free(&|other| {
                        other.family == what.family && other.version.agrees(&what.version, false)
                    }),
                );
                match (like.is_empty(), family.is_empty()) {
                    (false, _) => (WhyAlone::Several, like),
                    (true, false) => (WhyAlone::Otherwise, family),
                    _ if !of_free(&|other| other.family == what.family).is_empty() => {
                        (WhyAlone::Otherwise, Vec::new())
                    }
                    _ if is_there => (WhyAlone::Taken(what.family), Vec::new()),
                    _ => (WhyAlone::NoneOfFamily(what.family), Vec::new()),
                }
            }
        };
        Alone { arm: own[arm].name.clone(), in_lab, why, may_be: named(&may_be) }
    };
    (0..own.len()).filter(|arm| partner(*arm).is_none()).map(alone).collect()
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

    #[test]
    fn options_that_a_whole_fleet_has_are_no_treatment() {
        let with = |name: &str, spec: &str, cache: &str| {
            let mut arm = arm(name, spec);
            arm.treatment.torrc = [("MaxMemInQueues", "2GB"), ("DirCache", cache)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
            arm
        };
        let lab = [arm("glibc", "glibc"), arm("jemalloc", "jemalloc")];
        let field = [with("a", "glibc", "1"), with("b", "jemalloc", "1")];
        assert_eq!(pairs(&lab, &field, &[]).len(), 2);
        let field = [with("a", "glibc", "1"), with("b", "jemalloc", "0")];
        assert_eq!(pairs(&lab, &field, &[]), []);
    }

    #[test]
    fn versions_are_compared_by_their_parts() {
        let paired = |lab: &str, field: &str| {
            let found = pairs(&[arm("lab", lab)], &[arm(field, "")], &[]);
            found.first().map(|pair| pair.2)
        };
        for (lab, field, by) in [
            ("mimalloc@1.11", "mimalloc-1.11", Some(MatchedBy::Spec)),
            ("mimalloc@1.11", "mimalloc111", Some(MatchedBy::Spec)),
            ("mimalloc@1.11", "mimalloc-11.1", None),
            ("tcmalloc@2.16", "tcmalloc_4.16", None),
            ("jemalloc@5.3.0", "jemalloc 5.3", Some(MatchedBy::Family)),
            ("jemalloc@5.3.0", "jemalloc53", Some(MatchedBy::Family)),
            ("jemalloc@5.3.0", "jemalloc-5.30", None),
            ("mimalloc@2.1.7", "mimalloc-2.1.71", None),
            ("glibc", "glibc-2.36", Some(MatchedBy::Family)),
        ] {
            assert_eq!(paired(lab, field), by, "{lab} {field}");
        }
    }

    #[test]
    fn a_version_that_only_a_name_tells_counts() {
        for (name, of_209, of_301) in [
            ("mimalloc-v3", false, true),
            ("mimalloc-v217", false, false),
            ("mimalloc 301", false, true),
            ("mimalloc.3.0.1", false, true),
            ("libmimalloc3", false, true),
            ("libmimalloc3.0", false, true),
            ("v3_mimalloc", false, true),
            ("3.0.1-mimalloc", false, true),
            ("mi3-mimalloc", false, true),
            ("mimalloc-3.x", false, true),
            ("libmimalloc2", true, false),
            ("group_1_mimalloc", true, true),
        ] {
            // As an import claims it: the family alone.
            let field = [arm(name, "mimalloc")];
            for (version, paired) in [("2.0.9", of_209), ("3.0.1", of_301)] {
                let lab = [arm("lab", &format!("mimalloc@{version}"))];
                assert_eq!(!pairs(&lab, &field, &[]).is_empty(), paired, "{name} and {version}");
            }
        }
    }

    #[test]
    fn a_c_library_of_another_version_is_a_partner_and_told() {
        let (lab, field) = ([arm("glibc", "glibc@2.41")], [arm("glibc", "glibc@2.36")]);
        assert_eq!(pairs(&lab, &field, &[]), [(0, 0, MatchedBy::Family)]);
        assert_eq!(other_versions(&lab[0], &field[0]), Some(("2.41".to_owned(), "2.36".to_owned())));
        assert_eq!(other_versions(&lab[0], &arm("glibc_20", "")), None);
        let (lab, field) = ([arm("a", "jemalloc@5.3.0")], [arm("b", "jemalloc@5.2.1")]);
        assert_eq!(pairs(&lab, &field, &[]), []);
    }

    #[test]
    fn who_is_alone_is_told_why_and_what_to_write() {
        let lab = [
            arm("glibc", "glibc"),
            arm("jemalloc@5.3.0", "jemalloc@5.3.0"),
            arm("mimalloc@2.1.7", "mimalloc@2.1.7"),
            arm("mimalloc@3.0.1?a=0&b=1", "mimalloc@3.0.1?a=0&b=1"),
            arm("snmalloc@0.7.3", "snmalloc@0.7.3"),
        ];
        let field = ["system", "je5.3", "mi-2.1.7", "mimalloc301", "scudo", "snmalloc", "new_snmalloc"];
        let field: Vec<Arm> = field.iter().map(|name| arm(name, "")).collect();
        let told = |by_hand: &[&str]| -> Vec<String> {
            alone(&lab, &field, &pairs(&lab, &field, by_hand)).iter().map(ToString::to_string).collect()
        };
        let told_first = told(&[]);
        for line in [
            "`system` of the field has no partner: its name tells no allocator; if it is one of glibc, jemalloc@5.3.0, \
             mimalloc@2.1.7, mimalloc@3.0.1?a=0&b=1, snmalloc@0.7.3 of the lab: --match LAB=system",
            "`je5.3` of the field has no partner: its name tells no allocator; if it is jemalloc@5.3.0 of the lab: \
             --match jemalloc@5.3.0=je5.3",
            "`mi-2.1.7` of the field has no partner: its name tells no allocator; if it is mimalloc@2.1.7 of the lab: \
             --match mimalloc@2.1.7=mi-2.1.7",
            "`scudo` of the field has no partner: no arm of the lab is told to be scudo",
            "`new_snmalloc` of the field has no partner: more than one pair of arms is alike; if it is snmalloc@0.7.3 of the lab: \
             --match snmalloc@0.7.3=new_snmalloc",
            "`mimalloc@3.0.1?a=0&b=1` of the lab has no partner: those of its allocator have another version or other \
             settings; if it is mimalloc301 of the field: --match 'mimalloc@3.0.1?a=0&b=1=mimalloc301'",
        ] {
            assert!(told_first.iter().any(|told| told == line), "{line}\n{told_first:#?}");
        }
        let by_hand = told(&[
            "glibc=system",
            "jemalloc@5.3.0=je5.3",
            "mimalloc@2.1.7=mi-2.1.7",
            "snmalloc@0.7.3=snmalloc",
        ]);
        let taken =
            "`new_snmalloc` of the field has no partner: arms of snmalloc in the lab have other partners";
        assert!(by_hand.iter().any(|told| told == taken) && by_hand.len() == 4, "{by_hand:#?}");
    }
}
