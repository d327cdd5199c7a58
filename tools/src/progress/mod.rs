//! Progress output of `send`, `recv` and `cp`.
//!
//! Events update one state (`course`), of which all output is a view. A separate thread writes to
//! stderr (`screen`) from a queue that never blocks, so that a stopped terminal (Ctrl-S)
//! or a vanished reader does not delay the session.

mod course;
mod events;
mod metrics;
mod picture;
mod screen;

use crate::args::{ProgressArgs, WireArgs};
use crate::doctor::Fault;
use crate::exit::{Code, Failure, Form};
use crate::{doctor, exit, units};
use course::TransferCourse;
pub use course::percent;
use ethbcast_collectives::membership::OtherBuild;
use ethbcast_collectives::session::{
    Outcome, Progress, ReceiverEvent, RootEvent, RunOptions, Session,
};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::MacAddr;
use events::Events;
use metrics::{Labels, Metrics};
use parking_lot::Mutex;
use screen::{Screen, Show};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

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
    /// Host that was heard last of those with another key, or none.
    misfit: Mutex<Option<OtherBuild>>,
}

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
    pub fn open(
        role: ProgressRole,
        wire: &WireArgs,
        args: &ProgressArgs,
    ) -> anyhow::Result<Arc<Bar>> {
        let course = Arc::default();
        let labels = Labels {
            group: wire.group.clone(),
            role,
            began: SystemTime::now(),
        };
        let metrics = args.metrics_file.as_deref();
        let metrics = metrics
            .map(|path| Metrics::open(path, labels, Arc::clone(&course)))
            .transpose()?;
        let metrics = Mutex::new(metrics);
        let (quiet, period, form) = (wire.quiet, args.period(), args.form(wire));
        let (screen, events, misfit) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
        Ok(Arc::new(Bar {
            course,
            screen,
            role,
            quiet,
            period,
            metrics,
            form,
            events,
            misfit,
        }))
    }

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
        self.metrics
            .lock()
            .as_mut()
            .map_or(Ok(()), |metrics| metrics.start(self.period))
    }

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
            self.events
                .lock()
                .iter()
                .for_each(|events| events.record(progress, &course, now));
        }
        if !self.quiet {
            line(progress).into_iter().for_each(|text| self.line(text));
        }
        match progress {
            Progress::Sender(RootEvent::OtherVersion(other))
            | Progress::Receiver(ReceiverEvent::OtherVersion(other))
                if other.keys.is_some() =>
            {
                *self.misfit.lock() = Some(other.clone());
            }
            Progress::Sender(RootEvent::Joined {
                host, receivers, ..
            }) => self.put(Show::Joined(host.clone(), *receivers)),
            Progress::Receiver(ReceiverEvent::LeftOut { .. }) => {
                self.put(Show::Waiting("the next session".to_owned()));
            }
            Progress::Receiver(ReceiverEvent::Invited { host, .. }) => {
                self.put(Show::Waiting(format!("{host} to start")));
            }
            Progress::Sender(RootEvent::Started { .. }) => self.put(Show::Start),
            Progress::Receiver(ReceiverEvent::Started {
                rank,
                receivers,
                via,
                ..
            }) => {
                log::info!("receiving as rank {rank} of {receivers} via {via}");
                self.put(Show::Start);
            }
            _ => {}
        }
    }

    /// Adds to the failure of a run to which nobody came who was there with another key, or none.
    pub fn with_misfit(&self, failure: Failure) -> Failure {
        let may_be =
            failure.code() == Code::Nobody && matches!(failure.fault(), None | Some(Fault::Nobody));
        let misfit = self.misfit.lock().take_if(|_| may_be);
        let found = misfit.and_then(|other| Some((doctor::of_keys(other.keys?), other)));
        found.map_or(failure.clone(), |(fault, other)| {
            Failure::new(failure.code(), format!("{failure}; {other}")).found(fault)
        })
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

pub const NO_LINK: &str = "the network interface has no link: no cable, or its other end is off; nothing that is sent \
                           arrives anywhere until it has";

/// Returns the message for an event, or none for mere progress.
pub fn line(progress: &Progress<'_>) -> Option<String> {
    Some(match progress {
        Progress::Sender(event) => line_of_sender(event)?,
        Progress::Receiver(event) => line_of_receiver(event)?,
        Progress::Interface { away: true } => {
            "the network interface has gone down: waiting for it".to_owned()
        }
        Progress::Interface { away: false } => "the network interface is back".to_owned(),
        Progress::Link { lost: true } => format!("{NO_LINK} [{}]", Fault::Carrier.code()),
        Progress::Link { lost: false } => "the network interface has a link again".to_owned(),
        _ => return None,
    })
}

fn other_build(other: &OtherBuild) -> String {
    let fault = other
        .keys
        .map(|keys| format!(" [{}]", doctor::of_keys(keys).code()));
    format!("{other}{}", fault.unwrap_or_default())
}

fn line_of_sender(event: &RootEvent) -> Option<String> {
    Some(match event {
        RootEvent::Waiting {
            joined,
            missing,
            wanted,
        } => waiting(joined, missing, *wanted),
        RootEvent::Refused { host, mac, text } => format!("{host} ({mac}) turned away: {text}"),
        RootEvent::Left { host, text, .. } => format!("{host} left before the start: {text}"),
        RootEvent::OtherVersion(other) => other_build(other),
        RootEvent::OwnAddress(mac) => own_address(*mac),
        RootEvent::CompetingSender { host, mac } => {
            format!(
                "{host} ({mac}) wants to send to this group, too: it was refused, as the group is taken"
            )
        }
        RootEvent::Started {
            receivers,
            via,
            size,
            selective,
        } => {
            let what = size.map_or("a stream".to_owned(), units::bytes);
            let what = if *selective {
                format!("what somebody lacks of {what}")
            } else {
                what
            };
            format!(
                "sending {what} to {} via {via}",
                units::receivers(*receivers)
            )
        }
        RootEvent::HeldUp { host, text } => format!("waiting: {host} {text}"),
        RootEvent::Demoted { host, text } => {
            format!("{host} {text}: it is served beside the others from now on")
        }
        RootEvent::Apart { one, other } => format!(
            "nothing gets through between {one} and {other}, though both are heard here (does a switch isolate their \
             ports, or part them by a private VLAN?): the sender serves them itself from now on"
        ),
        RootEvent::Rerouted { via, text } => format!("{text}: it goes on via {via}"),
        RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
            let (word, text) = report.outcome.status_and_reason(&report.text);
            format!("{} failed: {word}: {text}", report.host)
        }
        _ => return None,
    })
}

fn line_of_receiver(event: &ReceiverEvent) -> Option<String> {
    Some(match event {
        ReceiverEvent::OtherVersion(other) => other_build(other),
        ReceiverEvent::OwnAddress(mac) => own_address(*mac),
        ReceiverEvent::LeftOut { host, text } => {
            format!("{host}: {text}; waiting for the next session")
        }
        ReceiverEvent::Invited {
            host, source, size, ..
        } => {
            let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
            format!("{host} offers {source}, {size}")
        }
        ReceiverEvent::RootSilent { silence, left } => {
            let (silence, left) = (silence.as_secs(), left.as_secs());
            format!(
                "nothing new has been heard of the sender for {silence} s; it is waited for, {left} s at most"
            )
        }
        _ => return None,
    })
}

fn own_address(mac: MacAddr) -> String {
    format!(
        "frames from this host's own address {mac} come from the network: another host has the same address (give each \
         its own: ip link set IFACE address 02:…), or a switch sends frames back [{}]",
        Fault::Twin.code()
    )
}

fn waiting(joined: &[String], missing: &[String], wanted: Option<usize>) -> String {
    let are = if wanted.unwrap_or(joined.len()) == 1 {
        "receiver is"
    } else {
        "receivers are"
    };
    let wanted = wanted.map_or(String::new(), |wanted| format!(" of {wanted}"));
    let mut text = format!("waiting: {}{wanted} {are} there", joined.len());
    if !joined.is_empty() {
        text += &format!(", {}", nodeset::fold(joined));
    }
    if !missing.is_empty() {
        text += &format!("; missing: {}", nodeset::fold(missing));
    }
    text
}
