"""The C API of include/dpexec.h for ctypes: structs, prototypes and the loaded library."""

from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint64,
                    c_void_p)

from . import _library

MAX_RANK = 8
INPUT, OUTPUT, STATE = 0, 1, 2
FLOAT32, INT64, FLOAT16, FLOAT64, BFLOAT16 = 1, 7, 10, 11, 16
TARGET_NONE, TARGET_CLASSES, TARGET_VALUES = 0, 1, 2
ROLE_UNKNOWN, ROLE_UNCLEAR, ROLE_SAMPLES, ROLE_WHOLE, ROLE_EITHER, ROLE_ORDERED = range(6)
OBSERVES_METRIC = 2
KEEP_OUTPUTS, KEEP_GRADIENTS = 1, 2


class Tensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int), ("dim", c_int64 * MAX_RANK), ("data", c_void_p)]


class Info(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int), ("dim", c_int64 * MAX_RANK),
                ("dim_name", c_char_p * MAX_RANK), ("trainable", c_int), ("rows", c_int64)]


class OptionInfo(Structure):
    _fields_ = [("name", c_char_p), ("metavar", c_char_p), ("fallback", c_char_p), ("help", c_char_p),
                ("repeats", c_int), ("trains", c_int), ("on_resume", c_int), ("derived", c_int)]


class MetricInfo(Structure):
    _fields_ = [("name", c_char_p), ("falls", c_int), ("number", c_int)]


class LogValue(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double), ("sum", c_double)]


class Result(Structure):
    _fields_ = [("step", c_int64), ("samples", c_int64), ("loss", c_double), ("loss_sum", c_double),
                ("loss_weight", c_double), ("metric_sum", c_double), ("metric_weight", c_double), ("correct", c_int64),
                ("counted", c_int64), ("lr", c_double), ("grad_norm", c_double), ("updated", c_int),
                ("loss_scale", c_double), ("skipped", c_int), ("outputs", POINTER(Tensor)), ("n_outputs", c_int),
                ("log", POINTER(LogValue)), ("n_log", c_int)]


class Metric(Structure):
    _fields_ = [("measured", c_int), ("value", c_double), ("bound", c_double), ("table", Tensor),
                ("log", POINTER(LogValue)), ("n_log", c_int), ("loss", c_double), ("samples", c_int64)]


# The structs by their names in the header.  tests/python/test_abi.py compares their layouts with the C compiler's.
STRUCTS = {"dpx_tensor": Tensor, "dpx_info": Info, "dpx_option_info": OptionInfo, "dpx_metric_info": MetricInfo,
           "dpx_log_value": LogValue, "dpx_result": Result, "dpx_metric": Metric}

LogFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
WriteFn = CFUNCTYPE(None, c_void_p, POINTER(ctypes.c_char), c_size_t)
SinkFn = CFUNCTYPE(c_int, c_void_p, POINTER(ctypes.c_char), c_size_t)
SourceFn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, POINTER(c_size_t))
ExternalFn = CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64, c_size_t, c_void_p)

# Functions that fill in a struct which may grow, by that struct: the library has them as NAME_sized, with the struct's
# size as one more argument (include/dpexec_sized.h).
SIZED = {
    "dpx_model_info": Info, "dpx_trainer_state_info": Info, "dpx_train_step": Result, "dpx_val_step": Result,
    "dpx_train_backward": Result, "dpx_train_update": Result, "dpx_train_flush": Result, "dpx_trainer_metric": Metric,
    "dpx_trainer_metric_at": Metric, "dpx_trainer_train_metric_at": Metric,
}

# The functions by result: a status (checked by errors.check), and others.
_HANDLE, _OUT, _TENSORS = c_void_p, POINTER(c_void_p), POINTER(Tensor)
_STATUS = {
    "dpx_model_load_within": [_OUT, c_char_p, _HANDLE],
    "dpx_tensor_from_dlpack": [_TENSORS, c_char_p, c_void_p],
    "dpx_model_load_memory": [_OUT, c_void_p, c_size_t, c_char_p, _HANDLE, ExternalFn, c_void_p],
    "dpx_model_gradient": [_OUT, _HANDLE, _HANDLE, c_char_p, c_char_p],
    "dpx_model_info": [_HANDLE, c_int, c_int, POINTER(Info)],
    "dpx_model_set_metadata": [_HANDLE, c_char_p, c_char_p],
    "dpx_options_copy": [_OUT, _HANDLE],
    "dpx_options_set": [_HANDLE, c_char_p, c_char_p],
    "dpx_options_check": [_HANDLE],
    "dpx_options_set_class_weights": [_HANDLE, _TENSORS],
    "dpx_options_set_target_shape": [_HANDLE, _TENSORS],
    "dpx_options_set_role": [_HANDLE, c_char_p, c_int],
    "dpx_transform": [_HANDLE, _HANDLE, c_char_p, c_char_p, WriteFn, c_void_p],
    "dpx_trainer_create": [_OUT, _HANDLE, _HANDLE, LogFn, c_void_p],
    "dpx_train_step": [_HANDLE, _TENSORS, c_int, POINTER(Result)],
    "dpx_val_step": [_HANDLE, _TENSORS, c_int, POINTER(Result)],
    "dpx_train_backward": [_HANDLE, _TENSORS, c_int, POINTER(Result)],
    "dpx_train_update": [_HANDLE, POINTER(Result)],
    "dpx_train_reset": [_HANDLE],
    "dpx_trainer_gradient": [_HANDLE, c_char_p, _TENSORS],
    "dpx_trainer_keep": [_HANDLE, c_uint],
    "dpx_trainer_set_lr": [_HANDLE, c_int, c_double],
    "dpx_trainer_metric": [_HANDLE, POINTER(Metric)],
    "dpx_trainer_metric_at": [_HANDLE, c_int, POINTER(Metric)],
    "dpx_trainer_train_metric_at": [_HANDLE, c_int, POINTER(Metric)],
    "dpx_train_flush": [_HANDLE, POINTER(Result)],
    "dpx_trainer_close_group": [_HANDLE],
    "dpx_trainer_end_epoch": [_HANDLE],
    "dpx_trainer_observe": [_HANDLE, c_double, c_double],
    "dpx_run": [_HANDLE, _TENSORS, c_int, _TENSORS, c_int],
    "dpx_trainer_state_info": [_HANDLE, c_int, POINTER(Info)],
    "dpx_trainer_get_state": [_HANDLE, c_char_p, _TENSORS],
    "dpx_trainer_set_state": [_HANDLE, c_char_p, _TENSORS],
    "dpx_trainer_save": [_HANDLE, c_char_p, c_char_p],
    "dpx_trainer_resume": [_HANDLE, c_char_p, _OUT],
    "dpx_trainer_resume_step": [_HANDLE, c_char_p, c_int64, _OUT],
    "dpx_checkpoint_remove": [c_char_p, c_int64],
    "dpx_trainer_export": [_HANDLE, c_char_p],
    "dpx_trainer_export_to": [_HANDLE, SinkFn, c_void_p],
    "dpx_trainer_save_to": [_HANDLE, SinkFn, c_void_p, c_char_p],
    "dpx_trainer_load_from": [_HANDLE, SourceFn, c_void_p, _OUT],
    "dpx_predictor_create": [_OUT, _HANDLE, _HANDLE, _HANDLE],
    "dpx_predictor_take": [_HANDLE, _HANDLE],
    "dpx_predictor_warm": [_HANDLE, c_int, _TENSORS, c_int],
    "dpx_predict": [_HANDLE, _TENSORS, c_int, _OUT],
    "dpx_data_view": [_HANDLE, _TENSORS],
}
_OTHER = {
    "dpx_error": (c_char_p, []),
    "dpx_version": (c_char_p, []),
    "dpx_dtype_size": (c_size_t, [c_int]),
    "dpx_dtype_name": (c_char_p, [c_int]),
    "dpx_model_free": (None, [_HANDLE]),
    "dpx_model_count": (c_int, [_HANDLE, c_int]),
    "dpx_model_metadata": (c_char_p, [_HANDLE, c_char_p]),
    "dpx_options_create": (c_void_p, []),
    "dpx_options_free": (None, [_HANDLE]),
    "dpx_options_get": (c_char_p, [_HANDLE, c_char_p]),
    "dpx_option_count": (c_int, []),
    "dpx_option_at": (OptionInfo, [c_int]),
    "dpx_metric_at": (MetricInfo, [_HANDLE, c_int]),
    "dpx_target": (c_int, [_HANDLE]),
    "dpx_batch_axis": (c_int, [_HANDLE, _HANDLE, c_char_p]),
    "dpx_batch_role": (c_int, [_HANDLE, _HANDLE, c_char_p]),
    "dpx_trainer_free": (None, [_HANDLE]),
    "dpx_trainer_replicas": (c_int, [_HANDLE]),
    "dpx_trainer_observes": (c_int, [_HANDLE]),
    "dpx_trainer_option": (c_char_p, [_HANDLE, c_char_p]),
    "dpx_trainer_summary": (c_char_p, [_HANDLE]),
    "dpx_trainer_memory": (c_int64, [_HANDLE]),
    "dpx_trainer_restart_metric": (None, [_HANDLE]),
    "dpx_trainer_restart_train_metric": (None, [_HANDLE]),
    "dpx_trainer_state_count": (c_int, [_HANDLE]),
    "dpx_trainer_step_count": (c_int64, [_HANDLE]),
    "dpx_predictor_free": (None, [_HANDLE]),
    "dpx_data_free": (None, [_HANDLE]),
    "dpx_data_count": (c_int, [_HANDLE]),
    "dpx_data_key": (c_char_p, [_HANDLE, c_int]),
    "dpx_data_at": (c_void_p, [_HANDLE, c_int]),
}


def _bind(lib: ctypes.CDLL) -> None:
    for name, arguments in _STATUS.items():
        function = getattr(lib, f"{name}_sized" if name in SIZED else name)
        function.restype, function.argtypes = c_int, arguments + [c_size_t] * (name in SIZED)
        if name in SIZED:
            setattr(lib, name, lambda *given, call=function, size=ctypes.sizeof(SIZED[name]): call(*given, size))
    for name, (result, arguments) in _OTHER.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


lib = _library.load()
_bind(lib)
_free = ctypes.CDLL(None).free
_free.restype, _free.argtypes = None, [c_void_p]


def take_text(text: c_void_p) -> str:
    """The text that the library allocated, which is freed; "" for NULL."""
    if not text.value:
        return ""
    out = ctypes.string_at(text.value).decode(errors="replace")
    _free(text)
    return out
