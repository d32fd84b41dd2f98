#!/usr/bin/env python3
"""Measures the walk of a steady training step on the CPU: the files and functions that it enters, and the names that it compares.

    tests/steady_step.py [BUILD_DIR] [--list]     [build]: a finished build; --list prints each function with its calls in a step

Configure the build with -DDPX_NATIVE=OFF on a processor with AVX-512, which Valgrind cannot run.

`dpexec train` runs under callgrind (Valgrind) twice, the second time for STEPS steps more.  What was called more often belongs to
the steps, and the difference over STEPS is what one step takes.  A function's file is the object that defines it (nm).
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIRST, STEPS = 12, 20
COMPARES = re.compile(r"_*(str(n|case|ncase)?cmp|strchr|strrchr|strstr|strpbrk|strspn|strcspn)(_\w+)?$")
COMPUTES = ("kernels/",)


def defining_files(build):
    """-> {function: files that define it}."""
    found = collections.defaultdict(set)
    for part in ("core", "toolbox", "dpexec"):
        folder = build / f"CMakeFiles/{part}.dir"
        objects = sorted(folder.glob("**/*.o"))
        for line in subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout.splitlines():
            path, _, rest = line.partition(":")
            *_, kind, name = rest.split()
            if kind in "tT":
                found[name.split(".")[0]].add(str(pathlib.Path(path).relative_to(folder)).removesuffix(".o"))
    return found


def calls_of(path):
    """-> {(function called, the product calls it)} of a callgrind file, with how often."""
    names, objects, calls = {}, {}, collections.Counter()
    caller = called = ""

    def named(table, text):
        number, _, name = text.partition(" ")
        return table.setdefault(number, name) if name else table.get(number, "")

    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            caller = named(objects, line[3:])
        elif line.startswith("cob="):
            named(objects, line[4:])
        elif line.startswith("fn="):
            named(names, line[3:])
        elif line.startswith("cfn="):
            called = named(names, line[4:])
        elif line.startswith("calls="):
            calls[called.split("'")[0].split(".")[0], "dpexec" in caller.rsplit("/", 1)[-1]] += int(line[6:].split()[0])
    return calls


def run(build, folder, devices, steps):
    out = folder / f"{devices}_{steps}".replace("*", "x")
    subprocess.run(["valgrind", "--tool=callgrind", "--cache-sim=no", f"--callgrind-out-file={out}", build / "dpexec", "train",
                    ROOT / "models/mlp.onnx", "--data", folder / "data.npz", "--loss", "cross-entropy", "--batch-size", "8", "--steps", str(steps),
                    "--devices", devices, "--threads", "1", "--quiet", "--out", "none"], check=True, capture_output=True, cwd=folder,
                   env=dict(os.environ, OMP_WAIT_POLICY="passive"))      # unless told how to wait, the tool starts itself anew
    return calls_of(out)


def walk(build, devices):
    """-> ({function: calls in a step}, {comparison of names: calls in a step})."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        random = numpy.random.default_rng(0)
        numpy.savez(folder / "data.npz", x=random.standard_normal((400, 64), dtype=numpy.float32), target=random.integers(0, 10, 400))
        short, long = run(build, folder, devices, FIRST), run(build, folder, devices, FIRST + STEPS)
    more = {key: (long[key] - short[key]) / STEPS for key in long if long[key] - short[key] >= STEPS // 2}
    functions = collections.Counter()
    for (function, _), n in more.items():
        functions[function] += n
    return functions, {function: n for (function, ours), n in more.items() if ours and COMPARES.match(function)}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    build = pathlib.Path(arguments[0] if arguments else ROOT / "build").resolve()
    home = defining_files(build)
    for devices in ("cpu:0", "cpu*2"):
        functions, compared = walk(build, devices)
        own = {f: sorted(home[f]) for f in functions if f in home}
        files = sorted({files[0] for files in own.values()})
        library = [f for f in files if not f.startswith(("tools/", *COMPUTES))]
        print(f"--devices {devices}: {len(files)} files ({len(library)} of the library without kernels), {len(own)} functions, "
              f"{sum(compared.values()):g} comparisons of names")
        if "--list" in sys.argv:
            for file in files:
                print(f"  {file}:", *(f"{f}({functions[f]:g})" for f in sorted(own) if own[f][0] == file))
            print("  names:", *(f"{f}({n:g})" for f, n in compared.items()))


if __name__ == "__main__":
    main()
