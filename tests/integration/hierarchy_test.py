"""Hosts of several ranks, as processes: one is killed or stopped at any time. All others end in time and name it, and nothing
stays behind."""
import contextlib
import os
import sys
import time
import unittest

from harness import Switch, cpu_seconds
from jobs import Jobs, others, random_source, resume, stop

STRATEGIES = ("passing", "ring_hierarchical", "auto")
# Of two hosts auto makes a ring, of three it takes the switch.
JOBS = (("passing", "aabb", None), ("passing", "aaab", None), ("ring_hierarchical", "aabb", None), ("ring_hierarchical", "aaab", None),
        ("auto", "aabb", None), ("auto", "aabc", None), ("passing", "abcd", "xxyy"), ("passing", "aabc", "xxxy"))
LEASE = 2


def processes(token):
    """Those of the machine, by whether they know the token: ranks and their children do."""
    known, strange = [], []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            (known if token.encode() in file.read() else strange).append(name)
    return known, strange


def doors(token):
    """Sockets by which ranks of a host meet, unless they are someone else's."""
    with open("/proc/net/unix") as file:
        left = {f"socket:[{line.split()[-2]}]": line.split()[-1] for line in file if "@passing-" in line}
    for name in processes(token)[1] if left else ():
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{name}/fd"):
                left.pop(os.readlink(f"/proc/{name}/fd/{entry}"), None)
    return left


def at_rest(ranks):
    """They have done nothing for a while: all wait."""
    before = [cpu_seconds(each.process) for each in ranks]
    time.sleep(0.15)
    return all(cpu_seconds(each.process) - time_before < 0.02 for each, time_before in zip(ranks, before))


class Hosts(Jobs):
    def setUp(self):
        super().setUp()
        self.switch = Switch("--mtu", "1500", "--lease", str(LEASE))
        self.slots = self.switch.free_slots()
        self.memory = set(os.listdir("/dev/shm"))
        self.source = random_source()
        self.faults = 0

    def cases(self):
        """Every strategy and layout, with and without racks, and a victim each: over the cases, every rank twice."""
        victims = self.source.sample(2 * list(range(4)), 8)
        for strategy, hosts, racks in JOBS:
            self.faults += 1
            yield strategy, {"hosts": hosts, "racks": racks, "job": f"job-{self.faults}"}, victims.pop()

    def clean_again(self):
        for each in self.ranks:
            self.assertIsNotNone(each.process.poll())
        self.assertEqual(processes(self.token)[0], [])
        self.eventually(lambda: not doors(self.token), "a socket is left")
        self.eventually(lambda: set(os.listdir("/dev/shm")) <= self.memory, "shared memory is left")
        # Who was killed could not say goodbye.
        self.eventually(lambda: self.switch.jobs() == [] and self.switch.free_slots() == self.slots, "a job is left", LEASE + 5)

    def test_before_or_soon_after_the_first_operation(self):
        jobs = []
        for fault in (lambda rank: rank.process.kill(), stop):
            for strategy, layout, who in self.cases():
                ranks = self.start(strategy, 4, 100_000, 1_000_000, timeout="2", create="5", **layout)
                time.sleep(self.source.random() / 5)
                fault(ranks[who])
                jobs.append((strategy, layout, who, ranks, time.monotonic()))
        for strategy, layout, who, ranks, began in jobs:
            with self.subTest(strategy=strategy, layout=layout, who=who):
                # It may never have come, or not to its host.
                self.all_blame(others(ranks, who), rf"rank {who}\b", began + 5 + 2 + 8)
        for _, _, who, ranks, _ in jobs:
            resume(ranks[who])
            ranks[who].end(20)
        self.clean_again()
        self.assertEqual(self.faults, 2 * len(JOBS))

    def test_killed_at_work(self):
        for strategy, layout, who in self.cases():
            with self.subTest(strategy=strategy, layout=layout, who=who):
                ranks = self.stream(strategy, 4, timeout="20", elements=300_000 if self.faults % 2 else 2_000_000, **layout)
                time.sleep(self.source.random() / 5)
                began = time.monotonic()
                ranks[who].process.kill()
                self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + 5)
        self.clean_again()
        self.assertEqual(self.faults, len(JOBS))

    def test_stopped(self):
        jobs = []
        for strategy, layout, who in self.cases():
            ranks = self.stream(strategy, 4, timeout="2", elements=2_000_000, **layout)
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
        self.clean_again()

    def test_the_switch_misses_a_rank_first(self):
        """It knows hosts by number, but the error is about a rank."""
        for who in (2, 3):
            ranks = self.stream("passing", 4, job=f"lease-{who}", timeout="30", hosts="aabb")
            began = time.monotonic()
            stop(ranks[who])
            self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + LEASE + 4)
            for each in others(ranks, who):
                self.assertNotRegex(each.errors, "rank 1 at")
            ranks[who].process.kill()
            ranks[who].end(5)
        self.clean_again()

    def test_again_after_a_failure(self):
        for strategy in STRATEGIES:
            ranks = self.stream(strategy, 4, timeout="20", hosts="aaab", job=f"again-{strategy}")
            ranks[1].process.kill()
            self.all_blame(others(ranks, 1), r"rank 1 at \S+", time.monotonic() + 5)
            self.all_right(self.start(strategy, 4, 50_000, 20, timeout="20", create="40", hosts="aaab", job=f"again-{strategy}"))
        self.clean_again()

    def test_killed_in_every_stage(self):
        """A rank that stands still keeps all others where they wait for it: its neighbours in the sums of the host, the rest in those
        across hosts. Then one of them is killed, and it is named, not the one that all have waited for."""
        stages = {"before the others": 0, "in the host": 0, "across hosts": 0}
        offset = self.source.randrange(3)
        for number, (strategy, hosts, racks) in enumerate(JOBS):
            still = self.source.choice([r for r in range(4) if hosts.count(hosts[r]) > 1] or range(4))
            among = {"before the others": [still],
                     "in the host": [r for r in range(4) if hosts[r] == hosts[still] and r != still],
                     "across hosts": [r for r in range(4) if hosts[r] != hosts[still]]}
            stage = list(stages)[(number + offset) % 3]
            if not among[stage]:
                stage = "across hosts"
            who = self.source.choice(among[stage])
            stages[stage] += 1
            with self.subTest(strategy=strategy, hosts=hosts, racks=racks, still=still, who=who, stage=stage):
                ranks = self.stream(strategy, 4, timeout="30", hosts=hosts, racks=racks, job=f"stage-{number}",
                                    elements=self.source.choice((1000, 300_000, 2_000_000)))
                time.sleep(self.source.random() / 10)
                stop(ranks[still])
                self.eventually(lambda: at_rest(others(ranks, still)), "the others do not wait", LEASE / 2)
                began = time.monotonic()
                ranks[who].process.kill()
                living = [each for each in ranks if each.rank not in (who, still)]
                self.all_blame(living, rf"rank {who} at \S+", began + 5)
                for each in living:
                    self.assertNotRegex(each.errors, r"waiting for|missing")
                resume(ranks[still])
                ranks[still].end(20)
        print(stages, file=sys.stderr)
        self.assertTrue(all(count >= 2 for count in stages.values()), stages)
        self.clean_again()


if __name__ == "__main__":
    unittest.main()
