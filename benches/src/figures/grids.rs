//! Messages and lines of the figures.

use super::figure::Line;
use super::runs::{Run, Site};
use crate::papers::Cluster;
use ethbcast_planning::plan::Via;

const KIB: u64 = 1 << 10;

pub fn doubling(from_kib: u64, to_kib: u64) -> Vec<u64> {
    std::iter::successors(Some(from_kib), |kib| Some(kib * 2))
        .take_while(|&kib| kib <= to_kib)
        .map(|kib| kib * KIB)
        .collect()
}

pub fn line(name: &str, site: Site, network: Cluster, via: Via) -> Line {
    of_each(name, site, network, move |_| via)
}

pub fn of_each(name: &str, site: Site, network: Cluster, via: impl Fn(u64) -> Via + 'static) -> Line {
    let run = move |bytes| Run { site: site.clone(), network, via: via(bytes), bytes, segment_bytes: None };
    (name.to_owned(), Box::new(run))
}

/// T(msize): one message between two hosts, which the papers measure as half of a ping-pong.
pub fn one_to_one(network: Cluster) -> Line {
    line("pingpong/2", Site::Switch(2), network, Via::Flat)
}

/// MPICH 2-1.0.1 by §5: a binomial tree; at 1000 Mbit/s from 32 KiB on scatter and recursive
/// doubling; from 512 KiB on scatter and a ring.
pub fn mpich(site: Site, network: Cluster) -> Line {
    of_each("MPICH", site, network, move |bytes| match bytes / KIB {
        512.. => Via::ScatterAllgather,
        32.. if network == Cluster::Gigabit => Via::RecursiveDoubling,
        _ => Via::Binomial,
    })
}
