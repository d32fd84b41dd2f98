#!/usr/bin/env python3
"""Makes this case: a parameter whose only way to the loss is through round(), whose derivative is zero: fixed, and said."""
import json
import pathlib

import numpy as np
import torch

HERE, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 4, 5, 0.2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(5, 4)
        self.weight = torch.nn.Parameter(torch.randn(3, 4) * 2)

    def forward(self, x):
        return self.fc(x).tanh() @ torch.round(self.weight).t()


torch.manual_seed(4)
net = Net()
x, target = torch.randn(BATCH * STEPS, 5), torch.randn(BATCH * STEPS, 3)
torch.onnx.export(net, (x,), HERE / "model.onnx", dynamo=True, optimize=False, external_data=False, input_names=["x"], output_names=["y"],
                  dynamic_shapes=({0: torch.export.Dim("n")},))
np.savez(HERE / "data.npz", x=x.numpy(), target=target.numpy())
net.double()
optimizer, losses = torch.optim.SGD(net.parameters(), LR), []
for i in range(0, len(x), BATCH):
    loss = ((net(x[i:i + BATCH].double()) - target[i:i + BATCH].double()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--loss", "mse", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR)]
(HERE / "expected.json").write_text(json.dumps({
    "model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "trained": ["fc.bias", "fc.weight"],
    "says": ["weight: shape [3,4]: not trained: the path to the loss ends at Round"], "source": "make.py"}, indent=1) + "\n")
