//! The procedure: what is done in which order.

use std::collections::BTreeMap;

use heaptrial_stats::{aa_check, mean, median};
use rayon::prelude::*;

use crate::analysis::age::Ages;
use crate::analysis::curve::Curves;
use crate::analysis::data::Data;
use crate::analysis::failures::ArmEvents;
use crate::analysis::fleet::{Fleet, FleetLife};
use crate::analysis::outcome::{
    Analysis, ArmFigures, ArmResult, DAY, DayLevel, Growth, Sawtooth, SelfCheck, ServiceResult, Settings,
    Verdict,
};
use crate::analysis::{
    checks, extremes, failures, figures, growth, off_treatment, service, standing_out, work,
};

/// Random halvings of the control for the self-check.
const HALVINGS: usize = 1000;

/// Analyses a fleet: figures of services, off-treatment services, figures of arms with and without them, growth and verdicts,
/// and everything odd about the data. The same fleet and settings give the same analysis.
pub fn analyse(fleet: &Fleet, settings: &Settings) -> Analysis {
    let ages = Ages::of(fleet, settings);
    let mut services: Vec<ServiceResult> =
        fleet.services.par_iter().map(|service| service::figures(service, &ages, settings)).collect();
    let members: Vec<Vec<usize>> = (0..fleet.arms.len()).map(|arm| fleet.members(arm)).collect();
    let data = Data { fleet, settings, ages: &ages, services: &services };
    let search = off_treatment::search(data, &members, &Curves::of(fleet, &ages));
    for (index, off_treatment) in search.off_treatment {
        services[index].off_treatment_in.push(off_treatment);
    }
    let data = Data { fleet, settings, ages: &ages, services: &services };
    let treated =
        |arm: usize| members[arm].iter().copied().filter(|index| services[*index].belongs_to(arm)).collect();
    let treated: Vec<Vec<usize>> = (0..members.len()).map(treated).collect();
    let mut findings = search.findings;
    findings.extend(checks::run(data, &treated));
    let as_assigned = figures::of_arms(data, &members);
    // A ratio changes with off-treatment services of the control too.
    let as_treated = (treated != members).then(|| figures::of_arms(data, &treated));
    let mut arms: Vec<ArmResult> = as_assigned
        .into_iter()
        .enumerate()
        .map(|(arm, as_assigned)| {
            let as_treated = as_treated.as_ref().map(|figures| figures[arm].clone());
            let who = (members[arm].as_slice(), treated[arm].as_slice());
            arm_result(data, who, (arm, as_assigned, as_treated))
        })
        .collect();
    let (events, work) = (failures::of_arms(fleet, &members), work::of_arms(data, &treated));
    for (arm, (events, work)) in arms.iter_mut().zip(events.into_iter().zip(work)) {
        (arm.events, arm.work) = (events, work);
    }
    findings.extend(work::findings(data, &treated, &arms));
    findings.extend(failures::findings(data, &members, &treated));
    findings.extend(standing_out::findings(fleet, &arms));
    if fleet.clock.has_calendar() {
        findings.extend(growth::host(fleet, &arms));
    }
    findings.sort_by_key(|finding| finding.severity);
    Analysis {
        settings: *settings,
        matched_age_seconds: ages.matched,
        ages_are_lower_bounds: ages.lower_bounds.contains(&true),
        randomised: fleet.randomised,
        self_check: fleet.clock.has_days().then(|| self_check(data, &treated)).flatten(),
        extremes: extremes::of_arms(data, &treated, &arms),
        services,
        arms,
        findings,
    }
}

fn arm_result(
    data: Data<'_>,
    (members, treated): (&[usize], &[usize]),
    (arm, as_assigned, as_treated): (usize, ArmFigures, Option<ArmFigures>),
) -> ArmResult {
    let fleet = data.fleet;
    let growth = growth::of_arm(data, treated);
    let judged = fleet.clock.has_days();
    let judge = |members: &[usize], growth: Option<&Growth>, figures: &ArmFigures| {
        let of_arm = growth::verdict(data, members, growth, figures.final_median_bytes);
        let own = standing_out::bloating(data, members, growth);
        (standing_out::verdict(of_arm, own.as_ref()), own)
    };
    let figures = as_treated.as_ref().unwrap_or(&as_assigned);
    let (as_treated_verdict, own) = judged
        .then(|| judge(treated, growth.as_ref(), figures))
        .map_or((None, None), |(arm, own)| (Some(arm), own));
    // Who leaves services out must see what they did.
    let as_assigned_verdict = (judged && members != treated).then(|| {
        let growth = growth::of_arm(data, members);
        judge(members, growth.as_ref(), &as_assigned).0
    });
    let word = |verdict: &Option<Verdict>| verdict.as_ref().map(Verdict::as_str);
    ArmResult {
        verdict_as_assigned: as_assigned_verdict
            .filter(|verdict| word(&as_treated_verdict) != Some(verdict.as_str())),
        verdict: as_treated_verdict,
        service_verdicts: own,
        by_day: by_day(data, treated),
        sawtooth: fleet.arms[arm].restarted.then(|| sawtooth(data, treated)).flatten(),
        // Where no figure changed there is nothing to show twice.
        as_treated: as_treated.filter(|figures| *figures != as_assigned),
        as_assigned,
        growth,
        work: None,
        events: ArmEvents::default(),
    }
}

/// Memory by day of age.
fn by_day(Data { fleet, ages, .. }: Data<'_>, members: &[usize]) -> Vec<DayLevel> {
    let of_services: Vec<Vec<DayLevel>> = members
        .par_iter()
        .filter_map(|index| Some((&fleet.services[*index], fleet.services[*index].current()?)))
        .filter(|(service, life)| ages.usable(service, life))
        .map(|(_, life)| service::by_day(life))
        .collect();
    let mut days: BTreeMap<u32, Vec<DayLevel>> = BTreeMap::new();
    for of_day in of_services.into_iter().flatten() {
        days.entry(of_day.day).or_default().push(of_day);
    }
    let level = |(day, of_day): (u32, Vec<DayLevel>)| {
        let middle = |value: fn(&DayLevel) -> f64| median(&of_day.iter().map(value).collect::<Vec<_>>());
        Some(DayLevel {
            day,
            services: of_day.len() as u32,
            median_bytes: middle(|own| own.median_bytes)?,
            age_days: middle(|own| own.age_days)?,
        })
    };
    days.into_iter().filter_map(level).collect()
}

fn sawtooth(data: Data<'_>, members: &[usize]) -> Option<Sawtooth> {
    let averages = data.values(members, |service| service.time_average_bytes);
    let restarts: u32 = members.iter().map(|index| data.services[*index].restarts).sum();
    let lived = members.iter().flat_map(|index| &data.fleet.services[*index].lives);
    let observed = |life: &FleetLife| Some(life.last_age()? - f64::from(life.readings.first()?.age_seconds));
    let days: f64 = lived.filter_map(observed).sum::<f64>() / DAY;
    (!averages.is_empty()).then(|| Sawtooth {
        time_average_bytes: mean(&averages),
        restarts,
        restarts_per_service_day: if days > 0.0 { f64::from(restarts) / days } else { 0.0 },
    })
}

/// The procedure on random halves of the control.
fn self_check(data: Data<'_>, members: &[Vec<usize>]) -> Option<SelfCheck> {
    let fleet = data.fleet;
    let control = fleet.control()?;
    let levels = match fleet.randomised && fleet.identities_proved {
        true => beside_block_mates(data, members, control),
        false => data.values(&members[control], |service| service.level_bytes),
    };
    let found = aa_check(&levels, HALVINGS, fleet.seed)?;
    Some(SelfCheck {
        halvings: found.halvings as u32,
        found_share: found.rejected,
        standard_error: found.standard_error,
        noise_ratio: found.noise_floor,
    })
}

/// Levels of the control in proportion to what the other arms' services of the same block have, each in proportion to
/// its arm: services are compared within blocks, so what blocks differ by is no noise.
fn beside_block_mates(data: Data<'_>, members: &[Vec<usize>], control: usize) -> Vec<f64> {
    let Data { fleet, services, .. } = data;
    let log = |index: &usize| services[*index].level_bytes.filter(|bytes| *bytes > 0.0).map(f64::ln);
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (_, own) in members.iter().enumerate().filter(|(arm, _)| *arm != control) {
        let middle = mean(&own.iter().filter_map(log).collect::<Vec<_>>());
        for index in own {
            let block = blocks.entry(fleet.services[*index].block).or_default();
            block.extend(log(index).map(|level| level - middle));
        }
    }
    let beside = |index: &usize| {
        let block = blocks.get(&fleet.services[*index].block).filter(|block| !block.is_empty())?;
        Some((log(index)? - mean(block)).exp())
    };
    members[control].iter().filter_map(beside).collect()
}
