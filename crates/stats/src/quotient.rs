//! One estimate over another, with an interval.

/// An estimate with the lower and the upper end of its interval, where it has them.
pub type Bounded = (f64, Option<f64>, Option<f64>);

/// One positive estimate over another, independent of it. The distances of both to their ends are added as squares on the
/// log scale (as errors of independent estimates are: the "MOVER" of A. Donner and G. Y. Zou, Statistical Methods in Medical
/// Research 21 (2012)). `None` where one is not positive; an end that is not positive leaves that end open.
pub fn quotient(over: Bounded, under: Bounded) -> Option<Bounded> {
    if !(over.0 > 0.0 && under.0 > 0.0) {
        return None;
    }
    let value = over.0 / under.0;
    let distance = |value: f64, end: Option<f64>| Some((end.filter(|end| *end > 0.0)? / value).ln().powi(2));
    let together = |a: Option<f64>, b: Option<f64>| Some((a? + b?).sqrt());
    let down = together(distance(over.0, over.1), distance(under.0, under.2));
    let up = together(distance(over.0, over.2), distance(under.0, under.1));
    Some((value, down.map(|down| value * (-down).exp()), up.map(|up| value * up.exp())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_has_the_errors_of_both() {
        let bounded = |value, low, high| (value, Some(low), Some(high));
        let sharp = bounded(2.0, 2.0, 2.0);
        let (_, low, high) = quotient(bounded(1.0, 0.5, 2.0), sharp).unwrap();
        assert!((low.unwrap() - 0.25).abs() < 1e-12 && (high.unwrap() - 1.0).abs() < 1e-12);
        let (_, low, high) = quotient(bounded(1.0, 0.5, 2.0), bounded(1.0, 0.5, 2.0)).unwrap();
        let reach = (2f64.sqrt() * 2f64.ln()).exp();
        assert!((high.unwrap() - reach).abs() < 1e-12 && (low.unwrap() - 1.0 / reach).abs() < 1e-12);
        assert_eq!(quotient((-1.0, None, None), sharp), None);
        let (value, low, high) = quotient(bounded(1.0, -0.5, 2.0), sharp).unwrap();
        assert_eq!((value, low), (0.5, None));
        assert!((high.unwrap() - 1.0).abs() < 1e-12);
    }
}
