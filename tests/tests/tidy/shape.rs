//! Limits on files, functions and lines, and the form of fields that are visible outside their
//! type.

use super::source::{Place, Source};

/// Maximum lines of a file: a longer one holds two concepts.
const FILE_LINES: usize = 600;
/// Maximum lines of a function: one screen.
const FUNCTION_LINES: usize = 60;
/// Maximum columns of a line.
const COLUMNS: usize = 120;

/// Whether a line of code declares a field that a part of the crate wider than a folder may access.
pub fn opens_a_field(line: &str) -> bool {
    let named = |rest: &str| {
        let name = rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
        name.len() < rest.len() && name.starts_with(':') && !name.starts_with("::")
    };
    let line = &line.replace("pub(super) ", "");
    let in_tuple = line.contains("struct ") && (line.contains("(pub(") || line.contains(", pub("));
    let restricted = line.trim_start().strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
    in_tuple || restricted.is_some_and(|(_, rest)| named(rest))
}

pub fn too_long_a_file(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > FILE_LINES).then(|| format!("{}:1: {lines} lines, at most {FILE_LINES}", source.path))
}

pub fn too_long_lines(source: &Source) -> impl Iterator<Item = String> {
    source.text.lines().enumerate().filter_map(|(index, line)| {
        let columns = line.chars().count();
        let place = Place { source, line: index + 1 };
        (columns > COLUMNS).then(|| place.says(&format!("{columns} columns, at most {COLUMNS}")))
    })
}

/// Returns the functions that are too long, from `fn` to the brace in that column, as rustfmt
/// writes it.
pub fn too_long_functions(source: &Source) -> Vec<String> {
    let lines: Vec<(Place<'_>, &str)> = source.code().collect();
    let mut found = Vec::new();
    for (index, (place, line)) in lines.iter().enumerate() {
        if !begins_function(line) || line.trim_end().ends_with([';', '}']) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let in_column = |line: &str, mark: char| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(mark));
        let is_end = |line: &&str| in_column(line, '}') || in_column(line, ')') && line.trim_end().ends_with(';');
        let length = lines[index + 1..].iter().position(|(_, line)| is_end(line)).map_or(0, |further| further + 2);
        if length > FUNCTION_LINES {
            found.push(place.says(&format!("a function of {length} lines, at most {FUNCTION_LINES}")));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let words = line.split_whitespace().take_while(|word| *word != "fn");
    let is_modifier = |word: &str| {
        word.starts_with("pub") || matches!(word, "const" | "async" | "unsafe" | "extern") || word.ends_with(')')
    };
    line.split_whitespace().any(|word| word == "fn") && words.into_iter().all(is_modifier)
}

#[test]
fn the_rules_tell_fields_and_functions_from_what_looks_like_them() {
    for field in ["    pub(crate) slots: usize,", "pub(in crate::a) x: u8,", "pub(crate) struct Rank(pub(crate) u16);"]
    {
        assert!(opens_a_field(field), "{field}");
    }
    for other in [
        "    pub(super) const MOST: usize = 4;",
        "pub(crate) fn x(a: u8) {",
        "    pub(super) mod a;",
        "    pub slots: usize,",
        "    pub(super) slots: usize,",
        "pub(crate) struct Rank(pub(super) u16);",
    ] {
        assert!(!opens_a_field(other), "{other}");
    }
    assert!(begins_function("    pub(in crate::a) const fn f(") && begins_function("fn main() {"));
    assert!(!begins_function("    let f: fn() = main;") && !begins_function("// no fn here"));
}
