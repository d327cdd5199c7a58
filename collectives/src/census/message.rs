//! Wire format of the query for listening receivers (`ethbcast hosts`) and of their replies.

use super::kind::{HERE, WHO};
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::{Fields, Frame, Spelled};
use std::time::Duration;

/// Longest time over which replies are spread, even if a query requests more.
const MAX_SPREAD: Duration = Duration::from_secs(2);
/// Maximum length of the version and of the content's name, in bytes; longer ones are truncated.
/// With the names of a group and a host, a reply fits into a frame of the least MTU.
const MAX_VERSION_BYTES: usize = 32;
const MAX_SOURCE_BYTES: usize = 100;
const UNKNOWN: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusRequest {
    /// Random number that replies repeat.
    pub nonce: u64,
    /// Time over which the replies have to be spread.
    pub spread: Duration,
    /// Group whose receivers have to reply; all groups if empty.
    pub group: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Busy {
    Waiting = 0,
    /// Has sent a join request, and waits for the start.
    Joining = 1,
    Receiving = 2,
}

impl Busy {
    const ALL: [Busy; 3] = [Busy::Waiting, Busy::Joining, Busy::Receiving];

    pub fn name(self) -> &'static str {
        match self {
            Busy::Waiting => "waiting",
            Busy::Joining => "joining",
            Busy::Receiving => "receiving",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSession {
    /// Whether everything was received and verified.
    pub is_delivered: bool,
    /// Name of the content.
    pub source: String,
    pub seconds_ago: u32,
}

/// Constant description of a host, configured by its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Program and its version.
    pub version: String,
    pub megabits_per_second: Option<u32>,
    pub last: Option<LastSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CensusReply {
    pub nonce: u64,
    pub group: String,
    pub host: String,
    pub mtu_bytes: u16,
    /// Free space at the destination, in bytes, if known.
    pub free_bytes: Option<u64>,
    pub busy: Busy,
    /// Bytes received in the current session.
    pub bytes: u64,
    /// Size of that session, in bytes, if known.
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
        let (nonce, spread) = (from.u64()?, Duration::from_millis(from.u16()?.into()).min(MAX_SPREAD));
        from.bytes(2)?;
        Some(CensusRequest { nonce, spread, group: from.text()? })
    }
}

impl CensusReply {
    pub fn encode(&self) -> Vec<u8> {
        let About { version, megabits_per_second, last } = &self.about;
        let mut out = BodyWriter::default();
        out.u64(self.nonce).u8(self.busy as u8);
        out.u8(last.as_ref().map_or(0, |last| 1 + u8::from(last.is_delivered))).u16(self.mtu_bytes);
        out.u32(megabits_per_second.unwrap_or(0)).u32(last.as_ref().map_or(0, |last| last.seconds_ago));
        out.u64(self.free_bytes.unwrap_or(UNKNOWN)).u64(self.bytes).u64(self.size.unwrap_or(UNKNOWN));
        out.text(&self.group).text(&self.host).text(within(version, MAX_VERSION_BYTES));
        out.text(last.as_ref().map_or("", |last| within(&last.source, MAX_SOURCE_BYTES)));
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
        let (group, host, version, source) = (from.text()?, from.text()?, from.text()?, from.text()?);
        let last = (last > 0).then_some(LastSession { is_delivered: last == 2, source, seconds_ago });
        let megabits_per_second = Some(megabits).filter(|&megabits| megabits > 0);
        let about = About { version, megabits_per_second, last };
        let (free_bytes, size) = (known(free_bytes), known(size));
        Some(CensusReply { nonce, group, host, mtu_bytes, free_bytes, busy, bytes, size, about })
    }
}

fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

pub(crate) fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        WHO => ("WHO", CensusRequest::decode(frame.payload).map(question)),
        HERE => ("HERE", CensusReply::decode(frame.payload).map(answer)),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

fn question(question: CensusRequest) -> Fields {
    let CensusRequest { nonce, spread, group } = question;
    Fields::default()
        .text("nonce", format!("{nonce:016x}"))
        .number("spread_ms", spread.as_millis() as u64)
        .text("group", group)
}

fn answer(answer: CensusReply) -> Fields {
    let CensusReply { nonce, group, host, mtu_bytes, free_bytes, busy, bytes, size, about } = answer;
    let fields = Fields::default().text("nonce", format!("{nonce:016x}")).text("busy", busy.name());
    let fields = fields.number("mtu", mtu_bytes).perhaps("megabits", about.megabits_per_second);
    let fields = fields.perhaps("free_bytes", free_bytes).number("came_bytes", bytes).perhaps("size", size);
    let fields = fields.text("group", group).text("host", host).text("build", about.version);
    match about.last {
        None => fields,
        Some(last) => {
            let word = if last.is_delivered { "delivered" } else { "failed" };
            fields.text("last", word).number("seconds_ago", last.seconds_ago).text("source", last.source)
        }
    }
}
