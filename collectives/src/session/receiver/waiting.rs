//! A receiver that has not joined yet: listens for senders' announcements and asks one of them to
//! join.

use super::config::{Admission, End, ReceiverConfig, ReceiverEndpoint, ReceiverEvent};
use super::roots::{AnnouncedRoot, InvitationOutcome, KnownRoot, Roots};
use crate::measure::kind::PROBE;
use crate::measure::{FIRST_PING, Responder, carries};
use crate::membership::Timing;
use crate::membership::timers::jitter;
use crate::membership::timers::{TimerTable, Wait};
use crate::session::endpoint::ipv4_in;
use crate::session::kind::{ANNOUNCE, KEYS, REFUSE};
use crate::session::message::{Done, Message, Refusal, ViewPart};
use crate::session::verified::Offered;
use crate::session::view::{Assembler, View};
use ethbcast_transport::wire::{Frame, Guard, HEADER_BYTES, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::sync::Arc;
use std::time::Duration;

const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time before a root is asked again that refused for a lasting reason, because the refusal may be
/// forged.
const JOIN_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Less than the time after which a root that is not heard is forgotten.
const SEEK_INTERVAL: Duration = Duration::from_millis(500);

/// Wait for a session. Once there is a root that may be asked, further announcements are waited for
/// until `decide_at`. A refusal of the offered content is sent [`DECLINES`] times, as nothing
/// confirms it.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    began: Instant,
    roots: Roots,
    decide_at: Option<Instant>,
    seek_at: Instant,
    joining: Option<Box<Joining>>,
    admission: Admission,
    asked: Option<(MacAddr, u32)>,
    left_out: Option<End>,
    told: Option<End>,
    declined: Option<(Done, u32)>,
}

const DECLINES: u32 = 3;

#[derive(Debug)]
#[must_use]
pub(super) enum WaitingStep {
    Wait,
    End(End),
    Start(Arc<View>, Rank, ViewPart, Box<Joining>),
}

impl Waiting {
    pub(super) fn new(now: Instant, is_keyed: bool) -> Waiting {
        Waiting {
            began: now,
            roots: Roots::new(is_keyed),
            decide_at: None,
            seek_at: now,
            joining: None,
            admission: Admission::None,
            asked: None,
            left_out: None,
            told: None,
            declined: None,
        }
    }

    /// Refuses the offered content: says so with the next join requests, as the root knows the
    /// names only of those that have asked.
    pub(super) fn decline(&mut self, now: Instant, report: Done) {
        self.declined = Some((report, DECLINES));
        self.joining
            .iter_mut()
            .for_each(|joining| joining.timers.set(Wait::Join, now));
    }

    pub(super) fn take_declined(&mut self) -> Option<Done> {
        self.declined.take().map(|(report, _)| report)
    }

    pub(super) fn admission(&self) -> Admission {
        self.admission
    }

    /// Returns what is offered by the roots that may be asked, each with its address and name.
    pub(super) fn offers(
        &self,
        now: Instant,
        endpoint: &ReceiverEndpoint,
    ) -> impl Iterator<Item = (MacAddr, &str, Offered)> {
        let (config, is_keyed) = (endpoint.config(), endpoint.is_keyed());
        self.roots
            .open(now, config.timing.forgotten)
            .map(move |root| {
                let form = config.form.with_chunk(root.chunk).signed(is_keyed);
                let offered = Offered {
                    source: root.source.clone(),
                    size: root.size.map(|bytes| form.content_bytes(bytes)),
                    content: root.content,
                    chunk: root.chunk,
                };
                (root.mac, root.host.as_str(), offered)
            })
    }

    pub(super) fn admit(&mut self, now: Instant, config: &ReceiverConfig) {
        if self.admission == Admission::Wanted {
            (self.admission, self.decide_at) = (Admission::Given, Some(now));
            // The user's patience was with the roots: this host has let one wait.
            if config.leave_takes_long {
                self.began = now;
            }
        }
    }

    pub(super) fn view_bytes(&self) -> usize {
        self.joining
            .as_ref()
            .map_or(0, |joining| joining.view_bytes())
    }

    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        root: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> WaitingStep {
        let of_root = root.as_mut().filter(|root| root.sent(frame));
        let is_of_root = of_root.is_some();
        of_root
            .filter(|_| endpoint.shows_life(frame))
            .into_iter()
            .for_each(|root| root.on_frame(now));
        if frame.header.kind == ANNOUNCE {
            let bound = root.as_ref().map(|root| (root.mac(), root.session()));
            return self
                .on_announce(now, frame, bound, endpoint)
                .map_or(WaitingStep::Wait, WaitingStep::End);
        }
        let Some(joining) = self.joining.as_mut().filter(|_| is_of_root) else {
            return self
                .on_refusal(frame, endpoint)
                .map_or(WaitingStep::Wait, WaitingStep::End);
        };
        if frame.header.kind == KEYS {
            joining.take_keys(now, endpoint.identity().guard);
            return WaitingStep::Wait;
        }
        if frame.header.kind == PROBE {
            // Without a reply the root cannot admit a host that refuses.
            if self.declined.is_none() {
                joining.on_probe(now, frame, endpoint);
            }
            return WaitingStep::Wait;
        }
        let why = match endpoint.read(frame) {
            Some(Message::Refuse { nonce, why, text }) if nonce == endpoint.config().nonce => {
                End::Refused(why, text)
            }
            Some(Message::Abort { text }) => End::Aborted(text),
            Some(Message::View(part)) => return self.on_view_part(part, endpoint),
            _ => return WaitingStep::Wait,
        };
        if self.declined.is_some() {
            return WaitingStep::End(End::Dropped);
        }
        self.on_left_out(now, why, root, endpoint)
            .map_or(WaitingStep::Wait, WaitingStep::End)
    }

    fn on_view_part(&mut self, part: ViewPart, endpoint: &mut ReceiverEndpoint) -> WaitingStep {
        let Some(joining) = &mut self.joining else {
            return WaitingStep::Wait;
        };
        let Some(view) = joining.on_view_part(&part) else {
            return WaitingStep::Wait;
        };
        let AnnouncedRoot {
            mac: root,
            size,
            content,
            chunk,
            ..
        } = *joining.root();
        let ReceiverConfig { station, nonce, .. } = endpoint.config();
        let is_offered = (view.size, view.content, view.chunk) == (size, content, chunk);
        if !view.fits(station.payload_bytes()) || !view.names(Rank::ROOT, root) || !is_offered {
            endpoint.count_malformed();
            return WaitingStep::Wait;
        }
        let rank = view.rank_of(*nonce, station.mac);
        match rank.zip(self.joining.take_if(|_| rank.is_some())) {
            Some((rank, joining)) => WaitingStep::Start(view, rank, part, joining),
            None => WaitingStep::Wait,
        }
    }

    fn on_announce(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        bound: Option<(MacAddr, u32)>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let message = endpoint.read(frame)?;
        let Message::Announce { group, host, .. } = &message else {
            return None;
        };
        let had = (frame.source, frame.header.session);
        let config = endpoint.config();
        let is_other = |sought: u32| ipv4_in(frame.source) != sought;
        if *group != endpoint.station().group
            || config.had.contains(&had)
            || config.sought.is_some_and(is_other)
        {
            return None;
        }
        if let Some((host, text)) = endpoint.config().unexpected(&message) {
            let end = self.stay_out(host, End::Refused(Refusal::Late, text), endpoint);
            // The offer may be a recorded one.
            return end.filter(|_| !endpoint.is_keyed());
        }
        let of = (frame.source, frame.header.session);
        let heard = self.roots.on_invitation(now, of, &message, bound);
        self.roots.received(of, HEADER_BYTES + frame.payload.len());
        match heard {
            _ if self.joining.is_some() => None,
            // Others may follow: the first one heard would be the one that repeats itself most
            // often.
            InvitationOutcome::Open => {
                self.decide_at
                    .get_or_insert(now + endpoint.config().timing.announce);
                None
            }
            InvitationOutcome::Running {
                is_news,
                notify_root,
            } => {
                if notify_root {
                    // Tells the root that this host waits in vain, and that a member which was
                    // restarted is gone.
                    let request = endpoint.config().request();
                    if self.roots.may_send(of, &request, endpoint) {
                        endpoint.send_in(frame.header.session, frame.source, &request);
                    }
                }
                let text = format!("a session of group {group} is running without this host");
                let why = End::Refused(Refusal::Late, text);
                // With keys only the reply of the root counts: its announcement may be replayed.
                (is_news && !endpoint.is_keyed())
                    .then(|| self.stay_out(host.clone(), why, endpoint))
                    .flatten()
            }
            InvitationOutcome::Closed => None,
        }
    }

    fn on_refusal(&mut self, frame: &Frame<'_>, endpoint: &mut ReceiverEndpoint) -> Option<End> {
        let of = (frame.source, frame.header.session);
        let late = self
            .roots
            .requested_too_late(of)
            .filter(|_| endpoint.is_keyed() && frame.header.kind == REFUSE);
        let Some(root) = late else {
            endpoint.count_non_member();
            return None;
        };
        let Message::Refuse { nonce, why, text } = endpoint.read(frame)? else {
            return None;
        };
        if nonce != endpoint.config().nonce {
            return None;
        }
        root.refused = true;
        let host = root.host.clone();
        self.stay_out(host, End::Refused(why, text), endpoint)
    }

    fn request(
        &mut self,
        now: Instant,
        known: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) {
        (self.decide_at, self.joining, *known) = (None, None, None);
        let Some(root) = self
            .roots
            .choose(now, endpoint.config().timing.forgotten, self.asked)
        else {
            self.admission = Admission::None;
            return;
        };
        log::info!(
            "{} invites: {}, {:?} bytes",
            root.host,
            root.source,
            root.size
        );
        endpoint.enter(root.mac, root.session);
        let form = endpoint
            .config()
            .form
            .with_chunk(root.chunk)
            .signed(endpoint.is_keyed());
        endpoint.config_mut().form = form;
        let request = endpoint.config().request();
        endpoint.prepare(&request);
        *known = Some(KnownRoot::new(
            now,
            root.mac,
            root.session,
            endpoint.config(),
        ));
        if self.asked.replace((root.mac, root.session)) != Some((root.mac, root.session)) {
            let (host, source) = (root.host.clone(), root.source.clone());
            let size = root
                .size
                .map(|bytes| endpoint.config().form.content_bytes(bytes));
            endpoint.push_event(ReceiverEvent::Invited {
                host,
                source,
                size,
                content: root.content,
                chunk: root.chunk,
            });
        }
        self.joining = Some(Box::new(Joining::new(now, root, endpoint)));
    }

    fn on_left_out(
        &mut self,
        now: Instant,
        why: End,
        known: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let joining = self.joining.take()?;
        let again = match &why {
            End::Refused(Refusal::Late | Refusal::Twin | Refusal::Path, _) => RETRY_AFTER,
            End::RootSilent => Duration::ZERO,
            // A root that gave up announces nothing: only one that still does by then is asked
            // again.
            End::Aborted(_) => endpoint.config().timing.forgotten,
            _ => JOIN_RETRY_AFTER,
        };
        self.roots.close(joining.root(), now + again);
        (self.decide_at, self.admission, *known) = (None, Admission::None, None);
        self.stay_out(joining.root().host.clone(), why, endpoint)
    }

    fn stay_out(&mut self, host: String, why: End, endpoint: &mut ReceiverEndpoint) -> Option<End> {
        if endpoint.config().once {
            return Some(why);
        }
        let text = match &why {
            End::Refused(_, text) | End::Aborted(text) => text.clone(),
            _ => "it fell silent before it started".to_owned(),
        };
        if self.told.replace(why.clone()).as_ref() != Some(&why) {
            endpoint.push_event(ReceiverEvent::LeftOut { host, text });
        }
        // A reason that lies with this host outlives a later refusal for coming too late.
        if is_of_this_host(&why) || !self.left_out.as_ref().is_some_and(is_of_this_host) {
            self.left_out = Some(why);
        }
        None
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        known: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        if endpoint.config().sought.is_some() && self.seek_at <= now {
            self.seek_at = now + SEEK_INTERVAL;
            endpoint.seek(endpoint.config().nonce);
        }
        let Timing {
            forgotten: dead,
            patience,
            ..
        } = endpoint.config().timing;
        if let (Some(joining), Some(root)) = (&mut self.joining, known.as_ref()) {
            let silence = root.silence(now);
            let others: Vec<MacAddr> = self.roots.others(now, joining.root(), dead).collect();
            let is_only = endpoint.is_keyed() || !others.contains(&root.mac());
            let is_sure = endpoint.has_keys() && (is_only || joining.answered);
            let in_vain = silence >= dead || joining.is_in_vain(now, is_sure);
            let of = (root.mac(), root.session());
            if let Some((report, left)) = &mut self.declined {
                if joining.handle_timeout(now, &mut self.roots, endpoint) {
                    joining.leave(&report.text, &mut self.roots, endpoint);
                    *left -= 1;
                }
                return (*left == 0).then_some(End::Dropped);
            } else if in_vain && !others.is_empty() {
                // A true root keeps this host's place in its queue while another session of its
                // address is tried.
                if is_only || joining.answered {
                    joining.leave(
                        "it asks another root, as this one did not reply",
                        &mut self.roots,
                        endpoint,
                    );
                }
                if !endpoint.has_keys() {
                    self.roots.give_up(now, of);
                }
                self.request(now, known, endpoint);
            } else if silence >= dead + patience && !endpoint.has_keys() {
                // No root has answered: what came may be replayed, and ends no wait.
                self.roots.give_up(now, of);
                (self.joining, self.admission, *known) = (None, Admission::None, None);
            } else if silence >= dead + patience {
                return self.on_left_out(now, End::RootSilent, known, endpoint);
            } else {
                // Its view may include this host already: it is asked until it returns, or another
                // root comes.
                joining.handle_timeout(now, &mut self.roots, endpoint);
            }
        } else if self.decide_at.is_some_and(|at| at <= now) {
            if endpoint.config().by_leave && self.admission != Admission::Given {
                // The announcement may be outdated by then, so the roots are checked when
                // permission is given.
                (self.decide_at, self.admission) = (None, Admission::Wanted);
            } else {
                self.request(now, known, endpoint);
            }
        }
        if self
            .gives_up_at(endpoint.config())
            .is_none_or(|at| now < at)
        {
            return None;
        }
        Some(match self.left_out.take() {
            Some(End::Aborted(text)) => End::NobodyElse(text),
            None if self
                .joining
                .as_ref()
                .is_some_and(|joining| joining.answered) =>
            {
                End::RootSilent
            }
            why => why.unwrap_or(End::NobodyThere),
        })
    }

    /// Time at which waiting ends: with the user's patience, but not while a live root is about to
    /// admit this host, or this host to ask one.
    fn gives_up_at(&self, config: &ReceiverConfig) -> Option<Instant> {
        let Timing {
            forgotten: dead,
            patience: silence,
            ..
        } = config.timing;
        let answered_until = self
            .joining
            .as_ref()
            .and_then(|joining| joining.deadline(dead + silence));
        let patience = config
            .patience
            .filter(|_| !config.leave_takes_long || self.admission != Admission::Wanted)?;
        Some((self.began + patience).max(answered_until.unwrap_or(self.began)))
    }

    pub(super) fn leave(&mut self, text: &str, endpoint: &mut ReceiverEndpoint) {
        if let Some(joining) = &self.joining {
            joining.leave(text, &mut self.roots, endpoint);
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.joining.as_mut()?.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self, config: &ReceiverConfig) -> Option<Deadline> {
        let patience = self.gives_up_at(config).map(|at| Wait::Announce.at(at));
        // A silent root is checked each time it is asked.
        let own = match &self.joining {
            Some(joining) => joining.poll_timeout(),
            None => self.decide_at.map(|at| Wait::Join.at(at)),
        };
        let seek = config.sought.map(|_| Wait::Announce.at(self.seek_at));
        own.into_iter().chain(patience).chain(seek).min()
    }
}

fn is_of_this_host(why: &End) -> bool {
    matches!(why, End::Refused(why, _) if !matches!(why, Refusal::Late))
}

const ANSWER_LIMIT: Duration = Duration::from_millis(2500);
/// Silence of a root that has not sent the group's secret, or without keys has not answered while
/// its address announces another session: the announcement may be replayed or forged.
const UNSURE_LIMIT: Duration = Duration::from_millis(300);

/// Requests that take longer than the second after which a root with a key answers a host that it
/// has admitted. Before the check of its path is over it answers each.
const KEYED_ANSWERS_AFTER: u32 = 21;

/// Join request to a root. A proof of its life is the group's secret, which only the root that was
/// asked can have sent, or without keys a PROBE with this host's nonce. The root is given up after
/// [`ANSWER_LIMIT`] without proof, as a live one sends a sign of life every second, and after
/// [`UNSURE_LIMIT`] if it has not sent the secret.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    root: AnnouncedRoot,
    assembler: Assembler,
    responder: Responder,
    answered_at: Instant,
    answered: bool,
    /// Requests since the last KEYS.
    requests: u32,
    timers: TimerTable,
}

impl Joining {
    pub(super) fn new(now: Instant, root: AnnouncedRoot, endpoint: &ReceiverEndpoint) -> Joining {
        let station = endpoint.station();
        let mut responder = Responder::new(
            station.identity(0, Rank::NONE),
            usize::from(station.mtu_bytes),
            None,
        )
        .with_processors(endpoint.config().processors);
        if endpoint.has_keys() {
            // Those of a root that is asked again.
            responder.set_guard(endpoint.identity().guard);
        }
        let mut timers = TimerTable::default();
        timers.set(Wait::Join, now);
        let assembler = Assembler::new(endpoint.config().views.clone());
        let (answered_at, answered) = (now, false);
        Joining {
            root,
            assembler,
            responder,
            answered_at,
            answered,
            requests: 0,
            timers,
        }
    }

    pub(super) fn root(&self) -> &AnnouncedRoot {
        &self.root
    }

    pub(super) fn view_bytes(&self) -> usize {
        self.assembler.bytes()
    }

    pub(super) fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.answered.then(|| self.answered_at + limit)
    }

    pub(super) fn is_in_vain(&self, now: Instant, is_sure: bool) -> bool {
        now.since(self.answered_at) >= if is_sure { ANSWER_LIMIT } else { UNSURE_LIMIT }
    }

    pub(super) fn take_keys(&mut self, now: Instant, guard: Guard) {
        self.responder.set_guard(guard);
        (self.answered_at, self.answered, self.requests) = (now, true, 0);
    }

    /// Handles a PROBE; one that carries this host's `nonce` proves that the root is alive. A PROBE
    /// with another nonce gets no answer, so that a request forged in this host's name is not
    /// admitted. Before that proof none gets one, as a forged source would get long echoes. With
    /// keys other members could send either.
    pub(super) fn on_probe(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        endpoint: &ReceiverEndpoint,
    ) {
        if carries(frame, endpoint.config().nonce) {
            if !endpoint.is_keyed() {
                (self.answered_at, self.answered) = (now, true);
            }
        } else if frame.header.stamp >= FIRST_PING || !self.answered {
            return;
        }
        self.echo_probe(now, frame);
    }

    pub(super) fn echo_probe(&mut self, now: Instant, frame: &Frame<'_>) {
        self.responder.handle_frame(now, frame);
    }

    pub(super) fn into_responder(self) -> Responder {
        self.responder
    }

    pub(super) fn on_view_part(&mut self, part: &ViewPart) -> Option<Arc<View>> {
        self.assembler.take(part)
    }

    fn handle_timeout(
        &mut self,
        now: Instant,
        roots: &mut Roots,
        endpoint: &mut ReceiverEndpoint,
    ) -> bool {
        if !self.timers.take_due(Wait::Join, now) {
            return false;
        }
        let ReceiverConfig { nonce, timing, .. } = endpoint.config();
        // At a random moment, so that requests that collided at the root's port do not collide
        // again.
        let half = timing.join / 2;
        self.timers.set(
            Wait::Join,
            now + half + jitter(half, nonce ^ now.as_nanos()),
        );
        self.requests += 1;
        let in_vain = match self.requests {
            4..KEYED_ANSWERS_AFTER if self.answered => 0,
            requests => requests,
        };
        let to = endpoint.repeated_to(self.root.mac, in_vain);
        self.send(to, &endpoint.config().request(), roots, endpoint);
        true
    }

    fn leave(&self, text: &str, roots: &mut Roots, endpoint: &mut ReceiverEndpoint) {
        let nonce = endpoint.config().nonce;
        self.send(
            self.root.mac,
            &Message::Leave {
                nonce,
                text: text.to_owned(),
            },
            roots,
            endpoint,
        );
    }

    fn send(
        &self,
        to: MacAddr,
        message: &Message,
        roots: &mut Roots,
        endpoint: &mut ReceiverEndpoint,
    ) {
        if self.answered || roots.may_send((self.root.mac, self.root.session), message, endpoint) {
            endpoint.send(to, message);
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.responder.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next()
    }
}
