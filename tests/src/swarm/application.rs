//! Random simulation: data sources that may be slow or pipes, and disks that may be slow or fail.

use ethbcast_collectives::session::application::{Again, Next, Sink, SinkState, Source, Tally};
use ethbcast_collectives::session::{Arrival, Done, Outcome, Trailer};
use ethbcast_transport::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Bytes taken or given before each rest; 0 for no limit.
    pub bytes: usize,
    pub rests: Duration,
}

#[derive(Debug)]
pub struct Origin {
    bytes: Rc<Vec<u8>>,
    trailer: Trailer,
    pushed: usize,
    pipe: bool,
    /// Whether any part can be read at any time, not only the bytes given already.
    whole: bool,
    pace: Pace,
    rests_until: Instant,
    given: usize,
    rests: u64,
}

impl Origin {
    pub fn rests(&self) -> u64 {
        self.rests
    }

    pub fn new(bytes: Rc<Vec<u8>>, pipe: bool, pace: Pace) -> Origin {
        let mut tally = Tally::default();
        tally.add(&bytes);
        Origin {
            trailer: tally.trailer(),
            bytes,
            pushed: 0,
            pipe,
            whole: false,
            pace,
            rests_until: Instant::START,
            given: 0,
            rests: 0,
        }
    }
}

impl Origin {
    pub fn whole(self) -> Origin {
        Origin {
            whole: true,
            ..self
        }
    }

    pub fn content_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Source for Origin {
    fn next(&mut self, now: Instant, _consumed: bool) -> Next<'_> {
        if now < self.rests_until {
            return Next::Until(self.rests_until);
        }
        let rest = &self.bytes[self.pushed..];
        if rest.is_empty() {
            return Next::End(self.trailer);
        }
        if self.pace.bytes == 0 {
            return Next::Bytes(rest);
        }
        if self.given >= self.pace.bytes {
            self.given = 0;
            self.rests += 1;
            self.rests_until = now + self.pace.rests;
            return Next::Until(self.rests_until);
        }
        Next::Bytes(&rest[..rest.len().min(self.pace.bytes - self.given)])
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
        self.given += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        if self.pipe {
            return Again::Impossible("a pipe cannot be read again".to_owned());
        }
        let given = if self.whole {
            &self.bytes
        } else {
            &self.bytes[..self.pushed]
        };
        let asked = usize::try_from(offset)
            .ok()
            .and_then(|begin| given.get(begin..begin + bytes));
        asked.map_or_else(
            || Again::Impossible("there are no such bytes".to_owned()),
            Again::Bytes,
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrouble {
    /// Full after this number of bytes.
    Full(usize),
    Write(usize),
    /// Accepts no more after this number of bytes, and reports no error.
    Stops(usize),
    Settle,
    Publish,
    DiesSettling,
    DiesPublishing,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DiskTerms {
    pub pace: Pace,
    pub settles: Duration,
    pub publishes: Duration,
    /// Whether the disk checks what it has instead of reporting that the session waits for it.
    pub checks: bool,
    pub trouble: Option<DiskTrouble>,
}

/// The lasting state of a host's disk, which survives its process, and the observations made there.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Whether all data is present, equal to the sent bytes, and on stable storage.
    pub durable: Cell<bool>,
    pub visible: Cell<bool>,
    pub wrong: RefCell<Option<String>>,
    pub failed: Cell<bool>,
    pub root: Cell<usize>,
    pub rests: Cell<u64>,
    pub waits: Cell<u64>,
    /// Reads of have-sets that returned other bytes than announced.
    pub untrue: Arc<AtomicU64>,
}

impl Shelf {
    pub fn blame(&self, what: impl FnOnce() -> String) {
        self.wrong.borrow_mut().get_or_insert_with(what);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Writing,
    Settling(Trailer),
    Settled,
    Publishing,
    Over,
}

#[derive(Debug)]
pub struct Disk {
    terms: DiskTerms,
    shelf: Rc<Shelf>,
    sent: Rc<Vec<Rc<Vec<u8>>>>,
    /// Whether bytes may differ from the root's: differences are then detected, but are no
    /// violation.
    may_differ: bool,
    differs: bool,
    got: usize,
    given: usize,
    tally: Tally,
    work: Work,
    ready_at: Option<Instant>,
    rests_until: Option<Instant>,
    verdict: Option<Done>,
}

impl Disk {
    pub fn new(
        terms: DiskTerms,
        shelf: Rc<Shelf>,
        sent: Rc<Vec<Rc<Vec<u8>>>>,
        may_differ: bool,
    ) -> Disk {
        Disk {
            terms,
            shelf,
            sent,
            may_differ,
            differs: false,
            got: 0,
            given: 0,
            tally: Tally::default(),
            work: Work::Writing,
            ready_at: None,
            rests_until: None,
            verdict: None,
        }
    }

    pub fn is_dying(&self) -> bool {
        match self.work {
            Work::Settling(_) => self.has(DiskTrouble::DiesSettling),
            Work::Publishing => self.has(DiskTrouble::DiesPublishing),
            _ => false,
        }
    }

    pub fn set_root(&self, host: usize) {
        self.shelf.root.set(host);
    }

    pub fn tick(&mut self, now: Instant) {
        self.rests_until = self.rests_until.filter(|&until| now < until);
        if self.ready_at.is_some_and(|at| at <= now) {
            self.ready_at = None;
            self.shelf.waits.set(self.shelf.waits.get() + 1);
            self.finish_work();
        }
    }

    fn has(&self, trouble: DiskTrouble) -> bool {
        self.terms.trouble == Some(trouble)
    }

    fn fail(&mut self, outcome: Outcome, text: &str) {
        self.shelf.failed.set(true);
        self.work = Work::Over;
        self.verdict = Some(self.tally.verdict(outcome, text));
    }

    fn finish_work(&mut self) {
        match self.work {
            Work::Settling(_) if self.has(DiskTrouble::Settle) => {
                self.fail(Outcome::WriteFailed, "sync failed")
            }
            Work::Settling(trailer) => match self.tally.verify(trailer) {
                Err(mismatch) => {
                    self.work = Work::Over;
                    self.verdict = Some(self.tally.verdict(Outcome::Damaged, mismatch.to_string()));
                }
                Ok(()) => {
                    self.shelf.durable.set(true);
                    self.work = Work::Settled;
                    self.verdict = Some(self.tally.verdict(Outcome::Verified, ""));
                }
            },
            Work::Publishing if self.has(DiskTrouble::Publish) => {
                self.fail(Outcome::WriteFailed, "rename failed")
            }
            Work::Publishing => {
                // Until now a forged end may have been believed, because the root has not accepted
                // it.
                if self.differs || self.got != self.sent[self.shelf.root.get()].len() {
                    self.shelf
                        .blame(|| "other bytes than the root's become visible".to_owned());
                }
                self.shelf.visible.set(true);
                self.work = Work::Over;
                self.verdict = Some(self.tally.verdict(Outcome::Delivered, ""));
            }
            Work::Writing | Work::Settled | Work::Over => {}
        }
    }

    fn write(&mut self, now: Instant, bytes: &[u8]) {
        if self.work != Work::Writing {
            self.shelf.blame(|| "bytes come after the end".to_owned());
        }
        self.compare(bytes);
        self.tally.add(bytes);
        self.got += bytes.len();
        self.given += bytes.len();
        match self.terms.trouble {
            Some(DiskTrouble::Full(at)) if self.got >= at => {
                self.fail(Outcome::NoSpace, "disk full")
            }
            Some(DiskTrouble::Write(at)) if self.got >= at => {
                self.fail(Outcome::WriteFailed, "write failed")
            }
            _ => {}
        }
        let Pace { bytes, rests } = self.terms.pace;
        if bytes > 0 && self.given >= bytes {
            self.given = 0;
            self.shelf.rests.set(self.shelf.rests.get() + 1);
            self.rests_until = Some(now + rests);
        }
    }

    fn settle(&mut self, now: Instant, trailer: Trailer) {
        self.work = Work::Settling(trailer);
        if self.terms.settles.is_zero() {
            self.finish_work()
        } else {
            self.ready_at = Some(now + self.terms.settles)
        }
    }

    fn compare(&mut self, bytes: &[u8]) {
        let sent = Rc::clone(&self.sent[self.shelf.root.get()]);
        if self.differs || sent.get(self.got..self.got + bytes.len()) == Some(bytes) {
            return;
        }
        self.differs = true;
        if !self.may_differ {
            let got = self.got;
            self.shelf
                .blame(|| format!("{} bytes at {got} are not the root's", bytes.len()));
        }
    }
}

impl Sink for Disk {
    fn has_room(&self) -> bool {
        let stopped = matches!(self.terms.trouble, Some(DiskTrouble::Stops(at)) if self.got >= at);
        if stopped {
            self.shelf.failed.set(true);
        }
        self.rests_until.is_none() && !stopped
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        match arrival {
            _ if self.work == Work::Over => {}
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => self.write(now, bytes),
            Arrival::End(trailer) => self.settle(now, trailer),
        }
    }

    fn publish(&mut self, now: Instant) -> bool {
        if self.work != Work::Settled {
            let work = self.work;
            self.shelf
                .blame(|| format!("it is to be published while it is {work:?}"));
        }
        self.work = Work::Publishing;
        self.ready_at = Some(now + self.terms.publishes);
        if self.terms.publishes.is_zero() {
            self.ready_at = None;
            self.finish_work();
        }
        false
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        SinkState {
            is_syncing: self.ready_at.is_some() && !self.terms.checks,
            verdict: self.verdict.take(),
            again_at: self.ready_at.into_iter().chain(self.rests_until).min(),
        }
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let end = usize::try_from(offset)
            .ok()
            .and_then(|begin| begin.checked_add(bytes));
        let kept = end.filter(|&end| end <= self.got && !self.differs);
        let root = &self.sent[self.shelf.root.get()];
        kept.and_then(|end| root.get(end - bytes..end)).map_or_else(
            || Again::Impossible("they are not here".to_owned()),
            Again::Bytes,
        )
    }
}
