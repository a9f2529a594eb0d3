"""Number formats: blocks of quantized values from and to `float32`.

A type is a class, which is never instantiated. The loops are in Rust and use all cores. A subclass of `__Quant` may define a
type of its own by overriding `quantize_blocks` and `dequantize_blocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log2, prod
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike

from ggufkit import _native

from ._grids import GRIDS
from .constants import GGML_QUANT_SIZES, QK_K, GGMLQuantizationType
from .lazy import LazyNumpyTensor


def quant_shape_to_byte_shape(shape: Sequence[int], quant_type: GGMLQuantizationType) -> tuple[int, ...]:
    """The shape of the bytes of a tensor. Rows must be whole blocks."""
    block_size, type_size = GGML_QUANT_SIZES[quant_type]
    if shape[-1] % block_size != 0:
        raise ValueError(f"Quantized tensor row size ({shape[-1]}) is not a multiple of {quant_type.name} block size ({block_size})")
    return (*shape[:-1], shape[-1] // block_size * type_size)


def quant_shape_from_byte_shape(shape: Sequence[int], quant_type: GGMLQuantizationType) -> tuple[int, ...]:
    """The shape of the values of a tensor, from that of its bytes."""
    block_size, type_size = GGML_QUANT_SIZES[quant_type]
    if shape[-1] % type_size != 0:
        raise ValueError(f"Quantized tensor bytes per row ({shape[-1]}) is not a multiple of {quant_type.name} type size ({type_size})")
    return (*shape[:-1], shape[-1] // type_size * block_size)


def _apply_over_grouped_rows(func: Callable[[np.ndarray], np.ndarray], arr: np.ndarray, otype: DTypeLike, oshape: tuple[int, ...]) -> np.ndarray:
    """`func` of an array's rows, for functions that need much memory: groups of rows, one after the other."""
    rows = arr.reshape((-1, arr.shape[-1]))
    out = np.empty(prod(oshape), dtype=otype)
    parts = [func(group).ravel() for group in np.array_split(rows, rows.shape[0] // 16 or 1)]
    np.concatenate(parts, axis=0, out=out)
    return out.reshape(oshape)


def np_roundf(n: np.ndarray) -> np.ndarray:
    """Rounds to the nearest integer, and halves away from zero."""
    size = np.abs(n)
    down = np.floor(size)
    return np.sign(n) * (down + np.floor(2 * (size - down)))


class QuantError(Exception): ...


_type_traits: dict[GGMLQuantizationType, type[__Quant]] = {}

_PLAIN = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}


def quantize(data: np.ndarray, qtype: GGMLQuantizationType) -> np.ndarray:
    """Encode an array: `float32` or `float16` for these types, otherwise the bytes of the blocks.

    `QuantError` if rows are not whole blocks, `NotImplementedError` if the type cannot be encoded without an importance matrix.
    """
    if (dtype := _PLAIN.get(qtype)) is not None:
        return data.astype(dtype, copy=False)
    return _codec(qtype, "Quantization").quantize(data)


def dequantize(data: np.ndarray, qtype: GGMLQuantizationType) -> np.ndarray:
    """Decode the data of a tensor to `float32`. `NotImplementedError` if the type has no decoder."""
    if (dtype := _PLAIN.get(qtype)) is not None:
        # Numbers of the other byte order keep it in their dtype. Bytes are those of this machine.
        values = data if data.dtype.newbyteorder("=") == dtype else data.view(dtype)
        return values.astype(np.float32, copy=False)
    return _codec(qtype, "Dequantization").dequantize(data)


def _codec(qtype: GGMLQuantizationType, what: str) -> type[__Quant]:
    if (codec := _type_traits.get(qtype)) is None:
        raise NotImplementedError(f"{what} for {qtype.name} is not yet implemented")
    return codec


class __Quant(ABC):
    qtype: GGMLQuantizationType
    block_size: int
    type_size: int

    grid: np.ndarray[Any, np.dtype[np.float32]] | None = None
    grid_shape: tuple[int, int] = (0, 0)
    grid_map: tuple[int | float, ...] = ()
    grid_hex: bytes | None = None

    # Functions of lazy tensors, which each subclass has.
    __quantize_lazy: Callable[..., Any] | None = None
    __dequantize_lazy: Callable[..., Any] | None = None

    def __init__(self):
        raise TypeError("Quant conversion classes can't have instances")

    def __init_subclass__(cls, qtype: GGMLQuantizationType) -> None:
        assert qtype not in _type_traits
        cls.qtype = qtype
        cls.block_size, cls.type_size = GGML_QUANT_SIZES[qtype]
        cls.__quantize_lazy = LazyNumpyTensor._wrap_fn(cls.__quantize_array, meta_noop=(np.uint8, cls.__shape_to_bytes))
        cls.__dequantize_lazy = LazyNumpyTensor._wrap_fn(cls.__dequantize_array, meta_noop=(np.float32, cls.__shape_from_bytes))
        _type_traits[qtype] = cls

    @classmethod
    def init_grid(cls):
        """Make `grid` of `grid_hex`: digits of as many bits as `grid_map` has values, the lowest of a byte first."""
        if cls.grid is not None or cls.grid_hex is None:
            return
        bits = ceil(log2(len(cls.grid_map)))
        # Three bits take four, so that a byte has whole digits.
        per_byte = 8 // bits
        packed = np.frombuffer(bytes.fromhex(cls.grid_hex.decode()), dtype=np.uint8)
        shifts = np.arange(0, 8, 8 // per_byte, dtype=np.uint8)
        digits = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
        cls.grid = np.array(cls.grid_map, dtype=np.float32)[digits].reshape((1, 1, *cls.grid_shape))

    @classmethod
    def quantize_blocks(cls, blocks: np.ndarray) -> np.ndarray:
        """Encode rows of one block each."""
        return cls._encode(blocks)

    @classmethod
    def dequantize_blocks(cls, blocks: np.ndarray) -> np.ndarray:
        """Decode rows of one block each."""
        return cls._decode(blocks)

    @classmethod
    def quantize_rows(cls, rows: np.ndarray) -> np.ndarray:
        if _is_native(cls.quantize_blocks):
            return cls._encode(rows)
        rows = rows.astype(np.float32, copy=False)
        blocks = cls.quantize_blocks(rows.reshape((rows.size // cls.block_size, cls.block_size)))
        assert blocks.dtype == np.uint8
        assert blocks.shape[-1] == cls.type_size
        return blocks.reshape(cls.__shape_to_bytes(rows.shape))

    @classmethod
    def dequantize_rows(cls, rows: np.ndarray) -> np.ndarray:
        if _is_native(cls.dequantize_blocks):
            return cls._decode(rows)
        rows = rows.view(np.uint8)
        blocks = cls.dequantize_blocks(rows.reshape((rows.size // cls.type_size, cls.type_size)))
        assert blocks.dtype == np.float32
        assert blocks.shape[-1] == cls.block_size
        return blocks.reshape(cls.__shape_from_bytes(rows.shape))

    @classmethod
    def _encode(cls, values: np.ndarray) -> np.ndarray:
        if cls.qtype not in _ENCODERS:
            raise NotImplementedError(f"Quantization for {cls.qtype.name} without an importance matrix is not possible")
        return _native.quantize(values, cls.qtype.name)

    @classmethod
    def _decode(cls, packed: np.ndarray) -> np.ndarray:
        if cls.qtype not in _DECODERS:
            raise NotImplementedError(f"Dequantization for {cls.qtype.name} is not yet implemented")
        return _native.dequantize(np.ascontiguousarray(packed).view(np.uint8), cls.qtype.name)

    @classmethod
    def __shape_to_bytes(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return quant_shape_to_byte_shape(shape, cls.qtype)

    @classmethod
    def __shape_from_bytes(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return quant_shape_from_byte_shape(shape, cls.qtype)

    @classmethod
    def __quantize_array(cls, array: np.ndarray) -> np.ndarray:
        if _is_native(cls.quantize_blocks):
            return cls.quantize_rows(array)
        return _apply_over_grouped_rows(cls.quantize_rows, array, np.uint8, cls.__shape_to_bytes(array.shape))

    @classmethod
    def __dequantize_array(cls, array: np.ndarray) -> np.ndarray:
        if _is_native(cls.dequantize_blocks):
            return cls.dequantize_rows(array)
        cls.init_grid()
        return _apply_over_grouped_rows(cls.dequantize_rows, array, np.float32, cls.__shape_from_bytes(array.shape))

    @classmethod
    def can_quantize(cls, tensor: np.ndarray | LazyNumpyTensor) -> bool:
        return tensor.shape[-1] % cls.block_size == 0

    @classmethod
    def quantize(cls, tensor: np.ndarray | LazyNumpyTensor) -> np.ndarray:
        if not cls.can_quantize(tensor):
            raise QuantError(f"Can't quantize tensor with shape {tensor.shape} to {cls.qtype.name}")
        return (cls.__quantize_lazy if isinstance(tensor, LazyNumpyTensor) else cls.__quantize_array)(tensor)

    @classmethod
    def dequantize(cls, tensor: np.ndarray | LazyNumpyTensor) -> np.ndarray:
        return (cls.__dequantize_lazy if isinstance(tensor, LazyNumpyTensor) else cls.__dequantize_array)(tensor)


_BLOCK_FUNCTIONS = (vars(__Quant)["quantize_blocks"].__func__, vars(__Quant)["dequantize_blocks"].__func__)
_ENCODERS, _DECODERS = map(frozenset, _native.dropin.coded_types())


def _is_native(method: Callable[..., np.ndarray]) -> bool:
    """Whether no subclass has overridden this function of blocks."""
    return getattr(method, "__func__", None) in _BLOCK_FUNCTIONS


class BF16(__Quant, qtype=GGMLQuantizationType.BF16): ...


class Q4_0(__Quant, qtype=GGMLQuantizationType.Q4_0): ...


class Q4_1(__Quant, qtype=GGMLQuantizationType.Q4_1): ...


class Q5_0(__Quant, qtype=GGMLQuantizationType.Q5_0): ...


class Q5_1(__Quant, qtype=GGMLQuantizationType.Q5_1): ...


class Q8_0(__Quant, qtype=GGMLQuantizationType.Q8_0): ...


class Q2_K(__Quant, qtype=GGMLQuantizationType.Q2_K): ...


class Q3_K(__Quant, qtype=GGMLQuantizationType.Q3_K): ...


class Q4_K(__Quant, qtype=GGMLQuantizationType.Q4_K):
    K_SCALE_SIZE = 12

    @staticmethod
    def get_scale_min(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The eight scales and eight minimums of blocks of Q4_K and Q5_K, six bits each.

        The first four of each are the low bits of bytes 0 to 7. The other four have their low bits in bytes 8 to 11, and
        their high bits above those of the first four.
        """
        packed = scales.view(np.uint8).reshape((scales.shape[0], 3, 4))
        low, ends = packed[:, :2], packed[:, 2]
        first = low & 0x3F
        high = (low >> 2) & 0x30
        scale = np.concatenate([first[:, 0], high[:, 0] | ends & 0x0F], axis=-1)
        minimum = np.concatenate([first[:, 1], high[:, 1] | ends >> 4], axis=-1)
        return scale, minimum


class Q5_K(__Quant, qtype=GGMLQuantizationType.Q5_K): ...


class Q6_K(__Quant, qtype=GGMLQuantizationType.Q6_K): ...


class TQ1_0(__Quant, qtype=GGMLQuantizationType.TQ1_0): ...


class TQ2_0(__Quant, qtype=GGMLQuantizationType.TQ2_0): ...


# Values of four-bit floating-point numbers, doubled.
_FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


class MXFP4(__Quant, qtype=GGMLQuantizationType.MXFP4):
    kvalues = _FP4

    @staticmethod
    def e8m0_to_fp32_half(x: np.ndarray) -> np.ndarray:
        """Half the power of two of an exponent byte, 2 ** (x - 128)."""
        return np.ldexp(np.float32(1), x.astype(np.int32) - 128)


class NVFP4(__Quant, qtype=GGMLQuantizationType.NVFP4):
    kvalues = _FP4

    @staticmethod
    def ue4m3_to_fp32(x: np.ndarray) -> np.ndarray:
        """Half the value of a scale: four bits of exponent and three of mantissa. Zero for 0x7F, which is not a number."""
        exponent, mantissa = (x >> 3).astype(np.int32) & 0xF, (x & 7).astype(np.float64)
        value = np.where(exponent == 0, np.ldexp(mantissa, -10), np.ldexp(1 + mantissa / 8, exponent - 8))
        return np.where((x == 0) | (x == 0x7F), 0.0, value).astype(np.float32)

    @staticmethod
    def fp32_to_ue4m3(x: np.ndarray) -> np.ndarray:
        """The scale for a number, which is rounded to three bits of mantissa, halves up. Those of the largest exponent are 448, as in ggml."""
        x = np.clip(x, 0.0, 448.0).astype(np.float32)
        # Adding half of the last bit that is kept carries into the exponent, as rounding must.
        normal = (x.view(np.uint32).astype(np.int64) + (1 << 19) >> 20) - ((127 - 7) << 3)
        tiny = (x * np.float32(512) + np.float32(0.5)).astype(np.int64)
        exponent = (x.view(np.uint32) >> 23).astype(np.int64) - 127 + 7
        code = np.where(exponent <= 0, np.clip(tiny, 0, 7), np.where(normal >= 15 << 3, 0x7E, normal))
        return np.where(x <= 0, 0, code).astype(np.uint8)


# The signs of eight values, of which the last makes the number of negative ones even.
_SIGNS = bytes(signs | (signs.bit_count() & 1) << 7 for signs in range(128))


class IQ2_XXS(__Quant, qtype=GGMLQuantizationType.IQ2_XXS):
    ksigns: bytes = _SIGNS
    grid_shape, grid_map, grid_hex = GRIDS["IQ2_XXS"]


class IQ2_XS(__Quant, qtype=GGMLQuantizationType.IQ2_XS):
    grid_shape, grid_map, grid_hex = GRIDS["IQ2_XS"]


class IQ2_S(__Quant, qtype=GGMLQuantizationType.IQ2_S):
    grid_shape, grid_map, grid_hex = GRIDS["IQ2_S"]


class IQ3_XXS(__Quant, qtype=GGMLQuantizationType.IQ3_XXS):
    grid_shape, grid_map, grid_hex = GRIDS["IQ3_XXS"]


class IQ3_S(__Quant, qtype=GGMLQuantizationType.IQ3_S):
    grid_shape, grid_map, grid_hex = GRIDS["IQ3_S"]


class IQ1_S(__Quant, qtype=GGMLQuantizationType.IQ1_S):
    grid_shape, grid_map, grid_hex = GRIDS["IQ1_S"]
    # What is added to the points, with one of both signs for a group.
    delta = np.float32(0.125)


class IQ1_M(__Quant, qtype=GGMLQuantizationType.IQ1_M):
    grid_shape, grid_map, grid_hex = GRIDS["IQ1_S"]
    delta = IQ1_S.delta


class IQ4_NL(__Quant, qtype=GGMLQuantizationType.IQ4_NL):
    kvalues = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


class IQ4_XS(__Quant, qtype=GGMLQuantizationType.IQ4_XS): ...


class Q1_0(__Quant, qtype=GGMLQuantizationType.Q1_0): ...


class Q2_0(__Quant, qtype=GGMLQuantizationType.Q2_0): ...
