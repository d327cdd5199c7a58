//! Use of ethbcast groups (*wires*) for later MPI communicators: a cache of those of freed
//! communicators, which serve others of the same ranks, and the choice of a group in which a
//! communicator of some of its ranks gets a number.
//!
//! Setting up a wire ends with an agreement: it is kept only if each of its ranks has room. A rank
//! may free the communicator later than others do. A new communicator therefore takes a kept wire
//! only if all of its ranks have it in the cache.

use crate::rank_map::RankMap;
use crate::wire::{self, Wire};
use ethbcast_transport::lock::Mutex;
use std::ffi::c_int;
use std::sync::Arc;
use std::thread::{self, ThreadId};

const MAX_KEPT: usize = 8;

struct Kept {
    /// Groups of the wires that are kept when their communicators are freed.
    reserved: Vec<String>,
    /// Wires, and the thread that has freed each one's communicator.
    wires: Vec<(ThreadId, Arc<Wire>)>,
}

impl Kept {
    /// Takes out a wire: the last one of this thread, if it fits. Threads that make communicators
    /// at the same time, in another order on each rank, then find the same.
    fn take(&mut self, fits: impl Fn(&Wire) -> bool) -> Option<Arc<Wire>> {
        let own = thread::current().id();
        let place = |at: &usize| (self.wires[*at].0 != own, number(&self.wires[*at].1));
        let first = (0..self.wires.len())
            .filter(|&at| fits(&self.wires[at].1))
            .min_by_key(place);
        first.map(|at| self.wires.swap_remove(at).1)
    }

    fn put(&mut self, wire: Arc<Wire>) {
        self.wires.push((thread::current().id(), wire));
    }
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    reserved: Vec::new(),
    wires: Vec::new(),
});

pub fn has_room() -> bool {
    KEPT.lock().reserved.len() < MAX_KEPT
}

/// Reserves room for a wire, which is kept once its communicator is freed; all ranks have room.
pub fn reserve(wire: &Wire) {
    KEPT.lock().reserved.push(wire.group().to_owned());
}

/// Takes in the wire of a freed communicator, or returns one that is not kept.
pub fn put(wire: Arc<Wire>) -> Option<Arc<Wire>> {
    let mut kept = KEPT.lock();
    if !kept.reserved.iter().any(|group| group == wire.group()) {
        return Some(wire);
    }
    kept.put(wire);
    None
}

/// A wire that this rank has taken out before it knows the other ranks, to whom it names it with
/// its card: if all name the same, they need not agree. It goes back unless it is accepted.
pub struct Offer(Option<Arc<Wire>>);

impl Offer {
    pub fn of(rank: usize, size: usize) -> Offer {
        Offer(
            KEPT.lock()
                .take(|wire| wire.has_size(rank, size) && wire.is_well()),
        )
    }

    /// Returns the number that the cards carry; 0 for none.
    pub fn number(&self) -> u32 {
        self.0.as_deref().map_or(0, number).unsigned_abs()
    }

    /// Returns the wire if all ranks offer it, and are those that it serves. All ranks decide
    /// alike.
    pub fn accepted(
        mut self,
        offers: impl IntoIterator<Item = u32>,
        ranks: &RankMap,
        rank: usize,
    ) -> Option<Arc<Wire>> {
        let own = self.number();
        let is_common = offers.into_iter().all(|other| other == own);
        self.0.take_if(|wire| is_common && wire.serves(ranks, rank))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.0
            .take()
            .into_iter()
            .for_each(|wire| KEPT.lock().put(wire));
    }
}

/// Returns a wire that all these ranks have kept, taken out; this one becomes `rank`. `agree`
/// returns the least number of all ranks.
///
/// # Errors
/// The errors of `agree`.
pub fn take<E>(
    ranks: &RankMap,
    rank: usize,
    agree: impl Fn(c_int) -> Result<c_int, E>,
) -> Result<Option<Arc<Wire>>, E> {
    // Taken out before the ranks agree: a thread of another communicator may be here as well.
    let own = KEPT
        .lock()
        .take(|wire| wire.serves(ranks, rank) && wire.is_well());
    let is_agreed = are_equal(own.as_deref(), agree);
    if let Ok(true) = is_agreed {
        return Ok(own);
    }
    own.into_iter().for_each(|wire| KEPT.lock().put(wire));
    is_agreed.map(|_| None)
}

/// Returns a wire of which these ranks are all or some, kept or in use: all ranks know it. `agree`
/// is as above.
///
/// # Errors
/// The errors of `agree`.
pub fn above<E>(
    ranks: &RankMap,
    agree: impl Fn(c_int) -> Result<c_int, E>,
) -> Result<Option<Arc<Wire>>, E> {
    let fits = |wire: &Arc<Wire>| wire.is_well() && wire.has(ranks);
    let own = wire::all()
        .into_iter()
        .filter(fits)
        .min_by_key(|wire| (wire.hosts(), number(wire)));
    let is_agreed = are_equal(own.as_deref(), agree)?;
    Ok(own.filter(|_| is_agreed))
}

fn are_equal<E>(own: Option<&Wire>, agree: impl Fn(c_int) -> Result<c_int, E>) -> Result<bool, E> {
    let number = own.map_or(0, number);
    // Both, whatever the first says: all ranks make the same calls.
    let (least, most) = (agree(number), agree(-number));
    Ok(least? == number && -most? == number)
}

pub fn take_all() -> Vec<Arc<Wire>> {
    std::mem::take(&mut KEPT.lock().wires)
        .into_iter()
        .map(|(_, wire)| wire)
        .collect()
}

/// A number of a wire that is equal on all ranks, and not zero.
fn number(wire: &Wire) -> c_int {
    let hash = wire.group().bytes().fold(0u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    (hash >> 1 | 1) as c_int
}
