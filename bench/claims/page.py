#!/usr/bin/env python3
"""Writes the results in docs/benchmarks.md from those of `make claims`; with --check, fails if the page says anything else."""

import argparse
import json
import os
import sys
import textwrap

sys.dont_write_bytecode = True

from lab import ROOT
from promises import SUBJECTS, asked

RESULTS = os.path.join(ROOT, "bench", "claims", "results.json")  # tracked, so that a clone knows what was measured before
BEGIN = "<!-- results: made by bench/claims/page.py -->"
END = "<!-- end of results -->"
NOTHING = "No claim has been measured at this commit; `make claims` fills the tables."
WORDS = {">=": "at least", "<=": "at most", "<": "below"}


def wrapped(text):
    """Prose, or an entry of a list, in lines of a page."""
    return textwrap.fill(text, 100, subsequent_indent="  " if text.startswith("- ") else "", break_long_words=False, break_on_hyphens=False)


def run_of(row):
    """When, what and where: a line that is the same for all claims that were measured together."""
    machine = row["machine"]
    return (f"Measured on {row['date']} at commit {row['commit']}: {machine['cpu']}, {machine['cores']} cores, "
            f"{machine['memory_bytes'] / 1e9:.0f} GB of memory, Linux {machine['kernel']}.")


def wanted(claim):
    return f"{WORDS[claim.comparison]} {claim.target} {claim.unit}"


def shown(row):
    return f"{row['figure']:.4g}" if row["verdict"] in ("pass", "miss") else "-"


def current(claim, rows):
    """Its result, unless the target has changed since."""
    row = rows.get(claim.name)
    return row if row and row["target"] == asked(claim) else None


def table(claims, rows):
    """The runs of a subject, and a row per claim. Rows of any but its first run name their commit."""
    found = [current(claim, rows) for claim in claims]
    runs = list(dict.fromkeys(run_of(row) for row in found if row))
    lines = [line for run in runs for line in (wrapped(run), "")]
    lines += ["| claim | asked | measured | verdict |", "|---|---|---|---|"]
    for claim, row in zip(claims, found):
        if row is None:
            lines.append(f"| {claim.text} | {wanted(claim)} | not measured | |")
            continue
        other = "" if run_of(row) == runs[0] else f" ({row['commit']})"
        lines.append(f"| {claim.text} | {wanted(claim)} | {shown(row)}{other} | {row['verdict']} |")
    return lines


def summary(subjects, rows):
    """How many claims of each verdict, and the list of those that are missed."""
    found = [(subject, claim, current(claim, rows)) for subject, claims in subjects.items() for claim in claims]
    verdicts = [row["verdict"] if row else "" for _, _, row in found]
    lines = [f"Of {len(found)} claims {verdicts.count('pass')} pass, {verdicts.count('miss')} are missed, {verdicts.count('error')} "
             f"ended with an error, and {verdicts.count('')} are not measured."]
    for subject, claim, row in found:
        if row and row["verdict"] == "miss":
            lines.append(f"- {subject}: {claim.text}: {shown(row)}, asked {wanted(claim)}")
        elif row and row["verdict"] == "error":
            lines.append(f"- {subject}: {claim.text}: could not be measured")
    return [wrapped(lines[0]), "", *map(wrapped, lines[1:])]


def render(subjects, results):
    rows = {row["name"]: row for row in results}
    lines = [BEGIN, ""]
    if not any(current(claim, rows) for claims in subjects.values() for claim in claims):
        lines += [NOTHING, ""]
    for subject, claims in subjects.items():
        lines += [f"### {subject}", "", *table(claims, rows), ""]
    lines += ["### What is missed", "", *summary(subjects, rows)]
    return "\n".join(lines).rstrip() + "\n\n" + END


def replaced(text, results):
    """The page with these results between its marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the page must have one '{BEGIN}', and one '{END}' after it")
    return text[:text.index(BEGIN)] + render(SUBJECTS, results) + text[text.index(END) + len(END):]


def update(claims, page, check=False):
    """Whether the page said the same already. Without `check` it does afterwards."""
    with open(claims) as file:
        results = json.load(file)["results"]
    with open(page) as file:
        text = file.read()
    fresh = replaced(text, results)
    if not check and fresh != text:
        with open(page, "w") as file:
            file.write(fresh)
    return fresh == text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="?", default=RESULTS, help="results of claims.py")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "benchmarks.md"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page does not follow from the results")
    arguments = parser.parse_args()
    try:
        same = update(arguments.claims, arguments.page, arguments.check)
    except (OSError, ValueError) as problem:
        sys.exit(f"page.py: {problem}")
    if arguments.check and not same:
        sys.exit(f"page.py: {arguments.page} does not follow from {arguments.claims}; `bench/claims/page.py` mends it")


if __name__ == "__main__":
    main()
