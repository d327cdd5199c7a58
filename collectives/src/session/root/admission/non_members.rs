//! Frames of hosts outside the transfer: late receivers, other software versions, competing
//! senders.

use super::refusals::{HostClaim, Names, Refusals, node_name};
use crate::session::endpoint::OtherBuilds;
use crate::session::message::{Message, Outcome, ROOT_ASKS, Refusal, Stage};
use crate::session::root::config::{
    MemberReport, RootEndpoint, RootEvent, RootFailure, TurnedAway,
};
use crate::session::root::phase::RootPhase;
use crate::session::root::running::SessionPhase;
use crate::session::view::ViewMember;
use ethbcast_transport::wire::{Frame, Rank, Reject};
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeSet;
use std::time::Duration;

const BETWEEN_ANSWERS: Duration = Duration::from_millis(20);
/// Maximum number of other roots reported to the user, so that forged addresses fill no list.
const MAX_COMPETITORS: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct NonMembers {
    refusals: Refusals,
    other_builds: OtherBuilds,
    answered_at: Option<Instant>,
    competitors: BTreeSet<MacAddr>,
}

impl NonMembers {
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    pub fn refusals_mut(&mut self) -> &mut Refusals {
        &mut self.refusals
    }

    pub fn on_reject(&mut self, frame: &[u8], why: Reject, endpoint: &mut RootEndpoint) {
        endpoint.count_reject(why);
        let other = self.other_builds.on_reject(frame, why, endpoint.keyring());
        other
            .filter(|other| self.other_builds.is_credible(other.mac))
            .into_iter()
            .for_each(|other| endpoint.push_event(RootEvent::OtherVersion(other)));
    }

    /// Admits a receiver that sends a join request after the start, or refuses it with a reason.
    /// Returns false if it did neither.
    pub fn welcome(
        &mut self,
        now: Instant,
        from: MacAddr,
        join: &Message,
        running: &mut SessionPhase,
        endpoint: &mut RootEndpoint,
    ) -> bool {
        let Message::Join {
            nonce,
            host,
            mtu_bytes,
            free_bytes,
            ..
        } = join
        else {
            return false;
        };
        let names = Names::new(endpoint.config());
        let offer = names.offer(endpoint.config());
        let refused = offer.refusal((host, from), *mtu_bytes, *free_bytes);
        let why = refused.or_else(|| given_up(running, host, *nonce, from));
        if let Some((why, text)) = why {
            let away = TurnedAway {
                host: host.clone(),
                mac: from,
                why,
                text,
            };
            self.refusals.refuse(now, from, *nonce, away, endpoint);
            return true;
        }
        let members = &running.view().members;
        let is_shared = members
            .iter()
            .any(|one| HostClaim::name(&one.host) == HostClaim::name(host));
        let named = match members.iter().rev().find(|one| one.mac == from) {
            // A former member has come back.
            Some(former) if former.host == *host || former.host == node_name(host, from) => {
                former.host.clone()
            }
            _ if is_shared || offer.knows_by_address(host, from) => node_name(host, from),
            _ => host.clone(),
        };
        let room = members.len() <= offer.most
            && running.admit(now, (named.clone(), from, *nonce), endpoint);
        if room {
            endpoint.push_event(RootEvent::Joined {
                host: named,
                mac: from,
                receivers: running.view().hosts() - 1,
            });
        }
        room
    }

    pub fn reply_to_root(
        &mut self,
        to: MacAddr,
        nonce: u64,
        host: &str,
        endpoint: &mut RootEndpoint,
    ) {
        let text = format!("{} sends to this group already", endpoint.station().host);
        endpoint.reply(
            to,
            &Message::Refuse {
                nonce,
                why: Refusal::Late,
                text,
            },
        );
        if self.competitors.len() < MAX_COMPETITORS && self.competitors.insert(to) {
            endpoint.push_event(RootEvent::CompetingSender {
                host: host.to_owned(),
                mac: to,
            });
        }
    }

    /// Refuses a receiver for which there is no place once the session has started with `members`.
    pub fn refuse_late(
        &mut self,
        now: Instant,
        (host, to, nonce): (&str, MacAddr, u64),
        members: &[ViewMember],
        endpoint: &mut RootEndpoint,
    ) {
        let names = Names::new(endpoint.config());
        let receivers = members.get(1..).unwrap_or_default();
        let offer = names.offer(endpoint.config());
        let twin = || {
            offer.twin(
                (host, to),
                receivers.iter().map(|one| (&*one.host, one.mac)),
            )
        };
        let next_round = || {
            offer.carousel?;
            let text = format!("a round of the carousel is running: {host} takes part in the next");
            Some((Refusal::Late, text))
        };
        let refused = offer.unwanted(host, to).or_else(twin).or_else(next_round);
        let (why, text) = refused.unwrap_or_else(|| {
            let wanted = endpoint
                .config()
                .wanted
                .enough
                .map_or(String::new(), |enough| format!(" of {enough} wanted"));
            (
                Refusal::Late,
                format!(
                    "the session started with {}{wanted} before {host} had joined",
                    receivers.len()
                ),
            )
        });
        let away = TurnedAway {
            host: host.to_owned(),
            mac: to,
            why,
            text,
        };
        self.refusals.refuse(now, to, nonce, away, endpoint);
    }

    pub fn on_announce(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        phase: &mut RootPhase,
        endpoint: &mut RootEndpoint,
    ) {
        let Some(message) = endpoint.read(frame) else {
            return;
        };
        let (
            station,
            Message::Announce {
                group, host, stage, ..
            },
        ) = (endpoint.station(), &message)
        else {
            return;
        };
        if *group != station.group {
            if let (RootPhase::Running(running), Stage::Started | Stage::LateWelcome) =
                (phase, stage)
            {
                running.note_session(now, (frame.source, frame.header.session), host, endpoint);
            }
            endpoint.count_non_member();
            return;
        }
        let (stage, age) = match phase {
            RootPhase::Gathering(gathering) => {
                gathering.on_announce(
                    now,
                    (frame.source, frame.header.session),
                    &message,
                    endpoint,
                );
                (Stage::Gathering, gathering.age(now))
            }
            RootPhase::Running(_) => (endpoint.config().stage(), Duration::MAX),
            RootPhase::Closing(..) | RootPhase::Ended(_) => return,
        };
        // If the other root began later, it should soon be notified. A forged address must not
        // cause many frames, each of which may go to many hosts.
        let config = endpoint.config();
        let between = if config.address_secret.is_some() {
            config.timing.announce
        } else {
            BETWEEN_ANSWERS
        };
        if self.answered_at.is_none_or(|at| now >= at + between) {
            self.answered_at = Some(now);
            endpoint.send_to_group(&endpoint.config().invitation(stage, age));
        }
    }
}

/// Returns the refusal for a receiver that was a member in this very run and that the root no
/// longer waits for. Such a receiver may not have been notified of that; it would repeat its
/// request forever, and the root would wait for it each time. A receiver that left may come back,
/// and one that refused says so several times.
fn given_up(
    running: &SessionPhase,
    host: &str,
    nonce: u64,
    from: MacAddr,
) -> Option<(Refusal, String)> {
    let members = &running.view().members;
    let same = |rank: Rank| {
        members
            .get(rank.index())
            .is_some_and(|one| one.nonce == nonce && one.mac == from)
    };
    let mut reports = running.members().reports();
    let refused = |report: &MemberReport| {
        report.outcome.status_and_reason(&report.text).0 == Outcome::REFUSED
    };
    let report = reports
        .find(|report| same(report.rank) && report.outcome != Outcome::Died && !refused(report))?;
    let text = format!(
        "{host} was given up by this session, {}: start its receiver again",
        report.outcome.word()
    );
    Some((Refusal::Late, text))
}

const MAX_COMPETING_ROOTS: usize = 8;
const ROOT_TRIES: u32 = 5;
const MAX_ROOT_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
struct CompetingRoot {
    mac: MacAddr,
    session: u32,
    host: String,
    offer: String,
    left: u32,
}

/// Other roots of the group that seem to have begun first. If one replies, this root fails. An
/// announcement alone proves nothing, as it may be replayed, so this root probes the other one,
/// once with each own announcement, and waits for a moment. However many there seem to be, only the
/// first [`MAX_COMPETING_ROOTS`] are probed, and the wait ends after [`MAX_ROOT_WAIT`].
#[derive(Clone, Debug, Default)]
pub struct CompetingRoots {
    competitors: Vec<CompetingRoot>,
    since: Option<Instant>,
}

impl CompetingRoots {
    pub fn on_invitation(
        &mut self,
        now: Instant,
        (mac, session): (MacAddr, u32),
        (host, offer): (&str, &str),
        endpoint: &mut RootEndpoint,
    ) {
        let mut known = self.competitors.iter_mut();
        if let Some(competitor) =
            known.find(|competitor| (competitor.mac, competitor.session) == (mac, session))
        {
            if endpoint.config().address_secret.is_some() {
                competitor.request(endpoint);
            }
            return;
        }
        if self.competitors.len() >= MAX_COMPETING_ROOTS {
            return;
        }
        self.since.get_or_insert(now);
        let (host, offer) = (host.to_owned(), offer.to_owned());
        let mut competitor = CompetingRoot {
            mac,
            session,
            host,
            offer,
            left: ROOT_TRIES,
        };
        competitor.request(endpoint);
        self.competitors.push(competitor);
    }

    /// Probes those that have not replied once more; where addresses may be forged, only in reply
    /// to their announcements.
    pub fn probe(&mut self, endpoint: &mut RootEndpoint) {
        if endpoint.config().address_secret.is_some() {
            return;
        }
        self.competitors
            .iter_mut()
            .for_each(|competitor| competitor.request(endpoint));
    }

    pub fn awaited_until(&self, now: Instant) -> Option<Instant> {
        let until = self.since? + MAX_ROOT_WAIT;
        (now < until
            && self
                .competitors
                .iter()
                .any(|competitor| competitor.left > 0))
        .then_some(until)
    }

    pub fn on_reply(
        &self,
        from: (MacAddr, u32),
        nonce: u64,
        endpoint: &RootEndpoint,
    ) -> Option<RootFailure> {
        let asked = |competitor: &&CompetingRoot| {
            (competitor.mac, competitor.session) == from && competitor.nonce(endpoint) == nonce
        };
        let competitor = self.competitors.iter().find(asked)?;
        let group = endpoint.station().group.clone();
        Some(RootFailure::GroupTaken {
            host: competitor.host.clone(),
            mac: competitor.mac,
            offer: competitor.offer.clone(),
            group,
        })
    }
}

impl CompetingRoot {
    /// Nonce of the probe; unique per pair of sessions.
    fn nonce(&self, endpoint: &RootEndpoint) -> u64 {
        u64::from(endpoint.config().session) << 32 | u64::from(self.session)
    }

    fn request(&mut self, endpoint: &mut RootEndpoint) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            log::warn!(
                "{} ({}) seems to send to this group, and does not answer",
                self.host,
                self.mac
            );
        }
        let station = endpoint.station();
        let (group, host, mtu_bytes) = (
            station.group.clone(),
            station.host.clone(),
            station.mtu_bytes,
        );
        let nonce = self.nonce(endpoint);
        let question = Message::Join {
            nonce,
            group,
            host,
            mtu_bytes,
            free_bytes: 0,
            features: ROOT_ASKS,
        };
        endpoint.send_in(self.session, self.mac, &question);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use crate::session::root::config::RootConfig;

    /// Returns the frames to another root that announces itself this many times in 2 s.
    fn asked(announcements: usize, address_secret: Option<u64>) -> usize {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let config = RootConfig {
            address_secret,
            ..RootConfig::new(station.clone(), 1, "file")
        };
        let mut endpoint = RootEndpoint::new(config, station, 1, Rank::ROOT, None);
        let (mut roots, other) = (
            CompetingRoots::default(),
            (MacAddr::new(2, 0, 0, 0, 0, 9), 2),
        );
        for tick in 0..20 {
            let now = Instant::START + Duration::from_millis(100 * tick as u64);
            if tick < announcements {
                roots.on_invitation(now, other, ("n9", "file"), &mut endpoint);
            }
            roots.probe(&mut endpoint);
        }
        endpoint.waiting_frames()
    }

    #[test]
    fn another_root_is_asked_several_times_and_one_of_an_unproved_address_as_often_as_it_announces_itself()
     {
        let tries = ROOT_TRIES as usize;
        assert_eq!(
            [1, 10].map(|announcements| asked(announcements, None)),
            [tries; 2]
        );
        assert_eq!(
            [1, 3, 10].map(|announcements| asked(announcements, Some(7))),
            [1, 3, tries]
        );
    }
}
