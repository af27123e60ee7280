//! A search over a table of real lab runs: every candidate of a space was run in full, some times each, and a search gets
//! of the table only what it asks for. `recorded/record.py` made the table.

use crate::lab;

use heaptrial_search::tune::{Candidate, Space};
use lab::{Lab, drawn, regret, rules, searched};
use serde_json::Value;

struct Table {
    space: Space,
    /// Logarithms of levels by the candidate's levels, one for each repeat.
    runs: Vec<(Candidate, Vec<f64>)>,
    control: Vec<f64>,
}

impl Table {
    fn read() -> Self {
        let table: Value = serde_json::from_str(include_str!("../recorded/table.json")).unwrap();
        let space: Space = serde_json::from_value(table["space"].clone()).unwrap();
        let runs: Vec<(Candidate, Vec<f64>)> = table["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| {
                let levels: Vec<usize> = serde_json::from_value(run["levels"].clone()).unwrap();
                let bytes: Vec<f64> = serde_json::from_value(run["bytes"].clone()).unwrap();
                (Candidate { base: 0, levels }, bytes.iter().map(|bytes| bytes.ln()).collect())
            })
            .collect();
        let control = runs.iter().find(|(candidate, _)| candidate.levels.iter().all(|level| *level == 0));
        let control = control.unwrap().1.clone();
        Self { space, runs, control }
    }

    fn of(&self, candidate: &Candidate) -> &[f64] {
        &self.runs.iter().find(|(known, _)| known == candidate).unwrap().1
    }
}

impl Lab for Table {
    fn space(&self) -> &Space {
        &self.space
    }

    fn run(&self, candidate: Option<&Candidate>, seed: u64) -> f64 {
        let runs = candidate.map_or(self.control.as_slice(), |candidate| self.of(candidate));
        runs[(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % runs.len()]
    }

    fn truth(&self, candidate: &Candidate) -> f64 {
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        mean(self.of(candidate)) - mean(&self.control)
    }
}

#[test]
fn a_quarter_of_the_runs_finds_a_setting_within_5_percent_of_the_best_in_9_of_10_seeds() {
    let table = Table::read();
    let whole: usize = table.runs.iter().map(|(_, runs)| runs.len()).sum();
    let (runs, arms) = (whole / 4, 4);
    let near = 1.05_f64.ln();
    let (mut by_search, mut by_drawing) = (0, 0);
    for seed in 0..40 {
        let (search, winner) = searched(&table, rules(arms), runs, seed);
        let spent: usize = search.blocks().iter().map(|block| block.arms.len() + 1).sum();
        assert!(spent <= runs);
        by_search += usize::from(winner.is_some_and(|winner| regret(&table, &winner) <= near));
        by_drawing += usize::from(regret(&table, &drawn(&table, arms, runs, seed)) <= near);
    }
    println!(
        "{} candidates, {whole} runs, {runs} spent: {by_search} of 40 searches, {by_drawing} by drawing",
        table.runs.len()
    );
    assert!(by_search >= 36, "{by_search} of 40, {by_drawing} by drawing");
}
