//! The report of a field trial over a synthetic fleet.

use crate::fleet;
use crate::schema::validate;

use fleet::{GIB, LISTS, STRANGERS};
use heaptrial_model::LifeStart;
use heaptrial_report::{
    Arm, Assignment, Finding, FindingKind, LimitKind, Options, Report, ReportOf, SelfCheck, Severity,
    Trajectories, terminal, units,
};
use heaptrial_store::ImportedTrial;
use serde_json::Value;

fn report_with(trial: &ImportedTrial, options: &Options) -> (Report, Trajectories) {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = fleet::write(trial, &folder.path().join("fleet.db"));
    Report::with_trajectories(&store, id, options).unwrap()
}

fn report(trial: &ImportedTrial) -> (Report, Trajectories) {
    report_with(trial, &Options::default())
}

fn arm<'a>(report: &'a Report, name: &str) -> &'a Arm {
    report.arms.iter().find(|arm| arm.name == name).unwrap()
}

/// Mean of the last readings of services, straight from what was written.
fn mean_at_end(trial: &ImportedTrial, members: &[usize]) -> f64 {
    let last =
        |index: &usize| trial.services[*index].lives.last().unwrap().samples.last().unwrap().rss_bytes as f64;
    members.iter().map(last).sum::<f64>() / members.len() as f64
}

#[test]
fn an_arm_is_shown_as_assigned_and_as_treated() {
    let trial = fleet::contaminated();
    let (report, _) = report(&trial);
    let control = arm(&report, "group_glibc");
    let members = &trial.lists[0].members;
    assert_eq!(control.services as usize, members.len());
    let assigned = mean_at_end(&trial, members);
    assert!((control.rss_bytes_final.unwrap() as f64 - assigned).abs() < 1.0);
    let treated = control.as_treated.as_ref().unwrap();
    assert_eq!(treated.services as usize, LISTS[0].3);
    let belonging = mean_at_end(&trial, &members[..LISTS[0].3]);
    assert!((treated.rss_bytes_final.unwrap() as f64 - belonging).abs() < 1.0);
    let mut off_treatment: Vec<&str> =
        control.services_excluded.iter().map(|service| service.name.as_str()).collect();
    off_treatment.sort_unstable();
    assert_eq!(off_treatment, ["jemalloc00", "jemalloc01", "jemalloc02", "jemalloc03"]);
    // In both lists, once for each.
    let twice: Vec<_> = report.services.iter().filter(|service| service.name == "jemalloc00").collect();
    assert_eq!(twice.len(), 2);
    assert_eq!(twice.iter().filter(|service| service.counts).count(), 1);
    assert_eq!(report.assignment(), Some(Assignment::Listed));
}

#[test]
fn a_field_trial_has_verdicts_findings_and_adjusted_p_values() {
    let (report, _) = report(&fleet::contaminated());
    let bloating = arm(&report, "group_mimalloc301");
    assert_eq!(bloating.verdict.as_deref(), Some("bloating"));
    assert!(bloating.days_until_full.is_some());
    assert_eq!(arm(&report, "group_mimalloc209").verdict.as_deref(), Some("stable"));
    let growth = bloating.growth.as_ref().unwrap().bytes_per_day.value / GIB;
    assert!((growth - 0.9).abs() < 0.05, "{growth}");
    let small = arm(&report, "group_mimalloc209").ratio_as_treated().unwrap();
    assert!((small.estimate - 0.2).abs() < 0.02 && small.high.unwrap() < 0.3, "{small:?}");
    assert!(small.p_value_adjusted.unwrap() >= small.p_value.unwrap());
    let sawtooth = arm(&report, "group_restarted").sawtooth.unwrap();
    assert_eq!(sawtooth.restarts as usize, 3 * LISTS[5].3);
    let findings = &report.findings;
    let grave = findings.iter().find(|finding| {
        finding.severity == Severity::Grave && finding.arms.contains(&"group_glibc".to_owned())
    });
    assert!(grave.is_some_and(|finding| finding.services.len() >= STRANGERS), "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.kind == FindingKind::InTwoArms));
    assert!(report.self_check().is_some());
    assert_eq!(report.sources().len(), 2);
    assert_eq!(report.sampling_interval_seconds(), Some(7200.0));
    assert_eq!((report.sampler(), report.cpu_share()), (None, None));
}

#[test]
fn nothing_is_shown_that_was_not_measured() {
    let (report, trajectories) = report(&fleet::contaminated());
    let markdown = report.markdown(&trajectories).unwrap();
    for absent in ["CPU |", "Consensus", "ticks", "Repeats", "RssAnon at end", "null", "NaN", "inf"] {
        assert!(!markdown.contains(absent), "{absent}");
    }
}

#[test]
fn a_growing_arm_is_named_and_a_bloating_one_never_recommended() {
    let (report, _) = report(&fleet::contaminated());
    let text = terminal(&report, false).unwrap();
    let advice = text.split("Recommendation\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(advice.starts_with("group_mimalloc209: it needs clearly less"), "{advice}");
    // Where only the one that runs away is smaller, none is recommended.
    let mut trial = fleet::contaminated();
    trial.lists.retain(|list| ["group_glibc", "group_mimalloc301"].contains(&list.arm.name.as_str()));
    trial.events.clear();
    let (report, _) = self::report(&trial);
    let text = terminal(&report, false).unwrap();
    assert!(text.contains("Recommendation\nNone:"), "{text}");
}

#[test]
fn a_memory_limit_can_be_given() {
    let options = Options { memory_limit_bytes: Some((12.0 * GIB) as u64), ..Options::default() };
    let (report, _) = report_with(&fleet::contaminated(), &options);
    assert_eq!(report.analysis.memory_limit.unwrap().service_bytes, Some((12.0 * GIB) as u64));
    let days = arm(&report, "group_mimalloc301").days_until_full.unwrap().value;
    assert!((2.0..6.0).contains(&days), "{days}");
    validate(&report);
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
    let (one_reading, trajectories) = report(&trial);
    validate(&one_reading);
    assert!(!one_reading.html(&trajectories).unwrap().contains("NaN"));
    terminal(&one_reading, false).unwrap();
    trial.services.iter_mut().for_each(|service| service.lives.clear());
    let (empty, trajectories) = report(&trial);
    validate(&empty);
    assert_eq!(empty.samples, 0);
    empty.html(&trajectories).unwrap();
    empty.markdown(&trajectories).unwrap();
    assert!(terminal(&empty, false).unwrap().contains("nothing can be compared"));
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let trial = fleet::contaminated();
    let (first, again) = (report(&trial), report(&trial));
    assert_eq!(first.0.json().unwrap(), again.0.json().unwrap());
    assert_eq!(first.0.html(&first.1).unwrap(), again.0.html(&again.1).unwrap());
}

#[test]
fn json_follows_the_schema_and_is_read_back() {
    for trial in [fleet::contaminated(), fleet::hostile()] {
        let (report, _) = report(&trial);
        validate(&report);
        let back: Report = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(back.json().unwrap(), report.json().unwrap());
    }
}

#[test]
fn a_field_trial_on_the_terminal() {
    let text = terminal(&report(&fleet::contaminated()).0, false).unwrap();
    let widest =
        text.lines().filter(|line| !line.starts_with("Repeat it")).map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 108, "{widest:?}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_field_trial_as_json() {
    let json: Value = serde_json::from_str(&report(&fleet::contaminated()).0.json().unwrap()).unwrap();
    let near = |value: &Value, wanted: f64| {
        let found = value.as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 1e-3, "{found} for {wanted}");
    };
    assert_eq!(
        (&json["kind"], &json["assignment"]),
        (&"import_torutils".into(), &"as listed, not drawn at random".into())
    );
    let control = &json["arms"][0];
    assert_eq!((&control["verdict"], &control["limit"]), (&"growing".into(), &"whole_host".into()));
    near(&control["growth"]["share_per_day"]["value"], 0.00946);
    near(&control["days_until_full"]["value"], 101.56);
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
    let (report, _) = report(&fleet::contaminated());
    assert!(report.arms.iter().any(|arm| arm.sawtooth.is_some()));
    let ranked = report.ranked();
    assert!(ranked.is_sorted_by_key(|(_, bytes)| *bytes), "{ranked:?}");
    assert!(ranked.iter().all(|(arm, bytes)| arm.typical_bytes() == Some(*bytes)));
    let shown: Vec<&str> = report.ranking().into_iter().map(|arm| report.arms[arm].name.as_str()).collect();
    let names: Vec<&str> = ranked.iter().map(|(arm, _)| arm.name.as_str()).collect();
    assert_eq!(shown[..names.len()], names);
    let least = units::memory(ranked[0].1 as f64);
    let text = terminal(&report, false).unwrap();
    assert!(text.contains(&format!("{} needs the least: {least},", names[0])), "{text}");
}

#[test]
fn hostile_names_stay_text() {
    let (report, trajectories) = report(&fleet::hostile());
    let html = report.html(&trajectories).unwrap();
    for markup in ["<script", "</script", "<img", "onerror=alert(1)>", "<b>", "\u{1b}", "\u{202e}"] {
        assert!(!html.contains(markup), "{markup:?}");
    }
    assert_eq!(html.matches("<style").count(), 1);
    assert_eq!(html.matches("</svg>").count(), html.matches("<svg").count());
    let terminal = terminal(&report, false).unwrap();
    assert!(!terminal.chars().any(|c| c.is_control() && c != '\n'));
    let markdown = report.markdown(&trajectories).unwrap();
    let outside_code = markdown.split("````").step_by(2).collect::<String>();
    let folded = ["<details>", "</details>", "<summary>", "</summary>"];
    let rest = folded.iter().fold(outside_code, |text, tag| text.replace(tag, ""));
    assert!(!rest.contains('<'), "{rest}");
    for chart in report.charts(&trajectories).unwrap() {
        let svg = chart.file();
        assert!(!svg.contains("<script") && !svg.contains("</svg><"), "{svg}");
    }
}

fn recommendation(report: &Report) -> String {
    let text = terminal(report, false).unwrap();
    let advice = text.split("Recommendation\n").nth(1).unwrap().split("\n\n").next().unwrap();
    advice.replace('\n', " ")
}

fn arm_mut<'a>(report: &'a mut Report, name: &str) -> &'a mut Arm {
    report.arms.iter_mut().find(|arm| arm.name == name).unwrap()
}

fn grave(kind: FindingKind, arms: &[&str]) -> Finding {
    Finding {
        kind,
        severity: Severity::Grave,
        arms: arms.iter().map(|arm| (*arm).to_owned()).collect(),
        services: Vec::new(),
        evidence: "so it is".to_owned(),
        effect: "figures mislead".to_owned(),
    }
}

const BEST: &str = "group_mimalloc209";
const CONTROL: &str = "group_glibc";

#[test]
fn an_arm_is_recommended_only_where_its_p_value_holds_for_several_arms() {
    let (mut report, _) = report(&fleet::contaminated());
    let mut ratio = |change: &dyn Fn(&mut heaptrial_report::Ratio)| {
        change(arm_mut(&mut report, BEST).as_treated.as_mut().unwrap().ratio_to_control.as_mut().unwrap());
        recommendation(&report)
    };
    let weak = ratio(&|ratio| ratio.p_value_adjusted = Some(0.08));
    assert!(weak.starts_with("group_mimalloc217: it needs clearly less"), "{weak}");
    assert!(weak.contains("group_mimalloc209 seems to need less, but that may be chance"), "{weak}");
    let assumed = ratio(&|ratio| {
        (ratio.p_value, ratio.p_value_adjusted) = (None, None);
        ratio.method = "student_t".to_owned();
    });
    assert!(assumed.starts_with("group_mimalloc209: it needs less than"), "{assumed}");
    assert!(assumed.contains("normally distributed"), "{assumed}");
}

#[test]
fn nothing_is_recommended_where_arms_cannot_be_compared() {
    let (whole, _) = report(&fleet::contaminated());
    let with = |change: &dyn Fn(&mut Report)| {
        let mut report = whole.clone();
        change(&mut report);
        validate(&report);
        recommendation(&report)
    };
    let one = with(&|report| report.arms.retain(|arm| arm.control));
    assert!(one.starts_with("None: only one arm: nothing to compare; import with --groups."), "{one}");
    let no_age = with(&|report| report.analysis.matched_age_seconds = None);
    assert!(no_age.starts_with("None: there is no age"), "{no_age}");
    let young = with(&|report| report.analysis.matched_age_seconds = Some(1800.0));
    assert!(young.starts_with("None: services are compared at an age of 30 min"), "{young}");
    let no_control = with(&|report| {
        let control = arm_mut(report, CONTROL);
        control.as_treated.as_mut().unwrap().level_bytes = None;
        control.memory.as_mut().unwrap().median_bytes = None;
    });
    assert!(no_control.starts_with("None: the control, group_glibc, has no figures"), "{no_control}");
    for kind in [FindingKind::NeverConcurrent, FindingKind::ComparedYoung, FindingKind::RestartedMoreOften] {
        let about = |arms: &[&str]| with(&|report| report.findings.push(grave(kind, arms)));
        let control = about(&[CONTROL]);
        assert!(control.starts_with("None: the control, group_glibc,"), "{control}");
        let best = about(&[BEST]);
        assert!(best.starts_with("group_mimalloc217: it needs clearly less"), "{best}");
        assert!(best.contains("group_mimalloc209 needs less at this age, but"), "{best}");
    }
}

#[test]
fn an_arm_that_is_stable_only_without_its_off_treatment_is_not_recommended() {
    let (mut report, _) = report(&fleet::contaminated());
    arm_mut(&mut report, BEST).verdict_as_assigned = Some("bloating".to_owned());
    validate(&report);
    let advice = recommendation(&report);
    assert!(advice.starts_with("group_mimalloc217:"), "{advice}");
    assert!(
        advice.contains("it is stable only without its off-treatment services, and bloating over all"),
        "{advice}"
    );
}

#[test]
fn a_bloating_control_is_never_kept() {
    let (mut report, _) = report(&fleet::contaminated());
    for arm in report.arms.iter_mut().filter(|arm| !arm.control) {
        arm.as_treated = None;
        arm.ratio_to_control = None;
    }
    assert!(recommendation(&report).contains("Keep it, or observe longer"));
    arm_mut(&mut report, CONTROL).verdict = Some("bloating".to_owned());
    let advice = recommendation(&report);
    assert!(advice.starts_with("None:") && !advice.contains("Keep"), "{advice}");
    assert!(advice.contains("Do not leave services on group_glibc"), "{advice}");
}

#[test]
fn without_a_limit_memory_doubles_and_days_count_from_the_last_reading() {
    let mut trial = fleet::contaminated();
    trial.plan.host_facts = serde_json::json!({});
    let (unlimited, _) = report(&trial);
    validate(&unlimited);
    let bloating = arm(&unlimited, "group_mimalloc301");
    assert_eq!((bloating.days_until_full, bloating.limit), (None, Some(LimitKind::Doubling)));
    let reason = bloating.verdict_reason.as_ref().unwrap();
    assert!(reason.contains("it doubles in") && reason.contains("--memory-limit"), "{reason}");
    let text = terminal(&unlimited, false).unwrap();
    assert!(text.contains("doubles in") && !text.contains(" left)"), "{text}");
    assert!(text.contains("last reading, 2026-01-10"), "{text}");
    let (of_host, _) = report(&fleet::contaminated());
    let reason = arm(&of_host, "group_mimalloc301").verdict_reason.as_ref().unwrap();
    assert!(reason.contains("If only this arm's services grew"), "{reason}");
    assert!(reason.contains("from the last reading (2026-01-10)"), "{reason}");
    let options = Options { memory_limit_bytes: Some((2.0 * GIB) as u64), ..Options::default() };
    let (passed, _) = report_with(&fleet::contaminated(), &options);
    let reason = arm(&passed, "group_mimalloc301").verdict_reason.as_ref().unwrap();
    assert!(reason.contains("above its limit already"), "{reason}");
}

#[test]
fn few_readings_do_not_tell_whether_growth_slows_down() {
    let mut trial = fleet::contaminated();
    for life in trial.services.iter_mut().flat_map(|service| &mut service.lives) {
        let mut index = 0;
        life.samples.retain(|_| {
            index += 1;
            index % 12 == 1
        });
    }
    let (report, _) = report(&trial);
    let arm = arm(&report, "group_mimalloc301");
    assert!(arm.growth.as_ref().unwrap().readings < 12);
    let reason = arm.verdict_reason.as_ref().unwrap();
    assert!(reason.contains("cannot be told from so few readings"), "{reason}");
    assert!(reason.contains("over the last") && !reason.contains("hardly slows down"), "{reason}");
}

#[test]
fn the_self_check_gives_noise_as_an_interval_and_tells_when_it_fails() {
    let (mut report, _) = report(&fleet::contaminated());
    let mut told = |found_share| {
        let ReportOf::ImportTorutils(import) = &mut report.of else { panic!("an import") };
        import.self_check =
            Some(SelfCheck { halvings: 1000, found_share, standard_error: 0.007, noise_ratio: 1.03 });
        terminal(&report, false).unwrap().replace('\n', " ")
    };
    let fine = told(0.06);
    assert!(
        fine.contains("as it should be")
            && fine.contains("ratios of such halves between 0.97 and 1.03 are noise"),
        "{fine}"
    );
    assert!(told(0.066).contains("intervals here are too narrow"));
}

#[test]
fn an_import_without_services_says_so_in_one_sentence() {
    let mut trial = fleet::contaminated();
    trial.services.clear();
    trial.lists.iter_mut().for_each(|list| list.members.clear());
    let (report, trajectories) = report(&trial);
    validate(&report);
    let text = terminal(&report, false).unwrap();
    assert!(text.contains("nothing can be compared") && !text.contains("Recommendation"), "{text}");
    assert!(!report.markdown(&trajectories).unwrap().contains("age of 0 s"));
}

/// What the operators' own report has: what was expected and what follows, weeks, sums over servers, and who stands out.
#[test]
fn weeks_servers_outliers_and_what_was_expected_are_told() {
    let trial = fleet::two_servers_for_six_weeks();
    let (report, trajectories) = report(&trial);
    validate(&report);
    let markdown = report.markdown(&trajectories).unwrap();
    for told in [
        "**Hypothesis.** mimalloc 2.0.9 needs less than half of glibc.",
        "**Notes of the plan.** beta has older disks.",
        "**Next steps.** Roll out on alpha first.",
        "### Memory by week of age",
        "### Sums over servers, before and after",
        "### Services that stand out of their arm",
        "(charts/over-calendar-time.svg)",
    ] {
        assert!(markdown.contains(told), "{told}: {markdown}");
    }

    let weeks = &arm(&report, "group_mimalloc209").by_week;
    assert_eq!(
        weeks.iter().map(|week| (week.week, week.services)).collect::<Vec<_>>(),
        [(1, 10), (2, 10), (3, 10), (4, 10), (5, 10)]
    );

    // As somebody would add them up from the rows.
    let last = |service: &heaptrial_store::ImportedService, life: usize| {
        service.lives[life].samples.last().unwrap().rss_bytes as f64
    };
    for sum in &report.server_sums {
        let server = sum.server.as_deref().unwrap();
        let list = trial.lists.iter().find(|list| list.arm.name == sum.arm).unwrap();
        let own = || {
            let members = list.members.iter().map(|member| &trial.services[*member]);
            members.filter(|service| service.attributes["server"] == server)
        };
        assert_eq!(sum.services as usize, own().count());
        assert_eq!(sum.last_bytes, own().map(|service| last(service, 1)).sum::<f64>());
        let compared = sum.compared.unwrap();
        assert_eq!(compared.before_bytes, own().map(|service| last(service, 0)).sum::<f64>());
        assert_eq!((compared.services, compared.after_bytes), (sum.services, sum.last_bytes));
        assert_eq!(compared.dated > 0, sum.arm == "group_mimalloc209", "{sum:?}");
    }
    assert_eq!(report.server_sums.len(), 4);

    let [outlier] = &report.outliers[..] else { panic!("{:?}", report.outliers) };
    assert_eq!((outlier.service.as_str(), outlier.arm.as_str()), ("relay19", "group_mimalloc209"));
    assert!((outlier.factor / 3.0 - 1.0).abs() < 0.1, "{outlier:?}");
}
