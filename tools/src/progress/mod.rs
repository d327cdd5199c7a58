//! Progress output of `send`, `recv` and `cp`.
//!
//! Events update the state (`course`) and are formatted (`words`, `stat_line`). A separate thread
//! writes to stderr (`screen`) from a queue that never blocks, so that a stopped terminal (Ctrl-S)
//! or a vanished reader does not delay the session.

mod course;
mod events;
mod metrics;
mod picture;
mod screen;
mod stat_line;
mod words;

use crate::args::{ProgressArgs, WireArgs};
use crate::exit;
use crate::exit::Form;
use course::TransferCourse;
use ethbcast_collectives::session::{Progress, ReceiverEvent, RootEvent, RunOptions, Session};
use events::Events;
use metrics::{Labels, Metrics};
use parking_lot::Mutex;
use screen::{Screen, Show};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
pub use words::{NO_LINK, line};

/// Progress output of a command, for all receivers or for this one.
#[derive(Debug)]
pub struct Bar {
    course: Arc<Mutex<TransferCourse>>,
    screen: Mutex<Option<Screen>>,
    role: ProgressRole,
    quiet: bool,
    period: Option<Duration>,
    metrics: Mutex<Option<Metrics>>,
    form: Form,
    events: Mutex<Option<Events>>,
}

/// Role of this host in a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressRole {
    Root,
    Receiver,
}

impl ProgressRole {
    fn word(self) -> &'static str {
        match self {
            ProgressRole::Root => "root",
            ProgressRole::Receiver => "receiver",
        }
    }
}

impl Bar {
    /// Prepares the output that the arguments select.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 4 if there is to be a file that cannot be
    /// written.
    pub fn open(role: ProgressRole, wire: &WireArgs, args: &ProgressArgs) -> anyhow::Result<Arc<Bar>> {
        let course = Arc::default();
        let labels = Labels { group: wire.group.clone(), role, began: SystemTime::now() };
        let metrics = args.metrics_file.as_deref();
        let metrics = metrics.map(|path| Metrics::open(path, labels, Arc::clone(&course))).transpose()?;
        let metrics = Mutex::new(metrics);
        let (quiet, period, form) = (wire.quiet, args.period(), args.form(wire));
        let (screen, events) = (Mutex::new(None), Mutex::new(None));
        Ok(Arc::new(Bar { course, screen, role, quiet, period, metrics, form, events }))
    }

    /// Has the session report its events here.
    pub fn attach(self: &Arc<Bar>, run: &mut RunOptions) {
        let shown = Arc::clone(self);
        run.on_progress(move |progress| shown.update(&progress));
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Starts the output once the port is open. Signals must be blocked already. Fails if the
    /// system has no room for a thread.
    pub fn open_on(&self, session: &Session) -> std::io::Result<()> {
        self.course.lock().interface = session.interface().name.clone();
        if self.form == Form::Stream {
            let events = Events::start()?;
            events.open(self.role, session);
            *self.events.lock() = Some(events);
        }
        self.metrics.lock().as_mut().map_or(Ok(()), |metrics| metrics.start(self.period))
    }

    /// Records the final number of bytes, which may exceed the last progress report.
    pub fn settle(&self, bytes: u64) {
        self.course.lock().bytes = bytes;
    }

    pub fn conclude(&self, result: &anyhow::Result<()>) {
        self.finish();
        let metrics = self.metrics.lock().take();
        if let Some(metrics) = metrics {
            metrics.end(exit::number(result));
        }
    }

    fn update(&self, progress: &Progress<'_>) {
        let now = Instant::now();
        {
            let mut course = self.course.lock();
            course.record(progress, now);
            self.events.lock().iter().for_each(|events| events.record(progress, &course, now));
        }
        if !self.quiet {
            line(progress).into_iter().for_each(|text| self.line(text));
        }
        match progress {
            Progress::Sender(RootEvent::Joined { host, receivers }) => self.put(Show::Joined(host.clone(), *receivers)),
            Progress::Receiver(ReceiverEvent::LeftOut { .. }) => {
                self.put(Show::Waiting("the next session".to_owned()));
            }
            Progress::Receiver(ReceiverEvent::Invited { host, .. }) => {
                self.put(Show::Waiting(format!("{host} to start")));
            }
            Progress::Sender(RootEvent::Started { .. }) => self.put(Show::Start),
            Progress::Receiver(ReceiverEvent::Started { rank, receivers, via, .. }) => {
                log::info!("receiving as rank {rank} of {receivers} via {via}");
                self.put(Show::Start);
            }
            _ => {}
        }
    }

    pub fn line(&self, text: String) {
        self.put(Show::Line(text));
    }

    /// Shows the reason for waiting, at once and then at growing intervals, until the stream
    /// begins.
    pub fn wait_for(&self, what: String) {
        self.line(format!("waiting for {what}"));
        self.put(Show::Waiting(what));
    }

    pub fn joined(&self) -> usize {
        self.course.lock().receivers
    }

    pub fn has_started(&self) -> bool {
        self.course.lock().has_started()
    }

    /// Queues output. The thread starts with the first one, when signals are blocked already.
    fn put(&self, show: Show) {
        if self.quiet {
            return;
        }
        let mut screen = self.screen.lock();
        if screen.is_none() {
            *screen = Screen::start(Arc::clone(&self.course), self.period).ok();
        }
        if let Some(screen) = &*screen {
            screen.put(show);
        }
    }

    /// Waits until earlier output is shown or cannot be, clears the drawing and ends the events.
    pub fn finish(&self) {
        let events = self.events.lock().take();
        if let Some(events) = events {
            events.finish();
        }
        let screen = self.screen.lock().take();
        if let Some(screen) = screen {
            screen.finish();
        }
    }
}
