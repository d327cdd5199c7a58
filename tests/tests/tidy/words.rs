//! Tests of wording: first words of doc comments, forbidden words, one meaning per type name.

use super::source::{Place, Source};
use std::collections::{BTreeMap, BTreeSet};

/// First words of a doc comment that make a relative clause, or an answer without its question. A
/// noun phrase, a verb in the third person or *whether* says the same at first reading.
const POOR_BEGINNINGS: [&str; 26] = [
    "As",
    "By",
    "For",
    "How",
    "It",
    "Nobody",
    "Not",
    "Nothing",
    "Of",
    "So",
    "Somebody",
    "Something",
    "That",
    "There",
    "These",
    "Those",
    "What",
    "Whatever",
    "When",
    "Where",
    "Which",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
];

/// Names of types and modules that the field has a word for, which is the second of each pair.
const PRIVATE_NAMES: [(&str, &str); 19] = [
    ("applicant", "join request"),
    ("answerer", "responder"),
    ("brake", "straggler"),
    ("courtesy", "low-priority rate control"),
    ("crew", "pool"),
    ("crowding", "back-pressure"),
    ("doorbell", "wake-up socket"),
    ("giver", "upstream peer"),
    ("hall", "registry"),
    ("hearer", "receiver"),
    ("ledger", "hash list"),
    ("lookout", "watchdog"),
    ("parcel", "framed message"),
    ("rival", "competitor"),
    ("seating", "rank map"),
    ("stranger", "non-member"),
    ("teller", "notifier"),
    ("usher", "admission hook"),
    ("wishes", "timer requests"),
];

/// Words that prose does not use, each with the field's word or a plainer one.
const PRIVATE_WORDS: [(&str, &str); 37] = [
    ("applicant", "join request"),
    ("are said", "name who reports it"),
    ("are to be", "must, or should"),
    ("brake", "straggler"),
    ("can be had", "is available"),
    ("courtesy", "low-priority rate control"),
    ("crew", "thread pool"),
    ("doorbell", "wake-up socket"),
    ("farewell", "abort notification"),
    ("gave way", "reduced its rate"),
    ("give way", "reduce its rate"),
    ("gives way", "reduces its rate"),
    ("giving way", "reducing its rate"),
    ("giver", "upstream peer"),
    ("goes quiet", "quiesces"),
    ("hall", "registry"),
    ("hears of", "is notified of"),
    ("holdings", "have-set"),
    ("is said", "name who reports it"),
    ("is to be", "must, or should"),
    ("knee", "policer threshold"),
    ("last words", "abort notification"),
    ("lookout", "watchdog"),
    ("parcel", "framed message, or group of blocks"),
    ("planted bug", "seeded fault"),
    ("rhythm", "interval"),
    ("rival", "competing sender"),
    ("seat", "local port id"),
    ("side stream", "catch-up stream"),
    ("so long", "name the time"),
    ("so many", "name the number"),
    ("so much", "name the amount"),
    ("stranger", "non-member"),
    ("taught", "configured"),
    ("told", "notified, or configured"),
    ("usher", "admission hook"),
    ("whoever", "name the host or the process"),
];

/// Most type names of a crate that may stand for several types, in per cent.
const AMBIGUOUS_PER_CENT: usize = 3;

/// Most columns of a line of prose in Markdown.
const PROSE_COLUMNS: usize = 100;

/// Returns the places where a doc comment begins with a poor word.
pub fn poor_beginnings(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = None;
    for (index, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!"]
            .into_iter()
            .find(|mark| line.starts_with(mark) && !line.starts_with("////"));
        if let Some(mark) = mark.filter(|_| before != mark) {
            let word = first_word(&line[mark.len()..]);
            if POOR_BEGINNINGS.contains(&word) {
                let place = Place {
                    source,
                    line: index + 1,
                };
                found.push(place.says(&format!(
                    "a doc comment begins with \"{word}\": a noun, a verb or \"Whether\""
                )));
            }
        }
        before = mark;
    }
    found
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '`', '*', '[', '(']);
    text.split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// Returns the type that a line of code declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty());
    let is_modifier = |word: &&str| matches!(*word, "pub" | "crate" | "super" | "self" | "unsafe");
    let kind = words.find(|word| !is_modifier(word) && !word.starts_with("in"))?;
    matches!(kind, "struct" | "enum" | "trait" | "union")
        .then(|| words.next())
        .flatten()
}

/// Returns the declarations whose names are private words.
pub fn private_names(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let parts = |name: &str| name.to_lowercase().replace('_', "");
    let module = source
        .path
        .rsplit('/')
        .next()
        .and_then(|file| file.strip_suffix(".rs"))
        .unwrap_or_default();
    let types = source
        .code()
        .filter_map(|(place, line)| declared_type(line).map(|name| (place.line, name.to_owned())));
    for (line, name) in [(1, module.to_owned())].into_iter().chain(types) {
        let is_named = |word: &str| parts(&name) == word || parts(&name) == format!("{word}s");
        if let Some((_, better)) = PRIVATE_NAMES
            .iter()
            .find(|(word, _)| is_named(&parts(word)))
        {
            found.push(Place { source, line }.says(&format!("`{name}`: the field says {better}")));
        }
    }
    found
}

/// Returns the lines of a comment or a Markdown page without code; other lines are empty.
fn prose(source: &Source) -> Vec<String> {
    let is_code = source.path.ends_with(".rs");
    let mut is_fenced = false;
    let mut found = Vec::new();
    for line in source.text.lines() {
        let line = line.trim_start();
        let is_comment = line.starts_with("//");
        let text = if is_code {
            line.trim_start_matches('/')
                .trim_start_matches('!')
                .trim_start()
        } else {
            line
        };
        is_fenced = (is_fenced ^ text.starts_with("```")) && (is_comment || !is_code);
        let is_prose = !is_fenced && (is_comment || !is_code) && !text.starts_with("```");
        // Every second part between back quotes is code.
        found.push(if is_prose {
            text.split('`').step_by(2).collect()
        } else {
            String::new()
        });
    }
    found
}

/// Whether `text` has `word` or its plural, as a word of its own that begins before byte `end`.
fn has_word(text: &str, word: &str, end: usize) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .take_while(|(at, _)| *at < end)
        .any(|(at, _)| {
            let behind = &text[at + word.len()..];
            let behind = behind.strip_prefix('s').unwrap_or(behind);
            !text[..at].ends_with(is_letter) && !behind.starts_with(is_letter)
        })
}

/// Returns the places in comments and Markdown where a private word is used.
pub fn private_words(source: &Source) -> Vec<String> {
    let lines: Vec<String> = prose(source)
        .iter()
        .map(|line| line.to_lowercase())
        .collect();
    let mut found = Vec::new();
    for (index, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        // A phrase may go on in the next line.
        let text = format!("{line} {}", lines.get(index + 1).map_or("", String::as_str));
        for (word, better) in PRIVATE_WORDS
            .iter()
            .filter(|(word, _)| has_word(&text, word, line.len()))
        {
            found.push(
                Place {
                    source,
                    line: index + 1,
                }
                .says(&format!("\"{word}\" in prose: {better}")),
            );
        }
    }
    found
}

/// Returns what is wrong with the names of a crate's types: too many of them stand for several
/// types.
pub fn ambiguous_types(name: &str, sources: &[&Source]) -> Option<String> {
    let mut declared: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        for (_, line) in source.code().filter(|(_, line)| !line.starts_with(' ')) {
            if let Some(name) = declared_type(line) {
                declared
                    .entry(name.to_owned())
                    .or_default()
                    .insert(&source.path);
            }
        }
    }
    let several: Vec<_> = declared
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .collect();
    let is_too_much = several.len() * 100 > declared.len() * AMBIGUOUS_PER_CENT;
    is_too_much.then(|| {
        format!(
            "{name}: {} of {} type names mean several: {several:?}",
            several.len(),
            declared.len()
        )
    })
}

/// Returns the lines of prose of a Markdown file that are too long.
pub fn too_wide_prose(source: &Source) -> Vec<String> {
    let (mut found, mut is_fenced) = (Vec::new(), false);
    for (index, line) in source.text.lines().enumerate() {
        let begins = line.trim_start();
        is_fenced ^= begins.starts_with("```");
        let columns = line.chars().count();
        // Tables cannot be wrapped, nor can links and code that are one word.
        let is_free =
            is_fenced || begins.starts_with(['|', '`', '<', '#']) || !begins.contains(' ');
        if !is_free && columns > PROSE_COLUMNS {
            let place = Place {
                source,
                line: index + 1,
            };
            found.push(place.says(&format!(
                "{columns} columns of prose, at most {PROSE_COLUMNS}"
            )));
        }
    }
    found
}

#[test]
fn the_rules_of_words_tell_good_from_poor() {
    assert_eq!(first_word(" `What` is"), "What");
    assert_eq!(first_word(" Returns it"), "Returns");
    assert!(has_word("two seats.", "seat", 9) && has_word("is to be", "is to be", 1));
    assert!(
        !has_word("seated", "seat", 6)
            && !has_word("a `x` unseat", "seat", 12)
            && !has_word("a hall", "hall", 2)
    );
    for (line, name) in [
        ("pub(crate) struct Entry {", Some("Entry")),
        ("enum Fate {", Some("Fate")),
        ("pub unsafe trait Raw {}", Some("Raw")),
        ("fn structure() {", None),
        ("let trait_object = 4;", None),
    ] {
        assert_eq!(declared_type(line), name, "{line}");
    }
}
