//! Example: 16 MiB from one thread to another over channels, by the loop that also drives AF_PACKET
//! sockets.
//!
//! `cargo run --release -p ethbcast-transport --example channel_driver`
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-transport = { path = "../ethbcast/transport" }`.

mod channel_link;

use channel_link::transfer;
use std::time::Instant;

fn main() {
    let content: Vec<u8> = (0..16 << 20)
        .map(|at: u32| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8)
        .collect();
    let begin = Instant::now();
    let received = transfer(&content, channel_link::cable(256));
    let seconds = begin.elapsed().as_secs_f64();
    assert!(received == content, "every byte in its place");
    println!(
        "{} bytes in {seconds:.3} s: {:.0} Mbit/s",
        received.len(),
        received.len() as f64 * 8e-6 / seconds
    );
}
