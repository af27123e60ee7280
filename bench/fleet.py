"""Times the report of a fleet against its pandas form, and import and report over growing fleets.

Usage: fleet.py HEAPTRIAL [PYTHON_WITH_PANDAS]

Prints Markdown. Runs take turns; figures are medians. Memory is the peak RSS of the process (wait4).
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
ARMS = [("group_E_glibc", 6.2, 0.0), ("group_B_mimalloc209", 1.3, 0.0), ("group_C_mimalloc217", 1.8, 0.0),
        ("group_D_jemalloc", 2.7, 0.0), ("group_A_mimalloc301", 2.0, 0.9)]


def write_fleet(folder, services, ticks, step_seconds):
    """A fleet that settles within hours and, in one arm, grows: memory.csv and groups/."""
    os.makedirs(f"{folder}/groups")
    names = [f"relay{number}" for number in range(services)]
    for index, (arm, _, _) in enumerate(ARMS):
        with open(f"{folder}/groups/{arm}.txt", "w") as file:
            file.writelines(f"{name}\n" for name in names[index::len(ARMS)])
    start = 1_767_225_600
    peaks = [0] * services
    with open(f"{folder}/memory.csv", "w") as file:
        file.write("timestamp,server,type,fingerprint,nickname,rss_kb,vsize_kb,hwm_kb,frag_ratio,count,total_kb,avg_kb,min_kb,max_kb\n"
                   .replace("vsize_kb", "vmsize_kb"))
        for tick in range(ticks):
            age = tick * step_seconds / 86400
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(start + tick * step_seconds))
            settled = 1 - 0.6 * 2.718 ** (-age / 0.3)
            rows = []
            for number, name in enumerate(names):
                _, level, growth = ARMS[number % len(ARMS)]
                # A cheap noise that differs between relays and moments.
                noise = 1 + ((number * 7919 + tick * 104729) % 997 / 997 - 0.5) * 0.04
                rss = int((level * settled + growth * age) * noise * 1048576)
                peaks[number] = max(peaks[number], rss)
                rows.append(f"{at},go,relay,,{name},{rss},{rss + 5000000},{peaks[number]},1.5,,,,,\n")
            file.writelines(rows)


def run(arguments):
    """Elapsed seconds and peak RSS in MB."""
    started = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - started
    if status != 0:
        sys.exit(f"{arguments}: {stderr.decode()}")
    return elapsed, usage.ru_maxrss / 1024


def median_of(samples):
    return statistics.median(sample[0] for sample in samples), max(sample[1] for sample in samples)


def main():
    heaptrial = os.path.abspath(sys.argv[1])
    python = sys.argv[2] if len(sys.argv) > 2 else None
    work = tempfile.mkdtemp()
    try:
        print("| services x readings | samples | import | report | peak of the report | report per million samples |")
        print("|---|---|---|---|---|---|")
        for services, ticks, step in [(50, 14_400, 60), (100, 14_400, 60), (200, 14_400, 60), (10_000, 720, 3600), (10_000, 2_880, 900)]:
            folder = f"{work}/{services}-{ticks}"
            write_fleet(folder, services, ticks, step)
            lists = [f"{folder}/groups/{arm}.txt" for arm, _, _ in ARMS]
            database = f"{folder}/fleet.db"
            once, _ = run([heaptrial, "--db", database, "import", "torutils", f"{folder}/memory.csv", "--timezone", "UTC", "--groups", *lists])
            rounds = ROUNDS if services < 1000 else 1
            reports = [run([heaptrial, "--db", database, "--out", f"{folder}/report", "report"]) for _ in range(rounds)]
            seconds, peak = median_of(reports)
            million = services * ticks / 1e6
            print(f"| {services:,} x {ticks:,} | {services * ticks:,} | {once:.1f} s | {seconds:.2f} s | {peak:.0f} MB | {seconds / million:.2f} s |", flush=True)
            if python and (services, ticks) == (200, 14_400):
                pandas = []
                for _ in range(ROUNDS):
                    pandas.append(run([python, "bench/fleet_pandas.py", f"{folder}/memory.csv", *lists]))
                versus = (seconds, peak, *median_of(pandas), once)
            shutil.rmtree(folder)
        if python:
            seconds, peak, theirs, their_peak, once = versus
            print()
            print("| 200 x 14,400 | time | peak | heaptrial against it |")
            print("|---|---|---|---|")
            print(f"| heaptrial report, every figure, check, form and chart | {seconds:.2f} s | {peak:.0f} MB | 1.00 |")
            print(f"| pandas: medians and slopes alone, from the CSV | {theirs:.2f} s | {their_peak:.0f} MB | {seconds / theirs:.2f} |")
            print(f"| heaptrial import and report | {once + seconds:.2f} s | | {(once + seconds) / theirs:.2f} of pandas |")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
