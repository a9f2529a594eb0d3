"""The exceptions. Errors of the system are OSError and its classes, such as FileNotFoundError."""

from __future__ import annotations

import os
from typing import Any


class GgufError(Exception):
    """An operation on a model failed. The message is complete; the attributes are its parts, or None."""

    path: str | os.PathLike[str] | None
    offset: int | None
    field: str | None
    found: str | None
    expected: str | None
    hint: str | None

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        field: str | None = None,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.field = field
        self.found = found
        self.expected = expected
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), str(self.args[0]), {**self.__dict__}))


def _again(cls: type[GgufError], message: str, attributes: dict[str, object]) -> GgufError:
    error = cls(message)
    error.__dict__.update(attributes)
    return error


class FormatError(GgufError, ValueError):
    """A file cannot be read as GGUF: `offset` is the byte, `field` the key, tensor or part of the head."""


class _Missing(GgufError, KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


class TensorNotFoundError(_Missing):
    """The model has no tensor with that name. The message has similar names."""


class KeyNotFoundError(_Missing):
    """The metadata has no such key. The message has similar keys."""
