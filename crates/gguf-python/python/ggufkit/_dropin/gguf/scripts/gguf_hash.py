#!/usr/bin/env python3
"""Hashes of the data of a model's tensors: the command `gguf-hash`."""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import uuid

from tqdm import tqdm

from gguf import GGUFReader

logger = logging.getLogger("gguf-hash")

# The identifier of the address en.wikipedia.org/wiki/Llama.cpp.
UUID_NAMESPACE_LLAMA_CPP = uuid.UUID("ef001206-dadc-5f6d-a15f-3359e577d4e5")

# Tensors that follow from the configuration of a model.
_LEFT_OUT = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")


def gguf_hash(reader: GGUFReader, filename: str, disable_progress_bar: bool, no_layer: bool) -> None:
    """Print the hashes of each tensor, and those of all tensors in the order of the file."""
    tensors = [tensor for tensor in reader.tensors if not tensor.name.endswith(_LEFT_OUT)]
    total = sum(tensor.n_elements for tensor in tensors)
    whole = {"sha1": hashlib.sha1(), "sha256": hashlib.sha256()}
    for_uuid = hashlib.sha1(UUID_NAMESPACE_LLAMA_CPP.bytes)
    with tqdm(desc="Hashing", total=total, unit="weights", unit_scale=True, disable=disable_progress_bar) as bar:
        for tensor in tensors:
            bar.update(tensor.n_elements)
            data = tensor.data.data
            for name, hash in whole.items():
                if not no_layer:
                    _print(name, hashlib.new(name, data).hexdigest(), f"{filename}:{tensor.name}")
                hash.update(data)
            for_uuid.update(data)
    for name, hash in whole.items():
        _print(name, hash.hexdigest(), filename)
    _print("uuid", str(uuid.UUID(bytes=for_uuid.digest()[:16], version=5)), filename)


def _print(kind: str, value: str, of: str) -> None:
    print(f"{kind:<8}  {value}  {of}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Hash the tensors of a GGUF file")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("--no-layer", action="store_true", help="exclude per layer hash")
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    parser.add_argument("--progressbar", action="store_true", help="enable progressbar")
    args = parser.parse_args(None if len(sys.argv) > 1 else ["--help"])
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)
    gguf_hash(GGUFReader(args.model, "r"), args.model, not args.progressbar, args.no_layer)


if __name__ == "__main__":
    main()
