//! Fallback types for tensors whose rows are not whole blocks of the chosen type (`tensor_type_fallback` in `llama-quant.cpp`).

use gguf_format::GgmlType;

/// Types in blocks of 64 to 256, and the fallback type in blocks of 32.
///
/// The last row is our own: llama.cpp cannot make NVFP4 files, and aborts if a tensor's rows do not fit NVFP4. As in llama.cpp, Q1_0 has no
/// row.
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

/// The type for rows of that length: the given one if they are whole blocks of it, otherwise its fallback or, failing that, F16. `None` if
/// the type has no fallback.
pub(super) fn fallback(ty: GgmlType, row: u64) -> Option<GgmlType> {
    if divides(ty, row) {
        return Some(ty);
    }
    let other = match FALLBACKS.iter().find(|(types, _)| types.contains(&ty)) {
        Some((_, other)) => *other,
        // Already in blocks of 32: only F16 is left.
        None if ty.info().is_some_and(|info| info.block_len <= 32) => ty,
        None => return None,
    };
    Some(if divides(other, row) { other } else { GgmlType::F16 })
}
