//! A SOURCE that is written to while it is sent.

use super::slow;
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, content, names_in};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

#[test]
fn a_source_that_is_written_to_while_it_is_sent_reaches_nobody_unless_that_is_allowed() {
    let site = Site::beside("torn", slow(2));
    let (old, new) = (content(1, 16 * MEBIBYTE), content(2, 4096));
    let source = site.file("source.bin", &old);
    for allowed in [false, true] {
        let directory = site.directory(if allowed { "allowed" } else { "refused" });
        let receiver =
            site.start("n1", &["recv", "--no-resume", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
        let options = ["send", "-i", "eth0", "-n", "1", "--via", "chain", "--allow-changing"];
        let options = &options[..options.len() - usize::from(!allowed)];
        let root = site.start("n0", options, &source);
        receiver.wait_for_line("n0");
        // Of 2.8 s: the same size, and an end that has not been read yet.
        thread::sleep(Duration::from_millis(500));
        let file = std::fs::File::options().write(true).open(&source).expect("ours");
        file.write_all_at(&new, old.len() as u64 - new.len() as u64).expect("room");
        let (root, receiver) = (root.end(LIMIT), receiver.end(LIMIT));
        if allowed {
            root.assert_code(0);
            let received = std::fs::read(directory.join("file")).expect("received");
            assert_eq!((received.len(), &received[..4096]), (old.len(), &old[..4096]));
            assert!(received.ends_with(&new), "its end was read after it was written");
        } else {
            root.assert_refusal(4, &["changed while it was sent", "written to", "--allow-changing"]);
            receiver.assert_refusal(1, &["the sender gave up", "changed while it was sent"]);
            assert_eq!(names_in(&directory), [""; 0]);
        }
    }
}

/// Of what receivers have in an older version the digests go ahead, and what they lack is read again: bytes that have
/// become others meanwhile are the source's fault, and no cable's.
#[test]
fn a_source_that_is_written_to_while_receivers_are_updated_is_named_and_no_cable() {
    let site = Site::beside("torn_update", slow(2));
    let (old, new) = (content(1, 16 * MEBIBYTE), content(2, 4096));
    let source = site.file("source.bin", &old);
    for allowed in [false, true] {
        let directory = site.directory(if allowed { "allowed" } else { "refused" });
        let older = content(3, 16 * MEBIBYTE);
        std::fs::write(directory.join("file"), &older).expect("room");
        let receiver =
            site.start("n1", &["recv", "-f", "--no-resume", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
        let options = ["send", "-i", "eth0", "-n", "1", "--via", "chain", "--allow-changing"];
        let options = &options[..options.len() - usize::from(!allowed)];
        let root = site.start("n0", options, &source);
        receiver.wait_for_line("n0");
        thread::sleep(Duration::from_millis(500));
        let file = std::fs::File::options().write(true).open(&source).expect("ours");
        file.write_all_at(&new, old.len() as u64 - new.len() as u64).expect("room");
        let (root, receiver) = (root.end(LIMIT), receiver.end(LIMIT));
        assert!(!root.stderr.contains("damaged"), "{}", root.stderr);
        let kept = std::fs::read(directory.join("file")).expect("there");
        if allowed {
            root.assert_code(0);
            assert_eq!((kept.len(), &kept[..4096]), (old.len(), &old[..4096]));
        } else {
            root.assert_refusal(4, &["changed while it was sent", "written to", "--allow-changing"]);
            receiver.assert_refusal(1, &["the sender gave up", "changed while it was sent"]);
            assert!(kept == older, "the older version stays");
        }
    }
}
