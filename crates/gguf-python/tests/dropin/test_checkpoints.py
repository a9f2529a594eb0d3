"""Metadata, vocabularies and names of checkpoints: the same as the original finds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import random
from pathlib import Path

import numpy as np
import pytest
import yaml

from both import OURS, SHARED, THEIRS

CHECKPOINTS = sorted(path for path in (SHARED / "data/hf/models").glob("*") if path.is_dir())


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def keys(writer) -> list:
    found = [
        (key, [str(x) for x in val.value] if isinstance(val.value, (list, tuple)) else val.value, val.type.name)
        for key, val in writer.kv_data[0].items()
    ]
    # The original writes named templates in an order that differs from run to run.
    templates = sorted((key, sorted(value), ty) for key, value, ty in found if key.startswith("tokenizer.chat_template"))
    return [pair for pair in found if not pair[0].startswith("tokenizer.chat_template")] + templates


def of_metadata(package, metadata) -> tuple:
    writer = package.GGUFWriter(None, "llama")
    if metadata.name is not None:
        metadata.set_gguf_meta_model(writer)
    return dataclasses.asdict(metadata), keys(writer)


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.name)
def test_checkpoints(path: Path) -> None:
    for params in (0, 1_300_000, 7_000_000_000, -50_000):
        found = [of_metadata(package, package.Metadata.load(None, path, None, params)) for package in (OURS, THEIRS)]
        assert found[0] == found[1]
    for load_merges, n_vocab, types in ((True, None, None), (False, 100, None), (True, None, ("bos", "eom"))):
        found = []
        for package in (OURS, THEIRS):
            try:
                vocab = package.SpecialVocab(path, load_merges, types, n_vocab)
            except Exception as error:
                found.append((type(error).__name__, str(error)))
                continue
            writer = package.GGUFWriter(None, "llama")
            vocab.add_to_gguf(writer)
            found.append((vars(vocab), repr(vocab), keys(writer)))
        # `special_token_types` is part of the state.
        assert found[0] == found[1]


@pytest.fixture
def byte_fallback(tmp_path: Path) -> Path:
    """A checkpoint with a tokenizer that falls back to bytes, which no recorded one has in `tokenizer.json`."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "a": 4, "b": 5, "ab": 6}
    special = [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for i, token in enumerate(["<unk>", "<s>", "</s>"])]
    added = [{**special[0], "id": 7, "content": "<mine>", "special": False}, {**special[0], "id": 8, "content": "<|end|>"}]
    model = {"type": "BPE", "vocab": vocab, "merges": ["a b"], "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": special + added, "model": model, "decoder": decoder}))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<|end|>", "unk_token": "<unk>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("name", ["BpeVocab", "SentencePieceVocab", "LlamaHfVocab"])
def test_vocabularies(name: str, byte_fallback: Path) -> None:
    needed = {"LlamaHfVocab": "transformers", "SentencePieceVocab": "sentencepiece"}.get(name)
    if needed is not None:
        pytest.importorskip(needed)
    read = 0
    for path in [byte_fallback, *CHECKPOINTS]:
        found = []
        for package in (OURS, THEIRS):
            try:
                vocab = getattr(package, name)(path)
                tokens = [(text, score, kind.name) for text, score, kind in vocab.all_tokens()]
                state = {field: getattr(vocab, field) for field in "vocab_size vocab_size_base added_tokens_dict added_tokens_list fname_tokenizer".split()}
                found.append((tokens, state, repr(vocab), isinstance(vocab, package.Vocab)))
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        assert found[0] == found[1], path
        read += len(found[0]) == 4
    assert read > 0


def test_merges_of_tekken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokenizer:
        num_special_tokens = 3
        _vocab = ["<a>", "x"]

        class _model:
            _mergeable_ranks = {bytes([i]): i for i in range(256)} | {b"ab": 256, b"b c": 257, b"ab c": 258, b" c": 259}

    found = []
    for package in (OURS, THEIRS):
        monkeypatch.setattr(package.vocab, "Tekkenizer", Tokenizer)
        monkeypatch.setattr(package.vocab, "SentencePieceTokenizer", int)
        vocab = package.MistralVocab.__new__(package.MistralVocab)
        vocab.tokenizer, vocab.vocab_size = Tokenizer(), 260 + 3
        vocab.tokenizer_type = package.MistralTokenizerType.tekken
        found.append((vocab.extract_vocab_merges_from_model(), vocab.get_token_id("x"), vocab.gguf_tokenizer_model))
    assert found[0] == found[1] and len(found[0][0]) == 5
    with pytest.raises(ImportError, match="mistral-common"):
        OURS.MistralVocab(Path("x"))


def identifiers() -> list[str]:
    rng = random.Random(5)
    parts = (
        "Llama Mixtral gpt2 Qwen2.5 v0.1 V2 iter35 7B 7b1 8x7B 0.5B 70m 1.5t 7_5B 128k large xl small instruct Chat LoRA vision "
        "q4_K_M f16 bf16 FP32 hf DPO 2 3.1 A14B 4x A3B x 10k 2024-05 Ü __ 1 mini"
    ).split()
    made = ["-".join(rng.choices(parts, k=rng.randint(1, 6))) for _ in range(1500)]
    return made + ["org/" + name for name in made[::3]] + ["./" + name for name in made[::50]] + ["", "a b", "/", "x/", "/y", "-", "--a--7B-", ".", "a/b/c"]


def test_parts_of_identifiers() -> None:
    for name, params in itertools.product(identifiers(), (0, 7_000_000_000, 300_000, -1_000_000)):
        found = []
        for package in (OURS, THEIRS):
            try:
                found.append(package.Metadata.get_model_id_components(name, params))
            except Exception as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], (name, params)
    for name in identifiers():
        assert OURS.Metadata.id_to_title(name) == THEIRS.Metadata.id_to_title(name)
    assert OURS.Metadata.get_model_id_components(None) == (None,) * 6


def cards() -> list[dict]:
    rng = random.Random(11)
    values = ["x", "a/Some-7B-v2", ["a/b-1B", "c"], "https://huggingface.co/org/Model-7B-Chat", "https://example.com/m", {"name": "n", "version": "1"}, None, ["x", {"name": "y", "doi": "z"}, 7], 3, "ssh://h/p"]
    fields = (
        "name author version organization description finetune basename size_label url doi uuid repo_url model_name model_author model_version model_url "
        "model_creator model_type base_model base_models base_model_sources datasets dataset dataset_sources license license_name license_link tags "
        "pipeline_tag languages language quantized_by"
    ).split()
    return [{field: rng.choice(values) for field in rng.sample(fields, rng.randint(0, 9))} for _ in range(600)]


def test_model_cards() -> None:
    for card in cards():
        for hf_params, path in ((None, None), ({"_name_or_path": "org/Base-7B-v1"}, Path("/x/Folder-3B-chat")), ({"_name_or_path": "/a/b/c"}, None)):
            found = []
            for package in (OURS, THEIRS):
                try:
                    metadata = package.Metadata.apply_metadata_heuristic(package.Metadata(), json.loads(json.dumps(card)), hf_params, path, 7_000_000_000)
                    found.append(dataclasses.asdict(metadata))
                except Exception as error:
                    found.append(type(error).__name__)
            assert found[0] == found[1], card


@pytest.mark.parametrize(
    "text",
    ["", "---\n", "---\n---\n", "no\n---\n", "---\nlanguage:\n- no\n- en\n---\nx", "---\ntags:\n\t- a\n", "---\n- a\n---\n", "---\nname: x", "\n---\nname: x\n---\n", "---\r\nname: x\r\n---\r\n"],
)
def test_headers_of_cards(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(text.encode())
    found = []
    for package in (OURS, THEIRS):
        try:
            found.append(package.Metadata.load_model_card(tmp_path))
        except yaml.YAMLError as error:
            found.append(type(error).__name__)
    assert found[0] == found[1]


def test_overrides_and_settings_of_samplers(tmp_path: Path) -> None:
    general = THEIRS.Keys.General
    override = {value: f"o{i}" for i, (name, value) in enumerate(vars(general).items()) if isinstance(value, str) and not name.startswith("__")}
    override |= {"general.base_models": [{"name": "m"}], "general.datasets": [{"name": "d"}], "unknown": 1}
    (tmp_path / "override.json").write_text(json.dumps(override))
    (tmp_path / "generation_config.json").write_text(json.dumps({"top_k": 5, "temperature": 0.5, "repetition_penalty": 1.25, "mirostat": None}))
    for file, name in ((None, None), (tmp_path / "override.json", None), (tmp_path / "override.json", "Given"), (tmp_path / "missing.json", "G")):
        found = [dataclasses.asdict(package.Metadata.load(file, tmp_path, name, 7)) for package in (OURS, THEIRS)]
        assert found[0] == found[1]
    assert found[0]["sampling_temp"] == 0.5 and found[0]["sampling_penalty_repeat"] == 1.25
    (tmp_path / "generation_config.json").write_text("{")
    assert OURS.Metadata.load_generation_config(tmp_path) == {}


def tokenizers() -> list[tuple[dict | None, dict | None]]:
    """Pairs of `tokenizer.json` and `tokenizer_config.json` with all kinds of post-processors."""
    rng = random.Random(3)
    tokens = ["<s>", "</s>", "[CLS]", "[SEP]", "<eot>", "<pad>"]

    def special():
        return {"SpecialToken": {"id": rng.choice(tokens), "type_id": 0}}

    def sequence(name):
        return {"Sequence": {"id": name, "type_id": 0}}

    def some(function):
        return [function() for _ in range(rng.choice([0, 1, 1, 2]))]

    def template():
        single = some(special)[:1] + [sequence("A")] + some(special)[:1]
        pair = some(special)[:1] + [sequence(rng.choice("AB") if rng.random() < 0.1 else "A")] + some(special) + [sequence("B")] + some(special)[:1]
        return {"type": "TemplateProcessing", "single": rng.choice([single, single, []]), "pair": rng.choice([pair, pair, pair, []])}

    def roberta():
        return {"type": "RobertaProcessing", **{typ: [rng.choice(tokens), 1] for typ in ("cls", "sep") if rng.random() < 0.8}}

    def processor():
        return rng.choice([template, template, template, roberta, lambda: {"type": "ByteLevel"}, lambda: {"type": "Other"}])()

    def config():
        made = {f"{typ}_token": rng.choice([rng.choice(tokens), {"content": rng.choice(tokens)}, None, "", 5]) for typ in ("bos", "eos", "cls", "sep", "pad", "unk") if rng.random() < 0.6}
        made |= {f"add_{typ}_token": rng.random() < 0.5 for typ in ("bos", "eos", "sep") if rng.random() < 0.3}
        made |= {"chat_template": rng.choice(["t", None, [{"name": "default", "template": "t"}], 5])} if rng.random() < 0.4 else {}
        return made

    pairs = []
    for _ in range(1500):
        processors = rng.choice([None, processor(), {"type": "Sequence", "processors": [processor(), processor()]}])
        tokenizer = {
            "added_tokens": [{"id": i, "content": token} for i, token in enumerate(tokens)],
            "post_processor": processors,
            "normalizer": rng.choice([None, {"type": "Lowercase"}, {"type": "BertNormalizer", "lowercase": False}, {"type": "Sequence", "normalizers": [{"type": "StripAccents"}, {"type": "BertNormalizer", "strip_accents": None}]}]),
            "model": {"merges": rng.choice([None, [], ["a b"], [["a", "b c"]], [["a", "b"]], [3]])},
        }
        pairs.append((rng.choice([tokenizer] * 9 + [None, {}]), rng.choice([config()] * 9 + [None, {}])))
    return pairs


def test_special_tokens_of_tokenizers(tmp_path: Path) -> None:
    for number, (tokenizer, config) in enumerate(tokenizers()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, document in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
            if document is not None:
                (folder / name).write_text(json.dumps(document))
        if number % 5 == 0:
            (folder / "config.json").write_text(json.dumps({"bos_token_id": 3, "text_config": {"eos_token_id": 4, "pad_token_id": -1 if number % 50 == 0 else 1}}))
        if number % 7 == 0:
            (folder / "merges.txt").write_text("#version\na b\n\nbad\nx  y\nc d e\n")
        if number % 11 == 0:
            (folder / "chat_template.jinja").write_text("j")
        if number % 22 == 0:
            (folder / "additional_chat_templates").mkdir()
            (folder / "additional_chat_templates/tool.jinja").write_text("k")
        if number % 13 == 0:
            (folder / "chat_template.json").write_text(json.dumps({"chat_template": "l"}))
        found = []
        for package in (OURS, THEIRS):
            try:
                vocab = package.SpecialVocab(folder, load_merges=True, n_vocab=5)
            except Exception as error:
                found.append((type(error).__name__, str(error)))
                continue
            found.append(vars(vocab))
        assert found[0] == found[1], (tokenizer, config)


def test_names_of_files_and_sizes() -> None:
    for n in (0, 1, 999, 15_000, 999_999, 10**6, 7_241_732_096, 10**12, 5 * 10**13, 104_500_000):
        for digits in (1, 2, 4):
            assert OURS.model_weight_count_rounded_notation(n, digits) == THEIRS.model_weight_count_rounded_notation(n, digits)
    for args in itertools.product((7_000_000_000, -3), (5,), (10**9,), (0, 8)):
        assert OURS.size_label(*args) == THEIRS.size_label(*args)
    texts = (None, "", " a b/c ", "X")
    for args in itertools.product(texts, texts, texts, (None, "v 1"), (None, "7B"), (None, "q8_0"), (None, "LoRA")):
        assert OURS.naming_convention(*args) == THEIRS.naming_convention(*args), args
    for name, kind in itertools.product(("{}-{ftype}", "m-{OUTTYPE}{FTYPE}{outtype}", "x"), (None, "q8_0", "F16")):
        assert OURS.fill_templated_filename(name, kind) == THEIRS.fill_templated_filename(name, kind)


def test_tensors_of_safetensors_files(tmp_path: Path) -> None:
    for file in [file for path in CHECKPOINTS[:8] for file in path.glob("*.safetensors")]:
        found = []
        for package in (OURS, THEIRS):
            local = package.SafetensorsLocal(file)
            with local as tensors:
                first = next(iter(tensors.values()))
                found.append(([(name, dataclasses.asdict(tensor)) for name, tensor in tensors.items()], bytes(first.mmap_bytes())))
        assert found[0] == found[1]
    for content in (b"", b"\x05" + bytes(7), (3).to_bytes(8, "little") + b"{x}"):
        (tmp_path / "x").write_bytes(content)
        found = []
        for package in (OURS, THEIRS):
            try:
                package.SafetensorsLocal(tmp_path / "x")
                found.append(None)
            except ValueError:
                found.append("ValueError")
        assert found[0] == found[1]


def test_tensors_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    header = json.dumps({"b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {}}).encode()
    file = len(header).to_bytes(8, "little") + header + np.arange(4, dtype=np.float32).tobytes()
    base = "https://huggingface.co/org/m/resolve/main"
    files = {f"{base}/model.safetensors.index.json": json.dumps({"weight_map": {"a": "x-1.safetensors", "b": "x-1.safetensors"}}).encode(), f"{base}/x-1.safetensors": file}
    asked = []

    class Response:
        def __init__(self, url: str, headers: dict):
            self.status_code = 200 if url in files else 404
            first, last = (headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-") + [""])[:2]
            self.content = files.get(url, b"")[int(first): int(last) + 1 if last else None]
            asked.append((url, headers))

        def raise_for_status(self):
            assert self.status_code == 200

    monkeypatch.setattr(requests, "get", lambda url, allow_redirects, headers: Response(url, headers))
    monkeypatch.setattr(requests, "head", lambda url, allow_redirects, headers: Response(url, headers))
    monkeypatch.setenv("HF_TOKEN", "secret")
    found = []
    for package in (OURS, THEIRS):
        asked.clear()
        tensors = package.SafetensorRemote.get_list_tensors_hf_model("org/m")
        found.append(([(name, dataclasses.asdict(tensor), bytes(tensor.data())) for name, tensor in tensors.items()], list(asked)))
        with pytest.raises(ValueError):
            package.SafetensorRemote.get_list_tensors_hf_model("org/other")
        with pytest.raises(ValueError):
            package.SafetensorRemote.get_data_by_range("no address", 0)
    assert found[0] == found[1] and found[0][1][0][1]["Authorization"] == "Bearer secret"


def test_characters_of_bytes() -> None:
    assert OURS.bytes_to_unicode() == THEIRS.bytes_to_unicode()
    text = "aä\n\x00".encode()
    assert OURS.MistralVocab.token_bytes_to_string(text, OURS.bytes_to_unicode()) == THEIRS.MistralVocab.token_bytes_to_string(text, THEIRS.bytes_to_unicode())
