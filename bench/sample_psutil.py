"""The same figures through psutil.  usage: sample_psutil.py PID COUNT   prints nanoseconds per sample."""
import sys
import time

import psutil

process = psutil.Process(int(sys.argv[1]))
count = int(sys.argv[2])
start = time.perf_counter_ns()
for _ in range(count):
    with process.oneshot():
        process.memory_info()
        process.cpu_times()
        process.num_threads()
        process.num_ctx_switches()  # reads /proc/PID/status, as RssAnon would
print((time.perf_counter_ns() - start) // count)
