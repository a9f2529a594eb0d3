"""Settings of the environment, by the names that Hugging Face's own package and other programs read."""

from __future__ import annotations

import os
from pathlib import Path


def hub() -> tuple[str | None, str | None, Path, bool]:
    """The Hub's address, the token, the folder of its cache, and whether only the cache is read."""
    env = {name: value for name, value in os.environ.items() if value}
    caches = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(env.get("HF_HOME") or caches / "huggingface")
    token = env.get("HF_TOKEN")
    if token is None:
        try:
            token = Path(env.get("HF_TOKEN_PATH") or home / "token").read_text(encoding="utf-8")[:10_000].strip()
        except (OSError, UnicodeDecodeError):
            token = None
    cache = Path(env.get("HF_HUB_CACHE") or home / "hub")
    offline = env.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    return env.get("HF_ENDPOINT"), token or None, cache, offline


def proxy() -> tuple[str, str] | None:
    """The URL of the proxy for `https`, and the hosts that need none."""
    url = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    hosts = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    return (url, hosts or "") if url else None


def environment() -> list[tuple[str, str]]:
    """All variables, from which object stores choose theirs."""
    return list(os.environ.items())
