//! `ethbcast probe --discover` on real frames, which must find the lab's switches.

use crate::harness::{Ended, Ethbcast, LIMIT, Run, Site, one_switch};
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;
use ethbcast_tests::quiet::in_a_quiet_moment;
use ethbcast_transport::sim::Random;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of random labs; `ETHBCAST_DISCOVERIES=100` sets more.
const LABS: u64 = 3;

fn site(topology: Topology) -> Site {
    Site::alone("discover", LabConfig { rate_bits_per_second: Some(100_000_000), ..LabConfig::new(topology) })
}

fn answerers(site: &Site, hosts: &[String]) -> Vec<Run> {
    let start = |host: &String| Run::start(host, site.ethbcast(host, ["probe", "--answer", "-i", "eth0"]));
    let answerers: Vec<Run> = hosts.iter().map(start).collect();
    answerers.iter().for_each(|answerer| answerer.wait_for_line("answers the probes"));
    answerers
}

fn discover(site: &Site, hosts: usize, arguments: &[&str]) -> Run {
    let receivers = (hosts - 1).to_string();
    let words = ["probe", "--discover", "-i", "eth0", "-n", &receivers];
    Run::start("n0", site.ethbcast("n0", words.iter().chain(arguments)))
}

/// Returns the hosts beyond each cable as seen from n0, and whether the report is certain of all
/// cables.
fn found(ended: &Ended) -> (BTreeSet<BTreeSet<String>>, bool) {
    let report = ended.json();
    let cables = report["cables"].as_array().expect("a list");
    let side = |cable: &Value| {
        let sides = cable["sides"].as_array().expect("two").iter().map(|side| {
            let names = side.as_array().expect("names").iter();
            BTreeSet::from_iter(names.map(|name| name.as_str().expect("a name").to_owned()))
        });
        sides.into_iter().find(|side| !side.contains("n0")).expect("one is without n0")
    };
    (cables.iter().map(side).collect(), report["confidence"] == "high")
}

/// Returns a tree of two to five switches with at least two hosts each, and the hosts beyond each
/// of its cables.
fn random_tree(random: &mut Random) -> (Topology, BTreeSet<BTreeSet<String>>) {
    let switches = 2 + random.below(4);
    let hosts = (8 + random.below(9)).max(2 * switches);
    let above: Vec<u64> = (0..switches).map(|switch| random.below(switch.max(1))).collect();
    let on = |switch: u64| (0..hosts).filter(move |host| host % switches == switch).map(|host| format!("n{host}"));
    let table = |switch: u64| {
        let link = if switch > 0 { format!("links = [\"s{}\"]\n", above[switch as usize]) } else { String::new() };
        let hosts = Vec::from_iter(on(switch).map(|host| format!("\"{host}\""))).join(", ");
        format!("[[switch]]\nname = \"s{switch}\"\nhosts = [{hosts}]\n{link}")
    };
    let text = format!("schema = 1\n{}", (0..switches).map(table).collect::<String>());
    let beyond = |switch: u64| {
        let is_below = |mut other: u64| {
            while other > switch {
                other = above[other as usize];
            }
            other == switch
        };
        (switch..switches).filter(|other| is_below(*other)).flat_map(on).collect::<BTreeSet<String>>()
    };
    (Topology::parse(&text, "random").expect("a topology"), (1..switches).map(beyond).collect())
}

#[test]
fn the_switches_of_random_labs_are_found() {
    let labs = std::env::var("ETHBCAST_DISCOVERIES").map_or(LABS, |labs| labs.parse().expect("a number"));
    let (mut random, mut right) = (Random::new(2026), 0);
    for lab in 0..labs {
        let (topology, cables) = random_tree(&mut random);
        let hosts = topology.hosts().to_vec();
        let site = site(topology);
        let answerers = answerers(&site, &hosts[1..]);
        let ended = discover(&site, hosts.len(), &["--json"]).end(4 * LIMIT);
        println!("lab {lab} took {:?}", ended.took);
        let (seen, is_sure) = found(&ended);
        println!("lab {lab}: {} hosts, {} cables, right {}, sure {is_sure}", hosts.len(), cables.len(), seen == cables);
        assert_eq!(ended.code(), if is_sure { 0 } else { 1 }, "{}", ended.stderr);
        assert!(seen == cables || !is_sure, "lab {lab}: vouches for {seen:?}, in truth {cables:?}");
        right += u64::from(seen == cables);
        drop(answerers);
    }
    println!("{right} of {labs} right");
    // Hosts that wait for processors may be uncertain, but not wrong.
    assert!(right > 0, "none of {labs} right");
}

#[test]
fn what_is_found_is_a_topology_that_send_takes_and_one_switch_has_no_cables() {
    let site = site(one_switch(5).topology);
    let hosts: Vec<String> = (1..5).map(|host| format!("n{host}")).collect();
    let answerers = answerers(&site, &hosts);
    let path = site.path("found.toml");
    // Hosts that wait for processors are uncertain.
    let ended = in_a_quiet_moment(|| {
        let ended = discover(&site, 5, &["--out", path.to_str().expect("ours")]).end(LIMIT);
        if ended.code() == 0 { Ok(ended) } else { Err(ended.stderr) }
    });
    assert!(ended.stderr.contains("5 hosts on 1 switch,") && ended.stderr.contains("written to"), "{}", ended.stderr);
    let topology = Topology::load(&path).expect("it can be read").topology;
    assert_eq!((topology.hosts().len(), topology.cables().len()), (5, 0));
    for answerer in &answerers {
        answerer.signal(Signal::SIGTERM);
    }
    answerers.into_iter().for_each(|answerer| answerer.end(LIMIT).assert_code(143));
}

#[test]
fn a_host_that_falls_silent_in_the_middle_is_named_and_nothing_is_written() {
    let config = LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(9) };
    let site = Site::beside("silent", config);
    let hosts: Vec<String> = (1..9).map(|host| format!("n{host}")).collect();
    let mut answerers = answerers(&site, &hosts);
    let path = site.path("found.toml");
    let discovery = discover(&site, 9, &["--out", path.to_str().expect("ours")]);
    discovery.wait_for_line("two at a time");
    std::thread::sleep(Duration::from_millis(300));
    answerers.remove(4).signal(Signal::SIGKILL);
    discovery.end(LIMIT).assert_refusal(3, &["n5 sends or counts no flow", "E-NOBODY"]);
    assert!(!path.exists());
    let nobody = discover(&site, 9, &["--max-wait", "1", "n5"]).end(LIMIT);
    nobody.assert_refusal(3, &["no answer from n5", "probe --answer"]);
    let mixed = Run::start("n0", site.ethbcast("n0", ["probe", "--discover", "--answer"])).end(LIMIT);
    mixed.assert_refusal(2, &["--answer", "--discover"]);
}
