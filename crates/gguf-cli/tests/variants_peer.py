#!/usr/bin/env python3
"""Writes the checkpoints of index.json, each into DIR/NAME.

  variants_peer.py SHARED DIR NAME...

SHARED is the folder of the reference data and its tools. Needs numpy, and torch for edits that save with PyTorch.
"""
import importlib.util, json, os, sys


def load(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shared, out, *names = sys.argv[1:]
variants = os.path.join(shared, "data/hf-variants")
make = load(os.path.join(shared, "tools/make-checkpoint.py")).make
apply_edits = load(os.path.join(variants, "apply_edits.py")).apply_edits
with open(os.path.join(variants, "index.json"), encoding="utf-8") as f:
    cases = {case["name"]: case for case in json.load(f)["cases"]}
for name in names:
    made = make(os.path.join(variants, "cases"), name, out)
    apply_edits(made, cases[name].get("edits", []))
