"""Runs the Python examples of the documentation, those of each page in a folder with the files that they name."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]

PAGES = ["README.md", "crates/gguf-python/README.md", "docs/python.md", "docs/python-dropin.md"]


def main() -> None:
    array = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        assert blocks, page
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            shutil.copytree(ROOT / "examples/glossary", "hf_folder")
            for block in blocks:
                shutil.copy(ROOT / "crates/ggufkit/examples/tiny.gguf", "model.gguf")
                # A bar needs tqdm, which is not a dependency.
                code = compile(block.replace("progress=True", "progress=None"), page, "exec")
                exec(code, {"array": array, "template": "{{ messages }}"})
            os.chdir(ROOT)
        print(f"{page}: {len(blocks)} examples")


if __name__ == "__main__":
    main()
