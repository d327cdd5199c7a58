//! A run that is killed at a random moment, and the one that resumes it: the bytes sent by both.
//!
//! `ETHBCAST_CUTS=50` kills that many runs of each kind, of 128 MiB, at any moment, and prints
//! their cost. The default is one directory of 32 MiB, near its end.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch, within};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const RECEIVERS: [&str; 3] = ["n1", "n2", "n3"];
const CHUNK_BYTES: u64 = 64 << 10;
/// Limit on the data that a receiver loses from memory: spans waiting for a slow disk, and the
/// feed.
const IN_MEMORY_BYTES: u64 = 18 << 20;

/// A run whose receivers each start or resume in a directory of their own.
struct Cut<'a> {
    site: &'a Site,
    source: PathBuf,
    via: &'static str,
}

impl Cut<'_> {
    fn sent(&self) -> u64 {
        self.site.lab().counters("n0").expect("a host of this lab").sent_bytes
    }

    fn dest(&self, host: &str) -> PathBuf {
        self.site.path(host).join("it")
    }

    /// Returns the bytes on the root's cable in a run, which is killed after `killed_at` bytes if
    /// given.
    fn run(&self, killed_at: Option<u64>) -> u64 {
        let before = self.sent();
        let recv = ["recv", "-i", "eth0", "--max-wait", "20"];
        let receivers: Vec<_> = RECEIVERS.iter().map(|host| self.site.start(host, &recv, self.dest(host))).collect();
        let send = ["send", "-i", "eth0", "-n", "3", "--no-probe", "--via", self.via, "--json"];
        let root = self.site.start("n0", &send, &self.source);
        if let Some(at) = killed_at {
            within(LIMIT, || (self.sent() - before >= at).then_some(())).expect("it sends");
            receivers.iter().chain([&root]).for_each(|run| run.signal(Signal::SIGKILL));
            drop((receivers, root));
            return self.sent() - before;
        }
        receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
        root.end(LIMIT).assert_code(0);
        for host in RECEIVERS {
            let dest = self.dest(host);
            let mut diff = Command::new("diff");
            diff.arg("-rq").args([&self.source, &dest]);
            assert_eq!(Run::to_end(diff, LIMIT).code(), 0, "{host}");
            if dest.is_dir() { fs::remove_dir_all(dest) } else { fs::remove_file(dest) }.expect("ours");
        }
        self.sent() - before
    }
}

/// Creates a directory of many small files.
fn tree(at: &Path, bytes: &[u8]) -> PathBuf {
    for (number, part) in bytes.chunks(17_000).enumerate() {
        let directory = at.join(format!("d{}", number / 100));
        fs::create_dir_all(&directory).expect("room");
        fs::write(directory.join(format!("f{number}")), part).expect("room");
    }
    at.join("")
}

/// Limit on the cost of both runs, relative to a single one.
const SHARE: f64 = 1.02;

#[test]
fn a_run_that_was_killed_whole_and_the_one_after_it_send_hardly_more_than_one() {
    let cuts: Option<u64> = std::env::var("ETHBCAST_CUTS").ok().and_then(|cuts| cuts.parse().ok());
    let bytes = cuts.map_or(32, |_| 128) * MEBIBYTE;
    let site = Site::beside("cutoff", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(4) });
    RECEIVERS.iter().for_each(|host| drop(site.directory(host)));
    let file = || site.file("source.bin", content(11, bytes));
    let tree = || tree(&site.directory("source"), &content(12, bytes));
    let kinds = [("chain", tree()), ("cast", file())];
    for (via, source) in kinds.into_iter().take(cuts.map_or(1, |_| 2)) {
        let cut = Cut { site: &site, source, via };
        let one = cuts.map_or(bytes as u64 / 100 * 105, |_| cut.run(None));
        let mut dear = 0;
        for number in 0..cuts.unwrap_or(1) {
            // Spread between the first and the last bytes.
            let hundredths = cuts.map_or(90, |_| 3 + (number * 37 + u64::from(via == "cast") * 20 + 41) % 94);
            let killed = cut.run(Some(bytes as u64 / 100 * hundredths));
            let rest = cut.run(None);
            let share = (killed + rest) as f64 / one as f64;
            println!("{via}: killed at {hundredths} %, {killed} + {rest} bytes, {share:.4} of one run");
            let most = one + IN_MEMORY_BYTES + RECEIVERS.len() as u64 * CHUNK_BYTES;
            assert!(killed + rest <= most, "{via}, killed at {hundredths} %: {killed} + {rest} of {one} bytes");
            dear += u64::from(killed + rest > (one as f64 * SHARE) as u64 + RECEIVERS.len() as u64 * CHUNK_BYTES);
        }
        println!("{via}: {dear} runs cost more than {SHARE} of {one} bytes");
    }
}
