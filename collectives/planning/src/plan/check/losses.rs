//! Localisation of lossy cables from the losses measured on the paths that cross them.
//!
//! Hosts see losses from one host to another, with several cables in between. A cable cannot lose
//! more than the path across it with the least loss. Of the remaining cables, the one that explains
//! most losses is the likeliest, whichever direction fails.

use super::CableEnd;
use super::Meter;
use crate::topology::Topology;

/// Frames that went from one host to another, by their ids in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    pub from: usize,
    pub to: usize,
    pub frames: u64,
    pub lost: u64,
}

/// Cables of which one or more lose this share of frames; the observations do not distinguish them.
/// Each is given by its two ends, the one farther from the middle of the network first.
#[derive(Clone, Debug, PartialEq)]
pub struct LossyCables {
    pub cables: Vec<(CableEnd, CableEnd)>,
    pub loss: f64,
    pub lost: u64,
}

/// Share of the worst loss at a cable below which another receiver has a different cause.
const AS_MUCH: f64 = 0.5;

/// Returns the cables that lose at least the share `least` of the frames that cross them, those
/// with the most lost frames first.
pub fn lossy_cables(topology: &Topology, passages: &[Passage], least: f64) -> Vec<LossyCables> {
    let (meter, hosts) = (Meter::new(topology), topology.hosts().len());
    let is_there =
        |one: &&Passage| one.from < hosts && one.to < hosts && one.from != one.to && one.frames > 0;
    let ways: Vec<Way> = passages
        .iter()
        .filter(is_there)
        .map(|&passage| Way::across(topology, &meter, passage))
        .collect();
    let bounds = bounds(&ways, topology);
    let suspects = |way: &Way| -> Vec<usize> {
        let loses = |&&cable: &&usize| bounds[cable] >= way.loss() * AS_MUCH;
        way.cables
            .iter()
            .filter(loses)
            .map(|&cable| meter.undirected(topology, cable))
            .collect()
    };
    let mut open: Vec<(&Way, Vec<usize>)> = ways
        .iter()
        .filter(|way| way.loss() >= least)
        .map(|way| (way, suspects(way)))
        .collect();
    let mut found = Vec::new();
    while let Some(cables) = likeliest(&open) {
        let (explained, rest): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|(_, suspects)| suspects.contains(&cables[0]));
        let frames: u64 = explained.iter().map(|(way, _)| way.passage.frames).sum();
        let lost: u64 = explained.iter().map(|(way, _)| way.passage.lost).sum();
        let cables = cables
            .iter()
            .map(|&cable| meter.ends(topology, cable))
            .collect();
        found.push(LossyCables {
            cables,
            loss: lost as f64 / frames as f64,
            lost,
        });
        open = rest;
    }
    found.sort_by_key(|lossy| std::cmp::Reverse(lossy.lost));
    found
}

struct Way {
    passage: Passage,
    cables: Vec<usize>,
}

impl Way {
    fn across(topology: &Topology, meter: &Meter, passage: Passage) -> Way {
        let mut cables = Vec::new();
        meter.walk(topology, passage.from, passage.to, |cable| {
            cables.push(cable)
        });
        Way { passage, cables }
    }

    fn loss(&self) -> f64 {
        self.passage.lost as f64 / self.passage.frames as f64
    }
}

fn bounds(ways: &[Way], topology: &Topology) -> Vec<f64> {
    let mut bounds = vec![1.0_f64; 2 * (topology.hosts().len() + topology.switches().len())];
    for way in ways {
        way.cables
            .iter()
            .for_each(|&cable| bounds[cable] = bounds[cable].min(way.loss()));
    }
    bounds
}

/// Returns the cable that explains most losses, and the cables that explain the same ones. `None`
/// if no loss remains to be explained.
fn likeliest(open: &[(&Way, Vec<usize>)]) -> Option<Vec<usize>> {
    let mut all: Vec<usize> = open
        .iter()
        .flat_map(|(_, suspects)| suspects.iter().copied())
        .collect();
    all.sort_unstable();
    all.dedup();
    let explained = |cable: usize| -> Vec<usize> {
        (0..open.len())
            .filter(|&at| open[at].1.contains(&cable))
            .collect()
    };
    let lost = |ways: &[usize]| -> u64 { ways.iter().map(|&at| open[at].0.passage.lost).sum() };
    let most = all
        .iter()
        .map(|&cable| explained(cable))
        .rev()
        .max_by_key(|ways| lost(ways))?;
    all.retain(|&cable| explained(cable) == most);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arbitrary::topology;
    use proptest::prelude::*;

    fn two() -> Topology {
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
                    \"s1\"\nhosts = \"n[2-4]\"\n";
        Topology::parse(text, "two").expect("a topology")
    }

    fn passages(list: &[(usize, usize, u64)]) -> Vec<Passage> {
        list.iter()
            .map(|&(from, to, lost)| Passage {
                from,
                to,
                frames: 1000,
                lost,
            })
            .collect()
    }

    fn found(list: &[(usize, usize, u64)]) -> Vec<String> {
        let name = |(one, other): &(CableEnd, CableEnd)| format!("{}-{}", one.name(), other.name());
        let lossy = lossy_cables(&two(), &passages(list), 0.01);
        let text = |one: &LossyCables| {
            let cables: Vec<String> = one.cables.iter().map(name).collect();
            format!("{} {:.3}", cables.join("|"), one.loss)
        };
        lossy.iter().map(text).collect()
    }

    #[test]
    fn a_cable_that_is_shared_by_the_ways_that_lose_is_named_and_one_that_others_cross_well_is_not()
    {
        // A cast: each receiver has its own cable.
        assert_eq!(
            found(&[(0, 1, 0), (0, 2, 1), (0, 3, 20), (0, 4, 0)]),
            ["n3-s1 0.020"]
        );
        assert_eq!(
            found(&[(0, 1, 0), (0, 2, 21), (0, 3, 20), (0, 4, 19)]),
            ["s1-s0 0.020"]
        );
        assert_eq!(
            found(&[(0, 1, 0), (0, 2, 20), (0, 3, 20), (0, 4, 0)]),
            ["n2-s1 0.020", "n3-s1 0.020"]
        );
        assert_eq!(
            found(&[(0, 1, 20), (0, 2, 21), (0, 3, 20), (0, 4, 19)]),
            ["n0-s0 0.020"]
        );
        // A chain: a host receives and forwards over one cable.
        assert_eq!(
            found(&[(0, 1, 0), (1, 2, 0), (2, 3, 20), (3, 4, 22)]),
            ["n3-s1 0.021"]
        );
        assert_eq!(
            found(&[(0, 1, 0), (1, 2, 0), (2, 3, 20), (3, 4, 0)]),
            ["n2-s1|n3-s1 0.020"]
        );
        assert_eq!(
            found(&[(0, 1, 0), (1, 2, 100), (2, 3, 100), (3, 4, 30)]),
            ["n2-s1 0.100", "n3-s1|n4-s1 0.030"]
        );
        assert_eq!(
            found(&[(0, 1, 9), (1, 2, 0)]),
            Vec::<String>::new(),
            "too little to be anything"
        );
    }

    #[test]
    fn invalid_counts_are_no_losses() {
        let none: [&[Passage]; 3] = [
            &[],
            &[
                Passage {
                    from: 0,
                    to: 0,
                    frames: 10,
                    lost: 10,
                },
                Passage {
                    from: 0,
                    to: 99,
                    frames: 10,
                    lost: 10,
                },
            ],
            &[Passage {
                from: 0,
                to: 1,
                frames: 0,
                lost: 10,
            }],
        ];
        none.iter()
            .for_each(|passages| assert_eq!(lossy_cables(&two(), passages, 0.01), []));
    }

    proptest! {
        #[test]
        fn the_one_cable_that_loses_is_among_those_that_are_named_whatever_the_network(
            (topology, rank) in topology(6, 12).prop_flat_map(|topology| {
                let hosts = topology.hosts().len();
                (Just(topology), 0..hosts)
            }),
        ) {
            // A cast from the first host, and the cable of one receiver loses a tenth.
            let hosts = topology.hosts().len();
            prop_assume!(hosts > 2 && rank > 0);
            let lost = |to| if to == rank { 100 } else { 0 };
            let list: Vec<_> = (1..hosts).map(|to| (0, to, lost(to))).collect();
            let found = lossy_cables(&topology, &passages(&list), 0.01);
            prop_assert_eq!(found.len(), 1);
            let own = CableEnd::Host(topology.hosts()[rank].clone());
            prop_assert!(found[0].cables.iter().any(|(one, _)| *one == own), "{:?}", found);
        }
    }
}
