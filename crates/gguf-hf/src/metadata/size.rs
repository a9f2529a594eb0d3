//! Model sizes as in model names: `7B`, `8x7B`, `150K`.

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
