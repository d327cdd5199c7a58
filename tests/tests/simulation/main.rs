//! Simulated tests of whole transfers and communicators: delivery, cost and faults. They need no
//! real clock, no root, and no programs but cargo's.

mod communicators;
mod damage;
mod gathering;
mod handshake;
mod hostile_sessions;
mod keyed_sessions;
mod neighbours;
mod other_ways;
mod partial;
mod rates;
mod replays;
mod sessions;
mod slow_cables;
mod slow_sessions;
mod stuck;
mod swarm;
mod troubles;
mod worlds;
