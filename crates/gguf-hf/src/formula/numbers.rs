//! Numbers in formulas: integers stay integers as in Python.

use serde_json::{Number, Value, json};

use super::steps::MAX_LIST;
use super::syntax::Op;

/// Minus infinity, which JSON cannot represent as a number.
pub(crate) const MINUS_INFINITY: &str = "-Infinity";

/// Subtracts the mean; every operation rounds to single precision.
pub(super) fn centered(numbers: &[Value]) -> Option<Value> {
    let numbers: Vec<f32> = numbers.iter().map(|x| Some(x.as_f64()? as f32)).collect::<Option<_>>()?;
    let sum: f64 = numbers.iter().copied().map(f64::from).sum();
    let mean = sum as f32 / numbers.len() as f32;
    Some(numbers.iter().map(|x| json!(f64::from(x - mean))).collect())
}

/// The inverse cumulative distribution function of the normal distribution, rounded to single precision at the same steps as in torch
/// (`torch.distributions.Normal.icdf`); infinite at 0.
pub(super) fn icdf(share: f64) -> Option<Value> {
    if !(0.0..1.0).contains(&share) {
        return None;
    }
    let y = f64::from(2.0 * share as f32 - 1.0);
    if y <= -1.0 {
        return Some(Value::from(MINUS_INFINITY));
    }
    // Bisection, because the error function is increasing.
    let (mut low, mut high) = (-8.0f64, 8.0f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if erf(middle) < y { low = middle } else { high = middle }
    }
    // The bisection ends just below zero.
    let root = if y == 0.0 { 0.0 } else { low };
    Some(json!(f64::from(root as f32 * core::f32::consts::SQRT_2)))
}

/// The error function, computed by its series, which converges everywhere.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    // exp(-x²) times a series of positive terms, which avoids cancellation.
    while n < 400.0 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    core::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Truncates a float to an integer.
pub(super) fn whole(x: f64) -> Option<Value> {
    (x.is_finite() && x.abs() < 9e18).then(|| Value::from(x.trunc() as i64))
}

/// The quotient of integers, rounded down.
fn floor_div(x: i64, y: i64) -> Option<i64> {
    let towards_zero = x.checked_div(y)?;
    Some(towards_zero - i64::from(x % y != 0 && (x < 0) != (y < 0)))
}

pub(super) fn arithmetic(op: Op, a: &Value, b: &Value) -> Option<Value> {
    if let (Op::Add, Value::String(a), Value::String(b)) = (op, a, b) {
        return Some(Value::String(format!("{a}{b}")));
    }
    if let (Op::Add, Value::Array(a), Value::Array(b)) = (op, a, b) {
        return Some(Value::Array([a.as_slice(), b.as_slice()].concat()));
    }
    if let (Op::Multiply, Value::Array(a), Some(n)) = (op, a, b.as_u64()) {
        let n = usize::try_from(n).ok().filter(|n| n.saturating_mul(a.len()) <= MAX_LIST)?;
        return Some(Value::Array(a.iter().cycle().take(n * a.len()).cloned().collect()));
    }
    let integer = |v: &Value| v.as_i64().or(v.as_bool().map(i64::from));
    if let (Some(x), Some(y)) = (integer(a), integer(b)) {
        let n = match op {
            Op::Add => x.checked_add(y)?,
            Op::Subtract => x.checked_sub(y)?,
            Op::Multiply => x.checked_mul(y)?,
            Op::DivideDown => floor_div(x, y)?,
            Op::Remainder => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })?,
            Op::Power if y >= 0 => x.checked_pow(u32::try_from(y).ok()?)?,
            _ => return float(op, x as f64, y as f64),
        };
        return Some(Value::from(n));
    }
    float(op, a.as_f64()?, b.as_f64()?)
}

fn float(op: Op, x: f64, y: f64) -> Option<Value> {
    let value = match op {
        Op::Add => x + y,
        Op::Subtract => x - y,
        Op::Multiply => x * y,
        Op::Divide => x / y,
        Op::DivideDown => (x / y).floor(),
        Op::Remainder => x - y * (x / y).floor(),
        Op::Power => x.powf(y),
        _ => return None,
    };
    // JSON cannot represent infinity.
    Number::from_f64(value).map(Value::Number)
}
