"""The pages can be read: no long lines of prose, and every link leads somewhere."""

import re
import unittest
import urllib.parse

import pages

COLUMNS = 100
# Tables, comments, and lines that are nothing but a link or an image cannot be broken.
UNBREAKABLE = re.compile(r"\s*\||\s*<!--|\s*(?:[-*]\s+)?!?\[.*\]\(\S+\)[.,;]?$|\s*\[[^\]]+\]:\s")


PAGES = [*pages.all_pages(), pages.ROOT / "CHANGELOG.md"]


class Prose(unittest.TestCase):
    def test_lines_are_short(self):
        long = [f"{pages.name_of(page)}:{line.number}: {len(line.text)} columns"
                for page in PAGES for line in pages.lines_of(page)
                if len(line.text) > COLUMNS and not line.fenced and not UNBREAKABLE.match(line.text)]
        if long:
            self.fail(f"prose has at most {COLUMNS} columns\n" + "\n".join(long))

    def test_links_lead_somewhere(self):
        lost = []
        for page in PAGES:
            for number, target in pages.links_of(page):
                if problem := self.problem(page, target):
                    lost.append(f"{pages.name_of(page)}:{number}: {target}: {problem}")
        if lost:
            self.fail("links that lead nowhere\n" + "\n".join(lost))

    @staticmethod
    def problem(page, target):
        if re.match(r"\w+:", target):
            return None  # elsewhere: nothing here may ask the internet
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if pages.ROOT.resolve() not in file.resolve().parents:
            return "outside of the repository"
        if not file.exists():
            return "there is no such file"
        if anchor and (file.suffix != ".md" or anchor not in pages.anchors_of(file)):
            return "there is no such heading"
        return None


if __name__ == "__main__":
    unittest.main()
