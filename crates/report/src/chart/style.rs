//! How arms look: an allocator family has one colour and one marker in every chart of every report, and its versions
//! are shades of that colour. What decides is the arm itself, never its place among the others.

use std::cmp::Ordering;

use heaptrial_model::{Arm, FAMILIES, Treatment, Version, family_in};

use super::marker::{self, Marker};
use super::palette::{NEUTRAL, SHADES};
use super::svg::{Element, element, group};
use crate::Report;

/// Of which shades so many versions are: far apart where they are few.
const SPREAD: [&[usize]; SHADES] = [&[1], &[1, 3], &[0, 1, 3], &[0, 1, 2, 3]];
const DASHES: [&str; 7] = ["", "9 4", "3 3", "12 3 3 3", "6 2", "16 5", "2 5"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArmStyle {
    /// Position of its colour in the palette.
    pub(crate) colour: usize,
    pub(crate) dash: &'static str,
    marker: Marker,
    /// The control is outlined, in its family's colour.
    control: bool,
}

/// The looks of the arms of a trial, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArmStyles(Vec<ArmStyle>);

/// What of an arm decides how it looks.
struct Traits<'a> {
    family: usize,
    version: Option<Version>,
    treatment: String,
    name: &'a str,
    control: bool,
}

impl ArmStyles {
    /// Of arms, with the family that each was proved to run, where it was: it decides where the treatment names no
    /// allocator. Where nothing was proved the arm's name does, as it stands in lists of operators.
    pub fn of<'a>(arms: impl IntoIterator<Item = (&'a Arm, Option<&'a str>)>) -> Self {
        let traits =
            |(arm, ran): (&'a Arm, Option<&str>)| Traits::of(&arm.name, arm.control, &arm.treatment, ran);
        Self(styles(&arms.into_iter().map(traits).collect::<Vec<_>>()))
    }

    pub(crate) fn of_report(report: &Report) -> Self {
        let traits = report.arms.iter().map(|arm| {
            let ran = arm.identity.as_ref().map(|identity| identity.family.as_str());
            Traits::of(&arm.name, arm.control, &arm.treatment, ran)
        });
        Self(styles(&traits.collect::<Vec<_>>()))
    }

    /// Of the arm at `place`.
    pub(crate) fn get(&self, place: usize) -> ArmStyle {
        self.0.get(place).copied().unwrap_or(ArmStyle::UNKNOWN)
    }
}

impl ArmStyle {
    const UNKNOWN: Self = Self {
        colour: NEUTRAL * SHADES + SPREAD[0][0],
        dash: "",
        marker: marker::of_family(NEUTRAL),
        control: false,
    };

    /// Class of a line in the arm's colour.
    pub(crate) fn line_class(self) -> String {
        format!("l{}", self.colour)
    }

    /// Class of an area in the arm's colour.
    pub(crate) fn fill_class(self) -> String {
        format!("f{}", self.colour)
    }

    /// A line through `data`, dashed as the arm is; the control's has an edge.
    pub(crate) fn line(self, class: &str, data: &str) -> Element {
        let path = element("path").class(&format!("{class} {}", self.line_class())).attribute("d", data);
        let path = if self.dash.is_empty() { path } else { path.attribute("stroke-dasharray", self.dash) };
        if self.control {
            return group("reference").child(element("path").class("edge").attribute("d", data)).child(path);
        }
        path
    }

    /// An area of a bar in the arm's colour; the control's has an edge.
    pub(crate) fn bar_class(self) -> String {
        format!("{}{}", if self.control { "outlined " } else { "" }, self.fill_class())
    }

    /// The arm's marker around `at`; the control's has an edge.
    pub(crate) fn marker(self, at: (f64, f64), radius: f64) -> Element {
        let edge = if self.control { "outlined " } else { "" };
        self.marker.draw(at, radius).class(&format!("marker {edge}{}", self.fill_class()))
    }
}

impl<'a> Traits<'a> {
    fn of(name: &'a str, control: bool, treatment: &Treatment, ran: Option<&str>) -> Self {
        let spec = treatment.allocator.as_ref();
        let known = |family: &str| FAMILIES.iter().position(|known| *known == family);
        let family = match spec {
            Some(spec) => known(&spec.family),
            None => ran.and_then(known).or_else(|| known(family_in(name)?.0)),
        };
        let mut parts: Vec<String> = spec.map(ToString::to_string).into_iter().collect();
        parts.extend(treatment.torrc.iter().map(|(option, value)| format!("{option} {value}")));
        parts.extend(treatment.restart_every.map(|every| every.to_string()));
        Self {
            family: family.unwrap_or(NEUTRAL),
            version: spec.and_then(|spec| spec.version.clone()),
            treatment: parts.join(" "),
            name,
            control,
        }
    }

    /// In an order that is the same whatever the order of the arms.
    fn order(&self, other: &Self) -> Ordering {
        let key = |traits: &Self| (traits.family, traits.treatment.clone(), traits.name.to_owned());
        self.version.cmp(&other.version).then_with(|| key(self).cmp(&key(other)))
    }
}

/// Versions of a family are shades of its colour. Where it has but one version here, its treatments are, and where
/// they are alike too, its arms. All arms of a family differ in dashes as well, for print and colour-blind readers.
fn styles(arms: &[Traits<'_>]) -> Vec<ArmStyle> {
    arms.iter()
        .map(|arm| {
            let mut family: Vec<&Traits<'_>> =
                arms.iter().filter(|other| other.family == arm.family).collect();
            family.sort_by(|a, b| a.order(b));
            let steps = steps(&family);
            let own = family.iter().position(|other| other.name == arm.name).unwrap_or(0);
            let last = steps.last().copied().unwrap_or(0);
            let spread = SPREAD[last.min(SHADES - 1)];
            let shade = |step: usize| spread[step % spread.len()];
            let alike = steps[..own].iter().filter(|step| shade(**step) == shade(steps[own])).count();
            ArmStyle {
                colour: arm.family * SHADES + shade(steps[own]),
                dash: DASHES[(steps[own] + alike) % DASHES.len()],
                marker: marker::of_family(arm.family),
                control: arm.control,
            }
        })
        .collect()
}

/// Of each arm of a family, in order, which of its versions (or treatments, or arms) it is, from 0.
fn steps(family: &[&Traits<'_>]) -> Vec<usize> {
    let count = |same: &dyn Fn(&Traits<'_>, &Traits<'_>) -> bool| -> Vec<usize> {
        let mut step = 0;
        let others = family.windows(2).map(|pair| {
            step += usize::from(!same(pair[0], pair[1]));
            step
        });
        std::iter::once(0).chain(others).collect()
    };
    let versions = count(&|a, b| a.version == b.version);
    if versions.last() > Some(&0) {
        return versions;
    }
    let treatments = count(&|a, b| a.treatment == b.treatment);
    if treatments.last() > Some(&0) { treatments } else { count(&|_, _| false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An arm as TOML would give it: a name and a spec, or none.
    fn arm(name: &str, spec: &str) -> Arm {
        let allocator = (!spec.is_empty()).then(|| spec.parse().unwrap());
        Arm {
            name: name.to_owned(),
            control: false,
            treatment: Treatment { allocator, ..Treatment::default() },
        }
    }

    fn of(arms: &[Arm]) -> Vec<ArmStyle> {
        ArmStyles::of(arms.iter().map(|arm| (arm, None))).0
    }

    fn family(look: ArmStyle) -> usize {
        look.colour / SHADES
    }

    #[test]
    fn a_family_is_known_by_treatment_then_proof_then_name() {
        let one = |arm: &Arm, ran| FAMILIES.get(family(ArmStyles::of([(arm, ran)]).get(0))).copied();
        assert_eq!(one(&arm("group_glibc", "jemalloc@5.3.0"), Some("glibc")), Some("jemalloc"));
        assert_eq!(one(&arm("A_mimalloc301", ""), None), Some("mimalloc"));
        assert_eq!(one(&arm("group_E_glibc", ""), None), Some("glibc"));
        assert_eq!(one(&arm("dircache-0", ""), Some("glibc")), Some("glibc"));
        assert_eq!(one(&arm("B_hardened", ""), Some("unknown")), Some("hardened_malloc"));
        assert_eq!(one(&arm("dircache-0", ""), None), None);
        assert_eq!(one(&arm("jemalloc?", "ownalloc@1"), None), None, "what is not in the catalog is neutral");
    }

    #[test]
    fn versions_are_shades_and_settings_are_dashes() {
        let arms = [
            arm("a", "mimalloc@3.0.1"),
            arm("b", "mimalloc@2.0.9"),
            arm("c", "mimalloc@3.0.1?purge_delay=0"),
            arm("d", "jemalloc"),
        ];
        let looks = of(&arms);
        assert_ne!(looks[0].colour, looks[1].colour);
        assert_eq!((looks[0].colour, family(looks[0])), (looks[2].colour, family(looks[1])));
        assert_ne!(looks[0].dash, looks[2].dash);
        assert!(looks[0].marker == looks[1].marker && looks[0].marker != looks[3].marker);
        // Of one version settings are shades.
        let looks = of(&[arms[0].clone(), arms[2].clone()]);
        assert_ne!(looks[0].colour, looks[1].colour);
    }

    proptest! {
        #[test]
        fn looks_do_not_depend_on_the_order_and_differ(
            chosen in prop::collection::btree_set((0..FAMILIES.len(), 0usize..4, 0usize..4), 1..24),
            turn in 0usize..24,
        ) {
            let mut arms: Vec<Arm> = chosen
                .iter()
                .map(|(family, version, setting)| {
                    let spec = format!("{}@{version}.1?purge_delay={setting}", FAMILIES[*family]);
                    arm(&spec, &spec)
                })
                .collect();
            let looks: Vec<ArmStyle> = of(&arms);
            let before: Vec<(String, ArmStyle)> = arms.iter().map(|arm| arm.name.clone()).zip(looks).collect();
            let by = turn % arms.len();
            arms.rotate_left(by);
            for (arm, look) in arms.iter().zip(of(&arms)) {
                prop_assert!(before.contains(&(arm.name.clone(), look)), "{} {look:?}", arm.name);
            }
            for (place, (name, look)) in before.iter().enumerate() {
                for (other, other_look) in &before[..place] {
                    prop_assert_ne!(look, other_look, "{} {}", name, other);
                }
            }
        }
    }
}
