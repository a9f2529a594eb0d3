"""Writing GGUF files."""

from __future__ import annotations

import logging
import os
import shutil
import struct
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum, auto
from io import BufferedWriter
from math import prod
from pathlib import Path
from string import ascii_letters, digits
from typing import IO, Any, Mapping, Sequence

import numpy as np

from ._add_methods import AddMethods
from .constants import (
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGUF_VERSION,
    ExpertGatingFuncType,
    GGMLQuantizationType,
    GGUFEndian,
    GGUFValueType,
    Keys,
    PoolingType,
    RopeScalingType,
    TokenType,
)
from .quants import quant_shape_from_byte_shape

logger = logging.getLogger(__name__)

SHARD_NAME_FORMAT = "{:s}-{:05d}-of-{:05d}.gguf"

# Tensors that wait for the head are kept in memory up to this size, with `use_temp_file`.
_SPOOL_BYTES = 256 << 20

_TYPE_OF_DTYPE = {
    np.dtype(name): GGMLQuantizationType[ggml]
    for name, ggml in (
        ("float16", "F16"), ("float32", "F32"), ("float64", "F64"),
        ("int8", "I8"), ("int16", "I16"), ("int32", "I32"), ("int64", "I64"),
    )
}


@dataclass
class TensorInfo:
    shape: Sequence[int]
    dtype: GGMLQuantizationType
    nbytes: int
    tensor: np.ndarray[Any, Any] | None = None


@dataclass
class GGUFValue:
    value: Any
    type: GGUFValueType
    sub_type: GGUFValueType | None = None


class WriterState(Enum):
    NO_FILE = auto()
    EMPTY = auto()
    HEADER = auto()
    KV_DATA = auto()
    TI_DATA = auto()
    WEIGHTS = auto()


class GGUFWriter(AddMethods):
    """Writes a file, or the shards of a model, in steps: header, key-values, tensor infos, tensor data."""

    fout: list[BufferedWriter] | None
    path: Path | None
    temp_file: tempfile.SpooledTemporaryFile[bytes] | None
    tensors: list[dict[str, TensorInfo]]
    kv_data: list[dict[str, GGUFValue]]
    state: WriterState
    _simple_value_packing = {
        GGUFValueType[name]: code
        for name, code in zip("UINT8 INT8 UINT16 INT16 UINT32 INT32 FLOAT32 UINT64 INT64 FLOAT64 BOOL".split(), "BbHhIifQqd?")
    }

    def __init__(
        self, path: os.PathLike[str] | str | None, arch: str, use_temp_file: bool = False, endianess: GGUFEndian = GGUFEndian.LITTLE,
        split_max_tensors: int = 0, split_max_size: int = 0, dry_run: bool = False, small_first_shard: bool = False
    ):
        self.path = Path(path) if path else None
        self.arch = arch
        self.endianess = endianess
        self.data_alignment = GGUF_DEFAULT_ALIGNMENT
        self.use_temp_file = use_temp_file
        self.temp_file = None
        self.fout = None
        self.split_max_tensors = split_max_tensors
        self.split_max_size = split_max_size
        self.dry_run = dry_run
        self.small_first_shard = small_first_shard
        # One dictionary a shard. A small first shard has key-values only.
        self.tensors = [{}, {}] if small_first_shard else [{}]
        self.kv_data = [{}]
        self.state = WriterState.NO_FILE
        logger.info(f"gguf: This GGUF file is for {endianess.name.title()} Endian only")
        self.add_architecture()

    # Key-values.

    def add_key_value(self, key: str, val: Any, vtype: GGUFValueType, sub_type: GGUFValueType | None = None) -> None:
        """Add a key of any type. A key that is there already gets the new value, with a warning."""
        if any(key in kv_data for kv_data in self.kv_data):
            logger.warning(f"Duplicated key name {key!r}, overwriting it with new value {val!r} of type {vtype.name}")
        self.kv_data[0][key] = GGUFValue(value=val, type=vtype, sub_type=sub_type)

    def remove_key(self, key: str) -> None:
        for kv_data in self.kv_data:
            kv_data.pop(key, None)

    def add_uint8(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.UINT8)

    def add_int8(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.INT8)

    def add_uint16(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.UINT16)

    def add_int16(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.INT16)

    def add_uint32(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.UINT32)

    def add_int32(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.INT32)

    def add_float32(self, key: str, val: float) -> None:
        self.add_key_value(key, val, GGUFValueType.FLOAT32)

    def add_uint64(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.UINT64)

    def add_int64(self, key: str, val: int) -> None:
        self.add_key_value(key, val, GGUFValueType.INT64)

    def add_float64(self, key: str, val: float) -> None:
        self.add_key_value(key, val, GGUFValueType.FLOAT64)

    def add_bool(self, key: str, val: bool) -> None:
        self.add_key_value(key, val, GGUFValueType.BOOL)

    def add_string(self, key: str, val: str) -> None:
        """Add a string. An empty string adds nothing."""
        if val:
            self.add_key_value(key, val, GGUFValueType.STRING)

    def add_array(self, key: str, val: Sequence[Any]) -> None:
        """Add an array with the type of its first element. An empty array adds nothing."""
        if len(val) > 0:
            self.add_key_value(key, val, GGUFValueType.ARRAY)

    def _add_u64_array(self, key: str, values: Sequence[int]) -> None:
        self.add_key_value(key, list(values), GGUFValueType.ARRAY, GGUFValueType.UINT64)

    def add_architecture(self) -> None:
        self.add_string(Keys.General.ARCHITECTURE, self.arch)

    def add_custom_alignment(self, alignment: int) -> None:
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError("Invalid alignment: must be a non-zero power of two")
        self.data_alignment = alignment
        self.add_uint32(Keys.General.ALIGNMENT, alignment)

    def add_tensor_extra_prec_a4(self, tensor_names: Sequence[str], values: Sequence[bool]) -> None:
        if len(tensor_names) != len(values):
            raise ValueError("tensor_extra prec_a4 names and values must have the same length")
        self.add_array(Keys.General.TENSOR_EXTRA_NAME, list(tensor_names))
        self.add_array(Keys.General.TENSOR_EXTRA_PREC_A4, list(values))

    def add_chat_template(self, value: str | Sequence[Mapping[str, str]] | None) -> None:
        """Add a template, or several with names, of which `default` is the template of the model. `None` removes it."""
        if value is None:
            return self.remove_key(Keys.Tokenizer.CHAT_TEMPLATE)
        if isinstance(value, str):
            return self.add_string(Keys.Tokenizer.CHAT_TEMPLATE, value)
        default = None
        # In their order, so that a file does not depend on hashes.
        names: dict[str, None] = {}
        for choice in value:
            name = "".join(c if c in ascii_letters + digits else "_" for c in choice.get("name", ""))
            template = choice.get("template")
            if not name or template is None:
                continue
            if name == "default":
                default = template
            else:
                names[name] = None
                self.add_string(Keys.Tokenizer.CHAT_TEMPLATE_N.format(name=name), template)
        if names:
            self.add_array(Keys.Tokenizer.CHAT_TEMPLATES, list(names))
        if default is not None:
            self.add_string(Keys.Tokenizer.CHAT_TEMPLATE, default)

    # Tensors.

    def add_tensor_info(
        self, name: str, tensor_shape: Sequence[int], tensor_dtype: np.dtype,
        tensor_nbytes: int, raw_dtype: GGMLQuantizationType | None = None,
    ) -> None:
        """Announce a tensor. Data of a quantized type is `uint8`, with the shape of its bytes."""
        self._expect(WriterState.NO_FILE)
        if any(name in tensors for tensors in self.tensors):
            raise ValueError(f"Duplicated tensor name {name!r}")
        if raw_dtype is None:
            dtype = _TYPE_OF_DTYPE.get(np.dtype(tensor_dtype).newbyteorder("="))
            if dtype is None:
                raise ValueError("Only F16, F32, F64, I8, I16, I32, I64 tensors are supported for now")
        else:
            dtype = raw_dtype
            if tensor_dtype == np.uint8:
                tensor_shape = quant_shape_from_byte_shape(tensor_shape, raw_dtype)
        shard = self.tensors[-1]
        if shard and self._is_full(shard, tensor_nbytes):
            shard = {}
            self.tensors.append(shard)
        shard[name] = TensorInfo(shape=tensor_shape, dtype=dtype, nbytes=tensor_nbytes)

    def _is_full(self, shard: dict[str, TensorInfo], more_bytes: int) -> bool:
        if self.split_max_tensors and len(shard) >= self.split_max_tensors:
            return True
        return bool(self.split_max_size) and _n_bytes(shard) + more_bytes > self.split_max_size

    def add_tensor(
        self, name: str, tensor: np.ndarray[Any, Any], raw_shape: Sequence[int] | None = None,
        raw_dtype: GGMLQuantizationType | None = None, tensor_endianess: GGUFEndian | None = None
    ) -> None:
        """Add a tensor with its data. It needs only `shape`, `dtype`, `nbytes`, `tofile` and `byteswap`."""
        tensor = self._in_byte_order(tensor, tensor_endianess)
        if self.use_temp_file and self.temp_file is None:
            self.temp_file = tempfile.SpooledTemporaryFile(mode="w+b", max_size=_SPOOL_BYTES)
        shape = tensor.shape if raw_shape is None else raw_shape
        self.add_tensor_info(name, shape, tensor.dtype, tensor.nbytes, raw_dtype=raw_dtype)
        if self.temp_file is None:
            self.tensors[-1][name].tensor = tensor
        else:
            tensor.tofile(self.temp_file)
            self.write_padding(self.temp_file, tensor.nbytes)

    def _in_byte_order(self, tensor: Any, order: GGUFEndian | None) -> Any:
        if order is None:
            order = GGUFEndian[sys.byteorder.upper()]
        # In place would change the caller's data, and lazy tensors cannot do it.
        return tensor if order == self.endianess else tensor.byteswap(inplace=False)

    def get_total_parameter_count(self) -> tuple[int, int, int, int]:
        """All parameters, the shared ones, those of one expert, and the experts of a layer on average.

        The total of a LoRA adapter is negative: it is the size of the tensors that the adapter changes.
        """
        total = shared = of_experts = 0
        n_experts: list[int] = []
        factor: tuple[str, TensorInfo] | None = None
        for name, info in (item for tensors in self.tensors for item in tensors.items()):
            shape = info.shape
            if name.endswith(".lora_a"):
                factor = (name, info)
                continue
            if name.endswith(".lora_b"):
                if factor is None or factor[0] != f"{name[:-1]}a":
                    logger.warning("can't measure LoRA size correctly, tensor order is unusual")
                    return 0, 0, 0, 0
                shape = (*shape[:-1], factor[1].shape[-1])
            size = prod(shape)
            total += size
            if "_exps." in name and len(shape) >= 3:
                n_experts.append(shape[-2 if ".bias" in name else -3])
                of_experts += size // n_experts[-1]
            else:
                shared += size
        return -total if factor else total, shared, of_experts, sum(n_experts) // len(n_experts) if n_experts else 0

    # Files.

    def format_shard_names(self, path: Path) -> list[Path]:
        n = len(self.tensors)
        if n == 1:
            return [path]
        return [path.with_name(SHARD_NAME_FORMAT.format(path.stem, i, n)) for i in range(1, n + 1)]

    def open_output_file(self, path: Path | None = None) -> None:
        if self.state is WriterState.EMPTY and self.fout is not None and path in (None, self.path):
            return
        self._expect(WriterState.NO_FILE)
        if path is not None:
            self.path = path
        if self.path is not None:
            self.fout = [open(name, "wb") for name in self.print_plan()]
            self.state = WriterState.EMPTY

    def print_plan(self) -> list[Path]:
        """Log the names and sizes of the files. A dry run prints the names and ends the program."""
        assert self.path is not None
        names = self.format_shard_names(self.path)
        logger.info("Writing the following files:")
        for name, tensors in zip(names, self.tensors):
            logger.info(f"{name}: n_tensors = {len(tensors)}, total_size = {self.format_n_bytes_to_str(_n_bytes(tensors))}")
        if self.dry_run:
            logger.info("Dry run, not writing files")
            for name in names:
                print(name)
            sys.exit()
        return names

    def add_shard_kv_data(self) -> None:
        n = len(self.tensors)
        if n == 1:
            return
        n_tensors = sum(map(len, self.tensors))
        self.kv_data += [{} for _ in range(n - len(self.kv_data))]
        for i, kv_data in enumerate(self.kv_data):
            kv_data[Keys.Split.LLM_KV_SPLIT_NO] = GGUFValue(i, GGUFValueType.UINT16)
            kv_data[Keys.Split.LLM_KV_SPLIT_COUNT] = GGUFValue(n, GGUFValueType.UINT16)
            kv_data[Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT] = GGUFValue(n_tensors, GGUFValueType.INT32)

    def _expect(self, *states: WriterState) -> None:
        if self.state not in states:
            wanted = " or ".join(state.name for state in states)
            raise ValueError(f"Expected the state of the output to be {wanted}, got {self.state}")

    def write_header_to_file(self, path: Path | None = None) -> None:
        if len(self.tensors) == 1 and (self.split_max_tensors or self.split_max_size):
            logger.warning("Model fails split requirements, not splitting")
        self.open_output_file(path)
        self._expect(WriterState.EMPTY)
        assert self.fout is not None and len(self.kv_data) == 1
        self.add_shard_kv_data()
        for file, tensors, kv_data in zip(self.fout, self.tensors, self.kv_data):
            file.write(self._pack("<I", GGUF_MAGIC, skip_pack_prefix=True))
            file.write(self._pack("I", GGUF_VERSION))
            file.write(self._pack("Q", len(tensors)))
            file.write(self._pack("Q", len(kv_data)))
        self.flush()
        self.state = WriterState.HEADER

    def write_kv_data_to_file(self) -> None:
        self._expect(WriterState.HEADER)
        assert self.fout is not None
        for file, kv_data in zip(self.fout, self.kv_data):
            # Nothing of a shard is written if one of its values has no encoding.
            packed = bytearray()
            for key, val in kv_data.items():
                packed += self._pack_val(key, GGUFValueType.STRING, add_vtype=False)
                more = {} if val.sub_type is None else {"sub_type": val.sub_type}
                packed += self._pack_val(val.value, val.type, add_vtype=True, **more)
            file.write(packed)
        self.flush()
        self.state = WriterState.KV_DATA

    def write_ti_data_to_file(self) -> None:
        self._expect(WriterState.KV_DATA)
        assert self.fout is not None
        for file, tensors in zip(self.fout, self.tensors):
            packed = bytearray()
            offset = 0
            for name, info in tensors.items():
                packed += self._pack_val(name, GGUFValueType.STRING, add_vtype=False)
                packed += self._pack("I", len(info.shape))
                for dim in reversed(info.shape):
                    packed += self._pack("Q", dim)
                packed += self._pack("I", info.dtype)
                packed += self._pack("Q", offset)
                offset += self.ggml_pad(info.nbytes, self.data_alignment)
            file.write(packed)
        self.flush()
        self.state = WriterState.TI_DATA

    def write_tensor_data(self, tensor: np.ndarray[Any, Any], tensor_endianess: GGUFEndian | None = None) -> None:
        """Write the data of the next tensor, in the order in which the tensors were added."""
        self._expect(WriterState.TI_DATA, WriterState.WEIGHTS)
        assert self.fout is not None
        tensor = self._in_byte_order(tensor, tensor_endianess)
        shard = next((i for i, tensors in enumerate(self.tensors) if tensors), None)
        if shard is None:
            raise ValueError("All tensors have been written, and there is data of another one")
        name = next(iter(self.tensors[shard]))
        info = self.tensors[shard][name]
        if info.nbytes != tensor.nbytes:
            raise ValueError(f"tensor {name!r} has {tensor.nbytes} bytes, expected {info.nbytes}")
        del self.tensors[shard][name]
        file = self.fout[shard]
        self.write_padding(file, file.tell())
        tensor.tofile(file)
        self.write_padding(file, tensor.nbytes)
        self.state = WriterState.WEIGHTS

    def write_tensors_to_file(self, *, progress: bool = False) -> None:
        """Write the tensor infos and the data of all tensors."""
        self.write_ti_data_to_file()
        assert self.fout is not None
        for file in self.fout:
            self.write_padding(file, file.tell())
        if self.temp_file is not None:
            self.temp_file.seek(0)
            shutil.copyfileobj(self.temp_file, self.fout[1 if self.small_first_shard else 0])
            self.flush()
            self.temp_file.close()
        else:
            bars = _Bars(self.tensors) if progress else None
            for file, tensors in zip(self.fout, self.tensors):
                if bars is not None:
                    bars.next_shard(tensors)
                for name, info in tensors.items():
                    self._write_one(file, name, info)
                    if bars is not None:
                        bars.add(info.nbytes)
        self.state = WriterState.WEIGHTS

    def _write_one(self, file: BufferedWriter, name: str, info: TensorInfo) -> None:
        assert info.tensor is not None
        start = file.tell()
        info.tensor.tofile(file)
        written = file.tell() - start
        if written != info.nbytes:
            raise ValueError(f"tensor {name!r} wrote {written} bytes, expected {info.nbytes}")
        self.write_padding(file, info.nbytes)
        # Lazy tensors hold their values once they are computed.
        info.tensor = None

    def write_padding(self, fp: IO[bytes], n: int, align: int | None = None) -> None:
        fp.write(bytes(self.ggml_pad(n, align or self.data_alignment) - n))

    def flush(self) -> None:
        assert self.fout is not None
        for file in self.fout:
            file.flush()

    def close(self) -> None:
        if self.fout is not None:
            for file in self.fout:
                file.close()
            self.fout = None

    @staticmethod
    def ggml_pad(x: int, n: int) -> int:
        return (x + n - 1) // n * n

    @staticmethod
    def format_n_bytes_to_str(num: int) -> str:
        if num == 0:
            return "negligible - metadata only"
        size = float(num)
        for unit in ("", "K", "M", "G"):
            if abs(size) < 1000.0:
                return f"{size:3.1f}{unit}"
            size /= 1000.0
        return f"{size:.1f}T - over 1TB, split recommended"

    # Bytes of values.

    def _pack(self, fmt: str, value: Any, skip_pack_prefix: bool = False) -> bytes:
        return struct.pack(fmt if skip_pack_prefix else self._order + fmt, value)

    @property
    def _order(self) -> str:
        return "<" if self.endianess == GGUFEndian.LITTLE else ">"

    def _pack_val(self, val: Any, vtype: GGUFValueType, add_vtype: bool, sub_type: GGUFValueType | None = None) -> bytes:
        head = self._pack("I", vtype) if add_vtype else b""
        code = self._simple_value_packing.get(vtype)
        if code is not None:
            return head + self._pack(code, val, skip_pack_prefix=vtype == GGUFValueType.BOOL)
        if vtype == GGUFValueType.STRING:
            text = val.encode("utf-8") if isinstance(val, str) else val
            return head + self._pack("Q", len(text)) + text
        if vtype == GGUFValueType.ARRAY:
            return head + self._pack_array(val, sub_type)
        raise ValueError("Invalid GGUF metadata value type or value")

    def _pack_array(self, val: Any, item_type: GGUFValueType | None) -> bytes:
        if isinstance(val, np.ndarray):
            # The type of the array decides, even of one without elements.
            if item_type is None:
                item_type = GGUFValueType.get_type(val.dtype.type())
            val = val.tolist()
        if not isinstance(val, Sequence) or isinstance(val, str):
            raise ValueError(f"Invalid GGUF metadata array, expecting a sequence, got {type(val)}")
        if item_type is None:
            # Arrays in arrays that were read know their type.
            item_type = getattr(val, "item_type", None)
        if item_type is None:
            item_type = _item_type(val)
        packed = self._pack("I", item_type) + self._pack("Q", len(val))
        cls = type(self)
        if cls._pack_val is not GGUFWriter._pack_val or cls._pack is not GGUFWriter._pack:
            # A subclass encodes values itself.
            return packed + b"".join(self._pack_val(item, item_type, add_vtype=False) for item in val)
        code = self._simple_value_packing.get(item_type)
        if code is not None:
            return packed + struct.pack(f"{self._order}{len(val)}{code}", *val)
        if item_type == GGUFValueType.STRING:
            pack_length = struct.Struct(f"{self._order}Q").pack
            parts = [packed]
            for text in val:
                if isinstance(text, str):
                    text = text.encode("utf-8")
                parts += (pack_length(len(text)), text)
            return b"".join(parts)
        return packed + b"".join(self._pack_val(item, item_type, add_vtype=False) for item in val)


def _item_type(items: Sequence[Any]) -> GGUFValueType:
    """The type of an array's elements, which must all have the same one."""
    if len(items) == 0:
        raise ValueError("Invalid GGUF metadata array. Empty array")
    if isinstance(items, (bytes, bytearray)):
        return GGUFValueType.UINT8
    # A type of Python has one type of values, so that few elements need a look. NumPy's scalars do, too.
    kinds = {type(item): item for item in items}
    types = {GGUFValueType.get_type(item) for item in kinds.values()}
    if len(types) > 1:
        raise ValueError("All items in a GGUF array should be of the same type")
    (item_type,) = types
    if item_type == GGUFValueType.INT32:
        if min(items) < -(2**31) or max(items) >= 2**31:
            item_type = GGUFValueType.INT64 if max(items) < 2**63 else GGUFValueType.UINT64
    return item_type


def _n_bytes(tensors: Mapping[str, TensorInfo]) -> int:
    return sum(info.nbytes for info in tensors.values())


class _Bars:
    """The progress of writing: one bar for all bytes, and one for those of a shard if there are several."""

    def __init__(self, shards: list[dict[str, TensorInfo]]):
        from tqdm import tqdm

        self.n_shards = len(shards)
        self.shard = 0
        options = {"unit": "byte", "unit_scale": True}
        self.of_shard = tqdm(desc=f"Shard (0/{self.n_shards})", total=None, **options) if self.n_shards > 1 else None
        self.of_all = tqdm(desc="Writing", total=sum(map(_n_bytes, shards)), **options)

    def next_shard(self, tensors: Mapping[str, TensorInfo]) -> None:
        self.shard += 1
        if self.of_shard is not None:
            self.of_shard.set_description(f"Shard ({self.shard}/{self.n_shards})")
            self.of_shard.reset(total=_n_bytes(tensors) or None)

    def add(self, n_bytes: int) -> None:
        if self.of_shard is not None:
            self.of_shard.update(n_bytes)
        self.of_all.update(n_bytes)
