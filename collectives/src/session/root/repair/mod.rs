//! Search for a host that still has the bytes which a receiver requests again.

pub mod wants;

use super::config::{RootEndpoint, RootEvent};
use super::delivery::Delivery;
use super::delivery::catch_up::Needy;
use super::members::{MemberEntry, Members};
use crate::membership::timers::Wait;
use crate::session::fetch::Asking;
use crate::session::message::{self, Fetch, FetchedPiece, MAX_ATTEMPTS, Message};
use crate::session::verified::{ChunkSet, Form, StretchPlace};
use crate::session::view::{MemberRole, View};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use wants::{Damage, Damages, Lacking, MemberWants};

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
        let Fetch {
            rank,
            bytes,
            attempt,
            blamed,
        } = fetch;
        let asks =
            |entry: &MemberEntry| entry.standing() != MemberRole::Gone && !entry.is_reported();
        let may_have_sent =
            *blamed == Rank::NONE || (blamed.index() < view.members.len() && blamed != rank);
        let sound = fetch.is_bounded() && may_have_sent && (view.selective || *attempt > 0);
        let end = if view.selective {
            view.size.unwrap_or_default()
        } else {
            delivery.pushed_bytes()
        };
        if !sound || bytes.end > end || !members.entry(*rank).is_some_and(asks) {
            endpoint.count_malformed();
            return;
        }
        let furthest = &mut self.furthest.entry(*rank).or_default()[usize::from(*attempt)];
        if furthest.is_none_or(|before| bytes.start > before) {
            *furthest = Some(bytes.start);
            members
                .entry_mut(*rank)
                .into_iter()
                .for_each(|entry| entry.moved(now));
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
        let bytes = view
            .size
            .filter(|_| view.selective)
            .map(|size| form.content_bytes(size));
        let said = bytes.and_then(|bytes| self.needs.on_needs(rank, word, (form.chunk(), bytes)));
        let Some(is_first) = said else {
            return endpoint.count_malformed();
        };
        // Only a first report is progress: members repeat it while nothing comes.
        if is_first {
            members
                .entry_mut(rank)
                .into_iter()
                .for_each(|entry| entry.moved(now));
        }
    }

    pub(super) fn choose(
        &mut self,
        now: Instant,
        stretch: u64,
        (view, members): (&View, &Members),
        limit: Duration,
        form: Form,
    ) -> Option<ChunkSet> {
        let place = StretchPlace::of(
            form.chunk(),
            stretch,
            form.content_bytes(view.size.filter(|_| view.selective)?),
        )?;
        let open =
            |entry: &&MemberEntry| entry.standing() != MemberRole::Gone && !entry.is_reported();
        let open: Vec<&MemberEntry> = members.entries().iter().filter(open).collect();
        let in_place = open
            .iter()
            .filter(|entry| entry.standing() == MemberRole::InPlace);
        let waited_for: Vec<Rank> = in_place.map(|entry| entry.rank()).collect();
        let (chosen, silent) = self
            .needs
            .decide(now, &place, &waited_for, open.len(), limit)?;
        for rank in silent {
            let (host, seconds) = (&view.members[rank.index()].host, limit.as_secs());
            log::warn!(
                "{host} has not sent its needs of stretch {stretch} for {seconds} s: it fetches that alone"
            );
        }
        Some(chosen)
    }

    pub(super) fn lacking(&self) -> Lacking {
        self.needs.lacking()
    }

    pub(super) fn undecided(&self) -> &[Rank] {
        self.needs.undecided()
    }

    pub(super) fn wants_of_whole(&self, view: &View, delivery: &Delivery) -> bool {
        view.selective && matches!(delivery.needy(), Some((Needy::Fetch(_), _)))
    }

    pub(super) fn on_piece(&mut self, now: Instant, from: Rank, piece: &FetchedPiece) {
        self.questions.on_piece(now, from, piece);
    }

    pub(super) fn wanted(&self, delivery: &Delivery) -> Option<Range<u64>> {
        delivery
            .needy()
            .filter(|_| !self.questions.is_open())
            .map(|(_, bytes)| bytes)
    }

    pub(super) fn on_denial(
        &mut self,
        now: Instant,
        text: &str,
        (view, members): (&View, &Members),
        delivery: &Delivery,
    ) {
        let Some((need, bytes)) = delivery.needy().filter(|_| !self.questions.is_open()) else {
            return;
        };
        // Members keep the content, not the stream of a selective session.
        let kept = !view.selective || matches!(need, Needy::Fetch(_));
        let may_have = |entry: &&MemberEntry| {
            let sound = entry.is_accepted() || !entry.is_reported();
            let here = entry.standing() != MemberRole::Gone && members.is_here(entry.rank());
            kept && sound && here && entry.rank() != need.rank()
        };
        let mut keepers: Vec<&MemberEntry> = members.entries().iter().filter(may_have).collect();
        // Members that lack the bytes themselves come last. Just before them comes the sender that
        // is blamed: it may still hold a sound copy, and replies are verified.
        let question = delivery.question(need);
        let blamed =
            |entry: &MemberEntry| question.is_some_and(|fetch| fetch.blamed == entry.rank());
        let taken = |entry: &MemberEntry| delivery.bytes_of(entry.status().consumed);
        keepers.sort_by_cached_key(|entry| {
            let lacks = self.damages.concern(entry.rank(), &bytes);
            (
                lacks,
                blamed(entry),
                Reverse(taken(entry) >= bytes.end),
                entry.rank(),
            )
        });
        keepers.truncate(MAX_KEEPERS);
        if let Some(fetch) = question.filter(|_| !keepers.is_empty()) {
            // The reply to an earlier attempt was damaged too: start with another member.
            let first = usize::from(fetch.attempt.saturating_sub(1)) % keepers.len();
            keepers.rotate_left(first);
        }
        self.questions.open(
            now,
            need,
            bytes,
            keepers.into_iter().map(MemberEntry::rank).collect(),
            text,
        );
    }

    /// Continues the search and reports located damages. Returns the members that cannot be served
    /// because no host has the bytes they need, each with the reason.
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
                    let fetch = Fetch {
                        rank: need.rank(),
                        bytes,
                        attempt: 1,
                        blamed: Rank::NONE,
                    };
                    endpoint.send(view.members[keeper.index()].mac, &Message::Fetch(fetch));
                }
                RecoveryStep::Found(need, from, bytes) => delivery.supply_to(need, from, &bytes),
                // The member repeats its request if it still wants the bytes.
                RecoveryStep::NotNow(Needy::Fetch(rank), from) => delivery.skip(rank, from),
                RecoveryStep::NotNow(..) => {}
                // The member reports the failure itself.
                RecoveryStep::Nobody(Needy::Fetch(rank), from, _) => delivery.deny(rank, from),
                RecoveryStep::Nobody(need, _, text) => {
                    // Also if its outcome was known already and a report of its gap came late:
                    // otherwise the same bytes would be requested again at once, forever.
                    delivery.stop_serving(view, need.rank());
                    lost.push((need.rank(), text));
                }
            }
        }
        lost
    }

    pub(super) fn send_next(
        &mut self,
        now: Instant,
        over: bool,
        view: &View,
        endpoint: &mut RootEndpoint,
    ) {
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

const KEEPER_SILENT_AFTER: Duration = Duration::from_millis(500);

const QUERY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecoveryStep {
    Ask(Rank, Needy, Range<u64>),
    Found(Needy, u64, Vec<u8>),
    Nobody(Needy, u64, String),
    NotNow(Needy, u64),
}

#[derive(Clone, Debug)]
struct RecoveryQuery {
    need: Needy,
    bytes: Range<u64>,
    text: String,
    asked: Option<(Rank, Asking)>,
    left: VecDeque<Rank>,
    open: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryQueries {
    question: Option<RecoveryQuery>,
    since: Option<(Needy, u64, Instant)>,
    pause: Option<Instant>,
}

impl RecoveryQueries {
    pub(super) fn is_open(&self) -> bool {
        self.question.is_some() || self.pause.is_some()
    }

    pub(super) fn open(
        &mut self,
        now: Instant,
        need: Needy,
        bytes: Range<u64>,
        keepers: VecDeque<Rank>,
        text: &str,
    ) {
        if self
            .since
            .is_none_or(|(known, first, _)| (known, first) != (need, bytes.start))
        {
            self.since = Some((need, bytes.start, now));
        }
        let text = text.to_owned();
        self.question = Some(RecoveryQuery {
            need,
            bytes,
            text,
            asked: None,
            left: keepers,
            open: false,
        });
    }

    pub(super) fn on_piece(&mut self, now: Instant, from: Rank, piece: &FetchedPiece) {
        let asked = self
            .question
            .as_mut()
            .and_then(|question| question.asked.as_mut());
        asked
            .into_iter()
            .filter(|(rank, _)| *rank == from)
            .for_each(|(_, asking)| asking.take(now, piece));
    }

    pub(super) fn forget(&mut self, rank: Rank) {
        self.question
            .take_if(|question| question.need.rank() == rank);
    }

    /// Returns the next step, if any. All members are queried repeatedly until `limit` has passed.
    pub(super) fn poll(&mut self, now: Instant, limit: Duration) -> Option<RecoveryStep> {
        self.pause.take_if(|at| *at <= now);
        let tried = self
            .since
            .map_or(Duration::ZERO, |(_, _, since)| now.since(since));
        let question = self.question.as_mut()?;
        loop {
            if let Some((rank, asking)) = &mut question.asked {
                if let Some(bytes) = asking.take_bytes() {
                    let step = RecoveryStep::Found(question.need, question.bytes.start, bytes);
                    (self.question, self.since) = (None, None);
                    return Some(step);
                }
                let silent = asking.silence(now) >= KEEPER_SILENT_AFTER;
                if asking.denials() == 0 && !silent {
                    let (rank, need) = (*rank, question.need);
                    return asking
                        .poll(now)
                        .map(|bytes| RecoveryStep::Ask(rank, need, bytes));
                }
                question.open |= silent;
            }
            let Some(next) = question.left.pop_front().filter(|_| tried < limit) else {
                break;
            };
            question.asked = Some((next, Asking::new(now, &question.bytes)));
        }
        let RecoveryQuery {
            need,
            bytes,
            text,
            open,
            ..
        } = self.question.take()?;
        if open && tried < limit {
            self.pause = Some(now + QUERY_INTERVAL);
            return Some(RecoveryStep::NotNow(need, bytes.start));
        }
        self.since = None;
        Some(RecoveryStep::Nobody(need, bytes.start, text))
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let question = self
            .question
            .as_ref()
            .and_then(|question| question.asked.as_ref());
        self.pause
            .or_else(|| question.and_then(|(_, asking)| asking.again_at()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Needy = Needy::Fetch(Rank(3));
    const LIMIT: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn asked(questions: &mut RecoveryQueries, millis: u64) -> Option<Rank> {
        match questions.poll(at(millis), LIMIT) {
            Some(RecoveryStep::Ask(
                rank,
                NEED,
                Range {
                    start: 100,
                    end: 110,
                },
            )) => Some(rank),
            step => {
                assert_eq!(step, None);
                None
            }
        }
    }

    #[test]
    fn a_member_that_refuses_is_passed_over_and_a_silent_one_is_asked_several_times_first() {
        let mut questions = RecoveryQueries::default();
        questions.open(at(0), NEED, 100..110, [1, 2, 4].map(Rank).into(), "a pipe");
        assert_eq!(asked(&mut questions, 0), Some(Rank(1)));
        questions.on_piece(
            at(1),
            Rank(2),
            &FetchedPiece {
                from: 100,
                end: 110,
                bytes: vec![9; 10],
            },
        );
        questions.on_piece(at(1), Rank(1), &FetchedPiece::denial(100));
        assert_eq!(
            asked(&mut questions, 1),
            Some(Rank(2)),
            "what nobody asked for was nothing"
        );
        let again: Vec<u64> = (2..501)
            .filter(|&millis| asked(&mut questions, millis).is_some())
            .collect();
        assert_eq!(again, [21, 61, 141, 301, 461], "milliseconds");
        assert_eq!(asked(&mut questions, 501), Some(Rank(4)));
        questions.on_piece(
            at(502),
            Rank(4),
            &FetchedPiece {
                from: 100,
                end: 110,
                bytes: vec![7; 10],
            },
        );
        assert_eq!(
            questions.poll(at(502), LIMIT),
            Some(RecoveryStep::Found(NEED, 100, vec![7; 10]))
        );
        assert!(!questions.is_open());
    }

    #[test]
    fn when_all_say_no_nobody_has_them_and_when_some_are_silent_they_are_asked_again_for_a_while() {
        let mut questions = RecoveryQueries::default();
        questions.open(at(0), NEED, 100..110, VecDeque::new(), "a pipe");
        assert_eq!(
            questions.poll(at(0), LIMIT),
            Some(RecoveryStep::Nobody(NEED, 100, "a pipe".to_owned()))
        );
        let (mut rounds, mut end) = (0, 0);
        for millis in 0..20_000 {
            if end == 0 && !questions.is_open() {
                questions.open(at(millis), NEED, 100..110, [1].map(Rank).into(), "a pipe");
            }
            match questions.poll(at(millis), LIMIT) {
                Some(RecoveryStep::NotNow(..)) => rounds += 1,
                Some(RecoveryStep::Nobody(..)) => end = millis,
                _ => {}
            }
        }
        assert!(
            rounds == 8 && (5000..5500).contains(&end),
            "{rounds} rounds, {end} ms"
        );
        questions.open(at(0), NEED, 100..110, [1, 2].map(Rank).into(), "a pipe");
        assert_eq!(asked(&mut questions, 0), Some(Rank(1)));
        questions.forget(Rank(1));
        assert!(questions.is_open());
        questions.forget(Rank(3));
        assert!(!questions.is_open(), "nobody needs them any more");
    }
}
