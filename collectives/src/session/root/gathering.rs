//! Before a session: the root invites, waits for receivers, and may look at the network while they wait.

use super::applicants::{Answer, Applicants, Offer};
use super::first_view::first_view;
use super::{NoPlan, RootConfig, RootEndpoint, RootEvent, RootFailure};
use crate::measure::{ProbeSettings, Prober, calibrate, kind};
use crate::membership::timers::{TimerTable, Wait};
use crate::session::message::{Message, Refusal, Stage};
use crate::session::view::View;
use ethbcast_planning::model::{Calibration, Choice};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::{Frame, Peer, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};

/// The root invites whoever listens; in the end it may look at the network for a moment (Patarasuk 2008 §5.1).
#[derive(Debug)]
pub(super) struct Gathering {
    began: Instant,
    applicants: Applicants,
    /// Measures before the start, when everybody is there and nobody has measured before.
    prober: Option<Prober>,
    calibration: Option<Calibration>,
    timers: TimerTable,
}

/// How gathering goes on.
#[derive(Debug)]
#[must_use]
pub(super) enum GatheringStep {
    Wait,
    /// With those who are there.
    Start,
    GiveUp(RootFailure),
}

impl Gathering {
    /// Begins to invite at `now`.
    pub(super) fn new(now: Instant, config: &RootConfig) -> Gathering {
        let mut timers = TimerTable::default();
        timers.set(Wait::Announce, now);
        let calibration = config.calibration.clone();
        Gathering { began: now, applicants: Applicants::default(), prober: None, calibration, timers }
    }

    /// The first view of those who are there, and what it is predicted to take.
    pub(super) fn first_view(&mut self, config: &RootConfig) -> Result<(View, Choice), NoPlan> {
        first_view(config, &self.applicants.take().0, self.calibration.take())
    }

    /// The timers that go on in the session: that of invitations.
    pub(super) fn take_timers(&mut self) -> TimerTable {
        std::mem::take(&mut self.timers)
    }

    /// Whether it is not too late for the receiver with this nonce: while the network is probed, the number wanted is
    /// there.
    pub(super) fn is_open_to(&self, nonce: u64, config: &RootConfig) -> bool {
        let full = self.prober.is_some() && config.wanted.enough.is_some();
        !full || self.applicants.has(nonce)
    }

    /// Takes a request to join.
    pub(super) fn on_join(
        &mut self,
        now: Instant,
        from: MacAddr,
        join: &Message,
        endpoint: &mut RootEndpoint,
    ) -> GatheringStep {
        let Message::Join { nonce, host, .. } = join else { return GatheringStep::Wait };
        let config = endpoint.config();
        let offer = Offer {
            root: &config.station.host,
            mtu_bytes: config.station.mtu_bytes,
            size: config.size,
            known_hosts: config.topology.as_ref().map(Topology::hosts),
        };
        let answer = self.applicants.on_join(now, from, join, offer, config.timing.join * 5);
        let (receivers, enough) = (self.applicants.len(), config.wanted.enough);
        match answer {
            Answer::Known => {}
            Answer::New => {
                log::info!("{host} ({from}) joined");
                endpoint.tell(RootEvent::Joined { host: host.clone(), receivers });
                if enough.is_some_and(|enough| receivers >= enough) {
                    return self.probe_or_start(now, endpoint);
                }
            }
            Answer::Refused { why, text, first_time } => {
                endpoint.send(from, &Message::Refuse { nonce: *nonce, why, text: text.clone() });
                if first_time {
                    endpoint.tell(RootEvent::Refused { host: host.clone(), text });
                }
            }
        }
        GatheringStep::Wait
    }

    /// Takes a frame that is no request to join: an answer to a probe, if it belongs here.
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        endpoint: &mut RootEndpoint,
    ) -> GatheringStep {
        match &mut self.prober {
            Some(prober) if matches!(frame.header.kind, kind::ECHO | kind::REPORT) => {
                prober.handle_frame(now, frame);
                self.watch_probe()
            }
            _ => {
                endpoint.count_stranger();
                GatheringStep::Wait
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> GatheringStep {
        if self.timers.take_due(Wait::Announce, now) {
            let age = now.since(self.began);
            endpoint.send_to_group(&endpoint.config().invitation(Stage::Gathering, age));
            self.timers.set(Wait::Announce, now + endpoint.config().timing.announce);
        }
        if let Some(prober) = &mut self.prober {
            prober.handle_timeout(now);
            return self.watch_probe();
        }
        self.watch(now, endpoint)
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.prober.as_mut()?.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self, now: Instant, config: &RootConfig) -> Option<Deadline> {
        let other = match &self.prober {
            Some(prober) => prober.poll_timeout(now),
            None => Some(Wait::Join.at(self.began + config.wanted.patience)),
        };
        self.timers.next().into_iter().chain(other).min()
    }

    /// Starts, waits on or gives up, as patience and those who are there demand.
    fn watch(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> GatheringStep {
        for host in self.applicants.drop_silent(now, endpoint.config().timing.dead) {
            endpoint.tell(RootEvent::Left { host });
        }
        let wanted = endpoint.config().wanted;
        if now.since(self.began) < wanted.patience {
            return GatheringStep::Wait;
        }
        if self.applicants.len() >= wanted.at_least.max(1) {
            return self.probe_or_start(now, endpoint);
        }
        let (admitted, refused) = self.applicants.take();
        let joined = admitted.into_iter().map(|applicant| applicant.host).collect();
        GatheringStep::GiveUp(RootFailure::TooFew {
            joined,
            refused,
            wanted: wanted.at_least,
            patience: wanted.patience,
        })
    }

    /// Everybody is there: measures, or starts at once if what the network costs is known or does not matter.
    fn probe_or_start(&mut self, now: Instant, endpoint: &RootEndpoint) -> GatheringStep {
        if self.prober.is_some() {
            return GatheringStep::Wait;
        }
        // One receiver gets all of the time: in a share of it, a rate limiter's burst or a buffer would be taken for
        // the link's rate.
        let config = endpoint.config();
        let Some(speaker) = self.applicants.sample().filter(|_| config.probe && self.calibration.is_none()) else {
            return GatheringStep::Start;
        };
        let targets = vec![Peer { rank: Rank::ROOT, mac: speaker.mac }];
        let identity = config.station.identity(config.session, Rank::NONE);
        let settings = ProbeSettings::short(usize::from(config.station.mtu_bytes));
        self.prober = Some(Prober::new(now, identity, targets, settings));
        GatheringStep::Wait
    }

    /// Goes on to the start when the measurement is done.
    fn watch_probe(&mut self) -> GatheringStep {
        let Some(prober) = self.prober.take_if(|prober| prober.is_done()) else { return GatheringStep::Wait };
        match calibrate(&prober.result()) {
            Ok(calibration) => {
                log::info!("probed: {:?}, loss {:.4}", calibration.points(), calibration.loss());
                self.calibration = Some(calibration);
            }
            Err(error) => log::warn!("the short probe found out too little ({error}); cables of 1 Gbit/s are assumed"),
        }
        GatheringStep::Start
    }
}

/// Says no to a receiver that asks after the start.
pub(super) fn refuse_late(to: MacAddr, nonce: u64, group: &str, host: &str, endpoint: &mut RootEndpoint) {
    let text =
        format!("the session of group {group} has started without {host}; run `ethbcast recv` before `ethbcast send`");
    endpoint.send(to, &Message::Refuse { nonce, why: Refusal::Late, text });
}
