//! Becoming a rank: interface, socket, and the wait for all others.

use super::{Communicator, Error, Options};
use crate::Route;
use crate::communicator::{Config, Member};
use crate::membership::Station;
use crate::membership::live::{Opening, RingRoom, StationError};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_transport::packet::{Clock, Port, PortConfig, Shared};
use ethbcast_transport::wire::group_mac;
use parking_lot::Mutex;
use std::ops::ControlFlow;

/// What several origins' credit lets come at once, unless frames are so long that it takes too much memory.
const RING_ROOM: RingRoom = RingRoom { credit_frames: 8192, margin_frames: 0, most_bytes: 16 << 20 };

impl Communicator {
    /// Joins `group` on the only Ethernet interface that is up, and waits until all `size` ranks are there; ranks are
    /// in the natural order of the hosts' names. Needs root or `CAP_NET_RAW`.
    ///
    /// # Errors
    /// If there is no interface, no permission, not everybody comes within a minute, or they disagree about the group.
    pub fn join(group: &str, size: u16) -> Result<Communicator, Error> {
        Communicator::join_with(group, size, &Options::default())
    }

    /// The same along a plan that `ethbcast plan --out` saved ([`SavedPlan::load`]): the papers' customised routine.
    ///
    /// The plan's root broadcasts by it, whatever the length; others by what is predicted to be the fastest. With
    /// [`Options::topology`] it is judged first.
    ///
    /// # Errors
    /// As [`join`](Communicator::join), and if the plan is for other hosts.
    pub fn with_plan(group: &str, size: u16, plan: SavedPlan) -> Result<Communicator, Error> {
        let route = Route::Saved(Box::new(plan));
        Communicator::join_with(group, size, &Options { route, ..Options::default() })
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`join`](Communicator::join).
    pub fn join_with(group: &str, size: u16, options: &Options) -> Result<Communicator, Error> {
        let (port, station) = open(group, options)?;
        let nonce = getrandom::u64().map_err(|error| Error::Random(std::io::Error::other(error)))?;
        let clock = Clock::start();
        let now = clock.now();
        let config = Config {
            preset: options.preset,
            topology: options.topology.clone(),
            calibration: options.calibration.clone(),
            route: options.route.clone(),
            contention: options.contention,
            casts: options.casts,
            probe: options.probe,
            join_by: Some(now + options.join_within),
            ..Config::new(station, size, nonce)
        };
        let shared = Shared::start(port, Member::begin(now, config)?, clock).map_err(Error::Thread)?;
        let joined = |member: &mut Member, _| match member.joined() {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => ControlFlow::Break(Ok((member.rank(), member.hosts().map(str::to_owned).collect::<Vec<_>>()))),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        };
        let (rank, hosts) = shared.wait(None, joined)?.expect("a wait without a deadline ends with its turn")?;
        let rank = rank.expect("who has joined has a rank");
        log::info!("rank {rank} of {size} in group {group}");
        Ok(Communicator { shared, collective: Mutex::new(()), rank: rank.0, hosts, call_within: options.call_within })
    }
}

fn open(group: &str, options: &Options) -> Result<(Port, Station), StationError> {
    let mut port = PortConfig::new(options.ether_type);
    port.busy_poll = options.spin;
    let opening = Opening {
        interface: options.interface.as_deref(),
        host: options.host.as_deref(),
        // Whoever receives files under the same name is not meant.
        group_mac: group_mac(&format!("{group}/ranks")),
        ..Opening::new(group, port)
    };
    opening.open(|_| RING_ROOM)
}
