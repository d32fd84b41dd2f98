#!/usr/bin/env python3
"""Finds expressions in which two operands add to a graph: C does not say which of them runs first.

    tests/emission_order.py        prints FILE:LINE: EXPRESSION for each, and exits with 1 if there are any

gcc evaluates the last argument of a call first, clang the first one, so the two would number nodes and constants
differently.  Operands are the arguments of a call, the elements of an initialiser, and both sides of an operator that
is not a sequence point.  A function adds to a graph if it reaches a graph_add_...() by calls; calls through function
pointers are not followed.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
MACRO = re.compile(r"^#define (\w+)\((?:\\\n|[^\n])*", re.M)
DIRECTIVE = re.compile(r"^ *#(?:\\\n|[^\n])*", re.M)
# As .clang-format lays them out: a body's braces stand in column 0, or the whole function is one line.
FUNCTION = re.compile(r"^(?=\w)(?:__attribute__\(\(.*\)\) )?(static )?[^\n;={}]*?\b(\w+)\("
                      r"(?:[^;{}=]*?\)\n\{\n(.*?)^\}|[^\n;{}=]*\) (\{ [^\n]*\}) *$)", re.M | re.S)
CALL = re.compile(r"\b(\w+)\(")
TOKEN = re.compile(r"(\w+)? ?(\()|[\[{]|[)\]}]|,|;|&&|\|\||\?|:")
CONTROL = {"if", "for", "while", "switch"}


def blanked(match):
    return re.sub(r"[^\n]", " ", match[0])


def read(name):
    """-> (text without comments and strings, [(function, static, start, body)], {macro: names it calls})."""
    text = BLANK.sub(blanked, (ROOT / name).read_text())
    macros = {m[1]: set(CALL.findall(m[0])) - {m[1]} for m in MACRO.finditer(text)}
    text = DIRECTIVE.sub(blanked, text)
    functions = []
    for m in FUNCTION.finditer(text):
        group = 3 if m[3] is not None else 4
        functions.append((m[2], bool(m[1]), m.start(group), m[group]))
    return text, functions, macros


def adding(files):
    """-> {file: names that add to a graph when they are called there}."""
    calls, shared, own = {}, {}, {}      # key -> [(file, names it calls)]; name -> key; file -> {name: key}
    for f, (_, functions, macros) in files.items():
        own[f] = {}
        defined = [(name, static, set(CALL.findall(body))) for name, static, _, body in functions]
        for name, static, called in defined + [(name, True, called) for name, called in macros.items()]:
            key = (f if static and f.endswith(".c") else None, name)
            calls.setdefault(key, []).append((f, called))
            (own[f] if key[0] else shared)[name] = key
    callers = {}
    for key, bodies in calls.items():
        for f, names in bodies:
            for name in names:
                callee = own[f].get(name) or shared.get(name)
                if callee and callee != key:
                    callers.setdefault(callee, set()).add(key)
    found = {key for key in calls if key[1].startswith("graph_add_")}
    work = list(found)
    while work:
        for key in callers.get(work.pop(), ()):
            if key not in found:
                found.add(key)
                work.append(key)
    common = {name for name, key in shared.items() if key in found}
    return {f: (common - set(own[f])) | {name for name, key in own[f].items() if key in found} for f in files}


class Group:
    """What stands between two brackets, as far as it has been read."""

    def __init__(self, at, listed=False, name=None, control=False):
        self.at = at
        self.listed = listed        # arguments of a call or elements of an initialiser?
        self.name = name            # of the called function
        self.control = control      # the head of an if, for, while or switch?
        self.statements = False     # a block, or the head of a for?
        self.elements = 0           # that add to a graph
        self.element = False        # does the present element?
        self.operands = 0           # of the present operators, that do
        self.clash = False

    def operand(self):
        self.element = True
        self.operands += 1
        self.clash |= self.operands > 1

    def close_element(self):
        self.elements += self.element
        self.element, self.operands = False, 0


def clashes(body, adds):
    """-> offsets of expressions of a function's body with two operands that add to a graph."""
    stack, found = [Group(0)], []
    for t in TOKEN.finditer(body):
        token, top = t[0], stack[-1]
        if t[2]:
            name = None if t[1] in CONTROL or t[1] in ("return", "sizeof") else t[1]
            stack.append(Group(t.start(), name is not None, name, t[1] in CONTROL))
        elif token in "[{":
            stack.append(Group(t.start(), token == "{"))
        elif token in ")]}":
            top.close_element()
            stack.pop()
            if top.clash or top.listed and not top.statements and top.elements > 1:
                found.append(top.at)
            if top.elements and not top.statements or top.name in adds:
                stack[-1].operand()
            if top.statements or top.control:
                stack[-1].operands = 0
        elif token == ",":
            top.close_element()
        elif token == ";":
            top.statements = True
            if top.clash:
                found.append(t.start())
                top.clash = False
            top.close_element()
        else:
            top.operands = 0
    return found


def main():
    sources = (p for folder in ("graph", "passes", "exec", "tools") for p in sorted((ROOT / folder).rglob("*.*")))
    files = {str(p.relative_to(ROOT)): read(p) for p in sources if p.suffix in (".c", ".h", ".inc")}
    adds = adding(files)
    offences = []
    for f, (text, functions, _) in files.items():
        for _, _, begin, body in functions:
            if sum(name in adds[f] for name in CALL.findall(body)) < 2:
                continue
            for at in clashes(body, adds[f]):
                line = text.count("\n", 0, begin + at)
                offences.append(f"{f}:{line + 1}: {(ROOT / f).read_text().splitlines()[line].strip()}")
    print(*dict.fromkeys(offences), sep="\n", end="\n" if offences else "")
    return bool(offences)


if __name__ == "__main__":
    sys.exit(main())
