use crate::harness::{Ethbcast, LIMIT, Site, ended_here, lab_name, one_switch};

const LOOP: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nlinks = [\"s2\"]\n\
    [[switch]]\nname = \"s2\"\nlinks = [\"s0\"]\n";
const TWICE: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[3-5]\"\n";
const NO_SUCH_SWITCH: &str = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s9\"]\n";
const OTHER_HOSTS: &str = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[5-7]\"\n";

#[test]
fn a_topology_file_that_cannot_be_true_is_refused_with_file_and_line() {
    let site = Site::beside("topo", one_switch(2));
    let source = site.file("source", "text");
    let refused = |name: &str, text: &str, parts: &[&str]| {
        let file = site.file(name, text);
        let file = file.to_str().expect("UTF-8");
        site.run("n0", &["send", "-n", "1", "-i", "eth0", "--topology", file], &source).assert_refusal(2, parts);
        // The lab reads such files, too.
        ended_here(&["lab", "up", "--lab", &lab_name("never"), "--topology", file]).assert_refusal(2, parts);
    };
    refused("loop.toml", LOOP, &["loop.toml:11:", "s0", "s1", "s2", "loop", "remove"]);
    refused("twice.toml", TWICE, &["twice.toml:8:", "`n3`", "s0", "once"]);
    refused("switch.toml", NO_SUCH_SWITCH, &["switch.toml:5:", "`s9`", "not a switch"]);
    refused("not.toml", "schema = 1\n[[switch\n", &["not.toml:2:"]);
    refused("schema.toml", "[[switch]]\nname = \"s0\"\n", &["schema.toml", "schema = 1"]);
    let missing = site.path("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--topology", missing], &source)
        .assert_refusal(4, &["cannot read", "missing.toml"]);
}

#[test]
fn a_host_that_the_topology_does_not_name_is_refused_on_either_side() {
    let site = Site::beside("unknown", one_switch(2));
    let (source, file) = (site.file("source", "text"), site.file("other.toml", OTHER_HOSTS));
    let file = file.to_str().expect("UTF-8");
    let root = site.run("n0", &["send", "-n", "1", "-i", "eth0", "--topology", file], &source);
    root.assert_refusal(2, &["other.toml", "n0", "n[5-7]", "--host"]);
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--topology", file, "--host", "n5", "--max-wait", "2"],
        &source,
    );
    receiver.end(LIMIT).assert_refusal(2, &["n1", "--host"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1", "[E-TOPOLOGY]"]);
    // With its name in the topology it is admitted.
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--host", "n6", "--max-wait", "10"], site.path("dest"));
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--topology", file, "--host", "n5", "--max-wait", "10"], &source)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}
