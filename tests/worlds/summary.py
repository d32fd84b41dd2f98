"""Sums up outcomes of the table of worlds (tests/worlds/rows.sh) as JSON: passed and failed for each value of each column, and every
failure; a row without an outcome is one.  Usage: summary.py ROWS OUTCOMES SECONDS VERSION..."""
import datetime
import json
import os
import pathlib
import platform
import re
import sys

from cover import ALONE, COLUMNS

KINDS = ("reference", "verify")
rows, outcomes = (pathlib.Path(p).read_text().splitlines() for p in sys.argv[1:3])
counts = {kind: [0, 0] for kind in (*KINDS, "row")}
columns = {name: {str(v): [0, 0] for v in values} for name, values in COLUMNS.items()}
columns["transport"][ALONE] = [0, 0]
found = dict(line.split(": ", 1) for line in outcomes)
failures = []
for row in [k for k in found if k.startswith(KINDS)] + rows:
    outcome = found.get(row, "has no outcome")
    wrong = outcome != "ok"
    kind = row.split()[0] if row.startswith(KINDS) else "row"
    counts[kind][wrong] += 1
    if kind == "row":
        for (name, values), value in zip(columns.items(), row.split(), strict=True):
            values[value][wrong] += 1
    if wrong:
        failures.append(f"{row}: {outcome}")
summary = {
    "date": str(datetime.date.today()), "machine": platform.machine(), "cores": os.cpu_count(), "versions": sys.argv[4:], "seconds": int(sys.argv[3]),
    "passed, failed": {"references near one replica": counts["reference"], "graphs verified in float64": counts["verify"],
                       "rows": counts["row"], "rows by column": columns},
    "failures": failures,
}
print(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", json.dumps(summary, indent=1)))
sys.exit(bool(failures) or not counts["row"][0])
