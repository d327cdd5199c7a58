//! `ethbcast topo`: drawing, checking and importing topologies, and refusing invalid ones.

use super::ended_here;
use ethbcast_tests::lab::scratch;
use std::fs;
use std::path::{Path, PathBuf};

const OWN: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[00-03]\"\nlinks = [\"top\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[04-07]\"\nlinks = [\"top\"]\n\
    [[switch]]\nname = \"top\"\n";
/// An equivalent topology in Slurm's format, with keys in various cases.
const SLURM: &str = "# two racks\n\
    SwitchName=s0 Nodes=n[00-03]\n\
    switchname=s1 NODES=n[04-05,06-07] LinkSpeed=1\n\
    SwitchName=top Switches=s[0-1]\n";

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_topology_is_drawn_and_described_whoever_wrote_it() {
    let directory = scratch();
    let own = write(directory.path(), "own.toml", OWN);
    let slurm = write(directory.path(), "topology.conf", SLURM);
    let tree = "top\n├── s0  4 hosts  n[00-03]\n└── s1  4 hosts  n[04-07]\n";
    for file in [&own, &slurm] {
        let shown = ended_here(&["topo", "show", text(file)]);
        shown.assert_code(0);
        assert_eq!(shown.stdout_text(), tree, "{}", file.display());
        let checked = ended_here(&["topo", "check", text(file)]);
        checked.assert_code(0);
        let said = checked.stdout_text();
        assert!(["hosts     8", "switches  3", "depth     2"].iter().all(|part| said.contains(part)), "{said}");
    }
    for (drawing, parts) in
        [("--text", &["└── s1"][..]), ("--dot", &["graph ", "\"n07\"", " -- "]), ("--svg", &["<svg ", "n07", "</svg>"])]
    {
        let drawn = ended_here(&["topo", "show", text(&own), drawing]);
        drawn.assert_code(0);
        assert!(parts.iter().all(|part| drawn.stdout_text().contains(part)), "{drawing}: {}", drawn.stdout_text());
    }
    let bed = ended_here(&["topo", "check", "fig9-5"]);
    bed.assert_code(0);
    assert!(bed.stdout_text().contains("n[0-31]"), "a test bed by its name: {}", bed.stdout_text());
}

#[test]
fn what_is_imported_from_slurm_is_the_same_topology_and_what_was_ignored_is_said() {
    let directory = scratch();
    let slurm = write(directory.path(), "topology.conf", SLURM);
    let printed = ended_here(&["topo", "import", "--slurm", text(&slurm)]);
    printed.assert_code(0);
    assert!(printed.stderr.contains("topology.conf:3: a LinkSpeed below 10 is ignored"), "{}", printed.stderr);
    let out = directory.path().join("imported.toml");
    let written = ended_here(&["topo", "import", "--slurm", text(&slurm), "--out", text(&out)]);
    written.assert_code(0);
    assert_eq!(written.stdout_text(), "", "it is in the file");
    assert_eq!(fs::read_to_string(&out).expect("written").trim_end(), printed.stdout_text().trim_end());
    let own = write(directory.path(), "own.toml", OWN);
    let shown = |file: &Path| ended_here(&["topo", "show", text(file)]).stdout_text();
    assert_eq!(shown(&out), shown(&own));
}

#[test]
fn a_ring_is_imported_as_its_spanning_tree_and_drawn_with_what_is_blocked() {
    let directory = scratch();
    let tops = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=s2 Switches=s[0-1]\nSwitchName=s3 \
                Switches=s[0-1]\n";
    let slurm = write(directory.path(), "topology.conf", tops);
    let out = directory.path().join("imported.toml");
    let imported = ended_here(&["topo", "import", "--slurm", text(&slurm), "--out", text(&out)]);
    imported.assert_code(0);
    assert!(imported.stderr.contains("blocked are `s1-s3`"), "{}", imported.stderr);
    let shown = ended_here(&["topo", "show", text(&out)]);
    assert!(shown.stdout_text().contains("blocked by spanning tree: s1-s3"), "{}", shown.stdout_text());
    assert_eq!(shown.stderr, "", "the file says it, and nothing is assumed");
    let drawn = ended_here(&["topo", "show", text(&slurm), "--svg"]).stdout_text();
    let title = format!("<title>{}</title>", text(&slurm));
    assert!(drawn.contains(&title) && drawn.contains("cable that spanning tree blocks"), "{drawn}");
    let checked = ended_here(&["topo", "check", text(&out)]).stdout_text();
    assert!(checked.contains("cables    3 between switches, and 1 that spanning tree blocks"), "{checked}");
}

#[test]
fn addresses_and_neighbours_make_a_topology_too() {
    let directory = scratch();
    let addresses = "top.s0.n0 switch.switch.node\ntop.s0.n1 switch.switch.node\ntop.s1.n2 switch.switch.node\n";
    let addresses = write(directory.path(), "addresses", addresses);
    let imported = ended_here(&["topo", "import", "--slurm-addr", text(&addresses)]);
    imported.assert_code(0);
    assert!(
        ["\"n[0-1]\"", "\"n2\"", "\"top\""].iter().all(|part| imported.stdout_text().contains(part)),
        "{imported:?}"
    );

    let heard = r#"{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "sw1"}]}]}]}]}"#;
    let folder = directory.path().join("lldp");
    fs::create_dir(&folder).expect("made");
    ["n0.json", "n1.json"].into_iter().for_each(|host| drop(write(&folder, host, heard)));
    for arguments in
        [&["topo", "import", "--lldp"][..], &["topo", "import", "--interface", "eth0", "--lldp"], &["topo", "show"]]
    {
        let read = ended_here(&[arguments, &[text(&folder)]].concat());
        read.assert_code(0);
        assert!(read.stdout_text().contains("sw1") && read.stdout_text().contains("n[0-1]"), "{read:?}");
    }
}

#[test]
fn what_is_no_topology_is_refused_with_file_line_and_what_was_expected() {
    let directory = scratch();
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        let file = write(directory.path(), name, content);
        for command in ["check", "show"] {
            ended_here(&["topo", command, text(&file)]).assert_refusal(2, parts);
        }
    };
    refused("big.conf", b"SwitchName=s0 Nodes=n[0-2000000]\n", &["big.conf:1:", "more than 1048576 hosts"]);
    refused("open.conf", b"SwitchName=s0 Nodes=n[0-3\n", &["open.conf:1:", "expected", "found the end"]);
    refused("key.conf", b"SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Hosts=n4\n", &["key.conf:2:", "`Hosts`", "Nodes"]);
    let twice = b"SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n3\nSwitchName=t Switches=s[0-1]\n";
    refused("twice.conf", twice, &["twice.conf:2:", "`n3`", "s0"]);
    let round = b"schema = 1\nswitch = [{ name = 's0', hosts = 'n0', links = ['s1'] },\n\
        { name = 's1', hosts = 'n1', links = ['s2'] },\n{ name = 's2', hosts = 'n2', links = ['s0'] }]\n";
    refused("round.toml", round, &["round.toml:4:", "s0", "s1", "s2", "loop", "remove", "`blocked`"]);
    refused(
        "speed.conf",
        b"SwitchName=s0 Nodes=n0 LinkSpeed=fast\n",
        &["speed.conf:1:", "`LinkSpeed=fast` is no rate"],
    );
    refused(
        "apart.conf",
        b"SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n4\n",
        &["apart.conf:2:", "no links join `s1`", "`s0`", "add a link"],
    );
    refused(
        "big.toml",
        b"schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-2000000]\"\n",
        &["big.toml:4:", "1048576"],
    );
    refused("empty.toml", b"", &["empty.toml", "schema = 1"]);
    refused("not-text", b"\xff\xfe", &["not-text", "no text"]);
    fs::create_dir(directory.path().join("nobody")).expect("made");
    let nobody = directory.path().join("nobody");
    ended_here(&["topo", "check", text(&nobody)]).assert_refusal(2, &["nobody", "lldpcli -f json0", "found none"]);
    write(&nobody, "n0.json", "{");
    ended_here(&["topo", "import", "--lldp", text(&nobody)]).assert_refusal(2, &["n0.json:1:", "lldpcli"]);
}

#[test]
fn what_is_not_there_or_cannot_be_meant_has_its_own_code() {
    let directory = scratch();
    let missing = directory.path().join("missing");
    for arguments in
        [&["topo", "show"][..], &["topo", "check"], &["topo", "import", "--slurm"], &["topo", "import", "--lldp"]]
    {
        ended_here(&[arguments, &[text(&missing)]].concat())
            .assert_refusal(4, &["cannot read", "missing", "No such file"]);
    }
    ended_here(&["topo", "show", "fig9-9"]).assert_refusal(4, &["cannot read", "fig9-9"]);
    let slurm = write(directory.path(), "topology.conf", SLURM);
    let nowhere = directory.path().join("no/such.toml");
    let written = ended_here(&["topo", "import", "--slurm", text(&slurm), "--out", text(&nowhere)]);
    written.assert_refusal(4, &["cannot write", "such.toml"]);
    for (arguments, part) in [
        (&["topo"][..], "Usage"),
        (&["topo", "burn", "file"], "burn"),
        (&["topo", "show"], "FILE"),
        (&["topo", "check"], "FILE"),
        (&["topo", "import"], "--slurm"),
        (&["topo", "import", "--slurm", "a", "--lldp", "b"], "cannot be used with"),
        (&["topo", "show", "fig9-1", "--dot", "--svg"], "cannot be used with"),
        (&["topo", "import", "--interface", "eth0"], "--lldp"),
    ] {
        let ended = ended_here(arguments);
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?} should mention {part:?}: {}", ended.stderr);
        assert_eq!(ended.stdout_text(), "", "{arguments:?}");
    }
}
