#!/usr/bin/env python3
"""Change the byte order of a file in place: the command `gguf-convert-endian`."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Callable

import numpy as np
from tqdm import tqdm

import gguf
from gguf import GGMLQuantizationType
from gguf.scripts._ask import ask

logger = logging.getLogger("gguf-convert-endian")

# Types of blocks, and the offsets of the numbers of two bytes in a block. All other fields are bytes.
_NUMBERS_IN_BLOCK: dict[GGMLQuantizationType, tuple[int, ...]] = {
    GGMLQuantizationType.Q1_0: (0,),
    GGMLQuantizationType.Q4_0: (0,),
    GGMLQuantizationType.Q8_0: (0,),
    GGMLQuantizationType.Q4_K: (0, 2),
    GGMLQuantizationType.Q6_K: (208,),
    GGMLQuantizationType.TQ2_0: (64,),
    GGMLQuantizationType.MXFP4: (),
    GGMLQuantizationType.NVFP4: (),
}
_PLAIN = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)


def _swap_in_block(offsets: tuple[int, ...]) -> Callable[[gguf.ReaderTensor, int], None]:
    def swap(tensor: gguf.ReaderTensor, block_offs: int) -> None:
        for offset in offsets:
            tensor.data[block_offs + offset:block_offs + offset + 2].view(np.uint16).byteswap(inplace=True)

    return swap


# Functions that swap one block of a tensor whose data is flat.
byteswap_tensors = {ggml_type: _swap_in_block(offsets) for ggml_type, offsets in _NUMBERS_IN_BLOCK.items()}


def _swap_data(tensor: gguf.ReaderTensor) -> None:
    if tensor.tensor_type == GGMLQuantizationType.BF16:
        # The data of this type is bytes.
        tensor.data.view(np.uint16).byteswap(inplace=True)
    elif tensor.tensor_type in _PLAIN:
        tensor.data.byteswap(inplace=True)
    else:
        blocks = tensor.data.reshape((-1, gguf.GGML_QUANT_SIZES[tensor.tensor_type][1]))
        for offset in _NUMBERS_IN_BLOCK[tensor.tensor_type]:
            high = blocks[:, offset].copy()
            blocks[:, offset] = blocks[:, offset + 1]
            blocks[:, offset + 1] = high


def convert_byteorder(reader: gguf.GGUFReader, args: argparse.Namespace) -> None:
    file_order = reader.endianess.name
    other = {"LITTLE": "BIG", "BIG": "LITTLE"}
    host_order = other[file_order] if reader.byte_order == "S" else file_order
    order = host_order if args.order == "native" else args.order.upper()
    logger.info(f"* Host is {host_order} endian, GGUF file seems to be {file_order} endian")
    if file_order == order:
        logger.info(f"* File is already {order} endian. Nothing to do.")
        sys.exit(0)
    logger.info("* Checking tensors for conversion compatibility")
    for tensor in reader.tensors:
        if tensor.tensor_type not in _NUMBERS_IN_BLOCK and tensor.tensor_type not in _PLAIN:
            raise ValueError(f"Cannot handle type {tensor.tensor_type.name} for tensor {tensor.name!r}")
    logger.info(f"* Preparing to convert from {file_order} to {order}")
    if args.dry_run:
        return
    warnings = ["This conversion process may damage the file. Ensure you have a backup."]
    if order != host_order:
        warnings.append("Requested endian differs from host, you will not be able to load the model on this machine.")
    ask(logger, *warnings, "The file will be modified immediately, so if conversion fails or is interrupted", "the file will be corrupted.")
    logger.info(f"* Converting fields ({len(reader.fields)})")
    for i, field in enumerate(reader.fields.values()):
        logger.info(f"- {i:4}: Converting field {field.name!r}, part count: {len(field.parts)}")
        # Lengths are read from the file while the parts are made: all of them, before the first is swapped.
        for part in list(field.parts):
            part.byteswap(inplace=True)
    logger.info(f"* Converting tensors ({len(reader.tensors)})")
    bar = tqdm(reader.tensors, desc="Converting tensor")
    for tensor in bar:
        # The shape is a part of the field.
        elements, parts = tensor.n_elements, list(tensor.field.parts)
        _swap_data(tensor)
        for part in parts:
            part.byteswap(inplace=True)
        bar.set_description(f"Converting tensor {tensor.name!r}, type={tensor.tensor_type.name}, elements={elements} ")
    logger.info("* Completion")


def main() -> None:
    parser = argparse.ArgumentParser(description="Convert GGUF file byte order")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("order", type=str, choices=["big", "little", "native"], help="Requested byte order")
    parser.add_argument("--dry-run", action="store_true", help="Don't actually change anything")
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    args = parser.parse_args(None if len(sys.argv) > 1 else ["--help"])
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)
    logger.info(f"* Loading: {args.model}")
    convert_byteorder(gguf.GGUFReader(args.model, "r" if args.dry_run else "r+"), args)


if __name__ == "__main__":
    main()
