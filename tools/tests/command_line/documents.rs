//! Commands, options and links in the documents exist in the program.

use super::ended_here;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tree").to_owned()
}

fn pages() -> BTreeMap<String, String> {
    let texts = ["docs", "docs/protocol"].into_iter().flat_map(pages_in).chain(["README.md".into()]);
    texts.map(|page| (fs::read_to_string(root().join(&page)).expect("readable"), page)).map(|(a, b)| (b, a)).collect()
}

/// The paths of a folder's pages, in the tree.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("there are documents");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")).collect()
}

fn shell_lines(page: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(_), Some(_)) => fence = None,
            (Some(language), None) => fence = Some(language),
            (None, Some("sh")) => lines.push(line),
            (None, _) => {}
        }
    }
    lines
}

/// Returns the calls of the program in a line, each with its arguments: `lab exec n0 -- ethbcast
/// send …` contains two.
fn calls(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().expect("there is a first");
    let mut calls: Vec<Vec<String>> = Vec::new();
    let (mut is_open, mut before) = (false, "");
    for word in line.split_whitespace() {
        let word = word.trim_matches(['\'', '"', '(', ')']);
        match word {
            // `command -v ethbcast` is not a call.
            "ethbcast" if before != "-v" => {
                calls.push(Vec::new());
                is_open = true;
            }
            "|" | "&&" | "||" | "&" | ";" | "--" => is_open = false,
            _ if is_open => calls.last_mut().expect("one is open").push(word.to_owned()),
            _ => {}
        }
        before = word;
    }
    calls
}

/// Returns the long help of a command, such as `send` or `lab up`.
fn help(words: &[String]) -> String {
    let commands = words.iter().map(String::as_str).take_while(|word| !word.starts_with('-'));
    let (mut arguments, mut help) = (Vec::new(), String::new());
    for command in commands.take(2) {
        arguments.push(command);
        let ended = ended_here(&[&arguments[..], &["--help"]].concat());
        // The second word may be an argument of the first.
        if ended.code() == 0 {
            help = ended.stdout_text().to_owned();
        }
    }
    help
}

/// Returns the options among the words: `--rate` for `--rate=4m`, `-n`.
fn options(words: &[String]) -> impl Iterator<Item = &str> {
    let options = words.iter().filter(|word| word.len() > 1 && word.starts_with('-'));
    options.map(|word| word.split('=').next().expect("there is a first"))
}

#[test]
fn every_command_and_option_that_a_document_shows_is_in_the_help() {
    let mut seen = BTreeSet::new();
    for (page, text) in pages() {
        for line in shell_lines(&text) {
            for words in calls(line).iter().filter(|words| !words.is_empty()) {
                let help = help(words);
                assert!(words[0].starts_with('-') || !help.is_empty(), "{page}: no command `{}`: {line}", words[0]);
                let known: BTreeSet<_> = help.split(|letter: char| !is_of_option(letter)).collect();
                for option in options(words).filter(|_| !words[0].starts_with('-')) {
                    assert!(known.contains(option), "{page}: `{}` has no {option}: {line}", words[0]);
                    seen.insert(format!("{} {option}", words[0]));
                }
            }
        }
    }
    assert!(seen.len() >= 35 && seen.contains("send --rate"), "the documents show commands: {seen:?}");
}

fn is_of_option(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

#[test]
fn every_link_of_a_document_leads_somewhere_and_the_book_has_every_page() {
    let pages = pages();
    for (page, text) in &pages {
        let directory = root().join(page).parent().expect("in a directory").to_owned();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.contains(' ')) {
            let file = link.split('#').next().expect("there is a first");
            assert!(file.is_empty() || directory.join(file).exists(), "{page} links to {link}, which is not there");
        }
    }
    let summary = &pages["docs/SUMMARY.md"];
    for page in pages.keys().filter_map(|page| page.strip_prefix("docs/")).filter(|page| *page != "SUMMARY.md") {
        assert!(summary.contains(&format!("]({page})")), "docs/SUMMARY.md does not name {page}");
    }
}

#[test]
fn every_page_opens_with_one_sentence_on_its_readers() {
    for (page, text) in pages() {
        if page == "README.md" || page == "docs/SUMMARY.md" {
            continue;
        }
        let first = text.split("\n\n").nth(1).unwrap_or_default();
        let is_sentence = first.ends_with('.') && !first.trim_end_matches('.').contains(". ");
        let kind = ["page", "chapter", "specification"]
            .into_iter()
            .find(|kind| first.starts_with(&format!("This {kind} is for ")));
        assert!(kind.is_some() && is_sentence, "{page} opens with: {first}");
    }
}
