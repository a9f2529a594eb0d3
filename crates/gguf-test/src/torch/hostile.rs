//! PyTorch files that are dangerous to open with Python, and other invalid ones, each with the expected error.

use super::{End, Member, Pickle, Saved, file, members, state_dict, stream, stream_start, zip};

/// A file, and a part of the expected message.
#[derive(Clone, Debug)]
pub struct Hostile {
    pub name: String,
    pub bytes: Vec<u8>,
    pub expected: &'static str,
}

/// Modules and names whose lookup or instantiation runs code.
const GLOBALS: &[(&str, &str)] = &[
    ("os", "system"),
    ("os", "popen"),
    ("os", "execv"),
    ("posix", "system"),
    ("nt", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "compile"),
    ("builtins", "getattr"),
    ("builtins", "open"),
    ("builtins", "__import__"),
    ("builtins", "list"),
    ("__builtin__", "eval"),
    ("__builtin__", "apply"),
    ("subprocess", "Popen"),
    ("subprocess", "check_output"),
    ("importlib", "import_module"),
    ("runpy", "run_path"),
    ("pickle", "loads"),
    ("_pickle", "loads"),
    ("marshal", "loads"),
    ("types", "FunctionType"),
    ("operator", "attrgetter"),
    ("functools", "partial"),
    ("ctypes", "CDLL"),
    ("socket", "socket"),
    ("shutil", "rmtree"),
    ("pty", "spawn"),
    ("code", "InteractiveInterpreter"),
    ("pip", "main"),
    ("copyreg", "_reconstructor"),
    ("argparse", "Namespace"),
    ("collections", "namedtuple"),
    ("collections", "OrderedDict.update"),
    ("collections", "OrderedDict "),
    ("collections ", "OrderedDict"),
    ("Collections", "OrderedDict"),
    ("torch", "load"),
    ("torch", "hub.load"),
    ("torch.jit", "load"),
    ("torch.serialization", "load"),
    ("torch._utils", "_rebuild_sparse_tensor"),
    ("torch._utils", "_rebuild_qtensor"),
    ("torch._utils", "_rebuild_tensor_v2.__globals__"),
    ("torch._utils", ""),
    ("torch", "Storage"),
    ("torch", "ComplexDoubleStorage"),
    ("torch", "QUInt8Storage"),
    ("torch.storage", "_load_from_bytes"),
    ("torch.storage", "TypedStorage"),
    ("torch.cuda", "get_rng_state"),
    ("numpy", "load"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.testing._private.utils", "runstring"),
    ("joblib", "load"),
    ("transformers.training_args", "TrainingArguments"),
    ("", ""),
    ("\u{1F525}", "x"),
];

/// Instructions that `torch.save` does not write, with arguments if any.
const OPCODES: &[&[u8]] = &[
    b"I1\n",
    b"L1L\n",
    b"F1.0\n",
    b"S'a'\n",
    b"Va\n",
    b"Pa\n",
    b"(d",
    b"(l",
    b"g0\n",
    b"p0\n",
    b"(ios\nsystem\n",
    b"(o",
    b"\x82\x01",
    b"\x83\x01\x00",
    b"\x84\x01\0\0\0",
    b"))}\x92",
    b"\x97",
    b"\x98",
    b"\x00",
    b"\xff",
    b"\n",
    b"Z",
];

/// Instructions that need more than an empty stack.
const STARVED: &[&[u8]] = &[
    b".",
    b"0",
    b"1",
    b"2",
    b"a",
    b"e",
    b"s",
    b"u",
    b"t",
    b"R",
    b"b",
    b"Q",
    b"q\0",
    b"r\0\0\0\0",
    b"\x81",
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x90",
    b"\x91",
    b"\x93",
    b"\x94",
    b"(a",
    b"(2",
    b"N(R",
    b"NN(\x86",
    b"N(\x85",
    b"}(Nu",
    b"N(.",
];

/// Values of the wrong type for the instruction.
const MISMATCHES: &[(&[u8], &str)] = &[
    (b"N)R", "None is called"),
    (b"])R", "a list is called"),
    (b"X\x01\0\0\0a)R", "text is called"),
    (b"ccollections\nOrderedDict\n]R", "a list where a tuple is expected"),
    (b"ccollections\nOrderedDict\nN\x85R", "None where a list of pairs"),
    (b"ccollections\nOrderedDict\n]Na\x85R", "a list of pairs is expected"),
    (b"ctorch\nFloatStorage\n)R", "a class of tensors or numbers is called"),
    (b"ctorch\nfloat32\n)R", "a class of tensors or numbers is called"),
    (b"ctorch\nTensor\n)\x81", "a class of tensors or numbers is called"),
    (b"ctorch\nSize\n)R", "built from 0 values"),
    (b"ctorch._utils\n_rebuild_tensor_v2\n)R", "built from 0 values"),
    (b"ctorch._utils\n_rebuild_tensor_v3\n(NNNNNNtR", "built from 6 values"),
    (b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR", "None where a storage is expected"),
    (b"ctorch._utils\n_rebuild_parameter\n(NNNtR", "None where a tensor is expected"),
    (b"ctorch._tensor\n_rebuild_from_type_v2\n(NN)NtR", "None is called"),
    (b"ctorch._tensor\n_rebuild_from_type_v2\nctorch._tensor\n_rebuild_from_type_v2\nN)N(\x94tR", "the stack has none"),
    (b"NQ", "None where a tuple is expected"),
    (b")Q", "a shorter tuple where a storage"),
    (b"(NNNNNtQ", "None where the word storage"),
    (b"(X\x07\0\0\0storageNNNNtQ", "None where a class of storages"),
    (b"(X\x07\0\0\0storagectorch\nfloat32\nNNNtQ", "where a class of storages"),
    (b"(X\x07\0\0\0storagectorch\nFloatStorage\nNNNtQ", "None where the key of a storage"),
    (b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\0\0\0\0NNtQ", "None where a whole number"),
    (b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\0\0\0\0NJ\xff\xff\xff\xfftQ", "negative or does not fit"),
    (b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\0\0\0\0N\x8a\x09\0\0\0\0\0\0\0\0\x01tQ", "negative or does not fit"),
    (b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\0\0\0\0NK\x01)tQ", "a view of another"),
    (b"NNa", "None where a list is expected"),
    (b"N(NNu", "None where a dictionary is expected"),
    (b"N(N\x90", "None where a set is expected"),
    (b"NNb", "None where a value that has a state"),
    (b"NN\x93", "None where the name of a class"),
    (b"X\x01\0\0\0aN\x93", "None where the name of a class"),
    (b"h\0", "value 0 is read from the memo"),
    (b"j\xff\xff\xff\xff", "value 4294967295 is read from the memo"),
    (b"Nq\x01h\x02", "value 2 is read from the memo"),
    (b"X\x02\0\0\0\xff\xfe", "not UTF-8"),
    (b"c\xff\na\n", "not UTF-8"),
];

/// Lengths beyond the end of the file.
const LENGTHS: &[&[u8]] = &[
    b"X\xff\xff\xff\xff",
    b"X\xff\xff\xff\x7fab",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x8d\0\0\0\0\0\x01\0\0",
    b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
    b"B\xff\xff\xff\xff",
    b"\x8b\xff\xff\xff\xff",
    b"\x8b\xff\xff\xff\x7f",
    b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x95\xff\xff\xff\xff\xff\xff\xff\xff",
    b"U\xff",
    b"T\xff\xff\xff\xff",
    b"\x8c\xff",
    b"C\xff",
    b"\x8a\xff",
    b"G\0",
    b"K",
    b"M\0",
    b"J\0\0\0",
    b"h",
    b"q",
];

/// A valid tensor of two by three numbers.
pub const SOUND: Saved<'_> =
    Saved { name: "a", class: "FloatStorage", key: "0", elements: 6, offset: 0, shape: &[2, 3], strides: &[3, 1] };

/// The data of [`SOUND`].
pub fn sound_data() -> Vec<u8> {
    (0..6u8).flat_map(|n| f32::from(n).to_le_bytes()).collect()
}

/// The whole corpus, including files of some megabytes.
pub fn all() -> Vec<Hostile> {
    let mut all = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, expected| all.push(Hostile { name, bytes, expected });
    let data = || [("0", sound_data())];
    pickles(&mut |name, pickle, expected| add(name, file(&pickle, &data()), expected));
    tensors(&mut |name, saved, expected| {
        add(format!("tensor {name}"), file(&state_dict(&[saved]), &data()), expected);
        let storage = [("0", 6, sound_data())];
        add(format!("tensor {name}, old"), stream(&state_dict(&[saved]), &storage), expected);
    });
    archives(&mut add);
    streams(&mut add);
    all
}

fn pickles(add: &mut dyn FnMut(String, Vec<u8>, &'static str)) {
    let plain = |ops: &[u8]| Pickle::new(2).op(ops).end();
    for (module, name) in GLOBALS {
        add(format!("global {module} {name}"), Pickle::new(2).global(module, name).op(b")R").end(), "is refused");
        let stacked = Pickle::new(4).text(module).text(name).op(b"\x93)R").end();
        add(format!("stacked global {module} {name}"), stacked, "is refused");
    }
    // Forbidden items in unused values, or after allowed ones.
    let hidden = Pickle::new(2).op(b"}").global("os", "system").op(b"0").end();
    add("a global that is dropped".into(), hidden, "byte");
    let inside = Pickle::new(2).global("torch._tensor", "_rebuild_from_type_v2").op(b"(").global("os", "system");
    add("a global as an argument".into(), inside.op(b"NNNtR").end(), "\"system\" of the module \"os\"");
    for ops in OPCODES {
        add(format!("instruction {ops:02x?}"), plain(&[b"N", *ops].concat()), "0x");
    }
    for ops in STARVED {
        add(format!("empty stack for {ops:02x?}"), Pickle::new(2).op(ops).op(b"N.").0, "the stack has none");
    }
    for (ops, expected) in MISMATCHES {
        add(format!("mismatch {ops:02x?}"), plain(ops), expected);
    }
    for ops in LENGTHS {
        add(format!("length {ops:02x?}"), Pickle::new(4).op(ops).0, "more bytes and has");
    }
    for protocol in [0, 1, 6, 255] {
        add(format!("protocol {protocol}"), Pickle::new(protocol).op(b"}").end(), "expected 2 to 5");
    }
    add("no protocol".into(), b"}.".to_vec(), "the protocol of a pickle");
    add("nothing".into(), Vec::new(), "needs 1 more bytes and has 0");
    add("a long line".into(), plain(&[&b"c"[..], &[b'a'; 5000], b"\n"].concat()), "more than 4096 bytes");
    let deep = |op: &[u8], n: usize| Pickle::new(2).op(&op.repeat(n)).end();
    add("marks without end".into(), deep(b"(", 1_000_000), "the stack has none");
    let lists = |n: usize| Pickle::new(2).op(&b"]".repeat(n)).op(&b"a".repeat(n - 1)).end();
    add("lists in lists".into(), lists(400_000), "no tensors by name");
    add("more lists than there may be".into(), lists(1_000_000), "more than 500000 lists and dictionaries");
    add("more values than there may be".into(), deep(b"]", 2_100_000), "more than 2000000 values");
    // One value, many times.
    add("millions of nothing".into(), deep(b"N", 3_900_000), "no tensors by name");
    add(
        "a memo of one value".into(),
        Pickle::new(4).op(b"N").op(&b"\x94".repeat(3_900_000)).end(),
        "no tensors by name",
    );
    add("tuples in tuples".into(), Pickle::new(2).op(b")").op(&b"\x85".repeat(1_000_000)).end(), "no tensors by name");
    add("a million lists".into(), deep(b"]", 1_000_000), "no tensors by name");
    add("more instructions than there may be".into(), deep(b"N0", 2_000_001), "more than 4000000 instructions");
    let numbered = (0..1_900_000u32).flat_map(|i| [&b"]r"[..], &i.to_le_bytes()].concat());
    add("a memo of millions".into(), Pickle::new(2).op(&numbered.collect::<Vec<u8>>()).end(), "no tensors by name");
    // Repeated calls of one function with the same arguments.
    let call = Pickle::new(2).global("torch._utils", "_rebuild_tensor_v2").op(b"q\x00(");
    let call = call.storage("FloatStorage", "0", 6).int(0).ints(&[2, 3]).ints(&[3, 1]).op(b"\x89}tq\x01");
    add(
        "tensors without end".into(),
        call.op(&b"h\0h\x01R0".repeat(400_000)).end(),
        "tensors with more than 1000000 dimensions",
    );
    let id = Pickle::new(2)
        .op(b"(")
        .text("storage")
        .global("torch", "FloatStorage")
        .text(&"k".repeat(1024))
        .op(b"NK\x06tq\0");
    add("storages without end".into(), id.op(&b"h\0Q0".repeat(600_000)).end(), "more than 500000 storages");
    let key =
        Pickle::new(2).op(b"(").text("storage").global("torch", "FloatStorage").text(&"k".repeat(1025)).op(b"NK\x06tQ");
    add("a long key".into(), key.end(), "more than 1024 bytes");
    add("a list in itself".into(), plain(b"]q\0h\0a"), "no tensors by name");
    add("a dictionary in itself".into(), plain(b"}q\0X\x05\0\0\0modelh\0s"), "no tensors by name");
    add("a dictionary as its own key".into(), plain(b"}q\0h\0Ns"), "no tensors by name");
    add("a tuple of itself".into(), plain(b"(]q\0tq\x01h\0h\x01a0"), "no tensors by name");
    add("a memo of high numbers".into(), plain(b"}r\xff\xff\xff\xffj\xff\xff\xff\xff"), "no tensors by name");
    let copies = Pickle::new(2).op(b"](").op(&b"))\x86".repeat(3000)).op(b"eq\0").op(&[
        &b"ccollections\nOrderedDict\nq\x010h\0\x85q\x020"[..],
        &b"h\x01h\x02R".repeat(3000),
    ]
    .concat());
    add("dictionaries of one list".into(), copies.end(), "more than 4000000 instructions");
    // Doubling by reference needs no memory.
    let laughs = Pickle::new(2).op(b"]q\0").op(&b"(h\0h\0h\0h\0h\0h\0h\0h\0h\0h\0tq\0".repeat(60));
    add("a billion laughs".into(), laughs.end(), "no tensors by name");
    add("a number as the whole".into(), plain(b"K\x01"), "no tensors by name");
    add("numbers by name".into(), plain(b"}X\x05\0\0\0epochK\x01s"), "only \"epoch\"; save the model's state_dict");
    let call = |key: &[u8]| Pickle::new(2).op(b"}").op(key).tensor(&SOUND).op(b"s").end();
    add("a tensor without name".into(), call(b"N"), "no tensors by name");
    let long = [&b"X\xd0\x07\0\0"[..], &[b'n'; 2000]].concat();
    add("a name without end".into(), call(&long), "more than 1024 bytes");
}

fn tensors(add: &mut dyn FnMut(&str, Saved<'_>, &'static str)) {
    let s = SOUND;
    add("starts below zero", Saved { offset: -1, ..s }, "the offset of a tensor is negative");
    add("starts at the end", Saved { offset: 6, ..s }, "reaches to element 11");
    add("starts far behind the end", Saved { offset: i64::MAX, ..s }, "reaches to element 9223372036854775812");
    add("one element too far", Saved { offset: 1, ..s }, "reaches to element 6 of the storage \"0\", which has 6");
    add("of negative shape", Saved { shape: &[-2, 3], ..s }, "a dimension of a tensor is negative");
    add("of negative strides", Saved { strides: &[-3, 1], ..s }, "a stride of a tensor is negative");
    add("of fewer strides", Saved { strides: &[3], ..s }, "2 dimensions and 1 strides");
    add("of more strides", Saved { strides: &[3, 1, 1], ..s }, "2 dimensions and 3 strides");
    add("of wide strides", Saved { strides: &[i64::MAX, i64::MAX], ..s }, "reaches to element 18446744073709551615");
    add("of many elements", Saved { shape: &[1 << 40, 3], ..s }, "reaches to element");
    add("of a shape that wraps", Saved { shape: &[1 << 32, 1 << 32], strides: &[0, 0], ..s }, "no size below 2^63");
    add(
        "of a shape that wraps to nothing",
        Saved { shape: &[1 << 62, 8, 0], strides: &[0, 0, 0], ..s },
        "no size below 2^63",
    );
    add(
        "that repeats itself",
        Saved { shape: &[1 << 40], strides: &[0], ..s },
        "repeats 6 stored values as 1099511627776",
    );
    add("of 65 dimensions", Saved { shape: &[1; 65], strides: &[1; 65], ..s }, "65 dimensions, expected at most 64");
    add("in a missing storage", Saved { key: "1", ..s }, "storage");
    add("in a storage by path", Saved { key: "../data.pkl", ..s }, "storage");
    add("in a smaller storage", Saved { elements: 7, ..s }, "has 24 bytes, expected 28");
    add("in a larger storage", Saved { elements: 5, ..s }, "bytes, expected 20");
    add("in a storage of all memory", Saved { elements: i64::MAX, ..s }, "bytes, expected 18446744073709551615");
}

fn archives(add: &mut dyn FnMut(String, Vec<u8>, &'static str)) {
    let pickle = state_dict(&[SOUND]);
    let parts = || members(&pickle, &[("0", sound_data())]);
    let mut change = |name: &str, edit: &dyn Fn(&mut Vec<Member>, &mut End), expected| {
        let (mut members, mut end) = (parts(), End::default());
        edit(&mut members, &mut end);
        add(format!("archive {name}"), zip(&members, &end), expected);
    };
    change("without members", &|m, _| m.clear(), "zip");
    change("without pickle", &|m, _| drop(m.remove(0)), "without data.pkl");
    change("without storage", &|m, _| drop(m.remove(2)), "which the file does not have");
    change("of two folders", &|m, _| m[0].name = b"other/data.pkl".to_vec(), "storage");
    change("without folder", &|m, _| m[0].name = b"data.pkl".to_vec(), "without data.pkl");
    change("with a program", &|m, _| m.push(Member::new("model/constants.pkl", "x")), "a TorchScript archive");
    change("in big-endian order", &|m, _| m[1].data = b"big".to_vec(), "big-endian");
    change("in an unknown order", &|m, _| m[1].data = b"middle".to_vec(), "\"middle\"");
    change("with a long order", &|m, _| m[1].data = vec![b'l'; 17], "17 bytes, expected at most 16");
    change("of compressed members", &|m, _| m[2].method = 8, "is compressed (method 8)");
    change("of a compressed pickle", &|m, _| m[0].method = 8, "is compressed (method 8)");
    change("of an unknown method", &|m, _| m[2].method = 93, "is compressed (method 93)");
    change("of encrypted members", &|m, _| m[2].flags = 1, "is encrypted");
    change("of two sizes", &|m, _| m[2].stored = Some(23), "takes 23 bytes, but its size is 24");
    change("that decompresses", &|m, _| m[2].size = Some(u32::MAX - 1), "its size is 4294967294");
    change(
        "of large members",
        &|m, _| (m[2].size, m[2].stored) = (Some(1 << 30), Some(1 << 30)),
        "expected the header of the member",
    );
    change(
        "of members of 64-bit size",
        &|m, _| {
            (m[2].size, m[2].stored) = (Some(u32::MAX), Some(u32::MAX));
            m[2].extra = [&[1, 0, 16, 0][..], &u64::MAX.to_le_bytes(), &u64::MAX.to_le_bytes()].concat();
        },
        "expected the header of the member",
    );
    change(
        "with a short extra field",
        &|m, _| {
            (m[2].size, m[2].stored) = (Some(u32::MAX), Some(u32::MAX));
            m[2].extra = vec![1, 0, 99, 0];
        },
        "expected the header of the member",
    );
    change("of a name twice", &|m, _| m.push(m[2].clone()), "\"model/data/0\" twice");
    change(
        "of members that overlap",
        &|m, _| {
            m.push(Member::new("model/data/1", sound_data()));
            m[3].header = Some(0);
        },
        "expected the header of the member",
    );
    change(
        "of members in each other",
        &|m, _| {
            // The data of the last member is itself a complete member, header included, referenced by another entry.
            let inner = zip(&[Member::new("model/data/2", "inner")], &End::default());
            m.push(Member::new("model/data/1", inner));
            m.push(Member::new("model/data/2", "inner"));
            let at = zip(&m[..3], &End::default()).windows(4).position(|w| w == b"PK\x01\x02").unwrap();
            m[4].header = Some((at + 30 + 12 + 4).next_multiple_of(64) as u32);
        },
        "overlap",
    );
    change("with a header elsewhere", &|m, _| m[2].header = Some(7), "byte 7: expected the header");
    change("with a header past the end", &|m, _| m[2].header = Some(1 << 30), "expected the header");
    change(
        "with another name before the data",
        &|m, _| m[2].local_name = Some(b"model/data/1".to_vec()),
        "expected the header",
    );
    change(
        "with a longer name before the data",
        &|m, _| m[2].local_name = Some(b"model/data/00".to_vec()),
        "expected the header",
    );
    change("without a header", &|m, _| m[2].local_signature = Some(*b"PK\x07\x08"), "expected the header");
    change("of names that are no text", &|m, _| m[2].name = b"model/data/\xff".to_vec(), "not UTF-8");
    change("with fewer members than it says", &|_, e| e.entries = Some(9), "3 members, expected 9");
    change("with more members than it says", &|_, e| e.entries = Some(1), "3 members, expected 1");
    change("of several disks", &|_, e| e.disk = 1, "one of several files");
    change("with a directory elsewhere", &|_, e| e.directory_at = Some(3), "expected it to end at byte");
    change("with a directory past the end", &|_, e| e.directory_at = Some(u32::MAX), "expected it to end at byte");
    change("with a long directory", &|_, e| e.directory_bytes = Some(u32::MAX - 9), "expected it to end at byte");
    change("with a short directory", &|_, e| e.directory_bytes = Some(10), "expected it to end at byte");
    change("with bytes behind the directory", &|_, e| e.between = vec![0; 5], "expected it to end at byte");
    let locator = |at: u64| [&b"PK\x06\x07\0\0\0\0"[..], &at.to_le_bytes(), &[1, 0, 0, 0]].concat();
    change("with a 64-bit end past the end", &|_, e| e.between = locator(u64::MAX), "is truncated");
    change("with a 64-bit end far away", &|_, e| e.between = locator(1 << 40), "is truncated");
    change("with a 64-bit end that is none", &|_, e| e.between = locator(0), "byte 0: expected the 64-bit end record");
    change(
        "with a 64-bit directory of all memory",
        &|m, e| {
            let at = zip(m, &End::default()).len() as u64 - 22;
            let record =
                [&b"PK\x06\x06"[..], &44u64.to_le_bytes(), &[0; 12], &[0xff; 8], &[0xff; 8], &[0xff; 8], &[0xff; 8]]
                    .concat();
            e.between = [record, locator(at)].concat();
        },
        "expected it to end at byte",
    );
    change(
        "with an end in its comment",
        &|_, e| e.comment = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
        "zip archive",
    );
    // A directory larger than that of any checkpoint, as its end record claims.
    let large = 17 << 20;
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(4 + large as usize, 0);
    bytes.extend(zip(&[], &End { directory_at: Some(4), directory_bytes: Some(large), ..End::default() }));
    add("archive of a large directory".into(), bytes, "expected at most 16777216");
    let whole = zip(&parts(), &End::default());
    add("archive without its end".into(), whole[..whole.len() - 1].to_vec(), "no directory at its end");
    add("archive with more behind".into(), [&whole[..], b"x"].concat(), "no directory at its end");
    add("archive with more before".into(), [&b"PK\x03\x04"[..], &whole].concat(), "expected it to end at byte");
    add("archive of four bytes".into(), b"PK\x03\x04".to_vec(), "no directory at its end");
}

fn streams(add: &mut dyn FnMut(String, Vec<u8>, &'static str)) {
    let (start, pickle) = (stream_start(), state_dict(&[SOUND]));
    let data = sound_data();
    let mut add = |name: &str, bytes: Vec<u8>, expected| add(format!("stream {name}"), bytes, expected);
    let plain = "a Python pickle that torch.save did not write";
    add("that is a plain pickle", Pickle::new(2).op(b"}").end(), plain);
    add("that runs a program", Pickle::new(2).global("os", "system").text("id").op(b"\x85R").end(), plain);
    add(
        "of protocol 4 that runs a program",
        Pickle::new(4).text("os").text("system").op(b"\x93").text("id").op(b"\x85R").end(),
        plain,
    );
    add("of two bytes", b"\x80\x02".to_vec(), plain);
    let other_version = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02K\x07.";
    add("of another version", other_version.to_vec(), "version \"7\"");
    add("of a version that is text", [&start[..15], b"\x80\x02)."].concat(), "version");
    add("without machine", [&start[..15], &b"\x80\x02M\xe9\x03."[..], b"\x80\x02N."].concat(), "expected");
    let evil = Pickle::new(2).global("os", "system").text("id").op(b"\x85R").end();
    add("with a program as machine", [&start[..21], &evil].concat(), "\"system\" of the module \"os\"");
    add("with a program as tensors", [&start[..], &evil].concat(), "\"system\" of the module \"os\"");
    add("with a program as keys", [&start[..], &pickle, &evil].concat(), "\"system\" of the module \"os\"");
    add("without tensors", start.clone(), "needs 1 more bytes");
    add("without keys", [&start[..], &pickle].concat(), "needs 1 more bytes");
    add("with keys of another kind", [&start[..], &pickle, b"\x80\x02N."].concat(), "a list of keys");
    add("with keys that are numbers", [&start[..], &pickle, b"\x80\x02]K\0a."].concat(), "a list of keys");
    add(
        "of an unknown storage",
        stream(&pickle, &[("0", 6, data.clone()), ("9", 1, vec![0; 4])]),
        "data of the storage \"9\"",
    );
    add("without storages", stream(&pickle, &[]), "which the file does not have");
    add("of a shorter storage", stream(&pickle, &[("0", 5, data.clone())]), "has 20 bytes, expected 24");
    add("of a storage of all memory", stream(&pickle, &[("0", u64::MAX, data.clone())]), "expected 24");
    add("of a storage cut off", stream(&pickle, &[("0", 6, data[..23].to_vec())]), "has 23 bytes, expected 24");
    add("of a storage twice", stream(&pickle, &[("0", 6, data.clone()), ("0", 6, data[..5].to_vec())]), "expected 24");
    let tar = [&b"sys_info"[..], &[0; 249], b"ustar\0", &[0; 200]].concat();
    add("that is a tar archive", tar, "a tar archive");
    add("that is a web page", b"<!DOCTYPE html><html>".to_vec(), "an HTML page");
    add("that is a pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:".to_vec(), "git lfs pull");
    add("that is empty", Vec::new(), "an empty file");
    add("that is a safetensors file", b"\x40\x02\0\0\0\0\0\0{\"__metadata__\"".to_vec(), "a safetensors file");
    add("that is a GGUF", b"GGUF\x03\0\0\0".to_vec(), "not a PyTorch file");
}
