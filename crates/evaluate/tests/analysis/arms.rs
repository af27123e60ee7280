//! Who counts in an arm, and what is said where little is known.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{FindingKind, Fleet, Verdict};
use heaptrial_model::Reading;

#[test]
fn proved_off_treatment_are_left_out_as_treated() {
    let mut fleet = fleet(&[(10, &|_| 2.0), (10, &|_| 1.0)]);
    fleet.services[12].lives[0] = life(12, 0.0, 8.0, |_| 2.0);
    fleet.services[12].lives[0].contamination = Some("glibc was mapped".to_owned());
    let analysis = run(&fleet);
    let arm = &analysis.arms[1];
    assert_eq!((arm.as_assigned.services, arm.treated().services), (10, 9));
    let off_treatment = &analysis.services[12].off_treatment_in[0];
    assert!(off_treatment.proved && off_treatment.why == "glibc was mapped");
    let finding = find(&analysis, FindingKind::Contaminated).unwrap();
    assert_eq!((names(finding), finding.arms.as_slice()), (vec!["s12"], &[1][..]));
    // Told once: what is proved is not inferred again.
    assert!(find(&analysis, FindingKind::NearerToAnotherArm).is_none());
    let (assigned, treated) =
        (arm.as_assigned.ratio.as_ref().unwrap(), arm.treated().ratio.as_ref().unwrap());
    assert!(treated.estimate.value < assigned.estimate.value);
}

#[test]
fn the_other_arms_change_with_off_treatment_of_the_control() {
    let mut fleet = fleet(&[(10, &|_| 2.0), (10, &|_| 1.0)]);
    fleet.services[3].lives[0] = life(3, 0.0, 8.0, |_| 1.0);
    fleet.services[3].lives[0].contamination = Some("mimalloc".to_owned());
    let analysis = run(&fleet);
    let ratio =
        |figures: &heaptrial_evaluate::analysis::ArmFigures| figures.ratio.as_ref().unwrap().estimate.value;
    assert!(ratio(analysis.arms[1].treated()) < ratio(&analysis.arms[1].as_assigned));
}

#[test]
fn a_service_in_two_arms_counts_where_its_memory_fits() {
    let mut fleet = fleet(&[(10, &|_| 2.0), (10, &|_| 1.0)]);
    fleet.services[4].arms = vec![0, 1];
    let analysis = run(&fleet);
    assert_eq!((analysis.arms[1].as_assigned.services, analysis.arms[1].treated().services), (11, 10));
    assert_eq!(analysis.arms[0].treated().services, 10);
    assert_eq!(analysis.services[4].off_treatment_in[0].like, Some(0));
    assert_eq!(names(find(&analysis, FindingKind::TreatmentUncertain).unwrap()), ["s4"]);
}

#[test]
fn a_list_that_names_a_service_twice_counts_it_once() {
    let mut fleet = fleet(&[(6, &|_| 2.0), (6, &|_| 1.0)]);
    fleet.services[7].arms = vec![1, 1];
    let analysis = run(&fleet);
    assert_eq!(analysis.arms[1].as_assigned.services, 6);
    assert!(find(&analysis, FindingKind::TreatmentUncertain).is_none());
}

#[test]
fn one_service_per_arm_has_no_interval() {
    let analysis = run(&fleet(&[(1, &|_| 2.0), (1, &|_| 1.0)]));
    let ratio = analysis.arms[1].as_assigned.ratio.as_ref().unwrap();
    assert!((ratio.estimate.value - 0.5).abs() < 0.05);
    assert_eq!((ratio.estimate.interval(), ratio.p_value, ratio.p_value_adjusted), (None, None, None));
    assert_eq!(ratio.method, "none");
    assert!(analysis.arms[1].growth.as_ref().unwrap().share_per_day.interval().is_none());
    assert_eq!(analysis.arms[1].verdict.as_ref().unwrap().as_str(), "inconclusive");
    assert!(find(&analysis, FindingKind::FewServices).is_some() && analysis.self_check.is_none());
}

#[test]
fn without_a_control_nothing_is_compared() {
    let mut no_control = fleet(&[(6, &|_| 2.0), (6, &|_| 1.0)]);
    no_control.arms[0].control = false;
    let analysis = run(&no_control);
    assert!(analysis.arms.iter().all(|arm| arm.as_assigned.ratio.is_none()) && analysis.self_check.is_none());
    let analysis = run(&fleet(&[(0, &|_| 2.0), (6, &|_| 1.0)]));
    assert!(analysis.arms[1].as_assigned.ratio.is_none());
    assert_eq!(analysis.arms[0].as_assigned.final_mean_bytes, None);
    assert_eq!(analysis.arms[0].verdict.as_ref().unwrap().as_str(), "inconclusive");
}

#[test]
fn nothing_comes_of_nothing() {
    let analysis = run(&Fleet::default());
    assert!(
        analysis.arms.is_empty() && analysis.findings.is_empty() && analysis.matched_age_seconds.is_none()
    );
    // Services that were never read.
    let mut unread = fleet(&[(2, &|_| 1.0), (2, &|_| 1.0)]);
    unread.services.iter_mut().for_each(|service| service.lives.clear());
    let analysis = run(&unread);
    assert_eq!(analysis.services[0].no_level.as_deref(), Some("it has no readings"));
    assert_eq!(find(&analysis, FindingKind::EndsEarly).unwrap().evidence, "4 services were never read");
}

#[test]
fn readings_of_nothing_and_single_readings_are_no_levels_and_no_slopes() {
    let mut fleet = fleet(&[(6, &|_| 2.0), (6, &|_| 1.0)]);
    fleet.services[6].lives[0].readings.iter_mut().for_each(|reading| reading.kib = 0);
    fleet.services[7].lives[0].readings = vec![Reading { age_seconds: 100.0, kib: 1_000 }];
    let analysis = run(&fleet);
    let (zero, single) = (&analysis.services[6], &analysis.services[7]);
    assert_eq!((zero.level_bytes, zero.growth_log_per_day, zero.final_bytes), (None, None, Some(0.0)));
    assert_eq!((single.level_bytes, single.growth_log_per_day), (None, None));
    let ratio = &analysis.arms[1].as_assigned.ratio.as_ref().unwrap().estimate;
    assert!((ratio.value - 0.5).abs() < 0.03, "{ratio:?}");
    assert!(analysis.arms[1].as_assigned.level_bytes.unwrap().is_finite());
}

#[test]
fn blocks_take_out_what_their_services_share() {
    let mut fleet = fleet(&[(12, &|_| 1.0), (12, &|_| 0.9)]);
    // Every second pair of services carries twice the load.
    for (index, service) in fleet.services.iter_mut().enumerate() {
        service.block = (index % 12 / 2) as u32;
        let load = 1.0 + f64::from(service.block);
        service.lives[0]
            .readings
            .iter_mut()
            .for_each(|reading| reading.kib = (f64::from(reading.kib) * load) as u32);
    }
    let p_value = |fleet: &Fleet| run(fleet).arms[1].as_assigned.ratio.as_ref().unwrap().p_value.unwrap();
    let blocked = p_value(&fleet);
    fleet.services.iter_mut().for_each(|service| service.block = 0);
    assert!(blocked < 0.01 && p_value(&fleet) > 0.3, "{blocked}");
}

#[test]
fn verdicts_say_why_they_are_missing() {
    let analysis = run(&fleet(&[(3, &|_| 1.0), (6, &|_| 1.0)]));
    let Some(Verdict::Inconclusive { why, .. }) = &analysis.arms[0].verdict else { panic!("{analysis:?}") };
    assert!(why.contains("3 services are too few"), "{why}");
}
