//! State kept with a communicator: its place on the wire, or why it has none.

use crate::deadlock_watchdog;
use crate::neighbours::ProcessId;
use crate::node_descriptor::{self, NodeDescriptor};
use crate::presence;
use crate::rank_map::{RankMap, cards};
use crate::settings::Settings;
use crate::statistics::Reason;
use crate::stderr::print_line;
use crate::table::{INTER, KNOWN, NEW, Table, Word, done};
use crate::trial::{self, Ranks};
use crate::wire::Wire;
use ethbcast_collectives::NamedOptions;
use ethbcast_collectives::membership::live::host;
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::{Interface, Port, PortConfig, random_u64};
use parking_lot::{Mutex, RwLock};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub struct Group {
    way: RwLock<Result<Arc<Wire>, Reason>>,
    pub rank: usize,
    pub size: usize,
}

/// Addresses of all groups, so that they can be closed while the MPI still runs. They are no
/// references, because the MPI frees the groups.
static GROUPS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static ON_THE_WIRE: AtomicUsize = AtomicUsize::new(0);
/// Rank in the largest communicator seen, which is the world's.
static WORLD_RANK: AtomicI32 = AtomicI32::new(-1);
static WORLD_SIZE: AtomicI32 = AtomicI32::new(0);

impl Group {
    /// Returns the group of `comm`, created on its first collective, or why there is none.
    pub fn of(table: &'static Table, settings: &Settings, comm: Word) -> Result<&'static Group, Reason> {
        let (mut state, mut rank, mut size) = (std::ptr::null_mut(), 0, 0);
        match (table.look)(comm, &mut state, &mut rank, &mut size) {
            // SAFETY: what was kept with the communicator is a group, until the communicator is freed, which no program
            // does while it is in a collective of it.
            KNOWN => unsafe { state.cast::<Group>().as_ref() }.ok_or(Reason::NotNow),
            NEW => Ok(Group::new(table, settings, comm, (rank, size))),
            INTER => Err(Reason::Intercommunicator),
            _ => Err(Reason::NotNow),
        }
    }

    fn new(table: &'static Table, settings: &Settings, comm: Word, (rank, size): (c_int, c_int)) -> &'static Group {
        if size >= WORLD_SIZE.fetch_max(size, Ordering::Relaxed) {
            WORLD_RANK.store(rank, Ordering::Relaxed);
        }
        let way =
            if size < 2 { Err((Reason::OneRank, String::new())) } else { wired(table, settings, comm, rank, size) };
        if let Err((reason, text)) = &way
            && settings.is_verbose
            && rank == 0
            && *reason != Reason::OneRank
        {
            print_line(format_args!("{size} ranks stay with MPI: {}: {text}", reason.text()));
        }
        let way = way.map(Arc::new).map_err(|(reason, _)| reason);
        way.iter().for_each(deadlock_watchdog::add);
        ON_THE_WIRE.fetch_add(usize::from(way.is_ok()), Ordering::Relaxed);
        let (rank, size) = (rank as usize, size as usize);
        let group: &'static Group = Box::leak(Box::new(Group { way: RwLock::new(way), rank, size }));
        let address = std::ptr::from_ref(group);
        GROUPS.lock().push(address as usize);
        if (table.keep)(comm, address.cast_mut().cast()) != 0 {
            // The communicator will be wired again and never freed, since the MPI does not know it.
            group.give_up(Reason::Failed);
        }
        group
    }

    pub fn way(&self) -> Result<Arc<Wire>, Reason> {
        self.way.read().clone()
    }

    pub fn give_up(&self, reason: Reason) {
        let before = std::mem::replace(&mut *self.way.write(), Err(reason));
        ON_THE_WIRE.fetch_sub(usize::from(before.is_ok()), Ordering::Relaxed);
    }
}

pub extern "C" fn closed(state: *mut c_void) {
    let mut groups = GROUPS.lock();
    let Some(at) = groups.iter().position(|&address| address == state as usize) else { return };
    groups.swap_remove(at);
    drop(groups);
    // SAFETY: it was made by `Box::leak`, and this list has just forgotten it: it is freed once.
    let group = unsafe { Box::from_raw(state.cast::<Group>()) };
    let way = group.way();
    group.give_up(Reason::NotNow);
    drop(group);
    if let Ok(wire) = way {
        wire.close();
        wire.release();
    }
}

pub fn close_all() {
    let groups: Vec<usize> = GROUPS.lock().clone();
    for address in groups {
        // SAFETY: what is in the list has not been freed, and no communicator is freed while the program finalizes.
        let group = unsafe { &*(address as *const Group) };
        let way = group.way();
        group.give_up(Reason::NotNow);
        way.iter().for_each(|wire| wire.close());
    }
}

pub fn world_rank() -> Option<usize> {
    usize::try_from(WORLD_RANK.load(Ordering::Relaxed)).ok()
}

/// Wires a communicator. Every rank takes identical steps, whatever it finds: cards, places, the
/// join, the agreement.
fn wired(
    table: &'static Table,
    settings: &Settings,
    comm: Word,
    rank: c_int,
    size: c_int,
) -> Result<Wire, (Reason, String)> {
    presence::everywhere().map_err(|text| (Reason::NotEverywhere, text))?;
    if (table.is_of_world)(comm) == 0 {
        return Err((Reason::Strangers, "not all of them are of this MPI_COMM_WORLD".into()));
    }
    let size = size as usize;
    let own = own_card(settings);
    let mut all = vec![0; node_descriptor::BYTES * size];
    let exchanged = (table.allgather)(comm, own.encode().as_ptr(), all.as_mut_ptr(), node_descriptor::BYTES as c_int);
    let mpi = |code: c_int| (Reason::NotJoined, format!("the MPI's error {code}"));
    done(exchanged).map_err(mpi)?;
    let seating = RankMap::new(&cards(&all)?, &settings.agreed, settings.topology.is_some())?;
    let wire = Wire::join(table, settings, comm, rank as usize, seating);
    let mut least = 0;
    done((table.least)(comm, c_int::from(wire.is_ok()), &mut least)).map_err(mpi)?;
    match wire {
        Ok(wire) if least == 1 => {
            if settings.agreed.tries {
                let (rank, is_verbose) = (rank as usize, settings.is_verbose);
                trial::share_known(Ranks { table, comm, wire: &wire, rank, size, is_verbose })
                    .map_err(|trouble| (Reason::Failed, trouble.to_string()))?;
            }
            if settings.is_verbose && rank == 0 {
                print_line(format_args!("{size} ranks on {}", wire.describe()));
            }
            Ok(wire)
        }
        Ok(wire) => {
            wire.release();
            Err((Reason::NotJoined, "another rank did not join, and says why".into()))
        }
        Err(text) => {
            if settings.is_verbose {
                print_line(format_args!("rank {rank}: {text}"));
            }
            Err((Reason::NotJoined, text))
        }
    }
}

fn own_card(settings: &Settings) -> NodeDescriptor {
    let place = place(settings.interface.as_deref());
    let crowded = ON_THE_WIRE.load(Ordering::Relaxed) >= settings.agreed.most_groups;
    let trouble = match place {
        Err(text) => text.clone(),
        Ok(_) if crowded => Reason::TooMany.text().to_owned(),
        Ok(_) if has_device_memory() => "a library for memory of devices is loaded".to_owned(),
        Ok(_) => String::new(),
    };
    let mac = place.as_ref().copied().unwrap_or(MacAddr::new(0, 0, 0, 0, 0, 0));
    let nonce = random_u64().unwrap_or_default();
    NodeDescriptor {
        mac,
        nonce,
        process: ProcessId::own(),
        host: host::name(None),
        fingerprint: settings.agreed.fingerprint(),
        trouble,
    }
}

/// Whether buffers may be in device memory, unreadable for this process: CUDA, HIP.
fn has_device_memory() -> bool {
    [c"cuInit", c"hipInit"].into_iter().any(|name| !crate::dynamic::address(name).is_null())
}

fn place(interface: Option<&str>) -> &'static Result<MacAddr, String> {
    static PLACE: OnceLock<Result<MacAddr, String>> = OnceLock::new();
    PLACE.get_or_init(|| {
        let found = Interface::find(interface);
        let found =
            found.map_err(|error| NamedOptions::reworded(&error.to_string(), |_| "ETHBCAST_MPI_INTERFACE".into()))?;
        let mut config = PortConfig::default();
        config.hears = false;
        drop(Port::open(&found, config).map_err(|error| error.to_string())?);
        Ok(found.mac)
    })
}
