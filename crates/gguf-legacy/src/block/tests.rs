use super::*;

fn reading(encoding: Encoding) -> Reading {
    Reading { encoding, decode: false }
}

/// The level of value `i`: values in one byte have different levels.
fn level(i: usize) -> u8 {
    ((7 * i + i / 16) % 16) as u8
}

/// The levels of a block, as pairs and as halves.
fn levels() -> ([u8; 16], [u8; 16]) {
    let pairs = std::array::from_fn(|j| level(2 * j) | level(2 * j + 1) << 4);
    let halves = std::array::from_fn(|j| level(j) | level(j + 16) << 4);
    (pairs, halves)
}

#[test]
fn neighbours_come_apart() {
    let (pairs, halves) = levels();
    let head = [0x12, 0x34, 1, 2, 3, 4];
    let mut out = [0; 22];
    reading(Encoding::Pairs(GgmlType::Q5_0)).convert(&[&head[..], &pairs].concat(), &mut out);
    assert_eq!(out[..], [&head[..], &halves].concat());
    let head = [0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4];
    let mut out = [0; 24];
    reading(Encoding::Pairs(GgmlType::Q5_1)).convert(&[&head[..], &pairs].concat(), &mut out);
    assert_eq!(out[..], [&head[..], &halves].concat());
}

#[test]
fn scales_become_half_precision() {
    let (pairs, halves) = levels();
    let (d, m) = (0.5f32.to_le_bytes(), (-2f32).to_le_bytes());
    let (half_d, half_m) = ([0x00, 0x38], [0x00, 0xc0]);
    let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
    for (encoding, raw, expected) in [
        (
            Encoding::Wide { ty: GgmlType::Q4_0, pairs: true },
            [&d[..], &pairs].concat(),
            [&half_d[..], &halves].concat(),
        ),
        (
            Encoding::Wide { ty: GgmlType::Q4_0, pairs: false },
            [&d[..], &halves].concat(),
            [&half_d[..], &halves].concat(),
        ),
        (
            Encoding::Wide { ty: GgmlType::Q4_1, pairs: true },
            [&d[..], &m, &pairs].concat(),
            [&half_d[..], &half_m, &halves].concat(),
        ),
        (
            Encoding::Wide { ty: GgmlType::Q8_0, pairs: false },
            [&d[..], &bytes].concat(),
            [&half_d[..], &bytes].concat(),
        ),
        // Two blocks, one after the other.
        (
            Encoding::Wide { ty: GgmlType::Q8_0, pairs: true },
            [&d[..], &bytes, &m, &bytes].concat(),
            [&half_d[..], &bytes, &half_m, &bytes].concat(),
        ),
    ] {
        let mut out = vec![0; expected.len()];
        reading(encoding).convert(&raw, &mut out);
        assert_eq!(out, expected, "{encoding:?}");
    }
}

#[test]
fn decoded_blocks_keep_every_bit() {
    let (pairs, halves) = levels();
    let values = |encoding, raw: &[u8]| -> Vec<f32> {
        let reading = Reading { encoding, decode: true };
        let mut out = vec![0; 128];
        reading.convert(raw, &mut out);
        out.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    // A scale without an exact f16 value.
    let d = 1e6f32 + 0.0625;
    for (pairs, levels) in [(true, pairs), (false, halves)] {
        let raw = [&d.to_le_bytes()[..], &levels].concat();
        let found = values(Encoding::Wide { ty: GgmlType::Q4_0, pairs }, &raw);
        let expected: Vec<f32> = (0..32).map(|i| (f32::from(level(i)) - 8.0) * d).collect();
        assert_eq!(found, expected);
        let raw = [&d.to_le_bytes()[..], &3f32.to_le_bytes(), &levels].concat();
        let found = values(Encoding::Wide { ty: GgmlType::Q4_1, pairs }, &raw);
        let expected: Vec<f32> = (0..32).map(|i| f32::from(level(i)) * d + 3.0).collect();
        assert_eq!(found, expected);
    }
    let raw = [&d.to_le_bytes()[..], &[0xff; 32]].concat();
    assert_eq!(values(Encoding::Wide { ty: GgmlType::Q8_0, pairs: false }, &raw), [-d; 32]);
}

#[test]
fn planes_become_blocks() {
    let (first, second) = ([1u8; 16], [2u8; 16]);
    let [m0, m1, d0, d1] = [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes);
    let mut blocks = vec![0; 48];
    let row = [&m0[..], &m1, &d0, &d1, &first, &second].concat();
    blocks_of_planes(GgmlType::Q4_1, &row, &mut blocks);
    assert_eq!(blocks, [&d0[..], &m0, &first, &d1, &m1, &second].concat());
    let mut blocks = vec![0; 40];
    let row = [&d0[..], &d1, &first, &second].concat();
    blocks_of_planes(GgmlType::Q4_0, &row, &mut blocks);
    assert_eq!(blocks, [&d0[..], &first, &d1, &second].concat());
}

#[test]
fn scales_tell_planes_from_blocks() {
    let blocks = |d: f32| [&d.to_le_bytes()[..], &[0x88; 16]].concat().repeat(4);
    assert!(are_plausible(GgmlType::Q4_0, &blocks(0.01)));
    for d in [f32::NAN, f32::INFINITY, -0.5, 1e9, 1e-30] {
        assert!(!are_plausible(GgmlType::Q4_0, &blocks(d)), "{d}");
    }
    // Levels misread as scales.
    let planes = [[0.01f32.to_le_bytes(); 4].concat(), vec![0x88; 64]].concat();
    assert!(!are_plausible(GgmlType::Q4_0, &planes));
    let mut back = vec![0; planes.len()];
    blocks_of_planes(GgmlType::Q4_0, &planes, &mut back);
    assert!(are_plausible(GgmlType::Q4_0, &back));
}

#[test]
fn rounding_is_counted() {
    let mut rounding = Rounding::default();
    let block = |d: f32| [&d.to_le_bytes()[..], &[0; 16]].concat();
    for d in [0.5, 0.1, 1e-7, 7e4, 0.0] {
        rounding.add_blocks(Encoding::Wide { ty: GgmlType::Q4_0, pairs: true }, &block(d));
    }
    assert_eq!(rounding, Rounding { n_scales: 5, n_inexact: 3, n_small: 1, n_large: 1, n_not_finite: 0 });
    rounding.add_blocks(Encoding::Wide { ty: GgmlType::Q4_0, pairs: true }, &block(f32::INFINITY));
    assert_eq!(rounding.n_not_finite, 1);
}

/// A block written by rwkv.cpp, and the exact bits of the values that it decodes.
#[test]
fn outliers_stand_apart() {
    let block = [
        0x38, 0x3a, 0x8d, 0xc5, 0x0d, 0x00, 0x8e, 0xd5, 0x20, 0x75, 0xca, 0x2e, 0x64, 0xb9, 0x0d, 0x53, 0xa8, 0xfd,
        0x52, 0x97, 0xec, 0x41, 0x86, 0xdb,
    ];
    let expected: [u32; 32] = [
        0xc0b1a000, 0xc07fc000, 0xbfd50000, 0xbde00000, 0x400e4000, 0x4071c000, 0x40aaa000, 0xc07fc000, 0xc01c4000,
        0xbf630000, 0x3fb90000, 0x40400000, 0x4091c000, 0xc2b1c000, 0xc04e0000, 0xbfd50000, 0x3f2b0000, 0x400e4000,
        0x4091c000, 0x40c38000, 0xc07fc000, 0xbfd50000, 0xbde00000, 0x3fb90000, 0x4071c000, 0x40aaa000, 0xc098c000,
        0xc01c4000, 0xbf630000, 0x3f2b0000, 0x40400000, 0x4091c000,
    ];
    assert_eq!(Encoding::Outlier.block(), (32, 24));
    let values = |block: &[u8]| -> Vec<u32> {
        let mut out = vec![0; 128];
        reading(Encoding::Outlier).convert(block, &mut out);
        out.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
    };
    assert_eq!(values(&block), expected);
    // A block of zeros has no outlier.
    let mut zeros = [0; 24];
    zeros[4..6].fill(0xff);
    assert_eq!(values(&zeros), [0; 32]);
}

/// Blocks of 64 distinct values, laid out by the diagrams in `small.rs`.
#[test]
fn blocks_of_64() {
    let (one, two) = ([0x00, 0x3c], [0x00, 0x40]);
    let decode = |ty, block: &[u8]| -> Vec<f32> {
        let encoding = Encoding::Small(ty);
        assert_eq!(encoding.block(), (64, block.len() as u64));
        let mut out = vec![0; 256];
        reading(encoding).convert(block, &mut out);
        out.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    // Scales 1, 2, 3, 4 with minima 0, 1, 2, 3; level 3 in the first sixteen values only.
    let block = [&[0x01, 0x12, 0x23, 0x34][..], &[0b11; 16], &one, &two].concat();
    let expected = [[3.0; 16], [-2.0; 16], [-4.0; 16], [-6.0; 16]].concat();
    assert_eq!(decode(GgmlType::Q2_K, &block), expected);

    // High bits of the values 0 to 7 only; scales 1, -1, 2, -8; levels 1.
    let block = [&[0x01; 8][..], &[0b0101_0101; 16], &[0x79, 0x0a], &one].concat();
    let mut expected = [[-3.0; 16], [3.0; 16], [-6.0; 16], [24.0; 16]].concat();
    expected[..8].fill(1.0);
    assert_eq!(decode(GgmlType::Q3_K, &block), expected);

    // Scales 2 and 3, minima 1 and 2; levels 5 and 9.
    let block = [&one[..], &two, &[0x12, 0x23], &[0x95; 32]].concat();
    let expected = [[8.0; 32], [23.0; 32]].concat();
    assert_eq!(decode(GgmlType::Q4_K, &block), expected);

    // Scales 1, -1, 2, 3; the high bit of the last eight values only.
    let block = [&one[..], &[1, 0xff, 2, 3], &[0x80; 8], &[0x21; 32]].concat();
    let mut expected = [[-15.0; 16], [15.0; 16], [-28.0; 16], [-42.0; 16]].concat();
    expected[56..].fill(6.0);
    assert_eq!(decode(GgmlType::Q5_K, &block), expected);

    // High bits 0, 1, 2, 3 for the four sixteens; low bits 1 and 2.
    let block = [&[0x21; 32][..], &[0b1110_0100; 16], &[1, 2, 0xff, 4], &one].concat();
    let expected = [[-31.0; 16], [-30.0; 16], [-2.0; 16], [72.0; 16]].concat();
    assert_eq!(decode(GgmlType::Q6_K, &block), expected);
}
