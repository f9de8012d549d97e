"""The lab: namespaces, links, counters, and that nothing is left behind. Needs root."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PASSING

PEER = os.environ["PASSING_PEER"]


def namespaces():
    return {line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()
            if line.startswith("passing-")}


def lab(*arguments, command, timeout=120):
    return subprocess.run([PASSING, "lab", "run", *arguments, "--", *command], capture_output=True, text=True, timeout=timeout)


class Lab(unittest.TestCase):
    def setUp(self):
        self.assertEqual(os.geteuid(), 0, "the lab needs root")
        self.before = namespaces()

    def tearDown(self):
        self.assertEqual(namespaces() - self.before, set(), "namespaces were left behind")

    def test_sums_in_namespaces(self):
        for arguments in (["--hosts", "2"], ["--hosts", "4", "--mtu", "576"], ["--hosts", "4", "--mtu", "9000"],
                          ["--hosts", "2", "--ranks", "3"], ["--hosts", "16"]):
            result = lab(*arguments, command=[PASSING, "all-reduce", "--elements", "100000", "--repeat", "3"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("every element right", result.stdout)

    def test_loss_duplication_and_reordering(self):
        for arguments in (["--loss", "10"], ["--duplication", "10"], ["--reordering", "10"],
                          ["--loss", "5", "--duplication", "5", "--reordering", "5"]):
            result = lab("--hosts", "3", *arguments,
                         command=[PASSING, "all-reduce", "--elements", "200000", "--repeat", "2", "--timeout", "60"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("every element right", result.stdout)

    def test_links_carry_each_tensor_once_each_way(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            result = lab("--hosts", "3", "--rate", "500mbit", "--json", file.name,
                         command=[PASSING, "all-reduce", "--elements", "2000000", "--repeat", "4"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            for link in json.load(file)["links"]:
                for way in ("up_bytes", "down_bytes"):
                    self.assertGreater(link[way], 4 * 8_000_000)
                    self.assertLess(link[way], 1.08 * 4 * 8_000_000)

    def test_parameter_servers_have_links_of_their_own(self):
        tensor = 4 * 1_000_000
        # Two ranks on each of two hosts, two servers with half of the keys each: tensors over the link of a host and of a server.
        for strategy, host, server in (("ps", 2, 2), ("ps_hierarchical", 1, 1)):
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                result = lab("--hosts", "2", "--ranks", "2", "--servers", "2", "--json", file.name,
                             command=["env", f"PASSING_STRATEGY={strategy}", PEER, "all_reduce", "1000000", "3", "0"])
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                links = json.load(file)["links"]
                self.assertEqual([link["name"] for link in links], ["host0", "host1", "server0", "server1"])
                for link, tensors in zip(links, (host, host, server, server)):
                    for way in ("up_bytes", "down_bytes"):
                        self.assertGreater(link[way], 4 * tensors * tensor)  # one is not timed
                        self.assertLess(link[way], 1.1 * 4 * tensors * tensor)

    def test_ranks_have_their_variables_and_host_names(self):
        result = lab("--hosts", "2", "--ranks", "2", "--no-switch",
                     command=["sh", "-c", "echo $(hostname) $PASSING_RANK/$PASSING_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $RANK"])
        self.assertEqual(result.returncode, 0)
        for line in ("[0] host0 0/4 0/2 0", "[1] host0 1/4 1/2 1", "[2] host1 2/4 0/2 2", "[3] host1 3/4 1/2 3"):
            self.assertIn(line, result.stdout)

    def test_the_first_failure_is_returned(self):
        result = lab("--hosts", "3", "--no-switch", command=["sh", "-c", "exit $((PASSING_RANK * 7))"])
        self.assertEqual(result.returncode, 7)
        self.assertEqual(lab("--hosts", "1", "--no-switch", command=["/nonexistent"]).returncode, 127)
        self.assertEqual(lab("--hosts", "0", command=["true"]).returncode, 2)
        self.assertEqual(lab("--hosts", "1", "--rate", "fast", command=["true"]).returncode, 1)

    def test_interrupted(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([PASSING, "lab", "run", "--hosts", "2", "--", "sleep", "1000"], stdout=subprocess.DEVNULL)
            self.wait_for(process.pid, 3)
            process.send_signal(how)
            self.assertEqual(process.wait(timeout=15), 128 + how)

    def test_killed_and_tidied_up_by_the_next(self):
        process = subprocess.Popen([PASSING, "lab", "run", "--hosts", "2", "--", "sleep", "987654"], stdout=subprocess.DEVNULL)
        self.wait_for(process.pid, 3)
        process.kill()
        process.wait()
        self.assertTrue(namespaces() - self.before)
        deadline = time.monotonic() + 5
        while subprocess.run(["pgrep", "-f", "^sleep 987654"], stdout=subprocess.DEVNULL).returncode == 0:
            self.assertLess(time.monotonic(), deadline, "children outlived the lab")
            time.sleep(0.05)
        self.assertEqual(lab("--hosts", "1", "--no-switch", command=["true"]).returncode, 0)

    def test_demo(self):
        result = subprocess.run([PASSING, "lab", "demo", "--hosts", "3", "--ranks", "2", "--rate", "none", "--elements", "500000",
                                 "--repeat", "1"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        # strategy, time s, speed x, sends, receives, busiest link
        rows = {match[1]: [float(match[i]) for i in (4, 5, 6)] for match in re.finditer(
            r"^(\w+) +([\d.]+) s +([\d.]+) x +([\d.]+) +([\d.]+) +([\d.]+)  ", result.stdout, re.MULTILINE)}
        # Tensors over the link of a host, and over the busiest: 3 hosts of 2 ranks, one server.
        for strategy, host, busiest in (("ps", 2, 6), ("ps_hierarchical", 1, 3), ("ring", 10 / 6, 10 / 6),
                                        ("ring_hierarchical", 4 / 3, 4 / 3), ("in_network", 2, 2), ("passing", 1, 1)):
            for figure, least in zip(rows[strategy], (host, host, busiest)):
                self.assertTrue(least <= figure <= 1.12 * least + 0.02, (strategy, rows[strategy]))
        self.assertEqual(len(rows), 8, result.stdout)

    def test_demo_without_a_lab(self):
        with tempfile.TemporaryDirectory() as scratch:
            # Where others may read it, too.
            os.chmod(scratch, 0o755)
            command = shutil.copy(PASSING, scratch)
            # Root that may not make namespaces, as in most containers; and not root.
            for limited in (["--bounding-set", "-sys_admin"], ["--reuid", "65534", "--clear-groups"]):
                result = subprocess.run(["setpriv", *limited, command, "lab", "demo"], capture_output=True, text=True, timeout=120)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertRegex(result.stdout, r"^No lab on this machine, .*\.\n")
                self.assertIn("bit-exact on every member", result.stdout)

    def test_demo_interrupted(self):
        process = subprocess.Popen([PASSING, "lab", "demo", "--hosts", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(process.pid, 4)  # two hosts, the server, the switch
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=15), 128 + signal.SIGINT)

    def test_two_at_once(self):
        processes = [subprocess.Popen([PASSING, "lab", "run", "--hosts", "2", "--", PASSING, "all-reduce", "--elements", "50000",
                                       "--repeat", "5"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for process in processes:
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)

    def wait_for(self, pid, count):
        deadline = time.monotonic() + 10
        while len([n for n in namespaces() if re.match(rf"passing-{pid}-", n)]) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        time.sleep(0.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
