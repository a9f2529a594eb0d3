//! Arbitrary bytes decode as any type without a panic, and to the same bits with each instruction set.
#![no_main]

use gguf_quants::Isa;
use gguf_quants::codec::codecs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [which, extra, data @ ..] = data else { return };
    let codec = &codecs()[usize::from(*which) % codecs().len()];
    let info = codec.ty.info().expect("codecs have types of the table");
    let n_blocks = data.len() / info.block_bytes as usize;
    let packed = &data[..n_blocks * info.block_bytes as usize];
    let n = n_blocks * info.block_len as usize;

    let decode = |isa| {
        let mut values = vec![1e33f32; n];
        codec.decode_with(isa, packed, &mut values).expect("whole blocks");
        // Which of two NaNs a sum returns is up to the compiler; for ggml's current types it must match ggml.
        let bits = |v: &f32| if v.is_nan() && info.removed { f32::NAN.to_bits() } else { v.to_bits() };
        values.iter().map(bits).collect::<Vec<_>>()
    };
    let plain = decode(Isa::Scalar);
    for isa in Isa::available() {
        assert!(decode(isa) == plain, "{} {isa}", codec.ty);
    }
    if *extra > 0 {
        let mut values = vec![0.0; n + usize::from(*extra)];
        assert!(codec.decode(packed, &mut values).is_err());
    }
});
