"""Finds which ingredients of a relay's scale move memory: a two-level factorial of `lab tor` over seven of them.

Usage: scale.py HEAPTRIAL FOLDER run SEED fold|plain [OPTION...]   makes the eight runs of a half, into FOLDER/plain-1 and so on
       scale.py HEAPTRIAL FOLDER effects                           prints the effects of what is in FOLDER, as Markdown

The first half is a saturated design: each of seven factors is high in four of eight runs, and each two stand in all four
combinations twice. An effect of two factors together looks like that of a third one there; the second half (`fold`) has every level
reversed, and the two halves together tell main effects from such pairs. An OPTION (a mirror, other arms) goes to `lab tor` as it is.
A half that was interrupted goes on with the runs that it does not have. Nothing but Python's standard library is used.
"""

import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys

FACTORS = [  # option, low, high
    ("--entries", 4000, 9500),
    ("--retain", 6, 24),
    ("--processors", 4, 16),
    ("--connections", 0, 2000),
    ("--ntor-rate", 5, 50),
    ("--cells", 0, 20),
    ("--clients", 25, 100),
]
ARMS = ["glibc", "mimalloc@2.0.9", "mimalloc@3.0.1"]
CONSENSUSES = 14
LEVEL_FROM = 8  # the level is the median of the rests from this consensus on, as `lab score` takes the last half of a short run
GROWTH_FROM = 5

heaptrial, folder, action = sys.argv[1:4]


def signs(number, half):
    """The levels of a run (1 to 8) as -1 and 1, in the order of FACTORS."""
    a, b, c = (1 if (number - 1) >> bit & 1 else -1 for bit in range(3))
    row = [a, b, c, a * b, a * c, b * c, a * b * c]
    return [-sign for sign in row] if half == "fold" else row


def run(seed, half, options):
    for number in range(1, 9):
        target = f"{folder}/{half}-{number}"
        if os.path.exists(f"{target}/report.json"):
            continue
        words = [heaptrial, "--out", target, "lab", "tor", "--seed", seed, "--consensuses", str(CONSENSUSES), *options]
        for (option, low, high), sign in zip(FACTORS, signs(number, half)):
            words += [option, str(high if sign > 0 else low)]
        for arm in ARMS:
            words += ["-a", arm]
        print(" ".join(words), flush=True)
        with open(f"{folder}/{half}-{number}.log", "w") as log:
            status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
        print(f"exit code {status}", flush=True)


def rests(target):
    """Bytes of each arm at the end of the rest after each consensus, by number of the consensus; and the run's report."""
    with open(f"{target}/report.json") as file:
        report = json.load(file)
    database = sqlite3.connect(f"file:{target}/heaptrial.db?mode=ro", uri=True)
    levels = {}
    for arm, start, boottime, anon, swap in database.execute(
        "SELECT arm.name, life.started_boottime_us, tick.boottime_us, sample.anon_bytes, sample.swap_bytes"
        " FROM sample JOIN life ON life.id = life_id JOIN tick ON tick.id = tick_id"
        " JOIN service ON service.id = service_id JOIN arm ON arm.id = arm_id ORDER BY tick.boottime_us"):
        levels.setdefault(arm, []).append(((boottime - start) / 1e6, anon + (swap or 0)))
    reached = [(round(hour["hours"]), hour["seconds"]) for hour in report["consensuses"]["reached"] if hour["hours"] <= CONSENSUSES]
    at = {arm: {hour: [anon for age, anon in readings if age <= seconds][-1] for hour, seconds in reached if readings[0][0] <= seconds}
          for arm, readings in levels.items()}
    return at, report


def slope(points):
    """Theil-Sen slope."""
    return statistics.median((y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1:])


def responses(target):
    """Figures of a run by name: logarithms of levels and of ratios to the control, and growth in MiB for each consensus."""
    at, report = rests(target)
    figures = {}
    names = [arm for arm in ARMS if arm in at]
    level = {arm: statistics.median(bytes for hour, bytes in at[arm].items() if hour >= LEVEL_FROM) for arm in names}
    for arm in names:
        figures[f"{arm}, level"] = math.log(level[arm] / 2**20)
        figures[f"{arm}, growth"] = slope([(hour, bytes / 2**20) for hour, bytes in at[arm].items() if hour >= GROWTH_FROM])
    for arm in names[1:]:
        figures[f"{arm} : {names[0]}"] = math.log(level[arm] / level[names[0]])
    return figures, len(at[names[0]]), report


def effects():
    runs = [(half, number) for half in ("plain", "fold") for number in range(1, 9) if os.path.exists(f"{folder}/{half}-{number}/report.json")]
    table = [(signs(number, half), *responses(f"{folder}/{half}-{number}"), half) for half, number in runs]
    names = list(table[0][1])
    print("| run | " + " | ".join(option for option, _, _ in FACTORS) + " | " + " | ".join(name for name in names) + " | rests |")
    print("|---" * (len(FACTORS) + len(names) + 2) + "|")
    for (half, number), (row, figures, taken, _, _) in zip(runs, table):
        levels = [str(high if sign > 0 else low) for (_, low, high), sign in zip(FACTORS, row)]
        shown = [f"{figures[name]:.1f}" if "growth" in name else f"{math.exp(figures[name]):.3g}" for name in names]
        print(f"| {half} {number} | " + " | ".join(levels + shown) + f" | {taken} |")
    for half in ("plain", "fold", "both"):
        chosen = [entry for entry in table if half in (entry[4], "both")]
        if len(chosen) < (16 if half == "both" else 8):
            continue
        print(f"\n{half}:\n\n| high against low | " + " | ".join(names) + " |")
        print("|---" * (len(names) + 1) + "|")
        margins, columns = {}, {}
        # Both halves have eight contrasts more: what each column differs by between them, which is three pairs of factors, and the halves.
        by_half = [[sign * (1 if entry[4] == "plain" else -1) for sign in [*entry[0], 1]] if half == "both" else [] for entry in chosen]
        contrasts = [[*entry[0], *more] for entry, more in zip(chosen, by_half)]
        for name in names:
            columns[name] = [2 * statistics.fmean(row[index] * entry[1][name] for row, entry in zip(contrasts, chosen)) for index in range(len(contrasts[0]))]
            margins[name] = lenth(columns[name])
        pairs = [pairs_like(index) for index in range(len(FACTORS))] + ["the halves"] if half == "both" else []
        for index, label in enumerate([f"{option} {high} against {low}" for option, low, high in FACTORS] + pairs):
            cells = []
            for name in names:
                effect, clear = columns[name][index], abs(columns[name][index]) > margins[name]
                text = f"{effect:+.1f}" if "growth" in name else f"{math.exp(effect):.2f}"
                cells.append(f"**{text}**" if clear else text)
            print(f"| {label} | " + " | ".join(cells) + " |")
        print("| margin | " + " | ".join(f"{margins[name]:.1f}" if "growth" in name else f"{math.exp(margins[name]):.2f}" for name in names) + " |")


def pairs_like(index):
    """The pairs of factors whose joint effect stands in the column of a factor, by name."""
    table = [signs(number, "plain") for number in range(1, 9)]
    alike = [f"{FACTORS[one][0]} with {FACTORS[other][0]}" for one in range(len(FACTORS)) for other in range(one)
             if all(row[one] * row[other] == row[index] for row in table)]
    return ", ".join(alike).replace("--", "")


def lenth(estimates):
    """Margin of error of effects by Lenth's pseudo standard error (Technometrics 31, 1989), 95%: t with a third as many degrees of
    freedom as there are effects."""
    first = 1.5 * statistics.median(abs(effect) for effect in estimates)
    kept = [abs(effect) for effect in estimates if abs(effect) < 2.5 * first]
    return {7: 3.76, 15: 2.57}[len(estimates)] * 1.5 * statistics.median(kept)


if action == "run":
    os.makedirs(folder, exist_ok=True)
    run(sys.argv[4], sys.argv[5], sys.argv[6:])
else:
    effects()
