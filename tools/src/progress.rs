//! What `send` and `recv` show on stderr while they work.
//!
//! A terminal may be stopped (Ctrl-S), and who reads stderr may go away: neither concerns the session. A thread of its
//! own writes, behind a queue that is never waited for.

use crate::exit::say;
use crate::units;
use ethbcast_collectives::session::{Options, Outcome, Progress, ReceiverEvent, RootEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WITH_SIZE: &str = "{bytes:>10} / {total_bytes} [{wide_bar}] {binary_bytes_per_sec} {eta} {msg}";
const WITHOUT_SIZE: &str = "{bytes:>10} {spinner} {binary_bytes_per_sec} {msg}";
/// What may wait to be shown: the lines of a thousand receivers that join at once. What comes then is not shown.
const WAITING: usize = 1024;
/// How long the last lines may take to appear.
const LAST_LINES: Duration = Duration::from_millis(500);

/// A bar for what has been taken, by all receivers or by this one, and lines for what happens.
#[derive(Debug, Default)]
pub struct Bar {
    screen: Mutex<Option<Screen>>,
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
}

impl Bar {
    /// Shows what happens to sessions with these options; nothing at all if `quiet`.
    pub fn show(options: Options, quiet: bool) -> (Options, Arc<Bar>) {
        let bar = Arc::new(Bar::default());
        let shown = Arc::clone(&bar);
        let options = if quiet { options } else { options.on_progress(move |progress| shown.update(&progress)) };
        (options, bar)
    }

    fn update(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Sender(RootEvent::Joined { host, receivers }) => {
                self.line(format!("{host} joined ({receivers})"))
            }
            Progress::Sender(RootEvent::Refused { host, text }) => self.line(format!("{host} turned away: {text}")),
            Progress::Sender(RootEvent::Left { host, text }) => {
                self.line(format!("{host} left before the start: {text}"))
            }
            Progress::Sender(RootEvent::OtherVersion(other))
            | Progress::Receiver(ReceiverEvent::OtherVersion(other)) => {
                self.line(other.to_string());
            }
            Progress::Receiver(ReceiverEvent::LeftOut { host, text }) => {
                self.line(format!("{host}: {text}; waiting for the next session"));
            }
            Progress::Receiver(ReceiverEvent::Invited { host, source, size }) => {
                let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
                self.line(format!("{host} offers {source}, {size}"));
            }
            Progress::Sender(RootEvent::Started { receivers, via, size }) => {
                let what = size.map_or("a stream".to_owned(), units::bytes);
                self.line(format!("sending {what} to {receivers} receivers via {via}"));
                self.put(Show::Start(*size));
            }
            Progress::Receiver(ReceiverEvent::Started { rank, receivers, via, size }) => {
                log::info!("receiving as rank {rank} of {receivers} via {via}");
                self.put(Show::Start(*size));
            }
            Progress::Moved { bytes, slowest } => {
                let slowest = slowest.map(|(host, state)| format!("slowest {host} ({state:?})").to_lowercase());
                self.put(Show::Moved(*bytes, slowest));
            }
            Progress::Sender(RootEvent::Reported(report)) if report.outcome != Outcome::Delivered => {
                self.line(format!("{} failed: {} {}", report.host, report.outcome.word(), report.text));
            }
            _ => {}
        }
    }

    fn line(&self, text: String) {
        self.put(Show::Line(text));
    }

    /// Puts something into the queue. The thread is started with the first, when signals are blocked already.
    fn put(&self, show: Show) {
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
    for show in queue {
        match (show, &bar) {
            (Show::Line(text), Some(bar)) => bar.suspend(|| say(&text)),
            (Show::Line(text), None) => say(&text),
            (Show::Start(size), _) => bar = Some(new_bar(size)),
            (Show::Moved(bytes, slowest), Some(bar)) if !bar.is_hidden() => {
                bar.set_position(bytes);
                if let Some(slowest) = slowest {
                    bar.set_message(slowest);
                }
            }
            (Show::Moved(..), _) => {}
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// On a stderr that is no terminal indicatif draws nothing.
fn new_bar(size: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
    let template = if size.is_some() { WITH_SIZE } else { WITHOUT_SIZE };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar
}
