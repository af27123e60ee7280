//! Reports of and looks at field trials that Heaptrial runs itself, over a synthetic trial in a real database.

use crate::{read_again, trial};

use heaptrial_evaluate::analysis::{Decision, LookStanding};
use heaptrial_evaluate::judgement::look::{self, Gaps, LookState};
use heaptrial_evaluate::judgement::{JudgementError, Options};
use heaptrial_model::{KnownEvent, TrialKind};
use heaptrial_report::{Arm, Assignment, Document, FindingKind, LookReport, Report, Screen, Severity};
use heaptrial_store::Store;
use trial::{DAY_US, FieldArm, FieldTrial, GIB, HOUR_US, START_US, four_arms, identity};

/// Two databases at once would be two trials; each test has its own folder.
struct Written {
    _folder: tempfile::TempDir,
    store: Store,
    id: i64,
}

fn write(trial: &FieldTrial) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let id = trial.write(&path);
    let store = Store::create(&path).unwrap();
    Written { _folder: folder, store, id }
}

/// As the command does: takes a look and records what it shows.
fn take(store: &mut Store, id: i64, number: u32, now: i64, gaps: Gaps) -> Result<LookReport, JudgementError> {
    if let Some(taken) = look::recorded(store, id, number)? {
        return Ok(LookReport::stored(&taken).unwrap());
    }
    let taken = look::take(store, id, number, now, gaps, &Options::default())?;
    let report = LookReport::of(&taken).unwrap();
    taken.record(store, report.record().unwrap())?;
    Ok(report)
}

impl Written {
    fn report(&self) -> Report {
        read_again(Report::with_charts(&self.store, self.id, &Options::default()).unwrap())
    }

    fn look(&mut self, number: u32, days: f64) -> LookReport {
        let now = START_US + (days * DAY_US as f64) as i64;
        take(&mut self.store, self.id, number, now, Gaps::Refused).unwrap()
    }
}

fn arm<'a>(report: &'a Report, name: &str) -> &'a Arm {
    report.arms.iter().find(|arm| arm.name == name).unwrap()
}

fn find(report: &Report, kind: FindingKind) -> Vec<&heaptrial_report::Finding> {
    report.findings.iter().filter(|finding| finding.kind == kind).collect()
}

/// The arm that the report recommends.
fn advised(report: &Report) -> Option<&str> {
    report.recommended().map(|arm| arm.name.as_str())
}

/// What blocks a recommendation of an arm, as JSON names it.
fn blocked(report: &Report, name: &str) -> Vec<String> {
    let objections = arm(report, name).objections.iter().filter(|objection| objection.blocks);
    let reason = |value: serde_json::Value| value["reason"].as_str().unwrap().to_owned();
    objections.map(|objection| reason(serde_json::to_value(objection).unwrap())).collect()
}

fn same_services(growth: f64) -> FieldTrial {
    let mut trial = four_arms(24);
    trial.arms.truncate(2);
    let control = trial.arms[0].clone();
    trial.arms[1] =
        FieldArm { name: "the-same", growth_gib_per_day: control.growth_gib_per_day + growth, ..control };
    trial
}

#[test]
fn a_running_trial_is_reported_as_assigned_and_as_treated() {
    let report = write(&four_arms(72)).report();
    assert_eq!((report.outcome_word(), report.assignment), ("running", Some(Assignment::Random)));
    let mimalloc = arm(&report, "mimalloc-2.0.9");
    assert_eq!((mimalloc.services, mimalloc.services_belonging()), (8, 7));
    assert_eq!(mimalloc.services_excluded[0].reason, "glibc 2.36 in place of mimalloc 2.0.9");
    let assigned = mimalloc.ratio_to_control.as_ref().unwrap();
    let treated = mimalloc.ratio().unwrap();
    assert!((treated.estimate.value - 1.05 / 4.0).abs() < 0.01, "{treated:?}");
    assert!(assigned.estimate > 1.1 * treated.estimate.value, "{assigned:?}");
    assert_eq!(mimalloc.identity.as_ref().unwrap().label(), identity("mimalloc", "2.0.9").label());
    assert_eq!(mimalloc.result.events.contaminated_lives, 1);
    assert_eq!(report.sampler.unwrap().ticks, 72);
    assert_eq!(report.looks.len(), 4);
    assert!(report.services.iter().all(|service| service.memory_limit_bytes == Some((12.0 * GIB) as u64)));
    assert!(
        report.services.iter().all(|service| service.anon_bytes_final.is_some() && service.ran.is_some())
    );
}

#[test]
fn an_arm_that_does_less_is_not_recommended() {
    let report = write(&four_arms(72)).report();
    let work = arm(&report, "dircache-0").result.work.as_ref().unwrap();
    let ratio = work.ratio.as_ref().unwrap();
    assert!(
        (ratio.estimate.value - 0.2 / 1.2).abs() < 0.02 && ratio.estimate.high.unwrap() < 0.3,
        "{ratio:?}"
    );
    let per_work =
        |name: &str| arm(&report, name).result.work.as_ref().unwrap().measures[0].memory_for_each.unwrap();
    // An eighth of the memory, but a sixth of the work.
    let expected = (0.5 / 0.2) / (4.0 / 1.2);
    assert!((per_work("dircache-0") / per_work("glibc") / expected - 1.0).abs() < 0.05);
    let less = find(&report, FindingKind::WorkBelowControl);
    assert_eq!(less.len(), 1);
    assert_eq!(
        (less[0].severity, less[0].arms.as_slice()),
        (Severity::Grave, &["dircache-0".to_owned()][..])
    );
    let lost = find(&report, FindingKind::FlagLost);
    assert_eq!(lost.len(), 1);
    let freed = find(&report, FindingKind::MemoryRunsShort);
    assert!(freed.iter().any(|finding| finding.services == ["tor@relay03.service"]), "{freed:?}");
    assert_eq!(advised(&report), Some("mimalloc-2.0.9"));
    assert!(blocked(&report, "dircache-0").contains(&"less_work".to_owned()));
    let ranked: Vec<&str> = report.ranked().into_iter().map(|(arm, _)| arm.name.as_str()).collect();
    assert_eq!(ranked, ["mimalloc-2.0.9", "jemalloc", "glibc"], "doing less is not winning");
}

#[test]
fn failures_are_counted_and_planned_restarts_are_none() {
    let mut trial = four_arms(72);
    trial.arms[2] = FieldArm { name: "restart-24h", restart_hours: Some(24), ..trial.arms[0].clone() };
    let report = write(&trial).report();
    let failing = find(&report, FindingKind::FailsMoreOften);
    assert_eq!(failing.len(), 1, "{failing:?}");
    assert_eq!(failing[0].arms, ["dircache-0"]);
    assert_eq!(failing[0].services.len(), 4);
    let restarted = arm(&report, "restart-24h");
    let events = restarted.result.events;
    assert_eq!((events.planned_restarts, events.services_failed, events.lives), (16, 0, 24));
    assert_eq!(restarted.result.sawtooth.unwrap().restarts, 16);
    // It was averaged over time, as was the control beside it; contaminated lives are not averaged in.
    let ratio = restarted.ratio().unwrap();
    assert!((0.7..1.0).contains(&ratio.estimate.value), "{ratio:?}");
    let work = restarted.result.work.as_ref().unwrap().ratio.as_ref().unwrap();
    assert!((work.estimate.value - 1.0).abs() < 0.05, "{work:?}");
}

#[test]
fn a_trial_that_was_ended_early_says_so() {
    for (outcome, what) in [("completed", "was ended"), ("interrupted", "was stopped"), ("failed", "failed")]
    {
        let report = write(&FieldTrial { outcome: Some(outcome), ..four_arms(30) }).report();
        let told = format!("The trial {what} after 1 d 5 h of 10 d planned");
        assert!(report.caveats[0].starts_with(&told), "{:?}", report.caveats);
    }
    assert!(!write(&four_arms(30)).report().caveats[0].starts_with("The trial was"));
}

#[test]
fn without_readings_of_work_the_report_says_what_it_would_miss() {
    let mut trial = four_arms(72);
    trial.arms.iter_mut().for_each(|arm| arm.work_mb_per_second = 0.0);
    let report = write(&trial).report();
    assert!(report.caveats.iter().any(|line| line.contains("would not be noticed")), "{:?}", report.caveats);
    assert!(report.arms.iter().all(|arm| arm.result.work.is_none()));
    assert!(find(&report, FindingKind::WorkBelowControl).is_empty());
}

#[test]
fn pages_that_count_for_each_of_a_services_processes_are_warned_of_by_arm() {
    let mut trial = four_arms(72);
    (trial.arms[0].sharing, trial.arms[1].sharing, trial.arms[2].sharing) = (1, 4, 0);
    let report = write(&trial).report();
    let counted = report.caveats.iter().filter(|caveat| caveat.contains("double-counts"));
    let [caveat] = counted.collect::<Vec<_>>()[..] else { panic!("{:?}", report.caveats) };
    // RssAnon is nine tenths of RSS here, and the proportional sum a quarter.
    let shown = "Anonymous memory of mimalloc-2.0.9 double-counts pages shared after fork (3.60 times PSS)";
    assert!(caveat.starts_with(shown), "{caveat}");
}

#[test]
fn services_of_a_host_are_reported_without_a_trial() {
    let mut trial = four_arms(48);
    trial.kind = TrialKind::Host;
    trial.arms.truncate(1);
    trial.arms[0].name = "as found";
    let report = write(&trial).report();
    let text = report.terminal(Screen::default());
    assert!(text.contains("glibc 2.36"), "{text}");
    assert!(!text.contains("control,") && !text.contains("Recommendation"), "{text}");
    assert_eq!(report.assignment, None);
    report.html();
    report.markdown();
}

#[test]
fn a_running_trial_as_markdown() {
    let report = write(&four_arms(72)).report();
    insta::assert_snapshot!(report.markdown());
}

/// mimalloc 3.0.1 in production: small on the first day, and above the control after some.
#[test]
fn an_arm_that_soon_needs_as_much_as_the_control_is_not_recommended() {
    let of = |hours: i64, growth: f64| {
        let mut trial = four_arms(hours);
        trial.arms.truncate(2);
        trial.arms[1] = FieldArm {
            name: "mimalloc-3.0.1",
            allocator: Some("mimalloc@3.0.1"),
            level_gib: 0.9,
            growth_gib_per_day: growth,
            contaminated: 0,
            ..trial.arms[1].clone()
        };
        write(&trial)
    };
    let mut fast = of(30, 1.2);
    let report = fast.report();
    assert_eq!(
        (advised(&report), blocked(&report, "mimalloc-3.0.1")),
        (None, vec!["reaches_control".to_owned()])
    );
    let look = fast.look(1, 1.2);
    assert!(look.result.starts_with("decided: mimalloc-3.0.1 needs "), "{}", look.result);
    assert!(look.result.contains("but: grows by"), "{}", look.result);
    // The control's caches fill as well on the first days, and do not go on to.
    assert_eq!(advised(&of(14, 1.2).report()), None);
    // At a pace by which that takes years it is.
    assert_eq!(advised(&of(200, 0.006).report()), Some("mimalloc-3.0.1"));
}

/// What grows between two restarts is lost at the next.
#[test]
fn an_arm_that_is_restarted_is_not_held_to_the_growth_of_one_life() {
    let mut trial = four_arms(200);
    trial.arms.truncate(2);
    trial.arms[1] = FieldArm {
        name: "restarted",
        allocator: None,
        restart_hours: Some(48),
        level_gib: 2.0,
        growth_gib_per_day: 0.4,
        contaminated: 0,
        ..trial.arms[1].clone()
    };
    let report = write(&trial).report();
    assert!(!blocked(&report, "restarted").contains(&"reaches_control".to_owned()));
    assert!(report.markdown().contains("Level of restarted, restarted at intervals: the average over time."));
}

#[test]
fn memory_in_swap_is_told_and_nothing_is_recommended_for_it() {
    let mut trial = four_arms(72);
    trial.arms.truncate(2);
    trial.arms[1] = FieldArm { level_gib: 4.0, swapped: 0.7, contaminated: 0, ..trial.arms[1].clone() };
    let report = write(&trial).report();
    let found = find(&report, FindingKind::Swapped);
    assert_eq!((found[0].severity, found[0].services.len()), (Severity::Grave, 8));
    assert_eq!(advised(&report), None);
    // As much of both changes nothing.
    (trial.arms[0].swapped, trial.arms[1].swapped) = (0.1, 0.1);
    assert_eq!(find(&write(&trial).report(), FindingKind::Swapped)[0].severity, Severity::Caution);
    trial.arms[0].swapped = 0.0;
    // A little of it changes nothing.
    trial.arms[1].swapped = 0.02;
    assert!(find(&write(&trial).report(), FindingKind::Swapped).is_empty());
}

#[test]
fn a_look_decides_and_is_kept_as_it_was() {
    let mut written = write(&four_arms(80));
    let first = written.look(1, 3.1);
    let look = written.look(2, 3.1);
    assert_eq!((look.decision, look.number), (Some(Decision::Difference), Some(2)));
    assert!((look.alpha_spent.unwrap() - first.alpha.unwrap() - look.alpha.unwrap()).abs() < 1e-12);
    assert_eq!(
        (look.arms[3].standing, look.arms[0].standing),
        (LookStanding::Less, LookStanding::NotCompared)
    );
    look.terminal(Screen::default());
    // Taken again much later, it is what was stored.
    assert_eq!(written.look(2, 9.0), look);
    let state = look::state(&written.store, written.id, START_US + 4 * DAY_US, Gaps::Refused).unwrap();
    let recorded = look::recorded(&written.store, written.id, 2).unwrap().unwrap();
    assert_eq!(LookReport::stored(&recorded).unwrap(), look);
    assert_eq!(
        state,
        LookState::Taken { last: Box::new(recorded), next_seconds: Some(2.0 * 86_400.0), ended_before: None }
    );
    assert_eq!(written.report().looks[1].result.as_deref().map(|r| r.starts_with("decided")), Some(true));
}

#[test]
fn a_late_look_gives_what_a_punctual_one_would_have_given() {
    let mut punctual = write(&four_arms(72));
    let mut late = write(&four_arms(200));
    let service = late.store.services(late.id).unwrap()[6].id;
    // All of this came after the look.
    let life = late.store.lives(late.id).unwrap().iter().find(|life| life.service_id == service).unwrap().id;
    late.store.contaminate(life, "somebody changed it").unwrap();
    late.store
        .add_event(late.id, Some(service), START_US + 90 * HOUR_US, KnownEvent::IdentityChange, "glibc")
        .unwrap();
    late.store
        .add_event(late.id, Some(service), START_US + 90 * HOUR_US, KnownEvent::Crash, "SIGSEGV")
        .unwrap();
    for number in 1..=2 {
        let (on_time, mut too_late) = (punctual.look(number, 3.0), late.look(number, 8.3));
        too_late.taken_at = on_time.taken_at.clone();
        if number == 1 {
            assert_eq!(on_time.decision, Some(Decision::Difference), "{}", on_time.result);
        }
        assert_eq!(on_time, too_late);
    }
    assert_eq!(late.report().services.iter().filter(|service| !service.counts).count(), 2);
}

#[test]
fn a_look_without_a_difference_is_inconclusive_until_the_last_one() {
    let mut written = write(&FieldTrial { hours: 240, ..same_services(0.0) });
    let first = written.look(1, 1.0);
    assert_eq!((first.decision, first.arms[1].standing), (Some(Decision::Inconclusive), LookStanding::Open));
    assert_eq!(first.result, "inconclusive: 2 d more until the next look");
    written.look(2, 3.0);
    written.look(3, 6.0);
    let last = written.look(4, 10.0);
    assert_eq!((last.decision, last.arms[1].standing), (Some(Decision::NoDifference), LookStanding::Same));
    assert_eq!(last.result, "decided: every arm needs the same as glibc, within 10%");
    assert!((last.alpha_spent.unwrap() - 0.05).abs() < 1e-9);
    assert_eq!(last.next_look_at, None);
}

#[test]
fn what_comes_after_the_end_is_not_in_the_report() {
    let trial = FieldTrial { outcome: Some("completed"), ..four_arms(72) };
    let ended = write(&trial).report();
    // The same with 28 hours more of data, an end at 72 hours, and what happened later.
    let mut longer = write(&four_arms(100));
    longer.store.end_trial(longer.id, START_US + 72 * HOUR_US, "completed").unwrap();
    let service = longer.store.services(longer.id).unwrap()[2].id;
    let after = START_US + 80 * HOUR_US;
    longer.store.add_event(longer.id, Some(service), after, KnownEvent::Crash, "SIGSEGV").unwrap();
    let key = heaptrial_model::LifeKey { boot_id: "boot".to_owned(), pid: 9, start_ticks: 9 };
    let proved = identity("glibc", "2.36");
    let started = (after, 5_000_000_000 + 80 * HOUR_US);
    longer.store.add_life(service, &key, started, Some(&proved), Some("another")).unwrap();
    let longer = longer.report();
    assert_eq!(longer.arms, ended.arms);
    assert_eq!(longer.events, ended.events);
    assert_eq!((longer.samples, longer.duration_seconds), (ended.samples, ended.duration_seconds));
}

#[test]
fn a_life_counts_as_treated_only_while_its_treatment_is_applied() {
    let mut written = write(&four_arms(80));
    let ids: Vec<i64> =
        written.store.services(written.id).unwrap().iter().map(|service| service.id).collect();
    let at = |hours: i64| START_US + hours * HOUR_US;
    let add = |store: &mut Store, service: Option<i64>, hours, kind: &str, text: &str| {
        store.add_event(written.id, service, at(hours), kind.parse().unwrap(), text).unwrap();
    };
    let store = &mut written.store;
    let torrc = |block: usize| ids[4 * block + 3];
    // Without that event of the trial the others are not all there is to know.
    add(store, Some(torrc(0)), 1, "treatment_failed", "it did not start");
    let services = Report::from_store(store, written.id, &Options::default()).unwrap().services;
    assert_eq!(services.iter().filter(|service| !service.counts).count(), 1);
    add(store, None, 0, "treatments_recorded", "");
    for id in &ids {
        // One service is never reached.
        if *id != torrc(1) && *id != torrc(0) {
            add(store, Some(*id), 1, "treatment_committed", "");
        }
    }
    add(store, Some(torrc(0)), 1, "treatment_reverted", "as before the trial");
    // After the look.
    add(store, Some(torrc(2)), 76, "treatment_reverted", "as before the trial");
    let now = START_US + 80 * HOUR_US;
    let state = look::state(&written.store, written.id, now, Gaps::Refused).unwrap();
    let name = |id: i64| {
        written.store.services(written.id).unwrap().into_iter().find(|own| own.id == id).unwrap().name
    };
    assert_eq!(state, LookState::Open(vec![name(torrc(1))]));
    // Looks count from the hour in which the others had it.
    assert_eq!(
        look::state(&written.store, written.id, at(73) - 1, Gaps::Accepted).unwrap(),
        LookState::Due(vec![1])
    );
    assert_eq!(
        look::state(&written.store, written.id, at(73), Gaps::Accepted).unwrap(),
        LookState::Due(vec![1, 2])
    );
    let looked = take(&mut written.store, written.id, 2, now, Gaps::Accepted).unwrap();
    assert_eq!((looked.arms[3].services, looked.arms[3].services_treated), (8, 6));
    assert_eq!((looked.arms[0].services_treated, looked.arms[2].services_treated), (8, 8));
    let report = written.report();
    let reasons: Vec<&str> =
        arm(&report, "dircache-0").services_excluded.iter().map(|service| service.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "its arm's treatment was put back: it did not start",
            "its arm's treatment is not applied",
            "its arm's treatment was put back: as before the trial"
        ]
    );
}

#[test]
fn what_ran_before_the_treatment_is_none_of_the_data() {
    let trial = FieldTrial {
        arms: vec![
            FieldArm { contaminated: 0, ..four_arms(72).arms[0].clone() },
            FieldArm { name: "restart-24h", restart_hours: Some(24), ..four_arms(72).arms[0].clone() },
        ],
        ..four_arms(72)
    };
    let mut written = write(&trial);
    let (store, id) = (&mut written.store, written.id);
    store.add_event(id, None, START_US, KnownEvent::TreatmentsRecorded, "").unwrap();
    for service in store.services(id).unwrap() {
        // The second of the lives of a restarted service is the first with its treatment.
        let lives = store.lives(id).unwrap();
        let last = lives.iter().filter(|life| life.service_id == service.id).nth(1);
        let at = last.map_or(START_US, |life| life.started_wall_us) + HOUR_US;
        store.add_event(id, Some(service.id), at, KnownEvent::TreatmentCommitted, "").unwrap();
    }
    let report = written.report();
    let restarted = arm(&report, "restart-24h");
    assert_eq!((restarted.services_belonging(), restarted.result.events.contaminated_lives), (8, 0));
    assert_eq!(restarted.result.events.lives, 16);
}

/// Services had their treatment one after the other over a day: a look of a day finds none younger than that.
#[test]
fn looks_count_from_when_the_last_service_had_its_treatment() {
    let mut written = write(&four_arms(72));
    let (store, id) = (&mut written.store, written.id);
    let services = store.services(id).unwrap();
    store.add_event(id, None, START_US, KnownEvent::TreatmentsRecorded, "").unwrap();
    let committed = |store: &mut Store, place: usize, at| {
        store.add_event(id, Some(services[place].id), at, KnownEvent::TreatmentCommitted, "").unwrap();
    };
    let last = services.len() - 1;
    let hours = |place: usize| START_US + 24 * HOUR_US * place as i64 / last as i64;
    (0..last).for_each(|place| committed(store, place, hours(place)));
    let state = |store: &Store, hours: i64| {
        look::state(store, id, START_US + hours * HOUR_US, Gaps::Refused).unwrap()
    };
    assert_eq!(state(store, 47), LookState::Open(vec![services[last].name.clone()]));
    committed(store, last, hours(last));
    // That one was restarted again says nothing: its first treatment counts.
    committed(store, 3, START_US + 40 * HOUR_US);
    let at = "2026-01-04T03:04:05Z".to_owned();
    assert_eq!(state(store, 47), LookState::NotDue { number: 1, at, seconds: 3600.0 });
    assert_eq!(state(store, 48), LookState::Due(vec![1]));
    assert_eq!(
        look::planned_at(store, &store.trials().unwrap()[0], 1).unwrap(),
        Some(START_US + 48 * HOUR_US)
    );
    let looked = take(&mut written.store, id, 1, START_US + 48 * HOUR_US, Gaps::Refused).unwrap();
    assert_eq!(looked.planned_seconds, Some(86_400.0));
    assert_eq!(looked.data_until, "2026-01-04T03:04:05Z");
    assert_eq!(looked.next_look_at.as_deref(), Some("2026-01-06T03:04:05Z"));
}

/// Whoever chooses arms gets no trial that chance made.
#[test]
fn services_that_were_assigned_by_hand_make_no_randomised_trial() {
    let written = write(&FieldTrial { by_hand: 2, ..four_arms(72) });
    let report = written.report();
    assert_eq!(report.assignment, Some(Assignment::ByHand));
    let found = find(&report, FindingKind::AssignedByHand);
    assert_eq!((found.len(), found[0].severity, found[0].services.len()), (1, Severity::Grave, 2));
    assert!(report.terminal(Screen::default()).contains("Services were not assigned at random"));
    assert!(find(&write(&four_arms(72)).report(), FindingKind::AssignedByHand).is_empty());
}
