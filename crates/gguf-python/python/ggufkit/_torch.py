"""Tensors of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._native import Tensor


def tensor(source: Tensor, dtype: Any, rows: Any) -> Any:
    """The values of a tensor, without a copy where NumPy has a view of the file."""
    import warnings

    import torch

    with warnings.catch_warnings():
        # The mapped file is read-only, which PyTorch cannot express.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        if source.type == "BF16" and np.little_endian:
            raw = source.raw(rows)
            values = torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16)
        else:
            array = source.numpy(rows)
            values = torch.from_numpy(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))
    if dtype is None:
        return values
    return values.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
