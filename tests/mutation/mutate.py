#!/usr/bin/env python3
"""Shows that the tests bite: builds the project with one deliberate fault at a time and expects the
named test to fail. Works on a copy under build/mutate; prints a table; exits 1 if a mutant survives.
"""

import argparse
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutants import MUTANTS  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COPY = os.path.join(ROOT, "build", "mutate", "source")


def sh(*command):
    return subprocess.run(command, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def make_copy():
    files = subprocess.check_output(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                                    text=True).splitlines()
    for file in files:
        source, target = os.path.join(ROOT, file), os.path.join(COPY, file)
        if not os.path.exists(source):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # Only what changed: the next run then builds only that.
        if not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read():
            shutil.copy(source, target)


def build(target):
    return sh("cmake", "--build", "--preset", "release", "--target", target)


def try_mutant(name, file, old, new, test):
    path = os.path.join(COPY, file)
    original = open(path).read()
    if original.count(old) != 1:
        return f"BROKEN: its text occurs {original.count(old)} times"
    executable, test_filter = test
    try:
        open(path, "w").write(original.replace(old, new))
        built = build(executable)
        if built.returncode != 0:
            return "BROKEN: does not compile\n" + built.stdout[-2000:]
        run = subprocess.run(["timeout", "300", os.path.join(COPY, "build", "release", executable),
                              f"--gtest_filter={test_filter}", "--gtest_brief=1", "--gtest_break_on_failure=0"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "] 0 tests from" in run.stdout:
            return "BROKEN: the filter matches no test"
        return "SURVIVED" if run.returncode == 0 else "caught"
    finally:
        open(path, "w").write(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants", choices=[m[0] for m in MUTANTS])
    arguments = parser.parse_args()
    make_copy()
    configured = sh("cmake", "--preset", "release", "-DPASSING_BENCHMARKS=OFF")
    if configured.returncode != 0:
        sys.exit(configured.stdout)
    chosen = [m for m in MUTANTS if not arguments.only or m[0] in arguments.only]
    for executable in sorted({m[4][0] for m in chosen}):
        built = build(executable)
        if built.returncode != 0:
            sys.exit(built.stdout[-4000:])
    bad = 0
    for number, mutant in enumerate(chosen, 1):
        verdict = try_mutant(*mutant)
        bad += verdict != "caught"
        print(f"[{number}/{len(chosen)}] {mutant[0]:<42} {verdict:<10} by {mutant[4][0]} {mutant[4][1]}", flush=True)
    print(f"{len(chosen) - bad} caught, {bad} not")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
