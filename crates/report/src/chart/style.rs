//! How arms look: an allocator family has one colour and one marker in every chart of every report, and its arms
//! are shades of that colour. What decides is the arm itself, never its place in the trial.

use std::cmp::Ordering;

use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment, Version, family_in};

use super::marker;
use super::palette::{NEUTRAL, SHADES};
use super::svg::{Element, element, group};
use crate::Report;

/// The shades of a family's arms, by their number: far apart where they are few.
const SPREAD: [&[usize]; SHADES] = [&[1], &[1, 3], &[0, 1, 3], &[0, 1, 2, 3]];
const DASHES: [&str; 7] = ["", "9 4", "3 3", "12 3 3 3", "6 2", "16 5", "2 5"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArmStyle {
    /// Position of its colour in the palette.
    pub(crate) colour: usize,
    pub(crate) dash: &'static str,
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

    /// Of treatments in a line, such as `glibc, DirCache 0`, and whether each is the control.
    pub(crate) fn of_treatments<'a>(treatments: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let arm = |(name, control): (&str, bool)| {
            let spec: Option<AllocatorSpec> = name.split(", ").next().and_then(|spec| spec.parse().ok());
            // A name of letters alone reads as a spec too.
            let allocator = spec.filter(|spec| FAMILIES.contains(&spec.family.as_str()));
            Arm { name: name.to_owned(), control, treatment: Treatment { allocator, ..Treatment::default() } }
        };
        let arms: Vec<Arm> = treatments.into_iter().map(arm).collect();
        Self::of(arms.iter().map(|arm| (arm, None)))
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
    const UNKNOWN: Self = Self { colour: NEUTRAL * SHADES + SPREAD[0][0], dash: "", control: false };

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
        marker::draw(self.colour / SHADES, at, radius).class(&format!("marker {edge}{}", self.fill_class()))
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
        let treatment: Vec<String> =
            spec.map(ToString::to_string).into_iter().chain(treatment.options()).collect();
        Self {
            family: family.unwrap_or(NEUTRAL),
            version: spec.and_then(|spec| spec.version.clone()),
            treatment: treatment.join(" "),
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

/// Arms of a family are shades of its colour, in the order of their versions, and differ in dashes as well, for print.
fn styles(arms: &[Traits<'_>]) -> Vec<ArmStyle> {
    let style = |arm: &Traits<'_>| {
        let mut family: Vec<&Traits<'_>> = arms.iter().filter(|other| other.family == arm.family).collect();
        family.sort_by(|a, b| a.order(b));
        let own = family.iter().position(|other| other.name == arm.name).unwrap_or(0);
        let spread = SPREAD[family.len().clamp(1, SHADES) - 1];
        ArmStyle {
            colour: arm.family * SHADES + spread[own % spread.len()],
            dash: DASHES[own % DASHES.len()],
            control: arm.control,
        }
    };
    arms.iter().map(style).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arm as TOML would give it: a name and a spec, or none.
    fn arm(name: &str, spec: &str) -> Arm {
        let allocator = (!spec.is_empty()).then(|| spec.parse().unwrap());
        Arm {
            name: name.to_owned(),
            control: false,
            treatment: Treatment { allocator, ..Treatment::default() },
        }
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
}
