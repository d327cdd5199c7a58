//! Test helper: forged frames with correct addresses and harmful numbers.

use crate::common::{PAYLOAD_BYTES, payload};
use crate::common::{key, peer};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::Stream;
use ethbcast_transport::wire::{
    AckBody, EtherType, EthernetHeader, Flags, Header, Kind, StreamId, group_mac,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Data: its number, its flags, and its length of random bytes.
    Data(At, u8, usize),
    /// Data that has arrived, under a stamp this many µs ahead.
    Again(i32),
    NonMember(At),
    /// A heartbeat: its number, a stamp this many µs ahead, its body.
    Heartbeat(u64, i32, &'static [u8]),
    /// An acknowledgement: its cursor, its echo, the distances of limit, below and consumed, its
    /// bitmap.
    Ack(At, Echo, [u32; 3], &'static [u8]),
    Garbled(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Relative to a receiver's next frame in order, or to a sender's next frame to be
    /// acknowledged.
    Next(i64),
    Highest(i64),
    Limit(i64),
    Last,
    Just(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    None,
    Newest,
    Ahead(u32),
}

const LAST: u8 = 1;
const NOW: u8 = 2;
const RESENT: u8 = 4;
const FLUSH: u8 = 8;
const REPORT: u8 = 16;
const ONES: &[u8] = &[0xFF; 1024];

use At::{Highest, Just, Last, Limit, Next};
use Echo::{Ahead, Newest};
use Forgery::{Ack, Again, Data, Garbled, Heartbeat, NonMember};

pub const TO_RECEIVERS: &[Forgery] = &[
    Data(Next(0), 0, 30),
    Data(Highest(0), NOW, 30),
    Data(Highest(40), RESENT, 30),
    Data(Limit(-1), 0, 30),
    Data(Limit(0), NOW, 30),
    Data(Limit(10_000), 0, 30),
    Data(Just(u64::MAX), 0, 30),
    Data(Just(u64::MAX), LAST | NOW, 40),
    Data(Just(u64::MAX - 1), FLUSH | REPORT, 0),
    Data(Next(0), LAST, 40),
    Data(Highest(3), LAST, 40),
    Data(Limit(-1), LAST, 40),
    Data(Last, LAST, 40),
    Data(Last, 0, 40),
    Data(Next(-2), FLUSH | REPORT, 10),
    Data(Highest(1), FLUSH | REPORT, 10),
    Data(Next(0), 0, PAYLOAD_BYTES + 1),
    Data(Next(0), 0, 0),
    Again(1 << 30),
    Again(-(1 << 30)),
    Again(i32::MIN),
    Again(1_000_000),
    Again(30_000),
    NonMember(Next(0)),
    NonMember(Highest(7)),
    Heartbeat(0, 1 << 30, &[]),
    Heartbeat(0, -(1 << 30), &[]),
    Heartbeat(9, 400_000, &[]),
    Heartbeat(9, -400_000, &[]),
    Heartbeat(u64::MAX, 0, &[]),
    Heartbeat(7, 0, &[0xEA, 0x60]),
    Heartbeat(7, 0, &[0xFF]),
];

pub const TO_SENDERS: &[Forgery] = &[
    Ack(Highest(0), Newest, [64, 0, 0], &[]),
    Ack(Highest(0), Echo::None, [64, 0, 0], &[]),
    Ack(Highest(0), Ahead(1 << 30), [64, 0, 0], &[]),
    Ack(Highest(-1), Newest, [64, 0, 0], &[]),
    Ack(Highest(1000), Newest, [64, 0, 0], &[]),
    Ack(Just(u64::MAX), Newest, [0, 0, 0], ONES),
    Ack(Just(u64::MAX - 5000), Newest, [9, 0, 0], ONES),
    Ack(Last, Newest, [1, 0, 0], &[]),
    Ack(Next(0), Newest, [u32::MAX, 0, 0], &[]),
    Ack(Next(0), Newest, [0, 0, 0], &[]),
    Ack(Next(0), Ahead(1 << 30), [64, 0, 0], &[]),
    Ack(Next(0), Ahead(1 << 31), [64, 0, 0], &[]),
    Ack(Next(0), Newest, [64, 0, 0], ONES),
    Ack(Next(0), Newest, [64, 0, 0], &[0x55; 16]),
    Ack(Just(0), Newest, [64, 0, 0], &[]),
    Ack(Just(0), Ahead(1), [64, 0, 0], ONES),
    Ack(Next(0), Newest, [64, u32::MAX, u32::MAX], &[]),
    Ack(Next(5), Newest, [64, 0, 0], &[]),
    Garbled(0),
    Garbled(19),
    Garbled(40),
];

impl Forgery {
    /// Returns the frame that a receiver of this may have with wrong bytes.
    pub fn spoils(self, victim: &Stream, frames: u64) -> Option<u64> {
        let Data(at, ..) = self else { return None };
        Some(at.at(victim, frames)).filter(|&sequence| sequence < frames)
    }

    pub fn ends(self) -> bool {
        matches!(self, Data(_, flags, _) if flags & LAST != 0)
    }

    /// Returns the frame: in the name of host `from`, for `victim`, which is host `to` of a stream
    /// of `frames`. `newest` is the last stamp drawn by the host whose stamps count.
    pub fn frame(
        self,
        victim: &Stream,
        from: usize,
        to: usize,
        newest: u32,
        frames: u64,
    ) -> Vec<u8> {
        let stamp = |ahead: i32| newest.wrapping_add_signed(ahead);
        let number = |at: At| at.at(victim, frames);
        match self {
            Data(at, flags, bytes) => sealed(
                from,
                to,
                (Kind::DATA, Flags(flags), number(at), stamp(1)),
                &vec![7; bytes],
            ),
            Again(ahead) => {
                let sequence = victim.feed().head().saturating_sub(1);
                sealed(
                    from,
                    to,
                    (Kind::DATA, Flags(RESENT), sequence, stamp(ahead)),
                    &payload(sequence),
                )
            }
            NonMember(at) => sealed(
                from,
                to,
                (Kind::DATA, Flags(0), number(at), stamp(1)),
                &[7; 30],
            ),
            Heartbeat(sequence, ahead, body) => sealed(
                from,
                to,
                (Kind::HEARTBEAT, Flags(0), sequence, stamp(ahead)),
                body,
            ),
            Ack(at, echo, further, bitmap) => {
                let echo = match echo {
                    Echo::None => 0,
                    Newest => newest,
                    Ahead(by) => newest.wrapping_add(by),
                };
                sealed(
                    from,
                    to,
                    (Kind::ACK, Flags(0), number(at), echo),
                    &body(further, bitmap),
                )
            }
            Garbled(length) => sealed(
                from,
                to,
                (Kind::ACK, Flags(0), 5, newest),
                &vec![0xFF; length],
            ),
        }
    }
}

impl At {
    fn at(self, victim: &Stream, frames: u64) -> u64 {
        let feed = victim.feed();
        let acknowledged = victim.cursors().iter().map(|&(_, cursor)| cursor).min();
        match self {
            Next(by) => acknowledged
                .unwrap_or(feed.head())
                .saturating_add_signed(by),
            Highest(by) => feed.highest().saturating_add_signed(by),
            Limit(by) => feed.limit().saturating_add_signed(by),
            Last => frames - 1,
            Just(number) => number,
        }
    }
}

fn body([limit, below, consumed]: [u32; 3], bitmap: &[u8]) -> Vec<u8> {
    let mut body = vec![0; AckBody::BYTES];
    body[..4].copy_from_slice(&limit.to_be_bytes());
    body[4..8].copy_from_slice(&below.to_be_bytes());
    body[8..12].copy_from_slice(&consumed.to_be_bytes());
    body[12..16].copy_from_slice(&(below | 250).to_be_bytes());
    body[16..18].copy_from_slice(&(bitmap.len() as u16).to_be_bytes());
    body.extend(bitmap);
    body
}

pub fn sealed(
    from: usize,
    to: usize,
    (kind, flags, sequence, stamp): (Kind, Flags, u64, u32),
    body: &[u8],
) -> Vec<u8> {
    let header = Header {
        kind,
        session: 77,
        stream: StreamId(1),
        rank: peer(from).rank,
        epoch: 0,
        flags,
        sequence,
        stamp,
    };
    let destination = if to == usize::MAX {
        group_mac("test")
    } else {
        host_mac(to)
    };
    let link = EthernetHeader {
        source: host_mac(from),
        destination,
        ether_type: EtherType::DEFAULT,
    };
    key::sealed(link, &header, body)
}
