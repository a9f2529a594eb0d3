"""diffusers, whose decoders are those of ComfyUI-GGUF, reads tensors with the drop-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from both import OURS

pytest.importorskip("torch")

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()


def test_values_are_those_of_the_codecs(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    values = np.random.default_rng(0).normal(size=(8, 512)).astype(np.float32)
    writer = OURS.GGUFWriter(path, "flux")
    for name in TYPES:
        kind = OURS.GGMLQuantizationType[name]
        writer.add_tensor(name, OURS.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with OURS.active():
        loading = pytest.importorskip("diffusers.models.model_loading_utils")
        from diffusers.quantizers.gguf.utils import GGUFParameter, dequantize_gguf_tensor

        loaded = loading.load_gguf_checkpoint(path)
    assert set(loaded) == set(TYPES)
    for tensor in OURS.GGUFReader(path).tensors:
        found = loaded[tensor.name]
        if isinstance(found, GGUFParameter):
            found = dequantize_gguf_tensor(found)
        expected = OURS.dequantize(tensor.data, tensor.tensor_type)
        # diffusers computes in half precision.
        assert np.allclose(found.float().numpy(), expected, rtol=0, atol=0.01), tensor.name
