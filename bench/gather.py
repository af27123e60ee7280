"""Times the gathering of a trial over several hosts against rsync of the same databases, and the report of what was gathered.

Usage: gather.py HEAPTRIAL HOSTS_EXAMPLE FOLDER [HOSTS SERVICES DAYS]

HOSTS_EXAMPLE is the built example `hosts` of crates/store. Prints Markdown. Everything is on one machine: what travels is counted
in bytes, and no network slows either of the two. Memory is the peak RSS of the process (wait4). What is in FOLDER is used anew,
but for a host0.db of the days before the last, which takes minutes to write.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

heaptrial, example, folder = sys.argv[1:4]
hosts, services, days = (int(word) for word in (sys.argv[4:7] or [10, 200, 30]))


def run(arguments):
    """Elapsed seconds, peak RSS in MB, and standard output."""
    os.sync()
    started = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, error = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    os.sync()
    elapsed = time.monotonic() - started
    if status != 0:
        sys.exit(f"{arguments}: {error.decode()}")
    return elapsed, usage.ru_maxrss / 1024, output.decode()


def rsync():
    """Seconds of rsync of all databases, and the bytes that it sent and received."""
    names = [f"{folder}/host{number}.db" for number in range(hosts)]
    # Without --no-whole-file rsync would copy whole files on one machine, and not what differs, as it does over a network.
    elapsed, _, output = run(["rsync", "-a", "--no-whole-file", "--stats", *names, f"{folder}/copies/"])
    total = sum(int(re.search(rf"{what}: ([\d,]+)", output)[1].replace(",", ""))
                for what in ("Total bytes sent", "Total bytes received"))
    return elapsed, total


def gather(since):
    """Seconds of export and import of all hosts, the bytes that travelled, the peak, and where each host ended."""
    took, travelled, peak, last = 0.0, 0, 0.0, {}
    for number in range(hosts):
        part = f"{folder}/part{number}.db"
        more = ["--since", since[number]] if number in since else []
        exported = run([heaptrial, "export", f"{folder}/host{number}.db", "--format", "heaptrial", "-o", part, *more])
        imported = run([heaptrial, "--db", f"{folder}/gathered.db", "--json", "import", "heaptrial", part])
        took += exported[0] + imported[0]
        travelled += os.path.getsize(part)
        peak = max(peak, exported[1], imported[1])
        last[number] = json.loads(imported[2])["parts"][0]["since"]
        os.remove(part)
    return took, travelled, peak, last


os.makedirs(folder, exist_ok=True)
for name in os.listdir(folder):
    path = f"{folder}/{name}"
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif name != "host0.db":
        os.remove(path)
os.makedirs(f"{folder}/copies")
print(f"{hosts} hosts x {services} services, a tick a minute\n")
print("| | rsync | gather | gather over rsync | bytes of rsync | bytes of gather | peak of gather |")
print("|---|---|---|---|---|---|---|")
since = {}
for what, until in ((f"{days - 1} days, all new", days - 1), ("one more day", days)):
    run([example, folder, str(hosts), str(services), str(until)])
    of_rsync, bytes_of_rsync = rsync()
    of_gather, bytes_of_gather, peak, since = gather(since)
    print(f"| {what} | {of_rsync:.1f} s | {of_gather:.1f} s | {of_gather / of_rsync:.2f} | {bytes_of_rsync / 1e6:.0f} MB "
          f"| {bytes_of_gather / 1e6:.0f} MB | {peak:.0f} MB |", flush=True)
elapsed, peak, _ = run([heaptrial, "--db", f"{folder}/gathered.db", "--out", f"{folder}/report", "report", "fleet"])
size = os.path.getsize(f"{folder}/gathered.db")
print(f"\nThe pooled report of {size / 1e9:.1f} GB, every form and chart: {elapsed:.1f} s, {peak:.0f} MB at the peak.")
