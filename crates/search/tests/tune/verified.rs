//! Winners are shown to be better, and to keep the limits, in blocks of their own.

use heaptrial_search::tune::{Against, ArmFigures, Block, Doubt, Figure, Limits, doubt, verified};

#[test]
fn a_limit_whose_figure_is_missing_in_a_block_is_not_kept() {
    let at = |level: f64, work: Option<f64>| ArmFigures { level, work, ..ArmFigures::default() };
    let found = |works: [(Option<f64>, Option<f64>); 3]| {
        let block = |(number, (control, own)): (usize, (Option<f64>, Option<f64>))| {
            let noise = [0.0, 0.01, -0.01][number];
            Block { control: at(18.0, control), arms: vec![(0, at(17.2 + noise, own))] }
        };
        let blocks: Vec<Block> = works.into_iter().enumerate().map(block).collect();
        let verified = verified(&blocks, 1, &[], &[Figure::Level, Figure::Work], 0.95).remove(0);
        let limits = Limits { work: Some(0.1), ..Limits::default() };
        let against = |figure| verified.iter().find(|against| against.figure == figure);
        doubt(0.01, &limits, 3, against)
    };
    let did = (Some(0.0), Some(0.01));
    let missing = |blocks| Some(Doubt::Missing { figure: Figure::Work, blocks });
    assert_eq!(found([did, (Some(0.0), Some(0.0)), did]), None);
    assert_eq!(found([did, (Some(0.0), None), did]), missing(2));
    assert_eq!(found([(None, None); 3]), missing(0));
    let half = |own| (Some(0.0), Some(own));
    assert_eq!(
        found([half(0.7), half(0.69), half(0.71)]),
        Some(Doubt::BreaksLimit { figure: Figure::Work, most: 0.1 })
    );
}

#[test]
fn blocks_that_agree_give_no_interval_of_no_width() {
    let at = |level: f64, cpu: f64, work: f64| ArmFigures { level, cpu: Some(cpu.ln()), work: Some(work) };
    let blocks: Vec<Block> = [17.0, 18.1, 19.3]
        .map(|base| Block { control: at(base, 0.1, 0.0), arms: vec![(0, at(base - 0.5, 0.2, 0.3))] })
        .into();
    let found = verified(&blocks, 1, &[], &[Figure::Level, Figure::Cpu, Figure::Work], 0.95).remove(0);
    for against in &found {
        match against.interval {
            Some((low, high)) => {
                assert!(low < against.log_ratio && against.log_ratio < high, "{against:?}")
            }
            None => assert_eq!(against.figure, Figure::Work),
        }
    }
    // What has no interval is judged as measured: it is beyond a limit, or not shown to keep one.
    assert_eq!([0.1, 0.4].map(|most| found[2].keeps(most)), [Some(false), None]);
}

#[test]
fn who_is_not_shown_to_be_better_by_the_margin_is_no_winner() {
    let found = |low: f64, high: f64| {
        let level = Against {
            other: None,
            figure: Figure::Level,
            blocks: 5,
            log_ratio: f64::midpoint(low, high),
            interval: Some((low, high)),
        };
        doubt(0.01, &Limits::default(), 5, |_| Some(&level))
    };
    assert_eq!(found(-0.5, -0.4), None);
    assert_eq!(found(0.1, 0.2), Some(Doubt::Worse));
    assert_eq!(found(-0.5, 0.4), Some(Doubt::NotBetter));
    // As sure as can be, and nothing that anybody would change a service for.
    assert_eq!(found(-0.009, -0.007), Some(Doubt::WithinMargin));
}

#[test]
fn a_winner_is_compared_with_the_control_and_the_best_known() {
    let at = |level: f64| ArmFigures { level, ..ArmFigures::default() };
    let block = |base: f64, gain: f64| Block {
        control: at(base),
        arms: vec![(0, at(base - 0.5 - gain)), (1, at(base - 0.4))],
    };
    let blocks = [block(18.0, 0.0), block(19.0, 0.01), block(18.5, -0.01)];
    let best = ["best".to_owned()];
    let found = verified(&blocks, 1, &best, &[Figure::Level], 0.95);
    let [control, other] = found[0].as_slice() else { panic!("{found:?}") };
    assert!((control.log_ratio + 0.5).abs() < 1e-12 && control.other.is_none());
    assert!((other.log_ratio + 0.1).abs() < 1e-12 && other.other.as_deref() == Some("best"));
    // Student's t with 2 degrees of freedom: 4.302653 · 0.01 / √3.
    let (low, high) = control.interval.unwrap();
    assert!((high - low - 2.0 * 4.302_653 * 0.01 / 3f64.sqrt()).abs() < 1e-6);
    assert_eq!(verified(&blocks[..1], 1, &best, &[Figure::Level], 0.95)[0][0].interval, None);
}
