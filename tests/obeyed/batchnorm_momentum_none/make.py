#!/usr/bin/env python3
"""Makes this case and batchnorm_momentum_none_train: BatchNorm2d(momentum=None), the mean of all batches, which ONNX cannot say.

An export of eval() has momentum 1, one for training momentum 0."""
import json
import pathlib

import numpy as np
import torch

HERE, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 4, 4, 0.2
for folder, mode, says in (
        (HERE, torch.onnx.TrainingMode.EVAL, "has momentum 1: its running statistics never follow the batches"),
        (HERE.parent / "batchnorm_momentum_none_train", torch.onnx.TrainingMode.TRAINING,
         "has momentum 0: its running statistics are those of the last batch alone")):
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3, momentum=None))
    x, target = torch.randn(BATCH * STEPS, 2, 3, 3), torch.randn(BATCH * STEPS, 3, 3, 3)
    torch.onnx.export(net, (x,), folder / "model.onnx", dynamo=False, training=mode, do_constant_folding=False, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "n"}}, opset_version=17)
    np.savez(folder / "data.npz", x=x.numpy(), target=target.numpy())
    net.double().train()
    optimizer, losses = torch.optim.SGD(net.parameters(), LR), []
    for i in range(0, len(x), BATCH):
        loss = ((net(x[i:i + BATCH].double()) - target[i:i + BATCH].double()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flags = ["--loss", "mse", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR)]
    (folder / "expected.json").write_text(json.dumps({
        "model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "says": [says],
        "source": "batchnorm_momentum_none/make.py"}, indent=1) + "\n")
