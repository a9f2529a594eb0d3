//! Real heads, truncated at every byte, arriving in pieces, and with every number replaced by critical ones.

use gguf_format::{Gguf, HeadScan, Limits, Problem, ScanState, check};
use gguf_test::corpus;
use gguf_test::corpus::bytes::*;
use gguf_test::corpus::fields::{self, Number};
use gguf_test::corpus::growth::{End, scan, scan_as_needed};
use gguf_test::corpus::{Case, accessors};
use gguf_test::random::Random;

/// Under emulation, only every n-th mutation is tried.
const STEP: usize = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) { 1 } else { 11 };

/// A real head, its dialect, and the length of its file.
struct Real {
    name: &'static str,
    form: Form,
    head: &'static [u8],
    file_bytes: u64,
}

macro_rules! real {
    ($($name:literal $form:ident $file_bytes:literal)*) => {
        [$(Real {
            name: $name,
            form: $form,
            head: include_bytes!(concat!("../data/", $name, ".gguf")),
            file_bytes: $file_bytes,
        }),*]
    };
}

const REAL: [Real; 10] = real! {
    "v1" V1 2_240_960
    "v1-nul" V1 673_856
    "v2" V2 743_200
    "v2-nul" V2 676_160
    "v3" V3 344_576
    "v3-big" V3_BIG 344_576
    "draft" DRAFT 4_032
    "adapter" V3 33_632
    "adapter-chat" V3 64_640
    "shard" V3 127_296
};

#[test]
fn real_heads_are_sound() {
    for real in &REAL {
        let (numbers, end) = fields::numbers(real.head, real.form);
        assert_eq!(end, real.head.len(), "{}", real.name);
        assert!(numbers.len() > 50, "{}", real.name);
        let gguf =
            Gguf::parse_within(real.head, Some(real.file_bytes)).unwrap_or_else(|e| panic!("{}: {e}", real.name));
        assert_eq!(gguf.head_bytes() as usize, real.head.len(), "{}", real.name);
        assert_eq!(gguf.dialect().nul_strings, real.name.ends_with("-nul"));
        accessors::exercise(&gguf);
        accessors::round_trip(&gguf);
        let report = check::structure(real.head, real.file_bytes);
        assert!(report.is_empty(), "{}: {:?}", real.name, report.codes().collect::<Vec<_>>());
    }
}

#[test]
fn every_prefix_is_refused_and_says_how_much_it_needs() {
    for real in &REAL {
        for n in (0..real.head.len()).step_by(STEP) {
            let head = &real.head[..n];
            let growing = Gguf::parse(head).expect_err(real.name);
            assert!(growing.need().is_some_and(|need| need > n as u64), "{} {n}: {growing}", real.name);
            let known = Gguf::parse_within(head, Some(real.file_bytes)).expect_err(real.name);
            assert!(known.need().is_some_and(|need| need > n as u64), "{} {n}: {known}", real.name);
            let cut = Gguf::parse_within(head, Some(n as u64)).expect_err(real.name);
            assert!(matches!(cut.problem, Problem::PastEnd { .. } | Problem::NotGguf(_)), "{} {n}: {cut}", real.name);
            let report = check::structure(head, n as u64);
            assert!(!report.is_safe(), "{} {n}", real.name);
            let given = check::structure(head, real.file_bytes);
            assert_eq!(given.codes().collect::<Vec<_>>(), ["input.short"], "{} {n}", real.name);
        }
    }
}

/// Ways to divide a file into pieces.
fn pieces(len: usize) -> Vec<Vec<usize>> {
    let mut ways: Vec<Vec<usize>> = [1, 2, 3, 7, 64, 1000].map(|n| (0..len).step_by(n).collect()).into();
    let mut random = Random::new("pieces", 0);
    for _ in 0..4 {
        let mut at = 0;
        ways.push(
            std::iter::from_fn(|| {
                at += random.below(300) + 1;
                (at < len).then_some(at)
            })
            .collect(),
        );
    }
    ways
}

#[test]
fn pieces_make_no_difference() {
    for real in &REAL {
        let whole = End::Complete(real.head.len() as u64);
        for total in [None, Some(real.file_bytes)] {
            assert_eq!(scan(real.head, total, []), whole, "{}", real.name);
            assert_eq!(scan_as_needed(real.head, total), whole, "{}", real.name);
            for sizes in pieces(real.head.len()) {
                assert_eq!(scan(real.head, total, sizes), whole, "{}", real.name);
            }
        }
    }
    for Case { name, bytes, file_bytes, .. } in corpus::all().iter().step_by(STEP).filter(|c| c.bytes.len() < 2000) {
        for total in [None, Some(*file_bytes)] {
            let at_once = scan(bytes, total, []);
            assert_eq!(scan_as_needed(bytes, total), at_once, "{name}");
            for size in [1, 5] {
                assert_eq!(scan(bytes, total, (0..bytes.len()).step_by(size)), at_once, "{name} by {size}");
            }
        }
    }
}

/// A scan with limits rejects larger values before it requests their bytes, and accepts equal values.
#[test]
fn limits_are_kept_before_bytes_are_asked_for() {
    const LIMITS: Limits =
        Limits { tensors: 50, kvs: 100, string_bytes: 1000, name_bytes: 63, elements: 500, levels: 2, dims: 4 };
    for f in [V3, V3_BIG, V2, V1] {
        let of = |n_tensors, n_kv, rest: Vec<u8>| [f.file().n_tensors(n_tensors).n_kv(n_kv).head(), rest].concat();
        let value = |ty, rest: Vec<u8>| of(0, 1, [f.string(b"k"), f.u32(ty), rest].concat());
        let dims = |n| of(1, 0, [f.string(b"t"), f.u32(n)].concat());
        let nested = |inner: u32| value(ARRAY, f.array(ARRAY, 1, &f.array(inner, 1, b"")));
        let cases = [
            ("bytes", 1000, of(0, 1, f.string_of(1000, b"")), of(0, 1, f.string_of(1001, b""))),
            ("bytes", 1000, value(STRING, f.string_of(1000, b"")), value(STRING, f.string_of(1001, b""))),
            (
                "bytes",
                1000,
                value(ARRAY, f.array(STRING, 2, &f.string_of(1000, b""))),
                value(ARRAY, f.array(STRING, 2, &f.string_of(1001, b""))),
            ),
            ("elements", 500, value(ARRAY, f.array(U64, 500, b"")), value(ARRAY, f.array(U64, 501, b""))),
            ("elements", 500, value(ARRAY, f.array(STRING, 500, b"")), value(ARRAY, f.array(STRING, 501, b""))),
            ("levels of arrays", 2, nested(U64), nested(ARRAY)),
            ("bytes", 63, of(1, 0, f.string_of(63, b"")), of(1, 0, f.string_of(64, b""))),
            ("dimensions", 4, dims(4), dims(5)),
            ("tensors", 50, of(50, 0, Vec::new()), of(51, 0, Vec::new())),
            ("key-value pairs", 100, of(0, 100, Vec::new()), of(0, 101, Vec::new())),
        ];
        for (what, limit, at, over) in cases {
            // The key-value pairs distinguish version 1 from its draft.
            if what == "key-value pairs" && format!("{f:?}") == format!("{V1:?}") {
                continue;
            }
            for total in [None, Some(1 << 40)] {
                let scan = || HeadScan::new(total).within(LIMITS);
                assert!(matches!(scan().advance(&at), Ok(ScanState::Need(_))), "{what} of {f:?}");
                let error = scan().advance(&over).expect_err(what);
                let stated = limit + 1;
                assert_eq!(error.problem, Problem::OverLimit { what, stated, limit }, "of {f:?}");
                assert!(matches!(HeadScan::new(total).advance(&over), Ok(ScanState::Need(_))), "{what} of {f:?}");
            }
        }
    }
}

/// Reads and checks a head like an untrusting program.
fn use_untrusted(head: &[u8], file_bytes: u64) {
    let report = check::structure(head, file_bytes);
    match Gguf::parse_within(head, Some(file_bytes)) {
        Ok(gguf) => {
            accessors::exercise(&gguf);
            for t in gguf.tensors().filter(|_| report.is_safe()) {
                let range = gguf.tensor_range(&t).expect("a safe file has sizes");
                assert!(range.is_empty() || range.end <= file_bytes, "{range:?} of {file_bytes}");
            }
        }
        Err(e) => assert!(!report.is_safe(), "{e}"),
    }
}

fn mutations(real: &Real) -> impl Iterator<Item = (Number, u64)> + use<> {
    let (numbers, _) = fields::numbers(real.head, real.form);
    let (head, form, file_bytes) = (real.head, real.form, real.file_bytes);
    numbers.into_iter().flat_map(move |number| {
        let old = fields::read(head, number, form.big);
        fields::mutations(old, number.width, file_bytes).into_iter().map(move |v| (number, v))
    })
}

#[test]
fn there_are_enough_mutations() {
    let n: usize = REAL.iter().map(|real| mutations(real).count()).sum();
    assert!(n >= 50_000, "{n} mutations");
}

fn mutate(name: &str) {
    let real = REAL.iter().find(|real| real.name == name).expect("a head of that name");
    let mut head = real.head.to_vec();
    for (number, v) in mutations(real).step_by(STEP) {
        let old = fields::read(&head, number, real.form.big);
        fields::write(&mut head, number, real.form.big, v);
        let result = std::panic::catch_unwind(|| use_untrusted(&head, real.file_bytes));
        assert!(result.is_ok(), "{name}: the number at byte {} set to {v}", number.at);
        fields::write(&mut head, number, real.form.big, old);
    }
    assert!(head == real.head);
    // A file that is longer or shorter than its tensors require.
    for file_bytes in [0, 1, real.head.len() as u64, real.file_bytes - 1, real.file_bytes + 1, u64::MAX] {
        use_untrusted(real.head, file_bytes);
    }
    let short = check::structure(real.head, real.file_bytes - 64);
    assert_eq!(short.count_of("file.truncated"), 1);
}

macro_rules! mutated {
    ($($test:ident $name:literal)*) => { $(
        #[test]
        fn $test() {
            mutate($name);
        }
    )* };
}

mutated! {
    numbers_of_v1 "v1"
    numbers_of_v1_nul "v1-nul"
    numbers_of_v2 "v2"
    numbers_of_v2_nul "v2-nul"
    numbers_of_v3 "v3"
    numbers_of_v3_big "v3-big"
    numbers_of_draft "draft"
    numbers_of_adapter "adapter"
    numbers_of_adapter_chat "adapter-chat"
    numbers_of_shard "shard"
}

#[test]
fn every_bit_of_a_small_head_flipped() {
    for name in ["draft", "adapter", "shard"] {
        let real = REAL.iter().find(|real| real.name == name).expect("a head of that name");
        let mut head = real.head.to_vec();
        for bit in (0..8 * head.len()).step_by(STEP) {
            head[bit / 8] ^= 1 << (bit % 8);
            use_untrusted(&head, real.file_bytes);
            head[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
