#!/usr/bin/env python3
"""Compares tools/image with Pillow and torchvision: decoding, resizing, fitting and augmenting of many random images.

    images.py [FOLDER OF IMAGES]        prints a line for each kind, with the largest difference of a pixel; exit status 1 above the limit

Needs Pillow, torchvision, numpy and a C compiler; compiles tools/image for itself.
"""
import ctypes as C
import io
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from torchvision import transforms as T

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTER = {"bilinear": (0, Image.BILINEAR, T.InterpolationMode.BILINEAR), "bicubic": (1, Image.BICUBIC, T.InterpolationMode.BICUBIC)}
rng = np.random.default_rng(0)


class CImage(C.Structure):
    _fields_ = [("width", C.c_int), ("height", C.c_int), ("channels", C.c_int), ("pixel", C.POINTER(C.c_uint8)), ("room", C.c_size_t)]


class Box(C.Structure):
    _fields_ = [(n, C.c_int) for n in ("x", "y", "width", "height")]


class Change(C.Structure):
    _fields_ = [("kind", C.c_int), ("amount", C.c_double)]


class Draw(C.Structure):
    _fields_ = [("crop", Box), ("cropped", C.c_bool), ("flip", C.c_bool), ("angle", C.c_double), ("factor", C.c_double * 3),
                ("order", C.c_int * 3), ("erase", Box), ("change", Change * 2)]


class Augment(C.Structure):
    _fields_ = [("crop", C.c_bool), ("flip", C.c_bool), ("rotate", C.c_double), ("color", C.c_double), ("randaugment", C.c_int),
                ("erase", C.c_bool), ("mixup", C.c_double), ("cutmix", C.c_double)]


def load():
    out = pathlib.Path(tempfile.mkdtemp()) / "image.so"
    sources = [*sorted((ROOT / "tools/image").glob("*.c")), *(ROOT / f"graph/base/{n}.c" for n in ("status", "foreign", "heap_array", "numtext"))]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-DDPX_WEBP", "-shared", "-fPIC", f"-I{ROOT}", *sources, "-o", out, "-ljpeg", "-lpng", "-lwebp", "-lm"], check=True)
    library = C.CDLL(str(out))
    library.status_message.restype = C.c_char_p
    library.augment_draw.argtypes = [C.POINTER(Draw), C.POINTER(Augment)] + [C.c_int] * 4 + [C.c_uint64, C.c_int64, C.c_int64]
    return library


lib = load()
worst = {}


def call(name, *args):
    if getattr(lib, name)(*args):
        raise RuntimeError(lib.status_message().decode())


def pixels(image):
    a = np.ctypeslib.as_array(image.pixel, (image.height, image.width, image.channels)).copy()
    return a


def given(pil):
    """-> CImage of a PIL image, and the array that holds its memory."""
    a = np.ascontiguousarray(np.asarray(pil), np.uint8)
    a = a.reshape(a.shape[0], a.shape[1], -1)
    buffer = C.cast(lib.malloc(a.size), C.POINTER(C.c_uint8))
    C.memmove(buffer, a.ctypes.data, a.size)
    return CImage(a.shape[1], a.shape[0], a.shape[2], buffer, a.size)


lib.malloc = C.CDLL(None).malloc
lib.malloc.restype, lib.malloc.argtypes = C.c_void_p, [C.c_size_t]


def judge(kind, ours, theirs, what):
    theirs = np.asarray(theirs)
    theirs = theirs.reshape(theirs.shape[0], theirs.shape[1], -1)
    if ours.shape != theirs.shape:
        sys.exit(f"FAILED: {kind} {what}: size {ours.shape}, expected {theirs.shape}")
    d = np.abs(ours.astype(int) - theirs)
    n, m, share = worst.get(kind, (0, 0, 0))
    worst[kind] = n + 1, max(m, d.max()), max(share, (d > 0).mean())
    if d.max() > 1:
        print(f"    {kind} {what}: {d.max()}")


def decode(data, channels, least=(0, 0)):
    out = CImage()
    call("image_decode", C.byref(out), data, C.c_size_t(len(data)), channels, *least, b"file")
    a = pixels(out)
    lib.image_free(C.byref(out))
    return a


def picture(w, h):
    """Smooth colours with edges and some noise, as photographs have."""
    y, x = np.mgrid[0:h, 0:w] / max(w, h)
    a = np.stack([np.sin(rng.uniform(2, 25) * x + rng.uniform(2, 25) * y + rng.uniform(0, 6)) for _ in range(3)], -1) * 100 + 128
    a[(x - rng.random()) ** 2 + (y - rng.random()) ** 2 < rng.random() / 8] = rng.uniform(0, 255, 3)
    return Image.fromarray(np.clip(a + rng.normal(0, rng.choice([0, 4, 30]), a.shape), 0, 255).astype(np.uint8))


def saved(image, form, **how):
    b = io.BytesIO()
    image.save(b, form, **how)
    return b.getvalue()


def exif(orientation, big=False):
    e = Image.Exif()
    if big:
        e.endian = ">"
    e[0x0112] = orientation
    return e


def opened(data):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data)))


def size():
    return int(rng.integers(1, 90)), int(rng.integers(1, 90))


def decoding():
    for i in range(300):
        im = picture(*size())
        files = {f"jpeg subsampling={s}": saved(im, "JPEG", quality=int(rng.integers(20, 96)), subsampling=s, progressive=bool(i % 2), optimize=True)
                 for s in (0, 1, 2)}
        files["jpeg gray"] = saved(im.convert("L"), "JPEG")
        files["jpeg cmyk"] = saved(im.convert("CMYK"), "JPEG", quality=90)
        files["jpeg restart"] = saved(im, "JPEG", restart_marker_blocks=2)
        files["jpeg rgb"] = saved(im, "JPEG", keep_rgb=True)
        files["jpeg turned"] = saved(im, "JPEG", exif=exif(i % 8 + 1, i % 3 == 0))
        files["png rgb"] = saved(im, "PNG")
        files["png gray"] = saved(im.convert("L"), "PNG")
        files["png bilevel"] = saved(im.convert("1"), "PNG")
        files["png gray alpha"] = saved(Image.merge("LA", im.split()[:2]), "PNG")
        files["png alpha"] = saved(Image.merge("RGBA", (*im.split(), im.split()[0])), "PNG")
        files["png palette"] = saved(im.quantize(int(rng.integers(2, 257))), "PNG", bits=8)
        files["png palette, few"] = saved(im.quantize(int(rng.integers(2, 17))), "PNG", bits=4)
        files["png palette, transparent"] = saved(im.quantize(9), "PNG", transparency=3)
        files["png turned"] = saved(im, "PNG", exif=exif(i % 8 + 1))
        files["webp"] = saved(im, "WEBP", quality=int(rng.integers(5, 101)), exif=exif(i % 8 + 1, i % 3 == 0))
        files["webp lossless"] = saved(im, "WEBP", lossless=True)
        files["webp alpha"] = saved(Image.merge("RGBA", (*im.split(), im.split()[0])), "WEBP", lossless=bool(i % 2))
        for kind, data in files.items():
            judge(kind, decode(data, 3), opened(data).convert("RGB"), im.size)
            judge(kind + " to gray", decode(data, 1), opened(data).convert("L"), im.size)
        for kind in ("jpeg subsampling=2", "jpeg gray", "jpeg turned", "jpeg subsampling=0", "jpeg rgb", "jpeg cmyk"):
            least = int(rng.integers(1, 40)), int(rng.integers(1, 40))
            for channels, mode in ((3, "RGB"), (1, "L")):
                raw = Image.open(io.BytesIO(files[kind]))
                turned = raw.getexif().get(0x0112, 1) >= 5
                raw.draft(mode, least[::-1] if turned else least)
                judge("decode=fast " + kind + " " + mode, decode(files[kind], channels, least), ImageOps.exif_transpose(raw).convert(mode), (im.size, least))


def resizing():
    for i in range(600):
        im = picture(*size()).convert(("RGB", "L")[i % 2])
        w, h = im.size
        for name, (ours, pil, tv) in FILTER.items():
            x, y = int(rng.integers(0, w)), int(rng.integers(0, h))
            b = Box(x, y, int(rng.integers(1, w - x + 1)), int(rng.integers(1, h - y + 1))) if i % 3 else Box(0, 0, w, h)
            to = size() if i % 5 else (w, size()[1])
            out = CImage()
            call("image_resize", C.byref(out), C.byref(given(im)), b, *to, ours)
            judge(f"resize {name}", pixels(out), F.resized_crop(im, b.y, b.x, b.height, b.width, to[::-1], tv), (im.size, to))
            s = int(rng.integers(1, 70))
            call("image_fit", C.byref(out), C.byref(given(im)), s, s, ours)
            judge(f"fit {name}", pixels(out), F.center_crop(F.resize(im, s, tv), s), (im.size, s))
            lib.image_free(C.byref(out))


def augmenting():
    for i in range(400):
        im = picture(*size()).convert(("RGB", "L")[i % 4 == 0])
        w, h = im.size
        draw = Draw()
        lib.augment_draw(C.byref(draw), C.byref(Augment(True, True, 40, 0.5, 0, True)), w, h, 24, 20, 7, 3, i)
        out, spare, b = CImage(), CImage(), draw.crop
        call("augment_crop", C.byref(out), C.byref(given(im)), C.byref(draw), 24, 20, 0, 0)
        judge("augment crop", pixels(out), F.resized_crop(im, b.y, b.x, b.height, b.width, [20, 24]), (im.size, i))
        lib.augment_draw(C.byref(draw), C.byref(Augment(True, False, 0, 0)), w, h, w, h, 7, 3, i)
        call("augment_crop", C.byref(out), C.byref(given(im)), C.byref(draw), w, h, 0, 0)
        judge("augment padded crop", pixels(out), F.crop(im, draw.crop.y, draw.crop.x, h, w), (im.size, i))
        for kind, a in {"flip": Augment(False, True, 0, 0), "rotate": Augment(False, False, 180, 0),
                        "color": Augment(False, False, 0, (i % 10 + 1) / 10), "all": Augment(False, True, 15, 0.4)}.items():
            lib.augment_draw(C.byref(draw), C.byref(a), w, h, w, h, 1, 0, i)
            ours, theirs = given(im), im
            call("augment_apply", C.byref(ours), C.byref(spare), C.byref(draw))
            if draw.flip:
                theirs = F.hflip(theirs)
            theirs = F.rotate(theirs, draw.angle, T.InterpolationMode.BILINEAR)
            for k in draw.order:
                theirs = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation)[k](theirs, draw.factor[k])
            judge(f"augment {kind}", pixels(ours), theirs, (im.size, i, draw.angle))


def changing():
    """RandAugment: torchvision's operations by our draws."""
    names = list(T.RandAugment()._augmentation_space(31, (1, 1)))
    for i in range(1500):
        im = picture(*size()).convert(("RGB", "L")[i % 4 == 0])
        w, h = im.size
        magnitude = i % 30 + 1
        space = T.RandAugment()._augmentation_space(31, (h, w))
        draw, ours, spare = Draw(), given(im), CImage()
        lib.augment_draw(C.byref(draw), C.byref(Augment(randaugment=magnitude)), w, h, w, h, 1, 0, i)
        call("augment_apply", C.byref(ours), C.byref(spare), C.byref(draw))
        theirs = im
        for c in draw.change:
            name = names[c.kind - 1]
            table, signed = space[name]
            amount = float(table[magnitude]) if table.ndim else 0.0
            if signed:
                amount *= 1 if c.amount > (1 if name in ("Brightness", "Color", "Contrast", "Sharpness") else 0) else -1
            theirs = T.autoaugment._apply_op(theirs, name, amount, T.InterpolationMode.NEAREST, None)
        judge("augment randaugment", pixels(ours), theirs, (im.size, i, [(names[c.kind - 1], c.amount) for c in draw.change]))


def drawing():
    """The draws have torchvision's distributions: means and deviations of 20,000, and the numbers of flips and erased images."""
    for name, a, ours, theirs in (
            ("crop", Augment(True), lambda d: (d.crop.x, d.crop.y, d.crop.width, d.crop.height), lambda im: [T.RandomResizedCrop.get_params(im, (0.08, 1), (3 / 4, 4 / 3))[k] for k in (1, 0, 3, 2)]),
            ("color", Augment(color=0.4), lambda d: (*d.factor, *d.order), lambda im: theirs_color()),
            ("rotate", Augment(rotate=15), lambda d: (d.angle,), lambda im: (T.RandomRotation.get_params([-15, 15]),)),
            ("erase", Augment(erase=True), lambda d: (d.erase.x, d.erase.y, d.erase.width, d.erase.height, (d.erase.width > 0) * 100),
             lambda im: theirs_erase(im))):
        im = Image.new("L", (160, 90))
        draw, n = Draw(), 20000
        o, t = [], []
        for i in range(n):
            lib.augment_draw(C.byref(draw), C.byref(a), 160, 90, 90, 60, 0, 1, i)
            o.append(ours(draw))
            t.append(theirs(im))
        o, t = np.array(o, float), np.array(t, float)
        error = np.sqrt((o.var(0) + t.var(0)) / n) + 1e-9
        z = np.abs(o.mean(0) - t.mean(0)) / error
        spread = np.abs(o.std(0) / t.std(0) - 1).max()
        print(f"draws of {name:7s} means {np.round(o.mean(0), 3)} torchvision's {np.round(t.mean(0), 3)}: within {z.max():.1f} standard errors")
        if z.max() > 4.5 or spread > 0.05:
            sys.exit(f"FAILED: {name}: {z}, {spread}")


def theirs_color():
    order, *factor, _ = T.ColorJitter.get_params((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), None)
    return (*factor, *[k for k in order.tolist() if k < 3])


def theirs_erase(im):
    import torch
    if torch.rand(1) >= 0.5:
        return 0, 0, 0, 0, 0
    y, x, h, w, v = T.RandomErasing.get_params(torch.zeros(1, 60, 90), (0.02, 0.33), (0.3, 3.3), [0.0])
    return (x, y, w, h, 100) if (h, w) != (60, 90) else (0, 0, 0, 0, 0)


def folder(path):
    for f in sorted(pathlib.Path(path).rglob("*")):
        if f.suffix.lower() in (".jpg", ".jpeg", ".png"):
            data = f.read_bytes()
            judge("files", decode(data, 3), opened(data).convert("RGB"), f)


def main():
    decoding()
    resizing()
    augmenting()
    changing()
    if len(sys.argv) > 1:
        folder(sys.argv[1])
    for kind, (n, m, share) in worst.items():
        print(f"{kind:44s} {n:5d} images, largest difference {m}" + (f", at most {100 * share:.2f} % of an image's values differ" if m else ""))
    drawing()
    sys.exit(any(m > 1 for _, m, _ in worst.values()))


if __name__ == "__main__":
    main()
