//! Condition on which a transfer starts: the number of receivers, a time limit, or Enter.

use crate::exit::print_line;
use crate::progress::Bar;
use crate::session::interfaces;
use crate::units;
use ethbcast_collectives::session::{SendOptions, Session};
use ethbcast_planning::topology::nodeset;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Start with this number of receivers, but no sooner than `min_wait` after the first join; at
/// `max_wait` after the first join, whatever their number; or at `after` from the beginning, as
/// soon as there is a receiver.
#[derive(Clone, Copy, Debug)]
pub struct StartRule {
    pub receivers: Option<usize>,
    pub min_wait: Duration,
    pub max_wait: Option<Duration>,
    pub after: Option<Duration>,
    pub at_enter: bool,
}

/// Starts the session by the rule, or at Enter if the options permit. Fails if the system has no
/// room for a thread.
pub fn watch(
    rule: Option<StartRule>,
    at_enter: bool,
    bar: &Arc<Bar>,
    options: &SendOptions,
) -> io::Result<()> {
    match rule {
        Some(rule) => rule.watch(bar, options),
        None if at_enter => start_at_enter(bar, options),
        None => Ok(()),
    }
}

fn start_at_enter(bar: &Arc<Bar>, options: &SendOptions) -> io::Result<()> {
    let Some(start) = options.start.clone() else {
        return Ok(());
    };
    let bar = Arc::clone(bar);
    // The thread is detached and ends with the process.
    let wait = move || {
        for line in io::stdin().lock().lines() {
            match (line, bar.joined()) {
                (Err(_), _) => return,
                (Ok(_), 0) => print_line("nobody has joined yet"),
                (Ok(_), _) => return start.now(),
            }
        }
    };
    thread::Builder::new()
        .name("enter".to_owned())
        .spawn(wait)
        .map(drop)
}

impl StartRule {
    fn watch(self, bar: &Arc<Bar>, options: &SendOptions) -> io::Result<()> {
        if self.at_enter {
            start_at_enter(bar, options)?;
        }
        let Some(start) = options.start.clone() else {
            return Ok(());
        };
        let (bar, began) = (Arc::clone(bar), Instant::now());
        // The thread is detached and ends with the process.
        let wait = move || {
            let mut first = None;
            loop {
                let (now, joined) = (Instant::now(), bar.joined());
                if joined > 0 {
                    first.get_or_insert(now);
                }
                if self.is_time(now - began, first.map(|first| now - first), joined) {
                    return start.now();
                }
                thread::sleep(POLL_INTERVAL);
            }
        };
        thread::Builder::new()
            .name("start".to_owned())
            .spawn(wait)
            .map(drop)
    }

    /// Whether to start at this time since the beginning and since the first join.
    fn is_time(&self, since_begin: Duration, since_first: Option<Duration>, joined: usize) -> bool {
        let is_enough = |since: Duration| {
            self.receivers.is_some_and(|least| joined >= least) && since >= self.min_wait
                || self.max_wait.is_some_and(|most| since >= most)
        };
        since_first.is_some_and(is_enough) || self.after.is_some_and(|after| since_begin >= after)
    }
}

/// Shows interface, group and awaited receivers. `rule` may start the session with fewer receivers
/// than the options say.
pub fn show(bar: &Bar, session: &Session, options: &SendOptions, rule: Option<StartRule>) {
    let station = session.station();
    let how_many = match (
        options.receivers,
        options.min_receivers,
        options.hosts.len(),
    ) {
        (None, None, 0) if options.carousel.is_some() => "a first receiver".to_owned(),
        (Some(count), None, 0) if options.carousel.is_some() => {
            format!("a first receiver, {count} in all")
        }
        (None, None, 0) => "receivers; press Enter to start with those who have joined".to_owned(),
        (None, Some(least), 0) => format!("receivers, {least} at least"),
        (Some(count), None, 0) => units::receivers(count),
        (Some(count), Some(least), 0) => format!("{}, {least} at least", units::receivers(count)),
        (count, _, hosts) => {
            let some = count
                .filter(|&count| count < hosts)
                .map_or(String::new(), |count| format!("{count} of "));
            format!("{some}{}", nodeset::fold(&options.hosts))
        }
    };
    let fewer = rule
        .and_then(|rule| rule.max_wait.or(rule.after))
        .map_or(String::new(), |after| {
            format!(
                ", or for those that are there {} s later",
                after.as_secs_f64()
            )
        });
    let (interface, mtu) = (interfaces(session), station.mtu_bytes);
    bar.line(format!(
        "{} on {interface}, MTU {mtu}, group {}: waiting for {how_many}{fewer}",
        station.host, station.group
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_udpcasts_manual_starts_when_it_says() {
        let seconds = Duration::from_secs;
        let rule = StartRule {
            receivers: Some(5),
            min_wait: seconds(20),
            max_wait: Some(seconds(80)),
            after: None,
            at_enter: false,
        };
        let is_time =
            |since_first, joined| rule.is_time(seconds(1000), Some(seconds(since_first)), joined);
        assert!(
            !is_time(19, 5) && is_time(20, 5),
            "five are there, min-wait has to pass"
        );
        assert!(!is_time(24, 4) && is_time(25, 5), "the fifth comes later");
        assert!(!is_time(79, 4) && is_time(80, 4), "max-wait, with four");
        assert!(
            !rule.is_time(seconds(1000), None, 0),
            "nobody yet, for as long as it takes"
        );
    }
}
