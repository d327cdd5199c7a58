//! Checks that some planted bugs are found, and that `mutants` lists every one.

use ethbcast_tests::mutants::BUGS;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Bugs that a few schedules find: hunting all of them takes too long for CI.
const SOME: [&str; 5] = [
    "timer-not-rearmed",
    "stamps-compared-the-wrong-way",
    "visible-before-the-verdict",
    "report-said-once",
    "cursor-believed",
];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests stand in the workspace")
}

fn planted_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("there are sources") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            planted_below(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let names = text.split("planted!(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(names.map(str::to_owned));
    }
}

#[test]
fn every_planted_bug_has_one_place_and_one_line_in_the_list() {
    let mut found = Vec::new();
    ["transport/src", "collectives/src"].iter().for_each(|crate_| planted_below(&workspace().join(crate_), &mut found));
    let named: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    let placed: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(placed, named);
    assert_eq!((found.len(), BUGS.len()), (named.len(), named.len()), "a name stands for one bug");
    assert!(BUGS.len() >= 30 && BUGS.iter().all(|bug| !bug.what.is_empty()));
}

#[test]
fn some_of_them_are_found() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutants"));
    let output = command.args(SOME).args(["--schedules", "500"]).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
