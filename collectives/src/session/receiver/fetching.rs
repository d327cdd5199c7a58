//! Receiver's requests for missing or damaged bytes, and its replies to those of other receivers.

use super::config::ReceiverEndpoint;
use crate::membership::timers::Wait;
use crate::session::fetch::{Answering, Asking};
use crate::session::message::{Fetch, FetchedPiece, MAX_ATTEMPTS, Message, Needs};
use crate::session::verified::MAX_AHEAD;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, MacAddr, Retry};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Denials of the root after which bytes count as unavailable; a single one may be forged.
const ENOUGH_DENIALS: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Fetching {
    asking: Option<Asking>,
    attempts: Option<(u64, u8)>,
    blamed: Rank,
    fetched: Option<Result<(u64, Vec<u8>), String>>,
    answering: Answering,
    needing: WantReport,
}

impl Fetching {
    pub(super) fn needing_mut(&mut self) -> &mut WantReport {
        &mut self.needing
    }

    /// Sets the range to request, because this host is `lacking` it or it came damaged; an earlier
    /// range that is no longer wanted is dropped. `blamed` returns the sender of a range.
    pub(super) fn want(
        &mut self,
        now: Instant,
        wanted: Option<Range<u64>>,
        lacking: bool,
        blamed: impl Fn(&Range<u64>) -> Rank,
    ) {
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
            return self.stop();
        };
        if self.fetched.is_some()
            || self
                .asking
                .as_ref()
                .is_some_and(|asking| asking.first() == wanted.start)
        {
            return;
        }
        let before = self
            .attempts
            .filter(|&(first, _)| first == wanted.start)
            .map_or(0, |(_, attempts)| attempts);
        if before >= MAX_ATTEMPTS {
            self.fetched = Some(Err(format!(
                "the repeated data was damaged, too, {before} times"
            )));
            return;
        }
        self.attempts = Some((wanted.start, if lacking { 0 } else { before + 1 }));
        let asking = Asking::new(now, &wanted);
        self.blamed = blamed(&asking.range());
        self.asking = Some(asking);
    }

    pub(super) fn stop(&mut self) {
        (self.asking, self.fetched) = (None, None);
    }

    pub(super) fn take(&mut self) -> Option<Result<(u64, Vec<u8>), String>> {
        self.fetched.take()
    }

    pub(super) fn on_piece(&mut self, now: Instant, piece: &FetchedPiece) {
        let Some(asking) = &mut self.asking else {
            return;
        };
        asking.take(now, piece);
        let first = asking.first();
        if let Some(bytes) = asking.take_bytes() {
            (self.asking, self.fetched) = (None, Some(Ok((first, bytes))));
        } else if asking.denials() >= ENOUGH_DENIALS {
            self.give_up(
                "the sender cannot read them again, and nobody else has kept them".to_owned(),
            );
        }
    }

    fn give_up(&mut self, text: String) {
        (self.asking, self.fetched) = (None, Some(Err(text)));
    }

    /// Sends requests that are due. Fails when nothing has come for as long as the root waits for a
    /// silent member, because requests may be lost or queue behind many others. Time in which the
    /// root is silent does not count, as it cannot reply then.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        (root, is_silent): (MacAddr, bool),
        endpoint: &mut ReceiverEndpoint,
    ) {
        let limit = endpoint
            .config()
            .timing
            .patience
            .max(endpoint.config().timing.stall);
        self.needing.handle_timeout(now, root, endpoint);
        let Some(asking) = &mut self.asking else {
            return;
        };
        if is_silent {
            asking.pause(now);
        }
        if asking.silence(now) >= limit {
            self.give_up(format!(
                "they were requested again, and for {} s nothing came",
                limit.as_secs_f64()
            ));
        } else if let Some(bytes) = asking.poll(now) {
            let (rank, attempt) = (
                endpoint.rank(),
                self.attempts.map_or(1, |(_, attempts)| attempts),
            );
            endpoint.send(
                root,
                &Message::Fetch(Fetch {
                    rank,
                    bytes,
                    attempt,
                    blamed: self.blamed,
                }),
            );
        }
    }

    pub(super) fn on_question(&mut self, question: &Fetch) {
        if question.is_bounded() {
            self.answering.request(&Fetch {
                rank: Rank::ROOT,
                ..question.clone()
            });
        }
    }

    pub(super) fn wants_again(&self) -> Option<Range<u64>> {
        self.answering.wanted().map(|(_, bytes)| bytes)
    }

    /// Takes the bytes that [`wants_again`](Self::wants_again) named, and sends them in pieces of
    /// `piece_bytes`.
    ///
    /// # Panics
    /// If the length differs.
    pub(super) fn supply(&mut self, bytes: &[u8], piece_bytes: usize) {
        let Some(wanted) = self.wants_again() else {
            return;
        };
        assert_eq!(
            bytes.len() as u64,
            wanted.end - wanted.start,
            "what was wanted is supplied"
        );
        self.answering
            .supply(Rank::ROOT, wanted.start, bytes, piece_bytes);
    }

    pub(super) fn deny(&mut self) {
        let wanted = self.wants_again();
        wanted
            .into_iter()
            .for_each(|wanted| self.answering.deny(Rank::ROOT, wanted.start));
    }

    pub(super) fn main_sent(&mut self, now: Instant) {
        self.answering.main_sent(now);
    }

    pub(super) fn poll(&mut self, now: Instant, before: bool) -> Option<FetchedPiece> {
        let waits = before && !self.answering.is_due();
        if waits {
            None
        } else {
            self.answering.poll(now, false).map(|(_, piece)| piece)
        }
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let again = self.asking.as_ref().and_then(Asking::again_at);
        let again = again
            .into_iter()
            .chain(self.answering.free_at(now))
            .min()
            .map(|at| Wait::Fetch.at(at));
        again.into_iter().chain(self.needing.poll_timeout()).min()
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(40);
const MAX_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct SentNeeds {
    needs: Needs,
    retry: Retry,
}

#[derive(Clone, Debug, Default)]
pub(super) struct WantReport {
    open: VecDeque<SentNeeds>,
}

impl WantReport {
    pub(super) fn report(&mut self, at: Instant, needs: Needs) {
        if self.open.len() as u64 == MAX_AHEAD {
            self.open.pop_front();
        }
        self.open.push_back(SentNeeds {
            needs,
            retry: Retry::new(at, FIRST_PAUSE, MAX_PAUSE),
        });
    }

    pub(super) fn settle(&mut self, below: u64) {
        self.open.retain(|word| word.needs.stretch >= below);
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        root: MacAddr,
        endpoint: &mut ReceiverEndpoint,
    ) {
        for word in &mut self.open {
            if word.retry.take_due(now) {
                endpoint.send(root, &Message::Needs(word.needs.clone()));
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.open
            .iter()
            .map(|word| word.retry.at())
            .min()
            .map(|at| Wait::Fetch.at(at))
    }
}
