//! Round trips of short messages.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ethbcast_transport::messages::Settings;

use super::content;
use super::hop::Hop;
use super::place::Place;
use super::plain::{Plain, Waiting};
use super::post::Post;
use crate::ends::HEADER_BYTES;

const WARM_UP: u64 = 200;

/// Returns the times of `count` round trips by plain packet sockets.
///
/// # Errors
/// Fails if a socket does or a frame comes back changed.
pub fn plain(hop: &Hop, place: Place, bytes: usize, count: u64, waiting: Waiting) -> anyhow::Result<Vec<Duration>> {
    let [here, there] = hop.on_both(|_| Plain::open())?;
    let count = count + WARM_UP;
    let ask = || {
        let mut buffer = [0; 2048];
        let one = |number| {
            let frame = Plain::frame(hop.mac(1), &content(number, bytes));
            let begin = Instant::now();
            here.send(&frame)?;
            let payload = here.receive(waiting, &mut buffer)?;
            let time = begin.elapsed();
            ensure!(payload == &frame[HEADER_BYTES..], "a frame came back changed");
            Ok(time)
        };
        (0..count).map(one).skip(WARM_UP as usize).collect()
    };
    let echo = || {
        let mut buffer = [0; 2048];
        for _ in 0..count {
            let payload = there.receive(waiting, &mut buffer)?;
            there.send(&Plain::frame(hop.mac(0), payload))?;
        }
        anyhow::Ok(())
    };
    both(place, ask, echo)
}

/// Returns the times of `count` round trips of messages, by blocking calls that busy-poll for up to
/// `spin` before they sleep.
///
/// # Errors
/// Fails if an interface does or a message comes back changed.
pub fn messages(
    hop: &Hop,
    place: Place,
    settings: &Settings,
    bytes: usize,
    count: u64,
    spin: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let [here, there] = Post::open_both(hop, settings, spin)?;
    let count = count + WARM_UP;
    let ask = || {
        let one = |number| {
            let message: Arc<[u8]> = content(number, bytes).into();
            let begin = Instant::now();
            here.send(&message)?;
            let back = here.receive(bytes)?;
            let time = begin.elapsed();
            ensure!(back[..] == message[..], "a message came back changed");
            Ok(time)
        };
        let times = (0..count).map(one).skip(WARM_UP as usize).collect();
        here.settle()?;
        times
    };
    let echo = || {
        for _ in 0..count {
            let message = there.receive(bytes)?;
            there.send(&message.into())?;
        }
        there.settle()
    };
    both(place, ask, echo)
}

fn both<T: Send>(
    place: Place,
    ask: impl FnOnce() -> anyhow::Result<T> + Send,
    echo: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let echo = place.spawn(scope, 1, echo);
        let ask = place.spawn(scope, 0, ask);
        let asked = ask.join().expect("who asks does not panic");
        echo.join().expect("the echo does not panic")?;
        asked
    })
}
