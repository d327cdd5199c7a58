//! Costs of a frame: this project's AF_PACKET driver beside `pnet::datalink`, over one hop of a
//! lab.
//!
//! `cargo run --release -p ethbcast-benches --bin frames`, as root. Each driver sends as fast as it
//! can from one thread and receives in another. On a veth the sender's CPU time includes carrying
//! the frame to the receiver's socket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use ethbcast_benches::cluster::{INTERFACE, bring_up};
use ethbcast_benches::ends::{End, HEADER_BYTES, OurEnd, PnetEnd, frame_to};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::table::Table;
use ethbcast_lab::Lab;
use ethbcast_transport::packet::Interface;
use nix::time::ClockId;

const GRACE: Duration = Duration::from_millis(100);

/// Compare this project's AF_PACKET driver with pnet's datalink channel over one veth hop; needs root.
#[derive(Debug, Parser)]
#[command(name = "frames")]
struct Arguments {
    /// Time that each of them sends.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Bytes of a frame behind the Ethernet header.
    #[arg(long, default_value_t = 1500, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(46..=1500))]
    payload: u16,
    /// Print CSV instead of the table.
    #[arg(long)]
    csv: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let interrupt = Interrupt::hold()?;
    let lab = bring_up("frames", 2, None)?;
    let [from, to] = lab.hosts().try_into().ok().context("the lab has two hosts")?;
    let hop = Hop {
        lab: &lab,
        from,
        to,
        time: Duration::from_secs(arguments.seconds),
        payload_bytes: arguments.payload.into(),
    };
    let ours = hop.measure::<OurEnd>()?;
    interrupt.check()?;
    let pnets = hop.measure::<PnetEnd>()?;
    drop(lab);
    print(&arguments, &ours, &pnets);
    Ok(())
}

struct Hop<'a> {
    lab: &'a Lab,
    from: String,
    to: String,
    time: Duration,
    payload_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    frames: u64,
    cpu: Duration,
}

impl Work {
    fn measure(work: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Work> {
        let clock = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from);
        let before = clock()?;
        let frames = work()?;
        Ok(Work { frames, cpu: clock()? - before })
    }
}

struct Measured {
    sender: Work,
    receiver: Work,
}

impl Hop<'_> {
    fn measure<E: End + Send>(&self) -> anyhow::Result<Measured> {
        let mac = self.lab.run_on(&self.to, || Interface::find(Some(INTERFACE)))??.mac;
        let receiving = self.lab.run_on(&self.to, E::open)??;
        let sending = self.lab.run_on(&self.from, E::open)??;
        let frame = frame_to(mac, self.payload_bytes);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| Work::measure(|| receiving.receive(&over)));
            let sender = scope
                .spawn(|| Work::measure(|| sending.send(&frame, self.time)))
                .join()
                .expect("the sender does not panic");
            thread::sleep(GRACE);
            over.store(true, Ordering::Release);
            let receiver = receiver.join().expect("the receiver does not panic");
            Ok(Measured { sender: sender?, receiver: receiver? })
        })
    }
}

fn print(arguments: &Arguments, ours: &Measured, pnets: &Measured) {
    let micros = |work: Work| work.cpu.as_secs_f64() * 1e6 / work.frames.max(1) as f64;
    let rate = |measured: &Measured| measured.receiver.frames as f64 / arguments.seconds as f64;
    let mut table = Table::new(&["way", "frames/s", "send µs", "receive µs", "lost", "lost %"]);
    for (name, it) in [("ethbcast_transport::packet", ours), ("pnet::datalink", pnets)] {
        let lost = it.sender.frames.saturating_sub(it.receiver.frames);
        table.push(vec![
            name.to_owned(),
            format!("{:.0}", rate(it)),
            format!("{:.2}", micros(it.sender)),
            format!("{:.2}", micros(it.receiver)),
            lost.to_string(),
            format!("{:.1}", lost as f64 * 100.0 / it.sender.frames.max(1) as f64),
        ]);
    }
    let ratio = |ours: f64, pnets: f64| format!("{:.2}", ours / pnets);
    let cost = |end: fn(&Measured) -> Work| ratio(micros(end(ours)), micros(end(pnets)));
    table.push(vec![
        "ratio".to_owned(),
        ratio(rate(ours), rate(pnets)),
        cost(|it| it.sender),
        cost(|it| it.receiver),
        String::new(),
        String::new(),
    ]);
    if arguments.csv {
        print!("{}", table.csv());
    } else {
        println!(
            "{} + {HEADER_BYTES} bytes for {} s, one hop:\n\n{}",
            arguments.payload,
            arguments.seconds,
            table.aligned()
        );
        println!("frames/s: received; µs: CPU time of the thread per frame sent or received.");
    }
}
