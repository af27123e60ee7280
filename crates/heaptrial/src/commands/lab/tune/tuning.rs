//! The loop: blocks of the search, then blocks of the winners.

use heaptrial_lab::Arrangement;
use heaptrial_model::AllocatorSpec;
use heaptrial_report::Document as _;
use heaptrial_tune::{Candidate, Next, Search};

use super::block::{Measure, Outcome};
use super::options::{TuneOptions, same};
use super::record::{Kept, Record, Step, Winner};
use super::{Budget, told};
use crate::commands::lab::search::{TRIES, UNDER_WAY};
use crate::exit::Failure;

/// Everything that the loop needs.
pub(super) struct Tuning<'a> {
    pub(super) options: &'a TuneOptions,
    pub(super) kept: &'a Kept,
    pub(super) search: Search,
    pub(super) record: Record,
    pub(super) measure: Measure<'a>,
    pub(super) budget: Budget,
}

impl Tuning<'_> {
    pub(super) fn have(&mut self, spec: &AllocatorSpec) -> Result<(), Failure> {
        let told = self.measure.obtain(spec)?;
        told.map_err(|why| Failure::refused(format!("{spec} cannot be had: {why}")))
    }

    fn spec(&self, candidate: &Candidate) -> Result<AllocatorSpec, Failure> {
        let name = self.kept.space.name(candidate);
        name.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))
    }

    /// How many blocks of the search are left in the budget, without the verification.
    fn left(&self) -> f64 {
        let blocks: Vec<f64> = self.record.searched().map(|block| block.seconds).collect();
        match self.budget {
            Budget::Blocks(most) => most as f64 - blocks.len() as f64,
            Budget::Seconds(_) if blocks.is_empty() => f64::INFINITY,
            Budget::Seconds(most) => {
                let mean = blocks.iter().sum::<f64>() / blocks.len().max(1) as f64;
                let runs = (self.kept.rules.winners + self.options.others().len() + 1) as f64;
                let each = match self.measure.bench.workload.arrangement() {
                    Arrangement::OneByOne => mean * runs / (self.kept.rules.arms + 1) as f64,
                    _ => mean,
                };
                (most - self.record.seconds() - each * f64::from(self.options.verify)) / mean
            }
        }
    }

    /// Blocks of the search; why it stopped before its end, if it did.
    pub(super) fn race(&mut self) -> Result<Option<String>, Failure> {
        while self.record.verification().is_none() && self.left() >= 1.0 {
            let candidates = match self.record.chosen() {
                Some(left) => left,
                None => {
                    let Next::Measure(chosen) = self.search.next_step() else { break };
                    let candidates: Vec<Candidate> =
                        chosen.iter().map(|at| self.search.candidates()[*at].clone()).collect();
                    self.enter(Step::Chosen { candidates: candidates.clone() })?;
                    candidates
                }
            };
            let mut specs = Vec::new();
            for candidate in candidates {
                let spec = self.spec(&candidate)?;
                let obtained = self.measure.obtain(&spec)?;
                // Ctrl-C ends a compiler too: that tells nothing of the candidate.
                if self.measure.bench.interrupt.requested() {
                    return Ok(Some("It was interrupted".to_owned()));
                }
                match obtained {
                    Ok(()) => specs.push((self.search.position(&candidate), spec)),
                    Err(why) => self.failed(candidate, &spec.to_string(), why)?,
                }
            }
            if specs.is_empty() {
                continue;
            }
            match self.measure.measure(&self.record, &specs, Some(&self.search))? {
                Outcome::Measured(block, failed) => {
                    for (at, why) in failed {
                        let candidate = self.search.candidates()[at].clone();
                        self.failed(candidate.clone(), &self.kept.space.name(&candidate), why)?;
                    }
                    self.enter(Step::Searched { block: block.clone() })?;
                    eprint!("{}", told::progress(&self.search, &block));
                }
                Outcome::Void(number, why) => {
                    eprintln!("block {number}: the control failed: {why}");
                    self.enter(Step::Void { number, why: why.clone() })?;
                    if self.record.voids_in_a_row() >= TRIES {
                        return Ok(Some(format!("The control failed {TRIES} times in a row: {why}")));
                    }
                }
                Outcome::Interrupted => return Ok(Some("It was interrupted".to_owned())),
            }
        }
        Ok(None)
    }

    fn failed(&mut self, candidate: Candidate, spec: &str, why: String) -> Result<(), Failure> {
        eprintln!("{spec} is out: {}", why.lines().next().unwrap_or(""));
        self.enter(Step::Failed { candidate, spec: spec.to_owned(), why })
    }

    fn enter(&mut self, step: Step) -> Result<(), Failure> {
        self.record.enter(step)?.apply(&mut self.search)?;
        self.tell_so_far()
    }

    /// Writes down how it stands.
    pub(super) fn tell_so_far(&self) -> Result<(), Failure> {
        let report = self.report(Some(UNDER_WAY.to_owned()));
        report.write(&self.record.folder).map(drop).map_err(Failure::failed)
    }

    /// Blocks of the winners on fresh seeds.
    pub(super) fn verify(&mut self) -> Result<Option<String>, Failure> {
        if self.record.verification().is_none() {
            let standings = self.search.standings();
            let winners = self.search.winners().into_iter().map(|at| {
                let candidate = self.search.candidates()[at].clone();
                let standing = standings.iter().find(|standing| standing.candidate == at);
                Winner {
                    spec: self.kept.space.name(&candidate),
                    candidate,
                    believed: standing.and_then(|standing| standing.believed),
                }
            });
            let winners: Vec<Winner> = winners.collect();
            let specs: Vec<AllocatorSpec> =
                winners.iter().map(|winner| self.spec(&winner.candidate)).collect::<Result<_, _>>()?;
            let beside =
                self.options.others().into_iter().filter(|other| !specs.iter().any(|spec| same(spec, other)));
            let beside: Vec<String> = beside.map(ToString::to_string).collect();
            if winners.is_empty() {
                return Ok(None);
            }
            let names: Vec<&str> = winners.iter().map(|winner| winner.spec.as_str()).collect();
            eprintln!("verified on fresh seeds: {}", names.join(", "));
            self.enter(Step::Winners { winners, beside })?;
        }
        let Some(verification) = self.record.verification() else { return Ok(None) };
        let done = verification.blocks.len();
        let names = verification.winners.iter().map(|winner| &winner.spec).chain(verification.beside);
        let specs: Vec<(usize, String)> = names.cloned().enumerate().collect();
        let mut arms: Vec<(usize, AllocatorSpec)> = Vec::new();
        for (at, name) in specs {
            let spec = name.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))?;
            self.have(&spec)?;
            arms.push((at, spec));
        }
        for _ in done..self.options.verify as usize {
            match self.measure.measure(&self.record, &arms, None)? {
                Outcome::Measured(block, failed) => {
                    eprint!("{}", told::verified_line(&block));
                    self.enter(Step::Verified { block, failed })?;
                }
                Outcome::Void(number, why) => {
                    eprintln!("block {number}: the control failed: {why}");
                    self.enter(Step::Void { number, why: why.clone() })?;
                    return Ok(Some(format!("The control failed while winners were verified: {why}")));
                }
                Outcome::Interrupted => return Ok(Some("It was interrupted".to_owned())),
            }
        }
        Ok(None)
    }
}
