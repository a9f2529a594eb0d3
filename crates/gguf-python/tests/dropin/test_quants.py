"""Codecs: the same values as the original, and its classes."""

from __future__ import annotations

import numpy as np
import pytest

from both import OURS, THEIRS

ENCODERS = "BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 TQ1_0 TQ2_0 MXFP4".split()
TYPES = [kind.name for kind in THEIRS.quants._type_traits]


def kinds(name: str):
    return OURS.GGMLQuantizationType[name], THEIRS.GGMLQuantizationType[name]


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes, with blocks of zeros, of equal numbers and with one large number."""
    rng = np.random.default_rng(len(shape))
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-4, 4, size=(*shape[:-1], 1))
    values[..., :64] = 0
    values[..., 64:128] = 0.75
    values[..., 130] = 1e5
    return values.astype(np.float32)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_are_equal(name: str) -> None:
    ours, theirs = kinds(name)
    for values in (numbers((5, 512)), numbers((2, 3, 256)), numbers((256,)), numbers((4, 256)).astype(np.float64), numbers((8, 256))[::2]):
        expected = THEIRS.quantize(values, theirs)
        found = OURS.quantize(values, ours)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        # The original decides ties between two levels of MXFP4 as ggml does.
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", TYPES)
def test_decoders_are_equal(name: str) -> None:
    ours, theirs = kinds(name)
    block_len, block_bytes = OURS.GGML_QUANT_SIZES[ours]
    rng = np.random.default_rng(7)
    packed = rng.integers(0, 256, size=(3, 5, 4 * block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = THEIRS.dequantize(packed, theirs)
    found = OURS.dequantize(packed, ours)
    assert found.dtype == np.float32 and found.shape == expected.shape == (3, 5, 4 * block_len)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(OURS.dequantize(packed[:, ::2], ours), found[:, ::2], equal_nan=True)


@pytest.mark.parametrize("name", TYPES)
def test_classes_have_the_same_tables(name: str) -> None:
    ours, theirs = getattr(OURS.quants, name), getattr(THEIRS.quants, name)
    assert OURS.quants._type_traits[ours.qtype] is ours
    for field in "block_size type_size grid_shape grid_map grid_hex ksigns kvalues delta K_SCALE_SIZE".split():
        assert getattr(ours, field, None) == getattr(theirs, field, None), field
    ours.init_grid()
    theirs.init_grid()
    assert (ours.grid is None) == (theirs.grid is None)
    if theirs.grid is not None:
        assert ours.grid.dtype == theirs.grid.dtype and np.array_equal(ours.grid, theirs.grid)
    with pytest.raises(TypeError):
        ours()


def test_functions_of_classes() -> None:
    scales = np.random.default_rng(1).integers(0, 256, size=(9, 12), dtype=np.uint8)
    for mine, yours in zip(OURS.Q4_K.get_scale_min(scales), THEIRS.Q4_K.get_scale_min(scales)):
        assert mine.dtype == yours.dtype and np.array_equal(mine, yours)
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(OURS.MXFP4.e8m0_to_fp32_half(codes), THEIRS.MXFP4.e8m0_to_fp32_half(codes))
    assert np.array_equal(OURS.NVFP4.ue4m3_to_fp32(codes[:128]), THEIRS.NVFP4.ue4m3_to_fp32(codes[:128]))
    values = np.concatenate([[0, -1, 448, 1e9], np.geomspace(1e-6, 500, 3000)]).astype(np.float32)
    assert np.array_equal(OURS.NVFP4.fp32_to_ue4m3(values), THEIRS.NVFP4.fp32_to_ue4m3(values))
    values = np.array([0.5, -0.5, 1.5, 2.4, -2.6, 0, 1e20], np.float32)
    assert np.array_equal(OURS.np_roundf(values), THEIRS.np_roundf(values))


def test_blocks_and_rows() -> None:
    values = numbers((6, 256))
    for name in ("Q8_0", "Q4_1"):
        ours, theirs = getattr(OURS.quants, name), getattr(THEIRS.quants, name)
        packed = ours.quantize_rows(values)
        assert np.array_equal(packed, theirs.quantize_rows(values)) and ours.can_quantize(values)
        blocks = values.reshape((-1, 32))
        assert np.array_equal(ours.quantize_blocks(blocks), theirs.quantize_blocks(blocks))
        assert np.array_equal(ours.dequantize_rows(packed), theirs.dequantize_rows(packed))


def test_types_without_a_matrix_are_encoded_and_others_are_not() -> None:
    values = np.random.default_rng(3).normal(size=(2, 256)).astype(np.float32)
    for name in "Q2_K Q3_K Q4_K Q5_K Q6_K IQ3_S IQ4_NL IQ4_XS NVFP4".split():
        kind = OURS.GGMLQuantizationType[name]
        error = OURS.dequantize(OURS.quantize(values, kind), kind) - values
        assert np.sqrt(np.mean(error**2)) < 0.4 * np.sqrt(np.mean(values**2)), name
    for name in "IQ2_XXS IQ2_XS IQ1_S I8 F64 Q8_K".split():
        with pytest.raises(NotImplementedError):
            OURS.quantize(values, OURS.GGMLQuantizationType[name])


def test_rows_that_are_not_blocks() -> None:
    q8_0 = OURS.GGMLQuantizationType.Q8_0
    with pytest.raises(OURS.QuantError):
        OURS.quantize(np.zeros((2, 33), np.float32), q8_0)
    for function in (OURS.quant_shape_to_byte_shape, OURS.quant_shape_from_byte_shape):
        with pytest.raises(ValueError):
            function((2, 33), q8_0)
    assert OURS.quant_shape_to_byte_shape((2, 64), q8_0) == (2, 68) and OURS.quant_shape_from_byte_shape((2, 68), q8_0) == (2, 64)
    with pytest.raises(ValueError):
        OURS.dequantize(np.zeros(35, np.uint8), q8_0)


def test_plain_numbers_in_the_other_byte_order() -> None:
    values = np.array([1.5, -2.25, 1000], np.float32)
    for name, dtype in (("F32", ">f4"), ("F16", ">f2")):
        kind = OURS.GGMLQuantizationType[name]
        swapped = values.astype(dtype)
        assert np.array_equal(OURS.dequantize(swapped, kind), values) and OURS.dequantize(swapped, kind).dtype == np.float32
        own = values.astype(dtype[1:])
        assert np.array_equal(OURS.dequantize(own.view(np.uint8), kind), values)
        assert np.shares_memory(OURS.dequantize(own, kind), own) == (name == "F32")


def test_a_type_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in (OURS, THEIRS):
        kind = package.GGMLQuantizationType.I8
        monkeypatch.setitem(package.GGML_QUANT_SIZES, kind, (4, 4))
        base = package.BF16.__mro__[1]

        class Mine(base, qtype=kind):
            @classmethod
            def quantize_blocks(cls, blocks):
                return blocks.astype(np.int8).view(np.uint8)

            @classmethod
            def dequantize_blocks(cls, blocks):
                return blocks.view(np.int8).astype(np.float32)

        try:
            values = np.arange(-20, 20, dtype=np.float32).reshape(5, 8)
            packed = package.quantize(values, kind)
            assert packed.shape == (5, 8) and np.array_equal(package.dequantize(packed, kind), values)
        finally:
            del package.quants._type_traits[kind]


# Lazy tensors.


def test_lazy_tensors_are_encoded_when_they_are_needed() -> None:
    values = numbers((4, 256))
    for package in (OURS, THEIRS):
        calls = []

        def load(x):
            calls.append(1)
            return x

        lazy = package.LazyNumpyTensor(meta=package.LazyNumpyTensor.meta_with_dtype_and_shape(np.float32, (4, 256)), args=(values,), func=load)
        packed = package.quantize(lazy, package.GGMLQuantizationType.Q8_0)
        back = package.dequantize(packed, package.GGMLQuantizationType.Q8_0)
        assert not calls and packed.shape == (4, 272) and packed.dtype == np.uint8 and back.shape == (4, 256)
        eager = package.LazyNumpyTensor.to_eager(packed)
        assert np.array_equal(eager, package.quantize(values, package.GGMLQuantizationType.Q8_0)) and len(calls) == 1
        package.LazyNumpyTensor.to_eager(back)
        assert len(calls) == 1


def test_operations_on_lazy_tensors() -> None:
    for package in (OURS, THEIRS):
        lazy = package.LazyNumpyTensor.from_eager(np.arange(12, dtype=np.float32).reshape(3, 4))
        result = ((lazy + 1) * 2 - lazy.T.reshape(3, 4))[1:, :2].astype(np.int32).transpose()
        assert isinstance(result, package.LazyNumpyTensor) and result.shape == (2, 2) and result.dtype == np.int32
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert np.array_equal(package.LazyNumpyTensor.to_eager(result), ((x + 1) * 2 - x.T.reshape(3, 4))[1:, :2].astype(np.int32).T)
        assert package.LazyNumpyTensor.to_eager([lazy, (1, lazy)])[1][0] == 1
        assert (-lazy).shape == (3, 4) and len(lazy) == 3 and lazy.ndim == 2 and lazy.nbytes == 48
        assert float(package.LazyNumpyTensor.to_eager(lazy.sum())) == 66.0


def test_results_with_several_tensors_are_computed_once() -> None:
    calls = []

    def halves(x):
        calls.append(1)
        return x[:2], x[2:]

    lazy = OURS.LazyNumpyTensor.from_eager(np.arange(4.0))
    first, second = OURS.LazyNumpyTensor._wrap_fn(halves)(lazy)
    calls.clear()
    assert list(OURS.LazyNumpyTensor.to_eager(second)) == [2, 3] and list(OURS.LazyNumpyTensor.to_eager(first)) == [0, 1]
    # The original computes them once for each part.
    assert len(calls) == 1


@pytest.mark.parametrize("package", [OURS, THEIRS], ids=["ours", "theirs"])
def test_tensors_in_chunks(tmp_path, package) -> None:
    values = numbers((6, 256))
    with package.active():
        chunked = package.LazyChunkedTensor([lambda: values[:4], lambda: values[4:]], values.shape, values.dtype)
        assert chunked.nbytes == values.nbytes and chunked.numpy() is chunked
        packed = chunked.quantize(package.GGMLQuantizationType.Q8_0)
        with open(tmp_path / "data", "wb") as file:
            packed.tofile(file)
        assert (tmp_path / "data").read_bytes() == package.quantize(values, package.GGMLQuantizationType.Q8_0).tobytes()
        with open(tmp_path / "data", "wb") as file:
            chunked.byteswap().tofile(file)
        assert (tmp_path / "data").read_bytes() == values.byteswap().tobytes()
        with pytest.raises(TypeError):
            np.array(chunked)
        with pytest.raises(package.QuantError):
            package.LazyChunkedTensor([], (2, 33), np.float32).quantize(package.GGMLQuantizationType.Q8_0)
        with pytest.raises(NotImplementedError):
            chunked.byteswap(inplace=True)


def test_a_subclass_needs_its_type_of_tensors() -> None:
    for package in (OURS, THEIRS):
        with pytest.raises(TypeError, match="_tensor_type"):
            type("Lazy", (package.LazyBase,), {})


def test_an_object_that_is_no_tensor_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        OURS.LazyNumpyTensor.from_eager([1, 2])
