//! All cells: links by kind, direction and phase; loss; kills; outages; silences; slow hosts.

use std::time::Duration;

use ethbcast_collectives::session::kind;
use ethbcast_tests::lab::{Way, Which};
use ethbcast_transport::wire::Kind;

use super::cell::{Cell, Moment, Promise, Terms};
use super::play::ROOT;
use super::trouble::{Spread, Trouble};

/// The default host in trouble, in the middle of a chain of eight.
const RELAY: &str = "n4";
const VIAS: [&str; 2] = ["chain", "cast"];
/// Above the least MTU: all DATA but the last, no control frame of a small session.
const LARGE_BYTES: u32 = 1000;
const MAX_WAIT: Duration = Duration::from_secs(4);
/// Time that a silent host may delay the others: the dead limit and half a second.
const BRIDGED: Duration = Duration::from_millis(2000);

fn relay(name: String, via: &'static str, trouble: Trouble, terms: &Terms) -> Cell {
    let allowance = Duration::from_secs_f64(terms.stall + 3.0);
    let moment = Moment::Share(0.4);
    let (lasts, promise) = (None, Promise::Others);
    Cell { name, via, trouble, moment, lasts, host: RELAY, loss: 0.0, mtu_bytes: 1500, promise, allowance }
}

pub fn all(terms: &Terms, rate_bits_per_second: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for via in VIAS {
        cells.extend([0.0, 0.01].map(|loss| undisturbed(via, loss, terms)));
        cells.extend(links(via, terms));
        cells.push(small_port(via, terms));
        cells.extend(losses(via, terms));
        cells.extend(kills(via, terms));
        cells.extend(outages(via, terms));
        cells.extend(silences(via, terms));
        cells.extend(slow(via, terms, rate_bits_per_second));
    }
    cells
}

/// Returns a cell with loss only.
pub fn undisturbed(via: &'static str, loss: f64, terms: &Terms) -> Cell {
    let name = format!("undisturbed/loss-{}/{via}", loss * 100.0);
    Cell { loss, promise: Promise::All, ..relay(name, via, Trouble::Nothing, terms) }
}

/// All frames of one kind lost in one direction or both, from a phase on and for ever.
fn links(via: &'static str, terms: &Terms) -> Vec<Cell> {
    use Way::{Both, From, To};
    let (start, first, middle, end) = (Moment::Start, Moment::Share(0.02), Moment::Share(0.4), Moment::Share(0.97));
    let of = Which::Kind;
    let rows: [(Which, &[Way], &[Moment]); 15] = [
        (of(Kind::DATA), &[To, From], &[start, first, middle, end]),
        (of(Kind::ACK), &[To, From], &[start, first, middle, end]),
        (of(Kind::HEARTBEAT), &[To, From], &[start, middle]),
        (of(kind::ANNOUNCE), &[To], &[start]),
        (of(kind::JOIN), &[From], &[start]),
        (of(kind::VIEW), &[To], &[start, middle]),
        (of(kind::READY), &[From], &[start]),
        (of(kind::STATUS), &[From, To], &[start, middle]),
        (of(kind::DONE), &[From], &[start, middle]),
        (of(kind::VERDICT), &[To], &[start, middle]),
        (Which::Unicast, &[To, From, Both], &[start, first, middle, end]),
        (Which::Multicast, &[To, From, Both], &[start, first, middle, end]),
        (Which::All, &[To, From, Both], &[start, first, middle, end]),
        (Which::Large(LARGE_BYTES), &[To, From, Both], &[start, middle]),
        (Which::Peer("n3"), &[To, From, Both], &[start, middle, end]),
    ];
    let mut cells = Vec::new();
    for (which, ways, moments) in rows {
        for (&way, &moment) in ways.iter().flat_map(|way| moments.iter().map(move |moment| (way, moment))) {
            let name = format!("link/{}-{}/{}/{via}", which.name(), word(way), moment.name());
            let usual = relay(name, via, Trouble::Frames(which, way, 1.0), terms);
            let allowance = usual.allowance + if moment == start { MAX_WAIT } else { Duration::ZERO };
            cells.push(Cell { moment, allowance, ..usual });
        }
    }
    cells
}

fn word(way: Way) -> &'static str {
    match way {
        Way::To => "to",
        Way::From => "from",
        Way::Both => "both",
    }
}

fn small_port(via: &'static str, terms: &Terms) -> Cell {
    let trouble = Trouble::Frames(Which::Large(1500), Way::Both, 1.0);
    let usual = relay(format!("link/mtu-1500-of-9000/start/{via}"), via, trouble, terms);
    Cell { moment: Moment::Start, mtu_bytes: 9000, allowance: usual.allowance + MAX_WAIT, ..usual }
}

fn losses(via: &'static str, terms: &Terms) -> Vec<Cell> {
    let mut cells = Vec::new();
    let all = [10, 30, 60].into_iter().flat_map(|percent| [Way::To, Way::From].map(|way| (Which::All, way, percent)));
    let some = [(Which::Kind(Kind::ACK), Way::From, 50), (Which::Kind(kind::DONE), Way::From, 90)];
    for (which, way, percent) in all.chain(some) {
        let name = format!("loss/{}-{}-{percent}/{via}", which.name(), word(way));
        let trouble = Trouble::Frames(which, way, f64::from(percent) / 100.0);
        // The worst of them took four times as long in a chain.
        let allowance = Duration::from_secs(8);
        cells.push(Cell {
            moment: Moment::Start,
            promise: Promise::All,
            allowance,
            ..relay(name, via, trouble, terms)
        });
    }
    cells
}

fn kills(via: &'static str, terms: &Terms) -> Vec<Cell> {
    let patterns = [
        (Spread::Together, "together", &[1, 2, 3, 6][..]),
        (Spread::Neighbours, "neighbours", &[2, 3, 4, 6]),
        (Spread::InARow, "row", &[2, 3, 6]),
        (Spread::Apart, "apart", &[2, 3, 6]),
    ];
    let mut cells = Vec::new();
    for (loss, (spread, word, counts)) in [0.0, 0.01].into_iter().flat_map(|loss| patterns.map(|of| (loss, of))) {
        for &count in counts {
            let name = format!("kill/{word}-{count}/loss-{}/{via}", loss * 100.0);
            let bursts = if matches!(spread, Spread::Together | Spread::Neighbours) { 1 } else { count as u32 };
            let usual = relay(name, via, Trouble::Killed(count, spread), terms);
            cells.push(Cell { moment: Moment::Any, loss, allowance: BRIDGED * bursts, ..usual });
        }
    }
    for moment in [Moment::Joined, Moment::Share(0.02), Moment::Share(0.97), Moment::Share(1.0)] {
        let name = format!("kill/one/{}/{via}", moment.name());
        // At the start the root waits for a host until --max-wait.
        let allowance = if moment == Moment::Joined { MAX_WAIT + BRIDGED } else { BRIDGED };
        let trouble = Trouble::Killed(1, Spread::Neighbours);
        cells.push(Cell { moment, allowance, ..relay(name, via, trouble, terms) });
    }
    cells
}

fn outages(via: &'static str, terms: &Terms) -> Vec<Cell> {
    let troubles = [(Trouble::Port, "port"), (Trouble::Interface, "interface"), (Trouble::Stopped, "stopped")];
    let roles = [("n7", "receiver"), (RELAY, "relay"), (ROOT, "root")];
    let mut cells = Vec::new();
    for (trouble, word) in troubles {
        for (host, role) in roles {
            for seconds in [0.5, 3.0, 10.0] {
                let lasts = Duration::from_secs_f64(seconds);
                let name = format!("outage/{word}-{role}/{seconds}/{via}");
                // Without the root no host gets anything; others need not wait for a receiver.
                let allowance = if host == ROOT { lasts + BRIDGED } else { BRIDGED };
                let usual = relay(name, via, trouble, terms);
                cells.push(Cell { lasts: Some(lasts), host, promise: Promise::All, allowance, ..usual });
            }
        }
    }
    cells
}

fn silences(via: &'static str, terms: &Terms) -> Vec<Cell> {
    let troubles = [
        (Trouble::Port, "port"),
        (Trouble::Interface, "interface"),
        (Trouble::Stopped, "stopped"),
        (Trouble::PoweredOff, "powered-off"),
    ];
    let moments = [Moment::Share(0.4), Moment::Share(0.97)];
    let cell = |(trouble, word), moment: Moment| {
        let name = format!("silence/{word}/{}/{via}", moment.name());
        Cell { moment, allowance: BRIDGED, ..relay(name, via, trouble, terms) }
    };
    let root = |(trouble, word)| {
        let name = format!("silence/{word}-root/middle/{via}");
        Cell { host: ROOT, promise: Promise::End, ..relay(name, via, trouble, terms) }
    };
    let receivers = troubles.into_iter().flat_map(|trouble| moments.map(|moment| cell(trouble, moment)));
    receivers.chain(troubles.map(root)).collect()
}

fn slow(via: &'static str, terms: &Terms, rate_bits_per_second: u64) -> Vec<Cell> {
    let tenth = rate_bits_per_second / 8 / 10;
    let slow = [
        ("reader-10", Trouble::SlowReader(tenth), Promise::All),
        ("cpu-10", Trouble::LittleCpu(10), Promise::All),
        ("reader-stops-first", Trouble::StoppedReader(0), Promise::Others),
        ("reader-stops", Trouble::StoppedReader(4 << 20), Promise::Others),
        ("reader-stops-end", Trouble::StoppedReader(15 << 20), Promise::Others),
    ];
    let cell = |(word, trouble, promise)| {
        let usual = relay(format!("slow/{word}/{via}"), via, trouble, terms);
        // Slow hosts are demoted after 2 s, and delay the others by 15 % at most from then on.
        let allowance = if promise == Promise::All { Duration::from_secs(3) } else { usual.allowance };
        Cell { moment: Moment::Start, promise, allowance, ..usual }
    };
    slow.map(cell).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cells_have_one_name() {
        let cells = all(&Terms { stall: 2.0, patience: 3.0, known: true }, 100_000_000);
        let names: std::collections::BTreeSet<_> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), cells.len());
    }
}
