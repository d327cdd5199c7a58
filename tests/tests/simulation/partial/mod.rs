//! Sessions whose receivers have some of the content already: only what somebody lacks is sent, once, and what a single
//! one lacks it fetches.

mod prices;
mod scene;
mod troubles;
