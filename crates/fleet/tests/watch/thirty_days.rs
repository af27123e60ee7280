//! Months of which the truth is known: what goes wrong is found, and on which day; a quiet month stays quiet. The long
//! version is `bench/src/bin/calibrate_watch.rs`.

use crate::simulation;

use heaptrial_fleet::watch::AlertChange;
use rayon::prelude::*;
use simulation::{Event, Month, first};

/// The day from which on something is wrong: between two looks.
const SINCE: f64 = 8.0;

#[test]
fn quiet_months_are_quiet() {
    let sizes = [5, 8, 12, 20, 40];
    let loud: Vec<String> = (0..100_u64)
        .into_par_iter()
        .filter_map(|seed| {
            let services = sizes[seed as usize % sizes.len()];
            // Restarted when the watch began, or going on from the trial.
            let reported = Month { restarted: seed / 5 % 2 == 0, ..Month::quiet(services) }.live(seed);
            (!reported.is_empty()).then(|| format!("month {seed} of {services} services: {reported:?}"))
        })
        .collect();
    assert!(loud.len() <= 1, "{}", loud.join("\n"));
}

#[test]
fn what_is_a_fact_is_reported_by_the_next_check() {
    for event in [Event::Library, Event::Libc, Event::File, Event::DropIn, Event::NewService] {
        let reported = Month::quiet(6).with(event, SINCE).live(1);
        assert_eq!(first(&reported, event.kind()), Some(SINCE), "{event:?}: {reported:?}");
        let raised = reported
            .iter()
            .filter(|(_, change, kind, _)| *change == AlertChange::Raised && *kind == event.kind());
        assert_eq!(raised.count(), 1, "{event:?} is reported once: {reported:?}");
    }
}

#[test]
fn what_takes_a_test_is_found_within_days() {
    let mut late = Vec::new();
    for (event, services, latest) in [
        (Event::Level(1.4), 10, 14.0),
        (Event::Level(1.3), 40, 14.0),
        (Event::Level(2.0), 5, 14.0),
        (Event::Level(1.5), 40, 10.0),
        (Event::OneLevel(2.0), 10, 18.0),
        (Event::Growth(0.02), 10, 18.0),
        (Event::Full(0.03, 2.0), 10, 18.0),
        (Event::Crashes(0.5), 10, 14.0),
        (Event::OneIsKilled(6.0), 10, 12.0),
        (Event::NoData, 10, 9.0),
        (Event::OneSilent, 10, 9.0),
    ] {
        let days: Vec<Option<f64>> = (0..3_u64)
            .into_par_iter()
            .map(|seed| {
                // Of services that go on so little is within the growth that is never alerted.
                let restarted = seed % 2 == 0 || event == Event::Level(1.15);
                let reported = Month { restarted, ..Month::quiet(services) }.with(event, SINCE).live(seed);
                let day = first(&reported, event.kind());
                assert!(day.is_none_or(|day| day >= SINCE), "{event:?}: {reported:?}");
                day
            })
            .collect();
        println!("{event:?}, {services} services: found on days {days:?}");
        if !days.iter().all(|day| day.is_some_and(|day| day <= latest)) {
            late.push((event, services, days));
        }
    }
    assert!(late.is_empty(), "{late:?}");
}
