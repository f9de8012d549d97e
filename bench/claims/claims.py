#!/usr/bin/env python3
"""Measures what the project promises and prints target, figure, and pass or miss.

Every "must reach" is an entry of CLAIMS. Figures are ratios taken in one run. A table for people
goes to standard output, JSON to build/claims.json. The exit status is 0 if all was measured,
whether or not it passed: a miss is a result.
"""

import argparse
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.lru_cache
def micro(build):
    """The figures of passing_claims, measured once for all claims that need them."""
    return json.loads(subprocess.check_output([os.path.join(ROOT, build, "passing_claims")]))


def from_micro(name):
    return lambda build: micro(build)[name]


def clean_clone(_build):
    """Minutes that `make test` takes in a fresh clone, compiler cache off."""
    scratch = tempfile.mkdtemp(prefix="passing-clone-")
    try:
        subprocess.check_call(["git", "clone", "-q", ROOT, scratch + "/clone"])
        begin = time.monotonic()
        subprocess.check_call(["make", "test"], cwd=scratch + "/clone", stdout=subprocess.DEVNULL,
                              env={**os.environ, "CCACHE_DISABLE": "1"})
        return (time.monotonic() - begin) / 60
    finally:
        shutil.rmtree(scratch)


# name, what it says, comparison, target, unit, measure
CLAIMS = [
    ("quantise", "scan and quantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("quantise")),
    ("dequantise", "dequantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("dequantise")),
    ("slot-add", "slot add, against a plain vector add", ">=", 0.7, "of plain add", from_micro("slot-add")),
    ("aggregator", "aggregator beyond the slot add, 352 elements, 256 slots", "<=", 80, "ns per packet",
     from_micro("aggregator")),
    ("clean-clone", "make test from a clean clone, dependencies installed", "<", 10, "minutes", clean_clone),
]

COMPARE = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--only", help="the name of one claim", choices=[c[0] for c in CLAIMS])
    arguments = parser.parse_args()

    rows = []
    for name, text, comparison, target, unit, measure in CLAIMS:
        if arguments.only and arguments.only != name:
            continue
        print(f"measuring {name} ...", file=sys.stderr)
        figure = measure(arguments.build)
        rows.append({"name": name, "claim": text, "target": f"{comparison} {target}", "figure": round(figure, 3),
                     "unit": unit, "verdict": "pass" if COMPARE[comparison](figure, target) else "miss"})
    commit = subprocess.check_output(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True).strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    machine = f"{os.cpu_count()} x {cpu}, Linux {platform.release()}"
    print(f"commit {commit}, {machine}\n")
    print(f"| {'claim':<56} | {'target':>8} | {'figure':>8} | {'unit':<13} | verdict |")
    print(f"|{'-' * 58}|{'-' * 10}|{'-' * 10}|{'-' * 15}|---------|")
    for row in rows:
        print(f"| {row['claim']:<56} | {row['target']:>8} | {row['figure']:>8} | {row['unit']:<13} | {row['verdict']:<7} |")
    with open(os.path.join(ROOT, "build", "claims.json"), "w") as file:
        json.dump({"commit": commit, "machine": machine, "results": rows}, file, indent=2)


if __name__ == "__main__":
    main()
