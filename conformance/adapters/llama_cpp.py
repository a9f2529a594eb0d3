#!/usr/bin/env python3
"""llama.cpp's gguf.h, and the check of its model loader. LLAMA_CPP_LIB_PATH names the folder of libggml-base."""
import ctypes as c, json, os, sys

LIB = c.CDLL(os.path.join(os.environ["LLAMA_CPP_LIB_PATH"], "libggml-base.so"))
NAMES = "u8 i8 u16 i16 u32 i32 f32 bool str arr u64 i64 f64".split()
NUMBERS = [c.c_uint8, c.c_int8, c.c_uint16, c.c_int16, c.c_uint32, c.c_int32, c.c_float, c.c_bool, c.c_char_p, None, c.c_uint64, c.c_int64, c.c_double]
Init = type("Init", (c.Structure,), {"_fields_": [("no_alloc", c.c_bool), ("ctx", c.c_void_p)]})
Traits = type("Traits", (c.Structure,), {"_fields_": [("name", c.c_char_p), ("block", c.c_int64), ("interleave", c.c_int64), ("size", c.c_size_t), ("quantized", c.c_bool), ("to_float", c.c_void_p)]})

def call(name, result, *args):
    f = getattr(LIB, name)
    f.restype, f.argtypes = result, [c.c_void_p] + [c.c_int64] * (len(args) - 1)
    return f(*args)

def plain(x):
    if isinstance(x, bytes):
        return x.decode() if x.isascii() or x.decode(errors="ignore").encode() == x else {"hex": x.hex()}
    return str(x) if isinstance(x, float) and (x != x or abs(x) == float("inf")) else x

def value(g, i, ty):
    if ty != 9:
        return plain(call("gguf_get_val_" + NAMES[ty], NUMBERS[ty], g, i))
    of, n = call("gguf_get_arr_type", c.c_int, g, i), call("gguf_get_arr_n", c.c_size_t, g, i)
    data = c.cast(call("gguf_get_arr_data", c.c_void_p, g, i), c.POINTER(NUMBERS[of])) if of != 8 and n else None
    return {"items": [plain(data[k] if data else call("gguf_get_arr_str", c.c_char_p, g, i, k)) for k in range(n)]} if n <= 65536 else None

def values(path, at, ty, size):
    traits = LIB.ggml_get_type_traits(ty).contents
    if traits.to_float and 0 < size < 1 << 16:
        raw, out = open(path, "rb").read()[at:at + size], (c.c_float * (size // traits.size * traits.block))()
        c.CFUNCTYPE(None, c.c_char_p, c.c_void_p, c.c_int64)(traits.to_float)(raw, c.cast(out, c.c_void_p), len(out))
        return [plain(x) for x in out]

LIB.gguf_init_from_file.restype, LIB.gguf_init_from_file.argtypes = c.c_void_p, [c.c_char_p, Init]
LIB.ggml_get_type_traits.restype = c.POINTER(Traits)
sys.excepthook = lambda *problem: (sys.__excepthook__(*problem), sys.stderr.flush(), os._exit(2))  # an exception's 1 is a rejection here
path = sys.argv[1]
g = LIB.gguf_init_from_file(path.encode(), Init(True, None)) or sys.exit(1)
out = {"version": call("gguf_get_version", c.c_uint32, g), "alignment": call("gguf_get_alignment", c.c_size_t, g), "data_offset": call("gguf_get_data_offset", c.c_size_t, g), "kv": [], "tensors": []}
for i in range(call("gguf_get_n_kv", c.c_int64, g)):
    ty = call("gguf_get_kv_type", c.c_int, g, i)
    out["kv"].append({"key": plain(call("gguf_get_key", c.c_char_p, g, i)), "type": {8: "string", 9: "array"}.get(ty, NAMES[ty]), "value": value(g, i, ty)})
for i in range(call("gguf_get_n_tensors", c.c_int64, g)):
    name, ty, offset, size = (call("gguf_get_tensor_" + part, result, g, i) for part, result in (("name", c.c_char_p), ("type", c.c_int), ("offset", c.c_size_t), ("size", c.c_size_t)))
    if out["data_offset"] + offset + size > os.path.getsize(path):  # llama-model-loader.h: "tensor data is not within the file bounds"
        sys.exit(1)
    out["tensors"].append({"name": plain(name), "type": ty, "offset": offset, "bytes": size, "values": values(path, out["data_offset"] + offset, ty, size)})
print(json.dumps(out))
