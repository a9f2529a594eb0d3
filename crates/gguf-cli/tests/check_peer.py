#!/usr/bin/env python3
"""Whether real llama.cpp loads files: a line with a path comes in, a line goes out: "ok", or what llama.cpp said.

Loads happen in a child process with a bounded address space, which is started again when llama.cpp ends it.

Needs LLAMA_CPP_LIB_PATH (llama.cpp's libraries) and its Python bindings.
"""
import ctypes
import os
import resource
import signal
import sys

LIB = os.environ["LLAMA_CPP_LIB_PATH"]
ADDRESS_SPACE = 6 << 30
SECONDS = 20
LOADS = 2000
said = []


def load_library():
    ggml = ctypes.CDLL(os.path.join(LIB, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
    ggml.ggml_backend_load_all_from_path(LIB.encode())
    import llama_cpp

    # Level 4 are errors.
    log = llama_cpp.llama_log_callback(lambda level, text, _: said.append(text.decode(errors="replace")) if level == 4 else None)
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp, log


def read_line():
    """A line from the standard input, which no process may read ahead of."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(3)
        line += byte
    return line[:-1].decode()


def answer(text):
    os.write(1, " ".join(text.split()).encode()[:2000] + b"\n")


def load(llama, params, path):
    said.clear()
    signal.alarm(SECONDS)
    model = llama.llama_model_load_from_file(path.encode(), params)
    if model:
        llama.llama_model_free(model)
    signal.alarm(0)
    if model:
        return "ok"
    lines = [line.strip() for text in said for line in text.splitlines()]
    lines = [line for line in lines if line and "failed to load model" not in line.split(": ", 1)[-1][:20]]
    return "error: " + (lines[0] if lines else "without a message")


def child(llama, errors):
    os.dup2(errors, 2)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    params = llama.llama_model_default_params()
    params.n_gpu_layers = 0
    for _ in range(LOADS):
        path = read_line()
        os.ftruncate(errors, 0)
        os.lseek(errors, 0, os.SEEK_SET)
        answer(load(llama, params, path))


def main():
    os.environ["GGML_NO_BACKTRACE"] = "1"
    llama, _log = load_library()
    errors = os.memfd_create("stderr")
    while True:
        pid = os.fork()
        if pid == 0:
            try:
                child(llama, errors)
            except SystemExit as e:
                os._exit(e.code)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            text = os.pread(errors, 4000, 0).decode(errors="replace").strip().splitlines()
            answer(f"signal {os.WTERMSIG(status)}: {text[0] if text else ''}")
        elif os.WEXITSTATUS(status) == 3:
            return
        elif os.WEXITSTATUS(status) != 0:
            answer(f"exit {os.WEXITSTATUS(status)}")


main()
