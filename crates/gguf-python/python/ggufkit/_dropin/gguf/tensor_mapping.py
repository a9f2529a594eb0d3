"""From names of tensors in checkpoints to names in GGUF files."""

from __future__ import annotations

from typing import Sequence

from . import _tensor_names
from .constants import MODEL_ARCH, MODEL_TENSOR, MODEL_TENSORS, TENSOR_NAMES

_Rows = dict[MODEL_TENSOR, tuple[str, ...]]


def _rows(table: str) -> _Rows:
    lines = (line.split() for line in table.splitlines() if line)
    return {MODEL_TENSOR[tensor]: tuple(names) for tensor, *names in lines}


class TensorNameMap:
    """The names of the tensors of one architecture: a mapping from each name that a checkpoint may use."""

    mappings_cfg: _Rows = _rows(_tensor_names.PLAIN)
    block_mappings_cfg: _Rows = _rows(_tensor_names.BLOCKS)
    arch_block_mappings_cfg: dict[MODEL_ARCH, _Rows] = {
        MODEL_ARCH[arch]: _rows(table) for arch, table in _tensor_names.BLOCKS_OF.items()
    }

    mapping: dict[str, tuple[MODEL_TENSOR, str]]

    def __init__(self, arch: MODEL_ARCH, n_blocks: int):
        self.mapping = {}
        has = set(MODEL_TENSORS[arch])
        # The rows of one architecture apply to this object only.
        of_blocks = self.block_mappings_cfg | self.arch_block_mappings_cfg.get(arch, {})
        self._add({tensor: names for tensor, names in self.mappings_cfg.items() if tensor in has})
        of_blocks = {tensor: names for tensor, names in of_blocks.items() if tensor in has}
        for block in range(n_blocks):
            self._add(of_blocks, block)

    def _add(self, rows: _Rows, block: int | None = None) -> None:
        for tensor, names in rows.items():
            name, *others = (TENSOR_NAMES[tensor], *names)
            if block is not None:
                name, *others = (text.format(bid=block) for text in (name, *others))
            entry = (tensor, name)
            self.mapping[name] = entry
            for other in others:
                self.mapping[other] = entry

    def get_type_and_name(self, key: str, try_suffixes: Sequence[str] = ()) -> tuple[MODEL_TENSOR, str] | None:
        """The tensor and its name in a file. A suffix, if the name needs one, is kept."""
        for suffix in ("", *try_suffixes):
            if key.endswith(suffix):
                found = self.mapping.get(key[: len(key) - len(suffix)])
                if found is not None:
                    return found[0], found[1] + suffix
        return None

    def get_name(self, key: str, try_suffixes: Sequence[str] = ()) -> str | None:
        found = self.get_type_and_name(key, try_suffixes)
        return found and found[1]

    def get_type(self, key: str, try_suffixes: Sequence[str] = ()) -> MODEL_TENSOR | None:
        found = self.get_type_and_name(key, try_suffixes)
        return found and found[0]

    def __getitem__(self, key: str) -> str:
        return self.mapping[key][1]

    def __contains__(self, key: str) -> bool:
        return key in self.mapping

    def __repr__(self) -> str:
        return repr(self.mapping)


def get_tensor_name_map(arch: MODEL_ARCH, n_blocks: int) -> TensorNameMap:
    return TensorNameMap(arch, n_blocks)
