//! Tensors computed from the configuration.

use std::borrow::Cow;

use gguf_model::arch::{Checkpoint, Computed};
use gguf_pipeline::plan::Op;

use super::keys::field_error;
use crate::config;
use crate::formula::{Fields, Formula};
use crate::model_plan::{ModelPlan, PlanError};

/// The maximum head size that is accepted; heads in use have up to some hundred elements.
const MAX_HEAD_DIM: f64 = 65536.0;

/// Adds the tensors that a class of checkpoints computes, before all others.
pub(super) fn add(checkpoint: &Checkpoint, plan: &mut ModelPlan) -> Result<(), PlanError> {
    for computed in checkpoint.computed {
        match computed {
            Computed::Llama3Freqs if is_llama3(&plan.fields)? => {
                let factors = llama3_factors(&plan.fields, LLAMA3_FACTOR)?;
                vector(plan, "rope_freqs.weight", factors);
            }
            Computed::Llama3FreqsBy(factor) if is_llama3(&plan.fields)? => {
                let factors = llama3_factors(&plan.fields, *factor)?;
                vector(plan, "rope_freqs.weight", factors);
            }
            Computed::Llama3FreqsOfPart if is_llama3(&plan.fields)? => {
                let factors = llama3_factors_of_part(&plan.fields)?;
                vector(plan, "rope_freqs.weight", factors);
            }
            Computed::Llama3Freqs | Computed::Llama3FreqsBy(_) | Computed::Llama3FreqsOfPart => {}
            Computed::Values(name, formula) => {
                if let Some(values) = list(&plan.fields, formula)? {
                    vector(plan, name, values);
                }
            }
            Computed::LongRopeFactors => {
                for (name, field) in [
                    ("rope_factors_long.weight", "rope.long_factor"),
                    ("rope_factors_short.weight", "rope.short_factor"),
                ] {
                    if let Some(factors) = list(&plan.fields, field)? {
                        vector(plan, name, factors);
                    }
                }
            }
            Computed::Sinusoids(name, formula) => {
                let values = sinusoids(row_len(&plan.fields, formula)?);
                let shape = vec![values.len() as u64 / N_POSITIONS, N_POSITIONS];
                plan.add((*name).to_owned(), shape, Op::Computed(values));
            }
            _ => return Err(PlanError::Table { key: "computed", problem: format!("no rule for {computed:?}") }),
        }
    }
    Ok(())
}

/// Whether the configuration selects rope scaling of type `llama3`.
fn is_llama3(fields: &Fields) -> Result<bool, config::Error> {
    Ok(text(fields, "rope.rope_type")?.is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")))
}

fn vector(plan: &mut ModelPlan, name: &str, values: Vec<f32>) {
    plan.add(name.to_owned(), vec![values.len() as u64], Op::Computed(values));
}

/// The number of positions that audio encoders compute.
const N_POSITIONS: u64 = 1500;

/// The row length of [`Computed::Sinusoids`].
fn row_len(fields: &Fields, formula: &str) -> Result<u32, config::Error> {
    let found = number(fields, formula)?.ok_or_else(|| config::Error::Missing(vec![formula.to_owned()]))?;
    let is_valid = (4.0..=16384.0).contains(&found) && found % 2.0 == 0.0;
    let wrong = || config::Error::invalid(formula, &serde_json::json!(found), "an even number from 4 to 16384");
    if is_valid { Ok(found as u32) } else { Err(wrong()) }
}

/// For each position, the sines of its products with falling frequencies, then their cosines.
///
/// The frequencies and products are in single precision, as in the reference. Sines, cosines and powers are computed in double precision and
/// rounded; those of torch, which come from MKL where it is available, are not always the nearest single-precision value.
fn sinusoids(row_len: u32) -> Vec<f32> {
    const LONGEST: f64 = 10000.0;
    let half = row_len / 2;
    let step = (-LONGEST.ln() / f64::from(half - 1)) as f32;
    let frequencies: Vec<f32> = (0..half).map(|i| f64::from(step * i as f32).exp() as f32).collect();
    let angles = |position: u64| frequencies.iter().map(move |frequency| f64::from(position as f32 * frequency));
    let row = |position| angles(position).map(f64::sin).chain(angles(position).map(f64::cos)).map(|x| x as f32);
    (0..N_POSITIONS).flat_map(row).collect()
}

/// The value of a formula.
fn value(fields: &Fields, formula: &str) -> Result<Option<serde_json::Value>, config::Error> {
    let missing = |what: String| config::Error::Missing(vec![what]);
    let formula = Formula::parse(formula).map_err(|e| missing(e.to_string()))?;
    let value = fields.eval(&formula).map_err(field_error)?;
    Ok(value.filter(|value| !value.is_null()).map(Cow::into_owned))
}

fn number(fields: &Fields, formula: &str) -> Result<Option<f64>, config::Error> {
    let Some(value) = value(fields, formula)? else { return Ok(None) };
    value.as_f64().map(Some).ok_or_else(|| config::Error::invalid(formula, &value, "a number"))
}

fn text(fields: &Fields, formula: &str) -> Result<Option<String>, config::Error> {
    Ok(value(fields, formula)?.and_then(|value| value.as_str().map(str::to_owned)))
}

fn list(fields: &Fields, formula: &str) -> Result<Option<Vec<f32>>, config::Error> {
    let Some(value) = value(fields, formula)? else { return Ok(None) };
    let numbers = value.as_array().and_then(|items| items.iter().map(|n| n.as_f64().map(|n| n as f32)).collect());
    numbers.map(Some).ok_or_else(|| config::Error::invalid(formula, &value, "a list of numbers"))
}

/// The default of the field `factor` in most classes.
pub(crate) const LLAMA3_FACTOR: u32 = 8;

/// The frequency divisors of the rotated pairs in Llama 3.1 and later: 1 for short waves, `factor` for long ones, and a smooth interpolation
/// between them (`LlamaModel.generate_extra_tensors`).
///
/// The reference computes in single precision with torch, which divides a number by a tensor as reciprocal times number. The order of operations
/// here is the same, so the factors are bit-identical.
pub(crate) fn llama3_factors(fields: &Fields, default_factor: u32) -> Result<Vec<f32>, config::Error> {
    let of =
        |name: &str, default: f64| Ok::<_, config::Error>(number(fields, &format!("rope.{name}"))?.unwrap_or(default));
    let (base, factor) = (of("rope_theta", 10000.0)?, of("factor", f64::from(default_factor))? as f32);
    let (low, high) = (of("low_freq_factor", 1.0)? as f32, of("high_freq_factor", 4.0)? as f32);
    let original = of("original_max_position_embeddings", 8192.0)?;
    const HEAD_DIM: &str = "head_dim ?? hidden_size // num_attention_heads";
    let head_dim = number(fields, HEAD_DIM)?.ok_or_else(|| config::Error::Missing(vec!["head_dim".to_owned()]))?;
    if !(1.0..=MAX_HEAD_DIM).contains(&head_dim) {
        let found = serde_json::json!(head_dim);
        return Err(config::Error::invalid("head_dim", &found, "1 to 65536 elements in an attention head"));
    }
    let (longest, shortest) = ((original / f64::from(low)) as f32, (original / f64::from(high)) as f32);
    let factor_of = |i: u32| {
        let exponent = i as f32 / head_dim as f32;
        // Rounding the double-precision power gives the correctly rounded single-precision power, except with negligible probability.
        let power = (base as f32 as f64).powf(f64::from(exponent)) as f32;
        let frequency = 1.0 / power;
        let wavelength = (1.0 / frequency) * core::f32::consts::TAU;
        if wavelength < shortest {
            1.0
        } else if wavelength > longest {
            factor
        } else {
            let smooth = ((1.0 / wavelength) * original as f32 - low) / ((f64::from(high) - f64::from(low)) as f32);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    Ok((0..head_dim as u32).step_by(2).map(factor_of).collect())
}

/// Like [`llama3_factors`] for the first `rotated` elements of a head, and 1 for the rest. The frequencies are in single precision, everything
/// else in double precision (`Step35Model.generate_extra_tensors`).
pub(crate) fn llama3_factors_of_part(fields: &Fields) -> Result<Vec<f32>, config::Error> {
    let of =
        |name: &str, default: f64| Ok::<_, config::Error>(number(fields, &format!("rope.{name}"))?.unwrap_or(default));
    let (base, factor) = (of("rope_theta", 10000.0)?, of("factor", 8.0)?);
    let (low, high) = (of("low_freq_factor", 1.0)?, of("high_freq_factor", 4.0)?);
    let original = of("original_max_position_embeddings", 8192.0)?;
    let length = |formula: &str| {
        let missing = || config::Error::Missing(vec![formula.to_owned()]);
        let found = number(fields, formula)?.ok_or_else(missing)?;
        let wrong =
            || config::Error::invalid(formula, &serde_json::json!(found), "1 to 65536 elements in an attention head");
        if (1.0..=MAX_HEAD_DIM).contains(&found) { Ok(found as u32) } else { Err(wrong()) }
    };
    let (head, rotated) = (length("head_dim ?? hidden_size // num_attention_heads")?, length("rotated")?);
    let factor_of = |i: u32| {
        let power = (base as f32 as f64).powf(f64::from(i as f32 / rotated as f32)) as f32;
        let wavelength = 2.0 * core::f64::consts::PI / f64::from(1.0 / power);
        if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    let mut factors: Vec<f32> = (0..rotated).step_by(2).map(|i| factor_of(i) as f32).collect();
    factors.resize(factors.len().max(head as usize / 2), 1.0);
    Ok(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_sound() {
        let values = sinusoids(4);
        assert_eq!(values.len(), 4 * 1500);
        assert_eq!(values[..4], [0.0, 0.0, 1.0, 1.0]);
        // The second frequency is 1 / 10000, from a logarithm in single precision.
        assert_eq!(values[4..8], [0.841_470_96, 9.999_999e-5, 0.540_302_3, 1.0]);
        let fields = |n: u32| Fields::of([("d".to_owned(), n.into())].into_iter().collect(), 0);
        assert_eq!(row_len(&fields(4), "d"), Ok(4));
        for n in [0, 2, 5, 16386] {
            let error = row_len(&fields(n), "d").unwrap_err().to_string();
            assert!(error.contains("an even number from 4 to 16384"), "{error}");
        }
        assert!(row_len(&fields(4), "other").is_err());
    }
}
