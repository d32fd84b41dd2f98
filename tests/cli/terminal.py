"""Runs dpexec under pseudo-terminals and reads the screens: terminal.py DPEXEC, in a folder with mlp.onnx, train.npz and val.npz.

Prints "ok NAME" or "failed NAME" for each check.
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

import pyte

DPEXEC = sys.argv[1]
EPOCHS = 4
TRAIN = [DPEXEC, "mlp.onnx", "--data", "train.npz", "--val", "val.npz", "--loss", "cross-entropy", "--metric", "accuracy",
         "--epochs", str(EPOCHS), "--batch-size", "4", "--lr", "0.1", "--threads", "1"]
FACTS = ["model", "data", "classes", "optimizer", "devices", "steps", "run"]


def check(name, good):
    print("ok" if good else "failed", name, flush=True)


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 400, columns, 0, 0))


def on_terminal(command, columns, resize=None, stdout=False, **variables):
    """Standard error (or output) of the command on a terminal: the bytes, and the screen.  resize: columns from the first row on."""
    environment = {"TERM": "xterm", "LC_ALL": "C.UTF-8", **os.environ, **variables}
    for name in ("NO_COLOR", "COLUMNS"):
        if name not in variables:
            environment.pop(name, None)
    master, slave = pty.openpty()
    set_width(slave, columns)
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave if stdout else subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL if stdout else slave, env=environment)
    os.close(slave)
    screen = pyte.Screen(columns, 400)
    stream = pyte.ByteStream(screen)
    data, resized = b"", None
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:    # the other side is closed
            break
        if not part:
            break
        data += part
        stream.feed(part)
        if resize and resized is None and re.search(rb"\n *1/\d+ ", data):
            p.send_signal(signal.SIGSTOP)    # what it has written is on the screen before the width changes
            while select.select([master], [], [], 0.1)[0]:
                data += (part := os.read(master, 65536))
                stream.feed(part)
            set_width(master, resize)
            screen.resize(400, resize)
            resized = len(data)
            p.send_signal(signal.SIGCONT)
    os.close(master)
    assert p.wait() == 0, command
    return data, [line.rstrip() for line in screen.display], resized


def plain(data):
    return re.sub(r"\x1b\[[0-9;]*m", "", data.decode())


def segments(data):
    """What was written between two moves of the cursor to the first column."""
    return [s for s in re.split(r"[\r\n]+", plain(data)) if s.strip()]


def evaluations(folder):
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [line["eval_accuracy"] for line in lines if "eval_accuracy" in line]


def step_seconds(folder):
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return sum(line["ms"] for line in lines if "ms" in line) / 1e3


def rows_of(display):
    """The table's rows as dictionaries; "best" is the mark."""
    table, names = [], None
    for line in display:
        if line.startswith("epoch ") and "loss" in line:
            names = re.split(r"  +", line.strip())
        elif names and re.match(r" *\d+/\d+ ", line):
            cells = re.split(r"  +", line.strip())
            best = cells[-1] == "best"
            table.append({**dict(zip(names, cells[:-1] if best else cells)), "best": best, "cells": len(cells) - best,
                          "names": len(names)})
    return table


def stray(display):
    """Lines that are neither a fact, nor a part of the table."""
    known = rf"({'|'.join(FACTS)}) +\S.*| {{11}}\S.*|epoch +(loss|accuracy).*| *\d+/{EPOCHS} +\d.*|"
    return [line for line in display if not re.fullmatch(known, line)]


def best_so_far(values):
    return [all(v > w for w in values[:i]) for i, v in enumerate(values)]


for columns in 50, 80, 200:
    out = f"at{columns}"
    data, display, _ = on_terminal([*TRAIN, "--out", out], columns)
    written = segments(data)
    bars = [s for s in written if "━" in s or "─" in s]
    rows = rows_of(display)
    label = f"at {columns} columns:"
    check(f"{label} no line is wider: {max(map(len, written))}", max(map(len, written)) <= columns)
    check(f"{label} nothing is left over: {stray(display)}", not stray(display))
    check(f"{label} the summary", [f for f in FACTS if any(line.startswith(f + " ") for line in display)] == FACTS)
    check(f"{label} a row for each epoch", len(rows) == EPOCHS)
    check(f"{label} a cell below each name", all(row["cells"] == row["names"] for row in rows))
    check(f"{label} the best are marked", [row["best"] for row in rows] == best_so_far(evaluations(out)))
    check(f"{label} figures of the evaluation",
          [row["eval accuracy"] for row in rows] == [f"{v:.4f}" for v in evaluations(out)])
    check(f"{label} a bar, cut to the width", bars and all(len(b.rstrip()) < columns for b in bars))
    check(f"{label} a bar of training", any(re.match(r"epoch \d/4 .*\d+/1200  loss", b) for b in bars))
    check(f"{label} a bar of evaluations", any(re.match(r"epoch \d/4 .*evaluates \d+/1500", b) for b in bars))
    check(f"{label} colours", "\x1b[32mbest" in data.decode())
    if columns >= 80:
        rate = EPOCHS / sum(1 / float(row["samples/s"]) for row in rows)
        check(f"{label} evaluations do not count in the rate",
              0.7 < rate / (EPOCHS * 1200 / step_seconds(out)) < 1.5)
    log = (pathlib.Path(out) / "log.txt").read_bytes()
    check(f"{label} the log is plain", b"\x1b" not in log and b"\r" not in log and log.isascii())

# The closing lines, on standard output.
for columns in 50, 80, 200:
    out = f"a-rather-long-name-of-a-folder-{columns}"
    data, display, _ = on_terminal([*TRAIN, "--out", out, "--monitor", "accuracy:min", "--patience", "1"], columns, stdout=True)
    label, joined = f"the result at {columns} columns:", []
    for line in filter(None, display):
        if line.startswith("  "):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    wide = [s for s in segments(data) if len(s) > columns]
    check(f"{label} no line is wider: {wide}", not wide)
    check(f"{label} lines of the log: {joined}", joined == (pathlib.Path(out) / "log.txt").read_text().splitlines()[-len(joined):])
    check(f"{label} the last line: {joined[-1]}",
          re.fullmatch(rf"stopped early at epoch \d; best epoch \d: eval accuracy 0\.\d{{4}} -> {out}/best\.onnx", joined[-1]))
    check(f"{label} wrapped where it is narrow", (len(display) - display.count("") > len(joined)) == (columns < 200))

# The width changes while the run goes on.
for before, after in (80, 50), (50, 200):
    for attempt in range(5):    # again where the program was stopped with a line in hand that was composed for the old width
        data, display, at = on_terminal([*TRAIN, "--out", f"from{before}to{after}-{attempt}"], before, resize=after)
        if at is None or not segments(data[at:]) or len(segments(data[at:])[0]) < after:
            break
    late = [s for s in segments(data[at:]) if "━" in s or "─" in s]
    label = f"from {before} to {after} columns:"
    check(f"{label} the change was seen", at is not None and len(late) > 1)
    check(f"{label} bars have the new width", all(len(s.rstrip()) < after for s in late[1:]))
    check(f"{label} nothing is left over: {stray(display)}", not stray(display))
    check(f"{label} a row for each epoch", len(rows_of(display)) == EPOCHS)

data, display, _ = on_terminal([*TRAIN, "--out", "plain"], 80, NO_COLOR="1")
check("NO_COLOR: no escape sequence", b"\x1b" not in data)
check("NO_COLOR: the same table", len(rows_of(display)) == EPOCHS and not stray(display))
data, display, _ = on_terminal([*TRAIN, "--out", "ascii"], 80, LC_ALL="C")
check("without UTF-8: ASCII alone", data.isascii() and b"=" in data and not stray(display))
data, display, _ = on_terminal([*TRAIN, "--out", "dumb"], 80, TERM="dumb")
check("TERM=dumb: no escape sequence and no bar", b"\x1b" not in data and b"\r" not in data.replace(b"\r\n", b""))
data, display, _ = on_terminal([*TRAIN, "--out", "quiet", "--quiet"], 80)
check("--quiet", data == b"")
data, display, _ = on_terminal([*TRAIN, "--out", "verbose", "--verbose"], 80)
check("--verbose", any(line.startswith("x: split along axis 0") for line in display))
data, display, _ = on_terminal([*TRAIN, "--out", "some", "--eval-every", "500"], 80)
lines = [line for line in display if re.match(r"step \d+00: eval loss", line)]
check("evaluations within epochs, and after the last step", len(lines) == 3 and len(rows_of(display)) == EPOCHS)

# Elsewhere: the lines of the log.
told = subprocess.run([*TRAIN, "--out", "piped"], check=True, capture_output=True, text=True)
check("a pipe: plain lines", "\x1b" not in told.stderr and "\r" not in told.stderr and told.stderr.isascii())
check("a pipe: those of the log", (pathlib.Path("piped") / "log.txt").read_text() == told.stderr + told.stdout)
lines = [line for line in told.stderr.splitlines() if line.startswith("epoch ") and "train loss" in line]
check("a pipe: a line for each epoch", len(lines) == EPOCHS)
check("a pipe: the best are marked", [line.endswith("; best") for line in lines] == best_so_far(evaluations("piped")))


def same_lines(a, b):
    """The log without figures of time, of memory, and the folder's name."""
    def read(folder):
        text = (pathlib.Path(folder) / "log.txt").read_text().replace(folder, "RUN")
        lines = [line for line in text.splitlines() if not re.match(r"epoch \d+/\d+  ", line)]
        return [re.sub(r"[0-9.]+ samples/s, [0-9.:]+( s)?|in [0-9.]+ s", "", line) for line in lines]
    return read(a) == read(b)


check("the log is the same on a terminal", same_lines("piped", "at80") and same_lines("piped", "at50"))

for columns in 50, 80, 200:
    for how in ["train", "-h"], ["train", "--help"], ["--help"]:
        data, display, _ = on_terminal([DPEXEC, *how], columns, stdout=True)
        wide = [s for s in segments(data) if len(s) > columns and " " in s.strip()]
        check(f"dpexec {' '.join(how)} at {columns} columns: {wide}", not wide)
