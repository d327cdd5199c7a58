//! An interface that is down for less than the patience: no host is lost.

use super::slow;
use crate::harness::{LIMIT, MEBIBYTE, Site, Transfer, content};
use std::thread;
use std::time::Duration;

#[test]
fn whoever_is_switched_off_for_a_while_is_there_again_and_nobody_is_lost() {
    let site = Site::beside("switched", slow(4));
    for (host, via, millis) in
        [("n0", "chain", 500), ("n2", "chain", 3000), ("n0", "cast", 3000), ("n2", "cast", 500), ("n0", "chain", 3000)]
    {
        let session = Transfer::new(&site, content(1, 8 * MEBIBYTE)).via(via).start();
        session.wait_for_bytes("n3", 2 << 20);
        site.set_up(host, "ip", &["link", "set", "eth0", "down"]);
        thread::sleep(Duration::from_millis(millis));
        site.set_up(host, "ip", &["link", "set", "eth0", "up"]);
        let outcome = session.end(LIMIT);
        outcome.assert_verified();
        let said = if host == "n0" { &outcome.root.stderr } else { &outcome.receiver(host).stderr };
        let [down, back] = ["interface has gone down", "interface is back"].map(|line| said.matches(line).count());
        // On a busy machine half a second may pass unnoticed.
        let least = usize::from(millis >= 3000);
        assert!(down == back && (least..=1).contains(&down), "{host} via {via}: {said}");
    }
}
