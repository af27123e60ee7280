//! A search over settings for a terminal, as Markdown, as a page and as JSON.

use heaptrial_model::{AllocatorSpec, Arm, Treatment};
use heaptrial_search::tune::Figure;

use super::{TuneReport, noun};
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::table::{Detail, NOTHING, Table, figure, row, table_section, text};
use crate::units;

/// Candidates that a table lists.
const LISTED: usize = 60;

impl TuneReport {
    fn verified_table(&self) -> Option<Table> {
        let verified = self.verified.as_ref().filter(|verified| verified.blocks > 0)?;
        let columns = [
            text("Candidate"),
            text("Of"),
            text("To"),
            figure("Ratio"),
            figure("Interval"),
            figure("Believed"),
        ];
        let rows = verified.arms.iter().flat_map(|arm| {
            arm.against.iter().map(move |(other, against)| {
                let interval = against.interval.map_or(NOTHING.to_owned(), |(low, high)| {
                    format!("{}–{}", units::ratio(low.exp()), units::ratio(high.exp()))
                });
                let is_believed = against.figure == Figure::Level && other.is_none();
                let believed = arm.believed.filter(|_| is_believed);
                row(vec![
                    arm.spec.clone(),
                    noun(against.figure).to_owned(),
                    other.clone().unwrap_or_else(|| self.control.clone()),
                    units::ratio(against.log_ratio.exp()),
                    interval,
                    believed.map_or(NOTHING.to_owned(), |(mean, _)| units::ratio(mean.exp())),
                ])
            })
        });
        Table::of(columns, rows)
    }

    fn candidates_table(&self) -> Option<Table> {
        let columns = [text("Candidate"), figure("Blocks"), figure("Memory"), figure("CPU time"), text("")];
        let rows = self.candidates.iter().take(LISTED).map(|one| {
            let mut cells = vec![one.spec.clone(), one.blocks.to_string()];
            let believed = one.believed.filter(|_| one.blocks > 0);
            cells.push(believed.map_or(NOTHING.to_owned(), |(mean, sd)| {
                let sure =
                    if self.is_noise_known() { format!(" ± {:.0}%", 200.0 * sd) } else { String::new() };
                format!("{}{sure}", units::ratio(mean.exp()))
            }));
            cells.push(one.cpu.map_or(NOTHING.to_owned(), |cpu| units::ratio(cpu.exp())));
            let broken = || (!one.within).then(|| format!("limits not kept: {}", self.broken(&one.limited)));
            cells.push(one.out.clone().or_else(broken).unwrap_or_default());
            row(cells)
        });
        Table::of(columns, rows)
    }

    fn broken(&self, limited: &[(Figure, f64)]) -> String {
        let over = self.limits.given().filter_map(|(figure, most)| {
            match limited.iter().find(|(known, _)| *known == figure) {
                Some((_, ratio)) if *ratio <= most => None,
                Some((_, ratio)) => Some(format!("{} {}", noun(figure), units::ratio(ratio.exp()))),
                None => Some(format!("{} not measured", noun(figure))),
            }
        });
        over.collect::<Vec<_>>().join(", ")
    }

    fn effects_table(&self) -> Option<Table> {
        let columns =
            [text("Allocator"), text("Setting"), figure("Candidates"), figure("Ratio"), figure("± 2 sd")];
        let rows = self.effects.iter().map(|effect| {
            let ends = [-2.0, 2.0].map(|sds| units::ratio((effect.log_ratio + sds * effect.sd).exp()));
            row(vec![
                effect.base.clone(),
                format!("{}={}", effect.setting, effect.value),
                effect.candidates.to_string(),
                units::ratio(effect.log_ratio.exp()),
                if self.is_noise_known() { ends.join("–") } else { NOTHING.to_owned() },
            ])
        });
        Table::of(columns, rows)
    }

    fn blocks_table(&self) -> Option<Table> {
        let columns = [figure("Block"), text("Seeds"), figure("Control"), text("Candidates")];
        let rows = self.blocks.iter().map(|block| {
            let arms = block.arms.iter().map(|(spec, bytes)| format!("{spec} {}", units::memory(*bytes)));
            row(vec![
                block.number.to_string(),
                if block.fresh { "fresh" } else { "search" }.to_owned(),
                units::memory(block.control_bytes),
                arms.collect::<Vec<_>>().join(", "),
            ])
        });
        Table::of(columns, rows)
    }

    /// The arms as a trial's description has them.
    fn arms_text(&self) -> String {
        let arms = self.arms().into_iter().enumerate().map(|(at, spec)| {
            let control = if at == 0 { "control = true\n" } else { "" };
            format!("[[arm]]\nname = \"{spec}\"\n{control}allocator = \"{spec}\"\n")
        });
        arms.collect::<Vec<_>>().join("\n")
    }
}

impl Document for TuneReport {
    const NAME: &'static str = "tune";

    fn title(&self) -> String {
        format!("Settings of {}", self.over.join(", "))
    }

    fn styles(&self) -> ArmStyles {
        let arm = |spec: &str, control| Arm {
            name: spec.to_owned(),
            control,
            treatment: Treatment { allocator: spec.parse::<AllocatorSpec>().ok(), ..Treatment::default() },
        };
        let arms: Vec<Arm> = std::iter::once(arm(&self.control, true))
            .chain(self.over.iter().map(|spec| arm(spec, false)))
            .collect();
        ArmStyles::of(arms.iter().map(|arm| (arm, None)))
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let section = |id, title, blocks| Section { id, title, blocks };
        let mut sentences = self.sentences();
        let others = sentences.split_off(sentences.len().min(1));
        let others = (!others.is_empty()).then_some(Block::List(others));
        let result = [Block::Lead(sentences)].into_iter().chain(others).collect();
        let mut sections = vec![section("result", "Result", result)];
        sections.extend(table_section(
            "verified",
            "On fresh seeds",
            Some(
                "Ratios of blocks that the search never saw, with intervals, and what the search believed."
                    .to_owned(),
            ),
            self.verified_table(),
        ));
        let effects = "Memory relative to the setting with its default, in the mean over the measured candidates of the allocator with everything \
             else as it is in them: posterior of the search's model, from candidates that were chosen and not drawn.";
        sections.extend(table_section(
            "effects",
            "What each setting does",
            Some(effects.to_owned()),
            self.effects_table(),
        ));
        let candidates = "In proportion to the control, as the search believes it; CPU time as measured. No result: the best of many look better \
             than they are.";
        sections.extend(table_section(
            "candidates",
            "Candidates that were measured",
            Some(candidates.to_owned()),
            self.candidates_table(),
        ));
        sections.push(section("notes", "What to mind", vec![Block::List(self.notes())]));
        sections.extend(table_section("blocks", "Blocks", None, self.blocks_table()));
        if self.found() {
            let text = "For a trial: `heaptrial trial new NAME --services PATTERN --from-tune FOLDER`, or these arms.";
            let blocks = vec![Block::Text(text.to_owned()), Block::Verbatim(self.arms_text())];
            sections.push(section("trial", "Into a trial", blocks));
        }
        sections.push(section("again", "Again", vec![Block::Command(self.command.clone())]));
        sections
    }
}
