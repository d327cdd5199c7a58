//! Pausing and slow hosts, and the patience with them.

use super::{begun, half_way, sixteen_mebibytes, slow};
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch};
use nix::sys::signal::Signal;
use std::thread;
use std::time::Duration;

#[test]
fn a_host_that_pauses_for_a_second_is_waited_for() {
    let site = Site::beside("pause", slow(4));
    for via in ["chain", "cast"] {
        let session = half_way(&site, via, "n3");
        session.receiver("n2").signal(Signal::SIGSTOP);
        thread::sleep(Duration::from_secs(1));
        session.receiver("n2").signal(Signal::SIGCONT);
        session.end(LIMIT).assert_verified();
    }
}

#[test]
fn a_host_that_pauses_for_too_long_finds_that_the_others_have_gone_on() {
    let site = Site::beside("frozen", slow(4));
    let session = begun(sixteen_mebibytes(&site, "chain").both_options("--patience", "5"), "n3");
    session.receiver("n1").signal(Signal::SIGSTOP);
    session.root.wait_for_line("n1 (silent)");
    session.receiver("n1").signal(Signal::SIGCONT);
    let outcome = session.end(LIMIT);
    ["n2", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    // The views sent meanwhile wait in its ring.
    outcome.assert_nothing("n1", 1);
    assert!(outcome.receiver("n1").stderr.contains("went on without this host"), "{}", outcome.receiver("n1").stderr);
}

#[test]
fn a_receiver_that_is_slow_to_write_is_not_taken_for_dead() {
    const PAUSE: Duration = Duration::from_secs(3);
    let site = Site::beside("dawdle", one_switch(3));
    let bytes = content(6, 48 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    for via in ["chain", "cast"] {
        let dest = site.path(&format!("n1-{via}"));
        // More than the buffers on the way hold: the sender must wait for the pipe's reader.
        let script = format!("\"$0\" recv -i eth0 - | {{ sleep {}; cat; }} > \"$1\"", PAUSE.as_secs());
        let mut slow = site.command("n1", "sh");
        slow.args(["-c", &script]).arg(PROGRAM).arg(&dest);
        let slow = Run::start("n1", slow);
        let fast = site.start("n2", &["recv", "-i", "eth0"], site.path(&format!("n2-{via}")));
        let root = site.run("n0", &["send", "--json", "-i", "eth0", "-n", "2", "--via", via], &source);
        root.assert_code(0);
        slow.end(LIMIT).assert_code(0);
        fast.end(LIMIT).assert_code(0);
        assert!(
            root.json()["total_seconds"].as_f64().is_some_and(|seconds| seconds >= PAUSE.as_secs_f64() * 0.8),
            "{}",
            root.json()
        );
        assert!(std::fs::read(&dest).expect("written") == bytes, "{via}");
    }
}
