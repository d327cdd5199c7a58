//! Requests of members for bytes that came damaged: validation, the members to ask if the source
//! cannot be re-read, and where the corruption happened.

use super::damage::{Damage, Damages};
use super::delivery::Delivery;
use super::members::{MemberEntry, Members};
use super::recovery::{RecoveryQueries, RecoveryStep};
use super::rereading::Needy;
use super::wants::{Lacking, MemberWants};
use super::{RootEndpoint, RootEvent};
use crate::membership::timers::Wait;
use crate::session::message::{self, Fetch, FetchedPiece, MAX_ATTEMPTS, Message};
use crate::session::verified::{ChunkSet, Form, StretchPlace};
use crate::session::view::{Standing, View};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Maximum number of members asked for the same bytes.
const MAX_KEEPERS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Fetches {
    questions: RecoveryQueries,
    damages: Damages,
    /// Progress of each member's requests: for bytes that it alone lacks, then for bytes that came
    /// damaged the first, second and third time.
    furthest: BTreeMap<Rank, [Option<u64>; 1 + MAX_ATTEMPTS as usize]>,
    needs: MemberWants,
}

impl Fetches {
    pub(super) fn damages(&self, view: &View, form: Form) -> Vec<Damage> {
        self.damages.all(view, form)
    }

    pub(super) fn on_fetch(
        &mut self,
        now: Instant,
        fetch: &Fetch,
        (view, members, delivery): (&View, &mut Members, &mut Delivery),
        endpoint: &mut RootEndpoint,
    ) {
        let Fetch { rank, bytes, attempt, blamed } = fetch;
        let asks = |entry: &MemberEntry| entry.standing() != Standing::Gone && !entry.is_reported();
        let may_have_sent = *blamed == Rank::NONE || (blamed.index() < view.members.len() && blamed != rank);
        let sound = fetch.is_bounded() && may_have_sent && (view.selective || *attempt > 0);
        let end = if view.selective { view.size.unwrap_or_default() } else { delivery.pushed_bytes() };
        if !sound || bytes.end > end || !members.entry(*rank).is_some_and(asks) {
            endpoint.count_malformed();
            return;
        }
        let furthest = &mut self.furthest.entry(*rank).or_default()[usize::from(*attempt)];
        if furthest.is_none_or(|before| bytes.start > before) {
            *furthest = Some(bytes.start);
            members.entry_mut(*rank).into_iter().for_each(|entry| entry.moved(now));
        }
        if *attempt > 0 {
            self.damages.note(now, fetch);
        }
        delivery.fetch(fetch);
    }

    pub(super) fn on_needs(
        &mut self,
        now: Instant,
        (rank, word): (Rank, &message::Needs),
        (view, members): (&View, &mut Members),
        endpoint: &mut RootEndpoint,
    ) {
        let form = endpoint.config().form;
        let bytes = view.size.filter(|_| view.selective).map(|size| form.content_bytes(size));
        let said = bytes.and_then(|bytes| self.needs.on_needs(rank, word, (form.chunk(), bytes)));
        let Some(is_first) = said else { return endpoint.count_malformed() };
        // Only a first report is progress: members repeat it for as long as nothing comes.
        if is_first {
            members.entry_mut(rank).into_iter().for_each(|entry| entry.moved(now));
        }
    }

    /// Returns the chunks of a stretch that go to all members, once decided. Members that do not
    /// report within `limit` are no longer waited for.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        stretch: u64,
        (view, members): (&View, &Members),
        limit: Duration,
        form: Form,
    ) -> Option<ChunkSet> {
        let place = StretchPlace::of(form.chunk(), stretch, form.content_bytes(view.size.filter(|_| view.selective)?))?;
        let open = |entry: &&MemberEntry| entry.standing() != Standing::Gone && !entry.is_reported();
        let open: Vec<&MemberEntry> = members.entries().iter().filter(open).collect();
        let in_place = open.iter().filter(|entry| entry.standing() == Standing::InPlace);
        let waited_for: Vec<Rank> = in_place.map(|entry| entry.rank()).collect();
        let (chosen, silent) = self.needs.decide(now, &place, &waited_for, open.len(), limit)?;
        for rank in silent {
            let (host, seconds) = (&view.members[rank.index()].host, limit.as_secs());
            log::warn!("{host} has not said for {seconds} s what it lacks of stretch {stretch}: it fetches that alone");
        }
        Some(chosen)
    }

    pub(super) fn lacking(&self) -> Lacking {
        self.needs.lacking()
    }

    pub(super) fn wants_of_whole(&self, view: &View, delivery: &Delivery) -> bool {
        view.selective && matches!(delivery.needy(), Some((Needy::Fetch(_), _)))
    }

    pub(super) fn on_piece(&mut self, now: Instant, from: Rank, piece: &FetchedPiece) {
        self.questions.on_piece(now, from, piece);
    }

    pub(super) fn wanted(&self, delivery: &Delivery) -> Option<Range<u64>> {
        delivery.needy().filter(|_| !self.questions.is_open()).map(|(_, bytes)| bytes)
    }

    pub(super) fn on_denial(
        &mut self,
        now: Instant,
        text: &str,
        (view, members): (&View, &Members),
        delivery: &Delivery,
    ) {
        let Some((need, bytes)) = delivery.needy().filter(|_| !self.questions.is_open()) else { return };
        // Members keep the content, not the stream of a selective session.
        let kept = !view.selective || matches!(need, Needy::Fetch(_));
        let may_have = |entry: &&MemberEntry| {
            let sound = entry.is_accepted() || !entry.is_reported();
            let here = entry.standing() != Standing::Gone && members.is_here(entry.rank());
            kept && sound && here && entry.rank() != need.rank()
        };
        let mut keepers: Vec<&MemberEntry> = members.entries().iter().filter(may_have).collect();
        // Members that lack the bytes themselves come last, and before them the sender that is
        // blamed: it may still hold a sound copy, and replies are verified.
        let question = delivery.question(need);
        let blamed = |entry: &MemberEntry| question.is_some_and(|fetch| fetch.blamed == entry.rank());
        let taken = |entry: &MemberEntry| delivery.bytes_of(entry.status().consumed);
        keepers.sort_by_cached_key(|entry| {
            let lacks = self.damages.concern(entry.rank(), &bytes);
            (lacks, blamed(entry), Reverse(taken(entry) >= bytes.end), entry.rank())
        });
        keepers.truncate(MAX_KEEPERS);
        if let Some(fetch) = question.filter(|_| !keepers.is_empty()) {
            // The reply to an earlier attempt was damaged too: start with another member.
            let first = usize::from(fetch.attempt.saturating_sub(1)) % keepers.len();
            keepers.rotate_left(first);
        }
        self.questions.open(now, need, bytes, keepers.into_iter().map(MemberEntry::rank).collect(), text);
    }

    /// Continues to ask members and reports located damages. Returns the members that cannot be
    /// served because no host has the bytes they need, each with the reason.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        view: &View,
        delivery: &mut Delivery,
        endpoint: &mut RootEndpoint,
    ) -> Vec<(Rank, String)> {
        self.send_next(now, false, view, endpoint);
        let mut lost = Vec::new();
        while !delivery.is_shut()
            && let Some(step) = self.questions.poll(now, endpoint.config().timing.stall / 2)
        {
            match step {
                RecoveryStep::Ask(keeper, need, bytes) => {
                    let fetch = Fetch { rank: need.rank(), bytes, attempt: 1, blamed: Rank::NONE };
                    endpoint.send(view.members[keeper.index()].mac, &Message::Fetch(fetch));
                }
                RecoveryStep::Found(need, from, bytes) => delivery.supply_to(need, from, &bytes),
                // The member repeats its request if it still wants the bytes.
                RecoveryStep::NotNow(Needy::Fetch(rank), from) => delivery.skip(rank, from),
                RecoveryStep::NotNow(..) => {}
                // The member reports the failure itself.
                RecoveryStep::Nobody(Needy::Fetch(rank), from, _) => delivery.deny(rank, from),
                RecoveryStep::Nobody(need, _, text) => {
                    // Also if its fate was known already and a report of its gap came late:
                    // otherwise the same bytes would be wanted again at once, for ever.
                    delivery.stop_serving(view, need.rank());
                    lost.push((need.rank(), text));
                }
            }
        }
        lost
    }

    pub(super) fn send_next(&mut self, now: Instant, over: bool, view: &View, endpoint: &mut RootEndpoint) {
        let form = endpoint.config().form;
        for damage in self.damages.news(now, over, view, form) {
            log::warn!("{damage}");
            endpoint.push_event(RootEvent::Damaged(damage));
        }
    }

    pub(super) fn forget(&mut self, rank: Rank) {
        self.questions.forget(rank);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.questions.next().map(|at| Wait::Fetch.at(at))
    }
}
