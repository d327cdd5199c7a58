//! The agreed, versioned list of members: who is there, who sends to whom, and on what terms.

use super::message::{Digest, Message};
use crate::membership::codec::{Reader, Writer};
use ethbcast_planning::plan::Via;
use ethbcast_transport::{MacAddr, Policy};

/// One member of a view; its rank is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Host name.
    pub host: String,
    /// Interface.
    pub mac: MacAddr,
    /// The run of the receiver that joined; zero for the root.
    pub nonce: u64,
    /// Who sends to it, or in a cast to whom it acknowledges; `None` for the root.
    pub parent: Option<u16>,
    /// Its place among its parent's children.
    pub order: u16,
    /// False once it has died or left: it keeps its rank, so that no other changes.
    pub present: bool,
}

/// A view; rank 0 is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Counts up with every change of membership, from 1.
    pub epoch: u32,
    /// How the bytes travel.
    pub via: Via,
    /// Frames in a segment: a relay has all of a segment before it sends any of it on, and sends it to one child after the other.
    pub segment_frames: u32,
    /// What receivers do with frames out of order.
    pub policy: Policy,
    /// Frames of a message that one receiver answers for all (Push-Pull Broadcast, EQA §3.3), if there are such.
    pub push_frames: Option<u8>,
    /// The longest payload of a frame, in bytes.
    pub payload_bytes: u16,
    /// Bytes in the stream, if known in advance.
    pub size: Option<u64>,
    /// The members, by rank.
    pub members: Vec<Member>,
}

/// The most frames that a view can say are pushed.
pub(super) const MAX_PUSH_FRAMES: u8 = 254;

/// Members a view can have: a rank has 16 bits, and 65 535 stands for "none".
pub const MAX_MEMBERS: usize = 65_535;

impl View {
    /// The ranks of the members that are present.
    pub fn ranks(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.iter().zip(0..).filter(|(member, _)| member.present).map(|(_, rank)| rank)
    }

    /// The view as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let (via, children) = via_to_wire(self.via);
        out.u32(self.epoch).u8(via).u8(children).u32(self.segment_frames).u8(self.strictness()).u16(self.payload_bytes);
        out.u64(self.size.unwrap_or(u64::MAX)).u16(self.members.len() as u16);
        for member in &self.members {
            out.bytes(&member.mac.octets()).u64(member.nonce).u16(member.parent.unwrap_or(u16::MAX)).u16(member.order);
            out.u8(u8::from(member.present)).name(&member.host);
        }
        out.into_bytes()
    }

    /// Reads a view; `None` if it is malformed: no root, a parent that is not there, or a circle.
    pub fn decode(bytes: &[u8]) -> Option<View> {
        let mut from = Reader::new(bytes);
        let (epoch, via, segment_frames) = (from.u32()?, via_from_wire(from.u8()?, from.u8()?)?, from.u32()?);
        let (strict, payload_bytes) = (from.u8()?, from.u16()?);
        let size = Some(from.u64()?).filter(|&size| size != u64::MAX);
        let count = from.u16()?;
        let members = (0..count).map(|_| read_member(&mut from)).collect::<Option<Vec<Member>>>()?;
        let policy = if strict == 0 { Policy::HolesAllowed } else { Policy::InOrderOnly };
        let push_frames = strict.checked_sub(1).filter(|&frames| frames > 0);
        let view = View { epoch, via, segment_frames, policy, push_frames, payload_bytes, size, members };
        view.is_rooted_at_zero().then_some(view)
    }

    /// Policy and pushed frames as a byte: 0, or one more than are pushed.
    fn strictness(&self) -> u8 {
        match self.policy {
            Policy::HolesAllowed => 0,
            Policy::InOrderOnly => 1 + self.push_frames.unwrap_or(0).min(MAX_PUSH_FRAMES),
        }
    }

    /// Whether every member's line of parents ends at rank 0.
    fn is_rooted_at_zero(&self) -> bool {
        let parent = |rank: usize| self.members[rank].parent.map(usize::from);
        let sound = |rank: usize| parent(rank).is_some_and(|parent| parent < self.members.len());
        if self.members.is_empty() || parent(0).is_some() || !self.members[0].present || !(1..self.members.len()).all(sound) {
            return false;
        }
        let mut reaches_root = vec![false; self.members.len()];
        reaches_root[0] = true;
        (1..self.members.len()).all(|start| {
            let mut path = vec![start];
            while let Some(&at) = path.last().filter(|&&at| !reaches_root[at]) {
                let next = parent(at).unwrap_or(0);
                if path.len() > self.members.len() {
                    return false;
                }
                path.push(next);
            }
            path.into_iter().for_each(|rank| reaches_root[rank] = true);
            true
        })
    }

    /// The view in pieces that fit a frame's payload, and its digest.
    pub fn parts(&self, payload_bytes: usize) -> (Digest, Vec<Message>) {
        let bytes = self.encode();
        let digest = *blake3::hash(&bytes).as_bytes();
        let chunks: Vec<&[u8]> = bytes.chunks(payload_bytes.saturating_sub(PART_OVERHEAD_BYTES).max(1)).collect();
        let parts = chunks.len() as u16;
        let part = |(at, chunk): (usize, &&[u8])| Message::View {
            epoch: self.epoch,
            digest,
            part: at as u16,
            parts,
            bytes: chunk.to_vec(),
        };
        (digest, chunks.iter().enumerate().map(part).collect())
    }
}

/// A way to travel as two bytes: its number, and the children of a k-ary tree.
fn via_to_wire(via: Via) -> (u8, u8) {
    match via {
        Via::Chain => (1, 0),
        Via::Cast => (2, 0),
        Via::Binary => (3, 0),
        Via::Kary(children) => (4, children),
        Via::Flat => (5, 0),
        Via::Binomial => (6, 0),
        Via::ScatterAllgather => (7, 0),
        Via::RecursiveDoubling => (8, 0),
        Via::ChainUnaware => (9, 0),
        Via::BinaryUnaware => (10, 0),
        Via::Latency => (11, 0),
    }
}

fn via_from_wire(number: u8, children: u8) -> Option<Via> {
    let via = Via::ALL.iter().copied().find(|&via| via_to_wire(via).0 == number)?;
    match via {
        Via::Kary(_) => Via::KARY_CHILDREN.contains(&children).then_some(Via::Kary(children)),
        via => (children == 0).then_some(via),
    }
}

/// Bytes of a view message that are not a slice of the view.
const PART_OVERHEAD_BYTES: usize = 40;

fn read_member(from: &mut Reader<'_>) -> Option<Member> {
    let [a, b, c, d, e, f] = from.array()?;
    let (nonce, parent, order, present) = (from.u64()?, from.u16()?, from.u16()?, from.u8()? != 0);
    let parent = (parent != u16::MAX).then_some(parent);
    Some(Member { mac: MacAddr::new(a, b, c, d, e, f), nonce, parent, order, present, host: from.text()? })
}

/// Puts the parts of a view together, in whatever order they come.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    digest: Digest,
    parts: Vec<Option<Vec<u8>>>,
}

impl Assembler {
    /// Takes a part; the view once it is whole and its digest is right.
    pub(super) fn take(&mut self, digest: Digest, part: u16, parts: u16, bytes: Vec<u8>) -> Option<View> {
        if self.digest != digest || self.parts.len() != usize::from(parts) {
            *self = Assembler { digest, parts: vec![None; usize::from(parts)] };
        }
        *self.parts.get_mut(usize::from(part))? = Some(bytes);
        if self.parts.iter().any(Option::is_none) {
            return None;
        }
        let whole: Vec<u8> = self.parts.iter().flatten().flatten().copied().collect();
        (*blake3::hash(&whole).as_bytes() == digest).then(|| View::decode(&whole)).flatten()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::session) fn chain(count: u16) -> View {
        let member = |rank: u16| Member {
            host: format!("n{rank}"),
            mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
            nonce: u64::from(rank) * 7,
            parent: rank.checked_sub(1),
            order: 0,
            present: true,
        };
        View {
            epoch: 3,
            via: Via::Kary(5),
            segment_frames: 7,
            policy: Policy::HolesAllowed,
            push_frames: None,
            payload_bytes: 1468,
            size: None,
            members: (0..count).map(member).collect(),
        }
    }

    #[test]
    fn a_view_survives_being_cut_into_parts_that_arrive_backwards_and_twice() {
        let view = chain(200);
        let (digest, parts) = view.parts(300);
        assert!(parts.len() > 10);
        let mut assembler = Assembler::default();
        let mut complete = None;
        for message in parts.iter().rev().chain(&parts) {
            assert!(message.encode().len() <= 300);
            let Message::View { part, parts, bytes, .. } = message.clone() else { panic!("a part of a view") };
            complete = assembler.take(digest, part, parts, bytes).or(complete);
        }
        assert_eq!(complete, Some(view));
    }

    #[test]
    fn a_view_whose_parents_go_in_a_circle_is_refused() {
        let mut view = chain(5);
        view.members[2].parent = Some(4);
        assert_eq!(View::decode(&view.encode()), None);
        view.members[2].parent = Some(9);
        assert_eq!(View::decode(&view.encode()), None);
    }

    #[test]
    fn the_papers_protocols_survive_the_journey() {
        for (policy, push_frames, strict) in
            [(Policy::HolesAllowed, None, 0), (Policy::InOrderOnly, None, 1), (Policy::InOrderOnly, Some(9), 10)]
        {
            let view = View { policy, push_frames, ..chain(2) };
            assert_eq!(view.encode()[10], strict);
            assert_eq!(View::decode(&view.encode()), Some(view));
        }
    }

    /// docs/protocol.md §6 quotes these bytes.
    #[test]
    fn the_documented_example_is_what_is_sent() {
        let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
        let member = |host: &str, mac, nonce, parent| Member { host: host.to_owned(), mac, nonce, parent, order: 0, present: true };
        let members = vec![member("n0", mac(1), 0, None), member("n1", mac(2), 0x1122_3344_5566_7788, Some(0))];
        let view = View { epoch: 1, via: Via::Chain, segment_frames: 1, size: Some(0), members, ..chain(0) };
        let hex: Vec<String> = view.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let documented = [
            "00 00 00 01 01 00 00 00 00 01 00 05 bc 00 00 00 00 00 00 00 00 00 02",
            "02 00 00 00 00 01 00 00 00 00 00 00 00 00 ff ff 00 00 01 02 6e 30",
            "02 00 00 00 00 02 11 22 33 44 55 66 77 88 00 00 00 00 01 02 6e 31",
        ];
        assert_eq!(hex.join(" "), documented.join(" "));
        assert_eq!(view.parts(1468).0[..4], [0x86, 0x87, 0x2c, 0x61]);
    }
}
