"""The build backend: maturin, after the program `gguf` is built, which the wheel installs beside the module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401 (hooks)
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

# The folder of `[tool.maturin] data`, which must exist even for metadata alone.
_SCRIPTS = Path("target/python/data/scripts")
_SCRIPTS.mkdir(parents=True, exist_ok=True)

os.environ.setdefault("MATURIN_PEP517_ARGS", "--compression-level=9")


def _build_program() -> None:
    """Builds the program into the folder of scripts."""
    # A source distribution has a part of the workspace, and the lock file of all of it, from which Cargo removes the rest. Its files have
    # one old date, by which Cargo would take what another version has left in a shared target folder for current.
    locked = ["--locked"]
    if Path("PKG-INFO").exists():
        locked = []
        for source in Path("crates").rglob("*"):
            source.touch()
    subprocess.run(["cargo", "build", "--release", *locked, "-p", "gguf-cli", "--features", "cloud"], check=True)
    described = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps"], check=True, stdout=subprocess.PIPE
    )
    target = Path(json.loads(described.stdout)["target_directory"])
    built = target / os.environ.get("CARGO_BUILD_TARGET", "") / "release"
    program = next(path for path in (built / "gguf", built / "gguf.exe") if path.exists())
    shutil.copy2(program, _SCRIPTS / program.name)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    _build_program()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    _build_program()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
