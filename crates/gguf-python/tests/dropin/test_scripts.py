"""Scripts: the same output and files as the original's."""

from __future__ import annotations

import builtins
import io
import json
import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from both import OURS, SHARED, THEIRS
from test_reader import VOCABULARY, array_of, model_bytes, text

MODELS = sorted((SHARED / "data/hf/ref").glob("*.gguf"))
SMALL = SHARED / "data/hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf-q8_0.gguf"
BIG_ENDIAN = SHARED / "data/hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf-bigendian-f16.gguf"


def run(package, script: str, *args: object, answer: str | None = None) -> tuple[object, str]:
    """The exit status of a script, or its error, and what it prints. `answer` is what it reads."""
    argv, ask, handlers = sys.argv, builtins.input, logging.root.handlers[:]
    sys.argv = [script, *map(str, args)]
    builtins.input = lambda prompt="": answer
    output = io.StringIO()
    status: object = 0
    try:
        with package.active(), redirect_stdout(output):
            package.scripts[script].main()
    except SystemExit as end:
        status = end.code
    except Exception as error:
        status = type(error).__name__
    finally:
        sys.argv, builtins.input, logging.root.handlers[:] = argv, ask, handlers
    return status, output.getvalue()


def both(script: str, *args: object, **options) -> tuple[object, str]:
    ours, theirs = run(OURS, script, *args, **options), run(THEIRS, script, *args, **options)
    assert ours == theirs
    return ours


def share(path: Path, cases: list[list[str]]) -> list[list[str]]:
    """Every third case for the vocabulary, which takes the original seconds: others for each value of the variable `GGUF_SHARE`. All cases without it."""
    chosen = os.environ.get("GGUF_SHARE")
    return cases if chosen is None or path != VOCABULARY else cases[int(chosen) % 3 :: 3]


DUMPS: list[list[str]] = [
    [], ["--json"], ["--json", "--json-array"], ["--markdown"], ["--no-tensors"], ["--no-tensors", "--markdown"], ["--data-offset"], ["--data-alignment"],
]


@pytest.mark.parametrize("path", MODELS[::8] + [SMALL, BIG_ENDIAN, VOCABULARY], ids=lambda path: path.name)
def test_dump_and_hash(path: Path) -> None:
    if path.stat().st_size < 400_000 or path == VOCABULARY:
        for options in share(path, DUMPS):
            status, output = both("gguf_dump", path, *options)
            assert status == 0 and output
        both("gguf_hash", path, "--no-layer")
    status, output = both("gguf_hash", path)
    assert status == 0 and "uuid" in output


def test_strings_with_backticks(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    strings = ["`x", "a``b" * 20, "x" * 31, "", "|"]
    pairs = [(b"s%d" % i, 8, text(value.encode())) for i, value in enumerate(strings)]
    pairs.append((b"a", 9, array_of(8, len(strings), b"".join(text(value.encode()) for value in strings))))
    pairs += [(b"n", 9, array_of(6, 9, bytes(36))), (b"b", 7, b"\1"), (b"f", 6, b"\xcd\xcc\xcc\x3d"), (b"empty", 9, array_of(8, 0, b""))]
    path.write_bytes(model_bytes(pairs, [("blk.0.x.weight", [3], 0, 0), ("enc.blk.1.y", [32, 2], 8, 32), ("dec.z", [1], 1, 128), ("output.bias", [2], 0, 160)], 192))
    for options in ([], ["--json", "--json-array"], ["--markdown"]):
        assert both("gguf_dump", path, *options)[0] == 0


def test_help_names_the_same_options(capsys: pytest.CaptureFixture) -> None:
    for script in OURS.scripts:
        run(OURS, script, "--help")
        ours = run(OURS, script, "--help")[1]
        theirs = run(THEIRS, script, "--help")[1]
        assert {word for word in theirs.split() if word.startswith("--")} == {word for word in ours.split() if word.startswith("--")}
        # Without arguments, the help is printed.
        assert run(OURS, script) == run(OURS, script, "--help")


NEW_METADATA: list[list[str]] = [
    [],
    ["--general-name", "Other", "--general-description", "D"],
    ["--chat-template", "{{ x }}"],
    ["--chat-template", json.dumps([{"name": "default", "template": "a"}, {"name": "tool use", "template": "b"}])],
    ["--chat-template-config", "config.json"],
    ["--chat-template-file", "template.jinja"],
    ["--pre-tokenizer", "llama-bpe", "--remove-metadata", "general.name", "--remove-metadata", "no.such"],
    ["--special-token", "eos", "<s>", "--special-token", "nothing", "x"],
    ["--special-token-by-id", "bos", "5", "--special-token-by-id", "eot", "6"],
    ["--special-token", "eos", "no such token"],
    ["--special-token-by-id", "bos", "x"],
    ["--special-token-by-id", "bos", "99999999"],
]


@pytest.mark.parametrize(
    ("path", "options"),
    [(path, options) for path in (SMALL, BIG_ENDIAN, VOCABULARY) for options in share(path, NEW_METADATA)],
    ids=lambda value: value.name if isinstance(value, Path) else str(value),
)
def test_new_metadata(path: Path, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps({"chat_template": "from config"}))
    Path("template.jinja").write_text("from file")
    ours = run(OURS, "gguf_new_metadata", path, "ours.gguf", *options, "--force")
    assert ours == run(THEIRS, "gguf_new_metadata", path, "theirs.gguf", *options, "--force")
    if ours[0] == 0:
        assert Path("ours.gguf").read_bytes() == Path("theirs.gguf").read_bytes()


def test_new_metadata_asks(tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    target.write_bytes(b"other")
    assert run(OURS, "gguf_new_metadata", SMALL, target, answer="no") == (0, "") and target.read_bytes() == b"other"
    assert run(OURS, "gguf_new_metadata", SMALL, target, "--remove-metadata", "general.name", answer="yes") == (0, "") and target.read_bytes() == b"other"
    assert run(OURS, "gguf_new_metadata", SMALL, target, answer="YES")[0] == 0
    assert [tensor.name for tensor in THEIRS.GGUFReader(target).tensors] == [tensor.name for tensor in THEIRS.GGUFReader(SMALL).tensors]


def test_new_metadata_keeps_what_the_original_cannot_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "source.gguf", tmp_path / "target.gguf"
    nested = array_of(9, 2, array_of(2, 2, b"\1\0\2\0") + array_of(0, 1, b"\3"))
    pairs = [
        (b"general.architecture", 8, text(b"llama")), (b"empty", 9, array_of(8, 0, b"")), (b"nested", 9, nested),
        (b"strings", 9, array_of(9, 2, array_of(8, 1, text(b"x")) + array_of(8, 0, b""))), (b"last", 9, array_of(11, 1, bytes(8))),
    ]
    source.write_bytes(model_bytes(pairs, [("t", [8], 0, 0)], 32))
    assert run(OURS, "gguf_new_metadata", source, target)[0] == 0
    assert target.read_bytes() == source.read_bytes()
    assert run(OURS, "gguf_new_metadata", source, source, "--force")[0] == 1 and source.stat().st_size > 100


def test_set_metadata(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.gguf" for name in ("ours", "theirs")}
    for key, value, answer, options in (
        ("tokenizer.ggml.bos_token_id", "7", "YES", []),
        ("tokenizer.ggml.bos_token_id", "7", None, ["--force"]),
        ("tokenizer.ggml.bos_token_id", "8", "no", []),
        ("tokenizer.ggml.bos_token_id", "9", None, ["--dry-run"]),
        ("llama.rope.freq_base", "1e6", None, ["--force"]),
        ("general.name", "x", None, ["--force"]),
        ("no.such", "x", None, ["--force"]),
    ):
        results = []
        for package, (name, file) in zip((OURS, THEIRS), files.items()):
            file.write_bytes(SMALL.read_bytes())
            results.append((run(package, "gguf_set_metadata", file, key, value, *options, answer=answer), file.read_bytes()))
        assert results[0] == results[1], key
    for value, expected in (("false", False), ("TRUE", True), ("0", False)):
        files["ours"].write_bytes(SMALL.read_bytes())
        assert run(OURS, "gguf_set_metadata", files["ours"], "tokenizer.ggml.add_bos_token", value, "--force")[0] == 0
        assert THEIRS.GGUFReader(files["ours"]).fields["tokenizer.ggml.add_bos_token"].contents() is expected
    for key, value in (("tokenizer.ggml.add_bos_token", "no"), ("tokenizer.ggml.bos_token_id", "-1"), ("tokenizer.ggml.bos_token_id", "x")):
        assert run(OURS, "gguf_set_metadata", files["ours"], key, value, "--force")[0] == 1


@pytest.mark.parametrize("name", ["Tiny-Llama-150K-Instruct-v0.2-hf-q8_0", "Tiny-Llama-150K-Instruct-v0.2-hf-f16", "bert-bf16", "falcon-7b-style-f16"])
def test_convert_endian(name: str, tmp_path: Path) -> None:
    source = SHARED / f"data/hf/ref/{name}.gguf"
    if not source.exists():
        source = next(path for path in MODELS if name.split("-")[0] in path.name)
    results = []
    for package, file in ((OURS, tmp_path / "ours.gguf"), (THEIRS, tmp_path / "theirs.gguf")):
        file.write_bytes(source.read_bytes())
        dry = run(package, "gguf_convert_endian", file, "big", "--dry-run")
        same = run(package, "gguf_convert_endian", file, "little")
        refused = run(package, "gguf_convert_endian", file, "big", answer="no")
        assert file.read_bytes() == source.read_bytes()
        big = run(package, "gguf_convert_endian", file, "big", answer="YES")
        data = file.read_bytes()
        back = run(package, "gguf_convert_endian", file, "native", answer="YES")
        results.append((dry, same, refused, big, data, back, file.read_bytes()))
    assert results[0] == results[1] and results[0][-1] == source.read_bytes() and results[0][4] != results[0][-1]


def test_convert_endian_refuses_types_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(model_bytes([], [("t", [256], 10, 0)], 84))
    assert both("gguf_convert_endian", file, "big", answer="YES")[0] == "ValueError"
