"""docs/configuration.md is what `passing settings` prints, and knows every variable that the code reads."""

import difflib
import os
import re
import subprocess
import unittest

import pages

PASSING = os.path.join(os.environ["PASSING_BUILD"], "passing")
PAGE = pages.SOURCE / "docs" / "configuration.md"
# A name in quotes and nothing else: as getenv, envname, os.environ or a table of variables has it.
NAME = re.compile(r"""(["'])(PASSING_[A-Z_]+)\1""")


class Configuration(unittest.TestCase):
    def test_page_is_what_the_command_prints(self):
        printed = subprocess.run([PASSING, "settings"], capture_output=True, text=True, check=True).stdout
        difference = list(difflib.unified_diff(PAGE.read_text().splitlines(), printed.splitlines(), "the page", "the tables", lineterm=""))
        if difference:
            self.fail("write it anew: passing settings > docs/configuration.md\n" + "\n".join(difference))

    def test_every_variable_is_on_the_page(self):
        known = set(re.findall(r"PASSING_[A-Z_]+", PAGE.read_text()))
        missing = []
        for folder in ("src", "lab", "integrations"):
            for file in sorted((pages.SOURCE / folder).rglob("*")):
                if file.suffix not in (".cc", ".h", ".c", ".py", ".S"):
                    continue
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    missing += [f"{file.relative_to(pages.SOURCE)}:{number}: {name}" for _, name in NAME.findall(line) if name not in known]
        if missing:
            self.fail("variables that docs/configuration.md does not have\n" + "\n".join(missing))


if __name__ == "__main__":
    unittest.main()
