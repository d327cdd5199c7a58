//! State and functions that sender and receivers of a transfer share.

use super::keyring::{CONTROL_GROWTH_BYTES, Keyring, is_numbered};
use super::kind;
use super::link_share::{LinkShare, LinkWatch};
use super::message::{Message, Trailer};
use super::throttle::Throttle;
use crate::census::CensusRequest;
use crate::census::kind::WHO;
use crate::keys::{ContentCipher, SealedMessage, name_of};
use crate::membership::codec::BodyReader;
use crate::membership::station::{ControlQueue, control_header};
use crate::membership::{ControlStats, KeyDifference, OtherBuild, Station};
use ethbcast_transport::wire::{
    self, Frame, Guard, HEADER_BYTES, Header, Identity, KEYED_VERSION, Kind, OtherVersion, Rank,
    Reject, older_payload,
};
use ethbcast_transport::{Deadline, Instant, LinkReading, MacAddr, Timer, TokenBucket};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Add;
use std::time::Duration;

/// Maximum number of waiting control messages: the parts of the longest view, a few times.
const MAX_WAITING: usize = 8192;
/// Length of a question for an announcement, which no announcement exceeds.
const SEEK_BYTES: usize = 900;
/// Maximum number of waiting replies to non-members, which repeat their requests.
const MAX_ANSWERS: usize = 64;
/// Minimum time between two replies to non-members: a thousandth of a fast link's frames.
const BETWEEN_ANSWERS: Duration = Duration::from_millis(1);
/// Number of repetitions of a message of which one goes to the group.
const GROUP_EVERY: u32 = 3;
/// Time for the final messages to leave when the session is over; later ones are dropped, so that
/// no slow link delays the end.
const REPLY_PERIOD: Duration = Duration::from_secs(1);

/// Returns the IPv4 address that a MAC address stands for over UDP.
pub(super) fn ipv4_in(mac: MacAddr) -> u32 {
    let [.., a, b, c, d] = mac.octets();
    u32::from_be_bytes([a, b, c, d])
}

/// One end of a session: its configuration, identity, waiting control messages, and events for the
/// user. Messages are sent under the epoch of the view, 0 before there is one. Replies to
/// non-members have a queue of their own (`answers`), so that they do not delay members.
#[derive(Clone, Debug)]
pub(super) struct Endpoint<C, E> {
    config: C,
    station: Station,
    identity: Identity,
    epoch: u32,
    control: ControlQueue,
    answers: ControlQueue,
    answer_bucket: TokenBucket,
    events: VecDeque<E>,
    stats: ControlStats,
    throttle: Throttle,
    link: LinkWatch,
    has_heard_itself: bool,
    silent_at: Option<Instant>,
    keyring: Option<Keyring>,
}

impl<C, E> Endpoint<C, E> {
    pub(super) fn new(
        config: C,
        station: Station,
        session: u32,
        rank: Rank,
        keyring: Option<Keyring>,
    ) -> Endpoint<C, E> {
        let identity = station.identity(session, rank);
        Endpoint {
            config,
            station,
            identity,
            epoch: 0,
            control: ControlQueue::new(MAX_WAITING),
            answers: ControlQueue::new(MAX_ANSWERS),
            answer_bucket: TokenBucket::default(),
            events: VecDeque::new(),
            stats: ControlStats::default(),
            throttle: Throttle::default(),
            link: LinkWatch::default(),
            has_heard_itself: false,
            silent_at: None,
            keyring,
        }
    }

    /// Parses a frame, and decrypts an encrypted body into `plain`. With keys, replayed frames are
    /// rejected.
    pub(super) fn open<'a>(
        &mut self,
        now: Instant,
        frame: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, Reject> {
        let Some(keyring) = &mut self.keyring else {
            return wire::parse(frame);
        };
        let opened = keyring.open(now, frame, plain)?;
        if opened.header.kind == kind::KEYS {
            self.set_guard();
        }
        Ok(opened)
    }

    /// Authenticates streams and measurements by the group's secret from now on, if it is known.
    fn set_guard(&mut self) {
        let guard = self.keyring.as_ref().and_then(Keyring::group_guard);
        guard
            .into_iter()
            .for_each(|guard| self.identity.guard = guard);
    }

    /// Whether a frame proves that its sender is alive. With keys, only a frame with a fresh
    /// counter does: announcements of a session that has sent no secret may be replayed.
    pub(super) fn shows_life(&self, frame: &Frame<'_>) -> bool {
        let kind = frame.header.kind;
        !self.is_keyed() || is_numbered(kind) && (kind != kind::ANNOUNCE || self.has_keys())
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.keyring.is_some()
    }

    pub(super) fn requested_by(&self) -> usize {
        self.keyring.as_ref().map_or(0, Keyring::requested_by)
    }

    /// Derives the secret shared with the root that gets `request`, and prepares the sealing of the
    /// abort notification.
    pub(super) fn prepare(&mut self, request: &Message) {
        self.keyring
            .iter_mut()
            .for_each(|keyring| keyring.prepare(&request.encode().1));
    }

    pub(super) fn forget(&mut self, host: MacAddr) {
        self.keyring
            .iter_mut()
            .for_each(|keyring| keyring.forget(host));
    }

    /// Whether this host has the group's secret, if it needs one.
    pub(super) fn has_keys(&self) -> bool {
        self.keyring
            .as_ref()
            .is_none_or(|keyring| keyring.group_guard().is_some())
    }

    pub(super) fn content_cipher(&self) -> ContentCipher {
        self.keyring
            .as_ref()
            .map(Keyring::content_cipher)
            .unwrap_or_default()
    }

    pub(super) fn close_trailer(&self, trailer: Vec<u8>) -> Vec<u8> {
        let closed = self
            .keyring
            .as_ref()
            .map(|keyring| keyring.close_trailer(&trailer).unwrap_or_default());
        closed.unwrap_or(trailer)
    }

    /// Reads the end of a stream; `None` if it is not the root's.
    pub(super) fn open_trailer(&self, bytes: &[u8]) -> Option<Trailer> {
        match &self.keyring {
            Some(keyring) => Trailer::decode(&keyring.open_trailer(bytes)?),
            None => Trailer::decode(bytes),
        }
    }

    pub(super) fn send_keys(&mut self, to: MacAddr, nonce: u64) {
        let Some(body) = self
            .keyring
            .as_mut()
            .and_then(|keyring| keyring.keys_for(to, nonce))
        else {
            return;
        };
        self.control.put_newest(
            to,
            control_header(&self.identity, kind::KEYS, self.epoch),
            body,
        );
    }

    /// Returns the longest body of a message to members, in bytes.
    pub(super) fn control_bytes(&self) -> usize {
        let growth_bytes = if self.keyring.is_some() {
            CONTROL_GROWTH_BYTES
        } else {
            0
        };
        usize::from(self.station.payload_bytes()).saturating_sub(growth_bytes)
    }

    /// Returns the bytes of a message as a frame, Ethernet header excluded, at most.
    pub(super) fn frame_bytes(&self, message: &Message) -> usize {
        let growth_bytes = if self.keyring.is_some() {
            CONTROL_GROWTH_BYTES
        } else {
            0
        };
        HEADER_BYTES + growth_bytes + message.encode().1.len()
    }

    fn put_on_wire(
        &mut self,
        buffer: &mut [u8],
        to: MacAddr,
        header: Header,
        body: &[u8],
    ) -> Option<usize> {
        let sealed = match &mut self.keyring {
            Some(keyring) => Some(keyring.seal(to, header, body)?),
            None => None,
        };
        Some(self.write_sealed(buffer, to, sealed, (header, body)))
    }

    fn write_sealed(
        &self,
        buffer: &mut [u8],
        to: MacAddr,
        sealed: Option<SealedMessage>,
        (header, body): (Header, &[u8]),
    ) -> usize {
        let identity = self.station.identity(header.session, header.rank);
        let Some((guard, header, body)) = sealed else {
            return identity.write(buffer, to, &header, body);
        };
        Identity { guard, ..identity }.write(buffer, to, &header, &body)
    }

    pub(super) fn write_reply(
        &mut self,
        buffer: &mut [u8],
        (to, asked_by): (MacAddr, usize),
        kind: Kind,
        body: &[u8],
    ) -> Option<usize> {
        let header = self.identity.header(kind);
        let sealed = match &mut self.keyring {
            Some(keyring) => Some(keyring.seal_reply(asked_by, header, body)?),
            None => None,
        };
        Some(self.write_sealed(buffer, to, sealed, (header, body)))
    }

    pub(super) fn config(&self) -> &C {
        &self.config
    }

    pub(super) fn config_mut(&mut self) -> &mut C {
        &mut self.config
    }

    pub(super) fn station(&self) -> &Station {
        &self.station
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.clone()
    }

    pub(super) fn session(&self) -> u32 {
        self.identity.session
    }

    pub(super) fn rank(&self) -> Rank {
        self.identity.rank
    }

    pub(super) fn enter(&mut self, root: MacAddr, session: u32) {
        self.identity.session = session;
        self.keyring
            .iter_mut()
            .for_each(|keyring| keyring.bind(root, session));
        self.set_guard();
    }

    pub(super) fn adopt(&mut self, rank: Rank, epoch: u32) {
        self.identity.rank = rank;
        self.epoch = epoch;
    }

    pub(super) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    pub(super) fn throttle_mut(&mut self) -> &mut Throttle {
        &mut self.throttle
    }

    pub(super) fn note_link(&mut self, now: Instant, reading: LinkReading) {
        self.link.note(now, reading);
    }

    pub(super) fn sees_others(&self, now: Instant) -> bool {
        self.link.sees_others(now)
    }

    pub(super) fn best_sent(&self) -> u64 {
        self.link.best_sent()
    }

    pub(super) fn link_share(&self, now: Instant) -> Option<LinkShare> {
        self.link.share(now)
    }

    pub(super) fn send(&mut self, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        let header = control_header(&self.identity, kind, self.epoch);
        if is_superseded(kind) {
            self.control.put_newest(to, header, body);
        } else {
            self.control.put(to, header, body);
        }
    }

    /// Encodes a control message as a whole frame, which another process may send for this host.
    pub(super) fn frame(&self, to: MacAddr, message: &Message) -> Option<Vec<u8>> {
        let (kind, body) = message.encode();
        let header = control_header(&self.identity, kind, self.epoch);
        let (guard, header, body) = match &self.keyring {
            Some(keyring) => keyring.seal_last(header, &body)?,
            None => (Guard::Plain, header, body),
        };
        let mut frame = vec![0; guard.overhead_bytes() + body.len()];
        let length = Identity {
            guard,
            ..self.identity()
        }
        .write(&mut frame, to, &header, &body);
        frame.truncate(length);
        Some(frame)
    }

    pub(super) fn write(
        &mut self,
        buffer: &mut [u8],
        to: MacAddr,
        message: &Message,
    ) -> Option<usize> {
        let (kind, body) = message.encode();
        self.stats.sent += 1;
        self.put_on_wire(
            buffer,
            to,
            control_header(&self.identity, kind, self.epoch),
            &body,
        )
    }

    pub(super) fn send_in(&mut self, session: u32, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        let header = Header {
            session,
            ..control_header(&self.identity, kind, self.epoch)
        };
        self.control.put(to, header, body);
    }

    /// Asks a root that knows nothing of this host for an announcement.
    pub(super) fn seek(&mut self, nonce: u64) {
        let group = self.station.group.clone();
        let question = CensusRequest {
            nonce,
            spread: Duration::ZERO,
            group,
        };
        let mut body = question.encode();
        // Bytes after the last field are ignored.
        body.resize(SEEK_BYTES.min(self.control_bytes()), 0);
        let header = Header {
            session: 0,
            ..control_header(&self.identity, WHO, 0)
        };
        self.control.put_newest(MacAddr::BROADCAST, header, body);
    }

    pub(super) fn reply(&mut self, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        self.answers
            .put_newest(to, control_header(&self.identity, kind, self.epoch), body);
    }

    /// Returns the address for a message to `host` that is sent for the `count`-th time, in vain so
    /// far. With keys every third time it is the group's: by frames under the host's address, which
    /// anybody may send, a switch may have learned a wrong port for it.
    pub(super) fn repeated_to(&self, host: MacAddr, count: u32) -> MacAddr {
        if self.is_keyed() && count > 0 && count.is_multiple_of(GROUP_EVERY) {
            self.station.group_mac
        } else {
            host
        }
    }

    pub(super) fn send_to_group(&mut self, message: &Message) {
        self.send(self.station().group_mac, message);
    }

    /// Writes the oldest control message as a frame, or at intervals a reply to a non-member.
    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        while let Some((to, header, body)) = self.control.pop() {
            if let Some(length) = self.put_on_wire(buffer, to, header, &body) {
                self.stats.sent += 1;
                return Some(length);
            }
        }
        if self.answer_bucket.ready_at(now).is_some() {
            return None;
        }
        let (to, header, body) = self.answers.pop()?;
        let length = self.put_on_wire(buffer, to, header, &body)?;
        self.stats.sent += 1;
        self.answer_bucket
            .spend(now, BETWEEN_ANSWERS, Duration::ZERO);
        Some(length)
    }

    pub(super) fn next_reply(&self, now: Instant) -> Option<Deadline> {
        let at = self
            .answer_bucket
            .ready_at(now)
            .filter(|_| !self.answers.is_empty())?;
        Some(Deadline {
            at,
            why: Timer("answer"),
        })
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.control.is_empty()
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.silent_at = Some(now + REPLY_PERIOD);
    }

    pub(super) fn next_end(&self) -> Option<Deadline> {
        let at = self.silent_at.filter(|_| !self.is_quiet())?;
        Some(Deadline {
            at,
            why: Timer("last words"),
        })
    }

    pub(super) fn handle_end(&mut self, now: Instant) {
        if self.silent_at.is_some_and(|at| at <= now) {
            self.silence();
        }
    }

    pub(super) fn silence(&mut self) {
        self.control.clear();
        self.answers.clear();
    }

    /// Whether a received frame has this host's own address as its source, which should not happen;
    /// and whether it is the first such frame. With keys, a frame without a fresh counter may be
    /// this host's own, returned by another, and an announcement that of an earlier session.
    pub(super) fn is_own(&mut self, frame: &Frame<'_>) -> (bool, bool) {
        let is_own = frame.source == self.station.mac;
        let is_fresh = |kind| is_numbered(kind) && kind != kind::ANNOUNCE;
        let is_of_another = is_own && (!self.is_keyed() || is_fresh(frame.header.kind));
        (
            is_own,
            is_of_another && !std::mem::replace(&mut self.has_heard_itself, true),
        )
    }

    pub(super) fn push_event(&mut self, event: E) {
        self.events.push_back(event);
    }

    pub(super) fn poll_event(&mut self) -> Option<E> {
        self.events.pop_front()
    }

    pub(super) fn waiting_frames(&self) -> usize {
        self.control.waiting().0
    }

    pub(super) fn memory(&self) -> ControlMemory {
        let of = |queue: &ControlQueue| {
            let (waiting_frames, waiting_bytes) = queue.waiting();
            ControlMemory {
                waiting_frames,
                waiting_bytes,
                ..ControlMemory::default()
            }
        };
        of(&self.control) + of(&self.answers)
    }

    pub(super) fn stats(&self) -> ControlStats {
        self.stats
    }

    pub(super) fn read(&mut self, frame: &Frame<'_>) -> Option<Message> {
        let message = Message::decode(frame.header.kind, frame.payload);
        *(if message.is_some() {
            &mut self.stats.received
        } else {
            &mut self.stats.malformed
        }) += 1;
        message
    }

    pub(super) fn count_reject(&mut self, why: Reject) {
        *(if why.is_non_member() {
            &mut self.stats.non_members
        } else {
            &mut self.stats.malformed
        }) += 1;
    }

    pub(super) fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    pub(super) fn count_malformed(&mut self) {
        self.stats.malformed += 1;
    }

    pub(super) fn count_non_member(&mut self) {
        self.stats.non_members += 1;
    }
}

fn is_superseded(kind: Kind) -> bool {
    matches!(
        kind,
        kind::ANNOUNCE
            | kind::JOIN
            | kind::READY
            | kind::STATUS
            | kind::DONE
            | kind::VERDICT
            | kind::ABORT
            | kind::FETCH
            | kind::CHALLENGE
            | kind::RESPONSE
    )
}

/// State kept for control messages (their bytes without headers), for non-members (candidates, path
/// checks, refused hosts), and for the parts of incomplete views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlMemory {
    pub waiting_frames: usize,
    pub waiting_bytes: usize,
    pub non_member_entries: usize,
    pub view_bytes: usize,
}

impl Add for ControlMemory {
    type Output = ControlMemory;

    fn add(self, other: ControlMemory) -> ControlMemory {
        ControlMemory {
            waiting_frames: self.waiting_frames + other.waiting_frames,
            waiting_bytes: self.waiting_bytes + other.waiting_bytes,
            non_member_entries: self.non_member_entries + other.non_member_entries,
            view_bytes: self.view_bytes + other.view_bytes,
        }
    }
}

/// Maximum number of addresses remembered; further hosts are not reported.
const MAX_NOTIFIED: usize = 64;

/// Frames alike without which their host is not reported: a single one may be forged.
const CREDIBLE_FRAMES: u32 = 3;

/// Addresses that only frames came from which this host does not take: the version and key of the
/// last one, and the number of those like it.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherBuilds {
    refused: BTreeMap<MacAddr, (u8, Option<KeyDifference>, u32)>,
}

impl OtherBuilds {
    /// Returns the sender of a rejected frame and the difference that keeps it apart, at each of
    /// the first [`CREDIBLE_FRAMES`], of which the last [should be reported](Self::is_credible).
    /// `None` for a host that has sent a frame under the cluster's key.
    pub(super) fn on_reject(
        &mut self,
        frame: &[u8],
        why: Reject,
        keyring: Option<&Keyring>,
    ) -> Option<OtherBuild> {
        let OtherVersion {
            version,
            kind,
            source,
        } = sender_of(frame, why)?;
        let is_known = self.refused.contains_key(&source);
        if !matches!(kind, kind::ANNOUNCE | kind::JOIN)
            || self.refused.len() >= MAX_NOTIFIED && !is_known
            || self.is_credible(source)
        {
            return None;
        }
        let theirs = || {
            wire::parse_headers(frame)
                .ok()
                .and_then(|(frame, _)| name_of(frame.payload))
        };
        let keys = match why {
            Reject::Untagged(_) => Some(KeyDifference::OnlyOwn(keyring?.name())),
            Reject::Tagged(_) => Some(KeyDifference::OnlyTheirs(theirs()?)),
            Reject::NonMember => Some(keyring?.difference(source, theirs()?)?),
            _ => None,
        };
        if keyring.is_some_and(|keyring| keyring.has_heard(source)) {
            return None;
        }
        let like = self.refused.entry(source).or_insert((version, keys, 0));
        if (like.0, like.1) != (version, keys) {
            *like = (version, keys, 0);
        }
        like.2 += 1;
        Some(OtherBuild {
            mac: source,
            host: name(version, kind, frame),
            version,
            keys,
        })
    }

    /// Returns those of whom too few frames were rejected for one reason to be sure.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = OtherBuild> {
        let doubtful = |(_, (.., count)): &(&MacAddr, &(u8, Option<KeyDifference>, u32))| {
            *count < CREDIBLE_FRAMES
        };
        let build = |(&mac, &(version, keys, _)): (&MacAddr, &(u8, Option<KeyDifference>, u32))| {
            OtherBuild {
                mac,
                host: None,
                version,
                keys,
            }
        };
        self.refused.iter().filter(doubtful).map(build)
    }

    /// Whether several frames of this address were rejected for one reason.
    pub(super) fn is_credible(&self, source: MacAddr) -> bool {
        let like = self.refused.get(&source);
        like.is_some_and(|(.., count)| *count >= CREDIBLE_FRAMES)
    }
}

fn sender_of(frame: &[u8], why: Reject) -> Option<OtherVersion> {
    match why {
        Reject::Version(other) | Reject::Untagged(other) | Reject::Tagged(other) => Some(other),
        Reject::NonMember => {
            let (frame, _) = wire::parse_headers(frame).ok()?;
            Some(OtherVersion {
                version: KEYED_VERSION,
                kind: frame.header.kind,
                source: frame.source,
            })
        }
        _ => None,
    }
}

fn name(version: u8, kind: Kind, frame: &[u8]) -> Option<String> {
    let host = match Message::decode(kind, wire::parse(frame).map_or(&[], |frame| frame.payload)) {
        Some(Message::Announce { host, .. } | Message::Join { host, .. }) => host,
        _ => {
            let payload = older_payload(frame).filter(|_| version == 1)?;
            let mut from = BodyReader::new(payload);
            // Size and MTU, or nonce, free space and MTU precede the names of the group and the
            // host.
            from.bytes(if kind == kind::ANNOUNCE { 10 } else { 18 })?;
            let (_, host) = (from.text()?, from.text()?);
            host
        }
    };
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::codec::BodyWriter;
    use ethbcast_transport::wire::{self, EtherType, Guard, Identity, Rank, StreamId};

    #[test]
    fn a_host_of_another_build_is_named_once_after_several_frames() {
        let mac = MacAddr::new(2, 0, 0, 0, 0, 7);
        let (stream, ether_type, guard) = (StreamId(0), EtherType::DEFAULT, Guard::Plain);
        let identity = Identity {
            session: 1,
            stream,
            rank: Rank::NONE,
            mac,
            ether_type,
            guard,
        };
        let mut body = BodyWriter::default();
        body.u64(1).u64(2).u16(1500).name("g").name("n7");
        let body = body.into_bytes();
        // A frame as that build would have written it, with its positions of length and checksum.
        let mut frame = vec![0; 200];
        let length = identity.write(&mut frame, mac, &identity.header(kind::JOIN), &body);
        frame.truncate(length);
        frame[16] = 1;
        frame[18..46].fill(0);
        frame[28..30].copy_from_slice(&(body.len() as u16).to_be_bytes());
        let checksum = crc32(&frame).to_be_bytes();
        frame[42..46].copy_from_slice(&checksum);
        let mut builds = OtherBuilds::default();
        let why = wire::parse(&frame).expect_err("another version");
        for times in 1..=CREDIBLE_FRAMES {
            let build = builds.on_reject(&frame, why, None);
            assert_eq!(
                (
                    build.is_some(),
                    builds.is_credible(mac),
                    builds.doubtful().count()
                ),
                (
                    true,
                    times == CREDIBLE_FRAMES,
                    usize::from(times < CREDIBLE_FRAMES)
                ),
                "{times}"
            );
        }
        let build = OtherBuilds::default().on_reject(&frame, why, None);
        let build = build.expect("another version");
        assert!(
            build
                .to_string()
                .starts_with("n7 (02:00:00:00:00:07) speaks version 1 of the protocol"),
            "{build}"
        );
        assert_eq!(builds.on_reject(&frame, why, None), None, "once");
        (frame[11], frame[16]) = (8, 9);
        let why = wire::parse(&frame).expect_err("another version");
        let build = builds.on_reject(&frame, why, None).expect("news");
        assert_eq!(
            (build.host, build.version),
            (None, 9),
            "nobody knows how that version is laid out"
        );
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        };
        !bytes
            .iter()
            .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    }
}
