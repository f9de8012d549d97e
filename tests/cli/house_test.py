"""The plan of the house is kept: every kind of violation fails, and is named, in a small tree of its own."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ["tools/house", "tools/house_parts", "tools/known.py", "tools/sources"]
PLAN = """
everywhere = ["src/base"]
effects = ["thread", "sys/"]
[[room]]
path = "src/base"
what = "what all know"
[[room]]
path = "src/sums"
what = "sums"
pure = true
[[room]]
path = "src/net"
what = "sockets"
may = ["src/sums"]
libraries = ["curl/"]
[[room]]
path = "src/cli"
what = "the command"
may = ["*"]
program = true
"""
TREE = {
    "docs/rooms.toml": PLAN,
    "docs/architecture.md": "# Rooms\n\n<!-- the plan: tools/house --write -->\n<!-- end of the plan -->\n",
    "CMakeLists.txt": "add_executable(all src/net/udp.cc src/cli/main.cc)\n",
    "src/base/words.h": "#pragma once\nusing Word = int;\n",
    "src/sums/sum.h": "#pragma once\n#include \"base/words.h\"\ninline Word sum(Word a, Word b) { return a + b; }\n",
    "src/net/udp.h": "#pragma once\n#include \"sums/sum.h\"\nWord port();\n",
    "src/net/udp.cc": "#include \"net/udp.h\"\n\n#include <sys/socket.h>\nWord port() { return sum(1, 2); }\n",
    "src/cli/main.cc": "#include \"net/udp.h\"\nint main() { return port(); }\n",
}


class House(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="passing-house-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()
        for name, text in TREE.items():
            self.write(name, text)
        (self.root / "tools").mkdir()
        for name in TOOLS:
            copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
            copy(SOURCE / name, self.root / name)
        # The tools are not of this small tree.
        self.write(".gitignore", "/build/\n/tools/\n")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        self.assertEqual(self.house("--write"), "")

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def house(self, *arguments, status=0):
        run = subprocess.run([self.root / "tools" / "house", *arguments], cwd=self.root, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def fails(self, sentence, files, remains=()):
        """With these texts it fails with this sentence, and with nothing else but what remains."""
        for name, text in files.items():
            self.write(name, text)
        said = self.house(status=1)
        self.assertIn(sentence, said)
        for other in remains:
            self.assertIn(other, said)
        self.assertEqual(len([line for line in said.splitlines() if line.startswith(("src/", "docs/"))]),
                         1 + len(remains), said)

    def test_a_room_includes_only_what_the_plan_says(self):
        self.fails("src/base/more.h:2: src/base/ may not include net/udp.h",
                   {"src/base/more.h": "#pragma once\n#include \"net/udp.h\"\n",
                    "src/cli/main.cc": "#include \"base/more.h\"\nint main() { return port(); }\n"})

    def test_a_library_is_for_those_that_the_plan_names(self):
        self.fails("src/cli/main.cc:1: src/cli/ may not include <curl/curl.h>",
                   {"src/cli/main.cc": "#include <curl/curl.h>\nint main() { return 0; }\n"})

    def test_a_pure_room_starts_no_thread(self):
        self.fails("src/sums/ is pure, and <thread> is not",
                   {"src/sums/sum.h": "#pragma once\n#include <thread>\n#include \"base/words.h\"\n"
                                      "inline Word sum(Word a, Word b) { return a + b; }\n"})

    def test_rooms_know_each_other_in_no_circle(self):
        self.write("docs/rooms.toml", PLAN.replace('what = "sums"\npure = true', 'what = "sums"\nmay = ["src/net"]'))
        said = self.house("--write", status=1)
        self.assertIn("a circle: src/sums -> src/net -> src/sums", said)

    def test_a_pure_room_knows_pure_rooms(self):
        self.write("docs/rooms.toml", PLAN.replace("pure = true", 'pure = true\nmay = ["src/cli"]'))
        self.assertIn("src/sums: it may include src/cli, which is a program", self.house("--write", status=1))

    def test_the_page_is_the_plan(self):
        self.fails("docs/architecture.md: its table is not docs/rooms.toml",
                   {"docs/rooms.toml": PLAN.replace("what all know", "what everyone knows")})

    def test_a_file_is_in_a_room(self):
        self.fails("src/attic/old.h: is in no room", {"src/attic/old.h": "#pragma once\n"},
                   ["src/attic/old.h: nobody includes it"])

    def test_a_header_compiles_alone(self):
        # Nobody includes it first, so no build proves it.
        self.fails("src/sums/sum.h: does not compile alone",
                   {"src/sums/sum.h": "#pragma once\ninline Word sum(Word a, Word b) { return a + b; }\n",
                    "src/net/udp.h": "#pragma once\n#include \"base/words.h\"\n#include \"sums/sum.h\"\nWord port();\n"})

    def test_a_source_proves_that_its_header_compiles_alone(self):
        self.fails("src/net/udp.cc: must include src/net/udp.h first",
                   {"src/net/udp.cc": "#include <sys/socket.h>\n\n#include \"net/udp.h\"\n"
                                      "Word port() { return sum(1, 2); }\n"})

    def test_functions_have_80_lines(self):
        body = "  port();\n" * 78
        self.write("src/cli/main.cc", f"#include \"net/udp.h\"\nint main() {{\n{body}}}\n")
        self.assertEqual(self.house(), "")
        self.fails("src/cli/main.cc:2: 81 lines, of 80, in one function: int main() {",
                   {"src/cli/main.cc": f"#include \"net/udp.h\"\nint main() {{\n{body}  port();\n}}\n"})

    def test_files_have_500_lines(self):
        self.write("src/base/words.h", TREE["src/base/words.h"] + "// more\n" * 498)
        self.assertEqual(self.house(), "")
        self.fails("src/base/words.h: 501 lines, of 500",
                   {"src/base/words.h": TREE["src/base/words.h"] + "// more\n" * 499})

    def test_no_file_is_dead(self):
        self.fails("src/base/lost.h: nobody includes it", {"src/base/lost.h": "#pragma once\n"})

    def test_no_source_is_left_out_of_the_build(self):
        self.fails("src/net/lost.cc: no CMakeLists.txt names it", {"src/net/lost.cc": "int lost = 0;\n"})

    def test_no_script_is_forgotten(self):
        self.write("scripts/lost.py", "print(1)\n")
        self.assertIn("scripts/lost.py: nobody names it", self.house(status=1))


if __name__ == "__main__":
    unittest.main()
