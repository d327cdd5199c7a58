//! Partial result of a discovery: a tree of switches with numbered hosts.

use super::Question;
use crate::topology::nodeset;
use std::collections::BTreeSet;

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
pub(super) struct Check {
    pub question: Question,
    pub share: bool,
    about: (usize, usize),
}

impl Check {
    pub(super) fn is_about(&self, cable: (usize, usize)) -> bool {
        let (one, other) = self.about;
        self.about == cable || one == other && (one == cable.0 || one == cable.1)
    }
}

impl Sketch {
    /// Inserts `hosts` hosts into a tree, asking of two flows at a time whether they share a cable.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) fn of<E>(hosts: usize, ask: &mut impl FnMut(Question) -> Result<bool, E>) -> Result<Sketch, E> {
        // Three hosts are on one switch: two flows cannot tell more.
        let mut sketch = Sketch { switches: vec![Switch { hosts: (0..hosts.min(3)).collect(), ..Switch::default() }] };
        (3..hosts).try_for_each(|host| sketch.place(host, ask))?;
        Ok(sketch)
    }

    fn place<E>(&mut self, host: usize, ask: &mut impl FnMut(Question) -> Result<bool, E>) -> Result<(), E> {
        let (mut at, mut from) = (0, None);
        'switch: loop {
            // Whether it is before this switch: the previous one is then behind it.
            if let Some(before) = from
                && self.leans(host, at, Branch::Switch(before), ask)?
            {
                let between = self.split(at, Branch::Switch(before));
                self.switches[between].hosts.insert(host);
                return Ok(());
            }
            for branch in self.branches(at).into_iter().filter(|branch| from.map(Branch::Switch) != Some(*branch)) {
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

    /// Whether a new host is in the direction of a branch of a switch, behind a cable: it and one
    /// host behind the branch share a cable on their way to two others.
    fn leans<E>(
        &self,
        host: usize,
        at: usize,
        branch: Branch,
        ask: &mut impl FnMut(Question) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let one = |branch| self.behind(at, branch)[0];
        let mut others = self.branches(at).into_iter().filter(|other| *other != branch).map(one);
        let (Some(c), Some(d)) = (others.next(), others.next()) else { return Ok(false) };
        ask(Question { from: [host, one(branch)], to: [c, d] })
    }

    fn split(&mut self, at: usize, branch: Branch) -> usize {
        let new = self.switches.len();
        self.switches.push(Switch { links: BTreeSet::from([at]), ..Switch::default() });
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
        links.iter().map(|&link| Branch::Switch(link)).chain(hosts.iter().map(|&host| Branch::Host(host))).collect()
    }

    fn behind(&self, at: usize, branch: Branch) -> Vec<usize> {
        let next = match branch {
            Branch::Host(host) => return vec![host],
            Branch::Switch(next) => next,
        };
        let (mut hosts, mut ways) = (Vec::new(), vec![(at, next)]);
        while let Some((from, to)) = ways.pop() {
            hosts.extend(&self.switches[to].hosts);
            ways.extend(self.switches[to].links.iter().filter(|&&link| link != from).map(|&link| (to, link)));
        }
        hosts
    }

    /// Returns the cables between switches, each once.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        let of = |(at, switch): (usize, &Switch)| switch.links.range(at..).map(move |&to| (at, to)).collect::<Vec<_>>();
        self.switches.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the hosts on either side of a cable, which identify it whatever the switches are
    /// called.
    pub fn sides(&self, (one, other): (usize, usize)) -> [Vec<usize>; 2] {
        let side = |at, to| {
            let mut hosts = self.behind(at, Branch::Switch(to));
            hosts.sort_unstable();
            hosts
        };
        [side(other, one), side(one, other)]
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// Returns questions about each cable, whose flows share it or stay on its sides, and about
    /// each switch with four branches, whose flows share none.
    pub(super) fn checks(&self, each: usize) -> Vec<Check> {
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
                let (from, to) = if turn % 2 == 0 { (&near, &far) } else { (&far, &near) };
                let question = Question { from: pair(from, turn), to: pair(to, turn) };
                add(Check { question, share: true, about: (one, other) });
                // Flows that stay on either side share none; this reveals networks where all flows
                // slow each other.
                let [(a, b), (c, d)] = [pair(&near, turn), pair(&far, turn)].map(|[one, other]| (one, other));
                let question = Question { from: [a, c], to: [b, d] };
                add(Check { question, share: false, about: (one, other) });
            }
        }
        for at in 0..self.switches.len() {
            let ways = self.ways(at, None);
            for turn in (0..each).filter(|_| ways.len() >= 4) {
                let question = Question {
                    from: [pick(&ways, turn, 0), pick(&ways, turn, 1)],
                    to: [pick(&ways, turn, 2), pick(&ways, turn, 3)],
                };
                add(Check { question, share: false, about: (at, at) });
            }
        }
        checks
    }

    fn ways(&self, at: usize, but: Option<usize>) -> Vec<Vec<usize>> {
        let ways = self.branches(at).into_iter().filter(|branch| but.map(Branch::Switch) != Some(*branch));
        ways.map(|branch| self.behind(at, branch)).collect()
    }

    /// Writes the topology as a file; `say` returns a comment for each cable.
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
                    text += &format!("  \"s{to}\",{}{said}\n", if said.is_empty() { "" } else { "  # " });
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
