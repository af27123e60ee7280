"""Times the gathering of a trial over several hosts against rsync of the same databases, and the report of what was gathered.

Usage: gather.py HEAPTRIAL HOSTS_PROGRAM FOLDER [HOSTS SERVICES DAYS [LINK]]

HOSTS_PROGRAM is the built program `hosts` of bench/. Prints Markdown. Everything is on one machine: what travels is counted
in bytes, and no network slows either of the two, unless LINK is the rate of one (`1gbit`, as of tc(8)): then the hosts' files lie behind it in a
network namespace of their own (which takes root), and rsync's daemon there serves both, the databases and what gather brings. Processor time is
without that daemon. Memory is the peak RSS of the process (wait4). What is in FOLDER is used anew,
but for a host0.db of the days before the last, which takes minutes to write.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

heaptrial, example, folder = sys.argv[1:4]
hosts, services, days = (int(word) for word in (sys.argv[4:7] or [10, 200, 30]))
link = sys.argv[7] if len(sys.argv) > 7 else None
NAMESPACE, HERE, THERE, PORT = "heaptrial-gather", "10.213.77.1", "10.213.77.2", 8730


def lay(rate):
    """Lays a link of that rate into a namespace, and serves the folder from there."""
    there = ["ip", "netns", "exec", NAMESPACE]
    tbf = ["root", "tbf", "rate", rate, "burst", "1mb", "latency", "50ms"]
    for words in (
        ["ip", "netns", "add", NAMESPACE],
        ["ip", "link", "add", "gather0", "type", "veth", "peer", "name", "gather1", "netns", NAMESPACE],
        ["ip", "addr", "add", f"{HERE}/30", "dev", "gather0"],
        ["ip", "link", "set", "gather0", "up"],
        there + ["ip", "addr", "add", f"{THERE}/30", "dev", "gather1"],
        there + ["ip", "link", "set", "gather1", "up"],
        ["tc", "qdisc", "add", "dev", "gather0", *tbf],
        there + ["tc", "qdisc", "add", "dev", "gather1", *tbf],
    ):
        subprocess.run(words, check=True)
    with open(f"{folder}/rsyncd.conf", "w") as config:
        config.write(f"use chroot = no\nuid = root\ngid = root\n[hosts]\npath = {os.path.abspath(folder)}\n")
    daemon = ["rsync", "--daemon", "--no-detach", f"--config={folder}/rsyncd.conf", f"--port={PORT}"]
    process = subprocess.Popen(there + daemon)
    time.sleep(1)
    return process


def take_away(daemon):
    """Ends the daemon and the link."""
    if daemon:
        daemon.terminate()
        daemon.wait()
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def fetched(part):
    """The part on this side of the link."""
    if not link:
        return part
    run(["rsync", "-a", f"rsync://{THERE}:{PORT}/hosts/{os.path.basename(part)}", f"{part}.here"])
    os.remove(part)
    return f"{part}.here"


def run(arguments):
    """Elapsed seconds, peak RSS in MB, and standard output."""
    os.sync()
    started = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output = process.stdout.read()
    peak = finish(process)
    os.sync()
    return time.monotonic() - started, peak, output.decode()


def rsync():
    """Seconds and processor seconds of rsync of all databases, and the bytes that it sent and received."""
    place = f"rsync://{THERE}:{PORT}/hosts" if link else folder
    names = [f"{place}/host{number}.db" for number in range(hosts)]
    # Without --no-whole-file rsync would copy whole files on one machine, and not what differs, as it does over a network.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    elapsed, _, output = run(["rsync", "-a", "--no-whole-file", "--stats", *names, f"{folder}/copies/"])
    total = sum(int(re.search(rf"{what}: ([\d,]+)", output)[1].replace(",", ""))
                for what in ("Total bytes sent", "Total bytes received"))
    return elapsed, processor(before), total


def export(number, since):
    """Begins the export of a host."""
    more = ["--since", since[number]] if number in since else []
    words = [heaptrial, "export", f"{folder}/host{number}.db", "--format", "heaptrial", "-o", f"{folder}/part{number}", *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def gather(since):
    """Seconds and processor seconds of export and import of all hosts, the bytes that travelled, the peak, and where each host ended.

    Hosts export beside each other: here one does while the one before it is imported.
    """
    travelled, peak, last = 0, 0.0, {}
    os.sync()
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    exporting = export(0, since)
    for number in range(hosts):
        peak = max(peak, finish(exporting))
        if number + 1 < hosts:
            exporting = export(number + 1, since)
        part = fetched(f"{folder}/part{number}")
        words = [heaptrial, "--db", f"{folder}/gathered.db", "--json", "import", "heaptrial", part]
        importing = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        told = importing.stdout.read()
        peak = max(peak, finish(importing))
        travelled += os.path.getsize(part)
        last[number] = json.loads(told)["parts"][0]["since"]
        os.remove(part)
    os.sync()
    return time.monotonic() - started, processor(before), travelled, peak, last


def finish(process):
    """Waits for a process; its peak RSS in MB."""
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{process.args}: {error.decode()}")
    process.returncode = 0
    return usage.ru_maxrss / 1024


def processor(before):
    """Processor seconds of children since then."""
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


os.makedirs(folder, exist_ok=True)
for name in os.listdir(folder):
    path = f"{folder}/{name}"
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif name != "host0.db":
        os.remove(path)
os.makedirs(f"{folder}/copies")
print(f"{hosts} hosts x {services} services, a tick a minute\n")
print("| | rsync | gather | gather over rsync | processor of rsync | of gather | bytes of rsync | bytes of gather | peak of gather |")
print("|---|---|---|---|---|---|---|---|---|")
since = {}
daemon = lay(link) if link else None
try:
    for what, until in ((f"{days - 1} days, all new", days - 1), ("one more day", days)):
        run([example, folder, str(hosts), str(services), str(until)])
        of_rsync, processor_of_rsync, bytes_of_rsync = rsync()
        of_gather, processor_of_gather, bytes_of_gather, peak, since = gather(since)
        print(f"| {what} | {of_rsync:.1f} s | {of_gather:.1f} s | {of_gather / of_rsync:.2f} | {processor_of_rsync:.1f} s "
              f"| {processor_of_gather:.1f} s | {bytes_of_rsync / 1e6:.0f} MB | {bytes_of_gather / 1e6:.0f} MB | {peak:.0f} MB |", flush=True)
finally:
    take_away(daemon)
elapsed, peak, _ = run([heaptrial, "--db", f"{folder}/gathered.db", "--out", f"{folder}/report", "report", "fleet"])
size = os.path.getsize(f"{folder}/gathered.db")
print(f"\nThe pooled report of {size / 1e9:.1f} GB, every form and chart: {elapsed:.1f} s, {peak:.0f} MB at the peak.")
