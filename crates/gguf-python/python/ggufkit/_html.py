"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import Metadata, Model, Plan

_MOST_ROWS = 500


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in head)
    lines, more = [f"<tr>{cells}</tr>"], 0
    for n, row in enumerate(rows):
        if n < _MOST_ROWS:
            cells = "".join(f"<td style='text-align:left'>{escape(str(cell))}</td>" for cell in row)
            lines.append(f"<tr>{cells}</tr>")
        else:
            more += 1
    if more:
        lines.append(f"<tr><td colspan='{len(head)}'>{more} more rows</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def metadata(metadata: Metadata) -> str:
    rows = ((key, metadata.type_of(key), _short(value)) for key, value in metadata.items())
    return _table(("key", "type", "value"), rows)


def model(model: Model) -> str:
    rows = ((tensor.name, tensor.type, _shape(tensor.shape), f"{tensor.nbytes:,}") for tensor in model.values())
    tensors = _table(("tensor", "type", "shape", "bytes"), rows)
    keys = f"<details><summary>{len(model.metadata)} keys</summary>{metadata(model.metadata)}</details>"
    return f"<p>{escape(repr(model).strip('<>'))}</p>{keys}<details open><summary>{len(model)} tensors</summary>{tensors}</details>"


def plan(plan: Plan) -> str:
    rows = ((name, _shape(shape), before, after) for name, shape, before, after in plan.tensors)
    return f"<p>{escape(repr(plan).strip('<>'))}</p>{_table(('tensor', 'shape', 'from', 'to'), rows)}"
