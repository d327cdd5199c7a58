//! The seven MPI collectives that ethbcast replaces: each call goes to ethbcast or to the MPI's own
//! function.

use crate::account::{self, LiveRanks, MEETING, Ranks};
use crate::buffers::Elements;
use crate::cost_table::{Length, Way};
use crate::dynamic::{MAX, MIN, OTHER, SUM, TRUNCATED, Table, Word, print, print_line};
use crate::group::{self, Group};
use crate::library::Process;
use crate::order::Kind;
use crate::settings::{Operation, Reason, Settings, Stats};
use crate::wire::{Trouble, Wire};
use ethbcast_collectives::communicator::{Number, Reduction};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub type Buffer = (Word, i64, Word);

struct Place {
    table: &'static Table,
    comm: Word,
    rank: usize,
    size: usize,
    takes_floats: bool,
    /// Wire of the communicator, once ethbcast has proved worth its cost.
    wire: Option<Arc<Wire>>,
}

impl Place {
    fn elements(&self, buffer: Buffer) -> Result<Elements<'static>, Reason> {
        Elements::new(self.table, self.comm, buffer)
    }

    fn is_in_place(&self, buffer: Buffer) -> bool {
        (self.table.is_in_place)(buffer.0) != 0
    }

    fn root(&self, root: c_int) -> Result<usize, Reason> {
        usize::try_from(root)
            .ok()
            .filter(|&root| root < self.size)
            .ok_or(Reason::Arguments)
    }

    fn blocks(&self) -> Result<(), Reason> {
        match &self.wire {
            Some(wire) if !wire.is_one_each() => Err(Reason::SharedHosts),
            _ => Ok(()),
        }
    }

    /// Returns the reduction of these elements, if its result has the MPI's bits or need not.
    fn reduction(&self, elements: &Elements<'_>, op: Word) -> Result<Reduction, Reason> {
        let function: fn(Number) -> Reduction = match (self.table.function)(op) {
            SUM => Reduction::Sum,
            MIN => Reduction::Min,
            MAX => Reduction::Max,
            _ => return Err(Reason::Function),
        };
        let number = elements.numbers().ok_or(Reason::Function)?;
        match (function(number), number) {
            (_, Number::F32 | Number::F64) if !self.takes_floats => Err(Reason::Floats),
            // Open MPI 4.1 saturates these sums where it adds by AVX. It compares unsigned eight bytes
            // as if they had a sign, as MPICH 4.0 does all unsigned integers.
            (Reduction::Sum(_), Number::I8 | Number::U8 | Number::I16 | Number::U16)
            | (
                Reduction::Min(_) | Reduction::Max(_),
                Number::U8 | Number::U16 | Number::U32 | Number::U64,
            ) => Err(Reason::Bits),
            (reduction, _) => Ok(reduction),
        }
    }

    /// Returns the elements at `from` that are combined with others' to be the result; none if they
    /// are in the result's place. Buffers that overlap are for the MPI to judge.
    fn combined(
        &self,
        from: Word,
        (to, count, datatype): Buffer,
    ) -> Result<Option<Elements<'static>>, Reason> {
        // Some programs give one buffer twice, which the MPIs take where they do not check.
        if from == to || self.is_in_place((from, count, datatype)) {
            return Ok(None);
        }
        let sent = self.elements((from, count, datatype))?;
        if sent.overlaps(&self.elements((to, count, datatype))?) {
            Err(Reason::Arguments)
        } else {
            Ok(Some(sent))
        }
    }

    fn wire(&self) -> &Wire {
        self.wire
            .as_ref()
            .expect("a call is made by the wire if there is one")
    }
}

struct Work<'p> {
    bytes: usize,
    run: Box<dyn FnOnce() -> Result<(), Trouble> + 'p>,
}

impl<'p> Work<'p> {
    fn new(
        bytes: usize,
        run: impl FnOnce() -> Result<(), Trouble> + 'p,
    ) -> Result<Work<'p>, Reason> {
        Ok(Work {
            bytes,
            run: Box::new(run),
        })
    }
}

pub fn broadcast(buffer: Buffer, root: c_int, comm: Word, own: impl FnOnce() -> c_int) -> c_int {
    call(Operation::Broadcast, comm, own, |place| {
        let elements = place.elements(buffer)?;
        let (bytes, root) = (elements.bytes()?, place.root(root)?);
        let reads = place.rank == root;
        Work::new(bytes, move || {
            elements.write(reads, |bytes| place.wire().broadcast(root, bytes))
        })
    })
}

pub fn barrier(comm: Word, own: impl FnOnce() -> c_int) -> c_int {
    call(Operation::Barrier, comm, own, |place| {
        Work::new(0, || place.wire().barrier())
    })
}

pub fn allgather(from: Buffer, to: Buffer, comm: Word, own: impl FnOnce() -> c_int) -> c_int {
    call(Operation::Allgather, comm, own, |place| {
        place.blocks()?;
        let block = place.elements(to)?;
        let all = block.times(place.size)?;
        let sent = if place.is_in_place(from) {
            block.behind(place.rank)
        } else {
            place.elements(from)?
        };
        let is_same = same(&sent, &block)?;
        Work::new(all.bytes()?, move || {
            is_same?;
            // Copied, because the sent block may be inside the receive buffer.
            let own = sent.read()?.into_vec();
            all.write(false, |blocks| place.wire().allgather(&own, blocks))
        })
    })
}

pub fn gather(
    from: Buffer,
    to: Buffer,
    root: c_int,
    comm: Word,
    own: impl FnOnce() -> c_int,
) -> c_int {
    call(Operation::Gather, comm, own, |place| {
        place.blocks()?;
        let root = place.root(root)?;
        if place.rank != root {
            let sent = place.elements(from)?;
            return Work::new(sent.times(place.size)?.bytes()?, move || {
                place.wire().gather(root, sent.read()?.as_slice(), &mut [])
            });
        }
        let block = place.elements(to)?;
        let all = block.times(place.size)?;
        let sent = if place.is_in_place(from) {
            block.behind(root)
        } else {
            place.elements(from)?
        };
        let is_same = same(&sent, &block)?;
        Work::new(all.bytes()?, move || {
            is_same?;
            let own = sent.read()?.into_vec();
            all.write(false, |blocks| place.wire().gather(root, &own, blocks))
        })
    })
}

pub fn scatter(
    from: Buffer,
    to: Buffer,
    root: c_int,
    comm: Word,
    own: impl FnOnce() -> c_int,
) -> c_int {
    call(Operation::Scatter, comm, own, |place| {
        place.blocks()?;
        let root = place.root(root)?;
        if place.rank != root {
            let received = place.elements(to)?;
            return Work::new(received.times(place.size)?.bytes()?, move || {
                received.write(false, |own| place.wire().scatter(root, &[], own))
            });
        }
        let block = place.elements(from)?;
        let all = block.times(place.size)?;
        let received = if place.is_in_place(to) {
            None
        } else {
            Some(place.elements(to)?)
        };
        let is_same = received.map_or(Ok(Ok(())), |received| same(&received, &block))?;
        let block_bytes = block.bytes()?;
        Work::new(all.bytes()?, move || {
            is_same?;
            let blocks = all.read()?;
            match received {
                Some(received) => received.write(false, |own| {
                    place.wire().scatter(root, blocks.as_slice(), own)
                }),
                // The root's own block stays in place.
                None => place
                    .wire()
                    .scatter(root, blocks.as_slice(), &mut vec![0; block_bytes]),
            }
        })
    })
}

pub fn allreduce(
    from: Word,
    to: Buffer,
    op: Word,
    comm: Word,
    own: impl FnOnce() -> c_int,
) -> c_int {
    call(Operation::Allreduce, comm, own, |place| {
        place.blocks()?;
        let result = place.elements(to)?;
        let (reduction, sent) = (place.reduction(&result, op)?, place.combined(from, to)?);
        Work::new(result.bytes()?, move || {
            combine(result, sent, |elements| {
                place.wire().allreduce(reduction, elements)
            })
        })
    })
}

pub fn reduce(
    from: Word,
    to: Buffer,
    op: Word,
    root: c_int,
    comm: Word,
    own: impl FnOnce() -> c_int,
) -> c_int {
    call(Operation::Reduce, comm, own, |place| {
        place.blocks()?;
        let root = place.root(root)?;
        if place.rank != root {
            let (_, count, datatype) = to;
            let sent = place.elements((from, count, datatype))?;
            let reduction = place.reduction(&sent, op)?;
            return Work::new(sent.bytes()?, move || {
                let mut own = sent.read()?.into_vec();
                place.wire().reduce(root, reduction, &mut own)
            });
        }
        let result = place.elements(to)?;
        let (reduction, sent) = (place.reduction(&result, op)?, place.combined(from, to)?);
        Work::new(result.bytes()?, move || {
            combine(result, sent, |elements| {
                place.wire().reduce(root, reduction, elements)
            })
        })
    })
}

/// Combines a rank's own elements with others', in the result's place.
fn combine(
    result: Elements<'_>,
    sent: Option<Elements<'_>>,
    by_wire: impl FnOnce(&mut [u8]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    result.write(true, |elements| {
        if let Some(sent) = sent {
            elements.copy_from_slice(sent.read()?.as_slice());
        }
        by_wire(elements)
    })
}

/// Compares a rank's own block in its two types. If they differ, the rank fails and leaves the
/// others: in the MPI's own call it would wait for ever.
fn same(one: &Elements, other: &Elements) -> Result<Result<(), Trouble>, Reason> {
    Ok(if one.bytes()? == other.bytes()? {
        Ok(())
    } else {
        Err(Trouble::Lengths)
    })
}

/// Makes a call by ethbcast if all ranks decide so, else the MPI's own.
fn call(
    operation: Operation,
    comm: Word,
    own: impl FnOnce() -> c_int,
    prepare: impl for<'p> FnOnce(&'p Place) -> Result<Work<'p>, Reason>,
) -> c_int {
    let process = Process::get();
    let passed = |reason| {
        if process.counts() {
            process.statistics.passed(operation, reason);
        }
        own()
    };
    let settings = process.settings.as_ref().ok_or(Reason::Off);
    let found = settings.and_then(|settings| Ok((process.started(group::closed)?, settings)));
    let (table, settings) = match found {
        Ok(found) => found,
        Err(reason) => return passed(reason),
    };
    let (group, wire) =
        match Group::of(table, settings, comm).and_then(|group| Ok((group, group.way()?))) {
            Ok(found) => found,
            // The others may still make it by ethbcast: inside the MPI it would never end.
            Err(Reason::Differed) => return (table.fail)(comm, TRUNCATED),
            Err(reason) => return passed(reason),
        };
    let place = Place {
        table,
        comm,
        rank: group.rank,
        size: group.size,
        takes_floats: settings.agreed.takes_floats,
        wire,
    };
    let asked = prepare(&place).and_then(|work| requested(operation, settings, work));
    let made = Made {
        operation,
        process,
        settings,
        place: &place,
        group,
    };
    let Some(wire) = &place.wire else {
        return made.unwired(asked.map(|work| work.bytes), passed);
    };
    let Work { bytes, run } = match asked {
        Ok(work) => work,
        Err(reason) => return made.by_mpi(wire, || passed(reason)).0,
    };
    match made.way(bytes) {
        Ok(Way::Wire) => made.by_wire(wire, bytes, run),
        Ok(Way::Mpi) => {
            let is_open = group.account.lock().is_open(operation, bytes as u64);
            let reason = if is_open {
                Reason::Early
            } else {
                Reason::Faster
            };
            let (code, took) = made.by_mpi(wire, || passed(reason));
            made.note(bytes, Way::Mpi, took);
            code
        }
        Err(trouble) if trouble.is_mismatch() => made.outcome(Ok(Err(trouble))),
        Err(trouble) => {
            if settings.is_verbose {
                print_line(format_args!(
                    "{} stays with MPI: the trial: {trouble}",
                    group.own_rank()
                ));
            }
            group.give_up(Reason::Failed);
            passed(Reason::Failed)
        }
    }
}

/// Decides by operation, number of bytes and agreed settings whether a call may use ethbcast; all
/// ranks decide alike.
fn requested<'p>(
    operation: Operation,
    settings: &Settings,
    work: Work<'p>,
) -> Result<Work<'p>, Reason> {
    let (agreed, bytes) = (&settings.agreed, work.bytes as u64);
    match operation {
        _ if !agreed.taken.contains(&operation) => Err(Reason::NotAsked),
        Operation::Barrier => Ok(work),
        _ if bytes == 0 => Err(Reason::Empty),
        _ if !(agreed.least_bytes..=agreed.most_bytes).contains(&bytes) => Err(Reason::Size),
        _ => Ok(work),
    }
}

struct Made<'a> {
    operation: Operation,
    process: &'a Process,
    settings: &'a Settings,
    place: &'a Place,
    group: &'a Group,
}

impl Made<'_> {
    fn ranks<'w>(&self, wire: Option<&'w Wire>) -> LiveRanks<'w> {
        let Place {
            table,
            comm,
            rank,
            size,
            ..
        } = *self.place;
        LiveRanks::new(table, comm, wire, rank, size)
    }

    /// Makes a call of a communicator that is not wired, and may take a step towards wiring it.
    fn unwired(&self, asked: Result<usize, Reason>, passed: impl FnOnce(Reason) -> c_int) -> c_int {
        let bytes = match asked {
            Ok(bytes) => bytes as u64,
            Err(reason) => return passed(reason),
        };
        self.group
            .approach(self.place.table, self.settings, self.place.comm, bytes);
        let began = Instant::now();
        let code = passed(Reason::Early);
        self.group
            .account
            .lock()
            .took(self.operation, bytes, Way::Mpi, began.elapsed());
        code
    }

    fn by_mpi(&self, wire: &Wire, passed: impl FnOnce() -> c_int) -> (c_int, Duration) {
        let began = Instant::now();
        wire.begin(Kind::Mpi, began);
        let code = passed();
        wire.end();
        (code, began.elapsed())
    }

    fn by_wire(
        &self,
        wire: &Wire,
        bytes: usize,
        run: impl FnOnce() -> Result<(), Trouble>,
    ) -> c_int {
        let began = Instant::now();
        wire.begin(Kind::Wire, began);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            run().map_err(|trouble| wire.explained(trouble))
        }));
        wire.end();
        let (took, is_well) = (began.elapsed(), matches!(ended, Ok(Ok(()))));
        let code = self.outcome(ended);
        if self.process.counts() {
            self.process.statistics.took(self.operation, bytes, took);
        }
        if is_well {
            self.note(bytes, Way::Wire, took);
        }
        code
    }

    /// Chooses the route by the account of the communicator; all ranks decide alike.
    fn way(&self, bytes: usize) -> Result<Way, Trouble> {
        if !self.settings.agreed.tries {
            return Ok(Way::Wire);
        }
        let (mut account, bytes) = (self.group.account.lock(), bytes as u64);
        if account.is_vote_due(self.operation, bytes) {
            let wire = self.place.wire();
            let mut ranks = self.ranks(Some(wire));
            wire.begin(Kind::Trial, Instant::now());
            let met = ranks.meet(self.operation, bytes);
            let began = ranks.now().saturating_sub(MEETING);
            let now = Instant::now();
            let ended = met.and_then(|()| {
                account.vote(self.operation, bytes, began, &mut ranks);
                ranks.agree()
            });
            wire.end();
            account.pay(now.elapsed() + MEETING);
            ended?;
        }
        Ok(account.way(self.operation, bytes))
    }

    fn note(&self, bytes: usize, way: Way, took: Duration) {
        let (mut account, length) = (self.group.account.lock(), bytes as u64);
        if !self.settings.agreed.tries || !account.took(self.operation, length, way, took) {
            return;
        }
        let wire = self.place.wire();
        wire.begin(Kind::Trial, Instant::now());
        let prices = account.compare(self.operation, length, &mut self.ranks(Some(wire)));
        wire.end();
        let Some(prices) = prices else { return };
        account::learn(wire, &account);
        if self.settings.is_verbose && self.place.rank == 0 {
            account::print_trial(self.operation, Length::of(length).bytes(), prices);
        }
    }

    /// Returns the code of a call that used ethbcast. After a failure all later calls of the
    /// communicator are the MPI's own, or, if the ranks' calls differed, fail as well.
    fn outcome(&self, ended: std::thread::Result<Result<(), Trouble>>) -> c_int {
        let failed = |failure, text: &dyn std::fmt::Display| {
            print_line(format_args!(
                "{}, {}: {text}",
                self.group.own_rank(),
                self.operation.name()
            ));
            self.group.give_up(if failure == TRUNCATED {
                Reason::Differed
            } else {
                Reason::Failed
            });
            (self.place.table.fail)(self.place.comm, failure)
        };
        match ended {
            Ok(Ok(())) => 0,
            // The MPI's error handler has been called. The others, who wait for this rank, see it
            // as one that has left.
            Ok(Err(Trouble::Mpi(code))) => {
                self.group.give_up(Reason::Failed);
                code
            }
            Ok(Err(trouble)) => failed(
                if trouble.is_mismatch() {
                    TRUNCATED
                } else {
                    OTHER
                },
                &trouble,
            ),
            Err(_) => failed(
                OTHER,
                &"a fault of ethbcast, printed above: please report it",
            ),
        }
    }
}

/// Leaves all groups and prints statistics, once, before the MPI finalizes.
pub fn finish() {
    static SAID: OnceLock<()> = OnceLock::new();
    let process = Process::get();
    let Some(settings) = process.settings.as_ref().filter(|_| SAID.set(()).is_ok()) else {
        return;
    };
    group::close_all();
    let rank = group::world_rank();
    if settings.stats == Stats::All || settings.stats == Stats::First && rank.unwrap_or(0) == 0 {
        let beginning = rank.map_or("ethbcast-mpi: ".into(), |rank| {
            format!("ethbcast-mpi: rank {rank}: ")
        });
        print(&process.statistics.lines(&beginning));
    }
}
