//! `ethbcast perf`: impossible measurements.

use crate::harness::{Ethbcast, LIMIT, Run, Site, ended_here, one_switch};

#[test]
fn ranks_sizes_and_iterations_are_numbers_that_can_be_meant() {
    for (arguments, part) in [
        (&[][..], "--ranks"),
        (&["-n", "0"], "from 2 to 65535"),
        (&["-n", "1"], "from 2 to 65535"),
        (&["-n", "many"], "many"),
        (&["-n", "70000"], "65535"),
        (&["-n", "4", "--sizes", "4X"], "`4X` is no size"),
        (&["-n", "4", "--sizes", "256,,4K"], "is no size"),
        (&["-n", "4", "--sizes="], "is no size"),
        (&["-n", "4", "--sizes=-1"], "is no size"),
        (&["-n", "4", "--sizes", "18446744073709551615K"], "is no size"),
        (&["-n", "4", "--iterations", "0"], "from 1 to 1000000"),
        (&["-n", "4", "--iterations", "1000001"], "from 1 to 1000000"),
        (&["-n", "4", "--max-wait", "soon"], "number of seconds"),
        (&["-n", "4", "--op", "reduce"], "bcast"),
        (&["-n", "4", "file"], "unexpected"),
    ] {
        let ended = ended_here(&[&["perf", "-i", "nosuch"], arguments].concat());
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?} should mention {part:?}: {}", ended.stderr);
        assert_eq!(ended.stdout_text(), "", "{arguments:?}");
    }
    for sizes in ["0", "256,0,4K", "2G"] {
        ended_here(&["perf", "-i", "nosuch", "-n", "4", "--sizes", sizes])
            .assert_refusal(2, &["cannot be measured", "1 to 1G"]);
    }
    let long = "g".repeat(65);
    ended_here(&["perf", "-i", "nosuch", "-n", "4", "-g", &long]).assert_refusal(2, &["1 to 59", "-g"]);
    ended_here(&["perf", "-i", "nosuch", "-n", "4"]).assert_refusal(4, &["nosuch", "-i"]);
}

#[test]
fn a_root_is_refused_before_it_waits_for_anybody() {
    let site = Site::beside("perfbad", one_switch(2));
    let root = |more: &[&str]| {
        let arguments = ["perf", "-i", "eth0", "-n", "2", "--root", "--max-wait", "20"];
        Run::start("n0", site.ethbcast("n0", arguments.iter().chain(more))).end(LIMIT)
    };
    root(&["--via", "pigeon"])
        .assert_refusal(2, &["`pigeon` is no way to send", "chain", "scatter-allgather", "latency", "auto"]);
    root(&["--via", "kary=1"]).assert_refusal(2, &["`kary=1`", "from 2 to 64", "kary=3"]);
    root(&["--preset", "paper"]).assert_refusal(2, &["--preset paper", "add --via cast"]);
    let missing = site.path("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    root(&["--topology", missing]).assert_refusal(4, &["cannot read the topology file", "missing.toml"]);
    root(&["--calibration", missing]).assert_refusal(4, &["cannot read the calibration file", "missing.toml"]);
    let falling = "schema = 1\n[[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 1\n\
                   [[point]]\nbytes = 1468\ngap_ns = 3999\nlatency_ns = 1\n";
    let falling = site.file("falling.toml", falling);
    root(&["--calibration", falling.to_str().expect("UTF-8")]).assert_refusal(2, &["falling.toml:8:", "do not fall"]);
}
