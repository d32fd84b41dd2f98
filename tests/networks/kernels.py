#!/usr/bin/env python3
"""Where the time of a training step goes, by kernel: reads what `dpexec train --trace` wrote.  Needs nothing but Python.

    kernels.py [--limit PERCENT] [--top N] TRACE.json

Of each node the median over the steps is taken, so that the first one, which touches memory for the first time, and whatever else the
machine does at times do not count.  Exit status 1 when a reference kernel takes more than PERCENT [0.5] of the step.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys

LIMIT = 0.5


def table(trace):
    """-> [(kernel, microseconds of a step, nodes)], the longest first; what has no kernel goes by its operator's name."""
    times, kernel = collections.defaultdict(list), {}
    for e in json.loads(pathlib.Path(trace).read_text())["traceEvents"]:
        node = e["pid"], e["tid"], e["cat"], e["name"]
        times[node].append(e["dur"])
        kernel[node] = e["args"]["kernel"] or e["cat"]
    total, nodes = collections.Counter(), collections.Counter()
    for node, t in times.items():
        total[kernel[node]] += statistics.median(t)
        nodes[kernel[node]] += 1
    return [(k, us, nodes[k]) for k, us in total.most_common()]


def step(rows):
    return sum(us for _, us, _ in rows)


def slow(rows, limit=LIMIT):
    """-> the reference kernels that take more than `limit` percent of the step, as text."""
    return [f"{k} {100 * us / step(rows):.2f} % in {n} node{'s'[:n > 1]}" for k, us, n in rows
            if k.startswith("ref_") and us > limit / 100 * step(rows)]


def lines(rows, top):
    """The table, with all reference kernels."""
    yield f"{'kernel':34}{'us':>10}{'%':>8}{'nodes':>7}"
    for i, (k, us, n) in enumerate(rows):
        if i < top or k.startswith("ref_"):
            yield f"{k:34}{us:10.1f}{100 * us / step(rows):8.2f}{n:7}"
    yield f"{'all':34}{step(rows):10.1f}{100:8.2f}{sum(n for *_, n in rows):7}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--limit", type=float, default=LIMIT)
    ap.add_argument("--top", type=int, default=12)
    ap.add_argument("trace")
    args = ap.parse_args()
    rows = table(args.trace)
    print(*lines(rows, args.top), sep="\n")
    wrong = slow(rows, args.limit) if rows else ["nothing was timed"]
    if wrong:
        print("too slow: " + "; ".join(wrong))
    return sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
