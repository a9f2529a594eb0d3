//! Choosing the instruction set.
//!
//! [`Isa`] names one; [`Isa::best`] is the widest that this machine has. Every one gives the same bits, so the choice is of speed
//! only, and tests force each in turn.
#![allow(unsafe_code, reason = "entering code compiled for instructions that were found on this CPU")]

use core::fmt;
use core::str::FromStr;

use crate::lanes::Lanes;
use crate::lanes::arrays::Arrays;
use crate::lanes::twice::Twice;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{avx2::Avx2, avx512::Avx512};

/// An instruction set that the codecs can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The reference: one block at a time, as ggml's source reads.
    Scalar,
    /// The kernels over plain arrays of eight; needs nothing of the CPU.
    Arrays,
    /// x86-64 with AVX2: eight lanes.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL: sixteen lanes.
    Avx512,
}

/// Every instruction set with the name that options and tables use, narrowest first.
const NAMES: &[(Isa, &str)] =
    &[(Isa::Scalar, "scalar"), (Isa::Arrays, "arrays"), (Isa::Avx2, "avx2"), (Isa::Avx512, "avx512")];

impl Isa {
    /// All that this machine has, narrowest first; [`Isa::Scalar`] and [`Isa::Arrays`] are everywhere.
    pub fn available() -> impl DoubleEndedIterator<Item = Isa> {
        NAMES.iter().map(|&(isa, _)| isa).filter(|isa| isa.is_available())
    }

    /// The widest that this machine has.
    pub fn best() -> Isa {
        Isa::available().next_back().unwrap_or(Isa::Arrays)
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar | Isa::Arrays => true,
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi2")]
fn enter_avx512<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,bmi2")]
fn enter_avx2<K: Kernel, L: Lanes>(kernel: K, lanes: L) -> K::Output {
    kernel.run(lanes)
}

impl Isa {
    /// Runs a kernel with the lanes of this instruction set; over plain arrays where the machine lacks it.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        {
            if self == Isa::Avx512
                && let Some(lanes) = Avx512::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx512(kernel, lanes) };
            }
            if self == Isa::Avx2
                && let Some(lanes) = Avx2::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx2(kernel, lanes) };
            }
        }
        kernel.run(Arrays)
    }

    /// Runs a kernel with two vectors in step, which hides the latency of sums that must go one after the other.
    #[inline]
    pub(crate) fn run_twice<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        {
            if self == Isa::Avx512
                && let Some(lanes) = Avx512::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx512(kernel, Twice(lanes)) };
            }
            if self == Isa::Avx2
                && let Some(lanes) = Avx2::detect()
            {
                // SAFETY: the witness says that the CPU has the instructions.
                return unsafe { enter_avx2(kernel, Twice(lanes)) };
            }
        }
        kernel.run(Arrays)
    }
}
