//! Parts of the content that receivers have requested, or have reported as damaged.

use crate::session::message::{Fetch, Needs as Word};
use crate::session::verified::{ChunkSet, ChunkSize, Form, MAX_AHEAD, StretchPlace, amount};
use crate::session::view::View;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
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
pub struct MemberWants {
    decided: u64,
    said: BTreeMap<u64, BTreeMap<Rank, ChunkSet>>,
    since: Option<Instant>,
    lacking: Lacking,
    decision: Option<(u64, ChunkSet)>,
    undecided: Vec<Rank>,
}

impl MemberWants {
    /// Records a member's want-bitmap if it is valid. Returns whether it is the member's first for
    /// an undecided stretch. Bitmaps of one member are merged, so that a forged one costs bytes and
    /// nothing else.
    pub fn on_needs(
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
    pub fn decide(
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
            self.undecided = silent;
            return None;
        }
        self.undecided.clear();
        let said = self.said.remove(&stretch).unwrap_or_default();
        let (mut some, mut several) = (ChunkSet::default(), ChunkSet::default());
        for set in said.values() {
            several = several.or(&some.and(set));
            some = some.or(set);
        }
        // A single member is served by the main stream: there is no other to share it with.
        let decision = if served > 1 { several } else { some };
        let bytes = |set: ChunkSet| {
            set.iter()
                .map(|chunk| place.chunk_bytes(chunk) as u64)
                .sum::<u64>()
        };
        self.lacking.together_bytes += bytes(decision);
        self.lacking.alone_bytes += bytes(some.without(&decision));
        (self.decided, self.since, self.decision) = (stretch + 1, None, Some((stretch, decision)));
        self.said.retain(|said, _| *said > stretch);
        Some((decision, silent))
    }

    pub fn lacking(&self) -> Lacking {
        self.lacking
    }

    pub fn undecided(&self) -> &[Rank] {
        &self.undecided
    }
}

/// Wait for hosts nearer to the root to find the damage too, after the last request from below: two
/// status periods.
const DAMAGE_NOTICE_AFTER: Duration = Duration::from_millis(200);

const MAX_DAMAGES: usize = 256;

/// Bytes that came damaged over a hop, and were sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Range of the content, in bytes.
    pub bytes: Range<u64>,
    /// Whether the hash list of these bytes was damaged instead of the bytes.
    pub is_hash_list: bool,
    /// Sender of the damaged bytes, if it was one host alone.
    pub from: Option<String>,
    /// Hosts that received them damaged: several in a broadcast, or behind a host that sends to
    /// several.
    pub to: Vec<String>,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage {
            bytes: Range { start, end },
            is_hash_list,
            from,
            to,
        } = self;
        let (hash_list, were) = if *is_hash_list {
            ("the hash list of ", "was")
        } else {
            ("", "were")
        };
        let from = from
            .as_ref()
            .map_or(String::new(), |from| format!("from {from} "));
        let (bytes, to) = (amount(end - start), nodeset::fold(to));
        write!(
            formatter,
            "{hash_list}{bytes} at byte {start} came damaged {from}to {to} and {were} sent again"
        )
    }
}

#[derive(Clone, Debug)]
struct Record {
    bytes: Range<u64>,
    noted_at: Instant,
    askers: BTreeSet<Rank>,
    hops: BTreeSet<(Rank, Rank)>,
    told: BTreeSet<Rank>,
}

impl Record {
    fn meets(&self, bytes: &Range<u64>) -> bool {
        bytes.start < self.bytes.end && self.bytes.start < bytes.end
    }

    /// Returns the hops nearest to the root, by sender: those whose sender has not requested the
    /// bytes itself. Hops without a known sender are returned only if there are no others.
    fn damages(&self, view: &View, form: Form) -> Vec<(Rank, Damage)> {
        let (bytes, is_hash_list) = form.content_of(&self.bytes, view.size.unwrap_or(u64::MAX));
        let host = |rank: Rank| {
            view.members
                .get(rank.index())
                .map(|member| member.host.clone())
        };
        let first = self
            .hops
            .iter()
            .filter(|(from, _)| !self.askers.contains(from));
        let mut senders: BTreeSet<Rank> = first.clone().map(|&(from, _)| from).collect();
        if senders.len() > 1 {
            senders.remove(&Rank::NONE);
        }
        let damage = |from: Rank| {
            let to = first
                .clone()
                .filter(|(sender, _)| *sender == from)
                .filter_map(|&(_, to)| host(to))
                .collect();
            (
                from,
                Damage {
                    bytes: bytes.clone(),
                    is_hash_list,
                    from: host(from),
                    to,
                },
            )
        };
        senders.into_iter().map(damage).collect()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Damages {
    records: Vec<Record>,
}

impl Damages {
    pub fn note(&mut self, now: Instant, fetch: &Fetch) {
        let Fetch {
            rank,
            bytes,
            blamed,
            ..
        } = fetch;
        let at = self
            .records
            .iter()
            .position(|record| record.meets(bytes))
            .unwrap_or(self.records.len());
        if at == self.records.len() {
            if at >= MAX_DAMAGES {
                return;
            }
            let (askers, hops, told) = Default::default();
            self.records.push(Record {
                bytes: bytes.clone(),
                noted_at: now,
                askers,
                hops,
                told,
            });
        }
        let record = &mut self.records[at];
        if record.askers.insert(*rank) {
            record.hops.insert((*blamed, *rank));
            record.noted_at = now;
        }
    }

    pub fn concern(&self, rank: Rank, bytes: &Range<u64>) -> bool {
        self.records
            .iter()
            .any(|record| record.meets(bytes) && record.askers.contains(&rank))
    }

    pub fn news(&mut self, now: Instant, over: bool, view: &View, form: Form) -> Vec<Damage> {
        let due = |record: &&mut Record| over || now.since(record.noted_at) >= DAMAGE_NOTICE_AFTER;
        let mut news = Vec::new();
        for record in self.records.iter_mut().filter(due) {
            let damages = record.damages(view, form).into_iter();
            news.extend(
                damages
                    .filter(|(from, _)| record.told.insert(*from))
                    .map(|(_, damage)| damage),
            );
        }
        news
    }

    pub fn all(&self, view: &View, form: Form) -> Vec<Damage> {
        self.records
            .iter()
            .flat_map(|record| record.damages(view, form))
            .map(|(_, damage)| damage)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: u64 = 640 << 20;

    fn word(stretch: u64, chunks: &[usize]) -> Word {
        let mut set = Vec::new();
        chunks
            .iter()
            .copied()
            .collect::<ChunkSet>()
            .write(1024, &mut set);
        Word { stretch, set }
    }

    #[test]
    fn chunks_that_two_lack_are_sent_to_all_and_a_repeated_report_counts_once() {
        let (mut needs, limit) = (MemberWants::default(), Duration::from_secs(10));
        let ranks = [1, 2, 3].map(Rank);
        let place = |stretch| {
            StretchPlace::of(ChunkSize::DEFAULT, stretch, CONTENT).expect("the content has so many")
        };
        let at = |seconds: u64| Instant::START + Duration::from_secs(seconds);
        let tell = |needs: &mut MemberWants, rank: u16, stretch, chunks: &[usize]| {
            needs
                .on_needs(
                    Rank(rank),
                    &word(stretch, chunks),
                    (ChunkSize::DEFAULT, CONTENT),
                )
                .expect("it can be a word")
        };
        assert!(
            tell(&mut needs, 1, 0, &[1, 2])
                && !tell(&mut needs, 1, 0, &[1, 2])
                && tell(&mut needs, 2, 0, &[2, 3])
        );
        assert_eq!(
            needs.decide(at(0), &place(0), &ranks, 3, limit),
            None,
            "rank 3 has not spoken"
        );
        assert!(tell(&mut needs, 3, 0, &[3]) && tell(&mut needs, 3, 1, &[5]));
        let union = ChunkSet::from_iter([2, 3]);
        assert_eq!(
            needs.decide(at(1), &place(0), &ranks, 3, limit),
            Some((union, vec![]))
        );
        assert!(
            !tell(&mut needs, 1, 0, &[9]),
            "too late is no fault, and no progress"
        );
        assert_eq!(
            needs.decide(at(1), &place(0), &ranks, 3, limit),
            Some((union, vec![])),
            "and changes nothing"
        );
        assert_eq!(needs.decide(at(2), &place(1), &ranks, 3, limit), None);
        let late = Some((ChunkSet::default(), vec![Rank(1), Rank(2)]));
        assert_eq!(
            needs.decide(at(12), &place(1), &ranks, 3, limit),
            late,
            "the others go on"
        );
        assert!(tell(&mut needs, 1, 2, &[7]));
        assert_eq!(
            needs.decide(at(12), &place(2), &[Rank(1)], 1, limit),
            Some((ChunkSet::from_iter([7]), vec![]))
        );
        let lacking = Lacking {
            together_bytes: 3 << 16,
            alone_bytes: 2 << 16,
        };
        assert_eq!(
            needs.lacking(),
            lacking,
            "2 and 3 for several, 7 for the only one; 1 and 5 for one of several"
        );
    }

    #[test]
    fn words_of_stretches_that_are_not_asked_for_and_what_is_no_set_are_refused() {
        let mut needs = MemberWants::default();
        let mut refused = |word: &Word, content_bytes| {
            needs
                .on_needs(Rank(1), word, (ChunkSize::DEFAULT, content_bytes))
                .is_none()
        };
        assert!(
            refused(&word(MAX_AHEAD, &[]), CONTENT),
            "so far nobody is asked"
        );
        assert!(refused(&word(10, &[]), CONTENT) && refused(&word(u64::MAX, &[]), CONTENT));
        assert!(refused(
            &Word {
                stretch: 0,
                set: vec![9, 9, 9]
            },
            CONTENT
        ));
        assert!(
            refused(&word(0, &[4]), 3 * 65_536),
            "the content has three chunks"
        );
        assert!(needs.said.is_empty());
    }
}

#[cfg(test)]
mod damage_tests {
    use super::*;
    use crate::session::view::tests::chain;

    fn fetch(rank: u16, blamed: u16, bytes: Range<u64>) -> Fetch {
        Fetch {
            rank: Rank(rank),
            bytes,
            attempt: 1,
            blamed: Rank(blamed),
        }
    }

    fn told(damages: &mut Damages, millis: u64, over: bool) -> Vec<String> {
        let now = Instant::START + Duration::from_millis(millis);
        damages
            .news(now, over, &chain(8), Form::Plain)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_uppermost_of_those_who_ask_names_the_hop_once() {
        let mut damages = Damages::default();
        // The requests come in any order. Then a second damage occurs, and the rest of the first is
        // requested.
        for (rank, blamed) in [(5, 4), (7, 6), (4, 3), (6, 5)] {
            damages.note(Instant::START, &fetch(rank, blamed, 65_536..131_072));
        }
        damages.note(Instant::START, &fetch(2, 1, 0..65_536));
        let later = Instant::START + Duration::from_millis(50);
        damages.note(later, &fetch(3, 2, 0..65_536));
        damages.note(Instant::START, &fetch(7, 6, 100_000..131_072));
        assert_eq!(
            told(&mut damages, 100, false),
            [""; 0],
            "another may still ask"
        );
        let words = |at: u32, from, to| {
            format!("64 KiB at byte {at} came damaged from {from} to {to} and were sent again")
        };
        assert_eq!(told(&mut damages, 200, false), [words(65_536, "n3", "n4")]);
        assert_eq!(
            told(&mut damages, 250, false),
            [words(0, "n1", "n2")],
            "so long after the last who asked"
        );
        assert_eq!(told(&mut damages, 900, true), [""; 0], "once");
        assert_eq!(damages.all(&chain(8), Form::Plain).len(), 2);
    }

    #[test]
    fn a_cast_names_the_root_and_all_whom_it_did_not_reach_well() {
        let mut damages = Damages::default();
        (1..8).for_each(|rank| damages.note(Instant::START, &fetch(rank, 0, 10..20)));
        assert_eq!(
            told(&mut damages, 1, true),
            ["10 bytes at byte 10 came damaged from n0 to n[1-7] and were sent again"]
        );
        damages.note(
            Instant::START,
            &Fetch {
                blamed: Rank::NONE,
                ..fetch(3, 0, 30..40)
            },
        );
        assert_eq!(
            told(&mut damages, 1, true),
            ["10 bytes at byte 30 came damaged to n3 and were sent again"]
        );
        (0..100_000)
            .for_each(|at| damages.note(Instant::START, &fetch(1, 0, at * 10..at * 10 + 5)));
        assert_eq!(
            damages.all(&chain(8), Form::Plain).len(),
            MAX_DAMAGES,
            "whoever asks for everything fills no memory"
        );
    }
}
