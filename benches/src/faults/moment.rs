//! Hosts and moments of a cell's trouble, drawn from a seed where the cell leaves them open.

use std::time::Duration;

use ethbcast_transport::sim::Random;

use super::cell::{Cell, Moment};
use super::trouble::{IN_A_ROW, Spread, Trouble};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Due {
    Start,
    Joined,
    /// The root has sent this share of the file, this long ago.
    Share(f64, Duration),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub host: String,
    pub due: Due,
}

pub fn events(cell: &Cell, receivers: usize, seed: u64) -> Vec<Event> {
    // Different cells get different hosts from a seed.
    let digest = blake3::hash(cell.name.as_bytes());
    let [a, b, c, d, ..] = *digest.as_bytes();
    let mut random = Random::new(seed ^ u64::from(u32::from_be_bytes([a, b, c, d])) << 32);
    match cell.trouble {
        Trouble::Nothing => Vec::new(),
        Trouble::Killed(count, spread) if cell.moment == Moment::Any => {
            killed(count.min(receivers), spread, receivers, &mut random)
        }
        _ => vec![Event { host: cell.host.to_owned(), due: due(cell.moment, &mut random) }],
    }
}

fn due(moment: Moment, random: &mut Random) -> Due {
    match moment {
        Moment::Start => Due::Start,
        Moment::Joined => Due::Joined,
        Moment::Share(share) => Due::Share(share, Duration::ZERO),
        Moment::Any => any(random),
    }
}

/// Draws a moment from the first frame to 50 ms after the last.
fn any(random: &mut Random) -> Due {
    let at = 0.002 + 1.048 * random.unit();
    Due::Share(at.min(1.0), Duration::from_secs_f64((at - 1.0).max(0.0)))
}

fn killed(count: usize, spread: Spread, receivers: usize, random: &mut Random) -> Vec<Event> {
    let chosen: Vec<usize> = match spread {
        Spread::Neighbours | Spread::InARow => {
            let first = 1 + random.below((receivers - count + 1) as u64) as usize;
            (first..first + count).collect()
        }
        Spread::Together | Spread::Apart => {
            let mut hosts: Vec<usize> = (1..=receivers).collect();
            (0..count).map(|_| hosts.swap_remove(random.below(hosts.len() as u64) as usize)).collect()
        }
    };
    let first = any(random);
    let event = |(number, host): (usize, usize)| {
        let due = match (spread, first) {
            (Spread::Apart, _) => any(random),
            (Spread::InARow, Due::Share(share, after)) => Due::Share(share, after + IN_A_ROW * number as u32),
            _ => first,
        };
        Event { host: format!("n{host}"), due }
    };
    chosen.into_iter().enumerate().map(event).collect()
}
