//! A cable, card or memory that corrupts data under a valid checksum: every chunk is verified,
//! damaged ones are sent again, and the hop is named.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, Transfer, content, one_switch};
use ethbcast_lab::{Detour, LabConfig};
use ethbcast_tests::lab::{StopOnDrop, Tap};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{EtherType, EthernetHeader, Flags, Kind, OVERHEAD_BYTES, parse, seal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Host behind the bad cable, in the middle of a chain from n0 to n4.
const VICTIM: &str = "n3";
/// Number of data frames per corrupted one, and the number of corruptions.
const EACH: u64 = 900;
const DAMAGES: u64 = 10;

/// Corrupts a byte in some data frames, and counts them.
#[derive(Default)]
struct Corruptor {
    seen: u64,
    changed: u64,
}

impl Corruptor {
    fn change(&mut self, bytes: &mut [u8]) {
        let Ok(frame) = parse(bytes) else { return };
        if frame.header.kind != Kind::DATA || frame.header.flags.has(Flags::LAST) {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(EACH) || self.changed == DAMAGES {
            return;
        }
        self.changed += 1;
        let (header, payload_bytes) = (frame.header, frame.payload.len());
        let mac = |at: usize| MacAddr::from(*bytes[at..].first_chunk::<6>().expect("a whole frame"));
        let ethernet = EthernetHeader { destination: mac(0), source: mac(6), ether_type: EtherType::DEFAULT };
        bytes[OVERHEAD_BYTES + (self.seen as usize * 7) % payload_bytes] ^= 0x20;
        seal(bytes, ethernet, &header, payload_bytes);
    }
}

/// Forwards frames both ways until it is stopped, and returns the number of corrupted ones.
fn carry(detour: &Detour, stop: &AtomicBool) -> u64 {
    let [host, switch] = [&detour.towards_host, &detour.towards_switch].map(|name| Tap::on(name).expect("a tap"));
    let mut corruptor = Corruptor::default();
    while !stop.load(Ordering::Relaxed) {
        let mut taps = [&host, &switch].map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN));
        poll(&mut taps, PollTimeout::from(20_u8)).expect("both are open");
        pass_on(&switch, &host, |frame| corruptor.change(frame));
        pass_on(&host, &switch, |_| ());
    }
    corruptor.changed
}

/// Forwards all frames from one end to the other, modified by `change`.
fn pass_on(from: &Tap, to: &Tap, mut change: impl FnMut(&mut [u8])) {
    let mut buffer = [0; 2048];
    while let Some(length) = from.receive(&mut buffer).expect("the cable is there") {
        change(&mut buffer[..length]);
        to.send(&buffer[..length]).expect("the cable is there");
    }
}

#[test]
fn frames_changed_under_a_right_checksum_are_found_sent_again_and_the_hop_is_named() {
    let site = Site::beside("corruption", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(5) });
    let detour = site.lab().detour(VICTIM).expect("a host of this lab");
    // In the tree n0 feeds n1 and n2, and n2 feeds n3 and n4.
    let ways = [("chain", "n2", &["n3", "n4"][..]), ("binary", "n2", &["n3"]), ("cast", "n0", &["n3"])];
    for (via, from, behind) in ways {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let cable = scope.spawn(|| site.lab().run_at_switches(|| carry(&detour, &stop)));
            let stopper = StopOnDrop(&stop);
            let outcome = Transfer::new(&site, content(5, 16 * MEBIBYTE)).via(via).run();
            drop(stopper);
            let changed = cable.join().expect("no panic").expect("a host");
            outcome.assert_verified();
            let report = outcome.root.json();
            let damaged = report["damaged"].as_array().expect("a list");
            println!("{via}: {changed} frames changed, {} pieces sent again", damaged.len());
            assert_eq!(changed, DAMAGES);
            assert!(!damaged.is_empty() && damaged.len() <= 10, "{report}");
            for damage in damaged {
                assert_eq!(
                    (damage["from"].as_str(), &damage["to"]),
                    (Some(from), &serde_json::json!([VICTIM])),
                    "{damage}"
                );
                assert_eq!(damage["at"].as_u64().map(|at| at % 65_536), Some(0), "{damage}");
            }
            for host in ["n1", "n2", "n3", "n4"] {
                let again = outcome.receiver(host).json()["pieces_again"].as_u64().expect("a number");
                let expected = if behind.contains(&host) { damaged.len() as u64 } else { 0 };
                assert_eq!(again, expected, "{host} via {via}: {report}");
            }
        });
    }
}

#[test]
fn of_a_directory_no_more_comes_again_than_was_damaged_whatever_its_chunks_and_all_of_it_is_right() {
    let site = Site::beside("corrupttree", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(5) });
    let detour = site.lab().detour(VICTIM).expect("a host of this lab");
    let source = site.directory("tree");
    (0..200).for_each(|number| {
        let length = if number % 50 == 0 { 3 * MEBIBYTE } else { number as usize * 211 };
        fs::write(source.join(format!("f{number}")), content(number, length)).expect("room");
    });
    for (via, chunk, chunk_bytes) in [("chain", "64K", 65_536), ("cast", "16K", 16_384)] {
        let (stop, dest) = (AtomicBool::new(false), |host: &str| site.path(&format!("{via}-{host}")));
        thread::scope(|scope| {
            let cable = scope.spawn(|| site.lab().run_at_switches(|| carry(&detour, &stop)));
            let stopper = StopOnDrop(&stop);
            let runs = ["n1", "n2", "n3", "n4"]
                .map(|host| site.start(host, &["recv", "--json", "-i", "eth0", "--max-wait", "20"], dest(host)));
            let send = ["send", "--json", "-i", "eth0", "-n", "4", "--via", via, "--chunk", chunk];
            let root = site.run("n0", &send, &source);
            let ended = runs.map(|run| run.end(LIMIT));
            drop(stopper);
            assert_eq!(cable.join().expect("no panic").expect("a host"), DAMAGES);
            root.assert_code(0);
            let report = root.json();
            let damaged = report["damaged"].as_array().expect("a list");
            assert!(!damaged.is_empty() && damaged.len() <= DAMAGES as usize, "{report}");
            let from = if via == "chain" { "n2" } else { "n0" };
            for damage in damaged {
                let named = (damage["from"].as_str(), &damage["to"]);
                assert_eq!(named, (Some(from), &serde_json::json!([VICTIM])), "{damage}");
                assert_eq!(damage["at"].as_u64().map(|at| at % chunk_bytes), Some(0), "{damage}");
            }
            let again = ended.iter().map(|end| end.json()["pieces_again"].as_u64().expect("a number")).sum::<u64>();
            // In a chain, the host behind the bad hop lacks the same chunks.
            let expected = damaged.len() as u64 * if via == "chain" { 2 } else { 1 };
            println!("{via}, chunks of {chunk}: {} damaged, {again} pieces sent again", damaged.len());
            assert!(again == expected && again <= 2 * DAMAGES, "{again} of {expected}: {report}");
            for (host, end) in ["n1", "n2", "n3", "n4"].into_iter().zip(&ended) {
                end.assert_code(0);
                let mut diff = Command::new("diff");
                diff.arg("-r").args([&source, &dest(host)]);
                assert_eq!(Run::to_end(diff, LIMIT).code(), 0, "{host} via {via}");
            }
        });
    }
}

#[test]
fn what_came_damaged_out_of_a_pipe_comes_from_a_receiver_that_has_kept_it() {
    let site = Site::beside("piece", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(5) });
    let detour = site.lab().detour(VICTIM).expect("a host of this lab");
    let bytes = content(6, 16 * MEBIBYTE + 1000);
    let source = site.file("source.bin", &bytes);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let cable = scope.spawn(|| site.lab().run_at_switches(|| carry(&detour, &stop)));
        let stopper = StopOnDrop(&stop);
        let receivers = ["n1", "n2", "n3", "n4"].map(|host| {
            let path = site.path(host);
            (path.clone(), site.start(host, &["recv", "--json", "-i", "eth0", "--max-wait", "20"], path))
        });
        let mut cat = Command::new("cat").arg(&source).stdout(Stdio::piped()).spawn().expect("cat starts");
        let mut send = site.ethbcast("n0", ["send", "--json", "-i", "eth0", "-n", "4", "--via", "chain", "-"]);
        send.stdin(cat.stdout.take().expect("piped"));
        let root = Run::start("n0", send).end(LIMIT);
        assert!(cat.wait().expect("our child").success());
        for (path, receiver) in receivers {
            receiver.end(LIMIT).assert_code(0);
            assert!(fs::read(path).is_ok_and(|file| file == bytes));
        }
        drop(stopper);
        assert_eq!(cable.join().expect("no panic").expect("a host"), DAMAGES);
        root.assert_code(0);
        let report = root.json();
        assert!(report["damaged"].as_array().is_some_and(|damaged| !damaged.is_empty()), "{report}");
    });
}
