//! Arbitrary numbers with any matrix are encoded as any type without a panic, and to the same bytes with each instruction set, or rejected
//! by all of them at the same block.
#![no_main]

use gguf_quants::codec::{CodecError, Matrix, codecs};
use gguf_quants::{Isa, Rows};
use libfuzzer_sys::fuzz_target;

/// Numbers from bytes: raw bits, or to get more of them from fewer bytes, small integers times a power of two.
fn numbers(form: u8, data: &[u8]) -> Vec<f32> {
    match form & 3 {
        0 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        1 => data.as_chunks().0.iter().map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)).collect(),
        _ => {
            let scale = f32::from_bits((u32::from(form >> 2) * 4) << 23);
            data.iter().map(|b| f32::from(*b as i8) * scale).collect()
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [which, form, with_matrix, weights_form, blocks_in_row, data @ ..] = data else { return };
    let codec = &codecs()[usize::from(*which) % codecs().len()];
    let block_len = codec.ty.info().expect("codecs have types of the table").block_len as usize;
    let row_len = block_len * (1 + usize::from(blocks_in_row % 3));
    let mut values = numbers(*form, data);
    let weights = with_matrix.is_multiple_of(2).then(|| {
        // The end of the data, which also provides values: short inputs have both.
        let mut weights = numbers(*weights_form, &data[data.len() - data.len().min(row_len)..]);
        weights.resize(row_len, 1.0);
        weights
    });
    // Pads the last row.
    values.resize(values.len().next_multiple_of(row_len), 0.0);
    let rows = Rows::new(&values, row_len, weights.as_deref()).expect("whole rows");
    let encode = |isa| {
        let mut packed = vec![0x55; codec.packed_bytes(values.len()).expect("whole blocks")];
        codec.encode_with(isa, rows, &mut packed).map(|()| packed)
    };
    let plain = encode(Isa::Scalar);
    match &plain {
        Ok(_) | Err(CodecError::Refused { .. }) => {}
        Err(CodecError::DecodeOnly(_)) => assert!(!codec.can_encode()),
        Err(CodecError::NeedsMatrix(_)) => assert!(codec.matrix == Matrix::Required && weights.is_none()),
        Err(e) => panic!("{e}"),
    }
    for isa in Isa::available() {
        assert!(encode(isa) == plain, "{} {isa}", codec.ty);
    }
});
