"""Hosts of several ranks, as processes: one is killed or stopped at any time. All others end in time and name it, and nothing
stays behind."""
import os
import random
import time
import unittest

from harness import Switch
from jobs import Jobs, others, resume, stop

STRATEGIES = ("passing", "ring_hierarchical")
LAYOUTS = ("aabb", "aaab")
LEASE = 3


def doors():
    """Sockets by which ranks of a host meet."""
    with open("/proc/net/unix") as file:
        return {line.split()[-1] for line in file if "@passing-" in line}


class Hosts(Jobs):
    def setUp(self):
        super().setUp()
        self.switch = Switch("--mtu", "1500", "--lease", str(LEASE))
        self.slots = self.switch.free_slots()
        self.memory = set(os.listdir("/dev/shm"))
        self.doors = doors()
        self.source = random.Random(6)
        self.faults = 0

    def cases(self):
        """Every strategy and layout, with a seeded victim each: over the cases, every rank."""
        victims = self.source.sample(range(4), 4)
        for strategy in STRATEGIES:
            for layout in LAYOUTS:
                self.faults += 1
                yield strategy, layout, victims.pop()

    def clean_again(self, ranks):
        self.assertEqual([each.process.poll() for each in ranks if each.process.poll() is None], [])
        self.assertLessEqual(set(os.listdir("/dev/shm")), self.memory)
        self.assertLessEqual(doors(), self.doors)
        # Who was killed could not say goodbye.
        self.eventually(lambda: self.switch.jobs() == [] and self.switch.free_slots() == self.slots,
                        f"the switch still has {self.switch.jobs()}", LEASE + 5)

    def test_killed_before_the_first_operation(self):
        jobs = []
        for strategy, layout, who in self.cases():
            ranks = self.start(strategy, 4, 100_000, 1_000_000, job=f"early-{strategy}-{layout}", timeout="20", create="4", hosts=layout)
            time.sleep(self.source.random() * 0.1)
            ranks[who].process.kill()
            jobs.append((strategy, layout, who, ranks, time.monotonic()))
        for strategy, layout, who, ranks, began in jobs:
            with self.subTest(strategy=strategy, layout=layout, who=who):
                # It may never have come.
                self.all_blame(others(ranks, who), rf"rank {who}\b", began + 4 + 6)
        self.clean_again([each for job in jobs for each in job[3]])

    def test_killed_at_work(self):
        for elements in (300_000, 2_000_000):
            for strategy, layout, who in self.cases():
                with self.subTest(strategy=strategy, layout=layout, who=who, elements=elements):
                    ranks = self.stream(strategy, 4, job=f"kill-{strategy}-{layout}-{elements}", timeout="20", hosts=layout,
                                        elements=elements)
                    time.sleep(self.source.random() / 5)
                    began = time.monotonic()
                    ranks[who].process.kill()
                    self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + 5)
        self.clean_again(self.ranks)
        self.assertEqual(self.faults, 8)

    def test_stopped(self):
        jobs = []
        for strategy, layout, who in self.cases():
            ranks = self.stream(strategy, 4, job=f"stop-{strategy}-{layout}", timeout="3", hosts=layout, elements=2_000_000)
            time.sleep(self.source.random() / 5)
            stop(ranks[who])  # from here on they all wait, while the next job begins
            jobs.append((strategy, layout, who, ranks, time.monotonic()))
        for strategy, layout, who, ranks, began in jobs:
            with self.subTest(strategy=strategy, layout=layout, who=who):
                self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + 6)
                for each in others(ranks, who):
                    for innocent in others(ranks, who):
                        self.assertNotRegex(each.errors, rf"(waiting for|missing:) .*rank {innocent.rank} at")
        # They wake up in groups that are gone, and hear so.
        for _, _, who, ranks, _ in jobs:
            resume(ranks[who])
        for _, _, who, ranks, _ in jobs:
            self.assertEqual(ranks[who].end(20)[0], 1)
        self.clean_again(self.ranks)

    def test_again_after_a_failure(self):
        for strategy in STRATEGIES:
            ranks = self.stream(strategy, 4, timeout="20", hosts="aaab", job=f"again-{strategy}")
            ranks[1].process.kill()
            self.all_blame(others(ranks, 1), r"rank 1 at \S+", time.monotonic() + 5)
            self.all_right(self.start(strategy, 4, 50_000, 20, timeout="20", create="40", hosts="aaab", job=f"again-{strategy}"))
        self.clean_again(self.ranks)


if __name__ == "__main__":
    unittest.main()
