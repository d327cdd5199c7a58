//! Communicators under the simulator: how processes find each other, what collectives deliver and
//! cost, and what happens when ranks disagree, die or leave.

mod blocks;
mod collectives;
mod departures;
mod forged;
mod hostile;
mod joining;
mod links;
mod messages;
mod mismatches;
mod nodes;
mod presence;
mod presets;
mod price;
mod seeded;
mod ways;
