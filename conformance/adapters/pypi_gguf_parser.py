#!/usr/bin/env python3
"""The package gguf-parser of PyPI. It parses heads, without the types of values."""
import json, os, sys
from gguf_parser import GGUFParser

def value(x):
    if isinstance(x, list):
        return {"items": [value(item) for item in x]} if len(x) <= 65536 else None
    return str(x) if isinstance(x, float) and (x != x or abs(x) == float("inf")) else x

# Python ends with 1 after an exception, which is a rejection here.
sys.excepthook = lambda *problem: (sys.__excepthook__(*problem), sys.stderr.flush(), os._exit(2))
parser = GGUFParser(sys.argv[1])
try:
    parser.parse()
except (MemoryError, RecursionError):
    raise
except Exception as e:  # errors of struct and of UTF-8 are not turned into its own
    sys.exit(f"{type(e).__name__}: {e}")
kv = [{"key": key, "value": value(x)} for key, x in parser.metadata.items()]
tensors = [{"name": t["name"], "type": t["type"], "shape": list(t["dimensions"]), "offset": t["offset"]} for t in parser.tensors_info]
print(json.dumps({"version": parser.version, "kv": kv, "tensors": tensors}))
