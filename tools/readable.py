"""Reads names of files from standard input; says which are not valid Python, JSON or TOML, and exits 1 if one is."""

import json
import sys
import tomllib

READERS = {".json": json.loads, ".toml": tomllib.loads}


def problem(name):
    read = next((READERS[end] for end in READERS if name.endswith(end)), None)
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
        # Compiled, not imported: nothing runs, and no __pycache__ is left behind.
        read(text) if read else compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as found:
        return f"{name}:{getattr(found, 'lineno', None) or 1}: {found}"
    return None


problems = [each for each in map(problem, sys.stdin.read().splitlines()) if each]
print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
sys.exit(1 if problems else 0)
