//! Configuration of a transfer's sender (root). The events and results that it reports are here
//! too.

use super::repair::wants::Damage;
use crate::Route;
use crate::measure::Processors;
use crate::membership::codec::MAX_NAME_BYTES;
use crate::membership::{OtherBuild, Station, Timing};
use crate::session::endpoint::Endpoint;
use crate::session::endpoint::ipv4_in;
use crate::session::keyring::{ANNOUNCE_GROWTH_BYTES, RootKeys};
use crate::session::message::{
    Behind, ContentKind, Digest, Done, Message, Outcome, Refusal, Stage, Taken,
};
use crate::session::throttle::Rate;
use crate::session::verified::Form;
use ethbcast_planning::HostNames;
use ethbcast_planning::model::{Broadcast, Calibration, HostCost, WayTimes};
use ethbcast_planning::plan::file::SavedPlanError;
use ethbcast_planning::plan::{CheckReport, PlanError, Via};
use ethbcast_planning::topology::{Topology, TopologyError, nodeset};
use ethbcast_transport::packet::OptionName;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

/// Number of receivers a root waits for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Minimum number of receivers; with fewer the session fails when patience ends.
    pub at_least: usize,
    /// Number of receivers with which the session starts at once.
    pub enough: Option<usize>,
    /// Longest wait for receivers.
    pub patience: Duration,
}

impl Wanted {
    /// A practically unlimited wait: longer than any machine runs.
    pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

    /// Waits up to a minute for exactly `receivers` receivers.
    pub fn exactly(receivers: usize) -> Wanted {
        Wanted {
            at_least: receivers,
            enough: Some(receivers),
            patience: Duration::from_secs(60),
        }
    }

    pub(in crate::session) fn needed(&self) -> usize {
        self.enough.unwrap_or(self.at_least)
    }
}

/// Rounds of a carousel in a row in which nobody gets the content before it ends.
const MAX_IN_VAIN: u32 = 3;

/// Rounds for receivers that come over minutes: sessions of one root with the same content, one
/// after the other. A host that comes during a round takes part in the next one, which begins when
/// all that are expected have come, or nobody has come for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carousel {
    first: Wanted,
    linger: Duration,
    rounds: u32,
    /// Rounds in a row after which no more hosts had the content.
    in_vain: u32,
    served: BTreeMap<MacAddr, String>,
}

impl Carousel {
    /// Creates a carousel whose first round begins with `first.at_least` receivers. It ends when
    /// `first.enough` have the content, or nobody has come for `linger`.
    pub fn new(first: Wanted, linger: Duration) -> Carousel {
        Carousel {
            first,
            linger,
            rounds: 0,
            in_vain: 0,
            served: BTreeMap::new(),
        }
    }

    /// Returns the receivers for which the next round waits.
    pub fn wanted(&self) -> Wanted {
        if self.rounds == 0 {
            return self.first;
        }
        let left = |enough: usize| enough.saturating_sub(self.served.len()).max(1);
        Wanted {
            at_least: 1,
            enough: self.first.enough.map(left),
            patience: self.linger,
        }
    }

    /// Returns the moment at which a round of `joined` receivers stops waiting. The first begins as
    /// soon as enough are there; in a later one patience counts from the last that joined.
    pub(super) fn waits_until(
        &self,
        began: Instant,
        last_joined: Instant,
        joined: usize,
    ) -> Instant {
        match self.rounds {
            0 if joined >= self.first.at_least => began,
            0 => began + self.first.patience,
            _ => last_joined + self.linger,
        }
    }

    /// Takes the hosts that have the content after a round. Returns whether another round follows:
    /// not after three in which nobody got it.
    pub fn take<H: Into<String>>(
        &mut self,
        delivered: impl IntoIterator<Item = (MacAddr, H)>,
    ) -> bool {
        self.rounds += 1;
        let hosts = delivered.into_iter().map(|(mac, host)| (mac, host.into()));
        let before = self.served.len();
        self.served.extend(hosts);
        self.in_vain = if self.served.len() > before {
            0
        } else {
            self.in_vain + 1
        };
        let enough = self.first.enough;
        self.in_vain < MAX_IN_VAIN && enough.is_none_or(|enough| self.served.len() < enough)
    }

    /// Returns the number of hosts that have the content.
    pub fn served(&self) -> usize {
        self.served.len()
    }

    pub(super) fn has_served(&self, mac: MacAddr) -> bool {
        self.served.contains_key(&mac)
    }

    fn has_served_named(&self, host: &str) -> bool {
        let named = HostNames::new([host]);
        self.served
            .values()
            .any(|served| named.find(served).is_some())
    }
}

/// Streams of fewer frames are sent in fewer frames than a broadcast probe takes.
const BET_FRAMES: u64 = 160;
/// Content up to this length, in bytes, is sent before a measurement would have ended.
const CHEAP_BYTES: u64 = 64 << 10;
/// Maximum number of frames that may go to all before any test of broadcast: every storm control
/// passes such a burst.
const UNTRIED_FRAMES: u64 = 16;

/// Treatment of a straggler, a member that is slower than the others and holds them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSlow {
    /// Demotion: it gets a catch-up stream of its own and finishes after the others.
    #[default]
    Demote,
    /// Slowdown of all members to its rate.
    Wait,
    /// Removal from the session.
    Evict,
}

impl FromStr for OnSlow {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<OnSlow, &'static str> {
        match word {
            "demote" => Ok(OnSlow::Demote),
            "wait" => Ok(OnSlow::Wait),
            "evict" => Ok(OnSlow::Evict),
            _ => Err("say demote, wait or evict"),
        }
    }
}

/// Names that do not fit into the announcement frame.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    #[error("the name {name} has {} bytes: choose one of at most {MAX_NAME_BYTES}", name.len())]
    Long { name: String },
    #[error(
        "the names of group, sender and source have {bytes} bytes together, a frame of MTU {mtu_bytes} has room \
             for {room_bytes}: choose shorter ones, or a larger MTU"
    )]
    Together {
        bytes: usize,
        room_bytes: usize,
        mtu_bytes: u16,
    },
}

/// Configuration of a root; [`new`](RootConfig::new) fills in defaults for all that has one.
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// Address, name and group of this host.
    pub station: Station,
    /// Session number, drawn at random.
    pub session: u32,
    /// Description of the source, for the receivers' information.
    pub source: String,
    /// Bytes of the content, if known in advance.
    pub size: Option<u64>,
    /// Kind of the content.
    pub content: ContentKind,
    /// Form in which the stream carries the content.
    pub form: Form,
    /// Whether any part of the content can be read at any time. If so, and receivers already hold
    /// part of it, only missing chunks are sent.
    pub selects: bool,
    /// Number of receivers to wait for, and the longest wait.
    pub wanted: Wanted,
    /// Rounds of which this session is one; it then serves nobody who has the content already.
    pub carousel: Option<Carousel>,
    /// The only hosts that are admitted; empty admits all.
    pub hosts: Vec<String>,
    /// Names that the user has given to hosts, by their IPv4 addresses or what stands for them: a
    /// host that calls itself otherwise, as one with several names in DNS may, is called so.
    pub named: BTreeMap<u32, String>,
    /// Algorithm by which the bytes travel.
    pub route: Route,
    /// Measured cost of the network; without it, that of assumed links.
    pub calibration: Option<Calibration>,
    /// Facts that earlier transfers learnt, for sessions without a calibration.
    pub learnt: Vec<Learnt>,
    /// Whether to measure for up to 50 ms before the start if there is no calibration, and to probe
    /// broadcast before it is chosen for a long stream, if the calibration does not cover it.
    pub probe: bool,
    /// Processors of this host. If set, the measurement includes processor time per frame here and
    /// at a receiver.
    pub processors: Option<Processors>,
    /// Time for which the calling thread has waited for a processor.
    pub waited: Option<fn() -> Duration>,
    /// Rate of this host's interface in bits per second, if its driver reports that of a cable.
    pub interface_rate: Option<u64>,
    /// Whether the session does not start before [`release`](super::Root::release).
    pub held: bool,
    /// Whether to stop after planning. Receivers are notified, and wait on for a sender.
    pub dry_run: bool,
    /// Topology of the cluster; without one all hosts are taken to be on one switch.
    pub topology: Option<Topology>,
    /// Bits of the prefix of networks, where hosts are in several networks of IPv4 with routers
    /// between, and no frame reaches more than one host: then nothing is cast, and without a
    /// topology each network is a switch.
    pub routed: Option<u8>,
    /// Numbers of the networks of hosts whose addresses do not tell them, as those of IPv6, by what
    /// stands for them.
    pub networks: BTreeMap<u32, u32>,
    /// Whether a host that requests to join after the start is admitted: it gets the stream from
    /// the first byte, behind the others. Not available with block algorithms.
    pub late: bool,
    /// Treatment of a straggler.
    pub on_slow: OnSlow,
    /// Rate limit of each host, all frames counted.
    pub rate: Option<Rate>,
    /// Whether nothing is left to other traffic; by default up to half of each link is.
    pub greedy: bool,
    /// Parameters of the transport.
    pub tuning: Tuning,
    /// Timers of the session.
    pub timing: Timing,
    /// Secret by which hosts prove their addresses before they get more bytes than they sent, where
    /// a sender's address may be forged, as over UDP; `None` elsewhere.
    pub address_secret: Option<u64>,
    /// Keys, with which all frames are authenticated; without them, none is.
    pub keys: Option<RootKeys>,
}

impl RootConfig {
    /// Returns a configuration that waits 30 s for at least one receiver and sends `source` by the
    /// algorithm of least predicted time. `session` should be drawn at random.
    pub fn new(station: Station, session: u32, source: &str) -> RootConfig {
        RootConfig {
            station,
            session,
            source: source.to_owned(),
            size: None,
            content: ContentKind::default(),
            form: Form::default(),
            selects: false,
            wanted: Wanted {
                at_least: 1,
                enough: None,
                patience: Duration::from_secs(30),
            },
            carousel: None,
            hosts: Vec::new(),
            named: BTreeMap::new(),
            route: Route::default(),
            calibration: None,
            learnt: Vec::new(),
            probe: true,
            processors: None,
            waited: None,
            interface_rate: None,
            held: false,
            dry_run: false,
            topology: None,
            routed: None,
            networks: BTreeMap::new(),
            late: false,
            on_slow: OnSlow::default(),
            rate: None,
            greedy: false,
            tuning: Tuning::default(),
            timing: Timing::default(),
            address_secret: None,
            keys: None,
        }
    }

    /// Checks that the names fit into the announcement frame; they are never truncated.
    ///
    /// # Errors
    /// The names that do not fit.
    pub fn check_names(&self) -> Result<(), NamesError> {
        let Station {
            group,
            host,
            mtu_bytes,
            ..
        } = &self.station;
        let names = [group, host, &self.source];
        if let Some(name) = names.into_iter().find(|name| name.len() > MAX_NAME_BYTES) {
            return Err(NamesError::Long { name: name.clone() });
        }
        let announced_bytes =
            self.announced_bytes(&self.invitation(Stage::Gathering, Duration::ZERO));
        let bytes = names.into_iter().map(String::len).sum();
        let room_bytes = usize::from(self.station.payload_bytes()) - (announced_bytes - bytes);
        if bytes <= room_bytes {
            return Ok(());
        }
        Err(NamesError::Together {
            bytes,
            room_bytes,
            mtu_bytes: *mtu_bytes,
        })
    }

    /// Returns the bytes of an announcement behind the header.
    pub(super) fn announced_bytes(&self, invitation: &Message) -> usize {
        let growth_bytes = if self.station.guard.is_keyed() {
            ANNOUNCE_GROWTH_BYTES
        } else {
            0
        };
        invitation.encode().1.len() + growth_bytes
    }

    pub(super) fn stream_size(&self) -> Option<u64> {
        self.size.map(|bytes| self.form.stream_bytes(bytes))
    }

    pub(super) fn other_name(&self, host: &str, mac: MacAddr) -> Option<&String> {
        let name = self.named.get(&ipv4_in(mac))?;
        HostNames::new([name.as_str()])
            .find(host)
            .is_none()
            .then_some(name)
    }

    pub(super) fn network(&self, mac: MacAddr) -> Option<u32> {
        let address = ipv4_in(mac);
        let numbered = self.networks.get(&address).copied();
        self.routed.map(|bits| {
            numbered.unwrap_or_else(|| {
                address
                    .checked_shr(32 - u32::from(bits.min(32)))
                    .unwrap_or_default()
            })
        })
    }

    pub(super) fn may_bet_on_cast(&self) -> bool {
        let least = BET_FRAMES * u64::from(self.station.payload_bytes());
        self.routed.is_none()
            && matches!(self.route, Route::Auto)
            && self.size.is_none_or(|size| size >= least)
    }

    pub(super) fn is_cheaper_sent(&self) -> bool {
        self.size.is_some_and(|size| size <= CHEAP_BYTES)
    }

    pub(super) fn is_short_burst(&self) -> bool {
        let most = UNTRIED_FRAMES * u64::from(self.station.payload_bytes());
        self.routed.is_none() && self.size.is_some_and(|size| size <= most)
    }

    pub(super) fn expected_hosts(&self) -> Vec<String> {
        if !self.hosts.is_empty() {
            // A host named twice is missing only once.
            let mut named = BTreeSet::new();
            let carousel = self.carousel.as_ref();
            return self
                .hosts
                .iter()
                .filter(|host| named.insert(*host))
                .filter(|host| !carousel.is_some_and(|carousel| carousel.has_served_named(host)))
                .cloned()
                .collect();
        }
        let others = |topology: &Topology| {
            let own = topology.host_named(&self.station.host);
            let others = topology
                .hosts()
                .iter()
                .enumerate()
                .filter(|(at, _)| Some(*at) != own);
            others.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let all = self.topology.as_ref().map(others).unwrap_or_default();
        if self.wanted.needed() == all.len() {
            all
        } else {
            Vec::new()
        }
    }

    /// Makes this session the next round of `carousel`.
    pub fn in_round(self, carousel: &Carousel) -> RootConfig {
        RootConfig {
            wanted: carousel.wanted(),
            carousel: Some(carousel.clone()),
            ..self
        }
    }

    pub(super) fn stage(&self) -> Stage {
        if self.late {
            Stage::LateWelcome
        } else {
            Stage::Started
        }
    }

    pub(super) fn invitation(&self, stage: Stage, age: Duration) -> Message {
        let Station {
            group,
            host,
            mtu_bytes,
            ..
        } = &self.station;
        Message::Announce {
            group: group.clone(),
            host: host.clone(),
            source: self.source.clone(),
            size: self.stream_size(),
            content: self.content,
            chunk: self.form.chunk(),
            mtu_bytes: *mtu_bytes,
            stage,
            age_millis: u32::try_from(age.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

pub(super) type RootEndpoint = Endpoint<RootConfig, RootEvent>;

/// An event of the root.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEvent {
    /// A receiver joined.
    Joined {
        host: String,
        mac: MacAddr,
        receivers: usize,
    },
    /// A receiver was turned away.
    Refused {
        host: String,
        mac: MacAddr,
        text: String,
    },
    /// A receiver that had joined left before the start.
    Left {
        host: String,
        mac: MacAddr,
        text: String,
    },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames arrive with this host's own address as their source: another host has the same
    /// address, or the network loops frames back.
    OwnAddress(MacAddr),
    /// Another root wanted to send to the group, and was refused because the group is taken.
    CompetingSender { host: String, mac: MacAddr },
    /// Periodic report while the root waits for receivers.
    Waiting {
        /// Receivers that have joined, in rank order.
        joined: Vec<String>,
        /// Expected hosts that have not joined, if the expected ones are known.
        missing: Vec<String>,
        /// Number of receivers with which the session starts at once.
        wanted: Option<usize>,
    },
    /// Confirmation of the view by all members: data may flow.
    Started {
        receivers: usize,
        via: Via,
        size: Option<u64>,
        /// Whether only missing chunks are sent.
        selective: bool,
    },
    /// A member holds up the session.
    HeldUp {
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// A member was demoted: it is served alone from now on.
    Demoted {
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// Two members cannot exchange frames, though the root receives from both: both are
    /// served alone from now on.
    Apart { one: String, other: String },
    /// The main stream continues by another algorithm.
    Rerouted { via: Via, text: String },
    /// Bytes came damaged to some members and are sent again.
    Damaged(Damage),
    /// The outcome of a member is known.
    Reported(MemberReport),
    /// The outcome of every member is known.
    AllReported,
}

/// A host that was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// Host name.
    pub host: String,
    /// Address of the host.
    pub mac: MacAddr,
    /// Category of the reason.
    pub why: Refusal,
    /// The reason in words, and the remedy.
    pub text: String,
}

/// Reason why a session did not start.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    #[error("{} of {wanted} receivers joined within {} s{}; {}{}",
        joined.len(), patience.as_secs_f64(), listed(joined, missing, refused),
        remedy(missing.is_empty() && joined.len() + refused.len() >= *wanted && !refused.is_empty()),
        or_fewer(joined))]
    TooFew {
        joined: Vec<String>,
        /// Expected hosts that had not joined, if the expected ones are known.
        missing: Vec<String>,
        refused: Vec<TurnedAway>,
        wanted: usize,
        patience: Duration,
    },
    #[error(
        "{host} ({mac}) sends {offer} to group {group} already: wait until it has ended, or choose another group \
             with {}",
        OptionName("group")
    )]
    GroupTaken {
        host: String,
        mac: MacAddr,
        offer: String,
        group: String,
    },
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
}

/// Facts that earlier transfers learnt of the network. They correct the model if the members are the
/// hosts of those transfers.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    /// Hosts of those transfers.
    pub hosts: Vec<String>,
    /// Costs that were measured before one of them.
    pub costs: Option<Calibration>,
    /// Facts that they proved, without the costs.
    pub proved: Proved,
    /// Factors by which ways took longer than predicted, each for a [class](size_class) of sizes.
    pub ways: Vec<(u32, WayTimes)>,
    /// Age of the oldest fact, in words for people: `2 days ago`.
    pub when: String,
}

/// Facts that a transfer measured and proved of its network, for the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proved {
    /// Costs measured just before the start.
    pub costs: Option<Calibration>,
    /// Share of frames that receivers missed.
    pub loss: Option<f64>,
    /// Behaviour of broadcast because of which a cast was given up.
    pub broadcast: Option<Broadcast>,
    /// Receivers that took frames far more slowly than another, by trains to both, each with the
    /// time of a full frame.
    pub slow: Vec<HostCost>,
}

/// Returns the class of a transfer of this many bytes: what one of another class took says little.
pub fn size_class(bytes: u64) -> u32 {
    bytes.max(1).ilog2() / 3
}

/// Least spread of costs from an earlier time: the network may have changed.
const MIN_SPREAD_OF_EARLIER: f64 = 0.25;

impl Learnt {
    pub(super) fn is_of(&self, names: &[&str]) -> bool {
        let known = HostNames::new(self.hosts.iter().map(String::as_str));
        names.len() == self.hosts.len() && names.iter().all(|name| known.find(name).is_some())
    }

    /// Returns what was `measured` now, corrected; `None` if nothing was, now or before.
    ///
    /// A measurement of now counts, unless it is so unsure that an earlier one may be as true. A loss
    /// that a short measurement did not see, single hosts that it did not compare, and a limit of
    /// broadcast that it did not reach are added.
    pub(super) fn correct(
        &self,
        config: &RootConfig,
        measured: Option<Calibration>,
    ) -> Option<Calibration> {
        let frame_bytes = config.station.payload_bytes().into();
        let earlier = self.costs.clone().and_then(|costs| {
            let spread = costs.spread().max(MIN_SPREAD_OF_EARLIER);
            costs.with_spread(spread).ok()
        });
        let lost = measured.as_ref().map_or(0.0, Calibration::loss);
        let mut costs = match (measured, earlier) {
            (Some(now), Some(earlier)) if now.leaves_room_for(&earlier, frame_bytes) => {
                earlier.with_tried(now.broadcast())
            }
            (now, earlier) => now.or(earlier)?,
        };
        let Proved {
            loss,
            broadcast,
            slow,
            ..
        } = &self.proved;
        if let Some(loss) = loss.filter(|_| lost == 0.0) {
            costs = costs.clone().with_loss(loss).unwrap_or(costs);
        }
        if costs.hosts().is_empty() && !slow.is_empty() {
            let root = &config.station.host;
            let with_hosts = costs.clone().with_hosts(root, slow.clone());
            costs = with_hosts.unwrap_or(costs);
        }
        if let Some(broadcast) = broadcast {
            costs = costs.with_proved(*broadcast);
        }
        let class = config.size.map(size_class);
        let ways = self.ways.iter().filter(|(of, _)| Some(*of) == class);
        Some(costs.with_ways(ways.map(|(_, way)| *way)))
    }
}

/// Reason why no plan can be made for the members of a session.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlan {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Saved(#[from] SavedPlanError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(
        "the topology file names no host {host}; add it, or run it with {} NAME as it is spelt there",
        OptionName("host")
    )]
    UnknownHost { host: String },
    /// Every receiver reports to the sender itself.
    #[error(
        "the topology says that {hosts} cannot talk to {root} directly, and every receiver reports to the sender: send \
         from a host that can talk to all, or correct the file"
    )]
    Silent { hosts: String, root: String },
    /// A cast is asked for where no frame reaches several hosts.
    #[error(
        "by unicast no frame reaches several hosts, so nothing can be cast: choose another way with {}",
        OptionName("via")
    )]
    NoCast,
    /// A cast is asked for, and receivers that acknowledge to others cannot talk to them.
    #[error(
        "the topology says that receivers cannot talk to those to which they would acknowledge a cast: choose another \
         way with --via"
    )]
    SilentCast,
    /// The plan violates the planner's own invariants.
    #[error("the plan is not sound ({0}); please report this with the topology file")]
    Unsound(Box<CheckReport>),
}

fn remedy(all_asked: bool) -> &'static str {
    if all_asked {
        "mend that and send again"
    } else {
        "start `ethbcast recv` on the missing hosts"
    }
}

fn or_fewer(joined: &[String]) -> String {
    if joined.is_empty() {
        String::new()
    } else {
        format!(", or ask for fewer with {}", OptionName("min-receivers"))
    }
}

fn listed(joined: &[String], missing: &[String], refused: &[TurnedAway]) -> String {
    let mut parts = Vec::new();
    if !joined.is_empty() {
        parts.push(nodeset::fold(joined));
    }
    if !missing.is_empty() {
        parts.push(format!("not {}", nodeset::fold(missing)));
    }
    let first = refused.iter().find(|away| away.why.is_by_receiver());
    if !refused.is_empty() {
        let refused: Vec<String> = refused
            .iter()
            .map(|away| format!("{} ({}): {}", away.host, away.mac, away.why.words()))
            .collect();
        parts.push(format!("refused {}", refused.join(", ")));
    }
    // The others' reasons were events.
    parts.extend(first.map(|away| away.text.clone()));
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join("; "))
    }
}

/// The report about one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Host name.
    pub host: String,
    /// Rank in the group.
    pub rank: Rank,
    /// Outcome of its transfer.
    pub outcome: Outcome,
    /// Bytes received, by the member's own report.
    pub bytes: u64,
    /// BLAKE3 digest of the received bytes.
    pub digest: Digest,
    /// The member's description of a failure.
    pub text: String,
    /// Time from the first data frame to the outcome; zero if there was no data.
    pub took: Duration,
    /// Reception counters, if the member sent them: frames lost on the way to it, from any sender.
    pub taken: Option<Taken>,
    /// Hosts of another network behind it, if it is a relay.
    pub behind: Behind,
}

impl MemberReport {
    pub(super) fn new(
        host: &str,
        rank: Rank,
        done: Done,
        form: Form,
        took: Duration,
    ) -> MemberReport {
        let Done {
            outcome,
            bytes,
            digest,
            text,
        } = done;
        let says_nothing = text.is_empty() && outcome != Outcome::Delivered;
        let text = if says_nothing {
            "it does not say why".to_owned()
        } else {
            text
        };
        let (host, bytes) = (host.to_owned(), form.content_bytes(bytes));
        MemberReport {
            host,
            rank,
            outcome,
            bytes,
            digest,
            text,
            took,
            taken: None,
            behind: Behind::default(),
        }
    }
}
