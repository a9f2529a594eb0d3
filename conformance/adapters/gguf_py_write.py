#!/usr/bin/env python3
"""The writer of gguf-py: writes a model (MODEL.json OUT), or copies a file as its scripts do (IN.gguf OUT)."""
import json, os, sys
import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter

NAMES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()

def value(x):
    """A value as add_key_value takes it, and the type of its elements."""
    if isinstance(x, dict) and "hex" in x:
        return bytes.fromhex(x["hex"]), None
    if not isinstance(x, dict):
        return (float(x) if x in ("nan", "inf", "-inf") else x), None
    if x["of"] == "array":
        sys.exit("arrays of arrays have no types")
    return [value(item)[0] for item in x["items"]], GGUFValueType(NAMES.index(x["of"]))

def model(path):
    with open(path) as f:
        m = json.load(f)
    if m["version"] != 3:
        sys.exit("only version 3 is written")
    pairs = [(pair["key"], GGUFValueType(NAMES.index(pair["type"])), *value(pair["value"])) for pair in m["kv"]]
    data = [(t, np.frombuffer(bytes.fromhex(t["data"]), np.uint8)) for t in m["tensors"]]
    return m["byte_order"] == "big", pairs, [(t["name"], d, t["shape"][::-1], t["type"]) for t, d in data]

def file(path):
    reader = GGUFReader(path)
    pairs = [(f.name, f.types[0], f.contents(), f.types[-1] if len(f.types) > 1 else None) for f in reader.fields.values() if not f.name.startswith("GGUF.")]
    tensors = [(t.name, t.data.reshape(-1).view(np.uint8), [int(n) for n in t.shape[::-1]], t.tensor_type) for t in reader.tensors]
    return reader.endianess == GGUFEndian.BIG, pairs, tensors

def write(source, out):
    big, pairs, tensors = (model if source.endswith(".json") else file)(source)
    writer = GGUFWriter(out, arch="", endianess=GGUFEndian.BIG if big else GGUFEndian.LITTLE)
    for key, ty, x, of in pairs:
        if key == "general.alignment":
            writer.add_custom_alignment(x)
        writer.add_key_value(key, x, ty, sub_type=of)
    for name, data, shape, ty in tensors:
        # Data as bytes, with its shape in elements.
        writer.add_tensor_info(name, shape, np.dtype(np.float32), data.nbytes, raw_dtype=GGMLQuantizationType(ty))
        writer.tensors[-1][name].tensor = data
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()

# Python ends with 1 after an exception, which is a rejection here.
sys.excepthook = lambda *problem: (sys.__excepthook__(*problem), sys.stderr.flush(), os._exit(2))
try:
    write(*sys.argv[1:])
except ValueError as e:
    sys.exit(f"{type(e).__name__}: {e}")
