//! `heaptrial lab score`: how well lab runs of relays predicted a trial in the field.

use std::path::Path;

use clap::Args;
use heaptrial_evaluate::judgement::score::Side;
use heaptrial_model::Metric;
use heaptrial_report::{Options, ScoreReport};

use crate::answer::Answer;
use crate::commands::report::written;
use crate::commands::value::ValueError;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;
use crate::target::Target;

#[derive(Debug, Args)]
pub struct ScoreOptions {
    /// Lab runs of relays: folders or databases. Several, of one set-up with other seeds, are repeats of one
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// The trial in the field: an import or a field trial
    #[arg(long, value_name = "TRIAL")]
    against: String,
    /// Compare at these numbers of consensuses, which are hours of the field [default: those of 24, 72 and 120 that both
    /// reached, else the most that both did]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    at: Vec<u32>,
    /// An arm of the lab and the arm of the field that is the same; repeat it. Others match by equal allocators, versions and settings
    #[arg(long = "match", value_name = "LAB=FIELD")]
    matches: Vec<String>,
    /// The reading of the lab that is compared: rss or anon [default: the run's own]
    #[arg(long, value_name = "METRIC", value_parser = metric, hide_short_help = true)]
    metric: Option<Metric>,
}

pub fn run(options: &ScoreOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let how = Options::default();
    let side = |run: &String| -> Result<Side, Failure> {
        let run = Target::find(Some(run), global)?;
        Ok(Side::of_lab(&run.store, run.trial.id, options.metric, &how)?)
    };
    let mut lab = side(&options.runs[0])?;
    for run in &options.runs[1..] {
        lab.join(side(run)?, &how)?;
    }
    let against = Target::find(Some(&options.against), global)?;
    let field = Side::of_field(&against.store, against.trial.id, &how)?;
    let ages: Vec<f64> = options.at.iter().map(|consensuses| f64::from(*consensuses)).collect();
    let score = ScoreReport::of(&lab, &field, &ages, &options.matches)?;
    let folder = global.out.clone().unwrap_or_else(|| Path::new(RUNS).join("score"));
    written(&score, &folder, global)
}

fn metric(text: &str) -> Result<Metric, ValueError> {
    match text {
        "rss" => Ok(Metric::Rss),
        "anon" => Ok(Metric::Anon),
        _ => Err(ValueError::Expected("rss or anon")),
    }
}
