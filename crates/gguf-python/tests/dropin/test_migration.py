"""The table from gguf-py to ggufkit: it has all public names of the original, and its rows do the same. `UPDATE=1` writes the generated rows."""

from __future__ import annotations

import enum
import inspect
import os
import re
from pathlib import Path
from typing import Any, Iterator

import pytest

import ggufkit as gk
from both import MODULES, THEIRS
from test_writer import add_methods, arguments

PAGE = Path(__file__).resolve().parents[4] / "docs/python-migration.md"
BEGIN, END = "<!-- methods -->\n", "<!-- end of methods -->\n"

# Methods that the hand-written part of the page has.
WRITTEN = {f"add_{kind}" for kind in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "bool", "string", "array")}


# Names that the original imports from other packages.
IMPORTED = {"ascii_letters", "digits", "MistralTokenizer", "Tekkenizer", "SentencePieceTokenizer", "get_one_valid_tokenizer_file"}


def public_names() -> Iterator[str]:
    """All that a program can call or read: `Class.member`, or `name` for a function or a value of a module."""
    for module in MODULES:
        for name, value in vars(getattr(THEIRS.gguf, module)).items():
            if name.startswith("_") or name in IMPORTED or inspect.ismodule(value) or getattr(value, "__module__", f"gguf.{module}") != f"gguf.{module}":
                continue
            yield name
            if not isinstance(value, type) or issubclass(value, enum.Enum):
                continue
            for member, of_class in vars(value).items():
                if not member.startswith("_") and (callable(of_class) or isinstance(of_class, (classmethod, staticmethod, property))):
                    if not isinstance(of_class, type):
                        yield f"{name}.{member}"


def test_the_table_has_every_public_name() -> None:
    code = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", " ".join(re.findall(r"`([^`]*)`", PAGE.read_text(encoding="utf-8")))))
    # Names of the tables of constants that have a pattern on the page.
    patterns = ("KEY_",)
    missing = [name for name in public_names() if name.split(".")[-1] not in code and not name.startswith(patterns)]
    assert not missing, missing


def written(path: Path, key: str, value: Any, ty: str | None = None) -> tuple[str, Any] | None:
    """The type and value that a file has which ggufkit writes."""
    try:
        with gk.Writer(path, arch="llama", force=True) as writer:
            if ty is None:
                writer[key] = value
            else:
                writer.set(key, value, type=ty)
    except (gk.GgufError, ValueError):
        return None
    with gk.open(path) as model:
        found = model.metadata[key]
        return model.metadata.type_of(key), list(found) if isinstance(found, gk.Array) else found


def of_original(path: Path, name: str, args: tuple[Any, ...]) -> dict[str, tuple[str, Any]]:
    """The keys that a method of the original writes, with their types and values."""
    writer = THEIRS.GGUFWriter(path, "llama")
    getattr(writer, name)(*args)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with gk.open(path) as model:
        keys = [key for key in model.metadata if key != "general.architecture"]
        values = {key: model.metadata[key] for key in keys}
        return {key: (model.metadata.type_of(key), list(value) if isinstance(value, gk.Array) else value) for key, value in values.items()}


def row(folder: Path, name: str) -> str:
    """A method of the original beside the statements of ggufkit, which write the same keys, types and values."""
    function = getattr(THEIRS.GGUFWriter, name)
    names = list(inspect.signature(function).parameters)[1:]
    *_, args = arguments(THEIRS, function)
    if name == "add_chat_template":
        args = ("x",)
    # Parts of keys have values that are found in them.
    marks = {names[0]: 4711 if isinstance(args[0], int) else "part"} if names[0] in ("source_id", "dense") else {}
    args = (*marks.values(), *args[len(marks) :])
    keys = of_original(folder / "theirs.gguf", name, args)
    values = names[-len(keys) :] if len(names) > len(marks) + 1 else names[-1:] * len(keys)
    statements = []
    for (key, (ty, value)), last in zip(keys.items(), values, strict=True):
        shown = f'"{key}"'
        for part, mark in marks.items():
            shown = "f" + shown.replace(str(mark), f"{{{part}}}")
        last += ".value" if isinstance(args[-1], enum.Enum) else ""
        if written(folder / "ours.gguf", key, value) == (ty, value):
            statements.append(f"writer[{shown}] = {last}")
        else:
            assert written(folder / "ours.gguf", key, value, ty) == (ty, value), (name, key, ty, value)
            statements.append(f'writer.set({shown}, {last}, type="{ty}")')
    assert statements, name
    return f"| `{name}({', '.join(names)})` | `{'; '.join(statements)}` |\n"


def test_the_methods_that_add_known_keys_have_statements_that_write_the_same(tmp_path: Path) -> None:
    rows = "".join(row(tmp_path, name) for name in add_methods() if name not in WRITTEN)
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    found, after = rest.split(END)
    expected = f"| gguf-py | ggufkit |\n|---|---|\n{rows}"
    if os.environ.get("UPDATE") == "1":
        PAGE.write_text(before + BEGIN + expected + END + after, encoding="utf-8")
        return
    assert found == expected, "the rows are not current: run this test with UPDATE=1"


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`gguf ([a-z-]+)", PAGE.read_text(encoding="utf-8")))))
def test_commands_of_the_table_exist(command: str) -> None:
    assert (PAGE.parent / f"commands/{command}.md").is_file()
