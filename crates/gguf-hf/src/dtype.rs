//! Number formats of checkpoints, and their tensors.

use core::fmt;

use gguf_format::{GgmlType, n_elements};

/// A number format of a checkpoint, under the name that safetensors uses.
///
/// ```
/// use gguf_format::GgmlType;
/// use gguf_hf::Dtype;
///
/// let dtype = Dtype::from_name("BF16").expect("a format of safetensors");
/// assert_eq!((dtype.bits, dtype.ggml), (16, Some(GgmlType::BF16)));
/// assert_eq!(dtype.tensor_bytes(&[32, 64]), Some(4096));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dtype {
    /// The name: `BF16`.
    pub name: &'static str,
    /// Bits of one element.
    pub bits: u32,
    /// The equivalent GGUF type, if there is one.
    pub ggml: Option<GgmlType>,
}

impl Dtype {
    /// Every format that safetensors defines (`Dtype` in its `tensor.rs`).
    pub const ALL: &[Dtype] = &[
        Dtype::new("BOOL", 8, None),
        Dtype::new("F4", 4, None),
        Dtype::new("F6_E2M3", 6, None),
        Dtype::new("F6_E3M2", 6, None),
        Dtype::new("U8", 8, None),
        Dtype::new("I8", 8, Some(GgmlType::I8)),
        Dtype::new("F8_E5M2", 8, None),
        Dtype::new("F8_E4M3", 8, None),
        Dtype::new("F8_E8M0", 8, None),
        Dtype::new("F8_E4M3FNUZ", 8, None),
        Dtype::new("F8_E5M2FNUZ", 8, None),
        Dtype::new("I16", 16, Some(GgmlType::I16)),
        Dtype::new("U16", 16, None),
        Dtype::F16,
        Dtype::BF16,
        Dtype::new("I32", 32, Some(GgmlType::I32)),
        Dtype::new("U32", 32, None),
        Dtype::F32,
        Dtype::new("C64", 64, None),
        Dtype::F64,
        Dtype::new("I64", 64, Some(GgmlType::I64)),
        Dtype::new("U64", 64, None),
    ];
    /// Half precision.
    pub const F16: Dtype = Dtype::new("F16", 16, Some(GgmlType::F16));
    /// bfloat16.
    pub const BF16: Dtype = Dtype::new("BF16", 16, Some(GgmlType::BF16));
    /// Single precision.
    pub const F32: Dtype = Dtype::new("F32", 32, Some(GgmlType::F32));
    /// MXFP4 blocks of a matrix that is stored transposed: 32 values along the second-to-last dimension form a block, and the blocks follow
    /// the order of that dimension. safetensors has no name for this format.
    pub(crate) const MXFP4_TRANSPOSED: Dtype = Dtype::new("MXFP4 transposed", 4, Some(GgmlType::MXFP4));
    /// MXFP4 blocks along rows.
    pub(crate) const MXFP4: Dtype = Dtype::new("MXFP4", 4, Some(GgmlType::MXFP4));
    /// NVFP4 blocks along rows.
    pub(crate) const NVFP4: Dtype = Dtype::new("NVFP4", 4, Some(GgmlType::NVFP4));
    /// Single precision, decoded from FP8 with scales.
    pub(crate) const SCALED_F8: Dtype = Dtype::new("scaled F8", 32, Some(GgmlType::F32));
    /// Double precision.
    pub const F64: Dtype = Dtype::new("F64", 64, Some(GgmlType::F64));

    const fn new(name: &'static str, bits: u32, ggml: Option<GgmlType>) -> Dtype {
        Dtype { name, bits, ggml }
    }

    /// The format of the given name; `None` if safetensors does not define it.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.iter().copied().find(|d| d.name == name)
    }

    /// The size of a tensor of this format in bytes; `None` if it is not an integer or does not fit 63 bits.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let bits = n_elements(shape.iter().copied())?.checked_mul(u64::from(self.bits))?;
        (bits % 8 == 0).then_some(bits / 8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// The description of a checkpoint tensor, without its data.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTensor {
    /// The name in the checkpoint.
    pub name: String,
    /// Number format.
    pub dtype: Dtype,
    /// Dimensions in the checkpoint's order: the last is contiguous.
    pub shape: Vec<u64>,
}
