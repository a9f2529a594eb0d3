//! Two processes that write at once: every command that writes where another one reads or writes, in pairs, on several file systems. No
//! tensor loses a byte, every success has its effect, and a failure has none and names its reason.
//!
//! By default there are a few pairs of each kind. `GGUF_PAIRS` is another number, and `GGUF_PAIRS_OF` a part of the names of the kinds to
//! try. `GGUF_PAIRS_PER_COMMAND` is a number of pairs for each command with its options, over all kinds that have it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gguf_format::{GgmlType, Gguf, Head, TensorInfo, Version};
use gguf_io::{ModelFile, Writer};
use gguf_quantize::imatrix::{Entry, Format, Imatrix};
use gguf_test::checkpoint;
use gguf_test::disk;
use gguf_test::files::{folder, names};
use gguf_test::program::path as program;

/// Pairs of each kind by default.
const PAIRS: usize = 6;

/// The directory for the pairs, in a process that runs them.
const FOLDER: &str = "GGUF_TEST_PAIRS_FOLDER";

/// The effect of a successful edit.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// The key has the value.
    Is(&'static str, &'static str),
    /// There is no such key.
    No(&'static str),
}

use Effect::{Is, No};

/// What is true after a pair.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// Both edit `m.gguf`: a success has its effect, a failure has none.
    Both(Effect, Effect),
    /// The first edits `m.gguf`, the second replaces it by a file made from `other.gguf`.
    Replaced(Effect),
    /// The first edits or repairs the first file, the second replaces it by one with the bytes of the other file; the first may edit the new
    /// file, too.
    ReplacedBy(&'static str, Effect, &'static str),
    /// Both write the first file, with the bytes of the other one; at least one of them succeeds.
    Made(&'static str, &'static str),
    /// The first edits the file, the second writes `out` from it: from the old file, or from the new one.
    Copied(&'static str, Effect, &'static [&'static str]),
    /// Both write the file, which must not exist: one of them fails.
    One(&'static str),
    /// Both replace the file.
    Either(&'static str),
    /// The first edits `d.gguf`, the second repairs the data of its last tensor.
    Repaired(Effect),
    /// The first edits `from`, the second makes the file from it and removes `from`.
    Moved(&'static str, &'static str, Effect),
}

/// Two commands for one directory. `LONG` is a value that needs space.
struct Pair {
    name: &'static str,
    commands: [&'static str; 2],
    then: Then,
}

const fn pair(name: &'static str, a: &'static str, b: &'static str, then: Then) -> Pair {
    Pair { name, commands: [a, b], then }
}

const A: Effect = Is("own.a", "A");
const B: Effect = Is("own.b", "B");
const LONG_A: Effect = Is("own.a", "LONG");
const LONG_B: Effect = Is("own.b", "LONG");
const OUT: &[&str] = &["out.gguf"];

const KINDS: &[Pair] = &[
    // Two edits.
    pair("edit: set, in the room", "gguf set m.gguf own.a=A", "gguf set m.gguf own.b=B", Then::Both(A, B)),
    pair("edit: set, longer", "gguf set m.gguf own.a=LONG", "gguf set m.gguf own.b=LONG", Then::Both(LONG_A, LONG_B)),
    pair("edit: set, anew", "gguf set m.gguf own.a=A --rewrite", "gguf set m.gguf own.b=B --rewrite", Then::Both(A, B)),
    pair(
        "edit: longer and anew",
        "gguf set m.gguf own.a=LONG",
        "gguf set m.gguf own.b=B --rewrite",
        Then::Both(LONG_A, B),
    ),
    pair("edit: unset", "gguf unset m.gguf own.a", "gguf unset m.gguf own.b", Then::Both(No("own.a"), No("own.b"))),
    pair(
        "edit: rename",
        "gguf rename m.gguf own.a=own.x",
        "gguf rename m.gguf own.b=own.y",
        Then::Both(Is("own.x", "1"), Is("own.y", "2")),
    ),
    pair("edit: edit and set", "gguf edit m.gguf", "gguf set m.gguf own.b=LONG", Then::Both(A, LONG_B)),
    pair("edit: edit", "gguf edit m.gguf", "gguf edit m.gguf", Then::Both(A, B)),
    pair("edit: reserve", "gguf set m.gguf own.a=A --reserve 2K", "gguf set m.gguf own.b=LONG", Then::Both(A, LONG_B)),
    // An edit and a program that replaces the file.
    pair("replace: mv, in the room", "gguf set m.gguf own.a=A", "mv -f other.gguf m.gguf", Then::Replaced(A)),
    pair("replace: mv, longer", "gguf set m.gguf own.a=LONG", "mv -f other.gguf m.gguf", Then::Replaced(LONG_A)),
    pair("replace: mv, anew", "gguf set m.gguf own.a=A --rewrite", "mv -f other.gguf m.gguf", Then::Replaced(A)),
    pair("replace: swap", "gguf set m.gguf own.a=A --rewrite", "gguf swap other.gguf m.gguf -f", Then::Replaced(A)),
    pair(
        "replace: quantize",
        "gguf set m.gguf own.a=LONG",
        "gguf quantize other.gguf m.gguf F16 -f",
        Then::Replaced(LONG_A),
    ),
    pair(
        "replace: quantize, resumable",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf quantize other.gguf m.gguf F16 -f --resume",
        Then::Replaced(A),
    ),
    pair("replace: upgrade", "gguf set m.gguf own.a=A", "gguf upgrade other.gguf m.gguf -f", Then::Replaced(A)),
    pair("replace: reorder", "gguf set m.gguf own.a=LONG", "gguf reorder other.gguf m.gguf -f", Then::Replaced(LONG_A)),
    pair(
        "replace: rm-tensor",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf rm-tensor other.gguf m.gguf t.2 -f",
        Then::Replaced(A),
    ),
    pair(
        "replace: add-tensor",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf add-tensor other.gguf m.gguf t.2 t.npy --replace -f",
        Then::Replaced(A),
    ),
    pair(
        "replace: graft",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf graft other.gguf m.gguf --from s-00001-of-00002.gguf --keys own.c -f",
        Then::Replaced(A),
    ),
    pair(
        "replace: merge",
        "gguf set m.gguf own.a=LONG",
        "gguf merge o-00001-of-00002.gguf -o m.gguf -f",
        Then::Replaced(LONG_A),
    ),
    pair(
        "replace: set",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf set other.gguf own.b=B -o m.gguf -f",
        Then::Replaced(A),
    ),
    pair(
        "replace: migrate",
        "gguf set m.gguf own.a=LONG",
        "gguf migrate old.gguf -o m.gguf -f",
        Then::Replaced(LONG_A),
    ),
    pair(
        "replace: recipe",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf recipe apply r.recipe other.gguf m.gguf -f",
        Then::Replaced(A),
    ),
    pair(
        "replace: repair",
        "gguf set m.gguf own.a=LONG",
        "gguf repair other.gguf -o m.gguf -f",
        Then::Replaced(LONG_A),
    ),
    pair(
        "replace: split",
        "gguf set s-00001-of-00002.gguf own.a=LONG",
        "gguf split other.gguf s --max-tensors 2 -f",
        Then::ReplacedBy("s-00001-of-00002.gguf", LONG_A, "o-00001-of-00002.gguf"),
    ),
    pair(
        "replace: convert",
        "gguf set m.gguf own.a:string=A --rewrite",
        "gguf convert ../checkpoint -o m.gguf -f",
        Then::ReplacedBy("m.gguf", A, "converted.gguf"),
    ),
    pair(
        "replace: imatrix merge",
        "gguf set m.gguf own.a:string=LONG",
        "gguf imatrix merge i.gguf i.gguf -o m.gguf -f",
        Then::ReplacedBy("m.gguf", LONG_A, "i2.gguf"),
    ),
    pair(
        "replace: imatrix convert",
        "gguf set m.gguf own.a:string=A --rewrite",
        "gguf imatrix convert i.dat m.gguf -f",
        Then::ReplacedBy("m.gguf", A, "i1.gguf"),
    ),
    pair(
        "replace: a damaged file",
        "gguf repair h.gguf --mend",
        "mv -f other.gguf h.gguf",
        Then::ReplacedBy("h.gguf", No("own.origin"), "other.gguf"),
    ),
    // An edit and a program that copies from the file.
    pair(
        "copy: set",
        "gguf set m.gguf own.a=LONG",
        "gguf set m.gguf own.b=B -o out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: set, anew",
        "gguf set m.gguf own.a=LONG --rewrite",
        "gguf set m.gguf own.b=B -o out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair("copy: swap", "gguf set m.gguf own.a=LONG", "gguf swap m.gguf out.gguf", Then::Copied("m.gguf", LONG_A, OUT)),
    pair(
        "copy: quantize",
        "gguf set m.gguf own.a=LONG",
        "gguf quantize m.gguf out.gguf F16",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: rm-tensor",
        "gguf set m.gguf own.a=LONG",
        "gguf rm-tensor m.gguf out.gguf t.2",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: split",
        "gguf set m.gguf own.a=LONG",
        "gguf split m.gguf out --max-tensors 2",
        Then::Copied("m.gguf", LONG_A, &["out-00001-of-00002.gguf", "out-00002-of-00002.gguf"]),
    ),
    pair(
        "copy: merge",
        "gguf set s-00001-of-00002.gguf own.a=LONG",
        "gguf merge s-00001-of-00002.gguf -o out.gguf",
        Then::Copied("s-00001-of-00002.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: extract",
        "gguf set m.gguf own.a=LONG",
        "gguf extract m.gguf t.1 -o out.npy",
        Then::Copied("m.gguf", LONG_A, &["out.npy"]),
    ),
    pair(
        "copy: reorder",
        "gguf set m.gguf own.a=LONG",
        "gguf reorder m.gguf out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: add-tensor",
        "gguf set m.gguf own.a=LONG",
        "gguf add-tensor m.gguf out.gguf t.2 m.npy --replace",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: graft",
        "gguf set m.gguf own.a=LONG",
        "gguf graft other.gguf out.gguf --from m.gguf --tensors t.0 t.1 t.2 --keys own.origin --replace",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: recipe",
        "gguf set m.gguf own.a=LONG",
        "gguf recipe apply r.recipe m.gguf out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: migrate",
        "gguf set old.gguf own.a=LONG",
        "gguf migrate old.gguf -o out.gguf",
        Then::Copied("old.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: repair",
        "gguf set m.gguf own.a=LONG",
        "gguf repair m.gguf -o out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    pair(
        "copy: unset",
        "gguf set m.gguf own.a=LONG",
        "gguf unset m.gguf own.b -o out.gguf",
        Then::Copied("m.gguf", LONG_A, OUT),
    ),
    // Two programs with one output.
    pair(
        "output: convert",
        "gguf convert ../checkpoint -o out.gguf",
        "gguf convert ../checkpoint -o out.gguf",
        Then::Made("out.gguf", "converted.gguf"),
    ),
    pair(
        "output: convert, resumable",
        "gguf convert ../checkpoint -o out.gguf --resume",
        "gguf convert ../checkpoint -o out.gguf --resume",
        Then::Made("out.gguf", "converted.gguf"),
    ),
    pair(
        "output: convert, replaced",
        "gguf convert ../checkpoint -o out.gguf -f",
        "gguf convert ../checkpoint -o out.gguf -f",
        Then::Made("out.gguf", "converted.gguf"),
    ),
    pair(
        "output: imatrix merge",
        "gguf imatrix merge i.gguf i.gguf -o out.gguf",
        "gguf imatrix merge i.gguf i.gguf -o out.gguf",
        Then::Made("out.gguf", "i2.gguf"),
    ),
    pair(
        "output: split",
        "gguf split m.gguf out --max-tensors 2",
        "gguf split m.gguf out --max-tensors 2",
        Then::Made("out-00002-of-00002.gguf", "s-00002-of-00002.gguf"),
    ),
    pair(
        "output: merge",
        "gguf merge s-00001-of-00002.gguf -o out.gguf",
        "gguf merge o-00001-of-00002.gguf -o out.gguf",
        Then::One("out.gguf"),
    ),
    pair(
        "output: extract",
        "gguf extract m.gguf t.2 -o out.npy -f",
        "gguf extract m.gguf t.2 -o out.npy -f",
        Then::Made("out.npy", "m.npy"),
    ),
    // Two repairs.
    pair("repair: mend", "gguf repair h.gguf --mend", "gguf repair h.gguf --mend", Then::Made("h.gguf", "m.gguf")),
    pair(
        "repair: mend and copy",
        "gguf repair h.gguf --mend",
        "gguf repair h.gguf --from m.gguf",
        Then::Made("h.gguf", "m.gguf"),
    ),
    pair(
        "repair: copy",
        "gguf repair d.gguf --from m.gguf",
        "gguf repair d.gguf --from m.gguf --exact",
        Then::Made("d.gguf", "m.gguf"),
    ),
    pair("output: swap", "gguf swap m.gguf out.gguf", "gguf swap other.gguf out.gguf", Then::One("out.gguf")),
    pair(
        "output: set",
        "gguf set m.gguf own.a=A -o out.gguf",
        "gguf set other.gguf own.b=B -o out.gguf",
        Then::One("out.gguf"),
    ),
    pair(
        "output: quantize, resumable",
        "gguf quantize m.gguf out.gguf F16 --resume",
        "gguf quantize m.gguf out.gguf F16 --resume",
        Then::One("out.gguf"),
    ),
    pair(
        "output: replaced",
        "gguf swap m.gguf out.gguf -f",
        "gguf quantize other.gguf out.gguf F16 -f",
        Then::Either("out.gguf"),
    ),
    pair(
        "output: set, replaced",
        "gguf set m.gguf own.a=A -o out.gguf -f",
        "gguf set m.gguf own.b=B -o out.gguf -f",
        Then::Either("out.gguf"),
    ),
    // An edit and a repair.
    pair(
        "repair: set, longer",
        "gguf set d.gguf own.a=LONG",
        "gguf repair d.gguf --from m.gguf",
        Then::Repaired(LONG_A),
    ),
    pair(
        "repair: set, anew",
        "gguf set d.gguf own.a=A --rewrite",
        "gguf repair d.gguf --from m.gguf",
        Then::Repaired(A),
    ),
    // An edit and a program that removes or renames the file.
    pair(
        "move: merge",
        "gguf set s-00001-of-00002.gguf own.a=LONG",
        "gguf merge s-00001-of-00002.gguf -o out.gguf --delete-input",
        Then::Moved("s-00001-of-00002.gguf", "out.gguf", LONG_A),
    ),
    pair(
        "move: split",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf split m.gguf out --max-tensors 2 --delete-input",
        Then::Moved("m.gguf", "out-00001-of-00002.gguf", A),
    ),
    pair(
        "move: name",
        "gguf set m.gguf own.a=A --rewrite",
        "gguf name m.gguf --rename",
        Then::Moved("m.gguf", "Old-60K-F32.gguf", A),
    ),
];

/// A value that does not fit the space of the old one.
fn long() -> String {
    "x".repeat(3000)
}

/// The values of a tensor; F16 has them, too.
fn values(origin: &str, tensor: usize) -> Vec<f32> {
    let first = origin.len() * 7 + tensor * 100;
    (0..5000).map(|i| ((first + i * 13) % 2000) as f32).collect()
}

fn model(origin: &str, version: Version) -> Vec<u8> {
    let mut head = Head::default();
    head.dialect.version = version;
    for (key, value) in [
        ("general.architecture", "llama"),
        ("general.name", "Old"),
        ("general.size_label", "60K"),
        ("own.origin", origin),
    ] {
        head.set(key, value);
    }
    head.set("general.file_type", 0u32);
    for (key, value) in [("own.a", "1"), ("own.b", "2"), ("own.c", "3")] {
        head.set(key, value);
    }
    head.tensors = (0..3).map(|i| TensorInfo::new(format!("t.{i}"), [5000], GgmlType::F32)).collect();
    let data = (0..3).map(|i| values(origin, i).into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
    Writer::write(Vec::new(), &head, data).unwrap()
}

/// Importances of the columns of two tensors.
fn importances() -> Vec<u8> {
    let entry = |name: &str| (name.as_bytes().to_vec(), Entry { sums: vec![0.5; 5000], counts: vec![8] });
    let matrix = Imatrix {
        format: Format::Gguf,
        entries: ["t.0", "t.1"].map(entry).into_iter().collect(),
        datasets: vec![b"numbers".to_vec()],
        chunk_count: 1,
        chunk_size: 512,
    };
    matrix.write(Vec::new()).unwrap()
}

/// What follows the head of a file, without the padding at its start.
fn data(file: &[u8]) -> Vec<u8> {
    let gguf = Gguf::parse(file).unwrap();
    let first = gguf.tensors().map(|tensor| gguf.tensor_range(&tensor).unwrap().start).min().unwrap();
    file[first as usize..].to_vec()
}

/// Starts a command in the directory.
fn start(dir: &Path, command: &str, number: usize) -> Child {
    let mut command = command.replace("LONG", &long());
    if cfg!(windows) {
        command = command.replace("mv -f", "cmd /c move /y");
    }
    let mut words = command.split(' ');
    let name = words.next().unwrap();
    let mut process = match name {
        "gguf" => Command::new(program()),
        name => Command::new(name),
    };
    let editor = [
        "sed -i 's/^own.a: string = \"1\"/own.a: string = \"A\"/'",
        "sed -i 's/^own.b: string = \"2\"/own.b: string = \"B\"/'",
    ];
    process.args(words).current_dir(dir).env("EDITOR", editor[number]).env_remove("VISUAL");
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The result of a pair.
struct Ended<'a> {
    dir: &'a Path,
    /// The files that the pair began with.
    files: &'a BTreeMap<String, Vec<u8>>,
    outputs: [Output; 2],
    commands: [&'a str; 2],
}

impl Ended<'_> {
    fn is_done(&self, number: usize) -> bool {
        self.outputs[number].status.success()
    }

    /// The reason of a failure; a known one.
    fn reason(&self, number: usize) -> Option<&'static str> {
        let err = String::from_utf8_lossy(&self.outputs[number].stderr);
        // A file that is moved has its name no more. Windows has no name for a file while another one replaces it.
        let may_miss =
            cfg!(windows) || self.commands.iter().any(|of| of.ends_with("--delete-input") || of.ends_with("--rename"));
        let known = [
            "in use by another process",
            "has changed since",
            "already exists",
            "nothing was deleted",
            "not changed: own.a",
            // Of `move` on Windows.
            "Access denied",
        ];
        let mut known = known.into_iter().chain(may_miss.then_some("(os error 2)"));
        (!self.is_done(number)).then(|| match known.find(|reason| err.contains(reason)) {
            Some(reason) => reason,
            None => panic!("{}: an unknown reason: {err}", self.commands[number]),
        })
    }

    /// Whether the command did not replace a file because the other process had it open, which Windows refuses.
    fn is_held(&self, number: usize) -> bool {
        cfg!(windows) && matches!(self.reason(number), Some("Access denied" | "in use by another process"))
    }

    /// Checks the data of a file; returns its origin.
    fn check(&self, name: &str) -> String {
        let file = ModelFile::open(self.dir.join(name)).unwrap_or_else(|e| panic!("{}: {e}", self.said()));
        let origin = match file.gguf().get_as::<&str>("own.origin") {
            Ok(origin) => origin.to_owned(),
            // A shard without keys.
            Err(_) => "m".to_owned(),
        };
        for tensor in file.tensors() {
            let number = tensor.name().to_string().strip_prefix("t.").unwrap().parse().unwrap();
            let is_same = tensor.to_f32().is_ok_and(|found| found == values(&origin, number));
            assert!(is_same, "{}: {name}: the data of {} is corrupt", self.said(), tensor.name());
        }
        origin
    }

    /// Checks that a file has the bytes of one of those that every pair begins with.
    fn check_same(&self, name: &str, made: &str) {
        let is_same = fs::read(self.dir.join(name)).unwrap() == self.files[made];
        assert!(is_same, "{}: {name} is not {made}", self.said());
    }

    fn data(&self, name: &str) -> Vec<u8> {
        data(&fs::read(self.dir.join(name)).unwrap())
    }

    fn has(&self, name: &str, effect: Effect) -> bool {
        let file = ModelFile::open(self.dir.join(name)).unwrap();
        match effect {
            Is(key, "LONG") => file.gguf().get_as::<&str>(key) == Ok(long().as_str()),
            Is(key, value) => file.gguf().get_as::<&str>(key) == Ok(value),
            No(key) => file.gguf().get(key).is_none(),
        }
    }

    fn said(&self) -> String {
        let said = |i: usize| {
            let Output { status, stderr, .. } = &self.outputs[i];
            let err: String = String::from_utf8_lossy(stderr).chars().take(300).collect();
            format!("{}: {status}: {err}", self.commands[i])
        };
        format!("{}\n{}", said(0), said(1))
    }

    fn judge(&self, then: Then) {
        let exists = |name: &str| self.dir.join(name).exists();
        match then {
            Then::Both(first, second) => {
                assert_eq!(self.check("m.gguf"), "m");
                for (i, effect) in [first, second].into_iter().enumerate() {
                    assert_eq!(self.has("m.gguf", effect), self.is_done(i), "{effect:?}\n{}", self.said());
                }
                assert!(self.is_done(0) || self.is_done(1), "{}", self.said());
            }
            Then::Replaced(effect) if self.is_held(1) => {
                assert_eq!(self.check("m.gguf"), "m", "{}", self.said());
                assert!(self.is_done(0) && self.has("m.gguf", effect), "{}", self.said());
            }
            Then::ReplacedBy(file, ..) if self.is_held(1) => {
                assert!(self.is_done(0) && ModelFile::open(self.dir.join(file)).is_ok(), "{}", self.said());
            }
            Then::Replaced(effect) => {
                assert!(self.is_done(1), "{}", self.said());
                assert_eq!(self.check("m.gguf"), "other", "the new file is lost\n{}", self.said());
                assert!(self.is_done(0) || !self.has("m.gguf", effect), "{}", self.said());
            }
            Then::ReplacedBy(file, effect, made) => {
                assert!(self.is_done(1), "{}", self.said());
                match self.is_done(0) && self.has(file, effect) {
                    true => assert_eq!(self.data(file), data(&self.files[made]), "{}", self.said()),
                    false => self.check_same(file, made),
                }
            }
            Then::Made(file, made) => {
                assert!(self.is_done(0) || self.is_done(1), "{}", self.said());
                self.check_same(file, made);
            }
            Then::Copied(from, effect, to) => {
                assert!(self.is_done(0) && self.has(from, effect), "{}", self.said());
                let origin = self.check(from);
                for to in to {
                    assert_eq!(exists(to), self.is_done(1), "{}", self.said());
                    if to.ends_with(".npy") {
                        let data: Vec<u8> = values("m", 1).into_iter().flat_map(f32::to_le_bytes).collect();
                        let is_same = !exists(to) || fs::read(self.dir.join(to)).unwrap().ends_with(&data);
                        assert!(is_same, "{}: {to} is corrupt", self.said());
                    } else if exists(to) {
                        assert_eq!(self.check(to), origin);
                    }
                }
            }
            Then::One(out) => {
                // On Windows, the journal of a finished run may be locked for an instant before it is removed; the other run then verifies the output.
                let is_verified = cfg!(windows) && self.said().contains("verified and reused");
                assert!(self.is_done(0) != self.is_done(1) || is_verified, "{}", self.said());
                let is_other = ["other", " o-"].iter().any(|name| self.commands[1].contains(name));
                let expected = if self.is_done(1) && is_other { "other" } else { "m" };
                assert_eq!(self.check(out), expected, "{}", self.said());
            }
            Then::Either(out) => {
                assert!(self.is_done(0) && self.is_done(1), "{}", self.said());
                self.check(out);
            }
            Then::Repaired(effect) => {
                assert_eq!(self.has("d.gguf", effect), self.is_done(0), "{}", self.said());
                let file = ModelFile::open(self.dir.join("d.gguf")).unwrap();
                let is_right = |i: usize| file.tensor(&format!("t.{i}")).unwrap().to_f32().unwrap() == values("m", i);
                // The repair leaves the edited key, which differs from that of the copy, and says so.
                let is_repaired = self.is_done(1) || self.reason(1) == Some("not changed: own.a");
                assert_eq!([0, 1, 2].map(is_right), [true, true, is_repaired], "{}", self.said());
                assert!(self.is_done(0) || is_repaired, "{}", self.said());
            }
            Then::Moved(from, to, effect) => {
                // What the second has not done is left.
                if self.is_done(1) {
                    assert!(!exists(from), "{}", self.said());
                    self.check(to);
                } else {
                    self.check(from);
                }
                let has = |name| exists(name) && self.has(name, effect);
                assert_eq!(has(from) || has(to), self.is_done(0), "{}", self.said());
            }
        }
        let rest: Vec<String> = names(self.dir)
            .into_iter()
            .filter(|name| [".edit", ".partial", ".journal"].iter().any(|end| name.ends_with(end)))
            .collect();
        assert!(rest.is_empty(), "{rest:?} is left\n{}", self.said());
    }
}

/// The files that every pair begins with.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let work = dir.join("files");
    fs::create_dir(&work).unwrap();
    for origin in ["m", "other"] {
        fs::write(work.join(format!("{origin}.gguf")), model(origin, Version::V3)).unwrap();
    }
    let mut damaged = model("m", Version::V3);
    let end = damaged.len();
    damaged[end - 10_000..end - 9_000].fill(7);
    fs::write(work.join("d.gguf"), damaged).unwrap();
    let mut headless = model("m", Version::V3);
    headless[4] = 0;
    fs::write(work.join("old.gguf"), model("other", Version::V2)).unwrap();
    fs::write(work.join("h.gguf"), headless).unwrap();
    fs::write(work.join("r.recipe"), "F16\n").unwrap();
    fs::write(work.join("i.gguf"), importances()).unwrap();
    fs::create_dir(dir.join("checkpoint")).unwrap();
    checkpoint::write_llama(&dir.join("checkpoint"));
    for command in [
        "split m.gguf s --max-tensors 2",
        "split other.gguf o --max-tensors 2",
        "extract m.gguf t.2 -o m.npy",
        "extract other.gguf t.2 -o t.npy",
        "convert ../checkpoint -o converted.gguf",
        "imatrix merge i.gguf i.gguf -o i2.gguf",
        "imatrix convert i.gguf i.dat",
        "imatrix convert i.dat i1.gguf",
    ] {
        let status = Command::new(program()).args(command.split(' ')).current_dir(&work).output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    }
    let files = names(&work).into_iter().map(|name| (name.clone(), fs::read(work.join(name)).unwrap())).collect();
    fs::remove_dir_all(work).unwrap();
    files
}

/// Tries the pairs in a directory.
/// A command of a pair without its files and values: its name and its options. Whether an output may be replaced makes no difference.
fn command(of: &str) -> String {
    let mut words = of.split(' ');
    let name = words.by_ref().find(|word| *word != "gguf").unwrap();
    let rest: Vec<&str> = words.filter(|word| word.starts_with('-') && *word != "-f").collect();
    format!("{name} {}", rest.join(" "))
}

/// The number of pairs of a kind.
fn rounds(kind: &Pair) -> usize {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<usize>().unwrap());
    let Some(n) = number("GGUF_PAIRS_PER_COMMAND") else { return number("GGUF_PAIRS").unwrap_or(PAIRS) };
    let kinds = |of: &str| KINDS.iter().filter(|kind| kind.commands.iter().any(|c| command(c) == command(of))).count();
    kind.commands.iter().map(|of| n.div_ceil(kinds(of))).max().unwrap_or(n)
}

fn run_in(dir: &Path) {
    let of = std::env::var("GGUF_PAIRS_OF").unwrap_or_default();
    let files = files(dir);
    let mut failed = Vec::new();
    let mut n_pairs = 0;
    for kind in KINDS.iter().filter(|pair| pair.name.contains(&of)) {
        let Pair { name, commands, then } = kind;
        // There is no `sed` to be the editor.
        if cfg!(windows) && commands.iter().any(|command| command.starts_with("gguf edit")) {
            continue;
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let all = commands.join(" ");
        n_pairs += rounds(kind);
        for round in 0..rounds(kind) {
            let place = dir.join("pair");
            fs::create_dir(&place).unwrap();
            for (name, bytes) in &files {
                // Files that the commands do not name would only take time.
                let stem = name.split_once("-0").map_or(name.as_str(), |(stem, _)| stem);
                if all.contains(&format!(" {stem}")) {
                    fs::write(place.join(name), bytes).unwrap();
                }
            }
            // Either may begin, a little earlier.
            let [first, second] = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            let early = start(&place, commands[first], first);
            std::thread::sleep(Duration::from_micros((round as u64 / 2 % 12) * 300));
            let late = start(&place, commands[second], second);
            let (early, late) = (early.wait_with_output().unwrap(), late.wait_with_output().unwrap());
            let outputs = if first == 0 { [early, late] } else { [late, early] };
            let ended = Ended { dir: &place, files: &files, outputs, commands: *commands };
            let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ended.judge(*then);
                let count = |i| ended.reason(i).unwrap_or("done");
                format!("{} and {}", count(0), count(1))
            }));
            *counts.entry(judged.unwrap_or_else(|_| "WRONG".to_owned())).or_default() += 1;
            fs::remove_dir_all(&place).unwrap();
        }
        let counts: Vec<String> = counts.into_iter().map(|(what, n)| format!("{n} {what}")).collect();
        println!("{name}: {}", counts.join(", "));
        failed.extend(counts.iter().any(|count| count.ends_with("WRONG")).then_some(*name));
    }
    println!("{n_pairs} pairs");
    assert!(failed.is_empty(), "{failed:?}");
}

fn of_writers() {
    match std::env::var_os(FOLDER) {
        Some(dir) => run_in(Path::new(&dir)),
        None => run_in(folder().path()),
    }
}

/// Runs the pairs on the file system that the script mounts.
fn on(script: fn(&Path, &str) -> Command) {
    let dir = folder();
    let at = dir.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let run = format!("{FOLDER}=\"$0\" \"$1\" --exact pairs::of_writers --nocapture");
    let output = script(&at, &run).arg(std::env::current_exe().unwrap()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{out}");
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

fn of_writers_in_memory() {
    on(disk::script);
}

fn of_writers_on_ext4() {
    on(disk::ext4_script);
}

fn of_writers_on_btrfs() {
    on(disk::btrfs_script);
}

fn of_writers_on_xfs() {
    on(disk::xfs_script);
}

gguf_test::tests! {
    [] of_writers;
    [SmallDisk] of_writers_in_memory;
    [SmallExt4] of_writers_on_ext4;
    [SmallBtrfs] of_writers_on_btrfs;
    [SmallXfs] of_writers_on_xfs;
}
