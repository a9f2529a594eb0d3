//! The allocation: chooses one option for each item within a budget, with a small sum of errors.
//!
//! This is the multiple-choice knapsack problem. Each item starts with its cheapest option. Steps along the lower convex hulls of the
//! items' (bytes, error) points are taken in descending order of gain per byte: this is optimal for every total that it passes. The rest of
//! the budget is then filled, and options are exchanged between pairs of items while that improves the sum. Everything is compared in a
//! fixed order, so the result depends only on the numbers.

use gguf_format::sort::CompactSort as _;
/// An option of an item.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The size.
    pub bytes: u64,
    /// The error: finite and not negative.
    pub error: f64,
}

/// Smaller gains, relative to the total error, are ignored, so that rounding causes no cycles.
const LEAST_GAIN: f64 = 1e-12;

/// Chooses an option of each item, by index; items have at least one option.
///
/// # Errors
/// The bytes of the cheapest options, if they exceed the budget.
pub fn allocate(items: &[Vec<Choice>], budget: u64) -> Result<Vec<usize>, u64> {
    allocate_each(&items, budget)
}

/// Items whose options may be computed on demand.
pub(super) trait Items {
    /// Number of items.
    fn len(&self) -> usize;

    /// The options of an item.
    fn options(&self, item: usize) -> impl Iterator<Item = Choice>;

    /// An option of an item.
    fn option(&self, item: usize, option: usize) -> Option<Choice> {
        self.options(item).nth(option)
    }
}

impl Items for &[Vec<Choice>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn options(&self, item: usize) -> impl Iterator<Item = Choice> {
        self.get(item).into_iter().flatten().copied()
    }
}

/// As [`allocate`].
pub(super) fn allocate_each(items: &impl Items, budget: u64) -> Result<Vec<usize>, u64> {
    let mut chosen: Vec<usize> = Vec::new();
    // Gain per byte, item, option.
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    let mut options: Vec<Choice> = Vec::new();
    for item in 0..items.len() {
        options.clear();
        options.extend(items.options(item));
        let hull = hull(&options);
        chosen.push(hull.first().copied().unwrap_or(0));
        for (from, to) in hull.iter().zip(hull.iter().skip(1)) {
            if let (Some(a), Some(b)) = (options.get(*from), options.get(*to)) {
                steps.push((slope(a, b), item, *to));
            }
        }
    }
    let mut used = total_of(items, &chosen).0;
    if used > budget {
        return Err(used);
    }
    // Slopes decrease along a hull, so the steps of an item stay in order.
    steps.compact_sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, item, to) in steps {
        let Some((now, next)) = chosen.get(item).and_then(|now| pair(items, item, *now, to)) else { continue };
        let after = used - now.bytes + next.bytes;
        if after <= budget {
            used = after;
            if let Some(chosen) = chosen.get_mut(item) {
                *chosen = to;
            }
        }
    }
    // Each exchange reduces the sum; the bound only limits the time.
    for _ in 0..items.len().saturating_mul(4).saturating_add(64) {
        if !exchange(items, &mut chosen, budget) {
            break;
        }
    }
    Ok(chosen)
}

/// Bytes and errors of the chosen types.
pub fn total(items: &[Vec<Choice>], chosen: &[usize]) -> (u64, f64) {
    total_of(&items, chosen)
}

fn total_of(items: &impl Items, chosen: &[usize]) -> (u64, f64) {
    let all = chosen.iter().enumerate().filter_map(|(item, &option)| items.option(item, option));
    all.fold((0, 0.0), |(bytes, error), c| (bytes + c.bytes, error + c.error))
}

fn pair(items: &impl Items, item: usize, a: usize, b: usize) -> Option<(Choice, Choice)> {
    Some((items.option(item, a)?, items.option(item, b)?))
}

/// The gain per additional byte.
fn slope(a: &Choice, b: &Choice) -> f64 {
    (a.error - b.error) / (b.bytes - a.bytes) as f64
}

/// The options on the lower convex hull, by bytes: from the cheapest to the one with the smallest error.
fn hull(options: &[Choice]) -> Vec<usize> {
    let mut order: Vec<(usize, &Choice)> = options.iter().enumerate().collect();
    order.compact_sort_by(|(_, a), (_, b)| a.bytes.cmp(&b.bytes).then(a.error.total_cmp(&b.error)));
    let mut hull: Vec<(usize, &Choice)> = Vec::new();
    for (i, c) in order {
        if hull.last().is_some_and(|(_, last)| c.error >= last.error || c.bytes == last.bytes) {
            continue;
        }
        while let [.., (_, a), (_, b)] = hull.as_slice()
            && slope(a, b) <= slope(b, c)
        {
            hull.pop();
        }
        hull.push((i, c));
    }
    hull.into_iter().map(|(i, _)| i).collect()
}

/// A change of the option that is chosen for an item.
#[derive(Debug, Clone, Copy)]
struct Move {
    item: usize,
    to: usize,
    /// Additional bytes, negative for fewer.
    bytes: i128,
    gain: f64,
}

/// Makes the move with the largest gain, or a pair of moves if one frees the space for the other; returns whether there was one.
fn exchange(items: &impl Items, chosen: &mut [usize], budget: u64) -> bool {
    let (used, error) = total_of(items, chosen);
    let room = i128::from(budget) - i128::from(used);
    let moves_of = |(item, &now): (usize, &usize)| {
        let current = items.option(item, now);
        let new = move |(to, c): (usize, Choice)| {
            let current = current?;
            let bytes = i128::from(c.bytes) - i128::from(current.bytes);
            Some(Move { item, to, bytes, gain: current.error - c.error })
        };
        items.options(item).enumerate().filter_map(new)
    };
    // Not collected: there are several for each item.
    let moves = || chosen.iter().enumerate().flat_map(moves_of);
    let mut better: Vec<Move> = moves().filter(|m| m.gain > 0.0).collect();
    better.compact_sort_by(|a, b| a.bytes.cmp(&b.bytes).then(b.gain.total_cmp(&a.gain)));
    // For each prefix the best move, and the best of another item.
    let mut best: Vec<(Move, Option<Move>)> = Vec::with_capacity(better.len());
    for &m in &better {
        best.push(match best.last() {
            None => (m, None),
            Some(&(first, second)) if m.gain > first.gain => {
                (m, if first.item == m.item { second } else { Some(first) })
            }
            Some(&(first, second)) if m.item != first.item && second.is_none_or(|s| m.gain > s.gain) => {
                (first, Some(m))
            }
            Some(&both) => both,
        });
    }
    let within = |room: i128, not: Option<usize>| {
        let n = better.partition_point(|m| m.bytes <= room);
        let (first, second) = *best.get(n.checked_sub(1)?)?;
        if Some(first.item) == not { second } else { Some(first) }
    };
    let mut found: Option<(f64, Option<Move>, Move)> = within(room, None).map(|m| (m.gain, None, m));
    for m in moves().filter(|m| m.bytes < 0) {
        if let Some(other) = within(room - m.bytes, Some(m.item)) {
            let gain = m.gain + other.gain;
            if found.is_none_or(|(most, ..)| gain > most) {
                found = Some((gain, Some(m), other));
            }
        }
    }
    let Some((gain, first, second)) = found else { return false };
    if gain <= LEAST_GAIN * error {
        return false;
    }
    for m in first.into_iter().chain([second]) {
        if let Some(chosen) = chosen.get_mut(m.item) {
            *chosen = m.to;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest error of all choices within the budget.
    fn exact(items: &[Vec<Choice>], budget: u64) -> Option<f64> {
        let mut best: Option<f64> = None;
        let mut chosen = vec![0; items.len()];
        loop {
            let (bytes, error) = total(items, &chosen);
            if bytes <= budget {
                best = Some(best.map_or(error, |b: f64| b.min(error)));
            }
            let Some(i) = (0..items.len()).find(|&i| chosen[i] + 1 < items[i].len()) else { return best };
            chosen[i] += 1;
            chosen[..i].fill(0);
        }
    }

    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        }
    }

    /// Tensors of several sizes, with types whose error falls by about a factor of four per bit.
    fn model(n: usize, random: &mut impl FnMut() -> f64) -> Vec<Vec<Choice>> {
        let bits = [2.0, 2.6, 3.4, 4.5, 5.5, 6.6, 8.5];
        let mut item = || {
            let (n, scale) = ((random() * 8.0).exp2() * 100.0, (random() * 6.0).exp2());
            let mut option = |&b: &f64| Choice {
                bytes: (n * b / 8.0) as u64,
                error: scale * (0.7 + 0.6 * random()) * 0.25f64.powf(b),
            };
            bits.iter().map(&mut option).collect::<Vec<_>>()
        };
        (0..n).map(|_| item()).collect()
    }

    /// A lower bound for all choices: the last step along the hulls is taken fractionally.
    fn bound(items: &[Vec<Choice>], budget: u64) -> f64 {
        let (mut left, mut error, mut steps) = (budget as f64, 0.0, Vec::new());
        for options in items {
            let points: Vec<Choice> = hull(options).iter().map(|&i| options[i]).collect();
            left -= points[0].bytes as f64;
            error += points[0].error;
            steps.extend(points.windows(2).map(|w| (slope(&w[0], &w[1]), (w[1].bytes - w[0].bytes) as f64)));
        }
        steps.compact_sort_by(|a, b| b.0.total_cmp(&a.0));
        for (slope, bytes) in steps {
            let part = bytes.min(left);
            (left, error) = (left - part, error - slope * part);
        }
        error
    }

    /// A model has a hundred tensors or more.
    #[test]
    fn hardly_worse_than_the_bound_with_many_items() {
        for (n, most) in [(100, 1.02), (400, 1.005)] {
            for seed in 0..10 {
                let mut random = random(seed);
                let items = model(n, &mut random);
                let least: u64 = items.iter().map(|o| o.iter().map(|c| c.bytes).min().unwrap()).sum();
                let budget = (least as f64 * (1.05 + random())) as u64;
                let (used, error) = total(&items, &allocate(&items, budget).unwrap());
                let ratio = error / bound(&items, budget);
                assert!(used <= budget && ratio > 1.0 - 1e-9 && ratio < most, "{n} items, {ratio}");
            }
        }
    }

    /// With few items of very different sizes a step is a large part of the budget, and the optimum may not be found.
    #[test]
    fn not_far_from_the_best_with_few_items() {
        let (mut sum, mut most, mut n) = (0.0, 0.0f64, 0);
        for seed in 0..60 {
            let mut random = random(seed);
            let items = model(6, &mut random);
            let bytes = |pick: fn(&Vec<Choice>) -> u64| items.iter().map(pick).sum::<u64>();
            let least = bytes(|o| o.iter().map(|c| c.bytes).min().unwrap());
            let all = bytes(|o| o.iter().map(|c| c.bytes).max().unwrap());
            assert_eq!(allocate(&items, least - 1), Err(least));
            let budget = least + (random() * (all - least) as f64) as u64;
            let chosen = allocate(&items, budget).unwrap();
            let (used, error) = total(&items, &chosen);
            assert!(used <= budget);
            let ratio = error / exact(&items, budget).unwrap();
            assert!(ratio > 1.0 - 1e-9, "better than the best");
            (sum, most, n) = (sum + ratio, most.max(ratio), n + 1);
            let best = |o: &Vec<Choice>| o.iter().map(|c| c.error).fold(f64::INFINITY, f64::min);
            let (_, error) = total(&items, &allocate(&items, all).unwrap());
            assert!((error - items.iter().map(best).sum::<f64>()).abs() < 1e-12 * error);
        }
        let mean = sum / f64::from(n);
        assert!(mean < 1.06 && most < 1.7, "mean {mean}, most {most}");
    }

    #[test]
    fn dearer_options_that_are_no_better_are_never_taken() {
        let c = |bytes, error| Choice { bytes, error };
        let items = vec![vec![c(10, 1.0), c(20, 1.0), c(20, 0.5), c(30, 0.7)], vec![c(5, 0.1)]];
        assert_eq!(allocate(&items, 1000), Ok(vec![2, 0]));
        assert_eq!(allocate(&items, 24), Ok(vec![0, 0]));
        assert_eq!(allocate(&items, 14), Err(15));
        assert_eq!(allocate(&[], 0), Ok(vec![]));
    }

    #[test]
    fn what_is_left_is_used() {
        let c = |bytes, error| Choice { bytes, error };
        // The hull of the first leads over its middle to a step that is too large; the second can use the rest.
        let items = vec![vec![c(10, 8.0), c(20, 2.0), c(100, 0.0)], vec![c(10, 1.0), c(40, 0.9)]];
        assert_eq!(allocate(&items, 60), Ok(vec![1, 1]));
        // A small early step prevents a large one.
        let items = vec![vec![c(0, 10.0), c(60, 0.0)], vec![c(0, 4.0), c(10, 1.0)]];
        assert_eq!(allocate(&items, 60), Ok(vec![1, 0]));
    }
}
