#!/usr/bin/env python3
"""compare.py OLD_BUILD NEW_BUILD: the same operations by two builds of the library, in turns, on one machine.

For every case a ratio: the old build's time over the new one's, so that 1.1 is a tenth faster, the median of ROUNDS
rounds. A last column has the lowest and highest round. Exits 1 if a median is below --least. Run as root, on a machine
that does nothing else."""

import argparse
import math
import pathlib
import statistics
import sys

from lab import peer, slowest_total

ROUNDS = 7
# The least that a sample lasts, in seconds: the kernel takes some 50 ms to place new processes well.
LONG_ENOUGH = 0.5
IN_HOST = {"1 KB": 250, "16 KB": 4_000, "64 KB": 16_000, "256 KB": 64_000, "1 MB": 250_000, "16 MB": 4_000_000, "64 MB": 16_000_000}


def cases():
    """(name, strategy, keywords of peer) of each."""
    for strategy in ("ring", "halving_doubling"):
        yield f"latency, {strategy}, 1 KB, 4 hosts", strategy, {"elements": 250}
    for rate in (None, "1gbit", "200mbit"):
        yield f"ring, 16 MB, 4 hosts, {rate or 'not shaped'}", "ring", {"elements": 4_000_000, "rate": rate}
    for ranks in (2, 4):
        for size, elements in IN_HOST.items():
            yield f"in-host, {ranks} ranks, {size}", "passing", {"elements": elements, "hosts": 1, "ranks": ranks}
    yield "passing, 4 x 1, 16 MB, 1gbit", "passing", {"elements": 4_000_000, "rate": "1gbit"}
    yield "passing, 4 x 4, 16 MB, 200mbit", "passing", {"elements": 4_000_000, "rate": "200mbit", "ranks": 4}


def sample(build, strategy, repeat, elements, rate=None, **where):
    return slowest_total(peer(build, "passing " + strategy, "all_reduce", elements, repeat, rate, **where)) / repeat


def compare(old, new, strategy, where):
    repeat = 2
    while LONG_ENOUGH > repeat * (seconds := sample(new, strategy, repeat, **where)):
        repeat = math.ceil(1.3 * LONG_ENOUGH / seconds)
    ratios = []
    for i in range(ROUNDS):
        order = (old, new) if i % 2 == 0 else (new, old)
        seconds = {build: sample(build, strategy, repeat, **where) for build in order}
        ratios.append(seconds[old] / seconds[new])
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--least", type=float, default=0.97, help="the lowest median that is good enough (0.97)")
    arguments = parser.parse_args()
    slow = 0
    for name, strategy, where in cases():
        if arguments.only not in name:
            continue
        ratios = compare(arguments.old.resolve(), arguments.new.resolve(), strategy, where)
        median = statistics.median(ratios)
        slow += median < arguments.least
        print(f"{name:40} {median:6.3f}  {min(ratios):.3f} to {max(ratios):.3f}{'  SLOWER' * (median < arguments.least)}", flush=True)
    sys.exit(slow > 0)


if __name__ == "__main__":
    main()
