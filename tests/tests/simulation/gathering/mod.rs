//! How sessions begin, in the simulator: who is let in, who is not, and what floods, replays and other roots change.

mod floods;
mod leave;
mod roots;
mod scene;
mod waiting;
