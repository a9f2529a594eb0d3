"""Token ids of texts, as JSON: `llama FILE TEXTS` asks real llama.cpp, `oracle FILE TEXTS` the library `tokenizers` of Hugging Face about
a tokenizer.json or a tekken.json. The texts are those of one of llama.cpp's test vocabularies. Special tokens are neither added nor looked
for. `tekken FILE OUT VERSION` writes a small tekken.json of the first tokens of a byte-level tokenizer.json."""
import base64, ctypes, json, os, sys

SEPARATOR = "\n__ggml_vocab_test__\n"


def llama(path):
    lib = os.environ["LLAMA_CPP_LIB_PATH"]
    ggml = ctypes.CDLL(os.path.join(lib, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_load_all_from_path(lib.encode())
    import llama_cpp as L
    quiet = L.llama_log_callback(lambda level, text, data: sys.stderr.write(text.decode(errors="replace")) if level >= 4 else None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    params = L.llama_model_default_params()
    params.vocab_only = True
    model = L.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(f"{path}: llama.cpp does not load it")
    vocab = L.llama_model_get_vocab(model)

    def ids(text):
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 16))()
        return list(out[:L.llama_tokenize(vocab, raw, len(raw), out, len(out), False, False)])
    return ids


def oracle(path):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    if not path.endswith("tekken.json"):
        tokenizer = Tokenizer.from_file(path)
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    with open(path) as f:
        document = json.load(f)
    config, chars = document["config"], {byte: char for char, byte in byte_of().items()}
    n_special = config["default_num_special_tokens"]
    tokens = [base64.b64decode(t["token_bytes"]) for t in document["vocab"]][:config["default_vocab_size"] - n_special]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    pairs = [(rank, ranks[t[:i]], ranks[t[i:]], t[:i], t[i:]) for t, rank in ranks.items() for i in range(1, len(t)) if t[:i] in ranks and t[i:] in ranks]
    shown = lambda token: "".join(chars[byte] for byte in token)
    merges = [(shown(left), shown(right)) for *_, left, right in sorted(pairs)]
    tokenizer = Tokenizer(models.BPE({shown(token): rank for token, rank in ranks.items()}, merges))
    split = pre_tokenizers.Split(Regex(config["pattern"]), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return lambda text: [n_special + i for i in tokenizer.encode(text).ids]


def byte_of():
    """The bytes that the characters of byte-level vocabularies stand for."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


NAMED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
         "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
         "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"]
PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tekken(path, out, version):
    with open(path) as f:
        vocab = json.load(f)["model"]["vocab"]
    bytes_of, n = byte_of(), 707
    tokens = [bytes([byte]) for byte in range(256)]
    for text, _ in sorted(vocab.items(), key=lambda entry: entry[1]):
        if len(text) > 1 and len(tokens) < n and all(char in bytes_of for char in text):
            tokens.append(bytes(bytes_of[char] for char in text))
    # The oldest files do not list their special tokens, and the last ordinary tokens are cut off.
    n_special = 32 if version == "v3" else 61
    config = {"pattern": PATTERN, "default_vocab_size": n + n_special - 7, "default_num_special_tokens": n_special, "version": version}
    document = {"config": config, "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)]}
    if version != "v3":
        document["special_tokens"] = [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(NAMED)]
    with open(out, "w") as f:
        json.dump(document, f)


def main(kind, path, *more):
    if kind == "tekken":
        return tekken(path, *more)
    with open(more[0], encoding="utf-8", newline="") as f:
        texts = f.read().removesuffix(SEPARATOR).split(SEPARATOR)
    ids = {"llama": llama, "oracle": oracle}[kind](path)
    print(json.dumps([[text, ids(text)] for text in texts]))


if __name__ == "__main__":
    main(*sys.argv[1:])
