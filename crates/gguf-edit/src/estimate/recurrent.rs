//! Recurrent layers: the sizes of their states, and their part of the graph.
//!
//! States are those of `llama_memory_recurrent`: rows of 32-bit floats per sequence, one of the convolution (or of the shifted tokens) and one
//! of the recurrence. Their sizes are `n_embd_r` and `n_embd_s` in `llama-hparams.cpp`.

use super::build::Builder;
use super::graph::{Id, Ty};
use super::{Keys, MOST};
use crate::EditError;

/// A recurrent layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recurrent {
    /// Elements of the state of the convolution, or of the shifted tokens, per sequence.
    n_shift: u64,
    /// Elements of the state of the recurrence per sequence.
    n_state: u64,
    kind: Kind,
}

/// The operations of a layer.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Mamba: a projection, a convolution, and a scan of its result.
    Scan { n_in: u64, n_conv: u64, n_inner: u64, n_x: u64, has_norms: bool, n_heads: u64 },
    /// LFM2: a projection and a convolution.
    Convolution { n_in: u64, n_out: u64 },
    /// RWKV: mixtures of each token with the one before.
    Shift { n_mix: u64, n_lora: u64, n_ff: u64, has_receptance: bool },
    /// Linear attention: queries, keys and values, by a convolution if there is one.
    Linear { n_qkv: u64, n_inner: u64, has_convolution: bool },
}

impl Recurrent {
    /// Reads the layer whose tensors have these dimensions; `None` if it is not recurrent.
    pub(super) fn read(
        arch: &str,
        keys: &Keys<'_>,
        n_embd: u64,
        n_head: u64,
        dim: &dyn Fn(&str, usize) -> Option<u64>,
    ) -> Result<Option<Recurrent>, EditError> {
        let key = |name: &str| Ok::<u64, EditError>(keys.optional(name, MOST)?.unwrap_or(0));
        if let Some(n_in) = dim("shortconv.in_proj.weight", 1) {
            let n_shift = n_embd.saturating_mul(key("shortconv.l_cache")?.saturating_sub(1));
            return Ok(Some(Recurrent { n_shift, n_state: 0, kind: Kind::Convolution { n_in, n_out: n_embd } }));
        }
        if dim("time_mix_key.weight", 0).is_some() {
            let n_shifts = keys.optional("token_shift_count", MOST)?.unwrap_or(2);
            let kind = Kind::Shift {
                n_mix: if dim("time_mix_g1.weight", 0).is_some() { 6 } else { 5 },
                n_lora: dim("time_mix_w1.weight", 1).unwrap_or(0),
                n_ff: dim("channel_mix_key.weight", 1).unwrap_or(0),
                has_receptance: dim("time_mix_receptance.weight", 0).is_some()
                    && dim("time_mix_r_k.weight", 0).is_none(),
            };
            let n_state = n_embd.saturating_mul(key("wkv.head_size")?);
            return Ok(Some(Recurrent { n_shift: n_shifts.saturating_mul(n_embd), n_state, kind }));
        }
        let kernel = keys.optional("ssm.conv_kernel", MOST)?.unwrap_or(0);
        let (n_inner, state, groups) = (key("ssm.inner_size")?, key("ssm.state_size")?, key("ssm.group_count")?);
        let kda = key("kda.head_dim")?;
        if kda > 0 && dim("ssm_conv1d_q.weight", 0).is_some() {
            let n_inner = n_head.saturating_mul(kda);
            let n_shift = 3u64.saturating_mul(kernel.max(1) - 1).saturating_mul(n_inner);
            let kind = Kind::Linear { n_qkv: n_inner.saturating_mul(3), n_inner, has_convolution: true };
            return Ok(Some(Recurrent { n_shift, n_state: kda.saturating_mul(n_inner), kind }));
        }
        let n_conv = n_inner.saturating_add(groups.saturating_mul(state).saturating_mul(2));
        let (n_shift, n_state) = (kernel.saturating_sub(1).saturating_mul(n_conv), state.saturating_mul(n_inner));
        if let Some(n_in) = dim("ssm_in.weight", 1) {
            let n_x = dim("ssm_x.weight", 1).unwrap_or(0);
            let has_norms = dim("ssm_dt_norm.weight", 0).is_some() || key_is_set(keys, "ssm.dt_b_c_rms");
            let n_heads = key("ssm.time_step_rank")?;
            let kind = Kind::Scan { n_in, n_conv, n_inner, n_x, has_norms, n_heads };
            return Ok(Some(Recurrent { n_shift, n_state, kind }));
        }
        if dim("ssm_out.weight", 0).is_some() {
            let kind = Kind::Linear { n_qkv: n_conv, n_inner, has_convolution: true };
            return Ok(Some(Recurrent { n_shift, n_state, kind }));
        }
        if arch == "minimax-01" && dim("attn_gate.weight", 0).is_some() {
            let head = key("attention.key_length")?;
            let n_inner = head.saturating_mul(n_head);
            let kind = Kind::Linear { n_qkv: n_inner.saturating_mul(3), n_inner, has_convolution: false };
            return Ok(Some(Recurrent { n_shift: 0, n_state: head.saturating_mul(n_inner), kind }));
        }
        Ok(None)
    }

    /// The size of the state of a sequence.
    pub(super) fn state_bytes(&self) -> u64 {
        self.n_shift.saturating_add(self.n_state).saturating_mul(4)
    }

    /// Whether the layer has its own feed-forward part.
    pub(super) fn has_feed_forward(&self) -> bool {
        matches!(self.kind, Kind::Shift { n_ff, .. } if n_ff > 0)
    }
}

impl Builder<'_> {
    /// The part of a recurrent layer before the residual sum; with [`Recurrent::has_feed_forward`], the whole layer.
    pub(super) fn recurrent(&mut self, layer: &Recurrent, input: Id, cur: Id) -> Id {
        let n = self.graph.ne(cur)[1];
        let n_embd = self.hparams.n_embd;
        match layer.kind {
            Kind::Scan { n_in, n_conv, n_inner, n_x, has_norms, n_heads } => {
                let shifted = self.state(layer.n_shift);
                let mixed = self.matrix(cur, n_in, false);
                let width = if n_x > 0 { n_inner } else { n_conv };
                let x = self.convolution(shifted, mixed, width, true);
                let steps = if n_x > 0 {
                    let both = self.matrix(x, n_x, false);
                    let steps = self.graph.op(Ty::F32, [n_heads, n, 1, 1], &[both]);
                    if has_norms {
                        // The weights of what enters the state and what is read from it are normalized, too.
                        let rest = n_x.saturating_sub(n_heads) / 2;
                        for _ in 0..2 {
                            let normed = self.graph.op(Ty::F32, [rest, n, 1, 1], &[both]);
                            self.graph.expand(normed);
                        }
                    }
                    self.matrix(steps, n_inner, true)
                } else {
                    let steps = self.graph.op(Ty::F32, [n_heads, n, 1, 1], &[mixed]);
                    self.bias(steps, true)
                };
                let scanned = self.stored(&[x, steps], n_inner, layer.n_state);
                let skipped = match n_x > 0 {
                    true => self.graph.in_place(&[x]),
                    false => self.graph.op(Ty::F32, [n_inner, n, 1, 1], &[x]),
                };
                let sum = self.graph.in_place(&[skipped, scanned]);
                let gate = self.graph.op(Ty::F32, [n_inner, n, 1, 1], &[mixed]);
                let cur = self.graph.op(Ty::F32, [n_inner, n, 1, 1], &[gate, sum]);
                self.matrix(cur, n_embd, false)
            }
            Kind::Convolution { n_in, n_out } => {
                let shifted = self.state(layer.n_shift);
                let mixed = self.matrix(cur, n_in, false);
                let product = self.graph.op(Ty::F32, [n_out, n, 1, 1], &[mixed]);
                let x = self.convolution(shifted, product, n_out, false);
                let gated = self.graph.op(Ty::F32, [n_out, n, 1, 1], &[mixed, x]);
                self.matrix(gated, n_embd, false)
            }
            Kind::Linear { n_qkv, n_inner, has_convolution } => {
                let mixed = self.matrix(cur, n_qkv, false);
                let gate = self.matrix(cur, n_inner, false);
                let mut qkv = mixed;
                if has_convolution {
                    let shifted = self.state(layer.n_shift);
                    qkv = self.convolution(shifted, mixed, n_qkv, true);
                }
                // Norms of queries and keys.
                let (q, k) = (self.piece(qkv, n_inner), self.piece(qkv, n_inner));
                let state = self.state(layer.n_state);
                let out = self.stored(&[q, k, qkv, state], n_inner, layer.n_state);
                let normed = self.graph.op(Ty::F32, [n_inner, n, 1, 1], &[out]);
                let gated = self.graph.in_place(&[normed, gate]);
                self.matrix(gated, n_embd, false)
            }
            Kind::Shift { .. } => self.shift(layer, input, cur),
        }
    }

    /// A layer of RWKV: both of its parts read the difference of each token and the one before.
    fn shift(&mut self, layer: &Recurrent, input: Id, cur: Id) -> Id {
        let Kind::Shift { n_mix, n_lora, n_ff, has_receptance } = layer.kind else { return cur };
        let (n, n_embd) = (self.graph.ne(cur)[1], self.hparams.n_embd);
        let shape = [n_embd, n, 1, 1];
        let shifted = self.state(layer.n_shift);
        let before = self.graph.op(Ty::F32, shape, &[shifted, cur]);
        let difference = self.graph.in_place(&[before, cur]);
        let wide = [n_embd, n, n_mix, 1];
        let mixtures = if has_receptance {
            // The weights of the five mixtures are computed, too.
            let weight = self.graph.in_place(&[difference, cur]);
            let small = self.matrix(weight, n_lora, false);
            let small = self.graph.op(Ty::F32, [n_lora, n, 1, 1], &[small]);
            let all = self.graph.op(Ty::F32, wide, &[small]);
            self.graph.in_place(&[all, difference, cur])
        } else {
            let all = self.graph.op(Ty::F32, wide, &[difference]);
            self.graph.in_place(&[all, cur])
        };
        let of = |builder: &mut Self| {
            let piece = builder.graph.view(mixtures, shape);
            let weight = builder.graph.external();
            builder.graph.op(Ty::F32, shape, &[weight, piece])
        };
        // The last mixture is that of the gate, which is computed after the recurrence.
        let mut inputs: Vec<Id> = (1..n_mix).map(|_| of(self)).collect();
        let gate = of(self);
        if !has_receptance {
            // RWKV 7 also removes a part of the state: normalized keys, negative and scaled.
            let key = inputs.first().copied().unwrap_or(cur);
            inputs.extend((0..3).map(|_| self.graph.op(Ty::F32, shape, &[key])));
        }
        inputs.push(self.state(layer.n_state));
        let out = self.stored(&inputs, n_embd, layer.n_state);
        let normed = self.graph.op(Ty::F32, shape, &[out]);
        let gated = self.graph.in_place(&[normed, gate]);
        let mixed = self.matrix(gated, n_embd, false);
        let sum = self.graph.in_place(&[mixed, input]);
        if n_ff == 0 {
            return mixed;
        }
        let cur = self.norm(sum, true);
        let before = self.graph.op(Ty::F32, shape, &[shifted, cur]);
        let difference = self.graph.in_place(&[before, cur]);
        let for_key = self.graph.in_place(&[difference, cur]);
        let hidden = self.matrix(for_key, n_ff, true);
        let mut out = self.matrix(hidden, n_embd, false);
        if has_receptance {
            let for_gate = self.graph.in_place(&[difference, cur]);
            let gate = self.matrix(for_gate, n_embd, true);
            out = self.graph.in_place(&[gate, out]);
        }
        self.graph.in_place(&[out, sum])
    }

    /// The states of the batch's sequences, gathered from the cache.
    fn state(&mut self, n_elements: u64) -> Id {
        let cache = self.graph.external();
        let state = self.graph.op(Ty::F32, [n_elements, self.batch.n_seq, 1, 1], &[cache]);
        self.graph.expand(state);
        state
    }

    /// A convolution of a projection after the columns of the state, and an activation.
    fn convolution(&mut self, shifted: Id, mixed: Id, width: u64, is_activated: bool) -> Id {
        let n = self.graph.ne(mixed)[1];
        let n_before = self.graph.ne(shifted)[0].checked_div(width).unwrap_or(0).saturating_mul(self.batch.n_seq);
        let joined = self.graph.op(Ty::F32, [n_before.saturating_add(n), width, 1, 1], &[shifted, mixed]);
        let cache = self.graph.external();
        let stored = self.graph.write_into(cache, &[joined]);
        self.graph.expand(stored);
        let weight = self.graph.external();
        let x = self.graph.op(Ty::F32, [width, n, 1, 1], &[joined, weight]);
        if is_activated { self.graph.in_place(&[x]) } else { x }
    }

    /// The results of a recurrence, with the new states behind them, which are written to the cache.
    fn stored(&mut self, inputs: &[Id], n_inner: u64, n_state: u64) -> Id {
        let n = self.batch.n_tokens;
        let states = n_state.saturating_mul(self.batch.n_seq);
        let all = self.graph.op(Ty::F32, [n_inner.saturating_mul(n).saturating_add(states), 1, 1, 1], inputs);
        let cache = self.graph.external();
        let stored = self.graph.write_into(cache, &[all]);
        self.graph.expand(stored);
        self.graph.view(all, [n_inner, n, 1, 1])
    }

    /// A normalized part of the rows of a tensor.
    fn piece(&mut self, of: Id, width: u64) -> Id {
        let n = self.graph.ne(of)[1];
        self.graph.op(Ty::F32, [width, n, 1, 1], &[of])
    }
}

fn key_is_set(keys: &Keys<'_>, name: &str) -> bool {
    keys.get(name).is_some_and(|value| value.get::<bool>() == Ok(true))
}
