//! Keys of multimodal projectors (`general.type` is `mmproj`): the encoders of images and audio and the projection into
//! the language model. The architecture of such a file is `clip`, and these keys do not depend on it.

use super::keys;

keys! { CLIP
    Projector {
        /// Kind of projector from the encoder into the language model.
        CLIP_PROJECTOR_TYPE = "clip.projector_type": string;
        /// Whether the file holds an image encoder.
        CLIP_HAS_VISION_ENCODER = "clip.has_vision_encoder": bool;
        /// Whether the file holds an audio encoder.
        CLIP_HAS_AUDIO_ENCODER = "clip.has_audio_encoder": bool;
        /// Whether the file holds an encoder for generated audio.
        CLIP_HAS_GEN_AUDIO_ENCODER = "clip.has_gen_audio_encoder": bool;
        /// Whether the file holds a LLaVA projector.
        CLIP_HAS_LLAVA_PROJECTOR = "clip.has_llava_projector": bool;
        /// Whether the encoder uses GELU.
        CLIP_USE_GELU = "clip.use_gelu": bool;
        /// Whether the encoder uses SiLU.
        CLIP_USE_SILU = "clip.use_silu": bool;
        /// Version of MiniCPM-V.
        CLIP_MINICPMV_VERSION = "clip.minicpmv_version": i32 from LlamaCpp;
        /// Number of queries of the MiniCPM-V resampler.
        CLIP_MINICPMV_QUERY_NUM = "clip.minicpmv_query_num": u32 from LlamaCpp;
    }
    Vision {
        /// Kind of image projector, in files that also encode audio.
        CLIP_VISION_PROJECTOR_TYPE = "clip.vision.projector_type": string;
        /// Side of the square images the encoder was trained on.
        CLIP_VISION_IMAGE_SIZE = "clip.vision.image_size": u32 in "pixels";
        /// Least number of pixels of a resized image.
        CLIP_VISION_IMAGE_MIN_PIXELS = "clip.vision.image_min_pixels": u32 in "pixels";
        /// Greatest number of pixels of a resized image.
        CLIP_VISION_IMAGE_MAX_PIXELS = "clip.vision.image_max_pixels": u32 in "pixels";
        /// Least number of tiles an image is cut into.
        CLIP_VISION_PREPROC_MIN_TILES = "clip.vision.preproc_min_tiles": u32 in "tiles";
        /// Greatest number of tiles an image is cut into.
        CLIP_VISION_PREPROC_MAX_TILES = "clip.vision.preproc_max_tiles": u32 in "tiles";
        /// Longest side an image is resized to first.
        CLIP_VISION_PREPROC_IMAGE_SIZE = "clip.vision.preproc_image_size": u32 in "pixels";
        /// Side of a patch.
        CLIP_VISION_PATCH_SIZE = "clip.vision.patch_size": u32 in "pixels";
        /// Width of the image encoder.
        CLIP_VISION_EMBEDDING_LENGTH = "clip.vision.embedding_length": u32 in "elements";
        /// Hidden width of the feed-forward network of the image encoder.
        CLIP_VISION_FEED_FORWARD_LENGTH = "clip.vision.feed_forward_length": u32 in "elements";
        /// Width that images are projected to.
        CLIP_VISION_PROJECTION_DIM = "clip.vision.projection_dim": u32 in "elements";
        /// Number of blocks of the image encoder.
        CLIP_VISION_BLOCK_COUNT = "clip.vision.block_count": u32 in "layers";
        /// Mean of each color, taken off the pixels.
        CLIP_VISION_IMAGE_MEAN = "clip.vision.image_mean": [f32];
        /// Standard deviation of each color, that the pixels are divided by.
        CLIP_VISION_IMAGE_STD = "clip.vision.image_std": [f32];
        /// Side of the square of patches that become one token.
        CLIP_VISION_SPATIAL_MERGE_SIZE = "clip.vision.spatial_merge_size": u32 in "patches";
        /// Bound on the gate of the feed-forward network.
        CLIP_VISION_SWIGLU_CLAMP = "clip.vision.swiglu_clamp": f32;
        /// Number of experts of each layer; 0 is a dense layer.
        CLIP_VISION_EXPERT_COUNT_PER_LAYER = "clip.vision.expert_count_per_layer": [i32] in "experts";
        /// Number of experts that each patch goes through.
        CLIP_VISION_EXPERT_USED_COUNT = "clip.vision.expert_used_count": u32 in "experts";
        /// Interval of layers with full attention; the others have windows.
        CLIP_VISION_N_WA_PATTERN = "clip.vision.n_wa_pattern": u32 in "layers";
        /// Indices of the layers with full attention.
        CLIP_VISION_WA_LAYER_INDEXES = "clip.vision.wa_layer_indexes": [i32];
        /// Window mode of each layer: -1 full, 0 or 1 windows by rows or columns.
        CLIP_VISION_WA_PATTERN_MODE = "clip.vision.wa_pattern_mode": [i32];
        /// For each layer, whether its output goes into the language model too.
        CLIP_VISION_IS_DEEPSTACK_LAYERS = "clip.vision.is_deepstack_layers": [bool];
        /// Size of an attention window.
        CLIP_VISION_WINDOW_SIZE = "clip.vision.window_size": u32;
        /// Indices of the layers whose output is used.
        CLIP_VISION_FEATURE_LAYER = "clip.vision.feature_layer": [i32];
        /// Pairs of width and height that an image may be resized to.
        CLIP_VISION_IMAGE_GRID_PINPOINTS = "clip.vision.image_grid_pinpoints": [i32] in "pixels";
        /// Number of attention heads of the image encoder.
        CLIP_VISION_ATTENTION_HEAD_COUNT = "clip.vision.attention.head_count": u32 in "heads";
        /// Number of key and value heads of the image encoder.
        CLIP_VISION_ATTENTION_HEAD_COUNT_KV = "clip.vision.attention.head_count_kv": u32 in "heads";
        /// Width of a head of the image encoder, where it is not embedding length over heads.
        CLIP_VISION_ATTENTION_HEAD_DIM = "clip.vision.attention.head_dim": u32 in "elements";
        /// Epsilon of the norms of the image encoder.
        CLIP_VISION_ATTENTION_LAYER_NORM_EPSILON = "clip.vision.attention.layer_norm_epsilon": f32;
        /// How many patches become one token along each side.
        CLIP_VISION_PROJECTOR_SCALE_FACTOR = "clip.vision.projector.scale_factor": u32;
        /// Side of the square of queries of the projector.
        CLIP_VISION_PROJECTOR_QUERY_SIDE = "clip.vision.projector.query_side": u32;
        /// Side of the window that the queries look at.
        CLIP_VISION_PROJECTOR_WINDOW_SIDE = "clip.vision.projector.window_side": u32;
        /// Offset of each projector in its window.
        CLIP_VISION_PROJECTOR_SPATIAL_OFFSETS = "clip.vision.projector.spatial_offsets": [i32];
        /// Number of blocks of the SAM encoder.
        CLIP_VISION_SAM_BLOCK_COUNT = "clip.vision.sam.block_count": u32 in "layers";
        /// Width of the SAM encoder.
        CLIP_VISION_SAM_EMBEDDING_LENGTH = "clip.vision.sam.embedding_length": u32 in "elements";
        /// Number of attention heads of the SAM encoder.
        CLIP_VISION_SAM_HEAD_COUNT = "clip.vision.sam.head_count": u32 in "heads";
        /// Height of the grid of learned positions.
        VISION_POS_EMB_HEIGHT = "vision.pos_emb_height": u32 in "patches" from LlamaCpp;
        /// Width of the grid of learned positions.
        VISION_POS_EMB_WIDTH = "vision.pos_emb_width": u32 in "patches" from LlamaCpp;
        /// Number of learned positions in time.
        VISION_POS_EMB_TIME = "vision.pos_emb_time": u32 in "frames" from LlamaCpp;
        /// How the patches of tiles are joined: flat or spatial_unpad.
        CLIP_VISION_MM_PATCH_MERGE_TYPE = "clip.vision.mm_patch_merge_type": string from LlamaCpp;
    }
    Audio {
        /// Kind of audio projector, in files that also encode images.
        CLIP_AUDIO_PROJECTOR_TYPE = "clip.audio.projector_type": string;
        /// Number of mel bins of the input.
        CLIP_AUDIO_NUM_MEL_BINS = "clip.audio.num_mel_bins": u32;
        /// Width of the audio encoder.
        CLIP_AUDIO_EMBEDDING_LENGTH = "clip.audio.embedding_length": u32 in "elements";
        /// Hidden width of the feed-forward network of the audio encoder.
        CLIP_AUDIO_FEED_FORWARD_LENGTH = "clip.audio.feed_forward_length": u32 in "elements";
        /// Width that audio is projected to.
        CLIP_AUDIO_PROJECTION_DIM = "clip.audio.projection_dim": u32 in "elements";
        /// Number of blocks of the audio encoder.
        CLIP_AUDIO_BLOCK_COUNT = "clip.audio.block_count": u32 in "layers";
        /// How many frames become one before the encoder.
        CLIP_AUDIO_SUBSAMPLING_FACTOR = "clip.audio.subsampling_factor": u32;
        /// Length of an attention chunk.
        CLIP_AUDIO_CHUNK_SIZE = "clip.audio.chunk_size": u32 in "frames";
        /// Length of the convolution.
        CLIP_AUDIO_CONV_KERNEL_SIZE = "clip.audio.conv_kernel_size": u32 in "frames";
        /// Greatest relative position.
        CLIP_AUDIO_MAX_POS_EMB = "clip.audio.max_pos_emb": u32 in "positions";
        /// Indices of the layers whose output is used.
        CLIP_AUDIO_FEATURE_LAYER = "clip.audio.feature_layer": [i32];
        /// Number of residual quantizers.
        CLIP_AUDIO_RVQ_NUM_QUANTIZERS = "clip.audio.rvq.num_quantizers": u32;
        /// Number of entries of each quantizer.
        CLIP_AUDIO_RVQ_CODEBOOK_SIZE = "clip.audio.rvq.codebook_size": [i32];
        /// Window mode of each layer: -1 full, 0 windows.
        CLIP_AUDIO_WA_PATTERN_MODE = "clip.audio.wa_pattern_mode": [i32];
        /// Size of an attention window.
        CLIP_AUDIO_WINDOW_SIZE = "clip.audio.window_size": u32 in "frames";
        /// Number of blocks of the local transformer before the language model.
        CLIP_AUDIO_LOCAL_BLOCK_COUNT = "clip.audio.local_block_count": u32 in "layers";
        /// Number of frames that the local transformer joins.
        CLIP_AUDIO_LOCAL_GROUP_SIZE = "clip.audio.local_group_size": u32 in "frames";
        /// Number of attention heads of the audio encoder.
        CLIP_AUDIO_ATTENTION_HEAD_COUNT = "clip.audio.attention.head_count": u32 in "heads";
        /// Epsilon of the norms of the audio encoder.
        CLIP_AUDIO_ATTENTION_LAYER_NORM_EPSILON = "clip.audio.attention.layer_norm_epsilon": f32;
        /// Number of frames that are stacked into one.
        CLIP_AUDIO_PROJECTOR_STACK_FACTOR = "clip.audio.projector.stack_factor": u32 in "frames";
        /// Window of the projector.
        CLIP_AUDIO_PROJECTOR_WINDOW_SIZE = "clip.audio.projector.window_size": u32 in "frames";
        /// How many frames the projector makes one.
        CLIP_AUDIO_PROJECTOR_DOWNSAMPLE_RATE = "clip.audio.projector.downsample_rate": u32;
        /// Number of attention heads of the projector.
        CLIP_AUDIO_PROJECTOR_HEAD_COUNT = "clip.audio.projector.head_count": u32 in "heads";
        /// Number of key and value heads of the audio encoder.
        CLIP_AUDIO_ATTENTION_HEAD_COUNT_KV = "clip.audio.attention.head_count_kv": u32 in "heads" from LlamaCpp;
        /// Width of a head of the audio encoder, where it is not embedding length over heads.
        CLIP_AUDIO_ATTENTION_HEAD_DIM = "clip.audio.attention.head_dim": u32 in "elements" from LlamaCpp;
    }
    GenAudio {
        /// Kind of projector for generated audio.
        CLIP_GEN_AUDIO_PROJECTOR_TYPE = "clip.gen.audio.projector_type": string;
        /// Name of the weights, for settings that the checkpoint does not hold.
        CLIP_GEN_AUDIO_MODEL_VARIANT = "clip.gen.audio.model_variant": string;
        /// Width of the encoder of generated audio.
        CLIP_GEN_AUDIO_EMBEDDING_LENGTH = "clip.gen.audio.embedding_length": u32 in "elements";
        /// Hidden width of the feed-forward network of that encoder.
        CLIP_GEN_AUDIO_FEED_FORWARD_LENGTH = "clip.gen.audio.feed_forward_length": u32 in "elements";
        /// Number of blocks of that encoder.
        CLIP_GEN_AUDIO_BLOCK_COUNT = "clip.gen.audio.block_count": u32 in "layers";
        /// Width that generated audio is projected to.
        CLIP_GEN_AUDIO_PROJECTION_DIM = "clip.gen.audio.projection_dim": u32 in "elements";
        /// Number of attention heads of that encoder.
        CLIP_GEN_AUDIO_ATTENTION_HEAD_COUNT = "clip.gen.audio.attention.head_count": u32 in "heads";
        /// Number of key and value heads of that encoder.
        CLIP_GEN_AUDIO_ATTENTION_HEAD_COUNT_KV = "clip.gen.audio.attention.head_count_kv": u32 in "heads";
        /// Epsilon of the norms of that encoder.
        CLIP_GEN_AUDIO_ATTENTION_LAYER_NORM_EPSILON = "clip.gen.audio.attention.layer_norm_epsilon": f32;
        /// Width of a head of that encoder, where it is not embedding length over heads.
        CLIP_GEN_AUDIO_ATTENTION_HEAD_DIM = "clip.gen.audio.attention.head_dim": u32 in "elements" from LlamaCpp;
        /// Indices of the layers whose output is used.
        CLIP_GEN_AUDIO_FEATURE_LAYER = "clip.gen.audio.feature_layer": [i32] from LlamaCpp;
    }
}
