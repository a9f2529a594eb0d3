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
    lists: OnceLock<Lists>,
    short_lists: OnceLock<Lists>,
}

/// The neighbours of all points as kernels read them: packed codes, in lists from which whole vectors can be loaded.
#[derive(Debug)]
pub(crate) struct Lists {
    /// For each point its packed code, or the argument of [`Lists::list`].
    pub places: Vec<i32>,
    /// The lists one after the other, each padded to a multiple of [`Lists::MULTIPLE`] with its last code.
    pub codes: Vec<u16>,
}

impl Lists {
    /// What the length of a padded list is a multiple of.
    pub const MULTIPLE: usize = 16;

    /// For a negative place: the start of its list in the codes, and the number of its neighbours, at least one.
    #[inline(always)]
    pub fn list(place: i32) -> (usize, usize) {
        let list = !place as usize;
        (Lists::MULTIPLE * (list & 0xf_ffff), list >> 20)
    }

    /// The neighbours of a point that is not in the codebook, with the padding.
    #[inline(always)]
    pub fn padded(&self, point: usize) -> &[u16] {
        let (start, len) = Lists::list(self.places[point]);
        &self.codes[start..start + len.next_multiple_of(Lists::MULTIPLE)]
    }

    /// The lists of a codebook; `shorten` gets the point and the codes of its neighbours.
    fn new(grid: &Grid, shorten: impl Fn(usize, &mut Vec<u16>)) -> Lists {
        let mut lists = Lists { places: Vec::with_capacity(grid.map.len()), codes: Vec::new() };
        let mut list = Vec::new();
        for point in 0..grid.map.len() {
            match grid.place(point) {
                PointPlace::On(index) => lists.places.push(i32::from(grid.codes[usize::from(index)])),
                PointPlace::Near(near) => {
                    list.clear();
                    list.extend(near.iter().map(|&index| grid.codes[usize::from(index)]));
                    shorten(point, &mut list);
                    let start = lists.codes.len() / Lists::MULTIPLE;
                    assert!(start < 1 << 20 && list.len() < 1 << 11, "the list fits into a place");
                    lists.places.push(!((start | list.len() << 20) as i32));
                    lists.codes.extend(&list);
                    lists.codes.resize(lists.codes.len().next_multiple_of(Lists::MULTIPLE), list[list.len() - 1]);
                }
            }
        }
        lists
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

    /// A bit for each level from the point's to the code's, apart for each element and direction: one code is between the point and another
    /// in every element if its bits are among those of the other.
    fn steps_away(self, mut point: usize, code: u16) -> u64 {
        let (mut steps, base) = (0, self.base);
        for i in 0..self.elements {
            let (from, to) = (point as u32 % base, self.level(code, i));
            let bits = (1u64 << from.abs_diff(to)) - 1;
            steps = steps << (2 * (base - 1)) | bits << (if to > from { base - 1 } else { 0 });
            point /= base as usize;
        }
        steps
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
    #[cfg(test)]
    pub fn n_lists(&self) -> usize {
        self.starts.len() - 1
    }

    /// The `k`th list of neighbours, as in [`PointPlace::Near`]; never empty.
    #[inline]
    pub fn list(&self, k: usize) -> &[u16] {
        &self.neighbours[self.starts[k] as usize..self.starts[k + 1] as usize]
    }

    /// All neighbours; built on first use.
    #[inline]
    pub fn lists(&self) -> &Lists {
        self.lists.get_or_init(|| Lists::new(self, |_, _| ()))
    }

    /// The neighbours that can be the nearest to a value that was rounded to the point, and is not as good as halfway between two levels;
    /// built on first use.
    ///
    /// A neighbour is left out if one before it in the list is, in every element, on the same side of the point's level and not farther, or
    /// on the level itself. The value is nearer to the point's level than to any other, so in no element is the error of the earlier one
    /// larger; since each operation of the sum of errors is monotone, neither is its sum, whatever the weights, also with rounding. Of equal
    /// sums the earlier one is chosen. The earlier one may be left out itself, by one that is before both and not farther than either.
    #[inline]
    pub fn short_lists(&self) -> &Lists {
        self.short_lists.get_or_init(|| {
            Lists::new(self, |point, list| {
                let mut kept = Vec::new();
                list.retain(|&code| {
                    let away = self.shape.steps_away(point, code);
                    let nearer = kept.iter().any(|k| k & !away == 0);
                    if !nearer {
                        kept.push(away);
                    }
                    !nearer
                });
            })
        })
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
            lists: OnceLock::new(),
            short_lists: OnceLock::new(),
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

    /// The position of the first of the nearest codes, as `iq2_find_best_neighbour` and `iq3_find_best_neighbour` compute it.
    fn nearest(shape: Shape, list: &[u16], x: &[f32], roots: &[f32], scale: f32) -> Option<u16> {
        let (mut best, mut found) = (f32::MAX, None);
        for &code in list {
            let mut error = 0.0;
            for i in 0..shape.elements {
                let d = scale * (2 * shape.level(code, i) + 1) as f32 - x[i as usize];
                error += roots[i as usize] * d * d;
            }
            if error < best {
                (best, found) = (error, Some(code));
            }
        }
        found
    }

    #[test]
    fn short_lists_have_the_nearest() {
        let mut random = gguf_test::random::Random::new("short lists", 0);
        for grid in [iq2_xxs(), iq2_xs(), iq2_s(), iq3_xxs(), iq3_s()] {
            let (shape, all, short) = (grid.shape, grid.lists(), grid.short_lists());
            let (mut n_all, mut n_short) = (0, 0);
            for turn in 0..20_000 {
                let scale = 0.01 + random.unit();
                let id = 1.0 / scale;
                let (mut x, mut roots): (Vec<f32>, Vec<f32>) = (vec![], vec![]);
                for _ in 0..shape.elements {
                    // Every third value is close to the middle of two levels, which is an even number, as close as the short lists allow.
                    let level = random.below(shape.base as usize) as f32;
                    let edge = 1.0f32 - 1.2 / 65536.0;
                    let away = [2.0 * random.unit() - 1.0, edge, -edge][turn % 3];
                    x.push(scale * (2.0 * level + 1.0 + away).max(-1.0));
                    let root = random.unit();
                    roots.push([0.0, 1.0, root][random.below(3)]);
                }
                let mut point = 0;
                for x in x.iter().rev() {
                    let level = (0.5 * (id * x - 1.0)).round_ties_even().clamp(0.0, (shape.base - 1) as f32);
                    point = point * shape.base as usize + level as usize;
                }
                if all.places[point] >= 0 {
                    assert_eq!(all.places[point], short.places[point]);
                    continue;
                }
                let [all, short] = [all, short].map(|lists| {
                    let (first, n) = Lists::list(lists.places[point]);
                    &lists.codes[first..first + n]
                });
                (n_all, n_short) = (n_all + all.len(), n_short + short.len());
                let found = nearest(shape, short, &x, &roots, scale);
                assert_eq!(found, nearest(shape, all, &x, &roots, scale), "{x:?} {roots:?} {scale}");
            }
            assert!(n_short <= n_all && n_short > 0, "{n_short} of {n_all}");
        }
        let lengths = |grid: &'static Grid, lists: fn(&'static Grid) -> &'static Lists| lists(grid).codes.len();
        assert!(3 * lengths(iq2_xs(), Grid::short_lists) < 2 * lengths(iq2_xs(), Grid::lists));
    }

    #[test]
    fn signs_are_even() {
        // The first and last of `ksigns_iq2xs`.
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(signs), [0, 129, 130, 3, 132, 5, 6, 135]);
        assert_eq!([124, 125, 126, 127].map(signs), [252, 125, 126, 255]);
    }
}
