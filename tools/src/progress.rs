//! What `send` and `recv` show on stderr while they work.
//!
//! A terminal may be stopped (Ctrl-S), and who reads stderr may go away: neither concerns the session. A thread of its
//! own writes, behind a queue that is never waited for.

use crate::exit::say;
use crate::units;
use ethbcast_collectives::session::{Options, Outcome, Progress, ReceiverEvent, RootEvent};
use ethbcast_planning::topology::nodeset;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WITH_SIZE: &str = "{bytes:>10} / {total_bytes} [{wide_bar}] {binary_bytes_per_sec} {eta} {msg}";
const WITHOUT_SIZE: &str = "{bytes:>10} {spinner} {binary_bytes_per_sec} {msg}";
/// What may wait to be shown: the lines of a thousand receivers that join at once. What comes then is not shown.
const WAITING: usize = 1024;
/// After so long a wait is spoken of again, and then each time after twice as long, or after ten minutes more.
const FIRST_WORD: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How long the last lines may take to appear.
const LAST_LINES: Duration = Duration::from_millis(500);

/// A bar for what has been taken, by all receivers or by this one, and lines for what happens.
#[derive(Debug, Default)]
pub struct Bar {
    screen: Mutex<Option<Screen>>,
    quiet: bool,
    /// How many receivers have joined.
    joined: AtomicUsize,
}

/// The thread that writes.
#[derive(Debug)]
struct Screen {
    shows: SyncSender<Show>,
    thread: JoinHandle<()>,
}

/// What is to be shown next.
#[derive(Debug)]
enum Show {
    /// A line above the bar.
    Line(String),
    /// The stream begins, with so many bytes if that is known.
    Start(Option<u64>),
    /// So many bytes, and who is slowest.
    Moved(u64, Option<String>),
    /// What is waited for, until something else is or the stream begins.
    Waiting(String),
}

impl Bar {
    /// Shows what happens to sessions with these options; nothing at all if `quiet`.
    pub fn show(options: Options, quiet: bool) -> (Options, Arc<Bar>) {
        let bar = Arc::new(Bar { quiet, ..Bar::default() });
        let shown = Arc::clone(&bar);
        (options.on_progress(move |progress| shown.update(&progress)), bar)
    }

    fn update(&self, progress: &Progress<'_>) {
        if !self.quiet {
            line(progress).into_iter().for_each(|text| self.line(text));
        }
        match progress {
            Progress::Sender(RootEvent::Joined { receivers, .. }) => {
                self.joined.store(*receivers, Ordering::Relaxed);
            }
            Progress::Sender(RootEvent::Left { .. }) => drop(self.joined.fetch_sub(1, Ordering::Relaxed)),
            Progress::Receiver(ReceiverEvent::LeftOut { .. }) => {
                self.put(Show::Waiting("the next session".to_owned()));
            }
            Progress::Receiver(ReceiverEvent::Invited { host, .. }) => {
                self.put(Show::Waiting(format!("{host} to start")));
            }
            Progress::Sender(RootEvent::Started { size, selective, .. }) => {
                self.put(Show::Start(size.filter(|_| !selective)));
            }
            Progress::Receiver(ReceiverEvent::Started { rank, receivers, via, size, selective }) => {
                log::info!("receiving as rank {rank} of {receivers} via {via}");
                self.put(Show::Start(size.filter(|_| !selective)));
            }
            Progress::Moved { bytes, slowest } => {
                let slowest = slowest.map(|(host, state)| format!("slowest {host} ({state:?})").to_lowercase());
                self.put(Show::Moved(*bytes, slowest));
            }
            _ => {}
        }
    }

    /// Shows a line, unless nothing is to be shown.
    pub fn line(&self, text: String) {
        self.put(Show::Line(text));
    }

    /// Says what is waited for, at once and now and then, until the stream begins.
    pub fn wait_for(&self, what: String) {
        self.line(format!("waiting for {what}"));
        self.put(Show::Waiting(what));
    }

    /// How many receivers have joined.
    pub fn joined(&self) -> usize {
        self.joined.load(Ordering::Relaxed)
    }

    /// Puts something into the queue. The thread is started with the first, when signals are blocked already.
    fn put(&self, show: Show) {
        if self.quiet {
            return;
        }
        let mut screen = self.screen.lock();
        if screen.is_none() {
            *screen = Screen::start().ok();
        }
        if let Some(screen) = &*screen {
            drop(screen.shows.try_send(show));
        }
    }

    /// Takes the bar away, when what came before has been shown or cannot be.
    pub fn finish(&self) {
        let Some(Screen { shows, thread }) = self.screen.lock().take() else { return };
        drop(shows);
        let end = Instant::now() + LAST_LINES;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Screen {
    fn start() -> std::io::Result<Screen> {
        let (shows, queue) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || run(&queue))?;
        Ok(Screen { shows, thread })
    }
}

/// Shows what comes until nothing more can come.
fn run(queue: &Receiver<Show>) {
    let mut bar: Option<ProgressBar> = None;
    let mut wait: Option<LongWait> = None;
    loop {
        let show = match wait.as_ref().map(LongWait::left) {
            Some(left) => queue.recv_timeout(left),
            None => queue.recv().map_err(RecvTimeoutError::from),
        };
        match (show, &bar) {
            (Err(RecvTimeoutError::Disconnected), _) => break,
            (Err(RecvTimeoutError::Timeout), _) => wait.iter_mut().for_each(LongWait::tell),
            (Ok(Show::Line(text)), Some(bar)) => bar.suspend(|| say(&text)),
            (Ok(Show::Line(text)), None) => say(&text),
            (Ok(Show::Waiting(what)), _) => wait = Some(LongWait::new(what)),
            (Ok(Show::Start(size)), _) => (bar, wait) = (Some(new_bar(size)), None),
            (Ok(Show::Moved(bytes, slowest)), Some(bar)) if !bar.is_hidden() => {
                bar.set_position(bytes);
                if let Some(slowest) = slowest {
                    bar.set_message(slowest);
                }
            }
            (Ok(Show::Moved(..)), _) => {}
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// A wait that the user hears of less and less often.
#[derive(Debug)]
struct LongWait {
    what: String,
    since: Instant,
    pause: Duration,
}

impl LongWait {
    fn new(what: String) -> LongWait {
        LongWait { what, since: Instant::now(), pause: FIRST_WORD }
    }

    /// Until the next word.
    fn left(&self) -> Duration {
        (self.since + self.pause).saturating_duration_since(Instant::now())
    }

    fn tell(&mut self) {
        say(format_args!("still waiting for {}, {} s so far", self.what, self.since.elapsed().as_secs()));
        self.pause = (self.pause * 2).min(self.pause + LONGEST_PAUSE);
    }
}

/// What a user reads of something that has happened; nothing of what only moves a bar.
pub fn line(progress: &Progress<'_>) -> Option<String> {
    Some(match progress {
        Progress::Sender(event) => line_of_sender(event)?,
        Progress::Receiver(event) => line_of_receiver(event)?,
        Progress::Interface { away: true } => "the network interface has gone down: waiting for it".to_owned(),
        Progress::Interface { away: false } => "the network interface is back".to_owned(),
        _ => return None,
    })
}

fn line_of_sender(event: &RootEvent) -> Option<String> {
    Some(match event {
        RootEvent::Joined { host, receivers } => format!("{host} joined ({receivers})"),
        RootEvent::Waiting { joined, missing, wanted } => waiting(joined, missing, *wanted),
        RootEvent::Refused { host, text } => format!("{host} turned away: {text}"),
        RootEvent::Left { host, text } => format!("{host} left before the start: {text}"),
        RootEvent::OtherVersion(other) => other.to_string(),
        RootEvent::Started { receivers, via, size, selective } => {
            let what = size.map_or("a stream".to_owned(), units::bytes);
            let what = if *selective { format!("what somebody lacks of {what}") } else { what };
            format!("sending {what} to {receivers} receivers via {via}")
        }
        RootEvent::HeldUp { host, text } => format!("waiting: {host} {text}"),
        RootEvent::Aside { host, text } => format!("{host} {text}: it is served beside the others from now on"),
        RootEvent::Rerouted { via, text } => format!("{text}: it goes on via {via}"),
        RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
            format!("{} failed: {}: {}", report.host, report.outcome.word(), report.text)
        }
        _ => return None,
    })
}

fn line_of_receiver(event: &ReceiverEvent) -> Option<String> {
    Some(match event {
        ReceiverEvent::OtherVersion(other) => other.to_string(),
        ReceiverEvent::LeftOut { host, text } => format!("{host}: {text}; waiting for the next session"),
        ReceiverEvent::Invited { host, source, size, .. } => {
            let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
            format!("{host} offers {source}, {size}")
        }
        ReceiverEvent::RootSilent { silence, left } => {
            let (silence, left) = (silence.as_secs(), left.as_secs());
            format!("nothing new has been heard of the sender for {silence} s; it is waited for, {left} s at most")
        }
        _ => return None,
    })
}

/// Who is there, and who is not.
fn waiting(joined: &[String], missing: &[String], wanted: Option<usize>) -> String {
    let wanted = wanted.map_or(String::new(), |wanted| format!(" of {wanted}"));
    let mut text = format!("waiting: {}{wanted} receivers are there", joined.len());
    if !joined.is_empty() {
        text += &format!(", {}", nodeset::fold(joined));
    }
    if !missing.is_empty() {
        text += &format!("; missing: {}", nodeset::fold(missing));
    }
    text
}

/// On a stderr that is no terminal indicatif draws nothing.
fn new_bar(size: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
    let template = if size.is_some() { WITH_SIZE } else { WITHOUT_SIZE };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar
}
