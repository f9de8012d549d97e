"""Lint fails where it should, names the file, and does not check again what was clean: in a small repository of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LINT = [".clang-format", ".clang-tidy", "tools/house", "tools/house_parts", "tools/known.py", "tools/lint", "tools/lint-fast",
        "tools/readable.py", "tools/sources"]
# A house with one room.
PLAN = 'everywhere = []\neffects = []\n[[room]]\npath = "src"\nwhat = "all"\n'
PAGE = "<!-- the plan: tools/house --write -->\n<!-- end of the plan -->\n"
HEADER = "#pragma once\ninline int half(int x) { return x / 2; }\n"
CALLER = '#include "half.h"\nint quarter(int x) { return half(half(x)); }\n'
ALONE = "int same(int x) { return x; }\n"
# A branch that cannot differ: bugprone-branch-clone.
FINDING = "#pragma once\ninline int half(int x) {\n  if (x > 7) {\n    return x / 2;\n  } else {\n    return x / 2;\n  }\n}\n"


class Lint(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="passing-lint-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()
        for name in LINT:
            (self.root / name).parent.mkdir(exist_ok=True)
            copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
            copy(SOURCE / name, self.root / name)
        self.write(".gitignore", "/build/\n")
        self.write("docs/rooms.toml", PLAN)
        self.write("docs/architecture.md", PAGE)
        self.write("Makefile", "lint:\n\ttools/lint tools/lint-fast tools/sources tools/house\n")
        self.write("CMakeLists.txt", "add_library(all src/caller.cc src/alone.cc)\n")
        self.write("src/half.h", HEADER)
        self.write("src/caller.cc", CALLER)
        self.write("src/alone.cc", ALONE)
        self.compile("src/caller.cc", "src/alone.cc")
        self.git("init", "-q")
        subprocess.run([self.root / "tools" / "house", "--write"], cwd=self.root, check=True)
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)

    def compile(self, *names):
        entries = [{"directory": f"{self.root}/build", "file": f"{self.root}/{name}",
                    "command": f"c++ -I{self.root}/src -std=c++20 -o {name}.o -c {self.root}/{name}"} for name in names]
        self.write("build/compile_commands.json", json.dumps(entries))

    def git(self, *arguments):
        who = ["-c", "user.name=Lint", "-c", "user.email=lint@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "A state")

    def lint(self, *arguments, status=0):
        environment = {name: value for name, value in os.environ.items() if name != "PASSING_LINT_CACHE"}
        run = subprocess.run([self.root / "tools" / "lint", "build", *arguments], cwd=self.root, env=environment,
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def test_what_was_clean_is_not_checked_again(self):
        # Two sources, two tools.
        self.assertIn("2 sources of all; 4 checks clean, 0 known to be, 0 with findings", self.lint("--all"))
        self.assertIn("2 sources of all; 0 checks clean, 4 known to be, 0 with findings", self.lint("--all"))
        self.write("src/half.h", HEADER + "// Rounds towards zero.\n")
        self.assertIn("2 checks clean, 2 known to be", self.lint("--all"))
        self.write(".clang-tidy", "Checks: '-*,bugprone-*'\n")
        self.assertIn("2 checks clean, 2 known to be", self.lint("--all"), "cppcheck reads no .clang-tidy")

    def test_a_finding_in_a_header_fails_until_it_is_mended(self):
        self.lint("--all")
        self.commit_change("src/half.h", FINDING)
        for _ in range(2):  # a finding is not remembered as clean
            said = self.lint(status=1)
            self.assertIn("src/half.h:3:3: error:", said)
            self.assertIn("1 sources of what changed", said)
        self.write("src/half.h", HEADER)
        self.assertIn("0 checks clean, 4 known to be, 0 with findings", self.lint("--all"))

    def commit_change(self, name, text):
        self.write(name, text)
        self.commit()

    def test_what_did_not_change_is_not_looked_at(self):
        self.commit_change("src/half.h", FINDING)
        self.commit_change("README.md", "The finding is older than the last commit.\n")
        self.assertIn("0 sources of what changed", self.lint())
        self.lint("--all", status=1)
        self.git("update-ref", "refs/remotes/origin/main", "HEAD~2")
        self.assertIn("src/half.h", self.lint(status=1))
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.write("src/alone.cc", ALONE + "int unused(int) { return 1; }\n")
        self.assertIn("1 sources of what changed; 2 checks clean", self.lint())

    def test_a_lock_that_is_not_held_fails(self):
        for name in ("include", "src/base"):
            (self.root / name).mkdir(exist_ok=True, parents=True)
        shutil.copy(SOURCE / "src/base/mutex.h", self.root / "src/base/mutex.h")
        counter = ('#include "base/mutex.h"\nnamespace {\nclass Counter {\n public:\n  int next() {\n%s    return ++count_;\n  }\n\n'
                   " private:\n  passing::Mutex mutex_;\n  int count_ PASSING_GUARDED_BY(mutex_) = 0;\n};\n}  // namespace\n"
                   "int count() { return Counter().next(); }\n")
        self.write("src/alone.cc", counter % "    const passing::MutexLock lock(mutex_);\n")
        self.lint("--all")
        self.write("src/alone.cc", counter % "")
        said = self.lint("--all", status=1)
        self.assertIn("src/alone.cc:6", said)
        self.assertIn("requires holding mutex 'mutex_'", said)

    def test_a_source_that_does_not_compile_fails(self):
        self.write("src/caller.cc", '#include "gone.h"\n' + CALLER)
        self.assertIn("gone.h", self.lint(status=1))

    def test_a_source_without_a_compile_command_fails(self):
        self.compile("src/caller.cc")
        self.assertIn("src/alone.cc: no compile command", self.lint(status=1))

    def test_the_fast_half_names_what_is_wrong(self):
        self.write("src/alone.cc", "int   same(int x){return x;}\n")
        self.write("tools/broken", "#!/bin/sh\nif true\n")
        self.write("broken.py", "def f(:\n")
        self.write("broken.json", "{,}\n")
        said = self.lint(status=1)
        for name in ("src/alone.cc:1", "tools/broken: 3", "broken.py:1", "broken.json:1"):
            self.assertIn(name, said)
        self.assertIn("0 with findings", said)


if __name__ == "__main__":
    unittest.main()
