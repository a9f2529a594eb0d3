"""Reading files: the same fields and tensors as the original, and what programs do with private parts."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import struct
import textwrap
from array import array
from pathlib import Path

import numpy as np
import pytest

from both import ORIGINAL, OURS, SHARED, THEIRS

MODELS = sorted((SHARED / "data/hf/ref").glob("*.gguf"))
VOCABULARIES = sorted((ORIGINAL.parent / "models").glob("*.gguf"))
VOCABULARY = ORIGINAL.parent / "models/ggml-vocab-phi-3.gguf"
SMALL = SHARED / "data/hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf-q8_0.gguf"
BIG_ENDIAN = SHARED / "data/hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf-bigendian-f16.gguf"


def same_part(ours, theirs) -> bool:
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()


def same_field(ours, theirs) -> None:
    assert (ours.offset, ours.name) == (theirs.offset, theirs.name)
    assert len(ours.parts) == len(theirs.parts)
    assert list(ours.data) == theirs.data and ours.data == theirs.data
    assert [kind.name for kind in ours.types] == [kind.name for kind in theirs.types] and type(ours.types) is list
    step = 1 + len(theirs.parts) // 500
    assert all(same_part(ours.parts[i], theirs.parts[i]) for i in range(0, len(theirs.parts), step))
    assert same_part(ours.parts[-1], theirs.parts[-1])


@pytest.mark.parametrize("path", MODELS[::9] + [BIG_ENDIAN, VOCABULARY], ids=lambda path: path.name)
def test_fields_and_tensors_are_equal(path: Path) -> None:
    ours, theirs = OURS.GGUFReader(path), THEIRS.GGUFReader(path)
    assert list(ours.fields) == list(theirs.fields)
    for name, field in theirs.fields.items():
        same_field(ours.fields[name], field)
        assert ours.fields[name].contents() == field.contents()
        if len(field.data) > 3:
            assert ours.fields[name].contents(-2) == field.contents(-2)
            assert ours.fields[name].contents(slice(1, 3)) == field.contents(slice(1, 3))
    for name in ("byte_order", "alignment", "data_offset"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.endianess.name == theirs.endianess.name
    assert len(ours.tensors) == len(theirs.tensors)
    for mine, yours in zip(ours.tensors, theirs.tensors):
        same_field(mine.field, yours.field)
        assert (mine.name, mine.tensor_type.name, mine.n_elements) == (yours.name, yours.tensor_type.name, yours.n_elements)
        assert (mine.n_bytes, mine.data_offset) == (yours.n_bytes, yours.data_offset)
        assert type(mine.data) is np.memmap
        # The data of numbers has the byte order of the file in both.
        assert same_part(mine.data, yours.data) and same_part(mine.shape, yours.shape)


# Private habits.


def reader(mode: str = "r"):
    return OURS.GGUFReader(SMALL, mode)


def test_parts_behave_as_lists() -> None:
    field = reader().fields["tokenizer.ggml.tokens"]
    parts = field.parts
    n = len(parts)
    assert same_part(parts[-1], parts[n - 1]) and len(parts[2:5]) == 3 and len(list(parts)) == n and parts == list(parts)
    with pytest.raises(IndexError):
        parts[n]
    more = [np.zeros(1)]
    more += parts
    assert len(more) == n + 1 and len([] + parts) == n and len(parts + []) == n
    assert field.data[0] == 6 and field.data[-1] == n - 1 and field.data[1:3] == [8, 10] and list(reversed(field.data))[0] == n - 1
    copied = pickle.loads(pickle.dumps(field.data))
    assert copied == field.data and copy.deepcopy(field.data) == field.data


def test_programs_read_values_of_parts() -> None:
    fields = reader().fields
    part = fields["llama.block_count"].parts[-1]
    # vLLM and ComfyUI-GGUF: with NumPy 2.4, only an array without dimensions is a number.
    assert int(part) == 2 == np.uint32(part).item() and float(part) == 2.0 and part[0] == 2 and part.tolist() == [2]
    text = fields["general.architecture"].parts[-1]
    assert str(text, encoding="utf-8") == "llama" == bytes(text).decode() == str(text.tobytes(), "utf-8")
    assert array("B", list(text)).tobytes() == b"llama"
    tokens = fields["tokenizer.ggml.tokens"]
    assert [bytes(tokens.parts[i]).decode() for i in tokens.data][:3] == ["<unk>", "<s>", "</s>"]


def test_mode_r_plus_changes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(SMALL.read_bytes())
    model = OURS.GGUFReader(path, "r+")
    field = model.fields["tokenizer.ggml.bos_token_id"]
    field.parts[field.data[0]][0] = 7
    scores = model.fields["tokenizer.ggml.scores"]
    scores.parts[scores.data[3]][0] = -2.5
    model.tensors[0].data[0, 0] ^= 255
    model.data.flush()
    again = THEIRS.GGUFReader(path)
    assert again.fields["tokenizer.ggml.bos_token_id"].contents() == 7 and again.fields["tokenizer.ggml.scores"].contents(3) == -2.5
    assert again.tensors[0].data[0, 0] == THEIRS.GGUFReader(SMALL).tensors[0].data[0, 0] ^ 255


def test_mode_c_keeps_changes_in_memory(tmp_path: Path) -> None:
    model = reader("c")
    field = model.fields["tokenizer.ggml.bos_token_id"]
    field.parts[field.data[0]][0] = 7
    assert field.contents() == 7 and reader().fields[field.name].contents() != 7


def test_the_map_can_be_closed() -> None:
    model = reader()
    model.data._mmap.close()
    model = reader()
    del model.data
    model.tensors.clear()


def test_subclasses_override_the_steps() -> None:
    calls = []

    class Reader(OURS.GGUFReader):
        def _build_tensors(self, offs, fields):
            calls.append("tensors")
            super()._build_tensors(offs, fields)

        def _build_fields(self, offs, count):
            calls.append("fields")
            return super()._build_fields(offs, count)

        def _push_field(self, field, skip_sum=False):
            calls.append(field.name)
            return super()._push_field(field, skip_sum)

    model = Reader(SMALL)
    assert calls == [*list(model.fields)[:3], "fields", *list(model.fields)[3:], "tensors"] and len(model.tensors) == 21


@pytest.mark.parametrize("name", ["_get", "_get_str", "_get_field_parts"])
def test_subclasses_override_what_reads(name: str) -> None:
    calls = []

    def read(self, *args, **kwargs):
        calls.append(args)
        return getattr(OURS.GGUFReader, name)(self, *args, **kwargs)

    model = type("Reader", (OURS.GGUFReader,), {name: read})(SMALL)
    assert len(calls) > 500
    theirs = THEIRS.GGUFReader(SMALL)
    for name, field in theirs.fields.items():
        same_field(model.fields[name], field)


def test_a_subclass_reads_fields_itself() -> None:
    class Reader(OURS.GGUFReader):
        def _build_fields(self, offs, count):
            for _ in range(count):
                key_len, key = self._get_str(offs)
                at = offs + int(key_len.nbytes + key.nbytes)
                kind = self._get(at, np.uint32)
                at += int(kind.nbytes)
                size, parts, indexes, types = self._get_field_parts(at, kind[0])
                parts = [key_len, key, kind] + parts
                self._push_field(OURS.ReaderField(offs, str(bytes(key), encoding="utf-8"), parts, [i + 3 for i in indexes], types), skip_sum=True)
                offs = at + size
            return offs

    for name, field in reader().fields.items():
        same_field(Reader(SMALL).fields[name], field)


def test_build_tensors_is_replaced_in_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OURS.GGUFReader, "_build_tensors", lambda self, offs, fields: setattr(self, "seen", (offs, len(fields))))
    model = reader()
    assert model.seen == (model.data_offset, 21) and model.tensors == []


def test_the_source_of_the_constructor_is_changed_and_run() -> None:
    module = OURS.gguf.gguf_reader
    source = textwrap.dedent(inspect.getsource(OURS.GGUFReader.__init__))
    assert "self._build_tensors(offs, tensors_fields" in source
    source = source.replace("self._build_tensors(offs, tensors_fields)", "self.skipped = tensors_fields")
    names = dict(vars(module))
    exec(source, names)

    class Reader(OURS.GGUFReader):
        __init__ = names["__init__"]

    model = Reader(SMALL)
    assert len(model.skipped) == 21 and model.tensors == [] and len(model.fields) > 20


def test_a_replaced_memmap_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "container"
    path.write_bytes(b"x" * 4096 + SMALL.read_bytes())
    memmap = np.memmap
    monkeypatch.setattr(np, "memmap", lambda path, mode="r": memmap(path, mode=mode, offset=4096))
    assert len(OURS.GGUFReader(path).tensors) == 21


def test_types_are_added_to_the_enumeration_and_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([], [("t", [64], 133, 0)], 40))
    kinds = OURS.GGMLQuantizationType
    member = int.__new__(kinds, 133)
    member._name_, member._value_ = "Q9_X", 133
    monkeypatch.setitem(kinds._member_map_, "Q9_X", member)
    monkeypatch.setitem(kinds._value2member_map_, 133, member)
    monkeypatch.setitem(OURS.GGML_QUANT_SIZES, member, (32, 20))
    tensor = OURS.GGUFReader(path).tensors[0]
    assert tensor.tensor_type is member and tensor.data.shape == (40,) and tensor.n_bytes == 40


def test_fields_are_made_by_hand() -> None:
    field = OURS.ReaderField(0, "x", [np.array([3], np.uint32)], [0], [OURS.GGUFValueType.UINT32])
    assert field.contents() == 3 and OURS.ReaderField(0, "y").contents() is None and OURS.ReaderField(0, "y").data == [-1]


# Files with errors, and files that the original misreads.


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def model_bytes(pairs: list[tuple[bytes, int, bytes]], tensors: list[tuple[str, list[int], int, int]], data: int, version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    for name, dims, kind, offset in tensors:
        head += text(name.encode()) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return head + b"\0" * (-len(head) % 32) + b"\1" * data


def array_of(kind: int, n: int, items: bytes) -> bytes:
    return struct.pack("<IQ", kind, n) + items


BROKEN = {
    "magic": b"GGML" + bytes(60),
    "version 1": model_bytes([], [], 0, version=1),
    "version 4": model_bytes([], [], 0, version=4),
    "version 0": model_bytes([], [], 0, version=0),
    "short header": b"GGUF" + struct.pack("<IQ", 3, 0),
    "many pairs": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**31) + bytes(100),
    "pairs to the limit": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**30) + bytes(100),
    "many tensors": b"GGUF" + struct.pack("<IQQ", 3, 2**30, 0) + bytes(100),
    "key past the end": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1000) + bytes(100),
    "long key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63) + bytes(100),
    "key is not UTF-8": model_bytes([(b"\xff", 4, bytes(4))], [], 0),
    "unknown type of value": model_bytes([(b"k", 13, bytes(64))], [], 0),
    "unknown type of elements": model_bytes([(b"k", 9, array_of(77, 3, bytes(64)))], [], 0),
    "array past the end": model_bytes([(b"k", 9, array_of(6, 1 << 20, bytes(64)))], [], 0),
    "array of 2^63": model_bytes([(b"k", 9, array_of(0, 2**63, bytes(64)))], [], 0),
    "strings past the end": model_bytes([(b"k", 9, array_of(8, 1 << 29, text(b"x")))], [], 0),
    "string past the end": model_bytes([(b"k", 8, struct.pack("<Q", 1 << 29))], [], 0),
    "deeply nested": model_bytes([(b"k", 9, array_of(9, 1, b"") * 5000 + array_of(4, 1, bytes(4)))], [], 0),
    "many dimensions": model_bytes([], [("t", [1] * 5, 0, 0)], 64),
    "dimensions that overflow": model_bytes([], [("t", [4194305, 4194305, 211106198978564], 0, 0)], 64),
    "data past the end": model_bytes([], [("t", [64], 0, 0)], 8),
    "offset past the end": model_bytes([], [("t", [4], 0, 2**63)], 64),
    "partial blocks": model_bytes([], [("t", [33], 8, 0)], 64),
    "tensor twice": model_bytes([], [("t", [1], 0, 0), ("t", [1], 0, 32)], 64),
    "alignment 3": model_bytes([(b"general.alignment", 4, struct.pack("<I", 3))], [], 64),
    "alignment 0": model_bytes([(b"general.alignment", 4, bytes(4))], [], 64),
    "type of the alignment": model_bytes([(b"general.alignment", 10, bytes(8))], [], 64),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_are_value_errors(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(BROKEN[what])
    with pytest.raises(ValueError):
        OURS.GGUFReader(path)


def test_every_prefix_of_a_file_is_a_value_error(tmp_path: Path) -> None:
    whole = model_bytes(
        [(b"a", 8, text(b"llama")), (b"b", 9, array_of(8, 2, text(b"x") + text(b"y"))), (b"c", 9, array_of(5, 3, bytes(12))), (b"d", 12, bytes(8))],
        [("t", [2, 3], 0, 0), ("u", [32], 8, 32)], 66,
    )
    path = tmp_path / "model.gguf"
    path.write_bytes(whole)
    OURS.GGUFReader(path)
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError):
            OURS.GGUFReader(path)


def test_a_key_that_is_there_twice_is_a_key_error(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([(b"k", 4, bytes(4))] * 2, [], 0))
    for package in (OURS, THEIRS):
        with pytest.raises(KeyError, match="Duplicate k"):
            package.GGUFReader(path)


def test_tensors_of_unknown_types_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([], [("a", [64], 99, 0), ("b", [4], 0, 64), ("c", [10], 98, 96)], 128))
    a, b, c = OURS.GGUFReader(path).tensors
    assert (a.tensor_type.name, a.n_bytes, a.data.dtype, a.data.shape) == ("TYPE_99", 64, np.uint8, (64,))
    assert b.data.shape == (4,) and c.n_bytes == 32
    with pytest.raises(NotImplementedError):
        OURS.dequantize(a.data, a.tensor_type)


def test_many_tensors_of_unknown_types_are_opened(tmp_path: Path) -> None:
    # A search of all places for each tensor would take minutes.
    n = 50_000
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([], [(f"t{i}", [1], 99, 32 * (n - 1 - i)) for i in range(n)], 32 * n))
    tensors = OURS.GGUFReader(path).tensors
    assert len(tensors) == n and {tensor.n_bytes for tensor in tensors} == {32}


def test_arrays_of_arrays_keep_their_structure(tmp_path: Path) -> None:
    inner = array_of(5, 2, struct.pack("<2i", 1, -2)) + array_of(5, 1, struct.pack("<i", 3))
    strings = array_of(8, 2, text(b"x") + text(b"yz")) + array_of(8, 0, b"")
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([(b"n", 9, array_of(9, 2, inner)), (b"s", 9, array_of(9, 2, strings)), (b"end", 4, struct.pack("<I", 9))], [], 0))
    ours, theirs = OURS.GGUFReader(path).fields, THEIRS.GGUFReader(path).fields
    for name, field in theirs.items():
        same_field(ours[name], field)
    assert ours["n"].contents() == [[1, -2], [3]] and ours["n"].contents(1) == [3] and theirs["n"].contents() == [1, -2, 3]
    assert ours["s"].contents() == [["x", "yz"], []] and ours["end"].contents() == 9


def test_heads_that_are_longer_than_the_first_copy(tmp_path: Path) -> None:
    numbers = np.arange(1 << 20, dtype="<u4")
    strings = b"".join(text(str(i).encode()) for i in range(200_000))
    path = tmp_path / "model.gguf"
    path.write_bytes(
        model_bytes([(b"n", 9, array_of(4, len(numbers), numbers.tobytes())), (b"s", 9, array_of(8, 200_000, strings)), (b"e", 4, bytes(4))], [], 0)
    )
    fields = OURS.GGUFReader(path).fields
    assert fields["n"].contents(slice(-2, None)) == [2**20 - 2, 2**20 - 1]
    assert fields["s"].contents() == [str(i) for i in range(200_000)] and fields["e"].contents() == 0


def test_empty_arrays_and_strings(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes([(b"a", 9, array_of(8, 0, b"")), (b"b", 9, array_of(6, 0, b"")), (b"", 8, text(b""))], [], 0))
    ours, theirs = OURS.GGUFReader(path), THEIRS.GGUFReader(path)
    for name, field in theirs.fields.items():
        same_field(ours.fields[name], field)
        assert ours.fields[name].contents() == field.contents()


def test_a_large_vocabulary_does_not_take_memory_for_each_token() -> None:
    import tracemalloc

    path = max(VOCABULARIES, key=lambda path: path.stat().st_size)
    tracemalloc.start()
    model = OURS.GGUFReader(path)
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = path.stat().st_size
    assert len(model.fields) > 10 and peak < 5 * size and math.isfinite(now)
