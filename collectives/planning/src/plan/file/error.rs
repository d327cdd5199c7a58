//! Errors in files of saved broadcast trees, with their position.

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
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SavedPlanProblem {
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    #[error("via: {0}")]
    Via(#[from] UnknownVia),
    #[error("members: {0}")]
    NodeSet(#[from] NodeSetError),
    #[error("expected members as a node set such as \"n[0-7]\" or as a list of them, found {0}")]
    NoNodeSet(&'static str),
    #[error("`{0}` is a member twice; name every member once")]
    MemberTwice(String),
    #[error("the root `{0}` is not a member; name it among the members")]
    RootNotMember(String),
    #[error("an edge names `{0}`, which is not a member; name it among the members")]
    NotMember(String),
    #[error(
        "`{from}` sends to `{to}` at place {order}; expected its {edges} edges at places 0 to {}, each once",
        edges.saturating_sub(1)
    )]
    Order { from: String, to: String, order: u64, edges: usize },
    #[error("half = {0} is no half of the message; only with via = \"two-tree\", give 0 or 1")]
    Half(u64),
    #[error(
        "expected segment_bytes of {MIN_SEGMENT_BYTES} or more, found {0}; the length of a frame's payload, 1468 with \
         an MTU of 1500, is what long messages do best with"
    )]
    ShortSegment(u64),
    #[error(
        "segments of {segment_bytes} bytes are longer than a host can keep of a stream, {most_bytes} bytes; use at \
         most \
         that, or save the plan again with `ethbcast plan --out`"
    )]
    LongSegment { segment_bytes: u64, most_bytes: u64 },
    /// The topology lacks these members, given as a node set.
    #[error(
        "the topology names no host `{0}`; add it there, or save a plan for this topology with `ethbcast plan --out`"
    )]
    NotInTopology(String),
    #[error(
        "the plan sends over one cable from several hosts at a time: {}; save a plan for this topology with `ethbcast \
         plan --out`, or run this one as it is with --allow-contention", .0.contention()
    )]
    Contended(Box<CheckReport>),
    #[error("these edges are no plan (ranks are places among the members, from 0): {0}")]
    Plan(#[from] PlanError),
    #[error(
        "the plan is for epoch {saved}, and the view has epoch {epoch}; let the topology make a new plan (leave the \
         plan file out)"
    )]
    OtherEpoch { saved: u32, epoch: u32 },
    /// The members differ; each list is a node set, or empty.
    #[error("the plan is for other members: {}; save a plan for these with `ethbcast plan \
             --out`", differences(.missing, .extra))]
    OtherMembers { missing: String, extra: String },
    #[error(
        "the plan sends from `{saved}`, and the root is `{root}`; send from `{saved}`, or save a plan with \
         `ethbcast plan --root {root} --out`"
    )]
    OtherRoot { saved: String, root: String },
}

fn differences(missing: &str, extra: &str) -> String {
    let missing = (!missing.is_empty()).then(|| format!("`{missing}` missing"));
    let extra = (!extra.is_empty()).then(|| format!("`{extra}` not in the plan"));
    missing.into_iter().chain(extra).collect::<Vec<_>>().join(", ")
}
