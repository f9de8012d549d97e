"""Every command explains itself: `--help` ends well, says something, and has no long lines."""

import os
import re
import subprocess
import unittest

PASSING = os.environ["PASSING"]
COLUMNS = 100


def help_of(*command):
    return subprocess.run([PASSING, *command, "--help"], capture_output=True, text=True, timeout=20)


def subcommands(text):
    """Whatever stands at the margin of the list."""
    _, _, listed = text.partition("\nSubcommands:\n")
    return re.findall(r"^  (\S+)", listed.split("\n\n")[0], re.MULTILINE)


class Help(unittest.TestCase):
    def check(self, *command):
        """Also of all commands below."""
        if command == ("simulate",) and not os.path.exists(os.path.join(os.path.dirname(PASSING), "passing-simulate")):
            return  # built without SimGrid
        name = " ".join(["passing", *command])
        result = help_of(*command)
        self.assertEqual(result.returncode, 0, f"{name} --help: {result.stderr}")
        self.assertIn("Usage: ", result.stdout, name)
        long = [line for line in result.stdout.splitlines() if len(line) > COLUMNS]
        self.assertEqual(long, [], f"{name} --help has lines of more than {COLUMNS} columns")
        for each in subcommands(result.stdout):
            self.check(*command, each)

    def test_every_command(self):
        self.check()
        found = subcommands(help_of().stdout)
        self.assertTrue({"switch", "all-reduce", "lab", "bench"} <= set(found), found)
        self.assertIn("run", subcommands(help_of("lab").stdout))

    def test_options_come_with_range_default_and_variable(self):
        text = " ".join(help_of("switch").stdout.split())
        self.assertIn("[0.1 to 3600; default: 10; PASSING_SWITCH_LEASE]", text)
        self.assertIn("[one of userspace, tc, xdp; default: userspace; PASSING_SWITCH_DATAPLANE]", text)

    def test_all_reduce_says_what_it_is(self):
        text = " ".join(help_of("all-reduce").stdout.split())
        self.assertIn("This is pure in-network aggregation.", text)
        self.assertIn("PASSING_STRATEGY and PASSING_LOCAL_DOMAIN do not apply.", text)


if __name__ == "__main__":
    unittest.main()
