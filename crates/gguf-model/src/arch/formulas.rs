//! The formulas in tables other than those of key-values, which `keys!` checks: a syntax error does not compile.

use super::{ARCHITECTURES, Architecture, Checkpoint, Computed, Map, Row, RowOp, TOWERS};
use crate::formula::checked;

const _: () = {
    let mut lists: &[&[Architecture]] = &[ARCHITECTURES, TOWERS];
    while let [list, more @ ..] = lists {
        let mut architectures: &[Architecture] = list;
        while let [architecture, rest @ ..] = architectures {
            check_rows(architecture.outside);
            check_rows(architecture.block);
            let mut checkpoints = architecture.checkpoints;
            while let [checkpoint, rest @ ..] = checkpoints {
                check_conditions(checkpoint);
                checkpoints = rest;
            }
            architectures = rest;
        }
        lists = more;
    }
};

/// Checks the formulas of a table's conditions, lists and computed tensors.
const fn check_conditions(checkpoint: &Checkpoint) {
    check_condition(checkpoint.when);
    let mut skip = checkpoint.names.skip;
    while let [(_, condition), rest @ ..] = skip {
        check_condition(condition);
        skip = rest;
    }
    let mut refuse = checkpoint.refuse;
    while let [(condition, _), rest @ ..] = refuse {
        checked(condition);
        refuse = rest;
    }
    let mut renumbered = checkpoint.names.renumbered;
    while let [(_, list), rest @ ..] = renumbered {
        checked(list);
        renumbered = rest;
    }
    let mut rename_if = checkpoint.names.rename_if;
    while let [(_, _, condition), rest @ ..] = rename_if {
        check_condition(condition);
        rename_if = rest;
    }
    let mut computed = checkpoint.computed;
    while let [tensor, rest @ ..] = computed {
        if let Computed::Values(_, formula) | Computed::Sinusoids(_, formula) = tensor {
            checked(formula);
        }
        computed = rest;
    }
}

/// Checks a condition; an empty one always holds.
const fn check_condition(condition: &'static str) {
    if !condition.is_empty() {
        checked(condition);
    }
}

/// Checks the formulas of the operations of rows.
const fn check_rows(groups: &'static [&'static [Row]]) {
    let mut groups = groups;
    while let [group, more @ ..] = groups {
        let mut rows: &[Row] = group;
        while let [row, rest @ ..] = rows {
            match row.op {
                RowOp::Values(formula) | RowOp::ResizeGrid(formula) => {
                    checked(formula);
                }
                RowOp::Map(maps) => check_maps(maps),
                RowOp::Integers | RowOp::RoundToMean | RowOp::SumParts | RowOp::BatchNorm(_) => {}
            }
            rows = rest;
        }
        groups = more;
    }
}

const fn check_maps(maps: &'static [Map]) {
    let mut maps = maps;
    while let [map, rest @ ..] = maps {
        if let Map::ScaleBy(formula) | Map::ScaleRowsBy(formula) | Map::PadRowsTo(formula) = map {
            checked(formula);
        }
        maps = rest;
    }
}
