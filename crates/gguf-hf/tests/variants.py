"""Writes variants of generated checkpoints into a folder: dense modules, the ranks of Kimi, Mistral's own layout, FP8.

  variants.py MAKE_CHECKPOINT OUT
"""
import base64, hashlib, importlib.util, json, os, shutil, struct, sys
import numpy as np

tool, out = sys.argv[1:]
spec = importlib.util.spec_from_file_location("make_checkpoint", tool)
make_checkpoint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_checkpoint)
CASES = os.path.join(make_checkpoint.DATA, "hf-cases")


def load(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items()}


def save(path, tensors):
    head, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + data)


def read(*path):
    with open(os.path.join(out, *path)) as f: return json.load(f)


def dump(value, *path):
    with open(os.path.join(out, *path), "w") as f: json.dump(value, f)


def noise(name, n):
    blocks = (hashlib.sha256(f"{name}{i}".encode()).digest() for i in range(n // 32 + 1))
    return b"".join(blocks)[:n]


def bf16(name, *shape):
    raw = np.frombuffer(noise(name, 2 * int(np.prod(shape))), "<u2").astype(np.float32)
    values = ((raw / 65536 - 0.5) * 0.1).astype(np.float32).view("<u4")
    return "BF16", list(shape), (values >> 16).astype("<u2").tobytes()


def f8(name, shape):
    """Numbers, without NaN."""
    return "F8_E4M3", shape, bytes(x if x & 0x7F != 0x7F else 0 for x in noise(name, int(np.prod(shape))))


def f32(*values, shape=()):
    return "F32", list(shape), np.array(values, "<f4").tobytes()


def dense():
    folder = make_checkpoint.make(CASES, "gemma3-embedding", out)
    with open(os.path.join(folder, "modules.json")) as f: modules = json.load(f)
    for i, path, n_in, n_out in ((2, "2_Dense", 64, 96), (3, "3_Dense", 96, 64)):
        modules.append({"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models.Dense"})
        os.makedirs(os.path.join(folder, path))
        dump({"in_features": n_in, "out_features": n_out, "bias": False}, folder, path, "config.json")
        save(os.path.join(folder, path, "model.safetensors"), {"linear.weight": bf16(path, n_out, n_in)})
    dump(modules, folder, "modules.json")


NAMES = {
    "model.embed_tokens.": "tok_embeddings.", "lm_head.": "output.", "model.norm.": "norm.", "model.layers.": "layers.",
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
}
SPECIAL = """<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad>
    [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]""".split()
MORE_SPECIAL = SPECIAL + "[AUDIO] [BEGIN_AUDIO] [ARGS] [CALL_ID] [THINK] [/THINK]".split()


def tekken(n_tokens, version, special):
    words = [bytes([i]) for i in range(256)] + [bytes([i, j]) for i in range(256) for j in b" et"]
    n_special = len(special) if special else 100
    tokens = [{"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": None} for i, w in enumerate(words)]
    config = {"pattern": "[^\\r\\n]+", "num_vocab_tokens": len(words), "default_vocab_size": n_tokens,
              "default_num_special_tokens": n_special, "version": version}
    entries = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(special or [])]
    return {"config": config, "vocab": tokens, **({"special_tokens": entries} if entries else {})}


def renamed(name):
    for old, new in NAMES.items(): name = name.replace(old, new)
    return name


def mistral(source, name, version, special, more={}, template=None, is_fp8=False, n_files=1):
    os.makedirs(os.path.join(out, name))
    with open(os.path.join(source, "config.json")) as f: config = json.load(f)
    tensors = {renamed(k): v for k, v in load(os.path.join(source, "model.safetensors")).items()}
    n_tokens = tensors["tok_embeddings.weight"][1][0]
    dump({"dim": config["hidden_size"], "n_layers": config["num_hidden_layers"], "head_dim": config["head_dim"],
          "hidden_dim": config["intermediate_size"], "n_heads": config["num_attention_heads"],
          "n_kv_heads": config["num_key_value_heads"], "norm_eps": 1e-5, "vocab_size": n_tokens,
          "rope_theta": 1000000.0, "max_position_embeddings": 4096, **more}, name, "params.json")
    dump(tekken(n_tokens, version, special), name, "tekken.json")
    if template:
        with open(os.path.join(out, name, "chat_template.jinja"), "w") as f: f.write(template)
    if is_fp8:
        for key in [k for k in tensors if ".attention.w" in k or "feed_forward" in k]:
            tensors[key] = f8(key, tensors[key][1])
            tensors[key.replace(".weight", ".qscale_weight")] = f32(0.003)
            tensors[key.replace(".weight", ".qscale_act")] = f32(1.0)
    keys = sorted(tensors)
    for i in range(n_files):
        file = "consolidated.safetensors" if n_files == 1 else f"consolidated-{i + 1:05}-of-{n_files:05}.safetensors"
        part = keys[i * len(keys) // n_files:(i + 1) * len(keys) // n_files]
        save(os.path.join(out, name, file), {key: tensors[key] for key in part})


def fp8(source, name, block):
    folder = os.path.join(out, name)
    shutil.copytree(source, folder)
    with open(os.path.join(folder, "config.json")) as f: config = json.load(f)
    config["quantization_config"] = {"quant_method": "fp8", **({"weight_block_size": [block, block]} if block else {})}
    dump(config, folder, "config.json")
    tensors = load(os.path.join(folder, "model.safetensors"))
    for key in [k for k in tensors if "_proj" in k]:
        rows, columns = tensors[key][1]
        tensors[key] = f8(key, [rows, columns])
        shape = [-(-rows // block), -(-columns // block)] if block else []
        tensors[key + "_scale_inv"] = f32(*np.linspace(0.001, 0.01, int(np.prod(shape))), shape=shape)
    save(os.path.join(folder, "model.safetensors"), tensors)


def kimi(case):
    """The tokenizer as ranks, with names for some special tokens."""
    folder = make_checkpoint.make(CASES, case, out)
    config = read(folder, "config.json")
    size = config.get("text_config", config)["vocab_size"]
    for name in os.listdir(folder):
        if name in ("tokenizer.json", "merges.txt", "vocab.json", "special_tokens_map.json"): os.remove(os.path.join(folder, name))
    tokens = [bytes([i]) for i in range(256)] + [bytes([i, j]) for i in b"etaoin" for j in b" etao"] + [b"the", b"then", b"\xe4\xb8"]
    with open(os.path.join(folder, "tiktoken.model"), "wb") as f:
        f.write(b"".join(b"%s %d\n" % (base64.b64encode(token), i) for i, token in enumerate(tokens)))
    names = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 5: "<|im_middle|>"}
    added = {str(len(tokens) + i): {"content": name, "special": True} for i, name in names.items()}
    template = read(folder, "tokenizer_config.json").get("chat_template")
    dump({"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "added_tokens_decoder": added,
          **({"chat_template": template} if template else {})}, folder, "tokenizer_config.json")
    config.update(bos_token_id=len(tokens), eos_token_id=len(tokens) + 2)
    dump(config, folder, "config.json")


dense()
for case in ("kimi-linear", "kimi-vl-text", "kimi-k3"): kimi(case)
source = make_checkpoint.make(CASES, "mistral-swa-hd", out)
yarn = {"factor": 16.0, "beta": 32.0, "alpha": 1.0, "apply_scale": False, "original_max_position_embeddings": 256}
mistral(source, "mistral-v3", "v3", None)
mistral(source, "mistral-v7", "v7", SPECIAL, n_files=2)
mistral(source, "mistral-v11", "v11", MORE_SPECIAL, template="{{ messages[0] }}\nx\n")
mistral(source, "mistral-v13", "v13", MORE_SPECIAL, {"yarn": yarn, "llama_4_scaling": {"beta": 0.1}})
mistral(source, "mistral-fp8", "v11", MORE_SPECIAL, {"quantization": {"qformat_weight": "fp8_e4m3"}}, is_fp8=True)
fp8(source, "fp8-blocks", 32)
fp8(source, "fp8-tensor", None)
