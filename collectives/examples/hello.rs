//! Example: every rank receives a greeting from rank 0. `ethbcast lab each --
//! target/release/examples/hello 8` runs it.
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-collectives = { path = "../ethbcast/collectives"
//! }`.

use ethbcast_collectives::communicator::Communicator;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size = std::env::args()
        .nth(1)
        .ok_or("usage: hello RANKS")?
        .parse()?;
    let all = Communicator::join("hello", size)?;
    let mut greeting = if all.rank() == 0 {
        *b"hello, cluster"
    } else {
        [0; 14]
    };
    all.broadcast(0, &mut greeting)?;
    println!(
        "rank {} of {size}, {}: {}",
        all.rank(),
        all.host(),
        String::from_utf8_lossy(&greeting)
    );
    Ok(all.barrier()?)
}
