"""Reads, checks, writes, edits, quantizes, converts and verifies models in GGUF, the file format of ggml and llama.cpp.

>>> import ggufkit as gk
>>> with gk.open("model.gguf") as model:
...     model.metadata["general.name"]
...     model["token_embd.weight"].numpy(rows=slice(0, 8))
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ._errors import FormatError, GgufError, KeyNotFoundError, TensorNotFoundError
from ._native import (
    Array,
    Check,
    Edit,
    Finding,
    Metadata,
    Model,
    Plan,
    Tensor,
    Verification,
    VerifiedTensor,
    Writer,
    __version__,
    check,
    dequantize,
    export,
    merge_lora,
    open,
    plan,
    quantize,
    tensor_types,
    verify,
)

edit = Edit

for _abc, _class in ((Mapping, Model), (Mapping, Metadata), (Sequence, Array), (Sequence, Check), (Sequence, Verification)):
    cast(Any, _abc).register(_class)

__all__ = [
    "Array",
    "Check",
    "Edit",
    "Finding",
    "FormatError",
    "GgufError",
    "KeyNotFoundError",
    "Metadata",
    "Model",
    "Plan",
    "Tensor",
    "TensorNotFoundError",
    "Verification",
    "VerifiedTensor",
    "Writer",
    "__version__",
    "check",
    "dequantize",
    "edit",
    "export",
    "merge_lora",
    "open",
    "plan",
    "quantize",
    "tensor_types",
    "verify",
]
