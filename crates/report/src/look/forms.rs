//! What a look shows.

use heaptrial_evaluate::analysis::ENUMERATED_AT_MOST;

use super::LookReport;
use crate::document::Severity;
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::remarks::NO_WORK;
use crate::table::{Columns, Detail, Emphasis, Table, optional, whole};
use crate::text::{date_and_time, names, sentence, severity};
use crate::{finding_text, units};

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
        let arms = self.table().map(|table| Block::Table("Arms".to_owned(), table));
        let mut blocks = Vec::from_iter(arms);
        let notes = self.notes();
        if !notes.is_empty() {
            blocks.push(Block::Heading("Caveats".to_owned()));
            blocks.push(Block::List(notes));
        }
        blocks.push(Block::Heading(result));
        vec![section("look", "", blocks)]
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

    fn table(&self) -> Option<Table> {
        let decides = self.number.is_some();
        let of = |arm: &usize| &self.arms[*arm];
        let control_or = |arm: &usize, text: Option<String>| match of(arm).control {
            true => Some("control".to_owned()).filter(|_| decides),
            false => text,
        };
        Columns::of("Arm", |arm: &usize| of(arm).name.clone())
            .figure("Services", |arm| {
                let (treated, all) = (of(arm).services_treated, of(arm).services);
                Some(if treated == all { all.to_string() } else { format!("{treated} of {all}") })
            })
            .figure("Non-compliant", |arm| Some(of(arm).events.contaminated_lives.to_string()))
            .figure("Level", |arm| whole(of(arm).level_bytes))
            .figure(&format!("Ratio ({})", self.level()), move |arm| {
                control_or(arm, of(arm).ratio.as_ref().map(ToString::to_string))
            })
            .figure("Adj. p", |arm| {
                let mark = if of(arm).assumes_normality { "*" } else { "" };
                Some(format!("{}{mark}", p_value(of(arm).p_value_adjusted?)))
            })
            .text("Growth", |arm| of(arm).verdict.clone())
            .figure("Work", move |arm| {
                let work = of(arm).work.as_ref()?;
                control_or(arm, work.ratio.as_ref().map(|ratio| units::ratio(ratio.estimate.value)))
            })
            .figure("Crashes", |arm| Some(of(arm).events.crashes.to_string()))
            .figure("OOM kills", |arm| Some(of(arm).events.oom_kills.to_string()))
            .table_of_arms(0..self.arms.len(), |arm| {
                let emphasis = match (of(arm).control, of(arm).level_bytes) {
                    (true, _) => Emphasis::Control,
                    (_, None) => Emphasis::Lost,
                    _ => Emphasis::None,
                };
                (Some(*arm), emphasis)
            })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(gap) = self.accepted_gap_seconds {
            notes.push(format!(
                "The last reading is {} before the planned time; the look was taken because --accept-gap said so.",
                units::duration(gap)
            ));
        }
        let assuming = self.arms.iter().filter(|arm| arm.assumes_normality);
        let assuming: Vec<&str> = assuming.map(|arm| arm.name.as_str()).collect();
        if !assuming.is_empty() {
            notes.push(format!(
                "* Student's t ({}), which takes the logarithms of memory as normal: a permutation test over at most \
                 {ENUMERATED_AT_MOST} assignments cannot resolve this look's level.",
                names(&assuming, NAMED)
            ));
        }
        if self.number.is_some() && self.arms.iter().all(|arm| arm.work.is_none()) {
            notes.push(NO_WORK.to_owned());
        }
        for arm in self.arms.iter().filter(|arm| arm.services != arm.services_treated) {
            let level = arm.level_bytes_as_assigned.or(arm.level_bytes);
            let ratio = arm.ratio_as_assigned.iter().map(|ratio| format!(", ratio {ratio}"));
            notes.push(format!(
                "{}: as assigned, over all {} services, {}{}; the table is without non-compliant services.",
                arm.name,
                arm.services,
                optional(whole(level), |level| level),
                ratio.collect::<String>()
            ));
        }
        let found = self.findings.iter().filter(|finding| finding.severity != Severity::Note);
        notes.extend(found.map(|finding| {
            let title = finding_text::of(finding.kind).0;
            format!("{}: {title}: {}", severity(finding.severity), sentence(&finding.evidence))
        }));
        notes
    }
}

/// With two digits that count: it is to be compared with an error that may be far below 0.001.
fn p_value(p: f64) -> String {
    match p {
        p if p >= 0.0995 || p == 0.0 => format!("{p:.2}"),
        p if p < 1e-4 => format!("{p:.1e}"),
        p => {
            let decimals = (1.0 - p.log10().floor()) as usize;
            format!("{p:.decimals$}")
        }
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
