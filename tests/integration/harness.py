"""Processes for the integration tests: a switch and members on loopback, ended whatever happens."""

import json
import math
import os
import re
import secrets
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.request

PASSING = os.environ["PASSING"]  # the command under test


class Switch:
    """A `passing switch` on loopback, on ports of its own choice."""

    def __init__(self, *arguments, host="127.0.0.1", http=0):
        self.process = subprocess.Popen(
            [PASSING, "switch", "--listen", f"{host}:0" if ":" not in host else f"[{host}]:0",
             "--http", f"{host}:{http}" if ":" not in host else f"[{host}]:{http}", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log = ""
        while "HTTP port" not in self.log:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the switch did not start: " + self.log)
            self.log += line
        self.port = int(re.search(r"HTTP port (\d+)", self.log).group(1))
        self.udp = int(re.search(r"UDP \S+:(\d+)", self.log).group(1))
        self.address = f"{host}:{self.port}" if ":" not in host else f"[{host}]:{self.port}"

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            return answer.read().decode()

    def post(self, path, body, raw=False):
        """Status and body; JSON unless raw."""
        data = body if raw else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, method="POST",
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def metric(self, name):
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.get("/metrics").splitlines()
                   if line.startswith(name) and line[len(name)] in " {")

    def jobs(self):
        return json.loads(self.get("/v1/jobs"))["jobs"]

    def free_slots(self):
        return json.loads(self.get("/v1/switch"))["free_slots"]

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout=10)
        self.process.stdout.close()
        return status


class Server:
    """A `passing server` on loopback, on a port of its own choice unless told."""

    def __init__(self, *arguments, listen="127.0.0.1:0", token=""):
        self.process = subprocess.Popen(
            [PASSING, "server", "--listen", listen, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PASSING_TOKEN": token})
        self.log = ""
        while "listening on" not in self.log:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError("the server did not start: " + self.log)
            self.log += line
        self.address = re.search(r"listening on TCP (\S+);", self.log).group(1)
        self.port = int(self.address.rsplit(":", 1)[1])

    def entries(self, what):
        """How many there are of `fd` or `task`."""
        return len(os.listdir(f"/proc/{self.process.pid}/{what}"))

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout=10)
        if not self.process.stderr.closed:
            self.log += self.process.stderr.read()
            self.process.stderr.close()
        return status


def cpu_seconds(process):
    """Used so far by all threads of a process; inf, if it has ended and is gone."""
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Member:
    """A `passing all-reduce`."""

    def __init__(self, switch, job, size, rank, *arguments, token="a token for tests", wrap=()):
        address = switch if isinstance(switch, str) else switch.address
        self.rank = rank
        self.process = subprocess.Popen(
            [*wrap, PASSING, "all-reduce", "--controller", address, "--job", job, "--size", str(size), "--rank", str(rank),
             "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PASSING_TOKEN": token})

    def end(self, timeout=60):
        """Exit status and what it reported."""
        out, self.errors = self.process.communicate(timeout=timeout)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return self.process.returncode, json.loads(lines[-1]) if lines else {}


class TestCase(unittest.TestCase):
    def setUp(self):
        self.token = secrets.token_hex(8)
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for each in self.started:
            if each.process.poll() is None:
                each.process.kill()
            each.process.wait()
            for stream in (each.process.stdout, each.process.stderr):
                if stream:
                    stream.close()

    def switch(self, *arguments, **options):
        self.started.append(Switch(*arguments, **options))
        return self.started[-1]

    def member(self, switch, job, size, rank, *arguments, **options):
        options.setdefault("token", self.token)
        self.started.append(Member(switch, job, size, rank, *arguments, **options))
        return self.started[-1]

    def members(self, switch, job, size, *arguments, **options):
        return [self.member(switch, job, size, rank, *arguments, **options) for rank in range(size)]

    def assert_right(self, members, timeout=60):
        for member in members:
            status, report = member.end(timeout)
            self.assertEqual(status, 0, f"rank {member.rank}: {report} {member.errors}")
            self.assertTrue(report["ok"] and report["verified"])

    def eventually(self, condition, what, seconds=15):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)
