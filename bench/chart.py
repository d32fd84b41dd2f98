#!/usr/bin/env python3
"""Draws docs/speed.svg: the time of a training step beside PyTorch's, from measurements in bench/results.

    bench/chart.py >docs/speed.svg
"""
import json
import pathlib
import statistics

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
NAMES = {"mlp": "MLP", "fashion_cnn": "small CNN", "resnet20": "ResNet-20", "lstm": "LSTM", "gpt_ntv": "GPT, logits [N,T,V]",
         "gpt_nvt": "GPT, logits [N,V,T]", "resnet18": "ResNet-18", "mobilenet_v2": "MobileNetV2", "unet128": "U-Net", "vgg11_bn": "VGG-11-BN",
         "convnext_tiny": "ConvNeXt-T", "vit_b_16": "ViT-B/16", "gpt2": "GPT-2 124M", "resnet50": "ResNet-50", "vit": "ViT-B/16",
         "bert": "BERT-base"}
LEFT, BAR, WIDTH, ROW = 150, 420, 720, 24


def cpu():
    """Against PyTorch's best layout; medians of the rounds."""
    found = []
    for model in json.loads((RESULTS / "cpu-2026-12-01-native.json").read_text())["models"]:
        ms = {who: statistics.median(r["ms"] for r in rounds) for who, rounds in model["rounds"].items()}
        found.append((NAMES[model["model"]], ms["dpexec"] / min(ms[who] for who in ("eager", "channels_last") if who in ms)))
    return found


def gpu():
    """Without --tune, against torch.compile; medians of the rounds."""
    found = []
    for name, case in json.loads((RESULTS / "nvidia-h100-80gb-hbm3-2026-11-27.json").read_text())["cases"].items():
        ms = {who: c["ms"] for who, c in case["contestants"].items()}
        if "compile" in ms:
            found.append((NAMES[name], ms["dpexec"] / ms["compile"]))
    return found


def bars(title, rows, y):
    """-> (lines of SVG, the height below them)."""
    out = [f'<text x="0" y="{y + 14}" class="title">{title}</text>']
    for i, (name, ratio) in enumerate(rows):
        top = y + 28 + ROW * i
        out += [f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{name}</text>',
                f'<rect x="{LEFT}" y="{top}" width="{ratio * BAR:.0f}" height="17" rx="2" class="bar"/>',
                f'<text x="{LEFT + ratio * BAR - 6:.0f}" y="{top + 13}" text-anchor="end" class="ratio">{ratio:.2f}</text>']
    bottom = y + 28 + ROW * len(rows)
    out += [f'<line x1="{LEFT + BAR}" y1="{y + 22}" x2="{LEFT + BAR}" y2="{bottom}" class="one"/>',
            f'<text x="{LEFT + BAR + 6}" y="{y + 20}">PyTorch = 1</text>']
    return out, bottom


def main():
    first, y = bars("Two CPU threads, float32: time of a step (PyTorch 2.15, eager, its best layout)", cpu(), 0)
    second, y = bars("One H100, bfloat16: time of a step (PyTorch 2.11, torch.compile)", gpu(), y + 20)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" width="{WIDTH}" role="img" '
          'aria-label="Time of a training step, as a fraction of PyTorch\'s">')
    print("<style>text{font:13px sans-serif;fill:#24292f}.title{font-weight:bold}.bar{fill:#2f6fb3}.ratio{fill:#fff}.one{stroke:#888;stroke-dasharray:4 3}"
          "@media(prefers-color-scheme:dark){text{fill:#d0d7de}.ratio{fill:#fff}.bar{fill:#3f7fc4}}</style>")
    print("\n".join(first + second) + "\n</svg>")


if __name__ == "__main__":
    main()
