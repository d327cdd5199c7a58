//! Tests of saved broadcast trees: written and read back, used by other hosts, and damaged.

use super::*;
use crate::plan::{by_rank, chain, check, two_tree};
use crate::topology::{Topology, arbitrary};
use proptest::prelude::*;

const FILE: &str = "\
schema = 1
via = \"binary\"
root = \"n0\"
epoch = 1
segment_bytes = 4096
size_bytes = 1048576
members = \"n[0-3]\"

[[edge]]
from = \"n0\"
to = \"n2\"
order = 0

[[edge]]
from = \"n0\"
to = \"n1\"
order = 1

[[edge]]
from = \"n1\"
to = \"n3\"
order = 0
";

fn refusal(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    SavedPlan::parse(&FILE.replacen(from, to, 1), "p.toml")
        .expect_err("refused")
        .to_string()
}

#[test]
fn a_file_is_read_as_it_is_written() {
    let saved = SavedPlan::parse(FILE, "p.toml").expect("a plan");
    assert_eq!(
        (saved.via(), saved.root(), saved.epoch()),
        (Via::Binary, "n0", 1)
    );
    assert_eq!(
        (saved.segment_bytes(), saved.size_bytes()),
        (4096, Some(1 << 20))
    );
    assert_eq!(saved.to_toml(), FILE);
    let plan = saved
        .for_members(&["n0", "n1", "n2", "n3"], 1)
        .expect("the same members");
    assert_eq!(
        (plan.children(0), plan.children(1)),
        (&[2, 1][..], &[3][..])
    );
}

#[test]
fn members_that_join_in_another_order_get_another_rank_but_the_same_place() {
    let saved = SavedPlan::parse(FILE, "p.toml").expect("a plan");
    let plan = saved
        .for_members(&["n0", "n3", "n2", "n1"], 1)
        .expect("the same members");
    assert_eq!(
        (plan.children(0), plan.children(3)),
        (&[2, 3][..], &[1][..])
    );
}

#[test]
fn members_may_be_a_list_and_the_size_unknown() {
    let text = FILE
        .replace("\"n[0-3]\"", "[\"n0\", \"n[1-2]\", \"n3\"]")
        .replace("size_bytes = 1048576\n", "");
    let saved = SavedPlan::parse(&text, "p.toml").expect("a plan");
    assert_eq!((saved.members().len(), saved.size_bytes()), (4, None));
    assert_eq!(SavedPlan::parse(&saved.to_toml(), "again"), Ok(saved));
}

#[test]
fn a_plan_for_other_hosts_is_refused_with_the_remedy() {
    let saved = SavedPlan::parse(FILE, "p.toml").expect("a plan");
    let refusal = |names: &[&str], epoch| {
        saved
            .for_members(names, epoch)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        refusal(&["n0", "n1", "n7", "n8"], 1),
        "p.toml:7: the plan is for other members: `n[2-3]` missing, `n[7-8]` not in the plan; save a plan for these \
         with \
         `ethbcast plan --out`"
    );
    assert!(refusal(&["n0", "n1", "n2"], 1).contains("members: `n3` missing; save"));
    assert!(
        refusal(&["n0", "n1", "n2", "n3", "x"], 1).contains("members: `x` not in the plan; save")
    );
    assert_eq!(
        refusal(&["n1", "n0", "n2", "n3"], 1),
        "p.toml:3: the plan sends from `n0`, and the root is `n1`; send from `n0`, or save a plan with `ethbcast \
         plan --root n1 \
         --out`"
    );
    assert_eq!(
        refusal(&["n0", "n1", "n2", "n3"], 2),
        "p.toml:4: the plan is for epoch 1, and the view has epoch 2; let the topology make a new plan (leave the \
         plan file out)"
    );
    assert!(
        refusal(&["n0", "n1", "n2", "n3", "n3"], 1).contains("no parent"),
        "a name twice leaves a rank over"
    );
}

#[test]
fn a_broken_file_is_answered_with_the_line_and_what_was_expected() {
    assert_eq!(
        refusal("schema = 1", "schema = 2"),
        "p.toml:1: expected `schema = 1`, found `schema = 2`; write the file anew with this version"
    );
    assert_eq!(
        refusal("schema = 1\n", ""),
        "p.toml:1: expected `schema = 1`, which says how to read this file, but there is no `schema`"
    );
    assert!(
        refusal("\"binary\"", "\"bin\"")
            .starts_with("p.toml:2: via: `bin` is no way to send; use one of: chain")
    );
    assert_eq!(
        refusal("\"n0\"", "\"n9\""),
        "p.toml:3: the root `n9` is not a member; name it among the members"
    );
    assert!(
        refusal("epoch = 1", "epoch = -1").starts_with("p.toml:4: invalid value: integer `-1`")
    );
    for short in [0, 63] {
        let text = refusal("segment_bytes = 4096", &format!("segment_bytes = {short}"));
        assert!(
            text.starts_with(&format!(
                "p.toml:5: expected segment_bytes of 64 or more, found {short}"
            )),
            "{text}"
        );
    }
    assert!(refusal("n[0-3]", "n[0-").starts_with("p.toml:7: members: node set, character 5"));
    assert!(refusal("n[0-3]", "n[0-3],n1").starts_with("p.toml:7: `n1` is a member twice"));
    assert!(refusal("n[0-3]", "n[0-9999999]").contains("more than 1048576 hosts"));
    assert_eq!(
        refusal("\"n[0-3]\"", "7"),
        "p.toml:7: expected members as a node set such as \"n[0-7]\" or as a list of them, found integer"
    );
    assert_eq!(
        refusal("to = \"n2\"", "to = \"n4\""),
        "p.toml:11: an edge names `n4`, which is not a member; name it among the members"
    );
    assert_eq!(
        refusal("order = 1", "order = 0"),
        "p.toml:17: `n0` sends to `n1` at place 0; expected its 2 edges at places 0 to 1, each once"
    );
    assert!(refusal("[[edge]]", "[[edges]]").starts_with("p.toml:9: unknown field `edges`"));
    assert!(refusal("order = 0\n", "").contains("missing field `order`"));
}

#[test]
fn edges_that_are_no_tree_are_refused_with_the_line_of_the_one_too_many() {
    let twice = refusal("to = \"n1\"", "to = \"n2\"");
    assert!(
        twice.starts_with("p.toml:15: these edges are no plan")
            && twice.contains("rank 2 receives"),
        "{twice}"
    );
    let relayed = refusal("\"binary\"", "\"cast\"");
    assert!(
        relayed.starts_with("p.toml:20: ")
            && relayed.contains("with cast everybody receives from the root")
    );
    let circle = refusal(
        "from = \"n0\"\nto = \"n1\"\norder = 1",
        "from = \"n3\"\nto = \"n1\"\norder = 0",
    );
    assert!(
        circle.starts_with("p.toml:15: ") && circle.contains("circle"),
        "{circle}"
    );
    let wide = refusal("\"binary\"", "\"chain\"");
    assert!(
        wide.starts_with("p.toml:15: ") && wide.contains("rank 0 has 2 children; with chain"),
        "{wide}"
    );
    let to_root = refusal("to = \"n3\"", "to = \"n0\"");
    assert!(
        to_root.starts_with("p.toml:20: ") && to_root.contains("the root has none"),
        "{to_root}"
    );
    let orphan = refusal("members = \"n[0-3]\"", "members = \"n[0-4]\"");
    assert!(
        orphan.starts_with("p.toml:7: ") && orphan.contains("rank 4 has no parent"),
        "{orphan}"
    );
}

#[test]
fn each_half_of_two_trees_is_judged_as_a_tree_and_both_together_on_the_network() {
    let topology = Topology::single_switch((0..4).map(|host| format!("n{host}"))).expect("hosts");
    let plan = two_tree(&topology, 0, &[0, 1, 2, 3]).expect("two trees");
    let names = ["n0", "n1", "n2", "n3"];
    let text = SavedPlan::from_plan(&plan, &names, 1400, None).to_toml();
    let read = |text: &str| {
        SavedPlan::parse(text, "p.toml").and_then(|saved| saved.for_members(&names, 1))
    };
    let loads = |plan: &Plan| {
        check(&topology, plan, &[0, 1, 2, 3])
            .loads
            .iter()
            .map(|load| load.flows)
            .max()
    };
    let ran = read(&text).expect("what was written");
    assert_eq!((ran.trees().len(), loads(&ran)), (2, Some(1)));
    let refused = |text: &str| read(text).expect_err("refused").to_string();
    let mixed = refused(&text.replacen("half = 1\n", "", 1));
    assert!(
        mixed.contains("at place") || mixed.contains("receives from"),
        "{mixed}"
    );
    let (first, second) =
        text.split_at(text.find("half = 1").expect("a second tree") + "half = 1\n".len());
    let short = refused(first);
    assert!(
        !second.is_empty() && short.contains("has no parent"),
        "{short}"
    );
    let third = refused(&text.replacen("half = 1", "half = 2", 1));
    assert!(
        third.ends_with(
            "half = 2 is no half of the message; only with via = \"two-tree\", give 0 or 1"
        ),
        "{third}"
    );
    let chain = refused(&text.replace("\"two-tree\"", "\"chain\""));
    assert!(
        chain.contains("half = 1 is no half of the message"),
        "{chain}"
    );
}

fn two_switches() -> Topology {
    let text = "schema = 1\n[[switch]]\nname = 'a'\nhosts = 'n[0,2]'\nlinks = ['b']\n[[switch]]\nname = 'b'\nhosts = \
                'n[1,3]'\n";
    Topology::parse(text, "two").expect("a topology")
}

#[test]
fn a_plan_is_judged_on_the_network_it_runs_on() {
    let saved = SavedPlan::parse(FILE, "p.toml").expect("a plan");
    let report = saved
        .admit(&two_switches(), Contention::Refused)
        .expect("one crosses");
    assert!(
        report.is_good() && report.contention().is_empty(),
        "{report}"
    );

    // The edges n0 to n1 and n2 to n3 cross at the same time.
    let text = FILE.replace("from = \"n1\"", "from = \"n2\"");
    let saved = SavedPlan::parse(&text, "p.toml").expect("a plan");
    assert_eq!(
        saved
            .admit(&two_switches(), Contention::Refused)
            .expect_err("two cross")
            .to_string(),
        "p.toml:15: the plan sends over one cable from several hosts at a time: switch a to switch b (2 flows from 2 \
         senders); save a plan for this topology with `ethbcast plan --out`, or run this one as it is with \
         --allow-contention"
    );
    let report = saved
        .admit(&two_switches(), Contention::Allowed)
        .expect("as its author wants it");
    assert_eq!(
        (report.contended().len(), report.worst_edges),
        (1, vec![(0, 1), (2, 3)])
    );

    let others = Topology::single_switch(["n0", "n2", "n4"].map(str::to_owned)).expect("hosts");
    assert_eq!(
        saved
            .admit(&others, Contention::Allowed)
            .expect_err("others")
            .to_string(),
        "p.toml:7: the topology names no host `n[1,3]`; add it there, or save a plan for this topology with `ethbcast \
         plan --out`"
    );
}

#[test]
fn a_segment_must_fit_into_what_relays_keep() {
    let saved = SavedPlan::parse(FILE, "p.toml").expect("a plan");
    assert_eq!(saved.check_segment(4096), Ok(()));
    assert_eq!(
        saved.check_segment(4095).expect_err("longer").to_string(),
        "p.toml:5: segments of 4096 bytes are longer than a host can keep of a stream, 4095 bytes; use at most \
         that, or \
         save the plan again with `ethbcast plan --out`"
    );
}

proptest! {
    #[test]
    fn a_saved_plan_reads_back_equal(
        topology in arbitrary::topology(6, 20), root in any::<prop::sample::Index>(), kind in 0..3,
    ) {
        let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
        let root = root.index(hosts.len());
        let plan = match kind {
            0 => by_rank(Via::Cast, root, hosts.len()),
            1 => chain(&topology, root, &hosts),
            _ => two_tree(&topology, root, &hosts),
        };
        let plan = plan.expect("a plan");
        // Rank 0 of a view is its root.
        let mut names: Vec<&str> = topology.hosts().iter().map(String::as_str).collect();
        let saved = SavedPlan::from_plan(&plan, &names, 1400, None);
        let read = SavedPlan::parse(&saved.to_toml(), "saved").expect("what was written");
        prop_assert_eq!(&read, &saved);
        names.swap(0, root);
        let run = read.for_members(&names, SAVED_EPOCH).expect("the same members");
        let by_name = |plan: &Plan, names: &[&str]| {
            plan.trees().into_iter().map(|tree| {
                let mut edges: Vec<_> =
                    tree.edges().map(|(from, to)| (names[from].to_string(), names[to].to_string())).collect();
                edges.sort();
                edges
            }).collect::<Vec<_>>()
        };
        let before: Vec<&str> = topology.hosts().iter().map(String::as_str).collect();
        prop_assert_eq!(by_name(&run, &names), by_name(&plan, &before));
        prop_assert_eq!((run.root(), run.via()), (0, plan.via()));
    }
}

#[test]
fn a_root_alone_is_a_plan_without_edges() {
    let topology = Topology::single_switch(["a".to_string()]).expect("a host");
    let saved = SavedPlan::from_plan(
        &chain(&topology, 0, &[0]).expect("a chain"),
        &["a"],
        1,
        Some(0),
    );
    assert_eq!(SavedPlan::parse(&saved.to_toml(), "alone"), Ok(saved));
}
