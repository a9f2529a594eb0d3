//! Model sizes as in model names: `7B`, `8x7B`, `150K`.

use gguf_pipeline::plan::TensorPlan;

/// Counts of the parameters to write, as in `GGUFWriter.get_total_parameter_count`.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParameterCounts {
    /// All parameters; zero if no tensors are written, negative for a LoRA adapter, whose count is an estimate.
    pub total: i64,
    /// Parameters used for every token.
    pub shared: u64,
    /// Parameters of one expert.
    pub expert: u64,
    /// The number of experts; zero if there are none.
    pub expert_count: u64,
}

impl ParameterCounts {
    /// Counts the parameters, with shared and per-expert counts (`GGUFWriter.get_total_parameter_count` of gguf-py).
    pub(crate) fn of_model(tensors: &[TensorPlan]) -> ParameterCounts {
        let mut counts = ParameterCounts::default();
        let (mut total, mut n_experts, mut n_tensors) = (0u64, 0u64, 0u64);
        for tensor in tensors {
            let n = tensor.n_elements();
            let name = String::from_utf8_lossy(&tensor.name);
            // If there are adapter tensors inside a model, all counts are zero, as in gguf-py.
            if name.ends_with(".lora_a") || name.ends_with(".lora_b") {
                return ParameterCounts::default();
            }
            let experts = tensor.shape.get(if name.contains(".bias") { 1 } else { 2 }).copied();
            match experts.filter(|_| name.contains("_exps.") && tensor.shape.len() >= 3) {
                Some(experts) => {
                    counts.expert = counts.expert.saturating_add(n / experts.max(1));
                    n_experts = n_experts.saturating_add(experts);
                    n_tensors += 1;
                }
                None => counts.shared = counts.shared.saturating_add(n),
            }
            total = total.saturating_add(n);
        }
        counts.total = i64::try_from(total).unwrap_or(i64::MAX);
        counts.expert_count = n_experts.checked_div(n_tensors).unwrap_or(0);
        counts
    }

    /// Counts the parameters of the changed tensors (`GGUFWriter.get_total_parameter_count` of gguf-py). The result is negative, which marks an
    /// estimate.
    pub(crate) fn of_adapter(tensors: &[TensorPlan]) -> ParameterCounts {
        let mut total = 0u64;
        for (i, tensor) in tensors.iter().enumerate() {
            let is = |suffix: &[u8]| tensor.name.ends_with(suffix);
            let n = match i.checked_sub(1).and_then(|before| tensors.get(before)) {
                _ if is(b".lora_a") => 0,
                Some(first) if is(b".lora_b") => {
                    let rows = tensor.shape.iter().skip(1).product::<u64>();
                    rows.saturating_mul(first.shape.first().copied().unwrap_or(0))
                }
                _ => tensor.n_elements(),
            };
            total = total.saturating_add(n);
        }
        ParameterCounts { total: i64::try_from(total).map_or(i64::MIN, |n| -n), ..ParameterCounts::default() }
    }

    /// The size label: at least two digits, or `experts x size` (`size_label` in gguf-py/gguf/utility.py). `None` if no tensors are written or
    /// the count is an estimate.
    pub(crate) fn label(&self) -> Option<String> {
        if self.total <= 0 {
            None
        } else if self.expert_count > 0 {
            Some(format!("{}x{}", self.expert_count, rounded(self.shared.saturating_add(self.expert))))
        } else {
            Some(rounded(self.total.unsigned_abs()))
        }
    }
}

/// A count with a suffix and at least two digits (`model_weight_count_rounded_notation`).
fn rounded(count: u64) -> String {
    let count = count as f64;
    let (scaled, suffix) = match count {
        n if n > 1e12 => (n * 1e-12, 'T'),
        n if n > 1e9 => (n * 1e-9, 'B'),
        n if n > 1e6 => (n * 1e-6, 'M'),
        n => (n * 1e-3, 'K'),
    };
    let whole = format!("{:.0}", scaled.round_ties_even());
    let decimals = 2usize.saturating_sub(whole.trim_start_matches('0').len());
    format!("{scaled:.decimals$}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_gguf_py() {
        // From `gguf.size_label` of gguf-py.
        for (total, label) in [
            (1, "0.00K"),
            (250, "0.25K"),
            (500, "0.50K"),
            (1_000, "1.0K"),
            (1_250, "1.2K"),
            (1_350, "1.4K"),
            (9_500, "10K"),
            (10_500, "10K"),
            (11_500, "12K"),
            (150_000, "150K"),
            (1_000_000, "1000K"),
            (1_000_001, "1.0M"),
            (1_345_792, "1.3M"),
            (6_738_415_616, "6.7B"),
            (8_030_261_248, "8.0B"),
            (70_553_706_496, "71B"),
            (999_999_999_999, "1000B"),
            (1_058_000_000_000, "1.1T"),
        ] {
            let size = ParameterCounts { total, ..ParameterCounts::default() };
            assert_eq!(size.label().as_deref(), Some(label), "{total}");
        }
        let moe = ParameterCounts { total: 500_000, shared: 100_000, expert: 72_704, expert_count: 4 };
        assert_eq!(moe.label().as_deref(), Some("4x173K"));
        assert_eq!(ParameterCounts::default().label(), None);
        assert_eq!(ParameterCounts { total: -5, ..moe }.label(), None);
    }
}
