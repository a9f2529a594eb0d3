//! Hostile files, read by this library and by ggml in separate processes: an abort is one of the results.
//!
//! A child process for each library loads every file in every mode and records each result in memory shared with its forked workers. If a
//! worker dies, its current load is the cause, and the next worker continues after it.

use std::ffi::{CString, c_char, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs};

use gguf::{InitParams, Tensor};
use libloading::Library;

use gguf_test::capi::{Api, Quiet, WRAPS, ggml, snapshot};
use gguf_test::corpus::bytes::*;
use gguf_test::corpus::{self, Reading, fields};
use gguf_test::peers::{self, Peers};
use gguf_test::random::Random;

/// The variable with the library of a child process, `ours` or `theirs`.
const CHILD: &str = "GGUF_CAPI_CHILD";
/// The variable with the directory of the files.
const FOLDER: &str = "GGUF_CAPI_FOLDER";

/// Number of mutated files; fewer for debug builds, which may use a sanitizer.
const MUTANTS: usize = if cfg!(debug_assertions) { 1000 } else { 10_000 };

/// Address space of a child, more than any file here should need.
const MEMORY: u64 = 2 << 30;

/// Set by builds with AddressSanitizer.
const SANITIZER: &str = "ASAN_OPTIONS";

/// Processor time of a load, in seconds.
const PATIENCE: i64 = 20;

/// Timeout of a load that waits, in seconds: other programs may keep the processor busy.
const LAST: u32 = 300;

/// A test file.
#[derive(Debug)]
enum File {
    /// The first bytes of a file in memory, and the claimed length of the whole.
    Memory(Vec<u8>, u64),
    Disk(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Buffer,
    Callback,
    File,
}

/// What to load besides the `gguf_context`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    /// Nothing.
    Head,
    /// A `ggml_context` with tensors that have no data.
    NoAlloc,
    /// A `ggml_context` with tensors and their data.
    Data,
}

const MODES: [Mode; 3] = [Mode::Head, Mode::NoAlloc, Mode::Data];

/// The result of a load, with a hash of everything visible, or the signal.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    end: u64,
    seen: u64,
}

const NOT_RUN: u64 = 0;
const REFUSED: u64 = 1;
const DIED: u64 = 2;
const TAKEN: u64 = 3;
/// Accepted, with a shape close to 64 bits.
const TAKEN_WRAPPED: u64 = 4;
/// Accepted, with two tensors of equal C names.
const TAKEN_TWICE: u64 = 5;

/// All files with their names, in the test and in its children.
fn files(folder: &Path) -> Vec<(String, File)> {
    let mut on_disk: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    on_disk.retain(|path| path.extension().is_some_and(|e| e == "gguf"));
    on_disk.sort();
    let named = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), File::Disk(path));
    let mut files: Vec<_> = on_disk.into_iter().map(named).collect();
    let corpus = corpus::all();
    let mut bases: Vec<_> = corpus.iter().filter(|c| c.reading == Reading::Sound && c.bytes.len() < 2000).collect();
    // Version 2 and 3 in the order of the machine.
    bases.retain(|c| c.bytes.starts_with(b"GGUF") && matches!(c.bytes[4..8], [2 | 3, 0, 0, 0]));
    let bases: Vec<Vec<u8>> = bases.into_iter().map(|c| c.bytes.clone()).collect();
    files.extend(corpus.into_iter().map(|c| (c.name, File::Memory(c.bytes, c.file_bytes))));
    files.extend(shapes());
    let mut random = Random(4711);
    files.extend((0..MUTANTS).map(|i| {
        let bytes = mutant(&bases, &mut random);
        let total = bytes.len() as u64;
        (format!("mutant-{i}"), File::Memory(bytes, total))
    }));
    files
}

/// Critical numbers for shapes, lengths and offsets.
const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    8,
    31,
    32,
    64,
    256,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 56,
    1 << 58,
    1 << 61,
    1 << 62,
    (1 << 62) + 32,
    (1 << 63) - 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

/// Shapes whose product reaches or exceeds 2^63 - 1, with zeros in various places.
fn shapes() -> Vec<(String, File)> {
    let big = 1 << 62;
    let shapes: [&[u64]; 16] = [
        &[big, big, big, 0],
        &[big, 0, big],
        &[0, big, big],
        &[big, big, 0],
        &[big, 1, 0, big],
        &[1, 0, big, 4],
        &[1 << 31, (1 << 32) - 1],
        &[(1 << 32) - 1, 1 << 31],
        &[1 << 31, 1 << 32],
        &[(1 << 63) - 1],
        &[1, (1 << 63) - 1],
        &[(1 << 63) - 1, 1],
        &[0, (1 << 63) - 1],
        &[7, 0x1249_2492_4924_9249],
        &[3, 0, 1],
        &[32, 1, 1, 0],
    ];
    let mut files = Vec::new();
    for shape in shapes {
        for ty in [0, 1, 2, 8, 12, 24] {
            let bytes = V3.llama().tensor("t", shape, ty, 0).data(64).bytes();
            let total = bytes.len() as u64;
            files.push((format!("shape {shape:?} of type {ty}"), File::Memory(bytes, total)));
        }
    }
    files
}

/// A valid file with a few packed tensors of small shapes, and their data.
fn model(random: &mut Random) -> Vec<u8> {
    let form = *random.choose(&[V2, V3]);
    let mut file = form.llama().kv("a.count", U32, form.some(U32)).kv("a.list", ARRAY, form.some(ARRAY));
    let mut align = 32;
    if random.below(4) == 0 {
        align = 1 << random.below(9);
        file = file.kv("general.alignment", U32, form.number(U32, align)).align(align);
    }
    let mut offset = 0;
    for i in 0..1 + random.below(4) {
        let (ty, block, bytes) = *random.choose(&[(0u32, 1u64, 4u64), (1, 1, 2), (2, 32, 18), (8, 32, 34), (24, 1, 1)]);
        let mut dims: Vec<u64> = (0..1 + random.below(4)).map(|_| random.below(4) as u64).collect();
        let elements = dims.iter().product::<u64>();
        dims[0] *= block;
        file = file.tensor(format!("t.{i}"), &dims, ty, offset);
        offset = (offset + elements * bytes).next_multiple_of(align);
    }
    file.data(offset as usize).bytes()
}

fn mutant(bases: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let is_model = random.below(3) > 0;
    let mut bytes = if is_model { model(random) } else { random.choose(bases).clone() };
    // The numbers first, while they can be located.
    let (numbers, head_end) = fields::numbers(&bytes, V3);
    let file_bytes = bytes.len() as u64;
    for _ in 0..random.below(3) {
        // Infos come last, and have the most failure modes.
        let from = if random.below(2) == 0 { 0 } else { numbers.len() * 2 / 3 };
        let number = numbers[from + random.below(numbers.len() - from)];
        let old = fields::read(&bytes, number, false);
        let new = match random.below(3) {
            0 => *random.choose(&fields::mutations(old, number.width, file_bytes)),
            _ => *random.choose(&NUMBERS),
        };
        fields::write(&mut bytes, number, false, new);
    }
    for _ in 0..random.below(2) {
        let to = if random.below(8) == 0 { bytes.len() } else { head_end };
        let at = random.below(to);
        bytes[at] ^= 1 << random.below(8);
    }
    match random.below(16) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => bytes.truncate(head_end),
        2 => bytes.resize(bytes.len() + random.below(100), 0),
        _ => {}
    }
    bytes
}

/// Files with large claims and no content: everything after their first bytes is a hole. ggml rejects each after a few bytes.
fn write_sparse(folder: &Path) {
    let long = |n: u64| V3.string_of(n, b"");
    let counts = |form: Form, n_tensors, n_kv| form.file().n_tensors(n_tensors).n_kv(n_kv).head();
    let of = |n_tensors, n_kv, rest: Vec<u8>| [counts(V3, n_tensors, n_kv), rest].concat();
    let kv = |ty: u32, rest: &[u8]| [V3.string(b"k"), V3.u32(ty), rest.to_vec()].concat();
    let files = [
        ("sparse-key", of(0, 1, long(1 << 39))),
        ("sparse-string", of(0, 1, kv(STRING, &long(1 << 39)))),
        ("sparse-bytes", of(0, 1, kv(ARRAY, &V3.array(U8, 1 << 39, b"")))),
        ("sparse-words", of(0, 1, kv(ARRAY, &V3.array(U64, 1 << 36, b"")))),
        ("sparse-strings", of(0, 1, kv(ARRAY, &V3.array(STRING, 1 << 36, b"")))),
        ("sparse-string-of-strings", of(0, 1, kv(ARRAY, &V3.array(STRING, 2, &long(1 << 39))))),
        ("sparse-nested", of(0, 1, kv(ARRAY, &V3.array(ARRAY, 1 << 36, b"")))),
        ("sparse-name", of(1, 0, long(1 << 39))),
        ("sparse-dims", of(1, 0, [V3.string(b"t"), V3.u32(u32::MAX)].concat())),
        ("sparse-pairs", of(0, 1 << 35, vec![])),
        ("sparse-pairs-alike", of(0, 1 << 35, kv(U8, &[0]))),
        ("sparse-tensors", of(1 << 35, 0, vec![])),
        ("sparse-version-1", counts(V1, u32::MAX.into(), 0)),
        ("sparse-big-endian", counts(V3_BIG, 1 << 35, 0)),
        ("sparse-magic", counts(V3_REVERSED, 1 << 35, 0)),
    ];
    for (name, head) in files {
        let path = folder.join(name).with_extension("gguf");
        fs::write(&path, head).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    }
    // Long texts that a message could repeat.
    let n = 1 << 27;
    let alignment = [V3.string(b"general.alignment"), V3.u32(STRING), long(n)].concat();
    let twice = [long(n), vec![0; n as usize + 5], long(n)].concat();
    for (name, head) in [("sparse-alignment", of(0, 1, alignment)), ("sparse-key-twice", of(0, 2, twice))] {
        let path = folder.join(name).with_extension("gguf");
        let len = head.len() as u64 + n + 5;
        fs::write(&path, head).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
    }
}

/// How each file is loaded.
fn loads(files: &[(String, File)]) -> Vec<(usize, Source, Mode)> {
    let sources = |file: &File| match file {
        File::Memory(bytes, total) if bytes.len() as u64 == *total => &[Source::Buffer, Source::Callback][..],
        File::Memory(..) => &[Source::Callback],
        File::Disk(_) => &[Source::File],
    };
    let of = |i: usize, source: Source| MODES.map(|mode| (i, source, mode));
    files.iter().enumerate().flat_map(|(i, (_, file))| sources(file).iter().flat_map(move |&s| of(i, s))).collect()
}

unsafe extern "C-unwind" fn callback(from: *mut c_void, to: *mut c_void, at: u64, len: usize) -> usize {
    // SAFETY: the pointer leads to the bytes of a file, and there is room for `len` bytes.
    unsafe {
        let bytes = &*from.cast::<Vec<u8>>();
        let there = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).and_then(|rest| rest.get(..len));
        let Some(there) = there else { return 0 };
        to.cast::<u8>().copy_from_nonoverlapping(there.as_ptr(), len);
    }
    len
}

/// The functions of ggml that read tensors.
struct Looks {
    first: unsafe extern "C" fn(*mut c_void) -> *const Tensor,
    next: unsafe extern "C" fn(*mut c_void, *const Tensor) -> *const Tensor,
    data: unsafe extern "C" fn(*const Tensor) -> *const u8,
    name: unsafe extern "C" fn(*const Tensor) -> *const c_char,
    nbytes: unsafe extern "C" fn(*const Tensor) -> usize,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Looks {
    fn new(ggml: &Library) -> Looks {
        // SAFETY: the signatures are those of ggml.h.
        unsafe {
            Looks {
                first: *ggml.get(b"ggml_get_first_tensor\0").unwrap(),
                next: *ggml.get(b"ggml_get_next_tensor\0").unwrap(),
                data: *ggml.get(b"ggml_get_data\0").unwrap(),
                name: *ggml.get(b"ggml_get_name\0").unwrap(),
                nbytes: *ggml.get(b"ggml_nbytes\0").unwrap(),
                free: *ggml.get(b"ggml_free\0").unwrap(),
            }
        }
    }
}

fn load(api: &Api, is_ours: bool, looks: &Looks, file: &File, source: Source, mode: Mode) -> Outcome {
    let mut made = std::ptr::null_mut();
    let ctx = if mode == Mode::Head { std::ptr::null_mut() } else { &raw mut made };
    let params = InitParams { no_alloc: u8::from(mode != Mode::Data), ctx };
    // SAFETY: buffers are as long as they say, the callback knows its data, paths are C strings; contexts are used with the
    // library that made them, and freed once.
    unsafe {
        let ctx = match (file, source) {
            (File::Memory(bytes, _), Source::Buffer) => {
                (api.gguf_init_from_buffer)(bytes.as_ptr().cast(), bytes.len(), params)
            }
            (File::Memory(bytes, total), _) => {
                let data = std::ptr::from_ref(bytes).cast_mut().cast();
                (api.gguf_init_from_callback)(Some(callback), data, 0, *total, params)
            }
            (File::Disk(path), _) => {
                let path = CString::new(path.as_os_str().as_bytes()).unwrap();
                (api.gguf_init_from_file)(path.as_ptr(), params)
            }
        };
        if ctx.is_null() {
            assert!(made.is_null(), "a context is left behind");
            return Outcome { end: REFUSED, seen: 0 };
        }
        let lines = snapshot(api, ctx);
        if is_ours {
            // The size of a padded head is reported even if the padding would not fit in memory.
            assert!((api.gguf_get_meta_size)(ctx) > 0);
        }
        let wraps = lines.iter().any(|line| line.contains(WRAPS));
        // The id of a tensor, and the id found by its name.
        let is_other = |line: &String| {
            let ids = line.strip_prefix("tensor ").and_then(|ids| ids.split_once(' '));
            ids.is_some_and(|(id, found)| found.split(' ').next() != Some(id))
        };
        let twice = lines.iter().any(is_other);
        let mut seen = DefaultHasher::new();
        lines.hash(&mut seen);
        if !made.is_null() {
            let mut tensor = (looks.first)(made);
            while !tensor.is_null() {
                std::ffi::CStr::from_ptr((looks.name)(tensor)).hash(&mut seen);
                let (n, at) = ((looks.nbytes)(tensor), (looks.data)(tensor));
                if !wraps {
                    n.hash(&mut seen);
                    // Without data, ggml's pointer may be arbitrary.
                    (at.is_null() && n > 0).hash(&mut seen);
                    if !at.is_null() {
                        std::slice::from_raw_parts(at, n).hash(&mut seen);
                    }
                }
                tensor = (looks.next)(made, tensor);
            }
            (looks.free)(made);
        }
        (api.gguf_free)(ctx);
        let end = match (wraps, twice) {
            (true, _) => TAKEN_WRAPPED,
            (_, true) => TAKEN_TWICE,
            _ => TAKEN,
        };
        Outcome { end, seen: seen.finish() }
    }
}

/// Whether this process is a child of the test.
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Loads all files with one library, and writes the outcomes to a file.
pub fn child() -> ExitCode {
    let (which, folder) = (env::var(CHILD).unwrap(), PathBuf::from(env::var_os(FOLDER).unwrap()));
    let ggml = ggml(&peers::peers());
    let is_ours = which == "ours";
    let (api, looks) = (if is_ours { Api::ours() } else { Api::theirs(&ggml) }, Looks::new(&ggml));
    let files = files(&folder);
    let loads = loads(&files);
    let bytes = loads.len() * size_of::<Outcome>();
    // SAFETY: an anonymous map is made, zeroed, which is a valid `Outcome`; it is this process's own and that of its workers,
    // of which one runs at a time.
    let outcomes = unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let map = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(map.cast::<Outcome>(), loads.len())
    };
    let _quiet = Quiet::stderr();
    // A sanitizer reserves address space, and has a separate limit.
    if env::var_os(SANITIZER).is_none() {
        let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
        // SAFETY: a plain call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }
    let mut next = 0;
    while next < loads.len() {
        // SAFETY: this process has one thread, so the worker may do what this process may.
        let worker = unsafe { libc::fork() };
        assert!(worker >= 0);
        if worker == 0 {
            for (outcome, &(file, source, mode)) in outcomes.iter_mut().zip(&loads).skip(next) {
                let once = libc::timeval { tv_sec: 0, tv_usec: 0 };
                let limit =
                    libc::itimerval { it_interval: once, it_value: libc::timeval { tv_sec: PATIENCE, tv_usec: 0 } };
                // SAFETY: plain calls.
                unsafe {
                    libc::setitimer(libc::ITIMER_PROF, &limit, std::ptr::null_mut());
                    libc::alarm(LAST);
                }
                *outcome = load(&api, is_ours, &looks, &files[file].1, source, mode);
            }
            // SAFETY: a plain call; nothing of the parent's is flushed or freed twice.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the worker is a child of this process, and nothing else waits for it.
        assert_eq!(unsafe { libc::waitpid(worker, &mut status, 0) }, worker);
        while outcomes.get(next).is_some_and(|o| o.end != NOT_RUN) {
            next += 1;
        }
        if let Some(at_fault) = outcomes.get_mut(next) {
            *at_fault = Outcome { end: DIED, seen: status as u64 };
            next += 1;
        }
    }
    let words = outcomes.iter().flat_map(|o| [o.end, o.seen]).flat_map(u64::to_ne_bytes);
    fs::write(folder.join(which), words.collect::<Vec<u8>>()).unwrap();
    ExitCode::SUCCESS
}

/// The outcomes of a child.
fn outcomes(which: &str, folder: &Path) -> Vec<Outcome> {
    let mut child = Command::new(env::current_exe().unwrap());
    child.env(CHILD, which).env(FOLDER, folder).stdin(Stdio::null());
    // Otherwise an abort in ggml would start a debugger for a backtrace.
    child.env("GGML_NO_BACKTRACE", "1");
    if let Ok(options) = env::var(SANITIZER) {
        child.env(SANITIZER, format!("{options}:max_allocation_size_mb={}", MEMORY >> 20));
    }
    assert!(child.status().unwrap().success());
    let bytes = fs::read(folder.join(which)).unwrap();
    let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap());
    bytes.chunks_exact(16).map(|b| Outcome { end: word(&b[..8]), seen: word(&b[8..]) }).collect()
}

fn hostile_files_end_no_process_and_are_taken_as_by_ggml() {
    let folder = super::calls::folder();
    let maker = peers::data("hostile/make.py");
    let made = Peers::get().python(&maker).arg(folder.path()).status().unwrap();
    assert!(made.success());
    write_sparse(folder.path());
    let start = Instant::now();
    let files = files(folder.path());
    let loads = loads(&files);
    let [ours, theirs] = ["ours", "theirs"].map(|which| outcomes(which, folder.path()));
    assert_eq!([ours.len(), theirs.len()], [loads.len(); 2]);
    // Per mode: loads, accepted by both, rejected where ggml aborts, rejected for a shape, accepted with names that are equal up to a NUL.
    // docs/c-library.md has the table.
    let mut counts = [[0; 5]; 3];
    let mut wrong = Vec::new();
    for ((&(file, source, mode), ours), theirs) in loads.iter().zip(ours).zip(theirs) {
        let count = &mut counts[mode as usize];
        count[0] += 1;
        match (ours.end, theirs.end) {
            (REFUSED, REFUSED) => {}
            (TAKEN.., TAKEN..) if ours == theirs => count[1] += 1,
            (REFUSED, DIED) => count[2] += 1,
            (REFUSED, TAKEN_WRAPPED) => count[3] += 1,
            (TAKEN_TWICE, REFUSED) => count[4] += 1,
            _ => wrong.push(format!("{} from {source:?}, {mode:?}: {ours:?}, ggml {theirs:?}", files[file].0)),
        }
    }
    println!("{} files, {} loads, {:.1?}", files.len(), loads.len(), start.elapsed());
    for (mode, [n, taken, died, wrapped, twice]) in MODES.iter().zip(counts) {
        println!(
            "{mode:?}: {n} loads, {taken} taken by both; only here refused {wrapped}, and {died} that end ggml's process; \
             only here taken {twice}"
        );
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts.iter().all(|[n, taken, ..]| taken * 20 > *n), "too few files are taken");
}

gguf_test::tests! {
    [Peers, Shared] hostile_files_end_no_process_and_are_taken_as_by_ggml;
}
