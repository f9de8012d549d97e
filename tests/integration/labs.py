"""What the tests of the lab share: running it, looking for what it left behind, and known transfers."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PASSING

PEER = os.environ["PASSING_PEER"]

# Sends so many bytes (or datagrams of 1000 bytes, 20 in a train) from one rank to another; the receiver says what arrived.
# The two know of each other by files, so that a slow start or a pause of either loses nothing: the receive buffer holds all.
TRANSFER = """
import os, socket, sys, time
way, room, sender, receiver, amount = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
ready, ended = os.path.join(room, "ready"), os.path.join(room, "ended")
me = int(os.environ["PASSING_RANK"])
address = (f"10.77.0.{receiver + 2}", 5000)
if me == receiver and way == "tcp":
    with socket.create_server(address) as server, server.accept()[0] as stream:
        got = 0
        while data := stream.recv(1 << 20):
            got += len(data)
    print("received", got)
elif me == receiver:
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)  # SO_RCVBUFFORCE
    stream.bind(address)
    stream.settimeout(0.5)
    open(ready, "x").close()
    got = []
    while True:
        over = os.path.exists(ended)
        try:
            got.append(int(stream.recv(2000)[:8]))
        except TimeoutError:
            if over:
                break
    trains = [sum(1 for each in set(got) if each // 20 == train) for train in range(amount // 20)]
    print("received", len(got), len(set(got)), sum(b < a for a, b in zip(got, got[1:])), sum(0 < n < 20 for n in trains))
elif me == sender and way == "tcp":
    deadline = time.monotonic() + 20
    while True:
        try:
            stream = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    stream.sendall(bytes(amount))
    stream.close()
elif me == sender:
    deadline = time.monotonic() + 20
    while not os.path.exists(ready):
        assert time.monotonic() < deadline, "the receiver does not come"
        time.sleep(0.01)
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
    for first in range(0, amount, 20):
        stream.sendto(b"".join(b"%08d" % each + bytes(992) for each in range(first, first + 20)), address)
        time.sleep(0.002)
    open(ended, "x").close()
"""


ROOMS = tempfile.TemporaryDirectory()


def transfer(way, sender, receiver, amount):
    """The command of every rank, for one use."""
    room = tempfile.mkdtemp(dir=ROOMS.name)
    return ["/usr/bin/python3", "-c", TRANSFER, way, room, str(sender), str(receiver), str(amount)]


def namespaces():
    return {line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()
            if line.startswith("passing-")}


def names():
    """The labs that there are."""
    try:
        return {name for name in os.listdir("/run/passing-lab") if not name.startswith(".")}
    except FileNotFoundError:
        return set()


def passing_lab(*arguments, timeout=120, **options):
    return subprocess.run([PASSING, "lab", *arguments], capture_output=True, text=True, timeout=timeout, **options)


def lab(*arguments, command, timeout=120, **options):
    return passing_lab("run", *arguments, "--", *command, timeout=timeout, **options)


def lab_with_links(*arguments, command, **options):
    """What it printed, and what links carried, by name."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        result = lab(*arguments, "--json", file.name, command=command, **options)
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)
        return result.stdout, {link["name"]: link for link in json.load(file)["links"]}


class LabCase(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            # In CI nothing may be left out.
            (self.fail if os.environ.get("CI") else self.skipTest)("needs root, for network namespaces: sudo make test")
        self.before = namespaces(), names()

    def tearDown(self):
        # Others on this machine may have labs of their own, which come and go.
        ours = {name for name in namespaces() - self.before[0] if not self.of_others(name)}
        self.assertEqual(ours, set(), "namespaces were left behind")
        self.assertEqual({name for name in names() - self.before[1] if not name.startswith("run-")}, set(), "a lab was left behind")

    @staticmethod
    def of_others(name):
        """Whether a namespace is that of a process which still runs."""
        owner = name.split("-")[1]
        return owner.isdigit() and os.path.exists(f"/proc/{owner}")

    def right(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def complains(self, result, pattern, status=1):
        """In one sentence."""
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertRegex(result.stderr, pattern)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def eventually(self, true, what, seconds=15):
        deadline = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit("no tests in here")
