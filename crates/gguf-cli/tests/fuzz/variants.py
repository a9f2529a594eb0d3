"""Variants of the generated checkpoints: each is a base and a list of edits, drawn from a seed and an index, so both reproduce it."""
import copy, json, os, random, re, struct, tempfile
import numpy as np

KEPT = 600                # tokens of a shortened vocabulary, without its added tokens
LARGEST = 9_000_000       # bytes of tensors of a base that is used
ODD = [0, 1, 2, 3, -1, 7, 1.5, 0.0, 1e-6, 1e6, 2**31, 2**40, True, False, None, "", "x", [], {}, [0], [1, 2], "1"]


def nested(config, path=()):
    """Paths of all entries of a configuration, without the items of lists."""
    for key, value in config.items():
        yield path + (key,), value
        if isinstance(value, dict): yield from nested(value, path + (key,))


def shorten(files, vocab):
    """Shortens the vocabulary of a byte-level BPE or WordPiece tokenizer. Returns the new size and the new id of each old one."""
    data = json.loads(files["tokenizer.json"])
    model = data["model"]
    order = sorted(model["vocab"].items(), key=lambda x: x[1])
    added = {t["content"]: t["id"] for t in data["added_tokens"]}
    kept = [(t, i) for t, i in order if i < KEPT + 600 * (model["type"] == "WordPiece") or t in added]
    ids = {i: n for n, i in enumerate(sorted({i for _, i in kept} | set(added.values())))}
    model["vocab"] = {t: ids[i] for t, i in kept}
    if "merges" in model:
        pair = lambda m: m.split(" ", 1) if isinstance(m, str) else m
        model["merges"] = [m for m in model["merges"] if all(x in model["vocab"] for x in (*pair(m), "".join(pair(m))))]
    for t in data["added_tokens"]: t["id"] = ids[t["id"]]
    files["tokenizer.json"] = json.dumps(data, ensure_ascii=False).encode()
    config = json.loads(files.get("tokenizer_config.json", b"{}"))
    if "added_tokens_decoder" in config:
        config["added_tokens_decoder"] = {str(ids[int(i)]): t for i, t in config["added_tokens_decoder"].items() if int(i) in ids}
        files["tokenizer_config.json"] = json.dumps(config, ensure_ascii=False).encode()
    if "vocab.txt" in files:
        lines = files["vocab.txt"].decode().split("\n")
        files["vocab.txt"] = "\n".join(lines[i] for i in sorted(ids) if i < len(lines)).encode() + b"\n"
    size = len(ids) if vocab == max(added.values(), default=0) + 1 or vocab == len(order) else -(-len(ids) // 32) * 32
    return size, ids


class Bases:
    """The recipes, and their tokenizers."""

    def __init__(self, tool):
        self.tool, self.folder = tool, os.path.join(tool.DATA, "hf-cases")
        self.cases, self.bundles = {}, {}
        for file in sorted(os.listdir(self.folder)):
            if file == "MANIFEST.json": continue
            with open(os.path.join(self.folder, file), encoding="utf-8") as f: self.cases[file[:-5]] = json.load(f)
        self.names = list(self.cases)
        with open(os.path.join(tool.DATA, "hf-tokenizers", "BUNDLES.json"), encoding="utf-8") as f: self.sizes = json.load(f)
        self.keys = sorted({(path[-1], json.dumps(value)) for c in self.cases.values() for path, value in nested(c["config"])})
        tensors = (t for c in self.cases.values() for t in tool.tensors(c))
        self.tensor_names = sorted({t[0] for t in tensors})

    def bundle(self, name, is_short):
        """Files of a tokenizer, the dimension of its vocabulary, and new ids of tokens."""
        if (name, is_short) not in self.bundles:
            files, ids = {}, None
            if name:
                with tempfile.TemporaryDirectory() as out:
                    self.tool.bundle(name, out)
                    for file in sorted(os.listdir(out)):
                        with open(os.path.join(out, file), "rb") as f: files[file] = f.read()
            size = self.sizes[name]["vocab"] if name else 0
            if is_short and size > 8000 and "tokenizer.json" in files: size, ids = shorten(files, size)
            self.bundles[name, is_short] = files, size, ids
        files, size, ids = self.bundles[name, is_short]
        return dict(files), size, ids

    def model(self, name, is_short):
        return Model(self, name, is_short)


class Model:
    """A checkpoint in memory."""

    def __init__(self, bases, name, is_short):
        case = copy.deepcopy(bases.cases[name])
        self.bases, self.name, self.folder, self.seed = bases, name, name, name
        self.config, self.args, self.outtype = case["config"], case.get("args", []), (case.get("outtypes") or ["bf16"])[0]
        self.tensors = [list(t) for t in bases.tool.tensors(case)]
        bundle = case.get("tokenizer")
        self.files, size, ids = bases.bundle(bundle, is_short)
        self.pre, self.is_short = None, ids is not None
        self.storage = {"shards": case.get("shards", 1)}
        self.json = {}
        for file in list(self.files):
            if file.endswith(".json"): self.json[file] = json.loads(self.files.pop(file))
        if case.get("tokenizer_config"):
            edited = self.json.setdefault("tokenizer_config.json", {})
            for k, v in case["tokenizer_config"].items():
                if v is None: edited.pop(k, None)
                else: edited[k] = v
        for file, value in case.get("files", {}).items():
            if isinstance(value, str): self.files[file] = value.encode()
            else: self.json[file] = value
        new_id = lambda i: ids.get(i, i % KEPT) if ids else i
        for text, i in case.get("added_tokens", {}).items():
            tokens = self.json["tokenizer.json"]["added_tokens"]
            token = {"id": max([t["id"] for t in tokens]) + 1 if ids else i, "content": text, "single_word": False, "lstrip": False,
                     "rstrip": False, "normalized": False, "special": True}
            if ids: ids = {**ids, i: token["id"]}
            tokens.append(token)
        if ids:
            old = bases.sizes[bundle]["vocab"]
            added = len(case.get("added_tokens", {}))
            size += -(-added // 32) * 32
            for t in self.tensors: t[2] = [size if d == old else d for d in t[2]]
            self.pre = {"bert-wpm": "bert-bge", "deepseek-coder": "deepseek-coder", "neox": "mpt", "gpt2": "gpt-2", "falcon": "falcon",
                        "starcoder2": "starcoder", "llama3": "llama-bpe", "qwen2": "qwen2"}[bundle]
            configs = [self.config] + [v for k, v in self.json.items() if k in ("generation_config.json",)]
            for config in configs: self.renumber(config, old, size, new_id)
            tokens = self.json.get("tokenizer_config.json", {})
            if case.get("tokenizer_config", {}).get("added_tokens_decoder"):
                tokens["added_tokens_decoder"] = {str(new_id(int(i))): t for i, t in tokens["added_tokens_decoder"].items()}
        self.target = self.args[self.args.index("--target-model-dir") + 1] if "--target-model-dir" in self.args else None

    def renumber(self, value, old, size, new_id):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, x in list(items):
            is_id = isinstance(key, str) and re.search(r"(token|image|audio|video).*_(id|index)$|_token_id|_token_index", key)
            if isinstance(x, (dict, list)):
                if is_id and isinstance(x, list) and all(type(i) is int for i in x): value[key] = [new_id(i) for i in x]
                else: self.renumber(x, old, size, new_id)
            elif type(x) is int and x == old: value[key] = size
            elif type(x) is int and is_id: value[key] = new_id(x)

    def bytes(self):
        return sum(int(np.prod(s, dtype=np.int64)) * self.bases.tool.SIZE.get(d, 1) for _, d, s, _ in self.tensors)

    def write(self, root):
        tool = self.bases.tool
        out = os.path.join(root, self.folder)
        os.makedirs(out)
        for file, value in {"config.json": self.config, **self.json}.items(): tool.dump(os.path.join(out, file), value)
        for file, value in self.files.items():
            path = os.path.join(out, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f: f.write(value)
        if self.tensors: self.write_tensors(out)
        return out

    def write_tensors(self, out):
        s = self.storage
        items = [(n, d, shape, tool_values(self.bases.tool, self.seed, n, d, shape, kind)) for n, d, shape, kind in self.tensors]
        if s.get("order"): random.Random(s["order"]).shuffle(items)
        shards, is_torch = s["shards"], s.get("torch")
        stem, ext = ("pytorch_model", "bin") if is_torch else (s.get("stem", "model"), "safetensors")
        index = {}
        for i in range(shards):
            part = items[i * len(items) // shards:(i + 1) * len(items) // shards]
            file = f"{stem}.{ext}" if shards == 1 else f"{stem}-{i + 1:05}-of-{shards:05}.{ext}"
            index.update({t[0]: file for t in part})
            path = os.path.join(out, file)
            if is_torch: save_torch(path, part, s)
            else: save_safetensors(path, part, s)
        if shards > 1 and s.get("index", True):
            for name in s.get("unlisted", []): index.pop(name, None)
            index.update(s.get("listed", {}))
            self.bases.tool.dump(os.path.join(out, f"{stem}.{ext}.index.json"), {"metadata": {}, "weight_map": index})


def tool_values(tool, seed, name, dtype, shape, kind):
    if dtype == "F64": return np.frombuffer(tool.values(seed, name, "F32", shape, kind), "<f4").astype("<f8").tobytes()
    return tool.values(seed, name, dtype, shape, kind)


def save_safetensors(path, items, s):
    head, at = ({} if s.get("no_metadata") else {"__metadata__": {"format": "pt"}}), 0
    for name, dtype, shape, data in items:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    if s.get("sorted_head"): head = dict(sorted(head.items()))
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + b"".join(d for *_, d in items))


def save_torch(path, items, s):
    import torch
    types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I64": torch.int64,
             "I32": torch.int32, "U8": torch.uint8, "I8": torch.int8, "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn}
    state = {}
    for name, dtype, shape, data in items:
        t = torch.frombuffer(bytearray(data), dtype=types[dtype]).reshape(shape) if data else torch.empty(shape, dtype=types[dtype])
        if s.get("strided") and t.dim() == 2: t = t.t().contiguous().t()
        state[name] = t
    torch.save(state, path)


def numeric(rng, value):
    """Another value for an entry of a configuration, mostly a plausible one."""
    if rng.random() < 0.25: return rng.choice(ODD)
    if isinstance(value, bool): return not value
    if isinstance(value, int): return rng.choice([value * 2, value // 2, value + 1, max(value - 1, 0), value * 3, float(value), 0])
    if isinstance(value, float): return rng.choice([value * 2, value / 2, 1.0, 0.0, 0.1, int(value), value * 1.1])
    if isinstance(value, list):
        return rng.choice([value[:-1], value + value[-1:], value[::-1], [], value * 2, value[:1], None])
    if isinstance(value, dict): return rng.choice([{}, None])
    return rng.choice([None, "", "silu", "gelu", "relu", "linear", "default", str(value) + "x", str(value).upper()])


ROPE = [
    {"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 2}, {"type": "dynamic", "factor": 2.0},
    {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 16, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 1.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "attention_factor": 1.2, "truncate": False},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128},
    {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0], "factor": 4.0},
    {"rope_type": "default"}, {"type": "default", "mrope_section": [2, 3, 3]}, {"rope_type": "mrope", "mrope_section": [1, 1, 2]},
    {"rope_type": "default", "rope_theta": 50000.0}, {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}, {"rope_theta": 1234.5},
    {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5}, {"rope_type": "default", "partial_rotary_factor": 0.25},
    {"full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
]
TEMPLATES = ["{{ messages }}", "", "{% for m in messages %}{{ m.content }}{% endfor %}\n", "Zeile\r\n{{ é }}",
             [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}], [{"name": "rag", "template": "C"}],
             {"default": "x"}, None, 5]
NAMES = ["Llama-3-8B-Instruct-v0.1", "my_model", "Qwen2.5-7B", "a b c", "model-7b-chat-hf", "Mixtral-8x7B-v0.1-beta", "x-1.5T-base-lora",
         "123456", "phi-x", "v2", "UPPER-CASE-1B", "finetune-400m-it", "über-große-3B", "a.b-c_d", "deepseek-coder-6.7b-base", "0.5B", "tiny-random"]
GENERATION = {"temperature": [0.7, 0, 1, "0.5", None], "top_k": [20, 0, None, 1.0], "top_p": [0.9, 1, None], "min_p": [0.05, 0],
              "repetition_penalty": [1.1, 1], "eos_token_id": [1, [1, 2], [5], None, "a"], "bos_token_id": [0, 3], "pad_token_id": [4, -1],
              "mirostat": [2], "mirostat_tau": [5.0], "xtc_probability": [0.5], "xtc_threshold": [0.1], "penalty_last_n": [64],
              "penalty_repeat": [1.1], "sequence": ["kpt"], "typical_p": [0.9], "do_sample": [True]}
CARD = {"license": ["mit", "apache-2.0", ["mit"], None, 5, "other"], "license_name": ["my-license"], "license_link": ["https://example.com/l", "LICENSE"],
        "language": ["en", ["en", "de"], ["no"], []], "tags": [["text-generation", "x"], "one", []], "pipeline_tag": ["text-generation", None],
        "base_model": ["meta-llama/Llama-3-8B", ["a/b-7B", "c/d"], "no-slash", "https://huggingface.co/a/b", []], "datasets": ["a/b", ["a/b-v1", "c"], []],
        "model_name": ["Card Name", 7], "model_creator": ["Someone"], "name": ["Name X 7B"], "author": ["Me"], "version": ["v1.2", 1.0],
        "organization": ["Org"], "description": ["A text: with colon", "multi"], "finetune": ["Instruct"], "basename": ["Base"], "size_label": ["9B"],
        "quantized_by": ["Q"], "repo_url": ["https://example.com"], "source_url": ["https://example.com/s"], "url": ["https://example.com/u"],
        "doi": ["10.1/x"], "uuid": ["u"], "merged_from_models": [["a/b"]], "base_model_relation": ["finetune", "quantized"],
        "library_name": ["transformers"], "metrics": [["accuracy"]], "widget": [[{"text": "x"}]], "model-index": [[]], "source_datasets": [["s/t"]],
        "languages": [["fr"]], "dataset": [["x/y"]], "base_models": [["e/f-3B"]], "commit_hash": ["abc"], "inference": [False], "thumbnail": [None]}


def draw_config(rng, m):
    entries = [(p, v) for p, v in nested(m.config)]
    kind = rng.random()
    if kind < 0.15: return {"op": "unset", "path": list(rng.choice(entries)[0])}
    if kind < 0.6:
        path, value = rng.choice(entries)
        if path[0] == "architectures" and rng.random() < 0.8: return None
        return {"op": "set", "path": list(path), "value": numeric(rng, value)}
    parents = [()] + [p for p, v in entries if isinstance(v, dict) and p[-1].endswith("config")]
    parent = rng.choice(parents)
    if kind < 0.72: return {"op": "set", "path": [*parent, rng.choice(["rope_scaling", "rope_parameters"])], "value": rng.choice(ROPE)}
    key, value = rng.choice(m.bases.keys)
    value = json.loads(value)
    if key in ("architectures", "model_type") and rng.random() < 0.9: return None
    return {"op": "set", "path": [*parent, key], "value": numeric(rng, value) if rng.random() < 0.3 else value}


def draw_tokenizer(rng, m):
    ids = rng.randrange(0, 40)
    token = rng.choice(["<new>", "<|im_end|>", "<|eot_id|>", "</s>", "<unk>", "[MASK]", "<pad>", "<|fim_prefix|>", "<|endoftext|>", "a", " ", "é"])
    choices = [
        ("tokenizer_config.json", ["chat_template"], rng.choice(TEMPLATES)),
        ("tokenizer_config.json", [rng.choice(["add_bos_token", "add_eos_token", "add_prefix_space", "legacy", "clean_up_tokenization_spaces", "do_lower_case", "add_sep_token"])],
         rng.choice([True, False, None, 1, "true"])),
        ("tokenizer_config.json", [rng.choice(["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"])],
         rng.choice([token, {"content": token, "special": True}, None, {"__type": "AddedToken", "content": token, "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}, 3])),
        ("tokenizer_config.json", ["added_tokens_decoder", str(ids + rng.choice([0, 0, 580, 700]))],
         {"content": token, "special": rng.random() < 0.5, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}),
        ("tokenizer_config.json", ["tokenizer_class"], rng.choice(["LlamaTokenizer", "PreTrainedTokenizerFast", "GPT2Tokenizer", "X", None, "Qwen2Tokenizer", "BertTokenizer"])),
        ("tokenizer_config.json", [rng.choice(["eos_token_id", "model_max_length", "extra_ids", "x"])], rng.choice([1, 0, None])),
        ("special_tokens_map.json", [rng.choice(["bos_token", "eos_token", "unk_token", "pad_token", "mask_token"])], rng.choice([token, {"content": token}, None])),
        ("generation_config.json", None, {k: rng.choice(GENERATION[k]) for k in rng.sample(sorted(GENERATION), rng.randrange(1, 6))}),
        ("chat_template.json", None, {"chat_template": rng.choice(TEMPLATES)}),
        ("added_tokens.json", [token], rng.choice([ids, 580 + ids, 700 + ids, -1])),
        ("tokenizer.json", ["model", rng.choice(["unk_token", "ignore_merges", "byte_fallback", "fuse_unk", "type", "continuing_subword_prefix"])],
         rng.choice([None, True, False, token, "BPE", "WordPiece", "Unigram"])),
        ("tokenizer.json", [rng.choice(["post_processor", "normalizer", "decoder", "pre_tokenizer", "added_tokens", "truncation"])],
         rng.choice([None, {"type": "NFC"}, {"type": "Lowercase"}, {"type": "Sequence", "normalizers": []},
                     {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                      "pair": [], "special_tokens": {token: {"id": token, "ids": [ids], "tokens": [token]}}}])),
    ]
    kind = rng.randrange(len(choices) + 7)
    has = lambda name: name in m.json or name in m.files
    if kind < len(choices):
        file, path, value = choices[kind]
        if file == "tokenizer.json" and not has(file): return None
        return {"op": "json", "file": file, "path": path or [], "value": value}
    kind -= len(choices)
    if kind == 0:
        if rng.random() < 0.5: return {"op": "file", "file": "chat_template.jinja", "value": str(rng.choice(TEMPLATES[:4]))}
        return {"op": "file", "file": f"additional_chat_templates/{rng.choice(['rag', 'tool_use', 'ä'])}.jinja", "value": str(rng.choice(TEMPLATES[:4]))}
    if kind == 1:
        names = [n for n in (*m.json, *m.files)]
        return {"op": "remove", "file": rng.choice(names)} if names else None
    if kind == 2 and "tokenizer.json" in m.json: return {"op": "merges", "pairs": rng.random() < 0.5}
    if kind in (3, 4) and "tokenizer.json" in m.json:
        new = {"id": rng.choice([ids, 10**6]), "content": token, "single_word": False, "lstrip": rng.random() < 0.3, "rstrip": False,
               "normalized": rng.random() < 0.3, "special": rng.random() < 0.5}
        return {"op": "added", "how": rng.choice(["append", "flip", "drop", "rename"]), "at": rng.randrange(50), "token": new}
    models = [f for f in m.files if f.endswith(".model") and "tiktoken" not in f]
    if kind in (3, 4, 5) and models:
        what = rng.choice([["piece", rng.randrange(300), rng.choice(["type", "score", "piece"]), rng.choice([1, 2, 3, 4, 5, 6]), rng.choice([0.0, -1.5, -1000.0]), token],
                           ["add", token, rng.choice([0.0, -3.0]), rng.choice([1, 3, 4])], ["cut", rng.randrange(300, 760)],
                           ["trainer_spec", rng.choice(["bos_id", "eos_id", "unk_id", "pad_id", "vocab_size", "model_type"]), rng.choice([-1, 0, 1, 2, 5])],
                           ["normalizer_spec", rng.choice(["add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"]), rng.random() < 0.5]])
        return {"op": "pieces", "file": rng.choice(models), "what": what}
    return {"op": "json", "file": "tokenizer_config.json", "path": ["chat_template"], "value": rng.choice(TEMPLATES)}


def draw_card(rng, m):
    keys = rng.sample(sorted(CARD), rng.randrange(1, 6))
    lines = ["---"] + [f"{k}: {json.dumps(rng.choice(CARD[k]), ensure_ascii=False)}" for k in keys]
    if rng.random() < 0.1: lines.append(rng.choice(["bad: [", "tab:\t x", "- item", "a: b: c", "x: !!python/none"]))
    if rng.random() < 0.9: lines.append("---")
    return {"op": "file", "file": "README.md", "value": "\n".join(lines) + rng.choice(["\n# Title 3B\n\nText.\n", "", "\n\n"])}


def draw_tensor(rng, m):
    if not m.tensors: return None
    i = rng.randrange(len(m.tensors))
    name, dtype, shape, kind = m.tensors[i]
    is_float = dtype in ("F32", "F16", "BF16")
    choice = rng.randrange(12)
    if choice < 2: return {"op": "drop", "name": name}
    if choice == 2: return {"op": "drop_like", "part": rng.choice([p for p in name.split(".") if not p.isdigit()])}
    if choice == 3: return {"op": "rename", "name": name, "to": rng.choice([name + ".x", name.replace(".weight", ".bias"), "model." + name, name.replace("model.", "", 1), name.replace(".0.", ".7.")])}
    if choice == 4:
        new = [list(reversed(shape)), [*shape[:-1], shape[-1] * 2], [*shape[:-1], max(shape[-1] // 2, 1)], [1, *shape], [*shape, 1], [shape[0] + 1, *shape[1:]], []] if shape else [[1]]
        return {"op": "shape", "name": name, "shape": rng.choice(new)}
    if choice == 5: return {"op": "dtype", "name": name, "dtype": rng.choice(["F32", "F16", "BF16", "F64", "I64", "U8", "F8_E4M3"])} if is_float else None
    if choice in (6, 7): return {"op": "dtypes", "dtype": rng.choice(["F32", "F16", "BF16"]), "share": rng.choice([1.0, 1.0, 0.5]), "seed": rng.randrange(1000)}
    if choice == 8:
        extra = rng.choice(["rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq", "lm_head.weight", "lm_head.bias", "masked_bias",
                            "model.layers.0.self_attn.q_proj.bias", "model.layers.9.mlp.up_proj.weight", "score.weight", rng.choice(m.bases.tensor_names), rng.choice(m.bases.tensor_names)])
        return {"op": "extra", "name": extra, "dtype": rng.choice(["F32", "BF16", "F16"]), "shape": rng.choice([[32], [32, 32], shape, [1]])}
    if choice == 9: return {"op": "kind", "name": name, "kind": rng.choice(["zero", "one", "big", "norm", "w", "pos"])} if is_float else None
    if choice == 10: return {"op": "prefix", "prefix": rng.choice(["model.", "language_model.", "transformer.", "base_model."]), "strip": rng.random() < 0.5}
    return {"op": "twice", "name": name, "to": name.replace("model.", "", 1) if name.startswith("model.") else "model." + name}


def draw_storage(rng, m):
    if not m.tensors: return None
    name = rng.choice(m.tensors)[0]
    return {"op": "storage", "value": rng.choice([
        {"torch": True}, {"torch": True, "strided": True}, {"torch": True, "shards": 2}, {"torch": True, "shards": 3, "index": False},
        {"shards": 2}, {"shards": 3}, {"shards": 2, "index": False}, {"shards": 2, "unlisted": [name]}, {"shards": 2, "listed": {"extra.weight": "x.safetensors"}},
        {"order": rng.randrange(1, 1000)}, {"sorted_head": True}, {"no_metadata": True}, {"stem": "consolidated"}, {"shards": 2, "order": rng.randrange(1, 1000)}])}


def draw_args(rng, m):
    choice = rng.randrange(16)
    if choice < 5: return {"op": "outtype", "value": rng.choice(["f32", "f16", "bf16", "q8_0", "tq1_0", "tq2_0", "auto"])}
    if choice == 5: return {"op": "args", "value": ["--vocab-only"]}
    if choice in (6, 7): return {"op": "args", "value": ["--model-name", rng.choice(NAMES)]}
    if choice == 8: return {"op": "args", "value": ["--fuse-qkv"]}
    if choice == 9: return {"op": "args", "value": ["--fuse-gate-up-exps"]}
    if choice == 10: return {"op": "args", "value": [rng.choice(["--no-mtp", "--mtp"])]}
    if choice == 11: return {"op": "args", "value": [rng.choice(["--fp8-as-q8", "--sentence-transformers-dense-modules", "--bigendian"])]}
    if choice == 12: return {"op": "args", "value": rng.choice([["--split-max-tensors", str(rng.randrange(3, 30))], ["--split-max-size", rng.choice(["100K", "300K", "1M"])]])}
    if choice == 13:
        keys = rng.sample(["general.name", "general.author", "general.version", "general.description", "general.tags", "general.license", "general.url",
                           "general.basename", "general.finetune", "general.size_label", "general.languages", "x"], 3)
        return {"op": "metadata", "value": {k: rng.choice(["A b", "v2", ["x", "y"], None, 5, ""]) for k in keys}}
    return {"op": "folder", "value": rng.choice(NAMES)}


DRAWS = [(draw_config, 40), (draw_tokenizer, 20), (draw_tensor, 16), (draw_args, 12), (draw_storage, 6), (draw_card, 6)]


def draw(bases, seed, index):
    """The base of a variant, whether its vocabulary is shortened, and its edits. If the seed is an option, variants are all bases with it."""
    if seed.startswith("--"):
        name = bases.names[index % len(bases.names)]
        return name, "eagle3" not in name, [{"op": "args", "value": [seed]}]
    rng = random.Random(f"{seed}/{index}")
    while True:
        name = rng.choice(bases.names)
        is_short = rng.random() < 0.95 and "eagle3" not in name    # its table of tokens is not renumbered
        model = bases.model(name, is_short)
        if model.bytes() <= LARGEST: break
    edits, n = [], rng.choice([1, 1, 1, 2, 2, 3, 4])
    while len(edits) < n:
        edit = rng.choices([d for d, _ in DRAWS], [w for _, w in DRAWS])[0](rng, model)
        if edit: edits.append(edit)
    return name, is_short, edits


def apply(m, e):
    """Applies one edit. Edits that no longer fit, because another one was applied before, do nothing."""
    op = e["op"]
    if op in ("set", "unset", "json"):
        top = m.config if op != "json" else m.json.setdefault(e["file"], {})
        if op == "json" and not e["path"]:
            m.json[e["file"]] = e["value"]
            return
        for key in e["path"][:-1]:
            if not isinstance(top, dict): return
            top = top.setdefault(key, {})
        if not isinstance(top, dict): return
        if op == "unset": top.pop(e["path"][-1], None)
        else: top[e["path"][-1]] = copy.deepcopy(e["value"])
    elif op == "file": m.files[e["file"]] = e["value"].encode()
    elif op == "remove":
        m.json.pop(e["file"], None)
        m.files.pop(e["file"], None)
    elif op == "merges":
        model = m.json.get("tokenizer.json", {}).get("model") or {}
        if model.get("merges"):
            model["merges"] = [(x.split(" ", 1) if isinstance(x, str) else x) if e["pairs"] else (x if isinstance(x, str) else " ".join(x)) for x in model["merges"]]
    elif op == "added":
        tokens = m.json.get("tokenizer.json", {}).get("added_tokens")
        if not tokens: return
        at = tokens[e["at"] % len(tokens)]
        if e["how"] == "append":
            new = dict(e["token"])
            if new["id"] == 10**6: new["id"] = max(t["id"] for t in tokens) + 1
            tokens.append(new)
        elif e["how"] == "flip": at["special"] = not at["special"]
        elif e["how"] == "drop": tokens.remove(at)
        else: at["content"] = e["token"]["content"]
    elif op == "pieces": edit_pieces(m, e)
    elif op == "drop": m.tensors = [t for t in m.tensors if t[0] != e["name"]]
    elif op == "drop_like": m.tensors = [t for t in m.tensors if e["part"] not in t[0].split(".")]
    elif op in ("rename", "shape", "dtype", "kind"):
        for t in m.tensors:
            if t[0] != e["name"]: continue
            if op == "rename" and all(x[0] != e["to"] for x in m.tensors): t[0] = e["to"]
            elif op == "shape": t[2] = e["shape"]
            elif op == "dtype": t[1], t[3] = e["dtype"], "w"
            elif op == "kind": t[3] = e["kind"]
    elif op == "dtypes":
        rng = random.Random(e["seed"])
        for t in m.tensors:
            if t[1] in ("F32", "F16", "BF16") and rng.random() < e["share"]: t[1] = e["dtype"]
    elif op == "extra":
        if all(t[0] != e["name"] for t in m.tensors): m.tensors.append([e["name"], e["dtype"], e["shape"], "w"])
    elif op == "prefix":
        p = e["prefix"]
        for t in m.tensors: t[0] = (t[0][len(p):] if t[0].startswith(p) else t[0]) if e["strip"] else p + t[0]
    elif op == "twice":
        found = [t for t in m.tensors if t[0] == e["name"]]
        if found and all(t[0] != e["to"] for t in m.tensors): m.tensors.append([e["to"], *found[0][1:]])
    elif op == "storage": m.storage.update(e["value"])
    elif op == "outtype": m.outtype = e["value"]
    elif op == "args":
        if e["value"][0] not in m.args: m.args = m.args + e["value"]
    elif op == "metadata": m.metadata = e["value"]
    elif op == "folder": m.folder = e["value"]
    else: raise ValueError(op)


def edit_pieces(m, e):
    from sentencepiece import sentencepiece_model_pb2 as pb
    if e["file"] not in m.files: return
    model = pb.ModelProto()
    model.ParseFromString(m.files[e["file"]])
    what, *rest = e["what"]
    if what == "piece":
        at, field, kind, score, text = rest
        if at >= len(model.pieces): return
        piece = model.pieces[at]
        if field == "type": piece.type = kind
        elif field == "score": piece.score = score
        else: piece.piece = text
    elif what == "add":
        piece = model.pieces.add()
        piece.piece, piece.score, piece.type = rest
    elif what == "cut": del model.pieces[rest[0]:]
    else:
        try: setattr(getattr(model, what), rest[0], rest[1])
        except ValueError: return    # no such type of model
    m.files[e["file"]] = model.SerializeToString()
