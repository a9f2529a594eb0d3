"""The drop-in for the package `gguf` of llama.cpp (gguf-py).

It is not on the import path by default. `python -m ggufkit.compat` prints its folder, for PYTHONPATH:

    PYTHONPATH=$(python -m ggufkit.compat) python convert_hf_to_gguf.py ...

`install()` makes `import gguf` find it in this process.
"""

from __future__ import annotations

import sys
from pathlib import Path


def folder() -> Path:
    """The folder with the drop-in, which belongs on the import path."""
    return Path(__file__).resolve().parent / "_dropin"


def install() -> None:
    """Puts the drop-in first on the import path, and forgets a package `gguf` that is already imported."""
    first = str(folder())
    if first in sys.path:
        sys.path.remove(first)
    sys.path.insert(0, first)
    for name in [name for name in sys.modules if name == "gguf" or name.startswith("gguf.")]:
        del sys.modules[name]


if __name__ == "__main__":
    print(folder())
