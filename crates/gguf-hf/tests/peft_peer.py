"""Loads exported adapters with PEFT and compares the logits with those of the original adapters, to the last bit.

  peft_peer.py PACKAGES (BASE ORIGINAL EXPORTED)...     prints a line for each adapter: its name, and what differs, if anything

PACKAGES is the folder that .ci/packages fills, BASE the checkpoint of the base model.
"""
import os, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
packages, *adapters = sys.argv[1:]
sys.path.insert(0, os.path.join(packages, "site"))
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
IDS = torch.tensor([[1, 5, 9, 3, 17, 200, 44, 7]])


def logits(base, adapter):
    model = AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32, attn_implementation="eager")
    if adapter: model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad(): return model.eval()(IDS)[0]


for base, original, exported in zip(adapters[0::3], adapters[1::3], adapters[2::3]):
    want, found, without = (logits(base, adapter) for adapter in (original, exported, None))
    error = (want - found).abs().max().item()
    differences = [f"logits: {error}"] if error else []
    if torch.equal(found, without): differences.append("the adapter changes nothing")
    print(f"{os.path.basename(original)}: {'; '.join(differences)}", flush=True)
