//! Hostile safetensors files and indices, each with the expected error.

use crate::checkpoint::{Tensor, f32_data, safetensors};

/// Files of a rejected checkpoint directory, and a part of the message.
#[derive(Clone, Debug)]
pub struct Hostile {
    pub name: String,
    /// Names in the folder, and contents.
    pub files: Vec<(String, Vec<u8>)>,
    pub expected: &'static str,
}

const FILE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The name of a tensor in the tests' models, where it has eight rows of sixteen single-precision values.
const NAME: &str = "model.embed_tokens.weight";

/// A file with an arbitrary head and `data_bytes` bytes of data.
pub fn with_head(json: &[u8], data_bytes: usize) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes()[..], json, &vec![0; data_bytes]].concat()
}

/// The entry of a tensor.
fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}"#)
}

/// A valid file with one tensor.
fn sound() -> Vec<u8> {
    let tensor: Tensor<'_> = (NAME, "F32", &[8, 16], f32_data(1, 128));
    safetensors(&[tensor])
}

/// All files.
pub fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    let mut add = |name: &str, files: Vec<(&str, Vec<u8>)>, expected| {
        let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        all.push(Hostile { name: name.to_owned(), files, expected });
    };
    lengths(&mut add);
    heads(&mut add);
    tensors(&mut add);
    truncated(&mut add);
    indices(&mut add);
    all
}

type Add<'a> = dyn FnMut(&str, Vec<(&str, Vec<u8>)>, &'static str) + 'a;

/// The length of the head.
fn lengths(add: &mut Add<'_>) {
    let sound = sound();
    for (claimed, expected) in [
        (0, "does not start with {"),
        (1, "cannot be read"),
        (1 << 20, "only"),
        (100_000_000, "only"),
        (100_000_001, "at most 100000000"),
        (1 << 32, "at most 100000000"),
        (1 << 63, "at most 100000000"),
        (u64::MAX, "at most 100000000"),
        (u64::MAX - 7, "at most 100000000"),
    ] {
        let bytes = [&u64::to_le_bytes(claimed)[..], &sound[8..]].concat();
        add(&format!("head of {claimed} bytes"), vec![(FILE, bytes)], expected);
    }
    add("a head of 100 MB in a short file", vec![(FILE, [&100_000_000u64.to_le_bytes()[..], b"{"].concat())], "only 1");
}

/// The head as JSON.
fn heads(add: &mut Add<'_>) {
    let deep = |open: &str, close: &str| format!("{{\"a\":{}1{}}}", open.repeat(100_000), close.repeat(100_000));
    let whole = entry(NAME, "\"F32\"", "[8,16]", "[0,512]");
    let cases: Vec<(&str, Vec<u8>, usize, &'static str)> = vec![
        ("an empty object", b"{}".to_vec(), 0, "missing"),
        ("an array", b"[]".to_vec(), 0, "does not start with {"),
        ("spaces first", b" {}".to_vec(), 0, "does not start with {"),
        ("a byte order mark", b"\xef\xbb\xbf{}".to_vec(), 0, "does not start with {"),
        ("UTF-16", b"{\0}\0".to_vec(), 0, "cannot be read"),
        ("not UTF-8", b"{\"\xff\xfe\":{}}".to_vec(), 0, "cannot be read"),
        ("half a surrogate", br#"{"\ud800":{}}"#.to_vec(), 0, "cannot be read"),
        ("a control character", b"{\"a\n\":{}}".to_vec(), 0, "cannot be read"),
        (
            "NUL bytes after the object",
            [&format!("{{{whole}}}").into_bytes()[..], &[0; 8]].concat(),
            512,
            "cannot be read",
        ),
        ("two objects", b"{}{}".to_vec(), 0, "cannot be read"),
        ("a comment", b"{/**/}".to_vec(), 0, "cannot be read"),
        ("a comma too many", format!("{{{whole},}}").into_bytes(), 512, "cannot be read"),
        ("nested arrays", deep("[", "]").into_bytes(), 0, "cannot be read"),
        ("nested objects", deep("{\"a\":", "}").into_bytes(), 0, "cannot be read"),
        ("nested metadata", deep("[", "]").replace("\"a\"", "\"__metadata__\"").into_bytes(), 0, "cannot be read"),
        ("metadata of numbers", br#"{"__metadata__":{"a":1}}"#.to_vec(), 0, "expected a string"),
        ("metadata that is a list", br#"{"__metadata__":["a"]}"#.to_vec(), 0, "cannot be read"),
        ("metadata twice", br#"{"__metadata__":{},"__metadata__":{}}"#.to_vec(), 0, "duplicate name"),
        ("a key of metadata twice", br#"{"__metadata__":{"a":"","a":""}}"#.to_vec(), 0, "duplicate name"),
        ("a name twice", format!("{{{whole},{whole}}}").into_bytes(), 512, "duplicate name"),
        (
            "a name twice, once escaped",
            format!("{{{whole},{}}}", whole.replacen('m', r"\u006d", 1)).into_bytes(),
            512,
            "duplicate name",
        ),
        (
            "a field twice",
            format!("{{{}}}", whole.replace("\"shape\"", "\"dtype\":\"F32\",\"shape\"")).into_bytes(),
            512,
            "duplicate field",
        ),
        ("no dtype", br#"{"a":{"shape":[1],"data_offsets":[0,4]}}"#.to_vec(), 4, "missing field `dtype`"),
        ("no shape", br#"{"a":{"dtype":"F32","data_offsets":[0,4]}}"#.to_vec(), 4, "missing field `shape`"),
        ("no offsets", br#"{"a":{"dtype":"F32","shape":[1]}}"#.to_vec(), 4, "missing field `data_offsets`"),
        ("a tensor that is null", br#"{"a":null}"#.to_vec(), 0, "cannot be read"),
        // Like the format's own library, lists of the three fields are accepted.
        ("a tensor that is a list", br#"{"a":["F32",[1],[0,4]]}"#.to_vec(), 4, "has no place"),
        (
            "a million dimensions",
            format!("{{{}}}", entry("a", "\"F32\"", &format!("[{}1]", "1,".repeat(1 << 20)), "[0,4]")).into_bytes(),
            4,
            "more than 64",
        ),
    ];
    for (name, json, data, expected) in cases {
        add(name, vec![(FILE, with_head(&json, data))], expected);
    }
}

/// Formats, shapes and offsets of one tensor after a valid one, which ends at 8.
fn tensors(add: &mut Add<'_>) {
    let cases: &[(&str, &str, &str, &str, usize, &'static str)] = &[
        ("an unknown format", "\"F99\"", "[1]", "[8,12]", 12, "unknown format \"F99\""),
        ("a format in small letters", "\"f32\"", "[1]", "[8,12]", 12, "unknown format"),
        ("an empty format", "\"\"", "[1]", "[8,12]", 12, "unknown format"),
        ("a format that is a number", "32", "[1]", "[8,12]", 12, "cannot be read"),
        ("a negative dimension", "\"F32\"", "[-1]", "[8,12]", 12, "cannot be read"),
        ("a fraction", "\"F32\"", "[1.5]", "[8,12]", 12, "cannot be read"),
        ("an exponent", "\"F32\"", "[1e0]", "[8,12]", 12, "cannot be read"),
        ("a dimension as text", "\"F32\"", "[\"1\"]", "[8,12]", 12, "cannot be read"),
        ("a dimension of 2^64", "\"F32\"", "[18446744073709551616]", "[8,12]", 12, "cannot be read"),
        ("a dimension of 2^64 - 1", "\"F32\"", "[18446744073709551615]", "[8,12]", 12, "no size"),
        ("a product of 2^64", "\"F32\"", "[4294967296,4294967296]", "[8,8]", 8, "no size"),
        ("a product that wraps to 1", "\"F32\"", "[4611686018427387905,1]", "[8,12]", 12, "no size"),
        ("a product of 2^64, times 0", "\"F32\"", "[4294967296,4294967296,0]", "[8,8]", 8, "no size"),
        ("bytes of 2^64", "\"F64\"", "[2305843009213693952]", "[8,8]", 8, "no size"),
        ("half a byte", "\"F4\"", "[3]", "[8,9]", 9, "no size"),
        ("too many bytes", "\"F32\"", "[1]", "[8,16]", 16, "takes 4 bytes"),
        ("too few bytes", "\"F32\"", "[2]", "[8,12]", 12, "takes 8 bytes"),
        ("no bytes", "\"F32\"", "[1]", "[8,8]", 8, "takes 4 bytes"),
        ("offsets exchanged", "\"F32\"", "[1]", "[12,8]", 12, "offsets are 12 to 8"),
        ("negative offsets", "\"F32\"", "[1]", "[-4,0]", 12, "cannot be read"),
        ("offsets that wrap", "\"F32\"", "[1]", "[18446744073709551612,0]", 12, "18446744073709551612"),
        ("an offset of 2^64", "\"F32\"", "[1]", "[8,18446744073709551616]", 12, "cannot be read"),
        ("one offset", "\"F32\"", "[1]", "[8]", 12, "cannot be read"),
        ("three offsets", "\"F32\"", "[1]", "[8,12,16]", 12, "cannot be read"),
        ("offsets as an object", "\"F32\"", "[1]", "{}", 12, "cannot be read"),
        ("a hole", "\"F32\"", "[1]", "[12,16]", 16, "nothing covers the bytes from 8 on"),
        ("an overlap", "\"F32\"", "[1]", "[4,8]", 8, "inside the one before"),
        ("the same bytes", "\"F32\"", "[2]", "[0,8]", 8, "inside the one before"),
        ("past the end", "\"F32\"", "[1]", "[8,12]", 11, "has only 11 bytes"),
        ("far past the end", "\"F32\"", "[1073741824]", "[8,4294967304]", 12, "has only 12 bytes"),
        ("bytes of no tensor", "\"F32\"", "[1]", "[8,12]", 13, "1 bytes after the last tensor"),
    ];
    for (name, dtype, shape, offsets, data, expected) in cases {
        let json = format!("{{{},{}}}", entry("a", "\"F32\"", "[2]", "[0,8]"), entry("b", dtype, shape, offsets));
        add(name, vec![(FILE, with_head(json.as_bytes(), *data))], expected);
    }
    for dtype in ["BOOL", "U8", "I32", "C64"] {
        let bytes = [("C64", 8), ("I32", 4)].iter().find(|(name, _)| *name == dtype).map_or(1, |(_, bytes)| *bytes);
        let json = format!("{{{}}}", entry(NAME, &format!("{dtype:?}"), "[8,16]", &format!("[0,{}]", 128 * bytes)));
        add(
            &format!("weights of the format {dtype}"),
            vec![(FILE, with_head(json.as_bytes(), 128 * bytes))],
            "has the format",
        );
    }
    for (what, shape) in [("no dimensions", &[][..]), ("three dimensions", &[2, 4, 16]), ("other lengths", &[16, 8])] {
        let tensor: Tensor<'_> = (NAME, "F32", shape, vec![0; 4 * shape.iter().product::<u64>() as usize]);
        add(&format!("weights of {what}"), vec![(FILE, safetensors(&[tensor]))], NAME);
    }
}

/// A valid file, truncated.
fn truncated(add: &mut Add<'_>) {
    let sound = sound();
    let head = 8 + usize::from(sound[0]);
    for (len, expected) in [
        (0, "0 bytes"),
        (1, "1 bytes"),
        (7, "7 bytes"),
        (8, "only 0 follow"),
        (9, "only 1 follow"),
        (head - 1, "follow"),
        (head, "has only 0 bytes of data"),
        (head + 1, "has only 1 bytes of data"),
        (sound.len() - 1, "has only 511 bytes of data"),
    ] {
        add(&format!("cut off after {len} bytes"), vec![(FILE, sound[..len].to_vec())], expected);
    }
    for (name, bytes, expected) in [
        (
            "a pointer of git-lfs",
            &b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"[..],
            "git lfs pull",
        ),
        ("an HTML page", b"<!DOCTYPE html><html><body>Not found</body></html>", "not a safetensors file"),
        ("a zip archive", b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0", "not a safetensors file"),
        ("zeros", &[0; 64], "does not start with {"),
    ] {
        add(name, vec![(FILE, bytes.to_vec())], expected);
    }
}

/// Indices: their entries, and the files in which they locate tensors.
fn indices(add: &mut Add<'_>) {
    let index = |pairs: &[(&str, &str)]| {
        let pairs: Vec<String> =
            pairs.iter().map(|(tensor, file)| format!("{tensor:?}:{file:?}").replace(r"\0", r"\u0000")).collect();
        format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", pairs.join(",")).into_bytes()
    };
    for path in [
        "",
        ".",
        "..",
        "/",
        "/etc/passwd",
        "../model.safetensors",
        "a/model.safetensors",
        "./model.safetensors",
        "a/../model.safetensors",
        r"..\model.safetensors",
        r"\\host\share\model.safetensors",
        r"C:\model.safetensors",
        "C:model.safetensors",
        "file:///etc/passwd",
        "model.safetensors:stream",
        "model.safetensors\0",
        "model\n.safetensors",
    ] {
        let files = vec![(FILE, sound()), (INDEX, index(&[(NAME, path)]))];
        add(&format!("an index that names {path:?}"), files, "expected the name of a file in the folder");
    }
    let parts: &[(&str, &[u8], &'static str)] = &[
        ("an empty index", b"", "EOF"),
        ("an index without a map", b"{}", "weight_map"),
        ("a map that is a list", br#"{"weight_map":[]}"#, "invalid type"),
        ("a map of numbers", br#"{"weight_map":{"a":1}}"#, "expected a string"),
        ("a map twice", br#"{"weight_map":{},"weight_map":{}}"#, "duplicate field"),
        ("an index that is not UTF-8", b"{\"weight_map\":{\"\xff\":\"a\"}}", "index.json"),
        (
            "a tensor twice in an index",
            br#"{"weight_map":{"a":"model.safetensors","a":"model.safetensors"}}"#,
            "duplicate name",
        ),
    ];
    for (name, bytes, expected) in parts {
        add(name, vec![(FILE, sound()), (INDEX, bytes.to_vec())], expected);
    }
    add(
        "an index of a missing file",
        vec![(INDEX, index(&[(NAME, "gone.safetensors")]))],
        "missing: \"gone.safetensors\"",
    );
    add("a missing tensor", vec![(FILE, sound()), (INDEX, index(&[(NAME, FILE), ("b", FILE)]))], "in no file: \"b\"");
    add("an index that lists nothing", vec![(FILE, sound()), (INDEX, index(&[]))], "is missing");
    let (a, b): (Tensor<'_>, Tensor<'_>) =
        ((NAME, "F32", &[8, 16], f32_data(1, 128)), ("b", "F32", &[1], f32_data(1, 1)));
    add(
        "an unlisted tensor",
        vec![(FILE, safetensors(&[a, b])), (INDEX, index(&[(NAME, FILE)]))],
        "not in the index: \"b\"",
    );
    let twice = index(&[(NAME, "model-a.safetensors"), ("b", "model-b.safetensors")]);
    add(
        "a tensor in two files",
        vec![("model-a.safetensors", sound()), ("model-b.safetensors", sound()), (INDEX, twice)],
        "duplicate tensor",
    );
    add("two files without an index", vec![("model-a.safetensors", sound()), (FILE, sound())], "duplicate tensor");
    add(
        "a missing part",
        vec![("model-00002-of-00003.safetensors", sound())],
        "missing: \"model-00001-of-00003.safetensors\"",
    );
    add(
        "part 0 of 99999",
        vec![("model-00000-of-99999.safetensors", sound())],
        "missing: \"model-00001-of-99999.safetensors\"",
    );
}
