#!/usr/bin/env python3
"""Measures what the project promises and prints target, figure, and pass or miss.

Promises are in promises.py. Figures are ratios taken in one run. A table for people goes to standard
output, line by line; JSON to results.json, beside what was measured before; and from there into
docs/benchmarks.md (page.py). The exit status is 0 if all was measured, whether or not it passed: a
miss is a result.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys

sys.dont_write_bytecode = True

import page
from lab import ROOT
from promises import CLAIMS, SUBJECTS, asked, verdict


# What figures depend on; pages and results may change meanwhile.
CODE = ("--", "src", "include", "integrations", "lab", "bench/peers", "bench/claims/*.py")


def keep(row, path):
    """Writes it beside what was measured before, in the order of CLAIMS."""
    rows = {}
    if os.path.exists(path):
        with open(path) as file:
            rows = {each["name"]: each for each in json.load(file)["results"]}
    rows[row["name"]] = row
    with open(path, "w") as file:
        json.dump({"results": [rows[claim.name] for claim in CLAIMS if claim.name in rows]}, file, indent=2)


def chosen(only, parser):
    """The claims of some names, or of the first words of names."""
    if not only:
        return CLAIMS
    words = only.split(",")
    for word in words:
        if not any(named(claim, word) for claim in CLAIMS):
            parser.error(f"no such claim: {word}; there are {', '.join(claim.name for claim in CLAIMS)}")
    return [claim for claim in CLAIMS if any(named(claim, word) for word in words)]


def named(claim, word):
    return claim.name == word or claim.name.startswith(word + "-")


def git(*arguments):
    return subprocess.check_output(["git", "-C", ROOT, *arguments], text=True).strip()


def circumstances():
    """What all claims of this run have in common: the machine as in other files of results."""
    with open("/proc/cpuinfo") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    return {"date": datetime.date.today().isoformat(),
            "commit": git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", *CODE) else ""),
            "machine": {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(),
                        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}}


def measured(claim, build):
    try:
        figure = claim.measure(build)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as problem:
        print(f"{claim.name}: {problem}\n{getattr(problem, 'output', None) or ''}", file=sys.stderr)
        return {"figure": "-", "verdict": "error"}
    return {"figure": round(figure, 3), "verdict": verdict(claim, figure)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--only", help="a claim, or a group by the first words of its names (broadcast, ring), or several with commas")
    parser.add_argument("--results", default=page.RESULTS, help="where results are kept")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "benchmarks.md"), help="the page that shows them")
    arguments = parser.parse_args()
    claims = chosen(arguments.only, parser)
    subject = {claim.name: name for name, some in SUBJECTS.items() for claim in some}
    run = circumstances()
    print(f"commit {run['commit']}, {run['machine']['cores']} x {run['machine']['cpu']}, Linux {run['machine']['kernel']}\n")
    print(f"| {'claim':<64} | {'target':>8} | {'figure':>8} | {'unit':<13} | verdict |")
    print(f"|{'-' * 66}|{'-' * 10}|{'-' * 10}|{'-' * 15}|---------|", flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(arguments.results)), exist_ok=True)
    errors = 0
    for claim in claims:
        print(f"measuring {claim.name} ...", file=sys.stderr)
        row = {"name": claim.name, "subject": subject[claim.name], "claim": claim.text, "target": asked(claim), "unit": claim.unit}
        row |= measured(claim, arguments.build) | run
        print(f"| {row['claim']:<64} | {row['target']:>8} | {row['figure']:>8} | {row['unit']:<13} | {row['verdict']:<7} |", flush=True)
        keep(row, arguments.results)
        errors += row["verdict"] == "error"
    page.update(arguments.results, arguments.page)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
