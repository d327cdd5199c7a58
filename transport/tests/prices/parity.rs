//! Test scenarios, for the cost in frames, in which a broadcast sends parity for losses at several
//! receivers.

use crate::case::Path;
use crate::hazards::{both, cut_off, delay_each, lose_new, lose_twice};
use crate::scenario::{Scenario, scenario};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::RandomFaults;
use ethbcast_transport::wire::Kind;
use std::time::Duration;

fn blocks(name: &str, path: Path, hosts: usize, frames: u64) -> Scenario {
    scenario(&format!("parity, {name}"), path, hosts, frames)
        .by(Tuning::default(), 256)
        .tuned(|tuning| tuning.cast.parity_block_frames = 32)
}

fn little(host: usize, frame: u64) -> bool {
    (frame * 7 + host as u64 * 13).is_multiple_of(25)
}

pub fn parity() -> Vec<Scenario> {
    let cast = |name: &str, frames| blocks(name, Path::TunedCast, 8, frames);
    let messy = RandomFaults::new(7).loss(0.08).duplicate(0.05).reorder(0.05, Duration::from_micros(900));
    let mut all = vec![
        cast("nothing lost", 300),
        cast("1 % lost", 500).loss(0.01),
        cast("10 % lost", 400).loss(0.1),
        cast("30 % lost", 300).loss(0.3),
        cast("8 % lost, 5 % twice, 5 % late", 300).faults(messy),
        cast("5 % damaged", 300).faults(RandomFaults::new(8).corrupt(0.05)),
        cast("messages of 3, 5 % lost", 90).messages(3).loss(0.05),
        cast("messages of 50, 5 % lost", 300).messages(50).loss(0.05),
        cast("host h lacks every 16th frame from h on", 320).faults(lose_new(|host, frame| frame % 16 == host as u64)),
        cast("host h lacks frame h of each block, twice", 320)
            .faults(lose_twice(|host, frame| frame % 32 == host as u64)),
        cast("all lose frames 40 to 70", 200).faults(lose_new(|_, frame| (40..70).contains(&frame))),
        cast("hosts 1 and 2 lose the last 9 frames, differently", 200)
            .faults(lose_new(|host, frame| host < 3 && frame > 190 && frame % 2 == host as u64 % 2)),
        cast("host 2 alone loses 10 %", 300).faults(RandomFaults::new(4).loss_at(2, 0.1)),
        cast("host 2 cut off from 3 to 9 ms, others lose a little", 400)
            .faults(both(cut_off(2, 3_000..9_000), lose_new(little))),
        cast("every third acknowledgement 6 ms late, all lose a little", 300)
            .faults(both(delay_each(3, Kind::ACK, Duration::from_millis(6)), lose_new(little))),
        cast("every 4th parity frame 2 ms late, all lose a little", 300)
            .faults(both(delay_each(4, Kind::PARITY, Duration::from_millis(2)), lose_new(little))),
        cast("host 3 takes 40 frames each 30 ms, 4 % lost", 300).rests(3, 40, 30_000).loss(0.04),
        cast("host 5 is 3 ms away, 4 % lost", 400).cable(5, 100, 3_000).loss(0.04),
        cast("host 4 behind 20 Mbit/s, 4 % lost", 300).cable(4, 20, 20).loss(0.04),
    ];
    all.push(blocks("three listeners, 5 % lost", Path::Cast, 4, 300).loss(0.05));
    all.push(blocks("one listener, 10 % lost", Path::TunedCast, 2, 300).loss(0.1));
    all.push(blocks("one acknowledges for all, 3 % lost", Path::TunedCast, 20, 400).loss(0.03));
    all.push(blocks("an ack tree, 5 % lost", Path::AckTree(2), 7, 300).loss(0.05));
    all
}
