"""What the tests share: a folder, a small MLP with data, and the program dpexec."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import dpexec


class Case(unittest.TestCase):
    """Has self.folder, an MLP self.mlp (input x [N, 5], output logits [N, 3]) and samples self.x, self.y of it."""

    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = pathlib.Path(held.name)
        cls.mlp = dpexec.new("mlp", cls.folder / "mlp.onnx", inputs=5, classes=3, layers=1, width=16)
        draw = np.random.default_rng(7)
        cls.x = draw.normal(size=(203, 5)).astype(np.float32)
        cls.y = (cls.x @ draw.normal(size=(5, 3))).argmax(1)
        np.savez(cls.folder / "data.npz", x=cls.x, target=cls.y)
        np.savez(cls.folder / "val.npz", x=cls.x[:50], target=cls.y[:50])

    def program(self, *arguments):
        """Runs dpexec, which must succeed."""
        done = subprocess.run([os.environ["DPEXEC_PROGRAM"], *map(str, arguments)], capture_output=True, text=True,
                              check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, kind, text, call, *arguments, **options):
        """The call must raise an exception of a kind with one line that contains a text."""
        with self.assertRaises(kind) as caught:
            call(*arguments, **options)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
