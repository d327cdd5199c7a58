//! The list of a transfer's members (*view*), with broadcast tree and parameters.

use super::message::{ContentKind, Digest, ViewPart};
use super::throttle::Rate;
use super::verified::ChunkSize;
use crate::membership::codec::{BodyReader, BodyWriter};
use crate::preset::{via_from_wire, via_to_wire};
use ethbcast_planning::plan::{self, Plan, Via};
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::wire::{Peer, Rank};
use ethbcast_transport::{MacAddr, Policy, planted};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

/// One member of a view. Its rank is its index in the list, and stays whatever its standing, so
/// that no other rank changes. The nonce is that of the receiver's run that joined, zero for the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMember {
    pub host: String,
    pub mac: MacAddr,
    pub nonce: u64,
    /// Rank of its parent: its sender, or in a broadcast the host it acknowledges to; `None` for
    /// the root.
    pub parent: Option<Rank>,
    /// Position among its parent's children; with two trees the rank of its parent in the second.
    pub order: u16,
    pub standing: MemberRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// The outcome is known, and the member is no longer served.
    Gone,
    /// Regular member: in the tree, or among the listeners of a broadcast.
    InPlace,
    /// Demoted: bridged in the tree, outside a broadcast's credit, and served by the root on a
    /// catch-up stream.
    Demoted,
}

impl MemberRole {
    const ALL: [MemberRole; 3] = [MemberRole::Gone, MemberRole::InPlace, MemberRole::Demoted];
}

impl ViewMember {
    pub(super) fn late(host: String, mac: MacAddr, nonce: u64) -> ViewMember {
        ViewMember {
            host,
            mac,
            nonce,
            parent: Some(Rank::ROOT),
            order: u16::MAX,
            standing: MemberRole::Demoted,
        }
    }

    pub fn is_in_place(&self) -> bool {
        self.standing == MemberRole::InPlace
    }
}

/// A view: the list of a session's members with their parents; rank 0 is the root. `epoch`
/// increases with every change of membership, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub epoch: u32,
    pub via: Via,
    /// Frames in a segment: a relay receives a whole segment before it forwards any of it, and
    /// sends it to one child after the other.
    pub segment_frames: u32,
    pub policy: Policy,
    /// Frames of a message that one receiver acknowledges for all (Push-Pull Broadcast, EQA §3.3),
    /// if there are such.
    pub push_frames: Option<u8>,
    pub payload_bytes: u16,
    pub size: Option<u64>,
    pub content: ContentKind,
    /// Chunk size, if the stream has hash lists.
    pub chunk: ChunkSize,
    /// Whether only missing chunks are sent because some members already hold part of the content;
    /// then the length of the stream is unknown.
    pub selective: bool,
    pub members: Vec<ViewMember>,
    pub rate: Option<Rate>,
}

pub(super) const MAX_PUSH_FRAMES: u8 = 254;

/// Maximum number of members of a view: a rank has 16 bits, and 65 535 stands for "none".
pub const MAX_MEMBERS: usize = 65_535;

/// Shortest frame payload of a view in bytes: a trailer has to fit.
const MIN_PAYLOAD_BYTES: usize = 64;

const MAX_STREAMS: usize = 4096;
const MIN_FEED_FRAMES: usize = 64;
/// Maximum memory of the feeds of all streams at a member in bytes, as of a single one.
const MAX_FEED_BYTES: usize = 16 << 20;

/// Returns the longest frame payload, in bytes, with this number of streams.
pub(super) fn most_payload_bytes(streams: usize) -> usize {
    if streams > 1 {
        MAX_FEED_BYTES / MIN_FEED_FRAMES / streams
    } else {
        usize::MAX
    }
}

impl View {
    /// Returns the ranks of the members that are in place.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.members
            .iter()
            .zip(0..)
            .filter(|(member, _)| member.is_in_place())
            .map(|(_, rank)| Rank(rank))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        let (via, children) = via_to_wire(self.via);
        out.u32(self.epoch)
            .u8(via)
            .u8(children)
            .u32(self.segment_frames)
            .u8(self.strictness())
            .u16(self.payload_bytes);
        self.content
            .write(self.chunk, out.u64(self.size.unwrap_or(u64::MAX)))
            .u8(self.selective.into());
        out.u16(self.members.len() as u16);
        for member in &self.members {
            let parent = member.parent.unwrap_or(Rank::NONE);
            out.bytes(&member.mac.octets())
                .u64(member.nonce)
                .u16(parent.0)
                .u16(member.order);
            out.u8(member.standing as u8).name(&member.host);
        }
        self.rate.map(|rate| out.u64(rate.number()));
        out.into_bytes()
    }

    /// Decodes a view; `None` if it is malformed: no root, a missing parent, or a cycle.
    pub fn decode(bytes: &[u8]) -> Option<View> {
        let mut from = BodyReader::new(bytes);
        let (epoch, via, segment_frames) = (
            from.u32()?,
            via_from_wire(from.u8()?, from.u8()?)?,
            from.u32()?,
        );
        let (strict, payload_bytes) = (from.u8()?, from.u16()?);
        let size = Some(from.u64()?).filter(|&size| size != u64::MAX);
        let ((content, chunk), selective, count) =
            (ContentKind::read(&mut from)?, from.u8()? != 0, from.u16()?);
        let members = (0..count)
            .map(|_| read_member(&mut from))
            .collect::<Option<Vec<ViewMember>>>()?;
        let rate = if from.rest().is_empty() {
            None
        } else {
            Some(Rate::from_number(from.u64()?)?)
        };
        let policy = if strict == 0 {
            Policy::HolesAllowed
        } else {
            Policy::InOrderOnly
        };
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

    /// Policy and pushed frames as a byte: 0, or the number of pushed frames plus one.
    fn strictness(&self) -> u8 {
        match self.policy {
            Policy::HolesAllowed => 0,
            Policy::InOrderOnly => 1 + self.push_frames.unwrap_or(0).min(MAX_PUSH_FRAMES),
        }
    }

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
        let second = |rank: usize| usize::from(self.members[rank].order);
        self.lead_to_root(|rank| parent(rank).unwrap_or(0))
            && (self.via != Via::TwoTree
                || (1..self.members.len()).all(|rank| second(rank) < self.members.len())
                    && self.lead_to_root(second))
    }

    fn lead_to_root(&self, parent: impl Fn(usize) -> usize) -> bool {
        let mut reaches_root = vec![false; self.members.len()];
        reaches_root[0] = true;
        (1..self.members.len()).all(|start| {
            let mut path = vec![start];
            while let Some(&at) = path.last().filter(|&&at| !reaches_root[at]) {
                if path.len() > self.members.len() {
                    return false;
                }
                path.push(parent(at));
            }
            path.into_iter().for_each(|rank| reaches_root[rank] = true);
            true
        })
    }

    pub fn digest(&self) -> Digest {
        *blake3::hash(&self.encode()).as_bytes()
    }

    pub fn parts(&self, payload_bytes: usize) -> impl Iterator<Item = ViewPart> + use<> {
        let (epoch, whole) = (self.epoch, self.encode());
        let digest = *blake3::hash(&whole).as_bytes();
        let part_bytes = payload_bytes.saturating_sub(PART_OVERHEAD_BYTES).max(1);
        let count = whole.len().div_ceil(part_bytes);
        (0..count).map(move |at| {
            let bytes = whole[at * part_bytes..]
                .iter()
                .take(part_bytes)
                .copied()
                .collect();
            ViewPart {
                epoch,
                digest,
                at: at as u16,
                count: count as u16,
                bytes,
            }
        })
    }

    /// Whether this view can follow `present`; a view that cannot is ignored. It must be of the
    /// same session, a few changes later; members may have moved, and new ones be appended as
    /// demoted. In a tree, or two, members in place may have other parents in place. A broadcast may become
    /// a tree with all parents new, and back, because the change may have been forged in the root's
    /// name; likewise a member that was gone may be back.
    pub(super) fn extends(&self, present: &View) -> bool {
        let steps = self.epoch.wrapping_sub(present.epoch);
        let changes = most_changes(self.members.len());
        let reroutes = (self.via, self.segment_frames) != (present.via, present.segment_frames);
        let back = reroutes && self.via == Via::Cast;
        let stays = |new: &ViewMember, old: &ViewMember| {
            back || (new.parent, new.order) == (old.parent, old.order)
        };
        let in_place = |rank: Rank| {
            self.members
                .get(rank.index())
                .is_some_and(ViewMember::is_in_place)
        };
        let sound =
            |member: &ViewMember| !member.is_in_place() || member.parent.is_some_and(in_place);
        // Of two trees, a member may stay in one below a parent that is gone.
        let sound_in_two = |new: &ViewMember, old: &ViewMember| {
            let is_second_sound = new.order == old.order || in_place(Rank(new.order));
            is_second_sound && (new.parent == old.parent || sound(new))
        };
        let moves = |new: &ViewMember, old: &ViewMember| {
            self.is_tree() && sound(new) || self.via == Via::TwoTree && sound_in_two(new, old)
        };
        let same = |(new, old): (&ViewMember, &ViewMember)| {
            (&new.host, new.mac, new.nonce) == (&old.host, old.mac, old.nonce)
                && (stays(new, old) || moves(new, old))
        };
        (1..=changes).contains(&steps)
            && self.terms() == present.terms()
            && (!reroutes || (self.may_reroute() && present.may_reroute()))
            && (self.members.len() >= present.members.len() || planted!("view-with-fewer-members"))
            && self.members.iter().zip(&present.members).all(same)
            && self.members[present.members.len()..].iter().all(|late| late.standing != MemberRole::InPlace)
            // Block algorithms admit no late members: there are as many streams as members.
            && (!self.via.is_in_blocks() || self.members.len() == present.members.len())
    }

    /// Adopts `epoch` if a member has confirmed a forged view of that number that can follow this
    /// one, because the next view must follow both. Returns whether it did.
    pub(super) fn outnumber(&mut self, epoch: u32) -> bool {
        let steps = epoch.checked_sub(self.epoch);
        let follows = steps.is_some_and(|steps| steps < most_changes(self.members.len()) / 2);
        if follows {
            self.epoch = epoch;
        }
        follows
    }

    fn is_tree(&self) -> bool {
        self.via != Via::Cast && !self.via.is_in_blocks()
    }

    pub(super) fn degrees(&self) -> Vec<usize> {
        let tree = Tree::new(self);
        let mut degrees = vec![0; self.members.len()];
        self.ranks()
            .filter_map(|rank| tree.parent(rank))
            .for_each(|parent| degrees[parent.index()] += 1);
        degrees
    }

    pub(super) fn replan(&mut self, ranks: &[Rank], plan: &Plan) {
        for (at, &parent) in ranks.iter().enumerate() {
            for (order, &child) in (0..).zip(plan.children(at)) {
                let member = &mut self.members[ranks[child].index()];
                (member.parent, member.order) = (Some(parent), order);
            }
        }
    }

    /// Makes the root, to which all can talk, the parent of each member in place that cannot talk to
    /// its effective one, in a tree or either of two. Returns whether there was one.
    pub(super) fn reconnect(&mut self, can_talk: impl Fn(Rank, Rank) -> bool) -> bool {
        if !self.is_tree() && self.via != Via::TwoTree {
            return false;
        }
        let cut_off_in = |tree: &Tree<'_>| {
            let is_cut_off = |&rank: &Rank| {
                let parent = tree.parent(rank);
                parent.is_some_and(|parent| !can_talk(parent, rank))
            };
            self.ranks().filter(is_cut_off).collect()
        };
        let cut_off: Vec<Vec<Rank>> = self.trees().iter().map(cut_off_in).collect();
        for rank in cut_off.first().into_iter().flatten() {
            self.members[rank.index()].parent = Some(Rank::ROOT);
        }
        // In place of an order, a member of two trees has its parent in the second.
        for rank in cut_off.get(1).into_iter().flatten() {
            self.members[rank.index()].order = Rank::ROOT.0;
        }
        !cut_off.iter().all(Vec::is_empty)
    }

    /// Sets the parent of each member in place to its effective one, in a tree.
    pub(super) fn name_parents(&mut self) {
        if !self.is_tree() {
            return;
        }
        let tree = Tree::new(self);
        let place = |child: Rank| {
            Some((
                tree.parent(child)?,
                self.members[child.index()].order,
                child,
            ))
        };
        let mut places: Vec<(Rank, u16, Rank)> = self.ranks().filter_map(place).collect();
        places.sort_unstable();
        for siblings in places.chunk_by(|one, next| one.0 == next.0) {
            for (order, &(parent, _, child)) in (0..).zip(siblings) {
                let member = &mut self.members[child.index()];
                (member.parent, member.order) = (Some(parent), order);
            }
        }
    }

    /// Session parameters, which never change from one view to the next.
    fn terms(&self) -> impl PartialEq + use<> {
        let offered = (self.size, self.content, self.chunk, self.selective);
        (self.policy, self.push_frames, self.payload_bytes, offered)
    }

    /// Whether the stream may change to another algorithm: there is one stream for all, and no
    /// protocol of the papers.
    pub(super) fn may_reroute(&self) -> bool {
        !self.via.is_in_blocks() && self.policy == Policy::HolesAllowed
    }

    /// Whether a host whose frames carry `most_bytes` can take part: its buffers are sized for the
    /// view's frames.
    pub(super) fn fits(&self, most_bytes: u16) -> bool {
        let payload_bytes = usize::from(self.payload_bytes);
        let streams = self.via.trees(self.members.len());
        (MIN_PAYLOAD_BYTES..=usize::from(most_bytes)).contains(&payload_bytes)
            && streams <= MAX_STREAMS
            && payload_bytes <= most_payload_bytes(streams)
    }

    /// Whether the member of this rank has this address, whatever its state.
    pub(super) fn names(&self, rank: Rank, mac: MacAddr) -> bool {
        self.members
            .get(rank.index())
            .is_some_and(|member| member.mac == mac)
    }

    pub(super) fn rank_at(&self, mac: MacAddr) -> Option<Rank> {
        self.ranks()
            .find(|rank| self.members[rank.index()].mac == mac)
    }

    pub(super) fn hosts(&self) -> usize {
        self.members
            .iter()
            .map(|member| member.mac)
            .collect::<BTreeSet<_>>()
            .len()
    }

    pub(super) fn rank_of(&self, nonce: u64, mac: MacAddr) -> Option<Rank> {
        let own = |member: &ViewMember| {
            member.nonce == nonce && member.mac == mac && member.standing != MemberRole::Gone
        };
        self.members
            .iter()
            .skip(1)
            .position(own)
            .map(|at| Rank(at as u16 + 1))
    }

    pub(super) fn peer(&self, rank: Rank) -> Peer {
        Peer {
            rank,
            mac: self.members[rank.index()].mac,
        }
    }

    pub(super) fn trees(&self) -> Vec<Tree<'_>> {
        if self.via.is_in_blocks() {
            return (0..self.via.trees(self.members.len()))
                .map(|block| Tree::of_block(self, block))
                .collect();
        }
        vec![Tree::new(self)]
    }

    pub(super) fn serves(&self, parent: Rank, child: Rank) -> bool {
        let present = self
            .members
            .get(child.index())
            .is_some_and(ViewMember::is_in_place);
        present
            && self
                .trees()
                .iter()
                .any(|tree| tree.parent(child) == Some(parent))
    }
}

/// Maximum number of changes between two consecutive views of a member.
fn most_changes(members: usize) -> u32 {
    64 + 4 * members as u32
}

/// Bytes of a view message besides the slice.
const PART_OVERHEAD_BYTES: usize = 40;

fn read_member(from: &mut BodyReader<'_>) -> Option<ViewMember> {
    let [a, b, c, d, e, f] = from.array()?;
    let (nonce, parent, order) = (from.u64()?, from.u16()?, from.u16()?);
    let standing = *MemberRole::ALL.get(usize::from(from.u8()?))?;
    let parent = Some(Rank(parent)).filter(|&parent| parent != Rank::NONE);
    Some(ViewMember {
        mac: MacAddr::new(a, b, c, d, e, f),
        nonce,
        parent,
        order,
        standing,
        host: from.text()?,
    })
}

/// Maximum number of views collected at once: a stray part does not discard the others.
const VIEWS: usize = 4;

/// Maximum length of a view in bytes: 65 535 members with names of 42 bytes.
const MAX_VIEW_BYTES: usize = 4 << 20;

/// Views of the receivers of one process, which then keep each view and each of its parts once.
///
/// Only what is equal byte by byte is shared, so a receiver behaves as with a copy of its own.
#[derive(Clone, Default)]
pub struct SharedViews(Arc<Mutex<KnownViews>>);

#[derive(Default)]
struct KnownViews {
    views: HashMap<Digest, Weak<View>>,
    parts: HashMap<(Digest, u16), Weak<[u8]>>,
}

impl SharedViews {
    fn part(&self, part: &ViewPart) -> Arc<[u8]> {
        let known = &mut self.0.lock().parts;
        let place = (part.digest, part.at);
        let same = known.get(&place).and_then(Weak::upgrade);
        same.filter(|bytes| **bytes == *part.bytes)
            .unwrap_or_else(|| {
                let bytes: Arc<[u8]> = part.bytes.as_slice().into();
                known.insert(place, Arc::downgrade(&bytes));
                bytes
            })
    }

    /// Returns the view of this digest: the one that is known, or else what `decode` makes.
    fn view(&self, digest: Digest, decode: impl FnOnce() -> Option<View>) -> Option<Arc<View>> {
        let known = &mut *self.0.lock();
        if let Some(view) = known.views.get(&digest).and_then(Weak::upgrade) {
            return Some(view);
        }
        let view = Arc::new(decode()?);
        known.views.retain(|_, view| view.strong_count() > 0);
        known.parts.retain(|_, part| part.strong_count() > 0);
        known.views.insert(digest, Arc::downgrade(&view));
        Some(view)
    }
}

impl fmt::Debug for SharedViews {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedViews")
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Assembler {
    views: VecDeque<Parts>,
    shared: Option<SharedViews>,
}

#[derive(Clone, Debug)]
struct Parts {
    digest: Digest,
    count: u16,
    parts: BTreeMap<u16, Arc<[u8]>>,
}

impl Assembler {
    pub(in crate::session) fn new(shared: Option<SharedViews>) -> Assembler {
        Assembler {
            views: VecDeque::new(),
            shared,
        }
    }

    pub(in crate::session) fn bytes(&self) -> usize {
        self.views
            .iter()
            .flat_map(|view| view.parts.values())
            .map(|part| part.len())
            .sum()
    }

    pub(crate) fn take(&mut self, part: &ViewPart) -> Option<Arc<View>> {
        if part.at >= part.count || usize::from(part.count) * part.bytes.len() > MAX_VIEW_BYTES {
            return None;
        }
        let of_same = |parts: &Parts| parts.digest == part.digest && parts.count == part.count;
        let known = self
            .views
            .iter()
            .position(of_same)
            .and_then(|at| self.views.remove(at));
        let mut view = known.unwrap_or_else(|| Parts {
            digest: part.digest,
            count: part.count,
            parts: BTreeMap::new(),
        });
        let bytes = match &self.shared {
            Some(shared) => shared.part(part),
            None => part.bytes.as_slice().into(),
        };
        view.parts.insert(part.at, bytes);
        if view.parts.len() < usize::from(view.count) {
            self.views.push_back(view);
            if self.views.len() > VIEWS {
                self.views.pop_front();
            }
            return None;
        }
        let parts: Vec<&[u8]> = view.parts.values().map(|part| &**part).collect();
        let whole = parts.concat();
        let digest = *blake3::hash(&whole).as_bytes();
        if digest != view.digest && !planted!("view-digest-not-compared") {
            return None;
        }
        match &self.shared {
            Some(shared) => shared.view(digest, || View::decode(&whole)),
            None => View::decode(&whole).map(Arc::new),
        }
    }
}

/// The tree of one stream: the one that the view names, or that of a block, each of which has its
/// own. A member that is not in place is bridged: its nearest ancestor in place serves its
/// children.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Tree<'a> {
    view: &'a View,
    block: Option<usize>,
}

impl<'a> Tree<'a> {
    fn new(view: &'a View) -> Tree<'a> {
        Tree { view, block: None }
    }

    fn of_block(view: &'a View, block: usize) -> Tree<'a> {
        Tree {
            view,
            block: Some(block),
        }
    }

    fn planned_parent(&self, rank: Rank) -> Option<Rank> {
        let View { via, members, .. } = self.view;
        match self.block {
            Some(1) if *via == Via::TwoTree => members[rank.index()]
                .parent
                .map(|_| Rank(members[rank.index()].order)),
            Some(block) if via.is_scattered() => {
                let parent = plan::block_parent(*via, members.len(), block, rank.index());
                parent.map(|parent| Rank(parent as u16))
            }
            _ => members[rank.index()].parent,
        }
    }

    /// Returns the position of a child among those of its parent.
    fn order(&self, rank: Rank) -> usize {
        let View { via, members, .. } = self.view;
        match (self.block, self.planned_parent(rank)) {
            (Some(block), Some(parent)) if *via != Via::TwoTree => {
                let siblings = plan::block_children(*via, members.len(), block, parent.index());
                siblings
                    .iter()
                    .position(|&sibling| sibling == rank.index())
                    .unwrap_or(0)
            }
            _ => usize::from(members[rank.index()].order),
        }
    }

    /// Returns the most steps below each rank: one pass over all, however many have children.
    fn steps_below(&self) -> Vec<usize> {
        let mut below = vec![0; self.view.members.len()];
        for from in (0..below.len() as u16).map(Rank) {
            let above =
                std::iter::successors(self.planned_parent(from), |&at| self.planned_parent(at));
            for (steps, at) in (1..).zip(above) {
                // Whatever is above has been reached by as long a way.
                if below[at.index()] >= steps {
                    break;
                }
                below[at.index()] = steps;
            }
        }
        below
    }

    fn planned_children(&self, block: usize, rank: Rank) -> Vec<Rank> {
        let View { via, members, .. } = self.view;
        if via.is_scattered() {
            let children = plan::block_children(*via, members.len(), block, rank.index());
            return children
                .into_iter()
                .map(|child| Rank(child as u16))
                .collect();
        }
        let all = (0..members.len() as u16).map(Rank);
        all.filter(|&child| self.planned_parent(child) == Some(rank))
            .collect()
    }

    /// Returns the nearest planned ancestor of `rank` that is in place. `None` for the root, and
    /// for a member that is not in place itself.
    pub(in crate::session) fn parent(&self, rank: Rank) -> Option<Rank> {
        let mut at = self.planned_parent(rank)?;
        while !self.view.members[at.index()].is_in_place() {
            at = self.planned_parent(at)?;
        }
        self.view.members[rank.index()].is_in_place().then_some(at)
    }

    /// Returns the members that `rank` sends to, in sending order; in a broadcast, those that
    /// acknowledge to it.
    pub(in crate::session) fn children(&self, rank: Rank) -> Vec<Rank> {
        let mut children: Vec<Rank> = match self.block {
            Some(block) => self.children_in_block(block, rank),
            None => {
                let parent = |child| {
                    if planted!("bridge-forgotten") {
                        self.planned_parent(child)
                    } else {
                        self.parent(child)
                    }
                };
                self.view
                    .ranks()
                    .filter(|&child| parent(child) == Some(rank))
                    .collect()
            }
        };
        if self.view.via == Via::TwoTree && self.block.is_some() && children.len() > 1 {
            // The child with the most steps below it is served first.
            let below = self.steps_below();
            children.sort_by_key(|&child| (Reverse(below[child.index()]), child));
        } else {
            children.sort_by_cached_key(|&child| (self.order(child), child));
        }
        children
    }

    /// Planned children in place; those of a child that is not in place take its position.
    fn children_in_block(&self, block: usize, rank: Rank) -> Vec<Rank> {
        let (mut found, mut open) = (Vec::new(), vec![rank]);
        while let Some(at) = open.pop() {
            for child in self.planned_children(block, at) {
                let in_place = self.view.members[child.index()].is_in_place();
                if in_place { &mut found } else { &mut open }.push(child);
            }
        }
        found
    }
}

#[cfg(test)]
pub(super) mod tests;
