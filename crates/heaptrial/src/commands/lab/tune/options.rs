//! What a search over settings can be asked for.

use std::path::PathBuf;

use clap::Args;
use heaptrial_allocator::Narrowed;
use heaptrial_model::AllocatorSpec;
use heaptrial_search::tune::{Limits, Rules};

use crate::commands::lab::RunOptions;
use crate::commands::lab::search::Load;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;

/// Work may be less by this factor where nobody says how much less.
const WORK_WITHIN: f64 = 1.11;

/// Blocks of a search that nobody gave any.
const BLOCKS: usize = 12;

#[derive(Debug, Args)]
pub struct TuneOptions {
    /// The allocators whose settings are searched, such as glibc,jemalloc@5.3.0,mimalloc@2.0.9. What a SPEC sets stays set
    #[arg(long, value_name = "SPEC", value_delimiter = ',')]
    pub(super) over: Vec<AllocatorSpec>,
    /// Search this setting, over the catalog's values or these; repeat it [default: the usual settings of each allocator]
    #[arg(long = "setting", value_name = "NAME[=VALUE,...]", value_parser = narrowed)]
    pub(super) settings: Vec<Narrowed>,
    /// What all is compared with
    #[arg(long, default_value = "glibc", value_name = "SPEC")]
    pub(super) control: AllocatorSpec,
    /// The best that is known: winners are verified against it; repeat it
    #[arg(long, value_name = "SPEC")]
    pub(super) beside: Vec<AllocatorSpec>,
    /// The most CPU time, as a factor of the control's, such as 1.05
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(super) cpu_within: Option<f64>,
    /// The least work, where there is any: a latency of FACTOR times the control's, a rate of 1/FACTOR
    /// [default: lab run's --work-margin, or 1.11]
    #[arg(long, value_name = "FACTOR", value_parser = factor, hide_short_help = true)]
    pub(super) work_within: Option<f64>,
    /// Settings that differ by less than this factor are as good as each other
    #[arg(long, default_value_t = 1.01, value_name = "FACTOR", value_parser = factor)]
    pub(super) margin: f64,
    /// Candidates that run alongside the control in each block: the best so far, and others
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=50))]
    pub(super) candidates: u32,
    /// Blocks to search in [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(super) blocks: Option<u32>,
    /// Winners that are verified at most
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(super) winners: u32,
    /// Blocks in which winners are verified, on seeds that the search never saw
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) verify: u32,
    /// Go on with a search that was interrupted, as it was asked for; --blocks gives it more
    #[arg(long = "continue", value_name = "FOLDER", conflicts_with_all = ["over", "settings", "control",
          "beside", "cpu_within", "work_within", "margin", "candidates", "winners", "verify"])]
    pub(super) goes_on: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) load: Option<Load>,
}

fn factor(text: &str) -> Result<f64, ValueError> {
    number(text, 1.0..=100.0, "a factor from 1 to 100, such as 1.05")
}

fn narrowed(text: &str) -> Result<Narrowed, ValueError> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> =
        values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
    if name.is_empty() || (text.contains('=') && values.is_empty()) {
        return Err(ValueError::Expected("NAME or NAME=VALUE,VALUE, such as arena_max=1,2,4"));
    }
    Ok(Narrowed { name: name.to_owned(), values })
}

impl TuneOptions {
    /// What winners are verified against: each once, and not the control, which is in every block anyway.
    pub(super) fn others(&self) -> Vec<&AllocatorSpec> {
        let mut others: Vec<&AllocatorSpec> = Vec::new();
        for spec in &self.beside {
            if !others.iter().chain([&&self.control]).any(|known| known.is_same(spec)) {
                others.push(spec);
            }
        }
        others
    }

    /// Blocks of the search, without those of the verification.
    pub(super) fn search_blocks(&self) -> usize {
        self.blocks.map_or(BLOCKS, |blocks| blocks as usize)
    }

    pub(in super::super) fn load(&self) -> Result<&Load, Failure> {
        Load::asked(self.load.as_ref())
    }

    /// As rules of a search.
    pub(super) fn rules(&self) -> Result<Rules, Failure> {
        let load = self.load()?;
        let program = load.program();
        let within = self.work_within.or(program.and_then(RunOptions::work_margin));
        let work = match (within, program.is_none_or(RunOptions::has_work)) {
            (None, false) => None,
            (Some(_), false) => {
                return Err(Failure::usage(
                    "a limit of work is given, but no work: `run --work NAME=SOURCE` names where it is read",
                ));
            }
            (within, true) => Some(within.unwrap_or(WORK_WITHIN).ln()),
        };
        Ok(Rules {
            limits: Limits { cpu: self.cpu_within.map(f64::ln), work },
            arms: self.candidates as usize,
            margin: self.margin.ln(),
            error: 0.05,
            winners: self.winners as usize,
        })
    }
}
