//! What charts show: bars of the figure that is compared, one look for a family in all reports, and the calendar.

use crate::{fixture, fleet, import, lab};

use std::collections::BTreeMap;

use heaptrial_evaluate::judgement::{Calendar, Happened};
use heaptrial_model::{Arm, Treatment};
use heaptrial_report::{Document, Options, Report, embedded};

fn chart(report: &Report, name: &str) -> String {
    let charts = report.charts();
    charts.iter().find(|chart| chart.name == name).unwrap_or_else(|| panic!("no chart {name}")).file()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let from = element.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{element}")).1;
    from.split_once('"').unwrap().0
}

/// Class and width of each bar, in the order of the ranking.
fn bars(svg: &str) -> Vec<(String, f64)> {
    let rectangles = svg.split("<rect").skip(1).map(|rest| rest.split('>').next().unwrap());
    let bars = rectangles
        .filter(|element| attribute(element, "class").split(' ').next_back().unwrap().starts_with('f'));
    let bars = bars.filter(|element| !attribute(element, "class").contains("frame"));
    bars.map(|element| (attribute(element, "class").to_owned(), attribute(element, "width").parse().unwrap()))
        .collect()
}

/// Arms with their bars.
fn bars_of(of: &Report) -> Vec<(&heaptrial_report::Arm, String, f64)> {
    let ranked = of.ranking().into_iter().map(|index| &of.arms[index]).filter(|arm| arm.level().is_some());
    let bars = bars(&chart(of, "final-memory"));
    assert_eq!(ranked.clone().count(), bars.len());
    ranked.zip(bars).map(|(arm, (class, width))| (arm, class, width)).collect()
}

#[test]
fn a_bar_and_the_ratio_beside_it_are_of_the_same_figure() {
    // The means at the end differ: arms grow, and the control has off-treatment services.
    for of in
        [lab(&fixture::tor()), lab(&fixture::command(3)), import(&fleet::contaminated(), &Options::default())]
    {
        let bars = bars_of(&of);
        let control = bars.iter().find(|(arm, _, _)| arm.control).unwrap().2;
        let mut compared = 0;
        for (arm, _, width) in &bars {
            // What is restarted at intervals is compared by averages over time.
            let Some(ratio) = arm.ratio().filter(|_| arm.result.sawtooth.is_none()) else { continue };
            assert!(
                (width / control - ratio.estimate.value).abs() < 0.01,
                "{}: {width} {control} {}",
                arm.name,
                ratio.estimate.value
            );
            compared += 1;
        }
        assert!(compared >= 2);
    }
}

/// Family of a class such as `outlined f7`: colours of a family stand together.
fn family(class: &str) -> usize {
    class.rsplit('f').next().unwrap().parse::<usize>().unwrap() / 4
}

fn families(of: &Report) -> BTreeMap<String, usize> {
    bars_of(of).into_iter().map(|(arm, class, _)| (arm.name.clone(), family(&class))).collect()
}

#[test]
fn a_family_has_one_colour_in_all_kinds_of_reports() {
    let (tor, command) = (families(&lab(&fixture::tor())), families(&lab(&fixture::command(2))));
    let field = families(&import(&fleet::contaminated(), &Options::default()));
    assert_eq!(tor["glibc"], command["glibc"]);
    assert_eq!(tor["glibc"], field["group_glibc"]);
    assert_eq!(tor["glibc"], tor["DirCache 0"], "by what it was proved to run");
    assert_eq!(field["group_glibc"], field["group_restarted"]);
    assert_eq!(tor["jemalloc@5.3.0"], field["group_jemalloc"]);
    let mimalloc = [&tor["mimalloc@2.0.9"], &tor["mimalloc@3.0.1"], &command["mimalloc@3.0.1?purge_delay=0"]];
    assert!(mimalloc.iter().all(|family| **family == field["group_mimalloc217"]));
    let distinct: std::collections::BTreeSet<usize> =
        [tor["glibc"], tor["jemalloc@5.3.0"], tor["mimalloc@2.0.9"]].into();
    assert_eq!(distinct.len(), 3);
    // The dashboard's swatch of a trial that still runs is the same.
    let arm = |name: &str| Arm { name: name.to_owned(), control: false, treatment: Treatment::default() };
    let arms = ["A_mimalloc301", "group_E_glibc"].map(arm);
    let styles = embedded::ArmStyles::of(arms.iter().map(|arm| (arm, None)));
    for (place, name) in ["mimalloc@2.0.9", "glibc"].iter().enumerate() {
        let swatch = embedded::swatch(&styles, place).into_string();
        let class = swatch.split("class=\"marker ").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(family(class), tor[*name], "{swatch}");
    }
}

#[test]
fn a_trial_over_days_has_a_calendar_and_a_lab_run_has_none() {
    let of = import(&fleet::contaminated(), &Options::default());
    let calendar: &Calendar = of.trajectories.as_ref().unwrap().calendar.as_ref().unwrap();
    let svg = chart(&of, "over-calendar-time");
    for shown in [">8 restarts<", "note, 20", "UTC<"] {
        assert!(svg.contains(shown), "{shown}");
    }
    // Its 8 services are restarted together, three times.
    let restarts = calendar.marks.iter().filter(|mark| mark.happened == Happened::Restart);
    assert_eq!(restarts.map(|mark| mark.count).collect::<Vec<_>>(), [8, 8, 8]);
    let lab = lab(&fixture::tor());
    assert_eq!(lab.trajectories.as_ref().unwrap().calendar, None);
    assert!(lab.charts().iter().all(|chart| chart.name != "over-calendar-time"));
}
