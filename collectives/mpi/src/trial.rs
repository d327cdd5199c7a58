//! Probe transfers: when a communicator's ranks first call a length, they make some calls of it by
//! either route and time them. All ranks adopt the slowest rank's timing.

use crate::cost_table::{self, CostTable, Length, Way};
use crate::settings::Operation;
use crate::stderr::print_line;
use crate::table::{Table, Word, done};
use crate::timing::{Calls, Times};
use crate::wire::{Trouble, Wire};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Time of the pairs of calls timed for a length, and their limits. An untimed pair precedes them.
const TIMED: Duration = Duration::from_millis(12);
const MIN_PAIRS: u64 = 3;
const MAX_PAIRS: u64 = 15;
/// Shortest length, in bytes, that is tried before a length four times as long.
const FIRST_BYTES: usize = 16 << 10;
/// Longest time of one call of a length that is tried: on a slower network a shorter length
/// suffices.
const MAX_CALL: Duration = Duration::from_millis(100);
/// Total time of a process's trials; then the nearest length tried decides.
const LONGEST_TRIALS: Duration = Duration::from_secs(1);
/// Unit of times exchanged by ranks, so that a call's time fits an `int`.
const TICK: Duration = Duration::from_nanos(100);
const QUESTION_BYTES: usize = 2 * 8;

/// Properties by which communicators share results: the rounds of a tree of their hosts, and
/// whether ranks share hosts.
type TransferKind = (u32, bool);

static KNOWN: Mutex<BTreeMap<TransferKind, CostTable>> = Mutex::new(BTreeMap::new());
static SPENT: Mutex<Duration> = Mutex::new(Duration::ZERO);

#[derive(Clone, Copy)]
pub struct Ranks<'a> {
    pub table: &'static Table,
    pub comm: Word,
    pub wire: &'a Wire,
    pub rank: usize,
    pub size: usize,
    pub is_verbose: bool,
}

impl Ranks<'_> {
    fn kind(self) -> TransferKind {
        (self.wire.hosts().next_power_of_two().ilog2(), self.wire.is_one_each())
    }
}

/// Copies the first rank's results to all ranks, some of which did not take part in earlier trials.
///
/// # Errors
/// The MPI's.
pub fn share_known(ranks: Ranks) -> Result<(), Trouble> {
    let mut bytes = KNOWN.lock().entry(ranks.kind()).or_default().encode();
    done((ranks.table.broadcast)(ranks.comm, bytes.as_mut_ptr(), cost_table::BYTES as c_int, 0))
        .map_err(Trouble::Mpi)?;
    ranks.wire.set_prices(CostTable::decode(&bytes));
    Ok(())
}

/// Finds out which route is faster at a length. Every rank takes identical steps, whatever it
/// finds.
///
/// # Errors
/// On all ranks, if calls differ, or the wire fails on one.
pub fn settle(ranks: Ranks, operation: Operation, length: Length) -> Result<(), Trouble> {
    let began = Instant::now();
    let mut trial = ProbeTransfer { ranks, prices: ranks.wire.prices(), trouble: None };
    trial.meet()?;
    let is_same = trial.ask(operation, length);
    if !trial.all_agree(is_same) {
        return Err(trial.trouble.unwrap_or(Trouble::Calls));
    }
    if !trial.prices.is_settled(operation, length) {
        trial.run(operation, length);
        *SPENT.lock() += began.elapsed();
    }
    let all_is_well = trial.all_agree(true);
    let ProbeTransfer { prices, trouble, .. } = trial;
    match trouble {
        Some(trouble) => Err(trouble),
        None if !all_is_well => Err(Trouble::Others),
        None => {
            KNOWN.lock().entry(ranks.kind()).or_default().adopt(&prices);
            ranks.wire.set_prices(prices);
            Ok(())
        }
    }
}

/// A trial. All ranks make equal MPI calls, even if those by the wire fail.
struct ProbeTransfer<'a> {
    ranks: Ranks<'a>,
    prices: CostTable,
    trouble: Option<Trouble>,
}

impl ProbeTransfer<'_> {
    /// Begins by the wire, where a rank that makes another call, or the MPI's own, is detected.
    /// Inside the MPI it would not be. Other failures are announced to all ranks later.
    fn meet(&mut self) -> Result<(), Trouble> {
        self.by_wire(Wire::barrier);
        self.trouble = self.trouble.take().map(|trouble| self.ranks.wire.explained(trouble));
        match self.trouble.take_if(|trouble| trouble.is_mismatch()) {
            Some(trouble) => Err(trouble),
            None => Ok(()),
        }
    }

    /// Compares operation and length with rank 0's, and takes over its results; returns whether
    /// they are equal.
    fn ask(&mut self, operation: Operation, length: Length) -> bool {
        let known = KNOWN.lock().get(&self.ranks.kind()).cloned().unwrap_or_default();
        let mut question = [0; QUESTION_BYTES];
        question[..8].copy_from_slice(&(operation as u64).to_be_bytes());
        question[8..].copy_from_slice(&(length.bytes() as u64).to_be_bytes());
        let mut asked = [&question[..], &known.encode()].concat();
        self.by_mpi((self.ranks.table.broadcast)(self.ranks.comm, asked.as_mut_ptr(), asked.len() as c_int, 0));
        let (heard, known) = asked.split_at(QUESTION_BYTES);
        if let Ok(known) = known.try_into() {
            self.prices.adopt(&CostTable::decode(known));
        }
        heard == question
    }

    fn run(&mut self, operation: Operation, length: Length) {
        let shorter = |length: &Length| length.quarter().filter(|quarter| quarter.bytes() >= FIRST_BYTES);
        let mut steps: Vec<Length> = std::iter::successors(Some(length), shorter).collect();
        steps.retain(|&step| !self.prices.is_settled(operation, step));
        while let Some(step) = steps.pop() {
            let expected = self.prices.expected(operation, step).map(Duration::from_nanos);
            let is_short = expected.is_none_or(|expected| expected <= MAX_CALL) && *SPENT.lock() < LONGEST_TRIALS;
            if !self.all_agree(is_short || self.ranks.rank != 0) {
                break;
            }
            self.try_length(operation, step);
        }
        self.prices.settle(operation, length);
    }

    fn try_length(&mut self, operation: Operation, length: Length) {
        let (began, mut first, mut times) = (Instant::now(), Times::default(), Times::default());
        let mut tried = Tried { trial: self, operation, length, began };
        first.take_pair(&mut tried);
        let pairs = tried.trial.agreed_pairs(began.elapsed());
        (0..pairs).for_each(|_| times.take_pair(&mut tried));
        let prices = self.longest(if pairs == 0 { first } else { times }.medians());
        self.prices.note(operation, length, prices);
        if self.ranks.is_verbose && self.ranks.rank == 0 {
            let (name, bytes) = (operation.name(), length.bytes());
            let [wire, mpi] = prices.map(|nanoseconds| nanoseconds as f64 / 1e3);
            print_line(format_args!(
                "tried: {name}, up to {bytes} bytes: {wire:.1} µs by the wire, {mpi:.1} µs by the MPI"
            ));
        }
    }

    fn agreed_pairs(&mut self, took: Duration) -> u64 {
        let fit = (TIMED.as_nanos() / took.as_nanos().max(1)) as u64;
        let mut pairs = [if took > MAX_CALL * 4 { 0 } else { fit.clamp(MIN_PAIRS, MAX_PAIRS) as u8 }];
        self.by_mpi((self.ranks.table.broadcast)(self.ranks.comm, pairs.as_mut_ptr(), 1, 0));
        u64::from(pairs[0]).min(MAX_PAIRS)
    }

    fn barrier(&mut self, way: Way) {
        match way {
            Way::Wire => self.by_wire(Wire::barrier),
            Way::Mpi => self.by_mpi((self.ranks.table.barrier)(self.ranks.comm)),
        }
    }

    fn call(&mut self, operation: Operation, way: Way, bytes: usize) {
        let block = (bytes / self.ranks.size).max(1);
        let (mut own, mut all) = (vec![0; block], vec![0; block * self.ranks.size]);
        let is_root = self.ranks.rank == 0;
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
    }

    fn own_call(&self, operation: Operation, own: &mut [u8], all: &mut [u8]) -> c_int {
        let (Ranks { table, comm, .. }, block) = (self.ranks, own.len() as c_int);
        match operation {
            Operation::Broadcast => (table.broadcast)(comm, all.as_mut_ptr(), all.len() as c_int, 0),
            Operation::Allgather => (table.allgather)(comm, own.as_ptr(), all.as_mut_ptr(), block),
            Operation::Gather => (table.gather)(comm, own.as_ptr(), all.as_mut_ptr(), block, 0),
            Operation::Scatter => (table.scatter)(comm, all.as_ptr(), own.as_mut_ptr(), block, 0),
            Operation::Barrier => 0,
        }
    }

    fn by_wire(&mut self, call: impl FnOnce(&Wire) -> Result<(), Trouble>) {
        if self.trouble.is_none() {
            self.trouble = call(self.ranks.wire).err();
        }
    }

    fn by_mpi(&mut self, code: c_int) {
        self.trouble = self.trouble.take().or(done(code).err().map(Trouble::Mpi));
    }

    fn all_agree(&mut self, own: bool) -> bool {
        let mut least = 0;
        let own = c_int::from(own && self.trouble.is_none());
        self.by_mpi((self.ranks.table.least)(self.ranks.comm, own, &mut least));
        least == 1
    }

    /// Returns the longest time of all ranks by route, identical on all.
    fn longest(&mut self, own: [u64; 2]) -> [u64; 2] {
        let tick = TICK.as_nanos() as u64;
        own.map(|nanoseconds| {
            let (ticks, mut least) = (c_int::try_from(nanoseconds / tick).unwrap_or(c_int::MAX), 0);
            self.by_mpi((self.ranks.table.least)(self.ranks.comm, -ticks, &mut least));
            u64::from(least.unsigned_abs()) * tick
        })
    }
}

struct Tried<'t, 'a> {
    trial: &'t mut ProbeTransfer<'a>,
    operation: Operation,
    length: Length,
    began: Instant,
}

impl Calls for Tried<'_, '_> {
    fn barrier(&mut self, way: Way) {
        self.trial.barrier(way);
    }

    fn call(&mut self, way: Way) {
        match self.operation {
            Operation::Barrier => self.trial.barrier(way),
            operation => self.trial.call(operation, way, self.length.bytes()),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
