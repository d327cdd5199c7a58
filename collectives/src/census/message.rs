//! The question and the answer, and their bodies.

use crate::membership::codec::{BodyReader, BodyWriter};
use std::time::Duration;

/// The longest time over which answers are spread: a question that asks for more is answered within this.
const MOST_SPREAD: Duration = Duration::from_secs(2);
/// The longest version, and the longest name of what was sent, in bytes: with a group's and a host's name, an answer
/// fits into a frame of the least MTU. Longer ones are cut.
const MOST_VERSION_BYTES: usize = 32;
const MOST_SOURCE_BYTES: usize = 100;
/// What stands for "not known" in a body.
const UNKNOWN: u64 = u64::MAX;

/// Who listens?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Drawn at random: answers repeat it.
    pub nonce: u64,
    /// Over how long the answers are to be spread.
    pub spread: Duration,
    /// Receivers of this group only; of all, if it is empty.
    pub group: String,
}

/// What a receiver is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Busy {
    /// It waits for a sender.
    Waiting = 0,
    /// It has asked a sender, and waits for the start.
    Joining = 1,
    /// It is a member of a session.
    Receiving = 2,
}

impl Busy {
    const ALL: [Busy; 3] = [Busy::Waiting, Busy::Joining, Busy::Receiving];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Busy::Waiting => "waiting",
            Busy::Joining => "joining",
            Busy::Receiving => "receiving",
        }
    }
}

/// How a receiver's last session went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSession {
    /// Whether all of it was received and verified.
    pub is_delivered: bool,
    /// What was sent.
    pub source: String,
    /// How long ago it ended, in seconds.
    pub seconds_ago: u32,
}

/// What a host says of itself, whatever happens: told to its receiver by its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The program and its version.
    pub version: String,
    /// The link's rate in Mbit/s, if it is known.
    pub megabits_per_second: Option<u32>,
    /// Its last session, if it has had one.
    pub last: Option<LastSession>,
}

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// That of the question.
    pub nonce: u64,
    /// Its group.
    pub group: String,
    /// Its name.
    pub host: String,
    /// Its link's MTU.
    pub mtu_bytes: u16,
    /// Room for what is to come, if it says so.
    pub free_bytes: Option<u64>,
    /// What it is busy with.
    pub busy: Busy,
    /// What has come of the session that it is in.
    pub bytes: u64,
    /// The bytes of that session, if they are known.
    pub size: Option<u64>,
    /// What else it says of itself.
    pub about: About,
}

impl Question {
    /// Its body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        let spread = self.spread.min(MOST_SPREAD).as_millis() as u16;
        out.u64(self.nonce).u16(spread).zeros(2).text(&self.group);
        out.into_bytes()
    }

    /// Reads a body; `None` if it is malformed.
    pub fn decode(body: &[u8]) -> Option<Question> {
        let mut from = BodyReader::new(body);
        let (nonce, spread) = (from.u64()?, Duration::from_millis(from.u16()?.into()).min(MOST_SPREAD));
        from.bytes(2)?;
        Some(Question { nonce, spread, group: from.text()? })
    }
}

impl Answer {
    /// Its body.
    pub fn encode(&self) -> Vec<u8> {
        let About { version, megabits_per_second, last } = &self.about;
        let mut out = BodyWriter::default();
        out.u64(self.nonce).u8(self.busy as u8);
        out.u8(last.as_ref().map_or(0, |last| 1 + u8::from(last.is_delivered))).u16(self.mtu_bytes);
        out.u32(megabits_per_second.unwrap_or(0)).u32(last.as_ref().map_or(0, |last| last.seconds_ago));
        out.u64(self.free_bytes.unwrap_or(UNKNOWN)).u64(self.bytes).u64(self.size.unwrap_or(UNKNOWN));
        out.text(&self.group).text(&self.host).text(within(version, MOST_VERSION_BYTES));
        out.text(last.as_ref().map_or("", |last| within(&last.source, MOST_SOURCE_BYTES)));
        out.into_bytes()
    }

    /// Reads a body; `None` if it is malformed.
    pub fn decode(body: &[u8]) -> Option<Answer> {
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
        Some(Answer { nonce, group, host, mtu_bytes, free_bytes, busy, bytes, size, about })
    }
}

/// The beginning of a text, whole characters.
fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}
