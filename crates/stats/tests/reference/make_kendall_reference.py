"""Writes kendall.json: pairs of lists and what SciPy makes of them.

Run with SciPy 1.17:  python make_kendall_reference.py > kendall.json
"""

import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261123)
cases = []
for n, values in ((2, 0), (5, 0), (5, 3), (10, 0), (10, 4), (30, 0), (30, 6), (100, 9)):
    for _ in range(3):
        a = rng.integers(0, values, n) if values else rng.lognormal(5, 1, n)
        b = rng.integers(0, values, n) if values else a * rng.lognormal(0, 1, n)
        tau = stats.kendalltau(a, b, variant="b").statistic
        cases.append({"a": [float(v) for v in a], "b": [float(v) for v in b],
                      "tau_b": None if np.isnan(tau) else float(tau)})
print(json.dumps({"scipy": scipy.__version__, "cases": cases}, indent=1))
