//! The factorial of a synthetic lab run.

use crate::fixture;

use fixture::{Fixture, Service, identity};
use heaptrial_judgement::{Judgement, Options};
use heaptrial_model::{AllocatorSpec, FactorialDesign, Linkage, Setting, SettingLevel, Side, TrialKind};
use heaptrial_report::FactorialReport;

fn level(value: &str) -> SettingLevel {
    SettingLevel { settings: vec![Setting { name: "purge_delay".to_owned(), value: value.to_owned() }] }
}

fn design() -> FactorialDesign {
    let spec = |text: &str| text.parse::<AllocatorSpec>().unwrap();
    FactorialDesign {
        good: spec("mimalloc@2.1.7"),
        bad: spec("mimalloc@3.0.1"),
        levels: vec![level("10"), level("2500"), level("0")],
        good_default: Some(0),
        bad_default: Some(1),
    }
}

/// Levels in MiB of the cells in the order of the design's specs; each repeat has a factor of its own.
fn run(cells: [f64; 6], repeats: u32) -> Fixture {
    let arms = design().specs().into_iter().map(|spec| {
        let version = spec.version.clone().unwrap();
        (
            spec.to_string(),
            Some(identity("mimalloc", version.as_str(), Linkage::Preloaded, "/usr/lib/libmimalloc.so")),
        )
    });
    let services = (0..repeats).flat_map(|block| {
        cells.into_iter().enumerate().map(move |(arm, mib)| {
            let own = 1.0 + 0.2 * f64::from(block) + 0.004 * f64::from((block + 1) * (arm as u32 * 5 % 7));
            Service::new(&format!("arm{arm}-repeat{block}"), arm, block, move |_| mib * own)
        })
    });
    Fixture {
        name: "lab",
        kind: TrialKind::LabTor,
        seconds: 30,
        repeats,
        arms: arms.collect(),
        torrc_of_last: None,
        command_of_last: None,
        services: services.collect(),
        events: Vec::new(),
        command: "heaptrial lab tor".to_owned(),
        outcome: Some("completed"),
    }
}

fn analysed(fixture: &Fixture) -> FactorialReport {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = fixture.write(&folder.path().join("trial.db"));
    let judgement = Judgement::of(&store, id, &Options::default()).unwrap();
    FactorialReport::of(&judgement, &design()).unwrap()
}

#[test]
fn version_and_settings_are_told_apart() {
    // Good version 100, 200 and 50 MiB; the bad one is 1.5 times as much, whatever the setting.
    let found = analysed(&run([100.0, 200.0, 50.0, 150.0, 300.0, 75.0], 3));
    let parts = found.parts.as_ref().unwrap();
    let near = |ratio: f64, expected: f64| (ratio / expected - 1.0).abs() < 0.05;
    assert!(near(parts.total.estimate, 3.0) && near(parts.version.estimate, 1.5), "{parts:?}");
    assert!(near(parts.setting.estimate, 2.0) && near(parts.interaction.estimate, 1.0), "{parts:?}");
    let share = parts.setting_share.as_ref().unwrap();
    assert!(near(share.estimate, 2.0f64.ln() / 3.0f64.ln()), "{share:?}");
    assert!(share.low.unwrap() < share.estimate && share.estimate < share.high.unwrap());
    assert!(near(found.cell(Side::Bad, 2).unwrap().ratio_to_good.as_ref().unwrap().estimate, 0.75));
    assert!(found.version_at.iter().all(|effect| near(effect.ratio.estimate, 1.5)));
    assert_eq!(found.setting_in.len(), 4);
    let read: FactorialReport = serde_json::from_str(&found.json().unwrap()).unwrap();
    assert_eq!(read, found);
}

#[test]
fn on_the_terminal_and_as_markdown() {
    // In the bad version the delay does nothing but at 0.
    let found = analysed(&run([144.0, 309.0, 62.0, 352.0, 331.0, 77.0], 3));
    insta::assert_snapshot!("factorial_on_the_terminal", found.terminal(false));
    insta::assert_snapshot!("factorial_as_markdown", found.markdown());
}

#[test]
fn one_repeat_has_ratios_and_no_interval_and_says_so() {
    let found = analysed(&run([100.0, 200.0, 50.0, 150.0, 300.0, 75.0], 1));
    let parts = found.parts.as_ref().unwrap();
    assert_eq!((parts.total.low, parts.total.p_value, parts.total.method.as_str()), (None, None, "none"));
    assert!(found.notes[0].contains("no intervals") && found.terminal(false).contains("no intervals"));
}

#[test]
fn an_arm_of_another_command_is_in_no_cell() {
    let cells = [100.0, 200.0, 50.0, 150.0, 300.0, 75.0];
    let mut fixture = run(cells, 3);
    // The bad build once more, with a command that needs five times as much.
    let (name, identity) = fixture.arms[4].clone();
    fixture.arms.push((format!("{name} again"), identity));
    fixture.services.extend((0..3).map(|block| {
        Service::new(&format!("other-repeat{block}"), 6, block, move |_| {
            1500.0 * (1.0 + 0.2 * f64::from(block))
        })
    }));
    let pooled = |fixture: &Fixture| analysed(fixture).cell(Side::Bad, 1).unwrap().services;
    assert_eq!(pooled(&fixture), 6);
    fixture.command_of_last = Some("another-program");
    assert_eq!(pooled(&fixture), 3);
    let total = analysed(&fixture).parts.as_ref().unwrap().total.estimate;
    assert!((total / 3.0 - 1.0).abs() < 0.05, "{total}");
}

#[test]
fn a_repeat_that_lacks_a_cell_is_left_out_of_what_needs_it() {
    let mut fixture = run([100.0, 200.0, 50.0, 150.0, 300.0, 75.0], 3);
    let lost = fixture.services.iter_mut().find(|service| (service.arm, service.block) == (5, 2)).unwrap();
    lost.contamination = Some("the process maps another allocator");
    let found = analysed(&fixture);
    assert_eq!(found.cell(Side::Bad, 2).unwrap().services, 2);
    assert!(found.notes.iter().any(|note| note.starts_with("1 of 6 cells lack")), "{:?}", found.notes);
    // The cells of the defaults are all there.
    assert!(found.parts.is_some());
}
