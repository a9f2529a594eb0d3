//! The codebooks of the IQ types: their points, and the neighbours of every other point.
//!
//! A codebook (a grid in ggml) is a list of points of eight elements with the levels 0 to 2, or of four elements with the levels 0 to 7; a
//! block stores indexes into the list. An encoder rounds to any point and then needs to know whether the list has it, and if not, which of
//! its neighbours could replace it. ggml builds these tables when a program first uses a type (`iq2xs_init_impl`, `iq3xs_init_impl` in
//! `ggml-quants.c`), and so does this module; the order of the neighbours decides between equally near ones.
//!
//! Here a point is one number: its levels are the digits, the first element the lowest, in base 3 or 8. ggml packs two or three bits an
//! element instead ([`Grid::codes`]).

use std::sync::OnceLock;

pub(crate) mod codes;

/// A codebook with its neighbours.
#[derive(Debug)]
pub(crate) struct Grid {
    shape: Shape,
    codes: &'static [u16],
    map: Vec<i32>,
    starts: Vec<u32>,
    neighbours: Vec<u16>,
    eights: OnceLock<Eights>,
}

/// The codes of the neighbours in groups of eight, for kernels that process eight at a time; built on first use.
#[derive(Debug)]
pub(crate) struct Eights {
    /// For each point its packed code, or the argument of [`Eights::list`].
    pub places: Vec<i32>,
    /// The lists one after the other, each padded to a multiple of eight with its last code.
    pub codes: Vec<u16>,
}

impl Eights {
    /// The first of five bits that places do not use and [`Eights::list`] ignores.
    pub const FREE: u32 = 20;

    /// For a negative place: the start of its list in the codes, and its number of eights, at least one.
    #[inline(always)]
    pub fn list(place: i32) -> (usize, usize) {
        let list = !place as usize;
        (8 * (list & 0xf_ffff), list >> 25)
    }

    fn new(grid: &Grid) -> Eights {
        let mut eights = Eights { places: Vec::with_capacity(grid.map.len()), codes: Vec::new() };
        for point in 0..grid.map.len() {
            match grid.place(point) {
                PointPlace::On(index) => eights.places.push(i32::from(grid.codes[usize::from(index)])),
                PointPlace::Near(list) => {
                    let start = eights.codes.len() / 8;
                    eights.codes.extend(list.iter().map(|&index| grid.codes[usize::from(index)]));
                    let last = eights.codes[eights.codes.len() - 1];
                    eights.codes.resize(eights.codes.len().next_multiple_of(8), last);
                    eights.places.push(!((start | list.len().div_ceil(8) << 25) as i32));
                }
            }
        }
        eights
    }
}

/// The structure of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Elements of a point; even.
    elements: u32,
    /// Levels of an element.
    base: u32,
    /// Bits of an element in a packed code.
    bits: u32,
}

/// Eight elements of three levels.
const EIGHT: Shape = Shape { elements: 8, base: 3, bits: 2 };
/// Four elements of eight levels.
const FOUR: Shape = Shape { elements: 4, base: 8, bits: 3 };

impl Shape {
    /// The point of a code: converts packed bits per element to digits of the base.
    fn point(self, code: u16) -> usize {
        (0..self.elements).rev().fold(0, |point, i| point * self.base + self.level(code, i)) as usize
    }

    fn level(self, code: u16, element: u32) -> u32 {
        u32::from(code) >> (self.bits * element) & ((1 << self.bits) - 1)
    }
}

/// The magnitudes of every point of a codebook, for decoding; `of_level` has the magnitude of each level.
pub(crate) const fn magnitudes<const POINTS: usize, const E: usize>(
    codes: &[u16; POINTS],
    of_level: &[u8; 8],
) -> [[u8; E]; POINTS] {
    let bits = if E == 8 { 2 } else { 3 };
    let mut all = [[0; E]; POINTS];
    let mut point = 0;
    while point < POINTS {
        let mut i = 0;
        while i < E {
            all[point][i] = of_level[(codes[point] as usize >> (bits * i)) & ((1 << bits) - 1)];
            i += 1;
        }
        point += 1;
    }
    all
}

/// The location of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointPlace<'a> {
    /// In the codebook, at this index.
    On(u16),
    /// Not in it; the indexes of its neighbours, the nearest first, and of equally near ones the lower index first.
    Near(&'a [u16]),
}

macro_rules! grids {
    ($($(#[$doc:meta])* $name:ident: $shape:ident $codes:ident $shells:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name() -> &'static Grid {
            static GRID: OnceLock<Grid> = OnceLock::new();
            GRID.get_or_init(|| Grid::new($shape, &codes::$codes, $shells))
        }
    )*};
}

// The number of distances that are near is `nwant` in ggml.
grids! {
    /// Of IQ2_XXS: 256 points.
    iq2_xxs: EIGHT IQ2_XXS 2;
    /// Of IQ2_XS: 512 points.
    iq2_xs: EIGHT IQ2_XS 2;
    /// Of IQ2_S: 1024 points.
    iq2_s: EIGHT IQ2_S 1;
    /// Of IQ1_S and IQ1_M: 2048 points.
    iq1: EIGHT IQ1 3;
    /// Of IQ3_XXS: 256 points.
    iq3_xxs: FOUR IQ3_XXS 2;
    /// Of IQ3_S: 512 points.
    iq3_s: FOUR IQ3_S 3;
}

/// The codes of [`iq1`], for decoders, which need no neighbours.
pub(crate) const IQ1_CODES: &[u16; 2048] = &codes::IQ1;

impl Grid {
    /// The points as packed codes: bits `2 i..2 i + 2` (or `3 i..3 i + 3` for points of four) are the level of element `i`.
    #[inline]
    pub fn codes(&self) -> &'static [u16] {
        self.codes
    }

    /// For each point its index, or `!k` if it is not in the codebook and has the `k`th [list](Grid::list) of neighbours.
    #[inline]
    pub fn map(&self) -> &[i32] {
        &self.map
    }

    /// The number of lists of neighbours.
    #[inline]
    pub fn n_lists(&self) -> usize {
        self.starts.len() - 1
    }

    /// The `k`th list of neighbours, as in [`PointPlace::Near`]; never empty.
    #[inline]
    pub fn list(&self, k: usize) -> &[u16] {
        &self.neighbours[self.starts[k] as usize..self.starts[k + 1] as usize]
    }

    /// The lists in groups of eight.
    #[inline]
    pub fn eights(&self) -> &Eights {
        self.eights.get_or_init(|| Eights::new(self))
    }

    /// The index of a packed code that is in the codebook.
    #[inline]
    pub fn index(&self, code: u16) -> u16 {
        self.map[self.shape.point(code)] as u16
    }

    /// The location of a point.
    #[inline]
    pub fn place(&self, point: usize) -> PointPlace<'_> {
        match self.map[point] {
            list @ ..0 => PointPlace::Near(self.list(!list as usize)),
            index => PointPlace::On(index as u16),
        }
    }

    fn new(shape: Shape, codes: &'static [u16], shells: u32) -> Grid {
        // A point is split into halves: the squared distance of two points is the sum of the squared distances of their halves.
        let half = Shape { elements: shape.elements / 2, ..shape };
        let n_halves = shape.base.pow(half.elements) as usize;
        let split = half.bits * half.elements;
        let pattern = |half_point: usize| {
            let mut code = 0;
            for i in 0..half.elements {
                code |= (half_point as u32 / shape.base.pow(i) % shape.base) << (half.bits * i);
            }
            code as u16
        };
        let distances = |half_of: fn(u16, u32) -> u16| -> Vec<u8> {
            let mut all = Vec::with_capacity(n_halves * codes.len());
            for p in 0..n_halves {
                let p = pattern(p);
                all.extend(codes.iter().map(|&code| {
                    let code = half_of(code, split);
                    (0..half.elements).map(|i| half.level(p, i).abs_diff(half.level(code, i)).pow(2)).sum::<u32>() as u8
                }));
            }
            all
        };
        let low = distances(|code, split| code & ((1 << split) - 1));
        let high = distances(|code, split| code >> split);

        let mut grid = Grid {
            shape,
            codes,
            map: vec![-1; n_halves * n_halves],
            starts: vec![0],
            neighbours: Vec::new(),
            eights: OnceLock::new(),
        };
        for (index, &code) in codes.iter().enumerate() {
            grid.map[shape.point(code)] = index as i32;
        }
        let mut distance = vec![0u8; codes.len()];
        for point in 0..grid.map.len() {
            if grid.map[point] >= 0 {
                continue;
            }
            let row = |of: usize| of * codes.len()..(of + 1) * codes.len();
            let (low, high) = (&low[row(point % n_halves)], &high[row(point / n_halves)]);
            for ((d, l), h) in distance.iter_mut().zip(low).zip(high) {
                *d = l + h;
            }
            // By distance, and by index within each distance.
            let mut inside = 0;
            for _ in 0..shells {
                let shell = distance.iter().fold(u8::MAX, |least, &d| least.min(if d > inside { d } else { u8::MAX }));
                inside = shell;
                for (at, part) in distance.chunks(32).enumerate() {
                    if part.iter().fold(false, |any, &d| any | (d == shell)) {
                        let of_part = part.iter().enumerate().filter(|&(_, &d)| d == shell);
                        grid.neighbours.extend(of_part.map(|(i, _)| (32 * at + i) as u16));
                    }
                }
            }
            grid.map[point] = !(grid.starts.len() as i32 - 1);
            grid.starts.push(grid.neighbours.len() as u32);
        }
        grid
    }
}

/// The signs of eight values, of which seven bits are stored: their number of minus signs is even (`ksigns_iq2xs`).
#[inline(always)]
pub(crate) const fn signs(stored: u8) -> u8 {
    stored & 127 | ((stored & 127).count_ones() as u8 & 1) << 7
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All points, ordered by distance and index, up to the given number of distances.
    fn plain_neighbours(grid: &Grid, point: usize, shells: usize) -> Vec<u16> {
        let digits = |mut p: usize| {
            let mut digits = [0i32; 8];
            for d in &mut digits[..grid.shape.elements as usize] {
                *d = (p % grid.shape.base as usize) as i32;
                p /= grid.shape.base as usize;
            }
            digits
        };
        let p = digits(point);
        let mut all: Vec<(i32, u16)> = grid
            .codes
            .iter()
            .enumerate()
            .map(|(index, &code)| {
                let q = digits(grid.shape.point(code));
                (p.iter().zip(q).map(|(p, q)| (p - q) * (p - q)).sum(), index as u16)
            })
            .collect();
        all.sort_unstable();
        let mut distances: Vec<i32> = all.iter().map(|a| a.0).collect();
        distances.dedup();
        all.retain(|a| a.0 <= distances[shells - 1]);
        all.into_iter().map(|a| a.1).collect()
    }

    #[test]
    fn every_list_is_the_sorted_one() {
        for (grid, n, shells) in [
            (iq2_xxs(), 256, 2),
            (iq2_xs(), 512, 2),
            (iq2_s(), 1024, 1),
            (iq1(), 2048, 3),
            (iq3_xxs(), 256, 2),
            (iq3_s(), 512, 3),
        ] {
            assert_eq!(grid.codes.len(), n);
            assert_eq!(grid.map.len(), (grid.shape.base as usize).pow(grid.shape.elements));
            assert_eq!(grid.n_lists(), grid.map.len() - n);
            for (index, &code) in grid.codes.iter().enumerate() {
                assert_eq!(grid.place(grid.shape.point(code)), PointPlace::On(index as u16));
            }
            // A prime step: all kinds of points, in acceptable test time.
            for point in (0..grid.map.len()).step_by(13) {
                if let PointPlace::Near(list) = grid.place(point) {
                    assert_eq!(list, plain_neighbours(grid, point, shells), "point {point} of {n}");
                }
            }
        }
    }

    #[test]
    fn signs_are_even() {
        // The first and last of `ksigns_iq2xs`.
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(signs), [0, 129, 130, 3, 132, 5, 6, 135]);
        assert_eq!([124, 125, 126, 127].map(signs), [252, 125, 126, 255]);
    }
}
