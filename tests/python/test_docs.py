"""The pieces of docs/reference/python.md run, one after another, and print what their comments say."""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import tempfile
import unittest

page = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "python.md"


class Pieces(unittest.TestCase):
    def test_they_run(self):
        pieces = re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.S | re.M)
        self.assertGreaterEqual(len(pieces), 7)
        names, out, before = {}, io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self.addCleanup(os.chdir, before)
            for piece in pieces:
                needs = [m for m in ("sklearn", "torch") if re.search(rf"^(import|from) {m}\b", piece, flags=re.M)]
                if any(importlib.util.find_spec(m) is None for m in needs):
                    continue
                with contextlib.redirect_stdout(out):
                    exec(compile(piece, str(page), "exec"), names)
            os.chdir(before)
        said = re.findall(r"# (<dpexec .*>)$", pieces[0], flags=re.M)
        self.assertEqual(out.getvalue().splitlines()[0], said[0])
