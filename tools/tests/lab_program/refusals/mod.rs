//! What the program says no to where there is a network, with which code and which words.

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
