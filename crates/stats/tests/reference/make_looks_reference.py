"""Writes looks.json: spending of error over looks and exact tests of counts, as SciPy gives them.

Run with SciPy 1.17:  python make_looks_reference.py > looks.json
"""

import json

import numpy as np
import scipy
from scipy import stats

cases = {"scipy": scipy.__version__, "spending": [], "fisher": [], "student": []}

for alpha in (0.05, 0.01, 0.1):
    for looks in ([1.0], [0.5, 1.0], [1 / 3, 2 / 3, 1.0], [0.1, 0.2, 0.4, 0.7, 1.0], [0.25, 0.5, 0.75, 0.9]):
        spent = 2 * stats.norm.sf(stats.norm.isf(alpha / 2) / np.sqrt(looks))
        cases["spending"].append({"alpha": alpha, "fractions": looks, "spent": spent.tolist(),
                                  "alphas": np.diff(spent, prepend=0.0).tolist()})

for a, n, b, m in ((0, 6, 5, 6), (1, 6, 5, 6), (3, 20, 12, 20), (0, 3, 3, 3), (40, 200, 70, 180), (5, 5, 0, 7)):
    p = stats.fisher_exact([[a, n - a], [b, m - b]], alternative="less").pvalue
    cases["fisher"].append({"a": [a, n], "b": [b, m], "p_value": float(p)})

rng = np.random.default_rng(20261122)
for n, m in ((3, 4), (6, 6), (20, 12)):
    control, treated = rng.lognormal(20, 0.1, n), rng.lognormal(20.1, 0.2, m)
    p = stats.ttest_ind(np.log(treated), np.log(control), equal_var=False).pvalue
    cases["student"].append({"blocks": [[control.tolist(), treated.tolist()]], "p_value": float(p)})
for n in (3, 6):
    control, treated = rng.lognormal(20, 0.3, n), rng.lognormal(20.1, 0.3, n)
    p = stats.ttest_rel(np.log(treated), np.log(control)).pvalue
    cases["student"].append({"blocks": [[[c], [t]] for c, t in zip(control.tolist(), treated.tolist())],
                             "p_value": float(p)})

print(json.dumps(cases, indent=1))
