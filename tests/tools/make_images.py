#!/usr/bin/env python3
"""Writes tests/tools/images: small JPEG, PNG and WebP files, and what Pillow makes of them, as PPM and PGM files.

cases.txt has a line for each: the input, the operation with its arguments (tests/tools/images.c), the expected file.
Needs Pillow 13, whose functions torchvision's transforms of PIL images call.  tests/interop/images.py compares many more
images, with torchvision itself, without storing them.
"""
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

HERE = pathlib.Path(__file__).parent / "images"
FILTER = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
rng = np.random.default_rng(1)
cases = []


def picture(w, h):
    y, x = np.mgrid[0:h, 0:w] / max(w, h)
    a = np.stack([np.sin(rng.uniform(2, 15) * x + rng.uniform(2, 15) * y + k) for k in range(3)], -1) * 100 + 128
    a[h // 4:h // 2, w // 3:] = 250, 20, 90
    return Image.fromarray(np.clip(a + rng.normal(0, 5, a.shape), 0, 255).astype(np.uint8))


def case(source, operation, expected):
    name = f"{len(cases):02d}." + ("pgm" if expected.mode == "L" else "ppm")
    expected.save(HERE / name)
    cases.append(f"{source} {operation} {name}")


def exif(orientation, big):
    e = Image.Exif()
    e.endian = ">" if big else "<"
    e[0x0112] = orientation
    return e


def png16(name, a, color):
    """A PNG file of 6 x 5 pixels with 16 bits a channel; Pillow writes no colours of 16 bits."""
    rows = b"".join(b"\0" + r.astype(">u2").tobytes() for r in a)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 6, 5, 16, color, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def resized(im, x, y, w, h, to, f):
    """torchvision's resized_crop."""
    return im.crop((x, y, x + w, y + h)).resize(to, f)


def fitted(im, w, h, f):
    """torchvision's Resize and CenterCrop; for a target that is no square, by the side that leaves no border."""
    to = (w, w * im.height // im.width) if im.width * h <= im.height * w else (h * im.width // im.height, h)
    x, y = round((to[0] - w) / 2), round((to[1] - h) / 2)
    return im.resize(to, f).crop((x, y, x + w, y + h))


def decoding():
    im = picture(17, 11)
    files = {"rgb.jpg": {"quality": 90, "subsampling": 0}, "sub.jpg": {"quality": 60, "subsampling": 2},
             "progressive.jpg": {"progressive": True}, "keep.jpg": {"keep_rgb": True}}
    for name, how in files.items():
        im.save(HERE / name, **how)
    for k in range(1, 9):
        im.save(HERE / f"turned{k}.jpg", exif=exif(k, k % 2))
    im.save(HERE / "turned.png", exif=exif(6, True))
    im.convert("L").save(HERE / "gray.jpg")
    im.convert("CMYK").save(HERE / "cmyk.jpg", quality=90)
    im.save(HERE / "rgb.png")
    im.convert("L").save(HERE / "gray.png")
    im.convert("1").save(HERE / "bilevel.png")
    im.quantize(7).save(HERE / "palette.png", bits=4, transparency=2)
    Image.merge("LA", im.split()[:2]).save(HERE / "gray_alpha.png")
    Image.merge("RGBA", (*im.split(), im.split()[0])).save(HERE / "alpha.png")
    for f in sorted(HERE.glob("*.jpg")) + sorted(HERE.glob("*.png")):
        for channels, mode in ((3, "RGB"), (1, "L")):
            if mode == "RGB" or "turned" not in f.name:
                case(f.name, f"decode {channels} 0 0", ImageOps.exif_transpose(Image.open(f)).convert(mode))
    big = picture(50, 34)
    big.save(HERE / "large.jpg", quality=85, exif=exif(8, False))
    for channels, mode, least in ((3, "RGB", (10, 12)), (1, "L", (4, 6)), (3, "RGB", (20, 20)), (3, "RGB", (16, 26)), (3, "RGB", (17, 25))):
        fast = Image.open(HERE / "large.jpg")
        fast.draft(mode, least[::-1])
        case("large.jpg", f"decode {channels} {least[0]} {least[1]}", ImageOps.exif_transpose(fast).convert(mode))
    a = rng.integers(0, 65536, (5, 6, 3), dtype=np.uint16)
    for name, a, color in (("rgb16.png", a, 2), ("gray16.png", a[..., 0], 0)):       # the upper 8 bits, where Pillow cuts gray off at 255
        png16(name, a.reshape(5, -1), color)
        case(name, f"decode {3 if color else 1} 0 0", Image.fromarray((a >> 8).astype(np.uint8)))


def resizing():
    im = Image.open(HERE / "large.jpg").convert("RGB")       # as stored: case() names a PNG file, which has no orientation
    im.save(HERE / "large.png")
    gray = im.convert("L")
    gray.save(HERE / "large_gray.png")
    for name, f in FILTER.items():
        for w, h in ((12, 9), (70, 60), (50, 10), (60, 5), (1, 1)):
            case("large.png", f"resize 0 0 50 34 {w} {h} {name}", im.resize((w, h), f))
        case("large.png", f"resize 5 7 20 13 16 16 {name}", resized(im, 5, 7, 20, 13, (16, 16), f))
        case("large_gray.png", f"resize 1 0 49 34 16 24 {name}", resized(gray, 1, 0, 49, 34, (16, 24), f))
        for s in (16, 17, 33, 34, 40):
            case("large.png", f"fit {s} {s} {name}", fitted(im, s, s, f))
        case("large_gray.png", f"fit 20 20 {name}", fitted(gray, 20, 20, f))
        case("large.png", f"fit 40 20 {name}", fitted(im, 40, 20, f))


def augmenting():
    im, gray = Image.open(HERE / "large.png"), Image.open(HERE / "large_gray.png")
    case("large.png", "crop 3 -2 50 34 50 34", im.crop((3, -2, 53, 32)))
    case("large.png", "crop -6 4 50 34 50 34", im.crop((-6, 4, 44, 38)))
    case("large.png", "crop 10 4 30 20 24 24", resized(im, 10, 4, 30, 20, (24, 24), Image.BILINEAR))
    for angle in (15, -7.25, 100, 0):
        case("large.png", f"apply 0 {angle} 1 1 1 0 1 2", im.rotate(angle, Image.BILINEAR))
    case("large_gray.png", "apply 0 33 1 1 1 0 1 2", gray.rotate(33, Image.BILINEAR))
    case("large.png", "apply 1 0 1 1 1 0 1 2", ImageOps.mirror(im))
    for source, image in (("large.png", im), ("large_gray.png", gray)):
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
            factor = [round(float(rng.uniform(0.3, 1.7)), 3) for _ in range(3)]
            out = ImageOps.mirror(image)
            for k in order:
                out = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[k](out).enhance(factor[k])
            case(source, "apply 1 0 " + " ".join(map(str, (*factor, *order))), out)


def packed(name, a, bits):
    """A gray PNG file of less than 8 bits, whose values Pillow would stretch to 0 to 255."""
    rows = b"".join(b"\0" + np.packbits((r[:, None] >> np.arange(bits)[::-1] & 1).astype("u1").ravel()).tobytes() for r in a)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *a.shape[::-1], bits, 0, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def masking():
    y, x = np.mgrid[0:34, 0:50]
    a = ((x // 7 + y // 5) % 6 + (x > y) * 3).astype(np.uint8)
    a[3:9, 20:30] = 255
    mask = Image.fromarray(a)
    colours = Image.fromarray(a)
    colours.putpalette(rng.integers(0, 256, 768, dtype=np.uint8).tobytes())       # a palette image of the same numbers
    colours.save(HERE / "mask.png")
    mask.save(HERE / "mask_gray.png")
    few = Image.fromarray(a % 11)
    few.putpalette(rng.integers(0, 256, 33, dtype=np.uint8).tobytes())
    few.save(HERE / "mask_few.png", bits=4)
    few.save(HERE / "mask_turned.png", bits=4, exif=exif(6, True))
    packed("mask_packed.png", a % 4, 2)
    for name, expected in (("mask", a), ("mask_gray", a), ("mask_few", a % 11), ("mask_packed", a % 4), ("mask_turned", np.rot90(a % 11, -1))):
        case(f"{name}.png", "ids", Image.fromarray(expected))
    case("bilevel.png", "ids", Image.fromarray(np.asarray(Image.open(HERE / "bilevel.png")).astype(np.uint8)))
    f = Image.NEAREST
    for w, h in ((12, 9), (70, 60), (49, 33), (17, 60), (1, 1)):
        case("mask.png", f"nearest 0 0 50 34 {w} {h}", mask.resize((w, h), f))
    case("mask.png", "nearest 5 7 20 13 16 16", resized(mask, 5, 7, 20, 13, (16, 16), f))
    for w, h in ((16, 16), (33, 33), (34, 34), (40, 20), (64, 64)):
        case("mask.png", f"nearest_fit {w} {h}", fitted(mask, w, h, f))
    case("mask.png", "ids_crop 10 4 30 20 24 24 255", resized(mask, 10, 4, 30, 20, (24, 24), f))
    for x, y in ((3, -2), (-6, 4)):                                               # beyond the edges lies the class that is ignored
        wide = Image.new("L", (70, 54), 255)
        wide.paste(mask, (10, 10))
        case("mask.png", f"ids_crop {x} {y} 50 34 50 34 255", wide.crop((x + 10, y + 10, x + 60, y + 44)))
    for flipped, angle, fill in ((0, 15, 0), (0, -7.25, 255), (1, 100, 7), (1, 0, 0), (0, 0.5, 255)):
        case("mask.png", f"ids_apply {flipped} {angle} {fill}", (ImageOps.mirror(mask) if flipped else mask).rotate(angle, f, fillcolor=fill))


AMOUNTS = {"shear_x": (2, (0.09, -0.3)), "shear_y": (3, (-0.09, 0.3)), "translate_x": (4, (6, -20)), "translate_y": (5, (-4, 15)), "rotate": (6, (9, -30)),
           "brightness": (7, (1.27, 0.1)), "color": (8, (1.9, 0.73)), "contrast": (9, (1.9, 0.1)), "sharpness": (10, (1.9, 0.1)),
           "posterize": (11, (7, 4)), "solarize": (12, (178.5, 0)), "autocontrast": (13, (0,)), "equalize": (14, (0,))}


def change(image, kind, v):
    """torchvision's operations of RandAugment on PIL images."""
    affine = lambda *m: image.transform(image.size, Image.AFFINE, m, Image.NEAREST)
    return {"shear_x": lambda: affine(1, v, 0, 0, 1, 0), "shear_y": lambda: affine(1, 0, 0, v, 1, 0),
            "translate_x": lambda: affine(1, 0, -v, 0, 1, 0), "translate_y": lambda: affine(1, 0, 0, 0, 1, -v),
            "rotate": lambda: image.rotate(v, Image.NEAREST), "brightness": lambda: ImageEnhance.Brightness(image).enhance(v),
            "color": lambda: ImageEnhance.Color(image).enhance(v), "contrast": lambda: ImageEnhance.Contrast(image).enhance(v),
            "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(v), "posterize": lambda: ImageOps.posterize(image, int(v)),
            "solarize": lambda: ImageOps.solarize(image, v), "autocontrast": lambda: ImageOps.autocontrast(image),
            "equalize": lambda: ImageOps.equalize(image)}[kind]()


def changing():
    im, gray = Image.open(HERE / "large.png"), Image.open(HERE / "large_gray.png")
    for kind, (number, amounts) in AMOUNTS.items():
        for v in amounts:
            source, image = ("large_gray.png", gray) if v == amounts[-1] and len(amounts) > 1 else ("large.png", im)
            case(source, f"change {number} {v}", change(image, kind, v))
    dull = im.point(lambda v: v // 2 + 40)
    dull.save(HERE / "dull.png")
    case("dull.png", "change 13 0", ImageOps.autocontrast(dull))
    case("dull.png", "change 14 0", ImageOps.equalize(dull))
    Image.new("RGB", (5, 4), (9, 200, 30)).save(HERE / "plain.png")
    for number in 13, 14:
        case("plain.png", f"change {number} 0", Image.open(HERE / "plain.png"))


def webp():
    im = picture(23, 14)
    im.save(HERE / "lossy.webp", quality=70)
    im.save(HERE / "lossless.webp", lossless=True)
    im.save(HERE / "turned.webp", quality=90, exif=exif(6, True))
    Image.merge("RGBA", (*im.split(), im.split()[1])).save(HERE / "alpha.webp", quality=80)
    for f in sorted(HERE.glob("*.webp")):
        for channels, mode in ((3, "RGB"), (1, "L")):
            case(f.name, f"webp {channels} 0 0", ImageOps.exif_transpose(Image.open(f)).convert("RGB").convert(mode))


def main():
    HERE.mkdir(exist_ok=True)
    for f in HERE.iterdir():
        f.unlink()
    decoding()
    resizing()
    augmenting()
    masking()
    changing()
    webp()
    (HERE / "cases.txt").write_text("\n".join(cases) + "\n")


main()
