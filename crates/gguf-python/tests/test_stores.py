"""Objects of stores as models, checkpoints and outputs. The servers are those of `.ci/servers`, whose folder is GGUF_STORES."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STORES = Path(os.environ.get("GGUF_STORES", "-"))

# The key of Azurite's account, which is in its documentation.
AZURITE = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

PROGRAM = """
import sys
import numpy as np, ggufkit as gk
url, tiny, folder = sys.argv[1:]

# A copy in the store, read again, beside one in a file.
(file,) = gk.plan(tiny).run(f"{folder}/copy.gguf")
local = gk.open(file)
(path,) = gk.plan(tiny).run(f"{url}/copy.gguf")
assert str(path) == f"{url}/copy.gguf", path
remote = gk.open(f"{url}/copy.gguf")
assert dict(remote.metadata.items()) == dict(local.metadata.items()) and remote.keys() == local.keys()
for name, tensor in local.items():
    assert (remote[name].raw() == tensor.raw()).all() and (remote[name].numpy() == tensor.numpy()).all(), name
assert gk.check(f"{url}/copy.gguf").ok
try:
    gk.plan(tiny).run(f"{url}/copy.gguf")
    sys.exit("an object was replaced")
except FileExistsError:
    pass
gk.plan(tiny).run(f"{url}/copy.gguf", force=True)

# From a store to a file, and from arrays to a store.
gk.plan(f"{url}/copy.gguf", type="Q8_0").run(f"{folder}/a.gguf")
gk.plan(tiny, type="Q8_0").run(f"{folder}/b.gguf")
assert open(f"{folder}/a.gguf", "rb").read() == open(f"{folder}/b.gguf", "rb").read()
values = np.arange(512, dtype=np.float32).reshape(2, 256)
with gk.Writer(f"{url}/new.gguf", arch="llama", force=True) as writer:
    writer.add("output.weight", values, type="Q8_0")
assert (gk.open(f"{url}/new.gguf")["output.weight"].raw() == gk.quantize(values, "Q8_0")).all()

# A run that fails leaves nothing.
def stop(done, total, name):
    raise RuntimeError("stop")
try:
    gk.plan(tiny).run(f"{url}/never.gguf", progress=stop)
    sys.exit("the run was not stopped")
except RuntimeError:
    pass
for missing in (f"{url}/never.gguf", f"{url}/none.gguf"):
    try:
        gk.open(missing)
        sys.exit(f"{missing} exists")
    except FileNotFoundError:
        pass
"""


@pytest.mark.skipif(not STORES.is_dir(), reason="needs the folder of .ci/servers in GGUF_STORES")
@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_objects_are_opened_and_written(scheme: str, tiny: Path, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "AWS_ENDPOINT_URL": (STORES / "s3").read_text().strip(),
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_REGION": "us-east-1",
        "AZURE_STORAGE_ENDPOINT": (STORES / "azure").read_text().strip() + "/devstoreaccount1",
        "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1",
        "AZURE_STORAGE_ACCOUNT_KEY": AZURITE,
    }
    arguments = [f"{scheme}://models/python-{os.getpid()}", str(tiny), str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_urls_that_cannot_be_written_are_errors(tiny: Path) -> None:
    import ggufkit as gk

    for url in ("https://example.org/model.gguf", "hf:org/model/model.gguf"):
        with pytest.raises(ValueError, match="cannot be written"):
            gk.Writer(url, arch="llama")
        with pytest.raises(ValueError, match="cannot be written"):
            gk.plan(tiny).run(url)
