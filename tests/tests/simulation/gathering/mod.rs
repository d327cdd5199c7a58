//! The beginning of sessions: who is admitted and who is not, under floods, replays and several
//! roots.

mod floods;
mod leave;
mod roots;
mod scene;
mod waiting;
