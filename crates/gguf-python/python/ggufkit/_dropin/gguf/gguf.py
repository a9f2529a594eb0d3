"""For programs that import `gguf/gguf.py` by its path: loads the package."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
importlib.invalidate_caches()
import gguf  # noqa: E402

importlib.reload(gguf)
