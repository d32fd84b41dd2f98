"""NumPy arrays as the engine's tensors, and back."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ._abi import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, MAX_RANK, Tensor, lib
from .errors import InvalidArgument, ShapeError, Unsupported, check

# The engine's numbers of types, as in ONNX, that NumPy has, too.
_NUMPY = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
          10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64}
_NUMBER = {np.dtype(t): k for k, t in _NUMPY.items()}
FLOATS = (FLOAT32, FLOAT16, FLOAT64, BFLOAT16)


def dtype_of(number: int) -> np.dtype:
    """NumPy's type of one of the engine's.  bfloat16 needs the package ml_dtypes."""
    if number in _NUMPY:
        return np.dtype(_NUMPY[number])
    if number == BFLOAT16:
        try:
            import ml_dtypes
        except ImportError:
            raise Unsupported("arrays of bfloat16 need the package ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    raise Unsupported(f"NumPy has no type for {(lib.dpx_dtype_name(number) or b'?').decode()}")


def number_of(dtype: np.dtype) -> int:
    if dtype in _NUMBER:
        return _NUMBER[dtype]
    if dtype.name == "bfloat16":
        return BFLOAT16
    raise InvalidArgument(f"arrays of {dtype} cannot be given to a model")


def as_array(x: Any, name: str = "array") -> np.ndarray:
    """An array of what the caller has: an array, nested lists, or a tensor in host memory with __dlpack__."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
        if getattr(x, "requires_grad", False):
            x = x.detach()
        try:
            device = getattr(x, "__dlpack_device__", lambda: (1, 0))()
        except (BufferError, RuntimeError, TypeError, ValueError) as e:
            raise _unreadable(name, e) from None
        if device[0] not in (1, 3):     # kDLCPU, kDLCUDAHost
            raise InvalidArgument(f"'{name}' lies on an accelerator: copy it to host memory first (torch: x.cpu(), "
                                  "CuPy: x.get(), JAX: numpy.asarray(x))")
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError):      # a type that NumPy lacks, or one that is read-only
            pass
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as e:
        if hasattr(x, "__dlpack__"):
            return _by_engine(x, name)
        raise _unreadable(name, e) from None


def _unreadable(name: str, e: Exception) -> InvalidArgument:
    return InvalidArgument(f"'{name}': {' '.join(str(e).split())}")


def _by_engine(x: Any, name: str) -> np.ndarray:
    """A copy of a tensor of a type that NumPy does not read by DLPack, such as torch's bfloat16."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    out = Tensor()
    try:
        dense = x.contiguous() if hasattr(x, "contiguous") else x
        capsule = dense.__dlpack__()        # frees what it holds
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise _unreadable(name, e) from None
    check(lib.dpx_tensor_from_dlpack(ctypes.byref(out), name.encode(), pointer(capsule, b"dltensor")))
    return array_of(out)


def convert(x: np.ndarray, number: int, name: str) -> np.ndarray:
    """The array with one of the engine's types, dense.  Integers, and numbers that become integers,
    must be equal in that type; other floats are rounded to it."""
    to = dtype_of(number)
    if x.dtype == to:
        return np.ascontiguousarray(x) if x.ndim else x
    if x.dtype.kind not in "biuf" and x.dtype.name != "bfloat16":
        raise InvalidArgument(f"'{name}': arrays of {x.dtype} cannot be given to a model, which takes {to}")
    fractions = to.kind in "fV" and x.dtype.kind not in "iu"
    return x.astype(to, order="C") if fractions else _whole(x, to, name)


def _whole(x: np.ndarray, to: np.dtype, name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        out = x.astype(to, order="C")
    same = np.array_equal(out.astype(x.dtype), x) and np.array_equal(out < 0, x < 0)    # -1 and 255 have the same bits
    if not np.can_cast(x.dtype, to) and not same:
        raise InvalidArgument(f"'{name}': expected whole numbers that fit {to}, found {x.dtype} that do not")
    return out


def tensor_of(x: np.ndarray, name: str | None) -> Tensor:
    """A view of a dense array, which must live as long as the tensor is used."""
    if x.ndim > MAX_RANK:
        raise ShapeError(f"'{name}' has {x.ndim} axes, expected at most {MAX_RANK}")
    t = Tensor(name=None if name is None else name.encode(), dtype=number_of(x.dtype), rank=x.ndim, data=x.ctypes.data)
    t.dim[: x.ndim] = x.shape
    return t


def tensors_of(arrays: dict[str, np.ndarray]) -> ctypes.Array:
    return (Tensor * max(len(arrays), 1))(*(tensor_of(x, name) for name, x in arrays.items()))


def array_of(t: Tensor) -> np.ndarray:
    """A copy of the tensor's data."""
    shape = tuple(t.dim[: t.rank])
    out = np.empty(shape, dtype_of(t.dtype))
    if out.nbytes:
        ctypes.memmove(out.ctypes.data, t.data, out.nbytes)
    return out
