#!/usr/bin/env python3
"""Makes this case: a Linear whose file returns a focal loss with a weight for each class, by the older exporter."""
import json
import pathlib

import numpy as np
import torch

HERE, CLASSES, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 6, 4, 6, 0.5


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(5, CLASSES)
        self.register_buffer("alpha", torch.tensor([0.25, 0.5, 0.75, 0.6, 0.3, 0.9]))

    def forward(self, x, label):
        scores = self.fc(x)
        p = scores.sigmoid()
        right = p * label + (1 - p) * (1 - label)
        alpha = self.alpha * label + (1 - self.alpha) * (1 - label)
        return scores, -(alpha * (1 - right) ** 2 * right.log()).mean()


torch.manual_seed(3)
net = Net()
x, label = torch.randn(BATCH * STEPS, 5), (torch.rand(BATCH * STEPS, CLASSES) > 0.6).float()
torch.onnx.export(net, (x, label), HERE / "model.onnx", dynamo=False, input_names=["x", "label"], output_names=["scores", "loss"],
                  dynamic_axes={"x": {0: "n"}, "label": {0: "n"}}, opset_version=17)
np.savez(HERE / "data.npz", x=x.numpy(), label=label.numpy())
net.double()
optimizer, losses = torch.optim.SGD(net.parameters(), LR), []
for i in range(0, len(x), BATCH):
    loss = net(x[i:i + BATCH].double(), label[i:i + BATCH].double())[1]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--loss", "output:loss", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR)]
(HERE / "expected.json").write_text(json.dumps({
    "model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "trained": ["fc.bias", "fc.weight"],
    "says": ["guessed to be constants: 'alpha'"], "source": "make.py"}, indent=1) + "\n")
