//! What uses a session in a schedule: a source that may be slow or a pipe, and a disk that may be slow, lazy or broken.

use ethbcast_collectives::session::application::{Again, Next, Sink, Source, Tally};
use ethbcast_collectives::session::{Done, Outcome, Trailer};
use ethbcast_transport::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How an application works with what it is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How many bytes at a time; 0 for as many as there are.
    pub bytes: usize,
    /// How long it rests then.
    pub rests: Duration,
}

/// Bytes of a root.
#[derive(Debug)]
pub struct Origin {
    bytes: Rc<Vec<u8>>,
    trailer: Trailer,
    pushed: usize,
    pipe: bool,
    /// Any part of it can be read at any time, and not only what has been given.
    whole: bool,
    pace: Pace,
    rests_until: Instant,
    /// What has been given since the last rest.
    given: usize,
    /// How often it has rested.
    rests: u64,
}

impl Origin {
    /// How often it has rested.
    pub fn rests(&self) -> u64 {
        self.rests
    }

    /// All of `bytes`, at this pace; what has been given can be read again unless it is a pipe.
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
    /// The same, any part of which can be read at any time.
    pub fn whole(self) -> Origin {
        Origin { whole: true, ..self }
    }

    /// Bytes of all of it.
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
        let given = if self.whole { &self.bytes } else { &self.bytes[..self.pushed] };
        let asked = usize::try_from(offset).ok().and_then(|begin| given.get(begin..begin + bytes));
        asked.map_or_else(|| Again::Impossible("there are no such bytes".to_owned()), Again::Bytes)
    }
}

/// What goes wrong at a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrouble {
    /// It is full after so many bytes.
    Full(usize),
    /// Writing fails after so many bytes.
    Write(usize),
    /// It takes no more after so many bytes, and says nothing.
    Stops(usize),
    /// Settling fails.
    Settle,
    /// Publishing fails.
    Publish,
    /// The host dies while it settles.
    DiesSettling,
    /// The host dies while it publishes.
    DiesPublishing,
}

/// A receiver's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskTerms {
    /// How it takes what comes.
    pub pace: Pace,
    /// How long it takes to settle.
    pub settles: Duration,
    /// How long it takes to publish.
    pub publishes: Duration,
    /// Whether it does not say that it waits for the disk: it checks what it has.
    pub checks: bool,
    /// What goes wrong.
    pub trouble: Option<DiskTrouble>,
}

/// What stays of a host's disk whatever becomes of its process, and what was seen there.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Everything is there, equal, and on stable storage.
    pub durable: Cell<bool>,
    /// It can be seen under its name.
    pub visible: Cell<bool>,
    /// What was broken.
    pub wrong: RefCell<Option<String>>,
    /// A trouble of the disk has come true.
    pub failed: Cell<bool>,
    /// Whose bytes come to it: the number of the root's host.
    pub root: Cell<usize>,
    /// How often it has rested.
    pub rests: Cell<u64>,
    /// How often settling or publishing has taken time.
    pub waits: Cell<u64>,
    /// Reads of what it had that gave something else than it had said.
    pub untrue: Arc<AtomicU64>,
}

impl Shelf {
    /// Something is not as it must be.
    pub fn blame(&self, what: impl FnOnce() -> String) {
        self.wrong.borrow_mut().get_or_insert_with(what);
    }
}

/// What a disk is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Writing,
    Settling(Trailer),
    Settled,
    Publishing,
    Over,
}

/// See [`DiskTerms`].
#[derive(Debug)]
pub struct Disk {
    terms: DiskTerms,
    shelf: Rc<Shelf>,
    /// What each root sends.
    sent: Rc<Vec<Rc<Vec<u8>>>>,
    /// Whether other bytes than the root's are to be expected: then they are found, and no more.
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
    /// A disk of a host whose shelf this is.
    pub fn new(terms: DiskTerms, shelf: Rc<Shelf>, sent: Rc<Vec<Rc<Vec<u8>>>>, may_differ: bool) -> Disk {
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

    /// Whether its host dies now.
    pub fn is_dying(&self) -> bool {
        match self.work {
            Work::Settling(_) => self.has(DiskTrouble::DiesSettling),
            Work::Publishing => self.has(DiskTrouble::DiesPublishing),
            _ => false,
        }
    }

    /// What comes is this root's.
    pub fn set_root(&self, host: usize) {
        self.shelf.root.set(host);
    }

    /// Looks at the clock, before anything else in a turn.
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
            Work::Settling(_) if self.has(DiskTrouble::Settle) => self.fail(Outcome::WriteFailed, "sync failed"),
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
            Work::Publishing if self.has(DiskTrouble::Publish) => self.fail(Outcome::WriteFailed, "rename failed"),
            Work::Publishing => {
                // Until now a forged end may have been believed: the root has not accepted it.
                if self.differs || self.got != self.sent[self.shelf.root.get()].len() {
                    self.shelf.blame(|| "other bytes than the root's become visible".to_owned());
                }
                self.shelf.visible.set(true);
                self.work = Work::Over;
                self.verdict = Some(self.tally.verdict(Outcome::Delivered, ""));
            }
            Work::Writing | Work::Settled | Work::Over => {}
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
            self.shelf.blame(|| format!("{} bytes at {got} are not the root's", bytes.len()));
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

    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        if self.work == Work::Over {
            return;
        }
        if self.work != Work::Writing {
            self.shelf.blame(|| "bytes come after the end".to_owned());
        }
        self.compare(bytes);
        self.tally.add(bytes);
        self.got += bytes.len();
        self.given += bytes.len();
        match self.terms.trouble {
            Some(DiskTrouble::Full(at)) if self.got >= at => self.fail(Outcome::NoSpace, "disk full"),
            Some(DiskTrouble::Write(at)) if self.got >= at => self.fail(Outcome::WriteFailed, "write failed"),
            _ => {}
        }
        let Pace { bytes, rests } = self.terms.pace;
        if bytes > 0 && self.given >= bytes {
            self.given = 0;
            self.shelf.rests.set(self.shelf.rests.get() + 1);
            self.rests_until = Some(now + rests);
        }
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        if self.work == Work::Over {
            return;
        }
        self.work = Work::Settling(trailer);
        if self.terms.settles.is_zero() { self.finish_work() } else { self.ready_at = Some(now + self.terms.settles) }
    }

    fn publish(&mut self, now: Instant) -> bool {
        if self.work != Work::Settled {
            let work = self.work;
            self.shelf.blame(|| format!("it is to be published while it is {work:?}"));
        }
        self.work = Work::Publishing;
        self.ready_at = Some(now + self.terms.publishes);
        if self.terms.publishes.is_zero() {
            self.ready_at = None;
            self.finish_work();
        }
        false
    }

    fn is_syncing(&self) -> bool {
        self.ready_at.is_some() && !self.terms.checks
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        self.verdict.take()
    }

    fn verdict_at(&self) -> Option<Instant> {
        self.ready_at.into_iter().chain(self.rests_until).min()
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let end = usize::try_from(offset).ok().and_then(|begin| begin.checked_add(bytes));
        let kept = end.filter(|&end| end <= self.got && !self.differs);
        let root = &self.sent[self.shelf.root.get()];
        kept.and_then(|end| root.get(end - bytes..end))
            .map_or_else(|| Again::Impossible("they are not here".to_owned()), Again::Bytes)
    }
}
