//! Macros for the files of instruction sets: tables of intrinsics, and operations made of several.
//!
//! An intrinsic is unsafe to call on a CPU without it. The vectors defined by these macros keep their registers private, and a file creates
//! them only from its witness, which exists only if the CPU has the instructions.

/// The vectors: name, register, and number of lanes.
macro_rules! vectors {
    ($($(#[$doc:meta])* $vector:ident($register:ty): $n:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $vector($register);

        impl Width for $vector {
            const N: usize = $n;
        }
    )*};
}

/// Operators on two vectors that map to one intrinsic: `F Add add _mm_add_ps`.
#[allow(unused_macros, reason = "plain arrays have no intrinsics")]
macro_rules! operators {
    ($($vector:ident $trait:ident $method:ident $intrinsic:ident;)*) => {$(
        impl $trait for $vector {
            type Output = $vector;
            #[inline(always)]
            fn $method(self, other: $vector) -> $vector {
                // SAFETY: a vector exists only where the CPU has the instructions.
                unsafe { $vector($intrinsic(self.0, other.0)) }
            }
        }
    )*};
}

/// Methods on one or two vectors that map to one intrinsic: `lt(other) -> M: _mm_cmplt_ps`.
#[allow(unused_macros, reason = "plain arrays have no intrinsics")]
macro_rules! methods {
    ($($name:ident($($other:ident)?) -> $out:ident: $intrinsic:ident $(::<$constant:ident>)?;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $other: Self)?) -> $out {
            // SAFETY: a vector exists only where the CPU has the instructions.
            unsafe { $out($intrinsic$(::<$constant>)?(self.0 $(, $other.0)?)) }
        }
    )*};
}

/// [`Lanes::call`](super::Lanes::call): a function compiled with the CPU features.
#[allow(unused_macros, reason = "where there are no vectors there are no features")]
macro_rules! call {
    ($lanes:ident, $features:literal) => {
        #[inline]
        fn call<P: Part<$lanes>>(self, part: P) -> P::Output {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn enter<P: Part<$lanes>>(lanes: $lanes, part: P) -> P::Output {
                part.run(lanes)
            }
            // SAFETY: the lanes exist only where the CPU has the instructions.
            unsafe { enter(self, part) }
        }
    };
}
