//! A SOURCE that changes while it is sent.

use super::slow;
use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, Site, content, names_in};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A SOURCE, and the replacement of its unread end, which keeps its size.
struct Torn {
    site: Site,
    source: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Torn {
    fn new(story: &str) -> Torn {
        let site = Site::beside(story, slow(2));
        let (old, new) = (content(1, 16 * MEBIBYTE), content(2, 4096));
        let source = site.file("source.bin", &old);
        Torn { site, source, old, new }
    }

    /// Sends it to a receiver with these options, with or without --allow-changing. Returns both
    /// ends.
    fn send(&self, allowed: bool, recv: &[&str], file: &Path) -> (Ended, Ended) {
        std::fs::write(&self.source, &self.old).expect("room");
        let recv = [&["recv", "--no-resume", "-i", "eth0", "--max-wait", "10"], recv].concat();
        let receiver = self.site.start("n1", &recv, file);
        let options = ["send", "-i", "eth0", "-n", "1", "--via", "chain", "--allow-changing"];
        let root = self.site.start("n0", &options[..options.len() - usize::from(!allowed)], &self.source);
        receiver.wait_for_line("n0");
        // The transfer takes 2.8 s.
        thread::sleep(Duration::from_millis(500));
        let source = std::fs::File::options().write(true).open(&self.source).expect("ours");
        source.write_all_at(&self.new, (self.old.len() - self.new.len()) as u64).expect("room");
        let (root, receiver) = (root.end(LIMIT), receiver.end(LIMIT));
        if allowed {
            root.assert_code(0);
        } else {
            root.assert_refusal(4, &["changed while it was sent", "written to", "--allow-changing"]);
            receiver.assert_refusal(1, &["the sender gave up", "changed while it was sent"]);
        }
        (root, receiver)
    }
}

#[test]
fn a_source_that_is_written_to_while_it_is_sent_reaches_nobody_unless_that_is_allowed() {
    let torn = Torn::new("torn");
    let refused = torn.site.directory("refused");
    torn.send(false, &[], &refused.join("file"));
    assert_eq!(names_in(&refused), [""; 0]);
    let file = torn.site.directory("allowed").join("file");
    torn.send(true, &[], &file);
    let received = std::fs::read(file).expect("received");
    assert_eq!((received.len(), &received[..4096]), (torn.old.len(), &torn.old[..4096]));
    assert!(received.ends_with(&torn.new), "its end was read after it was written");
}

/// Delta transfer: digests are sent ahead and missing data is read again: data that changed
/// meanwhile is the source's fault, and not a cable's.
#[test]
fn a_source_that_is_written_to_while_receivers_are_updated_is_named_and_no_cable() {
    let torn = Torn::new("torn_update");
    let older = content(3, 16 * MEBIBYTE);
    for allowed in [false, true] {
        let file = torn.site.directory(if allowed { "allowed" } else { "refused" }).join("file");
        std::fs::write(&file, &older).expect("room");
        let (root, _) = torn.send(allowed, &["-f"], &file);
        assert!(!root.stderr.contains("damaged"), "{}", root.stderr);
        let kept = std::fs::read(file).expect("there");
        if allowed {
            assert_eq!((kept.len(), &kept[..4096]), (torn.old.len(), &torn.old[..4096]));
            assert!(kept.ends_with(&torn.new), "its end was read after it was written");
        } else {
            assert!(kept == older, "the older version stays");
        }
    }
}
