//! Small generated legacy files of every container and architecture, with the offsets of their numbers.

/// A legacy file, with the offsets of its 32-bit numbers.
#[derive(Clone, Debug)]
pub struct Legacy {
    /// Container and architecture.
    pub name: &'static str,
    /// The name of the expected architecture.
    pub family: &'static str,
    pub bytes: Vec<u8>,
    /// The offsets of numbers: of the header, of the first tokens, of every tensor's header.
    pub numbers: Vec<usize>,
    /// The ends of the tokens and of each tensor.
    pub tensors: Vec<usize>,
}

/// A tensor: name, type number, dimensions.
pub type Tensor = (String, u32, Vec<u32>);

/// The format of a file.
#[derive(Clone, Copy)]
pub struct Form {
    pub magic: [u8; 4],
    pub version: Option<u32>,
    pub has_scores: bool,
    pub is_aligned: bool,
    /// Whether blocks have scales of four bytes.
    pub is_wide: bool,
    /// Whether k-quants have blocks of 64 values.
    pub is_small: bool,
}

pub const GGML: Form =
    Form { magic: *b"lmgg", version: None, has_scores: false, is_aligned: false, is_wide: true, is_small: false };
pub const GGML_QNT2: Form = Form { is_wide: false, ..GGML };
pub const GGMF: Form = Form { magic: *b"fmgg", version: Some(1), has_scores: true, ..GGML };
pub const GGJT1: Form = Form { magic: *b"tjgg", is_aligned: true, ..GGMF };
pub const GGJT2: Form = Form { version: Some(2), ..GGJT1 };
pub const GGJT3: Form = Form { version: Some(3), is_wide: false, ..GGJT1 };
pub const GGCC: Form = Form { magic: *b"ccgg", version: Some(10), ..GGJT3 };
pub const RWKV: Form = Form { magic: *b"fmgg", version: Some(100), ..GGML };
pub const GGLA: Form = Form { magic: *b"algg", version: Some(1), has_scores: false, ..GGJT3 };

impl Form {
    /// Values and bytes of a block of a type.
    pub fn block(self, code: u32) -> (u32, u32) {
        match (code, self.is_wide) {
            (0, _) => (1, 4),
            (1, _) => (1, 2),
            (2, true) => (32, 20),
            (2, false) => (32, 18),
            (3, true) => (32, 24),
            (3, false) => (32, 20),
            (4, _) if self.version == RWKV.version => (32, 24),
            (4, _) => (16, 10),
            (5, _) => (16, 12),
            (6, _) => (32, 22),
            (7, _) => (32, 24),
            (8, true) => (32, 36),
            (8, false) => (32, 34),
            (12, _) if self.is_small => (64, 38),
            (12, _) => (256, 144),
            (code, _) => panic!("no type {code} here"),
        }
    }

    /// Plausible data: small floats, and finite scales.
    pub fn data(self, code: u32, shape: &[u32]) -> Vec<u8> {
        let (len, bytes) = self.block(code);
        let n: u32 = shape.iter().product();
        let mut data = Vec::new();
        for block in 0..n / len {
            let noise = |i: u32| (block.wrapping_mul(2_654_435_761).wrapping_add(i.wrapping_mul(40_503)) >> 11) as u8;
            let f32 = |x: f32| x.to_le_bytes().to_vec();
            let half = |i: u32| [noise(i), 0x2c | noise(i + 1) & 3];
            let mut out = match (code, self.is_wide) {
                (0, _) => f32(f32::from(noise(0) as i8) / 256.0),
                (1, _) => half(3).to_vec(),
                (2 | 8, true) => f32(0.0157 + f32::from(noise(0)) / 5000.0),
                (3, true) => [f32(0.031_25 + f32::from(noise(0)) / 8192.0), f32(-0.25)].concat(),
                (3 | 5 | 7 | 12, _) => [half(1), half(5)].concat(),
                // The index of an outlier after scale and minimum, then its value.
                (4, _) if bytes == 24 => [half(1), half(5), [noise(9) % 32, 0], half(7)].concat(),
                _ => half(1).to_vec(),
            };
            let rest = bytes - out.len() as u32;
            out.extend((0..rest).map(|i| noise(i + 17)));
            data.extend(out);
        }
        data
    }
}

/// The parts of a file.
#[derive(Clone)]
pub struct Parts {
    pub form: Form,
    pub hparams: Vec<u32>,
    /// Whether the number of tokens is repeated before them.
    pub counts_again: bool,
    /// Bytes between hyperparameters and tokens.
    pub between: Vec<u8>,
    pub tokens: Vec<Vec<u8>>,
    pub merges: Vec<(&'static str, &'static str)>,
    pub tensors: Vec<Tensor>,
}

impl Parts {
    /// Writes the file.
    pub fn write(&self, name: &'static str, family: &'static str) -> Legacy {
        let mut file = Legacy { name, family, bytes: self.form.magic.to_vec(), numbers: vec![0], tensors: Vec::new() };
        if let Some(version) = self.form.version {
            file.number(version);
        }
        self.hparams.iter().for_each(|&n| file.number(n));
        file.bytes.extend(&self.between);
        if self.counts_again {
            file.number(self.tokens.len() as u32);
        }
        for (i, token) in self.tokens.iter().enumerate() {
            if i < 2 {
                file.number(token.len() as u32);
            } else {
                file.bytes.extend((token.len() as u32).to_le_bytes());
            }
            file.bytes.extend(token);
            if self.form.has_scores {
                file.bytes.extend((-(i as f32)).to_le_bytes());
            }
        }
        if !self.merges.is_empty() {
            file.number(self.merges.len() as u32);
        }
        for half in self.merges.iter().flat_map(|(a, b)| [a, b]) {
            file.number(half.len() as u32);
            file.bytes.extend(half.as_bytes());
        }
        for (name, code, shape) in &self.tensors {
            file.tensor(self.form, name, *code, shape, &self.form.data(*code, shape));
        }
        file
    }
}

impl Legacy {
    fn number(&mut self, n: u32) {
        self.numbers.push(self.bytes.len());
        self.bytes.extend(n.to_le_bytes());
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, form: Form, name: &str, code: u32, shape: &[u32], data: &[u8]) {
        self.tensors.push(self.bytes.len());
        for n in [shape.len() as u32, name.len() as u32, code].into_iter().chain(shape.iter().copied()) {
            self.number(n);
        }
        self.bytes.extend(name.as_bytes());
        if form.is_aligned {
            self.bytes.resize(self.bytes.len().next_multiple_of(32), 0);
        }
        self.bytes.extend(data);
    }

    /// The file with another number at an offset.
    pub fn with(&self, at: usize, number: u32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        bytes
    }
}

/// Tokens of a byte-level vocabulary: letters, and a few merges of them.
pub fn tokens(n: usize) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = vec![b"<|endoftext|>".to_vec()];
    tokens.extend((b'a'..=b'z').map(|b| vec![b]));
    tokens.extend([b" ".to_vec(), b"ab".to_vec(), b" a".to_vec(), b"abc".to_vec()]);
    tokens.extend((tokens.len()..n).map(|i| format!("zz{i}").into_bytes()));
    tokens.truncate(n);
    tokens
}

/// The first tokens of Llama's vocabulary.
pub fn pieces(n: usize) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = vec![" \u{2047} ".into(), Vec::new(), Vec::new()];
    tokens.extend((0..=255u8).map(|b| vec![b]));
    tokens.extend((tokens.len()..n).map(|i| format!(" piece{i}").into_bytes()));
    tokens.truncate(n);
    tokens
}

fn tensors(outside: &[(&str, u32, &[u32])], blocks: u32, block: &[(&str, u32, &[u32])]) -> Vec<Tensor> {
    let whole = |name: String, code: u32, shape: &[u32]| (name, code, shape.to_vec());
    let mut all: Vec<Tensor> = outside.iter().map(|(n, code, shape)| whole((*n).to_owned(), *code, shape)).collect();
    for i in 0..blocks {
        all.extend(block.iter().map(|(n, code, shape)| whole(n.replace("{}", &i.to_string()), *code, shape)));
    }
    all
}

/// A Llama of one block: width 64, two query heads and `kv` key heads, matrices of the given type.
pub fn llama(form: Form, code: u32, kv: u32) -> Parts {
    let ftype = match code {
        6 => 8,
        7 => 9,
        8 => 7,
        4 => 5,
        5 => 6,
        12 => 15,
        code => code,
    };
    let qnt = if form.magic == *b"lmgg" && !form.is_wide { 2000 } else { 0 };
    let width = if code == 12 && !form.is_small { 256 } else { 64 };
    Parts {
        form,
        hparams: vec![40, width, 256, 2, 1, width / 2, ftype + qnt],
        counts_again: false,
        between: Vec::new(),
        tokens: pieces(40),
        merges: Vec::new(),
        tensors: tensors(
            &[
                ("tok_embeddings.weight", code, &[width, 40]),
                ("norm.weight", 0, &[width]),
                ("output.weight", code, &[width, 40]),
            ],
            1,
            &[
                ("layers.{}.attention.wq.weight", code, &[width, width]),
                ("layers.{}.attention.wk.weight", code, &[width, width / 2 * kv]),
                ("layers.{}.attention.wv.weight", code, &[width, width / 2 * kv]),
                ("layers.{}.attention.wo.weight", code, &[width, width]),
                ("layers.{}.feed_forward.w1.weight", code, &[width, 2 * width]),
                ("layers.{}.feed_forward.w2.weight", code, &[2 * width, width]),
                ("layers.{}.feed_forward.w3.weight", code, &[width, 2 * width]),
                ("layers.{}.attention_norm.weight", 0, &[width]),
                ("layers.{}.ffn_norm.weight", 0, &[width]),
            ],
        ),
    }
}

fn parts(form: Form, hparams: &[u32], tokens: Vec<Vec<u8>>, tensors: Vec<Tensor>) -> Parts {
    let hparams = hparams.to_vec();
    Parts { form, hparams, counts_again: false, between: Vec::new(), tokens, merges: Vec::new(), tensors }
}

fn gpt2(form: Form, code: u32, ftype: u32, tokens: Vec<Vec<u8>>) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("model/h{}/ln_1/g", 0, &[32]),
        ("model/h{}/ln_1/b", 0, &[32]),
        ("model/h{}/ln_2/g", 0, &[32]),
        ("model/h{}/ln_2/b", 0, &[32]),
        ("model/h{}/attn/c_attn/w", code, &[32, 96]),
        ("model/h{}/attn/c_attn/b", 0, &[96]),
        ("model/h{}/attn/c_proj/w", code, &[32, 32]),
        ("model/h{}/attn/c_proj/b", 0, &[32]),
        ("model/h{}/mlp/c_fc/w", code, &[32, 128]),
        ("model/h{}/mlp/c_fc/b", 0, &[128]),
        ("model/h{}/mlp/c_proj/w", code, &[128, 32]),
        ("model/h{}/mlp/c_proj/b", 0, &[32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("model/ln_f/g", 0, &[32]),
        ("model/ln_f/b", 0, &[32]),
        ("model/wte", code, &[32, 40]),
        ("model/wpe", 0, &[32, 16]),
    ];
    let hparams = [40, 16, 32, 2, 2, ftype];
    Parts { counts_again: true, ..parts(form, &hparams, tokens, tensors(outside, 2, block)) }
}

/// GPT-2 from converters that did not transpose its matrices.
pub fn gpt2_on_its_side() -> Legacy {
    let mut parts = gpt2(GGML, 1, 1, tokens(40));
    for (name, _, shape) in &mut parts.tensors {
        if ["attn/c_attn/w", "attn/c_proj/w", "mlp/c_fc/w"].iter().any(|end| name.ends_with(end)) {
            shape.reverse();
        }
    }
    parts.write("ggml-gpt2-untransposed", "gpt2")
}

/// StarCoder with one shared key and value head, repeated for each head.
pub fn starcoder(code: u32) -> Legacy {
    let mut list = tokens(40);
    list[1] = b"<fim_prefix>".to_vec();
    let parts = gpt2(GGML_QNT2, code, 2000 + code, list);
    let mut file = parts.write("ggml-starcoder", "starcoder");
    let (block_len, block_bytes) = parts.form.block(code);
    for (i, (name, _, shape)) in parts.tensors.iter().enumerate() {
        let (row, head) = match name.rsplit_once("c_attn/") {
            Some((_, "w")) => ((shape[0] / block_len * block_bytes) as usize, 16),
            Some((_, "b")) => (4, 16),
            _ => continue,
        };
        let start = file.tensors[i] + 12 + 4 * shape.len() + name.len();
        for part in [32, 64] {
            let first = start + part * row;
            file.bytes.copy_within(first..first + head * row, first + head * row);
        }
    }
    file
}

fn gptj(form: Form, code: u32) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("transformer.h.{}.ln_1.weight", 0, &[32]),
        ("transformer.h.{}.ln_1.bias", 0, &[32]),
        ("transformer.h.{}.attn.q_proj.weight", code, &[32, 32]),
        ("transformer.h.{}.attn.k_proj.weight", code, &[32, 32]),
        ("transformer.h.{}.attn.v_proj.weight", code, &[32, 32]),
        ("transformer.h.{}.attn.out_proj.weight", code, &[32, 32]),
        ("transformer.h.{}.mlp.fc_in.weight", code, &[32, 128]),
        ("transformer.h.{}.mlp.fc_in.bias", 0, &[128]),
        ("transformer.h.{}.mlp.fc_out.weight", code, &[128, 32]),
        ("transformer.h.{}.mlp.fc_out.bias", 0, &[32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("transformer.wte.weight", code, &[32, 40]),
        ("transformer.ln_f.weight", 0, &[32]),
        ("transformer.ln_f.bias", 0, &[32]),
        ("lm_head.weight", code, &[32, 40]),
        ("lm_head.bias", 0, &[40]),
    ];
    let hparams = [40, 16, 32, 2, 1, 8, 2000 + code];
    Parts { counts_again: true, ..parts(form, &hparams, tokens(40), tensors(outside, 1, block)) }
}

fn neox(form: Form, hparams: &[u32], code: u32) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("gpt_neox.layers.{}.input_layernorm.weight", 0, &[32]),
        ("gpt_neox.layers.{}.input_layernorm.bias", 0, &[32]),
        ("gpt_neox.layers.{}.post_attention_layernorm.weight", 0, &[32]),
        ("gpt_neox.layers.{}.post_attention_layernorm.bias", 0, &[32]),
        ("gpt_neox.layers.{}.attention.query_key_value.weight", code, &[32, 96]),
        ("gpt_neox.layers.{}.attention.query_key_value.bias", 0, &[96]),
        ("gpt_neox.layers.{}.attention.dense.weight", code, &[32, 32]),
        ("gpt_neox.layers.{}.attention.dense.bias", 0, &[32]),
        ("gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", code, &[32, 128]),
        ("gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", 0, &[128]),
        ("gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", code, &[128, 32]),
        ("gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", 0, &[32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("gpt_neox.embed_in.weight", code, &[32, 40]),
        ("gpt_neox.final_layer_norm.weight", 0, &[32]),
        ("gpt_neox.final_layer_norm.bias", 0, &[32]),
        ("embed_out.weight", code, &[32, 40]),
    ];
    parts(form, hparams, tokens(40), tensors(outside, 1, block))
}

fn mpt(form: Form, hparams: &[u32], code: u32, names: [&str; 5]) -> Parts {
    let [norm_1, norm_2, up, down, norm_f] = names.map(str::to_owned);
    let block: &[(&str, u32, &[u32])] = &[
        (&norm_1, 0, &[32]),
        ("transformer.blocks.{}.attn.Wqkv.weight", code, &[32, 96]),
        ("transformer.blocks.{}.attn.out_proj.weight", code, &[32, 32]),
        (&norm_2, 0, &[32]),
        (&up, code, &[32, 128]),
        (&down, code, &[128, 32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[("transformer.wte.weight", code, &[32, 40]), (&norm_f, 0, &[32])];
    parts(form, hparams, tokens(40), tensors(outside, 1, block))
}

const MPT_NAMES: [&str; 5] = [
    "transformer.blocks.{}.norm_1.weight",
    "transformer.blocks.{}.norm_2.weight",
    "transformer.blocks.{}.ffn.up_proj.weight",
    "transformer.blocks.{}.ffn.down_proj.weight",
    "transformer.norm_f.weight",
];

const OLD_REPLIT_NAMES: [&str; 5] = [
    "transformer.blocks.{}.ln_1.weight",
    "transformer.blocks.{}.ln_2.weight",
    "transformer.blocks.{}.mlp.mlp_up.weight",
    "transformer.blocks.{}.mlp.mlp_down.weight",
    "transformer.ln_f.weight",
];

fn bloom(code: u32) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("layers.{}.attention_norm.weight", 0, &[32]),
        ("layers.{}.attention_norm.bias", 0, &[32]),
        ("layers.{}.attention.query_key_value.weight", code, &[32, 96]),
        ("layers.{}.attention.query_key_value.bias", 0, &[96]),
        ("layers.{}.attention.wo.weight", code, &[32, 32]),
        ("layers.{}.attention.wo.bias", 0, &[32]),
        ("layers.{}.ffn_norm.weight", 0, &[32]),
        ("layers.{}.ffn_norm.bias", 0, &[32]),
        ("layers.{}.feed_forward.w1.weight", code, &[32, 128]),
        ("layers.{}.feed_forward.w1.bias", 0, &[128]),
        ("layers.{}.feed_forward.w2.weight", code, &[128, 32]),
        ("layers.{}.feed_forward.w2.bias", 0, &[32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("tok_embeddings.weight", code, &[32, 40]),
        ("norm.weight", 0, &[32]),
        ("norm.bias", 0, &[32]),
        ("output_norm.weight", 0, &[32]),
        ("output_norm.bias", 0, &[32]),
        ("output.weight", code, &[32, 40]),
    ];
    parts(GGML, &[40, 32, 1, 2, 1, code], tokens(40), tensors(outside, 1, block))
}

fn falcon(form: Form, hparams: &[u32], code: u32) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("transformer.h.{}.input_layernorm.weight", 0, &[64]),
        ("transformer.h.{}.input_layernorm.bias", 0, &[64]),
        ("transformer.h.{}.self_attention.query_key_value.weight", code, &[64, 96]),
        ("transformer.h.{}.self_attention.dense.weight", code, &[64, 64]),
        ("transformer.h.{}.mlp.dense_h_to_4h.weight", code, &[64, 256]),
        ("transformer.h.{}.mlp.dense_4h_to_h.weight", code, &[256, 64]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("transformer.word_embeddings.weight", code, &[64, 40]),
        ("transformer.ln_f.weight", 0, &[64]),
        ("transformer.ln_f.bias", 0, &[64]),
        ("lm_head.weight", code, &[64, 40]),
    ];
    parts(form, hparams, tokens(40), tensors(outside, 1, block))
}

/// The parts of a BERT.
pub fn bert(form: Form, code: u32) -> Parts {
    let list = (0..40).map(|i| match i {
        0 => b"[PAD]".to_vec(),
        1 => b"[UNK]".to_vec(),
        2 => b"[CLS]".to_vec(),
        3 => b"[SEP]".to_vec(),
        4 => b"[MASK]".to_vec(),
        i if i % 2 == 0 => format!("##x{i}").into_bytes(),
        i => format!("x{i}").into_bytes(),
    });
    let block: &[(&str, u32, &[u32])] = &[
        ("encoder.layer.{}.attention.self.query.weight", code, &[32, 32]),
        ("encoder.layer.{}.attention.self.query.bias", 0, &[32]),
        ("encoder.layer.{}.attention.self.key.weight", code, &[32, 32]),
        ("encoder.layer.{}.attention.self.key.bias", 0, &[32]),
        ("encoder.layer.{}.attention.self.value.weight", code, &[32, 32]),
        ("encoder.layer.{}.attention.self.value.bias", 0, &[32]),
        ("encoder.layer.{}.attention.output.dense.weight", code, &[32, 32]),
        ("encoder.layer.{}.attention.output.dense.bias", 0, &[32]),
        ("encoder.layer.{}.attention.output.LayerNorm.weight", 0, &[32]),
        ("encoder.layer.{}.attention.output.LayerNorm.bias", 0, &[32]),
        ("encoder.layer.{}.intermediate.dense.weight", code, &[32, 64]),
        ("encoder.layer.{}.intermediate.dense.bias", 0, &[64]),
        ("encoder.layer.{}.output.dense.weight", code, &[64, 32]),
        ("encoder.layer.{}.output.dense.bias", 0, &[32]),
        ("encoder.layer.{}.output.LayerNorm.weight", 0, &[32]),
        ("encoder.layer.{}.output.LayerNorm.bias", 0, &[32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("embeddings.word_embeddings.weight", code, &[32, 40]),
        ("embeddings.position_embeddings.weight", code, &[32, 16]),
        ("embeddings.token_type_embeddings.weight", code, &[32, 2]),
        ("embeddings.LayerNorm.weight", 0, &[32]),
        ("embeddings.LayerNorm.bias", 0, &[32]),
        ("pooler.dense.weight", code, &[32, 32]),
        ("pooler.dense.bias", 0, &[32]),
    ];
    parts(form, &[40, 16, 32, 64, 2, 1, code], list.collect(), tensors(outside, 1, block))
}

fn rwkv(form: Form, code: u32) -> Parts {
    let block: &[(&str, u32, &[u32])] = &[
        ("blocks.{}.ln1.weight", 0, &[32]),
        ("blocks.{}.ln1.bias", 0, &[32]),
        ("blocks.{}.ln2.weight", 0, &[32]),
        ("blocks.{}.ln2.bias", 0, &[32]),
        ("blocks.{}.att.time_decay", 0, &[32]),
        ("blocks.{}.att.time_first", 0, &[32]),
        ("blocks.{}.att.time_mix_k", 0, &[32]),
        ("blocks.{}.att.time_mix_v", 0, &[32]),
        ("blocks.{}.att.time_mix_r", 0, &[32]),
        ("blocks.{}.att.key.weight", code, &[32, 32]),
        ("blocks.{}.att.value.weight", code, &[32, 32]),
        ("blocks.{}.att.receptance.weight", code, &[32, 32]),
        ("blocks.{}.att.output.weight", code, &[32, 32]),
        ("blocks.{}.ffn.time_mix_k", 0, &[32]),
        ("blocks.{}.ffn.time_mix_r", 0, &[32]),
        ("blocks.{}.ffn.key.weight", code, &[32, 128]),
        ("blocks.{}.ffn.value.weight", code, &[128, 32]),
        ("blocks.{}.ffn.receptance.weight", code, &[32, 32]),
    ];
    let outside: &[(&str, u32, &[u32])] = &[
        ("emb.weight", code, &[32, 40]),
        ("blocks.0.ln0.weight", 0, &[32]),
        ("blocks.0.ln0.bias", 0, &[32]),
        ("ln_out.weight", 0, &[32]),
        ("ln_out.bias", 0, &[32]),
        ("head.weight", code, &[32, 40]),
    ];
    parts(form, &[40, 32, 1, code], Vec::new(), tensors(outside, 1, block))
}

fn whisper() -> Parts {
    let attention = |prefix: &str, name: &str| -> Vec<Tensor> {
        let whole =
            |end: &str, shape: &[u32]| (format!("{prefix}.{name}{end}"), u32::from(shape.len() > 1), shape.to_vec());
        vec![
            whole("_ln.weight", &[16]),
            whole("_ln.bias", &[16]),
            whole(".query.weight", &[16, 16]),
            whole(".query.bias", &[16]),
            whole(".key.weight", &[16, 16]),
            whole(".value.weight", &[16, 16]),
            whole(".value.bias", &[16]),
            whole(".out.weight", &[16, 16]),
            whole(".out.bias", &[16]),
        ]
    };
    let mlp = |prefix: &str| -> Vec<Tensor> {
        let whole = |end: &str, shape: &[u32]| (format!("{prefix}.{end}"), u32::from(shape.len() > 1), shape.to_vec());
        vec![
            whole("mlp_ln.weight", &[16]),
            whole("mlp_ln.bias", &[16]),
            whole("mlp.0.weight", &[16, 64]),
            whole("mlp.0.bias", &[64]),
            whole("mlp.2.weight", &[64, 16]),
            whole("mlp.2.bias", &[16]),
        ]
    };
    let outside: &[(&str, u32, &[u32])] = &[
        ("encoder.positional_embedding", 0, &[16, 12]),
        ("encoder.conv1.weight", 1, &[3, 4, 16]),
        ("encoder.conv1.bias", 0, &[1, 16]),
        ("encoder.conv2.weight", 1, &[3, 16, 16]),
        ("encoder.conv2.bias", 0, &[1, 16]),
        ("encoder.ln_post.weight", 0, &[16]),
        ("encoder.ln_post.bias", 0, &[16]),
        ("decoder.positional_embedding", 0, &[16, 8]),
        ("decoder.token_embedding.weight", 1, &[16, 40]),
        ("decoder.ln.weight", 0, &[16]),
        ("decoder.ln.bias", 0, &[16]),
    ];
    let mut all = tensors(outside, 0, &[]);
    all.extend(attention("encoder.blocks.0", "attn"));
    all.extend(mlp("encoder.blocks.0"));
    all.extend(attention("decoder.blocks.0", "attn"));
    all.extend(attention("decoder.blocks.0", "cross_attn"));
    all.extend(mlp("decoder.blocks.0"));
    let mut between: Vec<u8> = [4u32, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    between.extend(GGML.data(0, &[12]));
    let hparams = [40, 12, 16, 2, 1, 8, 16, 2, 1, 4, 1];
    // The file lists fewer tokens than the model has.
    Parts { between, counts_again: true, ..parts(GGML, &hparams, tokens(36), all) }
}

/// The parts of a GPT-2.
pub fn gpt2_parts() -> Parts {
    gpt2(GGML, 1, 1, tokens(40))
}

/// The parts of a GPT-NeoX.
pub fn neox_parts() -> Parts {
    neox(GGML_QNT2, &[40, 16, 32, 2, 1, 8, 0, 1], 1)
}

/// The parts of a Falcon, without merges.
pub fn falcon_parts() -> Parts {
    falcon(GGMF, &[40, 64, 4, 1, 1, 7, 1], 1)
}

/// A LoRA adapter of rank 4 for two matrices of [`llama`].
pub fn adapter() -> Legacy {
    let tensors = tensors(
        &[
            ("layers.0.attention.wq.weight.loraA", 0, &[4, 64]),
            ("layers.0.attention.wq.weight.loraB", 0, &[4, 64]),
            ("layers.0.feed_forward.w2.weight.loraA", 0, &[4, 128]),
            ("layers.0.feed_forward.w2.weight.loraB", 0, &[4, 64]),
        ],
        0,
        &[],
    );
    parts(GGLA, &[4, 8], Vec::new(), tensors).write("ggla", "llama")
}

/// A small file of every container and architecture.
pub fn all() -> Vec<Legacy> {
    let eight = 8f32.to_bits();
    let ggcc = Parts {
        merges: vec![("a", "b"), ("\\u0120", "a"), ("ab", "c")],
        ..falcon(GGCC, &[40, 64, 4, 1, 1, 7, 2, 3], 2)
    };
    let replit = |names| {
        let form = Form { has_scores: true, ..GGML_QNT2 };
        mpt(form, &[32, 16, 2, 1, 40, 2002], 2, names)
    };
    vec![
        llama(GGML, 2, 2).write("ggml-llama", "llama"),
        llama(GGML, 1, 2).write("ggml-llama-f16", "llama"),
        llama(GGMF, 2, 2).write("ggmf-llama", "llama"),
        llama(GGJT1, 2, 2).write("ggjt1-llama-q4_0", "llama"),
        llama(GGJT1, 3, 2).write("ggjt1-llama-q4_1", "llama"),
        llama(GGJT1, 4, 2).write("ggjt1-llama-q4_2", "llama"),
        llama(GGJT1, 5, 2).write("ggjt1-llama-q4_3", "llama"),
        llama(GGJT1, 6, 2).write("ggjt1-llama-q5_0", "llama"),
        llama(GGJT1, 7, 2).write("ggjt1-llama-q5_1", "llama"),
        llama(GGJT1, 8, 2).write("ggjt1-llama-q8_0", "llama"),
        llama(GGJT2, 2, 2).write("ggjt2-llama-q4_0", "llama"),
        llama(GGJT2, 7, 2).write("ggjt2-llama-q5_1", "llama"),
        llama(GGJT3, 8, 2).write("ggjt3-llama-q8_0", "llama"),
        llama(GGJT3, 12, 1).write("ggjt3-llama-q4_K-gqa", "llama"),
        bloom(2).write("ggml-bloom", "bloom"),
        gpt2(GGML, 2, 2, tokens(40)).write("ggml-gpt2", "gpt2"),
        gpt2(GGJT3, 2, 2002, tokens(40)).write("ggjt3-gpt2", "gpt2"),
        gpt2_on_its_side(),
        starcoder(2),
        gptj(GGML_QNT2, 2).write("ggml-gptj", "gptj"),
        neox(GGML_QNT2, &[40, 16, 32, 2, 1, 8, 0, 2002], 2).write("ggml-gptneox", "gptneox"),
        neox(GGML, &[40, 16, 32, 2, 1, 8, 2], 2).write("ggml-gptneox-old", "gptneox"),
        mpt(GGML_QNT2, &[32, 16, 2, 1, 40, eight, 0, 2002], 2, MPT_NAMES).write("ggml-mpt", "mpt"),
        replit(MPT_NAMES).write("ggml-replit", "replit"),
        replit(OLD_REPLIT_NAMES).write("ggml-replit-old", "replit"),
        falcon(GGMF, &[40, 64, 4, 1, 1, 7, 1], 1).write("ggmf-falcon", "falcon"),
        falcon(GGJT3, &[40, 64, 4, 1, 1, 2], 2).write("ggjt3-falcon-llm", "falcon"),
        ggcc.write("ggcc-falcon", "falcon"),
        bert(GGML, 1).write("ggml-bert", "bert"),
        rwkv(RWKV, 1).write("rwkv100", "rwkv"),
        rwkv(RWKV, 4).write("rwkv100-q4_1_o", "rwkv"),
        rwkv(Form { version: Some(101), is_wide: false, ..RWKV }, 2).write("rwkv101", "rwkv"),
        whisper().write("ggml-whisper", "whisper"),
        adapter(),
    ]
}
