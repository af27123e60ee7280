//! Whatever a fleet is like, the analysis comes to an end, invents no number and comes out the same again.

use crate::build;

use build::{BEGIN, run};
use heaptrial_evaluate::analysis::{
    Clock, Estimate, Fleet, FleetArm, FleetEvent, FleetLife, FleetService, MemoryLimit,
};
use heaptrial_model::{KnownEvent, LifeStart, Reading};
use proptest::prelude::*;

fn reading() -> impl Strategy<Value = (f32, u32)> {
    let kib = prop_oneof![5 => 900_000_u32..1_100_000, 1 => Just(0), 1 => Just(u32::MAX), 1 => any::<u32>()];
    // Gaps, among them none: two readings of one second.
    (prop_oneof![5 => Just(21_600.0_f32), 1 => 0.0_f32..1e6], kib)
}

fn life() -> impl Strategy<Value = FleetLife> {
    let start = prop_oneof![
        3 => Just(LifeStart::Observed),
        1 => (0..i64::MAX / 2).prop_map(|uncertainty_us| LifeStart::Inferred { uncertainty_us }),
        1 => Just(LifeStart::Unknown),
    ];
    let contamination = prop_oneof![5 => Just(None), 1 => Just(Some("something else".to_owned()))];
    let rolled_up = prop_oneof![Just(0.0), Just(900.0)];
    (prop::collection::vec(reading(), 0..30), start, contamination, -1e6..1e6, rolled_up).prop_map(
        |(steps, start, contamination, begin, rolled_up_seconds)| {
            let mut age = 0.0;
            let readings = steps
                .into_iter()
                .map(|(step, kib)| {
                    age += step;
                    Reading { age_seconds: age, kib }
                })
                .collect();
            FleetLife {
                started_at: BEGIN + begin,
                start,
                proved: contamination.is_some(),
                contamination,
                readings,
                rolled_up_seconds,
                ..FleetLife::default()
            }
        },
    )
}

prop_compose! {
    fn fleet()(
        arms in 1_usize..4,
        control in 0_usize..5,
        restarted in any::<bool>(),
        services in prop::collection::vec(
            (prop::collection::vec(0_usize..4, 0..3), 0_u32..3, prop::collection::vec(life(), 0..4)), 0..14),
        events in prop::collection::vec((-1e6..1e6, prop::option::of(0_usize..4)), 0..3),
        limit in prop::option::of(0.0..1e12),
        identities_proved in any::<bool>(),
        seed in any::<u64>(),
    ) -> Fleet {
        Fleet {
            clock: Clock::Calendar,
            arms: (0..arms)
                .map(|arm| FleetArm {
                    name: format!("arm {arm}"),
                    control: arm == control,
                    restarted: restarted && arm == 0,
                })
                .collect(),
            services: services
                .into_iter()
                .enumerate()
                .map(|(index, (of, block, mut lives))| {
                    lives.sort_by(|a, b| a.started_at.total_cmp(&b.started_at));
                    FleetService {
 host: None,
                        name: format!("s{index}"),
                        arms: of.into_iter().map(|arm| arm % arms).collect(),
                        block,
                        limit_bytes: None,
                        lives,
                    }
                })
                .collect(),
            events: events
                .into_iter()
                .map(|(at, arm)| FleetEvent {
 host: None,
                    service: None,
                    kind: KnownEvent::Experiment.into(),
                    at: BEGIN + at,
                    arm: arm.map(|arm| arm % arms),
                    changes_treatment: true,
                    text: "event".to_owned(),
                })
                .collect(),
            limit: MemoryLimit { service_bytes: limit, host_bytes: None, host_available_bytes: limit },
            randomised: true,
            identities_proved,
            seed,
        }
    }
}

fn is_sound(estimate: &Estimate) -> bool {
    let ends = [estimate.low, estimate.high];
    estimate.value.is_finite() && ends.iter().flatten().all(|end| !end.is_nan())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_fleet_is_analysed(fleet in fleet()) {
        let analysis = run(&fleet);
        prop_assert_eq!(analysis.services.len(), fleet.services.len());
        prop_assert_eq!(analysis.arms.len(), fleet.arms.len());
        for service in &analysis.services {
            let figures = [service.final_bytes, service.level_bytes, service.growth_bytes_per_day,
                service.growth_log_per_day, service.time_average_bytes, service.age_seconds];
            prop_assert!(figures.iter().flatten().all(|figure| figure.is_finite()), "{:?}", service);
            prop_assert!(service.level_bytes.is_some() || service.no_level.is_some() || service.time_average_bytes.is_none_or(|average| average == 0.0), "{:?}", service);
        }
        for arm in &analysis.arms {
            for figures in std::iter::once(&arm.as_assigned).chain(&arm.as_treated) {
                let numbers = [figures.final_mean_bytes, figures.final_median_bytes, figures.level_bytes];
                prop_assert!(numbers.iter().flatten().all(|number| number.is_finite()), "{:?}", figures);
                prop_assert!(figures.ratio.as_ref().is_none_or(|ratio| is_sound(&ratio.estimate)), "{:?}", figures);
            }
            if let Some(growth) = &arm.growth {
                prop_assert!(is_sound(&growth.bytes_per_day) && is_sound(&growth.share_per_day), "{:?}", growth);
            }
            prop_assert!(arm.by_day.iter().all(|day| day.median_bytes.is_finite()));
        }
    }
}

/// However many threads there are.
#[test]
fn the_same_fleet_has_the_same_analysis() {
    let gib = |level: f64| move |age: f64| level + 0.01 * age;
    let mut fleet = build::fleet(&[(12, &gib(2.0)), (12, &gib(1.0)), (12, &gib(1.4))]);
    fleet.services[14].arms.push(0);
    fleet.services[15].lives[0] = build::life(15, 0.0, 8.0, gib(2.0));
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&fleet))
    };
    let one = with(1);
    assert_eq!(one, with(1));
    assert_eq!(one, with(3));
    fleet.seed += 1;
    assert_ne!(one, run(&fleet));
}
