#!/usr/bin/env python3
"""Real llama.cpp, asked many things by one process: a line of JSON comes in, a line goes out.

  {"quantize": {"in": FILE, "out": FILE, "params": {FIELD: VALUE}, "imatrix": FILE, "include": [TEXT], "exclude": [TEXT],
                "tensor_types": [[PATTERN, TYPE_ID]], "overrides": [[KEY, "int" | "float" | "bool" | "str", VALUE]],
                "prune_layers": [N]}}
      llama_model_quantize, with the fields of llama_model_quantize_params; everything but the two files may be left out.
      Answers {"rc": 0}, or what it said: {"rc": 1, "said": "..."}.
  {"perplexity": {"model": FILE, "text": FILE, "lines": N, "threads": N}}
      Of a text whose lines each stand for themselves: a BOS is before each line, and every token behind it is scored, with
      the BOS of the line that follows. Answers {"perplexity": X, "tokens": N}.

Needs LLAMA_CPP_LIB_PATH (llama.cpp's libraries), its Python bindings, gguf and numpy. What llama.cpp cannot bear ends the
process; whoever asks should start another.
"""
import ctypes
import json
import os
import sys

import numpy as np

LIB = os.environ["LLAMA_CPP_LIB_PATH"]
OVERRIDES = {"int": (0, "val_i64"), "float": (1, "val_f64"), "bool": (2, "val_bool"), "str": (3, "val_str")}
BATCH, MAX_LINES = 512, 16
said = []


def load_library():
    ggml = ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_load_all_from_path(LIB.encode())
    import llama_cpp

    # Level 4 are errors.
    log = llama_cpp.llama_log_callback(lambda level, text, _: said.append(text.decode(errors="replace")) if level == 4 else None)
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp, log


def importance(path):
    """Names and weights, as llama-quantize makes them of a matrix in GGUF form: mean squares, and 1 for unused experts."""
    from gguf import GGUFReader

    tensors = {t.name: np.array(t.data, np.float32) for t in GGUFReader(path).tensors}
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            base = name.removesuffix(".in_sum2")
            counts = tensors[base + ".counts"].reshape(-1, 1)
            sums = sums.reshape(len(counts), -1)
            with np.errstate(divide="ignore", invalid="ignore"):
                yield base, np.ascontiguousarray(np.where(counts > 0, sums / counts, np.float32(1)).reshape(-1))


def quantize(llama, question):
    params = llama.llama_model_quantize_default_params()
    params.nthread = 1
    for field, value in question.get("params", {}).items():
        setattr(params, field, value)
    keep = []
    if "imatrix" in question:
        include, exclude = question.get("include", []), question.get("exclude", [])
        rows = [
            (name, x)
            for name, x in importance(question["imatrix"])
            if not any(part in name for part in exclude) and (not include or any(part in name for part in include))
        ]
        array = (llama.llama_model_imatrix_data * (len(rows) + 1))()
        for entry, (name, x) in zip(array, rows):
            entry.name, entry.size = name.encode(), x.size
            entry.data = x.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = array
        keep += [rows, array]
    if "tensor_types" in question:
        rows = question["tensor_types"]
        array = (llama.llama_model_tensor_override * (len(rows) + 1))()
        for entry, (pattern, ty) in zip(array, rows):
            entry.pattern, entry.type = pattern.encode(), ty
        params.tt_overrides = array
        keep.append(array)
    if "overrides" in question:
        rows = question["overrides"]
        array = (llama.llama_model_kv_override * (len(rows) + 1))()
        for entry, (key, ty, value) in zip(array, rows):
            entry.tag, field = OVERRIDES[ty]
            entry.key = key.encode()
            setattr(entry.value, field, value.encode() if ty == "str" else value)
        params.kv_overrides = array
        keep.append(array)
    if "prune_layers" in question:
        params.prune_layers = (ctypes.c_int32 * 64)(*question["prune_layers"], -1)
    rc = llama.llama_model_quantize(question["in"].encode(), question["out"].encode(), ctypes.byref(params))
    return {"rc": rc, "said": "".join(said).strip()} if rc else {"rc": 0}


def perplexity(llama, question):
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(question["model"].encode(), params)
    if not model:
        return {"said": "".join(said).strip()}
    options = llama.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = BATCH
    options.n_seq_max, options.kv_unified = MAX_LINES, True
    options.n_threads = options.n_threads_batch = question.get("threads", 1)
    context = llama.llama_init_from_model(model, options)
    vocab = llama.llama_model_get_vocab(model)
    n_vocab, bos = llama.llama_vocab_n_tokens(vocab), llama.llama_vocab_bos(vocab)

    def tokenize(line):
        tokens = (ctypes.c_int32 * (len(line) + 16))()
        n_tokens = llama.llama_tokenize(vocab, line, len(line), tokens, len(tokens), True, False)
        return tokens[:n_tokens]

    with open(question["text"], "rb") as file:
        lines = [tokenize(line) for line in file.read().splitlines() if line][: question.get("lines")]
    batch = llama.llama_batch_init(BATCH, 0, 1)
    nll, n_scored = 0.0, 0
    while lines:
        right = []
        while lines and len(right) + len(lines[0]) <= BATCH and right.count(bos) < MAX_LINES:
            line = lines.pop(0)
            sequence = right.count(bos)
            for place, token in enumerate(line):
                i = len(right)
                batch.token[i], batch.pos[i], batch.logits[i] = token, place, 1
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                right.append((line + [bos])[place + 1])
        batch.n_tokens = len(right)
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        if llama.llama_decode(context, batch):
            return {"said": "".join(said).strip()}
        logits = np.ctypeslib.as_array(llama.llama_get_logits(context), shape=(len(right), n_vocab))
        logits = logits - logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits).sum(axis=1, dtype=np.float64))
        nll += float((total - logits[np.arange(len(right)), right]).sum())
        n_scored += len(right)
    llama.llama_batch_free(batch)
    llama.llama_free(context)
    llama.llama_model_free(model)
    return {"perplexity": float(np.exp(nll / n_scored)), "tokens": n_scored}


def main():
    # Answers go to the original standard output; output of the libraries goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    llama, log = load_library()
    for line in sys.stdin:
        said.clear()
        question = json.loads(line)
        if "quantize" in question:
            answer = quantize(llama, question["quantize"])
        else:
            answer = perplexity(llama, question["perplexity"])
        print(json.dumps(answer), file=answers, flush=True)


main()
