//! Hosts that have sent a join request to a session that has not started.
//!
//! Each address has one candidate. A candidate counts once a full-length frame has reached it and
//! come back. Until then its entry is small, and at most [`MAX_UNREACHED`] such entries are kept.
//! No frame causes a scan of a list.

use super::TurnedAway;
use super::parameters::{HostClaim, SessionParameters, namesake_text, node_name, twin_text};
use crate::membership::codec::MAX_NAME_BYTES;
use crate::session::message::{HOLDS, Message, Refusal};
use ethbcast_planning::natural_order;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of unreached candidates; one more evicts the oldest. Hosts that exist wait for
/// milliseconds only.
const MAX_UNREACHED: usize = 8192;
/// Stale entries that the queue may hold before it is compacted, however few candidates wait.
const SPARE_PLACES: usize = 8;
/// Above this number of unreached candidates, only a host that has asked twice is sent a
/// full-length frame: forged requests come once.
const FEW_UNREACHED: usize = 64;
/// Silence of the previous run after which a restarted receiver at the same address replaces it.
pub(super) const REBOOT_SILENCE: Duration = Duration::from_millis(300);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JoinRequest {
    /// Name in the join request; in [`JoinRequests::ranked`], the name used in the session.
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
    applicant: JoinRequest,
    standing: RequestState,
    heard_at: Instant,
    rival: Option<CompetingRun>,
    ticket: u64,
    greeted_at: Instant,
    claims: Vec<HostClaim>,
    by_address: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinDecision {
    Wait,
    Check,
    Greet,
    Refused(Refusal, String),
}

#[derive(Clone, Debug, Default)]
pub(super) struct JoinRequests {
    candidates: BTreeMap<MacAddr, Candidate>,
    claims: BTreeSet<HostClaim>,
    /// Number of admitted hosts per name, compared as DNS compares names.
    namesakes: BTreeMap<HostClaim, usize>,
    admitted: usize,
    /// Queue of unreached candidates in order of arrival. Entries may be stale.
    unreached: VecDeque<(MacAddr, u64)>,
    unreached_count: usize,
    tickets: u64,
}

impl JoinRequests {
    pub(super) fn on_join(
        &mut self,
        now: Instant,
        mac: MacAddr,
        join: &Message,
        offer: SessionParameters<'_>,
        greet_every: Duration,
    ) -> JoinDecision {
        let Message::Join { nonce, host, mtu_bytes, free_bytes, features, .. } = join else {
            return JoinDecision::Wait;
        };
        if let Some(candidate) = self.candidates.get_mut(&mac) {
            if candidate.applicant.nonce == *nonce {
                return candidate.hear_again(now, greet_every);
            }
            match candidate.hear_rival(now, *nonce, host) {
                CompetingRunFate::Waits => return JoinDecision::Wait,
                CompetingRunFate::Loses(text) => return JoinDecision::Refused(Refusal::Twin, text),
                CompetingRunFate::Wins => drop(self.remove(mac)),
            }
        }
        if let Some((why, text)) = offer.refusal((host, mac), *mtu_bytes, *free_bytes) {
            return JoinDecision::Refused(why, text);
        }
        let holds = features & HOLDS != 0;
        let applicant = JoinRequest { host: host.clone(), mac, nonce: *nonce, holds };
        let (standing, rival) = (RequestState::Unreached, None);
        self.tickets += 1;
        let ticket = self.tickets;
        let by_address = offer.knows_by_address(host, mac);
        let (heard_at, greeted_at, claims) = (now, now, Vec::new());
        let candidate = Candidate { applicant, standing, heard_at, rival, ticket, greeted_at, claims, by_address };
        self.candidates.insert(mac, candidate);
        self.unreached.push_back((mac, ticket));
        self.unreached_count += 1;
        // Compact the queue before stale entries outnumber live ones.
        if self.unreached.len() > 2 * self.unreached_count + SPARE_PLACES {
            self.unreached.retain(|&(mac, ticket)| self.candidates.get(&mac).is_some_and(|one| one.is_waiting(ticket)));
        }
        if self.unreached_count <= FEW_UNREACHED { JoinDecision::Check } else { JoinDecision::Wait }
    }

    pub(super) fn knows(&self, mac: MacAddr) -> bool {
        self.candidates.contains_key(&mac)
    }

    pub(super) fn entries(&self) -> usize {
        self.candidates.len() + self.unreached.len()
    }

    pub(super) fn evict(&mut self) -> Option<MacAddr> {
        while self.unreached.len() > MAX_UNREACHED {
            let (mac, ticket) = self.unreached.pop_front()?;
            if self.candidates.get(&mac).is_some_and(|candidate| candidate.is_waiting(ticket)) {
                self.remove(mac);
                return Some(mac);
            }
        }
        None
    }

    pub(super) fn set_reached(&mut self, mac: MacAddr) -> bool {
        let waits = |candidate: &&mut Candidate| candidate.standing == RequestState::Unreached;
        let Some(candidate) = self.candidates.get_mut(&mac).filter(waits) else { return false };
        candidate.standing = RequestState::Reached;
        self.unreached_count -= 1;
        true
    }

    /// Admits a host that was reached, and returns its name in the session. `None` if there is no
    /// such candidate.
    ///
    /// # Errors
    /// Why it is not admitted; the candidate is removed then.
    pub(super) fn admit(
        &mut self,
        mac: MacAddr,
        offer: SessionParameters<'_>,
    ) -> Option<Result<String, (TurnedAway, u64)>> {
        let reached = |candidate: &&mut Candidate| candidate.standing == RequestState::Reached;
        let candidate = self.candidates.get_mut(&mac).filter(reached)?;
        let JoinRequest { host, nonce, .. } = candidate.applicant.clone();
        let (claims, own, name) = (offer.claims(&host, mac), offer.root_claims(), HostClaim::name(&host));
        let taken = claims.iter().any(|claim| own.contains(claim) || self.claims.contains(claim));
        let is_shared = taken || self.namesakes.contains_key(&name) || own.contains(&name);
        let refused = if taken && offer.needs_names() || is_shared && node_name(&host, mac).len() > MAX_NAME_BYTES {
            Some((Refusal::Twin, namesake_text(&host, mac)))
        } else if self.admitted >= offer.most {
            let text = format!("the session is full, {} receivers: send to the rest in a second one", self.admitted);
            Some((Refusal::Late, text))
        } else {
            None
        };
        if let Some((why, text)) = refused {
            self.remove(mac);
            return Some(Err((TurnedAway { host, mac, why, text }, nonce)));
        }
        candidate.standing = RequestState::Admitted;
        self.admitted += 1;
        if own.contains(&name) {
            // The root's own name counts as one of those that share it.
            *self.namesakes.entry(name.clone()).or_insert(1) += 1;
        } else {
            *self.namesakes.entry(name).or_default() += 1;
        }
        candidate.claims.clone_from(&claims);
        self.claims.extend(claims);
        self.candidates.get(&mac).map(|candidate| Ok(self.name_of(candidate)))
    }

    fn name_of(&self, candidate: &Candidate) -> String {
        let JoinRequest { host, mac, .. } = &candidate.applicant;
        let is_shared = self.namesakes.get(&HostClaim::name(host)).is_some_and(|&count| count > 1);
        if is_shared || candidate.by_address { node_name(host, *mac) } else { host.clone() }
    }

    pub(super) fn on_leave(&mut self, mac: MacAddr, nonce: u64) -> Option<Gone> {
        self.candidates.get(&mac).filter(|candidate| candidate.applicant.nonce == nonce)?;
        self.remove(mac)
    }

    pub(super) fn remove(&mut self, mac: MacAddr) -> Option<Gone> {
        let mut host = self.candidates.get(&mac).map(|candidate| self.name_of(candidate))?;
        let candidate = self.candidates.remove(&mac)?;
        let nonce = candidate.applicant.nonce;
        match candidate.standing {
            RequestState::Unreached => self.unreached_count -= 1,
            RequestState::Reached => {}
            RequestState::Admitted => {
                self.admitted -= 1;
                for claim in &candidate.claims {
                    self.claims.remove(claim);
                }
                let name = HostClaim::name(&candidate.applicant.host);
                let count = self.namesakes.get_mut(&name).map(|count| std::mem::replace(count, *count - 1));
                if count == Some(1) {
                    self.namesakes.remove(&name);
                }
            }
        }
        if candidate.standing != RequestState::Admitted {
            host = candidate.applicant.host;
        }
        Some(Gone { mac, host, nonce, admitted: candidate.standing == RequestState::Admitted })
    }

    pub(super) fn len(&self) -> usize {
        self.admitted
    }

    fn members(&self) -> impl Iterator<Item = &Candidate> + '_ {
        self.candidates.values().filter(|candidate| candidate.standing == RequestState::Admitted)
    }

    pub(super) fn sample(&self) -> Option<&JoinRequest> {
        self.members().nth(self.admitted / 2).map(|candidate| &candidate.applicant)
    }

    pub(super) fn macs(&self) -> impl Iterator<Item = MacAddr> + '_ {
        self.members().map(|candidate| candidate.applicant.mac)
    }

    pub(super) fn drop_silent(&mut self, now: Instant, alive_for: Duration, known_for: Duration) -> Vec<Gone> {
        let silent = |candidate: &&Candidate| {
            let limit = if candidate.standing == RequestState::Admitted { known_for } else { alive_for };
            now.since(candidate.heard_at) >= limit
        };
        let macs: Vec<MacAddr> =
            self.candidates.values().filter(silent).map(|candidate| candidate.applicant.mac).collect();
        macs.into_iter().filter_map(|mac| self.remove(mac)).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.ranked().into_iter().map(|applicant| applicant.host).collect()
    }

    /// Admitted hosts in rank order: by name, comparing numbers in names by value.
    pub(super) fn ranked(&self) -> Vec<JoinRequest> {
        let named = |one: &Candidate| JoinRequest { host: self.name_of(one), ..one.applicant.clone() };
        let mut admitted: Vec<JoinRequest> = self.members().map(named).collect();
        admitted.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        admitted
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone {
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

    fn hear_again(&mut self, now: Instant, greet_every: Duration) -> JoinDecision {
        self.heard_at = now;
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
    fn hear_rival(&mut self, now: Instant, nonce: u64, host: &str) -> CompetingRunFate {
        let rival = self.rival.filter(|rival| rival.nonce == nonce).unwrap_or(CompetingRun { nonce, since: now });
        self.rival = Some(rival);
        if self.heard_at > rival.since {
            return CompetingRunFate::Loses(twin_text(host, &self.applicant.host, self.applicant.mac));
        }
        if now.since(self.heard_at) >= REBOOT_SILENCE { CompetingRunFate::Wins } else { CompetingRunFate::Waits }
    }
}

#[cfg(test)]
mod tests;
