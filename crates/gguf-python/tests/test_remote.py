"""Models on a web server, and in a repository with the interface of the Hugging Face Hub."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import ggufkit as gk

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Server:
    """Serves a folder, in ranges, as files and as the repository `org/model`."""

    def __init__(self, folder: Path) -> None:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served.requests.append(self.path)
                if self.path.startswith("/api/models/org/model/revision"):
                    return self.answer(200, json.dumps({"sha": COMMIT}).encode())
                if self.path.startswith("/api/models/org/model/tree"):
                    files = [{"type": "file", "path": path.name, "size": path.stat().st_size} for path in folder.iterdir()]
                    return self.answer(200, json.dumps(files).encode())
                path = folder / self.path.rsplit("/", 1)[-1]
                if not path.is_file():
                    return self.answer(404, b"")
                data, extra = path.read_bytes(), {"ETag": f'"{path.stat().st_size}"', "Accept-Ranges": "bytes", "X-Repo-Commit": COMMIT}
                if (asked := self.headers.get("Range")) is None:
                    return self.answer(200, data, extra)
                first, last = asked.removeprefix("bytes=").split("-")
                end = min(int(last or len(data) - 1), len(data) - 1)
                extra["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
                self.answer(206, data[int(first) : end + 1], extra)

            def answer(self, status: int, data: bytes, extra: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in (extra or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.requests: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server(tmp_path: Path, tiny: Path) -> Iterator[Server]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(tiny.read_bytes())
    server = Server(folder)
    yield server
    server.server.shutdown()


def test_a_url_is_opened_as_a_path_is(server: Server, tiny: Path, tmp_path: Path) -> None:
    url = f"{server.url}/tiny.gguf"
    remote, local = gk.open(url), gk.open(tiny)
    assert dict(remote.metadata.items()) == dict(local.metadata.items()) and remote.keys() == local.keys()
    for name, tensor in local.items():
        assert (remote[name].numpy() == tensor.numpy()).all() and (remote[name].raw() == tensor.raw()).all()
    assert (remote["token_embd.weight"][3:5] == local["token_embd.weight"][3:5]).all()
    assert remote.path == url and remote.files == [url] and pickle.loads(pickle.dumps(remote)).keys() == local.keys()
    assert (pickle.loads(pickle.dumps(remote["output_norm.weight"])).raw() == local["output_norm.weight"].raw()).all()
    assert gk.check(url).ok
    (path,) = gk.plan(url, type="Q8_0").run(tmp_path / "q.gguf")
    (same,) = gk.plan(tiny, type="Q8_0").run(tmp_path / "same.gguf")
    assert path.read_bytes() == same.read_bytes()
    with pytest.raises(FileNotFoundError):
        gk.open(f"{server.url}/none.gguf")


def test_a_repository_of_the_hub_is_read_with_the_settings_of_the_environment(server: Server, tmp_path: Path) -> None:
    program = "import ggufkit as gk; print(gk.open('hf:org/model/tiny.gguf')['output_norm.weight'].numpy().sum())"
    env = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hub"), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, stdout=subprocess.PIPE, text=True)
    expected = gk.open(f"{server.url}/tiny.gguf")["output_norm.weight"].numpy().sum()
    assert np.float32(done.stdout) == expected
    assert any(COMMIT in request for request in server.requests)
    refused = subprocess.run([sys.executable, "-c", program], env={**env, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.PIPE, text=True)
    assert refused.returncode == 1 and "FileNotFoundError" in refused.stderr and "offline" in refused.stderr, refused.stderr


def test_a_repository_stands_for_its_only_model(server: Server, tmp_path: Path) -> None:
    program = """
import ggufkit as gk, pickle
model = gk.open("hf:org/model")
print(model.path, model.files[0], len(pickle.loads(pickle.dumps(model))), gk.check("hf:org/model").ok)
"""
    env = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hub"), "PATH": "", "PYTHONPATH": ":".join(sys.path)}

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)

    done = run(program)
    assert done.stdout.split() == ["hf:org/model", "hf:org/model/tiny.gguf", "12", "True"], done.stderr

    (tmp_path / "served/other.gguf").write_bytes(b"")
    several = """
import ggufkit as gk
for call in (gk.open, gk.check):
    try:
        call("hf:org/model")
    except gk.GgufError as error:
        print(error.path, error.hint.removeprefix("name one of them: ").split(", "), str(error))
"""
    done = run(several)
    lines = "hf:org/model ['hf:org/model/other.gguf', 'hf:org/model/tiny.gguf'] hf:org/model: there are 2 models, expected one\n"
    assert done.stdout == lines * 2, done.stderr
    for path in (tmp_path / "served").iterdir():
        path.unlink()
    done = run("import ggufkit as gk; gk.open('hf:org/model')")
    assert "FileNotFoundError: [Errno 2] there is no GGUF file: 'hf:org/model'" in done.stderr
