//! Before a session: hears roots, asks one of them, and turns to another when that says no or nothing.

use super::joining::Joining;
use super::known_root::KnownRoot;
use super::roots::{Heard, HeardRoot, Roots};
use super::{Admission, End, ReceiverConfig, ReceiverEndpoint, ReceiverEvent};
use crate::measure::kind::PROBE;
use crate::membership::Timing;
use crate::membership::timers::Wait;
use crate::session::kind::ANNOUNCE;
use crate::session::message::{Message, Refusal, ViewPart};
use crate::session::view::View;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr};
use std::collections::VecDeque;
use std::time::Duration;

/// A root that said no is asked again after so long, if it may say otherwise then.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// One that said no for a reason that stays is asked again after so long, for anybody may have said so in its name.
const ASK_LATER: Duration = Duration::from_secs(5);

/// Waits for a root, or for one that was asked.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    began: Instant,
    roots: Roots,
    /// Until then others are waited for, once there is a root that may be asked.
    decide_at: Option<Instant>,
    joining: Option<Box<Joining>>,
    admission: Admission,
    /// The address and session that were asked last.
    asked: Option<(MacAddr, u32)>,
    /// How far roots that were asked have proved that they live, the last ones: what is said again proves nothing, also
    /// when the same root is asked again.
    proofs: VecDeque<((MacAddr, u32), u32)>,
    /// Why no root that was asked took this host.
    left_out: Option<End>,
    /// Why the last one did not, as its user was told.
    told: Option<End>,
}

/// So many roots are remembered that have been asked.
const MOST_PROOFS: usize = 16;

/// How waiting goes on.
#[derive(Debug)]
#[must_use]
pub(super) enum WaitingStep {
    Wait,
    End(End),
    /// This host is that member of that view, of which this part came last.
    Start(View, Rank, ViewPart, Box<Joining>),
}

impl Waiting {
    /// Waits from `now` on.
    pub(super) fn new(now: Instant) -> Waiting {
        Waiting {
            began: now,
            roots: Roots::default(),
            decide_at: None,
            joining: None,
            admission: Admission::None,
            asked: None,
            proofs: VecDeque::new(),
            left_out: None,
            told: None,
        }
    }

    /// How it stands with the user's leave to ask a root.
    pub(super) fn admission(&self) -> Admission {
        self.admission
    }

    /// The root that invites may be asked.
    pub(super) fn admit(&mut self, now: Instant) {
        if self.admission == Admission::Wanted {
            (self.admission, self.decide_at) = (Admission::Given, Some(now));
        }
    }

    /// Bytes of the parts of views that are here.
    pub(super) fn view_bytes(&self) -> usize {
        self.joining.as_ref().map_or(0, |joining| joining.view_bytes())
    }

    /// Takes any frame.
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        root: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> WaitingStep {
        let of_root = root.as_mut().filter(|root| root.sent(frame));
        let is_of_root = of_root.is_some();
        of_root.into_iter().for_each(|root| root.hear(now));
        if frame.header.kind == ANNOUNCE {
            let bound = root.as_ref().map(KnownRoot::mac);
            return self.on_announce(now, frame, bound, endpoint).map_or(WaitingStep::Wait, WaitingStep::End);
        }
        let Some(joining) = self.joining.as_mut().filter(|_| is_of_root) else {
            endpoint.count_stranger();
            return WaitingStep::Wait;
        };
        if frame.header.kind == PROBE {
            joining.on_probe(now, frame, endpoint.config().nonce);
            let (of, proof) = ((joining.root().mac, joining.root().session), joining.proof());
            self.proofs.iter_mut().filter(|(asked, _)| *asked == of).for_each(|(_, known)| *known = proof);
            return WaitingStep::Wait;
        }
        let why = match endpoint.read(frame) {
            Some(Message::Refuse { nonce, why, text }) if nonce == endpoint.config().nonce => End::Refused(why, text),
            Some(Message::Abort { text }) => End::Aborted(text),
            Some(Message::View(part)) => return self.on_view_part(part, endpoint),
            _ => return WaitingStep::Wait,
        };
        self.on_left_out(now, why, root, endpoint).map_or(WaitingStep::Wait, WaitingStep::End)
    }

    /// This host is a member as soon as there is a view that names it.
    fn on_view_part(&mut self, part: ViewPart, endpoint: &mut ReceiverEndpoint) -> WaitingStep {
        let Some(joining) = &mut self.joining else { return WaitingStep::Wait };
        let Some(view) = joining.on_view_part(&part) else { return WaitingStep::Wait };
        let HeardRoot { mac: root, size, content, chunk, .. } = *joining.root();
        let ReceiverConfig { station, nonce, .. } = endpoint.config();
        let is_offered = (view.size, view.content, view.chunk) == (size, content, chunk);
        if !view.fits(station.mtu_bytes) || !view.names(Rank::ROOT, root) || !is_offered {
            endpoint.count_malformed();
            return WaitingStep::Wait;
        }
        let rank = view.rank_of(*nonce, station.mac);
        match rank.zip(self.joining.take_if(|_| rank.is_some())) {
            Some((rank, joining)) => WaitingStep::Start(view, rank, part, joining),
            None => WaitingStep::Wait,
        }
    }

    /// A root invites whoever waits, or says that its session goes on without this host; how that ends it here, if so.
    fn on_announce(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        bound: Option<MacAddr>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let message = endpoint.read(frame)?;
        let Message::Announce { group, host, .. } = &message else { return None };
        let had = (frame.source, frame.header.session);
        if *group != endpoint.station().group || endpoint.config().had.contains(&had) {
            return None;
        }
        if let Some((host, text)) = endpoint.config().unexpected(&message) {
            return self.stay_out(host, End::Refused(Refusal::Late, text), endpoint);
        }
        let heard = self.roots.hear(now, (frame.source, frame.header.session), &message, bound);
        match heard {
            _ if self.joining.is_some() => None,
            // There may be another: whichever is heard first would be the one that repeats itself most often.
            Heard::Open => {
                self.decide_at.get_or_insert(now + endpoint.config().timing.announce);
                None
            }
            Heard::Running { is_news, tell_root } => {
                if tell_root {
                    // So that it knows who waits in vain, and that a member which was started again is gone.
                    let request = endpoint.config().request();
                    endpoint.send_in(frame.header.session, frame.source, &request);
                }
                let text = format!("a session of group {group} is running without this host");
                let why = End::Refused(Refusal::Late, text);
                is_news.then(|| self.stay_out(host.clone(), why, endpoint)).flatten()
            }
            Heard::Closed => None,
        }
    }

    /// Asks the root whose turn it is.
    fn ask(&mut self, now: Instant, known: &mut Option<KnownRoot>, endpoint: &mut ReceiverEndpoint) {
        (self.decide_at, self.joining, *known) = (None, None, None);
        let Some(root) = self.roots.choose(now, endpoint.config().timing.forgotten) else {
            self.admission = Admission::None;
            return;
        };
        log::info!("{} invites: {}, {:?} bytes", root.host, root.source, root.size);
        endpoint.enter(root.session);
        let form = endpoint.config().form.with_chunk(root.chunk);
        endpoint.config_mut().form = form;
        *known = Some(KnownRoot::new(now, root.mac, root.session, endpoint.config()));
        if self.asked.replace((root.mac, root.session)) != Some((root.mac, root.session)) {
            let (host, source) = (root.host.clone(), root.source.clone());
            let size = root.size.map(|bytes| endpoint.config().form.content_bytes(bytes));
            endpoint.tell(ReceiverEvent::Invited { host, source, size, content: root.content, chunk: root.chunk });
        }
        let of = (root.mac, root.session);
        let proof = self.proofs.iter().find(|(asked, _)| *asked == of).map_or(0, |(_, proof)| *proof);
        self.proofs.retain(|(asked, _)| *asked != of);
        self.proofs.truncate(MOST_PROOFS - 1);
        self.proofs.push_front((of, proof));
        self.joining = Some(Box::new(Joining::new(now, root, proof, endpoint)));
    }

    /// The root that was asked has said no, or does not come to a session; how that ends it here, if so.
    fn on_left_out(
        &mut self,
        now: Instant,
        why: End,
        known: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let joining = self.joining.take()?;
        let again = match &why {
            End::Refused(Refusal::Late | Refusal::Twin | Refusal::Path, _) => ASK_AGAIN,
            End::RootSilent => Duration::ZERO,
            // Whoever has given up invites nobody: only one that still does by then is asked again.
            End::Aborted(_) => endpoint.config().timing.forgotten,
            _ => ASK_LATER,
        };
        self.roots.close(joining.root().mac, now + again);
        (self.decide_at, self.admission, *known) = (None, Admission::None, None);
        self.stay_out(joining.root().host.clone(), why, endpoint)
    }

    /// This host is no part of a session: another is waited for, unless the first is the only one.
    fn stay_out(&mut self, host: String, why: End, endpoint: &mut ReceiverEndpoint) -> Option<End> {
        if endpoint.config().once {
            return Some(why);
        }
        let text = match &why {
            End::Refused(_, text) | End::Aborted(text) => text.clone(),
            _ => "it fell silent before it started".to_owned(),
        };
        if self.told.replace(why.clone()).as_ref() != Some(&why) {
            endpoint.tell(ReceiverEvent::LeftOut { host, text });
        }
        // What lies with this host is the reason also where it came too late, or in vain, for the next session.
        if is_of_this_host(&why) || !self.left_out.as_ref().is_some_and(is_of_this_host) {
            self.left_out = Some(why);
        }
        None
    }

    /// Asks, repeats, or turns to another root; how waiting ends, if it does.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        known: &mut Option<KnownRoot>,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let Timing { forgotten: dead, patience, .. } = endpoint.config().timing;
        if let (Some(joining), Some(root)) = (&mut self.joining, known.as_ref()) {
            let silence = root.silence(now);
            let in_vain = silence >= dead || joining.is_in_vain(now);
            if in_vain && self.roots.has_other(now, joining.root(), dead) {
                leave(root, "it asks another root, as this one did not answer", endpoint);
                self.ask(now, known, endpoint);
            } else if silence >= dead + patience {
                return self.on_left_out(now, End::RootSilent, known, endpoint);
            } else {
                // Its list may name this host already: it is asked until it comes back, or another comes.
                joining.handle_timeout(now, root.mac(), endpoint);
            }
        } else if self.decide_at.is_some_and(|at| at <= now) {
            if endpoint.config().by_leave && self.admission != Admission::Given {
                // Whether a root still invites by then is looked at when leave is given.
                (self.decide_at, self.admission) = (None, Admission::Wanted);
            } else {
                self.ask(now, known, endpoint);
            }
        }
        if self.gives_up_at(endpoint.config()).is_none_or(|at| now < at) {
            return None;
        }
        Some(match self.left_out.take() {
            // Another sender was waited for, and none came.
            Some(End::Aborted(text)) => End::Refused(Refusal::Late, text),
            why => why.unwrap_or(End::NobodyThere),
        })
    }

    /// When waiting ends: with its user's patience, but not while a root is there that takes this host.
    fn gives_up_at(&self, config: &ReceiverConfig) -> Option<Instant> {
        let Timing { forgotten: dead, patience, .. } = config.timing;
        let answered_until = self.joining.as_ref().and_then(|joining| joining.answered_until(dead + patience));
        Some((self.began + config.patience?).max(answered_until.unwrap_or(self.began)))
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.joining.as_mut()?.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self, config: &ReceiverConfig) -> Option<Deadline> {
        let patience = self.gives_up_at(config).map(|at| Wait::Announce.at(at));
        // A root that is silent, or does not answer, is looked at whenever it is asked.
        let own = match &self.joining {
            Some(joining) => joining.poll_timeout(),
            None => self.decide_at.map(|at| Wait::Join.at(at)),
        };
        own.into_iter().chain(patience).min()
    }
}

/// Whether a host is left out for something that its user can change there.
fn is_of_this_host(why: &End) -> bool {
    matches!(why, End::Refused(why, _) if !matches!(why, Refusal::Late))
}

/// Tells a root that was asked that this host does not wait for it any more.
pub(super) fn leave(root: &KnownRoot, text: &str, endpoint: &mut ReceiverEndpoint) {
    let nonce = endpoint.config().nonce;
    endpoint.send(root.mac(), &Message::Leave { nonce, text: text.to_owned() });
}
