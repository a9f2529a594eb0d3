"""Times the module, its drop-in and gguf-py: `compare.py VOCABULARY.gguf GGUF_PY [ALL_CORES]`. Needs transformers 4.57.

VOCABULARY.gguf is a file with a large vocabulary, and GGUF_PY the folder with the original package `gguf`. ALL_CORES is the program that times the library in
Rust: `cargo build --profile python -p gguf-quants --example all_cores`. Each reader runs in a process of its own. Every result is compared before its time is
printed: seconds, the least of several runs, their processor time in parentheses, and the growth of the process in bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

N = 64 << 20


def resident() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def least(times: int, work: Callable[[], object]) -> tuple[float, float]:
    """The time and the processor time of the fastest of several runs."""
    seconds = []
    for _ in range(times):
        start, processor = time.perf_counter(), time.process_time()
        work()
        seconds.append((time.perf_counter() - start, time.process_time() - processor))
    return min(seconds)


def shown(seconds: tuple[float, float]) -> str:
    return f"{seconds[0] * 1e3:8.1f} ({seconds[1] * 1e3:.1f}) ms"


def opening(path: str, kind: str, times: int) -> dict[str, Any]:
    """What a reader takes to open a file, and to read all of its arrays: those of gguf-py as transformers does."""
    if kind == "ggufkit":
        import ggufkit

        before = resident()
        model = ggufkit.open(path)
        grown = resident() - before
        tokens = model.metadata["tokenizer.ggml.tokens"]
        arrays = [key for key, value in model.metadata.items() if isinstance(value, ggufkit.Array)]
        return {
            "open": least(times, lambda: ggufkit.open(path)),
            "bytes": grown,
            "values": least(times, lambda: [model.metadata[key].tolist() for key in arrays]),
            "check": [len(tokens), tokens[len(tokens) // 2], len(model.metadata)],
        }
    from gguf import GGUFReader

    before = resident()
    reader = GGUFReader(path)
    grown = resident() - before
    field = reader.fields["tokenizer.ggml.tokens"]

    from transformers.integrations.ggml import _gguf_parse_value

    def parsed(field: Any) -> list[Any]:
        return [_gguf_parse_value(field.parts[index], field.types) for index in field.data]

    found = parsed(field)
    return {
        "open": least(times, lambda: GGUFReader(path)),
        "bytes": grown,
        "values": least(times, lambda: [parsed(field) for field in reader.fields.values()]),
        "check": [len(found), found[len(found) // 2], sum(not name.startswith("GGUF.") for name in reader.fields)],
    }


def codecs(kind: str) -> dict[str, Any]:
    import hashlib

    import numpy as np

    values = np.random.default_rng(1).standard_normal(N, dtype=np.float32).reshape(-1, 4096)
    times = {}
    for name in ("Q8_0", "Q4_0", "Q4_K", "Q6_K"):
        if kind == "ggufkit":
            import ggufkit

            encode: Callable[[], Any] = lambda: ggufkit.quantize(values, name)  # noqa: B023, E731
            packed = encode()
            decode: Callable[[], Any] = lambda: ggufkit.dequantize(packed, name)  # noqa: B023, E731
        else:
            from gguf import GGMLQuantizationType, quants

            ty = GGMLQuantizationType[name]
            encode = lambda: quants.quantize(values, ty)  # noqa: B023, E731
            try:
                packed = encode()
            except NotImplementedError:
                continue
            decode = lambda: quants.dequantize(packed, ty)  # noqa: B023, E731
        times[name] = [least(2, encode), least(2, decode), hashlib.sha256(packed).hexdigest()]
    return times


def child(*arguments: str, folder: str | None = None) -> Any:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run([sys.executable, __file__, *arguments], env=env, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def main(path: str, original: str, all_cores: str | None) -> None:
    import ggufkit.compat

    print(f"{os.path.getsize(path):,} bytes: {path}")
    readers = [
        ("ggufkit.open", child("open", path, "ggufkit", "5")),
        ("GGUFReader of the drop-in", child("open", path, "gguf", "3", folder=str(ggufkit.compat.folder()))),
        ("GGUFReader of gguf-py", child("open", path, "gguf", "1", folder=original)),
    ]
    assert len({json.dumps(result["check"]) for _, result in readers}) == 1, readers
    for name, result in readers:
        memory = result["bytes"] / os.path.getsize(path)
        print(f"{name:26} open {shown(result['open'])}  memory {memory:6.1f} x file  all values {shown(result['values'])}")
    rust = {}
    if all_cores:
        lines = subprocess.run([all_cores], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        rust = {name: (float(encode), float(decode)) for name, encode, decode in map(str.split, lines)}
    ours = child("codecs", "ggufkit")
    dropin = child("codecs", "gguf", folder=str(ggufkit.compat.folder()))
    theirs = child("codecs", "gguf", folder=original)
    for name, (encode, decode, digest) in ours.items():
        others = [codec[name] for codec in (dropin, theirs) if name in codec]
        assert all(other[2] == digest for other in others), name
        line = f"{name:5} {N:,} weights: encode {shown(encode)}, decode {shown(decode)}"
        line += f"; drop-in {shown(dropin[name][0])}, {shown(dropin[name][1])}"
        line += f"; gguf-py {shown(theirs[name][0])}, {shown(theirs[name][1])}" if name in theirs else ""
        line += f"; Rust {rust[name][0] * 1e3:.1f} ms, {rust[name][1] * 1e3:.1f} ms" if name in rust else ""
        print(line)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["open", path, kind, times]:
            print(json.dumps(opening(path, kind, int(times))))
        case ["codecs", kind]:
            print(json.dumps(codecs(kind)))
        case [path, original, *all_cores]:
            main(path, original, *all_cores or [None])
        case _:
            sys.exit(__doc__)
