//! Replays a list of events and describes it.

use super::event::Event;
use super::host::Host;
use super::world::World;
use ethbcast_transport::wire::{self, Frame, Kind};
use std::fmt::Write;

/// Replays `events` in `world`, each on a line, and continues without faults to the end or to a
/// violation.
///
/// # Errors
/// The first event that cannot happen.
pub fn replay<H: Host>(world: &mut World<H>, events: &[Event]) -> Result<String, String> {
    let (mut state, mut text) = (world.start().clone(), String::new());
    let mut events = events.iter().copied();
    for number in 1.. {
        let (event, is_fair) = match events.next() {
            Some(event) => (event, false),
            None => match world.fair(&state) {
                Some(event) if number < 2_000 => (event, true),
                _ => break,
            },
        };
        if !world.can_happen(&state, event) {
            return Err(format!("event {number}, {event}, cannot happen there"));
        }
        let frame = match event {
            Event::Deliver(from, to) | Event::Lose(from, to) | Event::Repeat(from, to) => {
                state.first(from, to).map(|frame| words(world.locals().frame(frame)))
            }
            Event::Time | Event::Kill(_) => None,
        };
        let mark = if is_fair { ' ' } else { '*' };
        let millis = state.now.as_micros() as f64 / 1000.0;
        let line = format!("{mark}{number:4} {millis:10.3} ms  {event:6} {}", frame.unwrap_or_default());
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
        match world.apply(&state, event) {
            Ok(next) => state = next,
            Err(what) => {
                writeln!(text, "{what}").expect("a string takes all");
                break;
            }
        }
    }
    for (host, local) in world.hosts(&state) {
        writeln!(text, "host {host}: {:?}", local.fate).expect("a string takes all");
    }
    Ok(text)
}

fn words(bytes: &[u8]) -> String {
    let Ok(Frame { header, payload, .. }) = wire::parse(bytes) else { return format!("{} bytes", bytes.len()) };
    let name = match header.kind {
        Kind::DATA => "DATA".to_owned(),
        Kind::ACK => "ACK".to_owned(),
        Kind::HEARTBEAT => "HEARTBEAT".to_owned(),
        kind => format!("{kind:?}"),
    };
    format!(
        "{name} {} of view {}, {:?}, stamp {}, {} bytes",
        header.sequence,
        header.epoch,
        header.flags,
        header.stamp,
        payload.len()
    )
}
