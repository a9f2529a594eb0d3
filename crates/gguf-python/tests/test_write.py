"""Codecs, writing, editing, plans and checks."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import ggufkit as gk


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((6, 512)).astype(np.float32)


def test_every_type_that_can_be_encoded_is_decoded_again(values: np.ndarray) -> None:
    done = set()
    for name, (block, nbytes) in gk.tensor_types().items():
        try:
            packed = gk.quantize(values, name, imatrix=np.ones(512) if name.startswith("IQ") else None)
        except ValueError:
            continue
        assert packed.dtype == np.uint8 and packed.shape == (6, 512 // block * nbytes)
        back = gk.dequantize(packed, name)
        assert back.shape == values.shape and back.dtype == np.float32
        assert np.abs(back - values).mean() < 0.8, name
        assert (gk.quantize(values, name, imatrix=np.ones(512) if name.startswith("IQ") else None, threads=1) == packed).all()
        done.add(name)
    assert {"F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ2_XXS", "IQ4_NL", "MXFP4"} <= done


def test_codecs_take_any_shape_and_type(values: np.ndarray) -> None:
    whole = gk.quantize(values, "Q8_0")
    assert (gk.quantize(values.reshape(2, 3, 512), "Q8_0").reshape(6, -1) == whole).all()
    assert (gk.quantize(np.asfortranarray(values), "Q8_0") == whole).all()
    assert (gk.quantize(values.astype(np.float64), "q8_0") == whole).all()
    assert gk.quantize(values[0], "Q8_0").shape == (544,)
    assert gk.dequantize(whole, "Q8_0", dtype=np.float16).dtype == np.float16
    out = np.empty_like(values)
    assert gk.dequantize(whole, "Q8_0", out=out) is out
    assert (out == gk.dequantize(whole[:, ::1].copy(order="F"), "Q8_0", threads=1)).all()
    assert gk.quantize(np.zeros((0, 512), np.float32), "Q4_K").size == 0


def test_wrong_arguments_of_codecs_are_value_errors(values: np.ndarray) -> None:
    for call in (
        lambda: gk.quantize(values, "Q9_K"),
        lambda: gk.quantize(values[:, :100], "Q4_K"),
        lambda: gk.quantize(values, "IQ2_XXS"),
        lambda: gk.quantize(values, "Q4_K", imatrix=np.ones(3)),
        lambda: gk.quantize(values, "Q4_K", threads=0),
        lambda: gk.dequantize(np.zeros(100, np.uint8), "Q4_K"),
        lambda: gk.dequantize(np.zeros(144, np.uint8), "Q4_K", out=np.zeros(3, np.float32)),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        gk.dequantize(values, "Q4_K")


def test_a_written_file_has_what_was_added(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "new.gguf"
    with gk.Writer(path, arch="llama") as writer:
        writer["general.name"] = "New"
        writer["llama.context_length"] = 4096
        writer["tokenizer.ggml.tokens"] = ["a", "b", "é"]
        writer["my.numbers"] = np.arange(3, dtype=np.uint16)
        writer["my.flag"] = True
        writer["my.number"] = np.float32(0.5)
        writer.set("my.long", 5, "u64")
        writer["my.removed"] = "x"
        del writer["my.removed"]
        assert writer["general.name"] == "New" and "my.removed" not in writer
        writer.add("plain", values)
        writer.add("half", values.astype(np.float16))
        writer.add("coded", values, "Q4_K")
        writer.add("weighted", values, "IQ2_XXS", imatrix=np.ones(512))
        writer.add("packed", gk.quantize(values, "Q6_K"), "Q6_K")
        writer.add("stacked", values.reshape(2, 3, 512), "Q8_0")
        writer.add("ids", np.arange(5, dtype=np.int32))
        writer.add("double", values.astype(np.float64), "F16")
        assert not path.exists()
    model = gk.open(path)
    assert {key: model.metadata.type_of(key) for key in model.metadata} == {
        "general.architecture": "string",
        "general.name": "string",
        "llama.context_length": "u32",
        "tokenizer.ggml.tokens": "[string]",
        "my.numbers": "[u16]",
        "my.flag": "bool",
        "my.number": "f32",
        "my.long": "u64",
    }
    assert model.metadata["tokenizer.ggml.tokens"] == ["a", "b", "é"]
    assert (model["plain"].numpy() == values).all()
    assert (model["half"].numpy() == values.astype(np.float16)).all()
    assert (model["coded"].raw() == gk.quantize(values, "Q4_K")).all()
    assert (model["weighted"].raw() == gk.quantize(values, "IQ2_XXS", imatrix=np.ones(512))).all()
    assert model["packed"].shape == (6, 512) and (model["packed"].raw() == gk.quantize(values, "Q6_K")).all()
    assert model["stacked"].shape == (2, 3, 512) and (model["stacked"][1] == model["stacked"].numpy()[1]).all()
    assert model["ids"].type == "I32" and model["double"].type == "F16"
    assert os.listdir(tmp_path) == ["new.gguf"]


def test_an_exception_leaves_no_file(tmp_path: Path, values: np.ndarray) -> None:
    with pytest.raises(RuntimeError), gk.Writer(tmp_path / "new.gguf", arch="llama") as writer:
        writer.add("plain", values)
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_writer_refuses_what_is_not_a_tensor(tmp_path: Path, values: np.ndarray) -> None:
    writer = gk.Writer(tmp_path / "new.gguf")
    writer.add("a", values)
    cases: list[tuple[tuple[Any, ...], type[Exception]]] = [
        (("a", values), ValueError),
        (("b", np.array(["x"])), TypeError),
        (("b", np.zeros(3, np.uint8)), TypeError),
        (("b", values[:, :5], "Q4_K"), ValueError),
        (("b", np.zeros((2, 100), np.uint8), "Q4_K"), ValueError),
        (("b", np.arange(4), "Q4_K"), TypeError),
    ]
    for arguments, error in cases:
        with pytest.raises(error):
            writer.add(*arguments)
    with pytest.raises(ValueError, match="imatrix"):
        writer.add("b", values, "Q4_K", imatrix=np.ones(4))
    pairs: list[tuple[str, Any]] = [("my.number", 5), ("my.none", None), ("general.name", 5), ("llama.context_length", "x")]
    for key, value in pairs:
        with pytest.raises((ValueError, gk.GgufError)):
            writer[key] = value
    with pytest.raises(TypeError):
        writer.update({"my.object": cast(Any, object())})
    writer.discard()
    (tmp_path / "old.gguf").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        gk.Writer(tmp_path / "old.gguf")


def test_shards_are_one_model(tmp_path: Path, values: np.ndarray) -> None:
    writer = gk.Writer(tmp_path / "big.gguf", arch="llama", max_shard="20K")
    for i in range(5):
        writer.add(f"t{i}", values)
    paths = writer.close()
    assert [path.name for path in paths] == [f"big-0000{i}-of-00005.gguf" for i in range(1, 6)]
    model = gk.open(paths[2])
    assert len(model) == 5 and (model["t4"].numpy() == values).all() and model["t4"].file == paths[4]


def test_metadata_of_a_model_keeps_its_types(tmp_path: Path, tiny: Path) -> None:
    source = gk.open(tiny)
    with gk.Writer(tmp_path / "copy.gguf") as writer:
        writer.update(source.metadata)
        for name, tensor in source.items():
            writer.add(name, tensor if tensor.type == "BF16" else tensor.raw(), tensor.type)
    found = gk.open(tmp_path / "copy.gguf")
    assert {k: found.metadata.type_of(k) for k in found.metadata} == {k: source.metadata.type_of(k) for k in source.metadata}
    assert all((found[name].raw() == tensor.raw()).all() for name, tensor in source.items())


def test_an_edit_changes_the_file(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(tiny.read_bytes())
    with gk.edit(path) as edit:
        edit["general.name"] = "Changed"
        edit["llama.context_length"] = 99
        del edit["general.description"]
        edit.rename("llama.rope.dimension_count", "llama.rope.dims")
        edit.rename_tensor("output.weight", "out.weight")
        assert edit["general.name"] == "Changed" and "general.description" not in edit
    model = gk.open(path)
    assert model.metadata["general.name"] == "Changed" and model.metadata["llama.context_length"] == 99
    assert "general.description" not in model.metadata and "llama.rope.dims" in model.metadata
    assert "out.weight" in model and (model["out.weight"].raw() == gk.open(tiny)["output.weight"].raw()).all()
    before = path.read_bytes()
    with pytest.raises(RuntimeError), gk.edit(path) as edit:
        edit["general.name"] = "y"
        raise RuntimeError
    with pytest.raises(KeyError), gk.edit(path) as edit:
        del edit["general.nam"]
    assert path.read_bytes() == before
    with gk.edit(path, out=tmp_path / "new.gguf") as edit:
        edit["general.name"] = "New"
    assert path.read_bytes() == before and gk.open(tmp_path / "new.gguf").metadata["general.name"] == "New"


def test_plans_convert_and_quantize(tmp_path: Path, glossary: Path) -> None:
    plan = gk.plan(glossary, type="f16")
    assert plan.architecture == "llama" and len(plan.tensors) == 29 and "29 tensors" in repr(plan) and str(plan)
    calls: list[tuple[int, int, str]] = []
    (path,) = plan.run(tmp_path / "{FTYPE}.gguf", progress=lambda *call: calls.append(call))
    assert path.name == "F16.gguf" and path.stat().st_size == plan.file_bytes
    assert calls[0][0] == 0 and calls[-1][0] == calls[-1][1] > 0
    with pytest.raises(FileExistsError):
        plan.run(path)
    quantized = gk.plan(path, type="Q4_K_M")
    (two_steps,) = quantized.run(tmp_path / "{ftype}.gguf", threads=2)
    assert two_steps.name == "q4_k_m.gguf"
    assert {tensor.type for tensor in gk.open(two_steps).values()} == {"F32", "Q4_K", "Q6_K"}
    (one_step,) = gk.plan(glossary, type="Q4_K_M").run(tmp_path)
    assert one_step.stat().st_size == two_steps.stat().st_size
    assert gk.check(two_steps).ok and gk.check(two_steps, data=True)
    with pytest.raises(ValueError):
        gk.plan(path, type="Q9")
    with pytest.raises(FileNotFoundError):
        gk.plan(tmp_path / "none", type="f16")
    with pytest.raises(FileNotFoundError):
        gk.plan(path, type="Q4_K_M", imatrix=tmp_path / "none")


def test_a_callable_cancels_a_run(tmp_path: Path, glossary: Path) -> None:
    def stop(done: int, total: int, name: str) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        gk.plan(glossary, type="Q4_K_M").run(tmp_path / "x.gguf", progress=stop)
    assert os.listdir(tmp_path) == []


def test_control_c_cancels_a_run(tmp_path: Path) -> None:
    # A process in the background may have inherited that it ignores the signal.
    program = """
import signal, sys, numpy as np, ggufkit as gk
signal.signal(signal.SIGINT, signal.default_int_handler)
writer = gk.Writer(sys.argv[1], arch="llama")
values = np.random.default_rng(1).standard_normal((4096, 1024)).astype(np.float32)
for i in range(400):
    writer.add(f"t{i}", values, "IQ2_S", imatrix=np.ones(1024))
print("writing", flush=True)
writer.close()
"""
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "x.gguf")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"writing\n"
    threading.Event().wait(0.5)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors and os.listdir(tmp_path) == []


def test_a_check_lists_findings(tmp_path: Path, tiny: Path) -> None:
    check = gk.check(tiny)
    assert check.ok and check.safe and bool(check) and "errors=0" in repr(check)
    path = tmp_path / "x.gguf"
    path.write_bytes(tiny.read_bytes()[:-100])
    check = gk.check(path)
    assert not check.ok and not check.safe and len(check) == len(list(check))
    finding = next(finding for finding in check if finding.severity == "error")
    assert finding.code and finding.message and finding.expected and finding.hint and finding.path == path
    assert finding.code in str(finding)


def test_a_file_is_verified_against_its_checkpoint(tmp_path: Path, glossary: Path) -> None:
    (path,) = gk.plan(glossary, type="Q4_K_M").run(tmp_path / "made.gguf")
    calls: list[tuple[int, int, str]] = []
    found = gk.verify(path, glossary, exact=True, progress=lambda *call: calls.append(call))
    assert found.ok and bool(found) and len(found) == 29 and "ok=True" in repr(found) and calls
    assert {tensor.state for tensor in found} == {"identical", "encoded"} and all(tensor.ok for tensor in found[:3])
    assert found.file_type == "Q4_K_M" and found.program == "quantizer" and found.imatrix is None and found.keys == {}
    with gk.Writer(tmp_path / "other.gguf") as writer:
        model = gk.open(path)
        writer.update(model.metadata)
        writer["llama.rope.freq_base"] = 500_000.0
        writer["general.name"] = "Other"
        names = {"blk.0.attn_q.weight": "blk.2.attn_q.weight"}
        for name, tensor in model.items():
            if name != "output_norm.weight":
                writer.add(name, model[names.get(name, name)].raw(), tensor.type)
    found = gk.verify(tmp_path / "other.gguf", glossary, threads=1)
    assert not found.ok and not found and found.keys == {"llama.rope.freq_base": (10_000.0, 500_000.0)}
    assert found.descriptions["general.name"][1] == "Other"
    bad = {tensor.name: tensor for tensor in found if not tensor.ok}
    assert bad.keys() == {"blk.0.attn_q.weight", "output_norm.weight"} and "2 of them different" in repr(found)
    assert bad["output_norm.weight"].state == "missing" and bad["output_norm.weight"].type is None
    assert bad["blk.0.attn_q.weight"].details.endswith("has the data of blk.2.attn_q.weight")
    assert "different" in repr(bad["blk.0.attn_q.weight"])
    with pytest.raises(FileNotFoundError):
        gk.verify(path, tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        gk.verify(path, glossary, imatrix=tmp_path / "none")


def test_an_exported_folder_is_converted_to_the_same_file(tmp_path: Path, glossary: Path) -> None:
    (path,) = gk.plan(glossary, type="bf16").run(tmp_path / "made.gguf")
    export = gk.export(path)
    assert export.architecture == "llama" and export.warnings == [] and export.n_files > 4
    files = export.run(tmp_path / "made", threads=2)
    assert {file.name for file in files} >= {"config.json", "model.safetensors", "tokenizer.model"}
    (again,) = gk.plan(tmp_path / "made", type="bf16").run(tmp_path / "again.gguf")
    assert again.read_bytes() == path.read_bytes()
    assert gk.export(path, type="f32", max_shard="3M").n_files > export.n_files
    with pytest.raises(FileExistsError):
        export.run(tmp_path / "made")
    for ty in ("Q8_0", "x"):
        with pytest.raises(ValueError):
            gk.export(path, type=ty)


def test_adapters_are_merged_into_their_base(tmp_path: Path, glossary: Path) -> None:
    (base,) = gk.plan(glossary, type="f32").run(tmp_path / "base.gguf")
    random, name = np.random.default_rng(3), "blk.1.ffn_down.weight"
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((4, 768), (256, 4)))
    for adapter in ("one", "two"):
        with gk.Writer(tmp_path / f"{adapter}.gguf", arch="llama") as writer:
            writer.set("general.type", "adapter")
            writer.set("adapter.type", "lora")
            writer.set("adapter.lora.alpha", 8.0, "f32")
            writer.add(f"{name}.lora_a", a)
            writer.add(f"{name}.lora_b", b)
    one, two = tmp_path / "one.gguf", tmp_path / "two.gguf"
    (merged,) = gk.merge_lora(base, one, scale=0.5).run(tmp_path / "merged.gguf")
    before, after = gk.open(base), gk.open(merged)
    expected = before[name].numpy() + b.astype(np.float64) @ a
    assert np.allclose(after[name].numpy(), expected, rtol=0, atol=1e-5)
    assert (after["output_norm.weight"].raw() == before["output_norm.weight"].raw()).all()
    (same,) = gk.merge_lora(glossary, [one, two], scale=[1.0, -0.5], type="F32").run(tmp_path / "same.gguf")
    assert np.allclose(gk.open(same)[name].numpy(), expected, rtol=0, atol=1e-5)
    assert {t.type for t in gk.open(gk.merge_lora(base, one, type="Q4_K_M").run(tmp_path / "q.gguf")[0]).values()} == {"F32", "Q4_K", "Q6_K"}
    with pytest.raises(gk.GgufError, match="adapter"):
        gk.merge_lora(base, base)
    for arguments in ({"scale": [1.0, 2.0]}, {"tensor_types": ["x=q8_0"]}, {"type": "Q9"}):
        with pytest.raises(ValueError):
            gk.merge_lora(base, one, **cast(Any, arguments))
