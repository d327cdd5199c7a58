//! The short form of `soak` (docs/testing.md): the library does not grow from session to session, nor with use.

use ethbcast_tests::lab::{Site, one_switch};
use ethbcast_tests::soak::{HOSTS, run_sessions, run_traffic};
use std::time::Duration;

#[test]
fn neither_sessions_in_a_row_nor_a_communicator_that_is_used_grow() {
    let site = Site::alone("soak", one_switch(HOSTS));
    let directory = site.directory("received");
    let sessions = run_sessions(site.lab(), &directory, 48, 4).expect("sessions");
    assert_eq!(sessions.drift(), [""; 0], "{:?}", sessions.ends());
    let (lasts, every) = (Duration::from_secs(8), Duration::from_millis(400));
    let (traffic, rounds) = run_traffic(site.lab(), &directory, lasts, every).expect("collectives");
    assert!(rounds > 20, "{rounds} rounds");
    assert_eq!(traffic.drift(), [""; 0], "{:?}", traffic.ends());
}
