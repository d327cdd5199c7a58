//! Sessions under frames that somebody makes up: no panic, no hang, nothing false, nothing without limit.

mod deaths;
mod fetches;
mod floods;
mod forgery;
mod progress;
mod scene;
mod values;
