"""Jobs whose ranks are processes (`peer_passing`), with the switch or the servers that their strategy needs."""

import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import Server, Switch, cpu_seconds

PEER = os.environ["PASSING_PEER"]
STRATEGIES = ("auto", "ring", "halving_doubling", "in_network", "ps", "ps_hierarchical", "ps_sharded")


def random_source():
    """Seeded by PASSING_TEST_SEED, or another one every time. Printed, so that a failure can be repeated."""
    seed = int(os.environ.get("PASSING_TEST_SEED") or random.SystemRandom().randrange(2 ** 32))
    print(f"PASSING_TEST_SEED={seed}", file=sys.stderr, flush=True)
    return random.Random(seed)


class Rank:
    """A process; what it writes, and when it ends, is noted in the background."""

    def __init__(self, rank, size, strategy, environment, *arguments):
        self.rank = rank
        self.out = self.errors = ""
        self.ended = self.last_word = None
        self.process = subprocess.Popen(
            [PEER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PASSING_RANK": str(rank), "PASSING_SIZE": str(size), "PASSING_STRATEGY": strategy, **environment})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.errors += line
            self.last_word = time.monotonic()
        self.out = self.process.stdout.read()  # a line or two: they fit the pipe
        self.process.wait()
        self.ended = time.monotonic()
        self.process.stderr.close()
        self.process.stdout.close()

    def end(self, timeout):
        self.reader.join(timeout)
        if self.reader.is_alive():
            raise AssertionError(f"rank {self.rank} has not ended in {timeout} s")
        return self.process.returncode, self.out


class Jobs(unittest.TestCase):
    def setUp(self):
        self.ranks = []
        self.servers = []
        self.directory = tempfile.TemporaryDirectory(prefix="passing-test-")
        self.switch = None
        self.addCleanup(self.clean)
        self.token = secrets.token_hex(8)

    def clean(self):
        for each in self.ranks + self.servers:
            if each.process.poll() is None:
                each.process.kill()  # also if it is stopped
        for each in self.ranks:
            each.reader.join()
        for each in self.servers:
            each.end()
        if self.switch:
            self.switch.end()
        self.directory.cleanup()

    def serve(self, count, *arguments, **options):
        made = [Server("--index", str(i), "--of", str(count), *arguments, token=self.token, **options) for i in range(count)]
        self.servers += made
        return made

    def start(self, strategy, size, elements, repeat, timeout="3", job="job", who=None, create="20", servers=None, variables=None,
              hosts=None, racks=None):
        """Two ranks share a host, or as `hosts` says, with a letter for each; their hosts are in `racks`. Servers of its own, unless they
        are given. Links of 1 Gbit/s: auto then takes the switch for three hosts and more."""
        environment = {"PASSING_TIMEOUT": timeout, "PASSING_CREATE_TIMEOUT": create, "PASSING_JOB": job, "PASSING_TOKEN": self.token,
                       "PASSING_DIRECTORY": self.directory.name, "PASSING_LINK_RATE": "1", **(variables or {})}
        if racks:
            environment["PASSING_LOCAL_DOMAIN"] = "rack"
        if strategy in ("in_network", "passing", "auto"):
            if self.switch is None:
                self.switch = Switch("--mtu", "1500", "--lease", "20")
            environment["PASSING_CONTROLLER"] = self.switch.address
        if strategy in ("ps", "ps_hierarchical") and "PASSING_SERVERS" not in environment:
            environment["PASSING_SERVERS"] = ",".join(each.address for each in servers or self.serve(2))
        ranks = [Rank(r, size, strategy, {**environment, "PASSING_HOST": hosts[r] if hosts else f"host{r // 2}",
                                          **({"PASSING_RACK": racks[r]} if racks else {})},
                      "all_reduce", str(elements), str(repeat), "0", "2") for r in who or range(size)]
        self.ranks += ranks
        return ranks

    def stream(self, strategy, size, elements=200_000, patience=30, **options):
        """A job that goes on and on; returns when all its ranks are at it."""
        ranks = self.start(strategy, size, elements, 1_000_000, **options)
        limit = time.monotonic() + patience
        while not all(each.ended or cpu_seconds(each.process) > 0.1 for each in ranks):
            self.assertLess(time.monotonic(), limit, "ranks do not begin")
            time.sleep(0.02)
        for each in ranks:
            self.assertIsNone(each.ended, f"{strategy}: {each.errors}")
        return ranks

    def all_blame(self, ranks, pattern, limit):
        """All end with an error that names the one at fault, before `limit`, on the clock."""
        for each in ranks:
            status, _ = each.end(max(0, limit - time.monotonic()) + 5)
            self.assertEqual(status, 1)
            self.assertRegex(each.errors, pattern, f"rank {each.rank}")
            self.assertLess(each.ended, limit, f"rank {each.rank}: {each.errors}")

    def all_right(self, ranks, timeout=60):
        for each in ranks:
            self.assertEqual(each.end(timeout)[0], 0, f"rank {each.rank}: {each.errors}")
            self.assertIn('"ok": true', each.out)

    def eventually(self, condition, what, seconds=15):
        limit = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), limit, what)
            time.sleep(0.02)


def others(ranks, who):
    return [each for each in ranks if each.rank != who]


def stop(*all_of_them):
    for each in all_of_them:
        each.process.send_signal(signal.SIGSTOP)


def resume(*all_of_them):
    for each in all_of_them:
        each.process.send_signal(signal.SIGCONT)
