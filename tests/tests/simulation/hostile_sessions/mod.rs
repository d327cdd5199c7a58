//! Sessions under forged frames: no panic, no hang, nothing false, nothing unbounded.

mod deaths;
mod fetches;
mod floods;
mod forgery;
mod progress;
mod scene;
mod values;
