"""Cost of one sample: Heaptrial's sampler against a bare C loop over the same files and psutil.

usage: sample.py SAMPLE_COST C_PROGRAM [PYTHON_WITH_PSUTIL]
The programs take turns, so that noise of the machine meets all alike; ratios are of medians. The second figure of SAMPLE_COST,
which is of a service of a control group, is not used.
"""
import statistics
import subprocess
import sys

ROUNDS, COUNT = 9, 20_000
rust, c, *python = sys.argv[1:]
target = subprocess.Popen([sys.executable, "-c", "import time; held = [bytes(4000) for _ in range(50000)]; print(flush=True); time.sleep(600)"],
                          stdout=subprocess.PIPE)
target.stdout.readline()
pid = str(target.pid)
commands = {"heaptrial": [rust, pid, str(COUNT)], "C, files kept open": [c, pid, str(COUNT), "kept"],
            "C, files opened each time": [c, pid, str(COUNT), "opened"]}
if python:
    commands["psutil"] = [python[0], "bench/sample_psutil.py", pid, str(COUNT // 10)]
times = {name: [] for name in commands}
try:
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(float(subprocess.check_output(command).split()[0]))
finally:
    target.kill()
own = statistics.median(times["heaptrial"])
print(f"| one sample of one process | ns, median of {ROUNDS} | min to max | heaptrial's cost against it |")
print("|---|---|---|---|")
for name, values in times.items():
    median = statistics.median(values)
    print(f"| {name} | {median:.0f} | {min(values):.0f} to {max(values):.0f} | {own / median:.2f} |")
