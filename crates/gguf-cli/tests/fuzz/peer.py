"""Converts variants of the generated checkpoints with `gguf convert` and with llama.cpp's converter, and compares the results.

  peer.py PROGRAM SHARED PEERS KNOWN SEED FIRST COUNT [LOG]
  peer.py PROGRAM SHARED PEERS KNOWN SEED INDEX,INDEX,... _ [LOG]

PROGRAM is `gguf`; SHARED and PEERS are the folders of the reference data and of llama.cpp; KNOWN is the table of known differences.
Compares the variants FIRST to FIRST + COUNT - 1 of SEED, two at a time. Writes one line of JSON for each variant to LOG, and a summary to
standard output. Fails if a difference is not in the table.

The converter's modules are imported once; each conversion runs in a fork. So does each load: llama.cpp may abort.
"""
import collections, hashlib, importlib.util, json, os, re, select, shutil, signal, subprocess, sys, tempfile, time, traceback

program, shared, peers, known_file, seed, first, count, *rest = sys.argv[1:]
chosen = [int(i) for i in first.split(",")] if "," in first else range(int(first), int(first) + int(count))
log = rest[0] if rest else None
WORKERS, LIMIT = 2, 120
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", NO_COLOR="1")


def forked(work):
    """The JSON value that a function returns in a fork; None after an abort, with the signal, or after the time limit."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        try: answer = json.dumps(work()).encode()
        except BaseException: answer = json.dumps({"internal": traceback.format_exc()}).encode()
        while answer: answer = answer[os.write(write, answer):]
        os._exit(0)
    os.close(write)
    data, until = b"", time.time() + LIMIT
    while True:
        ready, _, _ = select.select([read], [], [], max(until - time.time(), 0))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
        piece = os.read(read, 1 << 16)
        if not piece: break
        data += piece
    os.close(read)
    _, status = os.waitpid(pid, 0)
    return json.loads(data) if data and os.WIFEXITED(status) else {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


class Loader:
    """A process that has llama.cpp's libraries, and loads each file in a fork. Started before PyTorch is imported."""

    def __init__(self):
        self.to, (ask, reply) = None, (os.pipe(), os.pipe())
        if not os.fork():
            os.close(ask[1])
            os.close(reply[0])
            self.serve(os.fdopen(ask[0]), os.fdopen(reply[1], "w"))
            os._exit(0)
        os.close(ask[0])
        os.close(reply[1])
        self.ask, self.reply = os.fdopen(ask[1], "w"), os.fdopen(reply[0])

    def serve(self, ask, reply):
        import ctypes
        lib = os.environ["LLAMA_CPP_LIB_PATH"]
        g = ctypes.CDLL(os.path.join(lib, "libggml.so"), mode=ctypes.RTLD_GLOBAL)
        g.ggml_backend_load_all_from_path(lib.encode())
        import llama_cpp as L
        said = []
        callback = L.llama_log_callback(lambda level, text, data: said.append(text.decode(errors="replace").strip()) if level >= 3 else None)
        L.llama_log_set(callback, ctypes.c_void_p(0))
        L.llama_backend_init()

        def load(path, vocab_only):
            p = L.llama_model_default_params()
            p.vocab_only, p.n_gpu_layers = vocab_only, 0
            return {"loads": bool(L.llama_model_load_from_file(path.encode(), p)), "said": said[-4:]}
        for line in ask:
            request = json.loads(line)
            reply.write(json.dumps(forked(lambda: load(*request))) + "\n")
            reply.flush()

    def load(self, path, vocab_only):
        self.ask.write(json.dumps([path, vocab_only]) + "\n")
        self.ask.flush()
        answer = json.loads(self.reply.readline())
        return answer.get("loads", False), (answer.get("said") or [str(answer)])


loaders = [Loader() for _ in range(WORKERS)]
sys.path[:0] = [os.path.join(peers, "llama.cpp", "gguf-py"), os.path.join(peers, "llama.cpp"), os.path.dirname(os.path.abspath(__file__))]
import logging
import torch
torch.set_num_threads(1)
import convert_hf_to_gguf as converter
import conversion, gguf
conversion.load_all_models()
import transformers, transformers.models.auto.tokenization_auto, sentencepiece
import variants

spec = importlib.util.spec_from_file_location("make_checkpoint", os.path.join(shared, "tools", "make-checkpoint.py"))
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)
BASES = variants.Bases(tool)
with open(known_file, encoding="utf-8") as f: KNOWN = json.load(f)


def reference(folder, out, outtype, args, pre):
    """What the converter of llama.cpp does."""
    os.chdir(os.path.dirname(folder))
    if pre: conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    sys.argv = ["convert_hf_to_gguf.py", "--outtype", outtype, "--outfile", out, *args, os.path.basename(folder)]
    errors = []

    class Keep(logging.Handler):
        def emit(self, record): errors.append(record.getMessage())
    keep = Keep(logging.ERROR)
    logging.getLogger().addHandler(keep)
    try:
        converter.main()
        return {"ok": True}
    except BaseException as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if "llama.cpp" in f.filename] or traceback.extract_tb(e.__traceback__)
        at = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} {frames[-1].name}"
        return {"ok": False, "error": f"{type(e).__name__}: {e}"[:400], "at": at, "errors": errors[-2:]}


def ours(folder, out, outtype, args, pre):
    """What `gguf convert` does."""
    names = {"--model-name": "--name", "--bigendian": "--big-endian"}
    args = [names.get(a, a) for a in args if a not in ("--no-lazy",)]
    command = [program, "convert", os.path.basename(folder), "-o", out, "--type", outtype, "-j", "1", "-q", *args]
    return run(command + (["--pre", pre] if pre else []), os.path.dirname(folder))


def run(command, folder):
    try: done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired: return {"code": -1, "text": "time limit"}
    return {"code": done.returncode, "text": (done.stdout + done.stderr).decode(errors="replace")[-3000:]}


def written(folder):
    """SHA-256 of the files in a folder."""
    out = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f: out[name] = hashlib.file_digest(f, "sha256").hexdigest()
    return out


def difference(a, b):
    """Keys and tensors that differ between two files of the same name."""
    try: a, b = gguf.GGUFReader(a), gguf.GGUFReader(b)
    except Exception as e: return [f"not read: {e}"]
    found = []
    keys = lambda r: {k: (f.types, f.contents()) for k, f in r.fields.items() if not k.startswith("GGUF.")}
    x, y = keys(a), keys(b)
    short = lambda v: repr(v)[:120]
    for k in [*x, *(k for k in y if k not in x)]:
        if k not in y: found.append(f"key {k}: reference {short(x[k][1])}, ours none")
        elif k not in x: found.append(f"key {k}: reference none, ours {short(y[k][1])}")
        elif repr(x[k]) != repr(y[k]):
            u, v = x[k][1], y[k][1]
            if isinstance(u, list) and isinstance(v, list) and len(u) == len(v):
                i = next((i for i in range(len(u)) if repr(u[i]) != repr(v[i])), 0)
                found.append(f"key {k}[{i}]: reference {short(u[i])}, ours {short(v[i])}")
            else: found.append(f"key {k}: reference {short(u)} {x[k][0]}, ours {short(v)} {y[k][0]}")
    if not found and list(x) != list(y): found.append(f"order of keys: {[(p, q) for p, q in zip(x, y) if p != q][:2]}")
    p, q = ({t.name: t for t in r.tensors} for r in (a, b))
    for n in [*p, *(n for n in q if n not in p)]:
        if n not in q: found.append(f"tensor {n}: ours none")
        elif n not in p: found.append(f"tensor {n}: reference none")
        elif (p[n].tensor_type, list(p[n].shape)) != (q[n].tensor_type, list(q[n].shape)):
            found.append(f"tensor {n}: reference {p[n].tensor_type.name} {list(p[n].shape)}, ours {q[n].tensor_type.name} {list(q[n].shape)}")
        elif p[n].data.tobytes() != q[n].data.tobytes(): found.append(f"tensor {n}: {p[n].tensor_type.name} data")
    if list(p) != list(q) and not found: found.append("order of tensors")
    return found[:60] or ["padding or layout"]


def masked(text):
    """A text without what differs from variant to variant."""
    text = re.sub(r"/dev/shm\S*|/tmp/\S*", "PATH", text)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", text)[:200]


def last_line(text):
    lines = [l for l in text.strip().split("\n") if not l.startswith("gguf: warning")]
    errors = [l for l in lines if "error" in l]
    return (errors or lines or [""])[0]


def compare(name, is_short, edits, loader):
    """Converts one variant with both, and lists the differences: class, signature and details of each."""
    m = BASES.model(name, is_short)
    for e in edits: variants.apply(m, e)
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        folder = m.write(root)
        args = list(m.args)
        if m.target:
            target = BASES.model(m.target, is_short)
            if target.folder != m.folder: target.write(root)
            m.pre = m.pre or target.pre
        if getattr(m, "metadata", None) is not None:
            tool.dump(os.path.join(root, "metadata.json"), m.metadata)
            args += ["--metadata", os.path.join(root, "metadata.json")]
        refs, own = os.path.join(root, ".reference"), os.path.join(root, ".ours")
        os.mkdir(refs)
        os.mkdir(own)
        r = forked(lambda: reference(folder, os.path.join(refs, "out.gguf"), m.outtype, args, m.pre))
        o = ours(folder, os.path.join(own, "out.gguf"), m.outtype, args, m.pre)
        is_slow = r.get("signal") == signal.SIGKILL
        if "ok" not in r: r = {"ok": False, "error": str(r)[-400:], "at": "?"}
        is_written = o["code"] == 0
        result = {"base": name, "reference": r, "ours": o, "found": [], "outcome": "both refuse"}
        found = lambda kind, signature, detail: result["found"].append({"class": kind, "signature": signature, "detail": detail})
        a, b = (written(refs) if r["ok"] else {}), (written(own) if is_written else {})
        if o["code"] not in (0, 1, 2) or "panicked" in o["text"]: found("panic", masked(o["text"][-300:]), o["text"][-600:])
        if not is_written and os.listdir(own): found("half an output", str(os.listdir(own)), "")
        is_text = "--mmproj" not in args
        is_model = is_text and "--bigendian" not in args
        load = lambda where, files: loader.load(os.path.join(where, sorted(files)[0]), "--vocab-only" in args)
        if a and b:
            result["outcome"] = "same bytes"
            if a != b:
                result["outcome"] = "other bytes"
                d = [f"files {list(a)}, ours {list(b)}"] if list(a) != list(b) else []
                for n in a:
                    if n in b and a[n] != b[n]: d += difference(os.path.join(refs, n), os.path.join(own, n))
                found("other bytes", masked("; ".join(re.sub(r"(: reference|: ours).*", "", x) for x in d)), d[:60])
        elif a:
            line, result["outcome"] = last_line(o["text"]), "only ours refuses"
            if "--bigendian" in args and is_text:     # llama.cpp loads the other byte order
                little = [x for x in args if x != "--bigendian"]
                forked(lambda: reference(folder, os.path.join(refs, "out.gguf"), m.outtype, little, m.pre))
            loads, said = load(refs, a) if is_text else (None, [])
            result["loads"] = loads
            if loads is False: result["outcome"] = "ours refuses what llama.cpp does not load"
            else: found("ours refuses", masked(line.split(": ", 2)[-1]), [line, f"reference loads: {loads}"])
        elif b:
            result["outcome"] = "time limit of the reference" if is_slow else "only the reference refuses"
            loads, said = load(own, b) if is_model else (None, [])
            if not is_slow: found("reference refuses", masked(f"{r.get('at')} {r['error'].split(':')[0]}"), [r["error"], r.get("errors"), f"ours loads: {loads}"])
        if b and is_model:
            loads, said = load(own, b)
            check = run([program, "check", os.path.join(own, sorted(b)[0])], root)
            result.update(loads=loads, check=check["code"])
            problems = [l for l in check["text"].split("\n") if "error" in l][:3]
            if loads and check["code"]: found("check: false rejection", masked("; ".join(problems)[:160]), check["text"][-800:])
            if not loads and not check["code"]: found("check: false acceptance", masked(next((s for s in said if "error" in s), said[-1])), said)
        return result


def is_known(found, result):
    """The row of the table of known differences, if there is one."""
    texts = {"class": found["class"], "base": result["base"], "detail": json.dumps(found["detail"], ensure_ascii=False),
             "signature": found["signature"], "ours": result["ours"]["text"], "reference": result["reference"].get("error", ""),
             "at": result["reference"].get("at", ""), "edits": json.dumps(result["edits"], ensure_ascii=False)}
    return next((k["case"] for k in KNOWN if all(re.search(v, texts[t]) for t, v in k.items() if t != "case")), None)


def reduced(name, is_short, edits, signature, loader):
    """Edits without those that a difference does not need."""
    for e in list(edits):
        fewer = [x for x in edits if x is not e]
        again = compare(name, is_short, fewer, loader)
        if any((f["class"], f["signature"]) == signature for f in again["found"]): edits = fewer
    return edits


def work(loader, indexes, out):
    seen = collections.Counter()
    while True:
        word = os.read(indexes, 8)
        if not word: break
        index = int.from_bytes(word, "little")
        began = time.time()
        name, is_short, edits = variants.draw(BASES, seed, index)
        try:
            result = {**compare(name, is_short, edits, loader), "edits": edits}
            for f in result["found"]:
                f["known"] = is_known(f, result)
                signature = (f["class"], f["signature"])
                seen[signature] += 1
                if not f["known"] and seen[signature] <= 2: f["reduced"] = reduced(name, is_short, edits, signature, loader)
        except Exception:
            result = {"base": name, "found": [{"class": "internal", "signature": masked(traceback.format_exc()[-200:]), "detail": traceback.format_exc(), "known": None}], "outcome": "internal"}
        result.update(index=index, is_short=is_short, edits=edits, seconds=round(time.time() - began, 2))
        out.write(json.dumps(result, ensure_ascii=False) + "\n")
        out.flush()


def main():
    indexes, feed = os.pipe()
    readers, pids = [], []
    for loader in loaders:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(feed)
            os.close(read)
            work(loader, indexes, os.fdopen(write, "w"))
            os._exit(0)
        os.close(write)
        readers.append(os.fdopen(read, "rb", buffering=0))
        pids.append(pid)
    os.close(indexes)
    feeder = os.fork()
    if not feeder:
        for i in chosen: os.write(feed, i.to_bytes(8, "little"))
        os._exit(0)
    os.close(feed)
    results, began, buffers, sink = [], time.time(), {r: b"" for r in readers}, open(log, "a") if log else None
    while buffers:
        for r in select.select(list(buffers), [], [])[0]:
            piece = r.read(1 << 16)
            if not piece:
                del buffers[r]
                continue
            *lines, buffers[r] = (buffers[r] + piece).split(b"\n")
            for line in lines:
                results.append(json.loads(line))
                if sink:
                    sink.write(line.decode() + "\n")
                    sink.flush()
    for pid in [*pids, feeder]: os.waitpid(pid, 0)
    report(results, time.time() - began)


def report(results, seconds):
    found = [(f, r) for r in results for f in r["found"]]
    known = collections.Counter(f["known"] for f, _ in found if f["known"])
    groups = collections.defaultdict(list)
    for f, r in found:
        if not f["known"]: groups[f["class"], f["signature"]].append((f, r))
    print(f"seed {seed}: variants {chosen[0]} to {chosen[-1]}, {len(results)} compared in {seconds:.0f} s")
    for outcome, n in collections.Counter(r["outcome"] for r in results).most_common(): print(f"{n:6} {outcome}")
    for row, n in known.most_common(): print(f"{n:6} known: {row}")
    for (kind, signature), items in sorted(groups.items(), key=lambda g: -len(g[1])):
        f, r = next(((f, r) for f, r in items if "reduced" in f), items[0])
        print(f"\n{len(items)} x {kind}: {signature}\n  variant {r['index']} of {r['base']}{' (short)' if r['is_short'] else ''}")
        print(f"  edits {json.dumps(f.get('reduced', r['edits']), ensure_ascii=False)[:1500]}\n  {json.dumps(f['detail'], ensure_ascii=False)[:1500]}")
    print(f"\n{sum(map(len, groups.values()))} unexplained differences, {sum(known.values())} known ones")
    sys.exit(bool(groups) or len(results) != len(chosen))


main()
