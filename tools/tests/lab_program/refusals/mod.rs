//! Refusals of the program that need a network: their exit codes and texts.

mod dest;
mod interface;
pub mod meeting;
