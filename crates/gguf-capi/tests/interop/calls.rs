//! Compares the results of the same calls on this library and on ggml: ids, values, bytes.
//!
//! `GGUF_PEERS` is the directory of ggml's library; without it the tests are ignored.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::path::PathBuf;

use gguf::{Context, InitParams, Tensor};
use libloading::Library;

use gguf_test::capi::{Api, NAMES, Quiet, WRAPS, c, ggml, no_tensors, snapshot};
use gguf_test::peers;
use gguf_test::random::Random;

/// Debug builds, which may use a sanitizer, run a tenth of the cases.
const SHARE: u64 = if cfg!(debug_assertions) { 10 } else { 1 };

/// Number of call sequences.
const SEQUENCES: u64 = 10_000 / SHARE;

/// Size of the common data: the largest tensor of the widest type fits in half of it.
const DATA: usize = 4 << 20;

/// Number of mutated files.
const CHANGED: u64 = 60_000 / SHARE;

/// Both libraries.
struct Both {
    ours: Api,
    theirs: Api,
    ggml: Library,
    /// The `ggml_context` of the tensors below.
    ctx: *mut c_void,
    pool: Vec<Pooled>,
    /// Data for tensors with replaced data.
    data: Vec<u8>,
}

/// A tensor of ggml to add, in memory readable by both libraries.
struct Pooled {
    tensor: *const Tensor,
    name: CString,
    ne0: i64,
    /// Whether ggml writes its data: it is contiguous, and not empty.
    can_be_written: bool,
}

impl Both {
    fn load() -> Both {
        let ggml = ggml(&peers::peers());
        let (ours, theirs) = (Api::ours(), Api::theirs(&ggml));
        let (ctx, pool) = pool(&ggml);
        Both { ours, theirs, ggml, ctx, pool, data: Random(1).bytes(DATA) }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        // SAFETY: the signature is that of ggml.h; the tensors are not used any more.
        unsafe { self.ggml.get::<unsafe extern "C" fn(*mut c_void)>(b"ggml_free\0").unwrap()(self.ctx) }
    }
}

/// Tensors of every block type, with various shapes; some transposed.
fn pool(ggml: &Library) -> (*mut c_void, Vec<Pooled>) {
    #[repr(C)]
    struct Params {
        mem_size: usize,
        mem_buffer: *mut c_void,
        no_alloc: bool,
    }
    let mut random = Random(7);
    let mut pool = Vec::new();
    let ctx;
    // SAFETY: the signatures are those of ggml.h; the context has memory for all tensors.
    unsafe {
        let init = ggml.get::<unsafe extern "C" fn(Params) -> *mut c_void>(b"ggml_init\0").unwrap();
        let new =
            ggml.get::<unsafe extern "C" fn(*mut c_void, u32, c_int, *const i64) -> *mut Tensor>(b"ggml_new_tensor\0");
        let set_name =
            ggml.get::<unsafe extern "C" fn(*mut Tensor, *const c_char) -> *mut Tensor>(b"ggml_set_name\0").unwrap();
        let transpose =
            ggml.get::<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> *mut Tensor>(b"ggml_transpose\0").unwrap();
        let blck_size = ggml.get::<unsafe extern "C" fn(u32) -> i64>(b"ggml_blck_size\0").unwrap();
        let get_data = ggml.get::<unsafe extern "C" fn(*const Tensor) -> *mut u8>(b"ggml_get_data\0").unwrap();
        let nbytes = ggml.get::<unsafe extern "C" fn(*const Tensor) -> usize>(b"ggml_nbytes\0").unwrap();
        let new = new.unwrap();
        ctx = init(Params { mem_size: 64 << 20, mem_buffer: std::ptr::null_mut(), no_alloc: false });
        for i in 0..200 {
            let ty = random.below(43) as u32;
            let blck = blck_size(ty);
            if blck == 0 {
                continue;
            }
            // No zero after the first dimension: ggml loses it when it writes.
            let n_dims = 1 + random.below(4);
            let mut ne = [1i64; 4];
            ne[0] = blck * random.below(6) as i64;
            for n in &mut ne[1..n_dims] {
                *n = 1 + random.below(5) as i64;
            }
            let mut tensor = new(ctx, ty, n_dims as c_int, ne.as_ptr());
            let data = get_data(tensor);
            for (j, byte) in random.bytes(nbytes(tensor)).into_iter().enumerate() {
                data.add(j).write(byte);
            }
            let is_contiguous = i % 9 != 0 || blck != 1;
            if !is_contiguous {
                tensor = transpose(ctx, tensor);
                ne.swap(0, 1);
            }
            let name = c(format!("{}.{i}", random.choose(&["blk.0.attn_q", "output", "t", "ä"])));
            set_name(tensor, name.as_ptr());
            // A transposed tensor may still be contiguous; the result is just not relied upon.
            pool.push(Pooled { tensor, name, ne0: ne[0], can_be_written: is_contiguous && ne[0] > 0 });
        }
    }
    (ctx, pool)
}

/// A call, with its owned arguments.
enum Op {
    Num(u32, CString, u64),
    Str(CString, CString),
    Data(CString, u32, Vec<u8>, usize),
    Strs(CString, Vec<CString>),
    Remove(CString),
    Kv,
    Add(usize),
    Type(usize, u32),
    /// Data for a tensor, at an offset of the common data.
    DataOf(usize, usize),
}

fn key(random: &mut Random) -> CString {
    let keys = [
        "general.architecture",
        "general.name",
        "a",
        "b",
        "llama.block_count",
        "ö.x",
        "tokenizer.ggml.tokens",
        "k.1",
        "k.2",
        "k.3",
        "k.4",
    ];
    c(*random.choose(&keys))
}

fn text(random: &mut Random) -> CString {
    let n = random.below(30);
    c(random.bytes(n).into_iter().map(|b| b.max(1)).collect::<Vec<_>>())
}

fn op(random: &mut Random, both: &Both, added: &mut Vec<usize>) -> Op {
    const NUMBERS: [u32; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12];
    match random.below(16) {
        0..5 => Op::Num(*random.choose(&NUMBERS), key(random), random.bits()),
        5 | 6 => Op::Str(key(random), text(random)),
        7 | 8 => {
            let ty = *random.choose(&NUMBERS);
            let n = random.below(20);
            let mut data = random.bytes(8 * n);
            if ty == 7 {
                data.iter_mut().for_each(|b| *b &= 1);
            }
            Op::Data(key(random), ty, data, n)
        }
        9 => {
            let n = random.below(8);
            Op::Strs(key(random), (0..n).map(|_| text(random)).collect())
        }
        10 => Op::Remove(key(random)),
        11 => Op::Kv,
        12 if !added.is_empty() => {
            let i = *random.choose(added);
            // ggml divides by the block size, which is zero for unknown types.
            let types = [0u32, 1, 2, 8, 12, 24, 28, 30];
            let ty = *random.choose(&types);
            let blck = [1, 1, 32, 32, 256, 1, 1, 1][types.iter().position(|&t| t == ty).unwrap()];
            if both.pool[i].ne0 % blck == 0 { Op::Type(i, ty) } else { Op::Remove(key(random)) }
        }
        13 if !added.is_empty() => Op::DataOf(*random.choose(added), random.below(DATA / 2)),
        _ => {
            let i = random.below(both.pool.len());
            if added.contains(&i) {
                return Op::Remove(key(random));
            }
            added.push(i);
            Op::Add(i)
        }
    }
}

/// Makes a call; returns its result for comparison.
///
/// # Safety
/// The contexts belong to this library.
unsafe fn apply(api: &Api, ctx: *mut Context, other: *const Context, op: &Op, both: &Both) -> i64 {
    // SAFETY: every pointer is valid for its function, see `Op`.
    unsafe {
        match op {
            Op::Num(ty, key, v) => {
                let (key, v) = (key.as_ptr(), *v);
                match ty {
                    0 => (api.gguf_set_val_u8)(ctx, key, v as u8),
                    1 => (api.gguf_set_val_i8)(ctx, key, v as i8),
                    2 => (api.gguf_set_val_u16)(ctx, key, v as u16),
                    3 => (api.gguf_set_val_i16)(ctx, key, v as i16),
                    4 => (api.gguf_set_val_u32)(ctx, key, v as u32),
                    5 => (api.gguf_set_val_i32)(ctx, key, v as i32),
                    6 => (api.gguf_set_val_f32)(ctx, key, f32::from_bits(v as u32)),
                    7 => (api.gguf_set_val_bool)(ctx, key, v & 1 == 1),
                    10 => (api.gguf_set_val_u64)(ctx, key, v),
                    11 => (api.gguf_set_val_i64)(ctx, key, v as i64),
                    _ => (api.gguf_set_val_f64)(ctx, key, f64::from_bits(v)),
                }
            }
            Op::Str(key, text) => (api.gguf_set_val_str)(ctx, key.as_ptr(), text.as_ptr()),
            Op::Data(key, ty, data, n) => (api.gguf_set_arr_data)(ctx, key.as_ptr(), *ty, data.as_ptr().cast(), *n),
            Op::Strs(key, texts) => {
                let texts = texts.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
                (api.gguf_set_arr_str)(ctx, key.as_ptr(), texts.as_ptr(), texts.len());
            }
            Op::Remove(key) => return (api.gguf_remove_key)(ctx, key.as_ptr()),
            Op::Kv => (api.gguf_set_kv)(ctx, other),
            Op::Add(i) => (api.gguf_add_tensor)(ctx, both.pool[*i].tensor),
            Op::Type(i, ty) => (api.gguf_set_tensor_type)(ctx, both.pool[*i].name.as_ptr(), *ty),
            Op::DataOf(i, at) => {
                (api.gguf_set_tensor_data)(ctx, both.pool[*i].name.as_ptr(), both.data[*at..].as_ptr().cast())
            }
        }
    }
    0
}

/// A directory in memory, if available: thousands of files are synced in it.
pub fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A type change may need more data than ggml's tensor has, so data is set again afterwards.
fn data_behind(random: &mut Random, ops: &mut Vec<Op>) {
    let typed: Vec<usize> = ops.iter().filter_map(|op| if let Op::Type(i, _) = op { Some(*i) } else { None }).collect();
    ops.extend(typed.into_iter().map(|i| Op::DataOf(i, random.below(DATA / 2))));
}

fn sequences_of_calls_give_the_same_bytes() {
    let both = Both::load();
    let folder = folder();
    let paths = ["ours", "theirs"].map(|name| c(folder.path().join(name).to_str().unwrap()));
    let apis = [&both.ours, &both.theirs];
    let mut random = Random(2024);
    let (mut n_ops, mut n_bytes, mut with_data) = (0, 0, 0);
    for sequence in 0..SEQUENCES {
        let (n, m) = (random.below(40), random.below(12));
        let mut added = Vec::new();
        let mut ops: Vec<Op> = (0..n).map(|_| op(&mut random, &both, &mut added)).collect();
        data_behind(&mut random, &mut ops);
        let mut others_added = Vec::new();
        let others: Vec<Op> = (0..m).map(|_| op(&mut random, &both, &mut others_added)).collect();
        let later: Vec<Op> = (0..8).map(|_| op(&mut random, &both, &mut Vec::new())).collect();
        let only_meta = random.below(6) == 0 || added.iter().any(|&i| !both.pool[i].can_be_written);
        let is_v2 = random.below(5) == 0;
        n_ops += ops.len() + others.len() + later.len();
        let seen = [0, 1].map(|side| {
            let api = apis[side];
            let mut seen = Vec::new();
            // SAFETY: contexts are used with the library that made them, and freed once.
            unsafe {
                let (ctx, other) = ((api.gguf_init_empty)(), (api.gguf_init_empty)());
                for op in &others {
                    apply(api, other, ctx, op, &both);
                }
                for op in &ops {
                    seen.push(apply(api, ctx, other, op, &both).to_string());
                }
                seen.extend(snapshot(api, ctx));
                let path = &paths[side];
                assert!((api.gguf_write_to_file)(ctx, path.as_ptr(), only_meta));
                let mut bytes = fs::read(path.to_str().unwrap()).unwrap();
                seen.push(format!("{bytes:?}"));
                // Read again, sometimes as version 2, and modified further.
                if is_v2 {
                    bytes[4] = 2;
                    fs::write(path.to_str().unwrap(), &bytes).unwrap();
                }
                let read = (api.gguf_init_from_file)(path.as_ptr(), no_tensors());
                seen.push(format!("{}", read.is_null()));
                if !read.is_null() {
                    seen.extend(snapshot(api, read));
                    for op in later.iter().filter(|op| !matches!(op, Op::Add(_))) {
                        seen.push(apply(api, read, other, op, &both).to_string());
                    }
                    (api.gguf_set_kv)(ctx, read);
                    seen.extend(snapshot(api, read));
                    seen.extend(snapshot(api, ctx));
                    (api.gguf_free)(read);
                }
                (api.gguf_free)(ctx);
                (api.gguf_free)(other);
            }
            n_bytes += seen.iter().map(String::len).sum::<usize>();
            seen
        });
        with_data += u64::from(!only_meta && !added.is_empty());
        let [ours, theirs] = seen;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "in sequence {sequence}");
        }
        assert_eq!(ours.len(), theirs.len(), "in sequence {sequence}");
    }
    println!("{SEQUENCES} sequences, {n_ops} calls, {with_data} with data, {n_bytes} characters compared");
    assert!(with_data > SEQUENCES / 4);
}

/// A file with many kinds of values and tensors.
fn sample(both: &Both, random: &mut Random) -> Vec<u8> {
    let mut added = Vec::new();
    let n = 5 + random.below(20);
    let ops: Vec<Op> = (0..n)
        .map(|_| op(random, both, &mut added))
        .filter(|op| !matches!(op, Op::Type(..) | Op::DataOf(..) | Op::Kv))
        .collect();
    // SAFETY: the context is ours, and freed once.
    unsafe {
        let api = &both.ours;
        let ctx = (api.gguf_init_empty)();
        for op in &ops {
            apply(api, ctx, std::ptr::null(), op, both);
        }
        if random.below(2) == 0 {
            (api.gguf_set_val_u32)(ctx, c"general.alignment".as_ptr(), 1 << random.below(8));
        }
        let mut bytes = vec![0; (api.gguf_get_meta_size)(ctx)];
        (api.gguf_get_meta_data)(ctx, bytes.as_mut_ptr().cast());
        (api.gguf_free)(ctx);
        bytes
    }
}

fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    const VALUES: [u64; 16] = [0, 1, 2, 4, 7, 8, 9, 12, 13, 31, 43, 255, 1 << 30, i64::MAX as u64, 1 << 63, u64::MAX];
    for _ in 0..1 + random.below(2) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 | 2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes[at] = *random.choose(&VALUES) as u8,
            wide => {
                let value = random.choose(&VALUES).to_le_bytes();
                let n = if wide == 4 { 4 } else { 8 };
                let n = n.min(bytes.len() - at);
                bytes[at..at + n].copy_from_slice(&value[..n]);
            }
        }
    }
}

fn changed_files_are_taken_or_refused_alike() {
    let both = Both::load();
    let mut random = Random(99);
    let (mut taken, mut differ) = (0, Vec::new());
    let quiet = Quiet::stderr();
    for i in 0..CHANGED {
        let mut bytes = sample(&both, &mut random);
        if random.below(3) == 0 {
            bytes[4] = 2;
        }
        // The same number of tensors, or the counts would always be found wrong.
        change(&mut random, &mut bytes);
        let seen = [&both.ours, &both.theirs].map(|api| {
            // SAFETY: the buffer is as long as it says; contexts are freed once.
            unsafe {
                let ctx = (api.gguf_init_from_buffer)(bytes.as_ptr().cast(), bytes.len(), no_tensors());
                (!ctx.is_null()).then(|| {
                    let seen = snapshot(api, ctx);
                    (api.gguf_free)(ctx);
                    seen
                })
            }
        });
        taken += u64::from(seen[1].is_some());
        // Shapes with overflowing numbers of elements are always rejected here; ggml accepts some of them.
        let wraps = seen[1].iter().flatten().any(|line| line.contains(WRAPS));
        if seen[0] != seen[1] && !(seen[0].is_none() && wraps) {
            differ.push((i, bytes, seen.map(|s| s.map(|s| s.join("\n")))));
        }
    }
    drop(quiet);
    println!("{CHANGED} files, {taken} taken");
    if let Some((i, bytes, [ours, theirs])) = differ.first() {
        let text = String::from_utf8_lossy(bytes);
        panic!("{} differ; file {i}: {text:?}\nours: {ours:?}\ntheirs: {theirs:?}", differ.len());
    }
    assert!(taken > CHANGED / 10 && taken < CHANGED - CHANGED / 10);
}

fn every_function_of_the_header_is_there() {
    let peers = peers::peers();
    let header = fs::read_to_string(peers.join("llama.cpp/ggml/include/gguf.h")).unwrap();
    let declared = header
        .split("GGML_API ")
        .skip(1)
        .filter_map(|d| d.split('(').next()?.split([' ', '*']).rfind(|w| !w.is_empty()));
    let mut declared: Vec<_> = declared.collect();
    let mut names = NAMES.to_vec();
    declared.sort_unstable();
    names.sort_unstable();
    assert_eq!(declared, names);
    assert_eq!(names.len(), 61);
}

fn tensors_are_made_alike() {
    let both = Both::load();
    let (ggml, folder) = (&both.ggml, folder());
    let path = c(folder.path().join("file").to_str().unwrap());
    // SAFETY: the signatures are those of ggml.h and gguf.h; contexts are freed once, by the library that made them.
    unsafe {
        let first = ggml.get::<unsafe extern "C" fn(*mut c_void) -> *const Tensor>(b"ggml_get_first_tensor\0").unwrap();
        let next = ggml
            .get::<unsafe extern "C" fn(*mut c_void, *const Tensor) -> *const Tensor>(b"ggml_get_next_tensor\0")
            .unwrap();
        let data = ggml.get::<unsafe extern "C" fn(*const Tensor) -> *const u8>(b"ggml_get_data\0").unwrap();
        let name = ggml.get::<unsafe extern "C" fn(*const Tensor) -> *const c_char>(b"ggml_get_name\0").unwrap();
        let nbytes = ggml.get::<unsafe extern "C" fn(*const Tensor) -> usize>(b"ggml_nbytes\0").unwrap();
        let free = ggml.get::<unsafe extern "C" fn(*mut c_void)>(b"ggml_free\0").unwrap();
        let ctx = (both.ours.gguf_init_empty)();
        for pooled in both.pool.iter().filter(|p| p.can_be_written) {
            (both.ours.gguf_add_tensor)(ctx, pooled.tensor);
        }
        assert!((both.ours.gguf_write_to_file)(ctx, path.as_ptr(), false));
        (both.ours.gguf_free)(ctx);
        for no_alloc in [0, 1] {
            let seen = [&both.ours, &both.theirs].map(|api| {
                let mut made = std::ptr::null_mut();
                let read = (api.gguf_init_from_file)(path.as_ptr(), InitParams { no_alloc, ctx: &mut made });
                assert!(!read.is_null() && !made.is_null());
                let mut seen = Vec::new();
                let mut tensor = first(made);
                while !tensor.is_null() {
                    let (n, at) = (nbytes(tensor), data(tensor));
                    let bytes = if at.is_null() { None } else { Some(std::slice::from_raw_parts(at, n).to_vec()) };
                    seen.push((std::ffi::CStr::from_ptr(name(tensor)).to_owned(), n, bytes));
                    tensor = next(made, tensor);
                }
                (api.gguf_free)(read);
                free(made);
                seen
            });
            assert!(seen[0].len() > 100);
            assert!(seen[0] == seen[1]);
        }
    }
}

fn data_that_cannot_be_there_is_refused() {
    let both = Both::load();
    let mut head = gguf_format::Head::default();
    head.tensors.push(gguf_format::TensorInfo::new("large", [1 << 60], gguf_format::GgmlType::I8));
    let bytes = head.encode().unwrap();

    unsafe extern "C-unwind" fn callback(from: *mut c_void, to: *mut c_void, at: u64, len: usize) -> usize {
        // SAFETY: the pointer leads to the vector above, and there is room for `len` bytes.
        unsafe {
            let bytes = &*from.cast::<Vec<u8>>();
            let Some(there) = bytes.get(at as usize..).and_then(|b| b.get(..len)) else { return 0 };
            to.cast::<u8>().copy_from_nonoverlapping(there.as_ptr(), len);
        }
        len
    }

    let quiet = Quiet::stderr();
    // ggml aborts the process here. A callback may claim any length, a buffer has a fixed one.
    let results = [(1u64 << 61, 0), (1 << 61, 1), (bytes.len() as u64, 0)].map(|(promised, no_alloc)| {
        let mut made = std::ptr::dangling_mut();
        let params = InitParams { no_alloc, ctx: &mut made };
        let data = std::ptr::from_ref(&bytes).cast_mut().cast();
        // SAFETY: the callback knows its data; each context is freed once, by its own library.
        unsafe {
            let ctx = (both.ours.gguf_init_from_callback)(Some(callback), data, 0, promised, params);
            (both.ours.gguf_free)(ctx);
            if !ctx.is_null() {
                both.ggml.get::<unsafe extern "C" fn(*mut c_void)>(b"ggml_free\0").unwrap()(made);
            }
            (ctx.is_null(), made.is_null())
        }
    });
    drop(quiet);
    assert_eq!(results, [(true, true), (false, false), (true, true)]);
}

fn data_decodes_to_the_values_of_ggml() {
    /// The start of `struct ggml_type_traits` of `ggml.h`.
    #[repr(C)]
    struct Traits {
        name: *const c_char,
        blck_size: i64,
        blck_size_interleave: i64,
        type_size: usize,
        is_quantized: bool,
        to_float: Option<unsafe extern "C" fn(*const c_void, *mut f32, i64)>,
    }
    const N: usize = 1024;
    let both = Both::load();
    let mut compared = 0;
    for ty in (0..43).filter(|&ty| gguf::gguf_x_can_decode(ty)) {
        // SAFETY: the signatures are those of ggml.h; packed data and floats are as long as the type says.
        unsafe {
            let traits =
                both.ggml.get::<unsafe extern "C" fn(u32) -> *const Traits>(b"ggml_get_type_traits\0").unwrap();
            let traits = &*traits(ty);
            let Some(to_float) = traits.to_float else { continue };
            let packed = Random(u64::from(ty)).bytes(N / traits.blck_size as usize * traits.type_size);
            let (mut ours, mut theirs) = ([0f32; N], [0f32; N]);
            assert!(gguf::gguf_x_decode(ty, packed.as_ptr().cast(), packed.len(), ours.as_mut_ptr(), N));
            to_float(packed.as_ptr().cast(), theirs.as_mut_ptr(), N as i64);
            let same = ours.iter().zip(&theirs).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
            assert!(same, "type {ty}");
            assert!(!gguf::gguf_x_decode(ty, packed.as_ptr().cast(), packed.len() - 1, ours.as_mut_ptr(), N));
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared} types");
}

fn what_ggml_loses_is_kept() {
    let both = Both::load();
    let read = |api: &Api, bytes: &[u8]| {
        // SAFETY: the buffer is as long as it says.
        unsafe { (api.gguf_init_from_buffer)(bytes.as_ptr().cast(), bytes.len(), no_tensors()) }
    };
    // SAFETY: contexts are used with the library that made them.
    let meta = |api: &Api, ctx: *mut Context| unsafe {
        let mut bytes = vec![0; (api.gguf_get_meta_size)(ctx)];
        (api.gguf_get_meta_data)(ctx, bytes.as_mut_ptr().cast());
        bytes
    };
    // An alignment set after tensors were added: ggml cannot read its own output, and both can read ours.
    let small = both.pool.iter().filter(|p| p.can_be_written).take(12);
    let written = [&both.ours, &both.theirs].map(|api| {
        // SAFETY: contexts are used with the library that made them.
        unsafe {
            let ctx = (api.gguf_init_empty)();
            small.clone().for_each(|p| (api.gguf_add_tensor)(ctx, p.tensor));
            (api.gguf_set_val_u32)(ctx, c"general.alignment".as_ptr(), 256);
            let bytes = meta(api, ctx);
            (api.gguf_free)(ctx);
            bytes
        }
    });
    let quiet = Quiet::stderr();
    let accepted = written.map(|bytes| {
        [&both.ours, &both.theirs].map(|api| {
            let ctx = read(api, &bytes);
            // SAFETY: the context, if there is one, is freed once.
            unsafe { (api.gguf_free)(ctx) };
            !ctx.is_null()
        })
    });
    drop(quiet);
    assert_eq!(accepted, [[true, true], [false, false]]);

    // A zero in the last dimension: ggml writes a tensor of another shape.
    let head = {
        let mut head = gguf_format::Head::default();
        head.tensors.push(gguf_format::TensorInfo::new("empty", [32, 0], gguf_format::GgmlType::F32));
        head.encode().unwrap()
    };
    let again = [&both.ours, &both.theirs].map(|api| {
        let ctx = read(api, &head);
        let is_same = meta(api, ctx) == head;
        // SAFETY: the context is freed once.
        unsafe { (api.gguf_free)(ctx) };
        is_same
    });
    assert_eq!(again, [true, false]);
}

gguf_test::tests! {
    [Peers] sequences_of_calls_give_the_same_bytes,
        changed_files_are_taken_or_refused_alike,
        every_function_of_the_header_is_there,
        tensors_are_made_alike,
        data_that_cannot_be_there_is_refused,
        data_decodes_to_the_values_of_ggml,
        what_ggml_loses_is_kept;
}
