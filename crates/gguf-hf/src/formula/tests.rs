//! Tests of the notation, its meaning, its errors and its bounds.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Error, Fields, Formula};

fn eval(text: &str) -> Result<Option<Value>, Error> {
    let fields = json!({
        "a": 7, "b": 2, "x": 1.5, "none": null, "zero": 0, "text": "full", "list": [1, 2, 3], "empty": [],
        "inner": {"n": 4, "none": null}, "types": ["full", "half", "full"], "yes": true,
    });
    let Value::Object(fields) = fields else { panic!() };
    let (fields, formula) = (Fields::of(fields, 3), Formula::parse(text)?);
    Ok(fields.eval(&formula)?.map(Cow::into_owned))
}

#[test]
fn formulas_mean_what_they_mean_in_python() {
    let cases: &[(&str, Value)] = &[
        ("a", json!(7)),
        ("inner.n", json!(4)),
        ("missing|none|a", json!(null)),
        ("missing|a", json!(7)),
        ("missing|3", json!(3)),
        ("missing ?? none ?? a", json!(7)),
        ("none ?? 5", json!(5)),
        ("zero ?? 5", json!(0)),
        ("zero or 5", json!(5)),
        ("a and b", json!(2)),
        ("empty and b", json!([])),
        ("not missing", json!(true)),
        ("merge(inner, {'n': 5, 'm': 6})", json!({"n": 5, "none": null, "m": 6})),
        ("range(b)", json!([0, 1])),
        ("sorted([3, -1, 2.5])", json!([-1, 2.5, 3])),
        ("sorted([[2, 1], [1, 3], [1, 2], [1]])", json!([[1], [1, 2], [1, 3], [2, 1]])),
        ("[int(part) for part in split('4/8', '/')]", json!([4, 8])),
        ("join([str(n) for n in [4, 8]], '/')", json!("4/8")),
        ("a // b", json!(3)),
        ("-a // b", json!(-4)),
        ("a % b", json!(1)),
        ("-a % 4", json!(1)),
        ("a / b", json!(3.5)),
        ("4 / b", json!(2.0)),
        ("2 ** 20", json!(1048576)),
        ("2 ** -1", json!(0.5)),
        ("-2 ** 2 + 1", json!(-3)),
        ("1e-5", json!(1e-5)),
        ("int(x * 3)", json!(4)),
        ("int(-x)", json!(-1)),
        ("a * b + 1", json!(15)),
        ("n_leading(types, 'full')", json!(1)),
        ("n_leading(empty, 0)", json!(0)),
        ("with(inner, 'n', 9).n", json!(9)),
        ("numbers('11, 2,5')", json!([2, 5, 11])),
        ("token_id({'7': {'content': 'x'}, '9': {'content': 'y'}}, 'y')", json!(9)),
        ("token_id({'7': {'content': 'x'}}, 'y') ?? 5", json!(5)),
        ("log2(8)", json!(3.0)),
        ("round(2.5)", json!(2)),
        ("centered([1, 2, 6])", json!([-2.0, -1.0, 3.0])),
        ("icdf(0.5)", json!(0.0)),
        ("icdf(0)", json!("-Infinity")),
        ("icdf(0.95)", json!(1.6448535919189453)),
        ("\"it's\"", json!("it's")),
        ("a - b - 1", json!(4)),
        ("1 + a * (b - 1)", json!(8)),
        ("'x' if text == 'full' else 'y'", json!("x")),
        ("1 if none else 2 if zero else 3", json!(3)),
        ("a >= 7 and b < 2", json!(false)),
        ("missing == null", json!(true)),
        ("1 == 1.0", json!(true)),
        ("text in ['half', 'full']", json!(true)),
        ("'ul' in text", json!(true)),
        ("list[-1]", json!(3)),
        ("[i * b for i]", json!([0, 2, 4])),
        ("[t == 'full' for t in types]", json!([true, false, true])),
        ("[types[i] == 'full' for i]", json!([true, false, true])),
        ("len(list) + sum(list)", json!(9)),
        ("pad(list, 4, 0)", json!([1, 2, 3, 0])),
        ("pad(list, 2, 0)", json!([1, 2])),
        ("one_of(text, {'full': 1, 'half': 2})", json!(1)),
        ("[a] * 3", json!([7, 7, 7])),
        ("text[1]", json!("u")),
        ("[is_list(list), is_list(a)]", json!([true, false])),
        ("inner['n']", json!(4)),
        ("by_number({'10': 'c', '9': 'b', '0': 'a'})", json!(["a", "b", "c"])),
        ("'{%' in template('kimi-k3')", json!(true)),
        ("by_name({'10': 'c', '9': 'b', '0': 'a'})", json!(["a", "c", "b"])),
        ("[round(x) for x in [0.5, 1.5, 2.5, 2.4, 0 - 0.5, 7]]", json!([0, 2, 2, 2, 0, 7])),
        ("max(a, b) - min(a, b)", json!(5)),
        ("yes + 1", json!(2)),
    ];
    for (text, expected) in cases {
        assert_eq!(eval(text), Ok(Some(expected.clone())), "{text}");
    }
    assert_eq!(eval("missing"), Ok(None));
    assert_eq!(eval("inner.missing|missing"), Ok(None));
    assert_eq!(eval("missing.deep"), Ok(None));
}

#[test]
fn what_has_no_value_is_named() {
    let cases = [
        ("missing + 1", "missing is missing"),
        ("required(inner.none)", "inner.none is missing"),
        ("a // zero", "zero is 0, expected a number"),
        ("a % zero", "zero is 0, expected a number"),
        ("text[9]", "expected a text that has such a letter"),
        ("by_number({'x': 1})", "numbers for names"),
        ("by_name([1])", "expected an object"),
        ("template('none')", "expected the name of a chat template"),
        ("text * 2", "text is \"full\", expected a number"),
        ("list[3]", "list[3] is 3, expected a list that has such an element"),
        ("text.x", "text is \"full\", expected an object"),
        ("one_of(text, {'half': 2})", "text is \"full\", expected one of those that llama.cpp knows"),
        ("a +", "expected a name at byte 3"),
        ("(a", "expected ) at byte 2"),
        ("a b", "expected the end at byte 2"),
        ("a if b", "expected else"),
        ("len(a, b)", "another number of operands"),
        ("9223372036854775807 + 1", "expected a number that fits"),
    ];
    for (text, expected) in cases {
        let found = eval(text).unwrap_err().to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert!(Formula::parse(&"(".repeat(1000)).is_err());
}

/// The steps that are left after an evaluation of a list of 1000 elements for 4 blocks.
fn steps(text: &str) -> u64 {
    let list: Vec<Value> = (0..1000).map(Value::from).collect();
    let Value::Object(fields) = json!({"list": list, "table": {"list": list}, "text": "x".repeat(1000)}) else {
        panic!()
    };
    let (fields, formula) = (Fields::of(fields, 4), Formula::parse(text).unwrap());
    let (value, steps) = fields.eval_counted(&formula);
    value.unwrap();
    steps
}

#[test]
fn lists_of_the_configuration_are_not_copied() {
    for text in [
        "[list[i] for i]",
        "[table.list[i] for i]",
        "[len(list) for i]",
        "[(list if i else table.list)[-1] for i]",
        "[list|i for i] if list == null or list == table else 1",
        "[(list ?? i)[0] + (list or i)[0] for i]",
        "[table['list'][i] for i]",
        "[0 in list for i]",
        "[l[0] for l in [list]]",
    ] {
        // The list of lists is the only copy.
        let copied = if text.contains("[list]") { 1000 } else { 0 };
        assert!(steps(text) < 100 + copied, "{text}: {}", steps(text));
    }
    for (text, n) in [
        ("[list for i]", 4000),
        ("[999 in list for i]", 4000),
        ("[list + [i] for i]", 4000),
        ("[merge(table, table) for i]", 8000),
        ("[sum(list) for i]", 4000),
        ("[text[i] for i]", 4 * 62),
        ("[pad([], 1000, i) for i]", 4000),
        ("[list == list for i]", 4000),
    ] {
        assert!((n..n + 100).contains(&steps(text)), "{text}: {}", steps(text));
    }
}

#[test]
fn operands_are_evaluated_once() {
    let nested = |n| (0..n).fold("1".to_owned(), |formula, _| format!("(1 + {formula}) * 1 < 2"));
    assert!(steps(&nested(10)) < 100, "{}", steps(&nested(10)));
    assert!(steps("1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1") < 30);
}

#[test]
fn steps_are_limited() {
    let list: Vec<Value> = (0..1000).map(Value::from).collect();
    let Value::Object(fields) = json!({"odd": list, "text": "x".repeat(100_000)}) else { panic!() };
    let fields = Fields::of(fields, 65536);
    for text in ["[-1 in odd for i]", "[odd for i]", "[text[i % len(text)] == 'x' for i]", "[icdf(0.5) for i]"] {
        let error = fields.holds(&Formula::parse(text).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Long { n_blocks: 65536, .. }), "{text}: {error}");
    }
    let error = fields.holds(&Formula::parse("[-1 in odd for i]").unwrap()).unwrap_err().to_string();
    assert_eq!(
        error,
        "odd: evaluation for 65536 blocks takes more than 524288 steps, expected shorter lists or fewer blocks"
    );
}
