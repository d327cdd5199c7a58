//! Expected instruction counts of the cost tests, and the compilers to which each applies.

use crate::callgrind::{self, Counts};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const HEADING: &str = "\
Instructions for each frame of a stream, by the part of the engine they are in, of single hosts of simulated broadcasts
after their start: of the tests' build, without the copies of the C library and without checksums. `library` is what
stands by itself of the standard library. Allocations are all there were, in all frames together.

Within 5 % this binds the build named here; any other may take twice as many in all. Allocations bind all.
";
const BUILD: &str = "build: ";
/// Allowed deviation from the accepted figure: in percent, and in instructions for small figures.
const TOLERANCE: (u64, u64) = (5, 4);
/// Factor that another build may exceed a figure by.
const OTHER_BUILD: u64 = 2;
const ACCEPT: &str = "CARGO_INCREMENTAL=0 ETHBCAST_ACCEPT=1 cargo test --workspace --test lab_costs";

fn build() -> String {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(compiler).arg("-vV").output().expect("the compiler that has made this is still there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("?").trim();
    let version = said.lines().next().unwrap_or("?");
    let assertions = if cfg!(debug_assertions) { "with" } else { "without" };
    let wide = if cfg!(target_feature = "avx") { ", for this processor" } else { "" };
    // Incremental compilation splits code into more units and inlines less of it.
    let units = if option_env!("CARGO_INCREMENTAL") == Some("0") { "at once" } else { "by increments" };
    let (llvm, counter) = (word("LLVM version:"), callgrind::version());
    let arch = std::env::consts::ARCH;
    format!("{version}, LLVM {llvm}, {arch}, {units}, {assertions} debug assertions{wide}, {counter}")
}

type Rows = BTreeMap<String, Vec<u64>>;

fn figures(counts: &Counts, frames: u64) -> Vec<u64> {
    let parts: Vec<u64> = callgrind::parts().map(|part| counts.instructions(part)).collect();
    let all = parts.iter().sum();
    let each = [all].into_iter().chain(parts).map(|count: u64| (count + frames / 2) / frames);
    each.chain([counts.allocations()]).collect()
}

fn columns() -> Vec<&'static str> {
    ["all"].into_iter().chain(callgrind::parts()).chain(["allocations"]).collect()
}

fn text(build: &str, rows: &[(String, Vec<u64>)]) -> String {
    let mut text = format!("{HEADING}\n{BUILD}{build}\n\n{:<48}", "");
    columns().iter().for_each(|column| write!(text, " {column:>7}").expect("text"));
    for (name, figures) in rows {
        write!(text, "\n{name:<48}").expect("text");
        figures.iter().for_each(|figure| write!(text, " {figure:>7}").expect("text"));
    }
    text + "\n"
}

fn rows(text: &str) -> Rows {
    let table = text.lines().skip_while(|line| !line.starts_with(BUILD)).skip(3);
    let row = |line: &str| {
        let (name, figures) = line.split_at_checked(48)?;
        Some((name.trim().to_string(), figures.split_whitespace().map_while(|figure| figure.parse().ok()).collect()))
    };
    table.filter_map(row).collect()
}

pub fn compare(path: &Path, counted: &[(String, Counts)], frames: u64) {
    let now: Vec<_> = counted.iter().map(|(name, counts)| (name.clone(), figures(counts, frames))).collect();
    let (build, allocations) = (build(), columns().len() - 1);
    let now_text = text(&build, &now);
    if std::env::var_os("ETHBCAST_ACCEPT").is_some() {
        fs::write(path, now_text).expect("the snapshot can be written");
        return;
    }
    let accepted = fs::read_to_string(path).unwrap_or_default();
    let is_same = accepted.lines().any(|line| line.strip_prefix(BUILD) == Some(&build));
    if !is_same {
        // Not by a macro, whose output the test harness captures.
        let said = format!(
            "INSTRUCTIONS ARE NOT COMPARED WITHIN {} %: {} is of another build than this one, {build}.\n\
             Where this is the one that everybody uses now, accept its figures: {ACCEPT}\n{now_text}",
            TOLERANCE.0,
            path.display()
        );
        std::io::stderr().write_all(said.as_bytes()).expect("somebody hears it");
    }
    let kept = rows(&accepted);
    assert_eq!(kept.len(), now.len(), "{} has other rows. If that is right, accept it: {ACCEPT}", path.display());
    let mut wrong = String::new();
    for (name, figures) in &now {
        let none = Vec::new();
        let kept = kept.get(name).unwrap_or(&none);
        for (at, &column) in columns().iter().enumerate() {
            let (figure, kept) = (figures[at], kept.get(at).copied());
            let fits = kept.is_some_and(|kept| match at {
                _ if at == allocations => figure == kept,
                _ if is_same => figure.abs_diff(kept) <= (kept * TOLERANCE.0 / 100).max(TOLERANCE.1),
                0 => figure <= OTHER_BUILD * kept,
                _ => true,
            });
            if !fits {
                writeln!(wrong, "{name}: {column} {figure}, accepted {kept:?}").expect("text");
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{wrong}If that is right, accept it: {ACCEPT}", path.display());
}
