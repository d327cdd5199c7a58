//! Tests of `ethbcast plan` and `ethbcast topo`: topologies and broadcast trees drawn, imported and
//! refused.

use super::ended_here;
use ethbcast_tests::lab::scratch;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A plan of a chain of three as `plan --out` writes it; its line numbers are used below.
const CHAIN: &str = "schema = 1\nvia = \"chain\"\nroot = \"n0\"\n\
    epoch = 1\nsegment_bytes = 1468\nmembers = \"n[0-2]\"\n\
    [[edge]]\nfrom = \"n0\"\nto = \"n1\"\norder = 0\n\
    [[edge]]\nfrom = \"n1\"\nto = \"n2\"\norder = 0\n";
const POINT: &str = "[[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 20000\n";
const WAYS: [&str; 13] = [
    "chain",
    "binary",
    "binary-best",
    "kary=K",
    "cast",
    "flat",
    "binomial",
    "scatter-allgather",
    "recursive-doubling",
    "chain-unaware",
    "binary-unaware",
    "latency",
    "two-tree",
];

/// A directory for files, and checks of refusals with them.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            directory: scratch(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Fails unless `send` with this option ends with the code and words before it opens its
    /// interface.
    #[track_caller]
    fn send_is_refused(&self, option: &str, file: &Path, code: i32, parts: &[&str]) {
        let file = file.to_str().expect("UTF-8");
        ended_here(&["send", "-n", "1", "-i", "nosuch", option, file, "source"])
            .assert_refusal(code, parts);
    }
}

/// Plans for n0 on 32 machines in blocks, with further arguments.
fn plan(more: &[&str]) -> ethbcast_tests::lab::Ended {
    ended_here(
        &[
            &[
                "plan",
                "--topology",
                "fig9-4",
                "--root",
                "n0",
                "--size",
                "64K",
            ],
            more,
        ]
        .concat(),
    )
}

/// Calls the closure with what is replaced, by what, and what the refusal has to name.
macro_rules! each_refused {
    ($refused:ident: $($from:literal => $to:literal: $($part:literal),+;)*) => {
        $($refused($from, $to, &[$($part),+]);)*
    };
}

#[test]
fn an_unknown_way_is_answered_with_all_ways() {
    for name in ["pigeon", "Chain", "", "chain=2", "kary3"] {
        let said = format!("`{name}` is no way to send");
        let parts: Vec<&str> = [said.as_str(), "auto"].into_iter().chain(WAYS).collect();
        ended_here(&["send", "-n", "1", "-i", "nosuch", "--via", name, "source"])
            .assert_refusal(2, &parts);
        plan(&["--via", name]).assert_refusal(2, &[parts.as_slice(), &["all"]].concat());
    }
}

#[test]
fn a_tree_needs_a_number_of_children_that_is_one() {
    for name in [
        "kary", "kary=", "kary=0", "kary=1", "kary=65", "kary=-2", "kary=x",
    ] {
        let said = format!("`{name}` needs a number of children from 2 to 64");
        ended_here(&["send", "-n", "1", "-i", "nosuch", "--via", name, "source"])
            .assert_refusal(2, &[&said, "kary=3"]);
        plan(&["--via", name]).assert_refusal(2, &[&said, "kary=3"]);
    }
}

#[test]
fn a_saved_plan_decides_alone() {
    let place = Place::new();
    let file = place.file("plan.toml", CHAIN);
    let file = file.to_str().expect("UTF-8");
    for other in ["--via=binary", "--via=chain"] {
        let ended = ended_here(&[
            "send", "-n", "1", "-i", "nosuch", "--plan", file, other, "source",
        ]);
        ended.assert_code(2);
        let flag = other.split('=').next().expect("a flag");
        assert!(
            ended.stderr.contains("cannot be used with") && ended.stderr.contains(flag),
            "{other}: {}",
            ended.stderr
        );
    }
    // The plan itself is valid; only the interface is missing.
    place.send_is_refused("--plan", Path::new(file), 4, &["nosuch"]);
}

#[test]
fn a_plan_file_that_is_no_plan_is_refused_with_file_and_line() {
    let place = Place::new();
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let text = CHAIN.replacen(from, to, 1);
        assert_ne!(text, CHAIN, "{from} is in it");
        place.send_is_refused("--plan", &place.file("plan.toml", text), 2, parts);
    };
    each_refused! { refused:
        "schema = 1\n" => "": "plan.toml:1:", "expected `schema = 1`";
        "schema = 1" => "schema = 2": "plan.toml:1:", "expected `schema = 1`, found `schema = 2`";
        "\"chain\"" => "\"pigeon\"":
            "plan.toml:2:", "`pigeon` is no way to send", "chain", "latency";
        "\"chain\"" => "\"auto\"": "plan.toml:2:", "`auto` is no way to send";
        "root = \"n0\"" => "root = \"n9\"": "plan.toml:3:", "the root `n9` is not a member";
        "epoch = 1" => "epoch = \"one\"": "plan.toml:4:", "string \"one\"", "expected";
        "epoch = 1\n" => "": "plan.toml", "epoch";
        "segment_bytes = 1468" => "segment_bytes = 0":
            "plan.toml:5:", "expected segment_bytes of 64 or more";
        "segment_bytes = 1468" => "segment_bytes = -1": "plan.toml:5:", "-1";
        "n[0-2]" => "n[0-1]": "plan.toml:13:", "`n2`, which is not a member";
        "n[0-2]" => "n[0-2,1]": "plan.toml:6:", "`n1` is a member twice";
        "n[0-2]" => "n[0-9999999]": "plan.toml:6:", "more than 1048576 hosts";
        "n[0-2]" => "n[0-": "plan.toml:6:", "character", "expected";
        "\"n[0-2]\"" => "7": "plan.toml:6:", "expected members as a node set", "integer";
        "order = 0" => "order = 1": "plan.toml:10:", "`n0` sends to `n1` at place 1", "0 to 0";
        "order = 0" => "": "plan.toml:7:", "order";
        "order = 0" => "order = 0\nweight = 2": "plan.toml:11:", "weight";
        "[[edge]]" => "[[edge]": "plan.toml:7:";
        // Only all edges together show the defect.
        "from = \"n1\"\nto = \"n2\"" => "from = \"n1\"\nto = \"n0\"":
            "plan.toml", "no plan", "root";
        "from = \"n1\"\nto = \"n2\"\norder = 0" => "from = \"n0\"\nto = \"n2\"\norder = 1":
            "plan.toml", "no plan", "chain";
        "[[edge]]\nfrom = \"n1\"\nto = \"n2\"\norder = 0\n" => "":
            "plan.toml", "no plan", "no parent";
        "members = \"n[0-2]\"" => "members = \"n[0-3]\"": "plan.toml", "no plan", "no parent";
    }
}

/// Two blocks of a row, with a plan that crosses between them four times.
const TO_AND_FRO: &str = "schema = 1\nvia = \"chain\"\nroot = \"n0\"\n\
    epoch = 1\nsegment_bytes = 1468\nmembers = \"n[0-1,8-9]\"\n\
    [[edge]]\nfrom = \"n0\"\nto = \"n8\"\norder = 0\n\
    [[edge]]\nfrom = \"n8\"\nto = \"n1\"\norder = 0\n\
    [[edge]]\nfrom = \"n1\"\nto = \"n9\"\norder = 0\n";

#[test]
fn a_saved_plan_is_judged_on_the_topology() {
    let place = Place::new();
    let bad = place.file("plan.toml", TO_AND_FRO);
    let bad = bad.to_str().expect("UTF-8");
    let said = [
        "plan.toml:8:",
        "switch s0 to switch s1 (2 flows from 2 senders)",
        "--allow-contention",
    ];
    ended_here(&[
        "send",
        "-n",
        "1",
        "-i",
        "nosuch",
        "--plan",
        bad,
        "--topology",
        "fig9-4",
        "source",
    ])
    .assert_refusal(2, &said);
    let checked = ended_here(&["plan", "--check", bad, "--topology", "fig9-4"]);
    checked.assert_code(2);
    assert!(
        said.iter().all(|part| checked.stderr.contains(part)),
        "{}",
        checked.stderr
    );
    assert!(
        checked
            .stdout_text()
            .contains("contention: switch s0 to switch s1"),
        "{}",
        checked.stdout_text()
    );

    // With contention allowed there is a warning, and only the interface is missing.
    let allowed = [
        "send",
        "-n",
        "1",
        "-i",
        "nosuch",
        "--plan",
        bad,
        "--topology",
        "fig9-4",
        "--allow-contention",
        "x",
    ];
    let allowed = ended_here(&allowed);
    allowed.assert_code(4);
    assert!(
        allowed
            .stderr
            .contains("note: the plan sends over one cable from several hosts"),
        "{}",
        allowed.stderr
    );
    let checked = ended_here(&[
        "plan",
        "--check",
        bad,
        "--topology",
        "fig9-4",
        "--allow-contention",
        "--json",
    ]);
    checked.assert_code(0);
    assert_eq!(
        checked.json()["contention"]["cables"][0]["senders"],
        2,
        "{}",
        checked.json()
    );
    // On one switch there is no shared cable, and without a topology one switch is assumed.
    ended_here(&["plan", "--check", bad, "--topology", "fig9-1"]).assert_code(0);
    let unjudged = ended_here(&["send", "-n", "1", "-i", "nosuch", "--plan", bad, "source"]);
    assert!(
        unjudged.stderr.contains("note: the plan is run unjudged"),
        "{}",
        unjudged.stderr
    );
}

#[test]
fn a_plan_of_two_trees_is_saved_judged_and_run_but_not_for_who_comes_late() {
    let place = Place::new();
    let file = place.path("pair.toml");
    let file = file.to_str().expect("UTF-8");
    plan(&["--via", "two-tree", "--out", file]).assert_code(0);
    ended_here(&["plan", "--check", file, "--topology", "fig9-4"]).assert_code(0);
    ended_here(&[
        "simulate",
        "--plan",
        file,
        "--topology",
        "fig9-4",
        "--size",
        "64K",
    ])
    .assert_code(0);
    let send = ["send", "-n", "1", "-i", "nosuch", "--late"];
    let said = [
        "two-tree goes in blocks among those who are there at the start",
        "leave out --late",
    ];
    for way in [["--plan", file], ["--via", "two-tree"]] {
        ended_here(&[&send[..], &way, &["source"]].concat()).assert_refusal(2, &said);
    }
}

#[test]
fn a_plan_for_other_hosts_or_longer_segments_than_can_be_kept_is_refused_with_its_line() {
    let place = Place::new();
    let other = place.file(
        "plan.toml",
        TO_AND_FRO
            .replace("n9", "m9")
            .replace("n[0-1,8-9]", "n[0-1,8],m9"),
    );
    let other = other.to_str().expect("UTF-8");
    let said = ["plan.toml:6:", "names no host `m9`", "ethbcast plan --out"];
    ended_here(&["plan", "--check", other, "--topology", "fig9-4"]).assert_refusal(2, &said);
    ended_here(&[
        "send",
        "-n",
        "1",
        "-i",
        "nosuch",
        "--plan",
        other,
        "--topology",
        "fig9-4",
        "source",
    ])
    .assert_refusal(2, &said);
    let long = place.file("plan.toml", CHAIN.replace("1468", "1503233"));
    let long = long.to_str().expect("UTF-8");
    let said = ["plan.toml:5:", "segments of 1503233 bytes", "1503232 bytes"];
    ended_here(&["plan", "--check", long, "--topology", "fig9-4"]).assert_refusal(2, &said);
    ended_here(&[
        "simulate",
        "--plan",
        long,
        "--topology",
        "fig9-4",
        "--size",
        "1K",
    ])
    .assert_refusal(2, &said);
    // Longer frames leave room for it.
    ended_here(&[
        "plan",
        "--check",
        long,
        "--topology",
        "fig9-4",
        "--mtu",
        "9000",
    ])
    .assert_code(0);
}

#[test]
fn a_calibration_that_cannot_be_measured_is_refused_with_file_and_line() {
    let place = Place::new();
    let good = format!(
        "schema = 1\n{POINT}{}",
        POINT.replace("256", "1468").replace("4000", "12000")
    );
    place.send_is_refused(
        "--calibration",
        &place.file("good.toml", &good),
        4,
        &["nosuch"],
    );
    let refused = |text: String, parts: &[&str]| {
        let file = place.file("calibration.toml", &text);
        place.send_is_refused("--calibration", &file, 2, parts);
        plan(&["--calibration", file.to_str().expect("UTF-8")]).assert_refusal(2, parts);
    };
    refused(
        String::new(),
        &["calibration.toml:1:", "expected `schema = 1`"],
    );
    refused(
        "schema = 1\n".to_owned(),
        &["calibration.toml", "at least 2 sizes, found 0"],
    );
    refused(
        format!("schema = 1\n{POINT}"),
        &["calibration.toml", "at least 2 sizes, found 1"],
    );
    refused(
        format!("schema = 1\n{POINT}{POINT}"),
        &[
            "calibration.toml:7:",
            "sizes that rise",
            "256 bytes after 256",
        ],
    );
    refused(
        good.replace("12000", "3999"),
        &[
            "calibration.toml:8:",
            "gaps that do not fall",
            "3999 ns for 1468 bytes",
            "ethbcast probe",
        ],
    );
    refused(
        good.replace("4000", "0"),
        &["calibration.toml:4:", "gap above 0 ns"],
    );
    refused(
        good.replace("gap_ns = 4000\n", ""),
        &["calibration.toml:2:", "gap_ns"],
    );
    refused(
        good.replace("schema = 1\n", "schema = 1\nloss = 1.0\n"),
        &["calibration.toml:2:", "0.0 to below 1.0"],
    );
    refused(
        good.replace(
            "schema = 1\n",
            "schema = 1\ncast_max_frames_per_second = 0\n",
        ),
        &["calibration.toml:2:", "above 0"],
    );
}

#[test]
fn a_file_is_for_a_single_plan() {
    let place = Place::new();
    let out = place.path("plan.toml");
    let out_text = out.to_str().expect("UTF-8");
    plan(&["--via", "all", "--out", out_text])
        .assert_refusal(2, &["about one plan", "--via chain"]);
    assert!(!out.exists(), "nothing is written by who refuses");
    ended_here(&[
        "plan",
        "--topology",
        "fig9-1",
        "--root",
        "n0",
        "--size",
        "1",
        "--json",
        "--svg",
    ])
    .assert_code(2);
}

#[test]
fn a_plan_is_printed_drawn_compared_and_saved() {
    let place = Place::new();
    let out = place.path("plan.toml");
    let ended = plan(&[
        "--via",
        "binary",
        "--json",
        "--out",
        out.to_str().expect("UTF-8"),
    ]);
    ended.assert_code(0);
    let report = ended.json();
    assert_eq!(
        (&report["via"], &report["root"]),
        (&"binary".into(), &"n0".into()),
        "{report}"
    );
    // Topology 4: 32 machines in blocks (Patarasuk 2008 §5.2).
    assert_eq!(
        (&report["height"], &report["degree"]),
        (&6.into(), &2.into()),
        "{report}"
    );
    assert_eq!(
        report["edges"].as_array().map(Vec::len),
        Some(31),
        "{report}"
    );
    assert_eq!(report["contention"]["flows"], 2, "{report}");
    let saved = fs::read_to_string(&out).expect("it was saved");
    assert_eq!(saved.matches("[[edge]]").count(), 31, "{saved}");

    let all = plan(&["--via", "all", "--json"]);
    all.assert_code(0);
    let all = all.json();
    let times: Vec<f64> = all["plans"]
        .as_array()
        .expect("a list")
        .iter()
        .map(predicted)
        .collect();
    assert!(
        times.len() == WAYS.len() && times.is_sorted() && times[0] > 0.0,
        "{all}"
    );
    let best = plan(&["--json"]);
    assert!(
        predicted(&best.json()) <= times[0],
        "auto is the best of all: {} in {all}",
        best.json()
    );

    for (drawing, beginning) in [
        ("--text", "chain from n0 to 31 others on fig9-4"),
        ("--dot", "digraph "),
        ("--svg", "<svg "),
    ] {
        let drawn = plan(&["--via", "chain", drawing]);
        drawn.assert_code(0);
        assert!(
            drawn.stdout_text().starts_with(beginning),
            "{drawing}: {}",
            drawn.stdout_text()
        );
    }
}

fn predicted(plan: &Value) -> f64 {
    plan["predicted_seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("no prediction in {plan}"))
}

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
fn a_topology_of_any_source_is_drawn_and_described() {
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
        assert!(
            ["hosts     8", "switches  3", "depth     2"]
                .iter()
                .all(|part| said.contains(part)),
            "{said}"
        );
    }
    for (drawing, parts) in [
        ("--text", &["└── s1"][..]),
        ("--dot", &["graph ", "\"n07\"", " -- "]),
        ("--svg", &["<svg ", "n07", "</svg>"]),
    ] {
        let drawn = ended_here(&["topo", "show", text(&own), drawing]);
        drawn.assert_code(0);
        assert!(
            parts.iter().all(|part| drawn.stdout_text().contains(part)),
            "{drawing}: {}",
            drawn.stdout_text()
        );
    }
    let bed = ended_here(&["topo", "check", "fig9-5"]);
    bed.assert_code(0);
    assert!(
        bed.stdout_text().contains("n[0-31]"),
        "a test bed by its name: {}",
        bed.stdout_text()
    );
}

#[test]
fn an_import_from_slurm_gives_an_equal_topology_and_names_ignored_lines() {
    let directory = scratch();
    let slurm = write(directory.path(), "topology.conf", SLURM);
    let printed = ended_here(&["topo", "import", "--slurm", text(&slurm)]);
    printed.assert_code(0);
    assert!(
        printed
            .stderr
            .contains("topology.conf:3: a LinkSpeed below 10 is ignored"),
        "{}",
        printed.stderr
    );
    let out = directory.path().join("imported.toml");
    let written = ended_here(&[
        "topo",
        "import",
        "--slurm",
        text(&slurm),
        "--out",
        text(&out),
    ]);
    written.assert_code(0);
    assert_eq!(written.stdout_text(), "", "it is in the file");
    assert_eq!(
        fs::read_to_string(&out).expect("written").trim_end(),
        printed.stdout_text().trim_end()
    );
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
    let imported = ended_here(&[
        "topo",
        "import",
        "--slurm",
        text(&slurm),
        "--out",
        text(&out),
    ]);
    imported.assert_code(0);
    assert!(
        imported.stderr.contains("blocked are `s1-s3`"),
        "{}",
        imported.stderr
    );
    let shown = ended_here(&["topo", "show", text(&out)]);
    assert!(
        shown
            .stdout_text()
            .contains("blocked by spanning tree: s1-s3"),
        "{}",
        shown.stdout_text()
    );
    assert_eq!(shown.stderr, "", "the file says it, and nothing is assumed");
    let drawn = ended_here(&["topo", "show", text(&slurm), "--svg"]).stdout_text();
    let title = format!("<title>{}</title>", text(&slurm));
    assert!(
        drawn.contains(&title) && drawn.contains("cable that spanning tree blocks"),
        "{drawn}"
    );
    let checked = ended_here(&["topo", "check", text(&out)]).stdout_text();
    assert!(
        checked.contains("cables    3 between switches, and 1 that spanning tree blocks"),
        "{checked}"
    );
}

#[test]
fn addresses_and_neighbours_make_a_topology_too() {
    let directory = scratch();
    let addresses = "top.s0.n0 switch.switch.node\ntop.s0.n1 switch.switch.node\ntop.s1.n2 switch.switch.node\n";
    let addresses = write(directory.path(), "addresses", addresses);
    let imported = ended_here(&["topo", "import", "--slurm-addr", text(&addresses)]);
    imported.assert_code(0);
    assert!(
        ["\"n[0-1]\"", "\"n2\"", "\"top\""]
            .iter()
            .all(|part| imported.stdout_text().contains(part)),
        "{imported:?}"
    );

    let heard = r#"{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "sw1"}]}]}]}]}"#;
    let folder = directory.path().join("lldp");
    fs::create_dir(&folder).expect("made");
    ["n0.json", "n1.json"]
        .into_iter()
        .for_each(|host| drop(write(&folder, host, heard)));
    for arguments in [
        &["topo", "import", "--lldp"][..],
        &["topo", "import", "--interface", "eth0", "--lldp"],
        &["topo", "show"],
    ] {
        let read = ended_here(&[arguments, &[text(&folder)]].concat());
        read.assert_code(0);
        assert!(
            read.stdout_text().contains("sw1") && read.stdout_text().contains("n[0-1]"),
            "{read:?}"
        );
    }
}

#[test]
fn a_file_that_is_no_topology_is_refused_with_line_and_expectation() {
    let directory = scratch();
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        let file = write(directory.path(), name, content);
        for command in ["check", "show"] {
            ended_here(&["topo", command, text(&file)]).assert_refusal(2, parts);
        }
    };
    refused(
        "big.conf",
        b"SwitchName=s0 Nodes=n[0-2000000]\n",
        &["big.conf:1:", "more than 1048576 hosts"],
    );
    refused(
        "open.conf",
        b"SwitchName=s0 Nodes=n[0-3\n",
        &["open.conf:1:", "expected", "found the end"],
    );
    refused(
        "key.conf",
        b"SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Hosts=n4\n",
        &["key.conf:2:", "`Hosts`", "Nodes"],
    );
    let twice =
        b"SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n3\nSwitchName=t Switches=s[0-1]\n";
    refused("twice.conf", twice, &["twice.conf:2:", "`n3`", "s0"]);
    let round = b"schema = 1\nswitch = [{ name = 's0', hosts = 'n0', links = ['s1'] },\n\
        { name = 's1', hosts = 'n1', links = ['s2'] },\n{ name = 's2', hosts = 'n2', links = ['s0'] }]\n";
    refused(
        "round.toml",
        round,
        &[
            "round.toml:4:",
            "s0",
            "s1",
            "s2",
            "loop",
            "remove",
            "`blocked`",
        ],
    );
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
    ended_here(&["topo", "check", text(&nobody)])
        .assert_refusal(2, &["nobody", "lldpcli -f json0", "found none"]);
    write(&nobody, "n0.json", "{");
    ended_here(&["topo", "import", "--lldp", text(&nobody)])
        .assert_refusal(2, &["n0.json:1:", "lldpcli"]);
}

#[test]
fn an_imported_topology_that_cannot_be_written_is_the_systems_fault() {
    let directory = scratch();
    let slurm = write(directory.path(), "topology.conf", SLURM);
    let nowhere = directory.path().join("no/such.toml");
    let written = ended_here(&[
        "topo",
        "import",
        "--slurm",
        text(&slurm),
        "--out",
        text(&nowhere),
    ]);
    written.assert_refusal(4, &["cannot write", "such.toml"]);
}
