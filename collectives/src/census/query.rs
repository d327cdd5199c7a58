//! Both ends of the query for listening receivers: one host asks and collects replies, each
//! receiver replies.

use super::address;
use super::kind::{HERE, WHO};
use crate::keys::{ClusterSecrets, Keys};
use crate::membership::Station;
use crate::membership::codec::{BodyReader, BodyWriter};
use crate::membership::timers::{Wait, jitter};
use ethbcast_transport::wire::{self, Frame, HEADER_BYTES, Identity, Kind};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Limit of receivers kept: forged ones by the thousand must not take more memory.
const MAX_REPLIES: usize = 65_536;
const QUERY_INTERVAL: Duration = Duration::from_millis(300);
const MIN_SPREAD: Duration = Duration::from_millis(50);
/// Time added to the shortest spread of replies for each known receiver.
const SPREAD_EACH: Duration = Duration::from_micros(200);
/// A third of the longest reply.
const PADDED_BYTES: usize = 200;
/// Rounds without a reply after which a receiver is forgotten.
const FORGOTTEN_AFTER: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    pub mac: MacAddr,
    pub answer: CensusReply,
    round: u32,
}

/// Queries receivers in rounds.
#[derive(Debug)]
pub struct CensusQuery {
    identity: Identity,
    to: MacAddr,
    group: String,
    wait: Duration,
    nonce: u64,
    round: u32,
    round_began: Instant,
    query_at: Instant,
    /// Frames that are still to be sent: one for each secret.
    asks: usize,
    found: BTreeMap<(MacAddr, String), Present>,
    lost: u64,
    secrets: Option<ClusterSecrets>,
    least_bytes: usize,
}

impl CensusQuery {
    /// Creates a query that starts at `now`, in rounds of length `wait`. `nonce` is random. An
    /// empty group stands for all groups.
    pub fn new(
        now: Instant,
        identity: Identity,
        group: &str,
        wait: Duration,
        nonce: u64,
    ) -> CensusQuery {
        CensusQuery {
            identity,
            to: address(),
            group: group.to_owned(),
            wait,
            nonce,
            round: 0,
            round_began: now,
            query_at: now,
            asks: 0,
            found: BTreeMap::new(),
            lost: 0,
            secrets: None,
            least_bytes: 0,
        }
    }

    pub fn with_keys(self, keys: Arc<Keys>) -> CensusQuery {
        CensusQuery {
            secrets: Some(ClusterSecrets::new(keys)),
            ..self
        }
    }

    /// Sends the query to the broadcast address, as a port by unicast needs it.
    pub fn by_broadcast(self) -> CensusQuery {
        CensusQuery {
            to: MacAddr::BROADCAST,
            ..self
        }
    }

    /// Makes queries as long as they must be to get whole replies where addresses may be forged, as
    /// over UDP.
    pub fn padded(self) -> CensusQuery {
        CensusQuery {
            least_bytes: PADDED_BYTES,
            ..self
        }
    }

    pub fn rounds(&self) -> u32 {
        self.round
    }

    pub fn present(&self) -> impl Iterator<Item = &Present> {
        self.found.values()
    }

    /// Returns the number of replies for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn spread(&self) -> Duration {
        MIN_SPREAD + SPREAD_EACH * self.found.len().min(MAX_REPLIES) as u32
    }

    /// Returns the query's nonce in this round: a late reply belongs to none.
    fn number(&self) -> u64 {
        self.nonce.wrapping_add(u64::from(self.round))
    }
}

impl Machine for CensusQuery {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        let mut plain = Vec::new();
        let parsed = match &self.secrets {
            Some(secrets) => secrets.open(frame, &mut plain),
            None => wire::parse(frame),
        };
        let Ok(frame) = parsed else { return };
        if frame.header.kind != HERE || frame.source.is_multicast() {
            return;
        }
        let Some(answer) =
            CensusReply::decode(frame.payload).filter(|answer| answer.nonce == self.number())
        else {
            return;
        };
        let (key, round) = ((frame.source, answer.group.clone()), self.round);
        if self.found.len() >= MAX_REPLIES && !self.found.contains_key(&key) {
            self.lost += 1;
            return;
        }
        self.found.insert(
            key,
            Present {
                mac: frame.source,
                answer,
                round,
            },
        );
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now.since(self.round_began) >= self.wait {
            self.round += 1;
            (self.round_began, self.query_at) = (now, now);
            let round = self.round;
            self.found
                .retain(|_, present| round - present.round <= FORGOTTEN_AFTER);
        }
        if self.query_at <= now {
            self.asks = self.secrets.as_ref().map_or(1, ClusterSecrets::count);
            self.query_at = now + QUERY_INTERVAL.max(self.spread());
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.asks = self.asks.checked_sub(1)?;
        let question = CensusRequest {
            nonce: self.number(),
            spread: self.spread(),
            group: self.group.clone(),
        };
        let (header, mut body) = (self.identity.header(WHO), question.encode());
        // Bytes after the last field are ignored.
        body.resize(body.len().max(self.least_bytes), 0);
        let Some(secrets) = &mut self.secrets else {
            return Some(self.identity.write(buffer, self.to, &header, &body));
        };
        let (guard, header, body) = secrets.close(self.asks, header, body)?;
        Some(
            Identity {
                guard,
                ..self.identity.clone()
            }
            .write(buffer, self.to, &header, &body),
        )
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        Some(Wait::Announce.at(self.query_at.min(self.round_began + self.wait)))
    }

    fn is_urgent(&self) -> bool {
        false
    }
}

/// Limit of replies that are due at once; the oldest makes room.
const MAX_ASKERS: usize = 16;
const REPLY_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Default)]
pub struct CensusResponder {
    due: Vec<PendingReply>,
    next: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct PendingReply {
    at: Instant,
    to: MacAddr,
    nonce: u64,
    asked_by: usize,
    asked_bytes: usize,
}

impl CensusResponder {
    /// Takes a WHO that may be meant for this host; `asked_by` is the index of the secret that
    /// authenticated it. Returns false if it is malformed.
    pub fn on_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        station: &Station,
        asked_by: usize,
    ) -> bool {
        if frame.header.kind != WHO {
            return false;
        }
        let Some(question) = CensusRequest::decode(frame.payload) else {
            return false;
        };
        let is_meant = question.group.is_empty() || question.group == station.group;
        if !is_meant || frame.source.is_multicast() {
            return true;
        }
        let own = station
            .mac
            .octets()
            .into_iter()
            .fold(0_u64, |seed, octet| seed << 8 | u64::from(octet));
        let of_group = station.group_mac.octets()[5];
        let at = now
            + jitter(
                question.spread,
                question.nonce ^ own ^ u64::from(of_group) << 48,
            );
        let asked_bytes = HEADER_BYTES + frame.payload.len();
        let due = PendingReply {
            at,
            to: frame.source,
            nonce: question.nonce,
            asked_by,
            asked_bytes,
        };
        // From one asker, in this round or the one before: an older query may be replayed.
        let is_same =
            |one: &PendingReply| one.to == due.to && due.nonce.wrapping_sub(one.nonce) <= 1;
        match self.due.iter_mut().find(|one| is_same(one)) {
            // An asker that repeats its query before the reply gets it at the earlier time.
            Some(waiting) => {
                *waiting = PendingReply {
                    at: waiting.at.min(at),
                    ..due
                }
            }
            None => {
                if self.due.len() >= MAX_ASKERS {
                    self.due.remove(0);
                }
                self.due.push(due);
            }
        }
        true
    }

    /// Returns the address and nonce of a reply that is due, the index of the secret that
    /// authenticated its query, and the query's bytes.
    pub fn poll(&mut self, now: Instant) -> Option<(MacAddr, u64, (usize, usize))> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let first = self.due.iter().enumerate().min_by_key(|(_, due)| due.at);
        let (at, _) = first.filter(|(_, due)| due.at <= now)?;
        let PendingReply {
            to,
            nonce,
            asked_by,
            asked_bytes,
            ..
        } = self.due.remove(at);
        self.next = Some(now + REPLY_INTERVAL);
        Some((to, nonce, (asked_by, asked_bytes)))
    }

    pub fn next(&self) -> Option<Deadline> {
        let at = self.due.iter().map(|due| due.at).min()?;
        Some(Wait::Announce.at(self.next.map_or(at, |next| at.max(next))))
    }
}

/// Longest time over which replies are spread, even if a query requests more.
const MAX_SPREAD: Duration = Duration::from_secs(2);
/// Maximum length of the version and of the content's name, in bytes; longer ones are truncated.
/// With the names of a group and a host, a reply fits into a frame of the least MTU.
const MAX_VERSION_BYTES: usize = 32;
const MAX_SOURCE_BYTES: usize = 100;
const UNKNOWN: u64 = u64::MAX;

/// Query for receivers of `group`, or of all groups if that is empty. Replies repeat the random
/// nonce. Hosts spread them over the time `spread`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusRequest {
    pub nonce: u64,
    pub spread: Duration,
    pub group: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Busy {
    Waiting = 0,
    Joining = 1,
    Receiving = 2,
}

impl Busy {
    const ALL: [Busy; 3] = [Busy::Waiting, Busy::Joining, Busy::Receiving];
    pub(crate) const WORDS: [&str; 3] = ["waiting", "joining", "receiving"];

    pub fn name(self) -> &'static str {
        Busy::WORDS[self as usize]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSession {
    pub is_delivered: bool,
    pub source: String,
    pub seconds_ago: u32,
}

/// Constant description of a host, configured by its user; `version` begins with the program's
/// name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub megabits_per_second: Option<u32>,
    pub last: Option<LastSession>,
}

/// Reply of a receiver: its free space at the destination, and the bytes that it has received of
/// the current session and the size of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusReply {
    pub nonce: u64,
    pub group: String,
    pub host: String,
    pub mtu_bytes: u16,
    pub free_bytes: Option<u64>,
    pub busy: Busy,
    pub bytes: u64,
    pub size: Option<u64>,
    pub about: About,
}

impl CensusRequest {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        let spread = self.spread.min(MAX_SPREAD).as_millis() as u16;
        out.u64(self.nonce).u16(spread).zeros(2).text(&self.group);
        out.into_bytes()
    }

    pub fn decode(body: &[u8]) -> Option<CensusRequest> {
        let mut from = BodyReader::new(body);
        let (nonce, spread) = (
            from.u64()?,
            Duration::from_millis(from.u16()?.into()).min(MAX_SPREAD),
        );
        from.bytes(2)?;
        Some(CensusRequest {
            nonce,
            spread,
            group: from.text()?,
        })
    }
}

impl CensusReply {
    /// Returns the reply without the parts that nothing depends on if it is longer than
    /// `most_bytes`; `None` if it is still.
    pub fn within(mut self, most_bytes: usize) -> Option<CensusReply> {
        if self.encode().len() > most_bytes {
            self.about.version.clear();
            self.about
                .last
                .iter_mut()
                .for_each(|last| last.source.clear());
        }
        (self.encode().len() <= most_bytes).then_some(self)
    }

    pub fn encode(&self) -> Vec<u8> {
        let About {
            version,
            megabits_per_second,
            last,
        } = &self.about;
        let mut out = BodyWriter::default();
        out.u64(self.nonce).u8(self.busy as u8);
        out.u8(last
            .as_ref()
            .map_or(0, |last| 1 + u8::from(last.is_delivered)))
            .u16(self.mtu_bytes);
        out.u32(megabits_per_second.unwrap_or(0))
            .u32(last.as_ref().map_or(0, |last| last.seconds_ago));
        out.u64(self.free_bytes.unwrap_or(UNKNOWN))
            .u64(self.bytes)
            .u64(self.size.unwrap_or(UNKNOWN));
        out.text(&self.group)
            .text(&self.host)
            .text(within(version, MAX_VERSION_BYTES));
        out.text(
            last.as_ref()
                .map_or("", |last| within(&last.source, MAX_SOURCE_BYTES)),
        );
        out.into_bytes()
    }

    pub fn decode(body: &[u8]) -> Option<CensusReply> {
        let mut from = BodyReader::new(body);
        let nonce = from.u64()?;
        let busy = from.u8()?;
        let busy = Busy::ALL.into_iter().find(|&known| known as u8 == busy)?;
        let last = from.u8().filter(|&last| last <= 2)?;
        let mtu_bytes = from.u16()?;
        let (megabits, seconds_ago) = (from.u32()?, from.u32()?);
        let [free_bytes, bytes, size] = [from.u64()?, from.u64()?, from.u64()?];
        let known = |value: u64| Some(value).filter(|&value| value != UNKNOWN);
        let (group, host, version, source) =
            (from.text()?, from.text()?, from.text()?, from.text()?);
        let last = (last > 0).then_some(LastSession {
            is_delivered: last == 2,
            source,
            seconds_ago,
        });
        let megabits_per_second = Some(megabits).filter(|&megabits| megabits > 0);
        let about = About {
            version,
            megabits_per_second,
            last,
        };
        let (free_bytes, size) = (known(free_bytes), known(size));
        Some(CensusReply {
            nonce,
            group,
            host,
            mtu_bytes,
            free_bytes,
            busy,
            bytes,
            size,
            about,
        })
    }
}

fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

pub(crate) fn is_well_formed(kind: Kind, body: &[u8]) -> bool {
    match kind {
        WHO => CensusRequest::decode(body).is_some(),
        HERE => CensusReply::decode(body).is_some(),
        _ => false,
    }
}
