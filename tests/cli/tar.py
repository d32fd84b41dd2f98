#!/usr/bin/env python3
"""Writes tar shards as WebDataset's writer does, the same images as files, and shards that are broken: for tests/cli/tar.sh.

    tests/cli/tar.py FOLDER IMAGE...
"""
import io
import json
import pathlib
import random
import sys
import tarfile

import numpy as np

folder, files = pathlib.Path(sys.argv[1]), [pathlib.Path(f) for f in sys.argv[2:]]
random.seed(5)


def npy(array):
    f = io.BytesIO()
    np.save(f, array)
    return f.getvalue()


def pack(name, members, form=tarfile.PAX_FORMAT, end=True):
    with tarfile.open(folder / name, "w", format=form) as t:
        for key, data in members:
            m = tarfile.TarInfo(key)
            m.size = len(data)
            t.addfile(m, io.BytesIO(data))
    if not end:
        with tarfile.open(folder / name) as t:
            size = max(m.offset_data + (m.size + 511) // 512 * 512 for m in t)
        (folder / name).write_bytes((folder / name).read_bytes()[:size])


def sample(i, name=None):
    f, label, name = files[i % len(files)], i * 7 % 3 % 2, name or f"{i:06d}"
    about = {"label": ["cat", "dog"][label], "box": {"xy": [i, i / 2]}, "n": label}
    return [(f"{name}{f.suffix}", f.read_bytes()), (f"{name}.cls", f"{label}\n".encode()), (f"{name}.json", json.dumps(about).encode()),
            (f"{name}.txt", about["label"].encode()), (f"{name}.vector.npy", npy(np.arange(4, dtype="f4") + i))]


samples = [sample(i) for i in range(30)]
for k in range(3):
    pack(f"train-{k:03d}.tar", sum(samples[10 * k:10 * k + 10], []))
(folder / "files").mkdir()
for i, s in enumerate(samples):
    (folder / "files" / s[0][0]).write_bytes(s[0][1])
for name, label in ("cls", lambda s: s[1][1].decode().strip()), ("txt", lambda s: s[3][1].decode()), \
        ("numbers", lambda s: ",".join(map(str, json.loads(s[2][1])["box"]["xy"]))):
    (folder / f"{name}.csv").write_text("".join(f"{s[0][0]},{label(s)}\n" for s in samples))
(folder / "names.txt").write_text("cat\ndog\n")
(folder / "one.txt").write_text("cat\n")

# Forms of names: folders, dots in folders, long names of PAX and GNU, capitals, members that are no part of a sample.
meta = [("__meta__/x.json", b"{}"), (".hidden.jpg", b"-"), ("README", b"hello")]
renamed = [[(f"a.b/{k}", d) for k, d in s] if i < 5 else [(f"{'long' * 40}/{k.replace('.jpg', '.JPG')}", d) for k, d in s]
           for i, s in enumerate(samples[:10])]
for name, form in ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT):
    pack(f"{name}.tar", meta + sum(renamed, []), form)
pack("ten.tar", sum(samples[:10], []))
pack("more.tar", sum(samples[:5], []))

# Arrays without images.
digits = np.load("tests/oracle/data/digits.npz")
rows = [[(f"{i}.x.npy", npy(x)), (f"{i}.target.npy", npy(y)), (f"{i}.cls", str(y).encode())] for i, (x, y) in enumerate(zip(digits["x"], digits["target"]))]
pack("arrays.tar", sum(rows, []))
pack("shape.tar", sum(rows[:3], []) + [("9.x.npy", npy(digits["x"][0][:5])), rows[9][1], rows[9][2]])
pack("order.tar", [("0.x.npy", npy(np.asfortranarray(np.ones((3, 2), "f4")))), ("0.cls", b"1")])
pack("no_npy.tar", [("0.x.npy", b"\x93NUMPY but not"), ("0.cls", b"1")])



def npz(save=np.savez, **arrays):
    f = io.BytesIO()
    save(f, **arrays)
    return f.getvalue()


both = [npz(x=x, target=y) for x, y in zip(digits["x"], digits["target"])]
pack("npz.tar", [(f"{i}.npz", b) for i, b in enumerate(both)])
pack("npz_named.tar", [(f"{i}.in.npz", npz(pixels=x, y=y)) for i, (x, y) in enumerate(zip(digits["x"], digits["target"]))])
pack("npz_packed.tar", [("0.npz", npz(np.savez_compressed, x=digits["x"][0]))])
pack("npz_lacks.tar", [("0.npz", both[0]), ("1.npz", npz(x=digits["x"][1]))])
pack("npz_cut.tar", [("0.npz", both[0]), ("1.npz", both[1][:-30])])
pack("no_npz.tar", [("0.npz", b"PK and no more")])

# Broken ones.
one, two = samples[0], samples[1]
pack("lacks.tar", one + two[:1])
pack("twice.tar", one + [one[1]])
pack("apart.tar", [one[0], two[0], one[1], two[1]])
pack("not_int.tar", [one[0], (one[1][0], b"cat")])
pack("no_json.tar", [one[0], (one[2][0], b"{")])
pack("no_label.tar", [one[0]])
pack("two_images.tar", [("000000.png", one[0][1]), ("000000.jpeg", one[0][1]), one[1]])
pack("bad_image.tar", one[:2] + [("000001.jpg", b"hello"), ("000001.cls", b"1")] + samples[2][:2])
broken = json.dumps({"box": {"xy": [1]}}).encode()
pack("columns.tar", one + [("000001.jpg", one[0][1]), ("000001.json", broken), ("000001.vector.npy", one[4][1])])
first = json.dumps({"box": {"xy": ["a", 1, 2]}}).encode()
pack("bad_first.tar", [("0.json", first), ("0.jpg", one[0][1]), ("0.vector.npy", one[4][1])] + one + two)
pack("outside.tar", [("../x.jpg", one[0][1]), ("../x.cls", b"1")])
pack("empty.tar", [])
pack("no_end.tar", sum(samples[:10], []), end=False)
whole = (folder / "ten.tar").read_bytes()
(folder / "cut.tar").write_bytes(whole[:5000])
(folder / "joined.tar").write_bytes(whole + whole)
(folder / "text.tar").write_bytes(b"hello\n" * 200)
with tarfile.open(folder / "packed.tar", "w:gz") as t:
    t.add(folder / "files" / one[0][0], "0.png")
link = tarfile.TarInfo("000001.jpg")
link.type, link.linkname = tarfile.SYMTYPE, one[0][0]
with tarfile.open(folder / "link.tar", "w") as t:
    t.addfile(link)
huge = tarfile.TarInfo("000000.jpg")
huge.size = 1 << 40
(folder / "huge.tar").write_bytes(huge.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
sparse = tarfile.TarInfo("000000.jpg")
sparse.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,100,4000,100", "GNU.sparse.size": "8192"}
sparse.size = 200
(folder / "sparse.tar").write_bytes(sparse.tobuf(tarfile.PAX_FORMAT) + bytes(512 + 1024))

# Masks: the same files in folders and in shards, in which the image's key is png or jpg.
drawn = {}
exec(pathlib.Path("docs/tutorial/segmentation.py").read_text().removesuffix("main()\n"), drawn)
rng = np.random.default_rng(3)
png, masks = drawn["png"], []
for of in "photos", "masks", "values":
    (folder / of).mkdir()
for i in range(12):
    image, mask = (a[:36, :40] for a in drawn["draw"](rng))
    spread = png((mask * 64).astype("u1"), drawn["COLOURS"] * 64)
    mask = mask.copy()
    mask[:3, 5:9] = 255
    files = png(image), png(mask, drawn["COLOURS"] * 64), spread
    for of, data in zip(("photos", "masks", "values"), files):
        (folder / of / f"{i:02d}.png").write_bytes(data)
    masks.append(files)
(folder / "pixels.txt").write_text("\n".join(drawn["CLASSES"]) + "\n")
seg = [[(f"photos/{i:02d}.png", m[0]), (f"photos/{i:02d}.seg.png", m[1])] for i, m in enumerate(masks)]
pack("seg.tar", sum(seg, []))
pack("pair.tar", sum([[(f"{i:02d}.JPG", m[0]), (f"{i:02d}.png", m[1])] for i, m in enumerate(masks)], []))
pack("values.tar", sum([[(f"{i:02d}.jpg", m[0]), (f"{i:02d}.png", m[2])] for i, m in enumerate(masks)], []))
pack("lacks_mask.tar", [("1.png", masks[0][0]), ("1.seg.png", masks[0][1]), ("2.png", masks[1][0])])
pack("no_mask.tar", [("1.png", masks[0][0]), ("1.cls", b"1")])
pack("gz.tar", [("1.png", masks[0][0]), ("1.cls.gz", b"\x1f\x8b")])
