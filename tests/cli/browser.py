"""Opens pages and pictures in headless Chromium, and asserts what tests/cli/browser.js measures there.

    browser.py text FOLDER FILE...      no text overlaps, is cut off, leaves its box or lacks contrast: wide, narrow, light and dark
    browser.py opening FOLDER FILE      a page of 10,000 nodes is there within 2 s
    browser.py fault FOLDER FILE        the measurement finds faults that are put into the page
"""
import html, json, pathlib, re, subprocess, sys

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files", "--hide-scrollbars", "--dump-dom"]


def dumped(folder, page, *flags):
    """What the page's script wrote into <pre id=measured>."""
    command = ["chromium", *FLAGS, f"--user-data-dir={folder}/profile", *flags, page.resolve().as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.S)
    assert found, f"{page}: nothing was measured: {dom[:300]}"
    return json.loads(html.unescape(found[1]))


def measured(folder, files, dark):
    frames = []
    for file in files:
        kind = "report" if "report" in file.name else "picture" if file.suffix == ".html" else "svg"
        if kind == "svg":       # within a page, as one can look into it there
            page = folder / f"{file.stem}-svg.html"
            page.write_text(f"<!DOCTYPE html><meta charset=utf-8><body style='margin: 0'>{file.read_text()}")
            file = page
        for width in (1280,) if kind == "svg" else (1280, 420):
            frames.append(f'<iframe title="{file.name}" data-kind="{kind}" width="{width}" height="900" src="{file.resolve().as_uri()}"></iframe>')
    page = folder / "frames.html"
    page.write_text("<!DOCTYPE html><meta charset=utf-8><body>" + "".join(frames) + "<script>" + pathlib.Path("tests/cli/browser.js").read_text() + "</script>")
    out = dumped(folder, page, f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,1000")
    assert out["dark"] == dark, "the browser takes no colour scheme"
    return out


def text(folder, *files):
    for file in files:
        for dark in (False, True) if file.suffix == ".html" else (False,):
            out = measured(folder, [file], dark)
            assert not out["faults"], f"{len(out['faults'])} faults{' on dark' if dark else ''}:\n" + "\n".join(out["faults"][:40])
            assert all(n >= 5 for n in out["told"].values()), out["told"]
            print(out["told"])


def opening(folder, file):
    page = folder / "timed.html"
    page.write_text(file.read_text() + """<script>addEventListener('load', () => {
      const opened = performance.now(), out = document.createElement('pre');
      document.body.offsetHeight;
      const nodes = N.length, t = performance.now();
      setAll(true);
      document.body.offsetHeight;
      out.id = 'measured';
      out.textContent = JSON.stringify({ nodes, opened, all: performance.now() - t });
      document.body.append(out);
    });</script>""")
    tries = []
    while len(tries) < 3 and (not tries or tries[-1]["opened"] >= 2000):        # other tests run beside it
        tries.append(dumped(folder, page, "--window-size=1280,900"))
    print(tries)
    assert tries[-1]["nodes"] >= 10000 and tries[-1]["opened"] < 2000, tries


def fault(folder, file):
    for old, new, name in (("text-overflow: ellipsis", "text-overflow: clip", "cut off"), (".card > div {", ".card > div { white-space: nowrap; overflow: visible; height: 4px;", "overlap"),
                           ("--soft: #505870", "--soft: #c8ccd8", "contrast")):
        page = folder / f"{name.replace(' ', '-')}.html"
        source = file.read_text()
        assert old in source, old
        page.write_text(source.replace(old, new))
        out = measured(folder, [page], False)
        assert any(name in f for f in out["faults"]), (name, out["faults"][:5])
    picture = file.with_suffix(".svg").read_text()
    page = folder / "wide.svg"
    page.write_text(re.sub(r'(<text [^>]*font-weight="bold"[^>]*>)(?!gpt)', r"\1" + "wide " * 40, picture))
    out = measured(folder, [page], False)
    assert any("leaves its box" in f for f in out["faults"]), out["faults"][:5]


what, folder, *files = sys.argv[1:]
{"text": text, "opening": opening, "fault": fault}[what](pathlib.Path(folder), *map(pathlib.Path, files))
