//! Tests of transfers with a host on a slow cable: the others hardly wait, and it is named with its
//! rate.

use super::{LIMIT, MEBIBYTE, Site, Transfer, content};
use crate::harness::Outcome;
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;

/// A lab of six hosts on cables of 50 Mbit/s, but for the hosts that `slow` describes.
fn lab(slow: &str) -> LabConfig {
    let text = format!("schema = 1\nswitch = [{{name='s0', hosts='n[0-5]'}}]\n{slow}");
    let topology = Topology::parse(&text, "lab").expect("a topology");
    LabConfig { rate_bits_per_second: Some(50_000_000), ..LabConfig::new(topology) }
}

#[test]
fn a_host_on_a_cable_of_a_fifth_hardly_holds_up_the_others_and_is_named_with_its_rate() {
    let bytes = content(13, 12 * MEBIBYTE);
    let taken = |slow: &str, judge: &dyn Fn(&Outcome)| {
        let site = Site::beside("slowcable", lab(slow));
        let outcome = Transfer::new(&site, bytes.clone()).via("chain").start().end(LIMIT);
        outcome.assert_verified();
        judge(&outcome);
        ["n1", "n3", "n4", "n5"].map(|host| outcome.seconds_of(host)).into_iter().fold(0.0, f64::max)
    };
    let even = taken("", &|outcome| {
        assert_eq!(outcome.root.json()["run"]["aside"].as_array().map(Vec::len), Some(0));
    });
    let others = taken("host = [{name='n2', rate='10mbit'}]", &|outcome| {
        let json = outcome.root.json();
        // On a busy machine trains may not tell the two ends of the cable from each other.
        let aside = json["run"]["aside"].as_array().expect("a list");
        assert!(aside.len() == 1 && (aside[0] == "n2" || aside[0] == "n1"), "{json}");
        let cause = json["limited_by"].as_str().unwrap_or_default();
        assert!(cause.contains("n2") && cause.contains("bit/s"), "{cause}");
    });
    // If they waited for it, they would take five times as long.
    assert!(others < even * 2.5, "{others} s instead of {even}");
}
