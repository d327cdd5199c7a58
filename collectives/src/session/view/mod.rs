//! The agreed, versioned list of members: who is there, who sends to whom, and on what terms.

mod assembler;
#[cfg(test)]
pub(super) mod tests;
mod tree;

pub(super) use assembler::Assembler;
pub(super) use tree::Tree;

use super::ledger::ChunkSize;
use super::message::{ContentKind, Digest, ViewPart};
use super::rate::Rate;
use crate::membership::codec::{BodyReader, BodyWriter};
use crate::route::{via_from_wire, via_to_wire};
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_transport::planted;
use ethbcast_transport::wire::{HEADER_BYTES, Peer, Rank};
use ethbcast_transport::{MacAddr, Policy};
use std::collections::BTreeSet;

/// One member of a view; its rank is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMember {
    /// Host name.
    pub host: String,
    /// Interface.
    pub mac: MacAddr,
    /// The run of the receiver that joined; zero for the root.
    pub nonce: u64,
    /// Who sends to it, or in a cast to whom it acknowledges; `None` for the root.
    pub parent: Option<Rank>,
    /// Its place among its parent's children.
    pub order: u16,
    /// Where it stands: it keeps its rank in any case, so that no other changes.
    pub standing: Standing,
}

/// Where a member of a view stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its fate is known, and it is served no more.
    Gone,
    /// In the tree, or among the listeners of a cast.
    InPlace,
    /// Out of the others' way: bridged in the tree, out of a cast's credit. It is served by the root alone, on a stream
    /// of its own.
    Aside,
}

impl Standing {
    /// In the order of their numbers on the wire.
    const ALL: [Standing; 3] = [Standing::Gone, Standing::InPlace, Standing::Aside];
}

impl ViewMember {
    /// One that comes after the start, and has no place in the tree.
    pub(super) fn late(host: String, mac: MacAddr, nonce: u64) -> ViewMember {
        ViewMember { host, mac, nonce, parent: Some(Rank::ROOT), order: u16::MAX, standing: Standing::Aside }
    }

    /// Whether it is in the tree, or among the listeners of a cast.
    pub fn is_in_place(&self) -> bool {
        self.standing == Standing::InPlace
    }
}

/// A view; rank 0 is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Counts up with every change of membership, from 1.
    pub epoch: u32,
    /// How the bytes travel.
    pub via: Via,
    /// Frames in a segment: a relay has all of a segment before it sends any of it on, and sends it to one child after
    /// the other.
    pub segment_frames: u32,
    /// What receivers do with frames out of order.
    pub policy: Policy,
    /// Frames of a message that one receiver answers for all (Push-Pull Broadcast, EQA §3.3), if there are such.
    pub push_frames: Option<u8>,
    /// The longest payload of a frame, in bytes.
    pub payload_bytes: u16,
    /// Bytes in the stream, if known in advance.
    pub size: Option<u64>,
    /// What the content is.
    pub content: ContentKind,
    /// How long its chunks are, if its stream has ledgers.
    pub chunk: ChunkSize,
    /// Some members have a part of it already: only what somebody lacks is sent, and nobody knows how much that is.
    pub selective: bool,
    /// The members, by rank.
    pub members: Vec<ViewMember>,
    /// How much each of them may send, if there is a limit.
    pub rate: Option<Rate>,
}

/// The most frames that a view can say are pushed.
pub(super) const MAX_PUSH_FRAMES: u8 = 254;

/// Members a view can have: a rank has 16 bits, and 65 535 stands for "none".
pub const MAX_MEMBERS: usize = 65_535;

/// The shortest payload of a view's frames, in bytes: a trailer has to fit.
const MIN_PAYLOAD_BYTES: usize = 64;

/// The most streams of a session in blocks: each takes a feed of at least 64 frames at every member.
const MAX_STREAMS: usize = 4096;

impl View {
    /// The ranks of the members that are in place.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.members.iter().zip(0..).filter(|(member, _)| member.is_in_place()).map(|(_, rank)| Rank(rank))
    }

    /// The view as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        let (via, children) = via_to_wire(self.via);
        out.u32(self.epoch).u8(via).u8(children).u32(self.segment_frames).u8(self.strictness()).u16(self.payload_bytes);
        self.content.write(self.chunk, out.u64(self.size.unwrap_or(u64::MAX))).u8(self.selective.into());
        out.u16(self.members.len() as u16);
        for member in &self.members {
            let parent = member.parent.unwrap_or(Rank::NONE);
            out.bytes(&member.mac.octets()).u64(member.nonce).u16(parent.0).u16(member.order);
            out.u8(member.standing as u8).name(&member.host);
        }
        self.rate.map(|rate| out.u64(rate.number()));
        out.into_bytes()
    }

    /// Reads a view; `None` if it is malformed: no root, a parent that is not there, or a circle.
    pub fn decode(bytes: &[u8]) -> Option<View> {
        let mut from = BodyReader::new(bytes);
        let (epoch, via, segment_frames) = (from.u32()?, via_from_wire(from.u8()?, from.u8()?)?, from.u32()?);
        let (strict, payload_bytes) = (from.u8()?, from.u16()?);
        let size = Some(from.u64()?).filter(|&size| size != u64::MAX);
        let ((content, chunk), selective, count) = (ContentKind::read(&mut from)?, from.u8()? != 0, from.u16()?);
        let members = (0..count).map(|_| read_member(&mut from)).collect::<Option<Vec<ViewMember>>>()?;
        let rate = if from.rest().is_empty() { None } else { Some(Rate::from_number(from.u64()?)?) };
        let policy = if strict == 0 { Policy::HolesAllowed } else { Policy::InOrderOnly };
        let push_frames = strict.checked_sub(1).filter(|&frames| frames > 0);
        let view = View {
            epoch,
            via,
            segment_frames,
            policy,
            push_frames,
            payload_bytes,
            size,
            content,
            chunk,
            selective,
            members,
            rate,
        };
        (view.is_rooted_at_zero() && (size.is_some() || !selective)).then_some(view)
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
        let parent = |rank: usize| self.members[rank].parent.map(Rank::index);
        let sound = |rank: usize| parent(rank).is_some_and(|parent| parent < self.members.len());
        if self.members.is_empty()
            || parent(0).is_some()
            || !self.members[0].is_in_place()
            || !(1..self.members.len()).all(sound)
        {
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

    /// The digest of the encoded view.
    pub fn digest(&self) -> Digest {
        *blake3::hash(&self.encode()).as_bytes()
    }

    /// The view in pieces that fit a frame's payload.
    pub fn parts(&self, payload_bytes: usize) -> impl Iterator<Item = ViewPart> + use<> {
        let (epoch, whole) = (self.epoch, self.encode());
        let digest = *blake3::hash(&whole).as_bytes();
        let part_bytes = payload_bytes.saturating_sub(PART_OVERHEAD_BYTES).max(1);
        let count = whole.len().div_ceil(part_bytes);
        (0..count).map(move |at| {
            let bytes = whole[at * part_bytes..].iter().take(part_bytes).copied().collect();
            ViewPart { epoch, digest, at: at as u16, count: count as u16, bytes }
        })
    }

    /// Whether this view can follow `present`: the same session, where members stand elsewhere, or come at the end of
    /// the list and aside, a few changes later; in a tree those in place may have other parents, who are in place. A
    /// cast may go on as a tree, with all parents new, and back: that it did may have been said by somebody else in the
    /// root's name, as may be that one had gone who is there again. Nothing is done with a view that cannot follow.
    pub(super) fn extends(&self, present: &View) -> bool {
        let steps = self.epoch.wrapping_sub(present.epoch);
        let changes = most_changes(self.members.len());
        let reroutes = (self.via, self.segment_frames) != (present.via, present.segment_frames);
        let back = reroutes && self.via == Via::Cast;
        let stays = |new: &ViewMember, old: &ViewMember| back || (new.parent, new.order) == (old.parent, old.order);
        let in_place = |rank: Rank| self.members.get(rank.index()).is_some_and(ViewMember::is_in_place);
        let sound = |member: &ViewMember| !member.is_in_place() || member.parent.is_some_and(in_place);
        let same = |(new, old): (&ViewMember, &ViewMember)| {
            (&new.host, new.mac, new.nonce) == (&old.host, old.mac, old.nonce)
                && (stays(new, old) || (self.is_tree() && sound(new)))
        };
        (1..=changes).contains(&steps)
            && self.terms() == present.terms()
            && (!reroutes || (self.may_reroute() && present.may_reroute()))
            && (self.members.len() >= present.members.len() || planted!("view-with-fewer-members"))
            && self.members.iter().zip(&present.members).all(same)
            && self.members[present.members.len()..].iter().all(|late| late.standing != Standing::InPlace)
            // In blocks nobody comes late: there are as many streams as members.
            && (!self.via.is_in_blocks() || self.members.len() == present.members.len())
    }

    /// A member has confirmed another view of number `epoch`, which it was told in the root's name. If that can follow
    /// this one, the next has to follow both: takes its number. Whether it did.
    pub(super) fn outnumber(&mut self, epoch: u32) -> bool {
        let steps = epoch.checked_sub(self.epoch);
        let follows = steps.is_some_and(|steps| steps < most_changes(self.members.len()) / 2);
        if follows {
            self.epoch = epoch;
        }
        follows
    }

    /// Whether every member gets all frames from one other, whom the view names.
    fn is_tree(&self) -> bool {
        self.via != Via::Cast && !self.via.is_in_blocks()
    }

    /// How many children each member has, by rank.
    pub(super) fn degrees(&self) -> Vec<usize> {
        let tree = Tree::new(self);
        let mut degrees = vec![0; self.members.len()];
        self.ranks().filter_map(|rank| tree.parent(rank)).for_each(|parent| degrees[parent.index()] += 1);
        degrees
    }

    /// Gives members in place the parents that a plan among them has: `ranks` are its ranks, the root's first.
    pub(super) fn replan(&mut self, ranks: &[Rank], plan: &Plan) {
        for (at, &parent) in ranks.iter().enumerate() {
            for (order, &child) in (0..).zip(plan.children(at)) {
                let member = &mut self.members[ranks[child].index()];
                (member.parent, member.order) = (Some(parent), order);
            }
        }
    }

    /// In a tree, names for each member in place the parent that it has in this view.
    pub(super) fn name_parents(&mut self) {
        if !self.is_tree() {
            return;
        }
        let tree = Tree::new(self);
        let place = |child: Rank| Some((tree.parent(child)?, self.members[child.index()].order, child));
        let mut places: Vec<(Rank, u16, Rank)> = self.ranks().filter_map(place).collect();
        places.sort_unstable();
        for siblings in places.chunk_by(|one, next| one.0 == next.0) {
            for (order, &(parent, _, child)) in (0..).zip(siblings) {
                let member = &mut self.members[child.index()];
                (member.parent, member.order) = (Some(parent), order);
            }
        }
    }

    /// What never changes from one view to the next.
    fn terms(&self) -> impl PartialEq + use<> {
        let offered = (self.size, self.content, self.chunk, self.selective);
        (self.policy, self.push_frames, self.payload_bytes, offered)
    }

    /// Whether the stream may go on in another way: there is one stream for all, and by no protocol of the papers'.
    pub(super) fn may_reroute(&self) -> bool {
        !self.via.is_in_blocks() && self.policy == Policy::HolesAllowed
    }

    /// Whether a host with frames of this MTU can take part: its buffers are made for what the view says.
    pub(super) fn fits(&self, mtu_bytes: u16) -> bool {
        let payload_bytes = usize::from(self.payload_bytes);
        let streams = if self.via.is_in_blocks() { self.members.len() } else { 1 };
        (MIN_PAYLOAD_BYTES..=usize::from(mtu_bytes).saturating_sub(HEADER_BYTES)).contains(&payload_bytes)
            && streams <= MAX_STREAMS
    }

    /// Whether the member of this rank, wherever it stands, has this interface.
    pub(super) fn names(&self, rank: Rank, mac: MacAddr) -> bool {
        self.members.get(rank.index()).is_some_and(|member| member.mac == mac)
    }

    /// The rank of a member in place, by its interface.
    pub(super) fn rank_at(&self, mac: MacAddr) -> Option<Rank> {
        self.ranks().find(|rank| self.members[rank.index()].mac == mac)
    }

    /// How many hosts there are: one that came back is one.
    pub(super) fn hosts(&self) -> usize {
        self.members.iter().map(|member| member.mac).collect::<BTreeSet<_>>().len()
    }

    /// The rank of a receiver that has not gone.
    pub(super) fn rank_of(&self, nonce: u64, mac: MacAddr) -> Option<Rank> {
        let own = |member: &ViewMember| member.nonce == nonce && member.mac == mac && member.standing != Standing::Gone;
        self.members.iter().skip(1).position(own).map(|at| Rank(at as u16 + 1))
    }

    pub(super) fn peer(&self, rank: Rank) -> Peer {
        Peer { rank, mac: self.members[rank.index()].mac }
    }

    /// The trees of all streams, in the order of their numbers.
    pub(super) fn trees(&self) -> Vec<Tree<'_>> {
        if self.via.is_in_blocks() {
            return (0..self.members.len()).map(|block| Tree::of_block(self, block)).collect();
        }
        vec![Tree::new(self)]
    }

    /// Whether a member is in place and, in some stream, a child of `parent`.
    pub(super) fn serves(&self, parent: Rank, child: Rank) -> bool {
        let present = self.members.get(child.index()).is_some_and(ViewMember::is_in_place);
        present && self.trees().iter().any(|tree| tree.parent(child) == Some(parent))
    }
}

/// So many changes at most lie between a view and the next that a member has of so many.
fn most_changes(members: usize) -> u32 {
    64 + 4 * members as u32
}

/// Bytes of a view message that are not a slice of the view.
const PART_OVERHEAD_BYTES: usize = 40;

fn read_member(from: &mut BodyReader<'_>) -> Option<ViewMember> {
    let [a, b, c, d, e, f] = from.array()?;
    let (nonce, parent, order) = (from.u64()?, from.u16()?, from.u16()?);
    let standing = *Standing::ALL.get(usize::from(from.u8()?))?;
    let parent = Some(Rank(parent)).filter(|&parent| parent != Rank::NONE);
    Some(ViewMember { mac: MacAddr::new(a, b, c, d, e, f), nonce, parent, order, standing, host: from.text()? })
}
