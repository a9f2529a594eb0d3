"""The drop-in and the original package side by side in one process."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Iterator

import ggufkit

DROPIN = Path(ggufkit.__file__).parent / "_dropin"
ORIGINAL = Path(os.environ.get("GGUF_PEERS", "peers")) / "llama.cpp/gguf-py"
SHARED = Path(os.environ.get("GGUF_SHARED", "shared"))

MODULES = "constants gguf_reader gguf_writer quants lazy tensor_mapping vocab metadata utility".split()
SCRIPTS = "gguf_dump gguf_hash gguf_new_metadata gguf_set_metadata gguf_convert_endian".split()


class Package:
    """A package `gguf`. Its modules are those of `sys.modules` while it is active."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules: dict[str, ModuleType] = {}
        with self.active():
            self.gguf = importlib.import_module("gguf")
            self.scripts = {name: importlib.import_module(f"gguf.scripts.{name}") for name in SCRIPTS}
        assert Path(self.gguf.__file__).parent.parent == folder

    @contextmanager
    def active(self) -> Iterator[ModuleType]:
        others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "gguf"}
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.folder))
        os.environ["NO_LOCAL_GGUF"] = "1"
        importlib.invalidate_caches()
        try:
            yield self.modules.get("gguf")
        finally:
            sys.path.remove(str(self.folder))
            self.modules = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "gguf"}
            sys.modules.update(others)

    def __getattr__(self, name: str):
        return getattr(self.gguf, name)


OURS = Package(DROPIN)
THEIRS = Package(ORIGINAL)
