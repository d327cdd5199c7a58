//! Line numbers of the statements in a saved plan, for errors found after parsing.

use super::{SavedPlan, SavedPlanError, SavedPlanProblem};
use crate::plan::error::PlanError;

/// Lines of a plan's statements; empty if it was not read from a text. Plans with different
/// positions are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
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
        Self { file_name: Some(file_name.to_owned()), heads: heads.map(Some), edges }
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

    pub fn refuse(&self, line: Option<usize>, problem: impl Into<SavedPlanProblem>) -> SavedPlanError {
        let error = SavedPlanError::at(line, problem);
        match &self.file_name {
            Some(name) => error.named(name),
            None => error,
        }
    }
}

impl SavedPlan {
    pub(super) fn line_of(&self, error: &PlanError) -> Option<usize> {
        let last = |wanted: &dyn Fn(usize, usize) -> bool| {
            let place = self.edges.iter().rposition(|&(from, to)| wanted(from, to))?;
            self.origin.edge(place)
        };
        match *error {
            PlanError::TwoParents { rank, second, .. } => last(&|from, to| (from, to) == (second, rank)),
            PlanError::RootWithParent { root, .. } => last(&|_, to| to == root),
            PlanError::Circle(rank) => last(&|_, to| to == rank),
            PlanError::TooManyChildren { rank, .. } => last(&|from, _| from == rank),
            PlanError::Relayed { rank, .. } => last(&|_, to| to == rank),
            _ => self.origin.members(),
        }
    }
}
