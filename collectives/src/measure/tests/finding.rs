//! Tests of finding hosts that can be measured: requests and their replies.

use super::*;
use crate::measure::Search;
use ethbcast_transport::sim::{NoFaults, RandomFaults};

fn search(wanted: Search, faults: impl Faults) -> (Vec<String>, Vec<String>, Duration) {
    let stranger = HostInfo { group: "other".to_owned(), host: "n3".to_owned() };
    let others = [responder(1), responder(2), Responder::new(identity(3), MTU_BYTES, Some(stranger))];
    let finder = Host::Finder(Finder::new(Instant::START, identity(0), "test", wanted));
    let machines = std::iter::once(finder).chain(others.map(Host::Responder)).map(Alone::new).collect();
    let mut simulation = Simulation::new(&star(4, 100_000_000), machines, faults);
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), |_, _, _| None);
    assert!(outcome.is_quiet(), "{outcome:?}");
    let Host::Finder(finder) = &simulation.machines()[0].part else { unreachable!("host 0 is the finder") };
    assert!(finder.is_done());
    let mut found: Vec<String> = finder.found().iter().map(|found| found.host.clone()).collect();
    found.sort();
    assert!(finder.found().iter().all(|found| found.mtu_bytes == MTU_BYTES));
    (found, finder.missing().into_iter().map(str::to_owned).collect(), simulation.now().since(Instant::START))
}

fn wanted(hosts: &[&str], count: Option<usize>) -> Search {
    Search { hosts: hosts.iter().map(|&host| host.to_owned()).collect(), count, patience: Duration::from_secs(5) }
}

#[test]
fn the_search_ends_when_no_new_host_replies() {
    let (found, missing, took) = search(wanted(&[], None), NoFaults);
    assert_eq!((found, missing), (vec!["n1".to_owned(), "n2".to_owned()], vec![]));
    assert!(Duration::from_millis(500) <= took && took < Duration::from_millis(700), "{took:?}");
}

#[test]
fn the_search_ends_at_once_when_all_wanted_have_answered() {
    for wanted in [wanted(&["n2"], None), wanted(&[], Some(2)), wanted(&["n1"], Some(2))] {
        let (_, missing, took) = search(wanted.clone(), NoFaults);
        assert!(missing.is_empty() && took < Duration::from_millis(10), "{wanted:?}: {took:?}");
    }
}

#[test]
fn missing_hosts_are_named_when_patience_ends() {
    let (found, missing, took) = search(wanted(&["n2", "n3", "n9"], None), NoFaults);
    assert_eq!(missing, ["n3", "n9"], "n3 listens to another group");
    assert_eq!(found, ["n1", "n2"]);
    assert!(took >= Duration::from_secs(5) && took < Duration::from_millis(5200), "{took:?}");
}

#[test]
fn lost_invitations_are_repeated() {
    let (_, missing, took) = search(wanted(&["n1", "n2"], None), RandomFaults::new(2).loss(0.5));
    assert!(missing.is_empty(), "{missing:?} after {took:?}");
}
