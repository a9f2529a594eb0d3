"""Compares exported tensors with the values of ggml's decoders, rounded by ggml's functions, bit for bit.

  exact_peer.py LIBGGML_BASE N_HEADS N_HEADS_KV (FILE TYPE FOLDER)...     prints a line for each export: its file, its type, the number of values, and
                                                                         the first tensors that differ, if any

Rows of queries and keys are permuted in the file as llama.cpp's converter does it for Llama.
"""
import ctypes, os, sys
import numpy as np
import torch
from safetensors.torch import load_file

library, n_heads, n_heads_kv, *exports = sys.argv[1:]
sys.path.insert(0, os.path.join(os.path.dirname(library), "../llama.cpp/gguf-py"))  # a release may not know all types
from gguf import GGUFReader

ToFloat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Traits(ctypes.Structure):
    _fields_ = [("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64), ("blck_size_interleave", ctypes.c_int64),
                ("type_size", ctypes.c_size_t), ("is_quantized", ctypes.c_bool), ("to_float", ToFloat)]


NAMES = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
IN_BLOCK = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_down": "mlp.down_proj", "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj", "attn_k": "self_attn.k_proj", "attn_q": "self_attn.q_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj"}


def name_of(name):
    stem = name.removesuffix(".weight")
    if stem in NAMES: return NAMES[stem] + ".weight"
    _, block, own = stem.split(".")
    return f"model.layers.{block}.{IN_BLOCK[own]}.weight"


def expected(ggml, tensor, ty, heads):
    """The bits of all values."""
    n = int(np.prod(tensor.shape))
    data = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
    if tensor.tensor_type.name == "F32": values = data.view(np.float32).copy()
    else:
        values = np.empty(n, np.float32)
        ggml.ggml_get_type_traits(int(tensor.tensor_type)).contents.to_float(data.ctypes.data, values.ctypes.data, n)
    if ty == "f32": bits = values.view(np.uint32)
    else:
        bits = np.empty(n, np.uint16)
        row = {"f16": ggml.ggml_fp32_to_fp16_row, "bf16": ggml.ggml_fp32_to_bf16_row_ref}[ty]
        row(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(bits.ctypes.data), ctypes.c_int64(n))
    bits = bits.reshape([int(x) for x in reversed(tensor.shape)])
    if heads:
        rows, columns = bits.shape
        bits = bits.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    return bits


def is_nan(bits, ty):
    """Which values are not numbers: blocks of arbitrary bytes have some, whose other bits nothing defines."""
    if ty == "bf16": return np.isnan((bits.astype(np.uint32) << np.uint32(16)).view(np.float32))
    return np.isnan(bits.view({"f32": np.float32, "f16": np.float16}[ty]))


ggml = ctypes.CDLL(library)
ggml.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
for file, ty, folder in zip(exports[0::3], exports[1::3], exports[2::3]):
    stored, n, other = load_file(os.path.join(folder, "model.safetensors")), 0, []
    for tensor in GGUFReader(file).tensors:
        heads = int({"attn_q": n_heads, "attn_k": n_heads_kv}.get(tensor.name.split(".")[-2], 0))
        want = expected(ggml, tensor, ty, heads)
        found = stored.pop(name_of(tensor.name))
        found = found.view({4: torch.int32, 2: torch.int16}[found.element_size()]).numpy().view(want.dtype)
        n += want.size
        same = found.shape == want.shape and (found == want) | is_nan(found, ty) & is_nan(want, ty)
        if not np.all(same): other.append(f"{tensor.name} {np.size(same) - np.sum(same)}")
    print(os.path.basename(file), ty, n, *other[:3], *list(stored)[:1])
