//! Inference of which hosts share a switch, from measurements whether two simultaneous flows slow
//! each other.
//!
//! Frames from `a` to `c` and from `b` to `d`, four hosts, share a cable if and only if a cable
//! between switches has `a` and `b` on one side and `c` and `d` on the other: the quartet *ab | cd*
//! of phylogenetics. A tree is determined by its quartets, of which only some are needed: hosts are
//! inserted one after the other, each by tests from switch to switch.
//!
//! The caller measures: [`Discovery::next`] returns a question, [`Discovery::record`]
//! takes the answer.
//!
//! **Limits.** Two flows cannot reveal a switch with a single host behind it, switches in a row
//! without hosts, or a cable that carries two flows at their full rates. Such switches and cables
//! are omitted from the tree; they would delay no two flows.

use super::nodeset;
use std::collections::{BTreeMap, BTreeSet};

/// Repeated questions for each cable and each switch of the complete tree.
const CHECKS: usize = 4;

/// Two flows among four different hosts: from the first of `from` to the first of `to`, and from
/// the second to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    pub from: [usize; 2],
    pub to: [usize; 2],
}

/// Evidence for a cable: the number of repeated questions about it and the switches at its ends,
/// and the number of answers as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    pub agree: usize,
    pub asked: usize,
}

impl Support {
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
    pub fn new(hosts: usize) -> Discovery {
        Discovery {
            hosts,
            known: BTreeMap::new(),
            again: BTreeMap::new(),
        }
    }

    /// Returns the next question; `None` when everything is known.
    pub fn next(&self) -> Option<Question> {
        match self.sketch() {
            Ok(sketch) => {
                let mut asked = sketch
                    .checks(CHECKS)
                    .into_iter()
                    .map(|check| check.question);
                asked.find(|question| !self.again.contains_key(question))
            }
            Err(question) => Some(question),
        }
    }

    /// Takes the answer to the question from [`next`](Discovery::next): whether the two flows share
    /// a cable.
    pub fn record(&mut self, question: Question, share: bool) {
        let answers = if self.sketch().is_ok() {
            &mut self.again
        } else {
            &mut self.known
        };
        answers.insert(question, share);
    }

    pub fn recorded(&self) -> usize {
        self.known.len() + self.again.len()
    }

    /// Returns the switches, once every host has been inserted.
    ///
    /// # Errors
    /// The question that must be answered first.
    pub fn sketch(&self) -> Result<Sketch, Question> {
        Sketch::of(self.hosts, &mut |question| {
            self.known.get(&question).copied().ok_or(question)
        })
    }

    /// Returns how many repeated answers contradict the sketch, including those about no cable.
    pub fn contradictions(&self, sketch: &Sketch) -> usize {
        let is_wrong = |check: &Check| {
            self.again
                .get(&check.question)
                .is_some_and(|said| *said != check.share)
        };
        sketch
            .checks(CHECKS)
            .iter()
            .filter(|check| is_wrong(check))
            .count()
    }

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

/// Switches, the hosts on each, and the cables between them. Every switch has three neighbours at
/// least, unless it is the only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    switches: Vec<Switch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Switch {
    hosts: BTreeSet<usize>,
    links: BTreeSet<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    Host(usize),
    Switch(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Check {
    pub question: Question,
    pub share: bool,
    about: (usize, usize),
}

impl Check {
    fn is_about(&self, cable: (usize, usize)) -> bool {
        let (one, other) = self.about;
        self.about == cable || one == other && (one == cable.0 || one == cable.1)
    }
}

impl Sketch {
    /// Inserts `hosts` hosts into a tree; `ask` tests whether two flows share a cable.
    ///
    /// # Errors
    /// Those of `ask`.
    fn of<E>(hosts: usize, ask: &mut impl FnMut(Question) -> Result<bool, E>) -> Result<Sketch, E> {
        // Three hosts are on one switch: two flows cannot show more.
        let mut sketch = Sketch {
            switches: vec![Switch {
                hosts: (0..hosts.min(3)).collect(),
                ..Switch::default()
            }],
        };
        (3..hosts).try_for_each(|host| sketch.place(host, ask))?;
        Ok(sketch)
    }

    fn place<E>(
        &mut self,
        host: usize,
        ask: &mut impl FnMut(Question) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (mut at, mut from) = (0, None);
        'switch: loop {
            // Whether the host is before this switch: the previous one is then behind it.
            if let Some(before) = from
                && self.leans(host, at, Branch::Switch(before), ask)?
            {
                let between = self.split(at, Branch::Switch(before));
                self.switches[between].hosts.insert(host);
                return Ok(());
            }
            for branch in self
                .branches(at)
                .into_iter()
                .filter(|branch| from.map(Branch::Switch) != Some(*branch))
            {
                if !self.leans(host, at, branch, ask)? {
                    continue;
                }
                match branch {
                    Branch::Switch(next) => {
                        (at, from) = (next, Some(at));
                        continue 'switch;
                    }
                    Branch::Host(_) => {
                        let between = self.split(at, branch);
                        self.switches[between].hosts.insert(host);
                        return Ok(());
                    }
                }
            }
            self.switches[at].hosts.insert(host);
            return Ok(());
        }
    }

    /// Whether a new host is in the direction of a branch of a switch, behind a cable: the host and
    /// one behind the branch share a cable on their path to two others.
    fn leans<E>(
        &self,
        host: usize,
        at: usize,
        branch: Branch,
        ask: &mut impl FnMut(Question) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let one = |branch| self.behind(at, branch)[0];
        let mut others = self
            .branches(at)
            .into_iter()
            .filter(|other| *other != branch)
            .map(one);
        let (Some(c), Some(d)) = (others.next(), others.next()) else {
            return Ok(false);
        };
        ask(Question {
            from: [host, one(branch)],
            to: [c, d],
        })
    }

    fn split(&mut self, at: usize, branch: Branch) -> usize {
        let new = self.switches.len();
        self.switches.push(Switch {
            links: BTreeSet::from([at]),
            ..Switch::default()
        });
        match branch {
            Branch::Host(host) => {
                self.switches[at].hosts.remove(&host);
                self.switches[new].hosts.insert(host);
            }
            Branch::Switch(other) => {
                self.switches[at].links.remove(&other);
                self.switches[other].links.remove(&at);
                self.switches[other].links.insert(new);
                self.switches[new].links.insert(other);
            }
        }
        self.switches[at].links.insert(new);
        new
    }

    fn branches(&self, at: usize) -> Vec<Branch> {
        let Switch { hosts, links } = &self.switches[at];
        links
            .iter()
            .map(|&link| Branch::Switch(link))
            .chain(hosts.iter().map(|&host| Branch::Host(host)))
            .collect()
    }

    fn behind(&self, at: usize, branch: Branch) -> Vec<usize> {
        let next = match branch {
            Branch::Host(host) => return vec![host],
            Branch::Switch(next) => next,
        };
        let (mut hosts, mut ways) = (Vec::new(), vec![(at, next)]);
        while let Some((from, to)) = ways.pop() {
            hosts.extend(&self.switches[to].hosts);
            ways.extend(
                self.switches[to]
                    .links
                    .iter()
                    .filter(|&&link| link != from)
                    .map(|&link| (to, link)),
            );
        }
        hosts
    }

    pub fn cables(&self) -> Vec<(usize, usize)> {
        let of = |(at, switch): (usize, &Switch)| {
            switch
                .links
                .range(at..)
                .map(move |&to| (at, to))
                .collect::<Vec<_>>()
        };
        self.switches.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the hosts on either side of a cable, which identify the cable independently of the
    /// switches' names.
    pub fn sides(&self, (one, other): (usize, usize)) -> [Vec<usize>; 2] {
        let side = |at, to| {
            let mut hosts = self.behind(at, Branch::Switch(to));
            hosts.sort_unstable();
            hosts
        };
        [side(other, one), side(one, other)]
    }

    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// Returns questions about each cable, whose flows share it or stay on its sides, and about
    /// each switch with four branches, whose flows share none.
    fn checks(&self, each: usize) -> Vec<Check> {
        let mut checks: Vec<Check> = Vec::new();
        let mut add = |check: Check| {
            if !checks.iter().any(|other| other.question == check.question) {
                checks.push(check);
            }
        };
        for (one, other) in self.cables() {
            // Two pairs from different branches of each end share this cable, and no other.
            let (near, far) = (self.ways(one, Some(other)), self.ways(other, Some(one)));
            let pair = |ways: &[Vec<usize>], turn| [pick(ways, turn, 0), pick(ways, turn, 1)];
            for turn in 0..each {
                let (from, to) = if turn % 2 == 0 {
                    (&near, &far)
                } else {
                    (&far, &near)
                };
                let question = Question {
                    from: pair(from, turn),
                    to: pair(to, turn),
                };
                add(Check {
                    question,
                    share: true,
                    about: (one, other),
                });
                // Flows that stay on either side share none; this reveals networks where all flows
                // slow each other.
                let [(a, b), (c, d)] =
                    [pair(&near, turn), pair(&far, turn)].map(|[one, other]| (one, other));
                let question = Question {
                    from: [a, c],
                    to: [b, d],
                };
                add(Check {
                    question,
                    share: false,
                    about: (one, other),
                });
            }
        }
        for at in 0..self.switches.len() {
            let ways = self.ways(at, None);
            for turn in (0..each).filter(|_| ways.len() >= 4) {
                let question = Question {
                    from: [pick(&ways, turn, 0), pick(&ways, turn, 1)],
                    to: [pick(&ways, turn, 2), pick(&ways, turn, 3)],
                };
                add(Check {
                    question,
                    share: false,
                    about: (at, at),
                });
            }
        }
        checks
    }

    fn ways(&self, at: usize, but: Option<usize>) -> Vec<Vec<usize>> {
        let ways = self
            .branches(at)
            .into_iter()
            .filter(|branch| but.map(Branch::Switch) != Some(*branch));
        ways.map(|branch| self.behind(at, branch)).collect()
    }

    /// Writes the topology as a file; `say` returns the comment of each cable.
    ///
    /// # Panics
    /// If there are fewer names than hosts.
    pub fn to_toml(&self, names: &[String], say: impl Fn((usize, usize)) -> String) -> String {
        let mut text = String::from("schema = 1\n");
        for (at, switch) in self.switches.iter().enumerate() {
            text += &format!("\n[[switch]]\nname = \"s{at}\"\n");
            let hosts: Vec<&String> = switch.hosts.iter().map(|&host| &names[host]).collect();
            if !hosts.is_empty() {
                text += &format!("hosts = \"{}\"\n", nodeset::fold(&hosts));
            }
            let links: Vec<usize> = switch.links.range(at..).copied().collect();
            if !links.is_empty() {
                text += "links = [\n";
                for to in links {
                    let said = say((at, to));
                    text += &format!(
                        "  \"s{to}\",{}{said}\n",
                        if said.is_empty() { "" } else { "  # " }
                    );
                }
                text += "]\n";
            }
        }
        text
    }
}

fn pick(ways: &[Vec<usize>], turn: usize, step: usize) -> usize {
    let way = &ways[(turn + step) % ways.len()];
    way[turn % way.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arbitrary::topology;
    use crate::topology::{Topology, Walk};
    use proptest::prelude::*;

    /// Returns the hosts on the far side of each cable that two flows can reveal: at least two
    /// hosts on either side.
    fn splits(topology: &Topology) -> BTreeSet<BTreeSet<usize>> {
        let mut splits = BTreeSet::new();
        for &(one, other) in topology.cables() {
            let walk = Walk::from(topology, one);
            let is_beyond = |host: &usize| {
                let mut switch = topology.switch_of(*host);
                while switch != other {
                    match walk.above()[switch] {
                        Some(above) => switch = above,
                        None => return false,
                    }
                }
                true
            };
            let beyond: BTreeSet<usize> = (0..topology.hosts().len()).filter(is_beyond).collect();
            splits.insert(side_without_the_first(beyond, topology.hosts().len()));
        }
        splits.retain(|split| split.len() >= 2 && topology.hosts().len() - split.len() >= 2);
        splits
    }

    fn side_without_the_first(side: BTreeSet<usize>, hosts: usize) -> BTreeSet<usize> {
        if side.contains(&0) {
            (0..hosts).filter(|host| !side.contains(host)).collect()
        } else {
            side
        }
    }

    fn splits_of(sketch: &Sketch, hosts: usize) -> BTreeSet<BTreeSet<usize>> {
        let cables = sketch.cables();
        cables
            .into_iter()
            .map(|cable| {
                side_without_the_first(BTreeSet::from_iter(sketch.sides(cable)[0].clone()), hosts)
            })
            .collect()
    }

    fn share(splits: &BTreeSet<BTreeSet<usize>>, Question { from, to }: Question) -> bool {
        let parts = |split: &BTreeSet<usize>| {
            let [a, b, c, d] = [from[0], from[1], to[0], to[1]].map(|host| split.contains(&host));
            a == b && c == d && a != c
        };
        splits.iter().any(parts)
    }

    fn discover(hosts: usize, mut answer: impl FnMut(usize, Question) -> bool) -> Discovery {
        let mut discovery = Discovery::new(hosts);
        while let Some(question) = discovery.next() {
            let four = BTreeSet::from_iter(question.from.into_iter().chain(question.to));
            assert!(
                four.len() == 4 && four.iter().all(|&host| host < hosts),
                "{question:?}"
            );
            discovery.record(question, answer(discovery.recorded(), question));
            assert!(
                discovery.recorded() <= hosts * hosts * 4,
                "too many questions for {hosts} hosts"
            );
        }
        discovery
    }

    proptest! {
        #[test]
        fn every_tree_is_found_as_far_as_two_flows_can_show(topology in topology(7, 24)) {
            let (hosts, truth) = (topology.hosts().len(), splits(&topology));
            let discovery = discover(hosts, |_, question| share(&truth, question));
            let sketch = discovery.sketch().expect("all is known");
            prop_assert_eq!(splits_of(&sketch, hosts), truth);
            for cable in sketch.cables() {
                let support = discovery.support(&sketch, cable);
                prop_assert!(support.is_high() && support.asked > 0, "{:?}", support);
            }
            let written = sketch.to_toml(topology.hosts(), |_| String::new());
            let found = Topology::parse(&written, "found").expect("a topology");
            prop_assert_eq!(splits(&found), splits(&topology));
        }

        #[test]
        fn a_wrong_answer_is_not_vouched_for(topology in topology(5, 14), wrong: prop::sample::Index) {
            let (hosts, truth) = (topology.hosts().len(), splits(&topology));
            let questions = discover(hosts, |_, question| share(&truth, question)).recorded();
            prop_assume!(questions > 0);
            let wrong = wrong.index(questions);
            let discovery = discover(hosts, |number, question| share(&truth, question) != (number == wrong));
            let sketch = discovery.sketch().expect("all is known");
            let is_right = splits_of(&sketch, hosts) == truth;
            let all_high = sketch.cables().into_iter().all(|cable| discovery.support(&sketch, cable).is_high());
            // A surplus cable is contradicted when its question is repeated; a missing one may
            // leave no question.
            let has_more = splits_of(&sketch, hosts).len() > truth.len();
            prop_assert!(is_right || !all_high || !has_more, "{sketch:?} for {truth:?}");
            prop_assert!(all_high || discovery.contradictions(&sketch) > 0);
        }

        #[test]
        fn where_all_flows_slow_each_other_no_result_is_sure(hosts in 4..20_usize) {
            let discovery = discover(hosts, |_, _| true);
            let sketch = discovery.sketch().expect("all is known");
            prop_assert!(!sketch.cables().is_empty() && discovery.contradictions(&sketch) > 0, "{:?}", sketch);
            prop_assert!(sketch.cables().into_iter().all(|cable| !discovery.support(&sketch, cable).is_high()));
        }
    }

    #[test]
    fn the_number_of_questions_is_as_documented() {
        let text = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=['b', 'c']}, {name='b', hosts='n[4-7]'}, \
                {name='c', hosts='n[8-11]', links=['d']}, {name='d', hosts='n[12-15]'}]";
        let topology = Topology::parse(text, "four").expect("a topology");
        let truth = splits(&topology);
        assert_eq!(truth.len(), 3);
        let asked = discover(16, |_, question| share(&truth, question)).recorded();
        assert!((50..=130).contains(&asked), "{asked} questions");
        for hosts in 0..4 {
            let discovery = Discovery::new(hosts);
            assert_eq!(discovery.next(), None, "{hosts} hosts: nothing can be told");
            assert_eq!(discovery.sketch().expect("known").switches(), 1);
        }
    }

    #[test]
    fn the_written_topology_has_the_confidence_of_each_cable() {
        let text = "schema = 1\nswitch = [{name='a', hosts='n[0-1]', links=['b']}, {name='b', hosts='n[2-3]'}]";
        let topology = Topology::parse(text, "two").expect("a topology");
        let truth = splits(&topology);
        let discovery = discover(4, |_, question| share(&truth, question));
        let sketch = discovery.sketch().expect("all is known");
        let file = sketch.to_toml(topology.hosts(), |_| "sure".to_owned());
        assert!(file.contains("\"s1\",  # sure"), "{file}");
        assert_eq!(
            splits(&Topology::parse(&file, "found").expect("a topology")),
            truth
        );
    }
}
