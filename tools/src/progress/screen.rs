//! Thread that writes messages and progress to stderr.

use super::course::TransferCourse;
use super::picture::{picture, stat_line};
use crate::exit::print_line;
use console::{Term, colors_enabled_stderr};
use ethbcast_planning::natural_order;
use ethbcast_planning::topology::nodeset;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const USUAL_COLUMNS: u16 = 80;
const WAITING: usize = 1024;
/// Delay of the first message about a wait. Each later one comes after twice as long, and at most
/// ten minutes later.
const FIRST_WORD: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(600);
const LAST_LINES: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);

/// Receivers that are named as soon as they join; later ones once a second.
const NAMED_AT_ONCE: usize = 4;
const JOIN_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Screen {
    shows: SyncSender<Show>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
pub enum Show {
    Line(String),
    Joined(String, usize),
    Start,
    /// The present reason for waiting, until another one or the start of the stream.
    Waiting(String),
}

impl Screen {
    /// Starts the thread, which reports the state of `course` every `period` if stderr is not a
    /// terminal. Fails if the system has no room for a thread.
    pub fn start(
        course: Arc<Mutex<TransferCourse>>,
        period: Option<Duration>,
    ) -> std::io::Result<Screen> {
        let (shows, queue) = sync_channel(WAITING);
        let painter = Painter {
            course,
            period,
            picture: Picture::None,
            wait: None,
            joins: Joins::default(),
        };
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || painter.run(&queue))?;
        Ok(Screen { shows, thread })
    }

    /// Queues output, or drops it if the queue is full.
    pub fn put(&self, show: Show) {
        drop(self.shows.try_send(show));
    }

    /// Waits until earlier output is shown or cannot be, and ends the thread.
    pub fn finish(self) {
        drop(self.shows);
        let end = Instant::now() + LAST_LINES;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Painter {
    course: Arc<Mutex<TransferCourse>>,
    period: Option<Duration>,
    picture: Picture,
    wait: Option<LongWait>,
    joins: Joins,
}

/// A bar on a terminal, with the time of its next drawing, or a line at a time and then at an
/// interval.
enum Picture {
    None,
    Drawn(ProgressBar, Instant),
    Lines(Instant, Duration),
}

impl Painter {
    fn run(mut self, queue: &Receiver<Show>) {
        loop {
            let show = match self.next() {
                Some(next) => queue.recv_timeout(next.saturating_duration_since(Instant::now())),
                None => queue.recv().map_err(RecvTimeoutError::from),
            };
            match show {
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Show::Joined(host, count)) => self.joins.add(host, count, Instant::now()),
                // Lines stay in the order of their events.
                Ok(Show::Line(text)) => {
                    self.print_joined();
                    self.print_line(&text);
                }
                Ok(Show::Waiting(what)) => self.wait = Some(LongWait::new(what)),
                Ok(Show::Start) => {
                    self.print_joined();
                    self.start();
                }
            }
            self.look();
        }
        self.print_joined();
        if let Picture::Drawn(bar, _) = self.picture {
            bar.finish_and_clear();
        }
    }

    fn next(&self) -> Option<Instant> {
        let picture = match &self.picture {
            Picture::None => None,
            Picture::Drawn(_, next) | Picture::Lines(next, _) => Some(*next),
        };
        self.wait
            .as_ref()
            .map(LongWait::next)
            .into_iter()
            .chain(picture)
            .chain(self.joins.due)
            .min()
    }

    fn look(&mut self) {
        let now = Instant::now();
        if self.joins.due.is_some_and(|due| now >= due) {
            self.print_joined();
        }
        if let Some(text) = self.wait.as_mut().and_then(|wait| wait.next_text(now)) {
            self.print_line(&text);
        }
        match &mut self.picture {
            Picture::Lines(next, period) if now >= *next => {
                *next = now + *period;
                print_line(stat_line(&self.course.lock(), now));
            }
            Picture::Drawn(bar, next) if now >= *next => {
                *next = now + REDRAW;
                let columns = Term::stderr()
                    .size_checked()
                    .map_or(USUAL_COLUMNS, |(_, columns)| columns);
                let colours = colors_enabled_stderr();
                let lines = picture(&self.course.lock(), now, columns.into(), colours);
                bar.set_message(lines.join("\n"));
            }
            _ => {}
        }
    }

    fn print_joined(&mut self) {
        if let Some(text) = self.joins.take(Instant::now()) {
            self.print_line(&text);
        }
    }

    fn print_line(&self, text: &str) {
        match &self.picture {
            Picture::Drawn(bar, _) => bar.suspend(|| print_line(text)),
            _ => print_line(text),
        }
    }

    fn start(&mut self) {
        self.wait = None;
        let now = Instant::now();
        self.picture = match self.period {
            _ if std::io::stderr().is_terminal() => Picture::Drawn(canvas(), now),
            Some(period) => Picture::Lines(now + period, period),
            None => Picture::None,
        };
    }
}

fn canvas() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is a constant"));
    bar
}

#[derive(Debug, Default)]
struct Joins {
    hosts: Vec<String>,
    count: usize,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Joins {
    fn add(&mut self, host: String, count: usize, now: Instant) {
        self.hosts.push(host);
        self.count = count;
        let next = self
            .last
            .filter(|_| count > NAMED_AT_ONCE)
            .map_or(now, |last| last + JOIN_PERIOD);
        self.due = self.due.or(Some(next));
    }

    fn take(&mut self, now: Instant) -> Option<String> {
        let mut hosts = std::mem::take(&mut self.hosts);
        if hosts.is_empty() {
            return None;
        }
        (self.due, self.last) = (None, Some(now));
        hosts.sort_by(|one, other| natural_order(one, other));
        Some(format!("{} joined ({})", nodeset::fold(&hosts), self.count))
    }
}

#[derive(Debug)]
struct LongWait {
    what: String,
    since: Instant,
    pause: Duration,
}

impl LongWait {
    fn new(what: String) -> LongWait {
        LongWait {
            what,
            since: Instant::now(),
            pause: FIRST_WORD,
        }
    }

    fn next(&self) -> Instant {
        self.since + self.pause
    }

    fn next_text(&mut self, now: Instant) -> Option<String> {
        if now < self.next() {
            return None;
        }
        self.pause = (self.pause * 2).min(self.pause + MAX_PAUSE);
        Some(format!(
            "still waiting for {}, {} s so far",
            self.what,
            now.duration_since(self.since).as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_receivers_are_named_at_once_and_later_ones_once_a_second() {
        let (mut joins, begin) = (Joins::default(), Instant::now());
        let mut said = Vec::new();
        for count in 1..=20_u32 {
            let now = begin + Duration::from_millis(100) * count;
            // The order of joining is not that of the names.
            joins.add(
                format!("n{}", if count < 5 { count } else { 25 - count }),
                count as usize,
                now,
            );
            said.extend(
                joins
                    .due
                    .filter(|&due| now >= due)
                    .and_then(|_| joins.take(now)),
            );
        }
        said.extend(joins.take(begin + Duration::from_secs(3)));
        let one_by_one = [
            "n1 joined (1)",
            "n2 joined (2)",
            "n3 joined (3)",
            "n4 joined (4)",
        ];
        assert_eq!(said[..4], one_by_one);
        assert_eq!(said[4..], ["n[11-20] joined (14)", "n[5-10] joined (20)"]);
        assert_eq!(
            (joins.take(begin), joins.due),
            (None, None),
            "nobody has joined since"
        );
    }

    #[test]
    fn a_long_wait_is_spoken_of_less_and_less_often() {
        let mut wait = LongWait::new("n1 to start".to_owned());
        let since = wait.since;
        assert_eq!(wait.next_text(since + Duration::from_millis(1999)), None);
        let said = wait.next_text(wait.next()).expect("it is due");
        assert_eq!(said, "still waiting for n1 to start, 2 s so far");
        let due = (0..11).map(|_| {
            let next = wait.next();
            wait.next_text(next).expect("it is due");
            (next - since).as_secs()
        });
        assert_eq!(
            due.collect::<Vec<_>>(),
            [4, 8, 16, 32, 64, 128, 256, 512, 1024, 1624, 2224]
        );
    }
}
