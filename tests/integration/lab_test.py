"""`passing lab run`: namespaces, racks, links, counters, and that nothing is left behind. Needs root."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PASSING
from labs import LabCase, PEER, lab, lab_with_links, namespaces, transfer

# What a link carries beside what is known: neighbours look for each other, IPv6 announces itself.
NOISE = 20_000

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


class Lab(LabCase):
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
        _, links = lab_with_links("--hosts", "3", "--rate", "500mbit",
                                  command=[PASSING, "all-reduce", "--elements", "2000000", "--repeat", "4"])
        for link in links.values():
            for way in ("up_bytes", "down_bytes"):
                self.assertGreater(link[way], 4 * 8_000_000)
                self.assertLess(link[way], 1.08 * 4 * 8_000_000)

    def test_known_transfers_between_and_inside_racks(self):
        amount = 5_000_000
        # Ranks 0 and 1 are in one rack, 2 and 3 in the other: who carries it up, and down.
        for sender, receiver, up, down in ((0, 1, {"host0"}, {"host1"}), (0, 3, {"host0", "rack0"}, {"rack1", "host3"}),
                                           (2, 1, {"host2", "rack1"}, {"rack0", "host1"})):
            output, links = lab_with_links("--hosts", "4", "--racks", "2", "--rate", "500mbit", "--no-switch",
                                           command=transfer("tcp", sender, receiver, amount))
            self.assertIn(f"received {amount}", output)
            self.assertEqual(list(links), ["host0", "host1", "host2", "host3", "rack0", "rack1"])
            for name, link in links.items():
                for way, carries in (("up", up), ("down", down)):
                    if name in carries:
                        self.assertGreater(link[f"{way}_bytes"], amount)
                        self.assertLess(link[f"{way}_bytes"], 1.06 * amount)
                        self.assertGreater(link[f"{way}_packets"], amount / 1448 - 1)
                    elif name not in up | down:
                        self.assertLess(link[f"{way}_bytes"], NOISE)

    def test_datagrams_are_counted_one_by_one(self):
        # 1000 bytes of data, UDP, IPv4, Ethernet: a train of 20 is 20 packets on the wire.
        output, links = lab_with_links("--hosts", "2", "--rate", "500mbit", "--no-switch", command=transfer("udp", 0, 1, 2000))
        self.assertIn("received 2000 2000 0 0", output)
        for name, way in (("host0", "up"), ("host1", "down")):
            self.assertGreaterEqual(links[name][way + "_packets"], 2000)
            self.assertLess(links[name][way + "_packets"], 2200)
            self.assertGreaterEqual(links[name][way + "_bytes"], 2000 * 1042)
            self.assertLess(links[name][way + "_bytes"], 2000 * 1042 + NOISE)
            self.assertEqual(links[name][way + "_drops"], 0)

    def test_a_full_queue_drops_and_says_so(self):
        # Several MB at once into a link of 20 Mbit/s with a queue of 1 MB; from many sockets, since a sender waits for its own.
        flood = ("import socket\nfor _ in range(100):\n  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                 "  for _ in range(80): s.sendto(bytes(1000), ('10.77.0.1', 5000))")
        _, links = lab_with_links("--hosts", "1", "--rate", "20mbit", "--no-switch", command=["/usr/bin/python3", "-c", flood])
        self.assertGreater(links["host0"]["up_drops"], 1000)

    def test_racks_sum_before_the_spine(self):
        tensor, times = 4 * 1_000_000, 4  # one of them is not timed
        environment = {**os.environ, "PASSING_STRATEGY": "passing", "PASSING_LOCAL_DOMAIN": "rack"}
        _, links = lab_with_links("--hosts", "4", "--racks", "2", "--rate", "500mbit", "--spine-rate", "200mbit",
                                  command=[PEER, "all_reduce", "1000000", "3", "0"], env=environment)
        for rack in ("rack0", "rack1"):
            self.assertEqual(links[rack]["rate"], "200mbit")
            for way in ("up_bytes", "down_bytes"):
                self.assertGreater(links[rack][way], times * tensor)
                self.assertLess(links[rack][way], 1.1 * times * tensor)
        # Without, every host's tensor crosses the uplink.
        environment["PASSING_LOCAL_DOMAIN"] = "host"
        _, links = lab_with_links("--hosts", "4", "--racks", "2", command=[PEER, "all_reduce", "1000000", "3", "0"], env=environment)
        self.assertGreater(links["rack0"]["up_bytes"], 2 * times * tensor)

    def test_ranks_know_their_rack_and_the_rate_that_limits_them(self):
        command = ["sh", "-c", "echo $PASSING_RACK $PASSING_LINK_RATE"]
        arguments = ["--hosts", "5", "--racks", "2", "--no-switch", "--rate", "2gbit", "--spine-rate", "500mbit"]
        output = self.right(lab(*arguments, command=command))
        for rank, rack in enumerate((0, 0, 0, 1, 1)):
            self.assertIn(f"[{rank}] rack{rack} 2\n", output)
        output = self.right(lab(*arguments, command=command, env={**os.environ, "PASSING_LOCAL_DOMAIN": "rack"}))
        self.assertIn("[0] rack0 0.5\n", output)
        self.assertIn("there are only 2 hosts", lab("--hosts", "2", "--racks", "3", command=["true"]).stderr)

    def test_parameter_servers_have_links_of_their_own(self):
        tensor = 4 * 1_000_000
        # Two ranks on each of two hosts, two servers with half of the keys each: tensors over the link of a host and of a server.
        for strategy, host, server in (("ps", 2, 2), ("ps_hierarchical", 1, 1)):
            _, links = lab_with_links("--hosts", "2", "--ranks", "2", "--servers", "2",
                                      command=["env", f"PASSING_STRATEGY={strategy}", PEER, "all_reduce", "1000000", "3", "0"])
            self.assertEqual(list(links), ["host0", "host1", "server0", "server1"])
            for link, tensors in zip(links.values(), (host, host, server, server)):
                for way in ("up_bytes", "down_bytes"):
                    self.assertGreater(link[way], 4 * tensors * tensor)  # one is not timed
                    self.assertLess(link[way], 1.1 * 4 * tensors * tensor)

    def test_servers_hang_on_the_spine(self):
        tensor = 4 * 500_000
        _, links = lab_with_links("--hosts", "2", "--racks", "2", "--servers", "1", "--no-switch",
                                  command=["env", "PASSING_STRATEGY=ps", "PASSING_DIRECTORY=" + self.scratch(), PEER, "all_reduce",
                                           "500000", "3", "0"])
        for name, tensors in (("host0", 1), ("rack0", 1), ("rack1", 1), ("server0", 2)):
            for way in ("up_bytes", "down_bytes"):
                self.assertGreater(links[name][way], 4 * tensors * tensor)
                self.assertLess(links[name][way], 1.1 * 4 * tensors * tensor)

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
        self.assertEqual(lab("--hosts", "1", "--rate", "fast", command=["true"]).returncode, 2)

    def test_interrupted(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([PASSING, "lab", "run", "--hosts", "2", "--", "sleep", "1000"], stdout=subprocess.DEVNULL)
            self.wait_for(process.pid, 3)
            process.send_signal(how)
            self.assertEqual(process.wait(timeout=15), 128 + how)

    def test_killed_and_tidied_up_by_the_next(self):
        for arguments, count in ((["--hosts", "2"], 3), (["--hosts", "4", "--racks", "2", "--name", "killed"], 7)):
            # One that leaves the group and the session of its rank.
            process = subprocess.Popen([PASSING, "lab", "run", *arguments, "--", "sh", "-c", "setsid sleep 987654 & sleep 987654"],
                                       stdout=subprocess.DEVNULL)
            self.wait_for(process.pid, count)
            process.kill()
            process.wait()
            self.assertTrue(namespaces() - self.before[0])
            self.right(lab("--hosts", "1", "--no-switch", "--name", "killed", command=["true"]))
            self.eventually(lambda: subprocess.run(["pgrep", "-f", "^sleep 987654"], stdout=subprocess.DEVNULL).returncode != 0,
                            "children outlived the lab")

    def test_killed_while_it_is_made(self):
        for milliseconds in range(20, 320, 60):
            process = subprocess.Popen([PASSING, "lab", "run", "--hosts", "6", "--racks", "2", "--name", "half", "--", "true"],
                                       stdout=subprocess.DEVNULL)
            time.sleep(milliseconds / 1000)
            process.kill()
            process.wait()
        self.right(lab("--hosts", "1", "--no-switch", "--name", "half", command=["true"]))

    def test_what_a_rank_leaves_behind_ends(self):
        self.right(lab("--hosts", "2", "--no-switch", command=["sh", "-c", "setsid sleep 876543 > /dev/null 2>&1 &"]))
        self.assertNotEqual(subprocess.run(["pgrep", "-f", "^sleep 876543"], stdout=subprocess.DEVNULL).returncode, 0)

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
        self.need_user_namespaces()
        # Root that may not make namespaces, as in most containers; and not root where user namespaces are forbidden.
        for limited in (["setpriv", "--bounding-set", "-sys_admin"], self.FORBIDDEN):
            result = subprocess.run([*limited, self.copy(PASSING), "lab", "demo"], capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stdout, r"^No lab on this machine, .*\.\n")
            self.assertIn("bit-exact on every member", result.stdout)

    # Not root, in a user namespace that may not have others in it.
    FORBIDDEN = [*NOBODY, "unshare", "--user", "--map-user=1000", "--map-group=1000",
                 "--keep-caps", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]

    def test_not_root_and_not_allowed(self):
        self.need_user_namespaces()
        result = subprocess.run([*self.FORBIDDEN, self.copy(PASSING), "lab", "run", "--", "true"], capture_output=True, text=True, cwd="/")
        self.complains(result, r"run it as root \(sudo .*\), or allow user namespaces \(sysctl user.max_user_namespaces=1000\)")

    def unprivileged(self, *command, **options):
        """Runs a command as nobody."""
        self.need_user_namespaces()
        return subprocess.run([*NOBODY, *command], capture_output=True, text=True, timeout=120, cwd="/", **options)

    def need_user_namespaces(self):
        probe = subprocess.run([*NOBODY, "unshare", "--user", "--map-root-user", "--net", "--mount", "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest("this system refuses user namespaces to those who are not root: " + probe.stderr.strip())

    def test_not_root(self):
        passing = self.copy(PASSING)
        # A rank changes a link of the lab that it is in.
        command = f"if [ $RANK = 0 ]; then {passing} lab link host1 --loss 5; fi; exec {passing} all-reduce --elements 100000 --repeat 3"
        result = self.unprivileged(passing, "lab", "run", "--hosts", "4", "--racks", "2", "--rate", "500mbit", "--", "sh", "-c", command)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("every element right", result.stdout)
        self.assertIn("link of rack1", result.stdout)
        for words in (["up"], ["status"], ["down"], ["exec", "host0", "--", "true"], ["link", "host0", "--up"]):
            self.complains(self.unprivileged(passing, "lab", *words), "root")

    def test_demo_not_root(self):
        result = self.unprivileged(self.copy(PASSING), "lab", "demo", "--hosts", "2", "--ranks", "1", "--rate", "none", "--elements", "100000",
                                   "--repeat", "1")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"(?m)^passing +[\d.]+ s ")

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

    def scratch(self):
        """A directory that others may read, too."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.chmod(directory.name, 0o755)
        return directory.name

    def copy(self, program):
        return shutil.copy(program, self.scratch())

    def wait_for(self, pid, count):
        deadline = time.monotonic() + 10
        while len([n for n in namespaces() if re.match(rf"passing-{pid}-", n)]) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        time.sleep(0.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
