//! The part of JSON Schema (draft 2020-12) that the schema of board files uses. Any other keyword panics, so
//! that nothing is silently left unchecked.

use serde_json::Value;

/// The violations of `schema` in `value`, one line each.
pub fn faults_of(value: &Value, schema: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    Checker { whole: schema }.check(value, schema, "", &mut faults);
    faults
}

struct Checker<'s> {
    whole: &'s Value,
}

impl Checker<'_> {
    fn fits(&self, value: &Value, schema: &Value) -> bool {
        let mut faults = Vec::new();
        self.check(value, schema, "", &mut faults);
        faults.is_empty()
    }

    fn check(&self, value: &Value, schema: &Value, path: &str, faults: &mut Vec<String>) {
        let words = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return faults.push(format!("{path}: nothing is allowed here")),
            Value::Object(words) => words,
            odd => panic!("not a schema: {odd}"),
        };
        for (word, limit) in words {
            let sound = match word.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "then" => true, // checked with "if"
                "$ref" => {
                    let pointer =
                        limit.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
                    self.fits(value, self.whole.pointer(pointer).expect("a known definition"))
                }
                "type" => is_of(value, limit.as_str().expect("one type")),
                "enum" => limit.as_array().expect("a list").contains(value),
                "const" => limit == value,
                "minimum" => number(value).is_none_or(|found| found >= number(limit).expect("a number")),
                "maximum" => number(value).is_none_or(|found| found <= number(limit).expect("a number")),
                "minLength" => length(value).is_none_or(|found| found >= count(limit)),
                "maxLength" => length(value).is_none_or(|found| found <= count(limit)),
                "pattern" => value.as_str().is_none_or(|text| matches(text, limit.as_str().expect("a text"))),
                "minItems" => value.as_array().is_none_or(|items| items.len() >= count(limit)),
                "maxItems" => value.as_array().is_none_or(|items| items.len() <= count(limit)),
                "uniqueItems" => value.as_array().is_none_or(|items| {
                    items.iter().enumerate().all(|(nth, item)| !items[..nth].contains(item))
                }),
                "items" => {
                    for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(item, limit, &format!("{path}/{nth}"), faults);
                    }
                    true
                }
                "anyOf" => limit.as_array().expect("a list").iter().any(|one| self.fits(value, one)),
                "allOf" => {
                    limit
                        .as_array()
                        .expect("a list")
                        .iter()
                        .for_each(|one| self.check(value, one, path, faults));
                    true
                }
                "if" => {
                    if self.fits(value, limit) {
                        self.check(value, &words["then"], path, faults);
                    }
                    true
                }
                "required" => value.as_object().is_none_or(|members| {
                    let keys = limit.as_array().expect("a list").iter();
                    keys.map(|key| key.as_str().expect("a key")).all(|key| members.contains_key(key))
                }),
                "properties" => {
                    for (key, member) in value.as_object().into_iter().flatten() {
                        if let Some(own) = limit.get(key) {
                            self.check(member, own, &format!("{path}/{key}"), faults);
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    for (key, member) in value.as_object().into_iter().flatten() {
                        if words.get("properties").is_none_or(|known| known.get(key).is_none()) {
                            self.check(member, limit, &format!("{path}/{key}"), faults);
                        }
                    }
                    true
                }
                "propertyNames" => value.as_object().is_none_or(|members| {
                    members.keys().all(|key| self.fits(&Value::String(key.clone()), limit))
                }),
                odd => panic!("the keyword {odd} is not supported here"),
            };
            if !sound {
                faults.push(format!("{path}: {value} breaks {word}: {limit}"));
            }
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        odd => panic!("the type {odd} is not supported here"),
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn length(value: &Value) -> Option<usize> {
    value.as_str().map(|text| text.chars().count())
}

fn count(limit: &Value) -> usize {
    limit.as_u64().expect("a count") as usize
}

/// Whether `text` matches `pattern`, which must be one of the two that the schema uses.
fn matches(text: &str, pattern: &str) -> bool {
    let is_name = |text: &str| {
        (1..=32).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    match pattern {
        "^[A-Za-z0-9_-]{1,32}$" => is_name(text),
        "^[A-Za-z0-9_-]{1,32}:(0x[0-9A-Fa-f]+|[0-9]+)$" => {
            text.split_once(':').is_some_and(|(bus, address)| {
                let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
                let hex = address.strip_prefix("0x").is_some_and(|rest| digits(rest, 16));
                is_name(bus) && (hex || digits(address, 10))
            })
        }
        odd => panic!("the pattern {odd} is not supported here"),
    }
}
