"""Opening and reading models."""

import collections.abc
import copy
import errno
import gc
import multiprocessing
import pickle
import struct
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggufkit as gk


def test_a_model_is_a_mapping_of_tensors(tiny: Path) -> None:
    with gk.open(tiny) as model:
        assert issubclass(type(model), collections.abc.Mapping)
        assert len(model) == 12 == len(list(model)) == len(model.values()) == len(model.items())
        assert "output.weight" in model and "output" not in model and 3 not in model
        assert model.architecture == "llama" and model.path == tiny and model.files == [tiny]
        assert model.file_bytes == tiny.stat().st_size
        assert model.get("nothing") is None and model.get("nothing", 3) == 3
        assert "12 tensors" in repr(model)
        assert [name for name, _ in model.items()] == model.keys()
    with pytest.raises(ValueError, match="closed"):
        model.keys()


def test_a_missing_tensor_is_a_key_error_with_similar_names(tiny: Path) -> None:
    with gk.open(tiny) as model, pytest.raises(KeyError, match="output_norm.weight") as caught:
        model["output_nrm.weight"]
    assert isinstance(caught.value, gk.TensorNotFoundError) and caught.value.path == tiny


def test_metadata_is_a_mapping(tiny: Path) -> None:
    metadata = gk.open(tiny).metadata
    assert issubclass(type(metadata), collections.abc.Mapping)
    assert metadata["general.name"] == "Tiny"
    assert metadata.type_of("llama.context_length") == "u32"
    assert metadata.for_arch("context_length") == 128 == dict(metadata)["llama.context_length"]
    assert metadata.for_arch("nothing") is None
    assert metadata.get("nothing", 1) == 1 and "nothing" not in metadata
    with pytest.raises(KeyError, match="general.name"):
        metadata["general.nam"]
    assert len(metadata) == len(metadata.keys()) == len(metadata.values())
    assert "general.name" in repr(metadata) and "<table>" in metadata._repr_html_()


def test_arrays_are_sequences(tiny: Path) -> None:
    metadata = gk.open(tiny).metadata
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    assert all(issubclass(type(array), collections.abc.Sequence) for array in (tokens, scores))
    listed = list(tokens)
    assert listed == tokens.tolist() and tokens == listed and tokens != listed[:-1]
    for index in (0, 5, -1, -len(tokens)):
        assert tokens[index] == listed[index]
    assert tokens[3:9:2] == listed[3:9:2] and tokens[::-1] == listed[::-1]
    for index in (len(tokens), -len(tokens) - 1):
        with pytest.raises(IndexError):
            tokens[index]
    assert scores.numpy().dtype == np.float32 and scores.numpy().tolist() == list(scores)
    assert tokens.numpy().dtype == object and np.asarray(scores).shape == (len(scores),)
    assert tokens.type_name == "string" and scores.type_name == "f32"


def test_tensors_have_numpys_shape(tiny: Path) -> None:
    tensor = gk.open(tiny)["blk.0.ffn_down.weight"]
    assert (tensor.name, tensor.type, tensor.shape, tensor.size) == ("blk.0.ffn_down.weight", "BF16", (32, 64), 2048)
    assert tensor.nbytes == 4096 and tensor.raw().shape == (32, 128) and tensor.raw().dtype == np.uint8
    values = tensor.numpy()
    assert values.shape == (32, 64) and values.dtype == np.float32
    # bfloat16 is the upper half of a float.
    upper = np.frombuffer(tiny.read_bytes()[tensor.offset :][:4096], "<u2").astype("<u4") << 16
    assert (values.reshape(-1) == upper.view("<f4")).all()


def test_rows_are_an_index_or_a_slice(tiny: Path) -> None:
    tensor = gk.open(tiny)["token_embd.weight"]
    values = tensor.numpy()
    for rows in (0, 28, -1, slice(3, 9), slice(None), slice(5, 5), slice(-4, None)):
        assert (tensor[rows] == values[rows]).all() and tensor[rows].shape == values[rows].shape
        assert tensor.raw(rows).nbytes == values[rows].size * 2
    for rows in (29, -30):
        with pytest.raises(IndexError):
            tensor[rows]
    with pytest.raises(ValueError, match="consecutive"):
        tensor[::2]
    assert np.asarray(tensor).shape == (29, 32)
    out = np.zeros((29, 32), np.float32)
    assert tensor.numpy(out=out) is out and (out == values).all()
    wrongs: list[Any] = [np.zeros(3, np.float32), np.zeros((29, 32)), np.zeros((29, 64), np.float32)[:, ::2]]
    for wrong in wrongs:
        with pytest.raises((TypeError, ValueError), match="out"):
            tensor.numpy(out=wrong)


def test_plain_types_are_views_of_the_file(tiny: Path) -> None:
    model = gk.open(tiny)
    norm = model["output_norm.weight"].numpy()
    assert norm.dtype == np.float32 and not norm.flags.writeable and not norm.flags.owndata
    # The view outlives the model.
    before = norm.copy()
    model.close()
    del model
    gc.collect()
    assert (norm == before).all()


def test_other_libraries_get_values_by_dlpack(tiny: Path) -> None:
    model = gk.open(tiny)
    for name in ("output_norm.weight", "output.weight"):
        assert (np.from_dlpack(model[name]) == model[name].numpy()).all()


def test_models_and_tensors_are_pickled_as_paths(tiny: Path) -> None:
    model = gk.open(tiny)
    tensor = model["output.weight"]
    for again in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert again.keys() == model.keys()
    for again in (pickle.loads(pickle.dumps(tensor)), copy.copy(tensor)):
        assert (again.numpy() == tensor.numpy()).all()


def total(tensor: gk.Tensor) -> float:
    return float(tensor.numpy().sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_read_the_same_model(tiny: Path, method: str) -> None:
    tensors = gk.open(tiny).values()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(total, tensors) == [total(tensor) for tensor in tensors]


def test_threads_share_a_model(tiny: Path) -> None:
    model = gk.open(tiny)
    expected = {name: total(tensor) for name, tensor in model.items()}
    found: list[bool] = []

    def read() -> None:
        for _ in range(20):
            found.append({name: total(tensor) for name, tensor in model.items()} == expected)
            found.append(model.metadata["tokenizer.ggml.tokens"][7] == model.metadata["tokenizer.ggml.tokens"].tolist()[7])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 320 and all(found)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded interpreter")
def test_the_module_keeps_the_gil_disabled() -> None:
    assert getattr(sys, "_is_gil_enabled")() is False


def test_a_file_that_is_not_gguf_is_a_format_error(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(tiny.read_bytes()[:200])
    with pytest.raises(gk.FormatError) as caught:
        gk.open(path)
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, gk.GgufError)
    assert (error.path, error.offset) == (path, 8) and error.found and error.expected and error.hint
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.offset, again.path) == (str(error), 8, path)


def test_errors_of_the_system_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        gk.open(tmp_path / "none.gguf")
    assert caught.value.filename == str(tmp_path / "none.gguf") and caught.value.errno == errno.ENOENT
    assert "cannot open: No such file" in str(caught.value)
    with pytest.raises(IsADirectoryError):
        gk.open(tmp_path)


def test_damaged_files_raise_and_never_abort(tmp_path: Path, tiny: Path) -> None:
    data, path = tiny.read_bytes(), tmp_path / "x.gguf"
    random = np.random.default_rng(1)
    n_errors = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(4, 2000)] = random.integers(0, 256)
        path.write_bytes(damaged[: random.integers(100, len(damaged) + 1)] if random.random() < 0.3 else damaged)
        try:
            with gk.open(path) as model:
                list(model.metadata.items())
                for array in model.metadata.values():
                    repr(array)
                for tensor in model.values():
                    tensor.numpy()
            gk.check(path)
        except (ValueError, gk.GgufError, OSError, IndexError, OverflowError):
            n_errors += 1
    assert 50 < n_errors < 300
    for head in (b"GGUF", b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63), b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + b"\xff" * 8):
        path.write_bytes(head)
        with pytest.raises(gk.FormatError):
            gk.open(path)


def test_pytorch_gets_views(tiny: Path) -> None:
    torch = pytest.importorskip("torch")
    model = gk.open(tiny)
    values = model["output.weight"].torch()
    assert values.dtype == torch.bfloat16 and (values.float().numpy() == model["output.weight"].numpy()).all()
    assert model["output.weight"].torch("float32").dtype == torch.float32
    assert model["output_norm.weight"].torch(rows=None).shape == (32,)
