#!/usr/bin/env python3
"""Tests a GGUF reader with the files of this suite, or a writer with its models. Needs Python 3.9 and nothing else.

  run.py CMD ...                     gives every file to a reader: CMD FILE
  run.py --write CMD ...             gives every model to a writer: CMD MODEL.json OUT.gguf
  run.py --copy CMD ...              asks for copies: CMD IN.gguf OUT.gguf

A reader exits with 0 if it accepts the file and with 1 if it rejects it; anything else is a crash. It may print JSON to standard output:
an object with any of the fields of "expect" in manifest.json. What it prints is compared; what it leaves out is not.

Options, before CMD:
  --only TEXT       files whose name or rules contain TEXT
  --json            print the outcome of every file as JSON
  --time SECONDS    limit of processor time for each file (10)
  --memory MIB      limit of memory for each file (1024)
  --jobs N          readers at once (2)
  --files DIR       the folder that has files/, if not that of this script
  --record NAME VERSION DATE   write the outcomes to manifest.json
"""
import argparse, collections, concurrent.futures, hashlib, json, math, os, shutil, signal, struct, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTCOMES = ["accept", "values", "reject", "crash", "time", "memory"]


def limits(seconds, mib):
    """Limits for the process that becomes the reader; None where the system has none."""
    try:
        import resource
    except ImportError:
        return None

    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Not the address space: JavaScript engines reserve far more than they use.
        resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))
        os.setsid()
    return apply


def run(command, args):
    """Runs a command; returns how it ended, and its output."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits(args.time, args.memory))
    try:
        out, err = process.communicate(timeout=6 * args.time)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.communicate()
        return "time", b"", "stopped after %d seconds" % (6 * args.time)
    said = err.decode("utf-8", "replace").strip()
    code = process.returncode
    if code in (0, 1):
        return ("accept", "reject")[code], out, said
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "time", out, said
    return ("memory" if is_memory(said) else "crash"), out, f"exit code {code}: {said}"


def is_memory(said):
    """Whether a reader that crashed says that its memory was exhausted."""
    words = ("out of memory", "memoryerror", "bad_alloc", "memory allocation of", "cannot allocate memory", "allocation failed")
    return any(word in said.lower() for word in words)


def number(x):
    """A number as Python has it; text may hold what JSON cannot."""
    if isinstance(x, str):
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}.get(x) if x == "-0" or not x.lstrip("-").isdigit() else int(x)
    return x


def is_same(type_name, expected, found):
    """Whether a reader found the expected value. None is "cannot say"."""
    if expected is None or found is None:
        return True
    if isinstance(expected, dict) and "items" in expected:
        if isinstance(found, dict):
            if found.get("of", expected["of"]) != expected["of"]:
                return False
            found = found.get("items")
        return isinstance(found, list) and len(found) == len(expected["items"]) and all(
            is_same(expected["of"], e, f) for e, f in zip(expected["items"], found))
    if type_name in ("f32", "f64"):
        e, f = number(expected), number(found)
        if not isinstance(f, (int, float)) or isinstance(f, bool):
            return False
        if math.isnan(e) or math.isnan(f):
            return math.isnan(e) and math.isnan(f)
        form = "<f" if type_name == "f32" else "<d"
        try:
            return struct.pack(form, e) == struct.pack(form, f)
        except OverflowError:
            return False
    if type_name == "string" or isinstance(expected, (bool, dict)) or isinstance(found, bool):
        return type(expected) is type(found) and expected == found
    return expected == number(found)


def difference(expect, found):
    """The first field that a reader reports wrongly, or None."""
    for field in ("version", "byte_order", "alignment", "data_offset", "n_kv", "n_tensors"):
        if None not in (found.get(field), expect[field]) and found[field] != expect[field]:
            return f"{field} is {found[field]}, expected {expect[field]}"
    for field, key in (("kv", "key"), ("tensors", "name")):
        if found.get(field) is None or field not in expect:
            continue
        if len(found[field]) != len(expect[field]):
            return f"{len(found[field])} entries in {field}, expected {len(expect[field])}"
        # The order is that of the file or none: entries are found by their name.
        named = collections.defaultdict(list)
        for f in found[field]:
            named[json.dumps(f.get(key))].append(f)
        for i, e in enumerate(expect[field]):
            same = named.get(json.dumps(e[key])) or named.get("null")
            if not same and e[key] is not None:
                return f"{key} {e[key]!r} is missing"
            f = same.pop(0) if same else found[field][i]
            for part in ("type", "shape", "offset", "bytes"):
                if part in e and f.get(part) is not None and f[part] != e[part]:
                    return f"{part} of {e[key]!r} is {f[part]}, expected {e[part]}"
            if "value" in e and not is_same(e["type"], e["value"], f.get("value")):
                return f"value of {e[key]!r} is {json.dumps(f.get('value'))[:200]}, expected {json.dumps(e['value'])[:200]}"
            if "values" in e and f.get("values") is not None:
                kind = {27: "i64", 28: "f64"}.get(e["type"], "f32")
                if len(f["values"]) != len(e["values"]):
                    return f"{len(f['values'])} values of {e[key]!r}, expected {len(e['values'])}"
                for i, (x, y) in enumerate(zip(e["values"], f["values"])):
                    if not is_same(kind, x, y):
                        return f"element {i} of {e[key]!r} is {y}, expected {x}"
    return None


def judge(row, path, args):
    """The outcome of a file, and what was said."""
    how, out, said = run([*args.command, str(path)], args)
    if how == "accept" and out.strip() and "expect" in row:
        try:
            found = json.loads(out)
        except ValueError as e:
            return "crash", f"the output is not JSON: {e}"
        wrong = difference(row["expect"], found)
        if wrong and "also" in row and not difference(row["also"], found):
            wrong = None
        if wrong:
            return "values", wrong
    return how, said.splitlines()[-1][:300] if said else ""


def passes(verdict, outcome):
    """Whether the outcome is what the documents ask for."""
    return outcome in {"accept": ["accept"], "reject": ["reject"], "either": ["accept", "reject"]}[verdict]


def place(row, folder, args):
    """The file of a row. Where only its start is stored, it is made, sparse."""
    path = args.files / row["file"]
    if "length" in row and path.stat().st_size != row["length"]:
        made = Path(folder) / path.name
        shutil.copyfile(path, made)
        os.truncate(made, row["length"])
        return made
    return path


def check(path, row):
    with open(path, "rb") as f:
        if hashlib.sha256(f.read(row["bytes"])).hexdigest() != row["sha256"]:
            sys.exit(f"{path}: not the file of this version of the suite; extract the archive again")


def read(manifest, args):
    rows = [r for r in manifest["files"] if not args.only or args.only in r["file"] or args.only in r["rules"]]
    results = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        paths = {r["file"]: place(r, folder, args) for r in rows}
        for r in rows:
            check(paths[r["file"]], r)
        for r, result in zip(rows, pool.map(lambda r: judge(r, paths[r["file"]], args), rows)):
            results[r["file"]] = result
    families = collections.OrderedDict()
    failed = []
    for r in rows:
        outcome, said = results[r["file"]]
        counts = families.setdefault(r["exercises"], collections.Counter())
        good = passes(r["verdict"], outcome)
        counts[outcome] += 1
        counts["passed" if good else "failed"] += 1
        if not good:
            failed.append((r, outcome, said))
    if args.json:
        print(json.dumps({"suite": manifest["version"], "files": {
            r["file"]: {"verdict": r["verdict"], "outcome": results[r["file"]][0], "passed": passes(r["verdict"], results[r["file"]][0]), "said": results[r["file"]][1]} for r in rows}}, indent=1))
    else:
        rules = {rule["id"]: rule for rule in manifest["rules"]}
        for r, outcome, said in failed:
            rule = rules[r["rules"][0]]
            print(f"{r['file']}: {outcome}, expected {r['verdict']}" + (f" ({said})" if said else ""))
            print(f"    {rule['document']}, {rule['section']}: {rule['sentence']}" + (f" {rule['note']}" if rule["note"] else ""))
        print(f"\n{'family':14}" + "".join(f"{c:>8}" for c in ["passed", "failed", *OUTCOMES]))
        total = collections.Counter()
        for name, counts in families.items():
            total.update(counts)
            print(f"{name:14}" + "".join(f"{counts[c]:8}" for c in ["passed", "failed", *OUTCOMES]))
        print(f"{'all':14}" + "".join(f"{total[c]:8}" for c in ["passed", "failed", *OUTCOMES]))
    if args.record:
        record(args.record, {name: outcome for name, (outcome, _) in results.items()})
    return not failed


def record(reader, outcomes):
    """Writes outcomes to the lines of the manifest, whose other text is kept."""
    name, version, date = reader
    path = HERE / "manifest.json"
    lines = path.read_text("utf-8").split("\n")
    for i, line in enumerate(lines):
        end = "," if line.endswith(",") else ""
        if line.startswith('"readers":'):
            readers = json.loads(line[len('"readers":'):].rstrip(","))
            readers[name] = {"version": version, "date": date}
            lines[i] = '"readers":' + json.dumps(readers, separators=(",", ":"), ensure_ascii=False) + end
        elif line.startswith('{"file":') and ',"observed":' in line:
            before, seen = line.rstrip(",").rsplit(',"observed":', 1)
            seen = json.loads(seen[:-1])
            file = json.loads(line.rstrip(","))["file"]
            if file in outcomes:
                seen[name] = outcomes[file]
            lines[i] = before + ',"observed":' + json.dumps(seen, separators=(",", ":")) + "}" + end
    path.write_text("\n".join(lines), "utf-8")


def write(manifest, args):
    """Models to a writer. What follows the last tensor is free."""
    failed = []
    rows = [r for r in manifest["writers"] if not args.only or args.only in r["file"]]
    with tempfile.TemporaryDirectory() as folder:
        for r in rows:
            model, out = Path(folder) / "model.json", Path(folder) / "out.gguf"
            fixed = {k: r[k] for k in ("version", "byte_order", "kv", "tensors")}
            model.write_text(json.dumps(fixed), "utf-8")
            out.unlink(missing_ok=True)
            how, _, said = run([*args.command, str(model), str(out)], args)
            wrong = compare(args.files / r["file"], out, r["end"]) if how == "accept" else f"{how}: {said[-300:]}"
            print(f"{r['file']}: {wrong or 'same bytes'}")
            failed += [r] if wrong else []
    print(f"{len(rows) - len(failed)} of {len(rows)} models are written as the specification fixes them")
    return not failed


def compare(expected, found, end):
    """The first difference of two files, up to the padding after the last tensor."""
    if not found.exists():
        return "no file"
    a, b = expected.read_bytes(), found.read_bytes()
    if len(b) < end or b[:end] != a[:end]:
        at = next((i for i, (x, y) in enumerate(zip(a[:end], b)) if x != y), min(end, len(b)))
        return f"differs at byte {at}, {len(b)} bytes, expected {end} to {len(a)}"
    return "other bytes than zeros at the end" if b[end:].strip(b"\0") else None


def copy(manifest, args):
    """Copies of all files that must be accepted: their bytes are those of the original, up to padding."""
    failed = []
    rows = [r for r in manifest["files"] if r["verdict"] == "accept" and "length" not in r and (not args.only or args.only in r["file"])]
    with tempfile.TemporaryDirectory() as folder:
        for r in rows:
            out = Path(folder) / "out.gguf"
            out.unlink(missing_ok=True)
            how, _, said = run([*args.command, str(args.files / r["file"]), str(out)], args)
            end = (args.files / r["file"]).stat().st_size
            wrong = compare(args.files / r["file"], out, end) if how == "accept" else f"{how}: {said[-300:]}"
            if wrong:
                failed.append(r)
                print(f"{r['file']}: {wrong}")
    print(f"{len(rows) - len(failed)} of {len(rows)} files are copied without a change")
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="run.py [OPTIONS] CMD ...")
    for name in ("--json", "--write", "--copy"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--time", type=int, default=10)
    parser.add_argument("--memory", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--files", type=Path, default=HERE)
    parser.add_argument("--record", nargs=3)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("name the command of the reader")
    manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
    action = write if args.write else copy if args.copy else read
    sys.exit(0 if action(manifest, args) else 1)


main()
