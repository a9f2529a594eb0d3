//! What becomes of a tensor whose rows are not whole blocks of the type it should get (`tensor_type_fallback` in
//! `llama-quant.cpp`).

use gguf_format::GgmlType;

/// Types in blocks of 64 to 256, and the type in blocks of 32 that takes their place.
///
/// The last row is our own: llama.cpp cannot make NVFP4 files, and stops when a tensor that is asked for in NVFP4 does not
/// fit. Q1_0 has no row, there as here.
pub const FALLBACKS: &[(&[GgmlType], GgmlType)] = &[
    (
        &[
            GgmlType::IQ1_S,
            GgmlType::IQ1_M,
            GgmlType::IQ2_XXS,
            GgmlType::IQ2_XS,
            GgmlType::IQ2_S,
            GgmlType::IQ3_XXS,
            GgmlType::IQ3_S,
            GgmlType::IQ4_XS,
        ],
        GgmlType::IQ4_NL,
    ),
    (&[GgmlType::Q2_0, GgmlType::Q2_K, GgmlType::Q3_K, GgmlType::TQ1_0, GgmlType::TQ2_0], GgmlType::Q4_0),
    (&[GgmlType::Q4_K], GgmlType::Q5_0),
    (&[GgmlType::Q5_K], GgmlType::Q5_1),
    (&[GgmlType::Q6_K], GgmlType::Q8_0),
    (&[GgmlType::NVFP4], GgmlType::IQ4_NL),
];

/// Whether rows of that length are whole blocks of the type.
pub(super) fn divides(ty: GgmlType, row: u64) -> bool {
    ty.info().is_some_and(|info| row.is_multiple_of(u64::from(info.block_len)))
}

/// The type for rows of that length: the one given when they are whole blocks of it, otherwise the nearest that fits, at
/// worst F16. `None` when nothing takes the type's place.
pub(super) fn fallback(ty: GgmlType, row: u64) -> Option<GgmlType> {
    if divides(ty, row) {
        return Some(ty);
    }
    let other = match FALLBACKS.iter().find(|(types, _)| types.contains(&ty)) {
        Some((_, other)) => *other,
        // In blocks of 32 already: nothing but F16 is left.
        None if ty.info().is_some_and(|info| info.block_len <= 32) => ty,
        None => return None,
    };
    Some(if divides(other, row) { other } else { GgmlType::F16 })
}
