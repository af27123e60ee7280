//! Which settings need the least memory, as a document.

mod forms;
mod sentences;

use heaptrial_search::tune::{Against, Doubt, Figure, LEAST_FREEDOM, Limits, doubt};
use serde::{Deserialize, Serialize};

/// The form of [`TuneReport`] as JSON that this version writes.
pub const TUNE_SCHEMA_VERSION: u32 = 1;

/// A search over settings: `tune.json`. Ratios are natural logarithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    pub schema_version: u32,
    /// What all is compared with.
    pub control: String,
    /// The allocators whose settings were searched.
    pub over: Vec<String>,
    /// Allocators that were left out, and why.
    pub left_out: Vec<(String, String)>,
    /// What may not be exceeded.
    pub limits: Limits,
    pub keep: Vec<String>,
    /// The reading that memory is of, in words.
    pub metric: String,
    /// Settings that differ by less are as good as each other.
    pub margin: f64,
    /// Probability with which the race may drop the best of the measured.
    pub error: f64,
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    /// Candidates that there are; `None` where they are too many to count.
    pub possible: Option<usize>,
    /// Seconds that all blocks took.
    pub seconds: f64,
    /// Standard deviation of one run's log level within a block, and its degrees of freedom.
    pub noise: Option<(f64, usize)>,
    /// Those that were measured, best first.
    pub candidates: Vec<CandidateReport>,
    /// What each value of a setting does.
    pub effects: Vec<EffectReport>,
    /// What fresh blocks show of the winners; `None` where there are no winners, or none was verified yet.
    pub verified: Option<VerifiedReport>,
    /// Why there is no more, if the search ended early.
    pub stopped: Option<String>,
    /// Blocks in the order of the runs.
    pub blocks: Vec<BlockOfTune>,
}

/// A candidate that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateReport {
    pub spec: String,
    pub blocks: usize,
    /// What the search believes of its ratio to the control, and the standard deviation of that.
    pub believed: Option<(f64, f64)>,
    /// CPU time to the control's, as measured.
    pub cpu: Option<f64>,
    /// Of each figure that has a limit: its ratio to the control.
    pub limited: Vec<(Figure, f64)>,
    /// Whether it keeps the limits, as measured.
    pub within: bool,
    /// Why it is out, in words, if it is.
    pub out: Option<String>,
    /// Of what kind that is.
    pub ground: Option<Ground>,
}

/// On what ground a candidate is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// It did not live to the end, or cannot be had.
    Failed,
    /// It is shown to be worse than another or the control, or no better.
    Worse,
    Limit,
}

/// What a value does relative to the setting with its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectReport {
    pub base: String,
    pub setting: String,
    pub value: String,
    /// Measured candidates with that value.
    pub candidates: usize,
    pub log_ratio: f64,
    pub sd: f64,
}

/// What blocks on fresh seeds show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedReport {
    pub blocks: usize,
    /// Blocks that were asked for.
    pub asked: usize,
    /// Confidence of the intervals, of all winners together.
    pub level: f64,
    /// What winners were verified beside, but for the control.
    pub beside: Vec<String>,
    /// The winners, best first by what the search believed.
    pub arms: Vec<VerifiedArm>,
    /// Of those beside: in how many blocks one did not live to the end, and why the first time.
    pub failed: Vec<(String, usize, String)>,
}

/// A winner on fresh seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedArm {
    pub spec: String,
    /// What the search believed of its ratio to the control, and the standard deviation of that.
    pub believed: Option<(f64, f64)>,
    /// Why it did not live to the end of a block, if it did not.
    pub failed: Option<String>,
    /// Against others, by their specs, or the control.
    pub against: Vec<(Option<String>, Against)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockOfTune {
    /// Its number, which is that of its folder.
    pub number: usize,
    /// Whether it is of the verification.
    pub fresh: bool,
    /// Level of the control in bytes.
    pub control_bytes: f64,
    /// Specs with their levels in bytes.
    pub arms: Vec<(String, f64)>,
}

impl VerifiedArm {
    /// Against another (`None` is the control) by a figure.
    pub fn against(&self, other: Option<&str>, figure: Figure) -> Option<&Against> {
        let is = |(known, against): &&(Option<String>, Against)| {
            known.as_deref() == other && against.figure == figure
        };
        self.against.iter().find(is).map(|(_, against)| against)
    }
}

impl TuneReport {
    /// The winners that fresh blocks confirm ([`doubt`]): first those that are shown to keep all limits, then by the level that
    /// these blocks show; none before all blocks that were asked for are there.
    pub fn winners(&self) -> Vec<&VerifiedArm> {
        let Some(verified) = self.verified.as_ref().filter(|verified| verified.blocks >= verified.asked)
        else {
            return Vec::new();
        };
        let holds = |arm: &&VerifiedArm| arm.failed.is_none() && self.doubt(arm).is_none();
        let mut winners: Vec<&VerifiedArm> = verified.arms.iter().filter(holds).collect();
        let ratio = |arm: &VerifiedArm| {
            arm.against(None, Figure::Level).map_or(f64::INFINITY, |against| against.log_ratio)
        };
        let open = |arm: &VerifiedArm| self.open_limits(arm).count();
        winners.sort_by(|a, b| open(a).cmp(&open(b)).then(ratio(a).total_cmp(&ratio(b))));
        winners
    }

    /// The limits of which it is not shown whether the arm keeps them: figures, and logs of the most.
    fn open_limits(&self, arm: &VerifiedArm) -> impl Iterator<Item = (Figure, f64)> {
        self.limits.given().filter(|(figure, most)| {
            arm.against(None, *figure).is_some_and(|against| against.keeps(*most).is_none())
        })
    }

    /// Whether enough was measured more than once to know how sure the search is.
    fn is_noise_known(&self) -> bool {
        self.noise.is_some_and(|(_, freedom)| freedom >= LEAST_FREEDOM)
    }

    fn doubt(&self, arm: &VerifiedArm) -> Option<Doubt> {
        let blocks = self.verified.as_ref().map_or(0, |verified| verified.blocks);
        doubt(self.margin, &self.limits, blocks, |figure| arm.against(None, figure))
    }

    /// Whether something was found and verified.
    pub fn found(&self) -> bool {
        !self.winners().is_empty()
    }

    /// Arms for a trial: the control, what is beside, and the winners.
    pub fn arms(&self) -> Vec<String> {
        let beside = self.verified.iter().flat_map(|verified| &verified.beside);
        let winners = self.winners();
        let all = std::iter::once(&self.control).chain(beside).chain(winners.iter().map(|arm| &arm.spec));
        let mut arms: Vec<String> = Vec::new();
        for spec in all {
            if !arms.contains(spec) {
                arms.push(spec.clone());
            }
        }
        arms
    }
}

/// A figure as a noun.
pub(crate) fn noun(figure: Figure) -> &'static str {
    match figure {
        Figure::Level => "memory",
        Figure::Cpu => "CPU time",
        Figure::Work => "work missed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document as _;

    fn against(figure: Figure, log_ratio: f64, half: f64) -> Against {
        let interval = Some((log_ratio - half, log_ratio + half));
        Against { other: None, figure, blocks: 5, log_ratio, interval }
    }

    fn report() -> TuneReport {
        let spec = "mimalloc@2.0.9?decommit_delay=0";
        let candidate = |spec: &str, level: f64, out: Option<&str>| CandidateReport {
            spec: spec.to_owned(),
            blocks: 3,
            believed: Some((level, 0.02)),
            cpu: Some(0.01),
            limited: vec![(Figure::Cpu, 0.01)],
            within: true,
            out: out.map(str::to_owned),
            ground: out.map(|_| Ground::Worse),
        };
        let arm = VerifiedArm {
            spec: spec.to_owned(),
            believed: Some((0.6_f64.ln(), 0.02)),
            failed: None,
            against: vec![
                (None, against(Figure::Level, 0.66_f64.ln(), 0.05)),
                (None, against(Figure::Cpu, 0.01, 0.02)),
                (Some("mimalloc@2.0.9".to_owned()), against(Figure::Level, 0.99_f64.ln(), 0.05)),
            ],
        };
        TuneReport {
            schema_version: TUNE_SCHEMA_VERSION,
            control: "glibc".to_owned(),
            over: vec!["glibc".to_owned(), "mimalloc@2.0.9".to_owned()],
            left_out: vec![("snmalloc".to_owned(), "snmalloc has no guard_pages".to_owned())],
            limits: Limits { cpu: Some(1.05_f64.ln()), ..Limits::default() },
            keep: Vec::new(),
            metric: "anonymous memory".to_owned(),
            margin: 1.01_f64.ln(),
            error: 0.05,
            seed: 7,
            command: "heaptrial lab tune".to_owned(),
            possible: Some(160),
            seconds: 1200.0,
            noise: Some((0.031, 9)),
            candidates: vec![
                candidate(spec, 0.6_f64.ln(), None),
                candidate("glibc?arena_max=1", 0.1, Some("worse than the control (1.11 times)")),
            ],
            effects: vec![EffectReport {
                base: "mimalloc@2.0.9".to_owned(),
                setting: "decommit_delay".to_owned(),
                value: "0".to_owned(),
                candidates: 3,
                log_ratio: -0.1,
                sd: 0.02,
            }],
            verified: Some(VerifiedReport {
                blocks: 5,
                asked: 5,
                level: 0.95,
                beside: vec!["mimalloc@2.0.9".to_owned()],
                arms: vec![arm],
                failed: Vec::new(),
            }),
            stopped: None,
            blocks: vec![BlockOfTune {
                number: 1,
                fresh: false,
                control_bytes: 1e8,
                arms: vec![(spec.to_owned(), 6e7)],
            }],
        }
    }

    #[test]
    fn every_form_tells_fresh_figures_and_what_was_believed() {
        let found = report();
        let unbroken = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [found.terminal(false), found.markdown(), found.html()] {
            let text = unbroken(&text);
            for told in [
                "0.66 times (0.63–0.69)",
                "no difference shown",
                "predicted 0.60, measured 0.66",
                "+10.0%",
                "worse than the control",
            ] {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
        assert_eq!(serde_json::from_str::<TuneReport>(&found.json().unwrap()).unwrap(), found);
        assert_eq!(found.arms(), ["glibc", "mimalloc@2.0.9", "mimalloc@2.0.9?decommit_delay=0"]);
    }

    #[test]
    fn what_fresh_seeds_do_not_bear_out_is_no_winner() {
        let mut open = report();
        open.verified.as_mut().unwrap().arms[0].against[0].1.interval = Some((-0.9, 0.1));
        assert!(!open.found());
        assert!(open.markdown().contains("Nothing is shown to be better than glibc"));
        let mut broken = report();
        broken.verified.as_mut().unwrap().arms[0].against[1].1 = against(Figure::Cpu, 0.2, 0.02);
        assert!(!broken.found());
        assert!(broken.markdown().contains("is shown to break the limit of 1.05 of CPU time"));
        let mut idle = report();
        idle.verified.as_mut().unwrap().arms[0].against[1].1.blocks = 4;
        assert!(!idle.found());
        let told = idle.markdown();
        assert!(
            told.contains(
                "of CPU time, which has a limit, there is a figure of it and of glibc in 4 of 5 blocks only"
            ),
            "{told}"
        );
        let mut unsure = report();
        unsure.verified.as_mut().unwrap().arms[0].against[1].1 = against(Figure::Cpu, 0.04, 0.1);
        assert!(unsure.found());
        assert!(unsure.markdown().contains("the limit of CPU time (1.05) is kept is not shown"));
        // Whoever is shown to keep the limits comes first, even with more memory.
        let arms = &mut unsure.verified.as_mut().unwrap().arms;
        let mut kept = report().verified.unwrap().arms[0].clone();
        kept.spec = "jemalloc".to_owned();
        kept.against[0].1 = against(Figure::Level, 0.7_f64.ln(), 0.05);
        arms.push(kept);
        let order: Vec<&str> = unsure.winners().iter().map(|arm| arm.spec.as_str()).collect();
        assert_eq!(order, ["jemalloc", "mimalloc@2.0.9?decommit_delay=0"]);
    }

    #[test]
    fn nobody_is_sure_before_noise_is_known() {
        let mut early = report();
        assert!(early.markdown().contains("0.60 ± 4%"));
        for noise in [Some((0.0001, 2)), None] {
            early.noise = noise;
            let text = early.markdown();
            assert!(!text.contains('±') || !text.contains("± 4%"), "{text}");
            assert!(!text.contains("0.87–0.94"), "{text}");
        }
    }

    #[test]
    fn nothing_is_found_before_all_blocks_are_there_and_who_failed_beside_is_told() {
        let mut cut_off = report();
        let verified = cut_off.verified.as_mut().unwrap();
        verified.blocks = 2;
        verified.failed = vec![("mimalloc@2.0.9".to_owned(), 1, "killed by SIGSEGV".to_owned())];
        verified.arms[0].against.iter_mut().for_each(|(_, against)| against.blocks = 2);
        verified.arms[0].against[2].1.blocks = 1;
        assert!(!cut_off.found() && cut_off.arms() == ["glibc", "mimalloc@2.0.9"]);
        let text = cut_off.markdown();
        for told in [
            "2 of 5 blocks of the verification are there",
            "mimalloc@2.0.9 failed in 1 of 2 blocks",
            "95% confidence",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert!(!text.contains("is not shown to be better"), "{text}");
    }

    #[test]
    fn without_a_winner_it_tells_why() {
        let mut none = report();
        none.verified = None;
        none.candidates.iter_mut().for_each(|one| one.within = false);
        let text = none.markdown();
        assert!(
            text.contains(
                "None of 2 measured candidates is to be verified: 1 is worse than glibc or no better than another, 1 does not keep \
                 the limits (CPU time of 1.05)."
            ),
            "{text}"
        );
        // Who failed before it was measured is counted as such, and no limit is told that nobody broke.
        for (at, blocks) in [(0, 0), (1, 1)] {
            let one = &mut none.candidates[at];
            (one.blocks, one.within, one.ground) = (blocks, true, Some(Ground::Failed));
            one.out = Some("failed: killed by SIGSEGV".to_owned());
        }
        let text = none.markdown();
        assert!(text.contains("None of 1 measured candidate is to be verified: 2 failed."), "{text}");
        assert!(text.contains("Measured 1 of 160 candidates in 1 block; 2 are out (2 failed)."), "{text}");
        none.candidates[0].out = Some("failed: \u{1b}[2J<script>".to_owned());
        assert!(!none.terminal(false).contains('\u{1b}'));
        assert!(!none.html().contains("<script>"));
    }
}
