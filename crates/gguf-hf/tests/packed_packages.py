#!/usr/bin/env python3
"""Checkpoints with packed weights, and the same with the values that the packages that define the formats decode.

  packed_packages.py PACKAGES MODEL DIR

PACKAGES is the folder that .ci/packages fills, MODEL a checkpoint of LlamaForCausalLM whose tokenizer and configuration are taken. Writes
DIR/packed/CASE and DIR/decoded/CASE for each case, and prints the names of the cases. Needs torch and safetensors.
"""
import json, os, shutil, sys

here = os.path.dirname(os.path.abspath(__file__))
packages, model, out = sys.argv[1:4]
sys.path[:0] = [os.path.join(packages, "site"), here, os.path.join(here, "packed")]
import torch
from safetensors.torch import save_file
import packed_peer, record

# The same operations, without minutes of compiling.
torch._dynamo.config.disable = True

AWQ, GPTQMODEL = (os.path.join(packages, name) for name in ("autoawq", "gptqmodel"))
AWQ_CONFIG = {"quant_method": "awq", "bits": 4, "version": "gemm"}
GPTQ_CONFIG = {"quant_method": "gptq", "bits": 3, "checkpoint_format": "gptq_v2"}
BNB_CONFIG = {"quant_method": "bitsandbytes"}


def bnb4(kind, nested, dtype, block, storage=torch.uint8):
    return BNB_CONFIG, lambda n, k: record.bnb4(kind, nested, dtype, (n, k), block, storage)


# The configuration, and the function that packs and decodes a matrix of so many rows and columns.
CASES = {
    **{f"awq-{group}": ({**AWQ_CONFIG, "group_size": group}, lambda n, k, group=group: record.awq(AWQ, k, n, group)) for group in (32, 64)},
    **{f"gptq3-{group}{'-order' if order else ''}": ({**GPTQ_CONFIG, "group_size": group},
                                                     lambda n, k, group=group, order=order: record.gptq3(GPTQMODEL, k, n, group, order))
       for group in (32, 64) for order in (False, True)},
    **{f"{kind}-{str(dtype)[6:]}-{block}{'-nested' if nested else ''}": bnb4(kind, nested, dtype, block)
       for kind in ("nf4", "fp4") for nested in (False, True) for dtype in (torch.float16, torch.bfloat16, torch.float32) for block in (64, 128)},
    "nf4-stored-as-bfloat16": bnb4("nf4", True, torch.bfloat16, 64, torch.bfloat16),
    "nf4-stored-as-float32": bnb4("nf4", False, torch.float16, 64, torch.float32),
    "int8": (BNB_CONFIG, lambda n, k: record.bnb8((n, k))),
}


def main():
    with open(os.path.join(model, "config.json")) as f:
        config = json.load(f)
    config.pop("quantization_config", None)
    config.update(hidden_size=packed_peer.HIDDEN, intermediate_size=packed_peer.WIDE, num_attention_heads=packed_peer.HEADS,
                  num_key_value_heads=packed_peer.KV, head_dim=packed_peer.HIDDEN // packed_peer.HEADS, num_hidden_layers=2,
                  vocab_size=packed_peer.VOCAB, tie_word_embeddings=True)
    for case, (quantization, make) in CASES.items():
        plain, weights, _ = packed_peer.base()
        decoded = dict(plain)
        for name, w in weights.items():
            tensors = make(*w.shape)
            decoded[f"{name}.weight"] = tensors.pop("decoded")
            plain.update({name + end.removeprefix("w"): tensor for end, tensor in tensors.items()})
        for dir, settings, tensors in (("packed", {"quantization_config": quantization}, plain), ("decoded", {}, decoded)):
            dir = os.path.join(out, dir, case)
            os.makedirs(dir)
            for name in os.listdir(model):
                if name.startswith(("tokenizer", "special_tokens")):
                    shutil.copy(os.path.join(model, name), dir)
            with open(os.path.join(dir, "config.json"), "w") as f:
                json.dump({**config, **settings}, f)
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(dir, "model.safetensors"))
        print(case, flush=True)


main()
