"""Run llama.cpp's `convert_hf_to_gguf.py` and `convert_lora_to_gguf.py` on all recorded checkpoints, with the package `gguf` that is imported first.

    GGUF_SHARED=... GGUF_PEERS=... NO_LOCAL_GGUF=1 PYTHONPATH=... python convert_all.py HASHES.json [PART OF A TAG]

Compares the SHA-256 of every file with the recorded one, prints the differences and the time of all conversions, and writes the
hashes, so that those of two packages can be compared: docs/python-dropin.md says which recorded files depend on the processor or on chance, and how to get
them. Each conversion is a fork of this process, so that PyTorch is imported once.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path

CHECKPOINTS = Path(os.environ["GGUF_SHARED"]) / "data/hf"
LLAMA_CPP = Path(os.environ["GGUF_PEERS"]) / "llama.cpp"

sys.path.append(str(LLAMA_CPP))
import convert_hf_to_gguf  # noqa: E402
import convert_lora_to_gguf  # noqa: E402
import gguf  # noqa: E402
from conversion.base import TextModel  # noqa: E402


def main() -> None:
    hashes_file, part = sys.argv[1], "".join(sys.argv[2:])
    jobs = [job for job in json.loads((CHECKPOINTS / "MANIFEST.json").read_text())["jobs"] if part in job["tag"]]
    # The file of overrides of one job was not recorded.
    skipped = [job["tag"] for job in jobs if "--metadata" in job["args"]]
    jobs = [job for job in jobs if job["tag"] not in skipped]
    different, hashes, seconds = [], {}, 0.0
    for job in jobs:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            status, log = in_fork(lambda: convert(job, Path(folder)), Path(folder) / "log")
            seconds += time.monotonic() - start
            if (status == 0) != (job["exit"] == 0):
                different.append(f"{job['tag']}: exit status {status}, expected {job['exit']}\n{log[-1500:]}")
            for output in job["outputs"] or []:
                # A name that the converter chose is in a folder.
                file = Path(folder) / output["file"].removeprefix("ref/")
                found = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None
                hashes[output["file"]] = found
                if found != output["sha256"]:
                    what = f"{file.stat().st_size} bytes, expected {output['size']}, and other contents" if found else "no file"
                    different.append(f"{job['tag']}: {file.name}: {what}")
    for difference in different:
        print(difference)
    print(f"{gguf.__file__}: {len(jobs)} conversions, {len(skipped)} skipped, {len(hashes)} files, {len(different)} differences, {seconds:.1f} s")
    Path(hashes_file).write_text(json.dumps(hashes, indent=1))


def convert(job: dict, folder: Path) -> None:
    if job["forced_pre"]:
        TextModel.get_vocab_base_pre = lambda self, tokenizer: job["forced_pre"]
    words = job["command"].split()
    target = folder / words[words.index("--outfile") + 1].removeprefix("ref/")
    if target.suffix != ".gguf":
        target.mkdir()
    # Options with spaces in their values were recorded as a list.
    args = [str(CHECKPOINTS / word) if word.startswith("models/") else word for word in job["args"]]
    sys.argv = [words[0], *args, "--outfile", str(target), str(CHECKPOINTS / words[-1])]
    if words[0] == "convert_lora_to_gguf.py":
        # It is a script without a function for all of it.
        runpy.run_path(convert_lora_to_gguf.__file__, run_name="__main__")
    else:
        convert_hf_to_gguf.main()


def in_fork(run, log: Path) -> tuple[int, str]:
    """The exit status of a function in a process of its own, and what it printed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                run()
                status = 0
            except SystemExit as end:
                status = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    _, state = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(state), log.read_text(errors="replace")


if __name__ == "__main__":
    main()
