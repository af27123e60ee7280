//! Days, and services far from their arm.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::outliers;

#[test]
fn the_last_day_is_as_old_as_its_readings() {
    let mut fleet = fleet(&[(6, &|_| 1.0)]);
    for (seed, service) in fleet.services.iter_mut().enumerate() {
        service.lives = vec![life(seed, 0.0, 2.0, |age| 1.0 + age)];
        service.lives[0].readings.retain(|reading| reading.age_seconds % 43_200.0 == 0.0);
    }
    let days = run(&fleet).arms[0].by_day.clone();
    let ages: Vec<f64> = days.iter().map(|day| day.age_days).collect();
    assert_eq!(ages, [0.25, 1.25, 2.0], "{days:?}");
}

#[test]
fn a_service_far_from_its_arm_is_named() {
    let mut fleet = fleet(&[(9, &|_| 1.0), (9, &|_| 4.0), (4, &|_| 2.0)]);
    // What ran is proved: nobody is off treatment for its memory.
    fleet.identities_proved = true;
    for life in fleet.services.iter_mut().flat_map(|service| &mut service.lives) {
        life.proved = true;
    }
    assert_eq!(outliers(&run(&fleet)), []);
    fleet.services[3].lives = vec![life(3, 0.0, 8.0, |_| 2.5)];
    fleet.services[12].lives = vec![life(12, 0.0, 8.0, |_| 1.0)];
    // Of four services nobody stands out.
    fleet.services[20].lives = vec![life(20, 0.0, 8.0, |_| 9.0)];
    let analysis = run(&fleet);
    let found = outliers(&analysis);
    let told: Vec<(usize, usize)> = found.iter().map(|outlier| (outlier.service, outlier.arm)).collect();
    assert_eq!(told, [(12, 1), (3, 0)], "farthest first: {found:?}");
    assert!((found[0].factor - 0.25).abs() < 0.02 && (found[1].factor - 2.5).abs() < 0.1, "{found:?}");
    assert!((found[1].median_bytes / GIB - 1.0).abs() < 0.06);
}
