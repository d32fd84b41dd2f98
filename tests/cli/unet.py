"""A U-Net whose decoder resizes, trained by PyTorch 2.15 in float64.

Writes what tests/cli/unet.sh reads: unet/MODE.onnx, unet/data.npz and unet/torch.txt, the losses of 20 steps.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unet")


class UNet(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.how = {"mode": mode} if mode == "nearest" else {"mode": mode, "align_corners": mode == "bicubic"}

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

        self.a, self.b, self.middle = block(1, 6), block(6, 8), block(8, 8)
        self.d, self.e, self.out = block(16, 6), block(12, 6), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        m = self.middle(F.max_pool2d(b, 2))
        d = self.d(torch.cat([F.interpolate(m, size=b.shape[-2:], **self.how), b], 1))
        return self.out(self.e(torch.cat([F.interpolate(d, scale_factor=2, **self.how), a], 1)))


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((35, 1, 12, 12)), rng.integers(0, 3, (35, 12, 12))
    np.savez_compressed(os.path.join(HERE, "data.npz"), x=x, y=y)
    with open(os.path.join(HERE, "torch.txt"), "w") as out:
        for mode in "nearest", "bilinear", "bicubic":
            model = UNet(mode).double().train()
            torch.onnx.export(model, (torch.from_numpy(x[:5]),), os.path.join(HERE, mode + ".onnx"), input_names=["x"],
                              output_names=["out"], dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                              do_constant_folding=False, opset_version=17, dynamic_axes={"x": {0: "n"}, "out": {0: "n"}})
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            losses = []
            for step in range(20):
                i = step % 7 * 5
                loss = F.cross_entropy(model(torch.from_numpy(x[i:i + 5])), torch.from_numpy(y[i:i + 5]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(repr(loss.item()))
            print(mode, *losses, file=out)


main()
