"""Files that nobody uses: sources that are not built, headers that are not included, scripts that are not named."""

import os
import re

# Found by their place or name, by the tool that reads them.
BY_PLACE = re.compile(r"(^|/)(CMakeLists\.txt|Makefile|__init__\.py|__main__\.py|py\.typed|README\.md|setup\.py|"
                      r"[a-z_]+\.md|pyproject\.toml|CMakePresets\.json|LICENSE|package(-lock)?\.json|tsconfig\.json|"
                      r"\.[a-z-]+)$|^\.ci/|^docs/|^share/|/corpus/|/cases/")


def check(tree):
    included = {target for name in tree.of(".h", ".c", ".cc", ".inc", ".S") for _, _, target in tree.includes(name)}
    words = {name: set(re.findall(r"[\w.-]+", tree.text(name))) for name in tree.names}
    for name in tree.names:
        if name.endswith((".h", ".inc")):
            if name not in included and not name.startswith("include/"):
                yield f"{name}: nobody includes it"
        elif name.endswith((".c", ".cc", ".S")):
            if not built(tree, name, words):
                yield f"{name}: no CMakeLists.txt names it"
        elif not BY_PLACE.search(name) and not named(tree, name, words):
            yield f"{name}: nobody names it"


def built(tree, name, words):
    """Named in a CMakeLists.txt of its folder or of one above, if only by its stem; or text that a test builds."""
    base = os.path.basename(name)
    for other in tree.names:
        folder = os.path.dirname(other)
        if os.path.basename(other) == "CMakeLists.txt" and (not folder or name.startswith(folder + "/")) and \
                words[other] & {base, base.rpartition(".")[0]}:
            return True
    return name.startswith("tests/packaging/outside/") and any(
        base in words[other] for other in tree.names if other.startswith("tests/packaging/"))


def named(tree, name, words):
    """By its name; a Python module also by an import, and a test by its stem in a CMakeLists.txt."""
    base = os.path.basename(name)
    stem = base.rpartition(".")[0]
    imported = re.compile(rf"(?:import|from)\s+(?:[\w.]+\.)?{re.escape(stem)}\b|import .*\b{re.escape(stem)}\b"
                          rf"|/{re.escape(stem)}[\"'.]|-m [\w.]*{re.escape(stem)}\b")
    for other in tree.names:
        if other == name:
            continue
        if base in words[other]:
            return True
        if stem and other.endswith((".py", ".ts", ".mjs", ".tsx", "house", "lint")) and imported.search(tree.text(other)):
            return True
        if os.path.basename(other) == "CMakeLists.txt" and stem.removesuffix("_test") in words[other]:
            return True
    return False
