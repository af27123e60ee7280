//! What a look decides, as a sentence: `decided: mimalloc-2.0.9 needs 0.26 (0.25 to 0.28) times the memory of glibc`.

use heaptrial_evaluate::analysis::{Decision, LookStanding};
use heaptrial_evaluate::judgement::look::Look;

use super::LookedArm;
use crate::document::Report;
use crate::finding_text::objection;
use crate::table::optional;
use crate::text::names;
use crate::units;

pub(super) fn of(report: &Report, arms: &[LookedArm], look: &Look) -> String {
    let control = report.control().map_or("the control", |control| control.name.as_str());
    match look.found.decision {
        Decision::NoDifference => {
            let bloating = report.arms.iter().filter(|arm| !arm.control && arm.bloats());
            let bloating: Vec<&str> = bloating.map(|arm| arm.name.as_str()).collect();
            let but = match bloating.is_empty() {
                true => String::new(),
                false => format!(" at this age, but services bloat in {}", names(&bloating, bloating.len())),
            };
            format!("decided: every arm needs the same as {control}, within 10%{but}")
        }
        Decision::Difference => differ(arms, control),
        Decision::Inconclusive if look.ended_before_next => {
            "inconclusive: the trial ended before its next look".to_owned()
        }
        Decision::Inconclusive => match look.next_wall_us {
            Some(next_us) => {
                let now_us = look.planned_wall_us.max(look.taken_us);
                let wait = units::duration((next_us - now_us).max(0) as f64 / 1e6);
                format!("inconclusive: {wait} more until the next look")
            }
            None => format!(
                "inconclusive: this was the last look, and no arm is shown to differ from {control}, nor all to be within 10% of \
                 it; plan the next trial with more services (heaptrial trial power)"
            ),
        },
    }
}

/// The arm to use first, and before it those that need less still and that something blocks.
fn differ(arms: &[LookedArm], control: &str) -> String {
    let estimate = |arm: &LookedArm| arm.ratio.as_ref().map_or(f64::INFINITY, |ratio| ratio.estimate);
    let of = |standing: LookStanding| {
        let mut of: Vec<&LookedArm> = arms.iter().filter(|arm| arm.standing == standing).collect();
        of.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
        of
    };
    let needs =
        |arms: &[&LookedArm]| arms.iter().map(|arm| needs(arm, control)).collect::<Vec<_>>().join("; ");
    let (mut less, more) = (of(LookStanding::Less), of(LookStanding::More));
    less.sort_by_key(|arm| arm.objections.iter().any(|known| known.blocks));
    match less.first().map(|first| estimate(first)) {
        Some(first) => {
            less.retain(|arm| estimate(arm) <= first);
            format!("decided: {}", needs(&less))
        }
        None => format!("decided: no arm is shown to need less than {control}; {}", needs(&more)),
    }
}

fn needs(arm: &LookedArm, control: &str) -> String {
    let ratio = optional(arm.ratio.as_ref(), ToString::to_string);
    let assumed = if arm.assumes_normality { ", assuming normality" } else { "" };
    let blocking = arm.objections.iter().filter(|known| known.blocks);
    let blocking: Vec<String> = blocking.map(objection).collect();
    let but = if blocking.is_empty() { String::new() } else { format!(", but: {}", blocking.join("; ")) };
    format!("{} needs {ratio} times the memory of {control}{assumed}{but}", arm.name)
}
