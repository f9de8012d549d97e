"""The switch in the kernel, attached by tc or XDP to ports of a lab: right sums for every shape of it, jobs that come and go,
nothing left on an interface however it ends, and what a preflight says. docs/dataplanes.md, docs/protocol.md section 4."""
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PASSING
from labs import LabCase, lab, passing_lab

HOOKS = ("tc", "xdp")
RIGHT = r"every element right"


def all_reduce(elements=200_000, repeat=3, *more):
    return [PASSING, "all-reduce", "--elements", str(elements), "--repeat", str(repeat), *more]


class Namespace:
    """A place in a lab that stays."""

    def __init__(self, name):
        self.name = name

    def run(self, *command, check=True, **options):
        return subprocess.run(["ip", "netns", "exec", self.name, *command], check=check, capture_output=True, text=True, timeout=60, **options)

    def start(self, *command, **options):
        # `ip netns exec` becomes the command, so that signals reach it.
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def programs(self, device):
        """What of ours is on an interface."""
        filters = self.run("tc", "filter", "show", "dev", device, "ingress").stdout
        return re.findall(r"passing_\w+", filters) + re.findall(r"prog/xdp", self.run("ip", "link", "show", "dev", device).stdout)


class Kernel(LabCase):
    """A lab without a switch, in which tests start one."""

    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        if hasattr(self, "name"):
            passing_lab("down", self.name)
        super().tearDown()

    def up(self, hook, *arguments, hosts=3):
        self.name = "kernel" + secrets.token_hex(3)
        self.right(passing_lab("up", "--name", self.name, "--hosts", str(hosts), "--dataplane", hook, "--no-switch", *arguments))
        self.hook = hook
        self.switch_place = self.place("sw")
        self.ports = [f"port{host}" for host in range(hosts)]

    def place(self, name):
        return Namespace(f"passing-lab.{self.name}.{name}")

    def command(self, *arguments, ports=None, listen="10.77.0.1:9000", http=9001):
        ports = self.ports if ports is None else ports
        return [PASSING, "switch", "--dataplane", self.hook, *[word for port in ports for word in ("--interface", port)],
                "--listen", listen, "--http", f"10.77.0.1:{http}", *arguments]

    def switch(self, *arguments, place=None, **options):
        process = (place or self.switch_place).start(*self.command(*arguments, **options))
        self.started.append(process)
        self.log = ""
        while "HTTP port" not in self.log:
            line = process.stdout.readline()
            self.assertTrue(line, "the switch did not start: " + self.log)
            self.log += line
        return process

    def refused(self, *arguments, **options):
        result = self.switch_place.run(*self.command(*arguments, **options), check=False)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        return result.stderr

    def members(self, job, *arguments, size=3, controller="10.77.0.1:9001"):
        processes = []
        for rank in range(size):
            processes.append(self.place(f"h{rank}").start(
                *all_reduce(*arguments), "--controller", controller, "--job", job, "--size", str(size), "--rank", str(rank),
                env={**os.environ, "PASSING_TOKEN": "a token for " + job}))
        self.started += processes
        return processes

    def assert_right(self, processes):
        for process in processes:
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, said)

    def through(self, client, server, address):
        """What a server in one place sends to a client in another, by TCP."""
        listening = self.place(server).start(
            "/usr/bin/python3", "-c", "import socket, sys; s = socket.create_server((sys.argv[1], 5000), family=socket.AF_INET6 if ':' in sys.argv[1] "
            "else socket.AF_INET); print('up', flush=True); s.accept()[0].sendall(b'hello' * 100_000)", address)
        self.started.append(listening)
        self.assertEqual(listening.stdout.readline(), "up\n")
        return self.place(client).run(
            "/usr/bin/python3", "-c", "import socket, sys; s = socket.create_connection((sys.argv[1], 5000), 10); f = s.makefile(); print(f.read())", address).stdout

    def counters(self):
        return json.loads(self.switch_place.run(PASSING, "status", "--json", "10.77.0.1:9001").stdout)


class Sums(LabCase):
    def test_of_every_shape(self):
        for arguments in (("--hosts", "4"), ("--hosts", "1"), ("--hosts", "5", "--mtu", "576"), ("--hosts", "2", "--ranks", "3"),
                          ("--hosts", "4", "--racks", "2"), ("--hosts", "3", "--rate", "200mbit"), ("--hosts", "3", "--mtu", "3500")):
            for hook in HOOKS:
                with self.subTest(hook=hook, arguments=arguments):
                    for elements in (1, 100_003):
                        said = self.right(lab("--dataplane", hook, *arguments, command=all_reduce(elements, 2)))
                        self.assertRegex(said, RIGHT)

    def test_of_the_largest_packets(self):
        for elements in (2112, 2113, 1_000_000):
            self.assertRegex(self.right(lab("--dataplane", "tc", "--hosts", "3", "--mtu", "9000", command=all_reduce(elements, 3))), RIGHT)

    def test_of_every_type(self):
        for hook in HOOKS:
            for dtype in ("float16", "bfloat16", "int32"):
                with self.subTest(hook=hook, dtype=dtype):
                    self.assertRegex(self.right(lab("--dataplane", hook, "--hosts", "2", command=all_reduce(50_001, 2, "--dtype", dtype))), RIGHT)

    def test_with_loss(self):
        for hook in HOOKS:
            with self.subTest(hook=hook):
                said = self.right(lab("--dataplane", hook, "--hosts", "3", "--loss", "3", command=all_reduce(300_000, 3)))
                self.assertRegex(said, RIGHT)
                self.assertGreater(int(re.search(r"(\d+) packets sent again", said).group(1)), 10)

    def test_bad_input_is_refused(self):
        for arguments, words in ((("--dataplane", "xdp", "--mtu", "9000"), "XDP takes frames of one buffer, up to 3500"),
                                 (("--dataplane", "tc", "--duplication", "1"), "only lose packets"),
                                 (("--dataplane", "p4"), "p4 not in")):
            result = lab(*arguments, command=["true"])
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(words, result.stdout + result.stderr)


class Life(Kernel):
    def test_nothing_stays_however_it_ends(self):
        for hook in HOOKS:
            self.up(hook)
            for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
                with self.subTest(hook=hook, how=how):
                    switch = self.switch()
                    self.assertTrue(all(self.switch_place.programs(port) for port in self.ports))
                    switch.send_signal(how)
                    switch.wait(timeout=15)
                    self.eventually(lambda: not any(self.switch_place.programs(port) for port in self.ports), "a program was left", 5)
            # After all that, sums are right again.
            switch = self.switch()
            self.assert_right(self.members("after"))
            switch.terminate()
            switch.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_a_filter_of_others_stays(self):
        self.up("tc")
        place, port = self.switch_place, self.ports[0]
        place.run("tc", "qdisc", "add", "dev", port, "clsact")
        place.run("tc", "filter", "add", "dev", port, "ingress", "protocol", "all", "u32", "match", "u32", "0", "0", "flowid", "1:1")
        switch = self.switch()
        self.assert_right(self.members("beside"))
        switch.terminate()
        switch.wait(timeout=15)
        left = place.run("tc", "filter", "show", "dev", port, "ingress").stdout
        self.assertIn("u32", left)
        self.assertNotIn("passing", left)
        # Also on an interface where the switch was first.
        switch, port = self.switch(), self.ports[1]
        place.run("tc", "filter", "add", "dev", port, "egress", "protocol", "all", "u32", "match", "u32", "0", "0", "flowid", "1:1")
        switch.terminate()
        switch.wait(timeout=15)
        self.assertIn("u32", place.run("tc", "filter", "show", "dev", port, "egress").stdout)

    def test_an_interface_belongs_to_one_switch(self):
        for hook in HOOKS:
            self.up(hook)
            first = self.switch()
            for arguments in ((), ("--preflight",)):
                said = self.refused(*arguments, listen="10.77.0.1:9100", http=9002)
                self.assertRegex(said, "another passing switch runs on port0\n +end it, or choose other interfaces")
            self.assert_right(self.members("still"))
            first.terminate()
            first.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_a_job_begins_again(self):
        """Ranks come back for a new epoch of the same job: its first chunk has the number that it had before."""
        for hook in HOOKS:
            self.up(hook)
            switch = self.switch()
            for _ in range(4):
                self.assert_right(self.members("again", 100, 1))
            self.assertEqual(self.counters()["counters"]["passing_results_again_total"], 0)
            switch.terminate()
            switch.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_two_jobs_at_once_and_many_after_each_other(self):
        for hook in HOOKS:
            self.up(hook)
            switch = self.switch("--slots", "512")
            both = self.members("one", 100_000, 5) + self.members("two", 70_001, 7)
            self.assert_right(both)
            # Each takes half of the slots: they must have come back.
            for number in range(5):
                self.assert_right(self.members(f"later{number}", 5000 + number, 2))
            self.assertEqual(self.counters()["jobs"], [])
            switch.terminate()
            switch.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_a_job_that_asks_for_too_much_is_refused(self):
        self.up("tc")
        self.switch("--slots", "128")
        for process in self.members("large", 1000, 1):
            said = process.communicate(timeout=60)[0]
            self.assertNotEqual(process.returncode, 0)
        self.assertRegex(said, "128 slots free|of 128 free")
        self.assert_right(self.members("small", 1000, 1, "--slots", "64"))

    def test_one_interface_serves_members_behind_it(self):
        """The switch as a host among hosts: everything comes in and leaves by one port."""
        for hook in HOOKS:
            self.up(hook, hosts=4)
            place = self.place("h3")
            # A host's end: what was diverted there for shaping would come before the program.
            place.run("tc", "qdisc", "del", "dev", "eth0", "ingress", check=False)
            place.run("ethtool", "-K", "eth0", "gro", "off")
            self.switch_place.run("ethtool", "-K", "port3", "tx-udp-segmentation", "off", "gro", "on")
            process = place.start(PASSING, "switch", "--dataplane", hook, "--interface", "eth0", "--listen", "10.77.0.5:9000", "--http", "10.77.0.5:9001")
            self.started.append(process)
            while "HTTP port" not in (line := process.stdout.readline()):
                self.assertTrue(line)
            self.assert_right(self.members("behind", 50_000, 3, controller="10.77.0.5:9001"))
            process.terminate()
            process.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_over_ipv6(self):
        for hook in HOOKS:
            self.up(hook)
            switch = self.switch(listen="[fd77::1]:9000")
            self.assert_right(self.members("six"))
            switch.terminate()
            switch.wait(timeout=15)
            self.right(passing_lab("down", self.name))

    def test_other_traffic_passes_whatever_frames_come(self):
        noise = ("import random, socket, sys\n"
                 "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); r = random.Random(int(sys.argv[1]))\n"
                 "udp = bytes.fromhex('0800450000fc0000400040112554') + bytes([10, 77, 0, 3, 10, 77, 0, 1]) + bytes.fromhex('1b58232800e80000')\n"
                 "for i in range(20000):\n"
                 "    body = bytearray(r.randbytes(6) + r.randbytes(6) + (udp if i % 2 else b'') + r.randbytes(r.randrange(224, 1200)))\n"
                 "    try:\n"
                 "        s.send(body)\n"
                 "    except OSError:\n"
                 "        pass\n")
        for hook in HOOKS:
            self.up(hook)
            switch = self.switch()
            members = self.members("quiet", 100_000, 20)
            seed = str(secrets.randbelow(1 << 30))
            with self.subTest(hook=hook, seed=seed):
                self.place("h1").run("/usr/bin/python3", "-c", noise, seed)
                self.assert_right(members)
                # Half of it came as far as the checks of packets.
                self.assertGreater(self.counters()["counters"]["passing_drops_total"], 5000)
                # Between hosts through the same ports, by both families, and to the switch itself.
                for target in ("10.77.0.4", "fd77::4"):
                    self.assertIn("hello", self.through("h1", "h2", target))
                self.place("h1").run(PASSING, "status", "10.77.0.1:9001")
            switch.terminate()
            switch.wait(timeout=15)
            self.right(passing_lab("down", self.name))


class Preflight(Kernel):
    def test_says_what_is_missing_and_how_to_mend_it(self):
        self.up("xdp", "--mtu", "3000")
        place, port = self.switch_place, self.ports[0]
        self.assertRegex(self.refused("--mtu", "1500", ports=["nowhere"]), "there is no interface 'nowhere'\n +ip -brief link")
        self.assertRegex(self.refused(ports=["nowhere"]), "there is no interface 'nowhere'")
        place.run("ip", "link", "set", port, "down")
        self.assertRegex(self.refused(), rf"{port} is down\n +ip link set dev {port} up")
        place.run("ip", "link", "set", port, "up")
        self.assertRegex(self.refused("--mtu", "3400"), rf"{port} has MTU 3000, and packets need 3400\n +ip link set dev {port} mtu 3400")
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            subprocess.run(["clang", "-O2", "-target", "bpf", "-x", "c", "-c", "-", "-o", file.name], check=True, text=True,
                           input="__attribute__((section(\"xdp\"), used)) int pass(void *c) { return 2; }")
            place.run("ip", "link", "set", "dev", port, "xdp", "obj", file.name, "sec", "xdp")
        self.assertRegex(self.refused(), rf"{port} has another XDP program, number \d+\n +ip link set dev {port} xdp off")
        place.run("ip", "link", "set", "dev", port, "xdp", "off")
        self.assertRegex(self.refused(listen="10.77.9.9:9000"), "cannot listen on 10.77.9.9:9000: .*\n +ip addr add")
        self.assertRegex(self.refused(ports=[port, port]), "--interface names one interface twice")
        found = place.run(*self.command("--preflight"))
        self.assertIn("nothing is missing for --dataplane xdp on port0, port1, port2", found.stdout)
        self.assertRegex(found.stderr, "note: the other end, the peer of the veth port1, must have GRO on, or results vanish\n +there, unless it is so: ethtool -K DEVICE gro on")
        # Where the other end can be seen, it is looked at.
        place.run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
        for device in ("near", "far"):
            place.run("ip", "link", "set", device, "up")
        place.run("ethtool", "-K", "far", "gro", "off")
        self.assertRegex(place.run(*self.command("--preflight", ports=["near"])).stderr, "far, the peer of the veth near, must have GRO on, or results vanish\n +ethtool -K far gro on")
        place.run("ethtool", "-K", "far", "gro", "on")
        self.assertEqual(place.run(*self.command("--preflight", ports=["near"])).stderr, "")
        place.run("ip", "link", "set", port, "mtu", "4000")
        self.assertRegex(self.refused(), rf"{port} has MTU 4000; XDP takes frames of one buffer, 3500 at most\n +ip link set dev {port} mtu 3500, or --dataplane tc")
        self.hook = "tc"
        place.run("ethtool", "-K", port, "rx-udp-gro-forwarding", "on")
        self.assertRegex(self.refused(), rf"{port} merges UDP packets before tc sees them\n +ethtool -K {port} rx-udp-gro-forwarding off")

    def test_says_which_privileges_are_missing(self):
        self.up("tc")
        said = self.switch_place.run("setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all", *self.command(), check=False)
        self.assertNotEqual(said.returncode, 0)
        self.assertRegex(said.stderr, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN\n +run as root, or: setcap")

    def test_bad_input_gets_a_sentence(self):
        for arguments, words in ((("--dataplane", "tc"), "needs --interface"),
                                 (("--dataplane", "tc", "--interface", "lo"), "needs the address that members send to, such as 10.0.0.1:9000"),
                                 (("--interface", "lo"), "are for a switch in the kernel: add --dataplane tc or xdp"),
                                 (("--dataplane", "xdp", "--interface", "lo", "--listen", "127.0.0.1", "--mtu", "9000"), "must be 576 to 3500 with XDP"),
                                 (("--dataplane", "tc", "--interface", "lo", "--listen", "127.0.0.1", "--echo"), "are for --dataplane userspace")):
            result = subprocess.run([PASSING, "switch", *arguments], capture_output=True, text=True, timeout=20)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)


class Metrics(Kernel):
    def test_counters_say_what_the_userspace_switch_would_say(self):
        self.up("tc")
        self.switch("--profile")
        self.assert_right(self.members("counted", 35_200, 2))
        counters = self.counters()["counters"]
        self.assertEqual(counters["passing_packets_in_total"], counters["passing_adds_total"])
        self.assertEqual(counters["passing_packets_out_total"], 3 * counters["passing_results_total"])
        self.assertEqual(counters["passing_adds_total"], 3 * counters["passing_results_total"])
        self.assertGreater(counters["passing_results_total"], 200)
        self.assertGreater(counters["passing_program_runs_total"], counters["passing_packets_in_total"] - 1)
        self.assertGreater(counters["passing_program_seconds_total"], 0)

    def test_uncut_trains_are_counted(self):
        """A member whose link does not cut trains is told of by a counter of its own."""
        self.up("tc", hosts=2)
        self.switch()
        for host in (0, 1):
            self.place(f"h{host}").run("ethtool", "-K", "eth0", "tx-udp-segmentation", "on")
        members = self.members("trains", 100_000, 1, "--timeout", "1", size=2)
        for process in members:
            process.communicate(timeout=60)
        self.assertGreater(self.counters()["counters"]["passing_uncut_trains_total"], 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
