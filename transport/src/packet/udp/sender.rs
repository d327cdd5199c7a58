//! Sending over UDP: frames of equal destination and length leave in one system call (UDP_SEGMENT).
//!
//! The system has refusals that raw Ethernet does not have: no route, a firewall, a host that
//! answers "no such port". Such a frame is lost, as on a cable, and counted; none blocks those for
//! other hosts. If none leaves for long, that is an error.
//!
//! A frame for a host of IPv6 whose address is not known is lost, and the address is asked for.
//!
//! Frames for all are copied to each peer where no multicast goes. Without room for the next copy
//! such a frame waits, and goes on with that peer. For a peer on its own network that answers no
//! ARP request, the kernel holds the copies for seconds, in the socket's buffer: so it gets few.

use super::address::{address_of, group_address};
use super::neighbours::{Addresses, Question};
use crate::packet::Interface;
use crate::packet::send_buffer::CHARGE_BYTES;
use crate::packet::syscall::{SEND_MANY_FRAMES, interface_state, is_unresolved, multicast_by};
use crate::wire::{ETHERNET_BYTES, EtherType};
use crate::{Instant, MacAddr};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, getsockopt,
    recvmsg, sendmsg, sendto, socket, sockopt,
};
use std::collections::{BTreeMap, HashSet};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

const JOINED_BYTES: usize = 65_507;
const ERRORS: usize = 64;
/// Tries of a frame. An error may be that of an earlier datagram, reported late.
const TRIES: usize = 3;
const MAX_WARNED: usize = 1024;
/// Time for which the kernel holds frames for a host that it does not find: three ARP requests, one
/// a second.
const HELD_FOR: Duration = Duration::from_secs(3);
/// Most copies that are held for a peer when it is first looked for, which may take a while; then
/// one.
const FIRST_HELD: usize = 4;
/// Part of a limited buffer for copies that are held for peers looked for the first time; half as
/// much for those looked for again. The kernel reports room while less than half of the buffer is
/// taken.
const HELD_PART: usize = 4;
/// Number of peers that are looked for again at the same time.
const LOOKED_FOR: usize = 128;

/// Sender of frames as datagrams. Each of the `peers` gets its own copy of what is for all, and
/// `copies` of them have theirs of the first such frame that waits; the multicast address gets it
/// if there is no list of peers.
///
/// `left` are the frames of the present batch that have left, from the oldest waiting one on.
/// `refusal` is the last one by this host, with the times of the first and the last since a frame
/// has left. `warned` has the addresses of which a warning has said that frames for them are lost,
/// at most `MAX_WARNED`.
pub(in crate::packet) struct DatagramSender {
    ether_type: EtherType,
    addresses: Addresses,
    peers: Option<Vec<IpAddr>>,
    copies: usize,
    /// Copies of it that have left, and copies of earlier ones beyond the first of each, with their
    /// bytes.
    given: u64,
    more: (u64, u64),
    /// Copies for peers that the kernel has not found.
    held: BTreeMap<IpAddr, HeldCopies>,
    /// Size of the socket's buffer, if it cannot grow with the copies that are held.
    limit: Option<usize>,
    joins: bool,
    left: u64,
    lost: u64,
    refusal: Option<(Errno, Instant, Instant)>,
    warned: HashSet<Option<SocketAddr>>,
}

#[derive(Clone, Copy, Debug)]
struct HeldCopies {
    since: Instant,
    copies: usize,
    most: usize,
    bytes: usize,
}

struct Run {
    frames: u64,
    count: usize,
    each_bytes: usize,
    bytes: usize,
}

impl DatagramSender {
    pub(in crate::packet) fn new(
        ether_type: EtherType,
        addresses: Addresses,
        unicast: bool,
    ) -> DatagramSender {
        let peers = unicast.then(Vec::new);
        let (held, warned) = (BTreeMap::new(), HashSet::new());
        DatagramSender {
            ether_type,
            addresses,
            peers,
            copies: 0,
            given: 0,
            more: (0, 0),
            held,
            limit: None,
            joins: true,
            left: 0,
            lost: 0,
            refusal: None,
            warned,
        }
    }

    pub(in crate::packet) fn name_peers(&mut self, peers: &[IpAddr]) {
        self.addresses.name(peers);
        self.peers = Some(peers.to_vec());
        // A frame that waits is for each of them.
        self.copies = 0;
        self.held.clear();
    }

    pub(in crate::packet) fn refusal(&self) -> Option<(Errno, Duration)> {
        self.refusal
            .map(|(errno, since, last)| (errno, last.since(since)))
    }

    pub(in crate::packet) fn forget_refusal(&mut self) {
        self.refusal = None;
        self.warned.clear();
    }

    pub(in crate::packet) fn limit_buffer(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// Returns the bytes charged for copies that the kernel holds for peers it has not found.
    pub(in crate::packet) fn held_bytes(&self, now: Instant) -> usize {
        self.held
            .values()
            .filter(|held| now.since(held.since) < HELD_FOR)
            .map(|held| held.bytes)
            .sum()
    }

    pub(in crate::packet) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Returns how many frames, and bytes of them, have left more than there were frames.
    pub(in crate::packet) fn take_copies(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.more)
    }

    pub(in crate::packet) fn removed(&mut self, count: usize) {
        if self.left & 1 == 0 {
            // It was given up.
            (self.copies, self.given) = (0, 0);
        }
        self.left = self.left.checked_shr(count as u32).unwrap_or_default();
    }

    /// Whether a datagram as long as a frame of `bytes` leaves for the destination in `header`; a
    /// host there ignores it.
    pub(in crate::packet) fn leaves(
        &self,
        socket: BorrowedFd,
        header: &[u8; ETHERNET_BYTES],
        bytes: usize,
    ) -> bool {
        let mut frame = vec![0; bytes];
        frame[..ETHERNET_BYTES].copy_from_slice(header);
        let frames = [[IoSlice::new(&frame), IoSlice::new(&[])]];
        transmit(
            socket,
            self.address(destination(&frame)),
            &frames,
            &Run::of_one(&frames, 0),
        )
        .is_ok()
    }

    /// Sends frames, Ethernet headers included and each in one or two pieces; returns how many of
    /// the oldest have left or are lost. An error concerns the first frame.
    pub(in crate::packet) fn send(
        &mut self,
        socket: BorrowedFd,
        interface: &str,
        frames: &[[IoSlice<'_>; 2]],
        now: Instant,
    ) -> nix::Result<usize> {
        let frames = &frames[..frames.len().min(SEND_MANY_FRAMES)];
        for first in 0..frames.len() {
            if self.left >> first & 1 == 1 {
                continue;
            }
            match self.send_run(socket, interface, frames, first, now) {
                Ok(run) => self.left |= run,
                Err(errno) if self.left & 1 == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok((self.left.trailing_ones() as usize).min(frames.len()))
    }

    fn send_run(
        &mut self,
        socket: BorrowedFd,
        interface: &str,
        frames: &[[IoSlice<'_>; 2]],
        first: usize,
        now: Instant,
    ) -> nix::Result<u64> {
        let mac = destination(&frames[first][0]);
        if self.peers.is_none() || !mac.is_multicast() {
            let to = self.address(mac);
            let run = if self.joins {
                self.run(frames, first)
            } else {
                Run::of_one(frames, first)
            };
            if to.is_none() && self.ask(socket, mac) {
                self.lost += run.count as u64;
                return Ok(run.frames);
            }
            return self.send_to(to, socket, interface, frames, run, now);
        }
        let port = group_address(MacAddr::BROADCAST, self.ether_type).port();
        let mut held_bytes = self.held_bytes(now);
        while let Some(peer) = self
            .peers
            .as_ref()
            .and_then(|peers| peers.get(self.copies))
            .copied()
        {
            let is_unresolved = || is_unresolved(socket, interface, peer);
            if self.may_get_copy(peer, is_unresolved, (held_bytes, now)) {
                let run = Run::of_one(frames, first);
                let bytes = run.bytes + CHARGE_BYTES;
                let to = self.addresses.host(peer, port);
                self.send_to(to, socket, interface, frames, run, now)?;
                self.given += 1;
                if is_unresolved() {
                    self.hold(peer, bytes, now);
                    held_bytes += bytes;
                }
            }
            self.copies += 1;
        }
        let more = std::mem::take(&mut self.given).saturating_sub(1);
        let frame_bytes = ETHERNET_BYTES + datagram_bytes(&frames[first]);
        self.more = (self.more.0 + more, self.more.1 + more * frame_bytes as u64);
        self.copies = 0;
        Ok(1 << first)
    }

    /// Whether a peer gets a copy while `held_bytes` are held for others. Where the buffer is
    /// limited, only a part of it is for peers that the kernel does not find, and those that were
    /// not looked for yet come first.
    fn may_get_copy(
        &mut self,
        peer: IpAddr,
        is_unresolved: impl FnOnce() -> bool,
        (held_bytes, now): (usize, Instant),
    ) -> bool {
        let held = self.held.get(&peer).copied();
        let part = HELD_PART * if held.is_some() { 2 } else { 1 };
        let is_full = self.limit.is_some_and(|limit| held_bytes >= limit / part);
        if held.is_none() && !is_full {
            return true;
        }
        if !is_unresolved() {
            self.held.remove(&peer);
            return true;
        }
        let turns = 1 + self.held.len() as u32 / LOOKED_FOR as u32;
        let may =
            |held: HeldCopies| held.copies < held.most || now.since(held.since) >= HELD_FOR * turns;
        !is_full && held.is_some_and(may)
    }

    fn hold(&mut self, peer: IpAddr, bytes: usize, now: Instant) {
        let first = HeldCopies {
            since: now,
            copies: 0,
            most: FIRST_HELD,
            bytes: 0,
        };
        let held = self.held.entry(peer).or_insert(first);
        if now.since(held.since) >= HELD_FOR {
            *held = HeldCopies { most: 1, ..first };
        }
        (held.copies, held.bytes) = (held.copies + 1, held.bytes + bytes);
    }

    fn send_to(
        &mut self,
        to: Option<SocketAddr>,
        socket: BorrowedFd,
        interface: &str,
        frames: &[[IoSlice<'_>; 2]],
        run: Run,
        now: Instant,
    ) -> nix::Result<u64> {
        let (first, sent) = (
            run.frames.trailing_zeros() as usize,
            transmit(socket, to, frames, &run),
        );
        let (run, sent) = match sent {
            // The card cannot join (EIO), or the kernel fewer.
            Err(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP)
                if run.count > 1 =>
            {
                let one = Run::of_one(frames, first);
                let sent = transmit(socket, to, frames, &one);
                if sent.is_ok() {
                    self.joins = false;
                    log::info!("datagrams leave one by one: {sent:?} for several at once");
                }
                (one, sent)
            }
            sent => (run, sent),
        };
        // Then the way to that host is narrower, or a router says so, truly or not.
        let fits = || {
            interface_state(socket, interface)
                .is_ok_and(|is| run.each_bytes + self.addresses.header_bytes() <= is.mtu_bytes)
        };
        let is_of_path = |errno| errno == Errno::EMSGSIZE && fits();
        match sent {
            Ok(()) => self.refusal = None,
            Err(errno) if is_loss(errno) || is_of_path(errno) => {
                self.lost += run.count as u64;
                if !of_this_host(errno) && !is_of_path(errno) {
                    return Ok(run.frames);
                }
                if self.warned.len() < MAX_WARNED && self.warned.insert(to) {
                    let mac = || destination(&frames[first][0]).to_string();
                    let address = to.map_or_else(mac, |to| to.to_string());
                    log::warn!("frames for {address} are lost: {errno}");
                }
                self.refusal = Some((errno, self.refusal.map_or(now, |(_, since, _)| since), now));
            }
            Err(errno) => return Err(errno),
        }
        Ok(run.frames)
    }

    fn address(&self, mac: MacAddr) -> Option<SocketAddr> {
        let group = || self.addresses.group(mac, self.ether_type);
        self.addresses
            .process(mac)
            .or_else(|| mac.is_multicast().then(group))
    }

    /// Asks for the address of a process, if there is one to ask for: all, or where no multicast
    /// goes those that were heard.
    fn ask(&self, socket: BorrowedFd, mac: MacAddr) -> bool {
        let (Addresses::V6(neighbours), Some(_)) = (&self.addresses, address_of(mac)) else {
            return false;
        };
        let to_all = || vec![self.addresses.group(MacAddr::BROADCAST, self.ether_type)];
        let to = self
            .peers
            .as_ref()
            .map_or_else(to_all, |_| neighbours.heard());
        to.into_iter()
            .for_each(|to| Question::Ask(mac).send(socket, to));
        true
    }

    /// Returns the frames that may leave with the first: those of its destination and length that
    /// come next for that destination, and one shorter one at the end.
    fn run(&self, frames: &[[IoSlice<'_>; 2]], first: usize) -> Run {
        let mut run = Run::of_one(frames, first);
        let to = &frames[first][0][..6];
        for (at, frame) in frames.iter().enumerate().skip(first + 1) {
            if self.left >> at & 1 == 1 || &frame[0][..6] != to {
                continue;
            }
            let bytes = datagram_bytes(frame);
            if bytes == 0 || bytes > run.each_bytes || run.bytes + bytes > JOINED_BYTES {
                break;
            }
            (run.frames, run.count, run.bytes) =
                (run.frames | 1 << at, run.count + 1, run.bytes + bytes);
            if bytes < run.each_bytes {
                break;
            }
        }
        run
    }
}

impl Run {
    fn of_one(frames: &[[IoSlice<'_>; 2]], first: usize) -> Run {
        let bytes = datagram_bytes(&frames[first]);
        Run {
            frames: 1 << first,
            count: 1,
            each_bytes: bytes,
            bytes,
        }
    }
}

fn destination(frame: &[u8]) -> MacAddr {
    MacAddr::from(*frame.first_chunk().expect("a frame has an Ethernet header"))
}

fn datagram_bytes(frame: &[IoSlice<'_>; 2]) -> usize {
    frame[0].len() + frame[1].len() - ETHERNET_BYTES
}

/// Whether it is a refusal of one frame by the system or, reported late, by its destination or a
/// router.
fn is_loss(errno: Errno) -> bool {
    let of_others = [
        Errno::ECONNREFUSED,
        Errno::EHOSTUNREACH,
        Errno::EHOSTDOWN,
        Errno::ENOPROTOOPT,
        Errno::EPROTO,
        Errno::ENONET,
    ];
    of_this_host(errno) || of_others.contains(&errno)
}

/// Whether a firewall of this host refuses a frame, or there is no route or no source address for
/// it.
fn of_this_host(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EPERM | Errno::EACCES | Errno::ENETUNREACH | Errno::EADDRNOTAVAIL | Errno::EINVAL
    )
}

impl Question {
    /// Sends it; one that is lost is asked again with the next frame.
    pub(super) fn send(self, socket: BorrowedFd, to: SocketAddr) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let to = SockaddrStorage::from(to);
        let _ = sendto(socket.as_raw_fd(), &self.encode(), &to, flags);
    }
}

fn transmit(
    socket: BorrowedFd,
    to: Option<SocketAddr>,
    frames: &[[IoSlice<'_>; 2]],
    run: &Run,
) -> nix::Result<()> {
    let to = SockaddrStorage::from(to.ok_or(Errno::EADDRNOTAVAIL)?);
    let mut pieces = [IoSlice::new(&[]); 2 * SEND_MANY_FRAMES];
    let mut count = 0;
    for (_, frame) in frames
        .iter()
        .enumerate()
        .filter(|(at, _)| run.frames >> at & 1 == 1)
    {
        let head: &[u8] = &frame[0];
        for piece in [&head[ETHERNET_BYTES..], &frame[1]] {
            if !piece.is_empty() {
                pieces[count] = IoSlice::new(piece);
                count += 1;
            }
        }
    }
    let each_bytes = run.each_bytes as u16;
    let joined = [ControlMessage::UdpGsoSegments(&each_bytes)];
    let control = if run.count > 1 { &joined[..] } else { &[] };
    let once = || {
        sendmsg(
            socket.as_raw_fd(),
            &pieces[..count],
            control,
            MsgFlags::MSG_NOSIGNAL,
            Some(&to),
        )
        .map(drop)
    };
    let mut sent = once();
    for _ in 1..TRIES {
        match sent {
            Err(Errno::EINTR) => {}
            Err(errno) if is_loss(errno) || errno == Errno::EMSGSIZE => clear_errors(socket),
            _ => break,
        }
        sent = once();
    }
    sent
}

/// Reads the errors of earlier datagrams, which would fill the receive buffer, at most `ERRORS` at
/// once.
pub(in crate::packet) fn clear_errors(socket: BorrowedFd) {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    for _ in 0..ERRORS {
        if recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut [], None, flags).is_err() {
            break;
        }
    }
    // Reading clears it.
    let _ = getsockopt(&socket, sockopt::SocketError);
}

pub(super) fn family(is_ipv6: bool) -> AddressFamily {
    if is_ipv6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    }
}

/// Sends a frame, Ethernet header included, from its own source address, which `interface` has and no
/// other socket may have: what is for all to each of `peers`, if there are any. The host that the
/// frame is for is `receiver`, where its MAC address does not say it. Waits for room.
pub(in crate::packet) fn send_once(
    interface: &Interface,
    frame: &[u8],
    peers: &[IpAddr],
    receiver: Option<IpAddr>,
) -> nix::Result<()> {
    let header: &[u8; ETHERNET_BYTES] = frame.first_chunk().ok_or(Errno::EINVAL)?;
    let source = MacAddr::from(*header[6..].first_chunk().expect("eight bytes follow"));
    let own = Interface {
        mac: source,
        ..interface.clone()
    };
    let ip = own.ip().ok_or(Errno::EADDRNOTAVAIL)?;
    let addresses = Addresses::of(ip, interface.index);
    let from = addresses.process(source).ok_or(Errno::EADDRNOTAVAIL)?;
    addresses.name(receiver.as_slice());
    let number = Some(u16::from_be_bytes([header[12], header[13]]))
        .filter(|&number| number >= EtherType::LOWEST);
    let ether_type = EtherType::new(number.ok_or(Errno::EINVAL)?);
    let socket = socket(
        family(addresses.is_ipv6()),
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    multicast_by(socket.as_fd(), interface.index, ip)?;
    let frames = [[IoSlice::new(frame), IoSlice::new(&[])]];
    let mut sender = DatagramSender::new(ether_type, addresses, false);
    if !peers.is_empty() {
        sender.name_peers(peers);
    }
    sender
        .send(socket.as_fd(), "", &frames, Instant::START)
        .map(drop)
}
