"""The results in docs/benchmarks.md follow from those of `make claims`: bench/claims/page.py."""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "claims"))

import page
from promises import Claim, SUBJECTS

MACHINE = {"cpu": "a processor", "cores": 2, "kernel": "6.1", "memory_bytes": 24e9}
CLAIM = Claim("shape-fast", "four hosts", ">=", 0.98, "of ceiling", None)


def result(**changes):
    return {"name": "shape-fast", "target": ">= 0.98", "figure": 0.991, "verdict": "pass", "date": "2025-01-02", "commit": "abc1234",
            "machine": MACHINE} | changes


def render(*results, claims=(CLAIM,)):
    """The text of the results, its lines not broken."""
    return re.sub(r"(?<=[^|\n])\n *(?=[^|\n])", " ", page.render({"Speed": claims}, results))


class Render(unittest.TestCase):
    def test_says_what_was_measured_when_and_where(self):
        text = render(result())
        self.assertIn("Measured on 2025-01-02 at commit abc1234: a processor, 2 cores, 24 GB of memory, Linux 6.1.", text)
        self.assertIn("| four hosts | at least 0.98 of ceiling | 0.991 | pass |", text)
        self.assertIn("Of 1 claims 1 pass, 0 are missed, 0 ended with an error, and 0 are not measured.", text)

    def test_invents_nothing(self):
        for results in ([], [result(target=">= 0.9")]):
            text = render(*results)
            self.assertIn("| four hosts | at least 0.98 of ceiling | not measured | |", text)
            self.assertNotIn("Measured on", text)
            self.assertTrue(text.startswith(f"{page.BEGIN}\n\n{page.NOTHING}\n\n### Speed"), text)

    def test_does_not_deny_what_was_measured(self):
        for verdict in ("pass", "miss", "error"):
            self.assertNotIn(page.NOTHING, render(result(verdict=verdict)))

    def test_lists_what_is_missed_and_what_failed(self):
        self.assertIn("- Speed: four hosts: 0.5, asked at least 0.98 of ceiling", render(result(figure=0.5, verdict="miss")))
        failed = render(result(figure="-", verdict="error"))
        self.assertIn("| four hosts | at least 0.98 of ceiling | - | error |", failed)
        self.assertIn("- Speed: four hosts: could not be measured", failed)

    def test_tells_runs_apart(self):
        other = CLAIM._replace(name="other", text="eight hosts")
        text = render(result(), result(name="other", commit="fedcba9"), claims=(CLAIM, other))
        self.assertEqual(text.count("Measured on"), 2)
        self.assertIn("| eight hosts | at least 0.98 of ceiling | 0.991 (fedcba9) | pass |", text)
        self.assertIn("| four hosts | at least 0.98 of ceiling | 0.991 | pass |", text)


class Check(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.claims, self.page = (os.path.join(self.scratch.name, name) for name in ("claims.json", "page.md"))
        self.write(self.claims, json.dumps({"results": [result(name="slot-add", target=">= 0.7")]}))
        self.write(self.page, f"before\n{page.BEGIN}\n{page.END}\nafter\n")

    @staticmethod
    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def run_page(self, *options):
        sys.argv = ["page.py", self.claims, "--page", self.page, *options]
        with contextlib.redirect_stderr(io.StringIO()):
            page.main()

    def test_holds_after_writing_and_not_after_an_edit(self):
        with self.assertRaisesRegex(SystemExit, "does not follow"):
            self.run_page("--check")
        self.run_page()
        self.run_page("--check")
        with open(self.page) as file:
            text = file.read()
        self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
        self.write(self.page, text.replace("0.991", "1.991"))
        with self.assertRaisesRegex(SystemExit, "does not follow"):
            self.run_page("--check")

    def test_says_what_a_page_lacks(self):
        self.write(self.page, page.END + page.BEGIN)
        with self.assertRaisesRegex(SystemExit, "the page must have"):
            self.run_page()


class Benchmarks(unittest.TestCase):
    def test_follows_from_the_results_that_come_with_it(self):
        with unittest.mock.patch.object(sys, "argv", ["page.py", "--check"]):
            page.main()

    def test_lists_every_claim_with_its_target(self):
        with open(os.path.join(ROOT, "docs", "benchmarks.md")) as file:
            text = file.read()
        shown = re.findall(r"^\| ([^|]*) \| ((?:at least|at most|below) [^|]*) \|", text[text.index(page.BEGIN):text.index(page.END)], re.MULTILINE)
        self.assertEqual(shown, [(claim.text, page.wanted(claim)) for claims in SUBJECTS.values() for claim in claims])


if __name__ == "__main__":
    unittest.main()
