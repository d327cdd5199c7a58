//! The communicator on real frames: the library's calls from threads in network namespaces, and its
//! examples.

mod calls;
mod examples;
mod links;
mod mistakes;
mod nodes;

use ethbcast_collectives::communicator::{Communicator, Options};
use ethbcast_tests::lab::Site;
use std::thread;
use std::time::Duration;

fn on_all<T: Send>(site: &Site, size: u16, rank: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    on_all_with(site, size, &options(), rank)
}

fn on_all_with<T: Send>(site: &Site, size: u16, options: &Options, rank: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|number| {
                let rank = &rank;
                scope.spawn(move || {
                    let host = format!("n{number}");
                    let work = || {
                        let options =
                            Options { interface: Some("eth0".into()), host: Some(host.clone()), ..options.clone() };
                        let all = Communicator::join_with("test", size, &options)
                            .unwrap_or_else(|error| panic!("{host}: {error}"));
                        assert_eq!(all.rank(), number, "ranks follow the hosts' names");
                        rank(&all)
                    };
                    site.lab().run_on(&host, work).expect("the lab has this host")
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn options() -> Options {
    Options { join_within: Duration::from_secs(20), call_within: Duration::from_secs(20), ..Options::default() }
}
