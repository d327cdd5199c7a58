//! Creation of a communicator on a real host: opens the socket and waits for all other ranks.

use super::{Communicator, Error};
use crate::communicator::{CommunicatorError, Config, Description, Member};
use crate::keys::Keys;
use crate::measure::Processors;
use crate::membership::Station;
use crate::membership::live::{Opener, Opening, RingRoom, StationError, check_unkeyed, host};
use crate::{Preset, Route};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::lock::Turns;
use ethbcast_transport::packet::{
    Clock, Interface, NodeConfig, NodeError, NodePort, Over, PortConfig, Shared, Waker,
    processor_time, random_u64,
};
use ethbcast_transport::wire::{EtherType, Rank, group_mac};
use ethbcast_transport::{Instant, MacAddr, with_defaults};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Room in the receive ring for the credit of several origins, limited by memory for long frames.
const RING_ROOM: RingRoom = RingRoom {
    credit_frames: 8192,
    margin_frames: 0,
    most_bytes: 16 << 20,
};

impl Communicator {
    /// Joins `group` on the only Ethernet interface that is up, and waits until all `size` ranks
    /// have joined. Ranks are in the natural order of the hosts' names. Needs root or
    /// `CAP_NET_RAW`.
    ///
    /// # Errors
    /// If there is no interface or no permission, this host has a key that is not used, not all
    /// ranks join within a minute, or they disagree about the group.
    pub fn join(group: &str, size: u16) -> Result<Communicator, Error> {
        Communicator::join_with(group, size, &Options::default())
    }

    /// Joins like [`join`](Communicator::join), with a plan saved by `ethbcast plan --out`
    /// ([`SavedPlan::load`]): the papers' customised routine.
    ///
    /// The plan's root broadcasts along the plan, whatever the length; other roots use the route
    /// predicted to be fastest. With [`Options::topology`] the plan is checked first.
    ///
    /// # Errors
    /// The errors of [`join`](Communicator::join), and if the plan is for other hosts.
    pub fn with_plan(group: &str, size: u16, plan: SavedPlan) -> Result<Communicator, Error> {
        let route = Route::Saved(Box::new(plan));
        Communicator::join_with(
            group,
            size,
            &Options {
                route,
                ..Options::default()
            },
        )
    }

    /// Joins like [`join`](Communicator::join), with options.
    ///
    /// # Errors
    /// The errors of [`join`](Communicator::join).
    pub fn join_with(group: &str, size: u16, options: &Options) -> Result<Communicator, Error> {
        if options.keys.is_none() && !options.unkeyed {
            check_unkeyed()?;
        }
        let nonce = random_u64().map_err(Error::Random)?;
        let (port, station, interface) = open(group, options, nonce, None)?;
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
            // With spinning, time spent looking for frames would be counted as a cost of frames.
            processors: options
                .spin
                .is_zero()
                .then(|| Processors::new(processor_time, host::computer(), host::cores())),
            keys: options.keys.clone(),
            dead_after: options.dead_after,
            join_by: Some(now + options.join_within),
            ..Config::new(station.clone(), size, nonce)
        };
        let shared = start(port, Member::begin(now, config)?, clock)?;
        let joined = Communicator::joined(shared, options)?;
        let joined = joined.map_err(|refusal| refused(refusal, &interface, station.group_mac))?;
        log::info!("rank {} of {size} in group {group}", joined.rank);
        Ok(joined)
    }

    /// Creates another group of some ranks of this one, in the order given, as
    /// `MPI_Comm_create_group` does. It needs no meeting: all its ranks create it with the same
    /// `group` name, which no other group has, and the same ranks, within [`Options::dead_after`]
    /// of each other: a rank that is not heard in that time counts as gone. Both groups go on
    /// beside each other. The network, the keys and the preset are those of this group; of the
    /// options count those of the port and of calls.
    ///
    /// # Errors
    /// If there is no permission, this process is not one of the ranks, or a rank does not exist.
    pub fn subgroup(
        &self,
        group: &str,
        ranks: &[u16],
        options: &Options,
    ) -> Result<Communicator, Error> {
        // A rank is found by its address: of several processes on this host each keeps its port.
        let own = self.shared()?.with(|member, _| member.mac())?;
        Communicator::made(group, own, ranks, options, |now, ranks, station, _| {
            Ok(self
                .shared()?
                .with(|member, _| member.subgroup(now, ranks, station))??)
        })
    }

    /// Returns what another process of this host needs to make groups of some ranks in this one's
    /// place ([`within`](Communicator::within)).
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn description(&self) -> Result<Description, Error> {
        Ok(self.shared()?.with(|member, _| member.description())??)
    }

    /// Creates a group like [`subgroup`](Communicator::subgroup), in the place of the process of
    /// this host that has described its own. The preset and the keys have to be those of the group
    /// described. With keys no other group of these ranks may have had the name: both would be
    /// encrypted alike.
    ///
    /// # Errors
    /// The errors of [`subgroup`](Communicator::subgroup), and if there are other keys.
    pub fn within(
        description: &Description,
        group: &str,
        ranks: &[u16],
        options: &Options,
    ) -> Result<Communicator, Error> {
        Communicator::made(
            group,
            description.mac(),
            ranks,
            options,
            |now, ranks, station, nonce| {
                let size = description.hosts().count() as u16;
                let (preset, keys, dead_after) =
                    (options.preset, options.keys.clone(), options.dead_after);
                let config = Config {
                    preset,
                    keys,
                    dead_after,
                    ..Config::new(station, size, nonce)
                };
                Ok(Member::within(now, description, ranks, config)?)
            },
        )
    }

    fn made(
        group: &str,
        own: MacAddr,
        ranks: &[u16],
        options: &Options,
        member: impl FnOnce(Instant, &[Rank], Station, u64) -> Result<Member, Error>,
    ) -> Result<Communicator, Error> {
        let nonce = random_u64().map_err(Error::Random)?;
        let (port, station, _) = open(group, options, nonce, Some(own.port_id()))?;
        let (clock, ranks) = (
            Clock::start(),
            ranks.iter().copied().map(Rank).collect::<Vec<_>>(),
        );
        let member = member(clock.now(), &ranks, station, nonce)?;
        let made = Communicator::joined(start(port, member, clock)?, options)??;
        log::info!(
            "rank {} of {} in group {group}, without a meeting",
            made.rank,
            made.size()
        );
        Ok(made)
    }

    fn joined(
        shared: Shared<Member, NodePort>,
        options: &Options,
    ) -> Result<Result<Communicator, CommunicatorError>, Error> {
        let joined = |member: &mut Member, _| match member.joined() {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => {
                let hosts: Vec<String> = member.hosts().map(str::to_owned).collect();
                ControlFlow::Break(Ok((member.rank(), hosts, member.is_on_one_host())))
            }
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        };
        let joined = wait(&shared, options.meanwhile.as_ref(), None, joined)?
            .expect("a wait without a deadline ends with its turn");
        let (rank, hosts, is_alone) = match joined {
            Ok(joined) => joined,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let rank = rank.expect("who has joined has a rank").0;
        shared.with_link(|port| port.complete(is_alone));
        let Options {
            call_within,
            meanwhile,
            ..
        } = options.clone();
        let (opener, shared) = (Opener::here(), Some(shared));
        Ok(Ok(Communicator {
            opener,
            shared,
            collective: Turns::default(),
            rank,
            hosts,
            call_within,
            meanwhile,
        }))
    }
}

fn start(port: NodePort, member: Member, clock: Clock) -> Result<Shared<Member, NodePort>, Error> {
    let waiter = |thread| {
        port.waiter(Waker::new()?, thread)
            .map_err(std::io::Error::from)
    };
    let waiters = waiter(0)
        .and_then(|first| Ok([first, waiter(1)?]))
        .map_err(Error::Thread)?;
    Shared::start_on(port, member, clock, waiters).map_err(Error::Thread)
}

/// Returns why there is no group. If ranks are missing, names those of this host that wait for
/// another group.
fn refused(refusal: CommunicatorError, interface: &Interface, group_mac: MacAddr) -> Error {
    if let CommunicatorError::Missing { .. } = refusal {
        let groups = NodePort::waiting_groups(interface, group_mac);
        if !groups.is_empty() {
            return Error::OtherGroups {
                missing: Box::new(refusal),
                groups,
            };
        }
    }
    refusal.into()
}

fn open(
    group: &str,
    options: &Options,
    nonce: u64,
    port_id: Option<u8>,
) -> Result<(NodePort, Station, Interface), Error> {
    if options.over.is_unicast() {
        return Err(StationError::OnlySessions.into());
    }
    let mut port = PortConfig::new(options.ether_type);
    (port.busy_poll, port.over, port.priority) = (options.spin, options.over, options.priority);
    port.ttl = options.ttl;
    let opening = Opening {
        interface: options.interface.as_deref(),
        host: options.host.as_deref(),
        // File transfers under this name are excluded.
        group_mac: group_mac(&format!("{group}/ranks")),
        mtu_bytes: options.mtu_bytes,
        ..Opening::new(group, port)
    };
    let (interface, port, station) = opening.prepare(|_| RING_ROOM)?;
    let Station {
        host,
        group,
        group_mac,
        ether_type,
        ..
    } = station.clone();
    let port = NodePort::open(
        &interface,
        port,
        &NodeConfig {
            group_mac,
            group,
            host,
            ether_type,
            nonce,
            port_id,
        },
    );
    let port = port.map_err(|error| match error {
        NodeError::Open(error) => Error::Station(StationError::Open(error)),
        error => Error::Node(error),
    })?;
    let mac = port.mac();
    Ok((port, Station { mac, ..station }, interface))
}

with_defaults! {
    /// Options of joining a communicator. [`Options::default`] fits hosts with distinct names and
    /// one Ethernet interface each.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Interface. Default: the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// Name of this host, which decides its rank. Default: `$ETHBCAST_HOST`, the network
        /// namespace's name, the hostname, or a network card's address.
        pub host: Option<String> = None,
        /// EtherType, identical on all ranks.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// Carrier of the frames, identical on all ranks; UDP needs no privilege.
        pub over: Over = Over::Ethernet,
        /// MTU, in bytes; the smallest of all ranks counts. Default: the interface's.
        pub mtu_bytes: Option<u32> = None,
        /// Priority of the frames, 0 to 7, for queueing disciplines and the tags of a VLAN
        /// interface (IEEE 802.1p). The first process of a host decides for all.
        pub priority: Option<u8> = None,
        /// Time to live (hop limit) of frames over UDP, 1 to 255.
        pub ttl: u8 = 1,
        /// Keys that authenticate all frames and encrypt contents, the same on all ranks.
        pub keys: Option<Arc<Keys>> = None,
        /// Whether to join without keys on a host that has some.
        pub unkeyed: bool = false,
        /// Preset of protocol parameters, identical on all ranks.
        pub preset: Preset = Preset::Default,
        /// Topology ([`Topology::load`] reads our own format, Slurm's or LLDP's). Default: one
        /// switch. This option and the next five decide how broadcasts travel. One rank's values
        /// apply to all; ranks that set them must agree.
        pub topology: Option<Topology> = None,
        /// Network costs, as `ethbcast probe --out` writes them ([`Calibration::load`]). Without
        /// these, a topology and a measurement, every broadcast is cast.
        pub calibration: Option<Calibration> = None,
        /// Route of broadcasts: the one predicted to be fastest for each length, a fixed one, or a
        /// saved plan from its root.
        pub route: Route = Route::Auto,
        /// Whether a saved plan may send over one cable of the topology from several hosts at a
        /// time.
        pub contention: Contention = Contention::Refused,
        /// Whether broadcasts and allgathers may use broadcast frames. Set `false` where switches
        /// police broadcast and no calibration says so.
        pub casts: bool = true,
        /// Whether rank 0 measures the network costs for up to 50 ms once all ranks have joined,
        /// unless there is a calibration.
        pub probe: bool = false,
        /// Longest wait for all ranks.
        pub join_within: Duration = Duration::from_secs(60),
        /// Longest time that a collective may make no progress, and longest time of a send or
        /// receive without its own deadline. A collective may take any time while it makes
        /// progress.
        pub call_within: Duration = Duration::from_secs(60),
        /// Time that a waiting call polls for frames, yielding to other processes, before it
        /// sleeps. Polling saves the wake-up, which costs more than a short message; zero sleeps at
        /// once.
        pub spin: Duration = Duration::from_micros(100),
        /// Silence after which another rank counts as dead; at least five keepalives, which is half
        /// a second among up to 64 ranks. Default: 15 keepalives.
        pub dead_after: Option<Duration> = None,
        /// Hook that a waiting call runs at intervals, in the caller's thread.
        pub meanwhile: Option<Meanwhile> = None,
    }
}

/// Hook that a waiting call runs at intervals, in the caller's thread. It lets a program make
/// progress on other messages, or end a call on its user's request. It must return soon, and not
/// call the communicator.
#[derive(Clone)]
pub struct Meanwhile {
    every: Duration,
    work: Arc<dyn Fn() -> ControlFlow<()> + Send + Sync>,
}

impl Meanwhile {
    /// Runs `work` at this interval. If it breaks, the call fails with
    /// [`Error::Interrupted`](super::Error::Interrupted).
    pub fn new(
        every: Duration,
        work: impl Fn() -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Meanwhile {
        Meanwhile {
            every,
            work: Arc::new(work),
        }
    }

    /// Returns the interval.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Runs the hook; returns whether the call goes on.
    pub fn work(&self) -> ControlFlow<()> {
        (self.work)()
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Meanwhile")
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// Waits as [`Shared::wait`] does, and runs the caller's hook in between, which may end the wait
/// ([`Error::Interrupted`]).
pub(super) fn wait<T>(
    shared: &Shared<Member, NodePort>,
    meanwhile: Option<&Meanwhile>,
    deadline: Option<Instant>,
    mut turn: impl FnMut(&mut Member, Instant) -> ControlFlow<T>,
) -> Result<Option<T>, Error> {
    let Some(other) = meanwhile else {
        return Ok(shared.wait(deadline, turn)?);
    };
    loop {
        let next = shared.now() + other.every();
        let until = deadline.map_or(next, |deadline| deadline.min(next));
        let ended = shared.wait(Some(until), &mut turn)?;
        if ended.is_some() || deadline.is_some_and(|deadline| deadline <= until) {
            return Ok(ended);
        }
        if other.work().is_break() {
            return Err(Error::Interrupted);
        }
    }
}
