#!/usr/bin/env python3
"""Published scaling of ResNet-50 beside what graph-transform --simulate says of the same machines.  Needs numpy.

    bench/published.py [--build build]

Source: "Benchmarks" of TensorFlow's guide (tensorflow/docs_src/performance/benchmarks.md of its repository, May 2017): training with
synthetic data, float32, 64 images a GPU.  bench/clusters/ describes the machines.  Taken from the page is the rate of one GPU; all else is
from data sheets: 10.6 (P100) and 4.37 (half a K80) TFLOP/s, 732 and 240 GB/s; PCI Express 3.0 x16 with 15.75 GB/s, over which all of
these runs exchanged (variable_update parameter_server or replicated without NCCL); 10 Gbit/s between p2.8xlarge instances.  The page's
distributed runs had variable_update distributed_replicated and cross_replica_sync, of which the guide's "High-Performance Models" says
that gradients go to the parameter servers as they are made, hidden by what is computed later, and that variables are fetched after a
barrier of all workers, which ends the step: "overlap": "sums".  Batch-norm is local, as it was there.  Nothing is fitted.  The script
fails when a row is off by more than 15 %.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import gpu_models                                                       # noqa: E402

LIMIT = 0.15
PUBLISHED = {   # images a second by GPUs
    "dgx1_p100": {1: 219, 2: 422, 4: 852, 8: 1734},
    "p2_8xlarge": {1: 51.5, 2: 98.0, 4: 195, 8: 384},
    "p2_8xlarge_8": {1: 52.4, 8: 378, 16: 751, 32: 1388, 64: 2744},
}
STEP = ["--loss", "cross-entropy", "--optimizer", "sgd", "--bn", "local", "--batch-size", "64", "--shard", "none"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    args = p.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        model = gpu_models.resnet50(**gpu_models.CASES["resnet50"]["full"]).save(pathlib.Path(folder) / "resnet50.onnx")
        for name, published in PUBLISHED.items():
            cluster = ROOT / "bench" / "clusters" / f"{name}.json"
            found = json.loads(subprocess.run([args.build / "graph-transform", model, *STEP, "--simulate", cluster, "--json"],
                                              check=True, stdout=subprocess.PIPE).stdout)
            rates = {r["devices"]: r["samples_per_second"] for r in found["rows"]}
            print(f"\n{found['cluster']}\n{'GPUs':>6}{'published':>12}{'simulated':>12}{'off by':>9}")
            for n, rate in published.items():
                off = rates[n] / rate - 1
                wrong += abs(off) > LIMIT
                print(f"{n:6}{rate:12.1f}{rates[n]:12.1f}{100 * off:8.1f} %")
    print(f"\n{wrong} rows are off by more than {100 * LIMIT:.0f} %" if wrong else "\nall within 15 %")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
