"""Reading GGUF files, and changing values in place."""

from __future__ import annotations

import bisect
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Iterator, Literal, NamedTuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

from ggufkit._native import dropin as _native

from .constants import (
    GGML_MAX_DIMS,
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGUF_VERSION,
    GGMLQuantizationType,
    GGUFEndian,
    GGUFValueType,
)
from .quants import quant_shape_to_byte_shape

# Limits of llama.cpp.
GGUF_MAX_STRING_LENGTH = 1 << 30
GGUF_MAX_ARRAY_ELEMENTS = 1 << 30

READER_SUPPORTED_VERSIONS = [2, GGUF_VERSION]

# The part of a file that is copied at first to find its key-values.
_FIRST_HEAD_BYTES = 1 << 20

logger = logging.getLogger(__name__)


class ReaderPart(np.ndarray):
    """A part of a field: a view of the file. A part with one element is also a number."""

    # Without a dictionary, parts are not tracked by the garbage collector, which would visit all of them again and again.
    __slots__ = ()

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __iter__(self) -> Iterator[Any]:
        # Numbers of Python: NumPy's take twice the time.
        return iter(self.tolist())


class _ListLike(Sequence):
    """What lists can do, for sequences whose items are made when they are asked for."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, _ListLike)):
            return NotImplemented
        # Two views of one place in a file are equal arrays.
        return len(other) == len(self) and all(mine is theirs or np.array_equal(mine, theirs) for mine, theirs in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other):
        return [*self, *other]

    def __radd__(self, other):
        return [*other, *self]

    def copy(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self):
        return list, (list(self),)


class _Parts(_native.Parts, _ListLike):
    """The parts of a field with an array."""


class _Indexes(_ListLike):
    """The indexes of an array's elements in the parts of a field."""

    def __init__(self, indexes: range):
        self._indexes = indexes

    def __len__(self) -> int:
        return len(self._indexes)

    def __getitem__(self, index):
        found = self._indexes[index]
        return list(found) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[int]:
        return iter(self._indexes)


class ReaderField(NamedTuple):
    """A key-value pair, or a tensor info."""

    # The offset in the file.
    offset: int

    # The key, or the name of the tensor.
    name: str

    # The pieces of the pair in the file: length and bytes of the key, type, then those of the value.
    parts: list[npt.NDArray[Any]] = []

    # The indexes of the values in `parts`.
    data: list[int] = [-1]

    # The type. For an array with elements, ARRAY and the type of the elements.
    types: list[GGUFValueType] = []

    def contents(self, index_or_slice: int | slice = slice(None)) -> Any:
        """The value as an object of Python. For arrays, an element or a part of them can be chosen."""
        if not self.types:
            return None
        kind, item = self.types[0], self.types[-1]
        if kind != GGUFValueType.ARRAY:
            return _value_of(self.parts[-1], kind)
        if len(self.types) > 2:
            return _Nested(self.parts, len(self.parts) - _n_parts_of_value(self.parts)).read()[index_or_slice]
        if isinstance(index_or_slice, int):
            return _value_of(self.parts[self.data[index_or_slice]], item)
        if isinstance(self.parts, _Parts) and self.parts.values is not None:
            return self.parts.values[index_or_slice].tolist()
        return [_value_of(self.parts[i], item) for i in self.data[index_or_slice]]


def _value_of(part: npt.NDArray[Any], kind: GGUFValueType) -> Any:
    return str(part, encoding="utf-8") if kind == GGUFValueType.STRING else part.tolist()[0]


def _n_parts_of_value(parts: Sequence[npt.NDArray[Any]]) -> int:
    # After the length and the bytes of the key, and the type.
    return len(parts) - 3


class _TypedList(list):
    """An array in an array. Its type is needed to write it again."""

    item_type: GGUFValueType


class _Nested:
    """Reads arrays of arrays from their parts: type and length of each array, then its elements."""

    def __init__(self, parts: Sequence[npt.NDArray[Any]], at: int):
        self.parts = parts
        self.at = at

    def read(self) -> list[Any]:
        kind, n = GGUFValueType(int(self.parts[self.at][0])), int(self.parts[self.at + 1][0])
        self.at += 2
        items = _TypedList(self._item(kind) for _ in range(n))
        items.item_type = kind
        return items

    def _item(self, kind: GGUFValueType) -> Any:
        if kind == GGUFValueType.ARRAY:
            return self.read()
        self.at += 2 if kind == GGUFValueType.STRING else 1
        return _value_of(self.parts[self.at - 1], kind)


class ReaderTensor(NamedTuple):
    name: str
    tensor_type: GGMLQuantizationType
    shape: npt.NDArray[np.uint32]
    n_elements: int
    n_bytes: int
    data_offset: int
    data: npt.NDArray[Any]
    field: ReaderField


# Types of tensors whose data is an array of numbers. That of all others is bytes.
_NUMBERS = {
    "F16": np.float16, "F32": np.float32, "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
}


class GGUFReader:
    """A file, mapped into memory. Mode `r+` writes changes of parts and data to the file, mode `c` keeps them in memory.

    Malformed files are a `ValueError`, keys that are there twice a `KeyError`.
    """

    # I: the byte order of this machine. S: the other one.
    byte_order: Literal['I', 'S'] = 'I'
    alignment: int = GGUF_DEFAULT_ALIGNMENT
    data_offset: int

    gguf_scalar_to_np: dict[GGUFValueType, type[np.generic]] = {
        GGUFValueType.UINT8: np.uint8,
        GGUFValueType.INT8: np.int8,
        GGUFValueType.UINT16: np.uint16,
        GGUFValueType.INT16: np.int16,
        GGUFValueType.UINT32: np.uint32,
        GGUFValueType.INT32: np.int32,
        GGUFValueType.FLOAT32: np.float32,
        GGUFValueType.UINT64: np.uint64,
        GGUFValueType.INT64: np.int64,
        GGUFValueType.FLOAT64: np.float64,
        GGUFValueType.BOOL: np.bool_,
    }

    def __init__(self, path: os.PathLike[str] | str, mode: Literal['r', 'r+', 'c'] = 'r'):
        # Programs take the source of this function and change lines of it: it uses only names of this module and of `self`.
        self.data = np.memmap(path, mode=mode)
        offs = 0
        if self._get(offs, np.uint32, override_order='<')[0] != GGUF_MAGIC:
            raise ValueError('GGUF magic invalid')
        offs += 4

        version = self._get(offs, np.uint32)
        if version[0] & 65535 == 0:
            # Small numbers are in the high bytes if the order is the other one.
            self.byte_order = 'S'
            version = self._get(offs, np.uint32)
        if version[0] not in READER_SUPPORTED_VERSIONS:
            raise ValueError(f'Sorry, file appears to be version {version[0]} which we cannot handle')
        order = (sys.byteorder == 'little') == (self.byte_order == 'I')
        self.endianess = GGUFEndian.LITTLE if order else GGUFEndian.BIG

        self.fields: OrderedDict[str, ReaderField] = OrderedDict()
        self.tensors: list[ReaderTensor] = []
        offs += self._push_field(ReaderField(offs, 'GGUF.version', [version], [0], [GGUFValueType.UINT32]))
        counts = self._get(offs, np.uint64, 2)
        offs += self._push_field(ReaderField(offs, 'GGUF.tensor_count', [counts[:1]], [0], [GGUFValueType.UINT64]))
        offs += self._push_field(ReaderField(offs, 'GGUF.kv_count', [counts[1:]], [0], [GGUFValueType.UINT64]))
        tensor_count, kv_count = counts.tolist()
        if tensor_count > GGUF_MAX_ARRAY_ELEMENTS:
            raise ValueError(f'Tensor count {tensor_count} exceeds maximum {GGUF_MAX_ARRAY_ELEMENTS}')
        if kv_count > GGUF_MAX_ARRAY_ELEMENTS:
            raise ValueError(f'KV count {kv_count} exceeds maximum {GGUF_MAX_ARRAY_ELEMENTS}')

        offs = self._build_fields(offs, kv_count)
        offs, tensors_fields = self._build_tensor_info(offs, tensor_count)
        new_align = self.fields.get('general.alignment')
        if new_align is not None:
            if new_align.types != [GGUFValueType.UINT32]:
                raise ValueError('Bad type for general.alignment field')
            self.alignment = new_align.parts[-1][0]
            if self.alignment == 0 or (self.alignment & (self.alignment - 1)) != 0:
                raise ValueError('Invalid alignment: must be a non-zero power of two')
        padding = offs % self.alignment
        if padding != 0:
            offs += self.alignment - padding
        self.data_offset = offs
        self._build_tensors(offs, tensors_fields)

    _DT = TypeVar('_DT', bound=npt.DTypeLike)

    def get_field(self, key: str) -> Union[ReaderField, None]:
        return self.fields.get(key)

    def get_tensor(self, idx: int) -> ReaderTensor:
        return self.tensors[idx]

    def _get(
        self, offset: int, dtype: npt.DTypeLike, count: int = 1, override_order: None | Literal['I', 'S', '<'] = None,
    ) -> npt.NDArray[Any]:
        """Numbers of the file, which end inside it."""
        dtype = np.dtype(dtype)
        n_bytes = dtype.itemsize * int(count)
        part = self.data[offset:offset + n_bytes]
        if part.nbytes != n_bytes:
            raise ValueError(
                f'The file ends at {self.data.nbytes}; expected {n_bytes} bytes at offset {offset}, found {part.nbytes}; is it truncated?'
            )
        return part.view(dtype.newbyteorder(override_order or self.byte_order))

    def _push_field(self, field: ReaderField, skip_sum: bool = False) -> int:
        if field.name in self.fields:
            raise KeyError(f'Duplicate {field.name} already in list at offset {field.offset}')
        self.fields[field.name] = field
        return 0 if skip_sum else sum(int(part.nbytes) for part in field.parts)

    def _get_str(self, offset: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
        length = self._get(offset, np.uint64)
        n = int(length[0])
        if n > GGUF_MAX_STRING_LENGTH:
            raise ValueError(f'String length {n} exceeds maximum {GGUF_MAX_STRING_LENGTH}')
        rest = self.data.nbytes - offset - 8
        if n > rest:
            raise ValueError(f'String length {n} exceeds remaining file size {rest}')
        return length, self._get(offset + 8, np.uint8, n)

    def _get_field_parts(
        self, orig_offs: int, raw_type: int,
    ) -> tuple[int, list[npt.NDArray[Any]], list[int], list[GGUFValueType]]:
        """A value: its size, its parts, the indexes of the parts with data, and its types."""
        kind = GGUFValueType(int(raw_type))
        if kind == GGUFValueType.STRING:
            length, text = self._get_str(orig_offs)
            return 8 + int(text.nbytes), [length.view(ReaderPart), text.view(ReaderPart)], [1], [kind]
        dtype = self.gguf_scalar_to_np.get(kind)
        if dtype is not None:
            value = self._get(orig_offs, dtype).view(ReaderPart)
            return int(value.nbytes), [value], [0], [kind]
        if kind != GGUFValueType.ARRAY:
            raise ValueError(f'Unknown/unhandled field type {kind}')
        item_type, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        n = int(length[0])
        if n > GGUF_MAX_ARRAY_ELEMENTS:
            raise ValueError(f'Array length {n} exceeds maximum {GGUF_MAX_ARRAY_ELEMENTS}')
        parts: list[npt.NDArray[Any]] = [item_type.view(ReaderPart), length.view(ReaderPart)]
        indexes: list[int] = []
        types = [kind]
        size = 12
        for i in range(n):
            item_size, item_parts, item_indexes, item_types = self._get_field_parts(orig_offs + size, item_type[0])
            if i == 0:
                types += item_types
            indexes += [len(parts) + index for index in item_indexes]
            parts += item_parts
            size += item_size
        return size, parts, indexes, types

    def _get_tensor_info_field(self, orig_offs: int) -> ReaderField:
        name_len, name = self._get_str(orig_offs)
        offs = orig_offs + 8 + int(name.nbytes)
        n_dims = self._get(offs, np.uint32)
        n = int(n_dims[0])
        if n > GGML_MAX_DIMS:
            raise ValueError(f'Tensor dimensions count {n} exceeds GGML_MAX_DIMS ({GGML_MAX_DIMS})')
        dims = self._get(offs + 4, np.uint64, n)
        offs += 4 + 8 * n
        parts = [name_len, name, n_dims, dims, self._get(offs, np.uint32), self._get(offs + 4, np.uint64)]
        return ReaderField(orig_offs, str(name.tobytes(), encoding='utf-8'), [part.view(ReaderPart) for part in parts], [1, 3, 4, 5])

    def _build_fields(self, offs: int, count: int) -> int:
        """Read the key-values. Returns the offset of their end."""
        cls = type(self)
        if all(getattr(cls, name) is function for name, function in _FIELD_FUNCTIONS.items()):
            return self._scan_fields(offs, int(count))
        for _ in range(int(count)):
            offs = self._read_field(offs)
        return offs

    def _read_field(self, offs: int) -> int:
        key_len, key = self._get_str(offs)
        value = offs + 8 + int(key.nbytes)
        raw_type = self._get(value, np.uint32)
        size, parts, indexes, types = self._get_field_parts(value + 4, raw_type[0])
        head = [part.view(ReaderPart) for part in (key_len, key, raw_type)]
        field = ReaderField(offs, str(key.tobytes(), encoding='utf-8'), [*head, *parts], [len(head) + index for index in indexes], types)
        self._push_field(field, skip_sum=True)
        return value + 4 + size

    def _scan_fields(self, offs: int, count: int) -> int:
        """What `_read_field` does `count` times, by a scan of the head in Rust. The parts of arrays are made when they are used."""
        # The scan reads a copy, because other programs may change the file at any time.
        size = min(_FIRST_HEAD_BYTES, self.data.nbytes)
        big = self.endianess == GGUFEndian.BIG
        while True:
            head = self.data[:size].tobytes()
            rows, end = _native.scan_fields(head, offs, count, big_endian=big, whole=size == self.data.nbytes)
            if rows is not None:
                break
            size = min(max(end, 4 * size), self.data.nbytes)
        view = self.data.view(ReaderPart)
        order = self.byte_order
        u32, u64 = (np.dtype(dtype).newbyteorder(order) for dtype in (np.uint32, np.uint64))
        for start, key_len, value, raw_type, item_type, n, strings in rows:
            parts: Any = [view[start:start + 8].view(u64), view[start + 8:start + 8 + key_len], view[value - 4:value].view(u32)]
            kind = GGUFValueType(raw_type)
            types = [kind]
            if kind == GGUFValueType.STRING:
                length = int.from_bytes(head[value:value + 8], 'big' if big else 'little')
                parts += [view[value:value + 8].view(u64), view[value + 8:value + 8 + length]]
                data: Any = [4]
            elif kind != GGUFValueType.ARRAY:
                dtype = np.dtype(self.gguf_scalar_to_np[kind]).newbyteorder(order)
                parts.append(view[value:value + dtype.itemsize].view(dtype))
                data = [3]
            elif item_type == GGUFValueType.ARRAY:
                _, more, indexes, types = self._get_field_parts(value, raw_type)
                parts += more
                data = [3 + index for index in indexes]
            else:
                item = GGUFValueType(item_type)
                if n > 0:
                    types.append(item)
                parts += [view[value:value + 4].view(u32), view[value + 4:value + 12].view(u64)]
                first = len(parts)
                if item == GGUFValueType.STRING:
                    parts = _Parts(parts, view, strings, u64)
                    data = _Indexes(range(first + 1, first + 1 + 2 * n, 2))
                else:
                    dtype = np.dtype(self.gguf_scalar_to_np[item]).newbyteorder(order)
                    parts = _Parts(parts, view[value + 12:value + 12 + n * dtype.itemsize].view(dtype))
                    data = _Indexes(range(first, first + n))
            name = str(head[start + 8:start + 8 + key_len], encoding='utf-8')
            self._push_field(ReaderField(start, name, parts, data, types), skip_sum=True)
        return end

    def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[ReaderField]]:
        fields = []
        for _ in range(int(count)):
            field = self._get_tensor_info_field(offs)
            offs += sum(int(part.nbytes) for part in field.parts)
            fields.append(field)
        return offs, fields

    def _build_tensors(self, start_offs: int, fields: list[ReaderField]) -> None:
        tensors: dict[str, ReaderTensor] = {}
        # Where the data of tensors starts, for types of an unknown size.
        starts = None
        for field in fields:
            _, raw_name, _, dims, raw_type, offset = field.parts
            name = str(bytes(raw_name), encoding='utf-8')
            if name in tensors:
                raise ValueError(f'Found duplicated tensor with name {name}')
            ggml_type = GGMLQuantizationType(int(raw_type[0]))
            shape = tuple(reversed(dims.tolist()))
            n_elements = 1
            for dim in shape:
                n_elements *= dim
            data_offset = int(start_offs) + int(offset[0])
            if ggml_type in GGML_QUANT_SIZES:
                block_size, type_size = GGML_QUANT_SIZES[ggml_type]
                n_bytes = n_elements * type_size // block_size
            else:
                if starts is None:
                    starts = sorted({int(start_offs) + int(field.parts[5][0]) for field in fields} | {self.data.nbytes})
                after = bisect.bisect_right(starts, data_offset)
                n_bytes = starts[after] - data_offset if after < len(starts) else 0
            dtype = _NUMBERS.get(ggml_type.name)
            if dtype is not None:
                data = self._get(data_offset, dtype, n_elements).reshape(shape)
            elif ggml_type in GGML_QUANT_SIZES:
                data = self._get(data_offset, np.uint8, n_bytes).reshape(quant_shape_to_byte_shape(shape, ggml_type))
            else:
                data = self._get(data_offset, np.uint8, n_bytes)
            tensors[name] = ReaderTensor(
                name=name,
                tensor_type=ggml_type,
                shape=dims,
                n_elements=n_elements,
                n_bytes=n_bytes,
                data_offset=data_offset,
                data=data,
                field=field,
            )
        self.tensors = list(tensors.values())


# A subclass that overrides one of these reads key-values itself.
_FIELD_FUNCTIONS = {name: getattr(GGUFReader, name) for name in ("_get", "_get_str", "_get_field_parts", "_read_field")}
