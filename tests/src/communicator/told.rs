//! What processes are told of their network.

use ethbcast_collectives::Route;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::Random;
use std::fmt::Write as _;

/// What a process is told of its network beside what all are.
#[derive(Clone, Debug)]
pub struct Told {
    /// Where the hosts are.
    pub topology: Option<Topology>,
    /// Which way broadcasts take.
    pub route: Route,
    /// Whether they may be cast.
    pub casts: bool,
    /// Whether rank 0 measures once all are there.
    pub probe: bool,
}

impl Default for Told {
    fn default() -> Told {
        Told { topology: None, route: Route::Auto, casts: true, probe: false }
    }
}

impl Told {
    /// What one of the processes on so many hosts is told, drawn from a seed: in half of all nothing, else that nothing
    /// may be cast, a way, the switches, or some of these. With switches, where the hosts are.
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

    /// What it is told, for a list of what schedules had.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let no_casts = (!self.casts).then_some("program: nothing is cast");
        let switches = self.topology.is_some().then_some("program: told the switches");
        let way = matches!(self.route, Route::Via(_)).then_some("program: told a way");
        no_casts.into_iter().chain(switches).chain(way)
    }
}

/// Hosts dealt to a tree of one to four switches.
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
