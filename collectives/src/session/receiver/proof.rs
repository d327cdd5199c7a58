//! Whether the root lives, by words that nobody can have heard before.
//!
//! Whatever a root says to all may be said again by somebody who has heard it, as often as he likes: its frames alone
//! prove nothing. A member to which nothing new comes asks, now and then, for a word of its own back.

use crate::session::message::Challenge;
use ethbcast_transport::Instant;
use std::time::Duration;

/// A member asks when nothing has proved for this part of the limit that the root lives, and repeats it after so much
/// smaller a part: a root that comes back just before the limit is asked once more.
const DOUBT: u32 = 4;
const AGAIN: u32 = 64;

/// A question that the root has not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    word: u64,
    since: Instant,
    again_at: Instant,
    unanswered: u8,
}

/// When the root has proved last that it lives, and what it has been asked.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    /// Nobody else can guess what comes of it.
    secret: u64,
    questions: u64,
    proven_at: Instant,
    /// Frames of the stream that had arrived when it was looked at last: more of them are news, and thus a proof.
    frames: u64,
    open: Option<Open>,
}

impl Proof {
    /// Begins with a root that was heard `now`.
    pub(super) fn new(now: Instant, secret: u64) -> Proof {
        Proof { secret, questions: 0, proven_at: now, frames: 0, open: None }
    }

    /// So many frames of the stream have arrived in order.
    pub(super) fn on_frames(&mut self, now: Instant, frames: u64) {
        if frames > self.frames {
            self.frames = frames;
            self.prove(now);
        }
    }

    /// The root says a word back.
    pub(super) fn on_response(&mut self, now: Instant, word: u64) {
        if self.open.is_some_and(|open| open.word == word) {
            self.prove(now);
        }
    }

    /// Something has proved that it lives.
    pub(super) fn prove(&mut self, now: Instant) {
        (self.proven_at, self.open) = (now, None);
    }

    /// Since when the root has been asked in vain.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.open.map(|open| open.since)
    }

    /// When it is asked next, if its silence may last for `limit`.
    pub(super) fn ask_at(&self, limit: Duration) -> Instant {
        self.open.map_or(self.proven_at + limit / DOUBT, |open| open.again_at)
    }

    /// What it is to be asked now, no more often than once in `least`.
    pub(super) fn poll(&mut self, now: Instant, limit: Duration, least: Duration) -> Option<Challenge> {
        if now < self.ask_at(limit) {
            return None;
        }
        let again_at = now + (limit / AGAIN).max(least);
        let open = match self.open {
            Some(open) => Open { again_at, unanswered: open.unanswered.saturating_add(1), ..open },
            None => Open { word: self.next_word(), since: now, again_at, unanswered: 0 },
        };
        self.open = Some(open);
        Some(Challenge { word: open.word, unanswered: open.unanswered })
    }

    fn next_word(&mut self) -> u64 {
        self.questions += 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.secret.to_be_bytes()).update(&self.questions.to_be_bytes());
        let mut word = [0; 8];
        hasher.finalize_xof().fill(&mut word);
        u64::from_be_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(32);
    const LEAST: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn a_root_is_asked_when_nothing_new_has_come_for_a_while_and_again_until_it_answers() {
        let mut proof = Proof::new(at(0), 7);
        assert_eq!((proof.ask_at(LIMIT), proof.poll(at(7999), LIMIT, LEAST)), (at(8000), None));
        proof.on_frames(at(7999), 3);
        proof.on_frames(at(9000), 3);
        assert_eq!(proof.poll(at(15_998), LIMIT, LEAST), None, "new frames are a proof, and old ones are none");
        let first = proof.poll(at(16_000), LIMIT, LEAST).expect("it is time");
        let again = proof.poll(at(16_500), LIMIT, LEAST).expect("it is time again");
        assert_eq!((again.word, first.unanswered, again.unanswered), (first.word, 0, 1));
        assert_eq!(proof.unanswered_since(), Some(at(16_000)), "the limit counts from the first time");
        proof.on_response(at(16_600), first.word ^ 1);
        assert!(proof.unanswered_since().is_some(), "it is another word");
        proof.on_response(at(16_700), first.word);
        assert_eq!((proof.unanswered_since(), proof.ask_at(LIMIT)), (None, at(24_700)));
        let second = proof.poll(at(24_700), LIMIT, LEAST).expect("it is time");
        proof.on_response(at(24_800), first.word);
        assert!(second.word != first.word && proof.unanswered_since().is_some(), "an answer counts once");
    }

    #[test]
    fn where_nobody_has_patience_it_is_asked_no_more_often_than_hosts_speak() {
        let (mut proof, limit) = (Proof::new(at(0), 7), Duration::from_millis(1500));
        let asked: Vec<u64> = (0..1500).filter(|&millis| proof.poll(at(millis), limit, LEAST).is_some()).collect();
        assert_eq!(asked.len(), 12, "{asked:?}");
        assert!(asked.windows(2).all(|pair| pair[1] - pair[0] == 100), "{asked:?}");
    }
}
