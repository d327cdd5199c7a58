//! An interface that is switched off for less than anybody's patience: nobody is lost.

use super::slow;
use crate::harness::{MEBIBYTE, Site, Transfer, content};
use std::thread;
use std::time::Duration;

#[test]
fn whoever_is_switched_off_for_half_a_second_is_there_again_and_nobody_is_lost() {
    let site = Site::alone("switched", slow(4));
    for (host, via) in [("n0", "chain"), ("n2", "chain"), ("n0", "cast"), ("n2", "cast")] {
        let session = Transfer::new(&site, content(1, 8 * MEBIBYTE)).via(via).start();
        session.wait_for_bytes("n3", 2 << 20);
        site.set_up(host, "ip", &["link", "set", "eth0", "down"]);
        thread::sleep(Duration::from_millis(500));
        site.set_up(host, "ip", &["link", "set", "eth0", "up"]);
        let outcome = session.end(Duration::from_secs(10));
        outcome.assert_verified();
        let said = if host == "n0" { &outcome.root.stderr } else { &outcome.receiver(host).stderr };
        for line in ["interface has gone down", "interface is back"] {
            assert_eq!(said.matches(line).count(), 1, "{host} via {via}: {said}");
        }
    }
}
