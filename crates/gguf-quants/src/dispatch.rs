//! Choosing the instruction set.
//!
//! [`Isa`] names one; [`Isa::best`] is the fastest that this machine has. Every one gives the same bits, so the choice is of speed
//! only, and tests force each in turn.
#![allow(unsafe_code, reason = "entering code compiled for instructions that were found on this CPU")]

use core::fmt;
use core::str::FromStr;

use crate::lanes::Lanes;
use crate::lanes::arrays::Arrays;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use crate::lanes::neon::Neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::lanes::simd128::Simd128;
use crate::lanes::twice::Twice;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{avx2::Avx2, avx512::Avx512, sse41::Sse41};

/// An instruction set that the codecs can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The reference: one block at a time, as ggml's source reads.
    Scalar,
    /// The kernels over plain arrays of eight; needs nothing of the CPU.
    Arrays,
    /// aarch64 with NEON: four lanes.
    Neon,
    /// WebAssembly compiled for `simd128`: four lanes.
    Simd128,
    /// x86-64 with SSE4.1 and SSSE3: four lanes.
    Sse41,
    /// x86-64 with AVX2: eight lanes.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL: sixteen lanes.
    Avx512,
}

/// Every instruction set with the name that options and tables use; of those that a machine has, the slowest first.
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
    /// All that this machine has, the slowest first; [`Isa::Scalar`] and [`Isa::Arrays`] are everywhere.
    pub fn available() -> impl DoubleEndedIterator<Item = Isa> {
        NAMES.iter().map(|&(isa, _)| isa).filter(|isa| isa.is_available())
    }

    /// The fastest that this machine has.
    pub fn best() -> Isa {
        Isa::available().next_back().unwrap_or(Isa::Arrays)
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar | Isa::Arrays => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Isa::Neon => Neon::detect().is_some(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Isa::Simd128 => Simd128::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Sse41 => Sse41::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().is_some(),
            #[allow(unreachable_patterns, reason = "what belongs to other machines")]
            _ => false,
        }
    }

    /// Its name in options and tables.
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

/// No instruction set has that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownIsa;

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such instruction set; there are")?;
        NAMES.iter().try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

impl core::error::Error for UnknownIsa {}

/// Work written over the vector vocabulary.
pub(crate) trait Kernel {
    /// What it gives.
    type Output;
    /// Does it. Implementations, and all they call with vectors, are `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[target_feature(enable = "neon")]
fn enter_neon<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.1,ssse3")]
fn enter_sse41<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,bmi2")]
fn enter_avx2<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi2")]
fn enter_avx512<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

/// Enters the code for one instruction set, with lanes made of its witness; over plain arrays where the machine lacks it.
macro_rules! enter {
    ($isa:expr, $kernel:expr, |$witness:ident| $lanes:expr) => {{
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        if $isa == Isa::Neon
            && let Some($witness) = Neon::detect()
        {
            // SAFETY: the witness says that the CPU has the instructions.
            return unsafe { enter_neon($kernel, $lanes) };
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if $isa == Isa::Simd128
            && let Some($witness) = Simd128::detect()
        {
            return $kernel.run($lanes);
        }
        #[cfg(target_arch = "x86_64")]
        {
            if $isa == Isa::Avx512
                && let Some($witness) = Avx512::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx512($kernel, $lanes) };
            }
            if $isa == Isa::Avx2
                && let Some($witness) = Avx2::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx2($kernel, $lanes) };
            }
            if $isa == Isa::Sse41
                && let Some($witness) = Sse41::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_sse41($kernel, $lanes) };
            }
        }
        $kernel.run(Arrays)
    }};
}

impl Isa {
    /// Runs a kernel with the lanes of this instruction set; over plain arrays where the machine lacks it.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        enter!(self, kernel, |lanes| lanes)
    }

    /// Runs a kernel with two vectors in step, which hides the latency of sums that must go one after the other.
    #[inline]
    pub(crate) fn run_twice<K: Kernel>(self, kernel: K) -> K::Output {
        enter!(self, kernel, |lanes| Twice(lanes))
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

    /// What a kernel is entered with.
    struct Width;

    impl Kernel for Width {
        type Output = usize;
        #[inline(always)]
        fn run<L: Lanes>(self, _: L) -> usize {
            L::N
        }
    }

    #[test]
    fn the_instruction_set_that_was_asked_for_is_entered() {
        for isa in Isa::available() {
            let lanes = match isa {
                Isa::Scalar | Isa::Arrays => 8,
                Isa::Neon | Isa::Simd128 | Isa::Sse41 => 4,
                Isa::Avx2 => 8,
                Isa::Avx512 => 16,
            };
            assert_eq!(isa.run(Width), lanes, "{isa}");
            let twice = if matches!(isa, Isa::Scalar | Isa::Arrays) { lanes } else { 2 * lanes };
            assert_eq!(isa.run_twice(Width), twice, "{isa}");
        }
        // What another machine has is entered over arrays.
        for &(isa, _) in NAMES.iter().filter(|(isa, _)| !isa.is_available()) {
            assert_eq!((isa.run(Width), isa.run_twice(Width)), (8, 8), "{isa}");
        }
        assert!(Isa::best().is_available());
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        assert_eq!(Isa::best(), Isa::Neon);
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        assert_eq!(Isa::best(), Isa::Simd128);
    }
}
