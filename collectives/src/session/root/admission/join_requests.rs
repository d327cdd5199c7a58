//! Receivers that have asked to join a transfer that has not started.
//!
//! Each address has one candidate. A candidate counts once a full-length frame has reached it and
//! come back. Until then its entry is small, and at most [`MAX_UNREACHED`] such entries are kept.
//! No frame causes a scan of a list.

use super::refusals::{HostClaim, SessionParameters, namesake_text, node_name, twin_text};
use crate::membership::codec::MAX_NAME_BYTES;
use crate::session::message::{HOLDS, Message, Refusal};
use crate::session::root::config::TurnedAway;
use ethbcast_planning::natural_order;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of unreached candidates; one more evicts the oldest. Hosts that exist wait for
/// milliseconds only.
const MAX_UNREACHED: usize = 8192;
const SPARE_PLACES: usize = 8;
/// Above this number of unreached candidates, only a host that has sent two join requests gets a
/// full-length frame: forged requests come once.
const FEW_UNREACHED: usize = 64;
pub const REBOOT_SILENCE: Duration = Duration::from_millis(300);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    pub host: String,
    pub mac: MacAddr,
    pub nonce: u64,
    pub holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    Unreached,
    Reached,
    Admitted,
}

#[derive(Clone, Copy, Debug)]
struct CompetingRun {
    nonce: u64,
    since: Instant,
}

#[derive(Clone, Debug)]
struct Candidate {
    request: JoinRequest,
    standing: RequestState,
    last_received_at: Instant,
    competing_run: Option<CompetingRun>,
    ticket: u64,
    greeted_at: Instant,
    claims: Vec<HostClaim>,
    by_address: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum JoinDecision {
    Wait,
    Check,
    Greet,
    Refused(Refusal, String),
}

/// Join requests by address. The `namesakes` count admitted hosts per name, and names are compared
/// as in DNS. The queue of `unreached` candidates is in order of arrival, and may hold stale
/// entries.
#[derive(Clone, Debug, Default)]
pub struct JoinRequests {
    candidates: BTreeMap<MacAddr, Candidate>,
    claims: BTreeSet<HostClaim>,
    namesakes: BTreeMap<HostClaim, usize>,
    admitted: usize,
    unreached: VecDeque<(MacAddr, u64)>,
    unreached_count: usize,
    tickets: u64,
}

impl JoinRequests {
    pub fn on_join(
        &mut self,
        now: Instant,
        mac: MacAddr,
        join: &Message,
        offer: SessionParameters<'_>,
        greet_every: Duration,
    ) -> JoinDecision {
        let Message::Join {
            nonce,
            host,
            mtu_bytes,
            free_bytes,
            features,
            ..
        } = join
        else {
            return JoinDecision::Wait;
        };
        if let Some(candidate) = self.candidates.get_mut(&mac) {
            if candidate.request.nonce == *nonce {
                return candidate.on_repeated_join(now, greet_every);
            }
            match candidate.on_competing_run(now, *nonce, host) {
                CompetingRunFate::Waits => return JoinDecision::Wait,
                CompetingRunFate::Loses(text) => return JoinDecision::Refused(Refusal::Twin, text),
                CompetingRunFate::Wins => drop(self.remove(mac)),
            }
        }
        if let Some((why, text)) = offer.refusal((host, mac), *mtu_bytes, *free_bytes) {
            return JoinDecision::Refused(why, text);
        }
        let holds = features & HOLDS != 0;
        let request = JoinRequest {
            host: host.clone(),
            mac,
            nonce: *nonce,
            holds,
        };
        let (standing, competing_run) = (RequestState::Unreached, None);
        self.tickets += 1;
        let ticket = self.tickets;
        let by_address = offer.knows_by_address(host, mac);
        let (last_received_at, greeted_at, claims) = (now, now, Vec::new());
        let candidate = Candidate {
            request,
            standing,
            last_received_at,
            competing_run,
            ticket,
            greeted_at,
            claims,
            by_address,
        };
        self.candidates.insert(mac, candidate);
        self.unreached.push_back((mac, ticket));
        self.unreached_count += 1;
        // Compact the queue before stale entries outnumber live ones.
        if self.unreached.len() > 2 * self.unreached_count + SPARE_PLACES {
            self.unreached.retain(|&(mac, ticket)| {
                self.candidates
                    .get(&mac)
                    .is_some_and(|one| one.is_waiting(ticket))
            });
        }
        if self.unreached_count <= FEW_UNREACHED {
            JoinDecision::Check
        } else {
            JoinDecision::Wait
        }
    }

    pub fn knows(&self, mac: MacAddr) -> bool {
        self.candidates.contains_key(&mac)
    }

    pub fn entries(&self) -> usize {
        self.candidates.len() + self.unreached.len()
    }

    pub fn evict(&mut self) -> Option<MacAddr> {
        while self.unreached.len() > MAX_UNREACHED {
            let (mac, ticket) = self.unreached.pop_front()?;
            if self
                .candidates
                .get(&mac)
                .is_some_and(|candidate| candidate.is_waiting(ticket))
            {
                self.remove(mac);
                return Some(mac);
            }
        }
        None
    }

    pub fn set_reached(&mut self, mac: MacAddr) -> bool {
        let waits = |candidate: &&mut Candidate| candidate.standing == RequestState::Unreached;
        let Some(candidate) = self.candidates.get_mut(&mac).filter(waits) else {
            return false;
        };
        candidate.standing = RequestState::Reached;
        self.unreached_count -= 1;
        true
    }

    /// Returns the request of a host that a full-length frame has reached, if it waits to be
    /// admitted.
    pub fn reached(&self, mac: MacAddr) -> Option<&JoinRequest> {
        let candidate = self
            .candidates
            .get(&mac)
            .filter(|candidate| candidate.standing == RequestState::Reached);
        candidate.map(|candidate| &candidate.request)
    }

    /// Admits a host that a full-length frame has reached, and returns its name in the session;
    /// `None` if there is no such candidate. One that is refused, with the reason as the error, is
    /// removed.
    pub fn admit(
        &mut self,
        mac: MacAddr,
        offer: SessionParameters<'_>,
    ) -> Option<Result<String, (TurnedAway, u64)>> {
        let reached = |candidate: &&mut Candidate| candidate.standing == RequestState::Reached;
        let candidate = self.candidates.get_mut(&mac).filter(reached)?;
        let JoinRequest { host, nonce, .. } = candidate.request.clone();
        let (claims, own, name) = (
            offer.claims(&host, mac),
            offer.root_claims(),
            HostClaim::name(&host),
        );
        let taken = claims
            .iter()
            .any(|claim| own.contains(claim) || self.claims.contains(claim));
        let is_shared = taken || self.namesakes.contains_key(&name) || own.contains(&name);
        let refused = if taken && offer.needs_names()
            || is_shared && node_name(&host, mac).len() > MAX_NAME_BYTES
        {
            Some((Refusal::Twin, namesake_text(&host, mac)))
        } else if self.admitted >= offer.most {
            let text = format!(
                "the session is full, {} receivers: send to the rest in a second one",
                self.admitted
            );
            Some((Refusal::Late, text))
        } else {
            None
        };
        if let Some((why, text)) = refused {
            self.remove(mac);
            return Some(Err((
                TurnedAway {
                    host,
                    mac,
                    why,
                    text,
                },
                nonce,
            )));
        }
        candidate.standing = RequestState::Admitted;
        self.admitted += 1;
        if own.contains(&name) {
            // The root's own name counts among those that share it.
            *self.namesakes.entry(name.clone()).or_insert(1) += 1;
        } else {
            *self.namesakes.entry(name).or_default() += 1;
        }
        candidate.claims.clone_from(&claims);
        self.claims.extend(claims);
        self.candidates
            .get(&mac)
            .map(|candidate| Ok(self.name_of(candidate)))
    }

    fn name_of(&self, candidate: &Candidate) -> String {
        let JoinRequest { host, mac, .. } = &candidate.request;
        let is_shared = self
            .namesakes
            .get(&HostClaim::name(host))
            .is_some_and(|&count| count > 1);
        if is_shared || candidate.by_address {
            node_name(host, *mac)
        } else {
            host.clone()
        }
    }

    pub fn on_leave(&mut self, mac: MacAddr, nonce: u64) -> Option<Gone> {
        self.candidates
            .get(&mac)
            .filter(|candidate| candidate.request.nonce == nonce)?;
        self.remove(mac)
    }

    pub fn remove(&mut self, mac: MacAddr) -> Option<Gone> {
        let mut host = self
            .candidates
            .get(&mac)
            .map(|candidate| self.name_of(candidate))?;
        let candidate = self.candidates.remove(&mac)?;
        let nonce = candidate.request.nonce;
        match candidate.standing {
            RequestState::Unreached => self.unreached_count -= 1,
            RequestState::Reached => {}
            RequestState::Admitted => {
                self.admitted -= 1;
                for claim in &candidate.claims {
                    self.claims.remove(claim);
                }
                let name = HostClaim::name(&candidate.request.host);
                let count = self
                    .namesakes
                    .get_mut(&name)
                    .map(|count| std::mem::replace(count, *count - 1));
                if count == Some(1) {
                    self.namesakes.remove(&name);
                }
            }
        }
        if candidate.standing != RequestState::Admitted {
            host = candidate.request.host;
        }
        Some(Gone {
            mac,
            host,
            nonce,
            admitted: candidate.standing == RequestState::Admitted,
        })
    }

    pub fn len(&self) -> usize {
        self.admitted
    }

    fn members(&self) -> impl Iterator<Item = &Candidate> + '_ {
        self.candidates
            .values()
            .filter(|candidate| candidate.standing == RequestState::Admitted)
    }

    pub fn sample(&self, is_near: impl Fn(MacAddr) -> bool) -> Option<&JoinRequest> {
        let near: Vec<_> = self
            .members()
            .filter(|candidate| is_near(candidate.request.mac))
            .collect();
        near.get(near.len() / 2).map(|candidate| &candidate.request)
    }

    pub fn macs(&self) -> impl Iterator<Item = MacAddr> + '_ {
        self.members().map(|candidate| candidate.request.mac)
    }

    pub fn drop_silent(
        &mut self,
        now: Instant,
        alive_for: Duration,
        known_for: Duration,
    ) -> Vec<Gone> {
        let silent = |candidate: &&Candidate| {
            let limit = if candidate.standing == RequestState::Admitted {
                known_for
            } else {
                alive_for
            };
            now.since(candidate.last_received_at) >= limit
        };
        let macs: Vec<MacAddr> = self
            .candidates
            .values()
            .filter(silent)
            .map(|candidate| candidate.request.mac)
            .collect();
        macs.into_iter()
            .filter_map(|mac| self.remove(mac))
            .collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.ranked()
            .into_iter()
            .map(|request| request.host)
            .collect()
    }

    /// Admitted hosts in rank order: by name, comparing numbers in names by value.
    pub fn ranked(&self) -> Vec<JoinRequest> {
        let named = |one: &Candidate| JoinRequest {
            host: self.name_of(one),
            ..one.request.clone()
        };
        let mut admitted: Vec<JoinRequest> = self.members().map(named).collect();
        admitted.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        admitted
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Gone {
    pub mac: MacAddr,
    pub host: String,
    pub nonce: u64,
    pub admitted: bool,
}

enum CompetingRunFate {
    Waits,
    Wins,
    Loses(String),
}

impl Candidate {
    fn is_waiting(&self, ticket: u64) -> bool {
        self.ticket == ticket && self.standing == RequestState::Unreached
    }

    fn on_repeated_join(&mut self, now: Instant, greet_every: Duration) -> JoinDecision {
        self.last_received_at = now;
        match self.standing {
            RequestState::Unreached => JoinDecision::Check,
            _ if now.since(self.greeted_at) >= greet_every => {
                self.greeted_at = now;
                JoinDecision::Greet
            }
            _ => JoinDecision::Wait,
        }
    }

    /// Handles a join request of another run from the same address: that run wins once the previous
    /// one has been silent for [`REBOOT_SILENCE`].
    fn on_competing_run(&mut self, now: Instant, nonce: u64, host: &str) -> CompetingRunFate {
        let competing_run = self
            .competing_run
            .filter(|competing_run| competing_run.nonce == nonce)
            .unwrap_or(CompetingRun { nonce, since: now });
        self.competing_run = Some(competing_run);
        if self.last_received_at > competing_run.since {
            return CompetingRunFate::Loses(twin_text(host, &self.request.host, self.request.mac));
        }
        if now.since(self.last_received_at) >= REBOOT_SILENCE {
            CompetingRunFate::Wins
        } else {
            CompetingRunFate::Waits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::verified::Form;
    use ethbcast_planning::HostNames;

    fn join(host: &str, nonce: u64) -> Message {
        Message::Join {
            nonce,
            group: "g".into(),
            host: host.into(),
            mtu_bytes: 1500,
            free_bytes: 1000,
            features: 0,
        }
    }

    const OFFER: SessionParameters<'_> = SessionParameters {
        root: "n0",
        mtu_bytes: 1500,
        size: Some(1000),
        form: Form::Plain,
        wanted_hosts: None,
        known_hosts: None,
        carousel: None,
        most: 9,
    };
    const GREET: Duration = Duration::from_secs(1);

    fn mac(last: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, last)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn enter(
        join_requests: &mut JoinRequests,
        last: u8,
        host: &str,
        nonce: u64,
        offer: SessionParameters<'_>,
    ) -> Result<String, Refusal> {
        match join_requests.on_join(at(0), mac(last), &join(host, nonce), offer, GREET) {
            JoinDecision::Check => assert!(join_requests.set_reached(mac(last))),
            JoinDecision::Refused(why, _) => return Err(why),
            answer => panic!("{answer:?}"),
        }
        join_requests
            .admit(mac(last), offer)
            .expect("reached")
            .map_err(|(away, _)| away.why)
    }

    #[test]
    fn ranks_follow_the_numbers_in_the_names() {
        let mut join_requests = JoinRequests::default();
        for (host, last) in [("n10", 1), ("n2", 2), ("n1", 3), ("m7", 4)] {
            assert_eq!(
                enter(&mut join_requests, last, host, 9, OFFER).as_deref(),
                Ok(host)
            );
        }
        assert_eq!(join_requests.names(), ["m7", "n1", "n2", "n10"]);
    }

    #[test]
    fn a_restarted_receiver_takes_the_place_of_its_silent_former_self_only() {
        let mut join_requests = JoinRequests::default();
        enter(&mut join_requests, 1, "n1", 1, OFFER).expect("the first");
        let ask = |join_requests: &mut JoinRequests, millis, host: &str, nonce| {
            join_requests.on_join(at(millis), mac(1), &join(host, nonce), OFFER, GREET)
        };
        assert_eq!(ask(&mut join_requests, 50, "n1", 2), JoinDecision::Wait);
        assert_eq!(
            ask(&mut join_requests, 120, "n1", 1),
            JoinDecision::Wait,
            "both speak"
        );
        let JoinDecision::Refused(Refusal::Twin, text) = ask(&mut join_requests, 130, "n1", 2)
        else {
            panic!("a twin")
        };
        assert!(
            text.contains("another receiver of this group already runs on n1"),
            "{text}"
        );
        assert_eq!(ask(&mut join_requests, 140, "n7", 3), JoinDecision::Wait);
        assert_eq!(ask(&mut join_requests, 150, "n1", 1), JoinDecision::Wait);
        let JoinDecision::Refused(Refusal::Twin, text) = ask(&mut join_requests, 160, "n7", 3)
        else {
            panic!("one address")
        };
        assert!(
            text.contains("two hosts use the address 02:00:00:00:00:01, n1 and n7"),
            "{text}"
        );
        // The first one is silent from here on.
        assert_eq!(ask(&mut join_requests, 200, "n1", 4), JoinDecision::Wait);
        assert_eq!(ask(&mut join_requests, 400, "n1", 4), JoinDecision::Wait);
        assert_eq!(
            (join_requests.len(), ask(&mut join_requests, 450, "n1", 4)),
            (1, JoinDecision::Check)
        );
        assert_eq!(join_requests.len(), 0, "it has to be reached first");
    }

    #[test]
    fn a_candidate_that_ended_frees_its_own_place_only() {
        let mut join_requests = JoinRequests::default();
        enter(&mut join_requests, 1, "n1", 1, OFFER).expect("the first");
        assert_eq!(join_requests.on_leave(mac(1), 2), None, "another run");
        assert_eq!(join_requests.on_leave(mac(2), 1), None, "another address");
        let gone = Gone {
            mac: mac(1),
            host: "n1".to_owned(),
            nonce: 1,
            admitted: true,
        };
        assert_eq!(
            (join_requests.on_leave(mac(1), 1), join_requests.len()),
            (Some(gone), 0)
        );
        assert_eq!(
            enter(&mut join_requests, 1, "n1", 2, OFFER).as_deref(),
            Ok("n1")
        );
        let gone = join_requests.drop_silent(
            at(1500),
            Duration::from_millis(500),
            Duration::from_millis(1500),
        );
        assert_eq!(gone.len(), 1);
    }

    #[test]
    fn namesakes_are_distinguished_by_address_unless_they_are_known_by_name() {
        let mut join_requests = JoinRequests::default();
        assert_eq!(
            enter(&mut join_requests, 1, "n1", 1, OFFER).as_deref(),
            Ok("n1")
        );
        assert_eq!(
            enter(&mut join_requests, 2, "n1", 1, OFFER).as_deref(),
            Ok("n1@02:00:00:00:00:02")
        );
        let long = "n".repeat(250);
        assert_eq!(
            enter(&mut join_requests, 3, &long, 1, OFFER).as_deref(),
            Ok(long.as_str()),
            "whole"
        );
        assert_eq!(
            enter(&mut join_requests, 4, &long, 1, OFFER),
            Err(Refusal::Twin),
            "no room for the address"
        );
        let known = HostNames::new(["n0", "n1"]);
        let offer = SessionParameters {
            known_hosts: Some(&known),
            ..OFFER
        };
        assert_eq!(
            enter(&mut join_requests, 9, "n0", 1, offer),
            Err(Refusal::Twin),
            "the root"
        );
        assert_eq!(
            enter(&mut join_requests, 8, "n1", 1, offer).as_deref(),
            Ok("n1@02:00:00:00:00:08")
        );
        assert_eq!(
            enter(&mut join_requests, 9, "N1.lab", 1, offer),
            Err(Refusal::Twin)
        );
        // Once they are known to share a name, all of them are named by their addresses.
        let names = join_requests.names();
        assert!(
            names.contains(&"n1@02:00:00:00:00:01".to_owned()) && !names.contains(&"n1".to_owned()),
            "{names:?}"
        );
    }

    #[test]
    fn a_host_is_wanted_by_its_short_name_its_full_one_or_its_address_and_each_place_is_one_host_s()
    {
        let mut join_requests = JoinRequests::default();
        let wanted = HostNames::new([
            "n1",
            "n2.lab",
            "pc@02:00:00:00:00:05",
            "pc@02:00:00:00:00:06",
        ]);
        let offer = SessionParameters {
            wanted_hosts: Some(&wanted),
            ..OFFER
        };
        let mut enter = |last, host| enter(&mut join_requests, last, host, 1, offer);
        assert_eq!(enter(1, "N1.lab").as_deref(), Ok("N1.lab"));
        assert_eq!(
            enter(2, "n1.other"),
            Err(Refusal::Twin),
            "it would be n1, too"
        );
        assert_eq!(enter(3, "n2").as_deref(), Ok("n2"));
        assert_eq!(enter(4, "n2.other"), Err(Refusal::NotWanted));
        assert_eq!(
            enter(5, "pc").as_deref(),
            Ok("pc@02:00:00:00:00:05"),
            "by address, and so it is called"
        );
        assert_eq!(enter(7, "pc"), Err(Refusal::NotWanted), "another address");
        assert_eq!(enter(6, "pc").as_deref(), Ok("pc@02:00:00:00:00:06"));
    }

    #[test]
    fn a_refused_host_gets_the_reason_and_the_remedy() {
        let mut join_requests = JoinRequests::default();
        let known = HostNames::new(["n1", "n2"]);
        let offer = SessionParameters {
            mtu_bytes: 9000,
            size: Some(2000),
            known_hosts: Some(&known),
            ..OFFER
        };
        let mut refused = |host: &str, offer: SessionParameters<'_>| match join_requests.on_join(
            at(0),
            mac(1),
            &join(host, 1),
            offer,
            GREET,
        ) {
            JoinDecision::Refused(why, text) => (why, text),
            answer => panic!("{answer:?}"),
        };
        let (why, text) = refused("n1", offer);
        assert!(
            why == Refusal::SmallMtu && text.contains("--mtu 1500"),
            "{text}"
        );
        let offer = SessionParameters {
            mtu_bytes: 1500,
            ..offer
        };
        let (why, text) = refused("n1", offer);
        assert!(why == Refusal::NoSpace && text.contains("2000"), "{text}");
        let offer = SessionParameters {
            size: None,
            ..offer
        };
        let (why, text) = refused("n7", offer);
        assert!(
            why == Refusal::NotInTopology && text.contains("n7"),
            "{text}"
        );
        let wanted = HostNames::new(["n2"]);
        let (why, text) = refused(
            "n1",
            SessionParameters {
                wanted_hosts: Some(&wanted),
                ..offer
            },
        );
        assert!(why == Refusal::NotWanted && text.contains("n1"), "{text}");
        assert_eq!(
            enter(&mut join_requests, 1, "n1", 1, offer).as_deref(),
            Ok("n1")
        );
        assert_eq!(
            enter(
                &mut join_requests,
                2,
                "n2",
                1,
                SessionParameters { most: 1, ..offer }
            ),
            Err(Refusal::Late)
        );
    }

    #[test]
    fn a_hundred_thousand_forged_requests_take_no_more_room_than_some_thousands_and_keep_nobody_out()
     {
        let mut join_requests = JoinRequests::default();
        let mut checked = 0;
        for number in 0..100_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            let answer = join_requests.on_join(
                at(0),
                MacAddr::new(2, 1, a, b, c, d),
                &join("x", 1),
                OFFER,
                GREET,
            );
            checked += usize::from(answer == JoinDecision::Check);
            join_requests.evict();
        }
        assert!(
            join_requests.candidates.len() <= MAX_UNREACHED && checked == FEW_UNREACHED,
            "{checked}"
        );
        // A host with an earlier join request repeats it and is reached.
        assert_eq!(
            join_requests.on_join(at(1), mac(1), &join("n1", 1), OFFER, GREET),
            JoinDecision::Wait
        );
        assert_eq!(
            join_requests.on_join(at(90), mac(1), &join("n1", 1), OFFER, GREET),
            JoinDecision::Check
        );
        assert!(
            join_requests.set_reached(mac(1))
                && join_requests
                    .admit(mac(1), OFFER)
                    .is_some_and(|entry| entry.is_ok())
        );
        join_requests.drop_silent(
            at(550),
            Duration::from_millis(500),
            Duration::from_millis(1500),
        );
        assert_eq!(
            (
                join_requests.candidates.len(),
                join_requests.unreached_count
            ),
            (1, 0)
        );
    }

    #[test]
    fn the_queue_of_those_who_wait_to_be_reached_does_not_remember_who_came_and_went() {
        let mut join_requests = JoinRequests::default();
        // Each request from a new run of the receiver, or always from the same one.
        for nonce in (0..1000).chain([7; 1000]) {
            assert_eq!(
                join_requests.on_join(at(nonce), mac(1), &join("n1", nonce), OFFER, GREET),
                JoinDecision::Check
            );
            join_requests.on_leave(mac(1), nonce).expect("it was there");
            assert!(
                join_requests.entries() <= SPARE_PLACES + 2,
                "{}",
                join_requests.entries()
            );
        }
        join_requests.on_join(at(1000), mac(1), &join("n1", 1000), OFFER, GREET);
        assert!(
            join_requests.set_reached(mac(1)),
            "who waits is still known"
        );
    }
}
