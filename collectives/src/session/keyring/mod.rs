//! Keys of one host in a transfer, and counters that reject replayed frames.
//!
//! | frames | secret |
//! |---|---|
//! | ANNOUNCE, JOIN, REFUSE, WHO, HERE | the cluster's |
//! | KEYS; READY, STATUS, DONE, LEAVE, ORPHAN, FETCH, PIECE, NEEDS, CHALLENGE, RESPONSE of or to one | the pair's |
//! | of the root to all: VIEW, STATUS, VERDICT, ABORT, RESPONSE; streams and measurements | the group's |
//!
//! The root signs its messages to all, ANNOUNCE and REFUSE as well.

mod receiver;
mod root;

pub use receiver::ReceiverKeys;
pub use root::RootKeys;

use super::kind;
use super::message::Message;
use crate::census::kind::{HERE, WHO};
use crate::keys::{
    CLUSTER_NAME_BYTES, ClusterSecrets, ContentCipher, KeyName, Keys, Protection, PublicKey,
    SIGNATURE_BYTES,
};
use crate::keys::{SealedMessage, SessionFacts, SessionName, Signed, VEIL_BYTES, VeilContext};
use crate::measure::kind::{ECHO, PROBE, REPORT};
use crate::membership::{KeyDifference, Station};
use ethbcast_transport::wire::{
    self, CounterWindow, FINAL_NUMBER, Flags, Frame, Guard, Header, Kind, PayloadHash,
};
use ethbcast_transport::wire::{Rank, Reject, UnprovenFrame};
use ethbcast_transport::{Instant, MacAddr, TokenBucket};
use receiver::ReceiverRing;
use root::RootRing;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes by which the body of a message to members grows.
pub const CONTROL_GROWTH_BYTES: usize = SIGNATURE_BYTES + VEIL_BYTES;
/// Bytes by which an announcement grows: key name, signature, three keys of 32 bytes, veil.
pub const ANNOUNCE_GROWTH_BYTES: usize = CLUSTER_NAME_BYTES + SIGNATURE_BYTES + 3 * 32 + VEIL_BYTES;

/// Interval of the signature checks of announcements for which [`KnownSessions`] has no room.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

const SUITES: [PayloadHash; 2] = [PayloadHash::Polyval, PayloadHash::Poly1305];

#[derive(Clone, Debug)]
pub enum Keyring {
    Root(Box<RootRing>),
    Receiver(Box<ReceiverRing>),
}

impl Keyring {
    pub fn of_root(keys: RootKeys, station: &Station, session: u32) -> Keyring {
        Keyring::Root(Box::new(RootRing::new(keys, station, session)))
    }

    pub fn of_receiver(keys: ReceiverKeys, station: &Station) -> Keyring {
        Keyring::Receiver(Box::new(ReceiverRing::new(keys, station)))
    }

    /// Returns the guard of streams and measurements, once the group's secret is known.
    pub fn group_guard(&self) -> Option<Guard> {
        let group = match self {
            Keyring::Root(root) => Some(root.group()),
            Keyring::Receiver(receiver) => receiver.group(),
        };
        group.map(|group| group.guard().clone())
    }

    pub fn content_cipher(&self) -> ContentCipher {
        match self {
            Keyring::Root(root) => root.content_cipher(),
            Keyring::Receiver(receiver) => receiver.content_cipher(),
        }
    }

    pub fn close_trailer(&self, trailer: &[u8]) -> Option<Vec<u8>> {
        if let Keyring::Root(root) = self {
            root.close_trailer(trailer)
        } else {
            None
        }
    }

    pub fn open_trailer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if let Keyring::Receiver(receiver) = self {
            receiver.open_trailer(bytes)
        } else {
            None
        }
    }

    /// Returns the guard of frames of hosts that are in no session yet.
    pub fn cluster_guard(&self) -> Guard {
        self.clusters()
            .secrets
            .protection(0)
            .map(|cluster| cluster.guard().clone())
            .unwrap_or_default()
    }

    fn clusters(&self) -> &Clusters {
        match self {
            Keyring::Root(root) => root.clusters(),
            Keyring::Receiver(receiver) => receiver.clusters(),
        }
    }

    pub fn name(&self) -> KeyName {
        self.clusters().secrets.keys().name()
    }

    pub fn difference(&self, other: MacAddr, theirs: KeyName) -> Option<KeyDifference> {
        let clusters = self.clusters();
        if !clusters.secrets.has(theirs) {
            return Some(KeyDifference::Both {
                theirs,
                own: self.name(),
            });
        }
        (clusters.unknown_sender == Some(other)).then_some(KeyDifference::NoSender)
    }

    /// Whether a host is this one, or has sent a frame under the cluster's secret: a receiver its
    /// request, a root its announcement.
    pub fn has_heard(&self, host: MacAddr) -> bool {
        match self {
            Keyring::Root(root) => root.has_heard(host),
            Keyring::Receiver(receiver) => receiver.has_heard(host),
        }
    }

    pub fn bind(&mut self, root: MacAddr, session: u32) {
        if let Keyring::Receiver(receiver) = self {
            receiver.bind(root, session);
        }
    }

    pub fn prepare(&mut self, request: &[u8]) {
        if let Keyring::Receiver(receiver) = self {
            receiver.prepare(request);
        }
    }

    pub fn forget(&mut self, host: MacAddr) {
        if let Keyring::Root(root) = self {
            root.forget(host);
        }
    }

    pub fn requested_by(&self) -> usize {
        if let Keyring::Receiver(receiver) = self {
            receiver.requested_by()
        } else {
            0
        }
    }

    /// Protects the reply to a census query by the secret that authenticated the query.
    pub fn seal_reply(
        &mut self,
        cluster_index: usize,
        header: Header,
        body: &[u8],
    ) -> Option<SealedMessage> {
        match self {
            Keyring::Root(_) => None,
            Keyring::Receiver(receiver) => receiver.seal_reply(cluster_index, header, body),
        }
    }

    pub fn keys_for(&mut self, to: MacAddr, nonce: u64) -> Option<Vec<u8>> {
        if let Keyring::Root(root) = self {
            root.keys_for(to, nonce)
        } else {
            None
        }
    }

    /// Protects a message; `None` if there is no secret for it, so that it is not sent.
    pub fn seal(&mut self, to: MacAddr, header: Header, body: &[u8]) -> Option<SealedMessage> {
        match self {
            Keyring::Root(root) => root.seal(to, header, body),
            Keyring::Receiver(receiver) => receiver.seal(to, header, body),
        }
    }

    /// Protects this host's last message, which another process may send for it: its number is
    /// above all others.
    pub fn seal_last(&self, header: Header, body: &[u8]) -> Option<SealedMessage> {
        let header = Header {
            sequence: FINAL_NUMBER,
            ..header
        };
        match self {
            Keyring::Root(root) => root.seal_to_all(header, body),
            Keyring::Receiver(receiver) => receiver.seal_last(header, body),
        }
    }

    /// Parses a frame and checks its tag, and of a control message that its number is new. The body
    /// is put into `plain`.
    pub fn open<'a>(
        &mut self,
        now: Instant,
        bytes: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, Reject> {
        let mut tried = 0;
        let (frame, slot) = loop {
            let mut slot = None;
            let parsed = wire::parse_keyed(bytes, |unproven| {
                slot = self.slot(unproven, tried);
                self.guard(slot?, unproven.source)
            });
            match parsed {
                Ok(frame) => break (frame, slot.ok_or(Reject::NonMember)?),
                // Either of two runs at one address may have sent it.
                Err(Reject::Damaged) => tried += 1,
                Err(Reject::NonMember) if tried > 0 => return Err(Reject::Damaged),
                Err(why) => return Err(why),
            }
        };
        if !is_numbered(frame.header.kind) {
            return Ok(frame);
        }
        let body = match self {
            Keyring::Root(root) => root.admit(now, slot, &frame),
            Keyring::Receiver(receiver) => receiver.admit(now, slot, &frame),
        };
        *plain = body.ok_or(Reject::NonMember)?;
        Ok(Frame {
            payload: plain,
            ..frame
        })
    }

    fn slot(&self, frame: &UnprovenFrame<'_>, tried: usize) -> Option<Slot> {
        match self {
            Keyring::Root(root) => root.slot(frame, tried),
            Keyring::Receiver(receiver) => receiver.slot(frame, tried),
        }
    }

    fn guard(&self, slot: Slot, source: MacAddr) -> Option<&Guard> {
        let protection = match self {
            Keyring::Root(root) => root.protection(slot, source),
            Keyring::Receiver(receiver) => receiver.protection(slot),
        };
        protection.map(Protection::guard)
    }
}

/// Whether frames of a kind have a number that counts up: all but those of streams and
/// measurements, whose numbers mean something else and prove nothing.
pub fn is_numbered(kind: Kind) -> bool {
    !kind.is_of_stream() && !matches!(kind, PROBE | ECHO | REPORT)
}

/// Secret of a message: a cluster's by its place in the key file, a pair's by the position of the
/// run at its address, or the group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Cluster(usize),
    Pair(usize),
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secrecy {
    Cluster,
    Pair,
    Group,
}

fn secrecy(header: &Header, to: MacAddr) -> Secrecy {
    let is_of_root = header.rank == Rank::ROOT;
    match header.kind {
        kind::ANNOUNCE | kind::JOIN | kind::REFUSE | WHO | HERE => Secrecy::Cluster,
        kind::STATUS if is_of_root => Secrecy::Group,
        kind::RESPONSE if to.is_multicast() => Secrecy::Group,
        kind::VIEW | kind::VERDICT | kind::ABORT => Secrecy::Group,
        kind if is_numbered(kind) => Secrecy::Pair,
        _ => Secrecy::Group,
    }
}

/// The cluster's secrets, at one end of sessions of a group. `unknown_sender` is the host that sent
/// the last announcement under the right secret without being one of the senders.
#[derive(Clone, Debug)]
struct Clusters {
    secrets: ClusterSecrets,
    group: String,
    unknown_sender: Option<MacAddr>,
    checks: TokenBucket,
}

impl Clusters {
    fn new(keys: Arc<Keys>, group: &str) -> Clusters {
        Clusters {
            secrets: ClusterSecrets::new(keys),
            group: group.to_owned(),
            unknown_sender: None,
            checks: TokenBucket::default(),
        }
    }

    /// Reads an announcement whose tag is right: one of the key file's senders must have signed it,
    /// for the session that follows from it. The signature of one already in `heard` (this group's)
    /// or `others` is not checked again, that of a session for which there is no room only every
    /// [`BETWEEN_CHECKS`]. Returns whether it is of this group.
    fn invitation(
        &mut self,
        now: Instant,
        cluster_index: usize,
        frame: &Frame<'_>,
        (heard, others): (&KnownSessions, Option<&KnownSessions>),
    ) -> Option<(SessionKeys, Vec<u8>, bool)> {
        let plain = self
            .secrets
            .lift(cluster_index, &frame.header, frame.payload)?;
        let (signature, signed) = plain.split_first_chunk()?;
        let (random, rest) = signed.split_first_chunk()?;
        let (exchange, rest) = rest.split_first_chunk()?;
        let (sender, body) = rest.split_first_chunk()?;
        let senders = self.secrets.keys().senders();
        let Some(sender) = senders
            .iter()
            .map(|known| known.key)
            .find(|known| known.bytes() == sender)
        else {
            self.unknown_sender = Some(frame.source);
            return None;
        };
        let (session, root, number) = (frame.header.session, frame.source, frame.header.sequence);
        let other = match Message::decode(frame.header.kind, body) {
            Some(Message::Announce { group, .. }) => {
                Some(group).filter(|group| *group != self.group)
            }
            _ => None,
        };
        let heard = if other.is_some() { others? } else { heard };
        let group = other.as_deref().unwrap_or(&self.group);
        let name = SessionName::of(&SessionFacts {
            session,
            random,
            exchange,
            sender: sender.bytes(),
            root,
            group,
        });
        if !heard.is_new(&name, number)
            || !heard.has_room(&name) && !take_turn(&mut self.checks, now)
        {
            return None;
        }
        let is_signed = sender.has_signed(
            Signed::Announce,
            &name,
            &[signed, &numbered(number)],
            signature,
        );
        let keys = SessionKeys {
            root,
            session,
            name,
            exchange: *exchange,
            sender,
            cluster_index,
        };
        is_signed.then(|| (keys, body.to_vec(), other.is_none()))
    }
}

/// Keys of a session, as its announcement states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SessionKeys {
    root: MacAddr,
    session: u32,
    name: SessionName,
    exchange: [u8; 32],
    sender: PublicKey,
    cluster_index: usize,
}

impl SessionKeys {
    fn is_of(&self, root: MacAddr, session: u32) -> bool {
        (self.root, self.session) == (root, session)
    }

    /// Returns the body of a message of the root. Its number is checked first, which costs nothing,
    /// and recorded last, so that no other sender can use it up.
    fn take_signed(
        &self,
        header: &Header,
        signed_body: &[u8],
        window: &mut CounterWindow,
    ) -> Option<Vec<u8>> {
        let what = signed(header.kind).filter(|_| window.is_new(header.sequence))?;
        let (signature, body) = signed_body.split_first_chunk::<SIGNATURE_BYTES>()?;
        let is_signed = self.sender.has_signed(
            what,
            &self.name,
            &[body, &numbered(header.sequence)],
            signature,
        );
        (is_signed && window.take(header.sequence)).then(|| body.to_vec())
    }
}

fn take_turn(bucket: &mut TokenBucket, now: Instant) -> bool {
    let is_ready = bucket.ready_at(now).is_none();
    if is_ready {
        bucket.spend(now, BETWEEN_CHECKS, Duration::ZERO);
    }
    is_ready
}

/// Sessions that were announced, `most` at most, each with the numbers already received of its
/// root's frames under the cluster's secret.
#[derive(Clone, Debug)]
struct KnownSessions {
    sessions: Vec<(SessionKeys, CounterWindow)>,
    most: usize,
}

impl KnownSessions {
    fn new(most: usize) -> KnownSessions {
        KnownSessions {
            sessions: Vec::new(),
            most,
        }
    }

    fn has_room(&self, name: &SessionName) -> bool {
        self.sessions.len() < self.most || self.sessions.iter().any(|(keys, _)| keys.name == *name)
    }

    /// Records an announcement; false if it has come before, or contradicts the session of this
    /// number that is `kept`. Forgets the session known longest if there is no room.
    fn record(&mut self, keys: SessionKeys, number: u64, kept: Option<SessionName>) -> bool {
        if let Some((_, window)) = self.sessions.iter_mut().find(|(known, _)| *known == keys) {
            return window.take(number);
        }
        let is_kept = |known: &SessionKeys| Some(known.name) == kept;
        if self.of(keys.root, keys.session).is_some_and(is_kept) {
            return false;
        }
        self.sessions
            .retain(|(known, _)| !known.is_of(keys.root, keys.session));
        if self.sessions.len() >= self.most
            && let Some(oldest) = self.sessions.iter().position(|(known, _)| !is_kept(known))
        {
            self.sessions.remove(oldest);
        }
        let mut window = CounterWindow::default();
        let is_new = window.take(number);
        self.sessions.push((keys, window));
        is_new
    }

    fn of(&self, root: MacAddr, session: u32) -> Option<&SessionKeys> {
        self.sessions
            .iter()
            .map(|(keys, _)| keys)
            .find(|keys| keys.is_of(root, session))
    }

    fn has_root(&self, root: MacAddr) -> bool {
        self.sessions.iter().any(|(keys, _)| keys.root == root)
    }

    fn is_new(&self, name: &SessionName, number: u64) -> bool {
        let known = self.sessions.iter().find(|(keys, _)| keys.name == *name);
        known.is_none_or(|(_, window)| window.is_new(number))
    }

    /// Returns the body of a refusal, if the root of the session that it names has signed it with a
    /// new number.
    fn take_refusal(&mut self, root: MacAddr, header: &Header, plain: &[u8]) -> Option<Vec<u8>> {
        let (name, signed) = plain.split_first_chunk()?;
        let mut sessions = self
            .sessions
            .iter_mut()
            .filter(|(keys, _)| keys.is_of(root, header.session));
        let (keys, window) = sessions.find(|(keys, _)| keys.name == SessionName(*name))?;
        keys.take_signed(header, signed, window)
    }
}

/// Returns the kind of signature on a message; `None` for messages without one. A root signs,
/// together with the number, each message to more than one host or to a host with which it shares
/// no secret: members have the group's secret, and could otherwise send the message in the root's
/// name, or use up its numbers.
fn signed(kind: Kind) -> Option<Signed> {
    match kind {
        kind::VIEW => Some(Signed::View),
        kind::VERDICT => Some(Signed::Verdict),
        kind::ABORT => Some(Signed::Abort),
        kind::STATUS => Some(Signed::Status),
        kind::RESPONSE => Some(Signed::Response),
        kind::REFUSE => Some(Signed::Refuse),
        _ => None,
    }
}

/// Returns the context of the end of a stream, the only payload of data that is veiled.
fn end_of(session: u32) -> VeilContext {
    VeilContext {
        kind: Kind::DATA.0,
        session,
        rank: Rank::ROOT.0,
        sequence: 0,
    }
}

/// Returns the plain payload, without its signature, of a frame whose tag is right under this
/// secret: for who reads a capture. Replays are not noticed.
pub fn plain(protection: &Protection, frame: &Frame<'_>, to: MacAddr) -> Option<Vec<u8>> {
    let Header {
        kind,
        session,
        flags,
        ..
    } = frame.header;
    if kind == Kind::DATA && flags.has(Flags::LAST) {
        let trailer = protection.veil().lift(end_of(session), frame.payload);
        let signed_bytes = trailer
            .as_ref()
            .and_then(|trailer| trailer.len().checked_sub(SIGNATURE_BYTES));
        let trailer = signed_bytes
            .zip(trailer)
            .map(|(bytes, trailer)| trailer[..bytes].to_vec());
        return Some(trailer.unwrap_or_else(|| frame.payload.to_vec()));
    }
    let is_of_ranks = matches!(
        kind,
        Kind::PUSH | Kind::PULL | Kind::NOTE | Kind::RECEIPT | Kind::ASK
    );
    if is_of_ranks || !is_numbered(kind) {
        return Some(frame.payload.to_vec());
    }
    let body = protection.lift(&frame.header, frame.payload)?;
    if kind == kind::KEYS {
        return Some(Vec::new());
    }
    let is_signed = secrecy(&frame.header, to) == Secrecy::Group && signed(kind).is_some();
    Some(if is_signed {
        body.get(SIGNATURE_BYTES..)?.to_vec()
    } else {
        body
    })
}

fn numbered(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

#[cfg(test)]
mod tests;
