"""Encodes texts with the vocabularies of files in real llama.cpp, as JSON lines: the ids of each text with special tokens neither added nor
parsed, added, parsed, and both; then the pieces of the first tokens in hexadecimal, and whether each is a control token.

encoder_peer.py TEXTS.json N_PIECES FILE...
"""

import ctypes
import json
import os
import sys

LIB = os.environ["LLAMA_CPP_LIB_PATH"]
ctypes.CDLL(os.path.join(LIB, "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL).ggml_backend_load_all_from_path(LIB.encode())
import llama_cpp as llama

quiet = llama.llama_log_callback(lambda level, text, data: None)
llama.llama_log_set(quiet, ctypes.c_void_p(0))
llama.llama_backend_init()


def encode(vocab, text, add, parse):
    raw = text.encode()
    room = (ctypes.c_int32 * (len(raw) + 16))()
    n = llama.llama_tokenize(vocab, raw, len(raw), room, len(room), add, parse)
    assert n >= 0, n
    return list(room[:n])


def piece(vocab, token, room=ctypes.create_string_buffer(4096)):
    n = llama.llama_token_to_piece(vocab, token, room, len(room), 0, True)
    assert n >= 0, n
    return room.raw[:n].hex()


with open(sys.argv[1], encoding="utf-8") as file:
    texts = json.load(file)
for path in sys.argv[3:]:
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(path.encode(), params)
    if not model:
        print("null", flush=True)
        continue
    vocab = llama.llama_model_get_vocab(model)
    n_tokens = min(int(sys.argv[2]), llama.llama_vocab_n_tokens(vocab))
    ids = [[encode(vocab, text, add, parse) for parse in (False, True) for add in (False, True)] for text in texts]
    pieces = [piece(vocab, i) for i in range(n_tokens)]
    controls = [bool(llama.llama_vocab_is_control(vocab, i)) for i in range(n_tokens)]
    print(json.dumps({"ids": ids, "pieces": pieces, "controls": controls}), flush=True)
    llama.llama_model_free(model)
