//! Network topologies, broadcast trees (*plans*) over them, and their predicted time, as pure
//! computation.
//!
//! The crate uses no socket, clock, thread or random source: equal input gives equal output on
//! every host, and ties are broken by number. It does not depend on the transport.
//!
//! Four modules, each of which imports only those before it:
//! - [`topology`]: switches, cables and hosts. A [`Topology`](topology::Topology) is valid by
//!   construction; it is read from our own files, from Slurm's, from LLDP, or is a built-in test
//!   bed.
//! - [`plan`]: broadcast trees with sending order. [`plan::make`] plans any [`Via`](plan::Via);
//!   [`plan::check`] checks any [`Plan`](plan::Plan) against a topology and shares no code with the
//!   planners.
//! - [`model`]: predicted time of a plan, by a [`Calibration`](model::Calibration) of the network.
//!   [`model::choose`] finds the plan and the segment of least predicted time.
//! - `draw`: a topology, and a plan over it, as text, as DOT and as SVG.
//!
//! Only [`load`] opens files: it reads topologies, calibrations and plans.
//!
//! ```
//! use ethbcast_planning::model::{Calibration, Situation, choose};
//! use ethbcast_planning::plan::{self, Via};
//! use ethbcast_planning::topology::Topology;
//!
//! // 32 hosts on four switches in a row, cables of 1 Gbit/s, and switches that police broadcast.
//! let topology = Topology::builtin("fig9-4").expect("one of the test beds");
//! let members: Vec<usize> = (0..topology.hosts().len()).collect();
//! let calibration = &Calibration::assumed(1_000_000_000, 1468).with_cast_max(1000)?;
//! let (topology, members, size_bytes) = (&topology, &members, Some(64 << 20));
//! let choice =
//!     choose(&Situation { topology, root_host: 0, members, size_bytes, frame_payload_bytes: 1468, calibration })?;
//! assert_eq!(choice.plan.via(), Via::Chain);
//! assert!(plan::check(topology, &choice.plan, members).is_good());
//! assert!(choice.predicted_seconds < 0.6, "{}", choice.reason);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Host ids and ranks
//! A host id counts the hosts of a topology, a rank the members of a plan; the table `members[rank]
//! == host` joins the two. Both are `usize`, and names distinguish them: `root_host`, `host` and
//! `members` are host ids, `rank`, `root` and the numbers in a [`Plan`](plan::Plan) are ranks. They
//! have no separate types because nearly all uses are table indices and arithmetic (`rank ^ mask`,
//! `(rank + root) % ranks`): types that allow both prevent no mistake, and types that allow neither
//! would be unwrapped at almost every use. Conversions are checked: planners refuse members that
//! are no hosts, and the checker a table that is not one host for each rank.
//!
//! # Errors
//! Invalid text is refused with a [`SourceError`]: the file, the line, and a problem whose sentence
//! says what was expected or what to do. A plan that cannot be made is a
//! [`PlanError`](plan::PlanError).

// What is hidden here and below is for the crates of this workspace, without a promise of
// stability.
#[doc(hidden)]
pub mod draw;
#[doc(hidden)]
pub mod host_list;
pub mod load;
pub mod model;
#[doc(hidden)]
mod names;
pub mod plan;
mod source;
pub mod topology;
#[doc(hidden)]
mod units;

#[doc(hidden)]
pub use names::{HostNames, natural_order};
pub use source::SchemaProblem;
pub use source::SourceError;
#[doc(hidden)]
pub use units::{
    HIGHEST_RATE_BITS_PER_SECOND, LOWEST_RATE_BITS_PER_SECOND, duration, format_rate, parse_rate,
    parse_size,
};
