#!/usr/bin/env python3
"""Measures the structure of the source: what CONTRIBUTING.md sets limits for, and how far the tree is from them.

    tests/structure.py [BUILD_DIR]        [build]: a finished build without CUDA; prints a table, and every circle of more than 4 files

Circles: files whose functions call each other, by the symbols that their objects define and lack (nm).  Rebuilt: objects that depend on
the generated list of operators, or on the header of all build options, by Ninja's record.
"""
import collections
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ["base", "tensor", "ir", "text", "ops", "onnx", "recipes", "networks"]


def tracked(*patterns):
    return subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def product(*endings):
    return [f for f in tracked("graph", "passes", "exec", "kernels", "tools", "include") if f.endswith(endings)]


def symbols(build):
    """-> {file: (symbols it defines, symbols it lacks)} of the objects of the library."""
    found = {}
    for o in sorted(build.glob("CMakeFiles/core.dir/**/*.o")):
        source = o.relative_to(build / "CMakeFiles/core.dir").with_suffix("")
        if not (ROOT / source).exists() and not (build / source).exists():      # left by an older build
            continue
        defined, lacking = set(), set()
        for line in subprocess.run(["nm", o], capture_output=True, text=True, check=True).stdout.splitlines():
            *_, kind, name = line.split()
            if kind == "U":
                lacking.add(name)
            elif kind == "T":
                defined.add(name)
        found[str(o.relative_to(build / "CMakeFiles/core.dir")).removesuffix(".o")] = defined, lacking
    return found


def circles(needs):
    """Strongly connected components of more than one file (Tarjan, with a stack of its own), the largest first."""
    index, low, stack, on, out = {}, {}, [], set(), []
    for root in needs:
        if root in index:
            continue
        work = [(root, iter(needs[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(needs[other])))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    out.append(sorted(part))
    return sorted((c for c in out if len(c) > 1), key=len, reverse=True)


def file_needs(build):
    objects = symbols(build)
    owner = {s: f for f, (defined, _) in objects.items() for s in defined}
    return {f: sorted({owner[s] for s in lacking if s in owner} - {f}) for f, (_, lacking) in objects.items()}


def upward():
    """Includes within graph/ of a room above the file's own."""
    found = []
    for f in tracked("graph/*.c", "graph/*.h"):
        room = f.split("/")[1]
        for included, name in re.findall(r'^#include "graph/([a-z]+)/([^"]+)"', (ROOT / f).read_text(), re.M):
            if ROOMS.index(included) > ROOMS.index(room) and not name.endswith(".gen.h"):
                found.append((f, included))
    return found


def rebuilt(build, headers):
    """-> how many objects depend on the header that the most depend on, of those that match."""
    deps = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found = (re.findall(headers, entry, re.M) for entry in deps.split("\n\n"))      # a path may be relative or absolute
    users = collections.Counter(h for of_object in found for h in set(of_object))
    return users.most_common(1)[0][1] if users else 0


def functions(text):
    """-> [(name, lines, is static)] of the functions that a formatted C file defines."""
    found, lines = [], text.splitlines()
    for i, line in enumerate(lines):
        if line != "{" or i == 0:
            continue
        end = next(j for j in range(i, len(lines)) if lines[j] == "}")
        start = i - 1
        while start > 0 and lines[start - 1] and not lines[start - 1].startswith(("#", "}", "/", " *")) and not lines[start - 1].endswith((";", "*/")):
            start -= 1
        head = " ".join(lines[start:i])
        name = re.search(r"([A-Za-z_]\w*)\(", head)
        if name:
            found.append((name[1], end - i - 1, head.startswith("static ")))
    return found


def code():
    """-> what is counted of the C files of the product."""
    lines = static = small_once = structs = 0
    names, lengths = collections.defaultdict(set), []
    for f in product(".c"):
        text = (ROOT / f).read_text()
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        lines += text.count("\n")
        structs += len(re.findall(r"^(?:typedef )?struct \w* ?\{", text, re.M))
        for name, n, own in functions(text):
            lengths.append(n)
            if own:
                static += 1
                names[name].add(f)
                uses = re.findall(rf"\b{name}\b\(?", bare)
                small_once += n <= 12 and len(uses) == 2 and all(u.endswith("(") for u in uses)
    return {"lines": lines, "static": static, "once": small_once, "structs": structs, "names": names, "lengths": sorted(lengths)}


def paragraphs():
    """Words of each paragraph of prose in README and docs."""
    found = []
    for f in tracked("README.md", "docs/*.md"):
        text = re.sub(r"```.*?```", "", (ROOT / f).read_text(), flags=re.S)
        for p in re.split(r"\n\s*\n", text):
            if not re.match(r"\s*(#|\||[-*] |\d+\. |<|    )", p) and p.strip():
                found.append(len(p.split()))
    return sorted(found)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    rings, c, words = circles(file_needs(build)), code(), paragraphs()
    repeated = sum(n > 1 for n in collections.Counter(pathlib.Path(f).name for f in product(".c", ".cpp", ".cu")).values())
    many = sorted((n for n, files in c["names"].items() if len(files) > 2), key=lambda n: -len(c["names"][n]))
    rows = [
        ("includes upwards in graph/", len(upward()), "0"),
        ("files of the largest circles", ", ".join(str(len(r)) for r in rings[:6]) or "none", "15, 15, 4"),
        ("basenames that repeat", repeated, "30"),
        ("static functions called run or prepare", sum(len(c["names"][n]) for n in ("run", "prepare")), "30"),
        ("names of static functions in three files or more", len(many), "-"),
        ("objects rebuilt for a new operator", rebuilt(build, r"gen/graph/ops/\w+\.gen\.h$"), "150"),
        ("objects rebuilt for a field of the build's options", rebuilt(build, r"passes/options/\w+\.h$"), "60"),
        ("objects rebuilt for a new part of these options", rebuilt(build, r"passes/build_options\.h$"), "-"),
        ("lines of a function: median, p90, longest", f"{statistics.median(c['lengths']):.0f}, {c['lengths'][len(c['lengths']) * 9 // 10]}, {c['lengths'][-1]}", "15, 60, 60"),
        ("static functions of up to 12 lines called once", f"{100 * c['once'] / c['static']:.0f} %", "20 %"),
        ("private structs in 1,000 lines", f"{1000 * c['structs'] / c['lines']:.1f}", "2.5"),
        ("words of a paragraph of the docs: median, p90", f"{statistics.median(words):.0f}, {words[len(words) * 9 // 10]}", "30, 70"),
        ("lines of C of the product", c["lines"], "fewer"),
    ]
    for what, found, goal in rows:
        print(f"{what:52s} {found!s:>16s}   goal {goal}")
    for ring in rings:
        if len(ring) > 4:
            print(f"\na circle of {len(ring)}:", *ring)
    print("\nnames in three files or more:", ", ".join(f"{n} {len(c['names'][n])}" for n in many[:60]))


if __name__ == "__main__":
    main()
