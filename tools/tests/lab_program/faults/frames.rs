//! Tests of transfers among noise, forged frames, and cables that corrupt data under a valid
//! checksum. The transfers of `chaos` have forged frames of their own session.

use super::{slow, twelve_mebibytes};
use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, Transfer, content, one_switch, within};
use ethbcast_collectives::session::Message;
use ethbcast_lab::LabConfig;
use ethbcast_tests::chaos::{Manners, Relay};
use ethbcast_tests::lab::{StopOnDrop, Tap};
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Guard, Header, Identity, Kind, OVERHEAD_BYTES, Rank,
    StreamId, group_mac, parse, seal,
};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A host that is not a member and sends frames of no use.
pub struct Vandal {
    tap: Tap,
    victims: Vec<MacAddr>,
    random: Random,
    /// The last session number it has seen, because switches flood the session's frames.
    session: Option<u32>,
}

impl Vandal {
    /// Opens a tap on `eth0` of the thread's namespace.
    pub fn new() -> Vandal {
        // The lab's host addresses are numbered.
        let hosts = (0..4).map(|host| MacAddr::new(0x02, 0xeb, 0, 0, 0, host));
        let victims = hosts.chain([group_mac("ethbcast")]).collect();
        Vandal {
            tap: Tap::on("eth0").expect("a tap"),
            victims,
            random: Random::new(1),
            session: None,
        }
    }

    /// Sends noise and frames of a foreign session, in bursts until it is stopped; returns their
    /// number.
    pub fn rage(mut self, stop: &AtomicBool) -> u64 {
        let mut frames = 0;
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..32 {
                let victim = self.victims[self.random.below(self.victims.len() as u64) as usize];
                let frame = if self.random.chance(0.5) {
                    self.noise(victim)
                } else {
                    self.foreign(victim)
                };
                // A full queue is ignored: lost garbage is no loss.
                frames += u64::from(self.tap.send(&frame).expect("sending garbage"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        frames
    }

    /// Sends join requests for the announced session in the names of `ghosts` hosts that do not
    /// exist, until it is stopped.
    pub fn request(mut self, ghosts: u32, stop: &AtomicBool) {
        let is_over = || stop.load(Ordering::Relaxed);
        let announced = within(LIMIT, || {
            self.listen();
            if is_over() {
                Some(None)
            } else {
                self.session.map(Some)
            }
        });
        let Some(session) = announced.expect("a session is announced") else {
            return;
        };
        let deadline = Instant::now() + LIMIT;
        for number in (0..ghosts).take_while(|_| !is_over()) {
            let [a, b, c, d] = number.to_be_bytes();
            let (group, host) = ("ethbcast".to_owned(), format!("ghost{number}"));
            let nonce = u64::from(number);
            let join = Message::Join {
                nonce,
                group,
                host,
                mtu_bytes: 1500,
                free_bytes: u64::MAX,
                features: 0,
            };
            let (kind, body) = join.encode();
            let identity = Identity {
                session,
                stream: StreamId(0),
                rank: Rank::NONE,
                mac: MacAddr::new(2, 9, a, b, c, d),
                ether_type: EtherType::DEFAULT,
                guard: Guard::Plain,
            };
            let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
            identity.write(&mut frame, self.victims[0], &identity.header(kind), &body);
            while !self.tap.send(&frame).expect("sending requests") && !is_over() {
                assert!(
                    Instant::now() < deadline,
                    "no room for request {number} of {ghosts}"
                );
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Receives the session's number.
    fn listen(&mut self) {
        let mut buffer = [0; 2048];
        while let Some(length) = self.tap.receive(&mut buffer).expect("listening") {
            if let Ok(frame) = parse(&buffer[..length])
                && frame.header.kind == ethbcast_collectives::session::kind::ANNOUNCE
            {
                self.session = Some(frame.header.session);
            }
        }
    }

    /// Returns a frame of which only the EtherType is right.
    fn noise(&mut self, victim: MacAddr) -> Vec<u8> {
        let mut frame = vec![0; 14 + self.random.below(400) as usize];
        self.random.fill(&mut frame);
        frame[..6].copy_from_slice(&victim.octets());
        frame[6..12].copy_from_slice(&self.tap.mac().octets());
        frame[12..14].copy_from_slice(&EtherType::DEFAULT.octets());
        frame
    }

    /// Returns a valid data frame of a session that there is not.
    fn foreign(&mut self, victim: MacAddr) -> Vec<u8> {
        let mut frame = vec![0; OVERHEAD_BYTES + self.random.below(200) as usize];
        self.random.fill(&mut frame[OVERHEAD_BYTES..]);
        let header = Header {
            kind: Kind::DATA,
            session: self.random.next_u64() as u32,
            stream: StreamId(1),
            rank: Rank(self.random.below(5) as u16),
            epoch: 1,
            flags: Flags(self.random.below(8) as u8),
            sequence: self.random.below(20_000),
            stamp: self.random.next_u64() as u32,
        };
        let link = EthernetHeader {
            source: self.tap.mac(),
            destination: victim,
            ether_type: EtherType::DEFAULT,
        };
        let payload_bytes = frame.len() - OVERHEAD_BYTES;
        seal(&mut frame, link, &header, payload_bytes);
        frame
    }
}

#[test]
fn noise_and_frames_of_foreign_sessions_change_counters_only() {
    let site = Site::beside(
        "garbage",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(5)
        },
    );
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let vandal = scope.spawn(|| site.lab().run_on("n4", || Vandal::new().rage(&stop)));
        // Stopped even if an assertion fails, because the scope waits for its threads.
        let stopper = StopOnDrop(&stop);
        for via in ["chain", "cast"] {
            let outcome = Transfer::new(&site, content(7, 16 * MEBIBYTE))
                .receivers(&["n1", "n2", "n3"])
                .via(via)
                .run();
            outcome.assert_verified();
            for host in ["n1", "n2", "n3"] {
                let report = outcome.receiver(host).json();
                for count in ["malformed", "strangers"] {
                    assert!(
                        report["frames"][count]
                            .as_u64()
                            .is_some_and(|frames| frames > 100),
                        "none {count} at {host}: {report}"
                    );
                }
            }
        }
        drop(stopper);
        let frames = vandal.join().expect("no panic").expect("a host");
        assert!(
            frames > 1_000,
            "{frames} frames of garbage: too few to prove anything"
        );
    });
}

const GHOSTS: u32 = 10_000;
/// Permitted growth of the root's memory meanwhile, including its buffers for the session.
const MAX_GROWTH_BYTES: usize = 64 * MEBIBYTE;

/// Returns a field of a process's status in bytes.
fn memory_bytes(run: &Run, field: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kibibytes.expect("the kernel says so") * 1024
}

#[test]
fn ten_thousand_forged_requests_to_join_cost_little_memory_and_nobody_its_place() {
    let site = Site::beside("flood", slow(5));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let vandal = scope.spawn(|| {
            site.lab()
                .run_on("n4", || Vandal::new().request(GHOSTS, &stop))
        });
        let _stopper = StopOnDrop(&stop);
        let session = twelve_mebibytes(&site, "chain")
            .receivers(&["n1", "n2", "n3"])
            .start();
        session.wait_for_sent(1);
        let before = memory_bytes(&session.root, "VmRSS");
        vandal.join().expect("no panic").expect("a host");
        session.wait_for_sent(4 * MEBIBYTE as u64);
        let most = memory_bytes(&session.root, "VmHWM");
        session.end(LIMIT).assert_verified();
        let growth = most.saturating_sub(before);
        assert!(growth <= MAX_GROWTH_BYTES, "from {before} to {most} bytes");
    });
}

/// Host behind the bad cable, in the middle of a chain from n0 to n4.
const VICTIM: &str = "n3";
/// Number of corrupted data frames.
const DAMAGES: u64 = 10;

/// Lays the victim's cable through a relay.
fn relay(site: &Site) -> Relay {
    Relay::start(site.lab(), VICTIM, Manners::default(), 1).expect("a host of this lab")
}

#[test]
fn frames_changed_under_a_right_checksum_are_found_sent_again_and_the_hop_is_named() {
    let site = Site::beside(
        "corruption",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(5)
        },
    );
    let relay = relay(&site);
    // In the tree n0 feeds n1 and n2, and n2 feeds n3 and n4.
    let ways = [
        ("chain", "n2", &["n3", "n4"][..]),
        ("binary", "n2", &["n3"]),
        ("cast", "n0", &["n3"]),
    ];
    for (via, from, behind) in ways {
        relay.damage(DAMAGES);
        let outcome = Transfer::new(&site, content(5, 16 * MEBIBYTE))
            .via(via)
            .run();
        outcome.assert_verified();
        let report = outcome.root.json();
        let damaged = report["damaged"].as_array().expect("a list");
        println!(
            "{via}: {DAMAGES} frames changed, {} pieces sent again",
            damaged.len()
        );
        assert_eq!(relay.damage(0), 0, "all were damaged");
        assert!(!damaged.is_empty() && damaged.len() <= 10, "{report}");
        for damage in damaged {
            assert_eq!(
                (damage["from"].as_str(), &damage["to"]),
                (Some(from), &serde_json::json!([VICTIM])),
                "{damage}"
            );
            assert_eq!(
                damage["at"].as_u64().map(|at| at % 65_536),
                Some(0),
                "{damage}"
            );
        }
        for host in ["n1", "n2", "n3", "n4"] {
            let again = outcome.receiver(host).json()["pieces_again"]
                .as_u64()
                .expect("a number");
            let expected = if behind.contains(&host) {
                damaged.len() as u64
            } else {
                0
            };
            assert_eq!(again, expected, "{host} via {via}: {report}");
        }
    }
}

#[test]
fn only_damaged_chunks_of_a_directory_are_sent_again_for_every_chunk_size_and_all_of_it_is_right() {
    let site = Site::beside(
        "corrupttree",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(5)
        },
    );
    let relay = relay(&site);
    let source = site.directory("tree");
    (0..200).for_each(|number| {
        let length = if number % 50 == 0 {
            3 * MEBIBYTE
        } else {
            number as usize * 211
        };
        fs::write(source.join(format!("f{number}")), content(number, length)).expect("room");
    });
    for (via, chunk, chunk_bytes) in [("chain", "64K", 65_536), ("cast", "16K", 16_384)] {
        let dest = |host: &str| site.path(&format!("{via}-{host}"));
        relay.damage(DAMAGES);
        let runs = ["n1", "n2", "n3", "n4"].map(|host| {
            site.start(
                host,
                &["recv", "--json", "-i", "eth0", "--max-wait", "20"],
                dest(host),
            )
        });
        let send = [
            "send", "--json", "-i", "eth0", "-n", "4", "--via", via, "--chunk", chunk,
        ];
        let root = site.run("n0", &send, &source);
        let ended = runs.map(|run| run.end(LIMIT));
        assert_eq!(relay.damage(0), 0, "all were damaged");
        root.assert_code(0);
        let report = root.json();
        let damaged = report["damaged"].as_array().expect("a list");
        assert!(
            !damaged.is_empty() && damaged.len() <= DAMAGES as usize,
            "{report}"
        );
        let from = if via == "chain" { "n2" } else { "n0" };
        for damage in damaged {
            let named = (damage["from"].as_str(), &damage["to"]);
            assert_eq!(
                named,
                (Some(from), &serde_json::json!([VICTIM])),
                "{damage}"
            );
            assert_eq!(
                damage["at"].as_u64().map(|at| at % chunk_bytes),
                Some(0),
                "{damage}"
            );
        }
        let again = ended
            .iter()
            .map(|end| end.json()["pieces_again"].as_u64().expect("a number"))
            .sum::<u64>();
        // In a chain, the host behind the bad hop lacks the same chunks.
        let expected = damaged.len() as u64 * if via == "chain" { 2 } else { 1 };
        println!(
            "{via}, chunks of {chunk}: {} damaged, {again} pieces sent again",
            damaged.len()
        );
        assert!(
            again == expected && again <= 2 * DAMAGES,
            "{again} of {expected}: {report}"
        );
        for (host, end) in ["n1", "n2", "n3", "n4"].into_iter().zip(&ended) {
            end.assert_code(0);
            let mut diff = Command::new("diff");
            diff.arg("-r").args([&source, &dest(host)]);
            assert_eq!(Run::to_end(diff, LIMIT).code(), 0, "{host} via {via}");
        }
    }
}

#[test]
fn damaged_bytes_of_a_pipe_come_from_a_receiver_that_kept_them() {
    let site = Site::beside(
        "piece",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(5)
        },
    );
    let relay = relay(&site);
    let bytes = content(6, 16 * MEBIBYTE + 1000);
    let source = site.file("source.bin", &bytes);
    relay.damage(DAMAGES);
    let receivers = ["n1", "n2", "n3", "n4"].map(|host| {
        let path = site.path(host);
        (
            path.clone(),
            site.start(
                host,
                &["recv", "--json", "-i", "eth0", "--max-wait", "20"],
                path,
            ),
        )
    });
    let mut cat = Command::new("cat")
        .arg(&source)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat starts");
    let mut send = site.ethbcast(
        "n0",
        [
            "send", "--json", "-i", "eth0", "-n", "4", "--via", "chain", "-",
        ],
    );
    send.stdin(cat.stdout.take().expect("piped"));
    let root = Run::start("n0", send).end(LIMIT);
    assert!(cat.wait().expect("our child").success());
    for (path, receiver) in receivers {
        receiver.end(LIMIT).assert_code(0);
        assert!(fs::read(path).is_ok_and(|file| file == bytes));
    }
    assert_eq!(relay.damage(0), 0, "all were damaged");
    root.assert_code(0);
    let report = root.json();
    assert!(
        report["damaged"]
            .as_array()
            .is_some_and(|damaged| !damaged.is_empty()),
        "{report}"
    );
}
