//! Locates corruption. All members behind a faulty hop request the bytes again; the request nearest
//! to the root names the hop.

use super::Root;
use crate::session::message::Fetch;
use crate::session::verified::{Form, amount};
use crate::session::view::View;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Wait for hosts nearer to the root to find the damage too, after the last request from below: two
/// status periods.
const TOLD_AFTER: Duration = Duration::from_millis(200);

/// Maximum number of damages whose hop is searched for; further ones are ignored.
const MAX_RECORDS: usize = 256;

/// Bytes that came damaged over a hop, and were sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Range of the content, in bytes.
    pub bytes: Range<u64>,
    /// Whether the hash list of these bytes was damaged instead of the bytes.
    pub is_ledger: bool,
    /// Sender of the damaged bytes, if it was one host alone.
    pub from: Option<String>,
    /// Hosts that received them damaged: several in a broadcast, or behind a host that sends to
    /// several.
    pub to: Vec<String>,
}

impl Root {
    /// Returns the ranges that a member received damaged and were re-sent, each with its hop as far
    /// as known.
    pub fn damages(&self) -> Vec<Damage> {
        let form = self.endpoint.config().form;
        self.phase.running().map(|running| running.fetches().damages(running.view(), form)).unwrap_or_default()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { bytes: Range { start, end }, is_ledger, from, to } = self;
        let (ledger, were) = if *is_ledger { ("the ledger of ", "was") } else { ("", "were") };
        let from = from.as_ref().map_or(String::new(), |from| format!("from {from} "));
        let (bytes, to) = (amount(end - start), nodeset::fold(to));
        write!(formatter, "{ledger}{bytes} at byte {start} came damaged {from}to {to} and {were} sent again")
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
        let (bytes, is_ledger) = form.content_of(&self.bytes, view.size.unwrap_or(u64::MAX));
        let host = |rank: Rank| view.members.get(rank.index()).map(|member| member.host.clone());
        let first = self.hops.iter().filter(|(from, _)| !self.askers.contains(from));
        let mut senders: BTreeSet<Rank> = first.clone().map(|&(from, _)| from).collect();
        if senders.len() > 1 {
            senders.remove(&Rank::NONE);
        }
        let damage = |from: Rank| {
            let to = first.clone().filter(|(sender, _)| *sender == from).filter_map(|&(_, to)| host(to)).collect();
            (from, Damage { bytes: bytes.clone(), is_ledger, from: host(from), to })
        };
        senders.into_iter().map(damage).collect()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Damages {
    records: Vec<Record>,
}

impl Damages {
    pub(super) fn note(&mut self, now: Instant, fetch: &Fetch) {
        let Fetch { rank, bytes, blamed, .. } = fetch;
        let at = self.records.iter().position(|record| record.meets(bytes)).unwrap_or(self.records.len());
        if at == self.records.len() {
            if at >= MAX_RECORDS {
                return;
            }
            let (askers, hops, told) = Default::default();
            self.records.push(Record { bytes: bytes.clone(), noted_at: now, askers, hops, told });
        }
        let record = &mut self.records[at];
        if record.askers.insert(*rank) {
            record.hops.insert((*blamed, *rank));
            record.noted_at = now;
        }
    }

    pub(super) fn concern(&self, rank: Rank, bytes: &Range<u64>) -> bool {
        self.records.iter().any(|record| record.meets(bytes) && record.askers.contains(&rank))
    }

    pub(super) fn news(&mut self, now: Instant, over: bool, view: &View, form: Form) -> Vec<Damage> {
        let due = |record: &&mut Record| over || now.since(record.noted_at) >= TOLD_AFTER;
        let mut news = Vec::new();
        for record in self.records.iter_mut().filter(due) {
            let damages = record.damages(view, form).into_iter();
            news.extend(damages.filter(|(from, _)| record.told.insert(*from)).map(|(_, damage)| damage));
        }
        news
    }

    pub(super) fn all(&self, view: &View, form: Form) -> Vec<Damage> {
        self.records.iter().flat_map(|record| record.damages(view, form)).map(|(_, damage)| damage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::view::tests::chain;

    fn fetch(rank: u16, blamed: u16, bytes: Range<u64>) -> Fetch {
        Fetch { rank: Rank(rank), bytes, attempt: 1, blamed: Rank(blamed) }
    }

    fn told(damages: &mut Damages, millis: u64, over: bool) -> Vec<String> {
        let now = Instant::START + Duration::from_millis(millis);
        damages.news(now, over, &chain(8), Form::Plain).iter().map(ToString::to_string).collect()
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
        assert_eq!(told(&mut damages, 100, false), [""; 0], "another may still ask");
        let words =
            |at: u32, from, to| format!("64 KiB at byte {at} came damaged from {from} to {to} and were sent again");
        assert_eq!(told(&mut damages, 200, false), [words(65_536, "n3", "n4")]);
        assert_eq!(told(&mut damages, 250, false), [words(0, "n1", "n2")], "so long after the last who asked");
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
        damages.note(Instant::START, &Fetch { blamed: Rank::NONE, ..fetch(3, 0, 30..40) });
        assert_eq!(told(&mut damages, 1, true), ["10 bytes at byte 30 came damaged to n3 and were sent again"]);
        (0..100_000).for_each(|at| damages.note(Instant::START, &fetch(1, 0, at * 10..at * 10 + 5)));
        assert_eq!(
            damages.all(&chain(8), Form::Plain).len(),
            MAX_RECORDS,
            "whoever asks for everything fills no memory"
        );
    }
}
