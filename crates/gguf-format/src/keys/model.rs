//! Keys that describe the network: `{arch}` is the architecture's name. Hyperparameters, experts, attention, rotary
//! positions, recurrent layers, and keys of single families.

use super::keys;

keys! { MODEL
    Model {
        /// Size of the vocabulary; needed where the file holds no token list.
        VOCAB_SIZE = "{arch}.vocab_size": u32 in "tokens";
        /// Longest context the model was trained on.
        CONTEXT_LENGTH = "{arch}.context_length": u32 in "tokens";
        /// Width of the residual stream and of the token embeddings.
        EMBEDDING_LENGTH = "{arch}.embedding_length": u32 in "elements";
        /// Width of the output embedding, where it differs.
        EMBEDDING_LENGTH_OUT = "{arch}.embedding_length_out": u32 in "elements";
        /// Width of the input features of an audio decoder.
        FEATURES_LENGTH = "{arch}.features_length": u32 in "elements";
        /// Number of blocks; the tensors are blk.0 to blk.N-1.
        BLOCK_COUNT = "{arch}.block_count": u32 in "layers";
        /// Hidden width of the feed-forward network, of all layers or of each.
        FEED_FORWARD_LENGTH = "{arch}.feed_forward_length": u32 | [i32] in "elements";
        /// Whether attention and feed-forward read the same input and are added together.
        USE_PARALLEL_RESIDUAL = "{arch}.use_parallel_residual": bool;
        /// How tensors were rearranged on conversion, such as Meta AI original pth.
        TENSOR_DATA_LAYOUT = "{arch}.tensor_data_layout": string;
        /// Factor on the logits.
        LOGIT_SCALE = "{arch}.logit_scale": f32;
        /// Factor of the output of each block before it is added to the residual stream.
        RESIDUAL_SCALE = "{arch}.residual_scale": f32;
        /// Factor on the token embeddings.
        EMBEDDING_SCALE = "{arch}.embedding_scale": f32;
        /// Bound that the logits are squashed to with tanh.
        FINAL_LOGIT_SOFTCAPPING = "{arch}.final_logit_softcapping": f32;
        /// Bound that the attention scores are squashed to with tanh.
        ATTN_LOGIT_SOFTCAPPING = "{arch}.attn_logit_softcapping": f32;
        /// How the outputs of all tokens become one embedding.
        POOLING_TYPE = "{arch}.pooling_type": u32;
        /// First token of the decoder in an encoder-decoder model.
        DECODER_START_TOKEN_ID = "{arch}.decoder_start_token_id": u32 in "token id";
        /// Number of blocks of the decoder in an encoder-decoder model.
        DECODER_BLOCK_COUNT = "{arch}.decoder_block_count": u32 in "layers";
        /// Activation function of the feed-forward network.
        HIDDEN_ACTIVATION = "{arch}.hidden_activation": string;
        /// Whether the norms are after attention and feed-forward instead of before.
        SWIN_NORM = "{arch}.swin_norm": bool;
        /// Interval of layers with full attention; the others are recurrent.
        FULL_ATTENTION_INTERVAL = "{arch}.full_attention_interval": u32 in "layers";
        /// Number of leading layers that image features are added to.
        N_DEEPSTACK_LAYERS = "{arch}.n_deepstack_layers": u32 in "layers";
        /// For each layer, the index of the image feature that is added to it; -1 for none.
        DEEPSTACK_MAPPING = "{arch}.deepstack_mapping": [i32];
        /// How often the stack of blocks is run over.
        NUM_LOOPS = "{arch}.num_loops": u32;
        /// Whether the final norm is left out between the runs of a looped stack.
        SKIP_LOOP_FINAL_NORM = "{arch}.skip_loop_final_norm": bool;
        /// Names of the classes of a classifier head.
        CLASSIFIER_OUTPUT_LABELS = "{arch}.classifier.output_labels": [string];
        /// How the outputs of all tokens become the input of the classifier head.
        CLASSIFIER_POOLING_TYPE = "{arch}.classifier.pooling_type": u32;
        /// Version of the architecture; 4 is the only one the specification knows for RWKV.
        ARCHITECTURE_VERSION = "{arch}.architecture_version": u32 from Spec;
        /// Longest input of the encoder (Whisper).
        WHISPER_ENCODER_CONTEXT_LENGTH = "{arch}.encoder.context_length": u32 in "positions" from Spec;
        /// Width of the encoder (Whisper).
        WHISPER_ENCODER_EMBEDDING_LENGTH = "{arch}.encoder.embedding_length": u32 in "elements" from Spec;
        /// Number of blocks of the encoder (Whisper).
        WHISPER_ENCODER_BLOCK_COUNT = "{arch}.encoder.block_count": u32 in "layers" from Spec;
        /// Number of mel bins of the input (Whisper).
        WHISPER_ENCODER_MELS_COUNT = "{arch}.encoder.mels_count": u32 from Spec;
        /// Attention heads of the encoder (Whisper).
        WHISPER_ENCODER_ATTENTION_HEAD_COUNT = "{arch}.encoder.attention.head_count": u32 in "heads" from Spec;
        /// Longest output of the decoder (Whisper).
        WHISPER_DECODER_CONTEXT_LENGTH = "{arch}.decoder.context_length": u32 in "tokens" from Spec;
        /// Width of the decoder (Whisper).
        WHISPER_DECODER_EMBEDDING_LENGTH = "{arch}.decoder.embedding_length": u32 in "elements" from Spec;
        /// Number of blocks of the decoder (Whisper).
        WHISPER_DECODER_BLOCK_COUNT = "{arch}.decoder.block_count": u32 in "layers" from Spec;
        /// Attention heads of the decoder (Whisper).
        WHISPER_DECODER_ATTENTION_HEAD_COUNT = "{arch}.decoder.attention.head_count": u32 in "heads" from Spec;
        /// Width of the residual stream.
        HIDDEN_SIZE = "{arch}.hidden_size": u32 in "elements" from Draft => "{arch}.embedding_length";
        /// Number of blocks.
        NUM_LAYERS = "{arch}.num_layers": u32 in "layers" from Draft => "{arch}.block_count";
        /// Longest sequence.
        MAX_SEQ_LEN = "{arch}.max_seq_len": u32 in "tokens" from Draft => "{arch}.context_length";
        /// Number that the feed-forward width was rounded up to a multiple of.
        NUM_MULT = "{arch}.num_mult": u32 from Draft;
        /// Number of rotated elements of a head.
        ROT = "{arch}.rot": u32 in "elements" from Draft => "{arch}.rope.dimension_count";
        /// Number of rotated elements of a head.
        NUM_ROT = "{arch}.num_rot": u32 in "elements" from Draft => "{arch}.rope.dimension_count";
        /// Number of rotated elements of a head.
        NUM_ROTARY = "{arch}.num_rotary": u32 in "elements" from Draft => "{arch}.rope.dimension_count";
    }
    Experts {
        /// Number of routed experts in each mixture layer.
        EXPERT_COUNT = "{arch}.expert_count": u32 in "experts";
        /// Number of routed experts that each token goes through, of all layers or of each.
        EXPERT_USED_COUNT = "{arch}.expert_used_count": u32 | [i32] in "experts";
        /// Number of experts that every token goes through.
        EXPERT_SHARED_COUNT = "{arch}.expert_shared_count": u32 in "experts";
        /// Number of groups that the experts are divided into for routing.
        EXPERT_GROUP_COUNT = "{arch}.expert_group_count": u32 in "groups";
        /// Number of groups that each token is routed to.
        EXPERT_GROUP_USED_COUNT = "{arch}.expert_group_used_count": u32 in "groups";
        /// Hidden width of one routed expert, of all layers or of each.
        EXPERT_FEED_FORWARD_LENGTH = "{arch}.expert_feed_forward_length": u32 | [i32] in "elements";
        /// Hidden width of the shared experts.
        EXPERT_SHARED_FEED_FORWARD_LENGTH = "{arch}.expert_shared_feed_forward_length": u32 in "elements";
        /// Hidden width of the adjugate experts (GroveMoE).
        EXPERT_CHUNK_FEED_FORWARD_LENGTH = "{arch}.expert_chunk_feed_forward_length": u32 in "elements";
        /// Factor on the weights of the chosen experts.
        EXPERT_WEIGHTS_SCALE = "{arch}.expert_weights_scale": f32;
        /// Whether the weights of the chosen experts are made to add up to one.
        EXPERT_WEIGHTS_NORM = "{arch}.expert_weights_norm": bool;
        /// How router scores become weights: 1 softmax, 2 sigmoid, 3 softmax over the chosen, 4 square root of softplus.
        EXPERT_GATING_FUNC = "{arch}.expert_gating_func": u32;
        /// Factor on the output of the adjugate experts (GroveMoE).
        EXPERT_GROUP_SCALE = "{arch}.expert_group_scale": f32;
        /// Width that the routed experts work at, where it is not the embedding length.
        EXPERT_LATENT_LENGTH = "{arch}.expert_latent_length": u32 in "elements";
        /// Number of experts that share one adjugate expert (GroveMoE).
        EXPERTS_PER_GROUP = "{arch}.experts_per_group": u32 in "experts";
        /// Interval of mixture layers.
        MOE_EVERY_N_LAYERS = "{arch}.moe_every_n_layers": u32 in "layers";
        /// Width that the routed experts work at, where it is not the embedding length (Nemotron-H).
        MOE_LATENT_SIZE = "{arch}.moe_latent_size": u32 in "elements";
        /// Number of first layers that have no experts.
        LEADING_DENSE_BLOCK_COUNT = "{arch}.leading_dense_block_count": u32 in "layers";
        /// Distance from one mixture layer to the next.
        INTERLEAVE_MOE_LAYER_STEP = "{arch}.interleave_moe_layer_step": u32 in "layers";
        /// Number of first layers that route by a hash of the token id.
        HASH_LAYER_COUNT = "{arch}.hash_layer_count": u32 in "layers";
        /// Bound that the router scores are squashed to with tanh.
        ROUTER_LOGIT_SOFTCAPPING = "{arch}.router_logit_softcapping": f32;
        /// Bound on the gate of the routed experts, for each layer; 0 for none.
        SWIGLU_CLAMP_EXP = "{arch}.swiglu_clamp_exp": [f32] | f32;
        /// Bound on the gate of the shared experts, for each layer; 0 for none.
        SWIGLU_CLAMP_SHEXP = "{arch}.swiglu_clamp_shexp": [f32] | f32;
    }
    Attention {
        /// Number of attention heads, of all layers or of each.
        ATTENTION_HEAD_COUNT = "{arch}.attention.head_count": u32 | [i32] in "heads";
        /// Number of key and value heads, of all layers or of each; as many as heads when absent.
        ATTENTION_HEAD_COUNT_KV = "{arch}.attention.head_count_kv": u32 | [i32] in "heads";
        /// Width of a key head; embedding length over heads when absent.
        ATTENTION_KEY_LENGTH = "{arch}.attention.key_length": u32 in "elements";
        /// Width of a value head; embedding length over heads when absent.
        ATTENTION_VALUE_LENGTH = "{arch}.attention.value_length": u32 in "elements";
        /// Epsilon of the layer norms.
        ATTENTION_LAYER_NORM_EPSILON = "{arch}.attention.layer_norm_epsilon": f32;
        /// Epsilon of the root-mean-square norms.
        ATTENTION_LAYER_NORM_RMS_EPSILON = "{arch}.attention.layer_norm_rms_epsilon": f32;
        /// Epsilon of the group norms.
        ATTENTION_GROUP_NORM_EPSILON = "{arch}.attention.group_norm_epsilon": f32;
        /// Number of groups of the group norms.
        ATTENTION_GROUP_NORM_GROUPS = "{arch}.attention.group_norm_groups": u32 in "groups";
        /// Whether a token attends only to earlier tokens.
        ATTENTION_CAUSAL = "{arch}.attention.causal": bool;
        /// Largest ALiBi bias.
        ATTENTION_MAX_ALIBI_BIAS = "{arch}.attention.max_alibi_bias": f32;
        /// Bound C that queries, keys and values are clamped to, from -C to C.
        ATTENTION_CLAMP_KQV = "{arch}.attention.clamp_kqv": f32;
        /// Factor on the attention scores, in place of one over the root of the head width.
        ATTENTION_SCALE = "{arch}.attention.scale": f32;
        /// Factor on the output of attention.
        ATTENTION_OUTPUT_SCALE = "{arch}.attention.output_scale": f32;
        /// Factor on the values.
        ATTENTION_VALUE_SCALE = "{arch}.attention.value_scale": f32;
        /// How far back a layer with sliding window sees.
        ATTENTION_SLIDING_WINDOW = "{arch}.attention.sliding_window": u32 in "tokens";
        /// Which layers have the window: every layer but each n-th, or a flag for each.
        ATTENTION_SLIDING_WINDOW_PATTERN = "{arch}.attention.sliding_window_pattern": u32 | [bool] | [i32];
        /// For each layer, whether it rotates queries and keys.
        ATTENTION_ROPE_PATTERN = "{arch}.attention.rope_pattern": [bool] | [u32];
        /// For each layer, whether it is recurrent instead of attention.
        ATTENTION_RECURRENT_LAYERS = "{arch}.attention.recurrent_layers": [bool] | [u32];
        /// Number of last layers that reuse the keys and values of earlier ones.
        ATTENTION_SHARED_KV_LAYERS = "{arch}.attention.shared_kv_layers": u32 in "layers";
        /// Number of buckets of relative positions (T5).
        ATTENTION_RELATIVE_BUCKETS_COUNT = "{arch}.attention.relative_buckets_count": u32;
        /// Rank that queries are compressed to.
        ATTENTION_Q_LORA_RANK = "{arch}.attention.q_lora_rank": u32 in "elements";
        /// Rank that keys and values are compressed to.
        ATTENTION_KV_LORA_RANK = "{arch}.attention.kv_lora_rank": u32 in "elements";
        /// Rank that keys and values are compressed to, in layers with sliding window.
        ATTENTION_KV_LORA_RANK_SWA = "{arch}.attention.kv_lora_rank_swa": u32 in "elements";
        /// Width of a key head once it is decompressed.
        ATTENTION_KEY_LENGTH_MLA = "{arch}.attention.key_length_mla": u32 in "elements";
        /// Width of a value head once it is decompressed.
        ATTENTION_VALUE_LENGTH_MLA = "{arch}.attention.value_length_mla": u32 in "elements";
        /// Width of a key head in layers with sliding window.
        ATTENTION_KEY_LENGTH_SWA = "{arch}.attention.key_length_swa": u32 in "elements";
        /// Width of a value head in layers with sliding window.
        ATTENTION_VALUE_LENGTH_SWA = "{arch}.attention.value_length_swa": u32 in "elements";
        /// Width of a decompressed key head in layers with sliding window.
        ATTENTION_KEY_LENGTH_MLA_SWA = "{arch}.attention.key_length_mla_swa": u32 in "elements";
        /// Width of a decompressed value head in layers with sliding window.
        ATTENTION_VALUE_LENGTH_MLA_SWA = "{arch}.attention.value_length_mla_swa": u32 in "elements";
        /// Number of groups that the output projection is divided into (DeepSeek-V4).
        ATTENTION_OUTPUT_GROUP_COUNT = "{arch}.attention.output_group_count": u32 in "groups";
        /// Rank of the output projection (DeepSeek-V4).
        ATTENTION_OUTPUT_LORA_RANK = "{arch}.attention.output_lora_rank": u32 in "elements";
        /// For each layer, how many tokens are compressed to one key and value (DeepSeek-V4).
        ATTENTION_COMPRESS_RATIOS = "{arch}.attention.compress_ratios": [i32];
        /// Rotary base frequency of the compressed layers (DeepSeek-V4).
        ATTENTION_COMPRESS_ROPE_FREQ_BASE = "{arch}.attention.compress_rope_freq_base": f32;
        /// Position from which on the attention temperature grows.
        ATTENTION_TEMPERATURE_LENGTH = "{arch}.attention.temperature_length": u32 in "tokens";
        /// How fast the attention temperature grows with the position.
        ATTENTION_TEMPERATURE_SCALE = "{arch}.attention.temperature_scale": f32;
        /// Rank of the decay projection (RWKV-7).
        ATTENTION_DECAY_LORA_RANK = "{arch}.attention.decay_lora_rank": u32 in "elements";
        /// Rank of the in-context learning rate projection (RWKV-7).
        ATTENTION_ICLR_LORA_RANK = "{arch}.attention.iclr_lora_rank": u32 in "elements";
        /// Rank of the value residual projection (RWKV-7).
        ATTENTION_VALUE_RESIDUAL_MIX_LORA_RANK = "{arch}.attention.value_residual_mix_lora_rank": u32 in "elements";
        /// Rank of the gate projection (RWKV-7).
        ATTENTION_GATE_LORA_RANK = "{arch}.attention.gate_lora_rank": u32 in "elements";
        /// Heads of the indexer that selects the positions of sparse attention.
        ATTENTION_INDEXER_HEAD_COUNT = "{arch}.attention.indexer.head_count": u32 in "heads";
        /// Width of a key of the indexer.
        ATTENTION_INDEXER_KEY_LENGTH = "{arch}.attention.indexer.key_length": u32 in "elements";
        /// Number of positions that the indexer chooses.
        ATTENTION_INDEXER_TOP_K = "{arch}.attention.indexer.top_k": u32 in "tokens";
        /// Length of the blocks that the indexer chooses from (MiniMax).
        ATTENTION_INDEXER_BLOCK_SIZE = "{arch}.attention.indexer.block_size": u32 in "tokens";
        /// Number of last blocks that are always looked at (MiniMax).
        ATTENTION_INDEXER_LOCAL_BLOCKS = "{arch}.attention.indexer.local_blocks": u32;
        /// For each layer, whether it has its own indexer or uses the previous one.
        ATTENTION_INDEXER_TYPES = "{arch}.attention.indexer.types": [bool] | [u32];
        /// Number of keys that the indexer pools to one (GLM5-Next).
        ATTENTION_INDEXER_KPOOL = "{arch}.attention.indexer.kpool": u32 in "tokens";
        /// Whether the unfinished last pool is always chosen (GLM5-Next).
        ATTENTION_INDEXER_KPOOL_SELECT_TAIL = "{arch}.attention.indexer.kpool_select_tail": bool;
        /// Whether attention has its own norm (Falcon).
        ATTENTION_USE_NORM = "{arch}.attention.use_norm": bool from Spec;
        /// Largest ALiBi bias.
        ATTENTION_ALIBI_BIAS_MAX = "{arch}.attention.alibi_bias_max": f32 from Spec => "{arch}.attention.max_alibi_bias";
        /// Bound that queries, keys and values are clamped to.
        ATTENTION_CLIP_KQV = "{arch}.attention.clip_kqv": f32 from Spec => "{arch}.attention.clamp_kqv";
        /// Number of attention heads.
        ATTENTION_NUM_HEADS = "{arch}.attention.num_heads": u32 in "heads" from Draft => "{arch}.attention.head_count";
    }
    Rope {
        /// Number of elements of a head that are rotated.
        ROPE_DIMENSION_COUNT = "{arch}.rope.dimension_count": u32 in "elements";
        /// Number of elements of a head that are rotated, in layers with sliding window.
        ROPE_DIMENSION_COUNT_SWA = "{arch}.rope.dimension_count_swa": u32 in "elements";
        /// How the rotated pairs are divided among time, height, width and a fourth axis.
        ROPE_DIMENSION_SECTIONS = "{arch}.rope.dimension_sections": [i32] in "pairs";
        /// Base of the rotary frequencies.
        ROPE_FREQ_BASE = "{arch}.rope.freq_base": f32;
        /// Base of the rotary frequencies in layers with sliding window.
        ROPE_FREQ_BASE_SWA = "{arch}.rope.freq_base_swa": f32;
        /// How positions are scaled for longer contexts: none, linear, yarn or longrope.
        ROPE_SCALING_TYPE = "{arch}.rope.scaling.type": string;
        /// How many times the original context is stretched.
        ROPE_SCALING_FACTOR = "{arch}.rope.scaling.factor": f32;
        /// Alpha of the NTK-aware scaling of the base (Hunyuan).
        ROPE_SCALING_ALPHA = "{arch}.rope.scaling.alpha": f32;
        /// Factor on the magnitude of scaled rotations.
        ROPE_SCALING_ATTN_FACTOR = "{arch}.rope.scaling.attn_factor": f32;
        /// Context length before scaling.
        ROPE_SCALING_ORIGINAL_CONTEXT_LENGTH = "{arch}.rope.scaling.original_context_length": u32 in "tokens";
        /// Whether the model was fine-tuned with the scaling.
        ROPE_SCALING_FINETUNED = "{arch}.rope.scaling.finetuned": bool;
        /// Multiplier of the logarithm in the magnitude of YaRN.
        ROPE_SCALING_YARN_LOG_MULTIPLIER = "{arch}.rope.scaling.yarn_log_multiplier": f32;
        /// Mix of extrapolation in YaRN.
        ROPE_SCALING_YARN_EXT_FACTOR = "{arch}.rope.scaling.yarn_ext_factor": f32;
        /// Factor on the magnitude in YaRN.
        ROPE_SCALING_YARN_ATTN_FACTOR = "{arch}.rope.scaling.yarn_attn_factor": f32;
        /// Rotations over the original context above which YaRN does not interpolate.
        ROPE_SCALING_YARN_BETA_FAST = "{arch}.rope.scaling.yarn_beta_fast": f32 in "rotations";
        /// Rotations over the original context below which YaRN fully interpolates.
        ROPE_SCALING_YARN_BETA_SLOW = "{arch}.rope.scaling.yarn_beta_slow": f32 in "rotations";
        /// How many times the original context is stretched, linearly.
        ROPE_SCALE_LINEAR = "{arch}.rope.scale_linear": f32 from LlamaCpp => "{arch}.rope.scaling.factor";
        /// How many times the original context is stretched.
        ROPE_SCALE = "{arch}.rope.scale": f32 from Spec => "{arch}.rope.scaling.factor";
    }
    Recurrent {
        /// Length of the convolution before the state space.
        SSM_CONV_KERNEL = "{arch}.ssm.conv_kernel": u32 in "tokens";
        /// Width of the state space layers.
        SSM_INNER_SIZE = "{arch}.ssm.inner_size": u32 in "elements";
        /// Size of the state for each inner element.
        SSM_STATE_SIZE = "{arch}.ssm.state_size": u32 in "elements";
        /// Rank of the time step projection; the number of heads in Mamba-2.
        SSM_TIME_STEP_RANK = "{arch}.ssm.time_step_rank": u32 in "elements";
        /// Number of groups that share input and output projections.
        SSM_GROUP_COUNT = "{arch}.ssm.group_count": u32 in "groups";
        /// Whether time step, input and output projections are normed.
        SSM_DT_B_C_RMS = "{arch}.ssm.dt_b_c_rms": bool;
        /// Width of a head of Kimi delta attention.
        KDA_HEAD_DIM = "{arch}.kda.head_dim": u32 in "elements";
        /// Whether the gate of Kimi delta attention is bounded.
        KDA_SAFE_GATE = "{arch}.kda.safe_gate": bool;
        /// Least value of the gate of Kimi delta attention.
        KDA_GATE_LOWER_BOUND = "{arch}.kda.gate_lower_bound": f32;
        /// Width of a head of RWKV.
        WKV_HEAD_SIZE = "{arch}.wkv.head_size": u32 in "elements";
        /// Interval of layers at which the activations are halved (RWKV).
        RESCALE_EVERY_N_LAYERS = "{arch}.rescale_every_n_layers": u32 in "layers";
        /// Rank of the time mix projection (RWKV-6).
        TIME_MIX_EXTRA_DIM = "{arch}.time_mix_extra_dim": u32 in "elements";
        /// Rank of the time decay projection (RWKV-6).
        TIME_DECAY_EXTRA_DIM = "{arch}.time_decay_extra_dim": u32 in "elements";
        /// Number of token shifts of a layer (RWKV).
        TOKEN_SHIFT_COUNT = "{arch}.token_shift_count": u32;
        /// Length of the short convolution (LFM2).
        SHORTCONV_L_CACHE = "{arch}.shortconv.l_cache": u32 in "tokens";
    }
    Special {
        /// For each layer, how many standard deviations above the mean a gate must be (Gemma 3n).
        ACTIVATION_SPARSITY_SCALE = "{arch}.activation_sparsity_scale": [f32];
        /// Which of the parallel streams the layers work on (Gemma 3n).
        ALTUP_ACTIVE_IDX = "{arch}.altup.active_idx": u32;
        /// Number of parallel streams (Gemma 3n).
        ALTUP_NUM_INPUTS = "{arch}.altup.num_inputs": u32;
        /// Width of the extra embedding that each layer gets (Gemma 3n).
        EMBEDDING_LENGTH_PER_LAYER_INPUT = "{arch}.embedding_length_per_layer_input": u32 in "elements";
        /// Beta of the SiTU activation (Kimi K3).
        ACTIVATION_SITU_BETA = "{arch}.activation.situ_beta": f32;
        /// Beta of the linear branch of the SiTU activation (Kimi K3).
        ACTIVATION_SITU_LINEAR_BETA = "{arch}.activation.situ_linear_beta": f32;
        /// Number of layers between residual attentions across layers (Kimi K3).
        ATTN_RES_BLOCK_SIZE = "{arch}.attn_res.block_size": u32 in "layers";
        /// Number of parallel residual streams.
        HYPER_CONNECTION_COUNT = "{arch}.hyper_connection.count": u32;
        /// Number of Sinkhorn iterations that balance the mixing of the streams.
        HYPER_CONNECTION_SINKHORN_ITERATIONS = "{arch}.hyper_connection.sinkhorn_iterations": u32;
        /// Epsilon of the mixing of the streams.
        HYPER_CONNECTION_EPSILON = "{arch}.hyper_connection.epsilon": f32;
        /// Factor of the gate after a block.
        HYPER_CONNECTION_MAGNITUDE = "{arch}.hyper_connection.magnitude": f32;
        /// Rank of the mixing projection; full when absent.
        HYPER_CONNECTION_LOW_RANK = "{arch}.hyper_connection.low_rank": u32 in "elements";
        /// Indices of the layers with an n-gram embedding.
        PLE_LAYERS = "{arch}.ple.layers": [i32];
        /// Longest n-gram that is embedded.
        PLE_NGRAM_SIZE = "{arch}.ple.ngram_size": u32 in "tokens";
        /// Number of hash heads for each length of n-gram.
        PLE_HEADS_PER_NGRAM = "{arch}.ple.heads_per_ngram": u32 in "heads";
        /// Length of the convolution over the n-gram embeddings.
        PLE_CONV_KERNEL = "{arch}.ple.conv_kernel": u32 in "tokens";
        /// Multipliers of the n-gram hash.
        PLE_LAYER_MULTIPLIERS = "{arch}.ple.layer_multipliers": [u64];
        /// Where the rows of each hash head start.
        PLE_HEAD_OFFSETS = "{arch}.ple.head_offsets": [u64];
        /// Number of rows of each hash head.
        PLE_HEAD_VOCAB_SIZES = "{arch}.ple.head_vocab_sizes": [u64];
        /// Token before the start of the text in the n-gram hash.
        PLE_EOS_TOKEN_ID = "{arch}.ple.eos_token_id": u32 in "token id";
        /// Token that stands for an image in the n-gram hash.
        PLE_IMAGE_TOKEN_ID = "{arch}.ple.image_token_id": u32 in "token id";
        /// Number of layers of each of the two stacks of a hierarchical reasoning model.
        HRM_LAYERS_PER_STACK = "{arch}.hrm.layers_per_stack": u32 in "layers";
        /// How often the slow stack is run.
        HRM_H_CYCLES = "{arch}.hrm.h_cycles": u32;
        /// How often the fast stack is run for each run of the slow one.
        HRM_L_CYCLES = "{arch}.hrm.l_cycles": u32;
        /// Whether the prompt is attended to in both directions.
        HRM_PREFIX_LM = "{arch}.hrm.prefix_lm": bool;
        /// Width of the positional network (WavTokenizer).
        POSNET_EMBEDDING_LENGTH = "{arch}.posnet.embedding_length": u32 in "elements";
        /// Number of blocks of the positional network (WavTokenizer).
        POSNET_BLOCK_COUNT = "{arch}.posnet.block_count": u32 in "layers";
        /// Width of the ConvNeXt blocks (WavTokenizer).
        CONVNEXT_EMBEDDING_LENGTH = "{arch}.convnext.embedding_length": u32 in "elements";
        /// Number of ConvNeXt blocks (WavTokenizer).
        CONVNEXT_BLOCK_COUNT = "{arch}.convnext.block_count": u32 in "layers";
        /// Number of adapters built into the model (Granite Switch).
        ADAPTERS_COUNT = "{arch}.adapters.count": u32 in "adapters";
        /// For each adapter, the token that switches it on.
        ADAPTERS_TOKEN_IDS_ACTIVATE = "{arch}.adapters.token_ids_activate": [i32] in "token ids";
        /// For each adapter, the token that is embedded in place of the switching one.
        ADAPTERS_TOKEN_IDS_SUBSTITUTE = "{arch}.adapters.token_ids_substitute": [i32] in "token ids";
        /// Rank of the built-in adapters.
        ADAPTERS_LORA_RANK = "{arch}.adapters.lora_rank": u32 in "elements";
        /// Gain of the layer that remembers which adapter is on.
        ADAPTERS_ROUTER_GAIN = "{arch}.adapters.router_gain": f32;
    }
    Speculative {
        /// Number of multi-token prediction (MTP) blocks, which are the last ones.
        NEXTN_PREDICT_LAYERS = "{arch}.nextn_predict_layers": u32 in "layers";
        /// Layers of the target model whose output the draft model reads.
        TARGET_LAYERS = "{arch}.target_layers": [i32];
        /// Width of the target model.
        TARGET_HIDDEN_SIZE = "{arch}.target_hidden_size": u32 in "elements";
        /// Number of tokens that are drafted at once.
        BLOCK_SIZE = "{arch}.block_size": u32 in "tokens";
        /// Length of the convolution of the draft model.
        CONV_KERNEL_SIZE = "{arch}.conv_kernel_size": u32 in "tokens";
        /// Elements of one group of that convolution.
        CONV_GROUP_SIZE = "{arch}.conv_group_size": u32 in "elements";
        /// Rank of the selector of the draft model.
        SELECTOR_RANK = "{arch}.selector_rank": u32 in "elements";
        /// Number of candidates that the selector keeps.
        SELECTOR_TOP_K = "{arch}.selector_top_k": u32 in "tokens";
        /// Whether drafting starts at the last accepted token.
        SAMPLE_FROM_ANCHOR = "{arch}.sample_from_anchor": bool;
        /// Whether the draft model outputs its confidence in each token.
        HAS_CONFIDENCE_HEAD = "{arch}.has_confidence_head": bool;
        /// Whether the residual is taken after the norm (EAGLE-3).
        NORM_BEFORE_RESIDUAL = "{arch}.norm_before_residual": bool;
        /// Whether the features of the target are normed before they are joined (EAGLE-3).
        NORM_BEFORE_FC = "{arch}.norm_before_fc": bool;
    }
}
