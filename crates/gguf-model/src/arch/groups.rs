//! Rows shared by many architectures: the common parts of a network under their usual checkpoint names, and the
//! key-values that the reference converter writes for every text model.

use gguf_format::keys;

use super::{Dim, Expr, FormulaType, Key, Map, Need, Row, When};

/// Keys required of every model with attention.
pub(super) const TRANSFORMER_KEYS: &[&str] =
    &[keys::CONTEXT_LENGTH, keys::EMBEDDING_LENGTH, keys::BLOCK_COUNT, keys::ATTENTION_HEAD_COUNT];

/// Keys required of recurrent architectures (`llm_arch_is_recurrent` in llama.cpp).
pub(super) const RECURRENT_KEYS: &[&str] = &[keys::CONTEXT_LENGTH, keys::EMBEDDING_LENGTH, keys::BLOCK_COUNT];

/// The key for the epsilon of RMS norms.
pub(super) const RMS_NORM_KEYS: &[&str] = &[keys::ATTENTION_LAYER_NORM_RMS_EPSILON];

/// The key for the epsilon of layer norms.
pub(super) const LAYER_NORM_KEYS: &[&str] = &[keys::ATTENTION_LAYER_NORM_EPSILON];

/// The key for the width of the feed-forward part.
pub(super) const FEED_FORWARD_KEYS: &[&str] = &[keys::FEED_FORWARD_LENGTH];

/// The elements of a rotated pair are half a head apart in checkpoints and adjacent in llama.cpp (`LlamaModel.permute`
/// in `conversion/llama.py`).
pub(super) const ROPE_Q: &str = "(h two i) ... -> (h i two) ...";

/// As [`ROPE_Q`], for keys.
pub(super) const ROPE_K: &str = "(kv two i) ... -> (kv i two) ...";

/// Embeddings, the norm before the output, and the output matrix.
pub(super) const EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]       Required Always <- "norm";
    "output.weight"        [Embd Vocab] Optional Always <- "lm_head";
};

/// Like [`EMBEDDINGS`], with an output matrix that is always separate.
pub(super) const UNTIED_EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]       Required Always <- "norm";
    "output.weight"        [Embd Vocab] Required Always <- "lm_head";
};

/// The divisors of the rotary frequencies of Llama 3.1 and later.
pub(super) const ROPE_FREQS: &[Row] = rows! {
    "rope_freqs.weight"         [HalfRot] Optional Always;
};

/// The divisors of stretched rotary frequencies.
pub(super) const ROPE_FACTORS: &[Row] = rows! {
    "rope_freqs.weight"         [HalfRot] Optional "not is_stretched";
    "rope_factors_long.weight"  [HalfRot] Optional "is_stretched";
    "rope_factors_short.weight" [HalfRot] Optional "is_stretched";
};

/// Norms before the attention and before the feed-forward part.
pub(super) const NORMS: &[Row] = rows! {
    "attn_norm.weight"     [Embd]       Required Always <- "input_layernorm";
    "ffn_norm.weight"      [Embd]       Required Always <- "post_attention_layernorm";
};

/// Fused queries, keys and values, which llama.cpp accepts instead of three matrices.
pub(super) const FUSED_QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]   Optional Always + Optional;
};

/// As [`FUSED_QKV`], in architectures with [`EMBD_QKV`].
pub(super) const FUSED_EMBD_QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd EmbdQkv] Optional  Always + Optional;
};

/// Queries, keys and values, which may be fused, with rotated pairs half a head apart in both checkpoints and llama.cpp
/// (`create_tensor_qkv`).
pub(super) const QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]     Optional    Always + Optional;
    "attn_q.weight"        [Embd Q]       UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd K]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// As [`QKV`], with rotated pairs that are adjacent in llama.cpp.
pub(super) const PERMUTED_QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]     Optional    Always + Optional;
    "attn_q.weight"        [Embd Q]       UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"        [Embd K]       UnlessFused Always + Optional <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// As [`QKV`], in architectures where llama.cpp takes the length of values for that of keys.
pub(super) const QKV_OF_VALUES: &[Row] = rows! {
    "attn_qkv.weight"      [Embd "attention.head_count * attention.key_length + 2 * attention.head_count_kv * attention.value_length"] Optional Always + Optional;
    "attn_q.weight"        [Embd Q]       UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// As [`QKV`], in architectures where llama.cpp takes the length of keys for that of values.
pub(super) const QKV_OF_KEYS: &[Row] = rows! {
    "attn_qkv.weight"      [Embd QkvOfKeys] Optional  Always + Optional;
    "attn_q.weight"        [Embd Q]       UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd K]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd K]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// As [`QKV_OF_VALUES`], in architectures where llama.cpp takes the queries of all heads to be as wide as a hidden state.
pub(super) const EMBD_QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd EmbdQkv] Optional    Always + Optional;
    "attn_q.weight"        [Embd Embd]    UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// As [`EMBD_QKV`], with rotated pairs that are adjacent in llama.cpp.
pub(super) const PERMUTED_EMBD_QKV: &[Row] = rows! {
    "attn_qkv.weight"      [Embd EmbdQkv] Optional    Always + Optional;
    "attn_q.weight"        [Embd Embd]    UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"        [Embd V]       UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// The output matrix of attention.
pub(super) const OUTPUT: &[Row] = rows! {
    "attn_output.weight"   [Q Embd]       Required    Always <- "self_attn.o_proj";
};

/// The output matrix of attention, which may have a bias.
pub(super) const OUTPUT_WITH_BIAS: &[Row] = rows! {
    "attn_output.weight"   [Q Embd]       Required    Always + Optional <- "self_attn.o_proj";
};

/// The output matrix of attention, in architectures where llama.cpp takes the heads together to be as wide as a hidden state.
pub(super) const EMBD_OUTPUT: &[Row] = rows! {
    "attn_output.weight"   [Embd Embd]    Required    Always <- "self_attn.o_proj";
};

/// Query and key norms of each head.
pub(super) const QK_NORMS: &[Row] = rows! {
    "attn_q_norm.weight"   [HeadK]      Required Always <- "self_attn.q_norm";
    "attn_k_norm.weight"   [HeadK]      Required Always <- "self_attn.k_norm";
};

/// A gated feed-forward part, in blocks without experts.
pub(super) const GATED_FFN: &[Row] = rows! {
    "ffn_gate.weight"      [Embd Ff]    Required Dense <- "mlp.gate_proj";
    "ffn_up.weight"        [Embd Ff]    Required Dense <- "mlp.up_proj";
    "ffn_down.weight"      [Ff Embd]    Required Dense <- "mlp.down_proj";
};

/// A feed-forward part without a gate.
pub(super) const UNGATED_FFN: &[Row] = rows! {
    "ffn_up.weight"        [Embd Ff]    Required Always <- "mlp.up_proj";
    "ffn_down.weight"      [Ff Embd]    Required Always <- "mlp.down_proj";
};

/// A router and experts, each a gated feed-forward part: stacked as down, gate, up, or with gate and up of all experts in one
/// tensor.
pub(super) const EXPERTS: &[Row] = rows! {
    "ffn_gate_inp.weight"  [Embd Experts]          Required    Experts <- "mlp.gate";
    "ffn_down_exps.weight" [ExpertFf Embd Experts] Required    Experts <- "mlp.experts.{x}.down_proj | mlp.experts.down_proj";
    "ffn_gate_exps.weight" [Embd ExpertFf Experts] UnlessFused Experts <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"   [Embd ExpertFf Experts] UnlessFused Experts <- "mlp.experts.{x}.up_proj";
    "ffn_gate_exps.weight" [Embd ExpertFf Experts] UnlessFused Experts <- "mlp.experts.gate_up_proj" : "x (two[0] f) e -> x f e";
    "ffn_up_exps.weight"   [Embd ExpertFf Experts] UnlessFused Experts <- "mlp.experts.gate_up_proj" : "x (two[1] f) e -> x f e";
};

/// Fused gate and up projections of all experts, which some architectures accept instead of two matrices
/// (`create_tensor_gate_up_exps`).
pub(super) const GATE_UP_EXPERTS: &[Row] = rows! {
    "ffn_gate_up_exps.weight" [Embd TwiceExpertFf Experts] Optional Experts;
};

/// The key-values that `TextModel.set_gguf_parameters` writes (`conversion/base.py`), in its order.
///
/// `rope` is the inner object with the rotary parameters for full attention, `rope_all` the object around it; both
/// include the fields that newer and older files keep outside of them.
pub(super) const GENERIC: &[Key] = keys! {
    "block_count" U32 = "block_count";
    "context_length" U32? = "max_position_embeddings|n_ctx|n_positions|max_length|max_sequence_length|model_max_length";
    "embedding_length" U32? = "hidden_size|n_embd|dim";
    "feed_forward_length" U32? = "prefix_dense_intermediate_size|dense_intermediate_size|intermediate_size|n_inner|hidden_dim";
    "attention.head_count" U32? = "num_attention_heads|n_head|n_heads";
    "attention.head_count_kv" U32? = "num_key_value_heads|n_kv_heads";
    "attention.causal" Bool? = "false if is_causal == false else null";
    let rope_kind = "'linear' if rope.rope_type == 'linear' and rope.factor != null
        else 'yarn' if rope.rope_type == 'yarn' and rope.factor != null
        else 'longrope' if rope.rope_type in ['su', 'longrope'] else null";
    let yarn = "rope if rope_kind == 'yarn' else {}";
    "rope.scaling.type" Str? = "rope_kind";
    "rope.scaling.factor" F32? = "rope.factor if rope_kind in ['linear', 'yarn'] else null";
    "rope.scaling.original_context_length" U32?
        = "required(rope.original_max_position_embeddings) if rope_kind == 'yarn' else null";
    "rope.scaling.yarn_ext_factor" F32? = "yarn.extrapolation_factor";
    "rope.scaling.yarn_attn_factor" F32? = "yarn.attention_factor|yarn.attn_factor";
    "rope.scaling.yarn_beta_fast" F32? = "yarn.beta_fast";
    "rope.scaling.yarn_beta_slow" F32? = "yarn.beta_slow";
    "rope.dimension_sections" I32? = "pad(rope_all.mrope_section, 4, 0) if rope_all.mrope_section != null else null";
    "rope.freq_base" F32? = "rope.rope_theta";
    "rope.freq_base_swa" F32? = "rope_all.sliding_attention.rope_theta";
    "attention.layer_norm_rms_epsilon" F32? = "rms_norm_eps|norm_eps";
    "attention.layer_norm_epsilon" F32? = "layer_norm_eps|layer_norm_epsilon|norm_epsilon";
    "expert_count" U32? = "num_local_experts|num_experts|n_routed_experts";
    "expert_used_count" U32? = "num_experts_per_tok|num_experts_per_token|top_k_experts";
    "expert_group_count" U32? = "n_group";
    "expert_group_used_count" U32? = "topk_group";
    let scoring = "score_function|scoring_func|score_func|moe_router_activation|moe_router_activation_func|expert_selection_fn";
    "expert_gating_func" U32? = "null if scoring == null else one_of(scoring, {'softmax': 1, 'sigmoid': 2, 'sqrtsoftplus': 4})";
    "attention.key_length" U32? = "head_dim";
    "attention.value_length" U32? = "head_dim";
    "general.file_type" U32 = "@file_type";
};

/// The pooling type, for sentence encoders (`_try_set_pooling_type`).
pub(super) const POOLING: &[Key] = keys! {
    "pooling_type" U32? = "one_of(str(@sentence_pooling), {'mean': 1, 'cls': 2, 'lasttoken': 3}) if @sentence_pooling != null else null";
    "classifier.pooling_type" U32? = "one_of(classifier_pooling, {'mean': 1, 'cls': 2}) if classifier_pooling != null else null";
};

/// Number of tokens.
pub(super) const VOCAB_SIZE: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
};

/// Rotated elements of a head: all of them.
pub(super) const ROPE_WHOLE_HEAD: &[Key] = keys! {
    "rope.dimension_count" U32 = "head_dim ?? hidden_size // num_attention_heads";
};

/// As [`EXPERTS`], but stacked in the order gate, up, down.
pub(super) const EXPERTS_IN_ORDER: &[Row] = rows! {
    "ffn_gate_exps.weight" [Embd ExpertFf Experts] Required Experts <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"   [Embd ExpertFf Experts] Required Experts <- "mlp.experts.{x}.up_proj";
    "ffn_down_exps.weight" [ExpertFf Embd Experts] Required Experts <- "mlp.experts.{x}.down_proj";
};

/// Shared experts, combined in one feed-forward part; a key holds their number.
pub(super) const SHARED_EXPERTS: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedExpertsFf] Required SharedExperts <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedExpertsFf] Required SharedExperts <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedExpertsFf Embd] Required SharedExperts <- "mlp.shared_experts.down_proj";
};

/// The additional tensors of MTP blocks.
pub(super) const MTP: &[Row] = rows! {
    "nextn.eh_proj.weight"          [TwiceEmbd Embd] Required Mtp <- "eh_proj";
    "nextn.enorm.weight"            [Embd]           Required Mtp <- "enorm";
    "nextn.hnorm.weight"            [Embd]           Required Mtp <- "hnorm";
    "nextn.embed_tokens.weight"     [Embd Vocab]     Optional Mtp <- "embed_tokens";
    "nextn.shared_head_head.weight" [Embd Vocab]     Optional Mtp <- "shared_head.head";
    "nextn.shared_head_norm.weight" [Embd]           Optional Mtp <- "shared_head.norm";
};

/// The blocks after the model's own, multi-token prediction (MTP) blocks, count as blocks.
pub(super) const MTP_FIELDS: &[Key] = keys! {
    let num_nextn_predict_layers = "null if @mtp == 'left_out' else num_nextn_predict_layers";
    let block_count = "num_hidden_layers + (num_nextn_predict_layers or 0)";
};

/// The number of MTP blocks.
pub(super) const MTP_KEYS: &[Key] = keys! {
    "nextn_predict_layers" U32? = "num_nextn_predict_layers";
};

/// The bias added to the router scores for expert selection.
pub(super) const SELECTION_BIAS: &[Row] = rows! {
    "exp_probs_b.bias"     [Experts]                 Optional Experts <- "mlp.gate.e_score_correction.bias";
};

/// As [`SELECTION_BIAS`], in architectures that require it.
pub(super) const REQUIRED_SELECTION_BIAS: &[Row] = rows! {
    "exp_probs_b.bias"     [Experts]                 Required Experts <- "mlp.gate.e_score_correction.bias";
};

/// The gated shared expert of Qwen.
pub(super) const QWEN_SHARED_EXPERT: &[Row] = rows! {
    "ffn_gate_inp_shexp.weight" [Embd]          Required Always <- "mlp.shared_expert_gate";
    "ffn_gate_shexp.weight"     [Embd SharedOrFf] Required Always <- "mlp.shared_expert.gate_proj";
    "ffn_down_shexp.weight"     [SharedOrFf Embd] Required Always <- "mlp.shared_expert.down_proj";
    "ffn_up_shexp.weight"       [Embd SharedOrFf] Required Always <- "mlp.shared_expert.up_proj";
};

/// Latent attention: one low-rank state yields the queries, another one the keys and values of all heads. The projections of keys and
/// values are stored separately so that they can be merged into the query and output projections.
pub(super) const LATENT_ATTENTION: &[Row] = rows! {
    "attn_q_a.weight"      [Embd QLora]            Required Always <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight" [QLora]                 Required Always <- "self_attn.q_a_layernorm";
    "attn_q_b.weight"      [QLora MlaQ]            Required Always <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight" [Embd KvLoraRot]        Required Always <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]               Required Always <- "self_attn.kv_a_layernorm";
    "attn_k_b.weight"      [MlaNope KvLora Heads]  Required Always <- "self_attn.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"      [KvLora MlaHeadV Heads] Required Always <- "self_attn.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_output.weight"   [MlaV Embd]             Required Always <- "self_attn.o_proj";
};

/// No scaling of rotary positions.
pub(super) const NO_ROPE_SCALING: &[Key] = keys! {
    "rope.scaling.type" Str = "'none'";
};

/// A scaling of Llama 3.1 without frequencies between the long and the short ones.
pub(super) const EQUAL_FREQUENCIES: (&str, &str) = (
    "lower(rope.rope_type ?? '') == 'llama3' and (rope.low_freq_factor|1.0) == (rope.high_freq_factor|4.0)",
    "a low_freq_factor equal to high_freq_factor",
);

/// What [`Computed::LongRopeFactors`](super::Computed::LongRopeFactors) needs.
pub(super) const UNEVEN_FACTORS: &str =
    "a long_factor and a short_factor that do not both have one number per rotated pair";

/// The numbers of heads by which `LlamaModel` in `conversion/llama.py` permutes rows, if they have other names than
/// the numbers that it writes.
pub(super) const PERMUTED_HEADS: &[Key] = keys! {
    let @permuted = "{'h': n_heads|null, 'kv': n_kv_heads|null}";
};

/// Bidirectional attention.
pub(super) const NOT_CAUSAL: &[Key] = keys! {
    "attention.causal" Bool = "false";
};

/// Whether the tokenizer prepends a space to a text.
pub(super) const SPACE_PREFIX: &[Key] = keys! {
    "tokenizer.ggml.add_space_prefix" Bool? = "@tokenizer_config.add_prefix_space";
};

/// Width of the experts, if the configuration has a separate one.
pub(super) const EXPERT_WIDTH: &[Key] = keys! {
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
};

/// Embeddings, a layer norm before the output, and the output matrix, which may be tied to the embeddings.
pub(super) const BIASED_EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]   Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]         Required Always + Required <- "norm";
    "output.weight"        [Embd Vocab]   Optional Always <- "lm_head";
};

/// Layer norms before the attention and before the feed-forward part.
pub(super) const BIASED_NORMS: &[Row] = rows! {
    "attn_norm.weight"     [Embd]         Required Always + Required <- "input_layernorm";
    "ffn_norm.weight"      [Embd]         Required Always + Required <- "post_attention_layernorm";
};

/// Embeddings and the last norm under GPT-2's names.
pub(super) const GPT2_EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]   Required Always <- "wte";
    "position_embd.weight" [Embd Context] Required Always <- "wpe";
    "output_norm.weight"   [Embd]         Required Always + Required <- "ln_f";
    "output.weight"        [Embd Vocab]   Optional Always <- "lm_head";
};

/// Blocks with biases everywhere, under GPT-2's names.
pub(super) const GPT2_BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]         Required Always + Required <- "ln_1";
    "attn_qkv.weight"      [Embd EmbdQkv] Required Always + Required <- "attn.c_attn";
    "attn_output.weight"   [Embd Embd]    Required Always + Required <- "attn.c_proj";
    "ffn_norm.weight"      [Embd]         Required Always + Required <- "ln_2";
    "ffn_up.weight"        [Embd Ff]      Required Always + Required <- "mlp.c_fc";
    "ffn_down.weight"      [Ff Embd]      Required Always + Required <- "mlp.c_proj";
};

/// Reorders queries, keys and values, which are grouped by head in checkpoints, into all queries, all keys, all values
/// for llama.cpp.
pub(super) const QKV_OF_HEADS: &str = "(h three d) ... -> (three h d) ...";

/// The attention masks in checkpoints of GPT-2 and related models.
pub(super) const MASKS: &[(&str, &str)] = &[("*.attn.bias", ""), ("*.attn.masked_bias", "")];

/// As [`EXPERTS`], in every block; without a separate key, the used experts share the width of the feed-forward part.
pub(super) const QWEN_EXPERTS: &[Row] = rows! {
    "ffn_gate_inp.weight"  [Embd Experts]        Required    Always <- "mlp.gate";
    "ffn_down_exps.weight" [UsedFf Embd Experts] Required    Always <- "mlp.experts.{x}.down_proj | mlp.experts.down_proj";
    "ffn_gate_exps.weight" [Embd UsedFf Experts] UnlessFused Always <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"   [Embd UsedFf Experts] UnlessFused Always <- "mlp.experts.{x}.up_proj";
    "ffn_gate_exps.weight" [Embd UsedFf Experts] UnlessFused Always <- "mlp.experts.gate_up_proj" : "x (two[0] f) e -> x f e";
    "ffn_up_exps.weight"   [Embd UsedFf Experts] UnlessFused Always <- "mlp.experts.gate_up_proj" : "x (two[1] f) e -> x f e";
};

/// As [`GATE_UP_EXPERTS`], in every block.
pub(super) const QWEN_GATE_UP_EXPERTS: &[Row] = rows! {
    "ffn_gate_up_exps.weight" [Embd TwiceUsedFf Experts] Optional Always;
};

/// Widths of experts (`Qwen2MoeModel.set_gguf_parameters`).
pub(super) const EXPERT_WIDTHS: &[Key] = keys! {
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32? = "shared_expert_intermediate_size";
};

/// Gemma's tensors outside the blocks; the output is tied to the embeddings.
pub(super) const GEMMA_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]       Required Always <- "norm", Map::Add(1.0);
};

/// The key-values of Gemma and Gemma 2 (`GemmaModel.set_gguf_parameters`), instead of [`GENERIC`].
pub(super) const GEMMA_KEYS: &[Key] = keys! {
    "context_length" U32 = "max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32 = "num_key_value_heads|num_attention_heads";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "attention.key_length" U32 = "head_dim";
    "attention.value_length" U32 = "head_dim";
    "general.file_type" U32 = "@file_type";
};

/// No space is prepended to a text.
pub(super) const NO_SPACE_PREFIX: &[Key] = keys! {
    "tokenizer.ggml.add_space_prefix" Bool = "false";
};

/// Parts of Granite's multimodal models that do not belong to the text model.
pub(super) const GRANITE_SKIP: &[(&str, &str)] =
    &[("encoder.*", ""), ("*image_*", ""), ("*layerwise_projectors*", ""), ("*spatial_projectors*", "")];

/// Granite ignores the configured head length (`GraniteModel.set_gguf_parameters`).
pub(super) const GRANITE_FIELDS: &[Key] = keys! {
    let head_dim = "null";
};

/// The key-values of Granite after [`GENERIC`]: Llama's key-values, the scales, and the blocks that take image
/// features.
pub(super) const GRANITE_KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "rope.dimension_count" U32 = "hidden_size // num_attention_heads";
    "attention.scale" F32? = "attention_multiplier or null";
    "embedding_scale" F32? = "embedding_multiplier or null";
    "residual_scale" F32? = "residual_multiplier or null";
    "logit_scale" F32? = "logits_scaling or null";
    let targets = "[pair[1] + (block_count if pair[1] < 0 else 0) for pair in deepstack_layer_map ?? []]
        + (spatial_target_layers ?? [])";
    "deepstack_mapping" I32? = "[(sum([1 if t <= i else 0 for t in targets]) - 1 or -1) if i in targets else -1 for i]
        if targets else null";
};

/// Width of Granite's shared expert.
pub(super) const GRANITE_SHARED: &[Key] = keys! {
    "expert_shared_feed_forward_length" U32? = "shared_intermediate_size or null";
};

/// Special tokens of GLM-4.5 and its successors (`_set_vocab_glm` in `conversion/base.py`).
pub(super) const GLM_TOKENS: &[(&str, &str)] =
    &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")];

/// The feed-forward part under the names `w1`, `w2` and `w3`.
pub(super) const GATED_FFN_W: &[Row] = rows! {
    "ffn_gate.weight"      [Embd Ff]    Required Dense <- "feed_forward.w1";
    "ffn_down.weight"      [Ff Embd]    Required Dense <- "feed_forward.w2";
    "ffn_up.weight"        [Embd Ff]    Required Dense <- "feed_forward.w3";
};
