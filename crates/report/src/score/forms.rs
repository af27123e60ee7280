//! A score for a terminal, as Markdown, as a page and as JSON.

use heaptrial_analysis::Estimate;
use heaptrial_judgement::score::{AtConsensuses, Figure, MatchedBy, UnlikePair};
use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment};

use super::ScoreReport;
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::table::{Detail, Emphasis, NOTHING, Row, Table, figure, optional, text};
use crate::units::{self, Pace};

impl Document for ScoreReport {
    const NAME: &'static str = "score";

    fn title(&self) -> String {
        format!("Lab against field: {}", self.field.name)
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let section = |id, title, blocks| Section { id, title, blocks };
        let mut ratios = vec![Block::Legend(format!(
            "Ratio to {}, within runs of the lab and servers of the field, with its interval; factor: the lab's ratio over the field's.",
            self.arms.first().map_or(NOTHING, |pair| pair.lab.as_str())
        ))];
        for at in &self.ages {
            let title =
                format!("At {:.0} consensuses, {}", at.consensuses, units::duration(3600.0 * at.consensuses));
            ratios.extend([Block::Heading(title.clone()), Block::Table(title, self.arms_at(at))]);
        }
        let mut sections = vec![
            section("result", "Result", vec![Block::Lead(self.sentences())]),
            section("order", "Order", vec![Block::Table("Order".to_owned(), self.orders())]),
            section("ratios", "Ratios", ratios),
            section(
                "growth",
                "Growth and verdicts",
                vec![
                    Block::Legend(
                        "Growth after warm-up: of the lab for each consensus, of the field for each hour. Factor: lab over field, \
                         where the field is shown to grow and its verdict is not inconclusive."
                            .to_owned(),
                    ),
                    Block::Table("Growth and verdicts".to_owned(), self.growing()),
                ],
            ),
            section("notes", "What to mind", vec![Block::List(self.notes.clone())]),
            section("arms", "Arms", vec![Block::Table("Arms".to_owned(), self.partners())]),
            section("runs", "Runs", vec![Block::Table("Runs".to_owned(), self.runs())]),
        ];
        if let Some(unlike) = self.unlike() {
            sections[1].blocks.push(Block::Heading("Pairs in another order".to_owned()));
            sections[1].blocks.push(Block::Table("Pairs in another order".to_owned(), unlike));
        }
        let commands: Vec<Block> = self
            .lab
            .iter()
            .filter(|run| !run.command.is_empty())
            .map(|run| Block::Command(run.command.clone()))
            .collect();
        sections.last_mut().into_iter().for_each(|runs| runs.blocks.extend(commands.iter().cloned()));
        if self.notes.is_empty() {
            sections.retain(|section| section.id != "notes");
        }
        sections
    }

    /// How the arms look: as in reports of the lab.
    fn styles(&self) -> ArmStyles {
        let arm = |(index, name): (usize, &String)| {
            let spec: Option<AllocatorSpec> = name.parse().ok();
            // A name of letters alone reads as a spec too.
            let allocator = spec.filter(|spec| FAMILIES.contains(&spec.family.as_str()));
            Arm {
                name: name.clone(),
                control: index == 0,
                treatment: Treatment { allocator, ..Treatment::default() },
            }
        };
        let arms: Vec<Arm> = self.arms.iter().map(|pair| &pair.lab).enumerate().map(arm).collect();
        ArmStyles::of(arms.iter().map(|arm| (arm, None)))
    }
}

impl ScoreReport {
    fn sentences(&self) -> Vec<String> {
        let order = self.ages.iter().map(|at| {
            if at.pairs == 0 {
                return format!(
                    "At {:.0} consensuses no two arms have a place in an order on both sides.",
                    at.consensuses
                );
            }
            let tau = at.tau_b.map_or_else(String::new, |tau| format!(" (Kendall's tau-b {tau:.2})"));
            let tied = match at.pairs_tied {
                0 => String::new(),
                tied => format!("; {tied} need the same on one side, so they have no order there"),
            };
            let shown = at.unlike.iter().filter(|pair| pair.field_separates).count();
            let shown = match (at.unlike.len(), shown) {
                (0, _) => String::new(),
                (1, 0) => "; the field's interval does not tell the one in another order apart".to_owned(),
                (1, _) => "; the field's interval tells the one in another order apart".to_owned(),
                (unlike, 0) => {
                    format!("; the field's intervals tell none of the {unlike} in another order apart")
                }
                (unlike, shown) => {
                    format!("; the field's intervals tell {shown} of the {unlike} in another order apart")
                }
            };
            format!(
                "At {:.0} consensuses lab and field order {} of {} pairs of arms alike{tau}{tied}{shown}.",
                at.consensuses, at.pairs_alike, at.pairs
            )
        });
        order.chain(self.worst()).collect()
    }

    /// The ratio that is furthest from the field's.
    fn worst(&self) -> Option<String> {
        let factors = self.ages.iter().flat_map(|at| {
            at.arms.iter().filter_map(|arm| Some((at.consensuses, arm.arm, arm.factor?.value)))
        });
        let (consensuses, arm, factor) = factors.max_by(|a, b| a.2.ln().abs().total_cmp(&b.2.ln().abs()))?;
        Some(format!(
            "The ratio furthest from the field's is that of {} at {consensuses:.0} consensuses: {} times it.",
            self.arms[arm].lab,
            units::ratio(factor)
        ))
    }

    fn orders(&self) -> Table {
        let columns =
            [figure("Consensuses"), figure("Pairs alike"), figure("Tau-b"), text("Order in the lab")];
        let rows = self.ages.iter().map(|at| {
            let order = |levels: &[Vec<usize>]| {
                let names = |arms: &Vec<usize>| {
                    arms.iter().map(|arm| self.arms[*arm].lab.clone()).collect::<Vec<_>>().join(" = ")
                };
                levels.iter().map(names).collect::<Vec<_>>().join(" < ")
            };
            row(vec![
                format!("{:.0}", at.consensuses),
                format!("{} of {}", at.pairs_alike, at.pairs),
                optional(at.tau_b, |tau| format!("{tau:.2}")),
                order(&at.order_in_lab),
                order(&at.order_in_field),
            ])
        });
        Table {
            rows: rows.collect(),
            columns: columns.into_iter().chain([text("Order in the field")]).collect(),
        }
    }

    fn unlike(&self) -> Option<Table> {
        let columns = [figure("Consensuses"), text("Less in the field"), text("More in the field")];
        let columns = columns.into_iter().chain([figure("Ratio in the field"), figure("Ratio in the lab")]);
        let columns = columns.chain([text("Told apart by the intervals of")]);
        let told = |pair: &UnlikePair| match (pair.field_separates, pair.lab_separates) {
            (true, true) => "both",
            (true, false) => "the field",
            (false, true) => "the lab",
            (false, false) => "neither",
        };
        let rows =
            self.ages.iter().flat_map(|at| at.unlike.iter().map(move |pair| (at, pair))).map(|(at, pair)| {
                row(vec![
                    format!("{:.0}", at.consensuses),
                    self.arms[pair.less].lab.clone(),
                    self.arms[pair.more].lab.clone(),
                    ratio(pair.field_ratio),
                    ratio(pair.lab_ratio),
                    told(pair).to_owned(),
                ])
            });
        Table::of(columns, rows)
    }

    fn arms_at(&self, at: &AtConsensuses) -> Table {
        let columns = [text("Arm"), figure("Lab"), figure("Field"), figure("Ratio in the lab")];
        let columns = columns.into_iter().chain([figure("Ratio in the field"), figure("Factor")]);
        let columns = columns.chain([figure("Services (lab, field)")]);
        let services = |figure: &Figure| match figure.services == figure.of {
            true => figure.of.to_string(),
            false => format!("{} of {}", figure.services, figure.of),
        };
        let rows = at.arms.iter().map(|arm| {
            let of_first = |estimate| if arm.arm == 0 { "1".to_owned() } else { ratio(estimate) };
            let cells = vec![
                self.arms[arm.arm].lab.clone(),
                units::memory(arm.lab.level_bytes as f64),
                units::memory(arm.field.level_bytes as f64),
                of_first(arm.lab.ratio),
                of_first(arm.field.ratio),
                ratio(arm.factor),
                format!("{}, {}", services(&arm.lab), services(&arm.field)),
            ];
            self.arm_row(arm.arm, cells)
        });
        Table { rows: rows.collect(), columns: columns.collect() }
    }

    fn growing(&self) -> Table {
        let columns =
            [text("Arm"), figure("Lab, each consensus"), figure("Field, each hour"), figure("Factor")];
        let columns = columns.into_iter().chain([text("Lab's verdict"), text("Field's verdict")]);
        let rows = self.growth.iter().map(|growth| {
            let verdict = |verdict: &Option<heaptrial_analysis::Verdict>| {
                optional(verdict.as_ref(), |verdict| verdict.as_str().to_owned())
            };
            let cells = vec![
                self.arms[growth.arm].lab.clone(),
                over(growth.lab_bytes_per_hour, growth.lab_hours),
                over(growth.field_bytes_per_hour, growth.field_hours),
                ratio(growth.factor),
                verdict(&growth.lab_verdict),
                verdict(&growth.field_verdict),
            ];
            self.arm_row(growth.arm, cells)
        });
        Table { rows: rows.collect(), columns: columns.collect() }
    }

    fn partners(&self) -> Table {
        let by = |by: MatchedBy| match by {
            MatchedBy::Hand => "by hand",
            MatchedBy::Spec => "family, version and settings",
            MatchedBy::Family => "family and settings; one tells no version or a part of it",
            MatchedBy::Name => "name",
        };
        let rows = self.arms.iter().enumerate().map(|(index, pair)| {
            self.arm_row(index, vec![pair.lab.clone(), pair.field.clone(), by(pair.by).to_owned()])
        });
        Table { rows: rows.collect(), columns: ["In the lab", "In the field", "Matched by"].map(text).into() }
    }

    fn runs(&self) -> Table {
        let columns = [text("Run"), text("What"), figure("Seed"), figure("Consensuses"), figure("Pace")];
        let rows = self.lab.iter().chain([&self.score.field]).map(|run| {
            row(vec![
                run.name.clone(),
                run.kind.describe().to_owned(),
                optional(run.seed, |seed| seed.to_string()),
                optional(run.consensuses, |count| count.to_string()),
                optional(run.pace, |pace| format!("{pace:.0} times life")),
                run.metric.describe().to_owned(),
            ])
        });
        Table { rows: rows.collect(), columns: columns.into_iter().chain([text("Memory")]).collect() }
    }

    fn arm_row(&self, arm: usize, cells: Vec<String>) -> Row {
        Row { arm: Some(arm), emphasis: if arm == 0 { Emphasis::Control } else { Emphasis::None }, cells }
    }
}

fn row(cells: Vec<String>) -> Row {
    Row { arm: None, emphasis: Emphasis::None, cells }
}

fn ratio(estimate: Option<Estimate>) -> String {
    optional(estimate, |estimate| {
        let value = units::ratio(estimate.value);
        match (estimate.low, estimate.high) {
            (Some(low), Some(high)) => format!("{value} ({}–{})", units::ratio(low), units::ratio(high)),
            (None, Some(high)) => format!("{value} (at most {})", units::ratio(high)),
            (Some(low), None) => format!("{value} (at least {})", units::ratio(low)),
            (None, None) => value,
        }
    })
}

/// `+40.2 MiB (+39.0 MiB to +42.2 MiB) over 118`.
fn over(estimate: Option<Estimate>, hours: Option<f64>) -> String {
    let over =
        hours.filter(|_| estimate.is_some()).map_or_else(String::new, |hours| format!(" over {hours:.0}"));
    format!("{}{over}", rate(estimate))
}

fn rate(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return NOTHING.to_owned() };
    let told = |bytes: f64| units::growth(bytes, Pace::Hour).trim_end_matches("/h").to_owned();
    match estimate.interval() {
        Some((low, high)) => format!("{} ({} to {})", told(estimate.value), told(low), told(high)),
        None => told(estimate.value),
    }
}
