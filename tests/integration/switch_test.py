"""Processes over loopback: what a user of `passing switch` and `passing all-reduce` sees."""

import concurrent.futures
import json
import os
import random
import signal
import socket
import struct
import subprocess
import time
import unittest
import unittest.mock

from harness import PASSING, TestCase, cpu_seconds


class Sums(TestCase):
    def test_two_to_sixteen_members(self):
        switch = self.switch("--mtu", "1500")
        for size in (1, 2, 3, 5, 8, 16):
            self.assert_right(self.members(switch, f"m{size}", size, "--elements", "50001", "--repeat", "3"))
        self.assertEqual(switch.jobs(), [])

    def test_types_and_sizes(self):
        switch = self.switch("--mtu", "1500")
        for dtype in ("float32", "float16", "bfloat16", "int32"):
            for elements in (0, 1, 351, 352, 353, 2112, 2113, 100000):
                self.assert_right(self.members(switch, "t", 2, "--elements", str(elements), "--dtype", dtype, "--repeat", "2"))

    def test_settings_that_do_not_apply_are_named(self):
        switch = self.switch("--mtu", "1500")
        for values, said in (({"PASSING_STRATEGY": "passing", "PASSING_LOCAL_DOMAIN": "rack"},
                              "not used here: PASSING_STRATEGY=passing, PASSING_LOCAL_DOMAIN=rack; every rank is a member"),
                             ({"PASSING_STRATEGY": "in_network"}, "")):
            with unittest.mock.patch.dict(os.environ, values):
                members = self.members(switch, "said", 2, "--elements", "1000")
            self.assert_right(members)
            self.assertIn(said, members[0].errors)
            self.assertNotIn("not used here", members[1].errors + (members[0].errors if not said else ""))

    def test_mtus(self):
        for mtu, elements in ((576, 96), (1500, 352), (9000, 2112)):
            switch = self.switch("--mtu", str(mtu))
            self.assertEqual(json.loads(switch.get("/v1/switch"))["elements"], elements)
            self.assert_right(self.members(switch, "j", 3, "--elements", "30000"))
            self.assertEqual(switch.end(), 0)

    def test_ipv6(self):
        switch = self.switch("--mtu", "1500", host="::1")
        self.assert_right(self.members(switch, "six", 3, "--elements", "30000"))

    def test_lanes_and_threads(self):
        switch = self.switch("--mtu", "1500", "--threads", "2")
        for lanes in (1, 2, 3, 4):
            self.assert_right(self.members(switch, "lanes", 3, "--elements", "200000", "--lanes", str(lanes), "--repeat", "3"))

    def test_without_segmentation_offload(self):
        switch = self.switch("--mtu", "1500", "--no-segmentation")
        self.assertIn("no segmentation", switch.log)
        self.assert_right(self.members(switch, "plain", 3, "--elements", "100000", "--no-segmentation", "--repeat", "2"))

    def test_several_operations_in_flight(self):
        switch = self.switch("--mtu", "1500")
        self.assert_right(self.members(switch, "flight", 4, "--elements", "5000", "--repeat", "40", "--in-flight", "8"))

    def test_several_jobs_at_once(self):
        switch = self.switch("--mtu", "1500")
        members = [m for job in range(8) for m in self.members(switch, f"job{job}", 2, "--elements", "30000", "--repeat", "5")]
        self.assert_right(members)
        self.assertEqual(switch.metric("passing_drops_total"), 0)

    def test_a_switch_that_starts_late(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        members = self.members(f"127.0.0.1:{port}", "late", 2, "--elements", "1000")
        time.sleep(1)
        self.switch("--mtu", "1500", http=port)
        self.assert_right(members)

    def test_a_switch_restarted_between_jobs(self):
        switch = self.switch("--mtu", "1500")
        self.assert_right(self.members(switch, "again", 2, "--elements", "1000"))
        port = switch.port
        self.assertEqual(switch.end(), 0)
        switch = self.switch("--mtu", "1500", http=port)
        self.assert_right(self.members(switch, "again", 2, "--elements", "1000"))


class Faults(TestCase):
    def fail_naming(self, members, rank, seconds):
        begin = time.monotonic()
        for member in members:
            status, report = member.end(seconds)
            self.assertEqual(status, 1, report)
            self.assertIn(f"rank {rank}", report["error"])
        self.assertLess(time.monotonic() - begin, seconds)

    def slow_members(self, switch, size):
        return self.members(switch, "fault", size, "--elements", "1000", "--repeat", "100000", "--pause", "0.01", "--timeout", "3")

    def wait_until_running(self, switch):
        self.eventually(lambda: switch.metric("passing_results_total") > 20, "the job does not run")

    def test_a_killed_member_is_named(self):
        switch = self.switch("--mtu", "1500", "--lease", "30")
        members = self.slow_members(switch, 3)
        self.wait_until_running(switch)
        members[1].process.kill()
        self.fail_naming([members[0], members[2]], 1, 15)

    def test_a_stopped_member_is_named_and_shown(self):
        switch = self.switch("--mtu", "1500", "--lease", "30")
        members = self.slow_members(switch, 3)
        self.wait_until_running(switch)
        members[2].process.send_signal(signal.SIGSTOP)
        self.eventually(lambda: switch.jobs()[0]["waiting_for"] == [2], "the status does not name rank 2")
        text = subprocess.check_output([PASSING, "status", switch.address], text=True)
        self.assertIn("rank 2", text)
        self.fail_naming(members[:2], 2, 15)

    def test_the_lease_ends_an_epoch(self):
        switch = self.switch("--mtu", "1500", "--lease", "2")
        members = self.members(switch, "lease", 2, "--elements", "1000", "--repeat", "100000", "--pause", "0.01", "--timeout", "60")
        self.wait_until_running(switch)
        members[0].process.kill()
        status, report = members[1].end(20)
        self.assertEqual(status, 1)
        self.assertIn("rank 0", report["error"])
        self.eventually(lambda: switch.jobs() == [], "the job is not forgotten")
        self.assertEqual(switch.free_slots(), json.loads(switch.get("/v1/switch"))["slots"])

    def test_a_join_may_be_asked_for_twice(self):
        """Its answer may have been lost; the same sockets are the same process."""
        switch = self.switch()
        body = {"token": self.token, "size": 2, "rank": 0, "lanes": 1, "slots": 64, "addresses": ["127.0.0.1:45001"]}
        first = switch.post("/v1/jobs/twice/join", body)
        self.assertEqual(first[0], 200)
        self.assertEqual(switch.post("/v1/jobs/twice/join", body), first)
        status, answer = switch.post("/v1/jobs/twice/join", {**body, "addresses": ["127.0.0.1:45002"]})
        self.assertEqual(status, 400)
        self.assertIn("is taken", answer["error"])

    def test_a_member_that_restarts_joins_again(self):
        switch = self.switch("--mtu", "1500", "--lease", "30")
        members = self.slow_members(switch, 2)
        self.wait_until_running(switch)
        members[1].process.kill()
        members[1].process.wait()
        taken = self.member(switch, "fault", 2, 1, "--elements", "10")
        status, report = taken.end()
        self.assertEqual(status, 2)
        self.assertIn("rank 1 of job 'fault' is taken", report["error"])
        again = self.member(switch, "fault", 2, 1, "--elements", "5000", "--rejoin")
        status, report = members[0].end(20)
        self.assertEqual(status, 1)
        self.assertIn("rank 1", report["error"])
        self.assert_right([self.member(switch, "fault", 2, 0, "--elements", "5000"), again])

    def test_members_that_disagree_on_size_are_told(self):
        switch = self.switch("--mtu", "1500")
        members = [self.member(switch, "odd", 2, rank, "--elements", str(1000 + rank)) for rank in range(2)]
        for member in members:
            status, report = member.end()
            self.assertEqual(status, 1)
            self.assertIn("submitted different operations", report["error"])
            self.assertEqual(sorted(report["members"]), [0, 1])

    def test_a_controller_that_does_not_answer(self):
        status, report = self.member("127.0.0.1:1", "nobody", 1, 0, "--join-timeout", "1").end()
        self.assertEqual(status, 1)
        self.assertIn("the controller at 127.0.0.1:1 does not answer", report["error"])

    def test_members_that_never_come_are_named(self):
        switch = self.switch("--mtu", "1500")
        status, report = self.member(switch, "few", 3, 1, "--join-timeout", "1").end()
        self.assertEqual(status, 1)
        self.assertIn("missing: rank 0, 2", report["error"])
        self.eventually(lambda: switch.jobs() == [], "the job is not forgotten")

    def test_sigterm_tells_members(self):
        switch = self.switch("--mtu", "1500")
        members = self.members(switch, "term", 2, "--elements", "1000", "--repeat", "100000", "--pause", "0.01", "--timeout", "60")
        self.wait_until_running(switch)
        begin = time.monotonic()
        self.assertEqual(switch.end(), 0)
        self.assertLess(time.monotonic() - begin, 5)
        for member in members:
            status, report = member.end(20)
            self.assertEqual(status, 1)
            self.assertIn("the switch is shutting down", report["error"])

    def test_spoofed_and_random_packets_change_nothing(self):
        switch = self.switch("--mtu", "1500")
        members = self.members(switch, "spoof", 2, "--elements", "20000", "--repeat", "100")
        source = random.Random(7)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for i in range(3000):
                header = struct.pack(">HBBIQIIIHHHBB", 0x5053, 1, source.choice([1, 1, 4, 5]), source.choice([1, 2]),
                                     source.getrandbits(64), source.choice([1, 2]), i % 512, source.getrandbits(32), 120, 2, i % 2, 0, 0)
                packet = header + bytes(8) if i % 3 else source.randbytes(source.randrange(200))
                stranger.sendto(packet, ("127.0.0.1", switch.udp))
        self.assert_right(members)
        self.eventually(lambda: switch.metric("passing_drops_total") >= 3000, "the drops are not counted", 5)


class BadInput(TestCase):
    def refused(self, sentence, *arguments):
        result = subprocess.run([PASSING, *arguments], capture_output=True, text=True, timeout=20)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(sentence, result.stderr + result.stdout)
        self.assertLess(len((result.stderr + result.stdout).strip().splitlines()), 4)

    def test_switch(self):
        self.refused("--slots: '0': must be 1 to", "switch", "--slots", "0")
        self.refused("--mtu is 100: must be 576 to 9000", "switch", "--mtu", "100")
        self.refused("--threads: '65': must be 1 to 64", "switch", "--threads", "65")
        self.refused("--listen: address 'nonsense:x': write HOST:PORT", "switch", "--listen", "nonsense:x")
        self.refused("--unknown", "switch", "--unknown")
        switch = self.switch("--mtu", "1500")
        self.refused("--http: cannot listen on HTTP 127.0.0.1", "switch", "--mtu", "1500", "--listen", "127.0.0.1:0",
                     "--http", switch.address)
        self.refused("--listen: cannot listen on UDP 127.0.0.1", "switch", "--mtu", "1500", "--listen",
                     f"127.0.0.1:{switch.udp}", "--http", "127.0.0.1:0")

    def test_switch_by_file_and_environment(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"passing-switch-{os.getpid()}.toml")
        with open(path, "w") as file:
            file.write("[switch]\nslots = 512\n")
        self.addCleanup(os.remove, path)
        switch = self.switch("--mtu", "1500", "--config", path)
        self.assertEqual(json.loads(switch.get("/v1/switch"))["slots"], 512)
        with unittest.mock.patch.dict(os.environ, PASSING_SWITCH_SLOTS="768"):
            switch = self.switch("--mtu", "1500")
        self.assertEqual(json.loads(switch.get("/v1/switch"))["slots"], 768)

    def test_joining(self):
        switch = self.switch("--mtu", "1500", "--slots", "1024", "--threads", "1")
        good = {"token": self.token, "size": 2, "rank": 0, "addresses": ["127.0.0.1:5000"]}
        self.assertEqual(switch.post("/v1/jobs/bad/join", good)[0], 200)
        for change, sentence in [
                ({"addresses": ["127.0.0.1:5001"]}, "rank 0 of job 'bad' is taken"),
                ({"rank": 2}, "rank is 2: must be 0 to 1"),
                ({"rank": 1, "size": 3}, "job 'bad' has size 2"),
                ({"rank": 1, "lanes": 2, "addresses": ["127.0.0.1:1", "127.0.0.1:2"]}, "job 'bad' has size 2, 1 lanes"),
                ({"rank": 1, "token": "another token"}, "the token does not fit job 'bad'"),
                ({"rank": 1, "token": "short"}, "the token has 5 characters"),
                ({"rank": 1, "addresses": []}, "0 addresses for 1 lanes"),
                ({"rank": 1, "lanes": 65}, "lanes is 65: must be 1 to 64, or 0 for a rendezvous only"),
                ({"rank": 1, "addresses": ["nonsense"]}, "address 'nonsense'"),
                ({"rank": 1, "addresses": [1]}, "'addresses' is missing or not a list of texts"),
                ({"rank": -1}, "'rank' is missing or not a number"),
                ({"size": "2"}, "'size' is missing or not a number"),
                ({"size": 65}, "size is 65: must be 1 to 64"),
                ({"size": 1025, "lanes": 0}, "size is 1025: must be 1 to 1024"),
                ({"rank": 1, "slots": 3}, "slots is 3: must be a power of two")]:
            status, answer = switch.post("/v1/jobs/bad/join", {**good, **change})
            self.assertEqual(status, 400, answer)
            self.assertIn(sentence, answer["error"])
        status, answer = switch.post("/v1/jobs/" + "x" * 200 + "/join", good)
        self.assertIn("job name", answer["error"])
        status, answer = switch.post("/v1/jobs/large/join", {**good, "slots": 1024})
        self.assertEqual(status, 409)
        self.assertIn("of 768 slots free", answer["error"])
        for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"token": 1}'):
            self.assertEqual(switch.post("/v1/jobs/bad/join", body, raw=True)[0], 400)
        self.assertEqual(switch.post("/v1/nothing", {})[0], 404)
        self.assert_right(self.members(switch, "fine", 2, "--elements", "1000"))

    def test_a_body_of_100_mb(self):
        switch = self.switch("--mtu", "1500")
        try:
            self.assertEqual(switch.post("/v1/jobs/big/join", b"x" * 100_000_000, raw=True)[0], 413)
        except OSError:
            pass  # the switch may close the connection while we still send
        self.assert_right(self.members(switch, "fine", 2, "--elements", "1000"))

    def test_slots_are_counted_per_thread(self):
        switch = self.switch("--mtu", "1500", "--slots", "512", "--threads", "2")
        body = {"token": self.token, "size": 1, "rank": 0, "slots": 512, "addresses": ["127.0.0.1:5000"]}
        status, answer = switch.post("/v1/jobs/wide/join", body)
        self.assertEqual(status, 409)
        self.assertIn("of 256 slots free on each thread", answer["error"])
        self.assert_right(self.members(switch, "fine", 2, "--elements", "1000", "--lanes", "2"))

    def test_blobs_are_bounded(self):
        switch = self.switch("--mtu", "1500")
        body = {"token": self.token, "size": 2, "rank": 0, "addresses": ["127.0.0.1:5000"]}
        key = switch.post("/v1/jobs/blobs/join", body)[1]["key"]
        give = {"key": key, "rank": 0, "blob": "x" * 3_000_000}
        for _ in range(10):  # asking again costs nothing
            self.assertEqual(switch.post("/v1/jobs/blobs/blobs/same", give)[0], 200)
        statuses = [switch.post(f"/v1/jobs/blobs/blobs/{i}", give)[0] for i in range(8)]
        self.assertIn(400, statuses)
        self.assertEqual(switch.post("/v1/jobs/blobs/blobs/same", {**give, "blob": "y"})[0], 400)
        self.assertEqual(switch.post("/v1/jobs/blobs/blobs/same", {**give, "rank": 1})[0], 400)

    def test_acting_without_the_key(self):
        switch = self.switch("--mtu", "1500")
        good = {"token": self.token, "size": 1, "rank": 0, "addresses": ["127.0.0.1:5000"]}
        key = switch.post("/v1/jobs/mine/join", good)[1]["key"]
        for path in ("look", "leave", "blobs/x", "blobs/x/take"):
            body = {"key": "0" * 16, "rank": 0, "blob": ""}
            self.assertEqual(switch.post(f"/v1/jobs/mine/{path}", body)[0], 400)
            self.assertEqual(switch.post(f"/v1/jobs/other/{path}", {**body, "key": key})[0], 400)
        self.assertNotIn(key, switch.get("/v1/jobs"))
        self.assertEqual(switch.post("/v1/jobs/mine/leave", {"key": key, "rank": 0})[0], 200)

    def test_random_requests(self):
        switch = self.switch("--mtu", "1500")
        source = random.Random(3)
        pieces = ["join", "look", "leave", "blobs", "take", "..", "%00", "%ff", "%c0%80", "\xff", "x" * 300, "", "v1", "jobs", "a b"]
        methods = ["POST", "GET", "PUT", "X", "\xff"]
        values = [0, -1, 2**40, "x", None, [], {}, True, 1.5, "127.0.0.1:1", "ff" * 8]
        for _ in range(400):
            path = "/v1/jobs/" + "/".join(source.choice(pieces) for _ in range(source.randrange(1, 5)))
            body = {source.choice(["key", "rank", "size", "token", "addresses", "lanes", "slots", "blob", "rejoin"]):
                    source.choice(values) for _ in range(source.randrange(6))}
            with socket.create_connection(("127.0.0.1", switch.port), timeout=5) as connection:
                data = json.dumps(body).encode() if source.random() < 0.8 else source.randbytes(50)
                connection.sendall(f"{source.choice(methods)} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: "
                                   f"{len(data)}\r\nConnection: close\r\n\r\n".encode("latin-1") + data)
                answer = connection.recv(100)
            self.assertNotIn(b" 500 ", answer)
        self.assertIsNone(switch.process.poll(), "the switch has ended")
        self.assert_right(self.members(switch, "fine", 2, "--elements", "1000"))


class Operators(TestCase):
    def test_64_members_in_one_rendezvous(self):
        switch = self.switch("--mtu", "1500")

        def take_part(rank):
            body = {"token": self.token, "size": 64, "rank": rank, "addresses": [f"127.0.0.1:{6000 + rank}"]}
            key = switch.post("/v1/jobs/meet/join", body)[1]["key"]
            switch.post("/v1/jobs/meet/blobs/hello", {"key": key, "rank": rank, "blob": f"blob of {rank}"})
            for _ in range(200):
                answer = switch.post("/v1/jobs/meet/blobs/hello/take", {"key": key})[1]
                if answer["blobs"]:
                    return answer["blobs"]
                time.sleep(0.05)
            return []

        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            for blobs in pool.map(take_part, range(64)):
                self.assertEqual(blobs, [f"blob of {rank}" for rank in range(64)])

    def test_a_job_without_lanes_only_meets(self):
        switch = self.switch("--mtu", "1500", "--slots", "512", "--threads", "1")
        body = {"token": self.token, "size": 3, "lanes": 0}
        keys = [switch.post("/v1/jobs/meet/join", {**body, "rank": rank})[1]["key"] for rank in range(2)]
        job = switch.jobs()[0]
        self.assertEqual((job["state"], job["lanes"], job["slots"], job["joined"]), ("forming", 0, 0, [0, 1]))
        self.assertEqual(job["waiting_for"], [2])
        status, answer = switch.post("/v1/jobs/meet/join", {**body, "rank": 2, "slots": 256})
        self.assertEqual(status, 400)
        self.assertIn("256 slots and 0 addresses for 0 lanes", answer["error"])
        status, answer = switch.post("/v1/jobs/meet/join", {**body, "rank": 2, "addresses": ["127.0.0.1:5000"]})
        self.assertEqual(status, 400)
        status, answer = switch.post("/v1/jobs/meet/join", {**body, "rank": 2, "lanes": 1, "addresses": ["127.0.0.1:5000"]})
        self.assertIn("job 'meet' has size 3, 0 lanes and 0 slots", answer["error"])
        keys.append(switch.post("/v1/jobs/meet/join", {**body, "rank": 2})[1]["key"])

        view = switch.post("/v1/jobs/meet/look", {"key": keys[0], "rank": 0})[1]
        self.assertEqual(view, {"state": "running", "missing": [], "addresses": ["", "", ""], "reason": ""})
        self.assertEqual(switch.free_slots(), 512)
        time.sleep(0.6)  # the controller has looked at it meanwhile
        job = switch.jobs()[0]
        self.assertEqual((job["state"], job["waiting_for"], job["lag"], job["chunks_held"]), ("running", [], [], 0))
        self.assertIn("meet", subprocess.check_output([PASSING, "status", switch.address], text=True))
        self.assertEqual(switch.metric("passing_jobs"), 1)
        # All slots are there for others.
        self.assert_right(self.members(switch, "all", 2, "--elements", "1000", "--slots", "512"))

        # The blobs stay until the last has left.
        for rank in range(3):
            self.assertEqual(switch.post("/v1/jobs/meet/blobs/x/take", {"key": keys[rank]})[1]["missing"], [*range(rank, 3)])
            self.assertEqual(switch.post("/v1/jobs/meet/blobs/x", {"key": keys[rank], "rank": rank, "blob": str(rank)})[0], 200)
        for rank in range(3):
            self.assertEqual(switch.post("/v1/jobs/meet/blobs/x/take", {"key": keys[rank]})[1]["blobs"], ["0", "1", "2"])
            self.assertEqual(switch.post("/v1/jobs/meet/leave", {"key": keys[rank], "rank": rank})[0], 200)
        self.assertEqual(switch.jobs(), [])
        self.assertEqual(switch.post("/v1/jobs/meet/join", {**body, "size": 2, "rank": 0})[0], 200)

    def test_the_lease_ends_a_job_without_lanes(self):
        switch = self.switch("--mtu", "1500", "--lease", "1")
        body = {"token": self.token, "size": 2, "lanes": 0}
        key = [switch.post("/v1/jobs/meet/join", {**body, "rank": rank})[1]["key"] for rank in range(2)][0]
        self.eventually(lambda: switch.post("/v1/jobs/meet/look", {"key": key, "rank": 0})[1]["state"] == "ended",
                        "the lease of rank 1 does not end")
        reason = switch.post("/v1/jobs/meet/look", {"key": key, "rank": 0})[1]["reason"]
        self.assertRegex(reason, "^rank 1 has not been heard of for")
        self.eventually(lambda: switch.jobs() == [], "the job is not forgotten")

    def test_idle_processes_use_no_cpu(self):
        switch = self.switch("--mtu", "1500")
        members = self.members(switch, "idle", 2, "--elements", "1000", "--repeat", "2", "--pause", "3")
        self.eventually(lambda: switch.metric("passing_results_total") > 0, "the job does not run")
        time.sleep(0.3)
        processes = [each.process for each in (switch, *members)]
        before = [cpu_seconds(each) for each in processes]
        time.sleep(2)
        for process, used in zip(processes, before):
            self.assertLessEqual(cpu_seconds(process) - used, 0.06, process.args)
        for member in members:
            self.assertEqual(member.end()[0], 0)

    def test_slots_are_freed(self):
        switch = self.switch("--mtu", "1500", "--slots", "512", "--threads", "1")
        for _ in range(5):
            self.assert_right(self.members(switch, "all", 2, "--elements", "1000", "--slots", "512"))
        self.assertEqual(switch.free_slots(), 512)

    def test_health_status_and_metrics(self):
        switch = self.switch("--mtu", "1500")
        self.assertEqual(json.loads(switch.get("/v1/health"))["status"], "ok")
        self.assertIn("(no jobs)", subprocess.check_output([PASSING, "status", switch.address], text=True))
        self.assert_right(self.members(switch, "seen", 2, "--elements", "3520"))
        self.assertEqual(switch.metric("passing_adds_total"), 2 * switch.metric("passing_results_total"))
        self.assertIn("# TYPE passing_drops_total counter", switch.get("/metrics"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
