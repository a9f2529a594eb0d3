//! Importance matrices: both formats compared with files written by `llama-imatrix`, damaged files, and coverage.

use std::path::PathBuf;

use gguf_format::check::{Report, Severity};
use gguf_format::{GgmlType, Str, Value};
use gguf_quantize::imatrix::{
    Entry, Format, Imatrix, ImatrixFile, Merge, Problem, RULES, Use, check, in_previous_block, provenance,
};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/imatrix").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn open(name: &str) -> ImatrixFile {
    ImatrixFile::open(path(name)).unwrap()
}

fn merged(names: &[&str], chunk_size: u32) -> Imatrix {
    let mut merge = Merge::new(chunk_size).unwrap();
    names.iter().for_each(|name| merge.add(&open(name)).unwrap());
    merge.finish()
}

fn written(matrix: &Imatrix) -> Vec<u8> {
    matrix.write(Vec::new()).unwrap()
}

fn written_as_legacy(matrix: &Imatrix) -> Vec<u8> {
    written(&matrix.clone().into_legacy().unwrap().0)
}

#[test]
fn read_and_written_again_every_file_is_the_same() {
    for entry in std::fs::read_dir(path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            assert!(written(&open(&name).load().unwrap()) == bytes(&name), "{name}");
        }
    }
}

#[test]
fn merged_as_llama_imatrix_does() {
    assert!(written(&merged(&["one.gguf"], 512)) == bytes("one.gguf"));
    let both = merged(&["one.gguf", "two.gguf"], 512);
    assert_eq!((both.chunk_count, both.datasets.len()), (245, 3));
    assert!(written(&both) == bytes("one-two.gguf"));
    assert!(written_as_legacy(&both) == bytes("one-two.dat"));
    assert!(written(&merged(&["two.gguf", "one.gguf"], 100)) == bytes("two-one.gguf"));
    assert!(written(&merged(&["old.dat", "one.gguf", "old.dat"], 512)) == bytes("old-one-old.gguf"));
    assert!(written(&merged(&["old.dat"], 512)) == bytes("old.gguf"));
    assert!(written_as_legacy(&merged(&["one.gguf", "old.dat"], 96)) == bytes("one-old-96.dat"));

    // Entries without measurements for any expert are omitted in the old format, and reported.
    let (old, left_out) = both.into_legacy().unwrap();
    assert_eq!((left_out.as_slice(), old.entries.len()), (&[b"blk.1.attn_q.weight".to_vec()][..], 3));
    assert_eq!(old.datasets, [b"c.txt"]);
}

#[test]
fn matrices_that_do_not_go_together() {
    let entry = |n_sums: usize, n_counts: usize| Entry { sums: vec![1.0; n_sums], counts: vec![1; n_counts] };
    let file = |entry: Entry| {
        let entries = [(b"x.weight".to_vec(), entry)].into();
        let matrix = Imatrix { format: Format::Gguf, entries, datasets: Vec::new(), chunk_count: 1, chunk_size: 1 };
        ImatrixFile::from_bytes(written(&matrix)).unwrap()
    };
    let add = |first: Entry, second: Entry| {
        let mut merge = Merge::new(1).unwrap();
        merge.add(&file(first)).unwrap();
        merge.add(&file(second)).map(|()| merge.finish()).map_err(|e| e.to_string())
    };
    let error = add(entry(8, 1), entry(6, 1)).unwrap_err();
    assert!(error.starts_with("the entry x.weight: 6 sums in this file, but 8 in the earlier files;"), "{error}");
    assert!(add(entry(8, 2), entry(8, 4)).unwrap_err().contains("4 counts in this file, but 2"));
    assert!(add(entry(8, 2), entry(8, 1)).is_err());
    assert_eq!(add(entry(8, 1), entry(8, 4)).unwrap().entries[&b"x.weight"[..]].counts, [2; 4]);
    assert!(matches!(Merge::new(0).unwrap_err().problem, Problem::NoChunkSize));
}

/// The arithmetic of `load_imatrix` in `tools/quantize/quantize.cpp`.
#[test]
fn weights_of_columns() {
    let new = open("one.gguf");
    let name = b"blk.0.ffn_up_exps.weight";
    let stored = new.load_entry(name).unwrap().unwrap();
    let weights = new.weights(name).unwrap().unwrap();
    assert_eq!((weights.len(), stored.counts.as_slice()), (32, &[700, 0, 1537, 3][..]));
    for (i, (weight, sum)) in weights.iter().zip(&stored.sums).enumerate() {
        let expected = [sum / 700.0, 1.0, sum / 1537.0, sum / 3.0][i / 8];
        assert_eq!(weight.to_bits(), expected.to_bits(), "{i}");
    }
    for columns in [0..32, 8..16, 5..21, 31..32, 7..7] {
        let part = new.weights_of(name, columns.clone()).unwrap().unwrap();
        assert_eq!(part, weights[columns.start as usize..columns.end as usize]);
    }
    assert_eq!(new.weights_of(name, 30..33).unwrap(), None);
    assert_eq!(new.weights(b"blk.0.ffn_up.weight").unwrap(), None);
    assert_eq!(new.weights(b"blk.1.attn_q.weight").unwrap().unwrap(), [1.0; 8]);

    let old = open("old.dat");
    let (stored, weights) = (old.load_entry(name).unwrap().unwrap(), old.weights(name).unwrap().unwrap());
    assert!(weights.iter().zip(&stored.sums).all(|(w, s)| w.to_bits() == (s / 7.0).to_bits()));
    // Without a number of chunks the old format stores the weights themselves.
    let mut zero = old.load().unwrap();
    zero.entries.get_mut(&name[..]).unwrap().counts = vec![0];
    let zero = ImatrixFile::from_bytes(written(&zero)).unwrap();
    assert_eq!(zero.weights(name).unwrap().unwrap(), stored.sums);
}

/// A matrix with entries measured in the GGUF format.
fn made(entries: &[(&str, &[f32], &[i64])]) -> ImatrixFile {
    let entry = |&(name, sums, counts): &(&str, &[f32], &[i64])| {
        (name.as_bytes().to_vec(), Entry { sums: sums.to_vec(), counts: counts.to_vec() })
    };
    let entries = entries.iter().map(entry).collect();
    let matrix = Imatrix { format: Format::Gguf, entries, datasets: Vec::new(), chunk_count: 1, chunk_size: 1 };
    ImatrixFile::from_bytes(written(&matrix)).unwrap()
}

/// The output of `llama-imatrix --show-statistics`: sum, smallest, largest, mean, deviation, columns, entropy, its share and ZD in percent.
#[test]
fn statistics_are_those_of_llama_imatrix() {
    let cases: &[(&str, &str, [f64; 9])] = &[
        ("one-two.gguf", "blk.0.attn_q.weight", [10.26, 0.0049, 5.4981, 1.28, 1.89, 8.0, 1.6446, 54.82, 25.0]),
        (
            "one-two.gguf",
            "blk.0.ffn_up_exps.weight",
            [658579.56, 0.0001, 284462.2188, 27440.81, 66946.31, 24.0, 2.0326, 44.33, 8.33],
        ),
        ("one-two.gguf", "output.weight", [1217131.0, 5.3316, 986253.0, 243426.2, 382013.75, 5.0, 0.7019, 30.23, 20.0]),
        (
            "old.dat",
            "blk.0.ffn_up_exps.weight",
            [1027351.94, 0.7056, 139902.1719, 32104.75, 48257.47, 32.0, 3.3854, 67.71, 25.0],
        ),
        ("old.dat", "blk.2.attn_q.weight", [1510.36, 2.5067, 937.4675, 251.73, 365.11, 6.0, 1.0839, 41.93, 16.67]),
    ];
    for (file, name, expected) in cases {
        let s = open(file).statistics(name.as_bytes()).unwrap().unwrap();
        let n = s.n_columns as f64;
        let found = [s.sum, s.min, s.max, s.mean, s.deviation, n, s.entropy, s.evenness() * 100.0, s.zd * 100.0];
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let near = (found - expected).abs() <= 0.0051 + expected.abs() * 1e-6;
            assert!(near, "{file} {name}, measure {i}: {found} and not {expected}");
        }
        assert_eq!(s.active, 1.0);
    }
    assert_eq!(open("one-two.gguf").statistics(b"blk.1.attn_q.weight").unwrap(), None);
    assert_eq!(open("one-two.gguf").statistics(b"blk.9.attn_q.weight").unwrap(), None);
}

#[test]
fn statistics_of_simple_numbers() {
    let long = vec![0.25f32; 70_000];
    let mut idle = vec![3.0f32; 4];
    idle.extend([0.0; 12]);
    let matrix = made(&[
        ("even", &long, &[1]),
        ("idle", &idle, &[3]),
        ("one", &[5.0], &[5]),
        ("zero", &[0.0; 2], &[1]),
        // The second of two experts was never used.
        ("experts", &[8.0, 8.0, 77.0, f32::NAN], &[4, 0]),
        ("nan", &[1.0, f32::NAN], &[1]),
    ]);
    let of = |name: &str| matrix.statistics(name.as_bytes()).unwrap().unwrap();
    let even = of("even");
    assert_eq!((even.n_columns, even.sum, even.mean, even.deviation, even.zd), (70_000, 17_500.0, 0.25, 0.0, 0.0));
    assert!((even.evenness() - 1.0).abs() < 1e-12);
    let idle = of("idle");
    assert_eq!((idle.active, idle.entropy, idle.evenness(), idle.zd), (0.25, 2.0, 0.5, 0.25));
    assert_eq!((of("one").evenness(), of("zero").entropy, of("zero").active), (1.0, 0.0, 0.0));
    assert_eq!((of("experts").n_columns, of("experts").max), (2, 2.0));
    assert!(matrix.statistics(b"nan").unwrap_err().to_string().contains("value 1 is NaN"));
}

#[test]
fn similarity_with_the_block_before() {
    let (mut a, mut b) = (vec![0.0f32; 70_000], vec![0.0f32; 70_000]);
    (a[0], b[0], b[69_999]) = (2.0, 3.0, 3.0);
    let matrix = made(&[
        ("blk.0.a", &a, &[1]),
        ("blk.1.a", &b, &[1]),
        ("blk.1.b", &[1.0, 2.0], &[1]),
        ("blk.2.b", &[2.0, 4.0], &[9]),
        ("blk.3.b", &[2.0], &[1]),
        ("blk.4.b", &[0.0, 0.0], &[1]),
        ("blk.5.b", &[1.0, 2.0], &[0]),
    ]);
    let of = |name: &str| matrix.similarity(name.as_bytes(), &in_previous_block(name.as_bytes()).unwrap()).unwrap();
    assert!((of("blk.1.a").unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
    assert!((of("blk.2.b").unwrap() - 1.0).abs() < 1e-12);
    // Different size, all zero, not measured, missing.
    assert_eq!([of("blk.3.b"), of("blk.4.b"), of("blk.5.b"), of("blk.1.b")], [None; 4]);
    assert_eq!(matrix.similarity(b"blk.2.b", b"blk.5.b").unwrap(), None);

    let previous = |name: &str| in_previous_block(name.as_bytes()).map(|n| String::from_utf8(n).unwrap());
    assert_eq!(previous("enc.blk.10.ffn_up.weight").as_deref(), Some("enc.blk.9.ffn_up.weight"));
    for name in ["blk.0.a", "output.weight", "blk.x.a", "blk.1", "blk.99999999999.a"] {
        assert_eq!(previous(name), None, "{name}");
    }
}

#[test]
fn values_that_are_odd() {
    let mut negative = vec![1.0f32; 70_000];
    negative[69_000] = -0.5;
    let mut sparse = vec![0.0f32; 70_000];
    sparse[0] = 1.0;
    let matrix =
        made(&[("a", &negative, &[1]), ("b", &[0.0; 4], &[1]), ("c", &[0.0, 1.0], &[1]), ("d", &sparse, &[1])]);
    let report = check(&matrix, &[]);
    assert_eq!(codes(&report), [("imatrix.negative", 1), ("imatrix.zero", 1)]);
    let found = report.findings().next().unwrap();
    assert_eq!(found.to_string(), "error imatrix.negative: tensor a: value 69000 is -0.5");

    let counted = ImatrixFile::from_bytes(old(&[("a", -3, &[1.0])], &[])).unwrap();
    assert_eq!(check(&counted, &[]).count_of("imatrix.negative"), 1);
    let error = Merge::new(512).unwrap().add(&counted).unwrap_err().to_string();
    assert_eq!(error, "the entry a: -3 is not a number of tokens");
}

#[test]
fn sums_that_are_not_finite_are_not_merged() {
    let add = |values: &[&[f32]]| {
        let mut merge = Merge::new(512).unwrap();
        let added: Result<(), _> = values.iter().try_for_each(|values| merge.add(&made(&[("a", values, &[1])])));
        added.map_err(|e| e.to_string())
    };
    assert_eq!(add(&[&[1.0, 3e38], &[1.0, 1e37]]), Ok(()));
    let error = add(&[&[1.0, 3e38], &[1.0, 1e38]]).unwrap_err();
    assert!(error.starts_with("the entry a: value 1 is inf; expected a finite number"), "{error}");
    assert!(add(&[&[f32::NAN, 1.0]]).unwrap_err().contains("value 0 is NaN"));
    // Even if the sum is not negative.
    let error = add(&[&[9.0, 9.0], &[1.0, -2.5]]).unwrap_err();
    assert!(error.starts_with("the entry a: value 1 is -2.5; sums of squares are never negative"), "{error}");
    let negative = ImatrixFile::from_bytes(old(&[("a", 1, &[-1.0])], &[])).unwrap();
    assert!(matches!(negative.must_be_sound().unwrap_err().problem, Problem::Negative { index: 0, .. }));
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    use gguf_pipeline::{Event, Progress};

    struct Cancelled(bool);
    impl Progress for Cancelled {
        fn event(&self, _: Event<'_>) {}
        fn is_cancelled(&self) -> bool {
            self.0
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::copy(path("one.gguf"), &input).unwrap();
    std::fs::write(&out, "before").unwrap();
    let matrix = ImatrixFile::open(&input).unwrap().load().unwrap();
    let write = |to, force, cancelled| {
        matrix.write_file(to, &[&input], force, &Cancelled(cancelled)).map_err(|e| e.to_string())
    };
    assert!(write(&out, true, true).unwrap_err().contains("interrupted"));
    assert!(write(&out, false, false).unwrap_err().contains("exists"));
    assert!(write(&input, true, false).unwrap_err().contains("choose another name"));
    assert_eq!(std::fs::read(&out).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    assert_eq!(write(&out, true, false), Ok(()));
    assert!(std::fs::read(&out).unwrap() == bytes("one.gguf"));
}

#[test]
fn entries_are_chosen_by_parts_of_their_names() {
    let names = |include: &[&str], exclude: &[&str]| {
        let mut matrix = open("one-two.gguf");
        matrix.select(include, exclude);
        matrix.entries().map(|e| String::from_utf8(e.name.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[], &[]).len(), 4);
    assert_eq!(names(&["output", "ffn"], &[]), ["blk.0.ffn_up_exps.weight", "output.weight"]);
    assert_eq!(names(&[], &["attn", "output"]), ["blk.0.ffn_up_exps.weight"]);
    assert_eq!(names(&["nothing"], &[]).len(), 0);
}

#[test]
fn what_is_noted_in_the_quantized_file() {
    let kvs = provenance(&"p".repeat(200), &open("one-two.gguf"));
    let text = |text: &str| Value::String(text.as_bytes().to_vec());
    assert_eq!(
        kvs,
        [
            ("quantize.imatrix.file", text(&"p".repeat(127))),
            ("quantize.imatrix.dataset", text("a.txt")),
            ("quantize.imatrix.entries_count", Value::U32(4)),
            ("quantize.imatrix.chunks_count", Value::U32(245)),
        ]
    );
    // Folders are private.
    let mut paths = open("one-two.gguf").load().unwrap();
    paths.datasets = vec![b"C:\\Users\\me\\wiki.txt".to_vec()];
    let kvs = provenance("/home/me/secret/m.gguf", &ImatrixFile::from_bytes(written(&paths)).unwrap());
    assert_eq!([&kvs[0].1, &kvs[1].1], [&text("m.gguf"), &text("wiki.txt")]);
    let mut old = open("old.dat").load().unwrap();
    (old.chunk_count, old.datasets) = (0, Vec::new());
    assert_eq!(provenance("x", &ImatrixFile::from_bytes(written(&old)).unwrap()).len(), 2);
}

fn error(bytes: Vec<u8>) -> String {
    ImatrixFile::from_bytes(bytes).unwrap_err().to_string()
}

/// The old format: number of entries, then for each a length, a name, chunks, number of values, values.
fn old(entries: &[(&str, i32, &[f32])], rest: &[u8]) -> Vec<u8> {
    let mut out = (entries.len() as i32).to_le_bytes().to_vec();
    for (name, n_calls, values) in entries {
        out.extend((name.len() as i32).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend(n_calls.to_le_bytes());
        out.extend((values.len() as i32).to_le_bytes());
        out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }
    out.extend(rest);
    out
}

#[test]
fn files_that_are_something_else() {
    assert!(error(Vec::new()).contains("it is empty"));
    assert!(error(vec![1, 0]).contains("has 2 bytes; expected at least 4"));
    assert!(error(b"PK\x03\x04 a zip archive".to_vec()).contains("not a GGUF file, and too short"));
    assert!(error(b"\xff\xff\xff\xff and more".to_vec()).contains("byte 0: the number of entries is -1"));
    let mut head = gguf_format::Head::default();
    head.tensors.push(gguf_format::TensorInfo::new("token_embd.weight", [32], GgmlType::F32));
    let mut model = head.encode().unwrap();
    model.extend([0; 128]);
    assert_eq!(
        error(model),
        "not an importance matrix: it is a GGUF file without a tensor NAME.in_sum2; pass the file that llama-imatrix wrote"
    );
    let error = ImatrixFile::open(path("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
    assert!(ImatrixFile::open(path("")).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn broken_files_of_the_old_format() {
    let values = [1.0, 2.0];
    let whole = old(&[("a", 1, &values), ("b", 1, &values)], &[]);
    assert_eq!(ImatrixFile::from_bytes(whole.clone()).unwrap().chunk_count(), 0);
    for end in 0..whole.len() {
        assert!(ImatrixFile::from_bytes(whole[..end].to_vec()).is_err(), "{end}");
    }
    assert_eq!(error(old(&[("a", 1, &values), ("a", 1, &values)], &[])), "the entry a: duplicate entry");
    assert!(error(old(&[("aaaaaaa", 1, &[])], &[0; 8])).contains("byte 19: the number of values is 0"));
    assert!(error(old(&[("", 1, &values)], &[])).contains("length of a name is 0"));
    assert!(error(old(&[("a", 1, &values)], &[255; 4])).contains("the number of chunks is -1"));
    assert!(error(old(&[("a", 1, &values)], &[1, 0, 0, 0, 9, 0, 0, 0, b'x'])).contains("at least 42"));
    let mut huge = old(&[("a", 1, &values)], &[]);
    huge[13..17].copy_from_slice(&i32::MAX.to_le_bytes());
    assert!(error(huge).contains("expected at least 8589934605"));
    // A text ends at its first NUL, as in llama.cpp.
    let cut = ImatrixFile::from_bytes(old(&[("a\0b", 1, &values)], &[])).unwrap();
    assert!(cut.entry(b"a").is_some());
}

#[test]
fn broken_files_of_the_present_format() {
    let whole = bytes("one.gguf");
    for end in 0..whole.len() {
        // The padding at the end may be missing.
        let part = ImatrixFile::from_bytes(whole[..end].to_vec());
        assert!(part.is_err() || whole[end..].iter().all(|&b| b == 0), "{end}");
    }
    let edited = |from: &[u8], to: &[u8]| {
        let mut bytes = whole.clone();
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to);
        error(bytes)
    };
    assert_eq!(
        edited(b"blk.0.attn_q.weight.counts", b"blk.0.attn_q.weight.countz"),
        "the entry blk.0.attn_q.weight: its counts are missing; each weight has a .in_sum2 and a .counts"
    );
    assert!(edited(b"blk.0.attn_q.weight.in_sum2", b"blk.0.attn_q.weight.in_sumX").contains("its sums are missing"));
    assert!(edited(&700f32.to_le_bytes(), &f32::NAN.to_le_bytes()).contains("NaN is not a number of tokens"));
    assert!(edited(&700f32.to_le_bytes(), &(-1f32).to_le_bytes()).contains("-1 is not a number of tokens"));
    assert!(edited(&700f32.to_le_bytes(), &f32::INFINITY.to_le_bytes()).contains("inf is not a number of tokens"));
    let not_f32 = edited(
        b"blk.0.attn_q.weight.counts\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0",
        b"blk.0.attn_q.weight.counts\x01\0\0\0\x01\0\0\0\0\0\0\0\x18\0\0\0",
    );
    assert!(not_f32.contains("is of type i8, expected f32"), "{not_f32}");
}

/// Small files must not take much memory.
#[test]
fn tensors_that_share_data() {
    let mut head = gguf_format::Head::default();
    for i in 0..100 {
        for what in ["in_sum2", "counts"] {
            head.tensors.push(gguf_format::TensorInfo::new(format!("{i}.{what}"), [1 << 20], GgmlType::F32));
        }
    }
    let mut bytes = head.encode_as_read().unwrap();
    bytes.resize(bytes.len() + (4 << 20) + 32, 0);
    assert_eq!(error(bytes), "the entry 0: its tensor shares data with earlier tensors");
}

/// No change of a single byte causes a panic, and every valid matrix can be used.
#[test]
fn every_byte_changed() {
    for name in ["one.gguf", "old.dat"] {
        let whole = bytes(name);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let Ok(matrix) = ImatrixFile::from_bytes(changed) else { continue };
                check(&matrix, &[]);
                for entry in matrix.entries() {
                    let _ = matrix.statistics(entry.name);
                    let _ = matrix.similarity(entry.name, b"blk.0.attn_q.weight");
                }
                let loaded = matrix.load().unwrap();
                let _ = loaded.write(Vec::new());
                let _ = loaded.into_legacy();
                let mut merge = Merge::new(512).unwrap();
                if merge.add(&matrix).is_ok() {
                    let _ = merge.add(&open(name));
                }
            }
        }
    }
}

#[test]
fn numbers_that_a_format_cannot_hold() {
    let matrix = |entry, chunk_size| {
        let entries = [(b"x".repeat(70), entry)].into();
        Imatrix { format: Format::Gguf, entries, datasets: Vec::new(), chunk_count: 1, chunk_size }
    };
    let good = Entry { sums: vec![1.0], counts: vec![1] };
    let error = matrix(good.clone(), 1).write(Vec::new()).unwrap_err().to_string();
    assert!(error.contains("has 78 bytes; ggml reads at most 63"), "{error}");
    assert!(matrix(good, 0).into_legacy().is_err());
    assert!(matrix(Entry { sums: vec![1.0], counts: vec![i64::MAX] }, 1).into_legacy().is_err());
    for broken in [Entry { sums: vec![], counts: vec![1] }, Entry { sums: vec![1.0; 3], counts: vec![1; 2] }] {
        assert!(matrix(broken, 1).write(Vec::new()).is_err());
    }
}

/// The codes of all findings, with their numbers.
fn codes(report: &Report) -> Vec<(&'static str, u64)> {
    report.codes().map(|code| (code, report.count_of(code))).collect()
}

#[test]
fn what_a_matrix_covers_of_a_model() {
    let matrix = open("one-two.gguf");
    let tensor = |name: &'static str, shape: &'static [u64], ty, needs_imatrix| Use {
        name: Str(name.as_bytes()),
        shape,
        ty,
        needs_imatrix,
    };
    let q4 = Some(GgmlType::Q4_K);
    let mut model = vec![
        tensor("blk.0.ffn_up_exps.weight", &[8, 4, 4], q4, true),
        tensor("blk.0.attn_q.weight", &[8, 4], q4, false),
        tensor("blk.1.attn_q.weight", &[8, 4], q4, false),
        tensor("output.weight", &[5, 4], q4, false),
        tensor("token_embd.weight", &[8, 4], q4, false),
        tensor("output_norm.weight", &[8], None, false),
        tensor("blk.0.attn_k.weight", &[8, 4], Some(GgmlType::Q8_0), false),
    ];
    let report = check(&matrix, &model);
    assert_eq!(codes(&report), [("imatrix.experts", 1), ("imatrix.unseen", 1)]);
    let findings: Vec<_> = report.findings().map(|f| f.to_string()).collect();
    assert_eq!(findings[0], "warning imatrix.experts: tensor blk.0.ffn_up_exps.weight: 1 of 4 experts were never used");

    model[0].shape = &[8, 4, 3];
    model[3].ty = Some(GgmlType::IQ4_XS);
    model.remove(2);
    model.push(tensor("blk.2.attn_q.weight", &[8, 4], Some(GgmlType::IQ2_XS), true));
    model.push(tensor("blk.2.attn_k.weight", &[8, 4], Some(GgmlType::IQ4_XS), false));
    let report = check(&matrix, &model);
    assert_eq!(
        codes(&report),
        [
            ("imatrix.experts", 1),
            ("imatrix.needed", 1),
            ("imatrix.size", 1),
            ("imatrix.uncovered", 1),
            ("imatrix.unmatched", 1),
            ("imatrix.unseen", 1),
        ]
    );
    assert_eq!(report.count(Severity::Error), 2);
    let said: Vec<_> = report.findings().map(|f| f.to_string()).collect();
    assert!(
        said.iter().any(|f| f.contains("the matrix has 32 values, the tensor has 24 columns in all experts")),
        "{said:?}"
    );
    assert!(said.iter().any(|f| f.contains("blk.2.attn_q.weight: it gets iq2_xs and has no entry")), "{said:?}");

    // Embeddings never have a matching entry, the output only on request; neither is an error.
    let mut without = open("one-two.gguf");
    without.select(&[], &["output"]);
    let attention = tensor("blk.0.attn_q.weight", &[8, 4], q4, false);
    let report = check(&without, &[tensor("output.weight", &[5, 4], q4, false), attention]);
    assert_eq!(report.count_of("imatrix.uncovered.output"), 1);
    assert_eq!(report.count(Severity::Error), 0);

    // Shapes that no file can have.
    let report = check(&matrix, &[tensor("output.weight", &[u64::MAX, 1, u64::MAX], q4, false)]);
    assert_eq!(report.count_of("imatrix.size"), 1);
    assert_eq!(RULES.len(), 19);
}

#[test]
fn a_matrix_of_another_model() {
    let tensor = |name: &'static str, shape: &'static [u64]| Use {
        name: Str(name.as_bytes()),
        shape,
        ty: Some(GgmlType::Q4_K),
        needs_imatrix: false,
    };
    let of = |entries: &[(&str, &[f32], &[i64])], tensors: &[Use<'_>]| codes(&check(&made(entries), tensors));
    // One finding instead of one for each entry.
    let stranger = [tensor("blk.0.a", &[2, 2]), tensor("blk.0.b", &[2, 2])];
    let entries: &[(&str, &[f32], &[i64])] = &[("x", &[1.0; 2], &[1]), ("y", &[1.0; 2], &[1])];
    assert_eq!(of(entries, &stranger), [("imatrix.foreign", 1), ("imatrix.uncovered", 2)]);
    // The number of values is right, but for eight experts instead of four.
    let experts = [tensor("e", &[4, 2, 4])];
    for (counts, n) in [(&[1i64; 8][..], 1), (&[1; 4], 0), (&[1; 1], 0), (&[1; 2], 1)] {
        let report = check(&made(&[("e", &[1.0; 16], counts)]), &experts);
        assert_eq!(report.count_of("imatrix.size"), n, "{counts:?}");
    }
}

#[test]
fn what_is_odd_about_a_file() {
    let odd = |bytes| codes(&check(&ImatrixFile::from_bytes(bytes).unwrap(), &[]));
    assert_eq!(odd(old(&[("a", 1, &[1.0])], &[1, 0, 0, 0, 0, 0, 0, 0])), []);
    assert_eq!(odd(old(&[("a", 1, &[1.0])], &[1, 0, 0, 0, 0, 0, 0, 0, 9, 9])), [("imatrix.trailing", 1)]);
    // Its values are used, so it must not be reported as having equal weights.
    assert_eq!(odd(old(&[("a", 0, &[1.0, 2.0])], &[])), [("imatrix.uncounted", 1)]);
    let mut no_chunk = open("one.gguf").load().unwrap();
    no_chunk.chunk_size = 0;
    assert!(odd(written(&no_chunk)).contains(&("imatrix.chunk_size", 1)));
}

#[test]
fn nothing_is_no_matrix() {
    let unseen = made(&[("a", &[1.0; 4], &[0]), ("b", &[1.0; 4], &[0, 0])]).load().unwrap();
    assert!(matches!(unseen.into_legacy().unwrap_err().problem, Problem::Nothing));
    for format in [Format::Gguf, Format::Legacy] {
        let none = Imatrix { format, entries: Default::default(), datasets: Vec::new(), chunk_count: 1, chunk_size: 1 };
        assert!(matches!(none.write(Vec::new()).unwrap_err().problem, Problem::Nothing));
    }
}

#[test]
fn values_that_are_not_finite_are_found_before_work_starts() {
    let mut matrix = open("old.dat").load().unwrap();
    matrix.entries.get_mut(&b"blk.2.attn_q.weight"[..]).unwrap().sums[4] = f32::NAN;
    let matrix = ImatrixFile::from_bytes(written(&matrix)).unwrap();
    let error = matrix.weights(b"blk.2.attn_q.weight").unwrap_err().to_string();
    assert!(error.starts_with("the entry blk.2.attn_q.weight: value 4 is NaN; expected a finite number"), "{error}");
    assert_eq!(check(&matrix, &[]).count_of("imatrix.finite"), 1);
    // The columns of an unused expert have equal weights, regardless of the stored values.
    let mut unseen = open("one.gguf").load().unwrap();
    unseen.entries.get_mut(&b"blk.1.attn_q.weight"[..]).unwrap().sums[0] = f32::NAN;
    let unseen = ImatrixFile::from_bytes(written(&unseen)).unwrap();
    assert_eq!(unseen.weights(b"blk.1.attn_q.weight").unwrap().unwrap(), [1.0; 8]);
}

#[test]
fn files_that_llama_quantize_refuses() {
    let mut bytes = bytes("one.gguf");
    let key = b"imatrix.chunk_size";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap();
    bytes[at..at + key.len()].copy_from_slice(b"imatrix.chunk_sizf");
    let matrix = ImatrixFile::from_bytes(bytes).unwrap();
    assert_eq!((matrix.missing_keys(), matrix.chunk_size()), (&["imatrix.chunk_size"][..], 0));
    assert_eq!(check(&matrix, &[]).count_of("imatrix.keys"), 1);
}

/// From a file type to the findings about its matrix.
#[test]
fn decisions_say_what_they_need() {
    use gguf_quantize::mix::{MixOptions, ModelFacts, Target, TensorFacts, decide};

    let facts = ModelFacts { architecture: "llama".to_owned(), n_layer: 3, n_head: 1, ..ModelFacts::default() };
    let shape = [256, 4];
    let names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight", "blk.1.ffn_norm.weight"];
    let tensors = names.map(|name| TensorFacts { name: Str(name.as_bytes()), shape: &shape, ty: GgmlType::F16 });
    let lacking = |target: &str| {
        let options = MixOptions { has_imatrix: true, ..MixOptions::default() };
        let decisions = decide(&facts, &tensors, Target::parse(target).unwrap(), &options).unwrap();
        let uses: Vec<_> = tensors.iter().zip(&decisions).map(|(t, d)| Use::of(t, d)).collect();
        let mut matrix = open("one.gguf");
        matrix.select(&["blk.7."], &[]);
        codes(&check(&matrix, &uses))
    };
    assert_eq!(lacking("IQ2_XS"), [("imatrix.foreign", 1), ("imatrix.needed", 2)]);
    assert_eq!(lacking("Q4_K_M"), [("imatrix.foreign", 1), ("imatrix.uncovered", 2)]);
    assert_eq!(lacking("Q8_0"), [("imatrix.foreign", 1)]);
    assert_eq!(lacking("COPY"), [("imatrix.foreign", 1)]);
}

/// Sparse files that claim large sizes.
#[test]
fn what_is_stated_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    let problem = |start: &[u8], len: u64| {
        std::fs::write(&path, start).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        ImatrixFile::open(&path).unwrap_err()
    };
    let gguf = |sums: u64, counts: u64| {
        let mut head = gguf_format::Head::default();
        let info = |name: &str, n: u64, offset| gguf_format::TensorInfo {
            offset,
            ..gguf_format::TensorInfo::new(name, [n], GgmlType::F32)
        };
        head.tensors = vec![info("b.in_sum2", sums, 0), info("b.counts", counts, sums * 4)];
        (head.encode_as_read().unwrap(), sums * 4 + counts * 4 + 4096)
    };
    let (sums, counts) = (gguf(1 << 36, 1), gguf(1 << 23, 1 << 23));
    let number = |n: i32| n.to_le_bytes();
    let old = |name: &[u8], n: i32| [&number(1)[..], name, &number(1), &number(n)].concat();
    for (start, len, what, found, max) in [
        (sums.0, sums.1, "values", 1 << 36, 1 << 28),
        (counts.0, counts.1, "counts of experts, with those of other entries,", 1 << 23, 1 << 22),
        (old(&[&number(1)[..], b"b"].concat(), i32::MAX), 1 << 34, "values", i32::MAX as u64, 1 << 28),
        (old(&number(i32::MAX), 1), 1 << 34, "bytes in a name", i32::MAX as u64, 1 << 16),
        (number(i32::MAX).to_vec(), 1 << 38, "entries", i32::MAX as u64, 1 << 18),
    ] {
        let error = problem(&start, len);
        let Problem::TooMany { what: is, found: n, max: most } = error.problem else { panic!("{error}") };
        assert_eq!((is, n, most), (what, found, max));
        assert!(
            error.is_bad_file() && error.to_string().contains(&format!("{found} {what}; at most {max}")),
            "{error}"
        );
    }
    // More texts, or tensors, than the limits.
    let texts =
        [&b"GGUF\x03\0\0\0"[..], &[0; 8], &1u64.to_le_bytes(), &16u64.to_le_bytes(), b"imatrix.datasets"].concat();
    let texts = [&texts[..], &9u32.to_le_bytes(), &8u32.to_le_bytes(), &(1u64 << 24).to_le_bytes()].concat();
    let tensors = [&b"GGUF\x03\0\0\0"[..], &(1u64 << 24).to_le_bytes(), &[0; 8]].concat();
    for start in [texts, tensors] {
        let error = problem(&start, 1 << 30);
        assert!(matches!(&error.problem, Problem::Head(e) if e.to_string().contains(" are allowed")), "{error}");
    }
}
