"""Names, signatures, enumerations and tables are those of the original package."""

from __future__ import annotations

import enum
import importlib.util
import inspect
import pickle
from pathlib import Path

import pytest

from both import DROPIN, MODULES, OURS, SCRIPTS, THEIRS


def parameters(function) -> list[tuple[str, object, object]] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind, p.default if isinstance(p.default, (int, str, tuple, type(None))) else "") for p in signature.parameters.values()]


def same_members(ours: type, theirs: type) -> None:
    for name, theirs_member in vars(theirs).items():
        if name.startswith("__") and name != "__init__":
            continue
        assert hasattr(ours, name), f"{theirs.__name__}.{name}"
        theirs_member, ours_member = getattr(theirs, name), getattr(ours, name)
        if isinstance(theirs_member, type):
            same_members(ours_member, theirs_member)
        elif callable(theirs_member) and not isinstance(theirs_member, enum.Enum) and not name.endswith("_lazy"):
            assert parameters(ours_member) == parameters(theirs_member), f"{theirs.__name__}.{name}"
        elif isinstance(theirs_member, (str, bytes, int, float)) and not isinstance(theirs_member, enum.Enum):
            assert ours_member == theirs_member, f"{theirs.__name__}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_the_names_and_signatures(module: str) -> None:
    ours, theirs = getattr(OURS.gguf, module), getattr(THEIRS.gguf, module)
    for name, value in vars(theirs).items():
        if name.startswith("__") and name != "__Quant":
            continue
        assert hasattr(ours, name), f"{module}.{name}"
        found = getattr(ours, name)
        if inspect.isfunction(value):
            assert parameters(found) == parameters(value), f"{module}.{name}"
        elif isinstance(value, type) and value.__module__.startswith("gguf."):
            assert found.__module__ == value.__module__
            same_members(found, value)
        elif isinstance(value, (int, str, float, bytes)):
            assert found == value, f"{module}.{name}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_have_the_names_and_signatures(script: str) -> None:
    ours, theirs = OURS.scripts[script], THEIRS.scripts[script]
    for name, value in vars(theirs).items():
        # Functions that swap the blocks of one type are rows of a table here.
        if inspect.isfunction(value) and value.__module__ == theirs.__name__ and not name.startswith("byteswap_"):
            assert parameters(getattr(ours, name)) == parameters(value), f"{script}.{name}"


def test_the_package_exports_the_same_names() -> None:
    assert [name for name in dir(THEIRS.gguf) if not hasattr(OURS.gguf, name)] == []


def enums():
    return [name for name, value in vars(THEIRS.constants).items() if isinstance(value, type) and issubclass(value, enum.Enum) and len(value)]


@pytest.mark.parametrize("name", enums())
def test_enumerations_have_the_same_members(name: str) -> None:
    ours, theirs = getattr(OURS.constants, name), getattr(THEIRS.constants, name)
    assert [(m.name, m.value) for m in ours] == [(m.name, m.value) for m in theirs]
    assert ours.__mro__[1].__name__ == theirs.__mro__[1].__name__
    with OURS.active():
        assert all(pickle.loads(pickle.dumps(member)) is member for member in ours)


def plain(value):
    """A table with the names of members in place of the members."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("name", [name for name, value in vars(THEIRS.constants).items() if isinstance(value, dict) and name[0] != "_"])
def test_tables_are_equal(name: str) -> None:
    ours, theirs = getattr(OURS.constants, name), getattr(THEIRS.constants, name)
    assert plain(ours) == plain(theirs)
    assert list(map(plain, ours)) == list(map(plain, theirs))


def test_names_of_tensors_are_equal_for_all_architectures() -> None:
    theirs_map = THEIRS.TensorNameMap
    original = theirs_map.block_mappings_cfg
    assert plain(OURS.TensorNameMap.block_mappings_cfg) == plain(original)
    for arch in THEIRS.MODEL_ARCH:
        # The original changes this table of the class when it maps some architectures.
        theirs_map.block_mappings_cfg = dict(original)
        try:
            theirs = theirs_map(arch, 3)
        finally:
            theirs_map.block_mappings_cfg = original
        ours = OURS.get_tensor_name_map(OURS.MODEL_ARCH[arch.name], 3)
        assert plain(ours.mapping) == plain(theirs.mapping), arch.name
        for key in list(theirs.mapping)[::7]:
            suffixes = (".weight", ".bias")
            assert ours.get_name(key + ".weight", suffixes) == theirs.get_name(key + ".weight", suffixes)
            assert plain(ours.get_type(key)) == plain(theirs.get_type(key))
            assert ours[key] == theirs[key] and key in ours and "no.such" not in ours
    assert ours.get_type_and_name("no.such", (".weight",)) is None


def test_one_architecture_does_not_change_the_names_of_another() -> None:
    before = OURS.TensorNameMap(OURS.MODEL_ARCH.LLAMA, 2).mapping
    OURS.TensorNameMap(OURS.MODEL_ARCH.ARCTIC, 2)
    assert OURS.TensorNameMap(OURS.MODEL_ARCH.LLAMA, 2).mapping == before


def test_types_of_values() -> None:
    import numpy as np

    for value in ("x", b"x", bytearray(b"x"), [1], 1.5, True, 7, OURS.TokenType.NORMAL):
        assert OURS.GGUFValueType.get_type(value).name == THEIRS.GGUFValueType.get_type(value).name
    for value, name in ((np.uint8(1), "UINT8"), (np.int64(1), "INT64"), (np.bool_(1), "BOOL"), (np.float32(1), "FLOAT32")):
        assert OURS.GGUFValueType.get_type(value).name == name
    for value in (None, (1,), {}, np.zeros(2)):
        with pytest.raises(ValueError):
            OURS.GGUFValueType.get_type(value)


def test_unknown_types_of_tensors_are_members() -> None:
    unknown = OURS.GGMLQuantizationType(99)
    assert unknown is OURS.GGMLQuantizationType(99) and unknown.name == "TYPE_99" and unknown == 99
    assert 99 not in [member.value for member in OURS.GGMLQuantizationType]
    with OURS.active():
        assert pickle.loads(pickle.dumps(unknown)) is unknown
    for value in (-1, 2**32, "F32", 1.5):
        with pytest.raises(ValueError):
            OURS.GGMLQuantizationType(value)


def test_generated_modules_are_those_of_the_original() -> None:
    path = Path(__file__).parent.parent.parent / "dropin/generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, text in generate.modules(THEIRS.gguf).items():
        assert (DROPIN / "gguf" / name).read_text(encoding="utf-8") == text, f"{name} is not current: run {path.name}"
