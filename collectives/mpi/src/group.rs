//! State attached to each MPI communicator: whether ethbcast carries its collectives, or why not.

use crate::account::{self, Account, LiveRanks, Ranks};
use crate::dynamic::{INTER, KNOWN, NEW, Table, Word, done, print_line};
use crate::kept::Offer;
use crate::neighbours::ProcessId;
use crate::rank_map::{self, NodeDescriptor, RankMap, cards};
use crate::settings::{Reason, Settings, UNUSABLE_KEY};
use crate::wire::{Joining, Wire};
use crate::{kept, presence, wire};
use ethbcast_collectives::membership::live::host;
use ethbcast_collectives::spell_options;
use ethbcast_transport::MacAddr;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::{Interface, Over, Port, PortConfig, random_u64};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Instant;

/// Whether ethbcast carries a communicator's collectives yet.
enum Stage {
    Own(Reason),
    /// Using ethbcast has not been worth its cost so far.
    Unwired,
    Joining(Box<Joining>),
    Wired(Arc<Wire>),
}

pub struct Group {
    state: Mutex<Stage>,
    pub account: Mutex<Account>,
    pub rank: usize,
    pub size: usize,
}

/// Addresses of all groups, so that they can be closed while the MPI still runs. They are no
/// references, because the MPI frees the groups.
static GROUPS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static UNUSED_KEY: Once = Once::new();
static ON_THE_WIRE: AtomicUsize = AtomicUsize::new(0);
/// Reason why the hosts did not meet on the wire; they do not try again.
static NO_WIRE: OnceLock<String> = OnceLock::new();
/// Rank in the largest communicator seen, until one has asked for that in the world.
static WORLD_RANK: AtomicI32 = AtomicI32::new(-1);
static WORLD_SIZE: AtomicI32 = AtomicI32::new(0);

impl Group {
    /// Returns the group of `comm`, created on its first collective, or why there is none.
    pub fn of(
        table: &'static Table,
        settings: &Settings,
        comm: Word,
    ) -> Result<&'static Group, Reason> {
        let (mut state, mut rank, mut size) = (std::ptr::null_mut(), 0, 0);
        match (table.look)(comm, &mut state, &mut rank, &mut size) {
            // SAFETY: what was kept with the communicator is a group, until the communicator is
            // freed, which no program does while it is in a collective of it.
            KNOWN => unsafe { state.cast::<Group>().as_ref() }.ok_or(Reason::NotNow),
            NEW => Ok(Group::new(table, settings, comm, (rank, size))),
            INTER => Err(Reason::Intercommunicator),
            _ => Err(Reason::NotNow),
        }
    }

    fn new(
        table: &'static Table,
        settings: &Settings,
        comm: Word,
        (rank, size): (c_int, c_int),
    ) -> &'static Group {
        if size >= WORLD_SIZE.fetch_max(size, Ordering::Relaxed) {
            WORLD_RANK.store(rank, Ordering::Relaxed);
        }
        let state = if size < 2 {
            Stage::Own(Reason::OneRank)
        } else {
            Stage::Unwired
        };
        let (rank, size) = (rank as usize, size as usize);
        let account = Mutex::new(Account::new(account::known(size)));
        let group: &'static Group = Box::leak(Box::new(Group {
            state: Mutex::new(state),
            account,
            rank,
            size,
        }));
        let address = std::ptr::from_ref(group);
        GROUPS.lock().push(address as usize);
        if (table.keep)(comm, address.cast_mut().cast()) != 0 {
            // The communicator would be wired repeatedly, since the MPI does not know it.
            group.give_up(Reason::Failed);
        } else if size > 1
            && let Err((reason, text)) = everywhere(table, comm)
        {
            // Before the ranks' first agreement, in which one without the drop-in has no part.
            group.stay(settings, reason, &text);
        } else if size > 1 && !settings.agreed.tries {
            group.begin(table, settings, comm);
            let is_joining = match &*group.state.lock() {
                Stage::Joining(joining) => {
                    joining.wait();
                    true
                }
                _ => false,
            };
            if is_joining {
                group.complete(table, settings, comm);
            }
        }
        group
    }

    /// Names this rank, for people: by its number here, and in the world if that is another.
    pub fn own_rank(&self) -> String {
        let own = format!("rank {} of {}", self.rank, self.size);
        match world_rank().filter(|&world| world != self.rank) {
            Some(world) => format!("{own} (rank {world} of MPI_COMM_WORLD)"),
            None => own,
        }
    }

    pub fn way(&self) -> Result<Option<Arc<Wire>>, Reason> {
        match &*self.state.lock() {
            Stage::Own(reason) => Err(*reason),
            Stage::Unwired | Stage::Joining(_) => Ok(None),
            Stage::Wired(wire) => Ok(Some(Arc::clone(wire))),
        }
    }

    pub fn give_up(&self, reason: Reason) {
        match std::mem::replace(&mut *self.state.lock(), Stage::Own(reason)) {
            Stage::Wired(_) => drop(ON_THE_WIRE.fetch_sub(1, Ordering::Relaxed)),
            Stage::Joining(joining) => joining.abandon(),
            Stage::Own(_) | Stage::Unwired => {}
        }
    }

    /// Takes the next step towards the wire before a call of `bytes`, if one is due; all ranks
    /// decide alike.
    pub fn approach(&self, table: &'static Table, settings: &Settings, comm: Word, bytes: u64) {
        let mut account = self.account.lock();
        if !account.is_due(bytes) {
            return;
        }
        let mut ranks = LiveRanks::new(table, comm, None, self.rank, self.size);
        let is_joining = matches!(&*self.state.lock(), Stage::Joining(_));
        if !is_joining && !account.can_wire(&mut ranks) {
            return;
        }
        let began = Instant::now();
        drop(account);
        if is_joining {
            let is_over =
                matches!(&*self.state.lock(), Stage::Joining(joining) if joining.is_over());
            if ranks.least(c_int::from(is_over)) == 1 {
                self.complete(table, settings, comm);
            }
        } else {
            self.begin(table, settings, comm);
        }
        self.account.lock().pay(began.elapsed());
    }

    fn begin(&self, table: &'static Table, settings: &Settings, comm: Word) {
        match joining(table, settings, comm, self.rank, self.size) {
            Ok(Begun::Joining(joining)) => {
                let is_meeting = joining.is_meeting();
                *self.state.lock() = Stage::Joining(joining);
                if !is_meeting {
                    self.complete(table, settings, comm);
                }
            }
            Ok(Begun::Kept(wire)) => self.carry(table, settings, comm, wire, " again"),
            Err((reason, text)) => self.stay(settings, reason, &text),
        }
    }

    /// Ends joining, when it is over on all ranks, and agrees on its success.
    fn complete(&self, table: &'static Table, settings: &Settings, comm: Word) {
        let Stage::Joining(joining) =
            std::mem::replace(&mut *self.state.lock(), Stage::Own(Reason::NotJoined))
        else {
            return;
        };
        let is_meeting = joining.is_meeting();
        let joined = joining.finish();
        let (own, mut least) = (
            if joined.is_ok() {
                1 + c_int::from(kept::has_room())
            } else {
                0
            },
            0,
        );
        let agreed = done((table.least)(comm, own, &mut least));
        let wire = match joined {
            Ok(mut wire) if least > 0 && agreed.is_ok() => {
                let (shared, mut all) = (wire.share(), 0);
                let agreed = done((table.least)(comm, shared.is_ok().into(), &mut all));
                if let Err(text) = shared.map_err(|trouble| trouble.to_string()) {
                    wire.release();
                    return self.stay(settings, Reason::Failed, &text);
                }
                if all == 0 || agreed.is_err() {
                    wire.release();
                    return self.stay(settings, Reason::Failed, "another rank says why");
                }
                Arc::new(wire)
            }
            Ok(wire) => {
                wire.release();
                let text = "another rank did not join, and says why";
                self.stay(settings, Reason::NotJoined, text);
                return bar_the_wire(is_meeting, text);
            }
            Err(text) => {
                if settings.is_verbose && self.rank != 0 {
                    print_line(format_args!("{}: {text}", self.own_rank()));
                }
                self.stay(settings, Reason::NotJoined, &text);
                return bar_the_wire(is_meeting, &text);
            }
        };
        if least > 1 {
            kept::reserve(&wire);
        }
        wire::watch(&wire);
        self.carry(table, settings, comm, wire, "");
    }

    fn carry(
        &self,
        table: &'static Table,
        settings: &Settings,
        comm: Word,
        wire: Arc<Wire>,
        again: &str,
    ) {
        if settings.agreed.tries
            && let Err(trouble) = account::share_known(table, comm, &wire, &mut self.account.lock())
        {
            wire.release();
            return self.stay(settings, Reason::Failed, &trouble.to_string());
        }
        if settings.is_verbose && self.rank == 0 {
            print_line(format_args!(
                "{} ranks on {}{again}",
                self.size,
                wire.describe()
            ));
        }
        ON_THE_WIRE.fetch_add(1, Ordering::Relaxed);
        *self.state.lock() = Stage::Wired(wire);
    }

    fn stay(&self, settings: &Settings, reason: Reason, text: &str) {
        if settings.is_verbose && self.rank == 0 {
            print_line(format_args!(
                "{} ranks stay with MPI: {}: {text}",
                self.size,
                reason.text()
            ));
        }
        if self.rank == 0 && text.contains(UNUSABLE_KEY) {
            UNUSED_KEY.call_once(|| print_line(format_args!("{text}: calls stay with the MPI")));
        }
        *self.state.lock() = Stage::Own(reason);
    }
}

/// Lets no later communicator try the wire, where a meeting has failed. A group within another that
/// was not made says nothing of the wire.
fn bar_the_wire(is_meeting: bool, text: &str) {
    if is_meeting {
        NO_WIRE.get_or_init(|| text.to_owned());
    }
}

pub extern "C" fn closed(state: *mut c_void) {
    let mut groups = GROUPS.lock();
    let Some(at) = groups.iter().position(|&address| address == state as usize) else {
        return;
    };
    groups.swap_remove(at);
    drop(groups);
    // SAFETY: it was made by `Box::leak`, and this list has just forgotten it: it is freed once.
    let group = unsafe { Box::from_raw(state.cast::<Group>()) };
    let way = group.way();
    group.give_up(Reason::NotNow);
    drop(group);
    if let Ok(Some(wire)) = way
        && let Some(wire) = kept::put(wire)
    {
        wire.close();
        wire.release();
    }
}

pub fn close_all() {
    let groups: Vec<usize> = GROUPS.lock().clone();
    for address in groups {
        // SAFETY: what is in the list has not been freed, and no communicator is freed while the
        // program finalizes.
        let group = unsafe { &*(address as *const Group) };
        let way = group.way();
        group.give_up(Reason::NotNow);
        way.into_iter().flatten().for_each(|wire| wire.close());
    }
    kept::take_all().into_iter().for_each(|wire| wire.close());
}

pub fn world_rank() -> Option<usize> {
    usize::try_from(WORLD_RANK.load(Ordering::Relaxed)).ok()
}

/// A source of the wire: one that is being joined, or the one of an earlier communicator.
enum Begun {
    Joining(Box<Joining>),
    Kept(Arc<Wire>),
}

/// Checks that all ranks of a communicator have the drop-in, with equal settings; those that have
/// it find the same.
fn everywhere(table: &Table, comm: Word) -> Result<(), (Reason, String)> {
    presence::everywhere().map_err(|text| (Reason::NotEverywhere, text))?;
    match (table.is_of_world)(comm) {
        0 => Err((
            Reason::OtherWorld,
            "not all of them are of this MPI_COMM_WORLD".into(),
        )),
        _ => Ok(()),
    }
}

/// Begins to wire a communicator. Every rank takes identical steps, whatever it finds: cards,
/// places, and the join, unless all of them have kept a wire of the same ranks; it is short if they
/// have one of more ranks.
fn joining(
    table: &'static Table,
    settings: &Settings,
    comm: Word,
    rank: usize,
    size: usize,
) -> Result<Begun, (Reason, String)> {
    let mut world_rank = -1;
    (table.world)(&mut world_rank);
    WORLD_RANK.store(world_rank, Ordering::Relaxed);
    WORLD_SIZE.store(c_int::MAX, Ordering::Relaxed);
    let offer = Offer::of(rank, size);
    let own = NodeDescriptor {
        offer: offer.number(),
        ..own_descriptor(settings)
    };
    let mut all = vec![0; rank_map::BYTES * size];
    let exchanged = (table.allgather)(
        comm,
        own.encode().as_ptr(),
        all.as_mut_ptr(),
        rank_map::BYTES as c_int,
    );
    done(exchanged).map_err(|code| (Reason::NotJoined, format!("the MPI's error {code}")))?;
    let cards = cards(&all)?;
    let host_map = RankMap::new(&cards, &settings.agreed, settings.topology.is_some())?;
    if let Some(wire) = offer.accepted(
        cards.iter().flatten().map(|card| card.offer),
        &host_map,
        rank,
    ) {
        return Ok(Begun::Kept(wire));
    }
    let agree = |own| {
        let mut least = 0;
        let code = (table.least)(comm, own, &mut least);
        done(code)
            .map(|()| least)
            .map_err(|code| (Reason::NotJoined, format!("the MPI's error {code}")))
    };
    Ok(match kept::take(&host_map, rank, agree)? {
        Some(wire) => Begun::Kept(wire),
        None => {
            let above = kept::above(&host_map, agree)?;
            Begun::Joining(Box::new(Wire::join(
                table, settings, comm, rank, host_map, above,
            )))
        }
    })
}

fn own_descriptor(settings: &Settings) -> NodeDescriptor {
    let place = place(settings.interface.as_deref(), settings.agreed.over);
    let crowded = ON_THE_WIRE.load(Ordering::Relaxed) >= settings.agreed.most_groups;
    let trouble = match place.as_ref().and(settings.agreed.key.as_ref()) {
        Err(text) => text.clone(),
        Ok(_) if NO_WIRE.get().is_some() => {
            format!(
                "{}: {}",
                Reason::NotJoined.text(),
                NO_WIRE.get().map_or("", |text| text)
            )
        }
        Ok(_) if crowded => Reason::TooMany.text().to_owned(),
        Ok(_) if has_device_memory() => "a library for memory of devices is loaded".to_owned(),
        Ok(_) => String::new(),
    };
    let mac = place
        .as_ref()
        .copied()
        .unwrap_or(MacAddr::new(0, 0, 0, 0, 0, 0));
    let nonce = random_u64().unwrap_or_default();
    NodeDescriptor {
        mac,
        nonce,
        process: ProcessId::own(),
        host: if settings.topology.is_some() {
            host::name(None)
        } else {
            host::own_name()
        },
        world_rank: world_rank().map(|rank| rank as u32),
        offer: 0,
        fingerprint: settings.agreed.fingerprint(),
        trouble,
    }
}

/// Whether buffers may be in device memory, unreadable for this process: CUDA, HIP.
fn has_device_memory() -> bool {
    [c"cuInit", c"hipInit"]
        .into_iter()
        .any(|name| !crate::dynamic::address(name).is_null())
}

fn variable(option: &str) -> String {
    match option {
        "interface" => "ETHBCAST_MPI_INTERFACE".to_owned(),
        "over" => "ETHBCAST_MPI_OVER".to_owned(),
        _ => option.to_owned(),
    }
}

fn place(interface: Option<&str>, over: Over) -> &'static Result<MacAddr, String> {
    static PLACE: OnceLock<Result<MacAddr, String>> = OnceLock::new();
    PLACE.get_or_init(|| {
        spell_options(variable);
        let found = Interface::find_over(interface, over).map_err(|error| error.to_string())?;
        let mut config = PortConfig::default();
        (config.hears, config.over) = (false, over);
        drop(Port::open(&found, config).map_err(|error| error.to_string())?);
        Ok(found.mac)
    })
}
