//! The trial: at the first communicator of a kind its ranks make some calls either way, and rank 0 looks at the clock.
//! What it saw all ranks have then.

use crate::prices::{self, Prices, SIZES, Way};
use crate::settings::{Operation, Settings};
use crate::table::{Table, Word, done};
use crate::wire::{Trouble, Wire};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Calls of each size that are timed, behind one that is not. The median counts: one in which no frame was lost, or no
/// rank had to wait for a processor, says nothing of the others.
const CALLS: [usize; SIZES.len()] = [5, 5, 3];
/// A size that would take longer for one call is not tried: on so slow a network the next shorter one says enough.
const LONGEST_CALL: Duration = Duration::from_millis(100);
/// What has not been tried by then goes by the wire.
const LONGEST_TRIAL: Duration = Duration::from_millis(500);

/// What communicators are alike in: the rounds that a tree of their hosts takes, and whether ranks share hosts.
type Kind = (u32, bool);

/// What has been tried.
static KNOWN: Mutex<BTreeMap<Kind, Prices>> = Mutex::new(BTreeMap::new());

/// A communicator's ranks, all of which make the same calls of the MPI's, whatever becomes of those by the wire.
struct Trial<'a> {
    table: &'static Table,
    comm: Word,
    wire: &'a Wire,
    rank: usize,
    size: usize,
    prices: Prices,
    began: Instant,
    /// What has failed first.
    trouble: Option<Trouble>,
}

/// What is known of communicators of this kind, or is tried now: the same on all ranks. An error on all if the wire
/// fails on one.
pub fn prices(
    table: &'static Table,
    settings: &Settings,
    comm: Word,
    wire: &Wire,
    (rank, size): (usize, usize),
) -> Result<Prices, String> {
    let kind = (wire.hosts().next_power_of_two().ilog2(), wire.is_one_each());
    // Not all of these ranks were in the communicator of the trial: what the first one knows is what all have.
    let known = KNOWN.lock().get(&kind).cloned();
    let mut is_known = [u8::from(known.is_some())];
    let asked = (table.broadcast)(comm, is_known.as_mut_ptr(), 1, 0);
    let mut trial = Trial {
        table,
        comm,
        wire,
        rank,
        size,
        prices: known.unwrap_or_default(),
        began: Instant::now(),
        trouble: done(asked).err().map(Trouble::Mpi),
    };
    if is_known[0] == 0 {
        trial.prices = Prices::default();
        trial.run(settings);
    }
    trial.share();
    let has_failed = !trial.all_agree(true);
    match trial.trouble {
        Some(trouble) => Err(trouble.to_string()),
        None if has_failed => Err("it failed on another rank".into()),
        None => {
            KNOWN.lock().insert(kind, trial.prices.clone());
            Ok(trial.prices)
        }
    }
}

impl Trial<'_> {
    fn run(&mut self, settings: &Settings) {
        let barriers = [Way::Wire, Way::Mpi].map(|way| self.time(CALLS[0], |trial| trial.barrier(way)));
        // Taken off both: where ranks that spin wait for processors, a barrier alone may take longer than one behind a
        // broadcast, which would seem to cost nothing.
        let shorter = barriers[0].min(barriers[1]);
        self.prices.note(Operation::Barrier, Way::Wire, 0, barriers[0]);
        self.prices.note(Operation::Barrier, Way::Mpi, 0, barriers[1]);
        for &operation in settings.agreed.taken.iter().filter(|operation| **operation != Operation::Barrier) {
            let has_part = operation == Operation::Broadcast || self.wire.is_one_each();
            if has_part && self.all_agree(self.began.elapsed() < LONGEST_TRIAL || self.rank != 0) {
                self.try_operation(operation, shorter);
            }
        }
    }

    /// From the shortest to the longest, as long as neither way takes too long for the next.
    fn try_operation(&mut self, operation: Operation, barrier: u64) {
        for (at, bytes) in SIZES.into_iter().enumerate() {
            for way in [Way::Wire, Way::Mpi] {
                let took = self.time(CALLS[at], |trial| trial.call(operation, way, bytes));
                self.prices.note(operation, way, at, took.saturating_sub(barrier));
            }
            let Some(&next) = SIZES.get(at + 1) else { break };
            let of = |way| self.prices.expected(operation, way, next as u64);
            let is_short =
                of(Way::Wire).max(of(Way::Mpi)).is_some_and(|price| Duration::from_nanos(price) <= LONGEST_CALL);
            if !self.all_agree(is_short || self.rank != 0) {
                break;
            }
        }
    }

    /// The median of some calls, in nanoseconds; all are made, also behind one that has failed.
    fn time(&mut self, calls: usize, mut call: impl FnMut(&mut Self)) -> u64 {
        let times = (0..=calls).map(|_| {
            let began = Instant::now();
            call(self);
            began.elapsed().as_nanos() as u64
        });
        let mut times: Vec<u64> = times.skip(1).collect();
        times.sort_unstable();
        times[calls / 2]
    }

    fn barrier(&mut self, way: Way) {
        match way {
            Way::Wire => self.by_wire(Wire::barrier),
            Way::Mpi => self.by_mpi((self.table.barrier)(self.comm)),
        }
    }

    /// One call with so many bytes in all, and a barrier of the same way: then all have them.
    fn call(&mut self, operation: Operation, way: Way, bytes: usize) {
        let block = (bytes / self.size).max(1);
        let (mut own, mut all) = (vec![0; block], vec![0; block * self.size]);
        let is_root = self.rank == 0;
        match way {
            Way::Wire => self.by_wire(|wire| match operation {
                Operation::Broadcast => wire.broadcast(0, &mut all),
                Operation::Allgather => wire.allgather(&own, &mut all),
                Operation::Gather => wire.gather(0, &own, if is_root { &mut all } else { &mut [] }),
                Operation::Scatter => wire.scatter(0, if is_root { &all } else { &[] }, &mut own),
                Operation::Barrier => Ok(()),
            }),
            Way::Mpi => self.by_mpi(self.own_call(operation, &mut own, &mut all)),
        }
        self.barrier(way);
    }

    fn own_call(&self, operation: Operation, own: &mut [u8], all: &mut [u8]) -> c_int {
        let (Trial { table, comm, .. }, block) = (self, own.len() as c_int);
        match operation {
            Operation::Broadcast => (table.broadcast)(*comm, all.as_mut_ptr(), all.len() as c_int, 0),
            Operation::Allgather => (table.allgather)(*comm, own.as_ptr(), all.as_mut_ptr(), block),
            Operation::Gather => (table.gather)(*comm, own.as_ptr(), all.as_mut_ptr(), block, 0),
            Operation::Scatter => (table.scatter)(*comm, all.as_ptr(), own.as_mut_ptr(), block, 0),
            Operation::Barrier => 0,
        }
    }

    fn by_wire(&mut self, call: impl FnOnce(&Wire) -> Result<(), Trouble>) {
        if self.trouble.is_none() {
            self.trouble = call(self.wire).err();
        }
    }

    fn by_mpi(&mut self, code: c_int) {
        self.trouble = self.trouble.take().or(done(code).err().map(Trouble::Mpi));
    }

    /// Whether no rank objects, or has failed.
    fn all_agree(&mut self, own: bool) -> bool {
        let mut least = 0;
        self.by_mpi((self.table.least)(self.comm, c_int::from(own && self.trouble.is_none()), &mut least));
        least == 1
    }

    /// Rank 0's prices, on all ranks.
    fn share(&mut self) {
        let mut bytes = self.prices.encode();
        self.by_mpi((self.table.broadcast)(self.comm, bytes.as_mut_ptr(), prices::BYTES as c_int, 0));
        self.prices = Prices::decode(&bytes);
    }
}
