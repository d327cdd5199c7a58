//! What takes minutes of building: run by `./test --full`.

mod debian;
mod static_binary;
