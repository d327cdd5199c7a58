//! The cost of each way to move frames: rings, calls, busy poll, buffers and the qdisc, at three
//! MTUs.
//!
//! `cargo run --release -p ethbcast-benches --bin drivers`, as root. One hop of a lab: every way of
//! receiving beside the port's way of sending, then every way of sending beside the port's way of
//! receiving. On a veth the sender's CPU time includes carrying the frame to the receiver's socket.

use std::time::Duration;

use clap::Parser;
use ethbcast_benches::cluster::bring_up_as;
use ethbcast_benches::drivers::{Receiving, Sending, measure};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::table::Table;
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;

/// Compare ways of moving frames over one veth hop; needs root.
#[derive(Debug, Parser)]
#[command(name = "drivers")]
struct Arguments {
    /// Time that each of them sends, in milliseconds.
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=600_000))]
    milliseconds: u64,
    /// MTUs.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1500,9000,65535",
        value_parser = clap::value_parser!(u32).range(576..=65_535)
    )]
    mtu: Vec<u32>,
    /// Print CSV instead of the table.
    #[arg(long)]
    csv: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let interrupt = Interrupt::hold()?;
    let mut table = Table::under("MTU, receiving, sending, frames/s, Gbit/s, send µs, receive µs, lost %, remark");
    let others = Sending::ALL.into_iter().skip(1).map(|sending| (Receiving::Ring, sending));
    let pairs: Vec<_> = Receiving::ALL.into_iter().map(|receiving| (receiving, Sending::Port)).chain(others).collect();
    for &mtu_bytes in &arguments.mtu {
        let topology = Topology::single_switch(["n0", "n1"].map(String::from))?;
        let name = format!("drivers{}", std::process::id());
        let lab = bring_up_as(LabConfig { name, mtu_bytes, ..LabConfig::new(topology) })?;
        for &(receiving, sending) in &pairs {
            interrupt.check()?;
            let time = Duration::from_millis(arguments.milliseconds);
            let (figures, remark) = match measure(&lab, receiving, sending, mtu_bytes as usize, time) {
                Ok(rate) => {
                    let gigabits = rate.frames_per_second * f64::from(mtu_bytes + 14) * 8e-9;
                    let figures = [
                        format!("{:.0}", rate.frames_per_second),
                        format!("{gigabits:.2}"),
                        format!("{:.2}", rate.sender_micros),
                        format!("{:.2}", rate.receiver_micros),
                        format!("{:.1}", rate.lost * 100.0),
                    ];
                    (figures, String::new())
                }
                // A feature that the kernel lacks gets a row, too.
                Err(error) => (std::array::from_fn(|_| "-".to_owned()), format!("{error:#}")),
            };
            let mut row = vec![mtu_bytes.to_string(), receiving.to_string(), sending.to_string()];
            row.extend(figures);
            row.push(remark);
            table.push(row);
        }
    }
    if arguments.csv {
        print!("{}", table.csv());
    } else {
        println!("{} ms each, one hop:\n\n{}", arguments.milliseconds, table.aligned());
        println!("frames/s: received; µs: CPU time of the thread for each frame sent or received.");
    }
    Ok(())
}
