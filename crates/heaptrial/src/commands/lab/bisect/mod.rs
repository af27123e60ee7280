//! `heaptrial lab bisect`: which release or commit changed the memory.

mod known;
mod report;
mod subject;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_allocator::Obtained;
use heaptrial_lab::Arrangement;
use heaptrial_model::{AllocatorSpec, HumanDuration};
use heaptrial_report::{BisectReport, Document as _, SearchRun, units};
use heaptrial_search::MeasuredBlock;
use heaptrial_search::bisect::{Rules, Search};

use self::known::{given_up, same_build};
use self::subject::{History, Subject};
use super::search::{self, Ask, Earlier, Kept, Load, Next, Record, Step, Wanted};
use super::{LabCommand, LabOptions, userland};
use crate::answer::Answer;
use crate::commands::Command;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

const WHAT: &str = "the builds";

#[derive(Debug, Args)]
pub struct BisectOptions {
    /// The allocator that is as it should be, such as mimalloc@2.1.7. Settings hold for every build, and are the same in --bad
    #[arg(long, value_name = "SPEC")]
    good: Option<AllocatorSpec>,
    /// The one that is not; it may be older than --good
    #[arg(long, value_name = "SPEC")]
    bad: Option<AllocatorSpec>,
    /// Search upstream's commits, in a git repository on this machine, bare or not (or a folder that holds it by name), and
    /// build every one from it; without it the releases of the catalog are searched
    #[arg(long, value_name = "DIR")]
    mirror: Option<PathBuf>,
    /// The commit that is good (a revision of --mirror), instead of that of its release
    #[arg(long, value_name = "REV", requires = "mirror")]
    good_commit: Option<String>,
    /// The commit that is bad
    #[arg(long, value_name = "REV", requires = "mirror")]
    bad_commit: Option<String>,
    /// How sure the answer has to be
    #[arg(long, default_value_t = 0.95, value_name = "P", value_parser = confidence)]
    confidence: f64,
    /// Most blocks, each of which runs the older end and one build [default: 6 for each halving of the history]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=10_000))]
    blocks: Option<u32>,
    /// Go on with a search that ended early, as it was asked for; --blocks gives it more
    #[arg(long = "continue", value_name = "FOLDER",
          conflicts_with_all = ["good", "bad", "mirror", "good_commit", "bad_commit", "confidence"])]
    goes_on: Option<PathBuf>,
    #[command(subcommand)]
    load: Option<Load>,
}

fn confidence(text: &str) -> Result<f64, ValueError> {
    number(text, 0.5..=0.9999, "a probability from 0.5 to 0.9999, such as 0.95")
}

/// Searches, or goes on with it.
pub fn run(options: &BisectOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let Some(folder) = &options.goes_on else { return begin(options, global) };
    let earlier = Earlier::<History>::open(BisectReport::NAME, folder, options.load.as_ref())?;
    let Command::Lab(LabCommand::Bisect(asked)) = &earlier.command else {
        return Err(Failure::refused(format!("{} holds no search over a history", folder.display())));
    };
    earlier.enter(asked.load()?.lab(WHAT)?, global)?;
    search(asked, &earlier.kept, &earlier.folder, options.blocks.or(asked.blocks), global)
}

fn begin(options: &BisectOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let load = options.load()?;
    let lab = load.lab(WHAT)?;
    let mirror: Vec<&Path> = options.mirror.iter().map(PathBuf::as_path).collect();
    userland::enter(lab, global, &mirror)?;
    let subject = Subject::find(options)?;
    let (workload, duration) = search::workload_of(load, &subject.plan(), global)?;
    let one_by_one = if workload.arrangement() == Arrangement::OneByOne { 2 } else { 1 };
    let block = duration.map(|duration| HumanDuration(duration.0 * one_by_one));
    let rules = rules(options, options.blocks, subject.history.positions.len());
    if lab.dry_run {
        return Ok(report::plan(&subject, rules, block));
    }
    lab.cluster(PathBuf::new())?;
    eprintln!("{}", report::plan_line(&subject, rules, block));
    // What cannot be had is reported before anything is written.
    let name = |end: usize| &subject.history.positions[end].name;
    let of_end = |end: usize| -> Result<String, Failure> {
        let obtained = subject.obtain(end, lab)?;
        obtained
            .map(|obtained| obtained.sha256)
            .map_err(|why| Failure::refused(format!("{} cannot be measured: {why}", name(end))))
    };
    let (older, newer) = (of_end(0)?, of_end(subject.last())?);
    if older == newer {
        return Err(Failure::refused(format!(
            "{} and {} build the same library, byte for byte (SHA-256 {older}): there is nothing to search for between them",
            name(0),
            name(subject.last())
        )));
    }
    let builds = BTreeMap::from([(name(0).clone(), older)]);
    let (kept, folder) = search::keep(BisectReport::NAME, lab, builds, subject.history, global)?;
    search(options, &kept, &folder, options.blocks, global)
}

impl BisectOptions {
    pub(super) fn load(&self) -> Result<&Load, Failure> {
        Load::asked(self.load.as_ref())
    }
}

fn rules(options: &BisectOptions, blocks: Option<u32>, positions: usize) -> Rules {
    let usual = Rules { confidence: options.confidence, ..Rules::for_history(positions.saturating_sub(1)) };
    Rules { most_blocks: blocks.map_or(usual.most_blocks, |blocks| blocks as usize), ..usual }
}

/// Measures until it is found, and reports what there is.
fn search(
    options: &BisectOptions,
    kept: &Kept<History>,
    folder: &Path,
    blocks: Option<u32>,
    global: &GlobalOptions,
) -> Result<Answer, Failure> {
    let subject = Subject::kept(options, kept.subject.clone())?;
    let plan = subject.plan();
    let rules = rules(options, blocks, subject.history.positions.len());
    let bisect = Bisect {
        search: Search::new(subject.last(), subject.releases(), rules),
        subject,
        confidence: options.confidence,
        builds: &kept.builds,
    };
    search::drive(bisect, kept, folder, options.load()?, &plan, global)
}

/// A search over a history.
struct Bisect<'a> {
    subject: Subject,
    search: Search,
    confidence: f64,
    builds: &'a BTreeMap<String, String>,
}

impl Bisect<'_> {
    fn name(&self, position: usize) -> &str {
        &self.subject.history.positions[position].name
    }

    fn wanted(&self, position: usize) -> Wanted {
        let name = self.name(position).to_owned();
        Wanted { at: position, build: name.clone(), name, spec: self.subject.spec(position) }
    }

    /// A line after a block, which has one build beside the older end.
    fn progress(&self, block: &MeasuredBlock) -> String {
        let arms = block.arms.iter().map(|arm| match &arm.figures {
            Ok(figures) => {
                let ratio = units::ratio((figures.level - block.control.level).exp());
                format!("{} {ratio} times {}", arm.name, self.name(0))
            }
            Err(why) => format!("{} failed: {why}", arm.name),
        });
        let arms = arms.collect::<Vec<_>>().join(", ");
        let posterior = self.search.posterior();
        let likeliest = posterior.as_ref().and_then(|posterior| posterior.likeliest()).map(|gap| {
            let share = units::share(gap.probability);
            format!("; a change after {} up to {} ({share})", self.name(gap.after), self.name(gap.to))
        });
        format!("block {}: {arms}{}", block.number, likeliest.unwrap_or_default())
    }
}

impl search::Search for Bisect<'_> {
    type Report = BisectReport;

    fn needed(&self) -> Vec<Wanted> {
        vec![self.wanted(0)]
    }

    fn next(&mut self, record: &Record) -> Result<Next, Failure> {
        if let Some((arm, why)) = given_up(record) {
            return Ok(Next::Enter(Step::Excluded {
                at: arm.at,
                name: arm.name.clone(),
                why: why.to_owned(),
            }));
        }
        Ok(match self.search.next() {
            None => Next::Done,
            Some(position) => Next::Measure(Ask { arms: vec![self.wanted(position)], fresh: false }),
        })
    }

    fn obtain(&self, wanted: &Wanted, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure> {
        self.subject.obtain(wanted.at, lab)
    }

    fn known_as(&self, at: usize, sha256: &str, record: &Record) -> Option<usize> {
        same_build(record, self.builds.values().next().map(String::as_str), at, sha256)
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Measured(block) => {
                for arm in &block.arms {
                    arm.log_ratio(&block.control)
                        .into_iter()
                        .for_each(|ratio| self.search.take(arm.at, ratio));
                }
            }
            Step::Excluded { at, .. } => self.search.skip(*at),
            Step::Same { at, with } => self.search.same(*at, *with),
            Step::Winners { .. } => {}
        }
    }

    fn line(&self, step: &Step) -> Option<String> {
        match step {
            Step::Measured(block) => Some(self.progress(block)),
            Step::Excluded { name, why, .. } => {
                Some(format!("{name} is excluded: {}", why.lines().next().unwrap_or("")))
            }
            Step::Same { .. } | Step::Winners { .. } => None,
        }
    }

    fn report(&self, record: &Record, run: SearchRun) -> Result<BisectReport, Failure> {
        report::of(self, record, run)
    }

    fn found(report: &BisectReport) -> bool {
        report.answer.found
    }
}
