//! Want-bitmaps of a selective session, collected stretch by stretch until it is decided which
//! chunks go to all.

use crate::session::message::Needs as Word;
use crate::session::verified::{ChunkSet, ChunkSize, MAX_AHEAD, StretchPlace};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::BTreeMap;
use std::time::Duration;

/// Amount that members lack of a content of which some already hold a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Bytes sent to all, because several members lack them.
    pub together_bytes: u64,
    /// Bytes sent to single members, because no other lacks them.
    pub alone_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MemberWants {
    decided: u64,
    said: BTreeMap<u64, BTreeMap<Rank, ChunkSet>>,
    since: Option<Instant>,
    lacking: Lacking,
    decision: Option<(u64, ChunkSet)>,
}

impl MemberWants {
    /// Records a member's want-bitmap if it is valid. Returns whether it is the member's first for
    /// an undecided stretch. Bitmaps of one member are merged, so that a forged one costs bytes and
    /// nothing else.
    pub(super) fn on_needs(
        &mut self,
        rank: Rank,
        word: &Word,
        (chunk, content_bytes): (ChunkSize, u64),
    ) -> Option<bool> {
        let Word { stretch, set } = word;
        let place = StretchPlace::of(chunk, *stretch, content_bytes);
        let set = ChunkSet::read(place?.chunks(), set)?;
        if *stretch >= self.decided + MAX_AHEAD {
            return None;
        }
        if *stretch < self.decided {
            return Some(false);
        }
        let said = self.said.entry(*stretch).or_default();
        let is_first = !said.contains_key(&rank);
        let said = said.entry(rank).or_default();
        *said = said.or(&set);
        Some(is_first)
    }

    /// Decides which chunks of a stretch go to all, once all of `waited_for` have reported or
    /// `limit` has passed. Also returns the members that had not reported. `served` is the number
    /// of members that may lack something.
    pub(super) fn decide(
        &mut self,
        now: Instant,
        place: &StretchPlace,
        waited_for: &[Rank],
        served: usize,
        limit: Duration,
    ) -> Option<(ChunkSet, Vec<Rank>)> {
        let stretch = place.number();
        if let Some((_, decision)) = self.decision.filter(|(decided, _)| *decided == stretch) {
            return Some((decision, Vec::new()));
        }
        let since = *self.since.get_or_insert(now);
        let said = self.said.get(&stretch);
        let silent = |rank: &&Rank| said.is_none_or(|said| !said.contains_key(*rank));
        let silent: Vec<Rank> = waited_for.iter().filter(silent).copied().collect();
        if !silent.is_empty() && now.since(since) < limit {
            return None;
        }
        let said = self.said.remove(&stretch).unwrap_or_default();
        let (mut some, mut several) = (ChunkSet::default(), ChunkSet::default());
        for set in said.values() {
            several = several.or(&some.and(set));
            some = some.or(set);
        }
        // A single member is served by the main stream, too: there are no others.
        let decision = if served > 1 { several } else { some };
        let bytes = |set: ChunkSet| set.iter().map(|chunk| place.chunk_bytes(chunk) as u64).sum::<u64>();
        self.lacking.together_bytes += bytes(decision);
        self.lacking.alone_bytes += bytes(some.without(&decision));
        (self.decided, self.since, self.decision) = (stretch + 1, None, Some((stretch, decision)));
        self.said.retain(|said, _| *said > stretch);
        Some((decision, silent))
    }

    pub(super) fn lacking(&self) -> Lacking {
        self.lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: u64 = 640 << 20;

    fn word(stretch: u64, chunks: &[usize]) -> Word {
        let mut set = Vec::new();
        chunks.iter().copied().collect::<ChunkSet>().write(1024, &mut set);
        Word { stretch, set }
    }

    #[test]
    fn what_two_lack_is_sent_to_all_what_one_lacks_is_not_and_what_is_said_twice_counts_once() {
        let (mut needs, limit) = (MemberWants::default(), Duration::from_secs(10));
        let ranks = [1, 2, 3].map(Rank);
        let place = |stretch| StretchPlace::of(ChunkSize::DEFAULT, stretch, CONTENT).expect("the content has so many");
        let at = |seconds: u64| Instant::START + Duration::from_secs(seconds);
        let tell = |needs: &mut MemberWants, rank: u16, stretch, chunks: &[usize]| {
            needs.on_needs(Rank(rank), &word(stretch, chunks), (ChunkSize::DEFAULT, CONTENT)).expect("it can be a word")
        };
        assert!(tell(&mut needs, 1, 0, &[1, 2]) && !tell(&mut needs, 1, 0, &[1, 2]) && tell(&mut needs, 2, 0, &[2, 3]));
        assert_eq!(needs.decide(at(0), &place(0), &ranks, 3, limit), None, "rank 3 has not spoken");
        assert!(tell(&mut needs, 3, 0, &[3]) && tell(&mut needs, 3, 1, &[5]));
        let union = ChunkSet::from_iter([2, 3]);
        assert_eq!(needs.decide(at(1), &place(0), &ranks, 3, limit), Some((union, vec![])));
        assert!(!tell(&mut needs, 1, 0, &[9]), "too late is no fault, and no progress");
        assert_eq!(needs.decide(at(1), &place(0), &ranks, 3, limit), Some((union, vec![])), "and changes nothing");
        assert_eq!(needs.decide(at(2), &place(1), &ranks, 3, limit), None);
        let late = Some((ChunkSet::default(), vec![Rank(1), Rank(2)]));
        assert_eq!(needs.decide(at(12), &place(1), &ranks, 3, limit), late, "the others go on");
        assert!(tell(&mut needs, 1, 2, &[7]));
        assert_eq!(needs.decide(at(12), &place(2), &[Rank(1)], 1, limit), Some((ChunkSet::from_iter([7]), vec![])));
        let lacking = Lacking { together_bytes: 3 << 16, alone_bytes: 2 << 16 };
        assert_eq!(needs.lacking(), lacking, "2 and 3 for several, 7 for the only one; 1 and 5 for one of several");
    }

    #[test]
    fn words_of_stretches_that_are_not_asked_for_and_what_is_no_set_are_refused() {
        let mut needs = MemberWants::default();
        let mut refused =
            |word: &Word, content_bytes| needs.on_needs(Rank(1), word, (ChunkSize::DEFAULT, content_bytes)).is_none();
        assert!(refused(&word(MAX_AHEAD, &[]), CONTENT), "so far nobody is asked");
        assert!(refused(&word(10, &[]), CONTENT) && refused(&word(u64::MAX, &[]), CONTENT));
        assert!(refused(&Word { stretch: 0, set: vec![9, 9, 9] }, CONTENT));
        assert!(refused(&word(0, &[4]), 3 * 65_536), "the content has three chunks");
        assert!(needs.said.is_empty());
    }
}
