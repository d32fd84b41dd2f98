#!/usr/bin/env python3
"""Makes this case: a Linear whose file returns BCEWithLogitsLoss(pos_weight=), by the default exporter, which folds pos_weight."""
import json
import pathlib

import numpy as np
import torch

HERE, CLASSES, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 6, 4, 6, 0.5


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(5, CLASSES)
        self.crit = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1, 2, 0.5, 3, 4, 0.25]))

    def forward(self, x, label):
        scores = self.fc(x)
        return scores, self.crit(scores, label)


torch.manual_seed(3)
net = Net()
x, label = torch.randn(BATCH * STEPS, 5), (torch.rand(BATCH * STEPS, CLASSES) > 0.6).float()
n = torch.export.Dim("n")
torch.onnx.export(net, (x, label), HERE / "model.onnx", dynamo=True, external_data=False, input_names=["x", "label"],
                  output_names=["scores", "loss"], dynamic_shapes=({0: n}, {0: n}))
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
    "unsaid": ["guessed to be constants: 'sub'"], "source": "make.py"}, indent=1) + "\n")
