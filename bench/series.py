"""Measures a trial over several hosts in one SQLite file against the same with its readings in a store of series.

Usage: series.py HEAPTRIAL HOSTS_PROGRAM FOLDER SERVICES DAYS HOSTS...

HOSTS_PROGRAM is the built program `hosts` of bench/, HOSTS are numbers of hosts to measure with, ascending. Needs victoria-metrics
and promtool (Debian). Hosts are copies of one under their own names, as in gather.py, and so are their series: a reading a minute of
each service. Prints Markdown. Everything is on one machine, with a disk cache that is warm. Memory is the peak RSS of the process.
"""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

heaptrial, example, folder = sys.argv[1:4]
services, days = int(sys.argv[4]), int(sys.argv[5])
steps = [int(word) for word in sys.argv[6:]]
hosts = steps[-1]

# As the example has them.
START = 1_767_323_045
ARMS = [("glibc", 600.0, 4.0), ("jemalloc@5.3.0", 270.0, 0.1), ("mimalloc@2.0.9", 125.0, 0.2), ("mimalloc@2.1.7", 175.0, 3.0),
        ("mimalloc@3.0.1", 150.0, 30.0)]
PLAN = "0123456789abcdef"
MASK = (1 << 64) - 1
ticks = range(days * 1440)


def noise(seed):
    x = (seed + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return (x ^ (x >> 31)) / MASK


def rss_bytes(index):
    _, level, growth = ARMS[index % len(ARMS)]
    own = level * (1.0 + 0.1 * (noise(index) - 0.5))
    return [int((own * (1.0 - 0.6 * math.exp(-number / 1440 / 0.3)) + growth * number / 1440)
                * (1.0 + 0.03 * (noise(index * 1_000_003 + number) - 0.5)) * 256.0) * 4096 for number in ticks]


def run(arguments):
    """Elapsed seconds, processor seconds, and peak RSS in MB."""
    started = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{arguments}: {error.decode()}")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def gather(first, last, to, more):
    """Seconds of taking the parts of some hosts into a database, elapsed and of the processor."""
    took = [0.0, 0.0]
    for number in range(first, last):
        part = f"{folder}/part{number}.db"
        for command in ([heaptrial, "export", f"{folder}/host{number}.db", "--format", "heaptrial", "-o", part, *more],
                        [heaptrial, "--db", to, "import", "heaptrial", part]):
            took = [before + more for before, more in zip(took, run(command))]
        os.remove(part)
    return took


def report(database, more=()):
    return run([heaptrial, "--db", database, "--out", f"{folder}/report", "report", "fleet", *more])


def mb(count):
    return f"{count / 1e6:,.0f} MB"


def size(path):
    """Bytes on the disk of a file or a folder."""
    return int(subprocess.check_output(["du", "-s", "-B1", path], text=True).split()[0])


class Victoria:
    """A VictoriaMetrics of our own, on loopback."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.process = subprocess.Popen(
            ["victoria-metrics", f"-storageDataPath={folder}/victoria", f"-httpListenAddr={self.url.removeprefix('http://')}",
             "-retentionPeriod=100y"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.ask("/health")
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("victoria-metrics ended")
                time.sleep(0.1)

    def ask(self, path, body=None):
        with urllib.request.urlopen(f"{self.url}{path}", data=body) as answer:
            return answer.read().decode()

    def put(self, name, labels, values, times):
        metric = json.dumps({"__name__": name, **labels})
        self.ask("/api/v1/import", f'{{"metric":{metric},"values":[{values}],"timestamps":[{times}]}}\n'.encode())

    def metric(self, name):
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.ask("/metrics").splitlines() if line.startswith(name))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self):
        """Peak RSS since it was asked last."""
        with open(f"/proc/{self.process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as reset:
            reset.write("5")
        return peak / 1024


def fill(victoria, host, memory, times):
    """What an agent exposes that a report reads."""
    target = {"job": "heaptrial-agent", "instance": f"host{host}"}
    constant = lambda value: ",".join([value] * len(ticks))
    victoria.put("heaptrial_trial_info", {**target, "trial": "fleet", "plan": PLAN, "host": f"host{host}"}, constant("1"), times)
    seconds = ",".join(str(START + 60 * number) for number in ticks)
    victoria.put("heaptrial_agent_last_tick_timestamp_seconds", target, seconds, times)
    seconds = ",".join(str(60 * number) for number in ticks)
    victoria.put("heaptrial_agent_last_tick_boottime_seconds", target, seconds, times)
    started = constant(str(START))
    for index, values in enumerate(memory):
        own = {**target, "trial": "fleet", "service": f"tor@{index:03}.service", "arm": ARMS[index % len(ARMS)][0]}
        victoria.put("heaptrial_service_memory_bytes", own, values, times)
        victoria.put("heaptrial_service_start_time_seconds", own, started, times)


def prometheus_bytes(memory, of_services, of_days):
    """Bytes of a sample of memory in the blocks of a Prometheus."""
    with open(f"{folder}/history.om", "w") as text:
        for index in range(of_services):
            for number, value in enumerate(memory[index].split(",")[:of_days * 1440]):
                text.write(f'memory{{service="{index}"}} {value} {START + 60 * number + 20}\n')
        text.write("# EOF\n")
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", "history.om", "blocks"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    chunks = sum(size(f"{folder}/blocks/{block}/chunks") for block in os.listdir(f"{folder}/blocks"))
    return chunks / (of_services * of_days * 1440)


os.makedirs(folder, exist_ok=True)
for name in os.listdir(folder):
    path = f"{folder}/{name}"
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif name != "host0.db":
        os.remove(path)
run([example, folder, str(hosts), str(services), str(days)])

print(f"{services} services on each host, {days} days, a reading a minute\n\nIn one file:\n")
print("| services | file | gather | its processor time | report | its processor time | peak |\n|---|---|---|---|---|---|---|")
took, before = [0.0, 0.0], 0
for count in steps:
    took = [sum(pair) for pair in zip(took, gather(before, count, f"{folder}/gathered.db", []))]
    before = count
    elapsed, cpu, peak = report(f"{folder}/gathered.db")
    file = os.path.getsize(f"{folder}/gathered.db")
    print(f"| {count * services} | {mb(file)} | {took[0]:.1f} s | {took[1]:.1f} s | {elapsed:.1f} s | {cpu:.1f} s | {peak:.0f} MB |",
          flush=True)

memory = [",".join(map(str, rss_bytes(index))) for index in range(services)]
times = ",".join(str((START + 60 * number + 20) * 1000) for number in ticks)
victoria = Victoria()
try:
    print("\nLedger in a file, readings in VictoriaMetrics:\n")
    print("| services | ledger | gather | in the store | rollup | report | its processor time | peak | processor time of the store | its peak |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
    took, before = [0.0, 0.0], 0
    for count in steps:
        for host in range(before, count):
            fill(victoria, host, memory, times)
        took = [sum(pair) for pair in zip(took, gather(before, count, f"{folder}/ledger.db", ["--ledger"]))]
        before = count
        victoria.ask("/internal/force_flush")
        victoria.ask("/internal/force_merge")
        ledger = os.path.getsize(f"{folder}/ledger.db")
        held = size(f"{folder}/victoria")
        for rollup in ("15m", "1h"):
            victoria.peak_mb()
            spent = victoria.cpu_seconds()
            elapsed, cpu, peak = report(f"{folder}/ledger.db", ["--series", victoria.url, "--rollup", rollup])
            print(f"| {count * services} | {mb(ledger)} | {took[0]:.1f} s | {mb(held)} | {rollup} | {elapsed:.1f} s | {cpu:.1f} s | {peak:.0f} MB "
                  f"| {victoria.cpu_seconds() - spent:.1f} s | {victoria.peak_mb():.0f} MB |", flush=True)
    rows = victoria.metric('vm_rows{type="storage/')
    print(f"\nVictoriaMetrics: {rows:,.0f} samples, {size(f'{folder}/victoria/data') / rows:.2f} bytes each on the disk, half of them of "
          "starts, which stay the same.")
finally:
    victoria.process.terminate()
    victoria.process.wait()
of_services = min(services, 50)
print(f"Prometheus: {prometheus_bytes(memory, of_services, min(days, 5)):.2f} bytes for each sample of memory in its chunks.")
