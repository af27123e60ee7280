//! What a reassignment of labels makes of the data.

/// What one reassignment of labels within blocks makes of the data, if a constant shift d is the
/// treatment's effect on the log scale: its difference of means is `difference - d * kept` where the
/// observed one is `observed - d`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reassignment {
    pub(crate) difference: f64,
    pub(super) kept: f64,
    /// Of the difference, by which it is studentised; not set where it is not.
    pub(super) variance: Quadratic,
    /// What the variance between blocks is computed from, where it is that.
    pub(super) between: Between,
}

/// A variance as it depends on the shift d that is taken from the treated services: `square - 2 d mixed + d^2 shift`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quadratic {
    pub(super) square: f64,
    pub(super) mixed: f64,
    pub(super) shift: f64,
}

/// Sums over blocks: of the squares of their weighted differences and what those keep of the shift, and
/// of both times the weight.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Between {
    pub(super) squares: Quadratic,
    pub(super) difference: f64,
    pub(super) kept: f64,
    /// Sum of the squares of the weights.
    pub(super) weights: f64,
}

impl Quadratic {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            square: self.square + other.square,
            mixed: self.mixed + other.mixed,
            shift: self.shift + other.shift,
        }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { square: factor * self.square, mixed: factor * self.mixed, shift: factor * self.shift }
    }

    pub(super) fn at(self, d: f64) -> f64 {
        (self.square - 2.0 * d * self.mixed + d * d * self.shift).max(0.0)
    }
}

impl Reassignment {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            difference: self.difference + other.difference,
            kept: self.kept + other.kept,
            variance: self.variance.plus(other.variance),
            between: self.between.plus(other.between),
        }
    }

    /// The variance of the difference from how far those of `blocks` blocks are from it.
    pub(super) fn between(&self, blocks: usize) -> Quadratic {
        let n = blocks as f64;
        let (all, kept) = (self.difference, self.kept);
        let Between { squares, difference, kept: keeps, weights } = self.between;
        let centred = Quadratic {
            square: squares.square - 2.0 * all * difference + all * all * weights,
            mixed: squares.mixed - kept * difference - all * keeps + all * kept * weights,
            shift: squares.shift - 2.0 * kept * keeps + kept * kept * weights,
        };
        centred.times(n / (n - 1.0))
    }
}

impl Between {
    pub(super) fn of(difference: f64, kept: f64, weight: f64) -> Self {
        let squares =
            Quadratic { square: difference * difference, mixed: difference * kept, shift: kept * kept };
        Self { squares, difference: weight * difference, kept: weight * kept, weights: weight * weight }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            squares: self.squares.plus(other.squares),
            difference: self.difference + other.difference,
            kept: self.kept + other.kept,
            weights: self.weights + other.weights,
        }
    }
}
