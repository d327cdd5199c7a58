//! Man pages and shell completions, generated from the command-line definition.

use crate::args::{Cli, CompletionsArgs, ManArgs, examples};
use crate::exit::{CODES, Code, WithCode, print, report};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::Path;

const SECTION: &str = "8";
const FILE_PAGES: [(&str, &str); 2] = [
    (
        "ethbcast-topology.5",
        include_str!("../man/ethbcast-topology.5"),
    ),
    ("ethbcast.toml.5", include_str!("../man/ethbcast.toml.5")),
];

const ENVIRONMENT: [(&str, &str); 6] = [
    (
        "ETHBCAST_INTERFACE",
        "The network interface, where --interface is not given; so each option: ethbcast.toml(5).",
    ),
    (
        "ETHBCAST_CONFIG",
        "The configuration file, instead of /etc/ethbcast/ethbcast.toml; empty for none.",
    ),
    (
        "ETHBCAST_CACHE",
        "Folder for what send learns of the network, instead of $XDG_CACHE_HOME/ethbcast or, for root, \
         /var/cache/ethbcast; empty for none.",
    ),
    (
        "ETHBCAST_HOST",
        "This host's name in reports and topology files, where --host is not given.",
    ),
    ("NO_COLOR", "If it is set, a terminal gets no colours."),
    (
        "RUST_LOG",
        "Log messages on stderr: error (the default), warn, info, debug or trace, also for a part alone.",
    ),
];

const FILES: [(&str, &str); 1] = [(
    "/etc/ethbcast/ethbcast.toml",
    "Options that hold unless the command line or the environment has others.",
)];
const RECV_FILES: [(&str, &str); 2] = [
    (
        ".ethbcast-*.part, .ethbcast-*.tree",
        "Data of DEST that is not complete; the next recv to the same DEST goes on.",
    ),
    (
        ".ethbcast-*.journal",
        "List of the parts that are there, and of their checksums.",
    ),
];

pub fn write_pages(args: &ManArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| {
        format!(
            "cannot make {}; choose another with --out",
            args.out.display()
        )
    })?;
    let mut program = Cli::command();
    program.build();
    let mut pages: Vec<(String, Vec<u8>)> = Vec::new();
    add_pages(&program, &mut pages)?;
    pages.extend(FILE_PAGES.map(|(name, text)| (name.to_owned(), text.into())));
    for (name, text) in &pages {
        write_page(&args.out.join(name), text)?;
    }
    report(&format!(
        "{} man pages in {}: man -l {}/ethbcast.8",
        pages.len(),
        args.out.display(),
        args.out.display()
    ))
}

fn write_page(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}", path.display()))
        .code(Code::System)
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    pages.push((format!("{name}.{SECTION}"), page(command, &name)?));
    let shown = |inner: &&Command| !inner.is_hide_set() && inner.get_name() != "help";
    command
        .get_subcommands()
        .filter(shown)
        .try_for_each(|inner| add_pages(inner, pages))
}

fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let is_program = !name.contains('-');
    // The exit codes have a section of their own, and a manual includes the options that `-h`
    // omits.
    let mut command = command
        .clone()
        .after_help("")
        .mut_args(|arg| arg.hide_short_help(false));
    let usage = command.render_usage().to_string();
    let command = command.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(command.clone())
        .section(SECTION)
        .title(name.to_uppercase())
        .manual("ethbcast");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_program {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    add_examples(&mut rest, examples(command.get_name()));
    add_section(&mut rest, "EXIT STATUS", &CODES);
    add_section(&mut rest, "ENVIRONMENT", &ENVIRONMENT);
    add_section(&mut rest, "FILES", &FILES);
    if command.get_name() == "recv" {
        add_entries(&mut rest, &RECV_FILES);
    }
    rest.control("SH", ["SEE ALSO"]);
    let others = [
        "ethbcast(8)",
        "ethbcast-send(8)",
        "ethbcast-recv(8)",
        "ethbcast-topology(5)",
        "ethbcast.toml(5)",
    ];
    rest.text([roman(others.join(", "))]);
    rest.to_writer(&mut page)?;
    Ok(page)
}

fn add_examples(roff: &mut Roff, examples: &[(&str, &str)]) {
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, says) in examples {
        roff.control("PP", []);
        roff.text([roman(*says)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([roman(*line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn add_section(roff: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [title]);
    add_entries(roff, entries);
}

fn add_entries(roff: &mut Roff, entries: &[(&str, &str)]) {
    for (term, text) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
}

pub fn print_completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ethbcast", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())
}
