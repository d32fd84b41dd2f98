#!/usr/bin/env python3
"""Finds faults of the pages: links to a file or a heading that is not there, pages of docs/ that no other page links to, and long pages of
docs/ without a table of contents (a link to each of their main headings).

    tests/links.py          prints each as a line, FILE:LINE: what is wrong; nothing when all is well
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONG = 100      # lines: two screens
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def pages():
    """README, CONTRIBUTING and all other Markdown files of the tree; a tree without git is searched."""
    listed = []
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    found = [*ROOT.glob("*.md"), *(p for folder in ("docs", "bench", "models", "python", "tests") for p in (ROOT / folder).rglob("*.md"))]
    return listed or [str(p.relative_to(ROOT)) for p in found]


def blank(match):
    return "\n" * match[0].count("\n")


@functools.cache
def anchors(page, level="#+"):
    """The anchors of a page's headings, as GitHub makes them; a second heading of the same text ends with -1."""
    seen, found = {}, set()
    for heading in re.findall(rf"^{level} +(.*?)\s*$", FENCE.sub(blank, (ROOT / page).read_text()), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return found


def main():
    linked = {"README.md", "CONTRIBUTING.md"}
    for page in pages():
        text = FENCE.sub(blank, (ROOT / page).read_text())
        for link in re.finditer(r"\]\(([^()\s]+)\)", text):
            place = f"{page}:{text.count(chr(10), 0, link.start()) + 1}"
            if re.match(r"[a-z]+:", link[1]):
                continue
            path, _, anchor = link[1].partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if target != page:
                linked.add(target)
            if not (ROOT / target).exists():
                print(f"{place}: there is no {target}")
            elif anchor and target.endswith(".md") and anchor not in anchors(target):
                print(f"{place}: {target} has no heading #{anchor}")
    for page in (p for p in pages() if p.startswith("docs/")):
        text = (ROOT / page).read_text()
        lacking = [a for a in sorted(anchors(page, "##")) if f"](#{a})" not in text]
        if page not in linked:
            print(f"{page}: no page links to it")
        if text.count("\n") > LONG and lacking and len(anchors(page, "##")) > 1:
            print(f"{page}: no table of contents with {', '.join(lacking)}")


if __name__ == "__main__":
    main()
