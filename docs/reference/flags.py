#!/usr/bin/env python3
"""Writes docs/reference/flags.md: the flags of all commands as their --help lists them, with an example and the page that explains each.

    docs/reference/flags.py BUILD >docs/reference/flags.md

Examples are those of the pages: the first command of a page that has the flag.  Fails where no page of the reference names a flag, and
where a page names a flag that no command has.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Where a reader of the command line would look, the likeliest first.  Of pages that explain a flag the first one counts.
PAGES = """ragged dpexec-train data images tables tokens loss model optimizers schedules replicas processes performance run-folder checkpoints
dpexec-resume dpexec-eval dpexec-run dpexec-generate dpexec-export dpexec-report dpexec-data dpexec-check dpexec-launch dpexec-tokenize
dpexec-new dpexec-devices graph-transform parameters semantics onnx devices standard simulate report cli""".split()
SCRIPTS = ("build-cuda.md", "networks.md")      # flags without a command before them are those of tests/gpu.sh and tests/networks/run.sh
FOREIGN = {"--with-cuda": "tools/quickstart.sh", "--signal": "sbatch", "--hostfile": "mpirun", "--enable-recovery": "mpirun", "--continuous": "mpirun", "--num-classes": "timm's train.py",
           "--name": "stands for any flag"}
COMPUTE = ["train", "eval", "run", "generate", "check", "graph-transform"]
HEAD = """# All flags

    dpexec train --help optimizer       # the same, for one group
    dpexec train --help lr              # the same, for one flag

`docs/reference/flags.py` writes these tables from the option table of the program, and a test compares them. The last
column links to the page that explains a flag. `...` marks flags that may be repeated. `resume` takes the flags of
`train`. *All* stands for `train`, `eval`, `run`, `generate`, `check` and `graph-transform`.

"""


def help_of(program, *command):
    env = dict(os.environ, COLUMNS="9999")
    return subprocess.run([program, *command, "--help"], env=env, capture_output=True, text=True, check=True).stdout.splitlines()


def flags_of(lines):
    """-> [(group, flag, metavar, help, default)] of a help text."""
    found, group, waits = [], "", None
    for line in lines:
        if line and line[0] not in " u":
            group = line
        row = re.match(r"  (--?[a-z][a-z0-9-]*)(\[=\S+\]|\[\S*\]| \S+)?(?:  +(.*))?$", line)
        if row:
            waits = (group, row[1], (row[2] or "").strip())
            text = row[3]
        elif waits and re.match(r" {28}\S", line):
            text = line.strip()
        else:
            continue
        if text is not None:
            default = re.search(r" \[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]$", text)
            found.append((*waits, text[:default.start()] if default else text, default[1] if default else ""))
            waits = None
    return found


def code_of(page):
    """-> (lines of code, spans of code in prose) of a page."""
    lines, fenced, prose = [], False, []
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            lines.append(line.strip())
        else:
            prose.append(line)
    return lines, re.findall(r"`([^`]+)`", "\n".join(prose))


def pages():
    listed = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [p for p in listed if p.name != "flags.md" and "internals" not in p.parts]


def named(page):
    """-> the flags of dpexec and graph-transform that a page names."""
    lines, spans = code_of(page)
    ours = re.compile(r"(?:^|[^\w-])(--[a-z][a-z0-9-]*)")
    found = set()
    for text in lines + spans:
        text = re.sub(r" -- .*|#.*", "", text)                 # behind -- are the flags of the command that `launch` starts
        if re.match(r"(\$ )?(\S*/)?(dpexec|graph-transform)\b", text) or text.startswith("--") and page.name not in SCRIPTS:
            found |= set(ours.findall(text))
    return found


def example_of(flag, metavar, texts):
    """-> the flag with the value that the first command of a page gives it, or ''.  Values in capitals stand for others."""
    for line in texts:
        hit = re.search(rf"(?:^| )({re.escape(flag)}[ =]((?!-)(?:'[^']*'|[^\s`…)]+)))(?= |$)", line)
        if metavar and hit and not re.search(r"\b[A-Z]+\b(?!\.onnx)|[{}]", hit[2]):
            return hit[1]
    return ""


def explains(flag):
    """-> the page of the reference that explains the flag: has a row of a table for it, else names it; or None."""
    name = re.escape(flag)
    for form in (rf"^\| `{name}[ `=\[]", rf"^\|[^|]*`{name}[ `=\[]", rf"(?<![\w-]){name}(?![\w-])"):
        for page in PAGES:
            if re.search(form, (HERE / f"{page}.md").read_text(), re.M):
                return page
    return None


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text):
    return f"`{text}`".replace("|", "\\|") if text else ""


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    dpexec, transform = build / "dpexec", build / "graph-transform"
    commands = [m[1] for m in (re.match(r"  ([a-z]+)  ", line) for line in help_of(dpexec)) if m]
    lists = {c: flags_of(help_of(dpexec, c)) for c in commands} | {"graph-transform": flags_of(help_of(transform))}
    texts = [t for p in pages() for t in code_of(p)[0] if "dpexec" in t or "graph-transform" in t]
    texts += [s for p in pages() for s in code_of(p)[1] if s.startswith("--")]
    groups, users = {}, {}
    for command, flags in lists.items():
        for group, flag, metavar, text, default in flags:
            shared = group not in ("This command", "Flags")
            title = group if shared else command if command == "graph-transform" else f"dpexec {command}"
            groups.setdefault(title, {}).setdefault(flag, (metavar, text, default))
            users.setdefault((title, flag), []).append(command)
    missing = sorted({f for g in groups.values() for f in g if f.startswith("--") and not explains(f)})
    have = {f for g in groups.values() for f in g} | {"--help", "--man", "--version"} | set(FOREIGN)
    gone = [(p.relative_to(ROOT), f) for p in pages() for f in sorted(named(p) - have)]
    out = [HEAD, "On this page:\n", ",\n".join(f"[{t}](#{t.lower().replace(' ', '-').replace(',', '')})" for t in groups), ".\n"]
    for title, flags in groups.items():
        out.append(f"\n## {title}\n\n| flag | what it does | default | example | commands | page |\n|---|---|---|---|---|---|\n")
        for flag, (metavar, text, default) in flags.items():
            who = [c for c in users[title, flag] if c != "resume" or "train" not in users[title, flag]]
            who = "all" if who == COMPUTE else ", ".join(who)
            page, gap = explains(flag) or "cli", " " if metavar and not metavar.startswith("[=") else ""
            out.append(f"| {code(flag + gap + metavar)} | {cell(text)} | {cell(default)} | {code(example_of(flag, metavar, texts))} |"
                       f" {who} | [{page}]({page}.md) |\n")
    sys.stdout.write("".join(out))
    for flag in missing:
        print(f"no page of docs/reference explains {flag}", file=sys.stderr)
    for page, flag in gone:
        print(f"{page}: no command has {flag}", file=sys.stderr)
    sys.exit(1 if missing or gone else 0)


if __name__ == "__main__":
    main()
