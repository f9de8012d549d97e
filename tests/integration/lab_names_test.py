"""Labs with a name: up, status, exec, link and down, several at once, and links that change while they are used. Needs root."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import PASSING
from labs import LabCase, PEER, lab, names, namespaces, passing_lab, transfer

SUM = [PASSING, "all-reduce", "--elements", "50000", "--repeat", "3"]


def running(pid):
    """Not gone, nor waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Named(LabCase):
    def up(self, name, *arguments):
        """Its name, with something that nobody else on this machine has."""
        name = f"{name}-{os.getpid()}"
        self.addCleanup(lambda: name in names() and passing_lab("down", name))
        self.right(passing_lab("up", "--name", name, *arguments))
        return name

    def tearDown(self):
        self.doCleanups()
        super().tearDown()

    def status(self, name):
        return json.loads(self.right(passing_lab("status", name, "--json")))["labs"][0]

    def link(self, name, *arguments):
        return self.right(passing_lab("link", "--name", name, *arguments))

    def exec(self, name, place, *command, **options):
        return passing_lab("exec", "--name", name, place, "--", *command, **options)


class Lasting(Named):
    def test_from_up_to_down(self):
        name = self.up("whole", "--hosts", "4", "--racks", "2", "--ranks", "2", "--servers", "1", "--rate", "500mbit", "--spine-rate", "300mbit")
        found = self.status(name)
        self.assertEqual({key: found[key] for key in ("hosts", "racks", "ranks_per_host", "servers", "rate", "spine_rate", "switch", "process")},
                         {"hosts": 4, "racks": 2, "ranks_per_host": 2, "servers": 1, "rate": "500mbit", "spine_rate": "300mbit",
                          "switch": "answers", "process": 0})
        self.assertEqual([(link["name"], link["kind"], link["rate"]) for link in found["links"]],
                         [(f"host{h}", "host", "500mbit") for h in range(4)] + [("server0", "server", "500mbit")] +
                         [(f"rack{r}", "rack", "300mbit") for r in range(2)])
        # Another lab comes and goes.
        self.right(lab("--hosts", "1", "--no-switch", command=["true"]))
        for _ in range(2):
            self.assertIn("[0] 3 x 50000 float32 among 8 members: every element right", self.right(self.exec(name, "all", *SUM)))
        self.assertIn("[1] ", self.right(self.exec(name, "all", "env", "PASSING_STRATEGY=ps", PEER, "all_reduce", "1000", "2", "0")))
        self.assertGreater(self.status(name)["links"][0]["up_bytes"], 2 * 3 * 200_000)
        self.assertRegex(self.right(passing_lab("status", name)), r"(?m)^rack1 +300mbit +[\d.]+ ")
        for place, host in (("host3", "host3"), ("rank5", "host2"), ("server0", "server0"), ("tor1", "tor1"), ("switch", "switch")):
            self.assertEqual(self.right(self.exec(name, place, "hostname")).strip(), host)
        self.assertEqual(self.right(self.exec(name, "rank5", "sh", "-c", "echo $RANK $PASSING_RACK")).strip(), "5 rack1")
        self.assertIn("(no jobs)", self.right(self.exec(name, "host0", PASSING, "status")))
        self.assertEqual(self.exec(name, "host0", "sh", "-c", "exit 9").returncode, 9)
        self.assertEqual(self.exec(name, "all", "sh", "-c", "exit $RANK").returncode, 1)
        self.complains(self.exec(name, "host4", "true"), "there is no 'host4' in lab .*: there are host0 to host3, server0, rank0 to rank7", 2)
        self.assertIn(f"Lab '{name}' is down.", self.right(passing_lab("down", name)))
        self.complains(passing_lab("status", name), f"there is no lab named '{name}'")

    def test_interrupted_exec_leaves_the_lab(self):
        name = self.up("stays", "--hosts", "2", "--no-switch")
        process = subprocess.Popen([PASSING, "lab", "exec", "--name", name, "all", "--", "sh", "-c", "echo ready; exec sleep 1000"],
                                   stdout=subprocess.PIPE, text=True)
        self.assertIn("ready", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=15), 128 + signal.SIGINT)
        self.right(self.exec(name, "all", "true"))
        self.assertEqual(self.status(name)["switch"], "none")

    def test_two_at_once_and_the_same_name_twice(self):
        first, second = self.up("one", "--hosts", "2"), self.up("two", "--hosts", "3")
        running = [subprocess.Popen([PASSING, "lab", "exec", "--name", name, "all", "--", *SUM], stdout=subprocess.PIPE, text=True)
                   for name in (first, second)]
        for process, members in zip(running, (2, 3)):
            output, _ = process.communicate(timeout=60)
            self.assertIn(f"among {members} members: every element right", output)
        for command in (["up", "--name", first], ["run", "--name", first, "--", "true"]):
            self.complains(passing_lab(*command), f"there is a lab named '{first}' already: choose another --name, or")
        self.complains(passing_lab("exec", "host0", "--", "true"), f"there are several labs: say which, of .*{first}, .*{second}")
        # Ranks know which lab they are in.
        self.right(self.exec(first, "all", PASSING, "lab", "link", "host0", "--loss", "0"))

    def test_what_is_stale_is_said_and_removed(self):
        name = self.up("stale", "--hosts", "2")
        switch = int(self.right(self.exec(name, "switch", "sh", "-c", f"ip netns pids passing-lab.{name}.sw | head -1")))
        for each in [each for each in namespaces() if each.startswith(f"passing-lab.{name}.")]:
            subprocess.run(["ip", "netns", "del", each], check=True)
        gone = f"the namespaces of lab '{name}' are gone: `passing lab down {name}` removes what is left"
        self.complains(passing_lab("status", name), gone)
        self.complains(self.exec(name, "host0", "true"), gone)
        self.complains(passing_lab("link", "--name", name, "host0", "--down"), gone)
        self.assertIn("gone already", self.right(passing_lab("down", name)))
        self.eventually(lambda: not running(switch), "the switch outlived its lab")
        # What is known about it cannot be read.
        name = self.up("damaged", "--hosts", "2")
        with open(f"/run/passing-lab/{name}/state.json", "w") as file:
            file.write("{")
        self.complains(passing_lab("status", name), "is damaged: remove the lab with `passing lab down")
        self.right(passing_lab("down", name))

    def test_ended_while_it_is_made(self):
        name = f"half-{os.getpid()}"
        self.addCleanup(lambda: name in names() and passing_lab("down", name))
        for how in (signal.SIGKILL, signal.SIGTERM):
            for milliseconds in range(30, 400, 90):
                process = subprocess.Popen([PASSING, "lab", "up", "--name", name, "--hosts", "6", "--racks", "2"],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(milliseconds / 1000)
                process.send_signal(how)
                process.wait(timeout=30)
                # It may have been complete before.
                if os.path.exists(state := f"/run/passing-lab/{name}/state.json"):
                    with open(state) as file:
                        if json.load(file)["owner"] == 0:
                            self.right(passing_lab("down", name))
        self.right(lab("--hosts", "1", "--no-switch", command=["true"]))
        self.assertNotIn(name, names())

    def test_a_switch_that_does_not_start(self):
        name = f"broken-{os.getpid()}"
        result = passing_lab("up", "--name", name, "--switch-argument=--lease", "--switch-argument=x")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the switch did not start: --lease", result.stderr)
        self.assertNotIn(name, names())

    def test_running_labs_are_those_of_their_process(self):
        name = f"running-{os.getpid()}"
        process = subprocess.Popen([PASSING, "lab", "run", "--name", name, "--hosts", "2", "--no-switch", "--", "sleep", "1000"],
                                   stdout=subprocess.DEVNULL)
        self.eventually(lambda: name in names(), "no lab")
        self.eventually(lambda: passing_lab("status", name).returncode == 0, "no status")
        self.assertEqual(self.status(name)["process"], process.pid)
        self.complains(passing_lab("down", name), f"is that of a running command, process {process.pid}: end that")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=15), 128 + signal.SIGINT)
        self.assertNotIn(name, names())


class Links(Named):
    def received(self, name, sender, receiver, amount):
        """How many datagrams came, how many different ones, how many behind later ones, and how many trains in part."""
        output = self.right(self.exec(name, "all", *transfer("udp", sender, receiver, amount)))
        return [int(word) for word in re.search(r"received (.*)", output)[1].split()]

    def test_faults_hit_one_link_both_ways_packet_by_packet(self):
        name = self.up("faults", "--hosts", "4", "--racks", "2", "--no-switch")
        amount = 4000
        for link, ways in (("host1", ((0, 1), (1, 0))), ("rack1", ((0, 3), (3, 0)))):
            for sender, receiver in ways:
                # Five standard deviations: 0.2 * 0.8 * 4000 has 25.
                self.link(name, link, "--clear", "--loss", "20")
                came, distinct, _, parts = self.received(name, sender, receiver, amount)
                self.assertEqual(came, distinct)
                self.assertAlmostEqual(came, 0.8 * amount, delta=130)
                self.assertGreater(parts, 150)  # of 200 trains: a whole one is not lost at once
                self.link(name, link, "--clear", "--duplication", "20")
                came, distinct, _, _ = self.received(name, sender, receiver, amount)
                self.assertEqual(distinct, amount)
                self.assertAlmostEqual(came, 1.2 * amount, delta=130)
                self.link(name, link, "--clear", "--reordering", "5")
                came, distinct, late, _ = self.received(name, sender, receiver, amount)
                self.assertEqual((came, distinct), (amount, amount))
                self.assertGreater(late, 50)
            # Other links have none of it.
            other = (0, 2) if link == "host1" else (0, 1)
            self.assertEqual(self.received(name, *other, amount), [amount, amount, 0, 0])
            self.link(name, "all", "--clear")
            self.assertEqual(self.received(name, *ways[0], amount), [amount, amount, 0, 0])

    def test_loss_on_one_link_gives_exact_sums(self):
        name = self.up("loss", "--hosts", "3", "--rate", "500mbit")
        self.link(name, "host2", "--loss", "5", "--duplication", "2", "--reordering", "2")
        found = {link["name"]: link["loss"] for link in self.status(name)["links"]}
        self.assertEqual(found, {"host0": 0, "host1": 0, "host2": 5})
        self.assertRegex(self.right(passing_lab("status", name)), r"(?m)^host2 .* loss 5 %, duplication 2 %, reordering 2 %$")
        for strategy in ("passing", "ring"):
            self.right(self.exec(name, "all", "env", f"PASSING_STRATEGY={strategy}", PEER, "all_reduce", "200000", "2", "0"))
        # Counts go on when a link changes.
        before = self.status(name)["links"][2]
        self.link(name, "host2", "--clear", "--rate", "300mbit")
        after = self.status(name)["links"][2]
        self.assertGreaterEqual(after["up_bytes"], before["up_bytes"])
        self.assertEqual((after["loss"], after["rate"]), (0, "300mbit"))
        self.complains(passing_lab("link", "--name", name, "host0", "--rate", "none"), "its counts would begin anew")
        self.complains(passing_lab("link", "--name", name, "host3", "--up"), "there is no link 'host3' .*: there are host0, host1, host2, and all", 2)
        self.complains(passing_lab("link", "--name", name, "host0"), "nothing to change", 2)

    def test_the_switch_is_found_where_it_was_when_faults_come(self):
        name = self.up("found", "--hosts", "2", "--racks", "2", "--no-switch")
        def address():
            return json.loads(self.right(self.exec(name, "switch", "ip", "-j", "link", "show", "br0")))[0]["address"]
        # One that is not made up at random, which faults would change only now and then.
        self.assertEqual(address(), "02:77:00:00:00:01")
        self.link(name, "all", "--loss", "1")
        self.assertEqual(address(), "02:77:00:00:00:01")

    def test_a_rate_holds(self):
        name = self.up("rate", "--hosts", "2", "--rate", "1gbit", "--no-switch")
        self.link(name, "host1", "--rate", "40mbit")
        begin = time.monotonic()
        self.right(self.exec(name, "all", *transfer("tcp", 0, 1, 5_000_000)))
        self.assertGreater(time.monotonic() - begin, 0.9)  # 40 Mbit at 40 Mbit/s, but for the burst

    def test_a_link_that_goes_down_is_blamed_and_comes_back(self):
        for strategy, down, guilty in (("passing", "host1", [1]), ("ring", "host1", [1]), ("passing", "rack1", [2, 3])):
            name = self.up(f"down-{strategy}-{down}", "--hosts", "4", "--racks", "2", "--switch-argument=--lease", "--switch-argument=3")
            environment = ["env", f"PASSING_STRATEGY={strategy}", "PASSING_TIMEOUT=4"]
            process = subprocess.Popen([PASSING, "lab", "exec", "--name", name, "all", "--", *environment, PEER, "all_reduce", "20000",
                                        "1000000", "0"], stdout=subprocess.PIPE, text=True)
            try:
                self.eventually(lambda: self.status(name)["links"][1]["up_bytes"] > 1_000_000, "ranks do not begin", 30)
                self.link(name, down, "--down")
                output, _ = process.communicate(timeout=60)
            finally:
                process.kill()
                process.wait()
            self.assertNotEqual(process.returncode, 0)
            blamed = [line for line in output.splitlines() if line.startswith("[0]") and "rank" in line]
            self.assertTrue(blamed and re.search("ranks? [" + "".join(map(str, guilty)) + "]", blamed[0]), output)
            self.assertTrue([link["down"] for link in self.status(name)["links"] if link["name"] == down][0])
            self.link(name, down, "--up")
            time.sleep(4)  # who looked for a neighbour meanwhile gives up on it only now, and with it on who asks next
            self.right(self.exec(name, "all", *environment, "PASSING_JOB=again", PEER, "all_reduce", "20000", "2", "0"))
            self.right(passing_lab("down", name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
