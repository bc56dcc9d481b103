//! The effective values as TOML that loads to the same board again: nothing inherited, no defaults left out,
//! and a comment after each value with its origin.

use super::inherit::NAMED;
use super::report::Setting;

/// Column of the origins; most values end before it.
const ORIGIN_COLUMN: usize = 44;

/// The lines of TOML; tables are in the order in which they were read.
pub fn lines(settings: &[Setting]) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut open, mut entry) = (String::new(), String::new());
    for setting in settings {
        let (table, key) = setting.key.rsplit_once('.').unwrap_or(("", &setting.key));
        if table != open {
            lines.push(String::new());
            lines.extend(header(table, &mut entry));
            open = table.to_string();
        }
        let text = format!("{key} = {}", setting.value);
        let origin = setting.origin.as_ref().map_or("default".to_string(), |spot| spot.to_string());
        lines.push(format!("{text:<ORIGIN_COLUMN$} # {origin}"));
    }
    lines
}

/// The header of the table at `path`. `entry` is the list entry that is open: a table inside it must not
/// start another entry.
fn header(path: &str, entry: &mut String) -> Vec<String> {
    let mut parts = path.splitn(3, '.');
    let (list, name, inner) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let keys = NAMED.iter().find(|(named, _)| *named == list).map(|(_, keys)| *keys);
    let (Some(keys), Some(name)) = (keys, name) else { return vec![format!("[{path}]")] };
    let mut lines = Vec::new();
    let whole = format!("{list}.{name}");
    if *entry != whole {
        lines.push(format!("[[{list}]]"));
        // If there is one naming key, it is not a setting but part of the path. If there are two, both are
        // settings and follow below.
        if let [key] = keys {
            lines.push(format!("{key} = \"{name}\""));
        }
        *entry = whole;
    }
    lines.extend(inner.map(|inner| format!("[{list}.{inner}]")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_inside_an_entry_stay_inside() {
        let setting =
            |key: &str, value: &str| Setting { key: key.to_string(), value: value.to_string(), origin: None };
        let settings = [
            setting("period_ms", "10.0"),
            setting("sensor.a.unit", "\"m\""),
            setting("sensor.a.input.low", "1.0"),
            setting("sensor.b.unit", "\"V\""),
            setting("start.0.motor", "\"left\""),
        ];
        let text: Vec<String> = lines(&settings)
            .iter()
            .map(|line| line.split(" #").next().unwrap().trim_end().to_string())
            .collect();
        let wanted = [
            "period_ms = 10.0",
            "",
            "[[sensor]]",
            "name = \"a\"",
            "unit = \"m\"",
            "",
            "[sensor.input]",
            "low = 1.0",
            "",
            "[[sensor]]",
            "name = \"b\"",
            "unit = \"V\"",
            "",
            "[[start]]",
            "motor = \"left\"",
        ];
        assert_eq!(text, wanted);
    }
}
