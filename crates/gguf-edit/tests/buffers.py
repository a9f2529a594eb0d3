"""Loads a model in llama.cpp with a context and prints, as JSON, the sizes of the buffers that it reports (MiB), by what they hold.

  buffers.py MODEL KEY=VALUE...     fields of llama_context_params, such as n_ctx=4096 type_k=8 flash_attn_type=0
"""
import ctypes, json, os, re, sys

LIB = os.environ["LLAMA_CPP_LIB_PATH"]
base = ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
base.ggml_backend_load_all_from_path(LIB.encode())
import llama_cpp as L

lines = []
log = L.llama_log_callback(lambda level, text, data: lines.append(text.decode(errors="replace")))
L.llama_log_set(log, ctypes.c_void_p(0))
L.llama_backend_init()
model_params = L.llama_model_default_params()
model_params.n_gpu_layers = 0
if hasattr(model_params, "use_extra_bufts"):
    model_params.use_extra_bufts = False
model = L.llama_model_load_from_file(sys.argv[1].encode(), model_params)
if not model:
    print(json.dumps({"loaded": False, "log": "".join(lines)[-2000:]}))
    sys.exit(0)
params = L.llama_context_default_params()
params.n_threads = 1
for word in sys.argv[2:]:
    key, value = word.split("=")
    setattr(params, key, type(getattr(params, key))(int(value)))
context = L.llama_init_from_model(model, params)
sizes = {}
for line in "".join(lines).split("\n"):
    found = re.search(r"(\w[\w ]*?)\s+(model|KV|RS|compute|output)\s+buffer size\s*=\s*([0-9.]+) MiB", line)
    if found:
        sizes.setdefault(found[2], []).append(float(found[3]))
report = {"loaded": True, "context": bool(context), "size": L.llama_model_size(model), "sizes": sizes}
if os.environ.get("BUFFERS_LOG"):
    report["log"] = "".join(lines)
print(json.dumps(report))
