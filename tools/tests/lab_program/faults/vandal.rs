//! Noise, torn frames, and valid frames with false content.

use crate::harness::{LIMIT, within};
use ethbcast_collectives::session::{Done, Message, Outcome as Fate, Verdict, ViewPart};
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::Random;
use ethbcast_transport::stream::Orphan;
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Header, Identity, Kind, OVERHEAD_BYTES, Rank, StreamId, group_mac, parse, seal,
};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A host that is not a member and sends misleading frames.
pub struct Vandal {
    socket: OwnedFd,
    interface: LinkAddr,
    victims: Vec<MacAddr>,
    random: Random,
    /// The last session number it has seen, because switches flood the session's frames.
    session: Option<u32>,
}

impl Vandal {
    /// Opens a socket on `eth0` of the thread's namespace that receives all frames.
    pub fn new() -> Vandal {
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
            .expect("a packet socket");
        let mut addresses = getifaddrs().expect("the interfaces");
        let interface = addresses
            .find_map(|entry| (entry.interface_name == "eth0").then_some(entry.address?.as_link_addr().copied()?))
            .expect("eth0 has a link address");
        bind(socket.as_raw_fd(), &interface).expect("bound to eth0");
        // The lab's host addresses are numbered.
        let hosts = (0..4).map(|host| MacAddr::new(0x02, 0xeb, 0, 0, 0, host));
        let victims = hosts.chain([group_mac("ethbcast")]).collect();
        Vandal { socket, interface, victims, random: Random::new(1), session: None }
    }

    /// Sends bursts until it is stopped. Returns the number of frames, and of those with the
    /// session's number.
    pub fn rage(mut self, stop: &AtomicBool) -> (u64, u64) {
        let (mut frames, mut forged) = (0, 0);
        while !stop.load(Ordering::Relaxed) {
            self.listen();
            for _ in 0..32 {
                let victim = self.victims[self.random.below(self.victims.len() as u64) as usize];
                let (frame, is_forged) = self.frame(victim);
                // A full queue is ignored: lost garbage is no loss.
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

    /// Sends join requests for the announced session in the names of `ghosts` hosts that do not
    /// exist, until it is stopped.
    ///
    /// # Panics
    /// If no session is announced within [`LIMIT`], or the requests cannot be sent within another.
    pub fn ask(mut self, ghosts: u32, stop: &AtomicBool) {
        let is_over = || stop.load(Ordering::Relaxed);
        let announced = within(LIMIT, || {
            self.listen();
            if is_over() { Some(None) } else { self.session.map(Some) }
        });
        let Some(session) = announced.expect("a session is announced") else { return };
        let deadline = Instant::now() + LIMIT;
        for number in (0..ghosts).take_while(|_| !is_over()) {
            let [a, b, c, d] = number.to_be_bytes();
            let (group, host) = ("ethbcast".to_owned(), format!("ghost{number}"));
            let nonce = u64::from(number);
            let join = Message::Join { nonce, group, host, mtu_bytes: 1500, free_bytes: u64::MAX, features: 0 };
            let (kind, body) = join.encode();
            let identity = Identity {
                session,
                stream: StreamId(0),
                rank: Rank::NONE,
                mac: MacAddr::new(2, 9, a, b, c, d),
                ether_type: EtherType::DEFAULT,
            };
            let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
            identity.write(&mut frame, self.victims[0], &identity.header(kind), &body);
            while sendto(self.socket.as_raw_fd(), &frame, &self.interface, MsgFlags::empty()).is_err() && !is_over() {
                assert!(Instant::now() < deadline, "no room for request {number} of {ghosts}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Receives the session's number.
    fn listen(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(length) = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            if let Ok(frame) = parse(&buffer[..length])
                && frame.header.kind == ethbcast_collectives::session::kind::ANNOUNCE
            {
                self.session = Some(frame.header.session);
            }
        }
    }

    /// Returns a frame for a victim, and whether it carries the session's number.
    fn frame(&mut self, victim: MacAddr) -> (Vec<u8>, bool) {
        let foreign = self.random.next_u64() as u32;
        match (self.random.below(5), self.session) {
            (0, _) => (self.noise(victim), false),
            (1, _) => (self.torn(victim, foreign), false),
            (2, _) | (_, None) => (self.valid(victim, foreign, None), false),
            (3, Some(session)) => (self.valid(victim, session, Some(Kind::DATA)), true),
            (_, Some(session)) => (self.valid(victim, session, None), true),
        }
    }

    /// Returns a frame of which only the EtherType is right.
    fn noise(&mut self, victim: MacAddr) -> Vec<u8> {
        let mut frame = vec![0; 14 + self.random.below(400) as usize];
        self.random.fill(&mut frame);
        frame[..6].copy_from_slice(&victim.octets());
        frame[6..12].copy_from_slice(&self.mac().octets());
        frame[12..14].copy_from_slice(&EtherType::DEFAULT.octets());
        frame
    }

    /// Returns a valid frame that is truncated or has one bit flipped behind the Ethernet header.
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

    /// Returns a frame that parses: of this kind, or a harmful control message.
    fn valid(&mut self, victim: MacAddr, session: u32, kind: Option<Kind>) -> Vec<u8> {
        let mut body = vec![0; self.random.below(200) as usize];
        self.random.fill(&mut body);
        let (kind, body) = kind.map_or_else(|| self.lie(body.clone()), |kind| (kind, body.clone()));
        let header = Header {
            kind,
            session,
            stream: StreamId(1),
            rank: Rank(self.random.below(5) as u16),
            epoch: 1,
            flags: Flags(self.random.below(8) as u8),
            sequence: self.random.below(20_000),
            stamp: self.random.next_u64() as u32,
        };
        let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
        frame[OVERHEAD_BYTES..].copy_from_slice(&body);
        let link = EthernetHeader { source: self.mac(), destination: victim, ether_type: EtherType::DEFAULT };
        seal(&mut frame, link, &header, body.len());
        frame
    }

    /// Returns a message that only the root or only a member may send, without join requests and
    /// invitations.
    fn lie(&mut self, body: Vec<u8>) -> (Kind, Vec<u8>) {
        let message = match self.random.below(6) {
            0 => Message::Abort { text: "it is all over".to_owned() },
            1 => Message::Verdict(Verdict { over: true, trailer: None, heard: vec![0xff], accepted: vec![0xff] }),
            2 => {
                let text = "all wrong".to_owned();
                Message::Done(Done { outcome: Fate::Damaged, bytes: 1, digest: [0; 32], text }, None)
            }
            3 => Message::View(ViewPart {
                epoch: 9,
                digest: *blake3::hash(&body).as_bytes(),
                at: 0,
                count: 1,
                bytes: body,
            }),
            4 => Message::Orphan { stream: StreamId(1), gap: Orphan { rank: Rank(1), from: 0, to: 9 } },
            _ => return (if self.random.chance(0.5) { Kind::ACK } else { Kind::HEARTBEAT }, body),
        };
        message.encode()
    }

    fn mac(&self) -> MacAddr {
        let [a, b, c, d, e, f] = self.interface.addr().expect("Ethernet has addresses");
        MacAddr::new(a, b, c, d, e, f)
    }
}
