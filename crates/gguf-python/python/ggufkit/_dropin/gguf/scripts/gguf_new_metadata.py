#!/usr/bin/env python3
"""Copy a file with other metadata: the command `gguf-new-metadata`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from tqdm import tqdm

import gguf
from gguf import GGUFValueType, Keys
from gguf.scripts._ask import ask

logger = logging.getLogger("gguf-new-metadata")


class MetadataDetails(NamedTuple):
    type: gguf.GGUFValueType
    value: Any
    description: str = ""
    sub_type: gguf.GGUFValueType | None = None


def get_field_data(reader: gguf.GGUFReader, key: str) -> Any:
    field = reader.get_field(key)
    return field.contents() if field else None


def find_token(token_list: Sequence[str], token: str) -> Sequence[int]:
    """The identifiers of a token's text, of which there may be several."""
    found = [i for i, text in enumerate(token_list) if text == token]
    if not found:
        raise LookupError(f'Unable to find "{token}" in token list!')
    return found


def _details(field: gguf.ReaderField) -> MetadataDetails:
    if field.types[0] != GGUFValueType.ARRAY:
        return MetadataDetails(field.types[0], field.contents())
    # `types` of an array without elements does not have their type, but the file does: after the key and the type.
    item = GGUFValueType(int(field.parts[3][0]))
    return MetadataDetails(GGUFValueType.ARRAY, field.contents(), sub_type=item)


def copy_with_new_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, new_metadata: dict[str, MetadataDetails], remove_metadata: Sequence[str]) -> None:
    template = Keys.Tokenizer.CHAT_TEMPLATE
    for name, field in reader.fields.items():
        if name == Keys.General.ARCHITECTURE or name.startswith("GGUF."):
            # The writer writes them.
            logger.debug(f"Suppressing {name}")
        elif name.startswith(template) and template in new_metadata:
            logger.debug(f"Skipping {name}")
        elif name in remove_metadata:
            logger.debug(f"Removing {name}")
        else:
            old = _details(field)
            new = new_metadata.pop(name, old)
            if new is old:
                logger.debug(f"Copying {name}")
            else:
                logger.debug(f'Modifying {name}: "{old.value}" -> "{new.value}" {new.description}')
            if new.value is not None:
                writer.add_key_value(name, new.value, new.type, sub_type=new.sub_type)
    if template in new_metadata:
        logger.debug("Adding chat template(s)")
        writer.add_chat_template(new_metadata.pop(template).value)
    for name, new in new_metadata.items():
        logger.debug(f'Adding {name}: "{new.value}" {new.description}')
        writer.add_key_value(name, new.value, new.type)

    for tensor in reader.tensors:
        writer.add_tensor_info(tensor.name, tensor.data.shape, tensor.data.dtype, tensor.data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    with tqdm(desc="Writing", total=sum(tensor.n_bytes for tensor in reader.tensors), unit="byte", unit_scale=True) as bar:
        for tensor in reader.tensors:
            writer.write_tensor_data(tensor.data, tensor_endianess=reader.endianess)
            bar.update(tensor.n_bytes)
    writer.close()


def main() -> None:
    # The keys of special tokens by their short names.
    keys = [value for name, value in vars(Keys.Tokenizer).items() if not name.startswith("_") and value.endswith("_token_id")]
    token_keys = {key.split(".")[-1].removesuffix("_token_id"): key for key in keys}
    tokens = " | ".join(token_keys)

    parser = argparse.ArgumentParser(description="Make a copy of a GGUF file with new metadata")
    parser.add_argument("input", type=Path, help="GGUF format model input filename")
    parser.add_argument("output", type=Path, help="GGUF format model output filename")
    parser.add_argument("--general-name", type=str, help="The models general.name", metavar='"name"')
    parser.add_argument("--general-description", type=str, help="The models general.description", metavar='"Description ..."')
    parser.add_argument("--chat-template", type=str, help="Chat template string (or JSON string containing templates)", metavar='"{% ... %} ..."')
    parser.add_argument("--chat-template-config", type=Path, help="Config file containing chat template(s)", metavar="tokenizer_config.json")
    parser.add_argument("--chat-template-file", type=Path, help="Jinja file containing chat template", metavar="chat_template.jinja")
    parser.add_argument("--pre-tokenizer", type=str, help="The models tokenizer.ggml.pre", metavar='"pre tokenizer"')
    parser.add_argument("--remove-metadata", action="append", type=str, help="Remove metadata (by key name) from output model", metavar="general.url")
    parser.add_argument("--special-token", action="append", type=str, help="Special token by value", nargs=2, metavar=(tokens, '"<token>"'))
    parser.add_argument("--special-token-by-id", action="append", type=str, help="Special token by id", nargs=2, metavar=(tokens, "0"))
    parser.add_argument("--force", action="store_true", help="Bypass warnings without confirmation")
    parser.add_argument("--verbose", action="store_true", help="Increase output verbosity")
    args = parser.parse_args(None if len(sys.argv) > 2 else ["--help"])
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)

    new = {
        key: MetadataDetails(GGUFValueType.STRING, value)
        for key, value in (
            (Keys.General.NAME, args.general_name),
            (Keys.General.DESCRIPTION, args.general_description),
            (Keys.Tokenizer.CHAT_TEMPLATE, _chat_template(args)),
            (Keys.Tokenizer.PRE, args.pre_tokenizer),
        )
        if value
    }
    remove = args.remove_metadata or []
    if remove and not args.force:
        ask(
            logger,
            "Most metadata is required for a fully functional GGUF file,",
            "removing crucial metadata may result in a corrupt output file!",
        )

    logger.info(f"* Loading: {args.input}")
    reader = gguf.GGUFReader(args.input, "r")
    arch = get_field_data(reader, Keys.General.ARCHITECTURE)
    _choose_tokens(args, token_keys, get_field_data(reader, Keys.Tokenizer.LIST) or [], new)

    if args.output.is_file():
        if os.path.samefile(args.input, args.output):
            logger.error(f"! {args.output} is the input. Choose another name for the output.")
            sys.exit(1)
        if not args.force:
            ask(logger, f'The "{args.output}" GGUF file already exists, it will be overwritten!')
    logger.info(f"* Writing: {args.output}")
    writer = gguf.GGUFWriter(args.output, arch=arch, endianess=reader.endianess)
    alignment = get_field_data(reader, Keys.General.ALIGNMENT)
    if alignment is not None:
        logger.debug(f"Setting custom alignment: {alignment}")
        writer.data_alignment = alignment
    copy_with_new_metadata(reader, writer, new, remove)


def _chat_template(args: argparse.Namespace) -> Any:
    """The template of the last option that gives one."""
    template: Any = None
    if args.chat_template:
        template = json.loads(args.chat_template) if args.chat_template.startswith("[") else args.chat_template
    if args.chat_template_config:
        template = json.loads(args.chat_template_config.read_text(encoding="utf-8")).get("chat_template") or template
    if args.chat_template_file:
        template = args.chat_template_file.read_text(encoding="utf-8")
    return template


def _choose_tokens(args: argparse.Namespace, keys: dict[str, str], tokens: Sequence[str], new: dict[str, MetadataDetails]) -> None:
    """Add the special tokens that the options choose, by their texts or their identifiers."""
    for name, text in args.special_token or []:
        if name not in keys:
            logger.warning(f'Unknown special token "{name}", ignoring...')
            continue
        ids = find_token(tokens, text)
        new[keys[name]] = MetadataDetails(GGUFValueType.UINT32, ids[0], f"= {text}")
        if len(ids) > 1:
            logger.warning(f'Multiple "{text}" tokens found, choosing ID {ids[0]}, use --special-token-by-id if you want another:')
            logger.warning(", ".join(map(str, ids)))
    for name, number in args.special_token_by_id or []:
        if name not in keys:
            logger.warning(f'Unknown special token "{name}", ignoring...')
            continue
        if not number.isdecimal():
            raise LookupError(f'Token ID "{number}" is not a valid ID!')
        if int(number) >= len(tokens):
            raise LookupError(f"Token ID {int(number)} is not within token list!")
        new[keys[name]] = MetadataDetails(GGUFValueType.UINT32, int(number), f"= {tokens[int(number)]}")


if __name__ == "__main__":
    main()
