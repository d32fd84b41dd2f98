#!/usr/bin/env python3
"""Writes formulas.txt: what the rows of kernels/formulas.def are at ordinary numbers, by mpmath with 60 digits, and at zeros,
infinities and NaN, by PyTorch in float64.

    tests/kernels/formulas.py > tests/kernels/formulas.txt

A line "op NAME ATTRIBUTES" begins a row; below it are lines "x y scale", of two operands "a b y scale".  A result may be wrong by
some units of the last place of |y| + scale: scale is how large the parts are that a sum of the formula is made of.
"""
import math
import operator

import mpmath
import torch
from mpmath import mp, mpf

mp.dps = 60
ONE = [1e-45, 1.2e-38, 1e-30, 1e-8, 3e-4, 0.1, 0.3, 0.5, 0.7, 1.0, 1.7, 2.5, 4.0, 9.0, 17.0, 30.0, 87.0, 104.0, 1e4, 1e30]
WIDE = [5e-324, 2e-308, 1e-100, 700.0, 1e300]          # float64 alone
EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan]


def f32(v):
    return torch.tensor(v, dtype=torch.float64).float().double().item()


NUMBERS = [s * v for v in [f32(v) for v in ONE] + WIDE for s in (1, -1)]
A = [f32(v) for v in (0.0, 1.5, -0.75, 3.25, -2.0, 1e-30, 2e10)]


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x)) if x > -1e6 else mpf(0)


def soft(x):
    return mpmath.log1p(mpmath.exp(x)) if x < 1e4 else x


def expm1(x):
    return mpmath.expm1(x) if x < 1e6 else mpf("inf")


def exp(x):
    return mpf(0) if x < -1e6 else mpf("inf") if x > 1e6 else mpmath.exp(x)


def tanh(x):
    return mpmath.tanh(x) if abs(x) < 1e4 else mpmath.sign(x)


def phi(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if abs(x) < 1e3 else mpf(x > 0)


def density(x):
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi) if abs(x) < 1e3 else mpf(0)


C = mpf(0.044715)                       # constants of Gelu as every framework has them, in float64
K = mpmath.sqrt(2 / mpmath.pi)


def gate(x):
    u = K * (x + C * x ** 3)
    return (1 + tanh(u)) / 2


def gate_slope(x):
    u = K * (x + C * x ** 3)
    return mpf(0) if abs(u) > 1e3 else (1 - tanh(u) ** 2) / 2 * K * (1 + 3 * C * x * x)


def clamp(x):
    return min(max(x, mpf(0)), mpf(1))


n = lambda x: 0
F = torch.nn.functional
# name, attributes, mpmath's, PyTorch's at edges (None: only ordinary numbers), scale, numbers (None: all)
UNARY = [
    ("Relu", "", lambda x: max(x, mpf(0)), F.relu, n, None),
    ("Sigmoid", "", sigmoid, torch.sigmoid, n, None),
    ("Tanh", "", tanh, torch.tanh, n, None),
    ("Gelu", "approximate=none", lambda x: x * phi(x), None, lambda x: abs(x) * (x < 0), None),
    ("Gelu", "approximate=tanh", lambda x: x * gate(x), None, lambda x: abs(x) * (x < 0), None),
    ("LeakyRelu", "alpha=0.125", lambda x: x if x >= 0 else x / 8, lambda x: F.leaky_relu(x, 0.125), n, None),
    ("ThresholdedRelu", "alpha=0.75", lambda x: x if x > 0.75 else mpf(0), lambda x: torch.where(x > 0.75, x, 0.0), n, None),
    ("Elu", "alpha=1.5", lambda x: x if x >= 0 else 1.5 * expm1(x), lambda x: F.elu(x, 1.5), n, None),
    ("Celu", "alpha=0.5", lambda x: x if x >= 0 else 0.5 * expm1(x / 0.5), lambda x: F.celu(x, 0.5), n, None),
    ("Selu", "alpha=1.5 gamma=1.25", lambda x: 1.25 * (x if x >= 0 else 1.5 * expm1(x)), lambda x: 1.25 * F.elu(x, 1.5), n, None),
    ("HardSigmoid", "alpha=0.25 beta=0.5", lambda x: clamp(x / 4 + 0.5), lambda x: (x / 4 + 0.5).clamp(0, 1), lambda x: 1, None),
    ("HardSwish", "", lambda x: x * clamp(x / 6 + 0.5), None, abs, None),
    ("Softplus", "", soft, lambda x: torch.log1p(torch.exp(-x.abs())) + F.relu(x), n, None),
    ("Softsign", "", lambda x: x / (1 + abs(x)), None, n, None),
    ("Mish", "", lambda x: x * tanh(soft(x)), None, n, None),
    ("Swish", "alpha=0.5", lambda x: x * sigmoid(x / 2), None, n, None),
    ("Shrink", "lambd=0.5 bias=0.25", lambda x: x + 0.25 if x < -0.5 else x - 0.25 if x > 0.5 else mpf(0), None,
     lambda x: 0.25, None),
    ("Neg", "", operator.neg, torch.neg, n, None),
    ("Abs", "", abs, torch.abs, n, None),
    ("Reciprocal", "", lambda x: 1 / x, torch.reciprocal, n, None),
    ("Sqrt", "", lambda x: mpmath.sqrt(x) if x >= 0 else mpf("nan"), torch.sqrt, n, None),
    ("Exp", "", exp, torch.exp, n, None),
    ("Log", "", lambda x: mpmath.log(x) if x > 0 else mpf("nan"), torch.log, n, None),
    ("Erf", "", lambda x: mpmath.erf(x) if abs(x) < 1e3 else mpmath.sign(x), torch.erf, n, None),
    ("Sin", "", lambda x: mpmath.sin(x), torch.sin, n, 1e4),
    ("Cos", "", lambda x: mpmath.cos(x), torch.cos, n, 1e4),
    ("Tan", "", lambda x: mpmath.tan(x), torch.tan, n, 1e4),
    ("Asin", "", lambda x: mpmath.asin(x) if abs(x) <= 1 else mpf("nan"), torch.asin, n, None),
    ("Acos", "", lambda x: mpmath.acos(x) if abs(x) <= 1 else mpf("nan"), torch.acos, n, None),
    ("Atan", "", mpmath.atan, torch.atan, n, None),
    ("Sinh", "", mpmath.sinh, torch.sinh, n, 700),
    ("Cosh", "", mpmath.cosh, torch.cosh, n, 700),
    ("Asinh", "", mpmath.asinh, torch.asinh, n, None),
    ("Acosh", "", lambda x: mpmath.acosh(x) if x >= 1 else mpf("nan"), torch.acosh, n, None),
    ("Atanh", "", lambda x: mpmath.atanh(x) if abs(x) < 1 else mpmath.sign(x) * mpf("inf") if abs(x) == 1 else mpf("nan"),
     torch.atanh, n, None),
    ("Sign", "", mpmath.sign, None, n, None),
    ("Ceil", "", mpmath.ceil, torch.ceil, n, None),
    ("Floor", "", mpmath.floor, torch.floor, n, None),
    ("Round", "", mpmath.nint, torch.round, n, None),
    ("IsNaN", "", lambda x: mpf(0), lambda x: torch.isnan(x).double(), n, None),
    ("IsInf", "detect_negative=1 detect_positive=0", lambda x: mpf(0), lambda x: torch.isneginf(x).double(), n, None),
    ("IsInf", "detect_negative=1 detect_positive=1", lambda x: mpf(0), lambda x: torch.isinf(x).double(), n, None),
]


def fmod(a, b):
    return a - b * (1 if a * b > 0 else -1) * mpmath.floor(abs(a / b)) if b else mpf("nan")


def test(f):
    return (lambda a, b: mpf(f(a, b)), lambda a, b: f(a, b).double())


z = lambda a, b: 0
BINARY = [
    ("ReluGrad", "", lambda a, b: a if b > 0 else mpf(0), None, z),
    ("ClipGrad", "min=-0.75 max=1.5", lambda a, b: a if -0.75 < b < 1.5 else mpf(0),
     lambda a, b: torch.where((b > -0.75) & (b < 1.5), a, 0.0), z),
    ("ClipGrad", "min=-inf max=1.5", lambda a, b: a if b < 1.5 else mpf(0), lambda a, b: torch.where(b < 1.5, a, 0.0), z),
    ("SigmoidGrad", "", lambda a, b: a * b * (1 - b), None, lambda a, b: abs(a * b)),
    ("TanhGrad", "", lambda a, b: a * (1 - b * b), None, lambda a, b: abs(a) * (1 + b * b)),
    ("GeluGrad", "approximate=none", lambda a, b: a * (phi(b) + b * density(b)), None,
     lambda a, b: abs(a) * (1 + abs(b)) * (b < 0)),
    ("GeluGrad", "approximate=tanh", lambda a, b: a * (gate(b) + b * gate_slope(b)), None,
     lambda a, b: abs(a) * (1 + min(abs(b), 8)) * (b < 0)),
    ("Add", "", operator.add, operator.add, z),
    ("Sub", "", operator.sub, operator.sub, z),
    ("Mul", "", operator.mul, operator.mul, z),
    ("Div", "", lambda a, b: a / b if b else a * mpf("inf"), operator.truediv, z),
    ("PRelu", "", lambda a, b: a if a >= 0 else a * b, lambda a, b: torch.where(a < 0, a * b, a), z),
    ("Mod", "fmod=1", fmod, torch.fmod, z),
    ("Max", "", max, torch.maximum, z),
    ("Min", "", min, torch.minimum, z),
    ("Equal", "", *test(operator.eq), z),
    ("Greater", "", *test(operator.gt), z),
    ("Less", "", *test(operator.lt), z),
    ("GreaterOrEqual", "", *test(operator.ge), z),
    ("LessOrEqual", "", *test(operator.le), z),
]


def double(y):
    return y.hex() if (y := float(y)) == y else "nan"


def main():
    print("# Written by tests/kernels/formulas.py.")
    for name, attributes, f, edges, scale, most in UNARY:
        print(f"op {name} {attributes}".rstrip())
        for x in NUMBERS:
            if most is None or abs(x) <= most:
                print(x.hex(), double(f(mpf(x))), f"{float(scale(x)):.3g}")
        for x in EDGES if edges else []:
            print(x.hex(), double(edges(torch.tensor(x, dtype=torch.float64))), 0)
    for name, attributes, f, edges, scale in BINARY:
        print(f"op {name} {attributes}".rstrip())
        slopes = name in ("SigmoidGrad", "TanhGrad")
        second = [f32(v) for v in (0.0, 1e-30, 0.25, 0.5, 0.999, 1.0, -0.5)] if slopes else None
        if name in ("ReluGrad", "GeluGrad"):
            second = [v for v in NUMBERS if abs(v) < 1e30]
        for a in A[1:4] if second else A:
            for b in second or A:
                print(a.hex(), b.hex(), double(f(mpf(a), mpf(b))), f"{float(scale(a, b)):.3g}")
        for a in EDGES + [2.0] if edges else []:
            for b in EDGES + [-3.0]:
                print(a.hex(), b.hex(), double(edges(torch.tensor(a).double(), torch.tensor(b).double())), 0)


main()
