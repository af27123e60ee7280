//! How the figures were made.

use crate::document::Report;
use crate::terms::terms;
use crate::units;

/// One line for each method, with its source.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let analysis = &report.analysis;
    let always = |text: &str| Some(text.to_owned());
    let level = match analysis.window_seconds {
        Some(window) => format!(
            "Level: of a service the median of its readings in a window of {} that ends at the matched age, which at \
             least half of the services of every arm reached; of an arm the geometric mean over those that did.",
            units::duration(window)
        ),
        None => "Level: of a service the median of its readings from the end of warm-up to an age that all reached; of an arm the \
                 geometric mean. Peak: the highest reading of any service."
            .to_owned(),
    };
    let over_days = analysis.stable_margin_per_day.zip(analysis.horizon_days);
    let growth = match over_days {
        Some(_) => {
            "Growth: slope of each service after warm-up, over the days that all arms have behind theirs, by H. Theil \
             (1950) and P. K. Sen, \"Estimates of the Regression Coefficient Based on Kendall's Tau\" (1968); of an arm \
             the median over services with its interval between order statistics (W. J. Conover, \"Practical \
             Nonparametric Statistics\", 1999, section 3.2), of three to five services Student's t, which takes slopes as normal."
        }
        None => {
            "Growth: slope of each service after warm-up by H. Theil (1950) and P. K. Sen, \"Estimates of the Regression \
             Coefficient Based on Kendall's Tau\" (1968), median over services. A short run shows settling, not what happens in days."
        }
    };
    let verdicts = over_days.map(|(margin, horizon)| {
        let margin = units::share(margin);
        format!(
            "Stable: the interval of growth lies inside ±{margin} a day, an equivalence claim (D. J. Schuirmann, \"A \
             Comparison of the Two One-Sided Tests Procedure and the Power Approach\", 1987). Growing: it lies above 0. \
             Bloating: it grows, does not level off below the limit, and memory runs out within {horizon:.0} days. Else inconclusive."
        )
    });
    let rests = report.consensuses.as_ref().map(|_| {
        "Consensuses are the clock: a relay in life gets one an hour, so the reading at the end of the rest after its k-th one \
         is at an age of k hours; growth and rates of work are by such hours. CPU time is the lab's own."
            .to_owned()
    });
    let lines = [
        Some(format!(
            "Unit: the service, never the single sample; pooled samples of one process are not independent. Memory is \
             {}, summed over the processes of a service.",
            analysis.metric.describe()
        )),
        always("Mean at end: arithmetic mean over the services of an arm of the last reading. CPU: mean since start."),
        Some(level),
        rests,
        always(
            "Ratio to control: ratio of geometric means; interval by inversion of the permutation test of the assignment \
             (P. H. Garthwaite, \"Confidence Intervals from Randomization Tests\", Biometrics 52, 1996), Student's t on \
             logarithms where there are too few permutations.",
        ),
        always(
            "Several arms: each interval is of 95% by itself; p-values are adjusted for the number of arms (S. Holm, \"A \
             Simple Sequentially Rejective Multiple Test Procedure\", Scandinavian Journal of Statistics 6, 1979).",
        ),
        always(growth),
        verdicts,
        always(terms(report.kind).method),
        report.self_check.map(|_| {
            "Self-check (A/A): the permutation test on random halves of the control, where there is nothing to find."
                .to_owned()
        }),
    ];
    lines.into_iter().flatten().collect()
}
