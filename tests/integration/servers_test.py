"""Parameter servers as processes: killed, stopped, ended, shared by one job after another."""
import os
import resource
import signal
import socket
import subprocess
import time
import unittest

from harness import PASSING, Server, cpu_seconds
from jobs import Jobs, resume, stop

KINDS = ("ps", "ps_hierarchical")


class Servers(Jobs):
    def test_a_server_is_killed(self):
        for strategy in KINDS:
            with self.subTest(strategy=strategy):
                servers = self.serve(2)
                ranks = self.stream(strategy, 4, timeout="20", servers=servers)
                began = time.monotonic()
                servers[1].process.kill()
                self.all_blame(ranks, rf"server 1 at {servers[1].address}", began + 5)
                servers[1].end()
                # The one that is left was of no use alone; with another one at the same place it is.
                servers[1] = Server("--index", "1", "--of", "2", listen=servers[1].address, token=self.token)
                self.servers.append(servers[1])
                self.all_right(self.start(strategy, 4, 100_000, 5, job="new", servers=servers))

    def test_a_server_is_stopped(self):
        stopped = []
        for strategy in KINDS:
            for which in (0, 1):
                servers = self.serve(2)
                ranks = self.stream(strategy, 4, timeout="3", job=f"{strategy}-{which}", servers=servers)
                stopped.append((strategy, which, servers, ranks, time.monotonic()))
                stop(servers[which])
        for strategy, which, servers, ranks, began in stopped:
            with self.subTest(strategy=strategy, which=which):
                self.all_blame(ranks, rf"server {which} at {servers[which].address}", began + 6)
                # It wakes up, and is as good as before.
                resume(servers[which])
                self.all_right(self.start(strategy, 3, 100_000, 5, job="new", servers=servers))

    @staticmethod
    def entries(servers):
        return [(each.entries("fd"), each.entries("task")) for each in servers]

    def test_one_job_after_another(self):
        servers = self.serve(2)
        self.all_right(self.start("ps", 3, 100_000, 5, job="first", servers=servers))
        # The servers may still be closing what the job had.
        state = [(999, 999)] * 2
        while (now := self.entries(servers)) != state:
            state = now
            time.sleep(0.5)

        def as_before():
            return self.entries(servers) == state

        for i, strategy in enumerate(KINDS * 3):
            self.all_right(self.start(strategy, 2 + i % 3, 100_000, 20, job=f"job-{i}", servers=servers))
        self.eventually(as_before, "jobs have left something behind")
        # All ranks die in the middle of it: the servers are free at once.
        for strategy in KINDS:
            ranks = self.stream(strategy, 4, job=f"killed-{strategy}", servers=servers)
            for each in ranks:
                each.process.kill()
            for each in ranks:
                each.end(10)
            self.all_right(self.start(strategy, 3, 100_000, 5, job=f"after-{strategy}", servers=servers))
        self.eventually(as_before, "a job that was killed has left something behind")
        before = [cpu_seconds(each.process) for each in servers]
        time.sleep(1)
        for each, used in zip(servers, before):
            self.assertLess(cpu_seconds(each.process) - used, 0.03, "it is idle")

    def test_taken(self):
        servers = self.serve(2)
        ranks = self.stream("ps", 2, job="holder", timeout="60", servers=servers)
        stop(*ranks)
        began = time.monotonic()
        before = [cpu_seconds(each.process) for each in servers]
        refused = self.start("ps_hierarchical", 3, 1000, 5, job="other", servers=servers)
        self.all_blame(refused, rf"the server at {servers[0].address}: it is taken by job 'holder' \(by rank 0 at ", began + 10)
        time.sleep(0.5)
        for each, used in zip(servers, before):
            self.assertLess(cpu_seconds(each.process) - used, 0.05, "it waits for ranks that are stopped")
        # A machine that vanishes is noticed: by keepalive, on the connections at the desk too.
        with open("/proc/net/tcp") as file:
            at_desk = [line.split() for line in file if line.split()[1].endswith(f":{servers[0].port:04X}") and line.split()[3] == "01"]
        self.assertEqual(len(at_desk), 2)
        self.assertEqual({each[5][:2] for each in at_desk}, {"02"})
        for each in ranks:
            each.process.kill()
        for each in ranks:
            each.end(10)
        self.all_right(self.start("ps", 3, 1000, 5, job="other", servers=servers))

    def test_told_to_end(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            idle, used = self.serve(1)[0], self.serve(1)[0]
            began = time.monotonic()
            self.assertEqual(idle.end(how), 0)
            self.assertLess(time.monotonic() - began, 3)
            ranks = self.stream("ps", 3, timeout="20", servers=[used])
            began = time.monotonic()
            self.assertEqual(used.end(how), 0)
            self.assertLess(time.monotonic() - began, 3)
            self.all_blame(ranks, rf"server 0 at {used.address}", began + 5)

    def test_a_rank_dies_before_all_are_there(self):
        server = self.serve(1)[0]
        with socket.create_server(("127.0.0.1", 0)) as silent:
            # Rank 1 waits for a server that never answers, after it has enrolled at the other.
            silent.settimeout(20)
            variables = {"PASSING_SERVERS": f"{server.address},127.0.0.1:{silent.getsockname()[1]}"}
            dying = self.start("ps", 3, 1000, 5, who=[1], create="30", variables=variables)
            waiting = self.start("ps", 3, 1000, 5, who=[0, 2], create="30", servers=[server])
            connection, _ = silent.accept()
            with connection:
                self.assertTrue(connection.recv(1))
                began = time.monotonic()
                dying[0].process.kill()
                self.all_blame(waiting, rf"server (0 )?at {server.address}: rank 1 at \S+ \(.*\) is not coming: ", began + 5)
        self.all_right(self.start("ps", 2, 1000, 5, job="next", servers=[server]))

    def test_lists_that_differ(self):
        servers = self.serve(2)
        ranks = self.start("ps", 3, 1000, 5, who=[0, 2], create="2", servers=servers)
        ranks += self.start("ps", 3, 1000, 5, who=[1], create="2", servers=servers[:1])
        began = time.monotonic()
        self.all_blame(ranks, r"key range 1 of 2|rank 1 ", began + 8)
        self.all_right(self.start("ps", 2, 1000, 5, job="next", servers=servers))

    @unittest.skipIf(os.environ.get("PASSING_SANITIZER") == "address",
                     "the undefined-behaviour sanitizer needs descriptors for its own checks")
    def test_too_few_descriptors(self):
        server = self.serve(1)[0]
        # Enough for the desk, and for the connections of two ranks of four.
        limit = server.entries("fd") + 4 + 3 + 2
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        began = time.monotonic()
        ranks = self.start("ps", 4, 100_000, 1_000_000, timeout="4", servers=[server])
        self.all_blame(ranks, rf"server 0 at {server.address}", began + 10)
        before = cpu_seconds(server.process)
        time.sleep(0.5)
        self.assertLess(cpu_seconds(server.process) - before, 0.05)
        self.all_right(self.start("ps", 2, 1000, 5, job="next", servers=[server]))
        server.end()
        self.assertIn("ulimit -n", server.log)

    def test_all_addresses_of_a_machine(self):
        for listen in ("0.0.0.0:0", "[::]:0"):
            server = self.serve(1, listen=listen)[0]
            for host in ("127.0.0.1", "[::1]"):
                if host == "[::1]" and listen == "0.0.0.0:0":
                    continue
                variables = {"PASSING_SERVERS": f"{host}:{server.port}", "PASSING_ADDRESS": host.strip("[]")}
                self.all_right(self.start("ps", 2, 100_000, 5, variables=variables))

    def test_an_address_in_use(self):
        server = self.serve(1)[0]
        second = subprocess.run([PASSING, "server", "--listen", server.address], capture_output=True, text=True, timeout=20)
        self.assertEqual(second.returncode, 2)
        self.assertIn(f"--listen: cannot listen at {server.address}: Address already in use", second.stderr)


if __name__ == "__main__":
    unittest.main()
