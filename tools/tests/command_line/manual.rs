//! Man pages and completions match the program's options.

use super::ended_here;
use std::collections::BTreeSet;
use std::path::Path;

/// Returns the long options at the beginning of a help text's lines.
fn options(help: &str) -> BTreeSet<String> {
    let begins = |line: &str| line.trim_start().starts_with('-').then(|| line.trim_start().to_owned());
    let name = |line: String| {
        let from = line.find("--")? + 2;
        Some(line[from..].chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect())
    };
    help.lines().filter_map(begins).filter_map(name).collect()
}

/// Returns a page's text without escapes and fonts.
fn text(page: &Path) -> String {
    let page = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
}

#[test]
fn every_command_has_a_page_that_names_each_of_its_options() {
    let out = tempfile::tempdir().expect("a directory");
    let ended = ended_here(&["man", "--out", &out.path().join("new").to_string_lossy()]);
    ended.assert_code(0);
    assert!(ended.stdout_text().contains("man -l "), "{}", ended.stdout_text());
    let commands = [
        "send",
        "recv",
        "topo-show",
        "topo-import",
        "topo-check",
        "plan",
        "probe",
        "simulate",
        "perf",
        "bench",
        "dump",
        "doctor",
        "explain",
        "lab-up",
        "lab-exec",
        "lab-each",
        "lab-down",
        "lab-list",
        "lab-demo",
        "man",
        "completions",
        "config-check",
        "cp",
        "hosts",
    ];
    for command in commands {
        let page = text(&out.path().join(format!("new/ethbcast-{command}.8")));
        let help = ended_here(&[&command.split('-').collect::<Vec<_>>()[..], &["--help"]].concat());
        help.assert_code(0);
        for option in options(&help.stdout_text()) {
            assert!(page.contains(&format!("--{option}")), "ethbcast-{command}.8 says nothing of --{option}");
        }
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"] {
            assert!(page.contains(section), "ethbcast-{command}.8 has no section {section}");
        }
        if ["send", "recv", "cp", "probe", "perf"].contains(&command) {
            let (_, examples) = page.split_once("EXAMPLES").unwrap_or_else(|| panic!("{command} has no examples"));
            assert!(examples.contains(&format!("\nethbcast {command} ")), "{examples}");
        }
    }
    let send = text(&out.path().join("new/ethbcast-send.8"));
    // What the short help leaves out, too; and how it is called.
    for part in ["Tolerate a slow receiver", "WHEN SOMETHING GOES WRONG", "[OPTIONS] [SOURCE]..."] {
        assert!(send.contains(part), "ethbcast-send.8 does not say {part:?}");
    }
    assert!(text(&out.path().join("new/ethbcast.8")).contains("ethbcast-send(8)"));
    assert!(text(&out.path().join("new/ethbcast-topology.5")).contains("injection_ns"));
    assert!(!out.path().join("new/ethbcast-watch.8").exists(), "what nobody is to call has no page");
}

#[test]
fn the_example_of_the_topology_page_is_a_topology_but_for_a_switch_that_it_leaves_out() {
    let out = tempfile::tempdir().expect("a directory");
    ended_here(&["man", "--out", &out.path().to_string_lossy()]).assert_code(0);
    let page = text(&out.path().join("ethbcast-topology.5"));
    let (_, example) = page.split_once(".EX\n").expect("an example");
    let (example, _) = example.split_once(".EE").expect("its end");
    let rest = ["s1", "s2", "s3"].map(|name| format!("[[switch]]\nname = \"{name}\"\nhosts = \"{name}h\"\n"));
    let file = out.path().join("topology.toml");
    let joined = "[[switch]]\nname = \"s4\"\nlinks = [\"s3\", \"s1\"]\n";
    std::fs::write(&file, format!("{example}\n{}{joined}", rest.concat())).expect("written");
    ended_here(&["topo", "check", &file.to_string_lossy()]).assert_code(0);
}

#[test]
fn the_example_of_the_configurations_page_has_nothing_wrong() {
    let out = tempfile::tempdir().expect("a directory");
    ended_here(&["man", "--out", &out.path().to_string_lossy()]).assert_code(0);
    let page = text(&out.path().join("ethbcast.toml.5"));
    let (_, example) = page.split_once(".EX\n").expect("an example");
    let (example, _) = example.split_once(".EE").expect("its end");
    let file = out.path().join("ethbcast.toml");
    std::fs::write(&file, example).expect("written");
    ended_here(&["config", "check", &file.to_string_lossy()]).assert_code(0);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    ended_here(&["man", "--out", "/dev/null/pages"]).assert_refusal(4, &["/dev/null/pages", "--out"]);
}

#[test]
fn shells_are_told_the_commands_and_an_unknown_shell_which_there_are() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = ended_here(&["completions", shell]);
        ended.assert_code(0);
        for word in ["send", "recv", "min-receivers", "doctor", "explain"] {
            assert!(ended.stdout_text().contains(word), "{shell} is not told of {word}");
        }
    }
    let ended = ended_here(&["completions", "tcsh"]);
    ended.assert_code(2);
    assert!(ended.stderr.contains("bash") && ended.stderr.contains("fish"), "{}", ended.stderr);
}
