//! Configuration of a member, and the intervals of its control messages.

use super::error::{Cause, CommunicatorError, Failure};
use super::kind;
use super::network::SpreadMessage;
use super::signature::{CallBody, Notice};
use crate::measure::Processors;
use crate::membership::{MAX_GROUP_BYTES, MIN_MTU_BYTES, Station};
use crate::{Preset, Route};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::messages::Settings;
use ethbcast_transport::wire::{Fields, Frame, Rank, Spelled};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

/// Longest name of a host, in bytes.
pub const MAX_HOST_BYTES: usize = 128;
/// Largest number of ranks: each keeps and compares the list of all.
pub const MAX_RANKS: u16 = 4096;

/// Largest feed, in slots. A broadcast may be this far ahead of the slowest rank: 12 ms at 1
/// Gbit/s.
const FEED_FRAMES: u64 = 1024;
/// Keepalives and calls that a host receives per second from all others together.
const SIGNS_PER_SECOND: u32 = 640;
const MIN_PERIOD: Duration = Duration::from_millis(100);
/// Periods of silence after which a member counts as gone: 1.5 s among up to 64 ranks.
const GONE_AFTER_PERIODS: u32 = 15;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// The host, its interface and the group's name.
    pub station: Station,
    /// Number of ranks in the group.
    pub size: u16,
    /// Random number of this run of the process.
    pub nonce: u64,
    /// Preset of protocol parameters.
    pub preset: Preset,
    /// Topology with the group's hosts, under the names they join with. Default: one switch. One
    /// rank's topology, calibration, route, casts and probe settings apply to all; ranks that set
    /// them must agree.
    pub topology: Option<Topology>,
    /// Measured network costs, if known. Without these and a topology, every broadcast is cast.
    pub calibration: Option<Calibration>,
    /// Route of broadcasts.
    pub route: Route,
    /// Whether a saved plan may use a cable of the topology for several senders at a time.
    pub contention: Contention,
    /// Whether broadcasts and allgathers may use broadcast frames. Control messages always do.
    pub casts: bool,
    /// Whether rank 0 measures the network costs once all are there, unless there is a calibration.
    pub probe: bool,
    /// This host's processors. If set, the processor time of frames is measured, too.
    pub processors: Option<Processors>,
    /// Deadline for all ranks to join.
    pub join_by: Option<Instant>,
    /// Memory limit for the feeds of all ranks' streams, in bytes, for each route. Each feed has at
    /// least 64 slots. Memory is allocated when a rank first broadcasts on a route.
    pub feed_bytes: u64,
}

impl Config {
    /// Default of `feed_bytes`: 1024 full frames for each of 44 ranks.
    pub const FEED_BYTES: u64 = 64 << 20;

    /// Returns the configuration of one of `size` ranks that waits indefinitely for the others and
    /// casts every broadcast.
    pub fn new(station: Station, size: u16, nonce: u64) -> Config {
        let (preset, feed_bytes) = (Preset::Default, Config::FEED_BYTES);
        let (topology, calibration, route, contention) = (None, None, Route::Auto, Contention::Refused);
        let (casts, probe, processors, join_by) = (true, false, None, None);
        Config {
            station,
            size,
            nonce,
            preset,
            topology,
            calibration,
            route,
            contention,
            casts,
            probe,
            processors,
            join_by,
            feed_bytes,
        }
    }

    pub(super) fn describes_network(&self) -> bool {
        let Config { topology, calibration, route, casts, probe, .. } = self;
        topology.is_some() || calibration.is_some() || *route != Route::Auto || !casts || *probe
    }

    /// # Errors
    /// Names the first invalid value.
    pub(super) fn check(&self) -> Result<(), CommunicatorError> {
        let Station { group, host, mtu_bytes, .. } = &self.station;
        let names = [("group", group, MAX_GROUP_BYTES), ("host", host, MAX_HOST_BYTES)];
        if let Some((what, name, most)) =
            names.into_iter().find(|(_, name, most)| name.is_empty() || name.len() > *most)
        {
            return Err(CommunicatorError::Name { what, bytes: name.len(), most });
        }
        if !(1..=MAX_RANKS).contains(&self.size) {
            return Err(CommunicatorError::Size { size: self.size, most: MAX_RANKS });
        }
        if *mtu_bytes < MIN_MTU_BYTES {
            return Err(CommunicatorError::Mtu { mtu_bytes: *mtu_bytes, least: MIN_MTU_BYTES });
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = self.preset.settings();
        let ranks = usize::from(self.size);
        settings.send_messages += 2 * ranks;
        settings.receives += 2 * ranks;
        // Missing keepalives, not the mailbox, detect silence.
        settings.silent_after = settings.silent_after.max(gone_after(self.size) * 2);
        settings
    }

    pub(super) fn tuning(&self) -> Tuning {
        let mut tuning = self.preset.tuning().with_feed_frames(FEED_FRAMES);
        tuning.feed.bytes = self.feed_bytes / u64::from(self.size);
        tuning
    }
}

pub(super) fn period(size: u16) -> Duration {
    MIN_PERIOD.max(Duration::from_secs(1) * u32::from(size) / SIGNS_PER_SECOND)
}

/// Silence after which a member is probed by unicast: broadcast may not reach it. An eighth of the
/// members are probed per period, which leaves time for all.
pub(super) fn silence_before_query(size: u16) -> Duration {
    gone_after(size) / 3
}

pub(super) fn gone_after(size: u16) -> Duration {
    period(size) * GONE_AFTER_PERIODS
}

pub(crate) fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        kind::CALL => ("CALL", CallBody::decode(frame.payload).map(|body| call(&body))),
        kind::ALIVE => ("ALIVE", notice(frame.payload)),
        kind::BYE => ("BYE", notice(frame.payload)),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

fn call(body: &CallBody) -> Fields {
    let CallBody { nonce, size, mtu_bytes, preset, joined, digest, group, host, network } = body;
    let fields = Fields::default().text("nonce", format_args!("{nonce:016x}")).number("ranks", *size);
    let fields = fields.number("mtu", *mtu_bytes).number("preset", *preset).number("joined", *joined);
    let fields = fields.hex("digest", digest).text("group", group).text("host", host);
    let SpreadMessage { told, unfit, list, network, piece } = network;
    let fields = fields.number("told", *told).number("unfit", *unfit).text("list", format_args!("{list:016x}"));
    let fields = fields.text("network", format_args!("{network:016x}"));
    match piece {
        Some(piece) => fields.number("part", piece.at).number("parts", piece.count),
        None => fields,
    }
}

fn notice(payload: &[u8]) -> Option<Fields> {
    // The number of ranks is unknown here, so any rank is accepted.
    let Notice { calls, failure, waits_for, moved, repeats } = Notice::decode(payload, Rank::NONE.0)?;
    let fields = Fields::default().number("repeats", repeats).perhaps("waits_for", waits_for.map(|rank| rank.0));
    let mut fields = fields.number("moved", moved);
    if let Some(newest) = calls[0] {
        fields = fields.text("call", newest);
    }
    Some(match failure {
        Some(failure) => fields.and(self::failure(failure)),
        None => fields,
    })
}

fn failure(Failure { from, cause }: Failure) -> Fields {
    let (word, rank) = match cause {
        Cause::Mismatch { one, .. } => ("mismatch", one.0),
        Cause::Gone { rank } => ("gone", rank),
        Cause::Left { rank } => ("left", rank),
        Cause::Abandoned { rank, .. } => ("abandoned", rank),
        Cause::Garbled { rank } => ("garbled", rank),
        Cause::Cut { one, .. } => ("cut", one),
        Cause::Deaf { rank } => ("deaf", rank),
    };
    Fields::default().text("failure", word).number("about", rank.0).number("from", from)
}

#[cfg(test)]
mod config_tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    #[test]
    fn the_engine_can_run_on_every_preset_in_whatever_room() {
        for preset in Preset::ALL {
            for (size, feed_bytes) in [(1, u64::MAX), (2, 0), (MAX_RANKS, 1)] {
                let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
                let config = Config { preset, feed_bytes, ..Config::new(station, size, 1) };
                assert_eq!((config.tuning().check(), config.settings().tuning.check()), (Ok(()), Ok(())), "{config:?}");
            }
        }
    }

    #[test]
    fn signs_of_life_become_rarer_so_that_nobody_hears_more_than_it_can_take() {
        assert_eq!((period(2), gone_after(2)), (Duration::from_millis(100), Duration::from_millis(1500)));
        assert_eq!((period(64), period(640)), (Duration::from_millis(100), Duration::from_secs(1)));
    }
}

#[cfg(test)]
mod spell_tests {
    use super::*;
    use crate::communicator::signature::{Operation, Signature};
    use ethbcast_transport::MacAddr;
    use ethbcast_transport::wire::{ContentChecksum, Flags, Header, StreamId};

    #[test]
    fn a_member_that_leaves_says_what_it_called_and_why_nothing_goes_on() {
        let call = Signature { number: 4, operation: Operation::Barrier, root: Rank(0), bytes: 0 };
        let failure = Some(Failure { from: 5, cause: Cause::Gone { rank: Rank(700) } });
        let told = Notice { calls: [Some(call), None, None, None], failure, waits_for: None, moved: 9, repeats: 2 };
        let (stream, rank, flags) = (StreamId(0), Rank(1), Flags::default());
        let header = Header { kind: kind::BYE, session: 1, stream, rank, epoch: 0, flags, sequence: 0, stamp: 0 };
        let payload = told.encode();
        let spelled =
            spell(&Frame { source: MacAddr::ZERO, header, payload: &payload, content: ContentChecksum::default() });
        let fields = Fields::default().number("repeats", 2_u64).number("moved", 9_u64).text("call", "barrier #4");
        let fields = fields.text("failure", "gone").number("about", 700_u64).number("from", 5_u64);
        assert_eq!(spelled, Some(Spelled { kind: "BYE", fields: Some(fields) }));
    }
}
