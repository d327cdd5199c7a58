//! The ethbcast group that carries an MPI communicator's collectives, with one leading rank per
//! host.

use crate::dynamic::{GIVEN_UP, Table, Word, done, print_line};
use crate::neighbours::{Neighbours, Watch};
use crate::order::{Announcement, Contradiction, Kind, Order};
use crate::rank_map::RankMap;
use crate::settings::{Key, Settings};
use ethbcast_collectives::ErrorKind;
use ethbcast_collectives::communicator::{
    Communicator, Description, Error, Meanwhile, Options, Reduction,
};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::lock::Mutex;
use std::ffi::c_int;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Longest wait of the leaders for each other; they have just announced that they come.
const JOIN_WITHIN: Duration = Duration::from_secs(10);
/// Longest time that a rank may compute before a call in which others wait: MPI sets no limit. A
/// dead rank is detected within seconds.
const CALL_WITHIN: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Silence after which a host counts as dead. A program's threads may keep all processors for
/// seconds, and the MPI alone would wait.
const DEAD_AFTER: Duration = Duration::from_secs(10);
/// Longest time that a rank which frees a communicator or ends waits for ranks that have not begun
/// the calls it has completed.
const LEAVE_WITHIN: Duration = Duration::from_secs(60 * 60);
/// Time after which a rank reports that it stays.
const SPOKEN_OF_AFTER: Duration = Duration::from_secs(10);
/// Interval at which a waiting call lets the MPI make progress. An empty poll costs about a
/// microsecond.
const PROGRESS_EVERY: Duration = Duration::from_micros(200);
const THREAD_NAME: &str = "ethb-join";
/// Tag of the messages that announce a call inside the MPI, the only ones on this communicator.
const IN_A_CALL: u32 = 1;

/// Cause of a call's failure, as `Display` explains it. This host's leader has announced its own
/// failure, and the handler of an error of the MPI's own has been called.
pub enum Trouble {
    Wire {
        text: String,
        is_mismatch: bool,
    },
    Leader,
    Neighbour,
    Lengths,
    Calls,
    Others,
    /// The leader of a host waits inside the MPI in a call that this rank makes by
    /// another route.
    Order {
        leader: String,
        number: u64,
    },
    Mpi(c_int),
}

impl Trouble {
    pub fn is_mismatch(&self) -> bool {
        match self {
            Trouble::Wire { is_mismatch, .. } => *is_mismatch,
            Trouble::Lengths | Trouble::Calls | Trouble::Order { .. } => true,
            Trouble::Leader | Trouble::Neighbour | Trouble::Others | Trouble::Mpi(_) => false,
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Wire { text, .. } => out.write_str(text),
            Trouble::Leader => out.write_str("the first rank of this host says why"),
            Trouble::Neighbour => out.write_str("a rank of this host has died"),
            Trouble::Lengths => {
                out.write_str("the blocks that are sent and received differ in length")
            }
            Trouble::Calls => out
                .write_str("calls differ: another rank makes another call, or has another length"),
            Trouble::Others => out.write_str("it failed on another rank"),
            Trouble::Order { leader, number } => write!(
                out,
                "calls differ: {leader} has been waiting inside the MPI in call {number}, which this rank makes \
                 another way: its length is another one"
            ),
            Trouble::Mpi(code) => write!(out, "the MPI's error {code}"),
        }
    }
}

/// Limit of the description of a group: a list of hosts and a network.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;

pub struct Wire {
    table: &'static Table,
    host_map: RankMap,
    rank: usize,
    leaders: Option<Communicator>,
    /// Description of the leaders' group, for those ranks of this host that lead it in another
    /// communicator.
    description: Option<Description>,
    /// Group in which this one is a number.
    above: Option<String>,
    /// Communicator of this host's ranks, where any two share one.
    node: Option<Word>,
    leader_ranks: Vec<u16>,
    neighbours: Neighbours,
    has_joined: Arc<AtomicBool>,
    order: Arc<Mutex<Order>>,
}

impl Wire {
    /// Begins to join the wire in a thread of its own, if this rank is a leader. The program goes
    /// on with the MPI meanwhile. Where ranks share hosts all of them take part in the split.
    ///
    /// In the group of a wire `above`, of which these ranks are all or some, they get a number:
    /// they need not meet.
    pub fn join(
        table: &'static Table,
        settings: &Settings,
        comm: Word,
        rank: usize,
        mut host_map: RankMap,
        above: Option<Arc<Wire>>,
    ) -> Joining {
        let is_meeting = above.is_none();
        let hosts = above
            .as_deref()
            .map_or_else(Vec::new, |above| above.name_hosts(&mut host_map));
        let host = host_map.host_of[rank];
        let own_host = |other: &usize| host_map.host_of[*other] == host;
        let neighbours = (0..host_map.host_of.len())
            .filter(own_host)
            .map(|other| host_map.processes[other]);
        let neighbours = Neighbours::of(neighbours);
        let mut node = None;
        if !host_map.is_one_each() {
            let mut part = 0;
            if let Err(code) = done((table.split)(comm, host as c_int, rank as c_int, &mut part)) {
                let text = format!("no communicator of this host's ranks: the MPI's error {code}");
                return Joining::failed(text, is_meeting);
            }
            node = Some(part);
        }
        let mut wire = Wire {
            table,
            rank,
            leaders: None,
            description: None,
            above: above.as_ref().map(|above| above.group().to_owned()),
            node,
            leader_ranks: Vec::new(),
            neighbours: Neighbours::default(),
            has_joined: Arc::default(),
            order: Arc::default(),
            host_map,
        };
        match neighbours {
            Ok(neighbours) => wire.neighbours = neighbours,
            Err(text) => {
                wire.release();
                return Joining::failed(text, is_meeting);
            }
        }
        let mut thread = None;
        if wire.is_leader() {
            let begun = options(settings, &wire.host_map.names[host], &wire).and_then(|options| {
                let size = u16::try_from(wire.host_map.leaders.len())
                    .map_err(|_| "too many hosts".to_owned())?;
                let group = wire.host_map.group.clone();
                let join = move || leaders(above.as_deref(), &hosts, (&group, size), &options);
                Builder::new()
                    .name(THREAD_NAME.to_owned())
                    .spawn(join)
                    .map_err(|error| format!("no thread: {error}"))
            });
            match begun {
                Ok(begun) => thread = Some(begun),
                Err(text) => {
                    wire.release();
                    return Joining::failed(text, is_meeting);
                }
            }
        }
        Joining {
            wire: Ok(wire),
            thread,
            is_meeting,
        }
    }

    /// Gives hosts of this wire their names here; returns their numbers.
    fn name_hosts(&self, host_map: &mut RankMap) -> Vec<usize> {
        let hosts = self.host_map.hosts_of(host_map).unwrap_or_default();
        host_map.names = hosts
            .iter()
            .map(|&host| self.host_map.names[host].clone())
            .collect();
        hosts
    }

    /// Returns the group's name, which no other wire has.
    pub fn group(&self) -> &str {
        &self.host_map.group
    }

    /// Whether the wire connects these ranks, and this one becomes `rank`.
    pub fn serves(&self, ranks: &RankMap, rank: usize) -> bool {
        let are_same =
            self.host_map.processes == ranks.processes && self.host_map.host_of == ranks.host_of;
        self.rank == rank && are_same
    }

    pub fn has_size(&self, rank: usize, size: usize) -> bool {
        (self.rank, self.host_map.host_of.len()) == (rank, size)
    }

    /// Whether the wire works, as far as this rank can determine.
    pub fn is_well(&self) -> bool {
        self.leaders.as_ref().is_none_or(Communicator::is_whole)
    }

    /// Whether these ranks are all or some of the wire's, and this one knows how to make a group
    /// within it.
    pub fn has(&self, ranks: &RankMap) -> bool {
        self.description.is_some() && self.host_map.hosts_of(ranks).is_some()
    }

    /// Gives the other ranks of this host the description of the leaders' group. All of them have
    /// joined.
    pub fn share(&mut self) -> Result<(), Trouble> {
        if self.node.is_none() {
            return Ok(());
        }
        let mut bytes = self
            .description
            .as_ref()
            .map_or_else(Vec::new, Description::encode);
        let length = self.leaders_bytes((bytes.len() as u64).to_be_bytes().to_vec())?;
        let length = length.try_into().map_or(0, u64::from_be_bytes);
        bytes.resize(length.min(MAX_DESCRIPTION_BYTES) as usize, 0);
        let bytes = self.leaders_bytes(bytes)?;
        let described = Description::decode(&bytes);
        let leader_ranks = described
            .as_ref()
            .map(|described| leader_ranks(&self.host_map, described));
        if let Some(Ok(leader_ranks)) = leader_ranks {
            (self.description, self.leader_ranks) = (described, leader_ranks);
        }
        Ok(())
    }

    pub fn hosts(&self) -> usize {
        self.host_map.leaders.len()
    }

    pub fn begin(&self, kind: Kind, now: Instant) {
        self.order.lock().begin(kind, now);
    }

    pub fn end(&self) {
        self.order.lock().end();
    }

    pub fn set_limit(&self, limit: Option<Instant>) {
        self.order.lock().limit = limit;
    }

    /// Announces a long call to the other leaders, and receives their announcements.
    pub fn look(&self, now: Instant) {
        let Some(leaders) = &self.leaders else { return };
        let (told, listens) = {
            let mut order = self.order.lock();
            (order.announce(now), order.listens(now))
        };
        let own = leaders.rank();
        for leader_rank in (0..leaders.size()).filter(|&leader_rank| leader_rank != own) {
            // A rank that has left, or has no room for the message, is not waiting.
            if let Some(told) = told {
                drop(leaders.try_send(leader_rank, IN_A_CALL, &told.encode().to_be_bytes()));
            }
            let mut word = [0; size_of::<u64>()];
            while listens
                && matches!(leaders.try_recv(leader_rank, IN_A_CALL, &mut word), Ok(Some(bytes)) if bytes == word.len())
            {
                self.order
                    .lock()
                    .on_announcement(leader_rank, Announcement::of(u64::from_be_bytes(word)));
            }
        }
    }

    /// Returns the reason of a failure: a contradiction between calls, if one was found.
    pub fn explained(&self, trouble: Trouble) -> Trouble {
        let Some(Contradiction {
            leader_rank,
            number,
        }) = self.order.lock().contradiction()
        else {
            return trouble;
        };
        let host = self
            .leader_ranks
            .iter()
            .position(|&other| other == leader_rank);
        let leader = host.map(|host| self.host_map.labels[self.host_map.leaders[host]].clone());
        leader.map_or(trouble, |leader| Trouble::Order { leader, number })
    }

    pub fn is_leader(&self) -> bool {
        self.host_map.place_of[self.rank] == 0
    }

    /// Whether blocks of ranks are blocks of hosts, in equal order: every host has one rank, as an
    /// allgather, a gather or a scatter needs. Reductions, too, are made by such ranks only.
    pub fn is_one_each(&self) -> bool {
        self.host_map.is_one_each()
            && self
                .leader_ranks
                .iter()
                .enumerate()
                .all(|(host, leader_rank)| host == usize::from(*leader_rank))
    }

    pub fn describe(&self) -> String {
        let within = self
            .above
            .as_ref()
            .map(|above| format!(" within {above}"))
            .unwrap_or_default();
        format!("{} hosts, group {}{within}", self.hosts(), self.group())
    }

    /// Broadcasts from `root`: on its host, among the leaders, on the other hosts.
    pub fn broadcast(&self, root: usize, buffer: &mut [u8]) -> Result<(), Trouble> {
        let host = self.host_map.host_of[root];
        let is_here = host == self.host_map.host_of[self.rank];
        if is_here {
            self.on_host(buffer, self.host_map.place_of[root])?;
        }
        let outcome = self
            .leaders
            .as_ref()
            .map_or(Ok(()), |all| all.broadcast(self.leader_ranks[host], buffer));
        if !is_here {
            self.on_host(buffer, 0)?;
        }
        self.agree_on_host(outcome)
    }

    pub fn barrier(&self) -> Result<(), Trouble> {
        if let Some(node) = self.node {
            let watch = Watch::on(&self.neighbours);
            let (must_continue, state) = watch.arguments();
            ended((self.table.watched_barrier)(node, must_continue, state))?;
        }
        self.agree_on_host(self.leaders.as_ref().map_or(Ok(()), Communicator::barrier))
    }

    pub fn allgather(&self, own: &[u8], blocks: &mut [u8]) -> Result<(), Trouble> {
        self.alone(|all| all.allgather(own, blocks))
    }

    pub fn gather(&self, root: usize, own: &[u8], blocks: &mut [u8]) -> Result<(), Trouble> {
        self.alone(|all| all.gather(root as u16, own, blocks))
    }

    pub fn scatter(&self, root: usize, blocks: &[u8], own: &mut [u8]) -> Result<(), Trouble> {
        self.alone(|all| all.scatter(root as u16, blocks, own))
    }

    pub fn reduce(
        &self,
        root: usize,
        reduction: Reduction,
        elements: &mut [u8],
    ) -> Result<(), Trouble> {
        self.alone(|all| all.reduce(root as u16, reduction, elements))
    }

    pub fn allreduce(&self, reduction: Reduction, elements: &mut [u8]) -> Result<(), Trouble> {
        self.alone(|all| all.allreduce(reduction, elements))
    }

    fn alone(&self, call: impl FnOnce(&Communicator) -> Result<(), Error>) -> Result<(), Trouble> {
        self.leaders
            .as_ref()
            .map_or(Ok(()), call)
            .map_err(|error| self.trouble(&error))
    }

    fn trouble(&self, error: &Error) -> Trouble {
        Trouble::Wire {
            text: self.host_map.explained(error),
            is_mismatch: error.kind() == ErrorKind::Mismatch,
        }
    }

    fn on_host(&self, buffer: &mut [u8], place: usize) -> Result<(), Trouble> {
        let Some(node) = self.node else { return Ok(()) };
        let (at, bytes, watch) = (
            buffer.as_mut_ptr(),
            buffer.len() as c_int,
            Watch::on(&self.neighbours),
        );
        let (must_continue, state) = watch.arguments();
        ended((self.table.watched_broadcast)(
            node,
            at,
            bytes,
            place as c_int,
            must_continue,
            state,
        ))
    }

    /// Returns these bytes as the first rank of this host has them.
    fn leaders_bytes(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Trouble> {
        match self.on_host(&mut bytes, 0) {
            Ok(()) => Ok(bytes),
            Err(trouble) => {
                // The MPI's unfinished call may write here at any later time.
                std::mem::forget(bytes);
                Err(trouble)
            }
        }
    }

    /// Gives the leader's result to all ranks of its host, so that none goes on with missing bytes.
    fn agree_on_host(&self, outcome: Result<(), Error>) -> Result<(), Trouble> {
        let word = self.leaders_bytes(vec![u8::from(outcome.is_err())])?;
        outcome.map_err(|error| self.trouble(&error))?;
        if word[0] == 0 {
            Ok(())
        } else {
            Err(Trouble::Leader)
        }
    }

    /// Leaves when all ranks have received what was sent to them, including ranks that are late for
    /// a call completed here.
    pub fn close(&self) {
        let Some(all) = &self.leaders else { return };
        let (began, mut is_said) = (Instant::now(), false);
        // A failed socket cannot announce anything.
        drop(all.leave_in(LEAVE_WITHIN));
        while matches!(all.has_left(), Ok(false)) {
            if began.elapsed() >= SPOKEN_OF_AFTER && !std::mem::replace(&mut is_said, true) {
                let most_s = LEAVE_WITHIN.as_secs();
                let (rank, group) = (&self.host_map.labels[self.rank], self.describe());
                print_line(format_args!(
                    "{rank} stays in {group} until all have received everything, {most_s} s at most"
                ));
            }
            (self.table.progress)();
            std::thread::sleep(PROGRESS_EVERY);
        }
        if began.elapsed() >= LEAVE_WITHIN {
            let waited_s = LEAVE_WITHIN.as_secs();
            print_line(format_args!(
                "left {} after {waited_s} s, though not all had received everything",
                self.describe()
            ));
        }
    }

    /// Leaves, and releases the MPI's objects for the wire: all ranks of the communicator do so
    /// together.
    pub fn release(&self) {
        if let Some(all) = &self.leaders {
            // As above.
            drop(all.leave());
        }
        if let Some(node) = self.node {
            (self.table.release)(node);
        }
    }
}

fn ended(code: c_int) -> Result<(), Trouble> {
    match code {
        GIVEN_UP => Err(Trouble::Neighbour),
        code => done(code).map_err(Trouble::Mpi),
    }
}

/// Joins the leaders' group, or makes it within that of the wire `above`, in which the leaders are
/// those of `hosts`.
fn leaders(
    above: Option<&Wire>,
    hosts: &[usize],
    (group, size): (&str, u16),
    options: &Options,
) -> Result<(Communicator, Description), String> {
    let joined = match above.and_then(|above| Some((above, above.description.as_ref()?))) {
        Some((above, description)) => {
            let ranks: Vec<u16> = hosts.iter().map(|&host| above.leader_ranks[host]).collect();
            Communicator::within(description, group, &ranks, options)
        }
        None => Communicator::join_with(group, size, options),
    };
    let described = joined.and_then(|joined| {
        joined
            .description()
            .map(|description| (joined, description))
    });
    described.map_err(|error| error.to_string())
}

fn leader_ranks(host_map: &RankMap, leaders: &Description) -> Result<Vec<u16>, String> {
    let leader_rank = |name: &String| {
        leaders
            .hosts()
            .position(|host| host == name)
            .map(|leader_rank| leader_rank as u16)
    };
    let leader_ranks: Option<Vec<u16>> = host_map.names.iter().map(leader_rank).collect();
    leader_ranks.ok_or_else(|| "the wire has other names for the hosts".to_owned())
}

fn options(settings: &Settings, name: &str, wire: &Wire) -> Result<Options, String> {
    let (order, has_joined, table) = (
        Arc::clone(&wire.order),
        Arc::clone(&wire.has_joined),
        wire.table,
    );
    let topology = settings
        .topology
        .as_ref()
        .map(Topology::load)
        .transpose()
        .map_err(|error| error.to_string())?;
    let calibration = settings
        .calibration
        .as_ref()
        .map(Calibration::load)
        .transpose();
    Ok(Options {
        interface: settings.interface.clone(),
        over: settings.agreed.over,
        host: Some(name.to_owned()),
        topology: topology.map(|imported| imported.topology),
        calibration: calibration.map_err(|error| error.to_string())?,
        keys: settings.agreed.key.clone()?.map(|Key(keys)| keys),
        unkeyed: true,
        join_within: JOIN_WITHIN,
        call_within: CALL_WITHIN,
        dead_after: Some(DEAD_AFTER),
        meanwhile: Some(Meanwhile::new(PROGRESS_EVERY, move || {
            // The thread that joins is none of the MPI's.
            if !has_joined.load(Ordering::Relaxed) {
                return ControlFlow::Continue(());
            }
            (table.progress)();
            let order = order.lock();
            let is_late = order.limit.is_some_and(|limit| limit <= Instant::now());
            if is_late || order.contradiction().is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })),
        ..Options::default()
    })
}

/// A wire that is being joined; or the reason why this rank cannot join, which the others do not
/// have yet.
pub struct Joining {
    wire: Result<Wire, String>,
    thread: Option<JoinHandle<Result<(Communicator, Description), String>>>,
    is_meeting: bool,
}

impl Joining {
    fn failed(text: String, is_meeting: bool) -> Joining {
        Joining {
            wire: Err(text),
            thread: None,
            is_meeting,
        }
    }

    /// Whether the ranks have to meet: it takes long, and may fail. All ranks say the same, also
    /// those where joining could not begin.
    pub fn is_meeting(&self) -> bool {
        self.is_meeting
    }

    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the wire is joined or has failed, and lets the MPI make progress meanwhile.
    pub fn wait(&self) {
        while let Ok(wire) = &self.wire
            && !self.is_over()
        {
            (wire.table.progress)();
            std::thread::sleep(PROGRESS_EVERY);
        }
    }

    /// Returns the wire of a leader that has joined, or of another rank.
    ///
    /// # Errors
    /// Why it has not.
    pub fn finish(self) -> Result<Wire, String> {
        let Joining { wire, thread, .. } = self;
        let mut wire = wire?;
        let joined = thread.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("its thread has panicked".to_owned()))
        });
        let joined = joined.transpose().and_then(|leaders| {
            let Some((leaders, description)) = leaders else {
                return Ok(None);
            };
            Ok(Some((
                leader_ranks(&wire.host_map, &description)?,
                leaders,
                description,
            )))
        });
        match joined {
            Ok(leaders) => {
                if let Some((leader_ranks, leaders, description)) = leaders {
                    (wire.leader_ranks, wire.leaders) = (leader_ranks, Some(leaders));
                    wire.description = Some(description);
                }
                wire.has_joined.store(true, Ordering::Relaxed);
                Ok(wire)
            }
            Err(text) => {
                wire.release();
                Err(wire.host_map.explained(text))
            }
        }
    }

    /// Abandons joining; a thread that still waits for the others ends by itself.
    pub fn abandon(self) {
        if let Ok(wire) = self.wire {
            wire.release();
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(250);
const WATCH_THREAD: &str = "ethb-lookout";

static WIRES: Mutex<Vec<Weak<Wire>>> = Mutex::new(Vec::new());

/// Returns the wires of this process's communicators, and those that are kept.
pub fn all() -> Vec<Arc<Wire>> {
    let mut wires = WIRES.lock();
    wires.retain(|wire| wire.strong_count() > 0);
    wires.iter().filter_map(Weak::upgrade).collect()
}

/// Lists a wire, and starts a thread that checks it for calls that contradict each other.
pub fn watch(wire: &Arc<Wire>) {
    static STARTED: Once = Once::new();
    WIRES.lock().push(Arc::downgrade(wire));
    if !wire.is_leader() {
        return;
    }
    STARTED.call_once(|| {
        if let Err(error) = Builder::new().name(WATCH_THREAD.to_owned()).spawn(run) {
            print_line(format_args!(
                "lengths that differ between ranks may not be noticed: no thread: {error}"
            ));
        }
    });
}

fn run() {
    loop {
        std::thread::sleep(LOOK_EVERY);
        // The lock is released before the check, so that a new communicator need not wait for it.
        let wires = all();
        wires.iter().for_each(|wire| wire.look(Instant::now()));
    }
}
