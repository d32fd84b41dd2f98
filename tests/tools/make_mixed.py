"""Writes tests/tools/mixed_values.h: what torchvision.transforms.v2's MixUp and CutMix make of two small images, for given draws.

Needs torchvision 0.29.
"""
import pathlib

import torch
from torchvision.transforms import v2

HEIGHT, WIDTH, CLASSES = 5, 7, 4
generator = torch.Generator().manual_seed(1)
images, labels = torch.randn(2, 2, HEIGHT, WIDTH, generator=generator), torch.tensor([2, 1])


class Fixed:
    """A distribution that gives one number."""

    def __init__(self, number):
        self.number = number

    def sample(self, shape):
        return torch.tensor(self.number)


def mixed(transform, own, x=0, y=0):
    transform._dist = Fixed(own)
    drawn = iter([x, y])
    randint, torch.randint = torch.randint, lambda *a, **k: torch.tensor([next(drawn)])
    pixels, shares = transform(images, labels)
    torch.randint = randint
    return pixels[0], shares[0]


def row(t):
    return ", ".join(float(v).hex() + "f" for v in t.flatten())


cases = [(v2.MixUp(num_classes=CLASSES), 0, own, 0, 0) for own in (0.5, 0.8125, 0.03)]
cases += [(v2.CutMix(num_classes=CLASSES), 1, *how) for how in ((0.5, 3, 2), (0.25, 0, 4), (0.9, 6, 0), (0.99, 3, 3), (0.0, 1, 1))]
text = f"""/* Written by tests/tools/make_mixed.py with torchvision 0.29: mixed images [2,{HEIGHT},{WIDTH}] of two, and their labels. */
#include <stdbool.h>
#include <stdint.h>

enum {{ MIXED_CHANNELS = 2, MIXED_HEIGHT = {HEIGHT}, MIXED_WIDTH = {WIDTH}, MIXED_CLASSES = {CLASSES}, MIXED_PIXELS = {images[0].numel()} }};
static const float mixed_image[2][MIXED_PIXELS] = {{ {{ {row(images[0])} }}, {{ {row(images[1])} }} }};
static const int64_t mixed_label[2] = {{ 2, 1 }};
static const struct {{
    bool cut;
    double own; /* as it is drawn; around pixel (x, y) */
    int x, y;
    float pixel[MIXED_PIXELS], shares[MIXED_CLASSES];
}} mixed[] = {{
"""
for transform, cut, own, x, y in cases:
    pixels, shares = mixed(transform, own, x, y)
    text += f"    {{ {cut}, {float(torch.tensor(own)).hex()}, {x}, {y}, {{ {row(pixels)} }}, {{ {row(shares)} }} }},\n"
(pathlib.Path(__file__).parent / "mixed_values.h").write_text(text + "};\n")
