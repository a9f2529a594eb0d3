"""What `progress=` can be: None, True for a bar of tqdm, or a callable (done, total, name)."""

from __future__ import annotations

from collections.abc import Callable


class _Bar:
    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError("progress=True needs the package tqdm; or pass a callable (done, total, name)") from error
        self._bar = tqdm(unit="B", unit_scale=True)

    def __call__(self, done: int, total: int, name: str) -> None:
        self._bar.total = total
        self._bar.set_postfix_str(name, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


def reporter(progress: None | bool | Callable[[int, int, str], object]) -> Callable[[int, int, str], object] | None:
    if progress is None or progress is False:
        return None
    if progress is True:
        return _Bar()
    if not callable(progress):
        raise TypeError(f"progress must be None, True, or a callable (done, total, name), not {progress!r}")
    # The caller closes what has `close`: only a bar of this module.
    return lambda done, total, name: progress(done, total, name)
