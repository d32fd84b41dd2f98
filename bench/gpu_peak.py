"""What PyTorch says of the machine: the device, and how fast it multiplies matrices, as JSON."""
import json
import statistics
import sys

import torch

SIZE, REPEAT = 8192, 15


def matmul_tflops(dtype):
    """Random data, the median of REPEAT products; of float32 without TF32, as PyTorch is unless told otherwise."""
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=dtype) for _ in range(2))
    seconds = []
    for i in range(-5, REPEAT):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        a @ b
        end.record()
        end.synchronize()
        if i >= 0:
            seconds.append(start.elapsed_time(end) * 1e-3)
    return 2 * SIZE ** 3 / statistics.median(seconds) * 1e-12


look = "--look" in sys.argv     # measures nothing
cuda = torch.cuda.is_available()
peaks = {name: matmul_tflops(getattr(torch, name)) for name in ("bfloat16", "float32")} if cuda and not look else {}
print(json.dumps({"device": torch.cuda.get_device_name() if cuda else "", "torch": torch.__version__, "torch_cuda": torch.version.cuda,
                  "can_compile": cuda and hasattr(torch, "compile"), "matmul_tflops": peaks}))
