//! Network configuration of processes.

use ethbcast_collectives::Route;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::Random;
use std::fmt::Write as _;

/// A process's own knowledge of its network, beside the common one.
#[derive(Clone, Debug)]
pub struct Told {
    /// The switches with their hosts.
    pub topology: Option<Topology>,
    pub route: Route,
    /// Whether broadcasts may be cast.
    pub casts: bool,
    /// Whether rank 0 measures once all ranks are there.
    pub probe: bool,
}

impl Default for Told {
    fn default() -> Told {
        Told { topology: None, route: Route::Auto, casts: true, probe: false }
    }
}

impl Told {
    /// Draws a configuration for a process: the default in half of the cases, else without casts,
    /// with a fixed route, with the switches, or a combination. With switches it also returns the
    /// topology.
    pub fn drawn(seed: u64, hosts: usize) -> (Told, Option<Topology>) {
        let mut random = Random::new(seed ^ 0x746F_6C64);
        let kind = random.below(16);
        let told = Told { casts: !matches!(kind, 8..12), ..Told::default() };
        let topology = matches!(kind, 9..14).then(|| switches(&mut random, hosts));
        let ways: Vec<Via> = Via::every().filter(|way| told.casts || *way != Via::Cast).collect();
        let way = ways[random.below(ways.len() as u64) as usize];
        let route = if matches!(kind, 11..) { Route::Via(way) } else { Route::Auto };
        (Told { topology: topology.clone(), route, ..told }, topology)
    }

    /// Returns the names of its deviations, for a summary of schedules.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let no_casts = (!self.casts).then_some("program: nothing is cast");
        let switches = self.topology.is_some().then_some("program: told the switches");
        let way = matches!(self.route, Route::Via(_)).then_some("program: told a way");
        no_casts.into_iter().chain(switches).chain(way)
    }
}

fn switches(random: &mut Random, hosts: usize) -> Topology {
    let switches = 1 + random.below(4);
    let places: Vec<u64> = (0..hosts).map(|_| random.below(switches)).collect();
    let mut text = "schema = 1\n".to_owned();
    for switch in 0..switches {
        let own = (0..hosts).filter(|&host| places[host] == switch).map(|host| host.to_string());
        let own = own.collect::<Vec<_>>().join(",");
        write!(text, "[[switch]]\nname = \"s{switch}\"\n").expect("there is room");
        if !own.is_empty() {
            writeln!(text, "hosts = \"n[{own}]\"").expect("there is room");
        }
        if switch > 0 {
            writeln!(text, "links = [\"s{}\"]", random.below(switch)).expect("there is room");
        }
    }
    Topology::parse(&text, "drawn").unwrap_or_else(|error| panic!("{error}:\n{text}"))
}
