"""These tests compare with the original package: without it, they are left out, and with `CI` set they fail."""

import os
from pathlib import Path

if not os.environ.get("CI"):
    folders = [os.environ.get(name) for name in ("GGUF_PEERS", "GGUF_SHARED")]
    if not all(folders) or not (Path(folders[0]) / "llama.cpp/gguf-py").exists():
        collect_ignore_glob = ["test_*.py"]
