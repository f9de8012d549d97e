"""Every header compiles alone.

Where a source includes a header first, the build proves it: x.cc must include x.h first. The others are compiled here.
"""

import concurrent.futures
import textwrap

from known import clean, inputs

CPP = ["clang++", "-std=c++20", "-x", "c++"]
# What runs in the kernel is C for another processor.
BPF = ["clang", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu", "-x", "c"]


def check(tree, jobs):
    proven = set()
    for source in tree.of(".cc"):
        included = [target for _, _, target in tree.includes(source)]
        partner = source[:-3] + ".h"
        if partner in tree.known and included[:1] != [partner]:
            yield f"{source}: must include {partner} first, so that the build proves that it compiles alone"
        proven.update(included[:1])
    todo = [name for name in tree.of(".h") if name not in proven]
    in_kernel = below(tree, (".bpf.c",)) - below(tree, (".cc",))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, said in zip(todo, pool.map(lambda name: compile_alone(tree, name, BPF if name in in_kernel else CPP), todo)):
            if said not in ("cached", "checked"):
                yield f"{name}: does not compile alone:\n{textwrap.indent(said.rstrip(), '  ')}"


def below(tree, ends):
    """All headers that sources with these ends include, directly or not."""
    found, new = set(), tree.of(*ends)
    while new:
        for _, _, target in tree.includes(new.pop()):
            if target and target not in found:
                found.add(target)
                new.append(target)
    return found


def compile_alone(tree, name, language):
    flags = [f"-I{tree.root / each}" for each in ("src", "include", ".", "tests", "bench")]
    command = [*language, *flags, "-fsyntax-only", "-include", str(tree.root / name), "/dev/null"]
    return clean(command, inputs(tree.root / name, flags))
