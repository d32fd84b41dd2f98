"""The page from-onnxruntime-training.md: its new lines give what the old ones gave in ONNX Runtime 1.19.2.

tests/oracle/onnxruntime_training.py ran the old ones and stored what they gave.
"""
import json
import os
import sys

import numpy as np
import onnxruntime

import dpexec
from cases import Case

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(root, "tests", "oracle"))
import onnxruntime_training as old      # noqa: E402

found = json.loads(old.stored.read_text())


class OldAndNew(Case):
    def near(self, new, want, what, rtol=1e-5, atol=1e-6):
        np.testing.assert_allclose(old.summary(new), want, rtol, atol, err_msg=what)

    def test_the_lines_of_the_page(self):
        names, before = {"np": np}, os.getcwd()
        names["x"], names["y"] = old.batch(0)
        os.symlink(old.root / "models" / "mlp.onnx", self.folder / "net.onnx")
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        code = old.cells("Python", 1)
        self.assertGreater(len(code), 15)
        exec("\n".join(code), names)
        self.assertEqual(names["note"], "epoch 3")
        for name in ("loss", "gradient", "rate", "value", "bias", "buffer"):
            self.near(names[name], found["page"][name], name)
        session = onnxruntime.InferenceSession("inference.onnx", providers=["CPUExecutionProvider"])
        self.near(session.run(None, {"x": names["x"]})[0], found["page"]["scores"], "scores")

    def test_every_loss_and_optimizer(self):
        self.assertEqual(len(found["cases"]), 8)
        for case in found["cases"]:
            t, losses = dpexec.Trainer(old.root / "models" / "mlp.onnx", threads=1, **case["options"]), []
            classes = case["options"]["loss"] == "cross-entropy"
            for k in range(old.STEPS):
                losses.append(t.step(old.batch(k, classes)).loss)
            name = f"{case['options']}"
            self.near(losses, case["losses"], name)
            self.near(t.evaluate(old.batch(old.STEPS, classes))["loss"], case["evaluation"], name)
            self.near(t.state["fc1.weight"], case["weights"], name, atol=1e-5)
