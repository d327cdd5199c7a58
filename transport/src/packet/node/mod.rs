//! Several processes of one group behind one interface: a *node* (the SMP of the EQA paper, §3).
//!
//! They share one port and one memory. A frame from one to another goes through that memory only; a
//! frame to all is stored once for the node and sent once on the wire; one that arrives for all is
//! stored once, too. Each process has a seat number, carried beside the interface's address in
//! every frame ([`MacAddr::seat`](crate::MacAddr::seat)): on the wire a node is one address.
//!
//! The holder of the receive lock (`Ear`) receives from the wire for all. If it ends, another
//! process takes the lock within 50 ms; frames in between are lost and sent again.
//!
//! `board` lays out the shared `memory`; `producer` queues frames; `place` is the file where
//! processes meet, `locks` show which are alive, `doorbell` and `waiter` put them to sleep and wake
//! them; `port` is the [`Link`](crate::Link).

mod board;
mod error;
mod locks;
mod memory;
mod place;
mod port;
mod producer;
#[cfg(test)]
mod tests;
mod waiter;
mod wake_up_socket;

pub use error::NodeError;
pub use place::NodeConfig;
pub use port::NodePort;
pub use waiter::NodeWaiter;
pub(super) use wake_up_socket::WakeUpSocket;
