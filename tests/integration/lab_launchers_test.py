"""Launchers inside `passing lab run --once`, and names of hosts in labs. Needs root."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import PASSING
from labs import LabCase, PEER, lab, names, passing_lab

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
# Everybody's view: its own name, what is known to the name service, and what the machine itself knows.
LOOK = "echo $(hostname) $(getent hosts host0 host1 server0 switch $(hostname) | awk '{print $1}') $(getent hosts localhost | wc -l)"


def hosts_of_machine():
    return pathlib.Path("/etc/hosts").read_text(), pathlib.Path("/proc/self/mountinfo").read_text().count("/etc/hosts")


class Names(LabCase):
    def setUp(self):
        super().setUp()
        self.machine = hosts_of_machine()

    def tearDown(self):
        self.assertEqual(hosts_of_machine(), self.machine)
        super().tearDown()

    def up(self, name, *arguments):
        name = f"{name}-{os.getpid()}"
        self.addCleanup(lambda: name in names() and passing_lab("down", name))
        self.right(passing_lab("up", "--name", name, "--no-switch", *arguments))
        return name

    def known(self, name, place):
        return self.right(passing_lab("exec", "--name", name, place, "--", "sh", "-c", LOOK)).split()

    def test_every_place_knows_every_name(self):
        name = self.up("names", "--hosts", "2", "--servers", "1")
        addresses = {"host0": "10.77.0.2", "host1": "10.77.0.3", "server0": "10.77.0.4", "switch": "10.77.0.1"}
        for place, own in {**addresses, "tor0": "10.77.0.1", "spine": "10.77.0.1"}.items():
            self.assertEqual(self.known(name, place), [place, *addresses.values(), own, "1"])
        self.right(passing_lab("down", name))

    def test_labs_beside_each_other(self):
        # In one server0 is the third machine, in the other the fifth.
        one, other = self.up("one", "--hosts", "2", "--servers", "1"), self.up("other", "--hosts", "4", "--servers", "1")
        self.assertEqual(self.known(one, "host0")[3], "10.77.0.4")
        self.assertEqual(self.known(other, "host0")[3], "10.77.0.6")
        self.right(passing_lab("down", one))
        self.assertEqual(self.known(other, "host1")[3], "10.77.0.6")
        self.right(passing_lab("down", other))

    def test_a_lab_made_in_a_lab_is_seen_outside(self):
        inner = f"inner-{os.getpid()}"
        self.addCleanup(lambda: inner in names() and passing_lab("down", inner))
        self.right(lab("--hosts", "1", "--no-switch", "--once", command=[PASSING, "lab", "up", "--name", inner, "--hosts", "1", "--no-switch"]))
        self.assertEqual(self.right(passing_lab("exec", "--name", inner, "host0", "--", "hostname")), "host0\n")
        self.right(passing_lab("down", inner))

    def test_not_root(self):
        probe = subprocess.run([*NOBODY, "unshare", "--user", "--map-root-user", "--net", "--mount", "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("this system refuses user namespaces to those who are not root")
        # It may lie where nobody may look.
        room = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(room, 0o755)
        passing = shutil.copy(PASSING, room)
        result = subprocess.run([*NOBODY, passing, "lab", "run", "--hosts", "2", "--servers", "1", "--no-switch", "--plain", "--", "sh", "-c", LOOK],
                                capture_output=True, text=True, timeout=60, cwd="/")
        self.assertEqual(sorted(line for line in self.right(result).splitlines() if line.startswith("host")),
                         [f"host{h} 10.77.0.2 10.77.0.3 10.77.0.4 10.77.0.1 10.77.0.{h + 2} 1" for h in range(2)])


class Once(LabCase):
    SETTINGS = 'echo "$(hostname) $PASSING_CONTROLLER ${#PASSING_TOKEN} $MASTER_ADDR $PASSING_LINK_RATE [$RANK$PASSING_RANK$PASSING_HOST]"'

    def once(self, *command, arguments=()):
        return self.right(lab("--hosts", "2", "--rate", "1gbit", "--once", "--plain", *arguments, command=command))

    def test_a_launcher_is_told_what_ranks_are_told(self):
        self.assertIn("host0 10.77.0.1:9001 32 10.77.0.2 1 []\n", self.once("sh", "-c", self.SETTINGS))

    def test_the_agent_says_what_was_not_passed_on(self):
        forgotten = ["env", "-u", "PASSING_CONTROLLER", "-u", "PASSING_TOKEN", "-u", "MASTER_ADDR", "-u", "PASSING_LINK_RATE", "-u", "PASSING_LAB_NAME"]
        for host in ("host1", "10.77.0.3", "-x host1", "-q -l root -o BatchMode=yes host1", "root@host1"):
            for agent in ("$PASSING_LAB_AGENT", f"{PASSING} lab agent"):
                output = self.once(*forgotten, "sh", "-c", f"{agent} {host} '{self.SETTINGS}'")
                self.assertIn("host1 10.77.0.1:9001 32 10.77.0.2 1 []\n", output, host)
        self.assertIn(" kept ", self.once("env", "MASTER_ADDR=kept", "sh", "-c", f"$PASSING_LAB_AGENT host1 '{self.SETTINGS}'"))

    def test_the_agent_refuses(self):
        for host in ("host7", "switch", "-x", "-l"):
            result = lab("--hosts", "2", "--no-switch", "--once", command=["sh", "-c", f"$PASSING_LAB_AGENT {host} true"])
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertRegex(result.stdout, "there is no host 'host7|there is no host 'switch|the agent needs a host and a command")

    def sums(self, *launcher):
        output = self.once(*launcher, "sh", "-c", f"hostname; exec env PASSING_STRATEGY=passing {PEER} all_reduce 20000 2 0")
        for host in ("host0", "host1"):
            self.assertEqual(len(re.findall(f"(?m)^{host}$", output)), 2, output)

    def test_mpich(self):
        self.sums("mpiexec.mpich", "-hosts", "host0,host1", "-ppn", "2", "-n", "4")

    def test_open_mpi(self):
        self.sums("mpirun.openmpi", "--allow-run-as-root", "--host", "host0:2,host1:2", "-n", "4", "--mca", "oob_tcp_if_include", "eth0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
