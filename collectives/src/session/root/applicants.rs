//! Who has asked to join a session that has not started, and who was turned away.

use crate::session::message::{Message, Refusal};
use crate::session::view::MAX_MEMBERS;
use ethbcast_planning::natural_order;
use ethbcast_transport::wire::HEADER_BYTES;
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// A host that has asked to join and was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applicant {
    pub host: String,
    pub mac: MacAddr,
    /// Names this run of its receiver.
    pub nonce: u64,
    heard_at: Instant,
}

/// What the root offers, which decides who is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    /// The root's own name.
    pub root: &'a str,
    pub mtu_bytes: u16,
    pub size: Option<u64>,
    /// The hosts of the topology, if there is one.
    pub known_hosts: Option<&'a [String]>,
}

/// What came of a request to join.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    New,
    Known,
    Refused { why: Refusal, text: String, first_time: bool },
}

/// All who have asked to join.
#[derive(Debug, Default)]
pub(super) struct Applicants {
    admitted: Vec<Applicant>,
    /// Hosts that were turned away, with the reason last given.
    refused: Vec<(String, Refusal)>,
}

impl Applicants {
    /// Takes a request to join; an applicant that has not repeated its own for `alive_for` does not stand in the way of
    /// another.
    pub(super) fn on_join(
        &mut self,
        now: Instant,
        mac: MacAddr,
        join: &Message,
        offer: Offer<'_>,
        alive_for: Duration,
    ) -> Answer {
        let Message::Join { nonce, host, mtu_bytes, free_bytes, .. } = join else { return Answer::Known };
        if let Some(applicant) =
            self.admitted.iter_mut().find(|applicant| applicant.nonce == *nonce && applicant.mac == mac)
        {
            applicant.heard_at = now;
            return Answer::Known;
        }
        let alive = |applicant: &&Applicant| now.since(applicant.heard_at) < alive_for;
        let twin = self.admitted.iter().filter(alive).any(|applicant| applicant.mac == mac);
        let named = offer.root == host
            || self.admitted.iter().filter(alive).any(|applicant| applicant.host == *host && applicant.mac != mac);
        let full = self.admitted.len() >= most_receivers(offer.mtu_bytes);
        let refused = refusal(host, *mtu_bytes, *free_bytes, offer)
            .or_else(|| twin.then(|| (Refusal::Twin, twin_text(host))))
            .or_else(|| (named && offer.known_hosts.is_some()).then(|| (Refusal::Twin, namesake_text(host))))
            .or_else(|| {
                full.then(|| (Refusal::Late, "the session is full: send to the rest in a second one".to_owned()))
            });
        if let Some((why, text)) = refused {
            let first_time = !self.refused.iter().any(|(known, _)| known == host);
            if first_time {
                self.refused.push((host.clone(), why));
            }
            return Answer::Refused { why, text, first_time };
        }
        self.admitted.retain(|applicant| applicant.mac != mac);
        self.refused.retain(|(refused, _)| refused != host);
        let host = if named { format!("{host}@{mac}") } else { host.clone() };
        self.admitted.push(Applicant { host, mac, nonce: *nonce, heard_at: now });
        Answer::New
    }

    /// How many would be members.
    pub(super) fn len(&self) -> usize {
        self.admitted.len()
    }

    /// Whether this run of a receiver has been let in.
    pub(super) fn has(&self, nonce: u64) -> bool {
        self.admitted.iter().any(|applicant| applicant.nonce == nonce)
    }

    /// Somebody from the middle of the list.
    pub(super) fn sample(&self) -> Option<&Applicant> {
        self.admitted.get(self.admitted.len() / 2)
    }

    /// Forgets applicants that have not repeated their request; returns their names.
    pub(super) fn drop_silent(&mut self, now: Instant, alive_for: Duration) -> Vec<String> {
        let gone = self.admitted.extract_if(.., |applicant| now.since(applicant.heard_at) >= alive_for);
        gone.map(|applicant| applicant.host).collect()
    }

    /// Those let in, in the order of their ranks (by name, numbers in names by value), and those turned away.
    pub(super) fn take(&mut self) -> (Vec<Applicant>, Vec<(String, Refusal)>) {
        let Applicants { mut admitted, refused } = std::mem::take(self);
        admitted.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        (admitted, refused)
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
    format!(
        "another host of this session is called {host}, too; give each the name the topology file has for it, with \
         --host NAME"
    )
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
        let text = format!(
            "{host} has {free_bytes} bytes free where DEST is, the file has {size}; make room or choose another DEST"
        );
        return Some((Refusal::NoSpace, text));
    }
    if offer.known_hosts.is_some_and(|known| !known.iter().any(|name| name == host)) {
        let text = format!(
            "the topology file names no host {host}; add it, or start `ethbcast recv` with --host NAME as it is spelt \
             there"
        );
        return Some((Refusal::NotInTopology, text));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(host: &str, nonce: u64) -> Message {
        Message::Join { nonce, group: "g".into(), host: host.into(), mtu_bytes: 1500, free_bytes: 1000, features: 0 }
    }

    const OFFER: Offer<'_> = Offer { root: "n0", mtu_bytes: 1500, size: Some(1000), known_hosts: None };
    const ALIVE: Duration = Duration::from_millis(500);

    fn mac(last: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, last)
    }

    #[test]
    fn ranks_follow_the_numbers_in_the_names() {
        let mut applicants = Applicants::default();
        for (host, last) in [("n10", 1), ("n2", 2), ("n1", 3), ("m7", 4)] {
            assert_eq!(applicants.on_join(Instant::START, mac(last), &join(host, 9), OFFER, ALIVE), Answer::New);
        }
        let hosts: Vec<String> = applicants.take().0.into_iter().map(|applicant| applicant.host).collect();
        assert_eq!(hosts, ["m7", "n1", "n2", "n10"]);
    }

    #[test]
    fn a_restarted_receiver_takes_the_place_of_its_silent_former_self_only() {
        let mut applicants = Applicants::default();
        applicants.on_join(Instant::START, mac(1), &join("n1", 1), OFFER, ALIVE);
        let soon = Instant::START + Duration::from_millis(100);
        assert!(matches!(
            applicants.on_join(soon, mac(1), &join("n1", 2), OFFER, ALIVE),
            Answer::Refused { why: Refusal::Twin, .. }
        ));
        let later = Instant::START + Duration::from_millis(600);
        assert_eq!(applicants.on_join(later, mac(1), &join("n1", 2), OFFER, ALIVE), Answer::New);
        assert_eq!(applicants.len(), 1);
    }

    #[test]
    fn namesakes_are_told_apart_by_address_unless_a_topology_must_tell_them_apart() {
        let mut applicants = Applicants::default();
        for (last, expected) in [(1, "n1"), (2, "n1@02:00:00:00:00:02")] {
            assert_eq!(applicants.on_join(Instant::START, mac(last), &join("n1", 1), OFFER, ALIVE), Answer::New);
            assert_eq!(applicants.admitted.last().map(|applicant| applicant.host.as_str()), Some(expected));
        }
        let known = ["n0".to_owned(), "n1".to_owned()];
        let offer = Offer { known_hosts: Some(&known), ..OFFER };
        for host in ["n0", "n1"] {
            let answer = applicants.on_join(Instant::START, mac(9), &join(host, 1), offer, ALIVE);
            assert!(matches!(answer, Answer::Refused { why: Refusal::Twin, .. }), "{answer:?}");
        }
    }

    #[test]
    fn who_cannot_take_part_is_told_why_and_what_to_do() {
        let mut applicants = Applicants::default();
        let known = ["n1".to_owned()];
        let offer = Offer { root: "n0", mtu_bytes: 9000, size: Some(2000), known_hosts: Some(&known) };
        let Answer::Refused { text, .. } = applicants.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE)
        else {
            panic!()
        };
        assert!(text.contains("--mtu 1500"));
        let offer = Offer { mtu_bytes: 1500, ..offer };
        let Answer::Refused { text, .. } = applicants.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE)
        else {
            panic!()
        };
        assert!(text.contains("2000"));
        let offer = Offer { size: None, ..offer };
        assert_eq!(applicants.on_join(Instant::START, mac(1), &join("n1", 1), offer, ALIVE), Answer::New);
        let Answer::Refused { text, .. } = applicants.on_join(Instant::START, mac(2), &join("n7", 1), offer, ALIVE)
        else {
            panic!()
        };
        assert!(text.contains("n7"));
    }
}
