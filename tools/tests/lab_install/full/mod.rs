//! Packages that take minutes to build, tested by `./test --full`.

mod debian;
mod static_binary;
