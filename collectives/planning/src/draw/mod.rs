//! Drawing of network topologies and broadcast trees as text, DOT and SVG.
//!
//! All three hang the tree of switches from its middle. With a plan, each host shows its receivers
//! in sending order, and each cable the number of flows in either direction: the loads that
//! [`check`](crate::plan::check()) counted.

pub mod canvas;
mod overlay;
mod shapes;
mod svg;
mod text;

pub use overlay::Overlay;
pub use overlay::levels;
pub use svg::{svg, svg_in_page, svg_legend};
pub use text::dot;
pub use text::text;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CableEnd, CableLoad, Plan, Via, chain, check};
    use crate::topology::{Topology, arbitrary};
    use proptest::prelude::*;

    fn bed(name: &str) -> Topology {
        Topology::builtin(name).expect(name)
    }

    fn small() -> Topology {
        let text = "schema = 1\nswitch = [{name = 'leaf', hosts = 'a', links = ['top']}, {name = \
            'top', hosts = 'n[1-2]'}]";
        Topology::parse(text, "small").expect("a topology")
    }

    fn small_plan() -> (Plan, Vec<CableLoad>) {
        let plan =
            Plan::from_children(Via::Binary, 1, &[vec![], vec![2, 0], vec![]]).expect("a plan");
        let host = |name: &str| CableEnd::Host(name.to_string());
        let switch = |name: &str| CableEnd::Switch(name.to_string());
        let load = |from, to, flows, senders| CableLoad {
            from,
            to,
            flows,
            senders,
            rate: None,
            demand: None,
        };
        let loads = vec![
            load(host("n1"), switch("top"), 2, 1),
            load(switch("top"), host("n2"), 1, 1),
            load(switch("top"), switch("leaf"), 1, 1),
            load(switch("leaf"), host("a"), 1, 1),
        ];
        (plan, loads)
    }

    #[test]
    fn a_topology_as_a_tree() {
        let expected = "\
s1  8 hosts  n[8-15]
├── s0  8 hosts  n[0-7]
└── s2  8 hosts  n[16-23]
    └── s3  8 hosts  n[24-31]
";
        assert_eq!(text(&bed("fig9-4"), &Overlay::default()), expected);
        assert_eq!(
            text(&small(), &Overlay::default()),
            "leaf  1 host  a\n└── top  2 hosts  n[1-2]\n"
        );
    }

    #[test]
    fn trunks_go_on_beside_what_hangs_further_down() {
        let wide = "schema = 1\nswitch = [{name='t', links=['a','b']}, {name='a', links=['c']}, \
                    {name='b', links=['d']}, {name='c', hosts='n1'}, {name='d', hosts='n2'}]";
        let expected = "t\n├── a\n│   └── c  1 host  n1\n└── b\n    └── d  1 host  n2\n";
        assert_eq!(
            text(
                &Topology::parse(wide, "wide").expect("a topology"),
                &Overlay::default()
            ),
            expected
        );
    }

    #[test]
    fn a_plan_over_the_tree() {
        let (plan, loads) = small_plan();
        let overlay = Overlay {
            title: "",
            plan: Some(&plan),
            host_of_rank: &[0, 1, 2],
            loads: &loads,
        };
        let expected = "\
↑ flows to the switch above, ↓ flows from it, ! several senders at once, → sends to, in this order
leaf
├── a  ↑0 ↓1
└── top  ↑1 ↓0
    ├── n1 (root)  ↑2 ↓0  → n2,a
    └── n2  ↑0 ↓1
";
        assert_eq!(text(&small(), &overlay), expected);
    }

    #[test]
    fn contention_is_marked_and_a_cast_has_no_loads() {
        let bed = bed("fig9-5");
        let hosts: Vec<usize> = (0..32).collect();
        let parents: Vec<Option<usize>> = (0..32).map(|rank: usize| rank.checked_sub(1)).collect();
        let unaware = Plan::from_parents(Via::ChainUnaware, 0, &parents).expect("a chain");
        let worst = check(&bed, &unaware, &hosts).worst.expect("a cable");
        let overlay = Overlay {
            title: "",
            plan: Some(&unaware),
            host_of_rank: &hosts,
            loads: &[worst],
        };
        assert!(
            text(&bed, &overlay).contains("├── s0  ↑8! ↓0\n"),
            "{}",
            text(&bed, &overlay)
        );
        assert!(dot(&bed, &overlay).contains("label=\"↑8! ↓0\", color=\"#c0392b\"]"));
        assert!(svg(&bed, &overlay).contains("<text class=\"load hot\""));

        let cast = crate::plan::by_rank(Via::Cast, 0, 3).expect("a cast");
        let drawn = text(
            &small(),
            &Overlay {
                title: "",
                plan: Some(&cast),
                host_of_rank: &[0, 1, 2],
                loads: &[],
            },
        );
        let expected = "\
one frame from the root, which the switches copy: ↑1 up to the switch above, ↓1 down from it
leaf
├── a (root)  ↑1 ↓0
└── top  ↑0 ↓1
    ├── n1  ↑0 ↓1
    └── n2  ↑0 ↓1
";
        assert_eq!(drawn, expected);
        let overlay = Overlay {
            title: "a cast",
            plan: Some(&cast),
            host_of_rank: &[0, 1, 2],
            loads: &[],
        };
        let drawn = dot(&small(), &overlay);
        assert!(
            drawn.contains("\"switch leaf\" -> \"switch top\" [dir=forward, color=\"#1f6fb2\"];"),
            "{drawn}"
        );
        assert!(
            drawn.contains("\"switch leaf\" -> \"host a\" [dir=back, color=\"#1f6fb2\"];"),
            "{drawn}"
        );
        assert!(
            !drawn.contains("\"host a\" -> \"host n1\"") && drawn.contains("label=\"a cast\""),
            "{drawn}"
        );
        let drawn = svg(&small(), &overlay);
        assert!(
            drawn.contains("<title>a cast</title>") && drawn.contains("copied by the switches"),
            "{drawn}"
        );
        assert_eq!(
            (
                drawn.matches("class=\"edge\"").count(),
                drawn.matches("class=\"copied\"").count()
            ),
            (0, 4),
            "{drawn}"
        );
    }

    #[test]
    fn a_topology_and_a_plan_in_dot() {
        let expected = r#"graph topology {
  node [fontname="sans-serif"];
  edge [fontname="sans-serif"];
  "switch leaf" [label="leaf", shape=box];
  "switch top" [label="top", shape=box];
  "host a" [label="a", shape=ellipse];
  "host n1" [label="n1", shape=ellipse];
  "host n2" [label="n2", shape=ellipse];
  "switch leaf" -- "switch top";
  "switch leaf" -- "host a";
  "switch top" -- "host n1";
  "switch top" -- "host n2";
}
"#;
        assert_eq!(dot(&small(), &Overlay::default()), expected);
        let (plan, loads) = small_plan();
        let expected = r##"digraph plan {
  node [fontname="sans-serif"];
  edge [fontname="sans-serif"];
  "switch leaf" [label="leaf", shape=box];
  "switch top" [label="top", shape=box];
  "host a" [label="a", shape=ellipse];
  "host n1" [label="n1", shape=ellipse, penwidth=3];
  "host n2" [label="n2", shape=ellipse];
  "switch leaf" -> "switch top" [dir=none, label="↑1 ↓0"];
  "switch leaf" -> "host a" [dir=none, label="↑0 ↓1"];
  "switch top" -> "host n1" [dir=none, label="↑2 ↓0"];
  "switch top" -> "host n2" [dir=none, label="↑0 ↓1"];
  "host n1" -> "host n2" [color="#1f6fb2", constraint=false, label="0"];
  "host n1" -> "host a" [color="#1f6fb2", constraint=false, label="1"];
}
"##;
        assert_eq!(
            dot(
                &small(),
                &Overlay {
                    title: "",
                    plan: Some(&plan),
                    host_of_rank: &[0, 1, 2],
                    loads: &loads
                }
            ),
            expected
        );
    }

    #[test]
    fn a_picture_needs_nothing_else_and_shows_everything() {
        let bed = bed("fig9-4");
        let hosts: Vec<usize> = (0..32).collect();
        let plan = chain(&bed, 0, &hosts).expect("a chain");
        let drawn = svg(
            &bed,
            &Overlay {
                title: "",
                plan: Some(&plan),
                host_of_rank: &hosts,
                loads: &[],
            },
        );
        assert!(
            drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=")
                && drawn.ends_with("</svg>\n")
        );
        assert!(!drawn.contains("href") && !drawn.contains("url(http"));
        assert_eq!(drawn.matches("<title>").count(), 1 + 32 + 4);
        assert!(
            drawn.contains("<title>plan</title>")
                && drawn.contains("sends to; numbers give the order"),
            "{drawn}"
        );
        assert_eq!(drawn.matches("class=\"edge\"").count(), 31);
        assert_eq!(
            drawn.matches("class=\"root\"").count(),
            2,
            "the root, and its sign in the legend"
        );
        assert_eq!(
            svg(&bed, &Overlay::default())
                .matches("class=\"edge\"")
                .count(),
            0
        );
    }

    #[test]
    fn rates_and_blocked_cables_are_drawn() {
        let text_of = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=[{to='b', rate='10gbit'}], \
                       blocked=['c']}, {name='b', links=['c']}, {name='c', hosts='m'}]\n\
                       host = [{name='n[0,2]', rate='100mbit'}]";
        let ring = Topology::parse(text_of, "ring").expect("a topology");
        let expected = "\
b
├── a (10gbit)  4 hosts  n[1,3], n[0,2] (100mbit)
└── c  1 host  m
blocked by spanning tree: a-c
";
        assert_eq!(text(&ring, &Overlay::default()), expected);
        let drawn = dot(&ring, &Overlay::default());
        assert!(
            drawn.contains("\"switch b\" -- \"switch a\" [label=\"10gbit\"];"),
            "{drawn}"
        );
        assert!(
            drawn.contains("\"switch a\" -- \"switch c\" [dir=none, style=dashed,"),
            "{drawn}"
        );
        let drawn = svg(&ring, &Overlay::default());
        assert!(
            drawn.contains("spanning tree blocks")
                && drawn.contains(">10gbit<")
                && drawn.contains(">100mbit<"),
            "{drawn}"
        );
        assert_eq!(
            drawn.matches("class=\"blocked\"").count(),
            2,
            "the cable, and its sign"
        );
    }

    #[test]
    fn latencies_and_pairs_are_drawn() {
        let text_of = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=[{to='b', rate='10gbit', \
                       latency_ns=500000}]}, {name='b', hosts='m'}]\nhost = [{name='n2', latency_ns=20000}]\n\
                       pair = [{hosts=['n0', 'n[1,3]'], talk=false}, {switches=['b', 'a'], latency_ns=3000000}]";
        let far = Topology::parse(text_of, "far").expect("a topology");
        let expected = "\
a  4 hosts  n[0-1,3], n2 (20.0 µs)
└── b (10gbit, 500 µs)  1 host  m
n0 and n[1,3] cannot talk directly
a and b: 3.00 ms more
";
        assert_eq!(text(&far, &Overlay::default()), expected);
        let drawn = dot(&far, &Overlay::default());
        assert!(
            drawn.contains("[label=\"10gbit, 500 µs\"]") && drawn.contains("[label=\"20.0 µs\"]"),
            "{drawn}"
        );
        let drawn = svg(&far, &Overlay::default());
        assert!(
            drawn.contains(">10gbit, 500 µs<") && drawn.contains(">20.0 µs<"),
            "{drawn}"
        );
    }

    proptest! {
        #[test]
        fn every_host_and_switch_is_drawn_once(topology in arbitrary::topology(10, 30)) {
            let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
            let plan = chain(&topology, 0, &hosts).expect("a chain");
            let overlay = Overlay { title: "", plan: Some(&plan), host_of_rank: &hosts, loads: &[] };
            let places = topology.hosts().len() + topology.switches().len();
            prop_assert_eq!(text(&topology, &overlay).lines().count(), 1 + places);
            prop_assert_eq!(text(&topology, &Overlay::default()).lines().count(), topology.switches().len());
            prop_assert_eq!(dot(&topology, &overlay).matches("shape=").count(), places);
            prop_assert_eq!(svg(&topology, &overlay).matches("<title>").count(), 1 + places);
        }
    }
}
