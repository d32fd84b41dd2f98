"""Rows of the table of worlds (tests/worlds/rows.sh): a few that hold every pair of values of any two columns that can stand side
by side, or with --all every row.  The same rows at every call."""
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
}
NAMES = list(COLUMNS)


def can_be(row):
    r = dict(zip(NAMES, row))
    return r["processes"] * r["devices"] <= r["replicas"]


def pairs(row):
    return {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)}


def cover():
    every = [row for row in itertools.product(*COLUMNS.values()) if can_be(row)]
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


rows = itertools.product(*COLUMNS.values()) if "--all" in sys.argv[1:] else cover()
for row in rows:
    if can_be(row):
        print(*row)
