//! Editing files: every method, every dialect, and the unchanged parts.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_edit::{Edit, EditError, EditMethod, EditOptions, EditPlan, PAD_KEY};
use gguf_format::{ByteOrder, Dialect, GgmlType, Head, TensorInfo, Value, Version};
use gguf_io::in_place::{EditLock, space};
use gguf_io::{ModelFile, Writer};
#[cfg(unix)]
use gguf_pipeline::Event;

fn set(key: &str, value: impl Into<Value>) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

fn unset(key: &str) -> Edit {
    Edit::Unset { key: key.into() }
}

fn head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "A name");
    head.set("tokenizer.ggml.tokens", (0..3000).map(|i| format!("token {i}")).collect::<Vec<String>>());
    head.set("tokenizer.chat_template", "{{ messages }}");
    head.tensors = vec![
        TensorInfo::new("token_embd.weight", [32, 100], GgmlType::Q8_0),
        TensorInfo::new("output_norm.weight", [33], GgmlType::F32),
    ];
    head
}

fn data(head: &Head) -> Vec<Vec<u8>> {
    let one = |(i, tensor): (usize, &TensorInfo)| {
        (0..tensor.n_bytes().unwrap()).map(|at| (at as usize * 31 + i * 7 + 1) as u8).collect()
    };
    head.tensors.iter().enumerate().map(one).collect()
}

fn write(path: &Path, head: &Head) {
    fs::write(path, Writer::write(Vec::new(), head, data(head)).unwrap()).unwrap();
}

fn edit(path: &Path, edits: &[Edit], options: &EditOptions) -> Result<EditMethod, EditError> {
    EditPlan::new(path, edits, options)?.run(&())
}

/// The key-values of a file without the padding key, its tensors' names, and their data.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
fn content(path: &Path) -> (Vec<(String, Value)>, Vec<String>, Vec<Vec<u8>>) {
    let file = ModelFile::open(path).unwrap();
    let gguf = file.gguf();
    let kvs = gguf.kvs().filter(|kv| kv.key != PAD_KEY);
    let kvs = kvs.map(|kv| (kv.key.to_string(), kv.value.to_owned())).collect();
    let names = gguf.tensors().map(|t| t.name.to_string()).collect();
    let bytes = fs::read(path).unwrap();
    let data = |t| {
        let range = gguf.tensor_range(&t).unwrap();
        bytes[range.start as usize..range.end as usize].to_vec()
    };
    (kvs, names, gguf.tensors().map(data).collect())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn model(&self) -> PathBuf {
        let path = self.path("m.gguf");
        write(&path, &head());
        path
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn inserts(&self) -> bool {
        space::can_insert(&self.path("m.gguf"))
    }
}

#[test]
fn a_value_of_the_same_length_takes_the_place_of_the_old_one() {
    let dir = Folder::new();
    let path = dir.model();
    let before = fs::read(&path).unwrap();
    assert_eq!(edit(&path, &[set("general.name", "B name")], &EditOptions::default()).unwrap(), EditMethod::Reserved);
    let mut expected = head();
    expected.set("general.name", "B name");
    write(&dir.path("expected.gguf"), &expected);
    // Nothing else differs.
    assert!(fs::read(&path).unwrap() == fs::read(dir.path("expected.gguf")).unwrap());
    assert_eq!(edit(&path, &[set("general.name", "B name")], &EditOptions::default()).unwrap(), EditMethod::Nothing);
    assert_eq!(edit(&path, &[set("general.name", "A name")], &EditOptions::default()).unwrap(), EditMethod::Reserved);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn what_is_removed_leaves_room_that_is_used_again() {
    let dir = Folder::new();
    let path = dir.model();
    let file_bytes = fs::metadata(&path).unwrap().len();
    let template = "x".repeat(200);
    let options = EditOptions::default().only_in_place(true);
    let way = edit(&path, &[set("tokenizer.chat_template", template.as_str())], &options);
    assert_eq!(way.is_ok(), dir.inserts());
    edit(&path, &[set("tokenizer.chat_template", template.as_str())], &EditOptions::default()).unwrap();
    edit(&path, &[unset("tokenizer.chat_template")], &options).unwrap();
    let plan = EditPlan::new(&path, &[set("tokenizer.chat_template", template.as_str())], &options).unwrap();
    assert_eq!(plan.method(), EditMethod::Reserved);
    plan.run(&()).unwrap();
    assert_eq!(content(&path).0.last().unwrap().1, template.into());
    assert_eq!(content(&path).2, data(&head()));
    // A removal from a file without space: the removed bytes become space.
    write(&path, &head());
    assert_eq!(edit(&path, &[unset("tokenizer.ggml.tokens")], &options).unwrap(), EditMethod::Reserved);
    assert_eq!(fs::metadata(&path).unwrap().len(), file_bytes);
    assert!(gguf_edit::reserved_bytes(ModelFile::open(&path).unwrap().gguf()) > 30_000);
    assert_eq!(content(&path).2, data(&head()));
}

/// However much a head shrinks, the data keeps its place.
#[test]
fn every_length_fits() {
    let dir = Folder::new();
    let path = dir.path("m.gguf");
    let options = EditOptions::default().only_in_place(true);
    for version in [Version::V1, Version::V2, Version::V3] {
        for len in 0..100 {
            let mut head = head();
            head.dialect = Dialect::new(version);
            head.set("general.name", "n".repeat(100));
            write(&path, &head);
            let name = "m".repeat(len);
            let edits = [set("general.name", name.as_str())];
            assert_eq!(edit(&path, &edits, &options).unwrap(), EditMethod::Reserved, "{version:?} {len}");
            let (kvs, _, there) = content(&path);
            assert_eq!(kvs[1].1, name.into());
            assert!(there == data(&head));
        }
    }
}

#[test]
fn room_can_be_reserved() {
    let dir = Folder::new();
    let path = dir.path("m.gguf");
    let mut roomy = head();
    gguf_edit::reserve(&mut roomy, 5000);
    write(&path, &roomy);
    let options = EditOptions::default().only_in_place(true);
    let before = fs::read(&path).unwrap();
    let more = "y".repeat(4999);
    let plan = EditPlan::new(&path, &[set("general.name", format!("A name{more}"))], &options).unwrap();
    assert_eq!((plan.method(), plan.reserved_bytes()), (EditMethod::Reserved, 1));
    plan.run(&()).unwrap();
    assert_eq!(fs::read(&path).unwrap().len(), before.len());
    edit(&path, &[set("general.name", "A name")], &options).unwrap();
    assert!(fs::read(&path).unwrap() == before);
    // The alignment adds some space to the reserved bytes.
    let too_much = set("general.name", "z".repeat(5100));
    match edit(&path, std::slice::from_ref(&too_much), &options) {
        Ok(EditMethod::Insert { bytes }) => assert!(dir.inserts() && bytes > 0),
        Err(e) => assert!(matches!(e.problem(), EditError::NotInPlace { .. }) && !dir.inserts(), "{e}"),
        other => panic!("{other:?}"),
    }
    // Reserving space alone, with a rewrite if necessary.
    write(&path, &head());
    let plan = EditPlan::new(&path, &[], &EditOptions::default().reserve(10_000)).unwrap();
    assert!(plan.reserved_bytes() >= 10_000 && plan.changes().is_empty());
    plan.run(&()).unwrap();
    assert!(gguf_edit::reserved_bytes(ModelFile::open(&path).unwrap().gguf()) >= 10_000);
    assert_eq!(edit(&path, &[], &EditOptions::default().reserve(9_000)).unwrap(), EditMethod::Nothing);
    // A rewritten file has only the requested space.
    let way = edit(&path, &[], &EditOptions::default().rewrite(true)).unwrap();
    assert!(matches!(way, EditMethod::Copy { .. }));
    write(&dir.path("expected.gguf"), &head());
    assert!(fs::read(&path).unwrap() == fs::read(dir.path("expected.gguf")).unwrap());
}

#[test]
fn bytes_are_inserted_where_the_file_system_can() {
    let dir = Folder::new();
    let path = dir.model();
    if !dir.inserts() {
        return;
    }
    let block = space::block_bytes(&path).unwrap();
    let before = fs::metadata(&path).unwrap();
    let template = "t".repeat(20_000);
    let edits = [set("tokenizer.chat_template", template.as_str())];
    let plan = EditPlan::new(&path, &edits, &EditOptions::default()).unwrap();
    let EditMethod::Insert { bytes } = plan.method() else { panic!("{:?}", plan.method()) };
    assert!(bytes % block == 0 && bytes >= 20_000 - 64 && bytes < 20_000 + block);
    assert_eq!(plan.file_bytes(), (before.len(), before.len() + bytes));
    let reserved = plan.reserved_bytes();
    plan.run(&()).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.len(), before.len() + bytes);
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&before), std::os::unix::fs::MetadataExt::ino(&after));
    assert_eq!(gguf_edit::reserved_bytes(ModelFile::open(&path).unwrap().gguf()), reserved);
    let (kvs, names, there) = content(&path);
    assert_eq!(kvs[3].1, template.into());
    assert_eq!((names, there), (vec!["token_embd.weight".to_owned(), "output_norm.weight".to_owned()], data(&head())));
    assert_eq!(dir.names(), ["m.gguf"]);
}

#[test]
fn names_are_changed_in_their_places() {
    let dir = Folder::new();
    let path = dir.model();
    let edits = [
        Edit::RenameKey { from: "general.name".into(), to: "general.basename".into() },
        Edit::RenameTensor { from: "output_norm.weight".into(), to: "norm.weight".into() },
        Edit::RenameTensor { from: "token_embd.weight".into(), to: "output_norm.weight".into() },
    ];
    edit(&path, &edits, &EditOptions::default()).unwrap();
    let (kvs, names, there) = content(&path);
    assert_eq!(kvs[1], ("general.basename".to_owned(), "A name".into()));
    assert_eq!((names, there), (vec!["output_norm.weight".to_owned(), "norm.weight".to_owned()], data(&head())));
}

#[cfg(unix)]
#[test]
fn other_names_of_the_file_keep_it_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Folder::new();
    let path = dir.model();
    let before = fs::read(&path).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    fs::hard_link(&path, dir.path("other.gguf")).unwrap();
    let options = EditOptions::default().only_in_place(true);
    let error = edit(&path, &[set("general.name", "C name")], &options).unwrap_err();
    assert!(
        error.to_string().contains("the file has several names (hard links), so a new file would have to replace it"),
        "{error}"
    );
    let way = edit(&path, &[set("general.name", "C name")], &EditOptions::default()).unwrap();
    assert!(matches!(way, EditMethod::Copy { .. } | EditMethod::Share));
    assert!(fs::read(dir.path("other.gguf")).unwrap() == before);
    assert_eq!(content(&path).0[1].1, "C name".into());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // Through a link, the file is edited and the link is kept.
    std::os::unix::fs::symlink("m.gguf", dir.path("link.gguf")).unwrap();
    edit(&dir.path("link.gguf"), &[set("general.name", "D name")], &EditOptions::default()).unwrap();
    edit(&dir.path("link.gguf"), &[set("general.name", "E name")], &EditOptions::default().rewrite(true)).unwrap();
    assert!(fs::symlink_metadata(dir.path("link.gguf")).unwrap().is_symlink());
    assert_eq!(content(&path).0[1].1, "E name".into());
}

#[test]
fn a_copy_leaves_the_file_as_it_is() {
    let dir = Folder::new();
    let path = dir.model();
    let before = fs::read(&path).unwrap();
    let plan = |name: &str| EditPlan::new(&path, &[set("general.name", name)], &EditOptions::default()).unwrap();
    let out = dir.path("out.gguf");
    plan("A longer name than before, by some bytes").write_to(&out, false, &()).unwrap();
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(content(&out).0[1].1, "A longer name than before, by some bytes".into());
    assert_eq!(content(&out).2, data(&head()));
    let error = plan("x").write_to(&out, false, &()).unwrap_err();
    assert!(matches!(&error, EditError::Io(e) if matches!(**e, gguf_io::Error::Exists(_))), "{error}");
    let error = plan("x").write_to(&path, true, &()).unwrap_err();
    assert!(matches!(error.problem(), EditError::SameFile), "{error}");
    plan("x").write_to(&out, true, &()).unwrap();
    assert_eq!(content(&out).0[1].1, "x".into());
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(dir.names(), ["m.gguf", "out.gguf"]);
}

#[test]
fn what_cannot_be_edited_is_left_alone() {
    let dir = Folder::new();
    let path = dir.model();
    let before = fs::read(&path).unwrap();
    let rename = |from: &str, to: &str| Edit::RenameTensor { from: from.into(), to: to.into() };
    let cases: Vec<(Edit, &str)> = vec![
        (unset("general.nam"), "m.gguf: there is no key general.nam; did you mean general.name?"),
        (set("", "x"), "invalid key "),
        (set("a\0b", "x"), "invalid key "),
        (set("general.alignment", 64u32), "m.gguf: changing general.alignment would move every tensor"),
        (set(PAD_KEY, "x"), "only reserves space for later edits"),
        (unset(PAD_KEY), "there is no key ggufkit.pad"),
        (rename("output.weight", "x"), "there is no tensor output.weight"),
        (rename("output_norm.weight", "token_embd.weight"), "the name token_embd.weight is taken"),
        (rename("output_norm.weight", &"x".repeat(64)), "invalid tensor name "),
        (Edit::RenameKey { from: "general.name".into(), to: "general.architecture".into() }, "is taken"),
    ];
    for (edit, message) in cases {
        let error = EditPlan::new(&path, &[edit], &EditOptions::default()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_padding_key_of_another_type_is_not_duplicated() {
    let dir = Folder::new();
    let path = dir.path("m.gguf");
    for value in [Value::U32(7), Value::Array(["a", "b"].into_iter().collect())] {
        let mut head = head();
        head.set(PAD_KEY, value);
        write(&path, &head);
        let before = fs::read(&path).unwrap();
        let long = [set("general.name", "x".repeat(100))];
        for options in
            [EditOptions::default(), EditOptions::default().reserve(100), EditOptions::default().rewrite(true)]
        {
            let error = edit(&path, &long, &options).unwrap_err();
            assert!(error.to_string().contains("ggufkit.pad is not a string"), "{error}");
            assert!(fs::read(&path).unwrap() == before);
        }
        // Without the key, the file can be edited.
        edit(&path, &[unset(PAD_KEY)], &EditOptions::default()).unwrap();
        edit(&path, &long, &EditOptions::default()).unwrap();
        let file = ModelFile::open(&path).unwrap();
        assert!(file.gguf().kvs().filter(|kv| kv.key == PAD_KEY).count() <= 1);
        assert_eq!(file.gguf().n_kv() - u64::from(file.gguf().get(PAD_KEY).is_some()), 4);
    }
    // Several of them become one.
    let mut head = head();
    head.kvs.extend(["  ", "   "].map(|pad| gguf_format::Kv { key: PAD_KEY.into(), value: pad.into() }));
    let mut bytes = head.encode_as_read().unwrap();
    for data in data(&head) {
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(data);
    }
    fs::write(&path, bytes).unwrap();
    edit(&path, &[set("general.name", "x".repeat(100))], &EditOptions::default()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(file.gguf().kvs().filter(|kv| kv.key == PAD_KEY).count(), 1);
}

#[test]
fn shards_have_their_keys_in_the_first_one() {
    let dir = Folder::new();
    let path = dir.path("m-00002-of-00002.gguf");
    let mut head = head();
    head.kvs.clear();
    head.set("split.no", 1u16);
    head.set("split.count", 2u16);
    head.set("split.tensors.count", 2i32);
    write(&path, &head);
    let error = EditPlan::new(&path, &[set("general.name", "x")], &EditOptions::default()).unwrap_err();
    assert!(matches!(error.problem(), EditError::NotFirstShard { number: 2 }), "{error}");
    edit(&path, &[set("split.tensors.count", 3i32)], &EditOptions::default()).unwrap();
    let rename = Edit::RenameTensor { from: "output_norm.weight".into(), to: "x".into() };
    edit(&path, &[rename], &EditOptions::default()).unwrap();
    assert_eq!(content(&path).1, ["token_embd.weight", "x"]);
}

/// A long series of edits of all kinds, compared with edits in memory.
#[test]
fn any_edits_in_any_dialect() {
    let dir = Folder::new();
    let path = dir.path("m.gguf");
    for (version, order, alignment) in [
        (Version::V3, ByteOrder::Little, None),
        (Version::V3, ByteOrder::Big, Some(64u32)),
        (Version::V2, ByteOrder::Little, Some(1)),
        (Version::V1, ByteOrder::Little, Some(8)),
        (Version::V3, ByteOrder::Little, Some(8192)),
    ] {
        let mut expected = head();
        expected.dialect = Dialect::new(version);
        expected.dialect.order = order;
        if let Some(alignment) = alignment {
            expected.set("general.alignment", alignment);
        }
        write(&path, &expected);
        let mut random = 12345u32;
        let mut next = |n: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % n
        };
        let (mut ways, mut names) = (Vec::new(), vec!["token_embd.weight".to_owned(), "output_norm.weight".to_owned()]);
        for i in 0..60 {
            let key = format!("own.key{}", next(5));
            let edits = match next(4) {
                0 if expected.get(&key).is_some() => vec![unset(&key)],
                1 => {
                    let to = format!("tensor{i}");
                    let from = std::mem::replace(&mut names[1], to.clone());
                    vec![Edit::RenameTensor { from, to }]
                }
                2 => vec![set(&key, next(9)), set("general.name", "n".repeat(next(3000) as usize))],
                _ => vec![set(&key, "v".repeat(next(200) as usize))],
            };
            let reserve = if next(9) == 0 { u64::from(next(500)) } else { 0 };
            let options = EditOptions::default().reserve(reserve).rewrite(next(20) == 0);
            ways.push(edit(&path, &edits, &options).unwrap());
            gguf_edit::apply(&mut expected, &edits).unwrap();
            let (kvs, found, there) = content(&path);
            let expected: Vec<(String, Value)> =
                expected.kvs.iter().map(|kv| (String::from_utf8(kv.key.clone()).unwrap(), kv.value.clone())).collect();
            assert!(kvs == expected, "{version:?} {order:?} {i} {edits:?}\n{kvs:?}\n{expected:?}");
            assert_eq!(found, names);
            assert!(there == data(&head()), "{version:?} {order:?} {i}: {edits:?} {:?}", ways.last());
            assert_eq!(dir.names(), ["m.gguf"]);
        }
        assert!(
            ways.contains(&EditMethod::Reserved)
                && ways.iter().any(|way| matches!(way, EditMethod::Copy { .. } | EditMethod::Share))
        );
        let inserted = ways.iter().any(|way| matches!(way, EditMethod::Insert { .. }));
        assert!(inserted || !dir.inserts() || alignment == Some(8192), "{ways:?}");
        let file = ModelFile::open(&path).unwrap();
        assert_eq!(file.gguf().dialect(), expected.dialect);
    }
}

#[test]
fn findings_that_an_edit_causes_are_told() {
    let dir = Folder::new();
    let path = dir.model();
    let findings = |edits: &[Edit]| -> Vec<String> {
        let plan = EditPlan::new(&path, edits, &EditOptions::default()).unwrap();
        plan.new_findings().iter().map(|finding| finding.to_string()).collect()
    };
    assert_eq!(findings(&[set("general.name", "fine")]), [""; 0]);
    let found = findings(&[set("tokenizer.ggml.bos_token_id", 3000u32)]);
    assert!(found.len() == 1 && found[0].contains("bos_token_id"), "{found:?}");
}

/// What another process does between the plan and the end of an edit.
#[cfg(unix)]
#[test]
fn an_edit_of_a_file_that_has_changed_is_an_error() {
    let replaced = |path: &Path| {
        let other = path.with_file_name("other");
        fs::copy(path, &other).unwrap();
        fs::rename(&other, path).unwrap();
    };
    let edited = |path: &Path| {
        EditPlan::new(path, &[set("general.name", "B name")], &EditOptions::default()).unwrap().run(&()).unwrap();
    };
    let written = |path: &Path| {
        // The last byte of the data.
        let file = fs::File::options().write(true).open(path).unwrap();
        let len = file.metadata().unwrap().len();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7], len - 1).unwrap();
    };
    type Change<'a> = (&'a str, &'a (dyn Fn(&Path) + Sync));
    let changes: [Change<'_>; 3] = [("replaced", &replaced), ("edited", &edited), ("written", &written)];
    let anew = EditOptions::default().rewrite(true);
    for (what, change) in changes {
        for options in [EditOptions::default(), EditOptions::default().reserve(5000), anew.clone()] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("m.gguf");
            write(&path, &head());
            let edit = set("general.name", "C name");
            let plan = EditPlan::new(&path, std::slice::from_ref(&edit), &options).unwrap();
            let copy = EditPlan::new(&path, &[edit], &options).unwrap();
            let way = plan.method();
            change(&path);
            let there = fs::read(&path).unwrap();
            let error = plan.run(&()).unwrap_err().to_string();
            assert!(error.contains("has changed since it was read; nothing was written"), "{what} {way:?}: {error}");
            assert!(fs::read(&path).unwrap() == there, "{what} {way:?}");
            // A copy is made from the file that was opened.
            let out = dir.path().join("out");
            let copied = copy.write_to(&out, false, &());
            assert_eq!(copied.is_ok(), what == "replaced", "{what} {way:?}: {copied:?}");
            assert_eq!(out.exists(), what == "replaced");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), if out.exists() { 2 } else { 1 }, "{what} {way:?}");
        }
        // During a rewrite, and during a copy.
        for to_copy in [false, true] {
            if what == "edited" && !to_copy {
                // Another edit is excluded.
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("m.gguf");
            write(&path, &head());
            let plan = EditPlan::new(&path, &[set("general.name", "C name")], &anew).unwrap();
            let out = dir.path().join("out");
            let meanwhile = |event: Event<'_>| {
                if matches!(event, Event::Written) {
                    change(&path);
                }
            };
            let done = if to_copy { plan.write_to(&out, false, &meanwhile) } else { plan.run(&meanwhile) };
            let is_fine = to_copy && what == "replaced";
            assert_eq!(done.is_ok(), is_fine, "{what} {to_copy}: {done:?}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), if is_fine { 2 } else { 1 }, "{what} {to_copy}");
            let file = ModelFile::open(&path).unwrap();
            assert_ne!(file.gguf().get_as::<&str>("general.name"), Ok("C name"));
        }
    }
}

#[test]
fn a_locked_file_is_edited_by_its_holder_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    write(&path, &head());
    let lock = EditLock::new(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let edit = |name: &str| [set("general.name", name)];
    for options in [EditOptions::default(), EditOptions::default().rewrite(true)] {
        let other = EditPlan::new(&path, &edit("Other"), &options).unwrap().run(&());
        assert!(matches!(&other, Err(EditError::Io(e)) if matches!(**e, gguf_io::Error::Busy(_))), "{other:?}");
    }
    let plan = EditPlan::of(file, &edit("Mine"), &EditOptions::default().rewrite(true)).unwrap();
    plan.run_locked(lock, &()).unwrap();
    assert_eq!(ModelFile::open(&path).unwrap().gguf().get_as::<&str>("general.name"), Ok("Mine"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
