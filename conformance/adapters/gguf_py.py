#!/usr/bin/env python3
"""gguf-py, the package gguf of PyPI: GGUFReader, and its quants for decoded values."""
import json, os, sys
from gguf import GGUFReader
from gguf.quants import dequantize

NAMES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()

def plain(x):
    x = x.item() if hasattr(x, "item") else x
    return str(x) if isinstance(x, float) and (x != x or abs(x) == float("inf")) else x

def text(part):
    raw = bytes(part)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"hex": raw.hex()}

def value(field):
    if field.types[0] == 8:
        return text(field.parts[-1])
    if field.types[0] != 9:
        return plain(field.parts[-1][0])
    if len(field.types) > 2 or len(field.data) > 65536:
        return None  # the parts of nested arrays are flat
    return {"items": [text(field.parts[i]) if field.types[-1] == 8 else plain(field.parts[i][0]) for i in field.data]}

def values(tensor):
    try:
        return [plain(x) for x in dequantize(tensor.data, tensor.tensor_type).reshape(-1)]
    except (NotImplementedError, AttributeError, ValueError):
        return None

# Python ends with 1 after an exception, which is a rejection here.
sys.excepthook = lambda *problem: (sys.__excepthook__(*problem), sys.stderr.flush(), os._exit(2))
try:
    reader = GGUFReader(sys.argv[1])
except (MemoryError, RecursionError):
    raise
except Exception as e:  # the reader has no error of its own
    sys.exit(f"{type(e).__name__}: {e}")
kv = [{"key": text(f.parts[1]), "type": NAMES[f.types[0]], "value": value(f)} for f in reader.fields.values() if not f.name.startswith("GGUF.")]
tensors = [{"name": t.name, "type": int(t.tensor_type), "shape": [int(n) for n in t.shape], "bytes": int(t.n_bytes), "values": values(t) if t.n_bytes < 65536 else None} for t in reader.tensors]
print(json.dumps({"version": int(reader.fields["GGUF.version"].parts[-1][0]), "alignment": int(reader.alignment), "data_offset": int(reader.data_offset), "kv": kv, "tensors": tensors}))
