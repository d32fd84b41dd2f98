"""Writes people.csv, models that take its columns in several forms, and the losses that NumPy computes for them: columns.py FOLDER.

losses.txt has a line for each: MODEL LOSS VALUE OPTIONS-OF-CSV [FLAG...].  Needs Debian's python3-numpy and python3-onnx.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

folder = sys.argv[1]
rng = np.random.default_rng(11)
N, USERS = 24, 7
FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


def model(name, nodes, inputs, width, **weights):
    weights = {k: np.asarray(w, np.int64 if np.asarray(w).dtype == np.int64 else np.float32) for k, w in weights.items()}
    graph = helper.make_graph([helper.make_node(op, i.split(), o.split(), **more) for op, i, o, more in nodes], name,
                              [helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in inputs.items()],
                              [helper.make_tensor_value_info("y", FLOAT, ["N", *width])],
                              [numpy_helper.from_array(w, k) for k, w in weights.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), f"{folder}/{name}.onnx")


def standardised(*columns):
    x = np.array(columns, float).T
    return (x - x.mean(0)) / x.std(0)


def losses(y, target):
    """The losses of outputs y, by their names."""
    log_p = y - y.max(-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    return {"mse": np.mean((y - target) ** 2) if y.shape == target.shape else None,
            "l1": np.mean(np.abs(y - target)) if y.shape == target.shape else None,
            "bce-logits": np.mean(np.logaddexp(0, y) - y * target) if y.shape == target.shape else None,
            "cross-entropy": -np.mean(log_p[np.arange(N), target.astype(int)]) if target.ndim == 1 and y.ndim == 2 else None}


def main():
    age, size = rng.integers(18, 80, N), rng.normal(60, 20, N).round(1)
    user, city = rng.integers(0, USERS, N), rng.choice(["Oslo", "Bergen", "NA", "Å"], N)
    price, rent = (size * 2 + age).round(1), (size / 3 - age).round(1)
    owns, grade = rng.choice(["no", "yes"], N), rng.choice([0, 2, 4], N)
    columns = {"age": age, "size": size, "user": user, "city": city, "price": price, "rent": rent, "owns": owns, "grade": grade}
    with open(f"{folder}/people.csv", "w", encoding="utf-8") as f:
        f.writelines(",".join(map(str, row)) + "\n" for row in [columns, *zip(*columns.values())])

    x, w = standardised(age, size), {n: rng.normal(0, 0.5, (2, n)) for n in (1, 2, 10)}
    linear = [("MatMul", "x w", "y", {})]
    for n, name in (1, "one"), (2, "two"), (10, "ten"):
        model(name, linear, {"x": (FLOAT, ["N", 2])}, [n], w=w[n])
    model("flat", [("MatMul", "x w", "h", {}), ("Squeeze", "h last", "y", {})], {"x": (FLOAT, ["N", 2])}, [], w=w[1], last=np.array([1]))
    names = sorted(set(city) - {"NA"}, key=str.encode)
    place = np.array([0 if c == "NA" else 1 + names.index(c) for c in city])
    tables = [rng.normal(size=(rows, 3)) for rows in (USERS, 4)]
    v = rng.normal(size=(8, 1))
    embed = [("Gather", "users user", "u", {}), ("Gather", "cities city", "c3", {}), ("Squeeze", "c3 middle", "c", {}),
             ("Concat", "u c rest", "x", {"axis": 1}), ("MatMul", "x v", "y", {})]
    model("embed", embed, {"user": (INT64, ["N"]), "city": (INT32, ["N", 1]), "rest": (FLOAT, ["N", 2])}, [1], users=tables[0],
          cities=tables[1], v=v, middle=np.array([1]))
    embedded = np.concatenate([tables[0][user], tables[1][place], x], 1) @ v
    model("ids", [("Cast", "x", "f", {"to": FLOAT}), ("MatMul", "f w", "y", {})], {"x": (INT64, ["N", 2])}, [1], w=w[1])
    model("same_ids", [("Cast", "x", "y", {"to": FLOAT})], {"x": (INT64, ["N", 2])}, [2])
    model("five", [("Gather", "t x", "e", {}), ("Squeeze", "e middle", "h", {}), ("MatMul", "h w", "y", {})], {"x": (INT64, ["N", 1])}, [1],
          t=rng.normal(size=(5, 2)), w=w[1], middle=np.array([1]))
    np.savetxt(f"{folder}/ids.txt", np.array([user, place]).T, "%d")
    np.savez(f"{folder}/flat.npz", x=x.astype("f4"), target=price)
    np.savez(f"{folder}/column.npz", x=x.astype("f4"), target=price[:, None])

    only = "drop=user+city+owns+grade"
    say = open(f"{folder}/losses.txt", "w")
    say = lambda name, loss, y, target, *how, file=say: print(name, loss, repr(float(losses(y, target)[loss])), *how, file=file)
    y = {n: x @ w[n] for n in w}
    for name, target in ("one", price[:, None]), ("flat", price):
        for loss in "mse", "l1":
            say(name, loss, y[1].reshape(target.shape), target, f"people.csv,target=price,{only}+rent")
        for data in "flat.npz", "column.npz":
            say(name, "mse", y[1].reshape(target.shape), target, data)
    for name, shape in ("one", (N, 1)), ("flat", (N,)):
        say(name, "bce-logits", y[1].reshape(shape), (owns == "yes").astype(float).reshape(shape),
            "people.csv,target=owns,drop=user+city+price+rent+grade")
    say("two", "mse", y[2], np.array([price, rent]).T, f"people.csv,target=price+rent,{only}")
    say("two", "l1", y[2], np.array([rent, price]).T, f"people.csv,target=rent+price,{only}")
    say("ten", "cross-entropy", y[10], grade, "people.csv,target=grade,drop=user+city+price+rent+owns")
    say("one", "mse", y[1], price[:, None], "people.csv,target=price", "--map", "x=age+size")
    say("one", "mse", standardised(size, age) @ w[1], price[:, None], "people.csv,target=price", "--map", "x=size+age")
    say("embed", "mse", embedded, price[:, None], "people.csv,target=price,drop=rent+owns+grade")
    say("embed", "l1", embedded, price[:, None], "people.csv,target=price", "--map", "rest=age+size")
    say("ids", "mse", np.array([user, place]).T @ w[1], price[:, None], "people.csv,target=price", "--map", "x=user+city")


main()
