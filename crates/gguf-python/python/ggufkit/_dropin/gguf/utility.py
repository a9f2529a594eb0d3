"""Names of models and files, and tensors of safetensors files, local or of the Hugging Face Hub."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Literal

import numpy as np


def fill_templated_filename(filename: str, output_type: str | None) -> str:
    """A file name with `{}`, `{ftype}` and `{outtype}` replaced by the type, and `{FTYPE}`, `{OUTTYPE}` by the type in capitals."""
    lower = (output_type or "").lower()
    upper = (output_type or "").upper()
    return filename.format(lower, outtype=lower, ftype=lower, OUTTYPE=upper, FTYPE=upper)


def model_weight_count_rounded_notation(model_params_count: int, min_digits: int = 2) -> str:
    """A number of parameters such as 7.1B, with at least so many digits."""
    scale, suffix = next(
        ((scale, suffix) for limit, scale, suffix in ((1e12, 1e-12, "T"), (1e9, 1e-9, "B"), (1e6, 1e-6, "M")) if model_params_count > limit),
        (1e-3, "K"),
    )
    scaled = model_params_count * scale
    digits = len(str(round(scaled)).lstrip("0"))
    return f"{scaled:.{max(min_digits - digits, 0)}f}{suffix}"


def size_label(total_params: int, shared_params: int, expert_params: int, expert_count: int) -> str:
    """The size of a model in its name: 7B, or 8x7B for a mixture of experts."""
    if expert_count > 0:
        return f"{expert_count}x{model_weight_count_rounded_notation(abs(shared_params) + abs(expert_params))}"
    return model_weight_count_rounded_notation(abs(total_params))


def naming_convention(model_name: str | None, base_name: str | None, finetune_string: str | None, version_string: str | None, size_label: str | None, output_type: str | None, model_type: Literal['vocab', 'LoRA'] | None = None) -> str:
    """The name of a file by the naming convention of GGUF, without its extension."""

    def part(text: str | None) -> str | None:
        return None if text is None else text.strip().replace(" ", "-")

    name = base_name if base_name is not None else model_name
    parts = [
        "ggml-model" if name is None else part(name).replace("/", "-"),
        size_label,
        part(finetune_string),
        part(version_string),
        None if output_type is None else part(output_type).upper(),
        part(model_type),
    ]
    return "-".join(text for text in parts if text is not None)


def _header(raw: bytes, where: str) -> dict[str, Any]:
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        raise ValueError(f"Failed to parse safetensors metadata of {where} as JSON: {error}") from error


def _entries(header: dict[str, Any], data: int) -> Iterator[tuple[str, str, tuple[int, ...], int, int]]:
    """Name, dtype, shape, offset and size of the tensors of a safetensors file by name. `data` is the offset of the data."""
    for name, meta in sorted(header.items()):
        if name == "__metadata__":
            continue
        if not isinstance(meta, dict):
            raise ValueError(f"Invalid metadata for tensor '{name}': {meta}")
        try:
            start, end = meta["data_offsets"]
            yield name, meta["dtype"], tuple(meta["shape"]), data + start, end - start
        except KeyError as error:
            raise ValueError(f"Missing key in metadata for tensor '{name}': {error}, meta = {meta}") from error


@dataclass
class RemoteTensor:
    dtype: str
    shape: tuple[int, ...]
    offset_start: int
    size: int
    url: str

    def data(self) -> bytearray:
        # PyTorch warns about memory that cannot be written.
        return bytearray(SafetensorRemote.get_data_by_range(url=self.url, start=self.offset_start, size=self.size))


class SafetensorRemote:
    """Tensors of models on the Hugging Face Hub, by range requests. Sends the token in `HF_TOKEN`, if there is one."""

    BASE_DOMAIN = "https://huggingface.co"

    # The part of a file that is read for its header.
    _HEADER_BYTES = 5 << 20

    @classmethod
    def get_list_tensors_hf_model(cls, model_id: str) -> dict[str, RemoteTensor]:
        """The tensors of a model, in one file or several."""
        folder = f"{cls.BASE_DOMAIN}/{model_id}/resolve/main"
        single = f"{folder}/model.safetensors"
        if cls.check_file_exist(single):
            return cls.get_list_tensors(single)
        index = f"{folder}/model.safetensors.index.json"
        if not cls.check_file_exist(index):
            raise ValueError(
                f"No safetensor file has been found for model {model_id}. If the model is not public, set a token for it in "
                "the environment variable HF_TOKEN."
            )
        weight_map = json.loads(cls.get_data_by_range(index, 0)).get("weight_map")
        if weight_map is None:
            raise ValueError(f"weight_map not found in {index}")
        tensors: dict[str, RemoteTensor] = {}
        for name in sorted(set(weight_map.values())):
            tensors |= cls.get_list_tensors(f"{folder}/{name}")
        return tensors

    @classmethod
    def get_list_tensors(cls, url: str) -> dict[str, RemoteTensor]:
        """The tensors of one file by name."""
        header, data = cls.get_metadata(url)
        return {
            name: RemoteTensor(dtype=dtype, shape=shape, offset_start=offset, size=size, url=url)
            for name, dtype, shape, offset, size in _entries(header, data)
        }

    @classmethod
    def get_metadata(cls, url: str) -> tuple[dict, int]:
        """The header of a file, and the offset of its data."""
        raw = cls.get_data_by_range(url, 0, cls._HEADER_BYTES)
        if len(raw) < 8:
            raise ValueError("Not enough data to read metadata size")
        data = 8 + int.from_bytes(raw[:8], "little")
        if len(raw) < data:
            raise ValueError(f"Could not read complete metadata. Need {data} bytes, got {len(raw)}")
        return _header(raw[8:data], url), data

    @classmethod
    def get_data_by_range(cls, url: str, start: int, size: int = -1) -> bytes:
        """Bytes of a file, all of it without a size."""
        import requests

        headers = cls._headers_for(url)
        if size > -1:
            headers["Range"] = f"bytes={start}-{start + size}"
        response = requests.get(url, allow_redirects=True, headers=headers)
        response.raise_for_status()
        return response.content if size < 0 else response.content[:size]

    @classmethod
    def check_file_exist(cls, url: str) -> bool:
        import requests

        headers = cls._headers_for(url)
        headers["Range"] = "bytes=0-0"
        try:
            status = requests.head(url, allow_redirects=True, headers=headers).status_code
        except requests.RequestException:
            return False
        return 200 <= status < 400

    @classmethod
    def _headers_for(cls, url: str) -> dict[str, str]:
        from urllib.parse import urlparse

        parsed = urlparse(url)
        if not parsed.scheme or not parsed.netloc:
            raise ValueError(f"Invalid URL: {url}")
        return cls._get_request_headers()

    @classmethod
    def _get_request_headers(cls) -> dict[str, str]:
        headers = {"User-Agent": "convert_hf_to_gguf"}
        if token := os.environ.get("HF_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        return headers


@dataclass
class LocalTensorRange:
    filename: Path
    offset: int
    size: int


@dataclass
class LocalTensor:
    dtype: str
    shape: tuple[int, ...]
    data_range: LocalTensorRange

    def mmap_bytes(self) -> np.ndarray:
        """The bytes of the tensor. Changes stay in memory."""
        return np.memmap(self.data_range.filename, mode="c", offset=self.data_range.offset, shape=self.data_range.size)


class SafetensorsLocal:
    """The tensors of a safetensors file by name, with their places in the file. A context manager that returns `tensors`."""

    tensors: dict[str, LocalTensor]

    def __init__(self, filename: Path):
        with open(filename, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = os.fstat(file.fileno()).st_size
            if size < 8 + length:
                raise ValueError(f"Could not read complete metadata. Need {8 + length} bytes, got {size}")
            header = _header(file.read(length), str(filename))
        self.tensors = {
            name: LocalTensor(dtype=dtype, shape=shape, data_range=LocalTensorRange(filename, offset, n_bytes))
            for name, dtype, shape, offset, n_bytes in _entries(header, 8 + length)
        }

    def __enter__(self, *args, **kwargs):
        return self.tensors

    def __exit__(self, *args, **kwargs):
        pass
