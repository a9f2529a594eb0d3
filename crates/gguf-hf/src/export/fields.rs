//! Fields of configurations as formulas over the key-values of a file, for formulas of tables that have no inverse: several fields determine one
//! list of numbers, or a field determines only the lengths of parts.

use gguf_format::Gguf;
use serde_json::{Map, Value as Json};

use super::key_values::{json_of, number};
use crate::formula::{Fields, Formula};

/// A class, a field of its configuration, and the formula. Names are keys without the name of the architecture. A formula without a value leaves
/// the field to the search.
const FIELDS: &[(&str, &str, &str)] = &[
    (
        "DeciLMForCausalLM",
        "block_configs",
        "[{
            'attention': {
                'no_op': not attention.head_count[i],
                'replace_with_linear': attention.head_count[i] > 0 and not attention.head_count_kv[i],
                'n_heads_in_group': attention.head_count[i] // attention.head_count_kv[i] if attention.head_count_kv[i] else null,
            },
            'ffn': {
                'no_op': not feed_forward_length[i],
                'replace_with_linear': false,
                'ffn_mult': 1.5 * feed_forward_length[i] / embedding_length,
            },
        } for i]",
    ),
    ("DeciLMForCausalLM", "num_attention_heads", "sorted(attention.head_count)[-1]"),
    ("FalconH1ForCausalLM", "mamba_d_ssm", "ssm.inner_size"),
    ("FalconH1ForCausalLM", "mamba_n_heads", "ssm.time_step_rank"),
    ("FalconH1ForCausalLM", "mamba_d_head", "ssm.inner_size // ssm.time_step_rank"),
    ("FalconH1ForCausalLM", "mamba_n_groups", "ssm.group_count"),
    ("FalconH1ForCausalLM", "mamba_d_state", "ssm.state_size"),
    ("FalconH1ForCausalLM", "mamba_d_conv", "ssm.conv_kernel"),
    ("HunYuanDenseV1ForCausalLM", "head_dim", "attention.key_length"),
    ("HunYuanDenseV1ForCausalLM", "max_position_embeddings", "context_length"),
    ("HunYuanDenseV1ForCausalLM", "rope_theta", "10000.0 if rope.scaling.type == 'none' else null"),
    (
        "HunYuanDenseV1ForCausalLM",
        "rope_scaling",
        "{
            'type': 'dynamic',
            'factor': 1.0,
            'alpha': (rope.freq_base / 10000) ** ((attention.key_length - 2) / attention.key_length),
        } if rope.scaling.type == 'none' else null",
    ),
    ("MiMoV2FlashForCausalLM", "hybrid_layer_pattern", MAIN_BLOCKS_WITH_WINDOW),
    ("MiMoV2FlashForCausalLM", "swa_num_key_value_heads", HEADS_WITH_WINDOW),
    ("MiMoV2FlashForCausalLM", "num_key_value_heads", HEADS_WITHOUT_WINDOW),
    ("MiMoV2ForCausalLM", "hybrid_layer_pattern", MAIN_BLOCKS_WITH_WINDOW),
    ("MiMoV2ForCausalLM", "swa_num_key_value_heads", HEADS_WITH_WINDOW),
    ("MiMoV2ForCausalLM", "num_key_value_heads", HEADS_WITHOUT_WINDOW),
    (
        "NemotronHForCausalLM",
        "hybrid_override_pattern",
        "join([('E' if expert_count else '-') if feed_forward_length[i] else '*' if attention.head_count_kv[i] else 'M'
            for i in range(block_count - (nextn_predict_layers ?? 0))], '')",
    ),
    ("NemotronHForCausalLM", "mamba_num_heads", "ssm.time_step_rank"),
    ("NemotronHForCausalLM", "mamba_head_dim", "ssm.inner_size // ssm.time_step_rank"),
    (
        "NemotronHPuzzleForCausalLM",
        "block_configs",
        "[{
            'block_type': 'moe' if feed_forward_length[i] else 'attention' if attention.head_count_kv[i] else 'mamba',
            'moe_intermediate_size': expert_feed_forward_length[i] or null,
            'num_experts_per_tok': expert_used_count[i] or null,
        } for i]",
    ),
    ("NemotronHPuzzleForCausalLM", "mamba_num_heads", "ssm.time_step_rank"),
    ("NemotronHPuzzleForCausalLM", "mamba_head_dim", "ssm.inner_size // ssm.time_step_rank"),
    ("OpenELMForCausalLM", "ffn_dim_divisor", "1"),
    ("OpenELMForCausalLM", "ffn_multipliers", "[n / embedding_length for n in feed_forward_length]"),
    (
        "Step3p5ForCausalLM",
        "moe_layers_enum",
        "join([str(leading_dense_block_count + i) for i in range(block_count - leading_dense_block_count)], ',')",
    ),
];

const MAIN_BLOCKS_WITH_WINDOW: &str =
    "[attention.sliding_window_pattern[i] for i in range(block_count - (nextn_predict_layers ?? 0))]";

const HEADS_WITH_WINDOW: &str =
    "sorted([attention.head_count_kv[i] if attention.sliding_window_pattern[i] else 0 for i])[-1]";

const HEADS_WITHOUT_WINDOW: &str =
    "sorted([0 if attention.sliding_window_pattern[i] else attention.head_count_kv[i] for i])[-1]";

/// The fields of a class that have formulas.
pub(super) fn of_class(class: &str, gguf: &Gguf<'_>, arch: &str) -> Map<String, Json> {
    let rows = FIELDS.iter().filter(|(of, ..)| *of == class);
    let mut fields: Option<Fields> = None;
    let mut found = Map::new();
    for (_, field, formula) in rows {
        let fields = fields.get_or_insert_with(|| keys(gguf, arch));
        let Ok(formula) = Formula::parse(formula) else { continue };
        if let Ok(Some(value)) = fields.eval(&formula)
            && !value.is_null()
        {
            found.insert((*field).to_owned(), value.into_owned());
        }
    }
    found
}

/// The key-values of an architecture: `ssm.inner_size` is the field `inner_size` of the object `ssm`.
fn keys(gguf: &Gguf<'_>, arch: &str) -> Fields {
    let mut all = Map::new();
    for kv in gguf.kvs() {
        let key = kv.key.to_string_lossy();
        let Some(own) = key.strip_prefix(arch).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let mut parts: Vec<&str> = own.split('.').collect();
        let Some(last) = parts.pop() else { continue };
        let object = parts.into_iter().try_fold(&mut all, |object, part| {
            object.entry(part.to_owned()).or_insert_with(|| Map::new().into()).as_object_mut()
        });
        if let Some(object) = object {
            object.insert(last.to_owned(), json_of(kv.value));
        }
    }
    Fields {
        fields: all,
        facts: Default::default(),
        n_blocks: number(gguf, &format!("{arch}.block_count")).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_can_be_parsed() {
        for (class, field, formula) in FIELDS {
            assert!(Formula::parse(formula).is_ok(), "{class}: {field}");
        }
    }
}
