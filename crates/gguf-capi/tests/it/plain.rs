//! Tests that do not need ggml: files, their bytes, and the functions of `gguf_x.h`.
#![cfg(unix)]

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::ptr::null;

use gguf::*;
use gguf_format::{Array, Dialect, GgmlType, Head, Str, TYPES, TensorInfo, Value, ValueRef, ValueType, Version};

use gguf_test::capi::{Api, c, no_tensors, snapshot};
use gguf_test::corpus::bytes::{ARRAY, STRING, U64, V1, V3, V3_BIG};

fn path_c(path: &Path) -> std::ffi::CString {
    c(path.to_str().unwrap())
}

fn read(bytes: &[u8]) -> *mut Context {
    // SAFETY: the buffer is as long as it says.
    unsafe { gguf_init_from_buffer(bytes.as_ptr().cast(), bytes.len(), no_tensors()) }
}

fn meta(ctx: *const Context) -> Vec<u8> {
    // SAFETY: the context lives, and the buffer has the size asked for.
    unsafe {
        let mut bytes = vec![0; gguf_get_meta_size(ctx)];
        gguf_get_meta_data(ctx, bytes.as_mut_ptr().cast());
        bytes
    }
}

/// A head of more than a megabyte, with all kinds of values that gguf.h accepts.
fn large_head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    let mut tokens = Array::new(ValueType::STRING);
    for i in 0..80_000 {
        tokens.push(ValueRef::String(Str(format!("token {i}").as_bytes()))).unwrap();
    }
    head.set("tokenizer.ggml.tokens", tokens);
    head.set("tokenizer.ggml.scores", (0..80_000).map(|i| i as f32).collect::<Array>());
    head.set("odd", Value::Array(Array::new(ValueType::BOOL)));
    head.set("last", true);
    head.tensors.push(TensorInfo::new("a", [256, 3], GgmlType::Q4_K));
    head.tensors.push(TensorInfo::new("b", [], GgmlType::F32));
    head
}

#[test]
fn the_header_has_the_types_of_the_table() {
    let header = include_str!("../../include/gguf.h");
    let listed = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("GGML_TYPE_")?.trim_end_matches(',').split_once(" = "));
    let listed: Vec<_> = listed.filter(|(name, _)| *name != "COUNT").collect();
    let known: Vec<_> = TYPES.iter().filter(|t| !t.removed).collect();
    assert_eq!(listed.len(), known.len());
    for ((name, id), ty) in listed.iter().zip(known) {
        assert_eq!((name.to_lowercase(), id.parse()), (ty.name.to_lowercase(), Ok(ty.id)));
    }
}

#[test]
fn every_source_gives_the_same() {
    let mut head = large_head();
    // A scalar has one dimension when gguf.h writes it.
    head.tensors[1].shape = vec![1];
    let bytes = head.encode().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    fs::write(&whole, &bytes).unwrap();
    fs::write(&part, [b"front".as_slice(), &bytes].concat()).unwrap();

    unsafe extern "C-unwind" fn callback(
        from: *mut std::ffi::c_void,
        to: *mut std::ffi::c_void,
        at: u64,
        len: usize,
    ) -> usize {
        // SAFETY: the pointer leads to the vector below, and there is room for `len` bytes.
        unsafe {
            let bytes = &*from.cast::<Vec<u8>>();
            let Some(there) = bytes.get(at as usize..at as usize + len) else { return 0 };
            to.cast::<u8>().copy_from_nonoverlapping(there.as_ptr(), len);
        }
        len
    }

    let api = Api::ours();
    // SAFETY: paths are C strings, the stream is open, the callback knows its data, contexts are freed once.
    unsafe {
        let stream = libc::fopen(path_c(&part).as_ptr(), c"rb".as_ptr());
        libc::fseek(stream, 5, libc::SEEK_SET);
        let data = std::ptr::from_ref(&bytes).cast_mut().cast();
        let all = [
            gguf_init_from_file(path_c(&whole).as_ptr(), no_tensors()),
            read(&bytes),
            gguf_init_from_callback(Some(callback), data, 0, 1 << 40, no_tensors()),
            gguf_init_from_callback(Some(callback), data, 1000, bytes.len() as u64, no_tensors()),
            gguf_init_from_file_ptr(stream, no_tensors()),
        ];
        libc::fclose(stream);
        let seen = all.map(|ctx| {
            assert_eq!(meta(ctx), bytes);
            let seen = snapshot(&api, ctx);
            gguf_free(ctx);
            seen
        });
        for other in &seen[1..4] {
            assert!(*other == seen[0]);
        }
        // The data starts five bytes later in the larger file, and the rest is the same.
        assert_eq!(seen[4][0], format!("v3 5 2 align 32 data {}", bytes.len() + 5));
        assert!(seen[4][1..] == seen[0][1..]);
    }
}

#[test]
fn counted_nuls_are_kept_as_ggml_keeps_them() {
    let mut head = Head { dialect: Dialect::new(Version::V2), ..Head::default() };
    head.dialect.nul_strings = true;
    head.set("general.name", "n");
    head.set("general.tags", ["a", "b"].into_iter().collect::<Array>());
    let bytes = head.encode().unwrap();
    let ctx = read(&bytes);
    // SAFETY: the context lives; keys and values are as above.
    unsafe {
        assert_eq!(gguf_find_key(ctx, c"general.tags".as_ptr()), 1);
        assert_eq!(CStr::from_ptr(gguf_get_val_str(ctx, 0)), c"n");
        assert_eq!(CStr::from_ptr(gguf_get_arr_str(ctx, 1, 1)), c"b");
        assert!(meta(ctx) == bytes);
        // C strings, after copying to another context.
        let copy = gguf_init_empty();
        gguf_set_kv(copy, ctx);
        let plain = Head { dialect: Dialect::new(Version::V3), ..head.clone() };
        assert!(meta(copy) == plain.encode().unwrap());
        gguf_free(ctx);
        gguf_free(copy);
    }
}

#[test]
fn zeros_and_alignments_survive() {
    let mut head = Head::default();
    head.set("general.alignment", 128u32);
    head.tensors.push(TensorInfo::new("empty", [32, 0], GgmlType::F32));
    head.tensors.push(TensorInfo::new("more", [3, 0, 1, 0], GgmlType::F32));
    head.tensors.push(TensorInfo::new("one", [5], GgmlType::F32));
    head.tensors.push(TensorInfo::new("two", [5], GgmlType::F32));
    let bytes = head.encode().unwrap();
    let ctx = read(&bytes);
    // SAFETY: the context lives; the ids are there.
    unsafe {
        assert_eq!((gguf_get_alignment(ctx), gguf_get_tensor_offset(ctx, 3)), (128, 128));
        assert!(meta(ctx) == bytes);
        gguf_set_val_u32(ctx, c"general.alignment".as_ptr(), 8);
        assert_eq!((gguf_get_alignment(ctx), gguf_get_tensor_offset(ctx, 3)), (8, 24));
        assert_eq!(gguf_remove_key(ctx, c"general.alignment".as_ptr()), 0);
        assert_eq!((gguf_get_alignment(ctx), gguf_get_tensor_offset(ctx, 3)), (32, 32));
        gguf_free(ctx);
    }
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    // SAFETY: the context lives; the data lives until the file is written.
    unsafe {
        let ctx = gguf_init_empty();
        let ne = [3i64];
        assert!(gguf_x_add_tensor(ctx, c"t".as_ptr(), 0, 1, ne.as_ptr(), null()));
        assert!(!gguf_write_to_file(ctx, path_c(&link).as_ptr(), false), "there is no data");
        assert_eq!(fs::read(&file).unwrap(), b"old");
        let data = [1f32, 2.0, 3.0];
        gguf_set_tensor_data(ctx, c"t".as_ptr(), data.as_ptr().cast());
        assert!(gguf_write_to_file(ctx, path_c(&link).as_ptr(), false));
        assert_eq!(fs::metadata(&file).unwrap().len(), meta(ctx).len() as u64 + 32);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        gguf_free(ctx);
    }
}

#[test]
fn a_model_in_shards_is_opened_from_any() {
    let folder = tempfile::tempdir().unwrap();
    let data: Vec<[f32; 4]> = vec![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]];
    let mut paths = Vec::new();
    for (i, data) in data.iter().enumerate() {
        let path = path_c(&folder.path().join(format!("m-{:05}-of-00002.gguf", i + 1)));
        // SAFETY: the context lives; the data lives until the file is written.
        unsafe {
            let ctx = gguf_init_empty();
            gguf_set_val_u16(ctx, c"split.no".as_ptr(), i as u16);
            gguf_set_val_u16(ctx, c"split.count".as_ptr(), 2);
            gguf_set_val_i32(ctx, c"split.tensors.count".as_ptr(), 2);
            let name = c(format!("t.{i}"));
            assert!(gguf_x_add_tensor(ctx, name.as_ptr(), 0, 1, [4i64].as_ptr(), data.as_ptr().cast()));
            assert!(gguf_write_to_file(ctx, path.as_ptr(), false));
            gguf_free(ctx);
        }
        paths.push(path);
    }
    // SAFETY: the model lives; the floats have room.
    unsafe {
        let model = gguf_x_model_open(paths[1].as_ptr());
        assert_eq!((gguf_x_model_n_files(model), gguf_x_model_n_tensors(model)), (2, 2));
        let i = gguf_x_model_find_tensor(model, c"t.1".as_ptr());
        let mut floats = [0f32; 4];
        assert!(gguf_x_model_tensor_f32(model, i, 0, 4, floats.as_mut_ptr()));
        assert_eq!(floats, data[1]);
        let first = gguf_x_model_context(model, 0);
        assert_eq!(gguf_get_val_u16(first, gguf_find_key(first, c"split.count".as_ptr())), 2);
        gguf_x_model_free(model);
        fs::remove_file(paths[0].to_str().unwrap()).unwrap();
        assert!(gguf_x_model_open(paths[1].as_ptr()).is_null());
        assert!(CStr::from_ptr(gguf_x_last_error()).to_str().unwrap().contains("shard 1 of 2 is missing"));
    }
}

#[test]
fn shapes_that_ggml_cannot_make_are_refused() {
    let big = 1u64 << 62;
    let max = i64::MAX as u64;
    let refused: [&[u64]; 8] = [
        &[big, big, big, 0],
        &[big, 0, big],
        &[big, 2],
        &[1 << 31, (1 << 32) - 1],
        &[max],
        &[1, 1, max],
        &[7, max / 7],
        &[1, 0, big, 2],
    ];
    let taken: [&[u64]; 5] = [&[0, big, big], &[big, 0], &[max - 1], &[6, max / 7], &[1 << 31, 1 << 31, 0]];
    let is_read = |shape: &[u64]| {
        let mut head = Head::default();
        head.tensors.push(TensorInfo::new("t", shape.to_vec(), GgmlType::I8));
        let mut bytes = head.encode_as_read().unwrap();
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let ctx = read(&bytes);
        // SAFETY: the context, if there is one, is freed once.
        unsafe { gguf_free(ctx) };
        !ctx.is_null()
    };
    assert_eq!(refused.map(is_read), [false; 8]);
    assert_eq!(taken.map(is_read), [true; 5]);
}

/// Heads with large claims, followed by zeros, up to a tebibyte. Rejecting them reads only a small part.
#[test]
fn nothing_is_read_for_a_length_that_is_refused() {
    struct Source {
        start: Vec<u8>,
        asked: u64,
    }
    unsafe extern "C-unwind" fn callback(
        from: *mut std::ffi::c_void,
        to: *mut std::ffi::c_void,
        at: u64,
        len: usize,
    ) -> usize {
        // SAFETY: the pointer leads to the source below, and there is room for `len` bytes.
        let (source, to) =
            unsafe { (&mut *from.cast::<Source>(), std::slice::from_raw_parts_mut(to.cast::<u8>(), len)) };
        source.asked += len as u64;
        to.fill(0);
        let there = source.start.get(at as usize..).unwrap_or_default();
        let n = there.len().min(len);
        to[..n].copy_from_slice(&there[..n]);
        if source.asked < 64 << 20 { len } else { 0 }
    }
    let long = |n: u64| V3.string_of(n, b"");
    let of = |n_tensors, n_kv, rest: Vec<u8>| [V3.file().n_tensors(n_tensors).n_kv(n_kv).head(), rest].concat();
    let array = |ty, n, rest: &[u8]| of(0, 1, [V3.string(b"k"), V3.u32(ARRAY), V3.array(ty, n, rest)].concat());
    let heads = [
        ("a key", of(0, 1, long(1 << 39))),
        ("a string", of(0, 1, [V3.string(b"k"), V3.u32(STRING), long(1 << 39)].concat())),
        ("numbers", array(U64, 1 << 36, b"")),
        ("strings", array(STRING, 1 << 36, b"")),
        ("a string of many", array(STRING, 2, &long(1 << 39))),
        ("arrays", array(ARRAY, 1 << 20, b"")),
        ("a name", of(1, 0, long(1 << 39))),
        ("dimensions", of(1, 0, [V3.string(b"t"), V3.u32(u32::MAX)].concat())),
        ("empty keys", of(0, 1 << 35, vec![])),
        ("tensors alike", of(1 << 35, 0, vec![])),
        ("version 1", V1.file().n_tensors(1 << 31).head()),
        ("big-endian", V3_BIG.file().n_tensors(1 << 35).head()),
    ];
    for (name, start) in heads {
        let mut source = Source { start, asked: 0 };
        let data = std::ptr::from_mut(&mut source).cast();
        // SAFETY: the callback knows its data.
        let ctx = unsafe { gguf_init_from_callback(Some(callback), data, 0, 1 << 40, no_tensors()) };
        assert!(ctx.is_null(), "{name}");
        assert!(source.asked <= 2 << 20, "{name}: {} bytes are read", source.asked);
    }
}

#[test]
fn errors_have_an_offset() {
    let mut head = Head::default();
    head.set("a", 1u32);
    let mut bytes = head.encode().unwrap();
    bytes[33] = 99;
    assert!(read(&bytes).is_null());
    assert_eq!(gguf_x_last_error_offset(), 33);
    // SAFETY: the text lives until the next error of this thread.
    let text = unsafe { CStr::from_ptr(gguf_x_last_error()) }.to_str().unwrap();
    assert_eq!(text, "gguf_init_from_buffer: byte 33: type of value 0 (a): invalid value type 99; expected 0 to 12");
    // Stored per thread.
    std::thread::spawn(|| assert_eq!(gguf_x_last_error_offset(), u64::MAX)).join().unwrap();
}
