#!/usr/bin/env python3
"""Writes autoconfig.json: what the configuration classes of transformers make of a config.json.

    pip install transformers==4.57.6 torch
    python autoconfig.py FOLDER_OF_CONVERTERS > autoconfig.json

FOLDER_OF_CONVERTERS is the `conversion` folder of llama.cpp; a field whose name does not occur there as a string is left
out. Everything is found by experiment: each class is built from many small documents, and what it returns is compared with
what the rules say. A field that no rule describes is reported on standard error as `unexplained`.

The output is one JSON object:

    version      of transformers
    base         defaults that all classes share
    model_types  model_type -> class
    classes      class -> what differs from the base, each part optional:
      type       the model_type that the class reports
      defaults   field -> value if the document does not have the field
      map        alias -> name under which the value is stored; an empty name drops the field
      subs       field -> nested configuration: `class` (`auto`: the class of its model_type, `class` without one),
                 `missing` (fields of the one built when there is none; or `root`: built from the document around it without
                 the fields in `without`), `under` (defaults of the field, which take precedence over those of its class)
      late       true: the aliases are applied after the rules
      rules      derived fields, in order: [field, condition, expression]; the field is set if it is "null", "empty" (null or []),
                 "absent" from the document, "always", or if the source of a copy is "given" or "set" (not null).
                 Expressions:
                   {"value": x}  {"copy": f}
                   {"formula": text}   in the notation of formula.rs
                   {"named": name}     a rule that is written in Rust
      checks     conditions under which the class refuses the document, by name
"""
import collections, copy, glob, inspect, itertools, json, logging, math, os, random, re, sys, warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
logging.disable(50)
import transformers
from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

ABSENT = "<absent>"
NETWORK = {"edgetam", "edgetam_vision_model"}  # their defaults are on the network
# Fields of the output that say nothing about the model.
NOISE = {"_name_or_path", "model_type", "transformers_version", "id2label", "label2id", "dtype", "torch_dtype", "prefix",
         "problem_type", "suppress_tokens", "quantization_config", "out_features"}
# Fields that rules read although the converter does not.
INPUTS = {"max_window_layers", "sliding_window_pattern", "full_attention_interval", "no_rope_layer_interval", "n_embed",
          "use_sliding_window", "sliding_window", "use_bidirectional_attention", "interleave_moe_layer_step", "rotary_pct",
          "expand", "mamba_expand", "block_ff_dim", "mamba_n_heads", "mamba_d_ssm", "feed_forward_proj", "layer_types", "num_labels",
          "num_hidden_layers", "num_attention_heads", "hidden_size", "attn_config", "ffn_config", "no_rope_layers"}


def names(folder):
    found = set()
    for file in glob.glob(os.path.join(folder, "*.py")):
        found |= set(re.findall(r"""["']([a-zA-Z_][a-zA-Z_0-9]*)["']""", open(file, encoding="utf-8").read()))
    return found


KEEP = (names(sys.argv[1]) | INPUTS) - NOISE


def instance(cls, doc):
    """What the class makes of a document; an exception if it refuses it."""
    doc = copy.deepcopy(doc)
    doc.setdefault("model_type", cls.model_type)
    try:
        # A class with its own way to read documents may need more software; a nested one is built directly in any case.
        return cls.from_dict(doc) if cls.from_dict.__func__ is PretrainedConfig.from_dict.__func__ else cls(**doc)
    except Exception as error:
        return error


def plain(value):
    return json.loads(json.dumps(value, default=str))


def build(cls, doc):
    found = instance(cls, doc)
    if isinstance(found, Exception):
        return found
    try:
        return {k: plain(v) for k, v in found.to_dict().items() if k in KEEP}
    except Exception as error:
        return error


CLASSES = {}


def class_of(cls):
    CLASSES.setdefault(cls.__name__, cls)
    return cls.__name__


def source(cls):
    return "".join(inspect.getsource(k) for k in cls.__mro__ if issubclass(k, PretrainedConfig) and k is not PretrainedConfig)


def parameters(cls):
    return [p.name for k in cls.__mro__ if "__init__" in k.__dict__ and k not in (object, PretrainedConfig)
            for p in inspect.signature(k.__init__).parameters.values() if p.name != "self" and p.kind != p.VAR_KEYWORD]


def other_values(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value + 4, max(1, value // 2)]
    if isinstance(value, float):
        return [value * 2]
    if isinstance(value, list):
        return [value[::-1]] + [[2 * x for x in value]] * all(isinstance(x, (int, float)) for x in value)
    if isinstance(value, str):
        return ["else"]
    return [7, 12] if value is None else []


# --- the rules, as the Rust side applies them -----------------------------------------------------------------------------

class Refused(Exception):
    pass


class Values(dict):
    """The names in a formula as those of an expression in Python; a missing field is None."""
    def __missing__(self, name):
        return CONSTANTS.get(name)


def is_list(x):
    return isinstance(x, list)


CONSTANTS = {"null": None, "true": True, "false": False, "is_list": is_list, "int": int, "range": range}


def evaluate(to, doc):
    if "value" in to:
        return copy.deepcopy(to["value"])
    if "copy" in to:
        return copy.deepcopy(doc.get(to["copy"]))
    # Python has no notation for a field with a default.
    text = re.sub(r"\((\w+)\|(\d+)\)", lambda m: m[1] if m[1] in doc else m[2], to["formula"])
    # Classes reject truth values where they divide.
    for operands in re.findall(r"(\w+) // (\w+)", text):
        if any(isinstance(doc.get(name), bool) for name in operands):
            raise Refused
    try:
        return copy.deepcopy(eval(text, Values(doc, __builtins__={})))
    except (ArithmeticError, TypeError):
        raise Refused


def applies(rule, out, doc):
    value, source = out.get(rule["set"]), rule["to"].get("copy")
    return {"null": value is None, "empty": value is None or value == [], "absent": rule["set"] not in doc, "always": True,
            "given": source in doc, "set": out.get(source) is not None}[rule["if"]]


def apply(row, doc):
    aliases = row.get("map", {})
    out = {**copy.deepcopy(BASE), **copy.deepcopy(row.get("defaults", {})), **doc}
    late = {aliases[k]: v for k, v in doc.items() if aliases.get(k)}
    if not row.get("late"):
        out.update(late)
        doc = {**doc, **late}
    for rule in row.get("rules", []):
        if applies(rule, out, doc):
            out[rule["set"]] = evaluate(rule["to"], out)
    out.update(late)
    for name in aliases:
        out.pop(name, None)
    return out


# --- finding them ---------------------------------------------------------------------------------------------------------

EACH = "for i in range(num_hidden_layers)"
OTHERS = {
    "sliding_window": "sliding_window // 2 + 1 if use_bidirectional_attention else sliding_window",
    "activation_sparsity_pattern": f"[0.95 if i < 10 and num_hidden_layers > 10 else 0.0 {EACH}]",
    "layer_types": "['sliding_attention' if use_sliding_window and sliding_window != null and not x else 'full_attention' for x in no_rope_layers]",
    "mamba_d_head": "(mamba_d_ssm if mamba_d_ssm != null else int(mamba_expand * hidden_size)) // mamba_n_heads if mamba_d_head == 'auto' "
                    "else mamba_d_head",
}


def candidates(target, default, fields, row):
    """Expressions that could describe a field, the plain ones first."""
    yield {"value": default}
    likely = ("num_attention_heads", "hidden_size", "num_hidden_layers", "encoder_layers")
    fields = sorted(fields, key=lambda f: (f not in likely, fields.index(f)))
    for f in fields:
        if f != target and f not in ("tokenizer_class", "architectures"):
            yield {"copy": f}
    def formula(text):
        return {"formula": text}
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        wholes = [f for f in fields if f != target]
        for a, b in itertools.permutations(wholes, 2):
            yield formula(f"{a} // {b}")
        for a in wholes:
            for n in (2, 4, 8):
                yield formula(f"int({a} * {n})")
            yield formula(f"-(-{a} // 16)")
        for a, b in itertools.combinations(wholes, 2):
            yield formula(f"int({a} * {b})")
    for f in ("use_sliding_window",):
        if f in fields:
            yield formula(f"{target} if {f} else null")
    if target in OTHERS:
        yield formula(OTHERS[target])
    if isinstance(default, list):
        values = list(dict.fromkeys(repr(x) for x in default))
        for x, y in list(itertools.permutations(values, 2)) + [(v, v) for v in values]:
            def period(n):
                return formula(f"[{x} if (i + 1) % {n} == 0 else {y} {EACH}]")
            for n in (2, 3, 4, 5, 6):
                yield period(n)
                for f in ("sliding_window_pattern", "full_attention_interval", "no_rope_layer_interval"):
                    yield period(f"({f}|{n})")
            for f in ("sliding_window_pattern", "no_rope_layer_interval"):
                yield period(f)
        for f in fields:
            yield formula(f"{f} if is_list({f}) else [{f} {EACH}]")
        kinds = ("full_attention", "sliding_attention", "chunked_attention")
        if any(v.strip("'") in kinds for v in values):
            for f in fields + [0]:
                if f == 0 or f.endswith("window_layers"):
                    yield formula(f"['sliding_attention' if sliding_window != null and i >= {f} else 'full_attention' {EACH}]")
            yield formula("['chunked_attention' if x else 'full_attention' for x in no_rope_layers]")


def documents(cls, default):
    text = source(cls)
    fields = parameters(cls) + list(cls.attribute_map)
    fields += re.findall(r"""kwargs\.(?:pop|get)\(["'](\w+)""", text) + list(default)
    fields = [f for f in dict.fromkeys(fields) if f in KEEP and not isinstance(default.get(f), dict)]
    fields = [f for f in fields if f not in ("rope_scaling", "rope_parameters", "architectures") and not f.endswith("_config")]
    values = {}
    for f in fields:
        values[f] = [None] + other_values(default.get(cls.attribute_map.get(f, f)))
    docs = [{}] + [{f: v} for f in fields for v in values[f]]
    if "mamba_d_head" in default:
        docs += [{"mamba_d_head": "auto"}, {"mamba_d_head": "auto", "mamba_n_heads": 2 * default["mamba_n_heads"]}]
    if "num_hidden_layers" in fields:
        docs += [{"num_hidden_layers": n} for n in (1, 2, 7, 13, 30)]
        docs += [{"num_hidden_layers": 7, f: 2} for f in fields if f.endswith(("pattern", "interval", "window_layers", "n_layers"))]
        docs += [{"num_hidden_layers": 7, "use_sliding_window": True, f: 2} for f in fields if f.endswith("window_layers")]
        docs += [{"num_hidden_layers": 7, "use_sliding_window": True, "sliding_window": w} for w in (None, 512)]
        docs += [{"num_hidden_layers": 4, "layer_types": ["full_attention"] * 4}] * ("layer_types" in fields)
        docs += [{"num_hidden_layers": 4, "no_rope_layers": x} for x in ([1, 0, 0, 1], [])] * ("no_rope_layers" in fields)
        docs += [{"num_hidden_layers": 7, "use_sliding_window": True, "sliding_window": 512, f: 2} for f in fields if f.endswith("window_layers")]
    core = [f for f in ("num_attention_heads", "hidden_size", "num_hidden_layers", "head_dim", "d_model") if f in fields]
    for f in fields:
        if f not in core[:-1] and f not in ("bos_token_id", "eos_token_id", "pad_token_id", "tokenizer_class", "vocab_size"):
            docs += [{f: None, g: v} for g in core for v in values[g][1:2] if f != g]
    switches = [f for f in fields if isinstance(default.get(f), bool)]
    docs += [{f: not default[f], g: 24} for f in switches for g in fields if g.endswith("window")]
    rng = random.Random(cls.__name__)
    for _ in range(60 if fields else 0):
        chosen = rng.sample(fields, min(len(fields), rng.randint(2, 4)))
        docs.append({f: rng.choice(values[f]) for f in chosen})
    return fields, docs


def same(a, b):
    return a == b and json.dumps(a) == json.dumps(b)


def wrong(row, tests):
    """Fields that the row gets wrong, with the tests."""
    bad = collections.defaultdict(list)
    for doc, expected in tests:
        try:
            got = apply(row, doc)
        except Exception:
            got = {}
        for f in set(got) | set(expected):
            if f in KEEP and f not in row.get("subs", {}) and not same(got.get(f, ABSENT), expected.get(f, ABSENT)):
                bad[f].append(doc)
    return bad


def right(row, tests, field):
    for doc, expected in tests:
        try:
            got = apply(row, doc).get(field, ABSENT)
        except Exception:
            return False
        if not same(got, expected.get(field, ABSENT)):
            return False
    return True


def subs_of(cls, default):
    found = {}
    whole = instance(cls, {})
    declared = cls.sub_configs if isinstance(cls.sub_configs, dict) else {}
    for name in dict.fromkeys(list(declared) + [k for k, v in vars(whole).items() if isinstance(v, PretrainedConfig)]):
        if name not in KEEP and not name.endswith("_config"):
            continue
        inner = getattr(instance(cls, {name: {}}), name, None)
        entry = {}
        if not isinstance(inner, PretrainedConfig):
            inner = vars(whole).get(name)
            if not isinstance(inner, PretrainedConfig):
                continue
        entry["class"] = class_of(type(inner))
        given, own = instance(cls, {name: {}}), build(type(inner), {})
        if isinstance(given, PretrainedConfig) and isinstance(getattr(given, name, None), PretrainedConfig) and isinstance(own, dict):
            given = {k: plain(v) for k, v in getattr(given, name).to_dict().items() if k in KEEP}
            entry["under"] = {k: v for k, v in given.items() if not same(v, own.get(k, ABSENT))}
            own = build(type(inner), entry["under"])
            if isinstance(own, dict):
                entry["under"].update({k: v for k, v in given.items() if not same(v, own.get(k, ABSENT))})
            if not entry["under"]:
                del entry["under"]
        probe = "mistral" if inner.model_type != "mistral" else "llama"
        other = vars(instance(cls, {name: {"model_type": probe}})) if not isinstance(instance(cls, {name: {"model_type": probe}}), Exception) else {}
        if isinstance(other.get(name), PretrainedConfig) and type(other[name]).__name__ == type(CONFIG_MAPPING[probe]()).__name__:
            entry["auto"] = True
        missing = vars(whole).get(name)
        if isinstance(missing, PretrainedConfig):
            a = {k: plain(v) for k, v in missing.to_dict().items() if k in KEEP}
            b = {k: plain(v) for k, v in type(missing)().to_dict().items() if k in KEEP}
            entry["missing"] = {k: v for k, v in a.items() if not same(v, b.get(k, ABSENT))}
            b = build(type(missing), entry["missing"])  # what follows from those, and does not here
            if isinstance(b, dict):
                entry["missing"].update({k: v for k, v in a.items() if not same(v, b.get(k, ABSENT))})
            if type(missing) is not type(inner):
                entry["missing"]["model_type"] = missing.model_type
            flat = instance(cls, {"num_attention_heads": 77, "bos_token_id": 78, "eos_token_id": 79})
            flat = vars(flat).get(name) if not isinstance(flat, Exception) else None
            if flat is not None and getattr(flat, "bos_token_id", 0) == 78 and getattr(flat, "num_attention_heads", 0) == 77:
                entry["missing"] = "root"
                without = [p for p in parameters(cls) if p in KEEP or p.endswith("_config")]
                entry["without"] = sorted(set(without))
        found[name] = entry
    return found


def rope_rules(cls, default):
    """How the class treats the older spelling of the kind of RoPE scaling."""
    if "rope_scaling" not in default:
        return []
    def probe(scaling):
        out = build(cls, {"rope_scaling": scaling})
        return out.get("rope_scaling") if isinstance(out, dict) else None
    both = probe({"type": "linear", "rope_type": "other", "factor": 2.0})
    old = probe({"type": "linear", "factor": 2.0})
    mrope = probe({"type": "mrope", "mrope_section": [2]})
    rules = []
    if mrope and mrope.get("type") == "default":
        rules.append({"set": "rope_scaling", "if": "always", "to": {"formula": "with(rope_scaling, 'type', 'default') if rope_scaling.type == 'mrope' else rope_scaling"}})
    if both and both["rope_type"] == "linear":
        rules.append({"set": "rope_scaling", "if": "always", "to": {"formula": "with(rope_scaling, 'rope_type', rope_scaling.type) if rope_scaling.type != null else rope_scaling"}})
    elif old and old.get("rope_type") == "linear":
        rules.append({"set": "rope_scaling", "if": "always", "to": {"named": "rope_type_or_type"}})
    whole = probe({"type": "yarn", "rope_type": "yarn", "factor": 4})
    if whole and isinstance(whole["factor"], float):
        rules.append({"set": "rope_scaling", "if": "always", "to": {"named": "rope_floats"}})
    text = source(cls)
    if 'self.original_max_position_embeddings = self.rope_scaling[' in text:
        rules.append({"set": "original_max_position_embeddings", "if": "always", "to": {"formula": "rope_scaling.original_max_position_embeddings|original_max_position_embeddings"}})
    if '["su", "yarn"]' in text:
        rules.append({"set": "rope_scaling", "if": "always", "to": {"formula": "with(rope_scaling, 'type', 'longrope') if rope_scaling.type in ['su', 'yarn'] else rope_scaling"}})
    return rules


def checks_of(cls, default):
    """The checks that a class makes, told by what it refuses."""
    found = []
    def refused(**doc):
        return isinstance(build(cls, doc), Exception)
    if "rope_scaling" in default:
        linear = {"type": "linear", "rope_type": "linear", "factor": 2.0}
        used = {"position_embedding_type": "rope"} if "position_embedding_type" in default else {}
        if not refused(rope_scaling=linear, **used) and refused(rope_scaling={"rope_type": "linear"}, **used):
            found.append("rope" if refused(rope_scaling={"rope_type": "linear"}) else "rope_if_used")
        elif refused(rope_scaling=linear) and not refused(rope_scaling={"type": "linear", "factor": 2.0}):
            found.append("linear_or_dynamic")
        elif refused(rope_scaling=linear) and not refused(rope_scaling={**linear, "short_mscale": 1.0, "long_mscale": 1.0}):
            found += ["mscale", "rope"]
        elif 'must be one of [\'longrope\']' in source(cls):
            found.append("longrope")
    if isinstance(default.get("layer_types"), list):
        kinds = default["layer_types"]
        if refused(layer_types=["else"] * len(kinds)):
            found.append("layer_types" if refused(layer_types=kinds + kinds[:1]) else "layer_kinds")
    if "mamba_d_head" in default and refused(mamba_d_head=2 * default["mamba_d_head"]):
        found.append("mamba_heads")
    if default.get("tie_word_embeddings") is False and refused(tie_word_embeddings=True):
        found.append("untied")
    return found


def derive(cls, row, flat, fields, tests):
    """Adds the rules for derived fields."""
    declared = {p.name: p.default for k in reversed(cls.__mro__) if "__init__" in k.__dict__ and k is not object
                for p in inspect.signature(k.__init__).parameters.values()}
    row = {**row, "rules": []}
    for _ in range(4):
        bad = wrong(row, tests)
        fixed = False
        for target in sorted(bad, key=lambda f: (f == "layer_types", len(bad[f]), f)):
            found = next(trials(row, target, flat, fields, declared.get(target), tests), None)
            if found:
                row, fixed = found, True
        if not fixed:
            break
    return row


def trials(row, target, flat, fields, declared, tests):
    """Rows with one more rule that gets a field right."""
    declared = plain(declared) if isinstance(declared, (bool, int, float, str, list, tuple)) else None
    for to in candidates(target, flat.get(target), [f for f in fields if f in KEEP], row):
        whens = ("null", "absent", "empty", "always") + ("set", "given") * (to.get("copy", "") not in flat and "copy" in to)
        if "value" in to:
            whens = ("always", "null")
        for when in whens:
            # A derived default is not a default, but what the class declares may be one.
            starts = [{**row["defaults"], target: None}, {**row["defaults"], target: declared}]
            if when in ("set", "given") or "value" in to:
                starts = [row["defaults"]]
            for defaults in starts:
                rule = {"set": target, "if": when, "to": to}
                for rules in (row["rules"] + [rule], [rule] + row["rules"]):
                    trial = {**row, "defaults": defaults, "rules": rules}
                    if right(trial, tests, target):
                        yield trial


def describe(cls):
    default = build(cls, {})
    if isinstance(default, Exception):
        return None
    row = {"type": cls.model_type}
    subs = subs_of(cls, default)
    if subs:
        row["subs"] = subs
    flat = {k: v for k, v in default.items() if k not in subs}
    fields, docs = documents(cls, flat)
    tests = [(d, r) for d, r in ((d, build(cls, d)) for d in docs) if not isinstance(r, Exception)]
    tests = [(d, {k: v for k, v in r.items() if k not in subs}) for d, r in tests]
    row["defaults"] = {k: v for k, v in flat.items() if not same(v, BASE.get(k, ABSENT))}
    # Aliases, and fields that the class takes without keeping them.
    aliases = {}
    for name in fields:
        to = cls.attribute_map.get(name)
        singles = [(d, r) for d, r in tests if list(d) == [name] and d[name] is not None]
        if to and singles:
            aliases[name] = to if all(same(r.get(to), d[name]) for d, r in singles) else ""
        elif any(name in d for d, _ in tests) and all(name not in r for d, r in tests if name in d):
            aliases[name] = ""
    row["map"] = aliases
    row = min((derive(cls, {**row, "late": late}, flat, fields, tests) for late in (False, True)[:1 + any(aliases.values())]),
              key=lambda r: sum(map(len, wrong(r, tests).values())))
    for f, docs in sorted(wrong(row, tests).items()):
        print(f"unexplained: {cls.__name__}.{f}: {len(docs)} of {len(tests)}, first {json.dumps(docs[0])[:100]}", file=sys.stderr)
    row["rules"] = row["rules"] + rope_rules(cls, flat)
    row["checks"] = checks_of(cls, flat)
    return {k: v for k, v in row.items() if v or k == "type"}


BASE = {k: plain(v) for k, v in PretrainedConfig().to_dict().items() if k in KEEP}
model_types, rows = {}, {}
for model_type in CONFIG_MAPPING_NAMES:
    if model_type not in NETWORK:
        model_types[model_type] = class_of(CONFIG_MAPPING[model_type])
while todo := [n for n in CLASSES if n not in rows]:
    for n in todo:
        rows[n] = describe(CLASSES[n])
rows = {n: r for n, r in rows.items() if r}
model_types = {t: n for t, n in model_types.items() if n in rows}


def compact(row):
    if "rules" in row:
        row = {**row, "rules": [[r["set"], r["if"], r["to"]] for r in row["rules"]]}
    return row


def line(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=False, ensure_ascii=False, allow_nan=False)


print("{")
print(f'"version":{line(transformers.__version__)},')
print(f'"base":{line(BASE)},')
print(f'"model_types":{line(dict(sorted(model_types.items())))},')
print('"classes":{')
print(",\n".join(f"{line(n)}:{line(compact(rows[n]))}" for n in sorted(rows)))
print("}}")
