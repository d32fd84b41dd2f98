"""A small report of a run as HTML: curves of the losses and metrics, and their last values."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from .history import History

_COLORS = {"train": "#2a6fbb", "eval": "#d1495b", "": "#9db7d5"}
_WIDTH, _HEIGHT, _LEFT, _BELOW = 360, 200, 52, 24


def _line(x: np.ndarray, y: np.ndarray, box: tuple[float, float, float, float], color: str) -> str:
    x0, x1, y0, y1 = box
    fine = np.isfinite(y)
    across = _LEFT + (x[fine] - x0) / (x1 - x0 or 1) * (_WIDTH - _LEFT - 8)
    down = 8 + (y1 - y[fine]) / (y1 - y0 or 1) * (_HEIGHT - _BELOW - 8)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down))
    return f'<polyline fill="none" stroke="{color}" stroke-width="1.6" points="{points}"/>'


def _curve(name: str, lines: list[tuple[str, np.ndarray, np.ndarray]]) -> str:
    """A picture of one figure over the steps; lines: (kind, steps, values)."""
    finite = np.concatenate([y[np.isfinite(y)] for _, _, y in lines])
    steps = np.concatenate([x for _, x, _ in lines])
    if not len(finite):
        return ""
    box = (float(steps.min()), float(steps.max()), float(finite.min()), float(finite.max()))
    drawn = "".join(_line(x, y, box, _COLORS[kind]) for kind, x, y in lines)
    text = (f'<text x="4" y="16">{box[3]:.4g}</text><text x="4" y="{_HEIGHT - _BELOW}">{box[2]:.4g}</text>'
            f'<text x="{_LEFT}" y="{_HEIGHT - 6}">step {box[0]:.0f}</text>'
            f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end">{box[1]:.0f}</text>')
    keys = ", ".join(f'<span style="color:{_COLORS[k]}">{k or "each batch"}</span>' for k, _, _ in lines)
    return (f'<figure style="display:inline-block;margin:8px"><figcaption>{html.escape(name)}: {keys}</figcaption>'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
            f'font-size="11" fill="currentColor" role="img" aria-label="{html.escape(name)} over steps">'
            f'<rect x="{_LEFT}" y="8" width="{_WIDTH - _LEFT - 8}" height="{_HEIGHT - _BELOW - 8}" fill="none" '
            f'stroke="#bbb"/>{drawn}{text}</svg></figure>')


def page_of(h: History, facts: Sequence[tuple[str, str]]) -> str:
    """The report, a fragment of HTML that needs nothing else.  facts: names and texts, the first rows of its table."""
    names = dict.fromkeys(n.split("_", 1)[1] for n in h if n.startswith(("train_", "eval_")) and n[-5:] != "_step")
    curves = []
    for name in names or ["loss"]:
        lines = [("", h["step"], h["loss"])] if name == "loss" and "loss" in h else []
        lines += [(kind, h[f"{kind}_step"], h[f"{kind}_{name}"]) for kind in ("train", "eval") if f"{kind}_{name}" in h]
        lines = [(k, np.asarray(x, float), np.asarray(y, float)) for k, x, y in lines if y.dtype != object]
        curves.append(_curve(name, lines) if lines else "")
    rows = [*facts]
    rows += [(n.replace("_", " ", 1), f"{h[n][-1]:.6g}") for n in h
             if n.startswith(("train_", "eval_")) and n[-5:] != "_step" and h[n].dtype != object]
    table = "".join(f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>"
                    for k, v in rows)
    return f"<div class='dpexec-run'>{''.join(curves)}<table>{table}</table></div>"
