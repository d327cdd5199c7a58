//! The ranks of a communicator, as its account needs them: they agree by the MPI, and try the wire.

use crate::account::{Account, Ranks};
use crate::cost_table::{self, CostTable};
use crate::settings::Operation;
use crate::stderr::print_line;
use crate::table::{Table, Word, done};
use crate::wire::{Trouble, Wire};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Longest time of one call on trial: a wire that needs longer is of no use.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// Properties by which communicators share results: the rounds of a tree of their hosts, and
/// whether ranks share hosts.
type TransferKind = (u32, bool);

static KNOWN: Mutex<BTreeMap<TransferKind, CostTable>> = Mutex::new(BTreeMap::new());

fn kind(wire: &Wire) -> TransferKind {
    (wire.hosts().next_power_of_two().ilog2(), wire.is_one_each())
}

/// The ranks of a communicator. All of them make equal MPI calls, even if those by the wire fail.
pub struct LiveRanks<'a> {
    table: &'static Table,
    comm: Word,
    wire: Option<&'a Wire>,
    rank: usize,
    size: usize,
    began: Instant,
    trouble: Option<Trouble>,
}

impl<'a> LiveRanks<'a> {
    pub fn new(table: &'static Table, comm: Word, wire: Option<&'a Wire>, rank: usize, size: usize) -> LiveRanks<'a> {
        LiveRanks { table, comm, wire, rank, size, began: Instant::now(), trouble: None }
    }

    /// Begins by the wire, where a rank that makes another call, or the MPI's own, is detected:
    /// inside the MPI it would not be. Then the ranks compare operation and length.
    ///
    /// # Errors
    /// If calls differ.
    pub fn meet(&mut self, operation: Operation, bytes: u64) -> Result<(), Trouble> {
        self.by_wire(Wire::barrier);
        if let Some(trouble) = self.trouble.take_if(|trouble| trouble.is_mismatch()) {
            return Err(trouble);
        }
        let own = ((operation as c_int) << 8) | crate::cost_table::Length::of(bytes).bytes().ilog2() as c_int;
        let (least, most) = (self.least(own), -self.least(-own));
        if self.trouble.is_none() && least > 0 && least != most { Err(Trouble::Calls) } else { Ok(()) }
    }

    /// Ends a trial.
    ///
    /// # Errors
    /// On all ranks, if the wire has failed on one.
    pub fn agree(mut self) -> Result<(), Trouble> {
        let is_well = self.least(1) == 1;
        match self.trouble.take() {
            Some(trouble) => Err(trouble),
            None if is_well => Ok(()),
            None => Err(Trouble::Others),
        }
    }

    fn by_wire(&mut self, call: impl FnOnce(&Wire) -> Result<(), Trouble>) {
        let Some(wire) = self.wire.filter(|_| self.trouble.is_none()) else { return };
        self.trouble = call(wire).err().map(|trouble| wire.explained(trouble));
    }
}

impl Ranks for LiveRanks<'_> {
    fn least(&mut self, own: c_int) -> c_int {
        let (own, mut least) = (if self.trouble.is_some() { -c_int::MAX } else { own }, 0);
        let code = (self.table.least)(self.comm, own, &mut least);
        self.trouble = self.trouble.take().or(done(code).err().map(Trouble::Mpi));
        least
    }

    fn call(&mut self, operation: Operation, bytes: usize) {
        let block = (bytes / self.size).max(1);
        let (mut own, mut all) = (vec![0; block], vec![0; block * self.size]);
        let is_root = self.rank == 0;
        if let Some(wire) = self.wire {
            wire.set_limit(Some(Instant::now() + CALL_LIMIT));
        }
        self.by_wire(|wire| match operation {
            Operation::Broadcast => wire.broadcast(0, &mut all),
            Operation::Allgather => wire.allgather(&own, &mut all),
            Operation::Gather => wire.gather(0, &own, if is_root { &mut all } else { &mut [] }),
            Operation::Scatter => wire.scatter(0, if is_root { &all } else { &[] }, &mut own),
            Operation::Barrier => wire.barrier(),
        });
        if let Some(wire) = self.wire {
            wire.set_limit(None);
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Copies the first rank's results to all ranks, some of which did not take part in earlier trials.
///
/// # Errors
/// The MPI's.
pub fn share_known(table: &'static Table, comm: Word, wire: &Wire, account: &mut Account) -> Result<(), Trouble> {
    let mut bytes = KNOWN.lock().entry(kind(wire)).or_default().encode();
    done((table.broadcast)(comm, bytes.as_mut_ptr(), cost_table::BYTES as c_int, 0)).map_err(Trouble::Mpi)?;
    account.set_prices(CostTable::decode(&bytes));
    Ok(())
}

/// Keeps the results of a trial for later communicators.
pub fn learn(wire: &Wire, account: &Account) {
    KNOWN.lock().entry(kind(wire)).or_default().adopt(account.prices());
}

pub fn tell(operation: Operation, bytes: usize, prices: [u64; 2]) {
    let [wire, mpi] = prices.map(|nanoseconds| nanoseconds as f64 / 1e3);
    let name = operation.name();
    print_line(format_args!("tried: {name}, up to {bytes} bytes: {wire:.1} µs by the wire, {mpi:.1} µs by the MPI"));
}
