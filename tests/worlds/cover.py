"""Rows of the table of worlds (tests/worlds/rows.sh): a few that hold every pair of values of any two columns that can stand side
by side, or with --all every row.  The same rows at every call.  Usage: cover.py [--all] [TRANSPORT...]"""
import itertools
import sys

COLUMNS = {
    "net": ["mlp", "few", "ignored", "cnn", "dropout"],
    "processes": [1, 2, 3, 4],
    "devices": [1, 2],
    "replicas": [1, 2, 3, 4, 5, 6, 7, 8],
    "accumulate": [1, 2, 3],
    "clip": [0, 0.1],
    "split": ["balanced", "chunk", "weights"],
    "optimizer": ["adam", "sgd"],
    "level": ["none", "optimizer", "gradients", "parameters"],
    "dtype": ["float32", "float64"],
    "transport": ["launch", "tcp", "openmpi", "mpich"],
}
NAMES = list(COLUMNS)
ALONE = "alone"  # the transport of one process


def can_be(row):
    r = dict(zip(NAMES, row))
    return r["processes"] * r["devices"] <= r["replicas"] and (r["transport"] == ALONE) == (r["processes"] == 1)


def pairs(row):
    return {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)}


def cover(every):
    left = set().union(*(pairs(row) for row in every))
    step = 7919  # a prime: of rows that are as good, others come first each time
    at = 0
    while left:
        best, gain = None, 0
        for k in range(min(len(every), 400)):
            row = every[(at + k * step) % len(every)]
            new = len(pairs(row) & left)
            if new > gain:
                best, gain = row, new
        if not best:
            pair = min(left, key=str)
            best = next(row for row in every if pair in pairs(row))
        left -= pairs(best)
        at += step * 400
        yield best


def rows(everything, transports):
    columns = COLUMNS | {"transport": [ALONE, *transports]}
    every = [row for row in itertools.product(*columns.values()) if can_be(row)]
    return every if everything else cover(every)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    for r in rows("--all" in sys.argv[1:], arguments or COLUMNS["transport"]):
        print(*r)
