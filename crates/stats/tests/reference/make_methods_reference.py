"""Writes methods.json: inputs and what SciPy, statsmodels and NumPy make of them.

Run with SciPy 1.17, statsmodels 0.15, NumPy 2.4:  python make_methods_reference.py > methods.json
"""

import json

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20261122)
cases = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__, "holm": [],
         "medians": [], "time_averages": [], "distances": [], "days": []}

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

print(json.dumps(cases, indent=1))
