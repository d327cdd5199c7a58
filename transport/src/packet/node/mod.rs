//! Several processes of one group behind one interface: a *node* (the SMP of the EQA paper, §3).
//!
//! They share one port and one memory. A frame from one to another is written into that memory and read there; a frame
//! to all is stored once for all of the node, and sent once to the others; what comes for all from elsewhere is stored
//! once, too. Each process has a number, its seat, which stands beside the interface's address in every frame
//! ([`MacAddr::seat`](crate::MacAddr::seat)): on the wire a node is one address.
//!
//! Whoever holds the ear's lock hears the wire; if it ends, however it does, another takes the lock and goes on within
//! 50 ms. What was under way in between is sent again, like anything that is lost.
//!
//! `board` is the memory, over `memory`; `producer` hands out; `place` is where processes meet, `locks` how they know
//! of each other, `doorbell` and `waiter` how they sleep; `port` is the [`Link`](crate::Link).

mod board;
mod doorbell;
mod error;
mod locks;
mod memory;
mod place;
mod port;
mod producer;
#[cfg(test)]
mod tests;
mod waiter;

pub(super) use doorbell::Doorbell;
pub use error::NodeError;
pub use place::NodeConfig;
pub use port::NodePort;
pub use waiter::NodeWaiter;
