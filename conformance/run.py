#!/usr/bin/env python3
"""Tests a GGUF reader with the files of this suite, or a writer with its models. Needs Python 3.9 and nothing else.

  run.py CMD ...                     gives every file to a reader: CMD FILE
  run.py --write CMD ...             gives every model to a writer: CMD MODEL.json OUT.gguf
  run.py --copy CMD ...              asks for copies: CMD IN.gguf OUT.gguf

A reader exits with 0 if it accepts the file and with 1 if it rejects it; anything else is a crash. It may print JSON to standard output:
an object with any of the fields of "expect" in manifest.json. What it prints is compared; what it leaves out is not.

Options, before CMD:
  --only TEXT       files whose name contains TEXT, or that the rule TEXT is about
  --supports RULES  the reader has these features, by their rules, as in version-1,version-2,big-endian: files whose verdict is either for no
                    other reason must be accepted
  --json            print the outcome of every file as JSON
  --failures        print the failures only, in the form that --known-failures reads
  --known-failures FILE   expect these failures: lines of a file and what the reader does with it. Any other failure is an error, and so is
                    a file of the list that passes
  --time SECONDS    limit of processor time for each file (10), and twenty times as long by the clock
  --memory MIB      limit of memory for each file (1024)
  --jobs N          readers at once (one for each processor)
  --fork            CMD is PYTHON PROGRAM: import its modules once, and fork for each file. The limits are the same
  --files DIR       the folder that has files/, if not that of this script
  --record NAME VERSION DATE   write the outcomes to manifest.json
  --observed NAME   expect the outcomes that manifest.json has for this reader or writer, whether or not they pass; limits of time and
                    memory may be met or not
"""
import argparse, ast, collections, concurrent.futures, hashlib, json, math, os, runpy, select, shutil, signal, struct, subprocess, sys, tempfile, threading, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# By the clock, a reader may take this many times its processor time: it may wait, or share the processor.
SLOWER = 20
OUTCOMES = ["accept", "values", "reject", "crash", "time", "memory"]
WRITTEN = ["same", "differs", "reject", "crash", "time", "memory"]


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


def run(extra, args):
    """Runs the command of a reader with more arguments; returns how it ended, its output, and what it said."""
    code, out, err = (run_forked if args.fork else run_once)(extra, args)
    said = err.decode("utf-8", "replace").strip()
    if code is None:
        return "time", b"", "stopped after %d seconds" % (SLOWER * args.time)
    if code in (0, 1):
        return ("accept", "reject")[code], out, said
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "time", out, said
    return ("memory" if is_memory(said) else "crash"), out, f"exit code {code}: {said}"


def run_once(extra, args):
    try:
        process = subprocess.Popen([*args.command, *extra], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits(args.time, args.memory))
    except OSError as e:
        sys.exit(f"cannot run {args.command[0]}: {e.strerror}")
    try:
        out, err = process.communicate(timeout=SLOWER * args.time)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.communicate()
        return None, b"", b""
    return process.returncode, out, err


LOCAL = threading.local()
SERVERS = []


def run_forked(extra, args):
    """As run_once, in a fork of a process that has imported the modules of the reader: one such process for each thread."""
    if not hasattr(LOCAL, "server"):
        LOCAL.server = subprocess.Popen([args.command[0], __file__, "--serve", *args.command[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        SERVERS.append(LOCAL.server)
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        try:
            LOCAL.server.stdin.write(json.dumps([extra, str(out), str(err), args.time, args.memory]).encode() + b"\n")
        except BrokenPipeError:
            pass
        child = LOCAL.server.stdout.readline()
        if not child:
            sys.exit(f"{args.command[1]}: its modules cannot be imported")
        child = int(child)
        in_time = select.select([LOCAL.server.stdout], [], [], SLOWER * args.time)[0]
        if not in_time:
            os.kill(child, signal.SIGKILL)
        code = int(LOCAL.server.stdout.readline())
        return (code, out.read_bytes(), err.read_bytes()) if in_time else (None, b"", b"")


def serve(program):
    """The process that forks: for each line, it answers with the number of the fork, and then with the exit code."""
    sys.path.insert(0, str(Path(program).resolve().parent))
    imports = [node for node in ast.parse(Path(program).read_text("utf-8")).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    exec(compile(ast.Module(imports, []), program, "exec"), {})
    for line in sys.stdin:
        extra, out, err, seconds, mib = json.loads(line)
        child = os.fork()
        if not child:
            for to, name in enumerate((os.devnull, out, err)):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), to)
            limits(seconds, mib)()
            sys.argv = [program, *extra]
            runpy.run_path(program, run_name="__main__")
            sys.exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def is_memory(said):
    """Whether a reader that crashed says that its memory was exhausted."""
    words = ("out of memory", "memoryerror", "bad_alloc", "memory allocation of", "cannot allocate memory", "allocation failed")
    return any(word in said.lower() for word in words)


def number(x):
    """A number as Python has it; text may hold what JSON cannot."""
    if not isinstance(x, str):
        return x
    special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
    return special[x] if x in special else int(x) if x.lstrip("-").isdigit() else None


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
        if not isinstance(found[field], list) or not all(isinstance(f, dict) for f in found[field]):
            return f"{field} is not a list of objects"
        if len(found[field]) != len(expect[field]):
            return f"{len(found[field])} entries in {field}, expected {len(expect[field])}"
        # The order is that of the file or none: entries are found by their name. Of one with a long name, only its type and value are compared.
        expected = {json.dumps(e[key]) for e in expect[field]}
        named = collections.defaultdict(list)
        for f in found[field]:
            name = json.dumps(f.get(key))
            named[name if name in expected else "null"].append(f)
        for e in expect[field]:
            same = named[json.dumps(e[key])]
            if not same:
                return f"{key} {e[key]!r} is missing"
            f = same.pop(0)
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


COMPARED = ["fields of heads", "values of keys", "tensors", "elements"]


def compared(expect, found):
    """How much of what a reader reports was compared, as in COMPARED."""
    there = lambda entries, part: sum(1 for f in entries if f.get(part) is not None)
    fields = sum(1 for field in ("version", "byte_order", "alignment", "data_offset", "n_kv", "n_tensors") if None not in (found.get(field), expect[field]))
    kv, tensors = (found.get(field) or [] if field in expect else [] for field in ("kv", "tensors"))
    elements = sum(len(f["values"]) for f in tensors if f.get("values") is not None)
    return [fields, there(kv, "value"), sum(1 for f in tensors if any(f.get(part) is not None for part in ("type", "shape", "offset", "bytes"))), elements]


def judge(row, path, args):
    """The outcome of a file, what was said, and how much was compared."""
    how, out, said = run([str(path)], args)
    amounts = [0] * len(COMPARED)
    if how == "accept" and out.strip() and "expect" in row:
        try:
            found = json.loads(out)
        except ValueError as e:
            return "crash", f"the output is not JSON: {e}: {out[:80].decode('utf-8', 'replace')!r}", amounts
        if not isinstance(found, dict):
            return "crash", "the output is not a JSON object", amounts
        wrong = difference(row["expect"], found)
        if wrong and "also" in row and not difference(row["also"], found):
            wrong = None
        if wrong:
            return "values", wrong, amounts
        amounts = compared(row["expect"], found)
    return how, said.splitlines()[-1][:300] if said else "", amounts


def passes(verdict, outcome):
    """Whether the outcome is what the documents ask for."""
    return outcome in {"accept": ["accept"], "reject": ["reject"], "either": ["accept", "reject"]}[verdict]


class Progress:
    """Tells how far a long run is, on standard error."""
    EVERY = 10

    def __init__(self, total):
        self.total, self.done, self.last = total, 0, time.monotonic()

    def of(self, results):
        for result in results:
            self.done += 1
            if time.monotonic() - self.last >= self.EVERY:
                self.last = time.monotonic()
                print(f"{self.done} of {self.total}", file=sys.stderr, flush=True)
            yield result


def known_failures(path, names):
    """The expected failures of a file: a name and an outcome in each line; # starts a comment."""
    known = {}
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        sys.exit(f"{path}: {getattr(e, 'strerror', None) or e}")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or words[1] not in OUTCOMES + WRITTEN:
            sys.exit(f"{path}:{number}: expected a file and an outcome, as in \"files/bool-2.gguf accept\"; found {line.strip()!r}")
        if words[0] not in names:
            sys.exit(f"{path}:{number}: this version of the suite has no {words[0]}")
        known[words[0]] = words[1]
    return known


def is_as_known(path, known, failures, passed):
    """Whether the failures are those of a list. Limits of time and memory may be met or not."""
    new = [f"{file}: {outcome}" + (f", and {known[file]} in {path}" if file in known else f", which is not in {path}")
           for file, outcome in failures.items() if known.get(file) != outcome and not {outcome, known.get(file)} <= {"time", "memory"}]
    gone = [f"{file}: passes; remove it from {path}" for file in passed if known.get(file, "time") not in ("time", "memory")]
    for line in new + gone:
        print(line)
    print(f"known failures: {len(failures) - len(new)} of {len(known)}, others: {len(new)}, known ones that pass: {len(gone)}")
    return not new and not gone


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


def chosen(rows, args):
    """The rows whose file name or rules are asked for."""
    found = [r for r in rows if not args.only or args.only in Path(r["file"]).name or args.only in r.get("rules", ())]
    if not found:
        sys.exit(f"--only {args.only}: no file has this text in its name, and no rule has this name")
    return found


def with_features(rows, features):
    """The rows, of which those that are valid in a reader with these features must be accepted."""
    return [{**r, "verdict": "accept"} if r["verdict"] == "either" and features.issuperset(r["rules"]) else r for r in rows]


def read(manifest, args):
    rows = with_features(chosen(manifest["files"], args), args.features)
    results = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        paths = {r["file"]: place(r, folder, args) for r in rows}
        for r in rows:
            check(paths[r["file"]], r)
        done = pool.map(lambda r: judge(r, paths[r["file"]], args), rows)
        for r, result in zip(rows, Progress(len(rows)).of(done)):
            results[r["file"]] = result
    families = collections.OrderedDict()
    failed = []
    for r in rows:
        outcome, said, _ = results[r["file"]]
        counts = families.setdefault(r["exercises"], collections.Counter())
        good = passes(r["verdict"], outcome)
        counts[outcome] += 1
        counts["passed" if good else "failed"] += 1
        if not good:
            failed.append((r, outcome, said))
    if args.json:
        print(json.dumps({"suite": manifest["version"], "files": {
            r["file"]: {"verdict": r["verdict"], "outcome": results[r["file"]][0], "passed": passes(r["verdict"], results[r["file"]][0]), "said": results[r["file"]][1]} for r in rows}}, indent=1))
    elif args.failures:
        for r, outcome, said in failed:
            print(r["file"], outcome)
    else:
        rules = {rule["id"]: rule for rule in manifest["rules"]}
        for r, outcome, said in [] if args.known_failures else failed:
            if outcome == "values":
                print(f"{r['file']}: accepted with a wrong value: {said}")
                continue
            rule = rules[r["rules"][0]]
            print(f"{r['file']}: {outcome}, expected {r['verdict']}" + (f" ({said})" if said else ""))
            print(f"    {rule['document']}, {rule['section']}: {rule['sentence']}" + (f" {rule['note']}" if rule["note"] else ""))
        print(f"\n{'family':14}" + "".join(f"{c:>8}" for c in ["passed", "failed", *OUTCOMES]))
        total = collections.Counter()
        for name, counts in families.items():
            total.update(counts)
            print(f"{name:14}" + "".join(f"{counts[c]:8}" for c in ["passed", "failed", *OUTCOMES]))
        print(f"{'all':14}" + "".join(f"{total[c]:8}" for c in ["passed", "failed", *OUTCOMES]))
        # A program that rejects everything passes most files, but none that must be accepted.
        bad = collections.Counter(r["verdict"] for r, _, _ in failed)
        of = collections.Counter(r["verdict"] for r in rows)
        print("passed by verdict: " + ", ".join(f"{v} {of[v] - bad[v]} of {of[v]}" for v in ("accept", "reject", "either")))
        # A misspelt field is ignored, so a reader sees here that its values are not.
        amounts = [sum(column) for column in zip(*(amounts for *_, amounts in results.values()))]
        print("compared in accepted files: " + ", ".join(f"{amount} {what}" for amount, what in zip(amounts, COMPARED)))
    outcomes = {name: outcome for name, (outcome, *_) in results.items()}
    if args.record:
        record(args.record, outcomes)
    if args.observed:
        return is_as_before(args.observed, {r["file"]: r["observed"].get(args.observed) for r in rows}, outcomes)
    if args.known_failures:
        failures = {r["file"]: outcome for r, outcome, _ in failed}
        return is_as_known(args.known_failures, args.known, failures, [f for f in outcomes if f not in failures])
    return not failed


def is_as_before(name, before, now):
    """Whether the outcomes are those of the manifest, except where a limit was met."""
    limited = {"time", "memory"}
    changed = [(f, before[f], now[f]) for f in now if before[f] != now[f] and not limited & {before[f], now[f]}]
    for file, was, outcome in changed:
        print(f"{file}: {outcome}, and {was} in the manifest")
    print(f"{name}: {len(now) - len(changed)} of {len(now)} outcomes are those of the manifest")
    return not changed


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
    rows = chosen(manifest["writers"], args)

    def one(r, folder):
        model = Path(folder) / "model.json"
        model.write_text(json.dumps({k: r[k] for k in ("version", "byte_order", "kv", "tensors")}), "utf-8")
        return model, r["end"]
    return written(rows, one, "models", manifest, args)


def copy(manifest, args):
    """Copies of all files whose bytes the specification fixes."""
    rows = chosen([r for r in manifest["files"] if "fixed" in r], args)
    return written(rows, lambda r, _: (args.files / r["file"], r["fixed"]), "copies", manifest, args)


def written(rows, source, kind, manifest, args):
    """The outcome of each row for a program that writes a file from the source of the row."""
    def one(r):
        with tempfile.TemporaryDirectory() as folder:
            path, end = source(r, folder)
            out = Path(folder) / "out.gguf"
            how, _, said = run([str(path), str(out)], args)
            wrong = compare(args.files / r["file"], out, end) if how == "accept" else said.splitlines()[-1][:300] if said else ""
            return ("same" if wrong is None else "differs" if how == "accept" else how), wrong
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(Progress(len(rows)).of(pool.map(one, rows)))
    outcomes = collections.OrderedDict((outcome, []) for outcome in WRITTEN)
    for r, (outcome, said) in zip(rows, results):
        outcomes[outcome].append(r["file"])
        if args.failures and outcome != "same":
            print(r["file"], outcome)
        elif outcome != "same" and not (args.json or args.known_failures):
            print(f"{r['file']}: {outcome}" + (f" ({said})" if said else ""))
    if args.json:
        print(json.dumps({r["file"]: {"outcome": outcome, "said": said} for r, (outcome, said) in zip(rows, results)}, indent=1))
    elif not args.failures:
        print(f"{kind}: {len(rows)}" + "".join(f", {outcome}: {len(files)}" for outcome, files in outcomes.items()))
    if args.record:
        record_written(args.record, kind, outcomes)
    if args.observed:
        seen = next((row.get(kind, {}) for row in manifest["written"] if row["writer"] == args.observed), {})
        others = {f: outcome for outcome, files in seen.items() if outcome != "same" for f in files}
        return is_as_before(args.observed, {r["file"]: others.get(r["file"], "same") for r in rows}, {r["file"]: outcome for r, (outcome, _) in zip(rows, results)})
    if args.known_failures:
        failures = {r["file"]: outcome for r, (outcome, _) in zip(rows, results) if outcome != "same"}
        return is_as_known(args.known_failures, args.known, failures, outcomes["same"])
    return len(outcomes["same"]) == len(rows)


def record_written(writer, kind, outcomes):
    """Writes the outcomes of a writer to its line of the manifest: how many files are the same, and the names of the others."""
    name, version, date = writer
    path = HERE / "manifest.json"
    before, rest = path.read_text("utf-8").split('"written":[\n', 1)
    lines, after = rest.split("\n]", 1)
    rows = {row["writer"]: row for row in map(json.loads, lines.strip().split(",\n") if lines.strip() else [])}
    row = rows.setdefault(name, {"writer": name})
    row.update(version=version, date=date, **{kind: {o: len(files) if o == "same" else files for o, files in outcomes.items() if files or o == "same"}})
    lines = ",\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows.values())
    path.write_text(f'{before}"written":[\n{lines}\n]{after}', "utf-8")


def compare(expected, found, end):
    """The first difference of two files, up to the padding after the last tensor; None if there is none."""
    if not found.exists():
        return "no file"
    a, b = expected.read_bytes(), found.read_bytes()
    if len(b) < end or b[:end] != a[:end]:
        at = next((i for i, (x, y) in enumerate(zip(a[:end], b)) if x != y), min(end, len(b)))
        return f"differs at byte {at}, {len(b)} bytes, expected {end} to {len(a)}"
    return "other bytes than zeros at the end" if b[end:].strip(b"\0") else None


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="run.py [OPTIONS] CMD ...")
    for name in ("--json", "--failures", "--write", "--copy", "--fork"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--supports", default="")
    parser.add_argument("--known-failures")
    parser.add_argument("--time", type=int, default=10)
    parser.add_argument("--memory", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--files", type=Path, default=HERE)
    parser.add_argument("--record", nargs=3)
    parser.add_argument("--observed")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("name the command of the reader")
    if args.fork and not (hasattr(os, "fork") and len(args.command) == 2):
        parser.error("--fork needs a command of two words, PYTHON PROGRAM, and a system that has fork")
    if sum(map(bool, (args.json, args.failures, args.known_failures, args.observed))) > 1:
        parser.error("--json, --failures, --known-failures and --observed exclude each other")
    manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
    args.features = {name for name in args.supports.split(",") if name}
    unknown = args.features - {rule["id"] for rule in manifest["rules"]}
    if unknown:
        parser.error(f"--supports: no rule has the name {min(unknown)}; manifest.json lists them in rules")
    if args.known_failures:
        args.known = known_failures(args.known_failures, {r["file"] for r in manifest["files"]})
    action = write if args.write else copy if args.copy else read
    passes_all = action(manifest, args)
    # Waited for, they and their forks are in the processor time of this process.
    for server in SERVERS:
        server.stdin.close()
        server.wait()
    sys.exit(0 if passes_all else 1)


try:
    main()
    sys.stdout.flush()
except BrokenPipeError:
    # Whatever read the output needs no more of it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
