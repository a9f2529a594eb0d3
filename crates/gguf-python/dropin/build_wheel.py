"""Build a wheel named `gguf` of the drop-in, which replaces the original package and needs the wheel of ggufkit.

    python build_wheel.py FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

DROPIN = Path(__file__).parent.parent / "python/ggufkit/_dropin"
# The time of all entries, so that the wheel is the same on every day.
TIME = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: build_wheel.py FOLDER")
    (metadata,) = DROPIN.glob("gguf-*.dist-info")
    version = metadata.name.removeprefix("gguf-").removesuffix(".dist-info")
    wheel = Path(sys.argv[1]) / f"gguf-{version}-py3-none-any.whl"
    files = {
        path.relative_to(DROPIN).as_posix(): path.read_bytes()
        for path in sorted(DROPIN.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and path.name not in ("INSTALLER", "RECORD")
    }
    tags = "Wheel-Version: 1.0\nGenerator: ggufkit\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{metadata.name}/WHEEL"] = tags.encode()
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    record_name = f"{metadata.name}/RECORD"
    files[record_name] = "\n".join([*record, f"{record_name},,", ""]).encode()
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
