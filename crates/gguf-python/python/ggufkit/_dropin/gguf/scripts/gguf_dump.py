#!/usr/bin/env python3
"""Print the metadata and the tensors of a file: the command `gguf-dump`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from typing import Any, Callable

from gguf import GGUFReader, GGUFValueType, ReaderField, ReaderTensor

logger = logging.getLogger("gguf-dump")


def get_file_host_endian(reader: GGUFReader) -> tuple[str, str]:
    """The byte orders of this machine and of the file."""
    file = reader.endianess.name
    other = "BIG" if file == "LITTLE" else "LITTLE"
    return (other if reader.byte_order == "S" else file), file


def _type_of(field: ReaderField) -> str:
    if not field.types:
        return "N/A"
    depth = len(field.types) - 1 if field.types[0] == GGUFValueType.ARRAY else 0
    return "[" * depth + field.types[-1].name + "]" * depth


def _four_dims(tensor: ReaderTensor) -> list[Any]:
    return [*tensor.shape.tolist(), *[1] * (4 - len(tensor.shape))]


def dump_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    host, file = get_file_host_endian(reader)
    print(f"* File is {file} endian, script is running on a {host} endian host.")
    print(f"* Dumping {len(reader.fields)} key/value pair(s)")
    for n, field in enumerate(reader.fields.values(), 1):
        value = f" = {_short_value(field)}" if field.types else ""
        print(f"  {n:5}: {_type_of(field):10} | {len(field.data):8} | {field.name}{value}")
    if args.no_tensors:
        return
    print(f"* Dumping {len(reader.tensors)} tensor(s)")
    for n, tensor in enumerate(reader.tensors, 1):
        dims = ", ".join(f"{dim:5}" for dim in _four_dims(tensor))
        print(f"  {n:5}: {tensor.n_elements:10} | {dims} | {tensor.tensor_type.name:7} | {tensor.name}")


def _short_value(field: ReaderField) -> str:
    """The first 60 characters of a string, the first six elements of an array."""
    if field.types[0] == GGUFValueType.STRING:
        text = field.contents()
        return repr(text if len(text) <= 60 else text[:57] + "...")
    if field.types[0] == GGUFValueType.ARRAY:
        first = repr(field.contents(slice(6)))
        return first if len(field.data) <= 6 else first[:-1] + ", ...]"
    return str(field.contents())


def dump_metadata_json(reader: GGUFReader, args: argparse.Namespace) -> None:
    _, file = get_file_host_endian(reader)
    metadata = {}
    for i, field in enumerate(reader.fields.values()):
        entry: dict[str, Any] = {
            "index": i,
            "type": field.types[0].name if field.types else "UNKNOWN",
            "offset": field.offset,
        }
        is_array = field.types[:1] == [GGUFValueType.ARRAY]
        if is_array:
            entry["array_types"] = [kind.name for kind in field.types[1:]]
        if not is_array or args.json_array:
            entry["value"] = field.contents()
        metadata[field.name] = entry
    tensors = {}
    for i, tensor in enumerate([] if args.no_tensors else reader.tensors):
        tensors[tensor.name] = {
            "index": i,
            "shape": tensor.shape.tolist(),
            "type": tensor.tensor_type.name,
            "offset": tensor.field.offset,
        }
    json.dump({"filename": args.model, "endian": file, "metadata": metadata, "tensors": tensors}, sys.stdout)


# Markdown.

_ALIGN: dict[str, tuple[Callable[[str, int], str], Callable[[int], str]]] = {
    "left": (lambda text, width: f" {text:<{width - 1}}", lambda width: ":" + "-" * (width - 1)),
    "right": (lambda text, width: f"{text:>{width - 1}} ", lambda width: "-" * (width - 1) + ":"),
    "center": (lambda text, width: text.center(width), lambda width: ":" + "-" * (width - 2) + ":"),
}
_ALIGN_DEFAULT = (_ALIGN["left"][0], lambda width: "-" * width)


def markdown_table_with_alignment_support(header_map: list[dict[str, str]], data: list[dict[str, Any]]):
    """A table. A column has a key in the rows, a title, and may be aligned to the `left`, the `right` or the `center`."""
    cells, rule = [], []
    for column in header_map:
        texts = [column["header_name"], *(str(row[column["key_name"]]) for row in data)]
        width = max(map(len, texts)) + 2
        align, line = _ALIGN.get(column.get("align", ""), _ALIGN_DEFAULT)
        cells.append([align(text, width) for text in texts])
        rule.append(line(width))
    header, *rows = zip(*cells)
    return "".join(f"|{'|'.join(row)}|\n" for row in (header, rule, *rows))


def _table(rows: list[tuple[Any, ...]], *columns: tuple[str, str]) -> str:
    header = [{"key_name": title, "header_name": title, "align": align} for title, align in columns]
    titles = [title for title, _ in columns]
    return markdown_table_with_alignment_support(header, [dict(zip(titles, row)) for row in rows]) + "\n"


def element_count_rounded_notation(count: int) -> str:
    """A number such as ~7B. Over a thousand, it is rounded."""
    for limit, scale, suffix in ((1e15, 1e-15, "Q"), (1e12, 1e-12, "T"), (1e9, 1e-9, "B"), (1e6, 1e-6, "M"), (1e3, 1e-3, "K")):
        if count > limit:
            return f"~{round(count * scale)}{suffix}"
    return str(round(count))


_WORDS = {
    "token_embd": "Token embedding",
    "pos_embd": "Position embedding",
    "output_norm": "Output normalization",
    "output": "Output",
    "attn_norm": "Attention normalization",
    "attn_norm_2": "Attention normalization",
    "attn_qkv": "Attention query-key-value",
    "attn_q": "Attention query",
    "attn_k": "Attention key",
    "attn_v": "Attention value",
    "attn_output": "Attention output",
    "ffn_norm": "Feed-forward network normalization",
    "ffn_up": 'Feed-forward network "up"',
    "ffn_gate": 'Feed-forward network "gate"',
    "ffn_down": 'Feed-forward network "down"',
    "ffn_gate_inp": "Expert-routing layer for the Feed-forward network in Mixture of Expert models",
    "ffn_gate_exp": 'Feed-forward network "gate" layer per expert in Mixture of Expert models',
    "ffn_down_exp": 'Feed-forward network "down" layer per expert in Mixture of Expert models',
    "ffn_up_exp": 'Feed-forward network "up" layer per expert in Mixture of Expert models',
    "ssm_in": "State space model input projections",
    "ssm_conv1d": "State space model rolling/shift",
    "ssm_x": "State space model selective parametrization",
    "ssm_a": "State space model state compression",
    "ssm_d": "State space model skip connection",
    "ssm_dt": "State space model time step",
    "ssm_out": "State space model output projection",
    "blk": "Block",
    "enc": "Encoder",
    "dec": "Decoder",
}


def translate_tensor_name(name):
    """The name of a tensor in words."""
    return " ".join(_WORDS.get(word.strip().lower(), word).title() for word in name.split("."))


def _code(text: str) -> str:
    """Text as code: between more backticks than it has in a row."""
    marker = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    if text.startswith("`") or text.endswith("`"):
        text = f" {text} "
    return f"{marker}{text}{marker}"


def _short_code(text: str, limit: int) -> str:
    if len(text) <= limit:
        return _code(text)
    return f"{_code(text[:limit // 2])}...{_code(text[-(limit // 2):])}"


def _code_value(reader: GGUFReader, field: ReaderField) -> str:
    n = len(field.data)
    kind = field.types[-1] if field.types else None
    if field.types[:1] == [GGUFValueType.ARRAY]:
        shown: list[str] = []
        if len(field.types) > 1:
            if kind == GGUFValueType.STRING:
                shown = [_short_code(text, 30) for text in field.contents(slice(5))]
            elif field.types[1] in reader.gguf_scalar_to_np:
                shown = [str(field.parts[i][0]) for i in field.data[:7]]
            return f"[ {', '.join(shown)}{', ...' if n > len(shown) else ''} ]"
        return ""
    if kind == GGUFValueType.STRING:
        return _short_code(field.contents(), 60)
    return str(field.parts[-1][0]) if kind in reader.gguf_scalar_to_np else ""


def _group_of(name: str) -> str:
    """The group of a tensor: its block, the encoder or decoder, or `base`."""
    words = name.split(".")
    if words[0] == "blk":
        return ".".join(words[:2])
    if words[0] in ("enc", "dec"):
        return ".".join(words[:3]) if words[1] == "blk" else words[0]
    return "base"


def _bits_per_weight(n_bytes: int, n_elements: int) -> str:
    return f"{n_bytes * 8 / n_elements:.4f} bits" if n_elements > 0 else "undefined (no elements)"


def dump_markdown_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    _, file = get_file_host_endian(reader)
    fields = [
        (n, _type_of(field), len(field.data), field.name, _code_value(reader, field))
        for n, field in enumerate(reader.fields.values(), 1)
    ]
    text = (
        f"# {args.model} - GGUF Internal File Dump\n\n- Endian: {file} endian\n\n## Key Value Metadata Store\n\n"
        f"There are {len(reader.fields)} key-value pairs in this file\n\n"
        + _table(fields, ("POS", "right"), ("TYPE", "left"), ("Count", "right"), ("Key", "left"), ("Value", "left"))
    )
    n_bytes = n_elements = 0
    if not args.no_tensors:
        n_bytes = sum(tensor.n_bytes for tensor in reader.tensors)
        n_elements = sum(tensor.n_elements for tensor in reader.tensors)
        text += _markdown_of_tensors(reader, n_elements)
    print(f"{text}Total BPW for {os.path.basename(args.model)}: {_bits_per_weight(n_bytes, n_elements)}")


def _markdown_of_tensors(reader: GGUFReader, n_elements: int) -> str:
    groups: dict[str, list[tuple[int, ReaderTensor]]] = {}
    for number, tensor in enumerate(reader.tensors):
        groups.setdefault(_group_of(tensor.name), []).append((number, tensor))
    sums = {group: sum(tensor.n_elements for _, tensor in tensors) for group, tensors in groups.items()}

    text = f"## Tensors Overview {element_count_rounded_notation(n_elements)} Elements\n\n"
    text += f"Total number of elements in all tensors: {n_elements} Elements\n\n"
    for group, size in sums.items():
        title = f"{translate_tensor_name(group)} Tensor Group - {element_count_rounded_notation(size)} Elements"
        text += f"- [{title}](#{group.replace('.', '_')})\n"
    text += "\n### Tensor Data Offset\n\nThis table contains the offset and data segment relative to start of file\n\n"
    places = [
        (number, tensor.name, f"{tensor.data_offset:#16x}", f"{tensor.n_bytes:#16x}")
        for number, tensor in enumerate(reader.tensors)
    ]
    text += _table(places, ("T_ID", "right"), ("Tensor Layer Name", "left"), ("Data Offset (B)", "right"), ("Data Size (B)", "right"))
    for group, tensors in groups.items():
        text += _markdown_of_group(group, tensors, sums[group], n_elements)
    return text


def _markdown_of_group(group: str, tensors: list[tuple[int, ReaderTensor]], size: int, n_elements: int) -> str:
    rounded = [element_count_rounded_notation(tensor.n_elements) for _, tensor in tensors]
    shapes = [list(map(str, _four_dims(tensor))) for _, tensor in tensors]
    rounded_width = max(map(len, rounded))
    count_width = max(len(str(tensor.n_elements)) for _, tensor in tensors)
    widths = [max(map(len, dims)) for dims in zip(*shapes)]
    rows = []
    for (number, tensor), about, dims in zip(tensors, rounded, shapes):
        human = translate_tensor_name(tensor.name.replace(".weight", ".(W)").replace(".bias", ".(B)"))
        count = f"({about:>{rounded_width}}) {tensor.n_elements:>{count_width}}"
        shape = " x ".join(f"{dim:>{width}}" for dim, width in zip(dims, widths))
        bits = tensor.n_bytes * 8 / tensor.n_elements if tensor.n_elements > 0 else float("nan")
        rows.append((number, tensor.name, human, count, shape, tensor.tensor_type.name, f"{bits:.4f}"))
    about = element_count_rounded_notation(size)
    share = size / n_elements * 100 if n_elements else float("nan")
    n_bytes = sum(tensor.n_bytes for _, tensor in tensors)
    return (
        f'### <a name="{group.replace(".", "_")}">{translate_tensor_name(group)} Tensor Group : {about} Elements</a>\n\n'
        + _table(
            rows, ("T_ID", "right"), ("Tensor Layer Name", "left"), ("Human Friendly Tensor Layer Name", "left"), ("Elements", "left"),
            ("Shape", "left"), ("Type", "left"), ("BPW", "right"),
        )
        + f"- Total elements in {group}: ({about:>4}) {size}\n"
        + f"- Percentage of total elements: {share:.2f}%\n"
        + f"- Bits per Weight (BPW) for {group}: {_bits_per_weight(n_bytes, size)}\n\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Dump GGUF file metadata")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("--no-tensors", action="store_true", help="Don't dump tensor metadata")
    parser.add_argument("--json", action="store_true", help="Produce JSON output")
    parser.add_argument("--json-array", action="store_true", help="Include full array values in JSON output (long)")
    parser.add_argument("--data-offset", action="store_true", help="Start of data offset")
    parser.add_argument("--data-alignment", action="store_true", help="Data alignment applied globally to data field")
    parser.add_argument("--markdown", action="store_true", help="Produce markdown output")
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    args = parser.parse_args(None if len(sys.argv) > 1 else ["--help"])
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)
    if not (args.json or args.markdown or args.data_offset or args.data_alignment):
        logger.info(f"* Loading: {args.model}")
    reader = GGUFReader(args.model, "r")
    if args.json:
        dump_metadata_json(reader, args)
    elif args.markdown:
        dump_markdown_metadata(reader, args)
    elif args.data_offset:
        print(reader.data_offset)
    elif args.data_alignment:
        print(reader.alignment)
    else:
        dump_metadata(reader, args)


if __name__ == "__main__":
    main()
