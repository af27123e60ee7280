//! What a look shows.

use heaptrial_evaluate::analysis::ENUMERATED_AT_MOST;

use super::{LookReport, LookedArm};
use crate::document::Severity;
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::remarks::NO_WORK;
use crate::table::{Detail, Emphasis, NOTHING, Row, Table, figure, optional, text};
use crate::text::{date_and_time, names, sentence, severity};
use crate::{finding_text, units};

/// Names of services in a finding.
const NAMED: usize = 4;

impl Document for LookReport {
    const NAME: &'static str = "look";

    fn title(&self) -> String {
        match (self.number, self.planned_seconds) {
            (Some(number), Some(planned)) => {
                let planned = units::duration(planned);
                format!("{}: look {number} of {}, planned at {planned}", self.trial, self.looks)
            }
            _ => format!("{}: a peek", self.trial),
        }
    }

    fn lead(&self) -> String {
        self.circumstances()
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let result = if self.number.is_some() { self.result.clone() } else { sentence(&self.result) };
        let mut blocks = vec![Block::Table("Arms".to_owned(), self.table())];
        let notes = self.notes();
        if !notes.is_empty() {
            blocks.push(Block::Heading("Caveats".to_owned()));
            blocks.push(Block::List(notes));
        }
        blocks.push(Block::Heading(result));
        vec![Section { id: "look", title: "", blocks }]
    }
}

impl LookReport {
    fn circumstances(&self) -> String {
        let at = date_and_time(&self.data_until);
        let age = self.matched_age_seconds.map_or_else(
            || "Services of the arms have no age in common".to_owned(),
            |age| format!("Services are compared at an age of {}", units::duration(age)),
        );
        match (self.alpha, self.alpha_spent) {
            (Some(alpha), Some(spent)) => format!(
                "Data until {at}. {age}. This look may err with probability {} over all arms (so far {} of 5%); \
                 intervals are of {}.",
                error_share(alpha),
                error_share(spent),
                self.level()
            ),
            _ => format!("Data until {at}. {age}."),
        }
    }

    /// `99.5%`: with as many decimals as it takes not to say 100%.
    fn level(&self) -> String {
        self.alpha.map_or_else(String::new, |alpha| {
            let decimals =
                if alpha >= 0.01 { 0 } else { (-alpha.log10()).ceil().clamp(1.0, 8.0) as usize - 1 };
            format!("{:.decimals$}%", 100.0 * (1.0 - alpha))
        })
    }

    fn table(&self) -> Table {
        let decides = self.number.is_some();
        let works = self.arms.iter().any(|arm| arm.work.is_some());
        let mut columns = vec![text("Arm"), figure("Services"), figure("Non-compliant"), figure("Level")];
        if decides {
            columns.push(figure(&format!("Ratio ({})", self.level())));
            columns.push(figure("Adj. p"));
            columns.push(text("Growth"));
            columns.extend(works.then(|| figure("Work")));
        }
        columns.extend(["Crashes", "OOM kills"].map(figure));
        let rows = self.arms.iter().enumerate().map(|(index, arm)| {
            let mut cells = vec![arm.name.clone(), services(arm), arm.events.contaminated_lives.to_string()];
            cells.push(optional(arm.level_bytes, |bytes| units::memory(bytes as f64)));
            if decides {
                cells.push(if arm.control {
                    "control".to_owned()
                } else {
                    optional(arm.ratio.as_ref(), ToString::to_string)
                });
                let mark = if arm.assumes_normality { "*" } else { "" };
                cells.push(optional(arm.p_value_adjusted, |p| format!("{}{mark}", p_value(p))));
                cells.push(optional(arm.verdict.as_ref(), Clone::clone));
                cells.extend(works.then(|| work(arm)));
            }
            cells.push(arm.events.crashes.to_string());
            cells.push(arm.events.oom_kills.to_string());
            let emphasis = match (arm.control, arm.level_bytes) {
                (true, _) => Emphasis::Control,
                (_, None) => Emphasis::Lost,
                _ => Emphasis::None,
            };
            Row { arm: Some(index), emphasis, cells }
        });
        Table { rows: rows.collect(), columns }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(gap) = self.accepted_gap_seconds {
            notes.push(format!(
                "The last reading is {} before the planned time; the look was taken because --accept-gap said so.",
                units::duration(gap)
            ));
        }
        for drawn in [false, true] {
            let of = |arm: &&LookedArm| arm.assumes_normality && arm.assignments_drawn == drawn;
            let arms: Vec<String> = self.arms.iter().filter(of).map(|arm| arm.name.clone()).collect();
            if arms.is_empty() {
                continue;
            }
            let why = if drawn {
                format!(
                    "this look's level is beyond what a permutation test over {ENUMERATED_AT_MOST} drawn assignments can resolve"
                )
            } else {
                "so few services have too few assignments for a permutation test at this look's level"
                    .to_owned()
            };
            notes.push(format!(
                "* Student's t ({}): {why}. It assumes that the logarithms of memory are normally distributed.",
                names(&arms, NAMED)
            ));
        }
        if self.number.is_some() && self.arms.iter().all(|arm| arm.work.is_none()) {
            notes.push(NO_WORK.to_owned());
        }
        for arm in self.arms.iter().filter(|arm| arm.services != arm.services_treated) {
            let level =
                optional(arm.level_bytes_as_assigned.or(arm.level_bytes), |b| units::memory(b as f64));
            let ratio = if arm.ratio_as_assigned.is_some() && !arm.control {
                format!(", ratio {}", optional(arm.ratio_as_assigned.as_ref(), ToString::to_string))
            } else {
                String::new()
            };
            notes.push(format!(
                "{}: as assigned, over all {} services, {level}{ratio}; the table is without non-compliant services.",
                arm.name, arm.services
            ));
        }
        let found = self.findings.iter().filter(|finding| finding.severity != Severity::Note);
        notes.extend(found.map(|finding| {
            let services = match finding.services.is_empty() {
                true => String::new(),
                false => format!(" {}.", names(&finding.services, NAMED)),
            };
            format!(
                "{}: {}:{services} {}",
                severity(finding.severity),
                finding_text::of(finding.kind).title,
                sentence(&finding.evidence)
            )
        }));
        notes
    }
}

fn services(arm: &LookedArm) -> String {
    if arm.services == arm.services_treated {
        arm.services.to_string()
    } else {
        format!("{} of {}", arm.services_treated, arm.services)
    }
}

fn work(arm: &LookedArm) -> String {
    match &arm.work {
        Some(_) if arm.control => "control".to_owned(),
        Some(work) => optional(work.ratio.as_ref(), |ratio| units::ratio(ratio.estimate.value)),
        None => NOTHING.to_owned(),
    }
}

/// With two digits that count: it is to be compared with an error that may be far below 0.001.
fn p_value(p: f64) -> String {
    if p >= 0.0995 || p == 0.0 {
        format!("{p:.2}")
    } else if p >= 1e-4 {
        let decimals = (1.0 - p.log10().floor()).clamp(2.0, 5.0) as usize;
        format!("{p:.decimals$}")
    } else {
        format!("{p:.1e}")
    }
}

/// `0.51%`, with two digits that count.
fn error_share(alpha: f64) -> String {
    let percent = 100.0 * alpha;
    let decimals = if percent >= 1.0 { 1 } else { (1.0 - percent.log10().floor()).clamp(1.0, 8.0) as usize };
    format!("{percent:.decimals$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_can_be_compared_with_small_errors() {
        let printed = [0.5, 0.034, 0.0071, 0.00069, 0.00071, 3.2e-9, 0.0].map(p_value);
        assert_eq!(printed, ["0.50", "0.034", "0.0071", "0.00069", "0.00071", "3.2e-9", "0.00"]);
    }
}
