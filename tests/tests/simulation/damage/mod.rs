//! Bytes that come damaged in frames whose checksum fits: they are noticed, asked for again and mended, and the hop is
//! named.

mod hops;
mod ledgers;
mod pipes;
mod scene;
