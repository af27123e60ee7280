"""Writes reference.json: inputs and what SciPy and NumPy make of them.

Run with SciPy 1.11 or newer:  python make_reference.py > reference.json
"""

import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261121)
cases = {"scipy": scipy.__version__, "numpy": np.__version__, "quantiles": [], "geometric_means": [],
         "theil_sen": [], "welch": [], "paired": [], "permutation": [], "paired_permutation": []}

for n in (1, 2, 3, 4, 5, 10, 101):
    values = np.round(rng.lognormal(5, 1, n), 3)
    cases["quantiles"].append({"values": values.tolist(),
                               "expected": [[q, float(np.quantile(values, q))] for q in (0, 0.1, 0.25, 0.5, 0.9, 1)]})
    cases["geometric_means"].append({"values": values.tolist(), "expected": float(stats.gmean(values))})

for n, ties in ((4, False), (12, False), (40, True), (101, True)):
    x = np.sort(rng.uniform(0, 100, n))
    y = 3 + 0.7 * x + rng.normal(0, 5, n)
    if ties:
        x, y = np.round(x / 5) * 5, np.round(y)
    slope, intercept, low, high = stats.theilslopes(y, x, alpha=0.95)
    cases["theil_sen"].append({"points": [[float(a), float(b)] for a, b in zip(x, y)], "slope": float(slope),
                               "intercept": float(intercept), "low": float(low), "high": float(high)})

for n, m in ((2, 2), (3, 3), (3, 2)):
    control, treated = rng.lognormal(5, 0.1, n), rng.lognormal(4, 0.2, m)
    interval = stats.ttest_ind(np.log(treated), np.log(control), equal_var=False).confidence_interval(0.95)
    cases["welch"].append({"control": control.tolist(), "treated": treated.tolist(),
                           "low": float(np.exp(interval.low)), "high": float(np.exp(interval.high))})

for n in (2, 3, 5):
    control, treated = rng.lognormal(5, 0.1, n), rng.lognormal(4, 0.2, n)
    interval = stats.ttest_rel(np.log(treated), np.log(control)).confidence_interval(0.95)
    cases["paired"].append({"control": control.tolist(), "treated": treated.tolist(),
                            "low": float(np.exp(interval.low)), "high": float(np.exp(interval.high))})


def difference(a, b, axis):
    return np.mean(a, axis=axis) - np.mean(b, axis=axis)


def one_sided(treated, control, shift, alternative):
    """Exact permutation p-value of the difference of means after taking the shift away."""
    result = stats.permutation_test((treated - shift, control), difference, vectorized=True, n_resamples=np.inf,
                                    alternative=alternative, permutation_type="independent")
    return result.pvalue


def invert(treated, control, alternative):
    """The end of the interval, by bisection on the exact test: where p passes 0.025."""
    low, high = -5.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        rejected = one_sided(treated, control, middle, alternative) <= 0.025 + 1e-12
        if (alternative == "greater") == rejected:
            low = middle
        else:
            high = middle
    return (low + high) / 2


for n in (4, 5):
    control, treated = rng.lognormal(5, 0.1, n), rng.lognormal(4, 0.2, n)
    log_control, log_treated = np.log(control), np.log(treated)
    p = stats.permutation_test((log_treated, log_control), difference, vectorized=True, n_resamples=np.inf,
                               alternative="two-sided", permutation_type="independent").pvalue
    cases["permutation"].append({"control": control.tolist(), "treated": treated.tolist(), "p_value": float(p),
                                 "low": float(np.exp(invert(log_treated, log_control, "greater"))),
                                 "high": float(np.exp(invert(log_treated, log_control, "less")))})

def paired_p(differences, shift, alternative):
    """Exact p-value of the mean of the differences after taking the shift away, over all changes of sign."""
    result = stats.permutation_test((differences - shift,), np.mean, n_resamples=np.inf, alternative=alternative,
                                    permutation_type="samples")
    return result.pvalue


def invert_paired(differences, alternative):
    low, high = -5.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        rejected = paired_p(differences, middle, alternative) <= 0.025 + 1e-12
        if (alternative == "greater") == rejected:
            low = middle
        else:
            high = middle
    return (low + high) / 2


for n in (6, 8):
    control, treated = rng.lognormal(5, 0.1, n), rng.lognormal(4, 0.2, n)
    differences = np.log(treated) - np.log(control)
    cases["paired_permutation"].append({
        "control": control.tolist(), "treated": treated.tolist(), "p_value": float(paired_p(differences, 0, "two-sided")),
        "low": float(np.exp(invert_paired(differences, "greater"))),
        "high": float(np.exp(invert_paired(differences, "less")))})

print(json.dumps(cases, indent=1))
