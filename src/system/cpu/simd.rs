//! Vector instructions behind one interface. A hot loop is written once, against [`Simd`], as a [`Kernel`];
//! it is compiled for each [`Level`], and [`Level::best`] is the widest that this processor has. What the
//! loops compute is defined elsewhere.
//!
//! A value of `Avx2`, `Avx512` or `Neon` proves that the processor has the instructions: only `detect` makes
//! one, after checking. Every operation takes that proof, so no kernel needs `unsafe`. All levels but
//! `portable` fuse a product and a sum into one rounding, and do the same operations in the same order in
//! every lane, so their results have the same bits. `portable` rounds twice.

#![allow(unsafe_code)] // intrinsics and calls into functions compiled for more than the baseline processor

mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use lanes::{Half, Simd};
pub use portable::Portable;

#[cfg(target_arch = "aarch64")]
use neon::Neon;
#[cfg(target_arch = "x86_64")]
use x86::{Avx2, Avx512};

/// A hot loop that can be compiled for any level.
pub trait Kernel {
    /// Its result.
    type Output;
    /// Does the work. Must be `#[inline(always)]`, and so must everything that it calls: only inlined code is
    /// compiled for the level.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Which instructions the hot loops use.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Plain Rust, four lanes: what every processor of the architecture has.
    Portable(Portable),
    /// x86-64-v3: eight lanes, AVX2, FMA, F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// x86-64-v4: sixteen lanes, AVX-512 F, BW, VL, DQ.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// Four lanes with fused products.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Level {
    /// Every level that this processor has, the simplest first.
    pub fn all() -> heapless::Vec<Level, 3> {
        let mut levels = heapless::Vec::new();
        let found = [Some(Level::Portable(Portable)), Level::wide(), Level::widest()];
        levels.extend(found.into_iter().flatten());
        levels
    }

    #[cfg(target_arch = "x86_64")]
    fn wide() -> Option<Level> {
        Avx2::detect().map(Level::Avx2)
    }
    #[cfg(target_arch = "x86_64")]
    fn widest() -> Option<Level> {
        Avx512::detect().map(Level::Avx512)
    }
    #[cfg(target_arch = "aarch64")]
    fn wide() -> Option<Level> {
        Neon::detect().map(Level::Neon)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn wide() -> Option<Level> {
        None
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn widest() -> Option<Level> {
        None
    }

    /// The best level that this processor has.
    pub fn best() -> Level {
        Level::all().last().copied().unwrap_or(Level::Portable(Portable))
    }

    /// The level with that name, if this processor has it.
    pub fn named(name: &str) -> Option<Level> {
        Level::all().into_iter().find(|level| level.name() == name)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon(_) => "neon",
        }
    }

    /// Number of f32 in a register.
    pub fn lanes(self) -> usize {
        match self {
            Level::Portable(_) => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => Avx512::LANES,
            #[cfg(target_arch = "aarch64")]
            Level::Neon(_) => Neon::LANES,
        }
    }

    /// This level if it has at most `lanes` lanes, else the widest one that does, or else `portable`: for
    /// rows that are shorter than a register.
    pub fn within(self, lanes: usize) -> Level {
        if self.lanes() <= lanes {
            return self;
        }
        let narrower = Level::all().into_iter().rev().find(|level| level.lanes() <= lanes);
        narrower.unwrap_or(Level::Portable(Portable))
    }

    /// Runs `kernel` with the instructions of this level.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Level::Portable(simd) => kernel.run(simd),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(simd) => simd.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(simd) => simd.run(kernel),
            #[cfg(target_arch = "aarch64")]
            Level::Neon(simd) => simd.run(kernel),
        }
    }
}

#[cfg(test)]
mod tests;
