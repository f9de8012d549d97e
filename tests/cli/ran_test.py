"""tools/ran notes a commit only if the command passed, and on that commit, in a work tree that was clean throughout."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

RAN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "ran"
COMMIT = "git -c user.name=Ran -c user.email=ran@localhost -c commit.gpgsign=false commit -q -m 'A state'"


class Ran(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="passing-ran-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "tools").mkdir()
        shutil.copy(RAN, self.root / "tools" / "ran")
        (self.root / ".gitignore").write_text("/build/\n")
        self.sh("git init -q && git add -A && " + COMMIT)
        self.head = self.sh("git rev-parse HEAD").stdout

    def sh(self, command):
        return subprocess.run(command, shell=True, cwd=self.root, text=True, capture_output=True)

    def noted(self, command):
        """(its exit status, what is noted)"""
        status = subprocess.run([self.root / "tools" / "ran", "suite", "sh", "-c", command], cwd=self.root,
                                stderr=subprocess.DEVNULL).returncode
        note = self.root / "build" / "ran" / "suite"
        return status, note.read_text() if note.exists() else None

    def test_a_passed_run_is_noted(self):
        self.assertEqual(self.noted("true"), (0, self.head))
        self.assertEqual(self.noted("exit 3"), (3, self.head), "the last one that passed")

    def test_a_failed_run_is_not(self):
        self.assertEqual(self.noted("exit 3"), (3, None))

    def test_a_run_of_a_tree_that_is_not_clean_is_not(self):
        self.assertEqual(self.noted("echo x > new"), (0, None))
        self.assertEqual(self.noted("rm new"), (0, None))

    def test_a_run_during_which_the_commit_changed_is_not(self):
        self.assertEqual(self.noted("echo x > new && git add -A && " + COMMIT), (0, None))

    def test_outside_a_repository_nothing_is_noted(self):
        shutil.rmtree(self.root / ".git")
        self.assertEqual(self.noted("true"), (0, None))


if __name__ == "__main__":
    unittest.main()
