//! Before a session: who has asked to join, and whether that is enough.

use super::message::{Message, Refusal};
use super::view::MAX_MEMBERS;
use ethbcast_planning::natural_order;
use ethbcast_transport::wire::HEADER_BYTES;
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// How many receivers a root wants, and how long it waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Without this many the session fails when patience ends.
    pub at_least: usize,
    /// With this many it starts at once.
    pub enough: Option<usize>,
    /// How long to wait.
    pub patience: Duration,
}

impl Wanted {
    /// Exactly so many, within a minute.
    pub fn exactly(receivers: usize) -> Wanted {
        Wanted { at_least: receivers, enough: Some(receivers), patience: Duration::from_secs(60) }
    }
}

/// A host that has asked to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) host: String,
    pub(super) mac: MacAddr,
    pub(super) nonce: u64,
    pub(super) heard_at: Instant,
}

/// What the root offers, which decides who is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    /// The root's own name.
    pub(super) root: &'a str,
    pub(super) mtu_bytes: u16,
    pub(super) size: Option<u64>,
    pub(super) known_hosts: Option<&'a [String]>,
}

/// The candidates of a session that has not started.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub(super) candidates: Vec<Candidate>,
    /// Hosts that were turned away, with the reason last given.
    pub(super) refused: Vec<(String, Refusal)>,
}

/// What came of a request to join.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    New,
    Known,
    Refused { why: Refusal, text: String, first_time: bool },
}

impl Gathering {
    /// Takes a request to join.
    pub(super) fn on_join(&mut self, now: Instant, mac: MacAddr, join: &Message, offer: Offer<'_>, alive_for: Duration) -> Answer {
        let Message::Join { nonce, host, mtu_bytes, free_bytes, .. } = join else { return Answer::Known };
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| candidate.nonce == *nonce && candidate.mac == mac) {
            candidate.heard_at = now;
            return Answer::Known;
        }
        let alive = |candidate: &&Candidate| now.since(candidate.heard_at) < alive_for;
        let twin = self.candidates.iter().filter(alive).any(|candidate| candidate.mac == mac);
        let named = offer.root == host
            || self.candidates.iter().filter(alive).any(|candidate| candidate.host == *host && candidate.mac != mac);
        let full = self.candidates.len() >= most_receivers(offer.mtu_bytes);
        let refused = refusal(host, *mtu_bytes, *free_bytes, offer)
            .or_else(|| twin.then(|| (Refusal::Twin, twin_text(host))))
            .or_else(|| (named && offer.known_hosts.is_some()).then(|| (Refusal::Twin, namesake_text(host))))
            .or_else(|| full.then(|| (Refusal::Late, "the session is full: send to the rest in a second one".to_owned())));
        if let Some((why, text)) = refused {
            let first_time = !self.refused.iter().any(|(known, _)| known == host);
            if first_time {
                self.refused.push((host.clone(), why));
            }
            return Answer::Refused { why, text, first_time };
        }
        self.candidates.retain(|candidate| candidate.mac != mac);
        self.refused.retain(|(refused, _)| refused != host);
        let host = if named { format!("{host}@{mac}") } else { host.clone() };
        self.candidates.push(Candidate { host, mac, nonce: *nonce, heard_at: now });
        Answer::New
    }

    /// Forgets candidates that have not repeated their request; returns their names.
    pub(super) fn drop_silent(&mut self, now: Instant, alive_for: Duration) -> Vec<String> {
        let (stay, gone) = self.candidates.drain(..).partition(|candidate| now.since(candidate.heard_at) < alive_for);
        self.candidates = stay;
        let gone: Vec<Candidate> = gone;
        gone.into_iter().map(|candidate| candidate.host).collect()
    }

    /// The candidates in the order of their ranks: by name, numbers in names by value.
    pub(super) fn in_rank_order(&mut self) -> Vec<Candidate> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        candidates
    }
}

/// A verdict has a bit for each rank and goes into one frame.
fn most_receivers(mtu_bytes: u16) -> usize {
    let bytes = usize::from(mtu_bytes) - HEADER_BYTES - 1;
    (bytes * 8 - 1).min(MAX_MEMBERS - 1)
}

fn twin_text(host: &str) -> String {
    format!("another receiver of this group already runs on {host}; end it, or choose another group with -g")
}

fn namesake_text(host: &str) -> String {
    format!("another host of this session is called {host}, too; give each the name the topology file has for it, with --host NAME")
}

fn refusal(host: &str, mtu_bytes: u16, free_bytes: u64, offer: Offer<'_>) -> Option<(Refusal, String)> {
    if mtu_bytes < offer.mtu_bytes {
        let text = format!(
            "{host} has MTU {mtu_bytes}, the sender {}; raise it on {host}, or send with --mtu {mtu_bytes}",
            offer.mtu_bytes
        );
        return Some((Refusal::SmallMtu, text));
    }
    if let Some(size) = offer.size.filter(|&size| size > free_bytes) {
        let text =
            format!("{host} has {free_bytes} bytes free where DEST is, the file has {size}; make room or choose another DEST");
        return Some((Refusal::NoSpace, text));
    }
    if offer.known_hosts.is_some_and(|known| !known.iter().any(|name| name == host)) {
        let text = format!(
            "the topology file names no host {host}; add it, or start `ethbcast recv` with --host NAME as it is spelt there"
        );
        return Some((Refusal::NotInTopology, text));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(host: &str, nonce: u64) -> Message {
        Message::Join { nonce, group: "g".into(), host: host.into(), mtu_bytes: 1500, free_bytes: 1000 }
    }

    const OFFER: Offer<'_> = Offer { root: "n0", mtu_bytes: 1500, size: Some(1000), known_hosts: None };
    const ALIVE: Duration = Duration::from_millis(500);

    fn mac(last: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, last)
    }

    #[test]
    fn ranks_follow_the_numbers_in_the_names() {
        let mut gathering = Gathering::default();
        for (host, last) in [("n10", 1), ("n2", 2), ("n1", 3), ("m7", 4)] {
            assert_eq!(gathering.on_join(Instant::START, mac(last), &join(host, 9), OFFER, ALIVE), Answer::New);
        }
        let hosts: Vec<String> = gathering.in_rank_order().into_iter().map(|candidate| candidate.host).collect();
        assert_eq!(hosts, ["m7", "n1", "n2", "n10"]);
    }

    #[test]
    fn a_restarted_receiver_takes_the_place_of_its_silent_former_self_only() {
        let mut gathering = Gathering::default();
        gathering.on_join(Instant::START, mac(1), &join("n1", 1), OFFER, ALIVE);
        let soon = Instant::START + Duration::from_millis(100);
        assert!(matches!(
            gathering.on_join(soon, mac(1), &join("n1", 2), OFFER, ALIVE),
            Answer::Refused { why: Refusal::Twin, .. }
        ));
        let later = Instant::START + Duration::from_millis(600);
        assert_eq!(gathering.on_join(later, mac(1), &join("n1", 2), OFFER, ALIVE), Answer::New);
        assert_eq!(gathering.candidates.len(), 1);
    }

    #[test]
    fn namesakes_are_told_apart_by_address_unless_a_topology_must_tell_them_apart() {
        let mut gathering = Gathering::default();
        for (last, expected) in [(1, "n1"), (2, "n1@02:00:00:00:00:02")] {
            assert_eq!(gathering.on_join(Instant::START, mac(last), &join("n1", 1), OFFER, ALIVE), Answer::New);
            assert_eq!(gathering.candidates.last().map(|candidate| candidate.host.as_str()), Some(expected));
        }
        let known = ["n0".to_owned(), "n1".to_owned()];
        let offer = Offer { known_hosts: Some(&known), ..OFFER };
        for host in ["n0", "n1"] {
            let answer = gathering.on_join(Instant::START, mac(9), &join(host, 1), offer, ALIVE);
            assert!(matches!(answer, Answer::Refused { why: Refusal::Twin, .. }), "{answer:?}");
        }
    }

    #[test]
    fn who_cannot_take_part_is_told_why_and_what_to_do() {
        let mut gathering = Gathering::default();
        let known = ["n1".to_owned()];
        let offer = Offer { root: "n0", mtu_bytes: 9000, size: Some(2000), known_hosts: Some(&known) };
        let Answer::Refused { text, .. } = gathering.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE) else {
            panic!()
        };
        assert!(text.contains("--mtu 1500"));
        let offer = Offer { mtu_bytes: 1500, ..offer };
        let Answer::Refused { text, .. } = gathering.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE) else {
            panic!()
        };
        assert!(text.contains("2000"));
        let offer = Offer { size: None, ..offer };
        assert_eq!(gathering.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE), Answer::New);
        let Answer::Refused { text, .. } = gathering.on_join(Instant::START, mac(2), &join("n7", 1), offer, ALIVE) else {
            panic!()
        };
        assert!(text.contains("n7"));
    }
}
