//! Tensors that llama.cpp expects in a block only with another one, or in place of it.

use gguf_format::check::{At, Report};

use super::super::Model;
use super::super::rules::*;
use super::{Family, Seen, tensor_of};
use crate::arch::Stack;
use crate::hparams::MAX_BLOCKS;

/// Tensors of a block that belong to another one, the leader.
struct Group {
    arch: &'static str,
    leader: &'static str,
    /// Required with the leader.
    required: &'static [&'static str],
    /// Only with the leader.
    optional: &'static [&'static str],
}

/// `load_arch_tensors` in `src/models/gemma4.cpp` and `jamba.cpp`: a router makes a block one with experts.
const GROUPS: &[Group] = &[
    Group {
        arch: "gemma4",
        leader: "ffn_gate_inp.weight",
        required: &[
            "ffn_gate_inp.scale",
            "pre_ffw_norm_2.weight",
            "post_ffw_norm_1.weight",
            "post_ffw_norm_2.weight",
            "ffn_down_exps.weight",
        ],
        optional: &["ffn_gate_up_exps.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.scale"],
    },
    Group {
        arch: "jamba",
        leader: "ffn_gate_inp.weight",
        required: &["ffn_gate_exps.weight", "ffn_down_exps.weight", "ffn_up_exps.weight"],
        optional: &[],
    },
];

/// A tensor of a block, and those that are required without it and not expected with it.
struct Either {
    arch: &'static str,
    /// The blocks: all, or those with this tensor.
    with: Option<&'static str>,
    first: &'static str,
    others: &'static [&'static str],
}

/// `load_arch_tensors` in `src/models/grok.cpp`, `gemma4.cpp` and `jamba.cpp`.
const ALTERNATIVES: &[Either] = &[
    Either {
        arch: "jamba",
        with: None,
        first: "ffn_gate_inp.weight",
        others: &["ffn_gate.weight", "ffn_down.weight", "ffn_up.weight"],
    },
    Either { arch: "grok", with: None, first: "layer_output_norm.weight", others: &["post_ffw_norm.weight"] },
    Either {
        arch: "gemma4",
        with: Some("ffn_gate_inp.weight"),
        first: "ffn_gate_up_exps.weight",
        others: &["ffn_gate_exps.weight", "ffn_up_exps.weight"],
    },
];

/// Blocks without a window rotate with factors (`load_arch_tensors` in `src/models/gemma4.cpp`).
fn rotary_factors(model: &Model<'_>, report: &mut Report) {
    let name = "rope_freqs.weight";
    let mut blocks = 0..model.hparams.blocks.unwrap_or(0).min(MAX_BLOCKS);
    if model.arch == "gemma4"
        && model.complete
        && model.tensor(name).is_none()
        && blocks.any(|block| !model.hparams.is_windowed(block))
    {
        let message = format_args!("the tensor is missing; blocks without a window need it");
        report.add(&TENSOR_MISSING, At::no_tensor(name), message);
    }
}

pub(super) fn check(model: &Model<'_>, family: &Family, seen: &Seen<'_>, report: &mut Report) {
    rotary_factors(model, report);
    let groups = || GROUPS.iter().filter(|group| group.arch == model.arch);
    let alternatives = || ALTERNATIVES.iter().filter(|either| either.arch == model.arch);
    for (block, &marks) in (0..).zip(&seen.rows) {
        if marks == 0 {
            continue;
        }
        let has = |name: &str| {
            let row = tensor_of(&family.block, Stack::Only, name, &model.hparams, block);
            row.is_some_and(|(i, _)| marks & (1 << i) != 0)
        };
        let mut find = |name: &str, is_due: bool, because: &str| {
            let full = format!("{}{block}.{name}", Stack::Only.prefix());
            match has(name) {
                false if is_due && model.complete => {
                    report.add(&TENSOR_MISSING, At::no_tensor(&full), format_args!("the tensor is missing; {because}"));
                }
                true if !is_due => report.add(&TENSOR_UNEXPECTED, At::no_tensor(&full), format_args!("{because}")),
                _ => {}
            }
        };
        for group in groups() {
            let leader = group.leader;
            if has(leader) {
                group.required.iter().for_each(|name| find(name, true, &format!("{leader} needs it")));
            } else {
                let all = group.required.iter().chain(group.optional);
                all.for_each(|name| find(name, false, &format!("there is no {leader}")));
            }
        }
        for either in alternatives().filter(|either| either.with.is_none_or(has)) {
            let first = either.first;
            match has(first) {
                true => either.others.iter().for_each(|name| find(name, false, &format!("{first} takes its place"))),
                false => either.others.iter().for_each(|name| find(name, true, &format!("there is no {first} either"))),
            }
        }
    }
}
