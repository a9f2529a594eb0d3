"""transformers reads models with the drop-in: the weights are those of the checkpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from both import DROPIN, OURS, SHARED, THEIRS

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

os.environ["HF_HUB_OFFLINE"] = "1"

REFERENCES = SHARED / "data/hf/ref"
CHECKPOINTS = SHARED / "data/hf/models"
NAMES = "falcon-7b-style gemma2 gemma3 llama-gqa llama-rope-linear llama-rope-yarn llama-rope-llama3 llama3-hd128 mistral phi3 phi3-longrope stablelm starcoder2".split()
FILES = {name: f"{name}-auto.gguf" for name in NAMES} | {
    "Tiny-Llama-150K-Instruct-v0.2-hf": "Tiny-Llama-150K-Instruct-v0.2-hf-f32.gguf",
    "bloom": "bloom-f16.gguf",
}
PRESENT = {name: file for name, file in FILES.items() if (REFERENCES / file).exists()}


@pytest.fixture(autouse=True)
def dropin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(DROPIN))
    for name in [name for name in sys.modules if name.split(".")[0] == "gguf"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("name", PRESENT)
def test_weights_are_those_of_the_checkpoint(name: str) -> None:
    import gguf

    assert Path(gguf.__file__).parent.parent == DROPIN
    ours = transformers.AutoModelForCausalLM.from_pretrained(REFERENCES, gguf_file=PRESENT[name], dtype=torch.float32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name, dtype=torch.float32)
    found, expected = ours.state_dict(), theirs.state_dict()
    assert list(found) == list(expected)
    for key, weights in expected.items():
        assert torch.allclose(found[key], weights, rtol=0, atol=1e-3 if "f16" in PRESENT[name] else 0), key


@pytest.mark.parametrize("name", PRESENT)
def test_tokenizers_are_those_of_the_original(name: str) -> None:
    read = []
    for package in (OURS, THEIRS):
        with package.active():
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(REFERENCES, gguf_file=PRESENT[name])
                read.append(tokenizer.get_vocab())
                read.append(tokenizer.special_tokens_map)
                read.append(tokenizer("The quick brown fox, ä €")["input_ids"])
            except Exception as error:
                read.append((type(error).__name__, str(error)))
    half = len(read) // 2
    assert half > 0 and read[:half] == read[half:]
