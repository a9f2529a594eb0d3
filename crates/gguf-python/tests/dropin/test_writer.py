"""Writing files: the same bytes as the original, and what it refuses or loses."""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest

from both import OURS, THEIRS


def written(package, path: Path, fill, **options) -> dict[str, bytes]:
    """The files that a writer makes, by name."""
    path.mkdir()
    writer = package.GGUFWriter(path / "model.gguf", "llama", **options)
    fill(package, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def both(tmp_path: Path, fill, **options) -> dict[str, bytes]:
    """The files, which are those of the original. Options with an enumeration are given by name."""

    def of(package):
        if "endianess" in options:
            return options | {"endianess": package.GGUFEndian[options["endianess"]]}
        return options

    ours = written(OURS, tmp_path / "ours", fill, **of(OURS))
    theirs = written(THEIRS, tmp_path / "theirs", fill, **of(THEIRS))
    assert list(ours) == list(theirs)
    for name in theirs:
        assert ours[name] == theirs[name], name
    return ours


def values(package, writer) -> None:
    for number, name in enumerate(("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")):
        getattr(writer, f"add_{name}")(f"n.{name}", 100 + number)
    writer.add_float32("f", 0.1)
    writer.add_float64("d", 0.1)
    writer.add_bool("b", True)
    writer.add_string("s", "ä €")
    writer.add_string("empty", "")
    writer.add_array("a.empty", [])
    writer.add_array("a.strings", ["x", "ö", ""])
    writer.add_array("a.bytes", [b"\xff", bytearray(b"y")])
    writer.add_array("a.ints", [1, -2, 2**31 - 1])
    writer.add_array("a.tokens", [package.TokenType.NORMAL, package.TokenType.BYTE])
    writer.add_array("a.floats", (0.5, -1.0))
    writer.add_array("a.bools", [True, False])
    writer.add_array("a.text", b"\x00\x01\xff")
    writer.add_array("a.lists", [[1, 2], [3]])
    writer.add_key_value("a.u64", [1, 2**63], package.GGUFValueType.ARRAY, sub_type=package.GGUFValueType.UINT64)
    writer.add_key_value("a.f64", [0.1], package.GGUFValueType.ARRAY, sub_type=package.GGUFValueType.FLOAT64)
    writer.add_uint32("again", 1)
    writer.add_uint32("again", 2)
    writer.add_uint32("gone", 1)
    writer.remove_key("gone")


def tensors(package, writer) -> None:
    rng = np.random.default_rng(1)
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64"):
        writer.add_tensor(f"t.{dtype}", rng.normal(size=(3, 5)).astype(dtype))
    packed = rng.integers(0, 256, size=(4, 34), dtype=np.uint8)
    writer.add_tensor("t.q8_0", packed, raw_dtype=package.GGMLQuantizationType.Q8_0)
    writer.add_tensor("t.view", rng.normal(size=(8, 8)).astype("float32")[::2, 1:])
    writer.add_tensor("t.scalar", np.float32(3).reshape(()))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"endianess": "BIG"},
        {"use_temp_file": True},
        {"split_max_tensors": 3},
        {"split_max_size": 300},
        {"split_max_tensors": 4, "small_first_shard": True},
        {"use_temp_file": True, "small_first_shard": True},
        {"split_max_tensors": 100},
    ],
    ids=str,
)
def test_files_are_equal(options: dict, tmp_path: Path) -> None:
    files = both(tmp_path, lambda package, writer: (values(package, writer), tensors(package, writer)), **options)
    assert len(files) == {"{'split_max_tensors': 3}": 4}.get(str(options), len(files))


def test_custom_alignment(tmp_path: Path) -> None:
    both(tmp_path, lambda package, writer: (writer.add_custom_alignment(256), tensors(package, writer)))
    for alignment in (0, -1, 3, 48):
        with pytest.raises(ValueError):
            OURS.GGUFWriter(None, "x").add_custom_alignment(alignment)


def add_methods() -> list[str]:
    own = {"add_key_value", "add_tensor_info", "add_tensor", "add_shard_kv_data", "add_architecture"}
    return [name for name in vars(THEIRS.GGUFWriter) if name.startswith("add_") and name not in own]


def arguments(package, function) -> list[tuple]:
    """Arguments of the types that a method asks for: two sets if the last may be a number or a sequence."""
    choices = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        kind = str(parameter.annotation).replace("'", "")
        if kind.startswith("int | Sequence[") or "Sequence[Mapping" in kind:
            choices.append([7, [7, 8]] if kind.startswith("int") else ["x", None, [{"name": "a b", "template": "t"}, {"name": "default", "template": "u"}]])
        elif kind in ("RopeScalingType", "PoolingType", "ExpertGatingFuncType"):
            choices.append([list(getattr(package, kind))[1]])
        else:
            choices.append([{
                "int": 64, "float": 0.25, "bool": True, "str": "x", "bytes": b"\x01\x02", "Any": 1,
            }.get(kind, ["x", "y"] if "[str]" in kind or "bytes" in kind else [True, False] if "bool" in kind else [0.5] if "float" in kind else [1, 2])])
    return list(itertools.product(*choices))


@pytest.mark.parametrize("name", add_methods())
def test_every_add_method_adds_the_same(name: str) -> None:
    found = []
    for package in (OURS, THEIRS):
        writer = package.GGUFWriter(None, "llama")
        results = []
        for args in arguments(package, getattr(THEIRS.GGUFWriter, name)):
            getattr(writer, name)(*args)
            results.append([(key, val.value, val.type.name, val.sub_type and val.sub_type.name) for key, val in writer.kv_data[0].items()])
        found.append(results)
    assert found[0] == found[1] and found[0]


def test_parameters_are_counted(tmp_path: Path) -> None:
    for names in (
        {"a": (3, 4), "b_exps.weight": (8, 4, 2), "b_exps.bias": (8, 4), "c_exps.x": (6,)},
        {"x.lora_a": (2, 8), "x.lora_b": (16, 2)},
        {"x.lora_b": (16, 2)},
        {},
    ):
        counts = []
        for package in (OURS, THEIRS):
            writer = package.GGUFWriter(None, "llama")
            for name, shape in names.items():
                writer.add_tensor_info(name, shape, np.dtype("float32"), 4)
            counts.append(writer.get_total_parameter_count())
        assert counts[0] == counts[1]


def test_steps_in_another_order_are_value_errors(tmp_path: Path) -> None:
    for package in (OURS, THEIRS):
        writer = package.GGUFWriter(tmp_path / "x.gguf", "llama")
        for step in ("write_kv_data_to_file", "write_ti_data_to_file"):
            with pytest.raises(ValueError):
                getattr(writer, step)()
        with pytest.raises(ValueError):
            writer.write_tensor_data(np.zeros(1))
        writer.add_tensor("t", np.zeros(2, np.float32))
        with pytest.raises(ValueError):
            writer.add_tensor("t", np.zeros(2, np.float32))
        with pytest.raises(ValueError):
            writer.add_tensor("u", np.zeros(2, np.complex64))
        writer.write_header_to_file()
        with pytest.raises(ValueError):
            writer.add_tensor("late", np.zeros(2, np.float32))
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


@pytest.mark.parametrize("value", [[], [1, "x"], [1, 1.5], 7, "text", None, [None]])
def test_arrays_without_a_type_are_value_errors(value: object) -> None:
    writer = OURS.GGUFWriter(None, "llama")
    with pytest.raises(ValueError):
        writer._pack_val(value, writer.kv_data[0]["general.architecture"].type.ARRAY, add_vtype=True)


def test_data_is_written_one_tensor_at_a_time(tmp_path: Path) -> None:
    files = []
    for package, name in ((OURS, "a"), (THEIRS, "b")):
        writer = package.GGUFWriter(tmp_path / name, "llama", split_max_tensors=2)
        data = {f"t{i}": np.arange(i + 3, dtype=np.float32) for i in range(5)}
        for key, array in data.items():
            writer.add_tensor_info(key, array.shape, array.dtype, array.nbytes)
        writer.write_header_to_file(tmp_path / f"{name}.gguf")
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for array in data.values():
            writer.write_tensor_data(array)
        writer.close()
        files.append([file.read_bytes() for file in sorted(tmp_path.glob(f"{name}-*.gguf"))])
    assert files[0] == files[1] and len(files[0]) == 3
    with pytest.raises(ValueError, match="All tensors have been written"):
        writer = OURS.GGUFWriter(tmp_path / "c.gguf", "llama")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.write_tensor_data(np.zeros(1))


def test_subclasses_encode_values_themselves(tmp_path: Path) -> None:
    def subclass(package):
        class Writer(package.GGUFWriter):
            def add_architecture(self):
                self.add_string("general.architecture", "other")

            def _pack_val(self, val, vtype, add_vtype):
                if vtype == package.GGUFValueType.STRING and isinstance(val, str):
                    val = val.replace("x", "X")
                return super()._pack_val(val, vtype, add_vtype)

        return Writer

    results = []
    for package in (OURS, THEIRS):
        cls = subclass(package)
        writer = cls(None, "llama")
        assert writer.kv_data[0]["general.architecture"].value == "other"
        results.append([cls._pack_val(writer, ["x", "yx"], package.GGUFValueType.ARRAY, False), cls._pack_val(writer, [1, 2], package.GGUFValueType.ARRAY, True)])
    assert results[0] == results[1] and b"yX" in results[0][0]


def test_a_dry_run_prints_the_names_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    printed = []
    for package in (OURS, THEIRS):
        writer = package.GGUFWriter(tmp_path / "model.gguf", "llama", dry_run=True, split_max_tensors=1)
        writer.add_tensor("a", np.zeros(2, np.float32))
        writer.add_tensor("b", np.zeros(2, np.float32))
        with pytest.raises(SystemExit) as end:
            writer.write_header_to_file()
        assert end.value.code is None and list(tmp_path.iterdir()) == []
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and "model-00002-of-00002.gguf" in printed[0]


def test_sizes_and_names() -> None:
    for n in (0, 1, 999, 1000, 123456, 10**9, 10**13):
        assert OURS.GGUFWriter.format_n_bytes_to_str(n) == THEIRS.GGUFWriter.format_n_bytes_to_str(n)
    assert [OURS.GGUFWriter.ggml_pad(x, 32) for x in (0, 1, 32, 33)] == [0, 32, 32, 64]


# What the original refuses or loses.


def contents(tmp_path: Path, fill):
    path = tmp_path / "model.gguf"
    writer = OURS.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return THEIRS.GGUFReader(path).fields


def test_numbers_of_numpy_and_wide_integers(tmp_path: Path) -> None:
    def fill(writer):
        writer.add_array("scalars", [np.float32(0.5), np.float32(1)])
        writer.add_array("array", np.array([1, 2], np.uint16))
        writer.add_array("wide", [1, 2**40])
        writer.add_array("widest", [2**63])
        writer.add_key_value("none", np.zeros(0, np.int8), OURS.GGUFValueType.ARRAY)
        writer.add_key_value("bytes", np.array([1, 2], np.int64), OURS.GGUFValueType.ARRAY, sub_type=OURS.GGUFValueType.UINT8)
        writer.add_key_value("strings", [], OURS.GGUFValueType.ARRAY, sub_type=OURS.GGUFValueType.STRING)

    fields = contents(tmp_path, fill)
    found = {name: ([kind.name for kind in field.types], field.contents()) for name, field in fields.items()}
    assert found["scalars"] == (["ARRAY", "FLOAT32"], [0.5, 1.0])
    assert found["array"] == (["ARRAY", "UINT16"], [1, 2])
    assert found["wide"] == (["ARRAY", "INT64"], [1, 2**40])
    assert found["bytes"] == (["ARRAY", "UINT8"], [1, 2])
    assert found["widest"] == (["ARRAY", "UINT64"], [2**63])
    assert fields["none"].parts[3][0] == 1 and fields["strings"].parts[3][0] == 8


def test_chat_templates_keep_their_order() -> None:
    writer = OURS.GGUFWriter(None, "llama")
    writer.add_chat_template([{"name": name, "template": "t"} for name in ("z", "default", "a", "m")])
    assert writer.kv_data[0]["tokenizer.chat_templates"].value == ["z", "a", "m"]
