//! Older and rarer dialects: version 1 and its draft, counted NULs, and ambiguous files.

use super::bytes::*;
use super::other::small;
use super::{Corpus, Reading};

pub fn cases(c: &mut Corpus) {
    one_or_draft(c);
    drafts(c);
    broken_drafts(c);
    counted_nuls(c);
}

/// Released files of version 1 that resemble drafts.
fn one_or_draft(c: &mut Corpus) {
    for (form, f) in [("v1", V1), ("v1-big", V1_BIG)] {
        for n in 0..40 {
            let texts = vec!["x"; n];
            c.sound(format!("{form}-first-{n}-strings"), f.file().kv("a.b", ARRAY, f.strings(&texts)).bytes());
            let more = f.file().kv("a.b", ARRAY, f.strings(&texts)).kv("c.d", U32, f.u32(1));
            c.sound(format!("{form}-first-{n}-strings-more"), more.bytes());
            let bytes = f.file().kv("a.b", ARRAY, f.array(U8, n as u64, &vec![9; n])).kv("c.d", U32, f.u32(1));
            c.sound(format!("{form}-first-{n}-bytes"), bytes.bytes());
            let text = f.file().kv("a.b", STRING, f.string(&vec![b'x'; n]));
            c.sound(format!("{form}-first-string-{n}"), text.bytes());
            c.sound(format!("{form}-first-string-{n}-more"), text.kv("c.d", U32, f.u32(1)).bytes());
        }
        for v in 0..14 {
            for ty in [U8, I8, U16, I16, U32, I32, F32, BOOL, U64, I64, F64] {
                let bit = if ty == BOOL { v & 1 } else { v };
                let alone = f.file().kv("a.b", ty, f.number(ty, bit));
                c.sound(format!("{form}-first-{ty}-is-{v}"), alone.bytes());
                for key in ["c", "cd", "c.d", "c.de", "c.de8", "c.def.gh", "general.alignment.not"] {
                    let more = alone.clone().kv(key, U32, f.u32(8));
                    c.sound(format!("{form}-first-{ty}-is-{v}-then-{key}"), more.bytes());
                }
                let tensor = alone.tensor("t", &[8], 0, 0).data(32);
                c.sound(format!("{form}-first-{ty}-is-{v}-and-tensor"), tensor.bytes());
            }
        }
    }
}

fn drafts(c: &mut Corpus) {
    for (inclusive, type_first, full_padding) in (0..8).map(|i| (i & 1 != 0, i & 2 != 0, i & 4 != 0)) {
        let f = draft(inclusive, type_first, full_padding);
        let name = format!(
            "draft{}{}{}",
            if inclusive { "-inclusive" } else { "" },
            if type_first { "-type-first" } else { "" },
            if full_padding { "-full-padding" } else { "" }
        );
        c.sound(name.clone(), small(f).bytes());
        let rich = f
            .llama()
            .kv("llama.num_layers", U32, f.u32(3))
            .kv("llama.use_parallel_residual", BOOL, [1])
            .kv("tokenizer.embedded.tokens", ARRAY, f.strings(&["<unk>", "", "a"]))
            .kv("tokenizer.embedded.scores", ARRAY, f.array(F32, 3, &[0; 12]))
            .kv("general.empty", ARRAY, f.array(U16, 0, &[]));
        c.sound(format!("{name}-rich"), rich.bytes());
        // The pairs end on the alignment, so that the padding is empty or complete.
        let before = f.llama().kv("pad", STRING, f.string(b"")).pairs_end();
        let exact = f.llama().kv("pad", STRING, f.string(&vec![b'p'; before.next_multiple_of(64) - before]));
        let offset = exact.clone().tensor("t", &[8], 0, 0).head().len().next_multiple_of(64) as u64;
        let exact = exact.tensor("t", &[8], 0, offset).data(32);
        c.sound(format!("{name}-on-the-alignment"), exact.bytes());
    }
    for (name, ty, value) in [
        ("u8", U8, vec![3]),
        ("u16", U16, DRAFT.u16(3)),
        ("u32", U32, DRAFT.u32(3)),
        ("i32", I32, DRAFT.u32(3)),
        ("f32", F32, DRAFT.u32(1.5f32.to_bits())),
        ("bool", BOOL, vec![1]),
    ] {
        let first =
            DRAFT.file().kv("llama.num_layers", ty, value).kv("general.architecture", STRING, DRAFT.string(b"llama"));
        c.sound(format!("draft-first-{name}"), first.bytes());
    }
    let f = DRAFT;
    let first = f.file().kv("a.tokens", ARRAY, f.array(F32, 20, &[0; 80])).kv("b.c", U32, f.u32(1));
    c.sound("draft-first-array", first.bytes());
    c.sound("draft-ignores-alignment", small(f).kv("general.alignment", U32, f.u32(3)).n_tensors(0).bytes());
    c.sound("draft-no-dimensions", {
        let offset = f.llama().tensor("t", &[], 0, 0).head().len().next_multiple_of(64) as u64;
        f.llama().tensor("t", &[], 0, offset).data(4).bytes()
    });
}

fn broken_drafts(c: &mut Corpus) {
    let f = DRAFT;
    let stated = |n: u32| f.llama().raw_kv(f.kv_stating(b"llama.rot", n, U32, &f.u32(8))).bytes();
    for n in [0, 3, 5, 8, 0x7fff_ffff, u32::MAX] {
        c.add(format!("draft-length-{n}"), stated(n), Reading::DraftLength, &["draft.length"]);
        let text = f.llama().raw_kv(f.kv_stating(b"general.name", n + u32::from(n == 4), STRING, &f.string(b"text")));
        c.add(format!("draft-length-string-{n}"), text.bytes(), Reading::DraftLength, &["draft.length"]);
    }
    for n in [0, 7, 9, u32::MAX] {
        let info = f.info_stating(b"t", 1, &[8], n, 0, 256);
        let file = f.llama().raw_tensor(info).data(256).bytes();
        c.add(format!("draft-elements-{n}"), file, Reading::DraftElements, &["draft.elements"]);
    }
    let at = |offset| f.llama().tensor("t", &[16], 0, offset).data(64).bytes();
    c.reads("draft-offset-0", at(0), &["tensor.in_head"]);
    c.reads("draft-offset-64", at(64), &["tensor.in_head"]);
    c.reads("draft-offset-beyond", at(1 << 20), &["tensor.bounds", "file.truncated"]);
    c.reads("draft-offset-max", at(u64::MAX - 63), &["tensor.bounds"]);
    let file = small(f);
    // A draft of one pair is distinguished from a released file by its padding; this one has two.
    let two = f.llama().kv("llama.rot", U32, f.u32(8)).tensor("t", &[8], 0, 0);
    let mut dirty = two.bytes();
    dirty[two.pairs_end() + 3] = 1;
    c.add("draft-padding", dirty, Reading::DraftPadding, &["draft.padding"]);
    let (bytes, head) = (file.bytes(), file.head().len());
    for n in [head - 1, head - 30, 64, 80] {
        c.past_end(format!("draft-trunc-{n}"), bytes[..n].to_vec(), &["head.past_end"]);
    }
    c.reads("draft-trunc-data", bytes[..bytes.len() - 1].to_vec(), &["tensor.bounds", "file.truncated"]);
}

/// Files in which all, some, or no strings end in NUL.
fn counted_nuls(c: &mut Corpus) {
    for (form, plain, nul) in [("v1", V1, V1_NUL), ("v2", V2, V2_NUL), ("v3", V3, Form { nul: true, ..V3 })] {
        let tokens = nul.strings(&["<unk>", "", "a", "\0"]);
        let all = nul.llama().kv("tokenizer.ggml.tokens", ARRAY, tokens).tensor("t", &[8], 0, 0).data(32);
        c.sound(format!("nul-{form}-all"), all.bytes());
        c.sound(format!("nul-{form}-only-a-tensor"), nul.file().tensor("t", &[8], 0, 0).data(32).bytes());
        c.sound(format!("nul-{form}-empty-key-first"), nul.file().kv("a", STRING, nul.string(b"")).bytes());
        // One string without a NUL: none of them counts one.
        let one = |kv: Vec<u8>| nul.llama().raw_kv(kv).tensor("t", &[8], 0, 0).data(32).bytes();
        c.sound(format!("nul-{form}-but-a-key"), one(plain.kv(b"a", U8, &[1])));
        let key = nul.string(b"a");
        c.sound(format!("nul-{form}-but-a-value"), one([key.clone(), nul.u32(STRING), plain.string(b"b")].concat()));
        c.sound(
            format!("nul-{form}-but-an-empty-value"),
            one([key.clone(), nul.u32(STRING), plain.string(b"")].concat()),
        );
        let inside = nul.array(STRING, 2, &[nul.string(b"x"), plain.string(b"y")].concat());
        c.sound(format!("nul-{form}-but-an-element"), one([key, nul.u32(ARRAY), inside].concat()));
        let tensor = nul.llama().raw_tensor(plain.info(b"t", &[8], 0, 0)).data(32);
        c.sound(format!("nul-{form}-but-a-tensor"), tensor.bytes());
        let deep = nul.array(ARRAY, 1, &nul.strings(&["a", "b"]));
        c.sound(format!("nul-{form}-nested"), nul.llama().kv("n", ARRAY, deep).bytes());
        let mixed = nul.array(ARRAY, 1, &plain.strings(&["a", "b"]));
        c.sound(format!("nul-{form}-nested-plain"), nul.llama().kv("n", ARRAY, mixed).bytes());
        c.sound(format!("nul-{form}-one-plain-key"), plain.file().kv("a\0", U8, [1]).kv("b", U8, [1]).bytes());
    }
}
