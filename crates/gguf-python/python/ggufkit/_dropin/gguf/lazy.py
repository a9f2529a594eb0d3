"""Tensors that are computed when their values are needed.

A lazy tensor has a *meta* tensor, which knows dtype and shape but has no memory of its own, and either data or a function
and its arguments, which may be lazy, too. Operations on lazy tensors run on the meta tensors at once, so that errors appear
early, and on the values when `to_eager` is called.
"""

from __future__ import annotations

import logging
from abc import ABC, ABCMeta, abstractmethod
from math import prod
from typing import Any, Callable

import numpy as np
from numpy.typing import DTypeLike

logger = logging.getLogger(__name__)

_BINARY = "lt le eq ne ge gt add and floordiv lshift mod mul matmul or pow rshift sub truediv xor"
_IN_PLACE = "iadd iand ifloordiv ilshift imod imul ior irshift isub ixor"
_REFLECTED = "radd rand rfloordiv rmul ror rpow rsub rtruediv rxor"
# Operators of which the result has the dtype and the shape of the operand.
_UNARY = "not abs invert neg pos"
_CONTAINER = "getitem setitem len"


def _operator(name: str, meta_noop: bool) -> Callable[..., Any]:
    def operator(self: LazyBase, *args: Any, **kwargs: Any) -> Any:
        cls = type(self)
        return cls._wrap_fn(getattr(cls._tensor_type, name), meta_noop=meta_noop)(self, *args, **kwargs)

    operator.__name__ = name
    return operator


def _attribute(self: LazyBase, name: str) -> Any:
    """Methods and tensors that the meta tensor has are lazy, other attributes are those of the meta tensor."""
    value = getattr(self._meta, name)
    cls = type(self)
    if callable(value):
        return cls._wrap_fn(lambda tensor, *args, **kwargs: getattr(tensor, name)(*args, **kwargs), use_self=self)
    if isinstance(value, cls._tensor_type):
        return cls._wrap_fn(lambda tensor: getattr(tensor, name))(self)
    return value


class LazyMeta(ABCMeta):
    """Gives lazy classes the operators of tensors: Python looks these up in the class, never with `__getattr__`."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs):
        namespace["__getattr__"] = _attribute
        for words, meta_noop in ((_BINARY, False), (_IN_PLACE, False), (_REFLECTED, False), (_UNARY, True), (_CONTAINER, False)):
            for word in words.split():
                namespace[f"__{word}__"] = _operator(f"__{word}__", meta_noop)
        return super().__new__(cls, name, bases, namespace, **kwargs)


class LazyBase(ABC, metaclass=LazyMeta):
    """A lazy tensor of any library. A subclass sets `_tensor_type` and `meta_with_dtype_and_shape`."""

    _tensor_type: type
    _meta: Any
    _data: Any | None
    _args: tuple
    _kwargs: dict[str, Any]
    _func: Callable[[Any], Any] | None

    def __init__(self, *, meta: Any, data: Any | None = None, args: tuple = (), kwargs: dict[str, Any] | None = None, func: Callable[[Any], Any] | None = None):
        super().__init__()
        assert func is not None or data is not None
        self._meta = meta
        self._data = data
        self._args = args
        self._kwargs = {} if kwargs is None else kwargs
        self._func = func

    def __init_subclass__(cls) -> None:
        if "_tensor_type" not in vars(cls):
            raise TypeError(f"property '_tensor_type' must be defined for {cls!r}")
        super().__init_subclass__()

    @staticmethod
    def _recurse_apply(o: Any, fn: Callable[[Any], Any]) -> Any:
        """The object with `fn` applied to the lazy tensors in it, at any depth of lists and tuples."""
        if isinstance(o, LazyBase):
            return fn(o)
        if isinstance(o, (list, tuple)):
            # A comprehension would take one more level of the stack for each tensor that depends on another one.
            items = []
            for item in o:
                items.append(LazyBase._recurse_apply(item, fn))
            return items if isinstance(o, list) else tuple(items)
        return o

    @classmethod
    def _wrap_fn(cls, fn: Callable, *, use_self: LazyBase | None = None, meta_noop: bool | DTypeLike | tuple[DTypeLike, Callable[[tuple[int, ...]], tuple[int, ...]]] = False) -> Callable[[Any], Any]:
        """A function of lazy tensors that does what `fn` does with tensors.

        `meta_noop` is for functions that cannot run on meta tensors, or need not: true if the result has the dtype and the
        shape of the first argument, a dtype if it has another one, or a dtype and a function of the shape.
        """

        def lazy(*args: Any, **kwargs: Any) -> Any:
            if use_self is not None:
                args = (use_self, *args)
            if meta_noop is False:
                meta_args = cls._recurse_apply(args, lambda tensor: tensor._meta)
                try:
                    meta = fn(*meta_args, **kwargs)
                except NotImplementedError:
                    # PyTorch does not implement every operation for meta tensors.
                    meta = None
            else:
                assert args and isinstance(args[0], cls)
                meta = args[0]._meta
                if meta_noop is not True:
                    dtype, shape_of = meta_noop if isinstance(meta_noop, tuple) else (meta_noop, tuple)
                    meta = cls.meta_with_dtype_and_shape(dtype, shape_of(meta.shape))

            if isinstance(meta, cls._tensor_type):
                return cls(meta=cls.eager_to_meta(meta), args=args, kwargs=kwargs, func=fn)
            if isinstance(meta, tuple) and all(isinstance(part, cls._tensor_type) for part in meta):
                shared = _Shared(fn, args, kwargs)
                return tuple(
                    cls(meta=cls.eager_to_meta(part), args=(shared.box, index), func=shared.part)
                    for index, part in enumerate(meta)
                )
            # Any other result depends on values.
            return fn(*cls.to_eager(args), **kwargs)

        return lazy

    @classmethod
    def to_eager(cls, t: Any) -> Any:
        """The values of a lazy tensor, or of all lazy tensors in lists and tuples."""

        def values(tensor: LazyBase) -> Any:
            if tensor._data is None:
                assert tensor._func is not None
                tensor._args = cls._recurse_apply(tensor._args, values)
                tensor._data = tensor._func(*tensor._args, **tensor._kwargs)
                assert tensor._data is not None
                assert tensor._data.dtype == tensor._meta.dtype, (tensor._data.dtype, tensor._meta.dtype)
                assert tensor._data.shape == tensor._meta.shape, (tensor._data.shape, tensor._meta.shape)
            return tensor._data

        return cls._recurse_apply(t, values)

    @classmethod
    def eager_to_meta(cls, t: Any) -> Any:
        return cls.meta_with_dtype_and_shape(t.dtype, t.shape)

    @classmethod
    @abstractmethod
    def meta_with_dtype_and_shape(cls, dtype: Any, shape: Any) -> Any:
        """A tensor that takes no memory for its elements."""

    @classmethod
    def from_eager(cls, t: Any) -> Any:
        if type(t) is cls:
            return t
        if isinstance(t, cls._tensor_type):
            return cls(meta=cls.eager_to_meta(t), data=t)
        raise TypeError(f"{type(t)!r} is not compatible with {cls._tensor_type!r}")


class _Shared:
    """A function with several results, which is called once for all of them.

    The arguments are in a list, where `to_eager` replaces the lazy ones.
    """

    def __init__(self, fn: Callable, args: tuple, kwargs: dict[str, Any]):
        self.fn = fn
        self.box: list[Any] = list(args)
        self.kwargs = kwargs
        self.results: tuple | None = None

    def part(self, args: list[Any], index: int) -> Any:
        if self.results is None:
            self.results = self.fn(*args, **self.kwargs)
            # The arguments and their values are of no use to the other parts.
            self.box.clear()
        return self.results[index]


class LazyNumpyTensor(LazyBase):
    _tensor_type = np.ndarray

    shape: tuple[int, ...]

    @classmethod
    def meta_with_dtype_and_shape(cls, dtype: DTypeLike, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        # One zero in memory, which strides of zero repeat.
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0 for _ in shape))

    def astype(self, dtype, *args, **kwargs):
        meta = self.meta_with_dtype_and_shape(dtype, self._meta.shape)
        return type(self)(meta=meta, args=(self, dtype, *args), kwargs=kwargs, func=np.ndarray.astype)

    def tofile(self, *args, **kwargs):
        return LazyNumpyTensor.to_eager(self).tofile(*args, **kwargs)


class LazyChunkedTensor:
    """A tensor that is written in pieces of whole rows, each loaded when it is its turn."""

    def __init__(
        self, chunks: list[Callable[[], np.ndarray]], shape: tuple[int, ...], dtype: DTypeLike,
        qtype: Any = None, byteswap: bool = False,
    ):
        self._chunks = chunks
        self._qtype = qtype
        self._byteswap = byteswap
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)

    def numpy(self) -> LazyChunkedTensor:
        return self

    def __array__(self, *args, **kwargs):
        # Otherwise NumPy would make an array of one object.
        raise TypeError("LazyChunkedTensor cannot become an ndarray, it is written in chunks")

    def quantize(self, qtype: Any) -> LazyChunkedTensor:
        """The same tensor in another type. Rows that are not whole blocks are a `QuantError` here, before anything is written."""
        from .constants import GGMLQuantizationType
        from .quants import QuantError, quant_shape_to_byte_shape

        plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}.get(qtype)
        if plain is not None:
            return LazyChunkedTensor(self._chunks, self.shape, plain, qtype, self._byteswap)
        try:
            shape = quant_shape_to_byte_shape(self.shape, qtype)
        except ValueError as error:
            raise QuantError(str(error)) from error
        return LazyChunkedTensor(self._chunks, shape, np.uint8, qtype, self._byteswap)

    def byteswap(self, inplace: bool = False) -> LazyChunkedTensor:
        if inplace:
            raise NotImplementedError("a chunked tensor cannot be byteswapped in place")
        return LazyChunkedTensor(self._chunks, self.shape, self.dtype, self._qtype, not self._byteswap)

    def tofile(self, *args, **kwargs) -> None:
        from .quants import quantize

        written = 0
        for load in self._chunks:
            chunk = load()
            if self._qtype is not None:
                chunk = quantize(chunk, self._qtype)
            if self._byteswap:
                chunk = chunk.byteswap()
            chunk.tofile(*args, **kwargs)
            written += chunk.nbytes
            del chunk
        assert written == self.nbytes, f"chunked tensor wrote {written} bytes, expected {self.nbytes}"
