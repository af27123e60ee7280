//! `heaptrial trial power`: how many services and days a trial needs.

use std::ops::Bound;
use std::time::Duration;

use clap::Args;
use heaptrial_evaluate::analysis::{
    Fleet, PowerRequest, PowerRow, PowerTable, Settings, TrialLength, analyse, power,
};
use heaptrial_evaluate::judgement::{Options, read_fleet};
use heaptrial_model::{HumanDuration, units};
use heaptrial_plan::{default_looks, last_look_alpha, rounds_per_block};
use serde_json::json;

use crate::answer::Answer;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::{Table, some};
use crate::target::Target;

/// Fewer services leave their spread uncertain by a quarter and more.
const FEW_PAST_SERVICES: usize = 15;

#[derive(Debug, Args)]
pub struct PowerOptions {
    /// Past data: a run's folder, a database, or a trial of the database; without it the newest
    data: Option<String>,
    /// The ratio to control that the trial is to detect: 0.8 is 20% less memory
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    ratio: f64,
    /// Arms of the trial to come, the control among them
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..))]
    arms: u8,
    /// The arm of the past data whose services stand for those to come [default: the control]
    #[arg(long, value_name = "ARM")]
    arm: Option<String>,
    /// Services per arm to look at
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [3, 5, 10, 20, 40, 80],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=5000))]
    services: Vec<usize>,
    /// Lengths of the trial to look at [default: as long as the past data reach]
    #[arg(long, value_name = "DURATION,...", value_delimiter = ',')]
    days: Vec<HumanDuration>,
    /// The power that is wanted
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = share)]
    power: f64,
    /// Simulated trials for each combination
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(100..=100_000))]
    simulations: usize,
}

pub fn run(options: &PowerOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let target = Target::find(options.data.as_deref(), global)?;
    let fleet = read_fleet(&target.store, target.trial.id, &Options::default())?;
    let arm = match &options.arm {
        Some(name) => fleet.arms.iter().position(|arm| arm.name == *name).ok_or_else(|| {
            let known = some(fleet.arms.iter().map(|arm| &arm.name));
            Failure::usage(format!("there is no arm `{name}`; there are {known}"))
        })?,
        None => fleet.arms.iter().position(|arm| arm.control).unwrap_or(0),
    };
    let days = if options.days.is_empty() {
        days_reached(&fleet, arm)
    } else {
        options.days.iter().map(|duration| duration.0.as_secs_f64() / 86_400.0).collect()
    };
    if fleet.arms.is_empty() || days.is_empty() {
        return Err(Failure::refused(
            "the past data hold no readings of that arm, so nothing can be simulated",
        ));
    }
    let analysis = analyse(&fleet, &Settings::default());
    let non_compliant: Vec<usize> = (0..fleet.services.len())
        .filter(|index| analysis.services[*index].off_treatment_in.iter().any(|own| own.arm == arm))
        .collect();
    let request = PowerRequest {
        arm,
        left_out: non_compliant.clone(),
        ratio: options.ratio,
        arms: usize::from(options.arms),
        services: options.services.clone(),
        lengths: days.into_iter().map(length).collect(),
        wanted: options.power,
        simulations: options.simulations,
    };
    let rounds = |services, alpha, spread| rounds_per_block(services, request.arms, alpha, spread);
    let table = power(&fleet, &Settings::default(), &request, rounds);
    let names: Vec<&str> = non_compliant.iter().map(|index| fleet.services[*index].name.as_str()).collect();
    let text = text(&table, &target.trial.plan.name, names.len());
    Ok(Answer::new(json!({ "power": table, "non_compliant_excluded": names }), text))
}

/// With the looks that a plan of this length has where it names none.
fn length(days: f64) -> TrialLength {
    let looks = default_looks(HumanDuration(Duration::from_secs_f64(86_400.0 * days)));
    TrialLength { days, alpha: last_look_alpha(&looks) }
}

/// Lengths that the data reach: 1, 2, 3, 5, 7, 10, 14 ... days as far as half of the services lived so long; for
/// data of less than two days, quarters of what there is.
fn days_reached(fleet: &Fleet, arm: usize) -> Vec<f64> {
    let own = fleet.services.iter().filter(|service| service.arms.contains(&arm));
    let mut ages: Vec<f64> = own.filter_map(|service| service.current()?.last_age()).collect();
    ages.sort_by(f64::total_cmp);
    let Some(reached) = ages.get(ages.len() / 2).map(|seconds| seconds / 86_400.0) else { return Vec::new() };
    if reached < 2.0 {
        return [0.25, 0.5, 0.75, 1.0].iter().map(|share| share * reached).collect();
    }
    [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 21.0, 30.0].into_iter().filter(|days| *days <= reached).collect()
}

fn text(power: &PowerTable, data: &str, non_compliant: usize) -> String {
    let mut text = format!(
        "Power to detect a ratio of {} with {} arms, by {} simulated trials each\n\
         on services drawn from {} of {data}, at the last look, within the blocks that {} draws.\n\n",
        units::ratio(power.ratio),
        power.arms,
        units::count(power.simulations as u64),
        power.arm,
        command("trial plan")
    );
    let mut head = ["LENGTH", "PAST SERVICES", "SPREAD (SD)", "TESTED AT"].map(str::to_owned).to_vec();
    head.extend(power.services.iter().map(|services| format!("{services} PER ARM")));
    head.push(format!("PER ARM FOR {}", units::share(power.wanted)));
    let rows: Vec<Vec<String>> = [head].into_iter().chain(power.rows.iter().map(row)).collect();
    text += &format!("{}\n", Table::from(rows));
    if non_compliant > 0 {
        text += &format!(
            "{} of {} are excluded: they ran another arm's allocator.\n",
            units::counted(non_compliant, "service"),
            power.arm
        );
    }
    let population = power.rows.iter().map(|row| row.population).max().unwrap_or(0);
    if population < FEW_PAST_SERVICES {
        text += &format!(
            "{population} past services show their spread only roughly: take more than the table says.\n"
        );
    }
    if power.rows.iter().any(|row| row.assumes_normality.contains(&true)) {
        text += "* Student's t: so few services have too few assignments for a permutation test at that level. It assumes that\n\
                 the logarithms of memory are normally distributed.\n";
    }
    text + "Spread is the standard deviation of the logarithm of memory between services at that age.\n\
            Power has an error of simulation of at most 1.6 percentage points (1,000 trials). It holds for services as\n\
            alike as these and for trials whose services all run what they are assigned.\n"
}

fn row(row: &PowerRow) -> Vec<String> {
    let share = |(power, by_student): (&Option<f64>, &bool)| {
        let share = power.map_or_else(|| "–".to_owned(), units::share);
        if *by_student { share + "*" } else { share }
    };
    let needed = match (row.services_needed, row.power.iter().any(Option::is_some)) {
        (Some(n), _) => n.to_string(),
        (None, true) => "more than 2,000".to_owned(),
        (None, false) => "not enough past services of that age".to_owned(),
    };
    let mut cells = vec![
        units::duration(row.days * 86_400.0),
        row.population.to_string(),
        row.spread.map_or_else(|| "–".to_owned(), |spread| format!("{spread:.3}")),
        format!("{:.2}%", 100.0 * row.alpha),
    ];
    cells.extend(row.power.iter().zip(&row.assumes_normality).map(share));
    cells.push(needed);
    cells
}

fn ratio(text: &str) -> Result<f64, ValueError> {
    let expected = "a ratio from 0.02 to 50 other than 1, such as 0.8 for 20% less memory";
    let value = number(text, 0.02..=50.0, expected)?;
    if value == 1.0 { Err(ValueError::Expected(expected)) } else { Ok(value) }
}

fn share(text: &str) -> Result<f64, ValueError> {
    number(text, (Bound::Excluded(0.0), Bound::Excluded(1.0)), "a number between 0 and 1, such as 0.8")
}
