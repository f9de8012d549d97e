"""Ranks as processes: killed, stopped, delayed, joined twice. Everyone ends in time and names the one at fault."""
import json
import os
import random
import re
import secrets
import signal
import subprocess
import tempfile
import time
import unittest

from harness import Switch, cpu_seconds

PEER = os.environ["PASSING_PEER"]


class Rank:
    def __init__(self, rank, size, strategy, environment, *arguments):
        self.rank = rank
        self.process = subprocess.Popen(
            [PEER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PASSING_RANK": str(rank), "PASSING_SIZE": str(size), "PASSING_STRATEGY": strategy, **environment})

    def end(self, timeout):
        out, self.errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, out


class Communicators(unittest.TestCase):
    def setUp(self):
        self.ranks = []
        self.directory = tempfile.TemporaryDirectory(prefix="passing-test-")
        self.switch = None
        self.addCleanup(self.clean)
        self.token = secrets.token_hex(8)

    def clean(self):
        for each in self.ranks:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGCONT)
                each.process.kill()
            each.process.communicate()
        if self.switch:
            self.switch.end()
        self.directory.cleanup()

    def start(self, strategy, size, elements, repeat, timeout="3", job="job", who=None, create="10"):
        environment = {"PASSING_TIMEOUT": timeout, "PASSING_CREATE_TIMEOUT": create, "PASSING_JOB": job, "PASSING_TOKEN": self.token,
                       "PASSING_DIRECTORY": self.directory.name}
        if strategy == "in_network":
            if self.switch is None:
                self.switch = Switch("--mtu", "1500", "--lease", "20")
            environment["PASSING_CONTROLLER"] = self.switch.address
        ranks = [Rank(r, size, strategy, environment, str(elements), str(repeat), "0", "2") for r in (who or range(size))]
        self.ranks += ranks
        return ranks

    def running(self, ranks, seconds=0.5):
        """All have begun: they use CPU."""
        limit = time.monotonic() + 15
        while time.monotonic() < limit and not all(cpu_seconds(each.process) > 0.1 for each in ranks):
            time.sleep(0.05)
        time.sleep(seconds)
        for each in ranks:
            self.assertIsNone(each.process.poll(), each.process.stderr.read() if each.process.poll() is not None else "")

    def all_blame(self, ranks, who, limit):
        for each in ranks:
            if each.rank == who:
                continue
            status, _ = each.end(limit)
            self.assertEqual(status, 1)
            self.assertRegex(each.errors, rf"rank {who} at \S+", each.rank)

    def test_a_rank_is_killed(self):
        for strategy in ("ring", "in_network"):
            for who in (0, 2):
                ranks = self.start(strategy, 4, 200_000, 1_000_000, job=f"{strategy}-{who}", timeout="20")
                self.running(ranks, random.random() / 2)
                began = time.monotonic()
                ranks[who].process.kill()
                self.all_blame(ranks, who, 15)
                # By the broken connection, not by the deadline.
                self.assertLess(time.monotonic() - began, 5)

    def test_a_rank_is_stopped(self):
        for strategy in ("ring", "in_network"):
            ranks = self.start(strategy, 4, 200_000, 1_000_000, job=f"{strategy}-stop", timeout="2")
            self.running(ranks, random.random() / 2)
            began = time.monotonic()
            ranks[1].process.send_signal(signal.SIGSTOP)
            self.all_blame(ranks, 1, 15)
            self.assertLess(time.monotonic() - began, 12)
            for each in ranks:
                if each.rank != 1:
                    self.assertRegex(each.errors, r"since [\d.]+ s|missing|answer")
            # It wakes up in a group that is gone, and hears so.
            ranks[1].process.send_signal(signal.SIGCONT)
            self.assertEqual(ranks[1].end(20)[0], 1)

    def test_a_rank_is_delayed_at_random(self):
        source = random.Random(7)
        for strategy in ("ring", "in_network"):
            ranks = self.start(strategy, 3, 50_000, 300, job=f"{strategy}-delay", timeout="20")
            for _ in range(8):
                late = source.choice(ranks)
                late.process.send_signal(signal.SIGSTOP)
                time.sleep(source.random() * 0.2)
                late.process.send_signal(signal.SIGCONT)
                time.sleep(source.random() * 0.05)
            for each in ranks:
                status, out = each.end(60)
                self.assertEqual(status, 0, each.errors)
                self.assertTrue(json.loads(out)["ok"])

    def test_again_after_a_failure(self):
        for strategy in ("ring", "in_network"):
            ranks = self.start(strategy, 3, 200_000, 1_000_000, timeout="20")
            self.running(ranks)
            ranks[2].process.kill()
            self.all_blame(ranks, 2, 15)
            # The same job, the same switch.
            for each in self.start(strategy, 3, 1000, 5, timeout="20", create="40"):
                self.assertEqual(each.end(60)[0], 0, each.errors)

    def test_two_claim_one_rank(self):
        ranks = self.start("ring", 3, 1000, 5, who=[0, 1, 1], create="3")
        texts = []
        for each in ranks:
            status, _ = each.end(20)
            self.assertEqual(status, 1)
            texts.append(each.errors)
        self.assertTrue(any(re.search("rank 1", text) for text in texts), texts)

    def test_no_switch_at_the_address(self):
        rank = Rank(0, 2, "in_network", {"PASSING_CONTROLLER": "127.0.0.1:1", "PASSING_TOKEN": self.token, "PASSING_CREATE_TIMEOUT": "1"},
                    "10", "1", "0", "1")
        self.ranks.append(rank)
        self.assertEqual(rank.end(20)[0], 1)
        self.assertIn("127.0.0.1:1", rank.errors)

    def test_unknown_strategy(self):
        rank = Rank(0, 2, "telepathy", {"PASSING_DIRECTORY": self.directory.name}, "10", "1", "0", "1")
        self.ranks.append(rank)
        self.assertEqual(rank.end(20)[0], 1)
        self.assertIn("'telepathy'", rank.errors)
        self.assertIn("ring", rank.errors)


if __name__ == "__main__":
    unittest.main()
