//! The papers' figures in the simulator: Figures 11 to 18 of Patarasuk 2008 on all five topologies
//! at 100 and 1000 Mbit/s, and Figure 4 of Mateescu and Taylor.
//!
//! `cargo run --release -p ethbcast-benches --bin figures`, after `cargo build --release -p
//! ethbcast`: writes `docs/results/figure*.txt`, `.csv` and an SVG for each panel. Needs no root:
//! `ethbcast simulate` runs the engine on a virtual clock, with hosts as fast as the paper's by its
//! Table 2; the results are equal on any machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ethbcast_benches::figures::{Drawn, Figure, Panel, Runs, Said, actual, patarasuk, processors};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::program::Program;
use ethbcast_benches::results;

/// Draw the papers' figures from simulated broadcasts.
#[derive(Debug, Parser)]
#[command(name = "figures")]
struct Arguments {
    /// Only these, such as figure12,figure17.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let mut runs = Runs::new(&program, &interrupt)?;
    let (mut figures, mut all_met) = (patarasuk(), true);
    figures.push(processors());
    let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
    if let Some(unknown) = arguments.only.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("figures: there is no {unknown}: choose of {}", names.join(", "));
        return Ok(ExitCode::from(2));
    }
    for figure in figures
        .iter()
        .filter(|figure| arguments.only.is_empty() || arguments.only.iter().any(|name| name == figure.name))
    {
        eprintln!("{}", figure.name);
        let drawn = figure.panels.iter().map(|panel| panel.draw(&mut runs)).collect::<anyhow::Result<Vec<_>>>()?;
        all_met &= report(&arguments, figure, &drawn)?;
    }
    eprintln!("{} simulations", runs.played());
    Ok(results::exit_code(all_met))
}

fn report(arguments: &Arguments, figure: &Figure, drawn: &[Drawn]) -> anyhow::Result<bool> {
    let mut text = format!(
        "{}.\nSimulated, in ms, from the first frame sent to the last one taken; hosts take what Table 2 of Patarasuk \
         2008 says of theirs, segments are what suits best.\n",
        figure.title
    );
    let (mut csv, mut files) = (Figure::csv(), Vec::new());
    for panel in drawn {
        text += &panel.table();
        panel.add_to(&mut csv);
        let ending = [panel.letter(), "svg"].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
        files.push((ending, panel.svg()));
    }
    if figure.name == "figure11" {
        text += "\nTable 3, \"Actual\": the best of the eight segments here, in brackets the paper's and how much \
                 longer that takes here\n";
        text += &actual(drawn)?.aligned();
    }
    let said = (figure.said)(drawn)?;
    let computed = figure.panels.iter().map(Panel::by_equations).collect::<anyhow::Result<Vec<_>>>()?;
    let computed = (figure.said)(&computed)?;
    text += "\nWhat the paper says, what came out here, and what the paper's equations make of its Table 2:\n";
    let line = |(said, computed): (&Said, &Said)| format!("{said}; by the equations {:.2}\n", computed.ours);
    text += &said.iter().zip(&computed).map(line).collect::<String>();
    results::publish(&arguments.out, figure.name, &text, &csv, files)?;
    Ok(said.iter().all(Said::holds))
}
