"""The medians and slopes of a fleet as a user would write them with pandas: bench/fleet.py times it.

Reads the CSV of the Tor operators' scripts, takes for each relay the median of the last day and the Theil-Sen slope
after the first third of its readings (of hourly medians: all pairs of 14,400 readings would be 10^8 slopes), and for
each arm their medians.
"""

import sys

import pandas as pd
from scipy.stats import theilslopes


def main(memory, groups):
    data = pd.read_csv(memory, usecols=["timestamp", "type", "nickname", "rss_kb"])
    data = data[data["type"] == "relay"]
    data["timestamp"] = pd.to_datetime(data["timestamp"])
    arm_of = {}
    for path in groups:
        name = path.rsplit("/", 1)[-1].removesuffix(".txt")
        for line in open(path):
            arm_of[line.strip()] = name
    data["arm"] = data["nickname"].map(arm_of)
    end = data["timestamp"].max()
    last_day = data[data["timestamp"] > end - pd.Timedelta(days=1)]
    levels = last_day.groupby(["arm", "nickname"])["rss_kb"].median()

    def slope(series):
        series = series.set_index("timestamp")["rss_kb"]
        after = series[series.index >= series.index[0] + (series.index[-1] - series.index[0]) / 3]
        hourly = after.resample("1h").median().dropna()
        days = (hourly.index - hourly.index[0]).total_seconds() / 86400
        return theilslopes(hourly.values, days.values)[0]

    slopes = data.groupby(["arm", "nickname"])[["timestamp", "rss_kb"]].apply(slope)
    table = pd.DataFrame({"level_kb": levels.groupby("arm").median(), "kb_per_day": slopes.groupby("arm").median()})
    print(table)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
