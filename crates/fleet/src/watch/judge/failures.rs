//! Crashes and kills above the rate before.

use heaptrial_evaluate::analysis::DAY;
use heaptrial_model::{KnownEvent, units};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::{ERROR, FailuresBefore, WatchPlan};
use crate::watch::schedule::days_over;
use crate::watch::seen::Seen;

/// Besides all days since the start, the last so many are looked at by themselves: what began late would be lost in them.
const LAST_DAYS: [u32; 3] = [1, 3, 7];

/// Services that fail, where all together fail more often than before, as of the last day that is over.
///
/// Every day is looked at, and each may err alike: with equal parts of its error for the failures since the start and
/// for those of the last days.
pub(super) fn findings(plan: &WatchPlan, seen: &Seen) -> Vec<Finding> {
    let day = days_over(plan.elapsed_days(seen.at), plan.days);
    if day == 0 {
        return Vec::new();
    }
    let spans = LAST_DAYS.into_iter().filter(|last| *last < day).chain([day]);
    let error = ERROR / 2.0 / plan.days.max(1.0) / (LAST_DAYS.len() + 1) as f64;
    let until = plan.started_at + f64::from(day) * DAY;
    let services = plan.services.len() as f64;
    let within = |days: f64| {
        let of = seen.failures.iter().filter(|failure| (until - days * DAY..until).contains(&failure.at));
        let of: Vec<_> = of.collect();
        let p = p_value(of.len() as u32, services * days, plan.failures_before);
        (of, days, p)
    };
    let shown = spans.map(|days| within(f64::from(days))).filter(|(_, _, p)| *p <= error);
    let Some((found, days, p)) = shown.min_by(|a, b| a.2.total_cmp(&b.2)) else { return Vec::new() };
    let before = plan.failures_before;
    let text = format!(
        "{} and {} in {} ({} {} in {:.0} service days; p {})",
        crashes(found.iter().filter(|failure| failure.kind == KnownEvent::Crash).count()),
        units::counted(
            found.iter().filter(|failure| failure.kind == KnownEvent::OomKill).count(),
            "OOM kill"
        ),
        units::counted(days as usize, "day"),
        if before.assumed { "nothing is known from before; taken are" } else { "before there were" },
        before.failures,
        before.service_days,
        units::p_value(p)
    );
    found
        .into_iter()
        .map(|failure| Finding::new(AlertKind::Failures, &failure.service, "above", &text))
        .collect()
}

fn crashes(count: usize) -> String {
    format!("{count} crash{}", if count == 1 { "" } else { "es" })
}

/// The probability of so many failures or more in `service_days` where the rate is the trial's.
///
/// The conditional test of two Poisson rates, exact: given their sum, the failures of the watch are binomial with its
/// share of the service days (J. Przyborowski, H. Wilenski, "Homogeneity of Results in Testing Samples from Poisson
/// Series", Biometrika 31, 1940).
fn p_value(failures: u32, service_days: f64, before: FailuresBefore) -> f64 {
    if failures == 0 || !(service_days > 0.0 && before.service_days > 0.0) {
        return 1.0;
    }
    let share = service_days / (service_days + before.service_days);
    match Binomial::new(share, u64::from(failures + before.failures)) {
        Ok(binomial) => binomial.sf(u64::from(failures - 1)),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_two_rates_is_exact() {
        let before = FailuresBefore { failures: 2, service_days: 100.0, assumed: false };
        // By sums of binomial coefficients: share 1/3 of 7, 5 or more; share 1/11 of 3, all.
        let sum = (21.0 * 4.0 + 7.0 * 2.0 + 1.0) / 3.0_f64.powi(7);
        assert!((p_value(5, 50.0, before) - sum).abs() < 1e-12);
        let none = FailuresBefore { failures: 0, service_days: 100.0, assumed: false };
        assert!((p_value(3, 10.0, none) - (1.0_f64 / 11.0).powi(3)).abs() < 1e-12);
    }

    #[test]
    fn where_nothing_is_known_a_rate_is_taken() {
        assert_eq!(
            FailuresBefore::of(2, 30.0),
            FailuresBefore { failures: 2, service_days: 30.0, assumed: false }
        );
        let taken = FailuresBefore { failures: 1, service_days: 30.0, assumed: true };
        assert_eq!([FailuresBefore::of(2, 29.5), FailuresBefore::of(0, 0.0)], [taken, taken]);
        // A service that fails again and again on its first day is not lost.
        assert!(p_value(8, 1.0, taken) < 1e-9);
    }
}
