//! Refusals of the program with a network: their codes and words.

mod dest;
mod disk;
mod first_hop;
mod gathering;
mod interface;
mod meeting;
pub mod nobody;
mod own_side;
mod perf;
mod pipes;
mod probe;
mod served;
mod source;
mod topology;
mod versions;
