//! Selection of the instruction set.
//!
//! [`Isa`] names an instruction set; [`Isa::best`] is the fastest of this machine. All of them give the same bits, so the choice affects
//! only speed, and tests force each in turn.

use core::fmt;
use core::str::FromStr;
use std::sync::OnceLock;

use crate::lanes::arrays::Arrays;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use crate::lanes::neon::Neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::lanes::simd128::Simd128;
use crate::lanes::{Lanes, Part};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{avx2::Avx2, avx512::Avx512, sse41::Sse41};

/// An instruction set that the codecs can run on.
///
/// ```
/// use gguf_quants::Isa;
///
/// assert!(Isa::best().is_available());
/// assert_eq!("scalar".parse(), Ok(Isa::Scalar));
/// // An instruction set that the machine lacks is allowed: the scalar code gives the same result.
/// let mut values = [0.0; 2];
/// gguf_quants::codec(gguf_format::GgmlType::BF16).unwrap().decode_with(Isa::Neon, &[0x80, 0x3f, 0, 0], &mut values)?;
/// assert_eq!(values, [1.0, 0.0]);
/// # Ok::<(), gguf_quants::CodecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The reference: one block at a time, as in ggml's source.
    Scalar,
    /// The kernels over plain arrays of eight, for any CPU. Available on machines without another vector instruction set, and with the
    /// feature `arrays`.
    Arrays,
    /// aarch64 with NEON: four lanes.
    Neon,
    /// WebAssembly compiled for `simd128`: four lanes.
    Simd128,
    /// x86-64 with SSE4.1 and SSSE3: four lanes. Available with the feature `sse41`, which is on by default.
    Sse41,
    /// x86-64 with AVX2: eight lanes.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL: sixteen lanes.
    Avx512,
}

/// Every instruction set with its name in options and tables; those of one machine are ordered from slowest to fastest.
const NAMES: &[(Isa, &str)] = &[
    (Isa::Scalar, "scalar"),
    (Isa::Arrays, "arrays"),
    (Isa::Neon, "neon"),
    (Isa::Simd128, "simd128"),
    (Isa::Sse41, "sse4.1"),
    (Isa::Avx2, "avx2"),
    (Isa::Avx512, "avx512"),
];

impl Isa {
    /// The instruction sets of this machine, slowest first; [`Isa::Scalar`] is always available.
    pub fn available() -> impl DoubleEndedIterator<Item = Isa> {
        NAMES.iter().map(|&(isa, _)| isa).filter(|isa| isa.is_available())
    }

    /// The fastest instruction set of this machine. The CPU is queried once.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::available().next_back().unwrap_or(Isa::Scalar))
    }

    /// Whether this machine has the instruction set.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            Isa::Arrays => Arrays::COMPILED,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Isa::Neon => Neon::detect().is_some(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Isa::Simd128 => Simd128::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Sse41 => cfg!(feature = "sse41") && Sse41::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().is_some(),
            #[allow(unreachable_patterns, reason = "instruction sets of other machines")]
            _ => false,
        }
    }

    /// The name in options and tables.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(isa, _)| *isa == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Isa, UnknownIsa> {
        NAMES.iter().find(|(_, n)| *n == name).map(|&(isa, _)| isa).ok_or(UnknownIsa)
    }
}

/// Unknown name of an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownIsa;

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown instruction set; expected one of")?;
        NAMES.iter().try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

impl core::error::Error for UnknownIsa {}

/// An operation implemented over the vector vocabulary, and as a scalar reference.
pub(crate) trait Kernel: Sized {
    /// The result.
    type Output;
    /// Runs the scalar reference.
    fn plain(self) -> Self::Output;
    /// Runs with vectors. Implementations, and all functions they call with vectors, are `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// A whole kernel.
struct WholeKernel<K>(K);

impl<L: Lanes, K: Kernel> Part<L> for WholeKernel<K> {
    type Output = K::Output;

    #[inline(always)]
    fn run(self, lanes: L) -> K::Output {
        self.0.run(lanes)
    }
}

impl Isa {
    /// Runs a kernel with the lanes of this instruction set, or the scalar reference if the machine lacks it.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[allow(unused_macros, reason = "some targets have no vectors")]
        macro_rules! enter {
            ($lanes:ident) => {
                if let Some(lanes) = $lanes::detect() {
                    return lanes.call(WholeKernel(kernel));
                }
            };
        }
        match self {
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Isa::Neon => enter!(Neon),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Isa::Simd128 => enter!(Simd128),
            #[cfg(target_arch = "x86_64")]
            Isa::Sse41 if const { cfg!(feature = "sse41") } => enter!(Sse41),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => enter!(Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => enter!(Avx512),
            Isa::Arrays if const { Arrays::COMPILED } => return Arrays.call(WholeKernel(kernel)),
            _ => {}
        }
        kernel.plain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_is_found_by_its_name() {
        for &(isa, name) in NAMES {
            assert_eq!(name.parse(), Ok(isa));
            assert_eq!(isa.to_string(), name);
        }
        let error = "sse9".parse::<Isa>().unwrap_err();
        assert!(error.to_string().ends_with(" scalar arrays neon simd128 sse4.1 avx2 avx512"), "{error}");
    }

    /// Returns the lanes of the kernel's vectors.
    struct Width;

    impl Kernel for Width {
        type Output = usize;
        fn plain(self) -> usize {
            1
        }
        #[inline(always)]
        fn run<L: Lanes>(self, _: L) -> usize {
            L::N
        }
    }

    #[test]
    fn the_instruction_set_that_was_asked_for_is_entered() {
        for isa in Isa::available() {
            let lanes = match isa {
                Isa::Scalar => 1,
                Isa::Arrays => 8,
                Isa::Neon | Isa::Simd128 | Isa::Sse41 => 4,
                Isa::Avx2 => 8,
                Isa::Avx512 => 16,
            };
            assert_eq!(isa.run(Width), lanes, "{isa}");
        }
        // Instruction sets of other machines fall back to the scalar reference.
        for &(isa, _) in NAMES.iter().filter(|(isa, _)| !isa.is_available()) {
            assert_eq!(isa.run(Width), 1, "{isa}");
        }
        assert!(Isa::best().is_available());
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        assert_eq!(Isa::best(), Isa::Neon);
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        assert_eq!(Isa::best(), Isa::Simd128);
    }
}
