//! `ethbcast explain`: every code is explained, and every code in the sources exists.

use super::ended_here as run;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn codes() -> BTreeSet<String> {
    let listed = run(&["explain"]);
    listed.assert_code(0);
    listed.stdout_text().lines().map(|line| line.split_whitespace().next().expect("a code").to_owned()).collect()
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
        assert!(["\nwhy   ", "\nhelp  "].iter().all(|part| text.contains(part)), "{text}");
    }
    run(&["explain", "E-NONE"]).assert_refusal(2, &["there is no code E-NONE", "`ethbcast explain` lists them"]);
    assert!(!run(&["explain", "E-NONE"]).stderr.contains("E-MTU"), "the list is a command of its own");
}

#[test]
fn every_code_that_a_document_or_a_test_names_is_explained() {
    let (codes, root) = (codes(), Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tree"));
    let mut named = BTreeSet::new();
    let pages = ["docs", "tools/src/doctor", "tools/tests/lab_program/refusals"].map(|name| files(&root.join(name)));
    let others = ["README.md", "CHANGELOG.md", "tools/tests/lab_doctor/main.rs"].map(|name| root.join(name));
    for page in pages.into_iter().flatten().chain(others) {
        let Ok(text) = fs::read_to_string(&page) else { continue };
        let is_part = |character: char| character.is_ascii_uppercase() || character == '-';
        for word in text.split(|character| !is_part(character)) {
            let word = word.trim_end_matches('-');
            if word.starts_with("E-") && word.len() > 3 {
                assert!(codes.contains(word), "{} names {word}, which is not explained", page.display());
                named.insert(word.to_owned());
            }
        }
    }
    assert_eq!(named, codes, "in docs/troubleshooting.md every code has its place");
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect()
}
