#!/usr/bin/env python3
"""Logits of real llama.cpp, as JSON, for all tokens of a text: lora_peer.py MODEL TOKENS [ADAPTER SCALE]...

Needs LLAMA_CPP_LIB_PATH (llama.cpp's libraries), its Python bindings and numpy.
"""
import ctypes
import json
import os
import sys

import numpy as np

LIB = os.environ["LLAMA_CPP_LIB_PATH"]


def main(path, tokens, *adapters):
    ggml = ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_load_all_from_path(LIB.encode())
    import llama_cpp as llama

    log = llama.llama_log_callback(lambda level, text, _: level >= 4 and sys.stderr.write(text.decode(errors="replace")))
    llama.llama_log_set(log, ctypes.c_void_p(0))
    llama.llama_backend_init()
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(path.encode(), params)
    assert model, "the model is not loaded"
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.n_threads = 1
    # Half precision in the cache, and in flash attention, would be the largest error.
    params.type_k = params.type_v = params.flash_attn_type = 0
    context = llama.llama_init_from_model(model, params)
    loaded = [llama.llama_adapter_lora_init(model, adapter.encode()) for adapter in adapters[::2]]
    assert all(loaded), "an adapter is not loaded"
    if loaded:
        pointers = (llama.llama_adapter_lora_p_ctypes * len(loaded))(*loaded)
        scales = (ctypes.c_float * len(loaded))(*map(float, adapters[1::2]))
        assert llama.llama_set_adapters_lora(context, pointers, len(loaded), scales) == 0
    tokens = [int(token) for token in tokens.split(",")]
    batch = llama.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, True
        batch.seq_id[i][0] = 0
    assert llama.llama_decode(context, batch) == 0
    n = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), shape=(n,)).tolist() for i in range(len(tokens))]
    print(json.dumps(rows))


main(*sys.argv[1:])
