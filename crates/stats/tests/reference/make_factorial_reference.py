"""Writes factorial.json: blocks of a two by two design and what statsmodels, SciPy and NumPy make of them.

Run with SciPy 1.17, statsmodels 0.15, NumPy 2.4:  python make_factorial_reference.py > factorial.json
"""

import json

import numpy as np
import pandas as pd
import scipy
import statsmodels
from scipy import optimize, stats
from statsmodels.stats.anova import AnovaRM

rng = np.random.default_rng(20261123)
cases = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__, "designs": []}
CELLS = [("good", "good"), ("good", "bad"), ("bad", "good"), ("bad", "bad")]


def contrast(logs, weights):
    values = logs @ np.array(weights)
    test = stats.ttest_1samp(values, 0.0)
    interval = test.confidence_interval(0.95)
    return {"ratio": float(np.exp(values.mean())), "low": float(np.exp(interval.low)),
            "high": float(np.exp(interval.high)), "p_value": float(test.pvalue)}


def fieller(part, whole):
    """Ends of the share: where Student's test of part - share * whole has p = 0.05. None where they are not finite."""
    if stats.ttest_1samp(whole, 0.0).pvalue >= 0.05:
        return None

    def excess(share):
        return stats.ttest_1samp(part - share * whole, 0.0).pvalue - 0.05

    middle = part.mean() / whole.mean()
    return [float(optimize.brentq(excess, middle - 50, middle)), float(optimize.brentq(excess, middle, middle + 50))]


for blocks, noise, version, setting, interaction in ((3, 0.02, 0.3, 0.9, 0.2), (2, 0.05, 0.1, 0.5, 0.0),
                                                     (5, 0.1, -0.2, 0.8, 0.4), (8, 0.3, 0.0, 0.1, 0.0),
                                                     (4, 0.03, 0.0, 0.0, 0.6)):
    own = rng.normal(0, 0.4, blocks)
    means = np.array([0, setting, version, version + setting + interaction])
    values = np.exp(18 + own[:, None] + means + rng.normal(0, noise, (blocks, 4)))
    logs = np.log(values)
    rows = [{"block": block, "version": v, "setting": s, "log": logs[block, cell]}
            for block in range(blocks) for cell, (v, s) in enumerate(CELLS)]
    table = AnovaRM(pd.DataFrame(rows), "log", "block", within=["version", "setting"]).fit().anova_table
    cases["designs"].append({
        "blocks": values.tolist(),
        "total": contrast(logs, [-1, 0, 0, 1]), "version": contrast(logs, [-0.5, -0.5, 0.5, 0.5]),
        "setting": contrast(logs, [-0.5, 0.5, -0.5, 0.5]), "interaction": contrast(logs, [1, -1, -1, 1]),
        "anova": [float(table.loc[name, "Pr > F"]) for name in ("version", "setting", "version:setting")],
        "share": float((logs @ [-0.5, 0.5, -0.5, 0.5]).mean() / (logs @ [-1, 0, 0, 1]).mean()),
        "share_interval": fieller(logs @ [-0.5, 0.5, -0.5, 0.5], logs @ [-1, 0, 0, 1])})

print(json.dumps(cases, indent=1))
