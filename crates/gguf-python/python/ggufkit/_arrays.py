"""Arrays of NumPy and PyTorch as bytes of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import Tensor

_TYPES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "bfloat16": "BF16",
}
_INTEGERS = {"I8", "I16", "I32", "I64"}


def prepared(array: Any, wanted: str | None) -> tuple[np.ndarray, tuple[int, ...], str, bool]:
    """The little-endian bytes of an array in one dimension, its shape, the type that they have, and whether the array is encoded bytes."""
    if isinstance(array, Tensor):
        if wanted is None or wanted == array.type:
            wanted = array.type
            array = array.raw()
        else:
            array = array.numpy()
    if type(array).__module__.partition(".")[0] == "torch":
        array, found = _of_torch(array)
    else:
        array = np.asarray(array)
        found = _TYPES.get(array.dtype.name)
        if array.dtype == np.uint8 and wanted is not None:
            return np.ascontiguousarray(array).reshape(-1), array.shape, wanted, True
    if found is None:
        expected = ", ".join(_TYPES)
        message = f"an array of {array.dtype} is not the data of a tensor; expected {expected}, or uint8 of encoded bytes with their type"
        raise TypeError(message)
    if wanted is not None and wanted != found:
        if found in _INTEGERS or wanted in _INTEGERS:
            raise TypeError(f"{found} is not converted to {wanted}; convert the array with astype")
        # The encoders read float32, float16 and bfloat16.
        if found == "F64":
            array, found = array.astype("<f4"), "F32"
    shape = array.shape
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and np.little_endian is False):
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8), shape, found, False


def _of_torch(tensor: Any) -> tuple[np.ndarray, str | None]:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy(), "BF16"
    array = tensor.numpy()
    return array, _TYPES.get(array.dtype.name)
