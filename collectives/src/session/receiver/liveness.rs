//! Check whether the sender is alive: a receiver sends a challenge with a fresh number, the sender
//! returns it.
//!
//! All frames that a root sends to the group can be recorded and replayed, so they prove nothing. A
//! member that gets nothing new sends a challenge with a fresh number at intervals, and the root
//! returns it.

use crate::membership::Timing;
use crate::membership::timers::jitter;
use crate::session::message::Challenge;
use ethbcast_transport::Instant;
use std::time::Duration;

const FIRST_CHALLENGE_PART: u32 = 4;
const NEXT_CHALLENGE_PART: u32 = 64;
const MAX_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct OpenChallenge {
    word: u64,
    since: Instant,
    again_at: Instant,
    unanswered: u8,
}

/// Challenges of one root, derived from a secret, so that nobody can guess them. The first is due
/// after a part of the limit without proof; further ones come at intervals of [`MAX_INTERVAL`] at
/// most, so that one lost response is not reported to the user as silence, and a root that returns
/// just before the limit is challenged once more. Stream frames that have arrived since the last
/// check prove that the root is alive, too.
#[derive(Clone, Debug)]
pub(super) struct LivenessChallenge {
    secret: u64,
    limit: Duration,
    period: Duration,
    questions: u64,
    proven_at: Instant,
    frames: u64,
    open: Option<OpenChallenge>,
}

impl LivenessChallenge {
    pub(super) fn new(now: Instant, secret: u64, timing: &Timing) -> LivenessChallenge {
        let (limit, period) = limit_and_period(timing);
        LivenessChallenge {
            secret,
            limit,
            period,
            questions: 0,
            proven_at: now,
            frames: 0,
            open: None,
        }
    }

    /// Takes the times of a session, which are longer among many receivers.
    pub(super) fn scale(&mut self, timing: &Timing) {
        (self.limit, self.period) = limit_and_period(timing);
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn on_frames(&mut self, now: Instant, frames: u64) {
        if frames > self.frames {
            self.frames = frames;
            self.prove(now);
        }
    }

    pub(super) fn on_response(&mut self, now: Instant, words: &[u64]) {
        if self.open.is_some_and(|open| words.contains(&open.word)) {
            self.prove(now);
        }
    }

    pub(super) fn prove(&mut self, now: Instant) {
        (self.proven_at, self.open) = (now, None);
    }

    pub(super) fn pending_since(&self) -> Option<Instant> {
        self.open.map(|open| open.since)
    }

    /// Time of the next challenge. The last proof may have reached all members at once, and a
    /// switch's port does not hold a thousand challenges, so each member adds a delay of its own.
    pub(super) fn due_at(&self) -> Instant {
        let first = || {
            self.proven_at + self.limit / FIRST_CHALLENGE_PART + jitter(self.period, self.secret)
        };
        self.open.map_or_else(first, |open| open.again_at)
    }

    /// Returns the challenge to send now, if one is due. Time in which this host did not run does
    /// not count against the root.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Challenge> {
        if now < self.due_at() {
            return None;
        }
        let again_at = now + self.period + jitter(self.period / 4, self.secret ^ now.as_nanos());
        let open = match self.open {
            Some(OpenChallenge {
                word,
                since,
                again_at: due,
                unanswered,
            }) => OpenChallenge {
                word,
                since: since + now.since(due),
                again_at,
                unanswered: unanswered.saturating_add(1),
            },
            None => OpenChallenge {
                word: self.next_challenge(),
                since: now,
                again_at,
                unanswered: 0,
            },
        };
        self.open = Some(open);
        Some(Challenge {
            word: open.word,
            unanswered: open.unanswered,
        })
    }

    fn next_challenge(&mut self) -> u64 {
        self.questions += 1;
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&self.secret.to_be_bytes())
            .update(&self.questions.to_be_bytes());
        let mut word = [0; 8];
        hasher.finalize_xof().fill(&mut word);
        u64::from_be_bytes(word)
    }
}

fn limit_and_period(timing: &Timing) -> (Duration, Duration) {
    let limit = timing.dead + timing.patience;
    (
        limit,
        (limit / NEXT_CHALLENGE_PART)
            .min(MAX_INTERVAL)
            .max(timing.status),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn challenge(limit: Duration, secret: u64) -> LivenessChallenge {
        let dead = Duration::from_millis(1500);
        LivenessChallenge::new(
            at(0),
            secret,
            &Timing {
                dead,
                patience: limit - dead,
                ..Timing::default()
            },
        )
    }

    fn asked(
        challenge: &mut LivenessChallenge,
        millis: std::ops::Range<u64>,
    ) -> Vec<(u64, Challenge)> {
        millis
            .filter_map(|millis| Some((millis, challenge.poll(at(millis))?)))
            .collect()
    }

    #[test]
    fn however_many_members_ask_a_root_it_gets_8000_challenges_a_second_at_most() {
        for receivers in [800, 2000, 5695, 10_000] {
            let timing = Timing::default().among(receivers);
            let mut challenge = challenge(Duration::from_secs(32), 7);
            challenge.scale(&timing);
            assert_eq!(challenge.limit(), timing.dead + timing.patience);
            let asked = asked(&mut challenge, 0..20_000);
            let apart = asked
                .windows(2)
                .map(|pair| Duration::from_millis(pair[1].0 - pair[0].0))
                .min();
            assert!(
                apart.expect("it asks again") >= timing.status,
                "{receivers}: {apart:?}"
            );
        }
    }

    #[test]
    fn a_root_is_asked_when_nothing_new_has_come_for_a_while_and_again_until_it_answers() {
        let mut challenge = challenge(Duration::from_secs(32), 7);
        assert_eq!(asked(&mut challenge, 0..8000), []);
        challenge.on_frames(at(7999), 3);
        challenge.on_frames(at(9000), 3);
        assert_eq!(
            asked(&mut challenge, 8000..15_999),
            [],
            "new frames are a proof, and old ones are none"
        );
        let questions = asked(&mut challenge, 15_999..20_000);
        let (first, again) = (questions[0], questions[1]);
        assert!(
            first.0 < 16_500 && (500..=626).contains(&(again.0 - first.0)),
            "{questions:?}"
        );
        assert!(
            questions
                .iter()
                .all(|(_, asked)| asked.word == first.1.word)
        );
        assert_eq!((first.1.unanswered, again.1.unanswered), (0, 1));
        let since = challenge.pending_since().expect("nobody has answered");
        assert!(
            since >= at(first.0) && since < at(first.0 + 10),
            "the limit counts from the first time"
        );
        challenge.on_response(at(20_000), &[first.1.word ^ 1]);
        assert!(challenge.pending_since().is_some(), "it is another word");
        challenge.on_response(at(20_000), &[1, first.1.word]);
        assert_eq!(challenge.pending_since(), None);
        let second = asked(&mut challenge, 20_000..28_500)[0];
        assert!(
            second.0 >= 28_000 && second.1.word != first.1.word,
            "{second:?}"
        );
        challenge.on_response(at(28_500), &[first.1.word]);
        assert!(challenge.pending_since().is_some(), "an answer counts once");
    }

    #[test]
    fn without_patience_challenges_are_no_more_frequent_than_signs_of_life() {
        let mut challenge = challenge(Duration::from_millis(1500), 7);
        let asked = asked(&mut challenge, 0..1875);
        assert!((10..=15).contains(&asked.len()), "{asked:?}");
        assert!(
            asked
                .windows(2)
                .all(|pair| (100..=126).contains(&(pair[1].0 - pair[0].0))),
            "{asked:?}"
        );
    }

    #[test]
    fn however_long_it_is_waited_for_an_answer_that_is_lost_is_asked_for_again_soon() {
        let mut challenge = challenge(Duration::from_secs(24 * 3600), 7);
        let asked = asked(&mut challenge, 6 * 3_600_000..6 * 3_600_000 + 3000);
        assert!(asked.len() >= 4, "{asked:?}");
    }

    #[test]
    fn a_thousand_who_have_heard_the_same_do_not_ask_together() {
        let mut first: Vec<Instant> = (0..1000_u64)
            .map(|one| challenge(Duration::from_secs(32), one).due_at())
            .collect();
        first.sort();
        assert!(
            first
                .windows(50)
                .all(|some| some[49].since(some[0]) > Duration::from_millis(5))
        );
    }

    #[test]
    fn a_host_that_slept_does_not_take_that_for_silence() {
        let mut challenge = challenge(Duration::from_secs(32), 7);
        let questions = asked(&mut challenge, 0..10_000);
        challenge.poll(at(100_000));
        let owed = at(100_000).since(challenge.pending_since().expect("nobody has answered"));
        assert!(owed < Duration::from_secs(3), "{owed:?} {questions:?}");
    }
}
