//! A lying host that is not a member: it affects counters only.

use super::vandal::Vandal;
use crate::harness::{MEBIBYTE, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::StopOnDrop;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn frames_of_liars_and_madmen_change_counters_only() {
    let site = Site::beside("garbage", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(5) });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let vandal = scope.spawn(|| site.lab().run_on("n4", || Vandal::new().rage(&stop)));
        // Stopped even if an assertion fails, because the scope waits for its threads.
        let stopper = StopOnDrop(&stop);
        for via in ["chain", "cast"] {
            let outcome = Transfer::new(&site, content(7, 16 * MEBIBYTE)).receivers(&["n1", "n2", "n3"]).via(via).run();
            outcome.assert_verified();
            for host in ["n1", "n2", "n3"] {
                let report = outcome.receiver(host).json();
                for count in ["malformed", "strangers"] {
                    assert!(
                        report["frames"][count].as_u64().is_some_and(|frames| frames > 100),
                        "none {count} at {host}: {report}"
                    );
                }
            }
        }
        drop(stopper);
        let (frames, forged) = vandal.join().expect("no panic").expect("a host");
        println!("{frames} frames of garbage, {forged} of them with the session's own number");
        assert!(
            frames > 1_000 && forged > 200,
            "{frames} frames of garbage, {forged} with the session's number: too few to prove anything"
        );
    });
}
