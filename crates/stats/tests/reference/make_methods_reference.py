"""Writes methods.json: inputs and what SciPy, statsmodels and NumPy make of them.

Run with SciPy 1.17, statsmodels 0.15, NumPy 2.4:  python make_methods_reference.py > methods.json
"""

import json

import numpy as np
import scipy
import statsmodels
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20261122)
cases = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__, "holm": [],
         "medians": [], "shapes": [], "sign_tests": [], "time_averages": [], "distances": [], "days": [],
         "splits": []}

for n in (1, 2, 5, 20):
    p = rng.uniform(0, 1, n) ** 3
    cases["holm"].append({"p_values": p.tolist(), "expected": multipletests(p, method="holm")[1].tolist()})

for n, level in ((6, 0.95), (7, 0.9), (10, 0.95), (11, 0.99), (20, 0.95), (101, 0.95), (1000, 0.99)):
    values = rng.lognormal(5, 1, n)
    interval = stats.quantile_test(values, p=0.5).confidence_interval(level)
    below, above = np.sum(values < interval.low), np.sum(values < interval.high)
    coin = stats.binom(n, 0.5)
    cases["medians"].append({"values": values.tolist(), "level": level, "median": float(np.median(values)),
                             "low": float(interval.low), "high": float(interval.high),
                             "coverage": float(coin.cdf(above) - coin.cdf(below))})


def aicc(squares, n, k):
    return n * np.log(squares / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)


for n, tau, noise in ((6, 0.3, 0.05), (12, 0.2, 0.02), (40, 0.5, 0.02), (200, 0.1, 0.1), (60, 0.3, 0.001)):
    t = np.sort(rng.uniform(5, 25, n))
    first, span = t[0], t[-1] - t[0]
    y = 22 + 0.5 * (1 - np.exp(-(t - first) / (tau * span))) + rng.normal(0, noise, n)
    line = stats.linregress(t, y)
    linear_squares = np.sum((y - line.intercept - line.slope * t) ** 2)

    def residuals(x):
        return x[0] + x[1] * (1 - np.exp(-(t - first) / np.exp(x[2]))) - y

    starts = [optimize.least_squares(residuals, (y[0], y[-1] - y[0], np.log(share * span)),
                                     bounds=((-np.inf, -np.inf, np.log(0.01 * span)), (np.inf, np.inf, np.log(span))),
                                     x_scale=(1, 1, 0.1), ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=10000)
              for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)]
    best = min(starts, key=lambda found: found.cost)
    a, c, log_tau = best.x
    cases["shapes"].append({
        "points": list(zip(t.tolist(), y.tolist())), "slope": float(line.slope),
        "linear_aicc": float(aicc(linear_squares, n, 3)), "tau": float(np.exp(log_tau)), "rise": float(c),
        "asymptote": float(a + c), "saturating_aicc": float(aicc(2 * best.cost, n, 4))})

curve = cases["shapes"][2]["points"]
line = [[float(t), float(3 + 2 * t + e)] for t, e in zip(range(20), rng.normal(0, 1, 20))]
for saturating, straight in ((0, 6), (5, 1), (12, 8), (20, 0), (30, 70), (1000, 900)):
    cases["sign_tests"].append({"saturating": saturating, "straight": straight,
                                "p_value": float(stats.binomtest(saturating, saturating + straight).pvalue)})
cases["curve"], cases["line"] = curve, line

for n in (2, 5, 50):
    t = np.cumsum(rng.uniform(1, 60, n))
    y = rng.lognormal(20, 1, n)
    later, more = t[-1] + 1000 + np.cumsum(rng.uniform(1, 60, n)), rng.lognormal(20, 1, n)
    observed = (t[-1] - t[0]) + (later[-1] - later[0])
    cases["time_averages"].append({
        "points": list(zip(np.concatenate((t, later)).tolist(), np.concatenate((y, more)).tolist())), "gap": 100.0,
        "expected": float((np.trapezoid(y, t) + np.trapezoid(more, later)) / observed)})

for n, m in ((3, 3), (20, 7), (100, 130)):
    t, u = np.sort(rng.uniform(0, 100, n)), np.sort(rng.uniform(0, 100, m))
    t[:3] = np.linspace(u[0], u[-1], 5)[1:4]
    t = np.sort(t)
    y, z = rng.normal(22, 1, n), rng.normal(22, 1, m)
    common = (t >= u[0]) & (t <= u[-1])
    cases["distances"].append({
        "first": list(zip(t.tolist(), y.tolist())), "second": list(zip(u.tolist(), z.tolist())), "gap": 1000.0,
        "expected": float(np.mean(np.abs(y[common] - np.interp(t[common], u, z))))})

for widths, estimate, margin in (([[1, 3.0], [2, 1.7], [4, 0.9], [5, 0.7]], 0.2, 0.5),
                                 ([[2, 3.0], [4, 2.2], [6, 1.6]], 1.1, 0.5)):
    d, w = np.array(widths).T
    slope, _ = np.polyfit(np.log(d), np.log(w), 1)
    e = np.clip(-slope, 0.5, 1.5)
    k = np.exp(np.mean(np.log(w) + e * np.log(d)))
    target = max(margin - abs(estimate), abs(estimate))
    cases["days"].append({"widths": widths, "estimate": estimate, "margin": margin,
                          "expected": float((k / target) ** (1 / e) - d.max())})

# The best split into two, by trying all of them, of values with two levels far apart.
for n, m in ((8, 12), (30, 20)):
    values = np.concatenate((rng.normal(0, 0.05, n), rng.normal(1, 0.05, m)))
    rng.shuffle(values)
    ordered = np.sort(values)
    within = [np.var(ordered[:i]) * i + np.var(ordered[i:]) * (n + m - i) for i in range(2, n + m - 1)]
    place = 2 + int(np.argmin(within))
    cases["splits"].append({"values": values.tolist(), "below": float(ordered[place - 1]),
                            "above": float(ordered[place]), "assignment": (values >= ordered[place]).astype(int).tolist(),
                            "means": [float(np.mean(ordered[:place])), float(np.mean(ordered[place:]))]})

print(json.dumps(cases, indent=1))
