//! Errors of saved plans, with their position.

use crate::plan::MIN_SEGMENT_BYTES;
use crate::plan::check::CheckReport;
use crate::plan::error::PlanError;
use crate::plan::via::UnknownVia;
use crate::source::SchemaProblem;
use crate::source::SourceError;
use crate::topology::nodeset::NodeSetError;
use thiserror::Error;

/// A refused plan file, or a valid one for other hosts. Displayed as `plan.toml:4: …` where a line
/// is to blame.
pub type SavedPlanError = SourceError<SavedPlanProblem>;

/// Problem of a saved plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SavedPlanProblem {
    /// The text is not TOML of schema 1.
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    /// The route does not exist.
    #[error("via: {0}")]
    Via(#[from] UnknownVia),
    /// Members that are no node set.
    #[error("members: {0}")]
    NodeSet(#[from] NodeSetError),
    /// The members are neither a node set nor a list of them.
    #[error("expected members as a node set such as \"n[0-7]\" or as a list of them, found {0}")]
    NoNodeSet(&'static str),
    /// A member named twice.
    #[error("`{0}` is a member twice; name every member once")]
    MemberTwice(String),
    /// A root that is not among the members.
    #[error("the root `{0}` is not a member; name it among the members")]
    RootNotMember(String),
    /// An edge starts or ends at a host that is not among the members.
    #[error("an edge names `{0}`, which is not a member; name it among the members")]
    NotMember(String),
    /// Positions in a sender's order are not 0, 1, 2, …
    #[error(
        "`{from}` sends to `{to}` at place {order}; expected its {edges} edges at places 0 to {}, each once",
        edges.saturating_sub(1)
    )]
    Order {
        /// The sender.
        from: String,
        /// Receiver of the edge that is out of order.
        to: String,
        /// Position of this edge.
        order: u64,
        /// Number of the sender's edges.
        edges: usize,
    },
    /// This number of a half stands in a plan of one tree, or there is no such half.
    #[error("half = {0} is no half of the message; only with via = \"two-tree\", give 0 or 1")]
    Half(u64),
    /// A segment of this many bytes is shorter than the message and too short.
    #[error(
        "expected segment_bytes of {MIN_SEGMENT_BYTES} or more, found {0}; the length of a frame's payload, 1468 with \
         an MTU of 1500, is what long messages do best with"
    )]
    ShortSegment(u64),
    /// The segment is longer than relays can keep.
    #[error(
        "segments of {segment_bytes} bytes are longer than a host can keep of a stream, {most_bytes} bytes; use at \
         most \
         that, or save the plan again with `ethbcast plan --out`"
    )]
    LongSegment {
        /// Segment in the file, in bytes.
        segment_bytes: u64,
        /// Longest possible segment, in bytes.
        most_bytes: u64,
    },
    /// The topology lacks these members, given as a node set.
    #[error(
        "the topology names no host `{0}`; add it there, or save a plan for this topology with `ethbcast plan --out`"
    )]
    NotInTopology(String),
    /// Several hosts send over one cable at a time, as the checker found.
    #[error(
        "the plan sends over one cable from several hosts at a time: {}; save a plan for this topology with `ethbcast \
         plan --out`, or run this one as it is with --allow-contention", .0.contention()
    )]
    Contended(Box<CheckReport>),
    /// The edges are no plan of the kind `via`; ranks are indices in `members`.
    #[error("these edges are no plan (ranks are places among the members, from 0): {0}")]
    Plan(#[from] PlanError),
    /// The view has another epoch.
    #[error(
        "the plan is for epoch {saved}, and the view has epoch {epoch}; let the topology make a new plan (leave the \
         plan file out)"
    )]
    OtherEpoch {
        /// Epoch in the file.
        saved: u32,
        /// Epoch of the view.
        epoch: u32,
    },
    /// The members differ; each list is a node set, or empty.
    #[error("the plan is for other members: {}; save a plan for these with `ethbcast plan \
             --out`", differences(.missing, .extra))]
    OtherMembers {
        /// Members of the plan that are absent here.
        missing: String,
        /// Hosts here that are absent in the plan.
        extra: String,
    },
    /// The bytes come from another host.
    #[error(
        "the plan sends from `{saved}`, and the root is `{root}`; send from `{saved}`, or save a plan with \
         `ethbcast plan --root {root} --out`"
    )]
    OtherRoot {
        /// Root in the file.
        saved: String,
        /// Root of the view.
        root: String,
    },
}

fn differences(missing: &str, extra: &str) -> String {
    let missing = (!missing.is_empty()).then(|| format!("`{missing}` missing"));
    let extra = (!extra.is_empty()).then(|| format!("`{extra}` not in the plan"));
    missing.into_iter().chain(extra).collect::<Vec<_>>().join(", ")
}
