"""The pages of the documentation: their blocks of commands, prose lines, links and anchors."""

import os
import pathlib
import re
import shlex

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOT = pathlib.Path(os.environ.get("PASSING_PAGES", SOURCE))  # pages of another tree can be tried, too

# Fences that would look like commands to a reader, but would not be run.
LOOKALIKES = ("bash", "shell", "console", "zsh")
SECONDS = 60


def all_pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]


def name_of(page):
    return str(page.relative_to(ROOT))


class Mistake(Exception):
    """A page that does not keep to the rules."""


class Line:
    def __init__(self, number, text, fenced):
        self.number, self.text, self.fenced = number, text, fenced


FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\w*)\s*$")


def lines_of(page):
    """Fences count as fenced."""
    open_fence = None
    for number, text in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.match(text)
        if open_fence is None:
            open_fence = fence and fence.group(2)
            yield Line(number, text, bool(fence))
        else:
            yield Line(number, text, True)
            if fence and fence.group(2).startswith(open_fence) and not fence.group(3):
                open_fence = None


class Block:
    """Commands of a page, and how they are run: see CONTRIBUTING.md."""

    def __init__(self, page, line, text, rules):
        self.where = f"{name_of(page)}:{line}"
        self.text = text
        self.background = False
        self.seconds = SECONDS
        self.proven_by = None
        self.reason = None
        for rule in filter(None, rules.split("; ")):
            self._follow(rule.strip())

    def _follow(self, rule):
        word, _, rest = rule.partition(" ")
        if word == "background" and not rest:
            self.background = True
        elif word == "within" and rest.isdigit():
            self.seconds = int(rest)
        elif word == "with" and rest:
            self._replace(rest)
        elif word == "proven" and rest.startswith("by "):
            self.proven_by = rest[3:].split()
        elif word == "see" and rest:
            self.reason = rest
        else:
            raise Mistake(f"{self.where}: '{rule}' is no rule for commands: background, within SECONDS, "
                          "with A=B, proven by TEST, see REASON")

    def _replace(self, pairs):
        """In one pass, so that no replacement is replaced."""
        words = dict(pair.partition("=")[::2] for pair in shlex.split(pairs))
        whole = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(words, key=len, reverse=True)))
        used = set(whole.findall(self.text))
        if used != set(words):
            raise Mistake(f"{self.where}: these words are not in the block: {', '.join(sorted(set(words) - used))}")
        self.text = whole.sub(lambda match: words[match.group()], self.text)


RULES = re.compile(r"^\s*<!-- commands: (.*?)\s*-->\s*$")


def blocks_of(page):
    """Blocks of sh, in the page's order."""
    blocks, before, started = [], "", None
    for line in lines_of(page):
        fence = FENCE.match(line.text) if line.fenced else None
        if fence and started is None:
            if fence.group(3) in LOOKALIKES:
                raise Mistake(f"{name_of(page)}:{line.number}: say sh, not {fence.group(3)}: only sh is run")
            rules = RULES.match(before)
            started = (line.number, fence, rules.group(1) if rules else "", [])
        elif fence and fence.group(2).startswith(started[1].group(2)) and not fence.group(3):
            number, first, rules, text = started
            started = None
            if first.group(3) == "sh":
                blocks.append(Block(page, number, "\n".join(text), rules))
        elif started is not None:
            started[3].append(line.text.removeprefix(started[1].group(1)))
        before = line.text
    return blocks


def links_of(page):
    """Line number and target of every link and image, also of those that are defined at the end."""
    for line in lines_of(page):
        if line.fenced:
            continue
        text = re.sub(r"(`+).+?\1", "``", line.text)
        for target in re.findall(r"\]\(([^()\s]+(?:\([^()]*\))?)(?:\s+\"[^\"]*\")?\)", text):
            yield line.number, target
        if definition := re.match(r"\s*\[[^\]]+\]:\s*(\S+)", text):
            yield line.number, definition.group(1)


def anchors_of(page):
    """As GitHub names the headings."""
    anchors, seen = set(), {}
    for line in lines_of(page):
        anchors.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line.text))
        heading = None if line.fenced else re.match(r"#{1,6}\s+(.*?)\s*#*$", line.text)
        if not heading:
            continue
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen[anchor] = seen.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors
