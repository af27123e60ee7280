//! Tables with a row for each arm: what it needs, what it ran and what happened to it.

use heaptrial_evaluate::analysis::{ArmEvents, ArmFigures};
use heaptrial_model::MemorySplit;

use super::{
    Columns, Detail, Emphasis, Table, emphasis, of_other_reading, other_reading, pace, ratio_or_control,
    treatment, whole,
};
use crate::document::{Arm, Report};
use crate::text::estimate;
use crate::{units, verdict};

/// The arms' figures, least memory first.
pub(crate) fn results(report: &Report, detail: Detail) -> Option<Table> {
    let full = detail == Detail::Full;
    let any = |has: fn(&Arm) -> bool| report.arms.iter().any(has);
    let of = |arm: &usize| &report.arms[*arm];
    let differ = any(|arm| arm.result.as_treated.is_some());
    let judged = any(|arm| arm.verdict.is_some());
    // Growth of a short run is in bytes.
    let over_days = any(|arm| arm.result.growth.is_some());
    let growth = move |arm: &usize| match (over_days, &of(arm).result.growth) {
        (true, growth) if full => Some(estimate(&growth.as_ref()?.share_per_day, units::signed_percent)),
        (true, growth) => Some(units::signed_percent(growth.as_ref()?.share_per_day.value)),
        (false, _) => Some(units::growth(of(arm).slope_bytes_per_hour?, pace(report))),
    };
    let both = full && any(|arm| arm.rss_bytes_final.is_some() && arm.anon_bytes_final.is_some());
    Columns::of("Arm", |arm| match of(arm).control {
        true => format!("{} (control)", of(arm).name),
        false => of(arm).name.clone(),
    })
    .figure("Level", |arm| of(arm).level().map(units::memory))
    .figure("Mean at end", |arm| of(arm).result.treated().final_mean_bytes.map(units::memory))
    .figure("Mean at end, all", move |arm| of(arm).final_bytes().filter(|_| differ).map(units::memory))
    .figure("Peak", move |arm| {
        whole(of(arm).memory.as_ref().filter(|_| full || !judged).map(|memory| memory.peak_bytes))
    })
    .figure(other_reading(report), move |arm| {
        of_other_reading(report, of(arm).rss_bytes_final, of(arm).anon_bytes_final).filter(|_| both)
    })
    .figure("Ratio (95% CI)", |arm| ratio_or_control(of(arm).control, of(arm).ratio()))
    .figure("Adjusted p", move |arm| of(arm).ratio().filter(|_| full)?.p_value_adjusted.map(units::p_value))
    .figure(if over_days { "Growth a day" } else { "Growth" }, growth)
    .figure("CPU", move |arm| of(arm).cpu_seconds.filter(|_| full || !judged).map(units::cpu))
    .text("Verdict", |arm| of(arm).result.verdict.as_ref().map(|verdict| verdict::word(verdict).to_owned()))
    .figure("Services", |arm| Some(services(of(arm))))
    .figure("Consensuses", move |arm| of(arm).consensuses.filter(|_| full).map(|taken| format!("{taken:.0}")))
    .table_of_arms(report.ranking(), |arm| match of(arm).memory {
        None => (Some(*arm), Emphasis::Lost),
        Some(_) => emphasis(report, *arm),
    })
}

/// `8`, or `7 of 8` where not all count.
fn services(arm: &Arm) -> String {
    let counted = arm.services_belonging() as usize;
    let all = match arm.result.as_treated {
        Some(_) => arm.services as usize,
        None => arm.services as usize + arm.services_excluded.len(),
    };
    if counted == all { all.to_string() } else { format!("{counted} of {all}") }
}

/// The arms whose figures differ with and without excluded services, or whose ratio does.
pub(crate) fn with_and_without(report: &Report) -> Option<Table> {
    let both = |arm: usize| {
        let all = &report.arms[arm].result.as_assigned;
        let treated = report.arms[arm].result.as_treated.as_ref();
        // Only the p-value may differ, which is adjusted for what other arms have.
        let value = |figures: &ArmFigures| figures.ratio.as_ref().map(|ratio| ratio.estimate);
        let treated =
            treated.filter(|treated| all.services != treated.services || value(all) != value(treated));
        treated
            .map(|treated| [(arm, "all services", all), (arm, "without excluded services", treated)])
            .into_iter()
            .flatten()
    };
    Columns::of("Arm", |(arm, ..): &(usize, &str, &ArmFigures)| report.arms[*arm].name.clone())
        .text("Over", |(_, over, _)| Some((*over).to_owned()))
        .figure("Services", |(.., figures)| Some(figures.services.to_string()))
        .figure("Mean at end", |(.., figures)| figures.final_mean_bytes.map(units::memory))
        .figure("Level", |(.., figures)| figures.level_bytes.map(units::memory))
        .figure("Ratio to control (95% CI)", |(arm, _, figures)| {
            ratio_or_control(report.arms[*arm].control, figures.ratio.as_ref())
        })
        .table_of_arms(report.ranking().into_iter().flat_map(both), |(arm, ..)| (Some(*arm), Emphasis::None))
}

/// Where the memory of services of an arm was when it was read, of arms whose heap can be read from outside.
pub(crate) fn split<'a>(
    arms: impl Iterator<Item = (usize, &'a str, bool, Option<MemorySplit>)>,
) -> Option<Table> {
    let part = |part: usize| {
        move |(.., parts): &(usize, &str, bool, [u64; 4])| {
            let (bytes, whole) = (parts[part] as f64, parts.iter().sum::<u64>() as f64);
            Some(format!("{} ({})", units::memory(bytes), units::share(bytes / whole.max(1.0))))
        }
    };
    let read = arms.filter_map(|(arm, name, control, split)| Some((arm, name, control, split?.parts())));
    Columns::of("Arm", |(_, name, ..): &(usize, &str, bool, [u64; 4])| (*name).to_owned())
        .figure("Anonymous memory", |(.., parts)| whole(Some(parts.iter().sum())))
        .figure("In use", part(0))
        .figure("Free in pages in use", part(1))
        .figure("Kept free", part(2))
        .figure("Stacks and other", part(3))
        .table_of_arms(read, |(arm, _, control, _)| {
            (Some(*arm), if *control { Emphasis::Control } else { Emphasis::None })
        })
}

/// What ran, in the order given: as proved in the processes, or what lists claim.
pub(crate) fn identities(report: &Report, detail: Detail) -> Option<Table> {
    let full = detail == Detail::Full;
    let renamed = full && report.arms.iter().any(|arm| treatment(arm) != arm.name);
    let claimed = if report.kind.is_import() { "Treatment claimed" } else { "Treatment" };
    let proved = move |arm: &usize| report.arms[*arm].identity.clone().filter(|_| full);
    let anything = full
        || report
            .services
            .iter()
            .any(|service| service.ran.is_some() || service.counts && report.kind.is_lab());
    Columns::of("Arm", |arm: &usize| report.arms[*arm].name.clone())
        .text(claimed, move |arm| {
            let treatment = treatment(&report.arms[*arm]);
            renamed.then(|| if treatment.is_empty() { "none".to_owned() } else { treatment })
        })
        .text("What ran, as proved", move |arm| Some(ran(report, &report.arms[*arm])))
        .text("How", move |arm| Some(proved(arm)?.linkage.as_str().to_owned()))
        .text("File", move |arm| Some(proved(arm)?.path?.display().to_string()))
        .text("Build id", move |arm| proved(arm)?.build_id)
        .text("Settings in force", move |arm| {
            let settings = proved(arm)?.settings;
            let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
            let settings: Vec<String> = settings.collect();
            Some(if settings.is_empty() { "defaults".to_owned() } else { settings.join(" ") })
        })
        .text("List", move |arm| report.arms[*arm].list.clone().filter(|_| full))
        .table_of_arms((0..report.arms.len()).filter(|_| anything), |arm| (Some(*arm), Emphasis::None))
}

/// What was proved in an arm's services, with numbers where it is not the same in all.
fn ran(report: &Report, arm: &Arm) -> String {
    let own = report.services.iter().filter(|service| service.arm == arm.name);
    let mut ran: Vec<&str> = own.filter_map(|service| service.ran.as_deref()).collect();
    ran.sort_unstable();
    let kinds: Vec<(usize, &str)> = ran.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    let unproved = (arm.services as usize).saturating_sub(ran.len());
    match (&kinds[..], &arm.identity) {
        ([], Some(identity)) => identity.label(),
        ([], None) => "not proved".to_owned(),
        ([(_, kind)], _) if unproved == 0 => (*kind).to_owned(),
        (kinds, _) => {
            let unproved = (unproved > 0).then(|| format!("{unproved} not proved"));
            let kinds = kinds.iter().map(|(number, name)| format!("{number} {name}"));
            kinds.chain(unproved).collect::<Vec<_>>().join(", ")
        }
    }
}

/// What happened to the services of each arm; nothing of an import, whose events nobody counted.
pub(crate) fn happened(report: &Report) -> Option<Table> {
    let count = |events: fn(&ArmEvents) -> u32| {
        move |arm: &usize| Some(events(&report.arms[*arm].result.events).to_string())
    };
    Columns::of("Arm", |arm: &usize| report.arms[*arm].name.clone())
        .figure("Failed", |arm| {
            let (arm, failed) = (&report.arms[*arm], report.arms[*arm].result.events.services_failed);
            Some(format!("{failed} of {}", arm.services.max(failed)))
        })
        .figure("Processes", count(|events| events.lives))
        .figure("Non-compliant", count(|events| events.contaminated_lives))
        .figure("Crashes", count(|events| events.crashes))
        .figure("OOM kills", count(|events| events.oom_kills))
        .figure("Restarts, unplanned", count(|events| events.unplanned_restarts))
        .figure("planned", count(|events| events.planned_restarts))
        .figure("Identity changes", count(|events| events.identity_changes))
        .figure("Gaps", count(|events| events.gaps))
        .figure("Reboots", count(|events| events.reboots))
        .table_of_arms((0..report.arms.len()).filter(|_| report.kind.is_on_services()), |arm| {
            emphasis(report, *arm)
        })
}
