//! Refusals of the program with a network: their codes and words.

mod dest;
mod interface;
pub mod meeting;
