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

use super::origin::Origin;
use super::{SavedPlan, SavedPlanError, SavedPlanProblem};
use crate::plan::MIN_SEGMENT_BYTES;
use crate::plan::via::Via;
use crate::schema::{self, LineStarts};
use crate::topology::nodeset;
use serde::Deserialize;
use std::collections::HashMap;
use toml::{Spanned, Value};

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
    let file: PlanFile = schema::read(text)?;
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
        let via: Via =
            self.via.get_ref().parse().map_err(|error| (self.via.span().start, SavedPlanProblem::Via(error)))?;
        let segment_bytes = *self.segment_bytes.get_ref();
        let is_whole = segment_bytes > 0 && self.size_bytes.is_some_and(|size| size <= segment_bytes);
        if segment_bytes < MIN_SEGMENT_BYTES && !is_whole {
            return Err((self.segment_bytes.span().start, SavedPlanProblem::ShortSegment(segment_bytes)));
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
        let sorted = sort_edges(&self.edge, &place_of)?;
        let line = |offset: usize| lines.line_at(offset);
        let origin = Origin::new(
            file_name,
            [&self.epoch.span(), &self.root.span(), &self.segment_bytes.span(), &self.members.span()]
                .map(|span| line(span.start)),
            sorted.iter().map(|(.., table)| line(table.from.span().start)).collect(),
        );
        Ok(SavedPlan {
            via,
            edges: sorted.into_iter().map(|(from, to, _)| (from, to)).collect(),
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
        Value::Array(list) => list.iter().map(one).collect::<Result<Vec<_>, _>>().map(|names| names.concat()),
        set => one(set),
    }
}

fn sort_edges<'a>(
    tables: &'a [EdgeTable],
    place_of: &HashMap<&str, usize>,
) -> Result<Vec<(usize, usize, &'a EdgeTable)>, ProblemAt> {
    let place = |name: &Spanned<String>| {
        let found = place_of.get(name.get_ref().as_str()).copied();
        found.ok_or_else(|| (name.span().start, SavedPlanProblem::NotMember(name.get_ref().clone())))
    };
    let resolved = tables.iter().map(|table| Ok((place(&table.from)?, place(&table.to)?, table)));
    let mut edges = resolved.collect::<Result<Vec<_>, ProblemAt>>()?;
    edges.sort_by_key(|&(from, _, table)| (from, *table.order.get_ref()));
    for sends in edges.chunk_by(|left, right| left.0 == right.0) {
        let wrong = sends.iter().zip(0u64..).find(|((_, _, table), place)| table.order.get_ref() != place);
        if let Some(((_, _, EdgeTable { from, to, order }), _)) = wrong {
            let (from, to) = (from.get_ref().clone(), to.get_ref().clone());
            let problem = SavedPlanProblem::Order { from, to, order: *order.get_ref(), edges: sends.len() };
            return Err((order.span().start, problem));
        }
    }
    Ok(edges)
}
