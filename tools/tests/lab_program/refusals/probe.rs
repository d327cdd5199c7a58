//! `ethbcast probe`: impossible measurements and unwritable files.

use crate::harness::{Ethbcast, LIMIT, Run, Site, ended_here, one_switch};
use nix::sys::signal::Signal;

#[test]
fn who_answers_measures_nothing_and_numbers_are_numbers() {
    for (arguments, part) in [
        (&["--answer", "-n", "2"][..], "cannot be used with"),
        (&["--answer", "--out", "file"], "cannot be used with"),
        (&["--answer", "n1"], "cannot be used with"),
        (&["-n", "0"], "from 1 to 65534"),
        (&["-n", "many"], "many"),
        (&["--max-wait", "soon"], "number of seconds"),
        (&["--max-wait=-1"], "number of seconds"),
        (&["--size", "4K"], "--size"),
    ] {
        let ended = ended_here(&[&["probe", "-i", "nosuch"], arguments].concat());
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?} should mention {part:?}: {}", ended.stderr);
        assert_eq!(ended.stdout_text(), "", "{arguments:?}");
    }
    let long = "g".repeat(65);
    ended_here(&["probe", "-i", "nosuch", "-g", &long]).assert_refusal(2, &["65 bytes", "1 to 64", "-g"]);
    ended_here(&["probe", "-i", "nosuch", "-g", ""]).assert_refusal(2, &["0 bytes", "1 to 64"]);
    for arguments in [&["probe", "-i", "nosuch"][..], &["probe", "-i", "nosuch", "--answer"]] {
        ended_here(arguments).assert_refusal(4, &["no interface nosuch", "-i"]);
    }
}

#[test]
fn a_calibration_that_cannot_be_written_is_the_systems_fault() {
    let site = Site::beside("probeout", one_switch(2));
    let answerer = Run::start("n1", site.ethbcast("n1", ["probe", "--answer", "-i", "eth0"]));
    answerer.wait_for_line("answers the probes");
    let nowhere = site.path("no/such.toml");
    let probe =
        site.ethbcast("n0", ["probe", "-q", "-i", "eth0", "-n", "1", "--out", nowhere.to_str().expect("UTF-8")]);
    Run::start("n0", probe).end(LIMIT).assert_refusal(4, &["cannot write", "such.toml", "--out"]);
    answerer.signal(Signal::SIGINT);
    answerer.end(LIMIT).assert_code(130);
}
