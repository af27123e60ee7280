"""Threads that fill memory with pieces of many sizes and give most of them back. What is left, and what the allocator
keeps beside it, depends on its settings. Every run draws other sizes."""

import random
import threading
import time

kept = []


def churn():
    for _ in range(6):
        large = []
        for _ in range(40):
            large.append(b"x" * random.randrange(70_000, 400_000))
            kept.append(b"y" * random.randrange(600, 3_000))
        del large


threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("held", flush=True)
time.sleep(600)
