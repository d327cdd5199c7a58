//! Threads that create small files in parallel.

use crate::disk::{Directory, DiskFile, Kind, PRIVATE_FILE, Setter};
use crate::journal::Runs;
use crate::layout::Layout;
use crate::manifest::Node;
use ethbcast_collectives::lock::{Condvar, Mutex};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

pub(super) const SMALL_BYTES: u64 = 256 << 10;
const JOB_FILES: usize = 32;
const JOB_BYTES: usize = 128 << 10;
/// Waiting jobs: 6 MiB at most, with the last file of each.
const JOBS_WAITING: usize = 16;
const MAX_THREADS: usize = 4;

#[derive(Debug)]
pub(super) struct Makers<D: Directory> {
    orders: Arc<Orders<D>>,
    threads: Vec<JoinHandle<()>>,
    next: Job<D>,
}

/// Queue of jobs and their results, shared with the threads.
#[derive(Debug)]
pub(super) struct Orders<D: Directory> {
    layout: Arc<Layout>,
    setter: Arc<Setter>,
    written: Arc<Mutex<Runs>>,
    queue: Mutex<Queue<D>>,
    ordered: Condvar,
    made: Condvar,
}

#[derive(Debug)]
struct Queue<D: Directory> {
    waiting: VecDeque<Job<D>>,
    unmade: Vec<RangeInclusive<usize>>,
    has_failed: bool,
    failed: Option<Failed>,
    is_over: bool,
}

impl<D: Directory> Queue<D> {
    fn fail(&mut self, failed: Failed) {
        if !std::mem::replace(&mut self.has_failed, true) {
            self.failed = Some(failed);
        }
    }
}

#[derive(Debug)]
pub(super) struct Failed {
    pub entry: usize,
    pub doing: &'static str,
    pub error: io::Error,
}

#[derive(Debug)]
struct Job<D: Directory> {
    files: Vec<Small<D>>,
    bytes: Vec<u8>,
    run: Range<u64>,
}

#[derive(Debug)]
struct Small<D: Directory> {
    entry: usize,
    directory: Arc<D>,
    data: Range<usize>,
}

impl<D: Directory> Job<D> {
    fn empty() -> Job<D> {
        Job {
            files: Vec::new(),
            bytes: Vec::new(),
            run: 0..0,
        }
    }

    fn entries(&self) -> Option<RangeInclusive<usize>> {
        Some(self.files.first()?.entry..=self.files.last()?.entry)
    }
}

impl<D: Directory> Makers<D> {
    /// Starts threads for the files of `layout`, which add finished ranges to `written`; none if no
    /// thread can be started.
    pub(super) fn start(
        layout: &Arc<Layout>,
        setter: &Arc<Setter>,
        written: &Arc<Mutex<Runs>>,
    ) -> Option<Makers<D>> {
        let queue = Queue {
            waiting: VecDeque::new(),
            unmade: Vec::new(),
            has_failed: false,
            failed: None,
            is_over: false,
        };
        let orders = Arc::new(Orders {
            layout: Arc::clone(layout),
            setter: Arc::clone(setter),
            written: Arc::clone(written),
            queue: Mutex::new(queue),
            ordered: Condvar::new(),
            made: Condvar::new(),
        });
        let thread = |_| {
            let orders = Arc::clone(&orders);
            std::thread::Builder::new()
                .name("files".to_owned())
                .spawn(move || while orders.make_next() {})
                .ok()
        };
        let most = std::thread::available_parallelism()
            .map_or(MAX_THREADS, |cores| cores.get().min(MAX_THREADS));
        let threads: Vec<JoinHandle<()>> = (0..most.max(2)).filter_map(thread).collect();
        (!threads.is_empty()).then_some(Makers {
            orders,
            threads,
            next: Job::empty(),
        })
    }

    pub(super) fn orders(&self) -> &Arc<Orders<D>> {
        &self.orders
    }

    /// Queues a file with this data in `directory`. `run` is its range in the stream, with the
    /// verdict.
    pub(super) fn make(&mut self, entry: usize, directory: Arc<D>, data: &[u8], run: Range<u64>) {
        // A job is one contiguous range of the stream.
        if self.next.run.end != run.start {
            self.flush();
        }
        let Job {
            files,
            bytes,
            run: whole,
        } = &mut self.next;
        if files.is_empty() {
            whole.start = run.start;
        }
        whole.end = run.end;
        let begin = bytes.len();
        bytes.extend_from_slice(data);
        files.push(Small {
            entry,
            directory,
            data: begin..bytes.len(),
        });
        if files.len() >= JOB_FILES || bytes.len() >= JOB_BYTES {
            self.flush();
        }
    }

    /// Queues the files that are held back, and waits for room.
    pub(super) fn flush(&mut self) {
        let job = std::mem::replace(&mut self.next, Job::empty());
        let Some(entries) = job.entries() else { return };
        let mut queue = self.orders.queue.lock();
        while queue.waiting.len() >= JOBS_WAITING && !queue.has_failed {
            self.orders.made.wait(&mut queue);
        }
        if queue.has_failed {
            return;
        }
        queue.unmade.push(entries);
        queue.waiting.push_back(job);
        self.orders.ordered.notify_one();
    }

    pub(super) fn drain(&mut self) {
        self.flush();
        let mut queue = self.orders.queue.lock();
        while !queue.unmade.is_empty() && !queue.has_failed {
            self.orders.made.wait(&mut queue);
        }
    }

    pub(super) fn take_failed(&self) -> Option<Failed> {
        self.orders.queue.lock().failed.take()
    }
}

impl<D: Directory> Drop for Makers<D> {
    /// Finishes the queue, so that the next run finds the files.
    fn drop(&mut self) {
        self.orders.queue.lock().is_over = true;
        self.orders.ordered.notify_all();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl<D: Directory> Orders<D> {
    pub(super) fn wait_for(&self, entry: usize) {
        let mut queue = self.queue.lock();
        while queue.unmade.iter().any(|entries| entries.contains(&entry)) && !queue.has_failed {
            self.made.wait(&mut queue);
        }
    }

    fn make_next(&self) -> bool {
        let (job, has_failed) = {
            let mut queue = self.queue.lock();
            loop {
                match queue.waiting.pop_front() {
                    Some(job) => break (job, queue.has_failed),
                    None if queue.is_over => return false,
                    None => self.ordered.wait(&mut queue),
                }
            }
        };
        // Waiters are released even if the thread panics.
        let _done = Done {
            orders: self,
            entries: job.entries(),
        };
        let made = if has_failed {
            Ok(())
        } else {
            job.files
                .iter()
                .try_for_each(|file| self.make(file, &job.bytes))
        };
        match made {
            Ok(()) if !has_failed => self.written.lock().insert(job.run.clone()),
            Ok(()) => {}
            Err(failed) => self.queue.lock().fail(failed),
        }
        true
    }

    fn make(&self, file: &Small<D>, bytes: &[u8]) -> Result<(), Failed> {
        let manifest = self.layout.manifest();
        let own = &manifest.entries()[file.entry];
        let failed = |doing| {
            move |error| Failed {
                entry: file.entry,
                doing,
                error,
            }
        };
        let made = file
            .directory
            .create(&own.own_path(), PRIVATE_FILE)
            .map_err(failed("make"))?;
        made.write_all_at(&bytes[file.data.clone()], 0)
            .map_err(failed("write"))?;
        made.set_attributes(self.setter.gives(&own.attributes, manifest))
            .map_err(failed("set the attributes of"))
    }
}

struct Done<'a, D: Directory> {
    orders: &'a Orders<D>,
    entries: Option<RangeInclusive<usize>>,
}

impl<D: Directory> Drop for Done<'_, D> {
    fn drop(&mut self) {
        let mut queue = self.orders.queue.lock();
        if std::thread::panicking() {
            let error = io::Error::other("the thread that made it panicked");
            let entry = self.entries.as_ref().map_or(0, |entries| *entries.start());
            queue.fail(Failed {
                entry,
                doing: "make",
                error,
            });
        }
        queue
            .unmade
            .retain(|entries| Some(entries) != self.entries.as_ref());
        self.orders.made.notify_all();
    }
}

const TOGETHER_FILES: usize = 1024;
const TOGETHER_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Putting<D: Directory> {
    /// The directory that receives the files; they are built in `root`.
    pub(super) dest: D,
    root: Arc<D>,
    layout: Arc<Layout>,
    waiting: Vec<usize>,
    waiting_bytes: u64,
    done: HashSet<usize>,
    has_changed: bool,
}

impl<D: Directory> Putting<D> {
    pub(super) fn new(dest: D, root: Arc<D>, layout: Arc<Layout>) -> Putting<D> {
        let (waiting, done) = (Vec::new(), HashSet::new());
        Putting {
            dest,
            root,
            layout,
            waiting,
            waiting_bytes: 0,
            done,
            has_changed: false,
        }
    }

    pub(super) fn there(&self, entry: usize) -> Option<D::File> {
        let manifest = self.layout.manifest();
        let own = &manifest.entries()[entry];
        let Node::File(data) = &own.node else {
            return None;
        };
        // Holes are not sent, so that the bytes in them could not be compared.
        if data.extents().is_some() {
            return None;
        }
        let directory = self
            .dest
            .directory(&manifest.path(own.parent? as usize))
            .ok()?;
        if directory.kind(&own.own_path()).ok()? != Some(Kind::File) {
            return None;
        }
        let file = directory.file(&own.own_path()).ok()?;
        let is_alike = file.bytes().ok()? == data.bytes() && file.links().ok()? == 1;
        is_alike.then_some(file)
    }

    pub(super) fn is_there(&mut self, entry: usize) {
        self.done.insert(entry);
    }

    pub(super) fn put(&mut self, entry: usize, bytes: u64) -> io::Result<()> {
        self.waiting.push(entry);
        self.waiting_bytes += bytes;
        if self.waiting.len() >= TOGETHER_FILES || self.waiting_bytes >= TOGETHER_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.root.sync_file_system()?;
        let layout = Arc::clone(&self.layout);
        let manifest = layout.manifest();
        self.waiting_bytes = 0;
        for entry in std::mem::take(&mut self.waiting) {
            let own = &manifest.entries()[entry];
            let (parent, name) = (
                manifest.path(own.parent.unwrap_or(0) as usize),
                own.own_path(),
            );
            // Entries that are in the way, or whose directory is missing, wait for the end.
            if self.can_take(&parent, &name) {
                let (from, to) = (self.root.directory(&parent)?, self.dest.directory(&parent)?);
                from.rename(&name, &to, &name)?;
                self.done.insert(entry);
                self.has_changed = true;
            }
        }
        Ok(())
    }

    fn can_take(&self, parent: &Path, name: &Path) -> bool {
        self.dest
            .directory(parent)
            .and_then(|to| to.has_directory(name))
            .is_ok_and(|in_the_way| !in_the_way)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn done(&self) -> &HashSet<usize> {
        &self.done
    }

    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }
}
