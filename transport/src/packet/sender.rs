//! Sending half of a packet socket: batches of frames, and retries when the kernel has no room.
//!
//! The kernel refuses frames in two ways. EAGAIN: the socket's send buffer is full; POLLOUT reports
//! room. ENOBUFS: the interface's transmit queue dropped the frame; nothing reports room, so we
//! retry after a while ([`Refusals`]). Neither loses a frame, except one refused for too long,
//! which would block all others.

use super::error::{DriveError, OpenError, is_away};
use super::outage::{Fate, Refusals};
use super::send_buffer::SendBuffer;
use super::syscall::SEND_MANY_FRAMES;
use super::udp::{DatagramSender, send_once};
use super::{Counters, Interface, Over, interface, syscall};
use crate::Instant;
use crate::link::Blocked;
use crate::machine::{Kept, SplitFrame};
use crate::wire::{ETHERNET_BYTES, EtherType};
use nix::errno::Errno;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WARN_AFTER: Duration = Duration::from_secs(1);
const TESTS: usize = 3;
const USUAL_MTU_BYTES: usize = 1500;
const MIN_BYTES: usize = 60;
const MAC_BYTES: usize = 6;
const VLAN_TAG_BYTES: usize = 4;

/// Frames that leave a port, as `datagrams` or, without these, as they are. `first_hop` has the
/// largest MTU that the first hop takes, in bytes, for threads without the sender; `usize::MAX`
/// while all frames leave.
pub(super) struct Sender {
    staging: Staging,
    datagrams: Option<DatagramSender>,
    backlog: SendBuffer,
    blocked: Option<Blocked>,
    refusals: Refusals,
    warned: bool,
    passes: Option<usize>,
    first_hop: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flushed {
    pub frames: usize,
    pub is_away: bool,
}

impl Sender {
    pub(super) fn new(
        mtu_bytes: usize,
        buffer_bytes: usize,
        datagrams: Option<DatagramSender>,
    ) -> Self {
        let staging = Staging::new(mtu_bytes);
        let backlog = SendBuffer::new(staging.frame_bytes(), buffer_bytes);
        let refusals = Refusals::new();
        let first_hop = Arc::new(AtomicUsize::new(usize::MAX));
        Sender {
            staging,
            datagrams,
            backlog,
            blocked: None,
            refusals,
            warned: false,
            passes: None,
            first_hop,
        }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.staging.frame_bytes()
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.backlog.present_bytes
    }

    pub(super) fn resize(&mut self, now: Instant) -> Option<usize> {
        self.backlog.resize(now)
    }

    /// Takes the size of the socket's buffer if it is smaller than it was to be.
    pub(super) fn limit_buffer(&mut self, limit: Option<usize>) {
        self.datagrams
            .iter_mut()
            .for_each(|datagrams| datagrams.limit_buffer(limit));
    }

    pub(super) fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    pub(super) fn writable(&mut self) {
        if self.blocked == Some(Blocked::Room) {
            self.blocked = None;
        }
    }

    pub(super) fn fill(&mut self, write: impl FnMut(&mut [u8]) -> Option<SplitFrame>) {
        self.staging.fill(write);
    }

    pub(super) fn join<'a>(&mut self, payload: impl Fn(Kept) -> &'a [u8]) {
        self.staging.join(payload);
    }

    /// Returns the frames that wait here, and whether there is room for one more.
    pub(super) fn staged(&self) -> (usize, bool) {
        let staging = &self.staging;
        let has_room = staging.is_empty() || staging.frames.len() < staging.capacity;
        (staging.frames.len() - staging.sent, has_room)
    }

    /// Adds a frame behind those that wait, for which there must be room; `written` is its written
    /// part, which `readdress` may change.
    pub(super) fn stage(
        &mut self,
        frame: SplitFrame,
        written: &[u8],
        readdress: impl FnOnce(&mut [u8]),
    ) {
        self.staging.add(frame, written, readdress);
    }

    /// Loses the frames that wait.
    pub(super) fn abandon(&mut self, counters: &mut Counters) {
        let (waiting, _) = self.staged();
        counters.frames_given_up += waiting as u64;
        self.remove(waiting);
        self.blocked = None;
    }

    /// Sends waiting frames until none is left, the kernel has no room or the interface is away;
    /// `payload` supplies payloads that are not staged.
    pub(super) fn flush<'a>(
        &mut self,
        socket: BorrowedFd,
        interface: &str,
        now: Instant,
        counters: &mut Counters,
        payload: &impl Fn(Kept) -> &'a [u8],
    ) -> Result<Flushed, DriveError> {
        let mut frames = 0;
        while !self.staging.is_empty() && self.may_try(now) {
            let run = self.leading(now);
            if run == 0 {
                self.give_up(counters);
                continue;
            }
            let Sender {
                staging, datagrams, ..
            } = self;
            let sent = staging.waiting(run, payload, |waiting| match datagrams {
                Some(datagrams) => datagrams.send(socket, interface, waiting, now),
                None => syscall::send_many(socket, waiting),
            });
            self.backlog.held_bytes = self
                .datagrams
                .as_ref()
                .map_or(0, |datagrams| datagrams.held_bytes(now));
            match sent {
                Ok(sent) => {
                    frames += sent;
                    self.took(sent, counters);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    counters.send_would_block += 1;
                    self.backlog.blocked();
                    self.blocked = Some(Blocked::Room);
                }
                // A momentary lack of memory, handled alike.
                Err(Errno::ENOBUFS | Errno::ENOMEM) => {
                    counters.send_no_buffers += 1;
                    self.refused(interface, now, counters);
                }
                Err(Errno::EMSGSIZE) => return Err(self.longer_than_mtu(interface)),
                Err(errno) if is_away(errno) => {
                    return Ok(Flushed {
                        frames,
                        is_away: true,
                    });
                }
                Err(errno) => return Err(DriveError::new(interface, "send", errno)),
            }
        }
        self.look_for_length(socket, interface);
        Ok(Flushed {
            frames,
            is_away: false,
        })
    }

    fn may_try(&self, now: Instant) -> bool {
        let is_over = |blocked: Blocked| blocked.until().is_some_and(|retry_at| now >= retry_at);
        self.blocked.is_none_or(is_over)
    }

    fn leading(&self, now: Instant) -> usize {
        let Some(too_long) = self.refusals.too_long() else {
            return usize::MAX;
        };
        if self.refusals.spares(now, self.staging.oldest_bytes()) {
            return 0;
        }
        1 + self
            .staging
            .lengths()
            .skip(1)
            .take_while(|&bytes| bytes < too_long.bytes)
            .count()
    }

    fn took(&mut self, sent: usize, counters: &mut Counters) {
        counters.send_batches += 1;
        counters.frames_sent += sent as u64;
        self.refusals
            .left(self.staging.lengths().take(sent).max().unwrap_or_default());
        let (more, more_bytes) = self
            .datagrams
            .as_mut()
            .map_or((0, 0), DatagramSender::take_copies);
        counters.frames_sent += more;
        let bytes = self.remove(sent) as u64 + more_bytes;
        counters.frames_given_up += self.datagrams.as_mut().map_or(0, DatagramSender::take_lost);
        counters.bytes_sent += bytes;
        self.backlog.sent(bytes);
        self.blocked = None;
    }

    fn refused(&mut self, interface: &str, now: Instant, counters: &mut Counters) {
        match self.refusals.refused(now, self.staging.oldest_bytes()) {
            Fate::Retry(at) => self.blocked = Some(Blocked::Until(at)),
            Fate::GiveUp => self.give_up(counters),
        }
        if !self.warned && self.refusals.lasts(now) >= WARN_AFTER {
            self.warned = true;
            log::warn!(
                "the transmit queue of {interface} has taken no frame for {} s: see `tc -s qdisc show dev {interface}` \
                 (a token bucket smaller than one frame never lets it pass)",
                WARN_AFTER.as_secs()
            );
        }
    }

    fn give_up(&mut self, counters: &mut Counters) {
        counters.frames_given_up += 1;
        self.remove(1);
        self.blocked = None;
    }

    fn remove(&mut self, count: usize) -> usize {
        self.datagrams
            .iter_mut()
            .for_each(|datagrams| datagrams.removed(count));
        self.staging.remove(count)
    }

    fn look_for_length(&mut self, socket: BorrowedFd, interface: &str) {
        let Some(too_long) = self.refusals.too_long() else {
            return self.note_passing(None);
        };
        if self.passes.is_some() {
            return;
        }
        let header = self.staging.header();
        let passes = match &self.datagrams {
            Some(datagrams) => largest_passing(too_long.bytes, |bytes| {
                datagrams.leaves(socket, &header, bytes)
            }),
            None => largest_passing(too_long.bytes, to_itself(socket, &header, too_long.bytes)),
        };
        let Some(passes) = passes else {
            return self.refusals.forgive();
        };
        self.note_passing(Some(passes));
        self.refusals.narrow(passes);
        log::warn!("{}", self.first_hop(interface, passes));
    }

    fn note_passing(&mut self, passes: Option<usize>) {
        self.passes = passes;
        self.first_hop
            .store(passes.map_or(usize::MAX, mtu_of), Ordering::Relaxed);
    }

    pub(super) fn first_hop_flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.first_hop)
    }

    pub(super) fn name_peers(&mut self, peers: &[IpAddr]) {
        self.datagrams
            .iter_mut()
            .for_each(|datagrams| datagrams.name_peers(peers));
    }

    pub(super) fn forget_refusals(&mut self) {
        self.refusals = Refusals::new();
        self.datagrams
            .iter_mut()
            .for_each(DatagramSender::forget_refusal);
        self.note_passing(None);
    }

    pub(super) fn trouble(&self, now: Instant, interface: &str) -> Option<(DriveError, Duration)> {
        if let (Some(too_long), Some(passes)) = (self.refusals.too_long(), self.passes) {
            return Some((self.first_hop(interface, passes), too_long.lasts));
        }
        let refusal = self.datagrams.as_ref().and_then(DatagramSender::refusal);
        if let Some((errno, lasts)) = refusal.filter(|(_, lasts)| *lasts >= WARN_AFTER) {
            let (interface, errno) = (interface.to_owned(), super::error::Errno::new(errno));
            return Some((
                DriveError::Refused {
                    interface,
                    errno,
                    lasts,
                },
                lasts,
            ));
        }
        let lasts = Some(self.refusals.lasts(now)).filter(|&lasts| lasts >= WARN_AFTER)?;
        Some((
            DriveError::NothingLeaves {
                interface: interface.to_owned(),
                lasts,
            },
            lasts,
        ))
    }

    fn first_hop(&self, interface: &str, passes: usize) -> DriveError {
        let mtu_bytes = self.frame_bytes() - ETHERNET_BYTES;
        DriveError::FirstHop {
            interface: interface.to_owned(),
            mtu_bytes,
            passes: mtu_of(passes),
        }
    }

    fn longer_than_mtu(&self, interface: &str) -> DriveError {
        DriveError::FrameTooLong {
            interface: interface.to_owned(),
            frame_bytes: self.staging.oldest_bytes(),
        }
    }
}

/// Returns the MTU, in bytes, of a path on which frames of `passes` bytes pass. A veth accepts
/// frames that are longer than its MTU by a VLAN tag; the devices behind it do not.
pub(super) fn mtu_of(passes: usize) -> usize {
    passes.saturating_sub(ETHERNET_BYTES + VLAN_TAG_BYTES)
}

/// Returns whether frames of a length leave. They are addressed to this host itself, so they go no
/// further than the next switch.
fn to_itself(
    socket: BorrowedFd<'_>,
    header: &[u8; ETHERNET_BYTES],
    most_bytes: usize,
) -> impl Fn(usize) -> bool {
    let mut frame = vec![0; most_bytes.max(MIN_BYTES)];
    let (source, rest) = (&header[MAC_BYTES..2 * MAC_BYTES], &header[MAC_BYTES..]);
    frame[..MAC_BYTES].copy_from_slice(source);
    frame[MAC_BYTES..ETHERNET_BYTES].copy_from_slice(rest);
    move |bytes| {
        syscall::send_many(
            socket,
            &[[IoSlice::new(&frame[..bytes]), IoSlice::new(&[])]],
        )
        .is_ok()
    }
}

/// Finds the longest frame in bytes that leaves if one of `refused_bytes` was refused, zero if none
/// does; `None` if that length leaves now.
pub(super) fn largest_passing(
    refused_bytes: usize,
    leaves: impl Fn(usize) -> bool,
) -> Option<usize> {
    let (mut passes, mut fails, mut tried) = (0_usize, refused_bytes + 1, refused_bytes);
    while passes + 1 < fails && tried >= MIN_BYTES {
        // A full queue refuses short frames as well, so each length is tried several times.
        *(if (0..TESTS).any(|_| leaves(tried)) {
            &mut passes
        } else {
            &mut fails
        }) = tried;
        let usual =
            Some(ETHERNET_BYTES + USUAL_MTU_BYTES).filter(|&bytes| passes == 0 && bytes < fails);
        tried = usual.unwrap_or(passes.midpoint(fails));
    }
    (passes < refused_bytes).then_some(passes)
}

/// Memory for staged frames at a large MTU: with more, one call to the kernel would delay the
/// receive ring for long.
const LARGE_MTU_BYTES: usize = 1 << 20;
const MIN_FRAMES: usize = 8;

pub(super) struct Staging {
    memory: Box<[u8]>,
    frame_bytes: usize,
    frames: Vec<SplitFrame>,
    sent: usize,
    capacity: usize,
}

impl Staging {
    pub(super) fn new(mtu_bytes: usize) -> Self {
        let frame_bytes = ETHERNET_BYTES + mtu_bytes;
        let capacity = (LARGE_MTU_BYTES / frame_bytes).clamp(MIN_FRAMES, SEND_MANY_FRAMES);
        Staging {
            memory: vec![0; capacity * frame_bytes].into_boxed_slice(),
            frame_bytes,
            frames: Vec::with_capacity(capacity),
            sent: 0,
            capacity,
        }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.frames.len()
    }

    pub(super) fn fill(&mut self, mut write: impl FnMut(&mut [u8]) -> Option<SplitFrame>) {
        if !self.is_empty() {
            return;
        }
        self.frames.clear();
        self.sent = 0;
        for buffer in self
            .memory
            .chunks_exact_mut(self.frame_bytes)
            .take(self.capacity)
        {
            let Some(frame) = write(buffer) else { break };
            assert!(
                frame.bytes() <= buffer.len(),
                "a machine wrote {} bytes into {}",
                frame.bytes(),
                buffer.len()
            );
            self.frames.push(frame);
        }
    }

    fn add(&mut self, frame: SplitFrame, written: &[u8], readdress: impl FnOnce(&mut [u8])) {
        if self.is_empty() {
            self.frames.clear();
            self.sent = 0;
        }
        assert!(self.frames.len() < self.capacity, "there is room");
        let buffer = &mut self.memory[self.frames.len() * self.frame_bytes..][..written.len()];
        buffer.copy_from_slice(written);
        readdress(buffer);
        self.frames.push(frame);
    }

    pub(super) fn join<'a>(&mut self, payload: impl Fn(Kept) -> &'a [u8]) {
        let buffers = self.memory.chunks_exact_mut(self.frame_bytes);
        for (buffer, frame) in buffers.zip(&mut self.frames).skip(self.sent) {
            *frame = SplitFrame::whole(frame.join(buffer, &payload));
        }
    }

    pub(super) fn waiting<'a, 'b: 'a, R>(
        &'a self,
        most: usize,
        payload: impl Fn(Kept) -> &'b [u8],
        send: impl FnOnce(&[[IoSlice<'a>; 2]]) -> R,
    ) -> R {
        let mut slices = [[IoSlice::new(&[]); 2]; SEND_MANY_FRAMES];
        let frames = self
            .memory
            .chunks_exact(self.frame_bytes)
            .zip(&self.frames)
            .skip(self.sent)
            .take(most);
        let mut count = 0;
        for (slot, (buffer, frame)) in slices.iter_mut().zip(frames) {
            let rest = frame.kept.map_or(&[][..], &payload);
            *slot = [
                IoSlice::new(&buffer[..frame.written_bytes]),
                IoSlice::new(rest),
            ];
            count += 1;
        }
        send(&slices[..count])
    }

    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.frames[self.sent..].iter().map(SplitFrame::bytes)
    }

    pub(super) fn oldest_bytes(&self) -> usize {
        self.lengths().next().unwrap_or_default()
    }

    pub(super) fn header(&self) -> [u8; ETHERNET_BYTES] {
        std::array::from_fn(|at| self.memory[at])
    }

    pub(super) fn remove(&mut self, count: usize) -> usize {
        let gone = &self.frames[self.sent..self.sent + count];
        self.sent += count;
        gone.iter().map(SplitFrame::bytes).sum()
    }
}

/// Sends whole frames on one interface, one at a time.
#[derive(Debug)]
pub struct FrameSender {
    /// Socket of raw frames; UDP needs one with the address of each frame's source.
    socket: Option<OwnedFd>,
    interface: Interface,
    peers: Vec<IpAddr>,
}

impl FrameSender {
    /// Opens a socket on `interface`, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: &Interface, over: Over) -> Result<FrameSender, OpenError> {
        if over.is_udp() {
            return Ok(FrameSender {
                socket: None,
                interface: interface.clone(),
                peers: Vec::new(),
            });
        }
        let failed = |step| move |errno| OpenError::new(&interface.name, step, errno);
        let socket = syscall::packet_socket().map_err(failed("open a packet socket"))?;
        syscall::bind(socket.as_fd(), interface.index, None)
            .map_err(failed("bind the packet socket"))?;
        Ok(FrameSender {
            socket: Some(socket),
            interface: interface.clone(),
            peers: Vec::new(),
        })
    }

    /// Sends what is for all to each of these hosts, over UDP by unicast.
    pub fn name_peers(&mut self, peers: Vec<IpAddr>) {
        self.peers = peers;
    }

    /// Whether the interface is on and has a link at this moment; a card drops frames given to it
    /// before.
    pub fn has_link(&self) -> bool {
        interface::has_link(self.interface.index)
    }

    /// Returns the largest MTU, in bytes, of the first hop behind the interface, where that is not
    /// the interface's own; nothing where all or no frames leave. The frames for it are to this
    /// host itself, and go no further than the next switch.
    pub fn first_hop(&self, ether_type: EtherType) -> Option<usize> {
        let mac = self.interface.mac.octets();
        let mut header = [0; ETHERNET_BYTES];
        header.copy_from_slice(&[&mac[..], &mac, &ether_type.octets()].concat());
        let most_bytes = ETHERNET_BYTES + self.interface.mtu_bytes;
        let socket = self.socket.as_ref()?;
        let passes = largest_passing(most_bytes, to_itself(socket.as_fd(), &header, most_bytes))?;
        Some(mtu_of(passes)).filter(|&mtu_bytes| mtu_bytes > 0)
    }

    /// Sends a frame, Ethernet header first, if the kernel has room for it. Over UDP its source, a
    /// process, must have ended, and room is waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.send_to(frame, None)
    }

    /// Sends a frame, like [`send`](FrameSender::send), to a host of IPv6, which its MAC address does
    /// not tell.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send_to(&self, frame: &[u8], host: Option<IpAddr>) -> io::Result<()> {
        let sent = match &self.socket {
            Some(socket) => {
                syscall::send_many(socket.as_fd(), &[[IoSlice::new(frame), IoSlice::new(&[])]])
                    .map(drop)
            }
            None => send_once(&self.interface, frame, &self.peers, host),
        };
        sent.map_err(|errno| super::error::Errno::new(errno).into())
    }
}
