//! Start of a transfer: the sender announces it, admits receivers, and makes the first list of
//! members.

pub mod join_requests;
pub mod non_members;
pub mod path_check;
pub mod refusals;

use super::config::{NoPlan, OnSlow, RootConfig, RootEndpoint, RootEvent, RootFailure, TurnedAway};
use super::policy::planner::{Planner, doubted};
use crate::Route;
use crate::measure::{ProbeSettings, Prober, Unicast, broadcast, calibrate, kind};
use crate::membership::ack_tree::AckTree;
use crate::membership::timers::{TimerTable, Wait};
use crate::session::blocks::most_block_frames;
use crate::session::kind::CHALLENGE;
use crate::session::message::{Message, Outcome, Refusal, Stage};
use crate::session::view::{MAX_PUSH_FRAMES, MemberRole, View, ViewMember, most_payload_bytes};
use ethbcast_planning::model::{Broadcast, Calibration, Choice};
use ethbcast_planning::plan::{MIN_SEGMENT_BYTES, Plan, Via};
use ethbcast_transport::wire::{Frame, Peer, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part, Policy};
use join_requests::{Gone, JoinDecision, JoinRequest, JoinRequests};
use non_members::CompetingRoots;
use path_check::PathChecks;
use refusals::{Names, Refusals, node_name, table};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Time until the user is first shown which receivers have joined and which are missing. The
/// interval doubles after each report, up to [`MAX_BETWEEN_WORDS`].
const FIRST_WORD: Duration = Duration::from_secs(2);
const MAX_BETWEEN_WORDS: Duration = Duration::from_secs(60);
/// Interval of unicast signs of life to waiting receivers; announcements in the root's name may be
/// replayed.
const GREET_EVERY: Duration = Duration::from_secs(1);
/// Time until announcements also go out by broadcast, because a switch may drop multicast frames.
const BEFORE_INVITING_ALL: Duration = Duration::from_secs(3);
const BETWEEN_INVITING_ALL: Duration = Duration::from_secs(1);
/// Maximum number of broadcast probes, where other traffic disturbs them.
const MAX_RAMPS: u8 = 3;
/// Two roots whose start times differ by less than this count as simultaneous; the one with the
/// lower address stays.
const SIMULTANEOUS: Duration = Duration::from_millis(50);

/// Announces the session and admits receivers; before the start it may measure the network briefly
/// (Patarasuk 2008 §5.1).
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    began: Instant,
    /// Start of the wait for receivers: again from the moment at which a held session lost one.
    waits_from: Instant,
    /// Moment at which more receivers were there than ever before.
    last_joined_at: Instant,
    most_joined: usize,
    join_requests: JoinRequests,
    checks: PathChecks,
    reached: VecDeque<MacAddr>,
    names: Names,
    competitors: CompetingRoots,
    started_by_user: bool,
    /// Whether the session would have started if it were not held.
    is_ready: bool,
    prober: Option<Prober>,
    probed: bool,
    /// Start of the measurement, and the time for which this thread had waited by then.
    before: (Instant, Duration),
    ramps_left: u8,
    calibration: Option<Calibration>,
    timers: TimerTable,
    between_words: Duration,
    invite_all_at: Instant,
}

#[derive(Debug)]
#[must_use]
pub(super) enum GatheringStep {
    Wait,
    Start,
    GiveUp(RootFailure),
}

impl Gathering {
    pub(super) fn new(now: Instant, config: &RootConfig) -> Gathering {
        let mut timers = TimerTable::default();
        timers.set(Wait::Announce, now);
        timers.set(Wait::Status, now + FIRST_WORD);
        let identity = config.station.identity(config.session, Rank::ROOT);
        Gathering {
            began: now,
            waits_from: now,
            last_joined_at: now,
            most_joined: 0,
            join_requests: JoinRequests::default(),
            checks: PathChecks::new(identity, usize::from(config.station.payload_bytes()))
                .proving(config.address_secret),
            reached: VecDeque::new(),
            names: Names::new(config),
            competitors: CompetingRoots::default(),
            started_by_user: false,
            is_ready: false,
            prober: None,
            probed: false,
            before: (now, Duration::ZERO),
            ramps_left: MAX_RAMPS,
            calibration: config.calibration.clone(),
            timers,
            between_words: FIRST_WORD,
            invite_all_at: now + BEFORE_INVITING_ALL,
        }
    }

    pub(super) fn first_view(
        &mut self,
        config: &RootConfig,
    ) -> Result<(View, Choice, Planner), NoPlan> {
        first_view(
            config,
            &self.join_requests.ranked(),
            self.calibration.take(),
        )
    }

    pub(super) fn take_timers(&mut self) -> TimerTable {
        std::mem::take(&mut self.timers)
    }

    /// Takes those that asked in time and could be reached, when enough others had joined.
    pub(super) fn take_rest(&mut self) -> Vec<JoinRequest> {
        let rest = std::mem::take(&mut self.reached);
        rest.into_iter()
            .filter_map(|mac| self.join_requests.reached(mac).cloned())
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.join_requests.len() == 0
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(super) fn age(&self, now: Instant) -> Duration {
        now.since(self.began)
    }

    pub(super) fn checks_mut(&mut self) -> &mut PathChecks {
        &mut self.checks
    }

    pub(super) fn entries(&self) -> usize {
        self.join_requests.entries() + self.checks.entries() + self.reached.len()
    }

    pub(super) fn on_join(
        &mut self,
        now: Instant,
        (from, is_in_vain): (MacAddr, bool),
        join: &Message,
        refusals: &mut Refusals,
        endpoint: &mut RootEndpoint,
    ) {
        let Message::Join { nonce, host, .. } = join else {
            return;
        };
        let offer = self.names.offer(endpoint.config());
        let answer = self
            .join_requests
            .on_join(now, from, join, offer, GREET_EVERY);
        match answer {
            JoinDecision::Wait => {}
            JoinDecision::Check => {
                if is_in_vain {
                    self.checks.probe_now(now, from);
                }
                self.checks.begin(from, *nonce);
            }
            // Only this root can send this secret, so no other proof of life is needed.
            JoinDecision::Greet if endpoint.is_keyed() => endpoint.send_keys(from, *nonce),
            JoinDecision::Greet => self.checks.greet(from, *nonce),
            JoinDecision::Refused(why, text) => {
                refusals.refuse(
                    now,
                    from,
                    *nonce,
                    TurnedAway {
                        host: host.clone(),
                        mac: from,
                        why,
                        text,
                    },
                    endpoint,
                );
            }
        }
        if let Some(evicted) = self.join_requests.evict() {
            self.checks.forget(evicted);
            endpoint.forget(evicted);
        }
        // The path check carries the group's secret.
        if self.checks.is_open(from, *nonce) {
            endpoint.send_keys(from, *nonce);
        }
    }

    pub(super) fn on_leave(
        &mut self,
        now: Instant,
        (nonce, from): (u64, MacAddr),
        text: &str,
        refusals: &mut Refusals,
        endpoint: &mut RootEndpoint,
    ) {
        let Some(gone) = self.join_requests.on_leave(from, nonce) else {
            return;
        };
        let (status, reason) = Outcome::WriteFailed.status_and_reason(text);
        let host = gone.host.clone();
        self.forget(gone, reason, endpoint);
        if status == Outcome::REFUSED {
            let text = format!("{host} says: {reason}");
            refusals.note(
                now,
                nonce,
                TurnedAway {
                    host,
                    mac: from,
                    why: Refusal::by_receiver(reason),
                    text,
                },
                endpoint,
            );
        }
    }

    fn forget(&mut self, gone: Gone, text: &str, endpoint: &mut RootEndpoint) {
        self.checks.forget(gone.mac);
        endpoint.forget(gone.mac);
        if gone.admitted {
            endpoint.push_event(RootEvent::Left {
                host: gone.host,
                mac: gone.mac,
                text: text.to_owned(),
            });
        }
    }

    pub(super) fn on_announce(
        &mut self,
        now: Instant,
        from: (MacAddr, u32),
        other: &Message,
        endpoint: &mut RootEndpoint,
    ) {
        let Message::Announce {
            host,
            source,
            stage,
            age_millis,
            ..
        } = other
        else {
            return;
        };
        let (own, other) = (self.age(now), Duration::from_millis(u64::from(*age_millis)));
        let is_first = match *stage {
            Stage::Gathering if own.abs_diff(other) <= SIMULTANEOUS => {
                from.0 < endpoint.station().mac
            }
            Stage::Gathering => other > own,
            Stage::Started | Stage::LateWelcome => true,
        };
        if is_first {
            self.competitors
                .on_invitation(now, from, (host, source), endpoint);
        }
    }

    pub(super) fn on_reply(
        &self,
        frame: &Frame<'_>,
        endpoint: &mut RootEndpoint,
    ) -> Option<RootFailure> {
        let Some(Message::Refuse { nonce, .. }) = endpoint.read(frame) else {
            return None;
        };
        self.competitors
            .on_reply((frame.source, frame.header.session), nonce, endpoint)
    }

    pub(super) fn start_now(&mut self) {
        self.started_by_user = true;
    }

    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        endpoint: &mut RootEndpoint,
    ) {
        if frame.header.kind == CHALLENGE && self.join_requests.knows(frame.source) {
            // Another host has sent it a forged view, so it considers itself a member.
            if let Some(Message::Challenge(question)) = endpoint.read(frame) {
                endpoint.reply(frame.source, &Message::Response(vec![question.word]));
            }
        } else if !matches!(frame.header.kind, kind::ECHO | kind::REPORT) {
            endpoint.count_non_member();
        } else if let Some(host) = self.checks.on_echo(frame) {
            if self.join_requests.set_reached(host) {
                self.reached.push_back(host);
            }
        } else if let Some(prober) = &mut self.prober {
            prober.handle_frame(now, frame);
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        refusals: &mut Refusals,
        endpoint: &mut RootEndpoint,
    ) {
        if self.timers.take_due(Wait::Announce, now) {
            let invitation = endpoint
                .config()
                .invitation(Stage::Gathering, self.age(now));
            endpoint.send_to_group(&invitation);
            if now >= self.invite_all_at {
                self.invite_all_at = now + BETWEEN_INVITING_ALL;
                endpoint.send(MacAddr::BROADCAST, &invitation);
            }
            self.timers
                .set(Wait::Announce, now + endpoint.config().timing.announce);
            self.drop_silent(now, endpoint);
            self.competitors.probe(endpoint);
        }
        if self.timers.take_due(Wait::Status, now) {
            self.notify_waiting(endpoint);
            self.timers.set(Wait::Status, now + self.between_words);
            self.between_words = (self.between_words * 2).min(MAX_BETWEEN_WORDS);
        }
        for host in self.checks.handle_timeout(now) {
            self.refuse_unreached(now, host, refusals, endpoint);
        }
        if let Some(prober) = &mut self.prober {
            prober.handle_timeout(now);
        }
    }

    fn drop_silent(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let timing = endpoint.config().timing;
        for gone in self
            .join_requests
            .drop_silent(now, timing.join * 5, timing.forgotten)
        {
            self.forget(gone, "nothing was heard of it any more", endpoint);
        }
    }

    fn notify_waiting(&self, endpoint: &mut RootEndpoint) {
        let (joined, config) = (self.join_requests.names(), endpoint.config());
        let (missing, wanted) = (missing(&joined, [], config), config.wanted.enough);
        endpoint.push_event(RootEvent::Waiting {
            joined,
            missing,
            wanted,
        });
    }

    fn refuse_unreached(
        &mut self,
        now: Instant,
        to: MacAddr,
        refusals: &mut Refusals,
        endpoint: &mut RootEndpoint,
    ) {
        let Some(gone) = self.join_requests.remove(to) else {
            return;
        };
        endpoint.forget(to);
        let text = self.checks.why_unreached(endpoint.station(), &gone.host);
        let away = TurnedAway {
            host: gone.host,
            mac: to,
            why: Refusal::Path,
            text,
        };
        refusals.refuse(now, to, gone.nonce, away, endpoint);
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let check = self.checks.poll_transmit(now, buffer);
        check.or_else(|| self.prober.as_mut()?.poll_transmit(now, buffer))
    }

    pub(super) fn poll_timeout(&self, now: Instant, config: &RootConfig) -> Option<Deadline> {
        let other = match &self.prober {
            Some(prober) => prober.poll_timeout(now),
            None if self.is_ready => None,
            None => {
                // Patience may end while the reply of another root is still awaited.
                let answered = self
                    .competitors
                    .awaited_until(now)
                    .unwrap_or(Instant::START);
                Some(Wait::Join.at(answered.max(self.gives_up_at(config))))
            }
        };
        let open = (!self.reached.is_empty())
            .then(|| Wait::Join.at(self.open_at(config)))
            .filter(|open| open.at > now);
        [self.timers.next(), other, open, self.checks.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn gives_up_at(&self, config: &RootConfig) -> Instant {
        let joined = self.join_requests.len();
        match &config.carousel {
            Some(carousel) => carousel.waits_until(self.began, self.last_joined_at, joined),
            None => self.waits_from + config.wanted.patience,
        }
    }

    /// Earliest time of an admission: the announcement of an older root of the group would have
    /// come by then.
    fn open_at(&self, config: &RootConfig) -> Instant {
        self.began + config.timing.announce * 2
    }

    pub(super) fn go_on(
        &mut self,
        now: Instant,
        refusals: &mut Refusals,
        endpoint: &mut RootEndpoint,
    ) -> GatheringStep {
        if let Some(prober) = self.prober.take_if(|prober| prober.is_done()) {
            self.take_measured(now, &prober, endpoint);
        }
        self.let_in(now, refusals, endpoint);
        if self.competitors.awaited_until(now).is_some() {
            return GatheringStep::Wait;
        }
        let wanted = endpoint.config().wanted;
        let there = self.join_requests.len();
        let is_over = now >= self.gives_up_at(endpoint.config())
            || (there >= wanted.at_least && self.all_have_said(refusals, endpoint.config()));
        let enough = wanted.enough.is_some_and(|enough| there >= enough);
        if enough || (there > 0 && (self.started_by_user || is_over && there >= wanted.at_least)) {
            let step = self.probe_or_start(now, endpoint);
            self.is_ready = endpoint.config().held && matches!(step, GatheringStep::Start);
            return if self.is_ready {
                GatheringStep::Wait
            } else {
                step
            };
        }
        self.prober = None;
        if std::mem::take(&mut self.is_ready) {
            // A receiver has left a session that waited for others: its place is waited for anew.
            self.waits_from = now;
            return GatheringStep::Wait;
        }
        if !is_over {
            return GatheringStep::Wait;
        }
        let joined = self.join_requests.names();
        GatheringStep::GiveUp(RootFailure::TooFew {
            missing: missing(&joined, refusals.all(), endpoint.config()),
            joined,
            refused: refusals.all().cloned().collect(),
            wanted: wanted.needed(),
            patience: wanted.patience,
        })
    }

    fn all_have_said(&self, refusals: &Refusals, config: &RootConfig) -> bool {
        let mut declined = refusals
            .all()
            .filter(|away| away.why.is_by_receiver())
            .peekable();
        let is_known = !config.hosts.is_empty() && declined.peek().is_some();
        is_known && missing(&self.join_requests.names(), declined, config).is_empty()
    }

    fn let_in(&mut self, now: Instant, refusals: &mut Refusals, endpoint: &mut RootEndpoint) {
        if now < self.open_at(endpoint.config()) {
            return;
        }
        let enough = endpoint.config().wanted.enough.unwrap_or(usize::MAX);
        while self.join_requests.len() < enough
            && let Some(mac) = self.reached.pop_front()
        {
            match self
                .join_requests
                .admit(mac, self.names.offer(endpoint.config()))
            {
                Some(Ok(host)) => {
                    log::info!("{host} ({mac}) joined");
                    // One that comes and goes again and again does not hold up the others.
                    if self.join_requests.len() > self.most_joined {
                        (self.most_joined, self.last_joined_at) = (self.join_requests.len(), now);
                    }
                    refusals.forget(mac);
                    endpoint.push_event(RootEvent::Joined {
                        host,
                        mac,
                        receivers: self.join_requests.len(),
                    });
                }
                Some(Err((away, nonce))) => refusals.refuse(now, mac, nonce, away, endpoint),
                None => {}
            }
        }
    }

    fn probe_or_start(&mut self, now: Instant, endpoint: &RootEndpoint) -> GatheringStep {
        if self.prober.is_some() {
            return GatheringStep::Wait;
        }
        let config = endpoint.config();
        let Some((targets, settings)) = self.measurement(config) else {
            return GatheringStep::Start;
        };
        let identity = config.station.identity(config.session, Rank::NONE);
        self.before = (now, waited(config));
        self.prober =
            Some(Prober::new(now, identity, targets, settings).with_processors(config.processors));
        GatheringStep::Wait
    }

    fn measurement(&self, config: &RootConfig) -> Option<(Vec<Peer>, ProbeSettings)> {
        let peer = |mac| Peer {
            rank: Rank::ROOT,
            mac,
        };
        let mtu_bytes = usize::from(config.station.mtu_bytes);
        // A probe fills its path, so it passes no router.
        let is_near = |mac| config.network(mac) == config.network(config.station.mac);
        let speaker = self
            .join_requests
            .sample(is_near)
            .filter(|_| config.probe && !config.is_cheaper_sent())?;
        let Some(calibration) = &self.calibration else {
            // One receiver gets all of the time: in a share of it, a rate limiter's burst or a
            // buffer would be mistaken for the link's rate.
            return (!self.probed).then(|| {
                (
                    vec![peer(speaker.mac)],
                    ProbeSettings::short(mtu_bytes).guarded(&config.station.guard),
                )
            });
        };
        let untried = calibration.broadcast() == Broadcast::Untried
            && self.ramps_left > 0
            && config.may_bet_on_cast();
        let frame_gap =
            Duration::from_nanos(calibration.gap_ns(config.station.payload_bytes().into()) as u64);
        let unicast = Unicast {
            frame_gap,
            loss: calibration.loss(),
        };
        untried.then(|| {
            let all = self.join_requests.macs().map(peer).collect();
            (
                all,
                ProbeSettings::ramp(mtu_bytes, config.station.group_mac, unicast)
                    .guarded(&config.station.guard),
            )
        })
    }

    fn take_measured(&mut self, now: Instant, prober: &Prober, endpoint: &RootEndpoint) {
        let config = endpoint.config();
        let beside_others = endpoint.sees_others(now);
        let result = prober.result();
        let Some(calibration) = self.calibration.take() else {
            self.probed = true;
            match calibrate(&result) {
                Ok(calibration) => {
                    log::info!(
                        "probed: {:?}, loss {:.4}",
                        calibration.points(),
                        calibration.loss()
                    );
                    let (began, before) = self.before;
                    let waited = waited(config).saturating_sub(before).as_secs_f64();
                    let share = waited / now.since(began).as_secs_f64().max(1e-9);
                    self.calibration = Some(doubted(calibration, config, share));
                }
                Err(error) => {
                    log::warn!(
                        "the short probe found out too little ({error}); cables of 1 Gbit/s are assumed"
                    );
                }
            }
            return;
        };
        log::info!("broadcast: {:?}", result.cast);
        let seen = broadcast(result.cast);
        // Losses that other traffic causes in a switch are no policing.
        let disturbed =
            beside_others && matches!(seen, Broadcast::Policed(_) | Broadcast::Slower(_));
        self.ramps_left = if disturbed { self.ramps_left - 1 } else { 0 };
        let seen = if disturbed { Broadcast::Untried } else { seen };
        self.calibration = calibration
            .clone()
            .with_broadcast(seen)
            .ok()
            .or(Some(calibration));
    }
}

fn waited(config: &RootConfig) -> Duration {
    config.waited.map_or(Duration::ZERO, |waited| waited())
}

fn missing<'a>(
    joined: &[String],
    refused: impl IntoIterator<Item = &'a TurnedAway>,
    config: &RootConfig,
) -> Vec<String> {
    let expected = config.expected_hosts();
    let names = table(&expected);
    let refused = refused
        .into_iter()
        .filter_map(|away| names.find(&node_name(&away.host, away.mac)));
    let there: BTreeSet<usize> = joined
        .iter()
        .filter_map(|host| names.find(host))
        .chain(refused)
        .collect();
    expected
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !there.contains(at))
        .map(|(_, host)| host)
        .collect()
}

pub(super) fn first_view(
    config: &RootConfig,
    joined: &[JoinRequest],
    calibration: Option<Calibration>,
) -> Result<(View, Choice, Planner), NoPlan> {
    let root = (config.station.host.as_str(), config.station.mac, 0);
    let others = joined
        .iter()
        .map(|request| (request.host.as_str(), request.mac, request.nonce));
    let hosts: Vec<_> = std::iter::once(root).chain(others).collect();
    let names: Vec<&str> = hosts.iter().map(|(name, ..)| *name).collect();
    let networks: Option<Vec<u32>> = hosts
        .iter()
        .map(|&(_, mac, _)| config.network(mac))
        .collect();
    let planner = Planner::new(config, &names, networks.as_deref(), calibration)?;
    let mut choice = planner.choose(config, &names)?;
    log::info!("{}", choice.reason);
    let policy = config.tuning.policy;
    let selective =
        config.selects && config.size.is_some() && joined.iter().any(|request| request.holds);
    let apart = if selective {
        Vec::new()
    } else {
        known_slow(config, &choice, &planner)
    };
    let members = hosts.iter().enumerate().map(|(rank, &(host, mac, nonce))| {
        let (parent, order) = parent_and_order(&choice.plan, policy, rank);
        let (parent, order) = (parent.map(|parent| Rank(parent as u16)), order as u16);
        let standing = if apart.contains(&rank) {
            MemberRole::Demoted
        } else {
            MemberRole::InPlace
        };
        ViewMember {
            host: host.to_owned(),
            mac,
            nonce,
            parent,
            order,
            standing,
        }
    });
    let push_frames = config
        .tuning
        .cast
        .push_frames
        .filter(|_| policy == Policy::InOrderOnly);
    let (payload_bytes, segment_frames) = segments(config, &choice, hosts.len());
    let push_frames = push_frames.map(|frames| frames.clamp(1, MAX_PUSH_FRAMES.into()));
    let payload_bytes = push_frames.map_or(payload_bytes, |frames| pushed_payload(config, frames));
    // In a selective session the root waits for replies to hash lists, which need not fill a
    // segment.
    let segment_frames = if selective { 1 } else { segment_frames };
    let view = View {
        epoch: 1,
        via: choice.plan.via(),
        segment_frames,
        policy,
        push_frames: push_frames.map(|frames| frames as u8),
        payload_bytes,
        size: config.stream_size(),
        content: config.content,
        chunk: config.form.chunk(),
        selective,
        members: members.collect(),
        rate: config.rate,
    };
    // The report names the segment size in use.
    choice.segment_bytes = choice
        .segment_bytes
        .min(u64::from(segment_frames) * u64::from(payload_bytes));
    Ok((view, choice, planner))
}

/// Ranks that are served separately from the first frame on: only if the source can be re-read, and
/// with an algorithm that the program may change.
fn known_slow(config: &RootConfig, choice: &Choice, planner: &Planner) -> Vec<usize> {
    let may_be = config.on_slow == OnSlow::Demote
        && config.size.is_some()
        && config.tuning.policy == Policy::HolesAllowed
        && !choice.plan.via().is_in_blocks()
        && !matches!(config.route, Route::Saved(_));
    let slow = if may_be {
        planner.slow_receivers()
    } else {
        Vec::new()
    };
    slow.into_iter().map(|(rank, _)| rank.index()).collect()
}

/// Returns the payload of a frame in bytes and the frames of a segment. If a segment is shorter
/// than the message, it has the chosen number of bytes, in frames of equal length.
fn segments(config: &RootConfig, choice: &Choice, ranks: usize) -> (u16, u32) {
    let (in_blocks, streams) = (
        choice.plan.via().is_in_blocks(),
        choice.plan.via().trees(ranks),
    );
    let affordable = if in_blocks {
        most_payload_bytes(streams).max(MIN_SEGMENT_BYTES as usize)
    } else {
        usize::MAX
    };
    let full = config
        .station
        .payload_bytes()
        .min(u16::try_from(affordable).unwrap_or(u16::MAX));
    let frames = choice.segment_bytes.div_ceil(u64::from(full)).max(1);
    let most = if in_blocks {
        most_block_frames(&config.tuning, streams)
    } else {
        u64::from(u32::MAX)
    };
    let is_part = config.size.is_none_or(|size| choice.segment_bytes < size);
    let payload = choice
        .segment_bytes
        .div_ceil(frames)
        .clamp(MIN_SEGMENT_BYTES, u64::from(full)) as u16;
    (
        if is_part && frames <= most {
            payload
        } else {
            full
        },
        frames.clamp(1, most) as u32,
    )
}

/// Payload of a frame if the first `frames` frames of each message are pushed. All frames have an
/// equal share of the bytes to push, so every member can compute from the size which frame is the
/// last.
fn pushed_payload(config: &RootConfig, frames: u64) -> u16 {
    let full = u64::from(config.station.payload_bytes());
    let pushed = config.tuning.cast.push_bytes.unwrap_or(u64::MAX);
    pushed.div_ceil(frames).clamp(MIN_SEGMENT_BYTES, full) as u16
}

/// A member's parent and its position among its siblings: of the ack tree in a broadcast, else of
/// the plan; with two trees its parents in both.
fn parent_and_order(plan: &Plan, policy: Policy, rank: usize) -> (Option<usize>, usize) {
    if let (Via::Cast, Some(position)) = (plan.via(), rank.checked_sub(1)) {
        let tree = AckTree::new(plan.ranks() - 1, policy);
        return (
            Some(tree.parent(position).map_or(0, |parent| parent + 1)),
            tree.order(position),
        );
    }
    let parent = plan.parent(rank);
    if let [_, second] = plan.trees()[..] {
        return (parent, second.parent(rank).unwrap_or(0));
    }
    let order = parent.and_then(|parent| {
        plan.children(parent)
            .iter()
            .position(|&child| child == rank)
    });
    (parent, order.unwrap_or(0))
}
