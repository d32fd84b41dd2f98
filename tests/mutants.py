#!/usr/bin/env python3
"""Lists mutants of C files for tests/mutate.sh: one changed operator or constant each.

    tests/mutants.py [--sample N] [--seed S] FILE...      prints FILE:LINE:COLUMN:OLD:NEW, one a line, [all] or N drawn at random

Mutated are comparisons, arithmetic, logical and bitwise operators, increments, negations and integer constants of code: not comments,
strings, preprocessor lines, declarations of arrays' sizes, or tables of initializers.
"""
import argparse
import random
import re
import sys

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/", "/": "*",
         "%": "*", "++": "--", "--": "++", "+=": "-=", "-=": "+=", "*=": "/=", "<<": ">>", ">>": "<<", "|=": "&=", "&=": "|="}
# Binary operators stand between spaces (clang-format): a pointer's star, a sign and an address do not.
TOKEN = re.compile(r"(?<= )(?:<=|>=|==|!=|&&|\|\||<<|>>|\+=|-=|\*=|\|=|&=|[-+*/%<>])(?= )|\+\+|--|!(?=[\w(])|(?<![\w.])\d+(?![\w.])")


def code_only(text):
    """The text with comments, strings and characters blanked out, so that places stay."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def mutants(path):
    inside = False
    with open(path) as f:
        lines = code_only(f.read()).split("\n")
    for number, line in enumerate(lines, 1):
        if line == "{":
            inside = True
        elif line.startswith("}"):
            inside = False
        if not inside or line.lstrip().startswith(("#", "case ", "static const")) or line.endswith("\\"):
            continue
        for m in TOKEN.finditer(line):
            old = m.group()
            if old.isdigit():
                if line[m.start() - 1] == "[" and re.match(r"\s+(?:const )?\w+ \**\w+\[", line):    # char text[16];
                    continue
                new = str(int(old) + 1)
            else:
                new = SWAPS.get(old, "")        # a negation is left out
            yield f"{path}:{number}:{m.start()}:{old}:{new}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--sample", type=int)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("files", nargs="+")
    args = ap.parse_args()
    found = [m for f in args.files for m in mutants(f)]
    if args.sample is not None and args.sample < len(found):
        found = random.Random(args.seed).sample(found, args.sample)
    print(*found, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
