//! Figure 4 of Mateescu and Taylor: a broadcast of 100 000 bytes over the number of processors.
//!
//! Their nine processors were those of five workstations, two on one local network and three on another, four of them
//! with two processors each; ranks go round the workstations. Here each processor has a cable of its own.

use super::figure::{Figure, Panel};
use super::runs::{Run, Site};
use super::said::Said;
use crate::papers::Cluster;
use ethbcast_planning::plan::Via;

const BYTES: u64 = 100_000;
const WORKSTATIONS: [(usize, usize); 5] = [(0, 2), (1, 2), (1, 2), (0, 2), (1, 1)];

pub fn processors() -> Figure {
    let line = |name: &str, via: Via| -> super::Line {
        let run = move |ranks: u64| Run {
            site: Site::File(format!("two-networks-{ranks}"), topology(ranks as usize)),
            network: Cluster::Fast,
            via,
            bytes: BYTES,
            segment_bytes: None,
        };
        (name.to_owned(), Box::new(run))
    };
    let panel = Panel {
        letter: "",
        title: "Figure 4 of Mateescu and Taylor: 100 000 bytes to processors on two networks, 100 Mbit/s".to_owned(),
        axis: "processors",
        points: (2..=9).collect(),
        lines: vec![
            line("proposed method (latency)", Via::Latency),
            line("MPI_Bcast (binomial)", Via::Binomial),
            line("linear", Via::Chain),
        ],
    };
    Figure {
        name: "mateescu4",
        title: "Figure 4 of Mateescu and Taylor: broadcast time over the number of processors",
        panels: vec![panel],
        said: |panels| {
            let (method, mpich) = ("proposed method (latency)", "MPI_Bcast (binomial)");
            let (least, _) = panels[0].ratios(mpich, method, |ranks| ranks >= 6)?;
            Ok(vec![Said::new(
                "with more processors the method outperforms MPI_Bcast, MPI_Bcast / method from 6 on at least",
                least,
                1.0..=f64::INFINITY,
            )])
        },
    }
}

fn topology(processors: usize) -> String {
    let rounds = (0..2).flat_map(|round| WORKSTATIONS.iter().filter(move |(_, has)| *has > round));
    let networks: Vec<usize> = rounds.map(|&(network, _)| network).take(processors).collect();
    let hosts = |network: usize| {
        let names =
            networks.iter().enumerate().filter(|(_, other)| **other == network).map(|(rank, _)| format!("n{rank}"));
        names.collect::<Vec<_>>().join(",")
    };
    format!(
        "schema = 1\n[[switch]]\nname = \"here\"\nhosts = \"{}\"\nlinks = [\"there\"]\n[[switch]]\nname = \
         \"there\"\nhosts = \"{}\"\n",
        hosts(0),
        hosts(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_planning::topology::Topology;

    #[test]
    fn nine_processors_are_those_of_five_workstations() {
        let topology = Topology::parse(&topology(9), "two").expect("a tree");
        let on = |switch| topology.hosts_on(switch).count();
        assert_eq!((topology.hosts().len(), on(0), on(1)), (9, 4, 5));
        assert!(Topology::parse(&super::topology(2), "two").is_ok_and(|two| two.cables().len() == 1));
    }
}
