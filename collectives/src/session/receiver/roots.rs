//! Senders that a receiver has heard announce transfers, and the choice of the next to join.

use super::config::{ReceiverConfig, ReceiverEndpoint, ReceiverEvent};
use super::liveness::LivenessChallenge;
use crate::membership::Timing;
use crate::session::message::{ContentKind, Message, Stage};
use crate::session::verified::ChunkSize;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::VecDeque;
use std::time::Duration;

const MAX_ROOTS: usize = 8;

const MAX_IN_VAIN: usize = 256;
const IN_VAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(64)];

/// Bytes that may go to a root for each byte from it while its address is unproved (RFC 9000 §8.1).
pub(super) const AMPLIFICATION: usize = 3;

const JOIN_INTERVAL: Duration = Duration::from_millis(400);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnnouncedRoot {
    pub mac: MacAddr,
    pub session: u32,
    pub host: String,
    pub source: String,
    pub size: Option<u64>,
    pub content: ContentKind,
    pub chunk: ChunkSize,
    stage: Stage,
    last_received_at: Instant,
    requested_at: Option<Instant>,
    closed_until: Instant,
    told: bool,
    credit_bytes: usize,
    pub refused: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum InvitationOutcome {
    Open,
    Running {
        is_news: bool,
        /// Whether the root may not know that this host waits.
        notify_root: bool,
    },
    Closed,
}

/// Roots that announce sessions. A further one replaces the one whose announcement is oldest:
/// forged announcements can delay a receiver, but not keep it from a root that replies.
///
/// The sessions `in_vain` are those whose join requests had no effect, each with the time until
/// which it gets no other, and the length of that pause. It doubles each time, as their
/// announcements may be replayed. With keys an announcement can be replayed, but not forged.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots {
    roots: Vec<AnnouncedRoot>,
    in_vain: VecDeque<((MacAddr, u32), Instant, Duration)>,
    is_keyed: bool,
}

impl Roots {
    pub(super) fn new(is_keyed: bool) -> Roots {
        Roots {
            is_keyed,
            ..Roots::default()
        }
    }

    pub(super) fn give_up(&mut self, now: Instant, of: (MacAddr, u32)) {
        let [first, most] = IN_VAIN;
        let before = self
            .in_vain
            .iter()
            .position(|(known, ..)| *known == of)
            .and_then(|at| self.in_vain.remove(at));
        let lasts = before.map_or(first, |(.., lasts)| (lasts * 2).min(most));
        self.in_vain.truncate(MAX_IN_VAIN - 1);
        self.in_vain.push_front((of, now + lasts, lasts));
        self.roots.retain(|root| (root.mac, root.session) != of);
    }

    /// Returns the root of a running session that got this host's join request; only that root can
    /// refuse it as too late.
    pub(super) fn requested_too_late(&mut self, of: (MacAddr, u32)) -> Option<&mut AnnouncedRoot> {
        let is_it = |root: &&mut AnnouncedRoot| {
            (root.mac, root.session) == of && root.stage == Stage::Started
        };
        self.roots
            .iter_mut()
            .find(is_it)
            .filter(|root| root.requested_at.is_some() && !root.refused)
    }

    /// Handles an announcement; `bound` is the root that got this host's join request, which is not
    /// forgotten.
    pub(super) fn on_invitation(
        &mut self,
        now: Instant,
        (mac, session): (MacAddr, u32),
        invitation: &Message,
        bound: Option<(MacAddr, u32)>,
    ) -> InvitationOutcome {
        let Message::Announce {
            host,
            source,
            size,
            content,
            chunk,
            stage,
            ..
        } = invitation
        else {
            return InvitationOutcome::Closed;
        };
        let known = self
            .roots
            .iter_mut()
            .find(|root| root.mac == mac && root.session == session);
        if let Some(root) = known {
            (root.last_received_at, root.stage) = (now, *stage);
            return root.judge(now);
        }
        if self
            .in_vain
            .iter()
            .any(|(known, until, _)| *known == (mac, session) && now < *until)
        {
            return InvitationOutcome::Closed;
        }
        // A root has one session at a time; one of its signed announcements may be old. Without
        // keys the announcement may be forged.
        let is_bound = |root: &AnnouncedRoot| bound == Some((root.mac, root.session));
        let of_address = self
            .roots
            .iter()
            .filter(|root| !self.is_keyed && root.mac == mac);
        let requested_at = of_address.filter_map(|root| root.requested_at).max();
        self.roots
            .retain(|root| self.is_keyed || root.mac != mac || is_bound(root));
        if self.roots.len() >= MAX_ROOTS {
            let others = self
                .roots
                .iter()
                .enumerate()
                .filter(|(_, root)| !is_bound(root));
            if let Some((oldest, _)) = others.min_by_key(|(_, root)| root.last_received_at) {
                self.roots.remove(oldest);
            }
        }
        let (host, source) = (host.clone(), source.clone());
        let (closed_until, told, credit_bytes, refused) = (Instant::START, false, 0, false);
        let mut root = AnnouncedRoot {
            mac,
            session,
            host,
            source,
            size: *size,
            content: *content,
            chunk: *chunk,
            stage: *stage,
            last_received_at: now,
            requested_at,
            closed_until,
            told,
            credit_bytes,
            refused,
        };
        let heard = root.judge(now);
        self.roots.push(root);
        heard
    }

    pub(super) fn received(&mut self, of: (MacAddr, u32), bytes: usize) {
        let known = self
            .roots
            .iter_mut()
            .find(|root| (root.mac, root.session) == of);
        known
            .into_iter()
            .for_each(|root| root.credit_bytes += AMPLIFICATION * bytes);
    }

    /// Whether a message may go to a root that has not proved its address: always if [that is not
    /// needed](ReceiverConfig::sources_unproved), else if its announcements were long enough. Its
    /// bytes count as sent.
    pub(super) fn may_send(
        &mut self,
        of: (MacAddr, u32),
        message: &Message,
        endpoint: &ReceiverEndpoint,
    ) -> bool {
        if !endpoint.config().sources_unproved {
            return true;
        }
        let known = self
            .roots
            .iter_mut()
            .find(|root| (root.mac, root.session) == of);
        let Some(root) = known else { return false };
        let left = root.credit_bytes.checked_sub(endpoint.frame_bytes(message));
        root.credit_bytes = left.unwrap_or(root.credit_bytes);
        left.is_some()
    }

    /// Chooses the root for the next join request: of those whose announcements came within
    /// `alive_for`, the one whose last request is oldest, and of several sessions of one address
    /// another than the one `asked` last.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        alive_for: Duration,
        asked: Option<(MacAddr, u32)>,
    ) -> Option<AnnouncedRoot> {
        let root = self
            .roots
            .iter_mut()
            .filter(|root| root.may_be_asked(now, alive_for))
            .min_by_key(|root| (root.requested_at, asked == Some((root.mac, root.session))))?;
        root.requested_at = Some(now);
        Some(root.clone())
    }

    /// Returns the roots that may be asked, in the order in which they were heard.
    pub(super) fn open(
        &self,
        now: Instant,
        alive_for: Duration,
    ) -> impl Iterator<Item = &AnnouncedRoot> {
        self.roots
            .iter()
            .filter(move |root| root.may_be_asked(now, alive_for))
    }

    /// Returns the addresses of other roots that may be asked.
    pub(super) fn others(
        &self,
        now: Instant,
        than: &AnnouncedRoot,
        alive_for: Duration,
    ) -> impl Iterator<Item = MacAddr> {
        let than = (than.mac, than.session);
        let others = self
            .roots
            .iter()
            .filter(move |root| (root.mac, root.session) != than);
        others
            .filter(move |root| root.may_be_asked(now, alive_for))
            .map(|root| root.mac)
    }

    pub(super) fn close(&mut self, of: &AnnouncedRoot, until: Instant) {
        if let Some(root) = self
            .roots
            .iter_mut()
            .find(|root| (root.mac, root.session) == (of.mac, of.session))
        {
            (root.closed_until, root.told) = (until, true);
        }
    }
}

impl AnnouncedRoot {
    fn may_be_asked(&self, now: Instant, alive_for: Duration) -> bool {
        self.is_open(now) && now.since(self.last_received_at) < alive_for
    }

    fn is_open(&self, now: Instant) -> bool {
        self.stage != Stage::Started && self.closed_until <= now
    }

    fn judge(&mut self, now: Instant) -> InvitationOutcome {
        if self.is_open(now) {
            InvitationOutcome::Open
        } else if self.stage == Stage::Started {
            let notify_root = self.requested_at.is_none_or(|at| now >= at + JOIN_INTERVAL);
            if notify_root {
                self.requested_at = Some(now);
            }
            InvitationOutcome::Running {
                is_news: !std::mem::replace(&mut self.told, true),
                notify_root,
            }
        } else {
            InvitationOutcome::Closed
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct KnownRoot {
    mac: MacAddr,
    session: u32,
    last_received_at: Instant,
    challenge: LivenessChallenge,
    spoken_at: Instant,
}

const MISSED_AFTER: Duration = Duration::from_secs(2);

impl KnownRoot {
    pub(super) fn new(
        now: Instant,
        mac: MacAddr,
        session: u32,
        config: &ReceiverConfig,
    ) -> KnownRoot {
        let challenge = LivenessChallenge::new(now, config.secret, &config.timing);
        KnownRoot {
            mac,
            session,
            last_received_at: now,
            challenge,
            spoken_at: now,
        }
    }

    pub(super) fn mac(&self) -> MacAddr {
        self.mac
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    pub(super) fn sent(&self, frame: &Frame<'_>) -> bool {
        self.mac == frame.source && self.session == frame.header.session
    }

    /// Time since the root's last sign of life, or since a liveness challenge went unanswered.
    /// Frames in the root's name may be replayed.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.since(self.silent_since())
    }

    pub(super) fn is_dead(&self, now: Instant) -> bool {
        self.silence(now) >= self.challenge.limit()
    }

    fn silent_since(&self) -> Instant {
        self.challenge
            .pending_since()
            .map_or(self.last_received_at, |requested_at| {
                requested_at.min(self.last_received_at)
            })
    }

    fn missed_at(&self) -> Instant {
        self.spoken_at.max(self.silent_since()) + MISSED_AFTER
    }

    pub(super) fn look_at(&self) -> Instant {
        self.missed_at()
            .min(self.silent_since() + self.challenge.limit())
            .min(self.challenge.due_at())
    }

    pub(super) fn on_frame(&mut self, now: Instant) {
        self.last_received_at = now;
    }

    pub(super) fn begin(&mut self, now: Instant, timing: &Timing) {
        self.challenge.scale(timing);
        self.challenge.prove(now);
    }

    pub(super) fn on_response(&mut self, now: Instant, words: &[u64]) {
        self.challenge.on_response(now, words);
    }

    pub(super) fn watch(&mut self, now: Instant, frames: u64, endpoint: &mut ReceiverEndpoint) {
        self.challenge.on_frames(now, frames);
        if let Some(challenge) = self.challenge.poll(now) {
            endpoint.send(self.mac, &Message::Challenge(challenge));
        }
        let (silence, limit) = (self.silence(now), self.challenge.limit());
        if self.missed_at() <= now && silence < limit {
            self.spoken_at = now;
            endpoint.push_event(ReceiverEvent::RootSilent {
                silence,
                left: limit - silence,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn invitation(stage: Stage) -> Message {
        let (group, host, source) = ("g".to_owned(), "n0".to_owned(), "file".to_owned());
        let (content, chunk, mtu_bytes) = (ContentKind::Stream, ChunkSize::DEFAULT, 1500);
        Message::Announce {
            group,
            host,
            source,
            size: None,
            content,
            chunk,
            mtu_bytes,
            stage,
            age_millis: 0,
        }
    }

    fn mac(last: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, last)
    }

    const ALIVE: Duration = Duration::from_millis(1500);

    #[test]
    fn roots_are_asked_in_turn_and_one_that_refused_later() {
        let mut roots = Roots::default();
        for last in 1..=3 {
            assert_eq!(
                roots.on_invitation(at(0), (mac(last), 1), &invitation(Stage::Gathering), None),
                InvitationOutcome::Open
            );
        }
        let ask =
            |roots: &mut Roots, millis| roots.choose(at(millis), ALIVE, None).map(|root| root.mac);
        let asked: Vec<_> = (1..=4).map(|millis| ask(&mut roots, millis)).collect();
        assert_eq!(
            asked,
            [Some(mac(1)), Some(mac(2)), Some(mac(3)), Some(mac(1))]
        );
        let second = roots
            .roots
            .iter()
            .find(|root| root.mac == mac(2))
            .cloned()
            .expect("it was heard");
        roots.close(&second, at(1000));
        assert_eq!(
            (ask(&mut roots, 10), ask(&mut roots, 11)),
            (Some(mac(3)), Some(mac(1)))
        );
        let asked = roots
            .choose(at(1000), ALIVE, None)
            .expect("it is open again");
        assert_eq!(asked.mac, mac(2));
        let others = [1000, 1500].map(|millis| roots.others(at(millis), &asked, ALIVE).count());
        assert_eq!(others, [2, 0]);
    }

    #[test]
    fn an_address_that_announces_ever_new_running_sessions_gets_no_more_requests_than_one_session()
    {
        let mut roots = Roots::default();
        let asked = |session: u64| {
            let of = (mac(1), u32::try_from(session).expect("few"));
            let heard =
                roots.on_invitation(at(10 * session), of, &invitation(Stage::Started), None);
            matches!(
                heard,
                InvitationOutcome::Running {
                    notify_root: true,
                    ..
                }
            )
        };
        assert_eq!(
            (0..100).filter(|&session| session % 40 == 0).count(),
            (0..100).map(asked).filter(|&one| one).count()
        );
    }

    #[test]
    fn a_session_that_has_started_is_news_once_and_a_thousand_forged_ones_are_no_more_than_eight() {
        let mut roots = Roots::default();
        roots.on_invitation(at(0), (mac(1), 1), &invitation(Stage::Gathering), None);
        for first in [true, false] {
            let heard = roots.on_invitation(at(1), (mac(1), 1), &invitation(Stage::Started), None);
            assert_eq!(
                heard,
                InvitationOutcome::Running {
                    is_news: first,
                    notify_root: first
                }
            );
        }
        assert_eq!(
            roots.on_invitation(at(2), (mac(1), 2), &invitation(Stage::Gathering), None),
            InvitationOutcome::Open,
            "the next one"
        );
        for number in 0..1000_u16 {
            let [a, b] = number.to_be_bytes();
            roots.on_invitation(
                at(3),
                (MacAddr::new(2, 9, 0, 0, a, b), 1),
                &invitation(Stage::Gathering),
                Some((mac(1), 2)),
            );
        }
        assert_eq!(roots.roots.len(), MAX_ROOTS);
        assert!(
            roots.roots.iter().any(|root| root.mac == mac(1)),
            "the one that was asked stays"
        );
    }
}
