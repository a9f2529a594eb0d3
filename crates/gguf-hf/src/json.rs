//! JSON values with a limit on their number. A value takes about a hundred bytes of memory but may take only two bytes of a file, so
//! limiting the file's length is not sufficient.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a document with at most `most` values, not counting field names. The parser limits nesting.
pub(crate) fn parse(json: &[u8], most: usize) -> serde_json::Result<Value> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let value = Bounded { left: &Cell::new(most), most }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Deserializes a value that contains at most `MOST` values, for fields without a fixed schema.
pub(crate) fn bounded<'de, const MOST: usize, D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
    Bounded { left: &Cell::new(MOST), most: MOST }.deserialize(d)
}

/// The field of an object; null if the object lacks it, or if the value is not an object.
pub(crate) fn field<'v>(document: &'v Value, name: &str) -> &'v Value {
    document.get(name).unwrap_or(&Value::Null)
}

/// Sets a field of an object; other values have no fields and stay as they are.
pub(crate) fn set_field(document: &mut Value, name: &str, value: Value) {
    if let Some(fields) = document.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// The remaining number of values.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
    most: usize,
}

impl Bounded<'_> {
    fn take<E: serde::de::Error>(self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| E::custom(format_args!("more than {} values", self.most)))?);
        Ok(())
    }

    fn one<E: serde::de::Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.take()?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.one(())
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Value, E> {
        self.one(v)
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Value, E> {
        self.one(v)
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Value, E> {
        self.one(v)
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        self.one(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Value, E> {
        self.one(v)
    }

    fn visit_string<E: serde::de::Error>(self, v: String) -> Result<Value, E> {
        self.one(v)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.take()?;
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.take()?;
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self)?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

/// Deserializes a list of at most `MOST` elements; null gives an empty list.
pub(crate) fn list<'de, const MOST: usize, T: serde::Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T, const MOST: usize>(std::marker::PhantomData<T>);
    impl<'de, T: serde::Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST} elements, or null")
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_none<E: serde::de::Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = seq.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::custom(format_args!("more than {MOST} elements")));
                }
                list.push(element);
            }
            Ok(list)
        }
    }
    d.deserialize_any(List::<T, MOST>(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_serde_json() {
        for json in [
            r#"{"a": [1, -2, 3.5, 1e300, 18446744073709551615, -9223372036854775808, true, null, "\u0041\n"], "b": {}, "a2": []}"#,
            r#"{"twice": 1, "other": 2, "twice": 3}"#,
            "7",
            "\"x\"",
        ] {
            let expected: Value = serde_json::from_str(json).unwrap();
            let found = parse(json.as_bytes(), 100).unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.to_string(), expected.to_string());
        }
        for json in ["", "{", "[1,]", "1 2", "nul", "\"\\q\"", "[1] x", &"[".repeat(1000)] {
            let expected = serde_json::from_str::<Value>(json).unwrap_err().to_string();
            assert_eq!(parse(json.as_bytes(), 2000).unwrap_err().to_string(), expected, "{json:.20}");
        }
    }

    #[test]
    fn more_values_than_allowed_are_an_error() {
        for (json, n) in [("[1,2,3]", 4), ("{\"a\":{\"b\":null}}", 3), ("[[],[],[[]]]", 5), ("0", 1)] {
            assert!(parse(json.as_bytes(), n).is_ok(), "{json}");
            let error = parse(json.as_bytes(), n - 1).unwrap_err().to_string();
            assert!(error.starts_with(&format!("more than {} values at line 1 column", n - 1)), "{json}: {error}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let read = |json: &str| list::<3, u32, _>(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(read("[1,2,3]").unwrap(), [1, 2, 3]);
        assert!(read("null").unwrap().is_empty());
        assert!(read("[1,2,3,4]").unwrap_err().to_string().starts_with("more than 3 elements"));
        assert!(read("4").unwrap_err().to_string().contains("a list of at most 3 elements"));
    }
}
