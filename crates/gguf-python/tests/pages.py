"""Runs the Python examples of the documentation, those of each page in a folder with the files that they name.

`pages.py FOLDER` writes them and the code of the notebooks to a folder instead, for the checkers of types.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]

PAGES = ["README.md", "crates/gguf-python/README.md", "docs/python.md", "docs/python-dropin.md"]


def blocks_of(page: str) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks, page
    return blocks


def write(folder: Path) -> None:
    names = "import numpy as np\n\narray = np.zeros((64, 256), np.float32)\ntemplate = ''\n"
    for page in PAGES:
        for number, block in enumerate(blocks_of(page)):
            name = f"{Path(page).parent.name}_{Path(page).stem}_{number}".replace("-", "_")
            (folder / f"{name}.py").write_text(names + block, encoding="utf-8")
    for notebook in (ROOT / "examples/python").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        (folder / f"{notebook.stem.replace('-', '_')}.py").write_text("\n".join(code) + "\n", encoding="utf-8")


def main() -> None:
    if len(sys.argv) == 2:
        return write(Path(sys.argv[1]))
    array = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    for page in PAGES:
        blocks = blocks_of(page)
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
