//! Cache of ethbcast groups (*wires*) of freed MPI communicators, reused by later communicators of the same ranks.
//!
//! Setting up a wire ends with an agreement: it is kept only if each of its ranks has room. A rank may free the
//! communicator later than others do. A new communicator therefore takes a kept wire only if all of
//! its ranks have it in the cache.

use crate::rank_map::RankMap;
use crate::wire::Wire;
use ethbcast_transport::lock::Mutex;
use std::ffi::c_int;
use std::sync::Arc;

const MAX_KEPT: usize = 8;

struct Kept {
    /// Groups of the wires that are kept when their communicators are freed.
    reserved: Vec<String>,
    wires: Vec<Arc<Wire>>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { reserved: Vec::new(), wires: Vec::new() });

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
    kept.wires.push(wire);
    None
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
    let own = {
        let mut kept = KEPT.lock();
        let fits = |at: &usize| kept.wires[*at].serves(ranks, rank);
        let first = (0..kept.wires.len()).filter(fits).min_by_key(|&at| number(&kept.wires[at]));
        first.map(|at| kept.wires.swap_remove(at))
    };
    let number = own.as_deref().map_or(0, number);
    // Both, whatever the first says: all ranks make the same calls.
    let (least, most) = (agree(number), agree(-number));
    let is_agreed = matches!((&least, &most), (Ok(least), Ok(most)) if *least == number && -*most == number);
    if is_agreed {
        return Ok(own);
    }
    KEPT.lock().wires.extend(own);
    least.and(most).map(|_| None)
}

pub fn take_all() -> Vec<Arc<Wire>> {
    std::mem::take(&mut KEPT.lock().wires)
}

/// A number of a wire that is equal on all ranks, and not zero.
fn number(wire: &Wire) -> c_int {
    let hash = wire.group().bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (hash >> 1 | 1) as c_int
}
