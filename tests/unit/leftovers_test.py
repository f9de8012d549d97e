"""Tests that write files leave none behind.

    leftovers_test.py NAME PROGRAM [NAME PROGRAM ...]
"""

import os
import subprocess
import sys
import tempfile
import unittest

# Of each program, the tests that write.
WRITING = {"rendezvous": "Directory.IsMadeIfMissing:Directory.ThatCannotBeIsNamed:Environment.TokensComeFromFiles",
           "simulate_tests": "ClusterFile.*:BenchFile.*"}
PROGRAMS = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))


class Leftovers(unittest.TestCase):
    def test_none(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="passing-leftovers-") as directory:
                ran = subprocess.run([program, f"--gtest_filter={WRITING[name]}"], check=False, capture_output=True, text=True,
                                     env={**os.environ, "TEST_TMPDIR": directory})
                self.assertEqual(ran.returncode, 0, ran.stdout)
                self.assertRegex(ran.stdout, r"\[  PASSED  \] [1-9]")
                self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
