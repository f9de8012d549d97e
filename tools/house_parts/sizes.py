"""Functions of at most 80 lines, files of at most 500."""

import ast
import re

FUNCTION = 80
FILE = 500
CODE = (".h", ".c", ".cc", ".py", ".ts", ".mjs", ".sh", ".S", ".css")
# Comments and strings, with their lines kept. A quotation mark between digits opens no character.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
SCOPE = re.compile(r"(?:inline\s+)?namespace\b|extern\s*$")
TYPE = re.compile(r"\b(?:class|struct|union|enum)\b[^()=]*(?:\([^()]*\)[^()=]*)?$")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def functions_of_cpp(text):
    """(first line, lines, its beginning) of each function that stands in a namespace or in a type."""
    text = DIRECTIVE.sub(blank, NOISE.sub(blank, SEPARATOR.sub("_", text)))
    open_braces, head, parentheses = [], 0, 0
    for at, character in enumerate(text):
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses -= 1
        elif character == "{":
            open_braces.append((kind_of(text[head:at].strip(), open_braces, parentheses), parentheses, head))
            parentheses, head = 0, at + 1
        elif character == "}" and open_braces:
            kind, parentheses, start = open_braces.pop()
            if kind == "function":
                start += len(text[start:at]) - len(text[start:at].lstrip())
                yield (text.count("\n", 0, start) + 1, text.count("\n", start, at) + 1,
                       text[start:start + 90].split("\n")[0].strip())
            head = at + 1
        elif character == ";" and parentheses == 0:
            head = at + 1


def kind_of(head, open_braces, parentheses):
    if parentheses > 0 or any(kind != "scope" for kind, _, _ in open_braces):
        return "other"
    if SCOPE.match(head) or TYPE.search(head):
        return "scope"
    return "function" if ")" in head and not head.endswith("=") else "other"


def functions_of_python(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return  # readable.py says so
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, f"def {node.name}"


def is_python(tree, name):
    return name.endswith(".py") or ("." not in name.rpartition("/")[2]
                                    and tree.text(name).startswith("#!/usr/bin/env python3"))


def check(tree):
    for name in tree.names:
        python = is_python(tree, name)
        if not python and not name.endswith(CODE):
            continue
        lines = tree.text(name).count("\n")
        if lines > FILE:
            yield f"{name}: {lines} lines, of {FILE}: perhaps it is several things in one"
        found = functions_of_python(tree.text(name)) if python else (
            functions_of_cpp(tree.text(name)) if name.endswith((".h", ".c", ".cc")) else [])
        for line, size, head in found:
            if size > FUNCTION:
                yield f"{name}:{line}: {size} lines, of {FUNCTION}, in one function: {head}"
