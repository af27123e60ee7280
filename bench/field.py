#!/usr/bin/env python3
"""200 services on a real systemd: a trial's start against a bare loop of `systemctl restart`, and `trial status`.

Usage: field.py BUILD_FOLDER [SERVICES] [ROUNDS]; BUILD_FOLDER holds `heaptrial`, `testbed` and `examples/`.
The two are timed in turn within each round, so that what else the machine does falls on both. Needs root.
"""

import json
import os
import statistics
import subprocess
import sys
import time

NAME = "bench-field"
UNIT = """[Unit]
StartLimitIntervalSec=0
[Service]
Type=notify
Environment=LIVE_BYTES=1048576 ALLOCATIONS_PER_SECOND=20
ExecStart=/ht/examples/churn_service
User=daemon
"""
TRIAL = """name = "{name}"
services = "bench@*"
duration = "10d"
[pace]
pause = "0s"
settle = "0s"
[[arm]]
name = "glibc"
control = true
allocator = "glibc"
[[arm]]
name = "jemalloc"
allocator = "jemalloc@5.3.0"
[[arm]]
name = "mimalloc"
allocator = "mimalloc@2.0.9"
"""


def main():
    folder = os.path.abspath(sys.argv[1])
    services = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    testbed = os.path.join(folder, "testbed")
    units = [f"bench@{number:03}.service" for number in range(1, services + 1)]
    subprocess.run([testbed, "up", NAME, "--bind", f"{folder}:/ht"], check=True)
    try:
        run(testbed, "sh", "-c", f"cat >/etc/systemd/system/bench@.service <<'EOF'\n{UNIT}EOF")
        run(testbed, "systemctl", "daemon-reload")
        run(testbed, "systemctl", "start", *units)
        rows = [one_round(testbed, units, number) for number in range(rounds)]
    finally:
        subprocess.run([testbed, "down", NAME], check=True)
    print(f"{services} services, medians of {rounds} rounds (range):\n")
    print("| what | seconds | to the bare loop |\n|---|---|---|")
    for what in rows[0]:
        seconds = [row[what] for row in rows]
        base = "loop_proofs" if what == "rollout" else "loop"
        ratios = [row[what] / row[base] for row in rows]
        print(
            f"| {LABELS[what]} | {statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
            f" | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


LABELS = {
    "loop": "bare loop of `systemctl restart`",
    "plan": "`trial plan`",
    "start": "`trial start` with identity proof of each",
    "plan_start": "both",
    "status": "`trial status`",
    "services": "`services`",
    "revert": "`trial stop --revert`",
    "loop_proofs": "bare loop, then `allocators identify` of all",
    "rollout": "`rollout start` in one wave, until every service is proved",
}


def one_round(testbed, units, number):
    name = f"bench-{number}"
    run(testbed, "sh", "-c", f"cat >/root/{name}.toml <<'EOF'\n{TRIAL.format(name=name)}EOF")
    heaptrial = lambda words: timed(testbed, "sh", "-c", f"cd /root && HOME=/root /ht/heaptrial {words}")
    loop = timed(testbed, "sh", "-c", "for unit in $0 $*; do systemctl restart $unit; done", *units)
    pids = run(testbed, "systemctl", "show", "-P", "MainPID", *units).split()
    proofs = timed(testbed, "/ht/heaptrial", "allocators", "identify", *pids)
    plan = heaptrial(f"trial plan {name}.toml --seed {number}")
    start = heaptrial(f"trial start {name} --yes --no-agent")
    row = {
        "loop": loop,
        "plan": plan,
        "start": start,
        "plan_start": plan + start,
        "status": heaptrial(f"trial status {name}"),
        "services": heaptrial("services 'bench@*'"),
        "revert": heaptrial(f"trial stop {name} --revert --yes"),
        "loop_proofs": loop + proofs,
    }
    row["rollout"] = rollout(testbed, f"rollout-{number}", len(units))
    return row


def rollout(testbed, name, count):
    """Seconds from the command to the proof of the last service; the gate that follows would wait for readings."""
    words = f"rollout start --allocator mimalloc@2.0.9 --services bench@* --unmeasured --name {name} --canary {count}"
    words += " --pause 0s --settle 0s --no-agent --yes"
    command = [testbed, "run", NAME, "--", "env", "HOME=/root", "/ht/heaptrial", *words.split()]
    started = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith(f"{count}/{count} "):
            break
    journal = ""
    while '"wave_applied"' not in journal:
        journal = run(testbed, "cat", f"/var/lib/heaptrial/trials/{name}/journal.jsonl")
    applied = next(record for record in map(json.loads, journal.splitlines()) if "wave_applied" in str(record))
    run(testbed, "/ht/heaptrial", "rollout", "pause", name)
    process.stderr.read()
    process.wait()
    run(testbed, "/ht/heaptrial", "rollout", "rollback", name, "--yes")
    return applied["wall_us"] / 1e6 - started


def run(testbed, *words):
    done = subprocess.run([testbed, "run", NAME, "--", *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def timed(testbed, *words):
    started = time.monotonic()
    run(testbed, *words)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
