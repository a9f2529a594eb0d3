"""Runs the notebooks."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[3] / "examples/python"


def main() -> None:
    paths = sorted(FOLDER.glob("*.ipynb"))
    assert len(paths) >= 2
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        assert all(not cell.get("outputs") for cell in notebook.cells), f"{path}: outputs are not committed"
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
        print(f"{path.name}: {len(notebook.cells)} cells")


if __name__ == "__main__":
    main()
