//! Files of saved broadcast trees: made once for a network, used any number of times (Patarasuk
//! 2008 §5).
//!
//! A file names hosts, so it is valid whatever ranks they get. It records its members: other
//! members, another root or a view of another epoch are refused, because a plan that is free of
//! contention for some hosts need not be so for others, nor on another network; and a file can be
//! edited. Before a plan is run, [`SavedPlan::admit`] checks it on the present topology.
//!
//! The plan file: TOML with `schema = 1` and one `[[edge]]` table for each send.
//!
//! ```toml
//! schema = 1
//! via = "binary"
//! root = "n0"
//! epoch = 1
//! segment_bytes = 4096
//! size_bytes = 1048576          # may be left out
//! members = "n[0-2]"            # a node set, or a list of them, in the order of ranks
//!
//! [[edge]]
//! from = "n0"
//! to = "n2"
//! order = 0                     # n0 sends to n2 first
//! ```
//!
//! With `via = "two-tree"` the edges of the second tree have `half = 1`, and each tree orders its
//! own.

use super::check::{CheckReport, check_message};
use super::tree::Plan;
use super::via::Via;
use super::{MIN_SEGMENT_BYTES, PlanError};
use crate::plan::via::UnknownVia;
use crate::source::{self, LineStarts, SchemaProblem, SourceError};
use crate::topology::Topology;
use crate::topology::nodeset::{self, NodeSetError};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use thiserror::Error;
use toml::{Spanned, Value};

/// Epoch of saved plans: that of a view before any change of members.
pub const SAVED_EPOCH: u32 = 1;

/// A plan by host names, with the message it was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPlan {
    via: Via,
    root: String,
    epoch: u32,
    segment_bytes: u64,
    size_bytes: Option<u64>,
    members: Vec<String>,
    edges: Vec<(usize, usize)>,
    /// Tree of the second half of the message; empty if there is one tree.
    second: Vec<(usize, usize)>,
    origin: Origin,
}

impl SavedPlan {
    /// Returns the plan to save, rank `r` being the host `names[r]`; `size_bytes` is `None` for a
    /// stream of unknown length.
    ///
    /// # Panics
    /// Unless there is one name for each rank.
    pub fn from_plan(
        plan: &Plan,
        names: &[&str],
        segment_bytes: u64,
        size_bytes: Option<u64>,
    ) -> Self {
        assert_eq!(
            names.len(),
            plan.ranks(),
            "a plan is saved with one name for each rank"
        );
        Self {
            via: plan.via(),
            root: names[plan.root()].to_string(),
            epoch: SAVED_EPOCH,
            segment_bytes,
            size_bytes,
            members: names.iter().map(|name| (*name).to_string()).collect(),
            edges: plan.edges().collect(),
            second: plan
                .trees()
                .get(1)
                .map_or_else(Vec::new, |second| second.edges().collect()),
            origin: Origin::default(),
        }
    }

    /// Returns the route.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Returns the host that has the bytes.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the epoch of the view it is for.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the length of a segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Returns the length of the message that the plan was made for, in bytes, if known.
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Returns the hosts, in the order of their ranks when the plan was saved.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Returns the plan for the members of a view: rank `r` is `names[r]`, rank 0 the root, as in
    /// every view.
    ///
    /// # Errors
    /// [`SavedPlanError`] if the view has another epoch, other members, or another root.
    pub fn for_members(&self, names: &[&str], epoch: u32) -> Result<Plan, SavedPlanError> {
        if epoch != self.epoch {
            return Err(self.origin.refuse_epoch(SavedPlanProblem::OtherEpoch {
                saved: self.epoch,
                epoch,
            }));
        }
        let ranks: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(rank, &name)| (name, rank))
            .collect();
        let saved: HashSet<&str> = self.members.iter().map(String::as_str).collect();
        let missing: Vec<&str> = self
            .members
            .iter()
            .map(String::as_str)
            .filter(|name| !ranks.contains_key(name))
            .collect();
        let extra: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !saved.contains(name))
            .collect();
        if !missing.is_empty() || !extra.is_empty() {
            let fold = |names: Vec<&str>| nodeset::fold(&names);
            let (missing, extra) = (fold(missing), fold(extra));
            return Err(self
                .origin
                .refuse_members(SavedPlanProblem::OtherMembers { missing, extra }));
        }
        if names.first() != Some(&self.root.as_str()) {
            let root = names
                .first()
                .map_or_else(String::new, |name| (*name).to_string());
            return Err(self.origin.refuse_root(SavedPlanProblem::OtherRoot {
                saved: self.root.clone(),
                root,
            }));
        }
        let plan = self.plan(|member| ranks[self.members[member].as_str()], names.len());
        plan.map_err(|error| self.origin.refuse_members(error))
    }

    fn plan(&self, rank_of: impl Fn(usize) -> usize, ranks: usize) -> Result<Plan, PlanError> {
        let root = self
            .members
            .iter()
            .position(|name| *name == self.root)
            .expect("the root of a saved plan is a member");
        let tree = |edges: &[(usize, usize)]| {
            let mut children = vec![Vec::new(); ranks];
            for &(from, to) in edges {
                children[rank_of(from)].push(rank_of(to));
            }
            Plan::from_children(self.via, rank_of(root), &children)
        };
        let first = tree(&self.edges)?;
        if self.second.is_empty() {
            Ok(first)
        } else {
            first.paired(tree(&self.second)?)
        }
    }

    /// Writes the plan as a file that [`SavedPlan::parse`] reads.
    pub fn to_toml(&self) -> String {
        // Names consist of letters, digits and `-_.:`, so no escaping is needed.
        let mut text = format!(
            "schema = 1\nvia = \"{}\"\nroot = \"{}\"\nepoch = {}\n",
            self.via, self.root, self.epoch
        );
        text += &format!("segment_bytes = {}\n", self.segment_bytes);
        if let Some(size) = self.size_bytes {
            text += &format!("size_bytes = {size}\n");
        }
        text += &format!("members = \"{}\"\n", nodeset::fold(&self.members));
        for (edges, half) in [(&self.edges, ""), (&self.second, "half = 1\n")] {
            let mut sent = vec![0usize; self.members.len()];
            for &(from, to) in edges {
                let (sender, receiver) = (&self.members[from], &self.members[to]);
                text += &format!(
                    "\n[[edge]]\nfrom = \"{sender}\"\nto = \"{receiver}\"\norder = {}\n",
                    sent[from]
                );
                text += half;
                sent[from] += 1;
            }
        }
        text
    }
}

/// Lines of a plan's statements; empty if it was not read from a text. Plans with different
/// positions are equal.
#[derive(Clone, Debug, Default)]
struct Origin {
    file_name: Option<String>,
    heads: [Option<usize>; 4],
    edges: Vec<usize>,
}

impl PartialEq for Origin {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

impl Origin {
    pub fn new(file_name: &str, heads: [usize; 4], edges: Vec<usize>) -> Self {
        Self {
            file_name: Some(file_name.to_owned()),
            heads: heads.map(Some),
            edges,
        }
    }

    pub fn refuse_epoch(&self, problem: impl Into<SavedPlanProblem>) -> SavedPlanError {
        self.refuse(self.heads[0], problem)
    }

    pub fn refuse_root(&self, problem: impl Into<SavedPlanProblem>) -> SavedPlanError {
        self.refuse(self.heads[1], problem)
    }

    pub fn refuse_segment(&self, problem: impl Into<SavedPlanProblem>) -> SavedPlanError {
        self.refuse(self.heads[2], problem)
    }

    pub fn refuse_members(&self, problem: impl Into<SavedPlanProblem>) -> SavedPlanError {
        self.refuse(self.heads[3], problem)
    }

    pub fn members(&self) -> Option<usize> {
        self.heads[3]
    }

    pub fn edge(&self, place: usize) -> Option<usize> {
        self.edges.get(place).copied()
    }

    pub fn refuse(
        &self,
        line: Option<usize>,
        problem: impl Into<SavedPlanProblem>,
    ) -> SavedPlanError {
        let error = SavedPlanError::at(line, problem);
        match &self.file_name {
            Some(name) => error.named(name),
            None => error,
        }
    }
}

impl SavedPlan {
    fn line_of(&self, error: &PlanError) -> Option<usize> {
        let last = |wanted: &dyn Fn(usize, usize) -> bool| {
            let all: Vec<&(usize, usize)> = self.edges.iter().chain(&self.second).collect();
            let place = all.iter().rposition(|&&(from, to)| wanted(from, to))?;
            self.origin.edge(place)
        };
        match *error {
            PlanError::TwoParents { rank, second, .. } => {
                last(&|from, to| (from, to) == (second, rank))
            }
            PlanError::RootWithParent { root, .. } => last(&|_, to| to == root),
            PlanError::Circle(rank) => last(&|_, to| to == rank),
            PlanError::TooManyChildren { rank, .. } => last(&|from, _| from == rank),
            PlanError::Relayed { rank, .. } => last(&|_, to| to == rank),
            _ => self.origin.members(),
        }
    }
}

/// Treatment of a saved plan in which several hosts send over one cable at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contention {
    /// The plan is refused.
    #[default]
    Refused,
    /// The plan runs, as its author wants; the report describes the contention.
    Allowed,
}

impl SavedPlan {
    /// Checks the plan on the network it will run on, by [`check`](crate::plan::check()), before
    /// the session starts. The program and the library both use this.
    ///
    /// # Errors
    /// [`SavedPlanError`] with the line, if the topology lacks one of its hosts, or if several
    /// hosts send over one cable at a time and that is not allowed.
    pub fn admit(
        &self,
        topology: &Topology,
        contention: Contention,
    ) -> Result<CheckReport, SavedPlanError> {
        let located = self
            .members
            .iter()
            .map(|name| topology.host_named(name).ok_or(name));
        let (hosts, unknown): (Vec<_>, Vec<_>) = located.partition(Result::is_ok);
        if !unknown.is_empty() {
            let unknown: Vec<&String> = unknown.into_iter().filter_map(Result::err).collect();
            return Err(self
                .origin
                .refuse_members(SavedPlanProblem::NotInTopology(nodeset::fold(&unknown))));
        }
        let hosts: Vec<usize> = hosts.into_iter().flatten().collect();
        let plan = self
            .plan(|member| member, self.members.len())
            .map_err(|error| self.origin.refuse(self.line_of(&error), error))?;
        let report = check_message(topology, &plan, &hosts);
        let all = || self.edges.iter().chain(&self.second);
        if let Some((sender, receiver)) = report.silent_edge() {
            let place = all().position(|&edge| edge == (sender, receiver));
            let line = place.and_then(|place| self.origin.edge(place));
            let [from, to] = [sender, receiver].map(|rank| self.members[rank].clone());
            return Err(self
                .origin
                .refuse(line, SavedPlanProblem::CannotTalk { from, to }));
        }
        if report.is_contention_free() || contention == Contention::Allowed {
            return Ok(report);
        }
        let worst = all().position(|edge| report.worst_edges.contains(edge));
        let line = worst.and_then(|place| self.origin.edge(place));
        Err(self
            .origin
            .refuse(line, SavedPlanProblem::Contended(Box::new(report))))
    }

    /// Checks that relays can keep a segment: at most `most_bytes`, which depends on their feed and
    /// the payload of a frame.
    ///
    /// # Errors
    /// [`SavedPlanError`] with the line.
    pub fn check_segment(&self, most_bytes: u64) -> Result<(), SavedPlanError> {
        if self.segment_bytes <= most_bytes {
            return Ok(());
        }
        let segment_bytes = self.segment_bytes;
        Err(self.origin.refuse_segment(SavedPlanProblem::LongSegment {
            segment_bytes,
            most_bytes,
        }))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    #[serde(rename = "schema")]
    _schema: i64,
    via: Spanned<String>,
    root: Spanned<String>,
    epoch: Spanned<u32>,
    segment_bytes: Spanned<u64>,
    size_bytes: Option<u64>,
    members: Spanned<Value>,
    #[serde(default)]
    edge: Vec<EdgeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeTable {
    from: Spanned<String>,
    to: Spanned<String>,
    order: Spanned<u64>,
    half: Option<Spanned<u64>>,
}

type ProblemAt = (usize, SavedPlanProblem);

impl SavedPlan {
    /// Reads a plan file; `file_name` names it in errors.
    ///
    /// # Errors
    /// [`SavedPlanError`] with file and line, for anything that is not TOML of this form or not a
    /// plan over its members.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, SavedPlanError> {
        read(text, file_name).map_err(|error| error.named(file_name))
    }
}

fn read(text: &str, file_name: &str) -> Result<SavedPlan, SavedPlanError> {
    let file: PlanFile = source::read(text)?;
    let lines = LineStarts::of(text);
    let at = |(offset, problem)| SavedPlanError::at(lines.line_at(offset), problem);
    let saved = file.resolve(file_name, &lines).map_err(at)?;
    saved
        .plan(|member| member, saved.members.len())
        .map_err(|error| saved.origin.refuse(saved.line_of(&error), error))?;
    Ok(saved)
}

impl PlanFile {
    fn resolve(self, file_name: &str, lines: &LineStarts) -> Result<SavedPlan, ProblemAt> {
        let via: Via = self
            .via
            .get_ref()
            .parse()
            .map_err(|error| (self.via.span().start, SavedPlanProblem::Via(error)))?;
        let segment_bytes = *self.segment_bytes.get_ref();
        let is_whole =
            segment_bytes > 0 && self.size_bytes.is_some_and(|size| size <= segment_bytes);
        if segment_bytes < MIN_SEGMENT_BYTES && !is_whole {
            return Err((
                self.segment_bytes.span().start,
                SavedPlanProblem::ShortSegment(segment_bytes),
            ));
        }
        let at_members = |problem| (self.members.span().start, problem);
        let members = expand(self.members.get_ref()).map_err(at_members)?;
        let mut place_of = HashMap::with_capacity(members.len());
        for (place, name) in members.iter().enumerate() {
            if place_of.insert(name.as_str(), place).is_some() {
                return Err(at_members(SavedPlanProblem::MemberTwice(name.clone())));
            }
        }
        if !place_of.contains_key(self.root.get_ref().as_str()) {
            let problem = SavedPlanProblem::RootNotMember(self.root.get_ref().clone());
            return Err((self.root.span().start, problem));
        }
        let is_pair = via == Via::TwoTree;
        if let Some(half) = self
            .edge
            .iter()
            .filter_map(|table| table.half.as_ref())
            .find(|half| !is_pair || *half.get_ref() > 1)
        {
            return Err((half.span().start, SavedPlanProblem::Half(*half.get_ref())));
        }
        let is_second =
            |table: &&EdgeTable| table.half.as_ref().is_some_and(|half| *half.get_ref() == 1);
        let (second, first): (Vec<_>, Vec<_>) = self.edge.iter().partition(is_second);
        let (first, second) = (
            sort_edges(&first, &place_of)?,
            sort_edges(&second, &place_of)?,
        );
        let line = |offset: usize| lines.line_at(offset);
        let origin = Origin::new(
            file_name,
            [
                &self.epoch.span(),
                &self.root.span(),
                &self.segment_bytes.span(),
                &self.members.span(),
            ]
            .map(|span| line(span.start)),
            first
                .iter()
                .chain(&second)
                .map(|(.., table)| line(table.from.span().start))
                .collect(),
        );
        Ok(SavedPlan {
            via,
            edges: first.into_iter().map(|(from, to, _)| (from, to)).collect(),
            second: second.into_iter().map(|(from, to, _)| (from, to)).collect(),
            root: self.root.into_inner(),
            epoch: self.epoch.into_inner(),
            segment_bytes: self.segment_bytes.into_inner(),
            size_bytes: self.size_bytes,
            members,
            origin,
        })
    }
}

fn expand(members: &Value) -> Result<Vec<String>, SavedPlanProblem> {
    let one = |set: &Value| match set {
        Value::String(set) => nodeset::expand(set).map_err(SavedPlanProblem::NodeSet),
        other => Err(SavedPlanProblem::NoNodeSet(other.type_str())),
    };
    match members {
        Value::Array(list) => list
            .iter()
            .map(one)
            .collect::<Result<Vec<_>, _>>()
            .map(|names| names.concat()),
        set => one(set),
    }
}

fn sort_edges<'a>(
    tables: &[&'a EdgeTable],
    place_of: &HashMap<&str, usize>,
) -> Result<Vec<(usize, usize, &'a EdgeTable)>, ProblemAt> {
    let place = |name: &Spanned<String>| {
        let found = place_of.get(name.get_ref().as_str()).copied();
        found.ok_or_else(|| {
            (
                name.span().start,
                SavedPlanProblem::NotMember(name.get_ref().clone()),
            )
        })
    };
    let resolved = tables
        .iter()
        .map(|&table| Ok((place(&table.from)?, place(&table.to)?, table)));
    let mut edges = resolved.collect::<Result<Vec<_>, ProblemAt>>()?;
    edges.sort_by_key(|&(from, _, table)| (from, *table.order.get_ref()));
    for sends in edges.chunk_by(|left, right| left.0 == right.0) {
        let wrong = sends
            .iter()
            .zip(0u64..)
            .find(|((_, _, table), place)| table.order.get_ref() != place);
        if let Some((
            (
                _,
                _,
                EdgeTable {
                    from, to, order, ..
                },
            ),
            _,
        )) = wrong
        {
            let (from, to) = (from.get_ref().clone(), to.get_ref().clone());
            let problem = SavedPlanProblem::Order {
                from,
                to,
                order: *order.get_ref(),
                edges: sends.len(),
            };
            return Err((order.span().start, problem));
        }
    }
    Ok(edges)
}

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
    Order {
        from: String,
        to: String,
        order: u64,
        edges: usize,
    },
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
    #[error(
        "{from} sends to {to}, and the topology says that these two cannot talk directly; make a plan for this topology"
    )]
    CannotTalk { from: String, to: String },
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
    missing
        .into_iter()
        .chain(extra)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
