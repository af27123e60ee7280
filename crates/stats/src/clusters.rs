//! Whether the services of a group stand at separate levels.

use crate::moments::mean;
use crate::split::{BestSplit, Nulls, SIDE, best_three, best_two};

/// A longer list is judged by this many of its order statistics.
const VALUES_AT_MOST: usize = 200;

/// The clusters of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// Cluster of each value, in the order of the input; 0 is the lowest.
    pub assignment: Vec<usize>,
    /// From the lowest to the highest; one if nothing separates the values.
    pub clusters: Vec<Cluster>,
    /// The splits between neighbouring clusters, one fewer than clusters, from the lowest up.
    pub splits: Vec<Split>,
}

/// One cluster, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Number of values.
    pub size: usize,
    /// Arithmetic mean; of logs, the log of the geometric mean.
    pub mean: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
}

/// Where two neighbouring clusters part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Highest value below.
    pub below: f64,
    /// Lowest value above.
    pub above: f64,
    /// p-value of the split that was accepted.
    pub p_value: f64,
}

/// Finds the clusters of `values`, usually the logs of the last readings, one per service.
///
/// The best split of the sorted values into two with at least 2 values a side is that with the highest
/// ratio of the sum of squares between to that within (A. W. F. Edwards, L. L. Cavalli-Sforza, "A Method
/// for Cluster Analysis", Biometrics 21 (1965); as a test: L. Engelman, J. A. Hartigan, "Percentage Points
/// of a Test for Clusters", Journal of the American Statistical Association 64 (1969)). It is compared with
/// the best splits of 2,000 samples of the same size from each of two distributions without clusters, the
/// uniform and Student's t with 5 degrees of freedom, and the larger p-value counts: the uniform is the
/// log-concave one that splits best (R. Tibshirani, G. Walther, T. Hastie, "Estimating the Number
/// of Clusters in a Data Set via the Gap Statistic", Journal of the Royal Statistical Society B 63 (2001)),
/// and the t covers pairs of outliers in small groups. Three clusters at equal distances mask each other
/// in a split into two, so with 6 values or more the best split into three is tested as well; each of the
/// two p-values is doubled for that. A split is accepted if its p-value is at most `alpha` and the means
/// of neighbouring parts differ by `least_separation` or more (ln 1.1 on logs); then each part is tested in
/// turn. A group of more than 200 values is judged by 200 of its order statistics.
///
/// `None` for no values or one that is not finite.
pub fn find_clusters(values: &[f64], alpha: f64, least_separation: f64, seed: u64) -> Option<Clusters> {
    clusters_by(values, alpha, least_separation, &mut Nulls::new(seed))
}

fn clusters_by(values: &[f64], alpha: f64, least_separation: f64, nulls: &mut Nulls) -> Option<Clusters> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let sorted: Vec<f64> = order.iter().map(|index| values[*index]).collect();
    let mut cuts = Vec::new();
    split(&sorted, 0, alpha, least_separation, nulls, &mut cuts);

    let ends = cuts.iter().map(|(place, _)| *place).chain([sorted.len()]);
    let mut assignment = vec![0; values.len()];
    let mut clusters = Vec::with_capacity(cuts.len() + 1);
    let mut start = 0;
    for end in ends {
        order[start..end].iter().for_each(|index| assignment[*index] = clusters.len());
        let part = &sorted[start..end];
        clusters.push(Cluster {
            size: part.len(),
            mean: mean(part),
            min: part[0],
            max: part[part.len() - 1],
        });
        start = end;
    }
    let between = |(place, p_value): &(usize, f64)| Split {
        below: sorted[place - 1],
        above: sorted[*place],
        p_value: *p_value,
    };
    Some(Clusters { assignment, splits: cuts.iter().map(between).collect(), clusters })
}

/// Adds the accepted cuts of `sorted`, which begins at `offset`, in ascending order.
fn split(
    sorted: &[f64],
    offset: usize,
    alpha: f64,
    least_separation: f64,
    nulls: &mut Nulls,
    cuts: &mut Vec<(usize, f64)>,
) {
    let Some((places, p_value)) = accepted(sorted, alpha, least_separation, nulls) else { return };
    let mut start = 0;
    for place in places {
        split(&sorted[start..place], offset + start, alpha, least_separation, nulls, cuts);
        cuts.push((offset + place, p_value));
        start = place;
    }
    split(&sorted[start..], offset + start, alpha, least_separation, nulls, cuts);
}

fn accepted(
    sorted: &[f64],
    alpha: f64,
    least_separation: f64,
    nulls: &mut Nulls,
) -> Option<(Vec<usize>, f64)> {
    let judged = order_statistics(sorted);
    let tests = if judged.len() >= 3 * SIDE { 2.0 } else { 1.0 };
    // Random samples are worth their time only where the parts are far enough apart.
    let far = |split: BestSplit| {
        let places = original_places(sorted, &judged, &split.places);
        separated(sorted, &places, least_separation).then_some((places, split.ratio))
    };
    let by_two =
        far(best_two(&judged)?).map(|(places, ratio)| (places, nulls.p_of_two(judged.len(), ratio) * tests));
    by_two.filter(|split| split.1 <= alpha).or_else(|| {
        let (places, ratio) = far(best_three(&judged)?)?;
        let p_value = nulls.p_of_three(judged.len(), ratio) * tests;
        (p_value <= alpha).then_some((places, p_value))
    })
}

fn separated(sorted: &[f64], places: &[usize], least_separation: f64) -> bool {
    let starts = [&[0], places].concat();
    let ends = [places, &[sorted.len()]].concat();
    let means: Vec<f64> = starts.iter().zip(&ends).map(|(start, end)| mean(&sorted[*start..*end])).collect();
    means.windows(2).all(|pair| pair[1] > pair[0] && pair[1] - pair[0] >= least_separation)
}

/// Index of the order statistic that stands for place `i` of `judged` ones.
fn stands_for(i: usize, judged: usize, all: usize) -> usize {
    (2 * i + 1) * all / (2 * judged)
}

fn order_statistics(sorted: &[f64]) -> Vec<f64> {
    let count = sorted.len().min(VALUES_AT_MOST);
    (0..count).map(|i| sorted[stands_for(i, count, sorted.len())]).collect()
}

/// The cuts in the whole list: at the widest gap between the order statistics on either side.
fn original_places(sorted: &[f64], judged: &[f64], places: &[usize]) -> Vec<usize> {
    let place = |i: &usize| {
        let first = stands_for(i - 1, judged.len(), sorted.len()) + 1;
        let last = stands_for(*i, judged.len(), sorted.len());
        let gap = |place: &usize| sorted[*place] - sorted[*place - 1];
        (first..=last).max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(last)
    };
    places.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
