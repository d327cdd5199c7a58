//! Example: throughput of messages from rank 0 to rank 1, and of broadcasts from rank 0 to all.
//!
//! `ethbcast lab each -- target/release/examples/throughput 8`
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-collectives = { path = "../ethbcast/collectives"
//! }`.

use ethbcast_collectives::communicator::{Communicator, Error};
use std::time::{Duration, Instant};

const MESSAGE_BYTES: usize = 1 << 20;
const MESSAGES: u32 = 64;
const TAG: u32 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size = std::env::args()
        .nth(1)
        .ok_or("usage: throughput RANKS")?
        .parse()?;
    if size < 2 {
        return Err("throughput needs 2 ranks or more".into());
    }
    let all = Communicator::join("throughput", size)?;
    let mut bytes = vec![u8::try_from(all.rank()).unwrap_or(u8::MAX); MESSAGE_BYTES];

    all.barrier()?;
    let messages = timed(|| {
        match all.rank() {
            0 => (0..MESSAGES).try_for_each(|_| all.send(1, TAG, &bytes))?,
            1 => (0..MESSAGES).try_for_each(|_| all.recv(0, TAG, &mut bytes).map(drop))?,
            _ => {}
        }
        all.barrier()
    })?;
    let broadcasts = timed(|| {
        (0..MESSAGES).try_for_each(|_| all.broadcast(0, &mut bytes))?;
        all.barrier()
    })?;
    assert!(
        bytes.iter().all(|&byte| byte == 0),
        "everybody has rank 0's bytes"
    );
    if all.rank() == 0 {
        println!(
            "{MESSAGES} messages of 1 MiB to one rank: {:.0} Mbit/s",
            megabits(messages)
        );
        println!(
            "{MESSAGES} broadcasts of 1 MiB to {} ranks: {:.0} Mbit/s at each",
            size - 1,
            megabits(broadcasts)
        );
    }
    Ok(all.barrier()?)
}

fn timed(run: impl FnOnce() -> Result<(), Error>) -> Result<Duration, Error> {
    let began = Instant::now();
    run().map(|()| began.elapsed())
}

fn megabits(took: Duration) -> f64 {
    f64::from(MESSAGES) * MESSAGE_BYTES as f64 * 8.0 / 1e6 / took.as_secs_f64()
}
