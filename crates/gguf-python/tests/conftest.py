"""Files for the tests."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def tiny() -> Path:
    """A model of 12 tensors."""
    return ROOT / "crates/ggufkit/examples/tiny.gguf"


@pytest.fixture(scope="session")
def glossary() -> Path:
    """The folder of a checkpoint."""
    return ROOT / "examples/glossary"
