//! Formulas and conditions of rows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::keys::unusable;
use crate::formula::{Fields, Formula, is_true};
use crate::model_plan::PlanError;

/// The values of formulas of rows that apply to many tensors; each is evaluated once.
#[derive(Default)]
pub(super) struct Formulas {
    values: RefCell<HashMap<&'static str, Rc<serde_json::Value>>>,
}

impl Formulas {
    /// The value of a formula, `null` if it has none. The fields must be the same in all calls.
    pub(super) fn value(
        &self,
        formula: &'static str,
        row: &'static str,
        fields: &Fields,
    ) -> Result<Rc<serde_json::Value>, PlanError> {
        if let Some(value) = self.values.borrow().get(formula) {
            return Ok(Rc::clone(value));
        }
        let parsed = Formula::parse(formula).map_err(|e| unusable(row, e))?;
        let value = fields.eval(&parsed).map_err(|e| unusable(row, e))?;
        let value = Rc::new(value.map_or(serde_json::Value::Null, Cow::into_owned));
        self.values.borrow_mut().insert(formula, Rc::clone(&value));
        Ok(value)
    }

    /// The value of a formula that must have one.
    pub(super) fn needed(
        &self,
        formula: &'static str,
        row: &'static str,
        fields: &Fields,
    ) -> Result<Rc<serde_json::Value>, PlanError> {
        let value = self.value(formula, row, fields)?;
        let missing = || crate::config::Error::Missing(vec![formula.to_owned()]).into();
        if value.is_null() { Err(missing()) } else { Ok(value) }
    }
}

/// Whether the condition of a row holds; an empty condition always does.
pub(super) fn condition_holds(condition: &str, row: &'static str, fields: &Fields) -> Result<bool, PlanError> {
    let wrong = |e| unusable(row, e);
    match condition {
        "" => Ok(true),
        text => fields.holds(&Formula::parse(text).map_err(wrong)?).map_err(wrong),
    }
}

/// Whether the condition of a row holds in a block; for a list, whether the element of the block is true.
pub(super) fn condition_holds_in(
    condition: &'static str,
    row: &'static str,
    block: Option<u64>,
    fields: &Fields,
    formulas: &Formulas,
) -> Result<bool, PlanError> {
    if condition.is_empty() {
        return Ok(true);
    }
    let value = formulas.value(condition, row, fields)?;
    if condition.starts_with('[') {
        let place = block.and_then(|block| usize::try_from(block).ok());
        return Ok(place.and_then(|place| value.get(place)).is_some_and(|holds| *holds == true));
    }
    Ok(is_true(Some(&value)))
}
