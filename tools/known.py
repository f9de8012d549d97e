"""Checks of files that remember what was clean, in build/lint-cache or where PASSING_LINT_CACHE says.

A check is done again when one of its inputs changes: the text, the project's headers below it, the flags of the
compiler, the settings and the version of the tool.
"""

import functools
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("PASSING_LINT_CACHE") or ROOT / "build" / "lint-cache")
KEEP_DAYS = 30
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def includes(file):
    return [name.decode() for name in INCLUDE.findall(file.read_bytes())]


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def inputs(source, flags):
    """The source and the project's headers below it, generated ones too. Conditions do not count: rather one too many."""
    words = re.findall(r"-(?:I|isystem )(\S+)", " ".join(flags))
    directories = [pathlib.Path(word) for word in words if pathlib.Path(word).is_relative_to(ROOT)]
    found, new = {source}, [source]
    while new:
        file = new.pop()
        for name in includes(file):
            header = next((each / name for each in [file.parent, *directories] if (each / name).is_file()), None)
            if header and (header := pathlib.Path(os.path.normpath(header))) not in found:
                found.add(header)
                new.append(header)
    return found


@functools.lru_cache(maxsize=None)
def version(tool):
    """With its settings, as it understands them."""
    more = ["--dump-config"] if tool == "clang-tidy" else []
    return "".join(subprocess.check_output([tool, option], cwd=ROOT, text=True) for option in ["--version", *more])


def key(command, files):
    """The same in every clone: names are relative to it."""
    words = [version(command[0]), *command, *(f"{file} {digest(file)}" for file in sorted(files))]
    return hashlib.sha256("\n".join(words).replace(str(ROOT), "").encode()).hexdigest()


def findings(command):
    """What it says, or nothing. A tool that crashes has a finding, whatever it printed."""
    run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if run.returncode == 0:
        return ""
    # clang-tidy writes findings to standard output and counts to standard error, cppcheck findings to standard error.
    said = run.stdout if run.returncode == 1 and run.stdout else run.stdout + run.stderr
    return said if run.returncode == 1 and said else f"{said}{shlex.join(command)}: status {run.returncode}\n"


def clean(command, files):
    CACHE.mkdir(parents=True, exist_ok=True)
    name = CACHE / key(command, files)
    if name.exists():
        name.touch()  # in use: see prune()
        return "cached"
    said = findings(command)
    if said:
        return said.replace(f"{ROOT}/", "")
    # Unless someone wrote into a file meanwhile: then nobody knows which text was clean.
    if CACHE / key(command, files) == name:
        name.touch()
    return "checked"


def prune():
    for name in CACHE.glob("*"):
        if name.stat().st_mtime < time.time() - KEEP_DAYS * 86400:
            name.unlink(missing_ok=True)
