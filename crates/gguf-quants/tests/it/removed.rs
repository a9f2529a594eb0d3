//! Layouts removed from ggml: those of the documentation of [`gguf_quants::codec::removed`].

use gguf_format::GgmlType;
use gguf_quants::codec::removed::{Interleaved, interleaved};
use gguf_quants::{CodecError, Isa, codec};

/// Each type with the bytes of a row that are consecutive, and the mask of every byte of the levels.
const INTERLEAVED: [(GgmlType, usize, u8); 6] = [
    (GgmlType::Q4_0_4_4, 4, 0x88),
    (GgmlType::Q4_0_4_8, 8, 0x88),
    (GgmlType::Q4_0_8_8, 8, 0x88),
    (GgmlType::IQ4_NL_4_4, 4, 0),
    (GgmlType::IQ4_NL_4_8, 8, 0),
    (GgmlType::IQ4_NL_8_8, 8, 0),
];

/// Bytes that differ from their neighbours.
fn bytes(n: usize) -> Vec<u8> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect()
}

/// Interleaves rows, byte for byte as `make_block_q4_0x4` and its variants.
fn interleave(t: &Interleaved, run: usize, turned: u8, row_len: usize, plain: &[u8]) -> Vec<u8> {
    let blocks = row_len / 32;
    let mut out = Vec::new();
    for group in plain.chunks(t.n_rows * blocks * 18) {
        for b in 0..blocks {
            let block = |row: usize| &group[(row * blocks + b) * 18..][..18];
            for row in 0..t.n_rows {
                out.extend(&block(row)[..2]);
            }
            for i in 0..16 * t.n_rows {
                let (piece, at) = (i / run, i % run);
                let (row, offset) = (piece % t.n_rows, piece / t.n_rows * run);
                out.push(block(row)[2 + offset + at] ^ turned);
            }
        }
    }
    out
}

#[test]
fn what_was_interleaved_is_taken_apart() {
    for (ty, run, turned) in INTERLEAVED {
        let t = interleaved(ty).unwrap();
        for (row_len, rows) in [(32, t.n_rows), (96, t.n_rows), (64, 3 * t.n_rows), (256, 0)] {
            let plain = bytes(row_len / 32 * 18 * rows);
            let packed = interleave(t, run, turned, row_len, &plain);
            let mut back = vec![0; plain.len()];
            assert_eq!(t.take_apart(row_len, &packed, &mut back), Ok(()));
            assert!(back == plain, "{} {row_len} {rows}", t.ty);
        }
    }
}

/// Eight rows of one block, as repacked by ggml's CPU backend from `bytes(144)` (libggml-cpu for Haswell, `q4_0_8x8` and `iq4_nl_8x8`).
#[test]
fn eight_rows_as_ggml_interleaves_them() {
    let q4_0 = "00bb34f068249d59d18d06c23af66f2affbb6723eeaa561224efab5713df9a466814d09b4703cf8b9c5804c08c37f3bf\
         c18d49f4b07c38e4f5b17d39e5a06c283ae6a16d29d5915c6e2ad6925d19c581de994501cd8934f002ce8a35f1bd7925\
         36f2be7a26e1ad697b27e2ae6a16d29eaf6b17d39f5a06c2d4905b07c38f4bf618c4804cf7b37f3b4d08b4703cf8a46f";
    let iq4_nl = "00bb34f068249d59d18d06c23af66f2a7733efab6622de9aac6723df9b5712cee09c5813cf8b470314d08c4804bf7b37\
         4905c17c38f4b06c7d39f5b16d28e4a0b26e29e5a15d19d4e6a25e1ad5914d095611cd894501bc788a4602bd7935f1ad\
         be7a36f2ae6925e1f3af6a26e29e5a1627e39f5b17d28e4a5c18d38f4b07c37e904c08c47f3bf7b3c5803cf8b4702ce7";
    for (ty, packed) in [(GgmlType::Q4_0_8_8, q4_0), (GgmlType::IQ4_NL_8_8, iq4_nl)] {
        let digits = |i| u8::from_str_radix(&packed[2 * i..2 * i + 2], 16).unwrap();
        let packed: Vec<u8> = (0..packed.len() / 2).map(digits).collect();
        let mut plain = vec![0; packed.len()];
        interleaved(ty).unwrap().take_apart(32, &packed, &mut plain).unwrap();
        assert_eq!(plain, bytes(144), "{ty}");
    }
}

#[test]
fn a_group_of_rows_by_hand() {
    // Four rows of one block; the value of a byte encodes its row (high half) and its position.
    let plain: Vec<u8> =
        (0..4).flat_map(|row| [row, 0xd0].into_iter().chain((0..16).map(move |i| row << 4 | i))).collect();
    let packed: Vec<u8> = [0, 0xd0, 1, 0xd0, 2, 0xd0, 3, 0xd0]
        .into_iter()
        .chain((0..4).flat_map(|run| (0..4).flat_map(move |row| (0..4).map(move |i| row << 4 | (4 * run + i)))))
        .collect();
    let mut back = [0; 72];
    interleaved(GgmlType::IQ4_NL_4_4).unwrap().take_apart(32, &packed, &mut back).unwrap();
    assert_eq!(back, plain[..]);
    interleaved(GgmlType::Q4_0_4_4).unwrap().take_apart(32, &packed, &mut back).unwrap();
    assert_eq!((back[0], back[1], back[2], back[17]), (0, 0xd0, 0x88, 0x87));
}

#[test]
fn interleaved_rows_decode_as_the_plain_ones() {
    for (ty, run, turned) in INTERLEAVED {
        let t = interleaved(ty).unwrap();
        let (row_len, rows) = (96, 2 * t.n_rows);
        let mut plain = bytes(row_len / 32 * 18 * rows);
        plain.chunks_mut(18).for_each(|b| b[1] &= 0x3f);
        let mut expected = vec![0.0; row_len * rows];
        codec(t.plain).unwrap().decode_with(Isa::Scalar, &plain, &mut expected).unwrap();
        for isa in Isa::available() {
            let mut values = vec![1.0; row_len * rows];
            t.decode_with(isa, row_len, &interleave(t, run, turned, row_len, &plain), &mut values).unwrap();
            assert!(values == expected, "{} {isa}", t.ty);
        }
    }
}

#[test]
fn what_is_not_whole_is_refused() {
    let t = interleaved(GgmlType::Q4_0_8_8).unwrap();
    let mut out = vec![0; 8 * 18 * 3];
    let partial = |row_len| Err(CodecError::PartialBlock { ty: t.ty, row_len });
    let size = |ty, needed, given| Err(CodecError::Size { ty, needed, given });
    assert_eq!(t.take_apart(0, &[], &mut []), partial(0));
    assert_eq!(t.take_apart(33, &[0; 144], &mut out[..144]), partial(33));
    assert_eq!(t.take_apart(32, &[0; 145], &mut out[..145]), size(t.ty, 0, 145));
    assert_eq!(t.take_apart(64, &[0; 144], &mut out[..144]), size(t.ty, 0, 144));
    assert_eq!(t.take_apart(32, &[0; 144], &mut out[..143]), size(t.plain, 144, 143));
    assert_eq!(t.take_apart(usize::MAX - 31, &[0; 144], &mut out[..144]), size(t.ty, 0, 144));
    assert_eq!(t.decode_with(Isa::Scalar, 32, &[0; 144], &mut [0.0; 32 * 7]), size(t.ty, 126, 144));
    assert_eq!(interleaved(GgmlType::Q4_0), None);
}

#[test]
fn neighbours_share_a_byte() {
    let mut q4_2 = [0x00, 0x3c, 0x80, 0xf7, 0, 0, 0, 0, 0, 0x1f].to_vec();
    let mut q4_3 = [0x00, 0x40, 0x00, 0xbc, 0x10, 0xf2, 0, 0, 0, 0, 0, 0x1f].to_vec();
    (q4_2, q4_3) = (q4_2.repeat(3), q4_3.repeat(3));
    for isa in Isa::available() {
        let mut values = [9.0; 48];
        codec(GgmlType::Q4_2).unwrap().decode_with(isa, &q4_2, &mut values).unwrap();
        assert_eq!((&values[16..20], &values[30..32]), (&[-8.0, 0.0, -1.0, 7.0][..], &[7.0, -7.0][..]));
        codec(GgmlType::Q4_3).unwrap().decode_with(isa, &q4_3, &mut values).unwrap();
        assert_eq!((&values[16..20], &values[30..32]), (&[-1.0, 1.0, 3.0, 29.0][..], &[29.0, 1.0][..]));
    }
}
