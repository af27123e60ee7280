"""A program with allocator trouble: each generation builds a large structure, keeps a little of it for a while, and
drops the rest. What it keeps lies scattered over the pages of what it dropped.

PYTHONMALLOC=malloc makes Python ask the allocator under trial for every object.
"""

import random
import sys
import time

OBJECTS, KEPT_SHARE, KEPT_GENERATIONS = 150_000, 0.02, 10

random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
kept = []
while True:
    generation = [bytes(min(100_000, int(random.lognormvariate(6, 1)))) for _ in range(OBJECTS)]
    kept.append([thing for thing in generation if random.random() < KEPT_SHARE])
    del generation, kept[:-KEPT_GENERATIONS]
    time.sleep(0.2)
