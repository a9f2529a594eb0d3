#!/usr/bin/env python3
"""Logits of real llama.cpp, asked many times by one process: a line of JSON comes in, a line goes out.

  {"model": FILE, "tokens": [N, ...], "rows": [N, ...]}                 the logits of those positions, or null if it does not load
  {"model": FILE, "tokens": [...], "rows": [...], "adapter": FILE}      with a LoRA adapter
  {"model": FILE, "text": TEXT}                                         its tokens

Needs LLAMA_CPP_LIB_PATH (llama.cpp's libraries), its Python bindings and numpy.
"""
import ctypes
import json
import os
import sys

import numpy as np

LIB = os.environ["LLAMA_CPP_LIB_PATH"]


def load_library():
    ggml = ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_load_all_from_path(LIB.encode())
    import llama_cpp

    log = llama_cpp.llama_log_callback(lambda level, text, _: None)
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp, log


def answer(llama, question):
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    params.vocab_only = "text" in question
    model = llama.llama_model_load_from_file(question["model"].encode(), params)
    if not model:
        return None
    vocab = llama.llama_model_get_vocab(model)
    if "text" in question:
        text = question["text"].encode()
        out = (ctypes.c_int32 * (len(text) + 16))()
        n = llama.llama_tokenize(vocab, text, len(text), out, len(out), False, True)
        llama.llama_model_free(model)
        return list(out[:n])
    tokens = question["tokens"]
    settings = llama.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 64
    settings.n_threads = settings.n_threads_batch = 1
    context = llama.llama_init_from_model(model, settings)
    if "adapter" in question:
        adapter = llama.llama_adapter_lora_init(model, question["adapter"].encode())
        if not adapter:
            return None
        adapters = (llama.llama_adapter_lora_p_ctypes * 1)(adapter)
        if llama.llama_set_adapters_lora(context, adapters, 1, (ctypes.c_float * 1)(1.0)) != 0:
            return None
    batch = llama.llama_batch_init(len(tokens), 0, 1)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    batch.n_tokens = len(tokens)
    if llama.llama_decode(context, batch) != 0:
        return None
    n = llama.llama_vocab_n_tokens(vocab)
    row = lambda i: np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), shape=(n,)).astype(float).tolist()
    rows = [row(i) for i in question["rows"]]
    llama.llama_free(context)
    llama.llama_model_free(model)
    return rows


llama, log = load_library()
for line in sys.stdin:
    print(json.dumps(answer(llama, json.loads(line))), flush=True)
