"""Writes permutation.json: studentised permutation tests and intervals of shares.

Run with SciPy 1.11 or newer:  python make_permutation_reference.py > permutation.json
"""

import itertools
import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261123)
cases = {"scipy": scipy.__version__, "numpy": np.__version__, "studentised": [], "blocked": [], "shares": []}


def welch(a, b, axis):
    error = np.var(a, axis=axis, ddof=1) / a.shape[axis] + np.var(b, axis=axis, ddof=1) / b.shape[axis]
    # SciPy takes the same assignment, computed in another order, for another one if the last digits differ.
    return np.round((np.mean(a, axis=axis) - np.mean(b, axis=axis)) / np.sqrt(error), 10)


def by_scipy(treated, control):
    """The exact p-value after a shift is taken away."""
    def p_value(shift, alternative):
        return stats.permutation_test((treated - shift, control), welch, vectorized=True, n_resamples=np.inf,
                                      alternative=alternative, permutation_type="independent").pvalue
    return p_value


def end(p_value, alternative):
    """The end of the interval, by bisection on the exact test: where p passes 0.025."""
    low, high = -6.0, 6.0
    for _ in range(60):
        middle = (low + high) / 2
        rejected = p_value(middle, alternative) <= 0.025 + 1e-12
        if (alternative == "greater") == rejected:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def two_sided(p_value):
    return min(1.0, 2 * min(p_value(0, "greater"), p_value(0, "less")))


def with_student(p_value, student_p, student_interval):
    """Both tests have to reject: the larger p-value, and the interval that holds both."""
    return {"p_value": float(max(two_sided(p_value), student_p)),
            "low": float(np.exp(min(end(p_value, "greater"), student_interval[0]))),
            "high": float(np.exp(max(end(p_value, "less"), student_interval[1])))}


for n, m, wide in ((4, 6, 0.4), (7, 4, 0.1), (5, 6, 0.2), (3, 8, 0.6)):
    control, treated = rng.lognormal(5, 0.1, n), rng.lognormal(4.8, wide, m)
    p_value = by_scipy(np.log(treated), np.log(control))
    student = stats.ttest_ind(np.log(treated), np.log(control), equal_var=False)
    cases["studentised"].append({"control": control.tolist(), "treated": treated.tolist(),
                                 **with_student(p_value, student.pvalue, student.confidence_interval(0.95))})


def by_blocks(blocks):
    """All assignments within blocks, by themselves: SciPy has no test within blocks of several services."""
    total = sum(len(treated) for _, treated in blocks)
    within = all(len(control) > 1 and len(treated) > 1 for control, treated in blocks)

    def statistic(assigned):
        weights = np.array([len(treated) / total for _, treated in assigned])
        differences = np.array([np.mean(t) - np.mean(c) for c, t in assigned])
        whole = np.sum(weights * differences)
        if within:
            variance = sum(w ** 2 * (np.var(c, ddof=1) / len(c) + np.var(t, ddof=1) / len(t))
                           for w, (c, t) in zip(weights, assigned))
        else:
            k = len(assigned)
            variance = k / (k - 1) * np.sum((weights * (differences - whole)) ** 2)
        return whole / np.sqrt(variance)

    def p_value(shift, alternative):
        shifted = [(np.array(c), np.array(t) - shift) for c, t in blocks]
        choices = []
        for c, t in shifted:
            values = np.concatenate((c, t))
            own = []
            for chosen in itertools.combinations(range(len(values)), len(t)):
                mask = np.zeros(len(values), bool)
                mask[list(chosen)] = True
                own.append((values[~mask], values[mask]))
            choices.append(own)
        observed = statistic(shifted)
        values = np.array([statistic(assigned) for assigned in itertools.product(*choices)])
        slack = 1e-9 * (1 + abs(observed))
        return np.mean(values >= observed - slack if alternative == "greater" else values <= observed + slack)

    weights = np.array([len(t) / total for _, t in blocks])
    differences = np.array([np.mean(t) - np.mean(c) for c, t in blocks])
    whole = np.sum(weights * differences)
    if within:
        parts = [(w ** 2 * np.var(a, ddof=1) / len(a), len(a) - 1) for w, arms in zip(weights, blocks) for a in arms]
        variance = sum(part for part, _ in parts)
        freedom = variance ** 2 / sum(part ** 2 / free for part, free in parts)
    else:
        freedom = len(blocks) - 1
        variance = len(blocks) / freedom * np.sum((weights * (differences - whole)) ** 2)
    student = stats.t(freedom, loc=whole, scale=np.sqrt(variance))
    return p_value, 2 * min(student.cdf(0), student.sf(0)), student.interval(0.95)


for sizes in (((3, 3), (2, 3)), ((2, 2), (2, 4)), ((1, 2),) * 3 + ((2, 1),) * 3):
    blocks = []
    for n, m in sizes:
        level = rng.normal(5, 0.5)
        blocks.append((rng.normal(level, 0.1, n).tolist(), rng.normal(level - 0.4, 0.2, m).tolist()))
    cases["blocked"].append({"blocks": [[np.exp(c).tolist(), np.exp(t).tolist()] for c, t in blocks],
                             **with_student(*by_blocks(blocks))})

for k, n in ((0, 20), (1, 20), (3, 20), (20, 20), (5, 7), (40, 400)):
    exact = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    cases["shares"].append({"count": k, "of": n, "low": float(exact.low), "high": float(exact.high)})

print(json.dumps(cases, indent=1))
