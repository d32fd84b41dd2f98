#!/usr/bin/env python3
"""Writes docs/reference/operators.md: graph-transform's list of operators, CUDA kernels by the sources, and official tests by what
`dpexec check DATA --training --json FILE` found.

    docs/reference/operators.py BUILD/graph-transform FILE.json >docs/reference/operators.md
"""
import json
import os
import re
import subprocess
import sys
from glob import glob

import onnx

HEAD = """# The operators

    graph-transform --list-operators

The command prints the same list for the program at hand. `docs/reference/operators.py` makes this page; a test compares
([tests/cli/check.sh](../../tests/cli/check.sh)).

| column | entry | meaning |
|---|---|---|
| opset | | the spelling inside the graph; import converts older and newer ones |
| forward | `kernel` | a kernel computes it |
| | `lowered` | it becomes simpler operators |
| | `view` | another shape or type for the same bytes |
| | `at import` | it becomes something else as the file is read |
| | `interpreted` | its shape depends on data, and the model runs node by node |
| gradient | `yes`, `no` | it has one; training is refused by name |
| | `zero` | it is constant piece by piece |
| | `none` | there is none: nothing is trained through it |
| | `lowered` | that of what it becomes |
| placement, when the batch is split | `elementwise` | it stays split |
| | `by rule` | a rule of its own says what stays split |
| | `gathered` | the whole batch is brought together first |
| | `lowered` | that of what it becomes |
| fast | `yes` | there is a kernel for CPUs beside the one of plain C |
| CUDA | `yes` | there is a CUDA kernel; all others run on the host, with copies |
| types | | of the first input |
| official tests | | how many of ONNX's tests of one node of it pass, of those in Debian 12's `python3-onnx` |

| operator | opset | forward | gradient | placement | fast | CUDA | types | official tests |
|---|---|---|---|---|---|---|---|---|"""

READ = """The file's reader handles control flow, sequences, optionals and strings. They are gone from the graph where the file, or the
arrays at hand, decide them. Otherwise dpexec interprets the model node by node for the inputs at hand, which trains nothing. With official
tests"""
MISSING = "Not taken, with the number of their official tests"


def cuda_operators():
    """The operators that kernels and expressions of kernels/cuda name, and those of the rows of kernels/formulas.def."""
    with open("kernels/formulas.def") as f:
        found = set(re.findall(r"^(?:UNARY|BINARY|TEST[12]) *\((\w+), *\w+,", f.read(), re.M))
    for path in glob("kernels/cuda/*.c") + glob("kernels/cuda/*.cu"):
        with open(path) as f:
            text = f.read()
        found |= set(re.findall(r"&op_(\w+)", text)) | set(re.findall(r"DEFINE_EXPR\(\w+, (\w+)", text))
    return found


def tests_by_operator(path):
    """{operator: [passed, all]} over folders whose model is one node."""
    count = {}
    with open(path) as f:
        tests = json.load(f)["tests"]
    for test in tests:
        node = onnx.load(os.path.join(test["folder"], "model.onnx"), load_external_data=False).graph.node
        if len(node) == 1 and not node[0].domain:
            of = count.setdefault(node[0].op_type, [0, 0])
            of[0] += test["outcome"] == "passed"
            of[1] += 1
    return count


def types_text(types):
    """The names of types, groups of them in one word."""
    left = types.split()
    for name, group in (("floats", ["float32", "float64", "float16", "bfloat16"]),
                        ("integers", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])):
        if all(t in left for t in group):
            left = [name] + [t for t in left if t not in group]
    return ", ".join(sorted(left, key=lambda t: (t not in ("floats", "integers"), t)))


def main(program, found):
    rows = json.loads(subprocess.run([program, "--list-operators", "--json"], check=True, capture_output=True).stdout)
    tests, cuda = tests_by_operator(found), cuda_operators()
    print(HEAD)
    for r in rows:
        passed = tests.get(r["name"])
        print("|", " | ".join([r["name"], str(r["opset"]), r["forward"], r["gradient"], r["placement"],
                               "yes" if r["fast"] else "", "yes" if r["name"] in cuda else "", types_text(r["types"]),
                               "%d of %d" % tuple(passed) if passed else ""]), "|")
    others = {name: of for name, of in sorted(tests.items()) if name not in {r["name"] for r in rows}}
    for how, passes in ((READ, True), (MISSING, False)):
        print("\n%s: %s." % (how, ", ".join("%s (%d of %d)" % (name, *of) for name, of in others.items()
                                          if bool(of[0]) == passes) or "none"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
