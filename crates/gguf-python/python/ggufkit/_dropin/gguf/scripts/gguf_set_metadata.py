#!/usr/bin/env python3
"""Change a number of a file's metadata in place: the command `gguf-set-metadata`."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Any

import numpy as np

from gguf import GGUFReader
from gguf.scripts._ask import ask

logger = logging.getLogger("gguf-set-metadata")


def minimal_example(filename: str) -> None:
    """Set the first token of texts to 2."""
    reader = GGUFReader(filename, "r+")
    field = reader.fields["tokenizer.ggml.bos_token_id"]
    # The parts of a field are views of the file; `data` has the indexes of the parts with the value.
    field.parts[field.data[0]][0] = 2


def _number(dtype: type[np.generic], text: str) -> Any:
    if dtype is np.bool_:
        # NumPy takes every text but the empty one for true.
        values = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in values:
            logger.error(f"! {text!r} is not a truth value: use true or false")
            sys.exit(1)
        return np.bool_(values[text.lower()])
    try:
        return dtype(text)  # type: ignore[call-arg]
    except (ValueError, OverflowError) as error:
        logger.error(f"! {text!r} is not a value of type {np.dtype(dtype)}: {error}")
        sys.exit(1)


def set_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    field = reader.get_field(args.key)
    if field is None:
        logger.error(f"! Field {args.key!r} not found")
        sys.exit(1)
    dtype = reader.gguf_scalar_to_np.get(field.types[0]) if field.types else None
    if dtype is None:
        logger.error(f"! This tool only supports changing simple values, {args.key!r} has unsupported type {field.types}")
        sys.exit(1)
    part = field.parts[field.data[0]]
    old, new = part[0], _number(dtype, args.value)
    logger.info(f"* Preparing to change field {args.key!r} from {old} to {new}")
    if old == new:
        logger.info(f"- Key {args.key!r} already set to requested value {old}")
        sys.exit(0)
    if args.dry_run:
        sys.exit(0)
    if not args.force:
        ask(logger, "Changing fields in a GGUF file can make it unusable. Proceed at your own risk.")
    part[0] = new
    logger.info("* Field changed. Successful completion.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Set a simple value in GGUF file metadata")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("key", type=str, help="Metadata key to set")
    parser.add_argument("value", type=str, help="Metadata value to set")
    parser.add_argument("--dry-run", action="store_true", help="Don't actually change anything")
    parser.add_argument("--force", action="store_true", help="Change the field without confirmation")
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    args = parser.parse_args(None if len(sys.argv) > 1 else ["--help"])
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)
    logger.info(f"* Loading: {args.model}")
    set_metadata(GGUFReader(args.model, "r" if args.dry_run else "r+"), args)


if __name__ == "__main__":
    main()
