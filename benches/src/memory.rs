//! Buffer memory of a broadcast at the root: the EQA paper's §4.2 by its formula, and ours counted
//! from live streams.
//!
//! Only the simulated broadcasts, which show the effect of losses, send anything.

use std::time::Duration;

use anyhow::ensure;
use ethbcast_bench::chart::{Series, line_chart};
use ethbcast_bench::table::Table;
use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Memory, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Identity, Peer, Rank, StreamId, group_mac};
use ethbcast_transport::{Instant, Tuning};

use crate::results::Output;

const SIZES: [usize; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// The paper's sizes of a send-only directed point, a receive-only one and a lightweight one, in
/// kilobytes.
const PAPER: Sizes = Sizes { send: 33.8, receive: 41.4, light: 4.4 };
/// The factor the paper prints before (1 − 1/n).
const PAPERS_FACTOR: f64 = 0.386;
const PAYLOAD_BYTES: usize = 1468;
const LIMIT_BYTES: usize = 4096;
/// Loss at each receiver in the simulated broadcasts; the next constant is that behind a bad cable.
const LOSS: f64 = 0.01;
const BAD_LOSS: f64 = 0.3;
/// Frames of the simulated broadcasts, twice a feed; the payload does not affect the memory for
/// losses.
const SIMULATED_FRAMES: u64 = 8192;
const SIMULATED_PAYLOAD_BYTES: usize = 16;
/// Larger groups are not simulated: their receivers' feeds would take gigabytes.
const SIMULATED_NODES: usize = 256;

/// Computes the paper's memory and ours.
pub fn memory() -> anyhow::Result<Output> {
    let rows = SIZES.iter().map(|&nodes| Row::measure(nodes)).collect::<anyhow::Result<Vec<_>>>()?;
    let text = format!(
        "{}\n{}\n{}\n{}\n{}",
        paper_text(),
        paper().aligned(),
        ours_text(&rows),
        ours(&rows).aligned(),
        bad_cable_text()?
    );
    let is_met = rows.iter().all(Row::is_within);
    Ok(Output { name: "memory".to_owned(), text, csv: csv(&rows), more: vec![("svg".to_owned(), svg(&rows))], is_met })
}

struct Sizes {
    send: f64,
    receive: f64,
    light: f64,
}

impl Sizes {
    fn channels(&self, nodes: usize) -> f64 {
        (self.send + self.receive) * nodes as f64
    }

    fn shared(&self, nodes: usize) -> f64 {
        self.send + (nodes - 1) as f64 * self.light + nodes as f64 * self.receive
    }

    fn saved_percent(&self, nodes: usize) -> f64 {
        100.0 * (1.0 - self.shared(nodes) / self.channels(nodes))
    }
}

fn published_percent(nodes: usize) -> f64 {
    100.0 * PAPERS_FACTOR * (1.0 - 1.0 / nodes as f64)
}

struct Row {
    nodes: usize,
    shared: Memory,
    channels_bytes: usize,
    receiver_bytes: usize,
    peak_added_bytes: Option<usize>,
}

impl Row {
    fn measure(nodes: usize) -> anyhow::Result<Self> {
        // One channel at a time: the buffers of 1023 together would take six gigabytes.
        let channel =
            |host| Stream::origin(identity(0), PAYLOAD_BYTES, &Outlet::Lanes(vec![peer(host)]), Tuning::default());
        Ok(Self {
            nodes,
            shared: cast(nodes, PAYLOAD_BYTES).memory(),
            channels_bytes: (1..nodes).map(|host| channel(host).memory().total_bytes()).sum(),
            receiver_bytes: receiver(1, PAYLOAD_BYTES).memory().total_bytes(),
            peak_added_bytes: (nodes <= SIMULATED_NODES).then(|| peak_added_bytes(nodes, LOSS)).transpose()?,
        })
    }

    fn receivers(&self) -> usize {
        self.nodes - 1
    }

    fn saved_percent(&self) -> f64 {
        100.0 * (1.0 - self.shared.total_bytes() as f64 / self.channels_bytes as f64)
    }

    fn cluster_saved_percent(&self) -> f64 {
        let receivers = self.receivers() * self.receiver_bytes;
        100.0 * (1.0 - (self.shared.total_bytes() + receivers) as f64 / (self.channels_bytes + receivers) as f64)
    }

    fn each_bytes(&self) -> f64 {
        self.shared.added_bytes() as f64 / self.receivers() as f64
    }

    fn peak_each_bytes(&self) -> Option<f64> {
        self.peak_added_bytes.map(|bytes| bytes as f64 / self.receivers() as f64)
    }

    /// Whether the root keeps to the buffer and 4 KiB for each receiver.
    fn is_within(&self) -> bool {
        self.shared.added_bytes().max(self.peak_added_bytes.unwrap_or(0)) <= self.receivers() * LIMIT_BYTES
    }
}

fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

fn identity(host: usize) -> Identity {
    Identity {
        session: 42,
        stream: StreamId(1),
        rank: Rank(host as u16),
        mac: host_mac(host),
        ether_type: EtherType::DEFAULT,
    }
}

fn cast(nodes: usize, payload_bytes: usize) -> Stream {
    let outlet = Outlet::Cast { group: group_mac("memory"), listeners: (1..nodes).map(peer).collect() };
    Stream::origin(identity(0), payload_bytes, &outlet, Tuning::default())
}

fn receiver(host: usize, payload_bytes: usize) -> Stream {
    Stream::receiver(identity(host), payload_bytes, peer(0), &Outlet::Lanes(Vec::new()), Tuning::default())
}

/// Broadcasts on a simulated switch at 1 Gbit/s with losses, the first receiver with its own;
/// returns the maximum that the receivers added at the root.
fn peak_added_bytes(nodes: usize, loss_at_first: f64) -> anyhow::Result<usize> {
    let settings = HostSettings { groups: vec![group_mac("memory")], ..HostSettings::default() };
    let network = Network::star(nodes, Cable::GIGABIT, &settings);
    let receivers = (1..nodes).map(|host| receiver(host, SIMULATED_PAYLOAD_BYTES));
    let machines = std::iter::once(cast(nodes, SIMULATED_PAYLOAD_BYTES)).chain(receivers).map(Alone::new).collect();
    let mut simulation = Simulation::new(&network, machines, RandomFaults::new(1).loss(LOSS).loss_at(1, loss_at_first));
    let (mut pushed, mut peak) = (0, 0);
    let outcome = simulation.run(Instant::START + Duration::from_secs(60), |host, machine, now| {
        let stream = &mut machine.part;
        if host == 0 {
            let ending = |pushed| if pushed + 1 == SIMULATED_FRAMES { Ending::Stream } else { Ending::None };
            while pushed < SIMULATED_FRAMES && stream.push(&[0; SIMULATED_PAYLOAD_BYTES], ending(pushed)) {
                pushed += 1;
            }
            peak = peak.max(stream.memory().added_bytes());
        }
        while stream.peek().is_some() {
            stream.consume(now);
        }
        None
    });
    ensure!(outcome.is_quiet(), "the simulated broadcast to {} receivers did not end: {outcome:?}", nodes - 1);
    Ok(peak)
}

fn paper_text() -> String {
    let Sizes { send, receive, light } = PAPER;
    format!(
        "EQA §4.2: a cluster of n nodes keeps n (S_SDP + S_RDP) with a buffer per channel and S_SDP + (n - 1) S_LDP + \
         n S_RDP with\n\
         a shared one; S_SDP = {send} KB, S_RDP = {receive} KB, S_LDP = {light} KB. The paper prints a saving of \
         {PAPERS_FACTOR} (1 - 1/n); its\n\
         own sizes give {:.3} (1 - 1/n): its four numbers do not quite fit together.\n",
        (send - light) / (send + receive)
    )
}

fn paper() -> Table {
    let mut table = Table::new(&["nodes", "channels KB", "shared KB", "saved %", "as printed %"]);
    for nodes in SIZES {
        let kilobytes = [PAPER.channels(nodes), PAPER.shared(nodes)].map(|kilobytes| format!("{kilobytes:.1}"));
        let percents = [PAPER.saved_percent(nodes), published_percent(nodes)].map(|percent| format!("{percent:.1}"));
        table.push([nodes.to_string()].into_iter().chain(kilobytes).chain(percents).collect());
    }
    table
}

fn ours_text(rows: &[Row]) -> String {
    let Memory { payload_bytes, slots_bytes, stamps_bytes, stream_bytes, .. } = rows[0].shared;
    format!(
        "Ours, counted from live streams: a feed of {} slots of {PAYLOAD_BYTES} bytes; one cast to n - 1 receivers \
         (shared) against n - 1\n\
         streams of one lane, each with a feed (channels). The buffer: {payload_bytes} bytes of payload, {slots_bytes} \
         for what the feed knows of\n\
         its slots, {stamps_bytes} of stamps, {stream_bytes} for the stream itself. Beside it each receiver adds at \
         rest what \"each\" says, and at\n\
         most \"peak each\" on average while {SIMULATED_FRAMES} frames are broadcast in the simulator and every \
         receiver loses {:.0} % of them\n\
         (not simulated above {SIMULATED_NODES} nodes); the limit is {LIMIT_BYTES}. \"cluster\" counts the receivers' \
         own buffers too, as the paper does.\n",
        payload_bytes / PAYLOAD_BYTES,
        100.0 * LOSS,
    )
}

fn bad_cable_text() -> anyhow::Result<String> {
    let (alone, among) = (peak_added_bytes(2, BAD_LOSS)?, peak_added_bytes(16, BAD_LOSS)?);
    Ok(format!(
        "The limit holds for a bad cable, too: a receiver that loses {:.0} % adds up to {alone} bytes if it is alone; \
         with 14 good ones\n\
         all add {among}.\n",
        100.0 * BAD_LOSS,
    ))
}

const MEBIBYTE: f64 = (1 << 20) as f64;

fn ours(rows: &[Row]) -> Table {
    let mut table =
        Table::new(&["nodes", "channels MiB", "shared MiB", "saved %", "cluster %", "each B", "peak each B", "within"]);
    for row in rows {
        table.push(vec![
            row.nodes.to_string(),
            format!("{:.2}", row.channels_bytes as f64 / MEBIBYTE),
            format!("{:.2}", row.shared.total_bytes() as f64 / MEBIBYTE),
            format!("{:.1}", row.saved_percent()),
            format!("{:.1}", row.cluster_saved_percent()),
            format!("{:.0}", row.each_bytes()),
            row.peak_each_bytes().map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
            if row.is_within() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

/// Kilobytes are the paper's, of 1000 or 1024 bytes: it does not say.
const CSV_HEADING: &str = "nodes,paper_channels_kilobytes,paper_shared_kilobytes,paper_saved_percent,\
    paper_printed_percent,channels_bytes,shared_payload_bytes,shared_slots_bytes,shared_stamps_bytes,\
    shared_stream_bytes,shared_readers_bytes,shared_repairs_bytes,shared_peak_added_bytes,receiver_bytes,\
    saved_percent,cluster_saved_percent";

fn csv(rows: &[Row]) -> Table {
    let mut table = Table::under(CSV_HEADING);
    for row in rows {
        let nodes = row.nodes;
        let Memory { payload_bytes, slots_bytes, stamps_bytes, readers_bytes, repairs_bytes, stream_bytes, .. } =
            row.shared;
        let bytes =
            [row.channels_bytes, payload_bytes, slots_bytes, stamps_bytes, stream_bytes, readers_bytes, repairs_bytes];
        let paper = [PAPER.channels(nodes), PAPER.shared(nodes), PAPER.saved_percent(nodes), published_percent(nodes)];
        let mut cells = vec![nodes.to_string()];
        cells.extend(paper.map(|value| format!("{value:.2}")));
        cells.extend(bytes.map(|value| value.to_string()));
        cells.push(row.peak_added_bytes.map_or(String::new(), |bytes| bytes.to_string()));
        cells.push(row.receiver_bytes.to_string());
        cells.extend([row.saved_percent(), row.cluster_saved_percent()].map(|value| format!("{value:.2}")));
        table.push(cells);
    }
    table
}

fn svg(rows: &[Row]) -> String {
    let line = |name: &str, percent: &dyn Fn(&Row) -> f64| {
        // With one receiver there is nothing to share, and a cast keeps slightly more state for it
        // than a lane: drawn as no saving.
        Series::new(name, rows.iter().map(|row| (row.nodes as f64, percent(row).max(0.0))).collect::<Vec<_>>())
    };
    let series = [
        line("ours, root", &Row::saved_percent),
        line("ours, cluster", &Row::cluster_saved_percent),
        line("EQA, by its sizes", &|row| PAPER.saved_percent(row.nodes)),
        line("EQA, as printed", &|row| published_percent(row.nodes)),
    ];
    line_chart("Memory saved by one shared buffer (EQA, Figure 6)", "nodes", "saved, %", &series, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figure_is_reproduced_at_128_nodes() {
        assert_eq!(format!("{:.1}", published_percent(128)), "38.3");
        // The paper's own sizes give half a point more.
        assert_eq!(format!("{:.1}", PAPER.saved_percent(128)), "38.8");
        assert_eq!(PAPER.saved_percent(1), 0.0);
    }

    #[test]
    fn at_128_nodes_98_percent_are_saved_and_each_receiver_adds_less_than_4_kib() -> anyhow::Result<()> {
        let row = Row::measure(128)?;
        assert!(row.saved_percent() >= 98.0, "{}", row.saved_percent());
        assert!(row.is_within(), "{} bytes each, {:?} at most", row.each_bytes(), row.peak_each_bytes());
        assert!(row.peak_each_bytes() > Some(row.each_bytes()), "losses must be remembered somewhere");
        Ok(())
    }
}
