//! Tests of the program's refusals that need a network: their exit codes and messages.

mod dest;
mod interface;
pub mod meeting;
