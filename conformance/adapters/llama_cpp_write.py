#!/usr/bin/env python3
"""The writer of llama.cpp's gguf.h: writes a model (MODEL.json OUT), or copies a file (IN.gguf OUT). LLAMA_CPP_LIB_PATH names the folder of libggml-base."""
import ctypes as c, json, os, sys

os.environ["GGML_NO_BACKTRACE"] = "1"
LIB = c.CDLL(os.path.join(os.environ["LLAMA_CPP_LIB_PATH"], "libggml-base.so"))
NAMES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()
NUMBERS = [c.c_uint8, c.c_int8, c.c_uint16, c.c_int16, c.c_uint32, c.c_int32, c.c_float, c.c_bool, c.c_char_p, None, c.c_uint64, c.c_int64, c.c_double]
Memory = type("Memory", (c.Structure,), {"_fields_": [("size", c.c_size_t), ("buffer", c.c_void_p), ("no_alloc", c.c_bool)]})
Init = type("Init", (c.Structure,), {"_fields_": [("no_alloc", c.c_bool), ("ctx", c.POINTER(c.c_void_p))]})

def call(name, result, *args):
    f = getattr(LIB, name)
    f.restype = result
    return f(*(c.c_void_p(x) if type(x) is int else x for x in args))

def plain(x):
    x = bytes.fromhex(x["hex"]) if isinstance(x, dict) else x
    return x.encode() if isinstance(x, str) else x

def add(g, key, ty, x):
    if ty != 9:
        x = float(x) if ty in (6, 12) else plain(x)
        return call("gguf_set_val_" + NAMES[ty].replace("string", "str"), None, g, key.encode(), NUMBERS[ty](x))
    of = NAMES.index(x["of"])
    if of == 9:
        sys.exit("gguf.h cannot set arrays of arrays")
    data = (NUMBERS[of] * len(x["items"]))(*(float(item) if of in (6, 12) else plain(item) for item in x["items"]))
    call("gguf_set_arr_str", None, g, key.encode(), data, c.c_size_t(len(data))) if of == 8 else call("gguf_set_arr_data", None, g, key.encode(), c.c_int(of), data, c.c_size_t(len(data)))

# Python ends with 1 after an exception, which is a rejection here.
sys.excepthook = lambda *problem: (sys.__excepthook__(*problem), sys.stderr.flush(), os._exit(2))
source, out = sys.argv[1:]
g, ctx = call("gguf_init_empty", c.c_void_p), c.c_void_p()
if source.endswith(".json"):
    m = json.load(open(source))
    if (m["version"], m["byte_order"]) != (3, "little"):
        sys.exit("gguf.h writes version 3 in the byte order of the machine")
    for pair in m["kv"]:
        add(g, pair["key"], NAMES.index(pair["type"]), pair["value"])
    ctx = call("ggml_init", c.c_void_p, Memory(1 << 24, None, True))
    for t in m["tensors"]:
        tensor = call("ggml_new_tensor", c.c_void_p, ctx, c.c_int(t["type"]), c.c_int(len(t["shape"])), (c.c_int64 * len(t["shape"]))(*t["shape"]))
        call("ggml_set_name", c.c_void_p, tensor, t["name"].encode())
        call("gguf_add_tensor", None, g, tensor)
        t["data"] = c.create_string_buffer(bytes.fromhex(t["data"]))  # lives until the file is written
        call("gguf_set_tensor_data", None, g, t["name"].encode(), t["data"])
else:
    read = call("gguf_init_from_file", c.c_void_p, source.encode(), Init(True, c.pointer(ctx))) or sys.exit(1)
    call("gguf_set_kv", None, g, read)
    data = c.create_string_buffer(open(source, "rb").read())
    for i in range(call("gguf_get_n_tensors", c.c_int64, read)):
        name, offset = (call("gguf_get_tensor_" + part, result, read, c.c_int64(i)) for part, result in (("name", c.c_char_p), ("offset", c.c_size_t)))
        call("gguf_add_tensor", None, g, call("ggml_get_tensor", c.c_void_p, ctx.value, name))
        call("gguf_set_tensor_data", None, g, name, c.byref(data, call("gguf_get_data_offset", c.c_size_t, read) + offset))
sys.exit(0 if call("gguf_write_to_file", c.c_bool, g, out.encode(), c.c_bool(False)) else 1)
