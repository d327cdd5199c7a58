//! Tests with valid and invalid node sets, as Slurm and ClusterShell spell them.

use super::*;

fn names(text: &str) -> Vec<String> {
    expand(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    expand(text).expect_err(text).to_string()
}

#[test]
fn the_spellings_of_slurm_and_clustershell() {
    assert_eq!(names("login"), ["login"]);
    assert_eq!(names("n[0-3]"), ["n0", "n1", "n2", "n3"]);
    assert_eq!(names("n[0-1,5,8-9]"), ["n0", "n1", "n5", "n8", "n9"]);
    assert_eq!(names("n[08-11]"), ["n08", "n09", "n10", "n11"]);
    assert_eq!(names("n[08-11,3]x"), ["n08x", "n09x", "n10x", "n11x", "n3x"]);
    assert_eq!(names("n[001-2]"), ["n001", "n002"]);
    assert_eq!(names("n[0-8/4]"), ["n0", "n4", "n8"]);
    assert_eq!(names(" n1 ,  n3,n2 "), ["n1", "n3", "n2"]);
    assert_eq!(names("n1 n[2-3]\n"), ["n1", "n2", "n3"]);
    assert_eq!(names("pc@02:eb:00:00:00:0a, n[1-2]@x"), ["pc@02:eb:00:00:00:0a", "n1@x", "n2@x"]);
    assert_eq!(names("10.0.0.[1-2]"), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(names("n[18446744073709551614-18446744073709551615]").len(), 2);
}

#[test]
fn several_brackets_vary_the_leftmost_slowest() {
    assert_eq!(names("r[1-2]n[01-02],login"), ["r1n01", "r1n02", "r2n01", "r2n02", "login"]);
    assert_eq!(names("rack[1-2]n[01-08],login").len(), 17);
}

#[test]
fn brackets_inside_brackets() {
    assert_eq!(names("n[1[0-2],7]"), ["n10", "n11", "n12", "n7"]);
    assert_eq!(names("n[0-1[0-1]]"), ["n00", "n01", "n10", "n11"]);
    assert_eq!(names("n[[[4]]]"), ["n4"]);
}

#[test]
fn errors_name_the_character_and_what_was_expected() {
    let cases = [
        ("", "node set, character 1: expected a host name such as n[0-7], found the end"),
        ("n1,", "node set, character 4: expected a host name such as n[0-7], found the end"),
        ("n1,,n2", "node set, character 4: expected a host name such as n[0-7], found `,`"),
        ("n1;n2", "node set, character 3: expected `,`, `[` or the rest of a host name, found `;`"),
        ("n]", "node set, character 2: expected `,`, `[` or the rest of a host name, found `]`"),
        ("n[0-7]!n3", "node set, character 7: expected `,`, `[` or the rest of a host name, found `!`"),
        ("@all", "node set, character 1: expected a host name such as n[0-7], found `@`"),
        ("é[", "node set, character 3: expected a number in a bracket, found the end"),
        ("n[]", "node set, character 3: expected a number in a bracket, found `]`"),
        ("n[1,]", "node set, character 5: expected a number in a bracket, found `]`"),
        ("n[a-b]", "node set, character 3: expected a number in a bracket, found `a`"),
        ("n[0-7", "node set, character 6: expected `-`, `,` or `]` after a number in a bracket, found the end"),
        ("n[0-7a]", "node set, character 6: expected `-`, `,` or `]` after a number in a bracket, found `a`"),
        ("n[0-]", "node set, character 5: expected the last number of the range, found `]`"),
        ("n[0-8/]", "node set, character 7: expected the step of the range, found `]`"),
        ("n[0-8/0]", "node set, character 7: a step of 0 never ends; use a step of 1 or more"),
        ("n[7-0]", "node set, character 3: the range 7-0 runs backwards; write 0-7"),
        (
            "n[1-010]",
            "node set, character 3: the range 1-010 pads its ends differently; give both ends the same number of \
             digits",
        ),
        (
            "n[99999999999999999999]",
            "node set, character 3: the number 99999999999999999999 is too large; use at most 19 digits in a bracket",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refusal(text), message, "{text}");
    }
}

#[test]
fn expansion_beyond_the_limit_is_refused_by_arithmetic() {
    assert_eq!(names("n[1-1048576]").len(), MAX_HOSTS);
    let too_many = "the set names more than 1048576 hosts; check the ranges";
    assert_eq!(refusal("a,n[1-1048576]"), format!("node set, character 3: {too_many}"));
    // 10^19 × 10^19 names: only a refusal before the first allocation returns at all.
    let huge = "n[0-9999999999999999999][0-9999999999999999999]";
    assert_eq!(refusal(huge), format!("node set, character 1: {too_many}"));
    assert_eq!(refusal("n[0-18446744073709551615]"), format!("node set, character 1: {too_many}"));
}

#[test]
fn long_names_and_deep_brackets_are_refused() {
    let padded = format!("n[{}1]", "0".repeat(254));
    assert_eq!(refusal(&padded), "node set, character 1: a name would be longer than 255 bytes; shorten it");
    let deepest = format!("n{}1{}", "[".repeat(8), "]".repeat(8));
    assert_eq!(names(&deepest), ["n1"]);
    let too_deep = "n".to_string() + &"[".repeat(100_000);
    let message = "node set, character 10: brackets are nested more than 8 deep; write the groups side by side";
    assert_eq!(refusal(&too_deep), message);
}
