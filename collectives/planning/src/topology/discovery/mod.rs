//! The switches between hosts, found by asking of two flows at a time whether they slow each other.
//!
//! Frames from `a` to `c` and from `b` to `d`, four hosts, meet on a cable if and only if a cable between switches has
//! `a` and `b` on one side and `c` and `d` on the other: the quartet *ab | cd* of phylogenetics. A tree is known by its
//! quartets, and they need not all be asked: hosts are put into it one after the other, each asking its way from switch
//! to switch.
//!
//! Nothing here measures. [`Discovery::next`] says what to find out, [`Discovery::answer`] takes it.
//!
//! **What no two flows can tell.** A switch with a single host behind it is a longer cable of that host; switches in a
//! row without hosts are one cable; and so is nothing what carries two flows at their full rates. Such switches and
//! cables are left out of the tree, in which they would hold up no two flows.

mod sketch;
#[cfg(test)]
mod tests;

pub use sketch::Sketch;

use std::collections::BTreeMap;

/// How often the tree is asked for each cable and each switch again, once it is there.
const CHECKS: usize = 4;

/// Two flows: from the first of `from` to the first of `to`, and from the second to the second. Four different hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Who sends, by number.
    pub from: [usize; 2],
    /// Who receives.
    pub to: [usize; 2],
}

/// What speaks for a cable: of the questions that were asked again once the tree was there, about it and the switches
/// at its ends, so many were answered as they must be.
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

/// What is known so far, and so what to ask next.
#[derive(Clone, Debug)]
pub struct Discovery {
    hosts: usize,
    known: BTreeMap<Question, bool>,
    /// What was asked again when the tree was there.
    again: BTreeMap<Question, bool>,
}

impl Discovery {
    /// Nothing is known of so many hosts.
    pub fn new(hosts: usize) -> Discovery {
        Discovery { hosts, known: BTreeMap::new(), again: BTreeMap::new() }
    }

    /// What is to be found out next; `None` when all is known.
    pub fn next(&self) -> Option<Question> {
        match self.sketch() {
            Ok(sketch) => {
                let mut asked = sketch.checks(CHECKS).into_iter().map(|check| check.question);
                asked.find(|question| !self.again.contains_key(question))
            }
            Err(question) => Some(question),
        }
    }

    /// Takes what [`next`](Discovery::next) asked for: whether the two flows share a cable.
    pub fn answer(&mut self, question: Question, share: bool) {
        let answers = if self.sketch().is_ok() { &mut self.again } else { &mut self.known };
        answers.insert(question, share);
    }

    /// Questions that were answered.
    pub fn answered(&self) -> usize {
        self.known.len() + self.again.len()
    }

    /// The switches, once every host has its place.
    ///
    /// # Errors
    /// The question on which that depends.
    pub fn sketch(&self) -> Result<Sketch, Question> {
        Sketch::of(self.hosts, &mut |question| self.known.get(&question).copied().ok_or(question))
    }

    /// How many answers to what was asked again contradict the sketch, those included that are about no cable.
    pub fn contradictions(&self, sketch: &Sketch) -> usize {
        let is_wrong = |check: &sketch::Check| self.again.get(&check.question).is_some_and(|said| *said != check.share);
        sketch.checks(CHECKS).iter().filter(|check| is_wrong(check)).count()
    }

    /// What speaks for a cable between two switches of the sketch.
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
