"""The files of the tree, read once."""

import functools
import os
import pathlib
import re

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
# Where "..." and <...> of the project are looked for, beside the folder of whoever includes.
ROOTS = ["src", "include", ".", "tests", "bench"]


class Tree:
    def __init__(self, root, names):
        self.root = pathlib.Path(root)
        self.names = names
        self.known = set(names)

    def of(self, *ends):
        return [name for name in self.names if name.endswith(ends)]

    @functools.lru_cache(maxsize=None)
    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    @functools.lru_cache(maxsize=None)
    def includes(self, name):
        """(line, as it is written, the file of the tree or None) of each."""
        found = []
        for match in INCLUDE.finditer(self.text(name)):
            line = self.text(name).count("\n", 0, match.start(2)) + 1
            found.append((line, match.group(2), self.resolve(name, match.group(2), match.group(1) == '"')))
        return found

    def resolve(self, name, wanted, quoted):
        places = [os.path.dirname(name)] if quoted else []
        for place in [*places, *ROOTS]:
            path = os.path.normpath(os.path.join(place, wanted))
            if path in self.known:
                return path
        return None
