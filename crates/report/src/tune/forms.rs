//! A search over settings for a terminal, as Markdown and as a page.

use heaptrial_search::tune::{Against, Doubt, DropReason, Effect, Figure, Standing};

use super::{TuneReport, VerifiedArm};
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Table, optional, table_section};
use crate::units;

const LISTED: usize = 60;

const VERIFIED: &str =
    "Ratios of blocks that the search never saw, with intervals. Predicted: what the search believed.";
const EFFECTS: &str = "Memory relative to the setting with its default, in the mean over the measured candidates of the allocator with \
                       everything else as it is in them: posterior of the search's model, from candidates that were chosen and not drawn.";
const CANDIDATES: &str = "In proportion to the control, as the search predicts it; CPU time as measured. No result: the best of many look \
                          better than they are.";
const INTO_TRIAL: &str = "heaptrial trial new NAME --services PATTERN --from-tune FOLDER";

fn ratio_of(log_ratio: f64) -> String {
    units::ratio(log_ratio.exp())
}

fn interval_of((low, high): (f64, f64)) -> String {
    format!("{} to {}", ratio_of(low), ratio_of(high))
}

fn noun(figure: Figure) -> &'static str {
    match figure {
        Figure::Level => "memory",
        Figure::Cpu => "CPU time",
        Figure::Work => "work missed",
    }
}

/// Why a candidate is out.
fn reason(dropped: &DropReason) -> String {
    match dropped {
        DropReason::Worse { than: Some(than), log_ratio } => {
            format!("no better than {than} ({} times)", ratio_of(*log_ratio))
        }
        DropReason::Worse { than: None, log_ratio } => {
            format!("worse than the control ({} times)", ratio_of(*log_ratio))
        }
        DropReason::Limit { figure, log_ratio } => {
            format!("{}: {} times the control's", noun(*figure), ratio_of(*log_ratio))
        }
        DropReason::Missing { figure: Figure::Work } => "it did no work, and the control did".to_owned(),
        DropReason::Missing { figure } => {
            format!("{}: there is no figure of it, and one of the control", noun(*figure))
        }
        DropReason::Failed { message } => format!("failed: {message}"),
    }
}

impl TuneReport {
    fn lead(&self) -> Vec<String> {
        let mut sentences = self.run.sentences();
        let control = &self.control;
        match &self.verified {
            None => sentences.push(match self.measured() {
                0 => "Nothing was measured.".to_owned(),
                measured => format!(
                    "None of {} was verified; the table of candidates says why they are out.",
                    units::counted(measured, "measured candidate")
                ),
            }),
            Some(verified) if verified.blocks < verified.asked => sentences.push(format!(
                "{} of {} of the verification are there: what the search predicts is no result before all of them are.",
                verified.blocks,
                units::counted(verified.asked, "block")
            )),
            Some(verified) => {
                let winners = self.winners();
                if winners.is_empty() {
                    let blocks = units::counted(verified.blocks, "block");
                    sentences.push(format!(
                        "Nothing is shown to be better than {control} by {blocks} on seeds that the search never saw."
                    ));
                }
                sentences.extend(winners.into_iter().filter_map(|arm| {
                    let level = arm.against(None, Figure::Level)?;
                    let (ratio, interval) = (ratio_of(level.log_ratio), optional(level.interval, interval_of));
                    Some(format!("{} needs {ratio} ({interval}) times the memory of {control}.", arm.spec))
                }));
            }
        }
        sentences
    }

    fn measured(&self) -> usize {
        self.candidates.iter().filter(|one| one.blocks > 0).count()
    }

    /// What fresh blocks show of an arm; nothing before all of them are there.
    fn result_of(&self, arm: &VerifiedArm) -> Option<String> {
        let verified = self.verified.as_ref().filter(|_| self.is_verified())?;
        let limit = |figure: Figure, most: f64| format!("the limit of {} ({})", noun(figure), ratio_of(most));
        Some(match self.doubt(arm) {
            _ if arm.failed.is_some() => "failed".to_owned(),
            None => {
                let open = self.open_limits(arm);
                let open = open.map(|(figure, most)| format!("; not shown to keep {}", limit(figure, most)));
                format!("better{}", open.collect::<String>())
            }
            Some(Doubt::Missing { figure, blocks }) => format!(
                "{}, which has a limit, is measured in {blocks} of {} blocks only",
                noun(figure),
                verified.blocks
            ),
            Some(Doubt::BreaksLimit { figure, most }) => format!("breaks {}", limit(figure, most)),
            Some(Doubt::Worse) => "needs more".to_owned(),
            Some(Doubt::WithinMargin) => {
                format!("better by less than {:.1}% (--margin)", 100.0 * self.margin.exp_m1())
            }
            Some(Doubt::NotBetter) => "not shown to be better".to_owned(),
        })
    }

    fn verified_table(&self) -> Option<Table> {
        type Compared<'a> = (&'a VerifiedArm, &'a Against);
        let verified = self.verified.as_ref().filter(|verified| verified.blocks > 0)?;
        let rows = verified.arms.iter().flat_map(|arm| arm.against.iter().map(move |against| (arm, against)));
        let decides =
            |(_, against): &Compared<'_>| against.figure == Figure::Level && against.other.is_none();
        Columns::of("Candidate", |(arm, _): &Compared<'_>| arm.spec.clone())
            .text("Of", |(_, against)| Some(noun(against.figure).to_owned()))
            .text("To", |(_, against)| against.other.clone().or_else(|| Some(self.control.clone())))
            .figure("Ratio", |(_, against)| Some(ratio_of(against.log_ratio)))
            .figure("Interval", |(_, against)| against.interval.map(interval_of))
            .figure("Predicted", move |row| Some(ratio_of(row.0.believed.filter(|_| decides(row))?.0)))
            .text("Result", move |row| self.result_of(row.0).filter(|_| decides(row)))
            .table(rows)
    }

    fn candidates_table(&self) -> Option<Table> {
        let memory = |(mean, sd): (f64, f64)| match self.is_noise_known() {
            true => format!("{} ± {:.0}%", ratio_of(mean), 200.0 * sd),
            false => ratio_of(mean),
        };
        let limits = self.limits.given();
        let limits = limits.map(|(figure, most)| format!("{} of {}", noun(figure), ratio_of(most)));
        let limits = format!("limits not kept ({})", limits.collect::<Vec<_>>().join(", "));
        Columns::of("Candidate", |one: &&Standing| one.spec.clone())
            .figure("Blocks", |one| Some(one.blocks.to_string()))
            .figure("Memory", move |one| one.believed.filter(|_| one.blocks > 0).map(memory))
            .figure("CPU time", |one| one.cpu.map(ratio_of))
            .text("Out", move |one| {
                one.dropped.as_ref().map(reason).or_else(|| (!one.within).then(|| limits.clone()))
            })
            .table(self.candidates.iter().take(LISTED))
    }

    fn effects_table(&self) -> Option<Table> {
        let interval = |effect: &&Effect| {
            let (mean, reach) = (effect.log_ratio, 2.0 * effect.sd);
            self.is_noise_known().then(|| interval_of((mean - reach, mean + reach)))
        };
        Columns::of("Allocator", |effect: &&Effect| effect.base.clone())
            .text("Setting", |effect| Some(format!("{}={}", effect.setting, effect.value)))
            .figure("Candidates", |effect| Some(effect.candidates.to_string()))
            .figure("Ratio", |effect| Some(ratio_of(effect.log_ratio)))
            .figure("± 2 sd", interval)
            .table(&self.effects)
    }

    fn notes(&self) -> Vec<String> {
        let out = self.candidates.iter().filter(|one| one.dropped.is_some()).count();
        let possible = self.possible.map_or("more than can be counted".to_owned(), |count| count.to_string());
        let searched = units::counted(self.run.blocks.iter().filter(|block| !block.fresh).count(), "block");
        let mut notes = vec![
            format!(
                "Measured {} of {possible} candidates in {searched}; {out} are out. Other settings were not explored.",
                self.measured()
            ),
            format!(
                "A candidate is dropped when it is shown not to beat another by more than {:.1}%; the probability that the best \
                 of the measured was dropped is below {:.0}%, if noise is normal and of one size.",
                100.0 * self.margin.exp_m1(),
                100.0 * self.error
            ),
        ];
        if let Some(verified) = &self.verified {
            let blocks = units::counted(verified.blocks, "block");
            notes.push(format!(
                "Intervals are Student's over {blocks} on fresh seeds, with {:.0}% confidence for all winners together.",
                100.0 * verified.level
            ));
            let failed = verified.arms.iter().filter_map(|arm| Some((&arm.spec, arm.failed.as_ref()?)));
            let failed = failed.map(|(spec, why)| format!("{spec} failed in the verification: {why}."));
            notes.extend(failed.chain(verified.failed.iter().map(|(spec, times, why)| {
                format!("{spec} failed in {times} of {blocks}, which are not compared with it: {why}.")
            })));
        }
        notes.extend(self.noise.map(|(noise, freedom)| {
            let noise = 100.0 * noise;
            format!(
                "Runs of a block repeat to {noise:.1}% (standard deviation, {freedom} degrees of freedom)."
            )
        }));
        notes
    }
}

impl Document for TuneReport {
    const NAME: &'static str = "tune";

    fn title(&self) -> String {
        format!("Settings of {}", self.over.join(", "))
    }

    fn styles(&self) -> ArmStyles {
        let over = self.over.iter().map(|spec| (spec.as_str(), *spec == self.control));
        ArmStyles::of_treatments(std::iter::once((self.control.as_str(), true)).chain(over))
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let legend = |text: &str| Some(text.to_owned());
        let trial = vec![Block::Command(INTO_TRIAL.to_owned())];
        let sections = [
            Some(section("result", "Result", vec![Block::Lead(self.lead())])),
            table_section("verified", "On fresh seeds", legend(VERIFIED), self.verified_table()),
            table_section("effects", "What each setting does", legend(EFFECTS), self.effects_table()),
            table_section(
                "candidates",
                "Candidates that were measured",
                legend(CANDIDATES),
                self.candidates_table(),
            ),
            Some(section("notes", "Caveats", vec![Block::List(self.notes())])),
            self.found().then(|| section("trial", "Into a trial", trial)),
        ];
        sections.into_iter().chain(self.run.sections()).flatten().collect()
    }
}
