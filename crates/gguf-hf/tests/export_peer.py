"""Compares exported folders with the originals in transformers: logits to the last bit, and tokens of texts in ten scripts and back.

  export_peer.py all|tokens (ORIGINAL EXPORTED)...     prints a line for each model: its name and what differs, if anything
"""
import os, random, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

WORDS = """the quick brown fox isn't 3.14 don't WE'LL café naïve | Привет мир как дела сегодня | 你好 世界 我想在 工作 | こんにちは 世界 カタカナ |
안녕하세요 세계 한국어 | مرحبا بالعالم العربية | שלום עולם | नमस्ते दुनिया हिन्दी | สวัสดี ชาวโลก | Γειά σου κόσμε | 😀 🦙🦙 👩‍👩‍👧 | def f(x):\n\treturn x**2 # !?...""".split(" ")


def texts(n):
    """Texts of words in ten scripts, numbers, code, line ends and runs of spaces, always the same."""
    source = random.Random(7)
    for _ in range(n):
        words = [source.choice(WORDS) for _ in range(source.randint(1, 12))]
        yield source.choice(["", " ", "\n"]) + source.choice([" ", " ", " ", "", "  ", "\n", "\t"]).join(words)


def tokens(original, exported):
    a, b = (AutoTokenizer.from_pretrained(folder) for folder in (original, exported))
    for text in texts(10000):
        x, y = a(text)["input_ids"], b(text)["input_ids"]
        if x != y: return f"tokens of {text!r}: {x} {y}"
        if a.decode(x) != b.decode(y): return f"text of {x}: {a.decode(x)!r} {b.decode(y)!r}"


def logits(original, exported):
    kind = AutoModel if os.path.basename(original) == "bert" else AutoModelForCausalLM
    ids = torch.tensor([[1, 5, 9, 3, 17, 200, 44, 7]])
    out = []
    for folder in (original, exported):
        model = kind.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad(): out.append(model(ids)[0])
    if not torch.equal(*out): return f"logits: {(out[0] - out[1]).abs().max().item()}"


torch.set_num_threads(1)
asked, *folders = sys.argv[1:]
for original, exported in zip(folders[0::2], folders[1::2]):
    found = []
    for compare in (logits, tokens) if asked == "all" else (tokens,):
        try: found.append(compare(original, exported))
        except Exception as e: found.append(f"{compare.__name__}: {type(e).__name__}: {str(e)[:300]}")
    print(f"{os.path.basename(original)}: {'; '.join(filter(None, found))}", flush=True)
