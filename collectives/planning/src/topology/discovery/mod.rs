//! Discovery of the switches between hosts: two flows at a time are measured, and slow each other
//! if they share a cable.
//!
//! Frames from `a` to `c` and from `b` to `d`, four hosts, share a cable if and only if a cable
//! between switches has `a` and `b` on one side and `c` and `d` on the other: the quartet *ab | cd*
//! of phylogenetics. A tree is determined by its quartets, of which only some are needed: hosts are
//! inserted one after the other, each by questions from switch to switch.
//!
//! This module measures nothing. [`Discovery::next`] returns a question, [`Discovery::record`]
//! takes the answer.
//!
//! **Limits.** Two flows cannot reveal a switch with a single host behind it, switches in a row
//! without hosts, or a cable that carries two flows at their full rates. Such switches and cables
//! are left out of the tree; they would delay no two flows.

mod sketch;
#[cfg(test)]
mod tests;

pub use sketch::Sketch;

use std::collections::BTreeMap;

/// Repeated questions for each cable and each switch of the complete tree.
const CHECKS: usize = 4;

/// Two flows: from the first of `from` to the first of `to`, and from the second to the second.
/// Four different hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Senders, by number.
    pub from: [usize; 2],
    /// Receivers, by number.
    pub to: [usize; 2],
}

/// Evidence for a cable: the repeated questions about it and the switches at its ends, and how many
/// were answered as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Answers that agree with the tree.
    pub agree: usize,
    /// Answers.
    pub asked: usize,
}

impl Support {
    /// Whether every answer agreed.
    pub fn is_high(self) -> bool {
        self.agree == self.asked
    }
}

/// Answers so far, which determine the next question.
#[derive(Clone, Debug)]
pub struct Discovery {
    hosts: usize,
    known: BTreeMap<Question, bool>,
    again: BTreeMap<Question, bool>,
}

impl Discovery {
    /// Creates an empty discovery of `hosts` hosts.
    pub fn new(hosts: usize) -> Discovery {
        Discovery { hosts, known: BTreeMap::new(), again: BTreeMap::new() }
    }

    /// Returns the next question; `None` when everything is known.
    pub fn next(&self) -> Option<Question> {
        match self.sketch() {
            Ok(sketch) => {
                let mut asked = sketch.checks(CHECKS).into_iter().map(|check| check.question);
                asked.find(|question| !self.again.contains_key(question))
            }
            Err(question) => Some(question),
        }
    }

    /// Takes the answer to the question from [`next`](Discovery::next): whether the two flows share
    /// a cable.
    pub fn record(&mut self, question: Question, share: bool) {
        let answers = if self.sketch().is_ok() { &mut self.again } else { &mut self.known };
        answers.insert(question, share);
    }

    /// Returns the number of answered questions.
    pub fn recorded(&self) -> usize {
        self.known.len() + self.again.len()
    }

    /// Returns the switches, once every host has its place.
    ///
    /// # Errors
    /// The question that has to be answered first.
    pub fn sketch(&self) -> Result<Sketch, Question> {
        Sketch::of(self.hosts, &mut |question| self.known.get(&question).copied().ok_or(question))
    }

    /// Returns how many repeated answers contradict the sketch, including those about no cable.
    pub fn contradictions(&self, sketch: &Sketch) -> usize {
        let is_wrong = |check: &sketch::Check| self.again.get(&check.question).is_some_and(|said| *said != check.share);
        sketch.checks(CHECKS).iter().filter(|check| is_wrong(check)).count()
    }

    /// Returns the evidence for a cable between two switches of the sketch.
    pub fn support(&self, sketch: &Sketch, cable: (usize, usize)) -> Support {
        let mut support = Support::default();
        for check in sketch.checks(CHECKS) {
            if check.is_about(cable) {
                support.asked += 1;
                support.agree += usize::from(self.again.get(&check.question) == Some(&check.share));
            }
        }
        support
    }
}
