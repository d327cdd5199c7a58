//! Hosts that die, users that stop them, latecomers and liars: who still gets the file, who says what, and that nothing is left.

use ethbcast_collectives::group::{Message, Outcome as Fate};
use ethbcast_lab::LabConfig;
use ethbcast_tests::tool::{LIMIT, Run, Session, Site, Transfer, content, names_in, one_switch, program, within};
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{DEFAULT_ETHER_TYPE, Flags, Header, Kind, Link, OVERHEAD_BYTES, group_mac, parse, seal};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;
/// What has arrived somewhere when something happens to the transfer: the middle of it.
const MIDDLE_BYTES: u64 = 4 << 20;

/// Cables on which 16 MiB take 2.8 s, so that there is a middle of the transfer for something to happen in.
fn slow(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(hosts) }
}

/// A transfer of 16 MiB from n0 to all others, half way.
fn half_way(site: &Site, via: &'static str, witness: &str) -> Session {
    let session = Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via).start();
    session.wait_for_bytes(witness, MIDDLE_BYTES);
    session
}

#[test]
fn when_a_relay_dies_the_others_are_served_and_the_root_names_it() {
    let site = Site::alone("relay", slow(6));
    // n1 … n5 are ranks 1 … 5 of the chain: n3 has two hosts before and two behind it.
    let session = half_way(&site, "chain", "n5");
    session.receiver("n3").signal(Signal::SIGKILL);
    let outcome = session.end(Duration::from_secs(10));
    ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert!(outcome.root.stderr.contains("1 of 5 receivers failed: n3 (silent)"), "{}", outcome.root.stderr);
    assert_eq!(outcome.status("n3"), "silent");
    assert_eq!(outcome.status("n4"), "verified");
    outcome.forget_dead("n3");
}

#[test]
fn when_two_neighbours_of_a_chain_die_together_nobody_ends_up_with_half_a_file() {
    let site = Site::alone("pair", slow(7));
    let session = half_way(&site, "chain", "n6");
    ["n3", "n4"].into_iter().for_each(|host| session.receiver(host).signal(Signal::SIGKILL));
    let outcome = session.end(Duration::from_secs(12));
    ["n1", "n2"].into_iter().for_each(|host| outcome.assert_delivered(host));
    // Frames that only n3 and n4 still kept are gone: who needed them cannot be served.
    for host in ["n5", "n6"] {
        match outcome.status(host).as_str() {
            "verified" => outcome.assert_delivered(host),
            "orphaned" => outcome.assert_nothing(host, 1),
            status => panic!("{host} is {status}: {}", outcome.root.stderr),
        }
    }
    outcome.root.assert_code(1);
    ["n3", "n4"].into_iter().for_each(|host| outcome.forget_dead(host));
}

#[test]
fn when_a_receiver_of_a_cast_dies_the_others_are_served_and_the_root_names_it() {
    let site = Site::alone("listener", slow(5));
    let session = half_way(&site, "cast", "n2");
    session.receiver("n2").signal(Signal::SIGKILL);
    let outcome = session.end(Duration::from_secs(10));
    ["n1", "n3", "n4"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert!(outcome.root.stderr.contains("1 of 4 receivers failed: n2 (silent)"), "{}", outcome.root.stderr);
    outcome.forget_dead("n2");
}

#[test]
fn when_the_last_of_a_chain_dies_nobody_else_notices() {
    let site = Site::alone("tail", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n3").signal(Signal::SIGKILL);
    let outcome = session.end(Duration::from_secs(10));
    ["n1", "n2"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_eq!(outcome.status("n3"), "silent");
    outcome.forget_dead("n3");
}

#[test]
fn when_the_root_dies_receivers_end_soon_and_leave_nothing() {
    let site = Site::alone("root", slow(5));
    for via in ["chain", "cast"] {
        let session = half_way(&site, via, "n4");
        session.root.signal(Signal::SIGKILL);
        let outcome = session.end(Duration::from_secs(5));
        for host in ["n1", "n2", "n3", "n4"] {
            outcome.assert_nothing(host, 3);
            assert!(outcome.receiver(host).stderr.contains("the sender fell silent"), "{}", outcome.receiver(host).stderr);
        }
    }
}

#[test]
fn ctrl_c_at_the_root_tells_every_receiver() {
    let site = Site::alone("rootint", slow(5));
    for (via, signal, code) in [("chain", Signal::SIGINT, 130), ("cast", Signal::SIGINT, 130), ("chain", Signal::SIGTERM, 143)] {
        let session = half_way(&site, via, "n4");
        session.root.signal(signal);
        // Well before anybody would take the root for dead: they have been told.
        let outcome = session.end(Duration::from_secs(2));
        outcome.root.assert_code(code);
        for host in ["n1", "n2", "n3", "n4"] {
            outcome.assert_nothing(host, 1);
            assert!(outcome.receiver(host).stderr.contains("interrupted"), "{}", outcome.receiver(host).stderr);
        }
    }
}

#[test]
fn ctrl_c_at_one_receiver_concerns_nobody_else() {
    let site = Site::alone("recvint", slow(5));
    for (via, signal, code) in [("chain", Signal::SIGINT, 130), ("cast", Signal::SIGINT, 130), ("chain", Signal::SIGTERM, 143)] {
        let session = half_way(&site, via, "n4");
        session.receiver("n2").signal(signal);
        let outcome = session.end(Duration::from_secs(10));
        outcome.assert_nothing("n2", code);
        ["n1", "n3", "n4"].into_iter().for_each(|host| outcome.assert_delivered(host));
        outcome.root.assert_code(1);
        assert!(outcome.root.stderr.contains("1 of 4 receivers failed: n2 (interrupted)"), "{}", outcome.root.stderr);
    }
}

#[test]
fn ctrl_c_at_a_receiver_that_has_delivered_takes_nothing_back() {
    let site = Site::alone("delivered", one_switch(3));
    let bytes = content(9, 4 * MEBIBYTE);
    let (source, dest) = (site.file("source.bin", &bytes), site.path("n1"));
    let first = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], &dest);
    // Its buffers hold the file, its pipe does not: the session goes on while n1 has nothing left to do.
    let stuck = Run::unread("n2", site.ethbcast("n2", ["recv", "-i", "eth0", "--max-wait", "10", "-"]));
    let root = site.start("n0", &["send", "--json", "-i", "eth0", "-n", "2", "--via", "cast"], &source);
    within(LIMIT, || dest.exists().then_some(())).expect("n1 delivers");
    first.signal(Signal::SIGINT);
    let first = first.end(Duration::from_secs(2));
    assert!(std::fs::read(&dest).is_ok_and(|file| file == bytes), "what was verified stays");
    assert!(!first.stderr.contains("nothing was left"), "it says something else than what is: {}", first.stderr);
    stuck.signal(Signal::SIGKILL);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("1 of 2 receivers failed: n2 (silent)"), "n1 has not failed: {}", root.stderr);
}

#[test]
fn ctrl_c_before_anything_has_begun_leaves_nothing() {
    let site = Site::alone("early", one_switch(3));
    let (source, directory) = (site.file("source", "text"), site.directory("dest"));
    let dest = directory.join("file");
    let receiver = site.start("n1", &["recv", "-i", "eth0"], &dest);
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(Duration::from_secs(2)).assert_refusal(130, &["interrupted"]);
    receiver.end(Duration::from_secs(2)).assert_refusal(1, &["interrupted"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0"], &dest);
    // There is nothing to see of a receiver that nobody has invited.
    thread::sleep(Duration::from_millis(200));
    receiver.signal(Signal::SIGINT);
    receiver.end(Duration::from_secs(2)).assert_refusal(130, &["interrupted"]);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_receiver_that_is_started_again_before_the_start_takes_part() {
    let site = Site::alone("again", one_switch(3));
    let bytes = content(3, MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let root = site.start("n0", &["send", "--json", "-i", "eth0", "-n", "2"], &source);
    let first = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_line("n1 joined");
    first.signal(Signal::SIGKILL);
    first.end(LIMIT).assert_code(137);
    // For half a second the root cannot tell a host that was started again from two receivers on one interface.
    thread::sleep(Duration::from_millis(700));
    let second = site.start("n1", &["recv", "-i", "eth0"], site.path("n1"));
    root.wait_for_lines(2, "n1 joined");
    let receivers = [second, site.start("n2", &["recv", "-i", "eth0"], site.path("n2"))];
    let root = root.end(LIMIT);
    root.assert_code(0);
    assert_eq!(root.json()["receivers"].as_array().map(Vec::len), Some(2));
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(["n1", "n2"].into_iter().all(|host| std::fs::read(site.path(host)).is_ok_and(|file| file == bytes)));
}

#[test]
fn who_comes_too_late_is_told_so_and_disturbs_nobody() {
    let site = Site::alone("late", slow(4));
    let directory = site.directory("dest");
    for via in ["chain", "cast"] {
        let session = Transfer::new(&site, content(4, 16 * MEBIBYTE)).receivers(&["n1", "n2"]).via(via).start();
        session.wait_for_bytes("n2", MIDDLE_BYTES);
        let late = site.start("n3", &["recv", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
        late.end(Duration::from_secs(4)).assert_refusal(3, &["started"]);
        session.end(LIMIT).assert_verified();
        assert_eq!(names_in(&directory), [""; 0]);
    }
}

#[test]
fn of_three_receivers_for_two_places_one_is_sent_away() {
    let site = Site::alone("full", slow(4));
    let bytes = content(8, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let receivers = ["n1", "n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0", "--max-wait", "10"], site.path(host)));
    // All three have to be there to hear the same invitation.
    thread::sleep(Duration::from_millis(300));
    site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source).assert_code(0);
    let (taken, away): (Vec<_>, Vec<_>) =
        receivers.into_iter().map(|receiver| receiver.end(LIMIT)).partition(|ended| ended.code() == 0);
    assert_eq!((taken.len(), away.len()), (2, 1));
    away[0].assert_code(3);
    assert!(["full", "started"].into_iter().any(|part| away[0].stderr.contains(part)), "{}", away[0].stderr);
    let files = ["n1", "n2", "n3"].into_iter().filter_map(|host| std::fs::read(site.path(host)).ok());
    assert_eq!(files.filter(|file| *file == bytes).count(), 2);
    assert_eq!(names_in(source.parent().expect("a directory")).len(), 3, "the source and two copies");
}

#[test]
fn a_receiver_that_is_started_again_in_the_middle_has_to_wait_for_the_next_session() {
    let site = Site::alone("restart", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n2").signal(Signal::SIGKILL);
    let directory = site.directory("dest");
    let again = site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
    again.end(Duration::from_secs(4)).assert_refusal(3, &["started"]);
    let outcome = session.end(Duration::from_secs(10));
    ["n1", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_ne!(outcome.status("n2"), "verified");
    outcome.forget_dead("n2");
    assert_eq!(names_in(&directory), [""; 0]);
    // The next session takes it.
    Transfer::new(&site, content(5, MEBIBYTE)).run().assert_verified();
}

#[test]
fn a_host_that_pauses_for_a_second_is_waited_for() {
    let site = Site::alone("pause", slow(4));
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
    let site = Site::alone("frozen", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n1").signal(Signal::SIGSTOP);
    session.root.wait_for_line("n1 (silent)");
    session.receiver("n1").signal(Signal::SIGCONT);
    let outcome = session.end(Duration::from_secs(5));
    ["n2", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    // The views it slept through wait in its ring.
    outcome.assert_nothing("n1", 1);
    assert!(outcome.receiver("n1").stderr.contains("went on without this host"), "{}", outcome.receiver("n1").stderr);
}

#[test]
fn a_receiver_that_is_slow_to_write_is_not_taken_for_dead() {
    const PAUSE: Duration = Duration::from_secs(3);
    let site = Site::alone("dawdle", one_switch(3));
    let bytes = content(6, 48 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    for via in ["chain", "cast"] {
        let dest = site.path(&format!("n1-{via}"));
        // More than buffers on the way hold: the sender has to wait for the reader of this pipe.
        let script = format!("\"$0\" recv -i eth0 - | {{ sleep {}; cat; }} > \"$1\"", PAUSE.as_secs());
        let mut slow = site.command("n1", "sh");
        slow.args(["-c", &script]).arg(program()).arg(&dest);
        let slow = Run::start("n1", slow);
        let fast = site.start("n2", &["recv", "-i", "eth0"], site.path(&format!("n2-{via}")));
        let root = site.run("n0", &["send", "--json", "-i", "eth0", "-n", "2", "--via", via], &source);
        root.assert_code(0);
        slow.end(LIMIT).assert_code(0);
        fast.end(LIMIT).assert_code(0);
        assert!(root.json()["seconds"].as_f64().is_some_and(|seconds| seconds >= PAUSE.as_secs_f64() * 0.8), "{}", root.json());
        assert!(std::fs::read(&dest).expect("written") == bytes, "{via}");
    }
}

#[test]
fn when_the_interface_of_a_receiver_goes_down_it_says_so_and_the_others_are_served() {
    let site = Site::alone("unplug", slow(4));
    let session = half_way(&site, "chain", "n3");
    site.set_up("n2", "ip", &["link", "set", "eth0", "down"]);
    let outcome = session.end(Duration::from_secs(10));
    outcome.assert_nothing("n2", 4);
    assert!(outcome.receiver("n2").stderr.contains("ip link set eth0 up"), "{}", outcome.receiver("n2").stderr);
    ["n1", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_eq!(outcome.status("n2"), "silent");
}

#[test]
fn frames_of_liars_and_madmen_change_counters_only() {
    let site = Site::alone("garbage", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(5) });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let vandal = scope.spawn(|| site.lab().run_on("n4", || Vandal::new().rage(&stop)));
        // Also when an assertion fails: the scope waits for its threads.
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
            frames > 5_000 && forged > 1_000,
            "{frames} frames of garbage, {forged} with the session's number: too few to prove anything"
        );
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A host that is no member and sends whatever may confuse those who are.
struct Vandal {
    socket: OwnedFd,
    interface: LinkAddr,
    victims: Vec<MacAddr>,
    random: Random,
    /// The session overheard last: switches flood its frames to everybody.
    session: Option<u32>,
}

impl Vandal {
    /// Opens a socket on `eth0` of the thread's namespace that hears everything.
    fn new() -> Vandal {
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).expect("a packet socket");
        let mut addresses = getifaddrs().expect("the interfaces");
        let interface = addresses
            .find_map(|entry| (entry.interface_name == "eth0").then_some(entry.address?.as_link_addr().copied()?))
            .expect("eth0 has a link address");
        bind(socket.as_raw_fd(), &interface).expect("bound to eth0");
        // The lab numbers its hosts' addresses.
        let hosts = (0..4).map(|host| MacAddr::new(0x02, 0xeb, 0, 0, 0, host));
        let victims = hosts.chain([group_mac("ethbcast")]).collect();
        Vandal { socket, interface, victims, random: Random::new(1), session: None }
    }

    /// Sends bursts until told to stop; says how many frames that were, and how many of them carried the session's own number.
    fn rage(mut self, stop: &AtomicBool) -> (u64, u64) {
        let (mut frames, mut forged) = (0, 0);
        while !stop.load(Ordering::Relaxed) {
            self.listen();
            for _ in 0..32 {
                let victim = self.victims[self.random.below(self.victims.len() as u64) as usize];
                let (frame, is_forged) = self.frame(victim);
                // A full queue is no reason to stop: garbage that is not sent is not missed.
                match sendto(self.socket.as_raw_fd(), &frame, &self.interface, MsgFlags::MSG_DONTWAIT) {
                    Ok(_) => (frames, forged) = (frames + 1, forged + u64::from(is_forged)),
                    Err(Errno::EAGAIN | Errno::ENOBUFS) => {}
                    Err(errno) => panic!("sending garbage: {errno}"),
                }
            }
            thread::sleep(Duration::from_millis(10));
        }
        (frames, forged)
    }

    /// Overhears the session's number.
    fn listen(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(length) = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            if let Ok(frame) = parse(&buffer[..length])
                && frame.header.kind == Kind::Announce
            {
                self.session = Some(frame.header.session);
            }
        }
    }

    /// A frame for a victim, and whether it carries the session's own number.
    fn frame(&mut self, victim: MacAddr) -> (Vec<u8>, bool) {
        let foreign = self.random.next_u64() as u32;
        match (self.random.below(5), self.session) {
            (0, _) => (self.noise(victim), false),
            (1, _) => (self.torn(victim, foreign), false),
            (2, _) | (_, None) => (self.valid(victim, foreign, None), false),
            (3, Some(session)) => (self.valid(victim, session, Some(Kind::Data)), true),
            (_, Some(session)) => (self.valid(victim, session, None), true),
        }
    }

    /// Nothing but our EtherType is right.
    fn noise(&mut self, victim: MacAddr) -> Vec<u8> {
        let mut frame = vec![0; 14 + self.random.below(400) as usize];
        self.random.fill(&mut frame);
        frame[..6].copy_from_slice(&victim.octets());
        frame[6..12].copy_from_slice(&self.mac().octets());
        frame[12..14].copy_from_slice(&DEFAULT_ETHER_TYPE.to_be_bytes());
        frame
    }

    /// A valid frame, cut or with one bit flipped behind the Ethernet header.
    fn torn(&mut self, victim: MacAddr, session: u32) -> Vec<u8> {
        let mut frame = self.valid(victim, session, None);
        let at = 14 + self.random.below(frame.len() as u64 - 14) as usize;
        if self.random.chance(0.5) {
            frame.truncate(at);
        } else {
            frame[at] ^= 1 << self.random.below(8);
        }
        frame
    }

    /// A frame that parses: of this kind, or a control message that would do harm if it were believed.
    fn valid(&mut self, victim: MacAddr, session: u32, kind: Option<Kind>) -> Vec<u8> {
        let mut body = vec![0; self.random.below(200) as usize];
        self.random.fill(&mut body);
        let (kind, body) = kind.map_or_else(|| self.lie(body.clone()), |kind| (kind, body.clone()));
        let header = Header {
            kind,
            session,
            stream: 1,
            rank: self.random.below(5) as u16,
            epoch: 1,
            flags: Flags(self.random.below(8) as u8),
            sequence: self.random.below(20_000),
            stamp: self.random.next_u64() as u32,
        };
        let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
        frame[OVERHEAD_BYTES..].copy_from_slice(&body);
        let link = Link { source: self.mac(), destination: victim, ether_type: DEFAULT_ETHER_TYPE };
        seal(&mut frame, link, &header, body.len());
        frame
    }

    /// What only the root, or only a member, may say; this host is neither. (It may not join, as any host may, nor invite.)
    fn lie(&mut self, body: Vec<u8>) -> (Kind, Vec<u8>) {
        let message = match self.random.below(6) {
            0 => Message::Abort { text: "it is all over".to_owned() },
            1 => Message::Verdict { over: true, heard: vec![0xff] },
            2 => Message::Done { outcome: Fate::Damaged, bytes: 1, digest: [0; 32], text: "all wrong".to_owned() },
            3 => Message::View { epoch: 9, digest: *blake3::hash(&body).as_bytes(), part: 0, parts: 1, bytes: body },
            4 => Message::Orphan { rank: 1 },
            _ => return (if self.random.chance(0.5) { Kind::Ack } else { Kind::Heartbeat }, body),
        };
        (message.kind(), message.encode())
    }

    fn mac(&self) -> MacAddr {
        let [a, b, c, d, e, f] = self.interface.addr().expect("Ethernet has addresses");
        MacAddr::new(a, b, c, d, e, f)
    }
}
