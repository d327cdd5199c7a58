//! Sessions under frames that somebody makes up: no panic, no hang, nothing false, nothing without limit.

mod deaths;
mod forgery;
mod scene;
mod values;
