//! The short form of `soak` (docs/testing.md): memory and descriptors do not grow from session to
//! session, nor with use.

use ethbcast_tests::lab::{LIMIT, Run, Site, one_switch, require_root};
use ethbcast_tests::soak::{HOSTS, run_traffic};
use std::time::Duration;

#[test]
fn sessions_in_a_row_do_not_grow() {
    require_root();
    let arguments = ["--sessions", "48", "--minutes", "0", "--samples", "12"];
    let soak = Run::here(env!("CARGO_BIN_EXE_soak"), &arguments).end(LIMIT);
    soak.assert_code(0);
    assert!(soak.stdout_text().contains("48 sessions"), "{}", soak.stdout_text());
}

#[test]
fn a_communicator_that_is_used_opens_and_starts_nothing() {
    let site = Site::beside("soak", one_switch(HOSTS));
    let directory = site.directory("received");
    let (lasts, every) = (Duration::from_secs(6), Duration::from_millis(100));
    let (traffic, rounds) = run_traffic(site.lab(), &directory, lasts, every).expect("collectives");
    assert!(rounds > 8, "{rounds} rounds");
    // A short run does not use every buffer once.
    assert_eq!(traffic.counted_drift(), [""; 0], "{:?}", traffic.ends());
}
