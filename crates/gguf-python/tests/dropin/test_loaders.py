"""The loaders of InvokeAI and of vLLM's plugin give the same tensors and tables with both packages.

Their wheels are unpacked in the folder `image-loaders` of GGUF_PEERS; CONTRIBUTING.md has the commands.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import types
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from both import OURS, THEIRS

torch = pytest.importorskip("torch")

LOADERS = Path(os.environ.get("GGUF_PEERS", "peers")) / "image-loaders"
TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tensor of each type."""
    path = tmp_path_factory.mktemp("loaders") / "model.gguf"
    values = np.random.default_rng(0).normal(size=(8, 512)).astype(np.float32)
    writer = OURS.GGUFWriter(path, "flux")
    writer.add_array("comfy.gguf.orig_shape.F32.weight", [8, 16, 32])
    for name in TYPES:
        kind = OURS.GGMLQuantizationType[name]
        writer.add_tensor(f"{name}.weight", OURS.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextmanager
def modules(package: Any, stubs: dict[str, dict[str, object]]) -> Iterator[None]:
    """Imports are those of a package `gguf`, of the loaders, and of stubs for the packages that they need beside these."""
    roots = {name.split(".")[0] for name in stubs} | {"invokeai"}
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in roots}
    sys.path.insert(0, str(LOADERS))
    for name, contents in stubs.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module
    try:
        with package.active():
            yield
    finally:
        sys.path.remove(str(LOADERS))
        for name in [name for name in sys.modules if name.split(".")[0] in roots]:
            del sys.modules[name]
        sys.modules.update(others)


def source(path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("loaded", LOADERS / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else str(tensor).encode()


@pytest.mark.skipif(not (LOADERS / "invokeai").is_dir(), reason="needs InvokeAI in image-loaders of GGUF_PEERS")
def test_invokeai_loads_the_same_tensors(model: Path) -> None:
    class Logger:
        @staticmethod
        def get_logger() -> logging.Logger:
            return logging.getLogger("invokeai")

    loaded = []
    for package in (OURS, THEIRS):
        with modules(package, {"invokeai.backend.util.logging": {"InvokeAILogger": Logger}}):
            loader = importlib.import_module("invokeai.backend.quantization.gguf.loaders")
            tensors = loader.gguf_sd_loader(model, torch.float32)
            found = {}
            for name, tensor in tensors.items():
                stored = tensor.quantized_data
                # InvokeAI does not decode all of these types.
                try:
                    values = plain(tensor.get_dequantized_tensor())
                except NotImplementedError:
                    values = None
                found[name] = (plain(stored), tuple(tensor.tensor_shape), tensor._ggml_quantization_type.name, values)
            loaded.append(found)
    ours, theirs = loaded
    assert len(ours) == len(TYPES) and ours == theirs
    assert ours["F32.weight"][1] == (8, 16, 32)
    assert sum(values is not None for *_, values in ours.values()) >= 10


@pytest.mark.skipif(not (LOADERS / "vllm_gguf_plugin").is_dir(), reason="needs vllm-gguf-plugin in image-loaders of GGUF_PEERS")
def test_the_plugin_of_vllm_reads_the_same_tensors_and_tables(model: Path) -> None:
    read = []
    stubs: dict[str, dict[str, object]] = {"vllm": {}, "vllm.logger": {"init_logger": logging.getLogger}}
    for package in (OURS, THEIRS):
        with modules(package, stubs):
            weights = source("vllm_gguf_plugin/weight_utils.py")
            tables = source("vllm_gguf_plugin/triton/gemm/iq_quant/iq_tables.py")
            tensors = [(name, plain(tensor)) for name, tensor in weights.gguf_quant_weights_iterator(model, None)]
            names = {f"{name}.weight": name for name in TYPES}
            kinds = weights.get_gguf_weight_type_map(model, names), sorted(weights.get_gguf_unquantized_params([model]))
            read.append((tensors, kinds, {name: (table.dtype, table.tolist()) for name, table in tables._cpu_iq_tables().items()}))
    assert read[0] == read[1]
    assert len(read[0][0]) == 2 * len(TYPES) - 3 and len(read[0][2]) == 8
