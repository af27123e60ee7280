"""A program with allocator trouble: now and then it builds a large structure, keeps a little of it, drops the rest and
goes on with small work, as a service does after a burst. What it keeps lies scattered over the pages of what it dropped.

PYTHONMALLOC=malloc makes Python ask the allocator under trial for every object.
"""

import random
import sys
import time

OBJECTS, KEPT_SHARE, QUIET_SECONDS = 400_000, 0.01, 10

random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
kept = []
while True:
    burst = [bytes(min(20_000, int(random.lognormvariate(6, 1)))) for _ in range(OBJECTS)]
    kept = [thing for thing in burst if random.random() < KEPT_SHARE]
    del burst
    end = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < end:
        small = [bytes(random.randrange(1000)) for _ in range(1000)]
        time.sleep(0.1)
