//! The format's rules: for each a file that violates it, with exactly the expected findings.

use gguf_format::check::{self, KEPT, Place, RULES, Report, Severity};
use gguf_format::{Array, ByteOrder, Dialect, GgmlType, Gguf, Head, Kv, TensorInfo, Value, ValueType, Version};

/// An encoded head, padded to the alignment and followed by `data` zero bytes.
fn file(head: &Head, alignment: usize, data: usize) -> Vec<u8> {
    let mut bytes = head.encode_as_read().unwrap();
    bytes.resize(bytes.len().next_multiple_of(alignment) + data, 0);
    bytes
}

fn kv(key: &str, value: impl Into<Value>) -> Kv {
    Kv { key: key.as_bytes().to_vec(), value: value.into() }
}

fn tensor(name: &str, shape: &[u64], ty: GgmlType, offset: u64) -> TensorInfo {
    TensorInfo { offset, ..TensorInfo::new(name, shape, ty) }
}

/// 32 bytes of data for each `w`.
fn w(name: &str, offset: u64) -> TensorInfo {
    tensor(name, &[8], GgmlType::F32, offset)
}

fn with_kvs(kvs: Vec<Kv>) -> Vec<u8> {
    file(&Head { kvs, ..Head::default() }, 32, 0)
}

fn with_tensors(tensors: Vec<TensorInfo>, data: usize) -> Vec<u8> {
    file(&Head { tensors, ..Head::default() }, 32, data)
}

fn in_dialect(dialect: Dialect) -> Vec<u8> {
    let alignment = if dialect.version == Version::Draft { 64 } else { 32 };
    file(&Head { dialect, kvs: vec![kv("general.name", "x"), kv("a.b", 1u8)], ..Head::default() }, alignment, 0)
}

fn array(elem: ValueType, values: Vec<Value>) -> Array {
    let mut array = Array::new(elem);
    for v in &values {
        array.push(v.as_ref()).unwrap();
    }
    array
}

fn nested(depth: usize) -> Value {
    let mut value = Value::Array(array(ValueType::BOOL, vec![Value::Bool(1)]));
    for _ in 1..depth {
        value = Value::Array(array(ValueType::ARRAY, vec![value]));
    }
    value
}

/// `bytes` with some of them replaced.
fn patched(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

fn cut(mut bytes: Vec<u8>, n: usize) -> Vec<u8> {
    bytes.truncate(bytes.len() - n);
    bytes
}

fn longer(mut bytes: Vec<u8>, with: &[u8]) -> Vec<u8> {
    bytes.extend_from_slice(with);
    bytes
}

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// The codes of all rules that have findings.
    codes: &'static [&'static str],
}

/// The offsets of the first key's length and of the key itself.
const FIRST_KEY: usize = 24;

fn cases() -> Vec<Case> {
    let v3 = Dialect::new(Version::V3);
    let mut cases = vec![];
    let mut case = |name, bytes, codes| cases.push(Case { name, bytes, codes });

    case("nothing in it", file(&Head::default(), 1, 0), &[]);
    case("nothing in it, padded", file(&Head::default(), 32, 0), &[]);
    case("two keys", with_kvs(vec![kv("general.name", "x"), kv("gpt-oss.n_1", 1u8)]), &[]);
    case("two tensors", with_tensors(vec![w("a", 0), w("b", 32)], 64), &[]);
    let odd = vec![tensor("a", &[1], GgmlType::F32, 0), w("b", 32)];
    case("padding between", with_tensors(odd, 64), &[]);
    let aligned =
        Head { kvs: vec![kv("general.alignment", 64u32)], tensors: vec![w("a", 0), w("b", 64)], ..Head::default() };
    case("alignment 64", file(&aligned, 64, 128), &[]);

    // Unreadable heads.
    case("empty", vec![], &["file.kind"]);
    case("html", b"<!DOCTYPE html><html><body>not found</body></html>".to_vec(), &["file.kind"]);
    case("version 4", patched(with_kvs(vec![]), 4, &[4]), &["file.version"]);
    case("version 0", patched(with_kvs(vec![]), 4, &[0]), &["file.version"]);
    case("absurd n_tensors", patched(with_kvs(vec![]), 8, &u64::MAX.to_le_bytes()), &["head.counts"]);
    case("absurd n_kv", patched(with_kvs(vec![]), 16, &(1u64 << 60).to_le_bytes()), &["head.counts"]);
    case("cut in the counts", cut(file(&Head::default(), 1, 0), 4), &["head.counts"]);
    let one = || with_kvs(vec![kv("general.name", "x"), kv("a.b", 1u8)]);
    case("key beyond the file", patched(one(), FIRST_KEY, &[200]), &["head.past_end"]);
    case("key longer than any", patched(one(), FIRST_KEY, &[0, 0, 1]), &["head.past_end", "key.length"]);
    case("string beyond the file", patched(one(), FIRST_KEY + 24, &[255]), &["head.past_end"]);
    case("value type 13", patched(one(), FIRST_KEY + 20, &[13]), &["value.type"]);
    case(
        "array of value type 99",
        {
            let a = with_kvs(vec![kv("a", array(ValueType::U8, vec![])), kv("B", 1u8)]);
            patched(a, FIRST_KEY + 13, &[99])
        },
        &["value.type"],
    );
    let long_name = with_tensors(vec![w("a", 0)], 32);
    case("tensor name beyond the file", patched(long_name.clone(), FIRST_KEY, &[60]), &["head.past_end"]);
    case(
        "tensor name longer than any",
        patched(long_name.clone(), FIRST_KEY, &[255, 255]),
        &["head.past_end", "tensor.name.length"],
    );
    case("a billion dimensions", patched(long_name, FIRST_KEY + 9, &[0, 0, 0, 64]), &["head.past_end", "tensor.dims"]);
    case(
        "what stands before the break is judged",
        {
            let b = with_kvs(vec![kv("A", 1u8), kv("A", 1u8), kv("c", "text")]);
            cut(b, 32)
        },
        &["head.past_end", "key.duplicate", "key.spelling"],
    );

    // Keys and values.
    case("empty key", with_kvs(vec![kv("", 1u8)]), &["key.empty"]);
    case("key of 65535", with_kvs(vec![kv(&"k".repeat(65_535), 1u8)]), &[]);
    case("key of 65536", with_kvs(vec![kv(&"k".repeat(65_536), 1u8)]), &["key.length"]);
    case("the same key twice", with_kvs(vec![kv("a", 1u8), kv("b", 1u8), kv("a", 2u16)]), &["key.duplicate"]);
    case("bool 2", with_kvs(vec![kv("a", Value::Bool(2))]), &["value.bool"]);
    case("bools", with_kvs(vec![kv("a", array(ValueType::BOOL, vec![Value::Bool(0), Value::Bool(1)]))]), &[]);
    case(
        "bool 255 in an array",
        with_kvs(vec![kv("a", array(ValueType::BOOL, vec![Value::Bool(1), Value::Bool(255)]))]),
        &["value.bool"],
    );
    case(
        "bool 3 in an array in an array",
        {
            let inner = |b| Value::Array(array(ValueType::BOOL, vec![Value::Bool(1), Value::Bool(b)]));
            with_kvs(vec![kv("a", array(ValueType::ARRAY, vec![inner(0), inner(3)]))])
        },
        &["readers.nested", "value.bool"],
    );
    case("bool 2 in an array", with_kvs(vec![kv("a", array(ValueType::BOOL, vec![Value::Bool(2)]))]), &["value.bool"]);
    case("nested 64 deep", with_kvs(vec![kv("a", nested(64))]), &["readers.nested"]);
    case("nested 65 deep", with_kvs(vec![kv("a", nested(65))]), &["value.nesting"]);
    case("alignment 0", with_kvs(vec![kv("general.alignment", 0u32)]), &["alignment.value"]);
    case("an alignment to C", with_kvs(vec![kv("general.alignment\0", 64u32)]), &["alignment.alias", "key.nul"]);
    case("alignment 33", with_kvs(vec![kv("general.alignment", 33u32)]), &["alignment.value"]);
    case("alignment 32 as u64", with_kvs(vec![kv("general.alignment", 32u64)]), &["alignment.type"]);
    case("alignment -1", with_kvs(vec![kv("general.alignment", -1i32)]), &["alignment.type"]);
    case("alignment as text", with_kvs(vec![kv("general.alignment", "32")]), &["alignment.type"]);
    let by_24 = Head { kvs: vec![kv("general.alignment", 24u32)], tensors: vec![w("a", 0)], ..Head::default() };
    case("alignment 24", file(&by_24, 24, 48), &["readers.alignment"]);
    let by_4 = Head { kvs: vec![kv("general.alignment", 4u32)], tensors: vec![w("a", 0)], ..Head::default() };
    case("alignment 4", file(&by_4, 4, 32), &["alignment.small"]);
    case("spelling", with_kvs(vec![kv("General.Name", "x"), kv("a..b", 1u8), kv("a b", 1u8)]), &["key.spelling"]);
    case("key in Greek", with_kvs(vec![kv("κλειδί", 1u8)]), &["key.ascii"]);
    case(
        "key that is not text",
        with_kvs(vec![Kv { key: vec![0xff], value: 1u8.into() }]),
        &["key.ascii", "readers.key"],
    );
    case("key with NUL", with_kvs(vec![kv("a\0b", 1u8)]), &["key.nul"]);
    case("gguf-py's own key", with_kvs(vec![kv("GGUF.version", 1u8)]), &["key.spelling", "readers.key"]);
    case("text that is not UTF-8", with_kvs(vec![kv("a", Value::String(vec![b'x', 0xc3]))]), &["value.utf8"]);
    case("text with NUL", with_kvs(vec![kv("a", "x\0y"), kv("b", 1u8)]), &["value.nul"]);

    // Tensor infos.
    let named = |n: usize| with_tensors(vec![w(&"n".repeat(n), 0)], 32);
    case("name of 63", named(63), &[]);
    case("name of 64", named(64), &["tensor.name.64"]);
    case("name of 65", named(65), &["tensor.name.length"]);
    case("no name", named(0), &["tensor.name.empty"]);
    case("name with NUL", with_tensors(vec![w("a\0b", 0)], 32), &["tensor.name.nul"]);
    case(
        "name that is not text",
        with_tensors(vec![TensorInfo { name: vec![0xfe], ..w("", 0) }], 32),
        &["tensor.name.utf8"],
    );
    case("the same name twice", with_tensors(vec![w("a", 0), w("a", 32)], 64), &["tensor.duplicate"]);
    case("4 dimensions", with_tensors(vec![tensor("a", &[8, 1, 1, 1], GgmlType::F32, 0)], 32), &[]);
    case("5 dimensions", with_tensors(vec![tensor("a", &[8, 1, 1, 1, 1], GgmlType::F32, 0)], 32), &["tensor.dims"]);
    case("no dimensions", with_tensors(vec![tensor("a", &[], GgmlType::F32, 0)], 32), &["tensor.scalar"]);
    case(
        "a dimension of 0",
        with_tensors(vec![tensor("a", &[8, 0], GgmlType::F32, 0), w("b", 0)], 32),
        &["tensor.empty"],
    );
    let big = |shape: &[u64], ty| with_tensors(vec![tensor("a", shape, ty, 0)], 0);
    case("elements overflow", big(&[1 << 32, 1 << 31], GgmlType::I8), &["tensor.size"]);
    case("bytes overflow", big(&[1 << 62], GgmlType::F32), &["tensor.size"]);
    case("bytes overflow to 0", big(&[1 << 32, 1 << 32], GgmlType::I8), &["tensor.size"]);
    case("negative dimension", big(&[u64::MAX], GgmlType::I8), &["tensor.size"]);
    case("negative dimension behind 0", big(&[0, u64::MAX], GgmlType::I8), &["tensor.empty", "tensor.size"]);
    case("half a block", with_tensors(vec![tensor("a", &[48], GgmlType::Q8_0, 0)], 64), &["tensor.row"]);
    case("type 43", with_tensors(vec![tensor("a", &[32], GgmlType(43), 0)], 64), &["tensor.type.unknown"]);
    case("type 2^31", with_tensors(vec![tensor("a", &[32], GgmlType(1 << 31), 0)], 64), &["tensor.type.unknown"]);
    case("removed type", with_tensors(vec![tensor("a", &[32], GgmlType::Q4_0_4_8, 0)], 32), &["tensor.type.removed"]);

    // Tensor data.
    case(
        "unaligned",
        with_tensors(vec![w("a", 0), w("b", 40)], 96),
        &["data.gap", "readers.offsets", "tensor.unaligned"],
    );
    case("one byte short", cut(with_tensors(vec![w("a", 0), w("b", 32)], 64), 1), &["file.truncated", "tensor.bounds"]);
    case("no data", with_tensors(vec![w("a", 0)], 0), &["file.truncated", "tensor.bounds"]);
    case(
        "far out",
        with_tensors(vec![w("a", 1 << 40)], 32),
        &["data.gap", "file.truncated", "readers.offsets", "tensor.bounds"],
    );
    case("beyond 64 bits", with_tensors(vec![w("a", u64::MAX - 31)], 32), &["readers.offsets", "tensor.bounds"]);
    case(
        "unknown type far out",
        with_tensors(vec![tensor("a", &[32], GgmlType(99), 1 << 40)], 32),
        &["readers.offsets", "tensor.bounds", "tensor.type.unknown"],
    );
    case(
        "partly overlapping",
        with_tensors(vec![tensor("a", &[16], GgmlType::F32, 0), tensor("b", &[16], GgmlType::F32, 32)], 96),
        &["readers.offsets", "tensor.overlap"],
    );
    case(
        "one inside the other",
        with_tensors(vec![tensor("a", &[24], GgmlType::F32, 0), w("b", 32)], 96),
        &["readers.offsets", "tensor.overlap"],
    );
    let chain = |n, end| {
        let of = |name: &str, shape: &[u64], offset| tensor(name, shape, GgmlType::F32, offset);
        with_tensors(vec![of("a", &[16], 0), of("b", &[n], 32), of("c", &[8], 96)], end)
    };
    case("the second runs into the third", chain(24, 128), &["readers.offsets", "tensor.overlap"]);
    case("the second ends where the third starts", chain(16, 128), &["readers.offsets", "tensor.overlap"]);
    case(
        "nothing, inside another tensor",
        with_tensors(vec![tensor("a", &[16], GgmlType::F32, 0), tensor("b", &[0], GgmlType::F32, 32)], 64),
        &["readers.offsets", "tensor.empty"],
    );
    case(
        "nothing, far out",
        with_tensors(vec![tensor("a", &[0], GgmlType::F32, 1 << 20)], 0),
        &["data.gap", "file.truncated", "readers.offsets", "tensor.bounds", "tensor.empty"],
    );
    case("shared", with_tensors(vec![w("a", 0), w("b", 0)], 32), &["readers.offsets", "tensor.shared"]);
    case("other order", with_tensors(vec![w("a", 32), w("b", 0)], 64), &["data.order", "readers.offsets"]);
    case("gap", with_tensors(vec![w("a", 0), w("b", 64)], 96), &["data.gap", "readers.offsets"]);
    case("gap in front", with_tensors(vec![w("a", 32)], 64), &["data.gap", "readers.offsets"]);
    case("trailing bytes", longer(with_tensors(vec![w("a", 0)], 32), b"PK"), &["file.trailing"]);
    case("trailing bytes without tensors", longer(file(&Head::default(), 32, 0), b"x"), &["file.trailing"]);
    case("last padding missing", with_tensors(vec![tensor("a", &[5], GgmlType::F32, 0)], 20), &["file.tail"]);
    let hollow = Head { tensors: vec![tensor("a", &[0], GgmlType::F32, 0)], ..Head::default() };
    case(
        "nothing to store, no data section",
        file(&hollow, 1, 0),
        &["file.truncated", "readers.no_data", "tensor.bounds", "tensor.empty"],
    );
    case(
        "a bad alignment hides no other fault",
        {
            let kvs = vec![kv("general.alignment", 0u32)];
            file(&Head { kvs, tensors: vec![w("a", 1 << 20)], ..Head::default() }, 32, 32)
        },
        &["alignment.value", "file.truncated", "tensor.bounds"],
    );

    case(
        "a bad alignment and data that is short in any case",
        {
            let kvs = vec![kv("general.alignment", 0u32)];
            let mut bytes = Head { kvs, tensors: vec![w("a", 0)], ..Head::default() }.encode_as_read().unwrap();
            bytes.resize(bytes.len() + 31, 0);
            bytes
        },
        &["alignment.value", "file.truncated", "tensor.bounds"],
    );

    // Versions and byte orders.
    case("version 1", in_dialect(Dialect::new(Version::V1)), &["readers.version"]);
    case("version 2", in_dialect(Dialect::new(Version::V2)), &[]);
    case("big-endian", in_dialect(v3.with_order(ByteOrder::Big)), &["readers.byte_order"]);
    let mut nul_strings = Dialect::new(Version::V2);
    nul_strings.nul_strings = true;
    case("NULs counted", in_dialect(nul_strings), &["file.nul_strings"]);
    let mut reversed = v3.with_order(ByteOrder::Big);
    reversed.reversed_magic = true;
    case("magic backwards", in_dialect(reversed), &["file.magic", "readers.byte_order"]);
    let draft = Dialect::new(Version::Draft);
    case("draft", in_dialect(draft), &["file.draft", "readers.version"]);
    // The count of 8 before the first string's length of 1 would be a contradiction.
    let lying = patched(in_dialect(draft), 16 + 4 + 12 + 4 + 4 + 4 + 1 + 4 + 3, &[2]);
    case("draft with a wrong length", lying, &["draft.length", "file.draft", "readers.version"]);
    let draft_tensor =
        Head { dialect: draft, kvs: vec![kv("general.name", "x"), kv("a.b", 1u8)], tensors: vec![w("a", 128)] };
    case("draft with a tensor", file(&draft_tensor, 64, 64), &["file.draft", "readers.version"]);
    let in_head = Head { tensors: vec![w("a", 64)], ..draft_tensor.clone() };
    case(
        "draft with data in the head",
        file(&in_head, 64, 0),
        &["file.draft", "readers.offsets", "readers.version", "tensor.in_head"],
    );
    let at = draft_tensor.encode_as_read().unwrap().len() - 16;
    case(
        "draft with a wrong count",
        patched(file(&draft_tensor, 64, 64), at, &[9]),
        &["draft.elements", "file.draft", "readers.version"],
    );
    cases
}

fn codes(report: &Report) -> Vec<&'static str> {
    report.codes().collect()
}

#[test]
fn every_case_has_its_findings_and_no_others() {
    for case in cases() {
        let n = case.bytes.len() as u64;
        let report = check::format(&case.bytes, n);
        assert_eq!(codes(&report), case.codes, "{}: {:#?}", case.name, report.findings().collect::<Vec<_>>());

        let structure = check::structure(&case.bytes, n);
        let structural = |code: &&str| RULES.iter().any(|rule| rule.code == *code && rule.structural);
        let due: Vec<&str> = case.codes.iter().copied().filter(structural).collect();
        assert_eq!(codes(&structure), due, "{}", case.name);
        // Sharing data is safe if the reader expects it, so it is reported.
        let is_safe = due.iter().all(|code| *code == "tensor.shared");
        assert_eq!(structure.is_safe(), is_safe, "{}", case.name);
        assert_eq!(report.is_safe(), is_safe, "{}", case.name);
    }
}

#[test]
fn whatever_does_not_parse_is_an_error_and_what_is_safe_parses() {
    for case in cases() {
        let n = case.bytes.len() as u64;
        let parsed = Gguf::parse_within(&case.bytes, Some(n));
        if check::structure(&case.bytes, n).is_safe() {
            assert!(parsed.is_ok(), "{}: {parsed:?}", case.name);
        }
    }
}

#[test]
fn every_rule_has_a_case() {
    let all = cases();
    // These have separate tests: two depend on more than the bytes of a head, one is a case of the corpus.
    let elsewhere = ["data.padding", "input.short", "draft.padding"];
    for rule in RULES {
        let hit = all.iter().any(|case| case.codes.contains(&rule.code)) || elsewhere.contains(&rule.code);
        assert!(hit, "{} has no case", rule.code);
    }
}

#[test]
fn the_table_of_rules_is_sound() {
    for (i, rule) in RULES.iter().enumerate() {
        let spelled = rule.code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b));
        assert!(spelled && rule.code.contains('.'), "{}", rule.code);
        assert!(RULES[..i].iter().all(|other| other.code != rule.code), "{} twice", rule.code);
        let may_warn = rule.code == "tensor.shared";
        assert!(!rule.structural || may_warn || rule.severity == Severity::Error, "{}", rule.code);
        for text in [rule.expected, rule.hint, rule.source] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", rule.code);
        }
    }
}

#[test]
fn places_and_messages() {
    let bytes = with_kvs(vec![kv("a", 1u8), kv("x\x1b[2J", Value::Bool(7))]);
    let report = check::format(&bytes, bytes.len() as u64);
    let first = report.findings().find(|f| f.code == "value.bool").unwrap();
    assert_eq!(first.place, Place::Key { name: "x\\u{1b}[2J".into(), offset: Some(24 + 8 + 1 + 4 + 1) });
    assert_eq!(first.message, "the byte is 7");
    assert_eq!(first.to_string(), "error value.bool: key x\\u{1b}[2J: the byte is 7");
    assert_eq!((first.structural, report.worst()), (true, Some(Severity::Error)));

    let bytes = cut(with_tensors(vec![w("a", 0), w("b", 32), w("c", 64)], 96), 40);
    let report = check::structure(&bytes, bytes.len() as u64);
    let lacks = report.findings().find(|f| f.code == "file.truncated").unwrap();
    assert_eq!(lacks.place.offset(), Some(bytes.len() as u64));
    assert!(lacks.message.starts_with("the file lacks 40 of "), "{}", lacks.message);
    assert!(lacks.message.ends_with("; 2 of 3 tensors are affected"), "{}", lacks.message);
    let kind = check::structure(b"PK\x03\x04________________________", 28);
    let kind = kind.findings().next().unwrap();
    assert_eq!(
        (kind.message.as_str(), kind.hint.as_ref()),
        ("a zip archive or PyTorch checkpoint", "a PyTorch checkpoint must be converted to GGUF")
    );
}

#[test]
fn long_names_are_cut_between_characters() {
    let name = "ä".repeat(60);
    let bytes = with_tensors(vec![w(&name, 0)], 32);
    let report = check::structure(&bytes, bytes.len() as u64);
    let found = report.findings().next().unwrap();
    assert_eq!(found.place, Place::Tensor { name: format!("{}… (120 bytes)", "ä".repeat(48)), offset: Some(24) });
    let name = format!("x{name}");
    let bytes = with_tensors(vec![w(&name, 0)], 32);
    let report = check::structure(&bytes, bytes.len() as u64);
    let found = report.findings().next().unwrap();
    assert_eq!(found.place, Place::Tensor { name: format!("x{}… (121 bytes)", "ä".repeat(47)), offset: Some(24) });
}

#[test]
fn many_findings_of_a_rule_are_counted() {
    let bytes = with_kvs((0..100).map(|i| kv(&format!("K{i}"), 1u8)).collect());
    let report = check::format(&bytes, bytes.len() as u64);
    assert_eq!(report.findings().count() as u64, KEPT + 1);
    assert_eq!((report.count_of("key.spelling"), report.count(Severity::Warning)), (100, 100));
    assert_eq!(report.findings().last().unwrap().message, "and 80 more of this kind");

    let mut both = check::format(&bytes, bytes.len() as u64);
    both.append(report);
    assert_eq!(both.findings().count() as u64, KEPT + 1);
    assert_eq!(both.findings().last().unwrap().message, "and 180 more of this kind");
    let mut from_nothing = Report::new();
    from_nothing.append(both);
    assert_eq!(from_nothing.findings().count() as u64, KEPT + 1);
    assert_eq!(from_nothing.count_of("key.spelling"), 200);
}

#[test]
fn overlaps_are_told_of_the_widest_tensor_so_far() {
    let of = |name: &str, n, offset| tensor(name, &[n], GgmlType::F32, offset);
    let bytes = with_tensors(vec![of("a", 16, 0), of("b", 24, 32), of("c", 8, 96)], 128);
    let report = check::structure(&bytes, bytes.len() as u64);
    let messages: Vec<String> = report.findings().map(|f| f.to_string()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("tensor b") && messages[0].contains("overlap tensor a,"), "{messages:?}");
    assert!(messages[1].contains("tensor c") && messages[1].contains("overlap tensor b,"), "{messages:?}");
}

#[test]
fn too_little_of_the_head() {
    let bytes = with_kvs(vec![kv("general.name", "x"), kv("a.b", 1u8)]);
    let report = check::structure(&bytes[..30], bytes.len() as u64);
    assert_eq!(codes(&report), ["input.short"]);
    // The data is not needed.
    let bytes = with_tensors(vec![w("a", 0)], 32);
    assert!(check::format(&bytes[..bytes.len() - 32], bytes.len() as u64).is_empty());
}

#[test]
fn padding_that_is_not_zero() {
    let tensors = vec![tensor("a", &[1], GgmlType::F32, 0), tensor("b", &[1], GgmlType::F32, 32)];
    let clean = with_tensors(tensors, 64);
    let n = clean.len();
    // Offset, and whether it is padding.
    let cases = [
        (n - 64, false),
        (n - 60, true),
        (n - 33, true),
        (n - 32, false),
        (n - 28, true),
        (n - 1, true),
        (n - 65, true),
    ];
    for (at, is_padding) in cases {
        let bytes = patched(clean.clone(), at, &[1]);
        let gguf = Gguf::parse(&bytes).unwrap();
        let report = check::padding(&gguf, n as u64, |at, into| {
            into.copy_from_slice(&bytes[at as usize..][..into.len()]);
            true
        });
        assert_eq!(codes(&report), if is_padding { vec!["data.padding"] } else { vec![] }, "byte {at} of {n}");
        if is_padding {
            assert_eq!(report.findings().next().unwrap().place, Place::Offset(at as u64));
        }
    }
    let gguf = Gguf::parse(&clean).unwrap();
    assert!(check::padding(&gguf, n as u64, |_, _| false).is_empty());
}

#[test]
fn no_prefix_is_safe_and_none_panics() {
    let head = Head {
        kvs: vec![kv("general.name", "x"), kv("general.alignment", 32u32), kv("a", nested(3))],
        tensors: vec![w("a", 0), w("b", 32)],
        ..Head::default()
    };
    let bytes = file(&head, 32, 64);
    for n in 0..bytes.len() {
        assert!(!check::format(&bytes[..n], n as u64).is_safe(), "{n} of {}", bytes.len());
    }
    assert!(check::format(&bytes, bytes.len() as u64).is_safe());
}

#[test]
fn digits_of_long_numbers_are_grouped() {
    for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(check::grouped(n), text);
    }
}
