#!/usr/bin/env python3
"""The guards of llama.cpp's converter: statements that raise or assert.

  guards_peer.py LLAMA_CPP list             prints a line for each guard: its file and its text
  guards_peer.py LLAMA_CPP run FOLDER...    runs the converter on each checkpoint, as FOLDER or FOLDER=TARGET, without writing; prints the
                                            folder, and the file and text of the guard that fired, or `-` and what happened instead

Columns are separated by tabs. Running needs torch.
"""
import ast, contextlib, io, os, sys

llama, command, *folders = sys.argv[1:]
SOURCES = ["conversion", "gguf-py/gguf", "convert_hf_to_gguf.py"]
# Parts of gguf-py that a conversion does not run.
UNUSED = ["gguf_reader.py", "constants.py"]


def files():
    for source in SOURCES:
        path = os.path.join(llama, source)
        names = [path] if path.endswith(".py") else [os.path.join(path, name) for name in sorted(os.listdir(path))]
        yield from (name for name in names if name.endswith(".py") and os.path.basename(name) not in UNUSED)


def guards(path):
    """The first and last line of each guard, and its text with single spaces."""
    with open(path, encoding="utf-8") as f: source = f.read()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Raise, ast.Assert)):
            yield node.lineno, node.end_lineno, " ".join(ast.get_source_segment(source, node).split())


def run(folder, target):
    import convert_hf_to_gguf
    args = ["convert_hf_to_gguf.py", "--dry-run", "--outtype", "bf16", "--outfile", os.path.join(folder, "out.gguf"), folder]
    sys.argv = args + (["--target-model-dir", target] if target else [])
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): convert_hf_to_gguf.main()
    except SystemExit as e:
        return "-", f"exit {e.code or 0}"
    except BaseException as e:
        at = e.__traceback__
        while at.tb_next: at = at.tb_next
        path = at.tb_frame.f_code.co_filename
        if path.startswith(llama):
            for first, last, text in guards(path):
                if first <= at.tb_lineno <= last: return os.path.basename(path), text
        return "-", f"{type(e).__name__}: {e}".replace("\n", " ")
    return "-", "exit 0"


if command == "list":
    for path in files():
        for _, _, text in guards(path): print(os.path.basename(path), text, sep="\t")
else:
    sys.path[:0] = [llama, os.path.join(llama, "gguf-py")]
    import logging
    logging.disable(logging.CRITICAL)
    for folder in folders:
        folder, _, target = folder.partition("=")
        print(folder, *run(folder, target), sep="\t", flush=True)
