//! Tests that the documents agree with the program: commands, options, links and codes.

use super::{ended_here, ended_here as run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tree")
        .to_owned()
}

fn pages() -> BTreeMap<String, String> {
    let texts = ["docs", "docs/protocol"]
        .into_iter()
        .flat_map(pages_in)
        .chain(["README.md".into()]);
    texts
        .map(|page| {
            (
                fs::read_to_string(root().join(&page)).expect("readable"),
                page,
            )
        })
        .map(|(a, b)| (b, a))
        .collect()
}

/// The paths of a folder's pages, in the tree.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("there are documents");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8")
    });
    names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("{folder}/{name}"))
        .collect()
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
    let commands = words
        .iter()
        .map(String::as_str)
        .take_while(|word| !word.starts_with('-'));
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
    let options = words
        .iter()
        .filter(|word| word.len() > 1 && word.starts_with('-'));
    options.map(|word| word.split('=').next().expect("there is a first"))
}

#[test]
fn every_command_and_option_that_a_document_shows_is_in_the_help() {
    let mut seen = BTreeSet::new();
    for (page, text) in pages() {
        for line in shell_lines(&text) {
            for words in calls(line).iter().filter(|words| !words.is_empty()) {
                let help = help(words);
                assert!(
                    words[0].starts_with('-') || !help.is_empty(),
                    "{page}: no command `{}`: {line}",
                    words[0]
                );
                let known: BTreeSet<_> = help.split(|letter: char| !is_of_option(letter)).collect();
                for option in options(words).filter(|_| !words[0].starts_with('-')) {
                    assert!(
                        known.contains(option),
                        "{page}: `{}` has no {option}: {line}",
                        words[0]
                    );
                    seen.insert(format!("{} {option}", words[0]));
                }
            }
        }
    }
    assert!(
        seen.len() >= 35 && seen.contains("send --rate"),
        "the documents show commands: {seen:?}"
    );
}

fn is_of_option(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

#[test]
fn every_link_of_a_document_leads_somewhere_and_the_book_has_every_page() {
    let pages = pages();
    for (page, text) in &pages {
        let directory = root()
            .join(page)
            .parent()
            .expect("in a directory")
            .to_owned();
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.contains(' ')) {
            let file = link.split('#').next().expect("there is a first");
            assert!(
                file.is_empty() || directory.join(file).exists(),
                "{page} links to {link}, which is not there"
            );
        }
    }
    let summary = &pages["docs/SUMMARY.md"];
    for page in pages
        .keys()
        .filter_map(|page| page.strip_prefix("docs/"))
        .filter(|page| *page != "SUMMARY.md")
    {
        assert!(
            summary.contains(&format!("]({page})")),
            "docs/SUMMARY.md does not name {page}"
        );
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

fn codes() -> BTreeSet<String> {
    let listed = run(&["explain"]);
    listed.assert_code(0);
    listed
        .stdout_text()
        .lines()
        .map(|line| line.split_whitespace().next().expect("a code").to_owned())
        .collect()
}

#[test]
fn every_code_is_explained_and_no_other() {
    let codes = codes();
    assert!(codes.len() >= 20 && codes.contains("E-MTU"), "{codes:?}");
    for code in &codes {
        let explained = run(&["explain", &code.to_lowercase()]);
        explained.assert_code(0);
        let text = explained.stdout_text();
        assert!(text.starts_with(&format!("{code}: ")), "{text}");
        assert!(
            ["\nwhy   ", "\nhelp  "]
                .iter()
                .all(|part| text.contains(part)),
            "{text}"
        );
    }
    assert!(
        !run(&["explain", "E-NONE"]).stderr.contains("E-MTU"),
        "the list is a command of its own"
    );
}

#[test]
fn every_code_that_a_document_or_a_test_names_is_explained() {
    let (codes, root) = (
        codes(),
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("the tree"),
    );
    let mut named = BTreeSet::new();
    let pages = [
        "docs",
        "tools/src/doctor",
        "tools/tests/lab_program/refusals",
    ]
    .map(|name| files(&root.join(name)));
    let others =
        ["README.md", "CHANGELOG.md", "tools/tests/lab_doctor.rs"].map(|name| root.join(name));
    for page in pages.into_iter().flatten().chain(others) {
        let Ok(text) = fs::read_to_string(&page) else {
            continue;
        };
        let is_part = |character: char| character.is_ascii_uppercase() || character == '-';
        for word in text.split(|character| !is_part(character)) {
            let word = word.trim_end_matches('-');
            if word.starts_with("E-") && word.len() > 3 {
                assert!(
                    codes.contains(word),
                    "{} names {word}, which is not explained",
                    page.display()
                );
                named.insert(word.to_owned());
            }
        }
    }
    assert_eq!(
        named, codes,
        "in docs/troubleshooting.md every code has its place"
    );
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect()
}

/// Returns the long long_options at the beginning of a help text's lines.
fn long_options(help: &str) -> BTreeSet<String> {
    let begins = |line: &str| {
        line.trim_start()
            .starts_with('-')
            .then(|| line.trim_start().to_owned())
    };
    let name = |line: String| {
        let from = line.find("--")? + 2;
        Some(
            line[from..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '-')
                .collect(),
        )
    };
    help.lines().filter_map(begins).filter_map(name).collect()
}

/// Returns a page's text without escapes and fonts.
fn text(page: &Path) -> String {
    let page =
        std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    page.replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fI", "")
        .replace("\\fR", "")
}

#[test]
fn every_command_has_a_page_that_names_each_of_its_options() {
    let out = tempfile::tempdir().expect("a directory");
    let ended = ended_here(&["man", "--out", &out.path().join("new").to_string_lossy()]);
    ended.assert_code(0);
    assert!(
        ended.stdout_text().contains("man -l "),
        "{}",
        ended.stdout_text()
    );
    let commands = "send recv topo-show topo-import topo-check plan probe simulate perf bench dump doctor \
                    explain lab-up lab-exec lab-each lab-down lab-list lab-demo man completions config-check \
                    cp hosts";
    for command in commands.split(' ') {
        let page = text(&out.path().join(format!("new/ethbcast-{command}.8")));
        let help = ended_here(&[&command.split('-').collect::<Vec<_>>()[..], &["--help"]].concat());
        help.assert_code(0);
        for option in long_options(&help.stdout_text()) {
            assert!(
                page.contains(&format!("--{option}")),
                "ethbcast-{command}.8 says nothing of --{option}"
            );
        }
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXIT STATUS",
            "ENVIRONMENT",
            "FILES",
            "SEE ALSO",
        ] {
            assert!(
                page.contains(section),
                "ethbcast-{command}.8 has no section {section}"
            );
        }
        if ["send", "recv", "relay", "cp", "probe", "perf"].contains(&command) {
            let (_, examples) = page
                .split_once("EXAMPLES")
                .unwrap_or_else(|| panic!("{command} has no examples"));
            assert!(
                examples.contains(&format!("\nethbcast {command} ")),
                "{examples}"
            );
        }
    }
    let send = text(&out.path().join("new/ethbcast-send.8"));
    // Parts that the short help leaves out, and the synopsis.
    for part in [
        "Tolerate a slow receiver",
        "WHEN SOMETHING GOES WRONG",
        "[OPTIONS] [SOURCE]...",
    ] {
        assert!(send.contains(part), "ethbcast-send.8 does not say {part:?}");
    }
    assert!(text(&out.path().join("new/ethbcast.8")).contains("ethbcast-send(8)"));
    assert!(text(&out.path().join("new/ethbcast-topology.5")).contains("injection_ns"));
    assert!(
        !out.path().join("new/ethbcast-watch.8").exists(),
        "what nobody is to call has no page"
    );
}

#[test]
fn the_examples_of_the_pages_on_files_have_nothing_wrong() {
    let out = tempfile::tempdir().expect("a directory");
    ended_here(&["man", "--out", &out.path().to_string_lossy()]).assert_code(0);
    // The topology's leaves switches out.
    let rest = ["s1", "s2", "s3"]
        .map(|name| format!("[[switch]]\nname = \"{name}\"\nhosts = \"{name}h\"\n"));
    let rest = rest.concat() + "[[switch]]\nname = \"s4\"\nlinks = [\"s3\", \"s1\"]\n";
    for (page, command, rest) in [
        ("ethbcast-topology.5", "topo", rest),
        ("ethbcast.toml.5", "config", String::new()),
    ] {
        let page = text(&out.path().join(page));
        let (_, example) = page.split_once(".EX\n").expect("an example");
        let (example, _) = example.split_once(".EE").expect("its end");
        let file = out.path().join("example.toml");
        fs::write(&file, format!("{example}\n{rest}")).expect("written");
        ended_here(&[command, "check", &file.to_string_lossy()]).assert_code(0);
    }
}

#[test]
fn completions_have_the_commands_and_an_unknown_shell_is_refused_with_the_known_ones() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = ended_here(&["completions", shell]);
        ended.assert_code(0);
        for word in ["send", "recv", "min-receivers", "doctor", "explain"] {
            assert!(
                ended.stdout_text().contains(word),
                "{shell} is not told of {word}"
            );
        }
    }
    let ended = ended_here(&["completions", "tcsh"]);
    ended.assert_code(2);
    assert!(
        ended.stderr.contains("bash") && ended.stderr.contains("fish"),
        "{}",
        ended.stderr
    );
}
