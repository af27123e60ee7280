//! The report of a field trial over a synthetic fleet.

use crate::{fleet, import, read_again};

use fleet::{GIB, LISTS, STRANGERS};
use heaptrial_evaluate::analysis::{Finding, FindingKind, SelfCheck, Severity};
use heaptrial_evaluate::judgement::Judgement;
use heaptrial_model::LifeStart;
use heaptrial_report::{Arm, Assignment, Document, Options, Report, Screen, units};
use serde_json::Value;

fn report(trial: &fleet::Listed) -> Report {
    import(trial, &Options::default())
}

fn arm<'a>(report: &'a Report, name: &str) -> &'a Arm {
    report.arms.iter().find(|arm| arm.name == name).unwrap()
}

/// Mean of the last readings of services, straight from what was written.
fn mean_at_end(trial: &fleet::Listed, members: &[usize]) -> f64 {
    let last =
        |index: &usize| trial.services[*index].lives.last().unwrap().samples.last().unwrap().rss_bytes as f64;
    members.iter().map(last).sum::<f64>() / members.len() as f64
}

#[test]
fn an_arm_is_shown_as_assigned_and_as_treated() {
    let trial = fleet::contaminated();
    let report = report(&trial);
    let control = arm(&report, "group_glibc");
    let members = &trial.lists[0].members;
    assert_eq!(control.services as usize, members.len());
    let assigned = mean_at_end(&trial, members);
    assert!((control.rss_bytes_final.unwrap() as f64 - assigned).abs() < 1.0);
    let treated = control.result.as_treated.as_ref().unwrap();
    assert_eq!(treated.services as usize, LISTS[0].3);
    let belonging = mean_at_end(&trial, &members[..LISTS[0].3]);
    assert!((treated.final_mean_bytes.unwrap() - belonging).abs() < 1.0);
    let mut off_treatment: Vec<&str> =
        control.services_excluded.iter().map(|service| service.name.as_str()).collect();
    off_treatment.sort_unstable();
    assert_eq!(off_treatment, ["jemalloc00", "jemalloc01", "jemalloc02", "jemalloc03"]);
    // In both lists, once for each.
    let twice: Vec<_> =
        report.services.iter().filter(|service| service.result.name == "jemalloc00").collect();
    assert_eq!(twice.len(), 2);
    assert_eq!(twice.iter().filter(|service| service.counts).count(), 1);
    assert_eq!(report.assignment, Some(Assignment::Listed));
}

#[test]
fn a_field_trial_has_verdicts_findings_and_adjusted_p_values() {
    let report = report(&fleet::contaminated());
    let bloating = arm(&report, "group_mimalloc301");
    assert_eq!(bloating.verdict.as_deref(), Some("bloating"));
    assert!(bloating.result.verdict.as_ref().unwrap().runs_out().is_some());
    assert_eq!(arm(&report, "group_mimalloc209").verdict.as_deref(), Some("stable"));
    let growth = bloating.result.growth.as_ref().unwrap().bytes_per_day.value / GIB;
    assert!((growth - 0.9).abs() < 0.05, "{growth}");
    let small = arm(&report, "group_mimalloc209").ratio().unwrap();
    assert!((small.estimate.value - 0.2).abs() < 0.02 && small.estimate.high.unwrap() < 0.3, "{small:?}");
    assert!(small.p_value_adjusted.unwrap() >= small.p_value.unwrap());
    let sawtooth = arm(&report, "group_restarted").result.sawtooth.unwrap();
    assert_eq!(sawtooth.restarts as usize, 3 * LISTS[5].3);
    let findings = &report.findings;
    let grave = findings.iter().find(|finding| {
        finding.severity == Severity::Grave && finding.arms.contains(&"group_glibc".to_owned())
    });
    assert!(grave.is_some_and(|finding| finding.services.len() >= STRANGERS), "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.kind == FindingKind::TreatmentUncertain));
    assert!(report.self_check.is_some());
    assert_eq!(report.sources.len(), 2);
    assert_eq!(report.sampling_interval_seconds, Some(7200.0));
    assert_eq!(report.sampler, None);
}

#[test]
fn nothing_is_shown_that_was_not_measured() {
    let report = report(&fleet::contaminated());
    let markdown = report.markdown();
    for absent in ["CPU |", "Consensus", "ticks", "Repeats", "RssAnon at end", "null", "NaN", "inf"] {
        assert!(!markdown.contains(absent), "{absent}");
    }
}

#[test]
fn a_growing_arm_is_named_and_a_bloating_one_never_recommended() {
    let report = report(&fleet::contaminated());
    assert_eq!(report.recommended().unwrap().name, "group_mimalloc209");
    // Where only the one that runs away is smaller, none is recommended.
    let mut trial = fleet::contaminated();
    trial.lists.retain(|list| ["group_glibc", "group_mimalloc301"].contains(&list.arm.name.as_str()));
    trial.events.clear();
    assert!(self::report(&trial).recommended().is_none());
}

#[test]
fn a_memory_limit_can_be_given() {
    let options = Options { memory_limit_bytes: Some((12.0 * GIB) as u64), ..Options::default() };
    let report = import(&fleet::contaminated(), &options);
    assert_eq!(report.analysis.memory_limit.unwrap().service_bytes, Some(12.0 * GIB));
    let days = arm(&report, "group_mimalloc301").result.verdict.as_ref().unwrap().runs_out().unwrap().0.value;
    assert!((2.0..6.0).contains(&days), "{days}");
}

#[test]
fn a_fleet_without_comparable_services_is_reported_all_the_same() {
    let mut trial = fleet::contaminated();
    for service in &mut trial.services {
        service.lives.truncate(1);
        for life in &mut service.lives {
            life.samples.truncate(1);
            life.start = LifeStart::Unknown;
        }
    }
    let one_reading = report(&trial);
    assert!(!one_reading.html().contains("NaN"));
    one_reading.terminal(Screen::default());
    trial.services.iter_mut().for_each(|service| service.lives.clear());
    let empty = report(&trial);
    assert_eq!(empty.samples, 0);
    empty.html();
    empty.markdown();
    assert!(empty.terminal(Screen::default()).contains("nothing can be compared"));
}

#[test]
fn a_field_trial_on_the_terminal() {
    let text = report(&fleet::contaminated()).terminal(Screen::default());
    insta::assert_snapshot!(text);
}

#[test]
fn a_field_trial_as_json() {
    let json: Value = serde_json::from_str(&report(&fleet::contaminated()).json().unwrap()).unwrap();
    let near = |value: &Value, wanted: f64| {
        let found = value.as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 1e-3, "{found} for {wanted}");
    };
    assert_eq!((&json["kind"], &json["assignment"]), (&"import_torutils".into(), &"listed".into()));
    let control = &json["arms"][0];
    assert_eq!(
        (&control["verdict"], &control["verdict_detail"]["limit"]),
        (&"growing".into(), &"whole_host".into())
    );
    near(&control["growth"]["share_per_day"]["value"], 0.00946);
    near(&control["verdict_detail"]["days_until_full"]["value"], 101.56);
    near(&control["as_treated"]["level_bytes"], 6_919_047_699.0);
    near(&control["memory"]["median_bytes"], 5_712_217_649.0);
    let mimalloc = &json["arms"][1];
    assert_eq!((&mimalloc["name"], &mimalloc["verdict"]), (&"group_mimalloc209".into(), &"stable".into()));
    near(&mimalloc["ratio_to_control"]["estimate"], 0.2362);
    near(&mimalloc["ratio_to_control"]["p_value_adjusted"], 0.0005);
}

/// One arm is restarted at intervals: its level is an average over time, those of others are not.
#[test]
fn arms_are_in_the_order_of_the_levels_that_are_shown() {
    let report = report(&fleet::contaminated());
    assert!(report.arms.iter().any(|arm| arm.result.sawtooth.is_some()));
    let ranked = report.ranked();
    assert!(ranked.is_sorted_by_key(|(_, bytes)| *bytes), "{ranked:?}");
    assert!(
        ranked
            .iter()
            .all(|(arm, bytes)| arm.typical_bytes().map(|bytes| bytes.round() as u64) == Some(*bytes))
    );
    let shown: Vec<&str> = report.ranking().into_iter().map(|arm| report.arms[arm].name.as_str()).collect();
    let names: Vec<&str> = ranked.iter().map(|(arm, _)| arm.name.as_str()).collect();
    assert_eq!(shown[..names.len()], names);
    let least = units::memory(ranked[0].1 as f64);
    let text = report.terminal(Screen::default());
    assert!(text.replace('\n', " ").contains(&format!("{least} of RSS a service")), "{text}");
}

/// The report of what a change makes of the judgement.
fn with(change: impl Fn(&mut Judgement)) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = fleet::write(&fleet::contaminated(), &folder.path().join("fleet.db"));
    let mut judgement = Judgement::of(&store, id, &Options::default()).unwrap();
    change(&mut judgement);
    read_again(Report::of(&judgement).unwrap())
}

fn recommended(change: impl Fn(&mut Judgement)) -> Option<String> {
    with(change).recommended().map(|arm| arm.name.clone())
}

fn place(judgement: &Judgement, name: &str) -> usize {
    judgement.fleet.arms.iter().position(|arm| arm.name == name).unwrap()
}

const BEST: &str = "group_mimalloc209";
const SECOND: &str = "group_mimalloc217";
const CONTROL: &str = "group_glibc";

#[test]
fn an_arm_is_recommended_only_where_its_p_value_holds_for_several_arms() {
    let ratio = |p: Option<f64>| {
        recommended(|judgement| {
            let best = place(judgement, BEST);
            let figures = judgement.analysis.arms[best].as_treated.as_mut().unwrap();
            let ratio = figures.ratio.as_mut().unwrap();
            (ratio.p_value, ratio.p_value_adjusted) = (p, p);
        })
    };
    assert_eq!(ratio(Some(0.08)).as_deref(), Some(SECOND));
    assert_eq!(ratio(None).as_deref(), Some(BEST));
}

#[test]
fn nothing_is_recommended_where_arms_cannot_be_compared() {
    let none = |change: &dyn Fn(&mut Judgement)| assert_eq!(recommended(change), None);
    none(&|judgement| judgement.analysis.matched_age_seconds = None);
    none(&|judgement| judgement.analysis.matched_age_seconds = Some(1800.0));
    none(&|judgement| {
        let control = place(judgement, CONTROL);
        let result = &mut judgement.analysis.arms[control];
        result.as_treated.as_mut().unwrap().level_bytes = None;
    });
}

/// A finding blocks a recommendation only if it could account for the difference.
#[test]
fn a_caveat_blocks_only_what_it_could_explain() {
    let found = |kind: FindingKind, name: &'static str| {
        recommended(move |judgement| {
            let arms = vec![place(judgement, name)];
            judgement.analysis.ages_are_lower_bounds = true;
            judgement.analysis.findings.push(Finding {
                kind,
                severity: Severity::Grave,
                arms,
                services: Vec::new(),
                evidence: "so it is".to_owned(),
            });
        })
    };
    for kind in [FindingKind::UnequalAge, FindingKind::FailsMoreOften] {
        assert_eq!(found(kind, CONTROL), None);
        assert_eq!(found(kind, BEST).as_deref(), Some(SECOND));
    }
    // The control went from 6.1 to 6.5 GiB after its first day: that explains no factor of five.
    assert_eq!(found(FindingKind::AgeUnknown, CONTROL).as_deref(), Some(BEST));
    assert_eq!(found(FindingKind::AgeUnknown, BEST).as_deref(), Some(BEST));
    let wide = recommended(|judgement| {
        let (best, control) = (place(judgement, BEST), place(judgement, CONTROL));
        judgement.analysis.ages_are_lower_bounds = true;
        judgement.analysis.arms[control].by_day[1].median_bytes = 0.1 * GIB;
        judgement.analysis.findings.push(Finding {
            kind: FindingKind::AgeUnknown,
            severity: Severity::Grave,
            arms: vec![best],
            services: Vec::new(),
            evidence: String::new(),
        });
    });
    assert_eq!(wide.as_deref(), Some(SECOND));
}

#[test]
fn without_a_limit_it_says_when_memory_doubles() {
    let mut trial = fleet::contaminated();
    trial.plan.host_facts = serde_json::json!({});
    assert!(report(&trial).terminal(Screen::default()).contains("doubles in"));
    let options = Options { memory_limit_bytes: Some((2.0 * GIB) as u64), ..Options::default() };
    let passed = import(&trial, &options).terminal(Screen::default()).replace("\n  ", " ");
    assert!(passed.contains("above its memory limit already"), "{passed}");
}

#[test]
fn a_self_check_that_fails_is_a_caveat() {
    let caveats = |found_share| {
        let report = with(|judgement| {
            let check = SelfCheck { halvings: 1000, found_share, standard_error: 0.007, noise_ratio: 1.03 };
            judgement.analysis.self_check = Some(check);
        });
        report.caveats.join(" ")
    };
    let fine = caveats(0.06);
    assert!(fine.contains("Ratios from 0.97 to 1.03 are noise") && !fine.contains("too narrow"), "{fine}");
    assert!(caveats(0.066).contains("intervals are too narrow"));
}

/// What the operators' own report has: what was expected and what follows, and which service stands out.
#[test]
fn outliers_and_what_was_expected_are_shown() {
    let trial = fleet::two_servers_for_six_weeks();
    let report = report(&trial);
    let markdown = report.markdown();
    for told in [
        "**Hypothesis.** mimalloc 2.0.9 needs less than half of glibc.",
        "**Notes of the plan.** beta has older disks.",
        "**Next steps.** Roll out on alpha first.",
        "### Services far from their arm",
        "(charts/over-calendar-time.svg)",
    ] {
        assert!(markdown.contains(told), "{told}: {markdown}");
    }

    let [outlier] = &report.outliers[..] else { panic!("{:?}", report.outliers) };
    let arm = report.arms[outlier.arm].name.as_str();
    assert_eq!((outlier.name.as_str(), arm), ("relay19", "group_mimalloc209"));
    assert!((outlier.factor / 3.0 - 1.0).abs() < 0.1, "{outlier:?}");
}
