"""Every command that the pages show works: each block of sh is run, page by page. The rules are in CONTRIBUTING.md.

PASSING_BUILD is the build under test. PASSING_PAGES may name another tree whose pages are tried.
"""

import json
import os
import re
import subprocess
import time
import unittest

import pages
from place import BUILD, Place

NEEDS_LAB = re.compile(r"passing (lab|bench|train)\b")
TRY_LAB = "passing lab run --hosts 1 --no-switch --plain -- true"
READY_SECONDS = 5  # a service that does not listen, such as a rank that waits for others, has started by then

counts = {"run": 0, "proven by another test": 0}
not_run = []


def tests_of_build():
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return {test["name"] for test in json.loads(listed.stdout)["tests"]}


class Commands(unittest.TestCase):
    maxDiff = None
    known = None

    def check_page(self, page):
        blocks = pages.blocks_of(page)
        runnable = [block for block in blocks if not block.proven_by and not block.reason]
        self.count(blocks, len(runnable))
        if not runnable:
            return
        place = Place(pages.SOURCE)
        self.addCleanup(place.end)
        if any(NEEDS_LAB.search(block.text) for block in runnable):
            self.need_lab(place)
        services = []
        for block in runnable:
            if block.background:
                services.append((block, self.start_service(place, block)))
            else:
                self.run_block(place, block)
        for block, service in services:
            self.assertIn(service.process.poll(), (None, 0), self.told(block, service, "ended before the page did"))
        self.assertEqual(place.labs(), [], f"{pages.name_of(page)} leaves labs: show `passing lab down` at its end")

    def count(self, blocks, runnable):
        counts["run"] += runnable
        for block in blocks:
            if block.reason:
                not_run.append(f"{block.where}: {block.reason}")
            for test in block.proven_by or []:
                Commands.known = Commands.known or tests_of_build()
                self.assertIn(test, Commands.known, f"{block.where}: the build has no test of this name")
            counts["proven by another test"] += bool(block.proven_by)

    def need_lab(self, place):
        why = "a lab needs root, and a system that permits network namespaces"
        if place.holder:
            tried = place.start(TRY_LAB)
            if tried.process.wait(timeout=pages.SECONDS) == 0:
                return
            why += ": " + tried.output()
        # In CI nothing may be left out.
        (self.fail if os.environ.get("CI") else self.skipTest)(why)

    def run_block(self, place, block):
        started = place.start(block.text)
        try:
            status = started.process.wait(timeout=block.seconds)
        except subprocess.TimeoutExpired:
            self.fail(self.told(block, started, f"did not end within {block.seconds} s"))
        self.assertEqual(status, 0, self.told(block, started, f"ended with status {status}"))
        place.take_exports()

    def start_service(self, place, block):
        """A block that runs until the end of the page, once it listens."""
        service = place.start(block.text)
        deadline = time.monotonic() + READY_SECONDS
        while service.process.poll() is None and time.monotonic() < deadline and not service.listens():
            time.sleep(0.05)
        self.assertIn(service.process.poll(), (None, 0), self.told(block, service, "did not start"))
        return service

    @staticmethod
    def told(block, started, what):
        return f"\n{block.where}: {what}\n--- the commands\n{block.text}\n--- what they said\n{started.output()[-8000:]}"


def add_page(page):
    name = "test_" + re.sub(r"\W", "_", pages.name_of(page).removesuffix(".md"))
    setattr(Commands, name, lambda self: self.check_page(page))


for each in pages.all_pages():
    add_page(each)


class Rules(unittest.TestCase):
    """What the pages' comments may say."""

    def block(self, text, rules):
        return pages.Block(pages.ROOT / "docs" / "page.md", 1, text, rules)

    def test_words_are_replaced_whole_and_once(self):
        block = self.block("passing status SWITCH:9001 PASSING_SWITCH B", "with SWITCH=B B=C")
        self.assertEqual(block.text, "passing status B:9001 PASSING_SWITCH C")

    def test_rules_combine(self):
        block = self.block("true A", "background; with A=B; within 120")
        self.assertEqual((block.background, block.text, block.seconds), (True, "true B", 120))

    def test_mistakes_are_told(self):
        for rules in ("sometimes", "with A=B", "proven", "see", "within a minute"):
            with self.subTest(rules), self.assertRaises(pages.Mistake):
                self.block("true", rules)


def tearDownModule():
    print("\nblocks of commands: " + ", ".join(f"{count} {what}" for what, count in counts.items()) + f", {len(not_run)} not run")
    for line in not_run:
        print("  " + line)


if __name__ == "__main__":
    unittest.main()
