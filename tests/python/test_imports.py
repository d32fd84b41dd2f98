"""The modules of the package import each other one way, those within functions and for type checkers included."""
import ast
import graphlib
import pathlib
import unittest

import dpexec


def imported(file):
    """The modules of the package that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module.split(".")[0]] if node.module else [name.name for name in node.names]


class Imports(unittest.TestCase):
    def test_one_way(self):
        files = sorted(pathlib.Path(dpexec.__file__).parent.glob("*.py"))
        needs = {file.stem: set(imported(file)) for file in files if file.stem != "__init__"}
        self.assertIn("options", needs["trainer"])
        graphlib.TopologicalSorter(needs).prepare()     # CycleError names a circle
