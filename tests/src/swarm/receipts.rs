//! Random simulation: check of all acknowledgements: no sender exceeds its credit, and every
//! retransmission has a cause.
//!
//! The check shares no code with the engine. An acknowledgement counts as known once sent; the
//! engine may see it later, never earlier.

use super::effects::SentRecord;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Flags, Kind, OVERHEAD_BYTES};
use std::collections::HashMap;

/// Initial credit of every receiver of a stream (docs/protocol/streams.md §7.5).
const FIRST_CREDIT: u64 = 32;
/// Number of times that a root tests a member's speed, each with at most a feed of frames.
const MAX_TRIALS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An acknowledgement proves the loss: a frame sent later has arrived and this one has not; or,
    /// with in-order acceptance, an earlier frame is lost.
    Lost,
    /// Another host sent the frame, and an acknowledgement to this host reports it missing.
    Lacked,
    /// A relay has reported to the root that its child lacks the frame.
    Orphaned,
    /// The root tests the speed of a member that it does not serve.
    Tried,
    /// An acknowledgement that arrived behind newer ones reports the frame missing. A host's new
    /// sender after a view trusts the first acknowledgement, which may be an old duplicate.
    Outdated,
}

impl Cause {
    pub const ALL: [Cause; 5] = [
        Cause::Lost,
        Cause::Lacked,
        Cause::Orphaned,
        Cause::Tried,
        Cause::Outdated,
    ];
}

struct FrameFields<'a> {
    kind: Kind,
    stream: (u32, u16),
    is_root: bool,
    epoch: u8,
    flags: Flags,
    sequence: u64,
    stamp: u32,
    to: MacAddr,
    payload: &'a [u8],
}

fn number<const N: usize>(frame: &[u8], at: usize) -> u64 {
    frame[at..at + N]
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

impl FrameFields<'_> {
    fn of(frame: &[u8]) -> FrameFields<'_> {
        FrameFields {
            kind: Kind(frame[17]),
            stream: (number::<4>(frame, 32) as u32, number::<2>(frame, 36) as u16),
            is_root: number::<2>(frame, 18) == 0,
            epoch: frame[26],
            flags: Flags(frame[27]),
            sequence: number::<6>(frame, 40),
            stamp: number::<4>(frame, 22) as u32,
            to: address(&frame[..6]),
            payload: frame.get(OVERHEAD_BYTES..).unwrap_or_default(),
        }
    }

    fn acknowledged(&self) -> Option<(u64, &[u8])> {
        let bytes = number::<2>(self.payload.get(16..18).map(|_| self.payload)?, 16) as usize;
        let limit = self.sequence.checked_add(number::<4>(self.payload, 0))?;
        Some((limit, self.payload.get(20..20 + bytes)?))
    }
}

fn address(bytes: &[u8]) -> MacAddr {
    MacAddr::new(bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5])
}

/// Whether `stamp` was drawn after `other`, within half the range. Zero means none and precedes
/// all.
fn is_after(stamp: u32, other: u32) -> bool {
    stamp != 0 && (other == 0 || (stamp != other && stamp.wrapping_sub(other) < 1 << 31))
}

type Way = ((u32, u16), usize, MacAddr);

#[derive(Debug)]
pub struct Receipts {
    /// Strict go-back-n: frames behind a lost one are dropped.
    in_order_only: bool,
    granted: HashMap<((u32, u16), MacAddr), u64>,
    sent: HashMap<Way, SentRecord>,
    casts: HashMap<((u32, u16), usize), MacAddr>,
    orphaned: Vec<(u64, u64)>,
    causes: [u64; Cause::ALL.len()],
    tried: HashMap<usize, u64>,
    feed_frames: u64,
    wrong: Option<String>,
}

impl Receipts {
    pub fn new(in_order_only: bool, feed_frames: u64) -> Receipts {
        Receipts {
            in_order_only,
            granted: HashMap::new(),
            sent: HashMap::new(),
            casts: HashMap::new(),
            orphaned: Vec::new(),
            causes: [0; Cause::ALL.len()],
            tried: HashMap::new(),
            feed_frames,
            wrong: None,
        }
    }

    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL
            .into_iter()
            .map(|cause| (cause, self.causes[cause as usize]))
    }

    pub fn on_departure(&mut self, from: usize, own: MacAddr, frame: &[u8]) {
        let words = FrameFields::of(frame);
        match words.kind {
            Kind::ACK => {
                let Some((limit, bits)) = words.acknowledged() else {
                    return;
                };
                // A host that others have served may have frames beyond the credit it grants now.
                let known = words.sequence + 1 + 8 * bits.len() as u64;
                let granted = self.granted.entry((words.stream, own)).or_default();
                *granted = (*granted)
                    .max(limit)
                    .max(if bits.is_empty() { 0 } else { known });
            }
            Kind::DATA => self.on_data(from, &words),
            _ => {}
        }
    }

    fn on_data(&mut self, from: usize, words: &FrameFields<'_>) {
        let FrameFields {
            stream,
            sequence,
            to,
            ..
        } = *words;
        let granted = self
            .granted
            .get(&(stream, to))
            .copied()
            .unwrap_or(0)
            .max(FIRST_CREDIT);
        if !words.flags.has(Flags::RESENT) {
            if !to.is_multicast() && sequence >= granted {
                self.blame(|| {
                    format!("n{from} sends {to} frame {sequence} of {stream:?}: its credit ends at {granted}")
                });
            }
        } else if let Some(cause) = self.cause(from, words) {
            self.causes[cause as usize] += 1;
            *self.tried.entry(from).or_default() += u64::from(cause == Cause::Tried);
            if cause == Cause::Outdated {
                self.sent
                    .entry((stream, from, to))
                    .or_default()
                    .believe(words.epoch);
            }
            if matches!(cause, Cause::Orphaned | Cause::Tried)
                || (cause == Cause::Lacked && words.is_root)
            {
                // A root retransmits frames that no other host has, also to its own children,
                // beside its streams, until the requests end. Such frames do not count as sent in
                // the stream.
                return;
            }
        } else {
            self.blame(|| format!("n{from} sends {to} frame {sequence} of {stream:?} again, and nothing asks for it"));
        }
        // Go-back-n also retransmits frames sent since the receiver dropped them.
        let in_order_only = self.in_order_only;
        let sent = self.sent.entry((stream, from, to)).or_default();
        let shown = match sent.frame(sequence) {
            _ if !in_order_only => 0,
            (0, _) => sequence
                .checked_sub(1)
                .map_or(0, |before| sent.frame(before).1),
            (_, shown) => shown.saturating_sub(1),
        };
        sent.set(sequence, (words.stamp, shown));
        if to.is_multicast() {
            self.casts.insert((stream, from), to);
        }
    }

    fn cause(&self, from: usize, words: &FrameFields<'_>) -> Option<Cause> {
        let FrameFields {
            stream,
            is_root,
            epoch,
            sequence,
            to,
            ..
        } = *words;
        let sent = self.sent.get(&(stream, from, to));
        let lacked = sent
            .and_then(|sent| sent.lacking_from)
            .is_some_and(|cursor| cursor <= sequence);
        let (stamp, shown) = sent.map(|sent| sent.frame(sequence)).unwrap_or_default();
        if shown > 0 {
            Some(Cause::Lost)
        } else if is_root
            && self
                .orphaned
                .iter()
                .any(|&(begin, end)| (begin..end).contains(&sequence))
        {
            Some(Cause::Orphaned)
        } else if lacked && stamp == 0 {
            Some(Cause::Lacked)
        } else {
            let tried = self.tried.get(&from).copied().unwrap_or_default();
            let may_try =
                is_root && tried < MAX_TRIALS * self.feed_frames && !to.is_multicast() && !lacked;
            let outdated =
                sent.is_some_and(|sent| sent.may_believe(epoch, sequence, self.feed_frames));
            may_try
                .then_some(Cause::Tried)
                .or(outdated.then_some(Cause::Outdated))
        }
    }

    /// Notes a duplicated or delayed frame: an acknowledgement may be outdated by then.
    pub fn on_late(&mut self, to: usize, by: MacAddr, frame: &[u8]) {
        let words = FrameFields::of(frame);
        if words.kind == Kind::ACK {
            self.sent
                .entry((words.stream, to, by))
                .or_default()
                .on_outdated(words.sequence);
        }
    }

    pub fn on_delivery(&mut self, to: usize, by: MacAddr, frame: &[u8]) {
        let words = FrameFields::of(frame);
        match words.kind {
            Kind::ACK => {
                let group = self.casts.get(&(words.stream, to)).copied();
                self.on_ack(to, by, group, &words);
            }
            // An ORPHAN: stream, rank, from, to.
            Kind(25) if words.payload.len() >= 20 => {
                self.orphaned.push((
                    number::<8>(words.payload, 4),
                    number::<8>(words.payload, 12),
                ));
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, to: usize, by: MacAddr, group: Option<MacAddr>, words: &FrameFields<'_>) {
        let Some((_, bits)) = words.acknowledged() else {
            return;
        };
        let (cursor, echo, stream) = (words.sequence, words.stamp, words.stream);
        let has = |sequence: u64| {
            let at = (sequence - cursor)
                .checked_sub(1)
                .map_or(usize::MAX, |at| at as usize);
            bits.get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
        };
        let alone = self.sent.entry((stream, to, by)).or_default();
        alone.on_cursor(cursor);
        let mut end = alone.end();
        let cast = group.and_then(|group| self.sent.get(&(stream, to, group)));
        end = end.max(cast.map_or(0, SentRecord::end));
        let mut lost = Vec::new();
        let alone = &self.sent[&(stream, to, by)];
        for sequence in cursor..end {
            let stamps =
                [Some(alone), cast].map(|sent| sent.map_or(0, |sent| sent.frame(sequence).0));
            let last = if is_after(stamps[0], stamps[1]) {
                stamps[0]
            } else {
                stamps[1]
            };
            let follows = self.in_order_only && !lost.is_empty();
            if last != 0 && !has(sequence) && (is_after(echo, last) || follows) {
                lost.push(sequence);
            }
        }
        for to_whom in [Some(by), group].into_iter().flatten() {
            let sent = self.sent.entry((stream, to, to_whom)).or_default();
            for &sequence in &lost {
                let (stamp, shown) = sent.frame(sequence);
                sent.set(sequence, (stamp, shown + 1));
            }
        }
    }

    fn blame(&mut self, what: impl FnOnce() -> String) {
        self.wrong.get_or_insert_with(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::sim::host_mac;
    use ethbcast_transport::wire::{
        AckBody, EtherType, EthernetHeader, Header, Rank, StreamId, group_mac, seal,
    };

    fn frame(
        kind: Kind,
        from: usize,
        to: MacAddr,
        fields: (Flags, u64, u32),
        payload: &[u8],
    ) -> Vec<u8> {
        let (flags, sequence, stamp) = fields;
        let header = Header {
            kind,
            session: 7,
            stream: StreamId(1),
            rank: Rank(from as u16),
            epoch: 0,
            flags,
            sequence,
            stamp,
        };
        let ethernet = EthernetHeader {
            source: host_mac(from),
            destination: to,
            ether_type: EtherType::DEFAULT,
        };
        let mut frame = vec![0; OVERHEAD_BYTES + payload.len()];
        frame[OVERHEAD_BYTES..].copy_from_slice(payload);
        seal(&mut frame, ethernet, &header, payload.len());
        frame
    }

    fn data(receipts: &mut Receipts, to: MacAddr, again: bool, sequence: u64, stamp: u32) {
        let flags = if again {
            Flags::RESENT
        } else {
            Flags::default()
        };
        receipts.on_departure(
            0,
            host_mac(0),
            &frame(Kind::DATA, 0, to, (flags, sequence, stamp), b"bytes"),
        );
    }

    fn acknowledge(
        receipts: &mut Receipts,
        from: usize,
        cursor: u64,
        limit: u64,
        echo: u32,
        bits: &[u8],
    ) {
        let mut payload = vec![0; AckBody::BYTES + bits.len()];
        payload[AckBody::BYTES..].copy_from_slice(bits);
        AckBody {
            limit,
            below: 0,
            consumed: 0,
            held_us: 0,
        }
        .write(cursor, &mut payload, bits.len());
        let ack = frame(
            Kind::ACK,
            from,
            host_mac(0),
            (Flags::default(), cursor, echo),
            &payload,
        );
        receipts.on_departure(from, host_mac(from), &ack);
        receipts.on_delivery(0, host_mac(from), &ack);
    }

    fn resent(receipts: &Receipts) -> u64 {
        receipts.causes().map(|(_, frames)| frames).sum()
    }

    #[test]
    fn a_frame_beyond_the_credit_is_seen() {
        let mut receipts = Receipts::new(false, 0);
        data(&mut receipts, host_mac(1), false, 31, 40);
        acknowledge(&mut receipts, 1, 8, 40, 9, &[]);
        data(&mut receipts, host_mac(1), false, 39, 48);
        assert_eq!(receipts.take_wrong(), None);
        data(&mut receipts, host_mac(1), false, 40, 49);
        assert!(
            receipts
                .take_wrong()
                .is_some_and(|wrong| wrong.contains("its credit ends at 40"))
        );
    }

    #[test]
    fn a_frame_that_is_sent_again_without_evidence_is_seen_to_one_and_to_all() {
        for to in [host_mac(1), group_mac("swarm")] {
            let mut receipts = Receipts::new(false, 0);
            (0..4).for_each(|sequence| {
                data(&mut receipts, to, false, sequence, 10 + sequence as u32)
            });
            acknowledge(&mut receipts, 1, 1, 40, 13, &[0b10]);
            // 1 was overtaken by 3, and so was 2, which has arrived.
            data(&mut receipts, to, true, 1, 20);
            assert_eq!((receipts.take_wrong(), resent(&receipts)), (None, 1));
            data(&mut receipts, to, true, 1, 21);
            assert!(
                receipts
                    .take_wrong()
                    .is_some_and(|wrong| wrong.contains("frame 1 of (7, 1) again")),
                "at once"
            );
            acknowledge(&mut receipts, 1, 1, 40, 19, &[0b11]);
            data(&mut receipts, to, true, 1, 22);
            assert!(
                receipts.take_wrong().is_some(),
                "nothing sent after 21 has arrived"
            );
            data(&mut receipts, to, true, 3, 23);
            assert!(receipts.take_wrong().is_some(), "it has arrived");
        }
    }

    #[test]
    fn an_old_acknowledgement_is_believed_after_a_view_for_a_feed_at_most() {
        let resend = |receipts: &mut Receipts, epoch: u8, sequence: u64| {
            let (kind, flags, rank) = (Kind::DATA, Flags::default().with(Flags::RESENT), Rank(4));
            let (session, stream, stamp) = (7, StreamId(1), 30);
            let header = Header {
                kind,
                session,
                stream,
                rank,
                epoch,
                flags,
                sequence,
                stamp,
            };
            let ethernet = EthernetHeader {
                source: host_mac(0),
                destination: host_mac(1),
                ether_type: EtherType::DEFAULT,
            };
            let mut again = vec![0; OVERHEAD_BYTES + 5];
            seal(&mut again, ethernet, &header, 5);
            receipts.on_departure(0, host_mac(0), &again);
            receipts.take_wrong()
        };
        let mut receipts = Receipts::new(false, 2);
        (0..6).for_each(|sequence| {
            data(
                &mut receipts,
                host_mac(1),
                false,
                sequence,
                10 + sequence as u32,
            )
        });
        acknowledge(&mut receipts, 1, 6, 40, 15, &[]);
        assert!(resend(&mut receipts, 2, 3).is_some(), "no word lacks it");
        acknowledge(&mut receipts, 1, 2, 40, 11, &[]);
        assert!(
            resend(&mut receipts, 1, 3).is_some(),
            "nobody is served anew"
        );
        [2, 3]
            .into_iter()
            .for_each(|sequence| assert_eq!(resend(&mut receipts, 2, sequence), None));
        assert!(
            resend(&mut receipts, 2, 4).is_some(),
            "a feed has been sent again"
        );
        assert_eq!(resend(&mut receipts, 3, 4), None);
        assert!(
            resend(&mut receipts, 4, 1).is_some(),
            "it has said that this has arrived"
        );
    }

    #[test]
    fn each_of_two_roots_tries_as_much_as_one() {
        let mut receipts = Receipts::new(false, 1);
        let mut tries = |from: usize, sequence: u64| {
            let flags = Flags::default().with(Flags::RESENT);
            let tried = frame(Kind::DATA, 0, host_mac(3), (flags, sequence, 10), b"bytes");
            receipts.on_departure(from, host_mac(from), &tried);
            receipts.take_wrong()
        };
        for from in [0, 1] {
            (0..MAX_TRIALS).for_each(|sequence| assert_eq!(tries(from, sequence), None));
        }
        assert!(
            tries(1, MAX_TRIALS).is_some_and(|wrong| wrong.contains("frame 3 of (7, 1) again"))
        );
    }

    #[test]
    fn go_back_n_sends_again_what_was_thrown_away_and_a_root_what_a_relay_asks_for() {
        let mut strict = Receipts::new(true, 0);
        (0..4).for_each(|sequence| {
            data(
                &mut strict,
                host_mac(1),
                false,
                sequence,
                10 + sequence as u32,
            )
        });
        acknowledge(&mut strict, 1, 1, 40, 12, &[]);
        (1..4).for_each(|sequence| {
            data(
                &mut strict,
                host_mac(1),
                true,
                sequence,
                20 + sequence as u32,
            )
        });
        assert_eq!((strict.take_wrong(), resent(&strict)), (None, 3));
        let mut receipts = Receipts::new(false, 0);
        let gap = [
            &[0, 1, 0, 2][..],
            &5_u64.to_be_bytes(),
            &7_u64.to_be_bytes(),
        ]
        .concat();
        receipts.on_delivery(
            0,
            host_mac(1),
            &frame(Kind(25), 1, host_mac(0), (Flags::default(), 0, 0), &gap),
        );
        data(&mut receipts, host_mac(2), true, 6, 20);
        assert_eq!(receipts.take_wrong(), None);
        data(&mut receipts, host_mac(2), true, 7, 21);
        assert!(receipts.take_wrong().is_some());
    }
}
