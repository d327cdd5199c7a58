//! Examples at the end of `--help` and in the man pages.

/// Command line, and a sentence on what it does.
type Example = (&'static str, &'static str);

macro_rules! examples {
    ($($command:literal: $($line:literal => $what:literal),+;)*) => {
        [$(($command, &[$(($line, $what)),+])),*]
    };
}

const EXAMPLES: [(&str, &[Example]); 7] = examples! {
    "send":
        "ethbcast send -n 7 image.raw" => "Send a file as soon as 7 receivers have joined:",
        "ethbcast send --hosts 'n[1-31]' --topology cluster.toml --rate 400mbit /srv/models/" =>
            "Send the content of a directory to named hosts, over no cable twice, at 400 Mbit/s at most:",
        "ethbcast send --report run.json --only-missing image.raw" =>
            "Send again to those hosts alone that failed in the last run:",
        "ethbcast send -n 20 --pipe 'zstd -dc disk.img.zst' --size 40G" =>
            "Send what a command writes, 40 GiB in all:";
    "recv":
        "ethbcast recv image.raw" => "Receive one file, then exit:",
        "ethbcast recv --force --max-wait 600 /dev/sda" =>
            "Write a disk image, waiting for a sender for ten minutes:",
        "ethbcast recv --in-place --delete /srv/models" =>
            "Update a directory to what the sender has:",
        "ethbcast recv --over unicast --from 10.1.0.5 image.raw" =>
            "Ask a sender behind routers, which then knows its receivers:",
        "ethbcast recv --serve --force /srv" => "Keep running, and receive all that is sent:";
    "relay":
        "ethbcast relay -i eth0 --onto eth1 -n 7" =>
            "Pass on what is sent on eth0 to 7 receivers on eth1, as it comes:",
        "ethbcast relay -i eth0 --onto eth1 --to 'n[1-7]' --key /root/sender.key" =>
            "Pass on to named hosts, with a key that may send:",
        "ethbcast relay -i eth0 --onto eth1 --onto-over unicast --to 10.2.0.5,10.2.0.6" =>
            "Pass on raw frames over UDP, to two hosts behind routers:";
    "cp":
        "ethbcast cp image.raw 'n[1-31]:'" => "Copy a file to 31 hosts, under its own name:",
        "ethbcast cp -w 'rack[1-4]n[0-9]' models models-v2" =>
            "Copy a directory to 40 hosts, under another name:",
        "ethbcast cp --nice --rate 200mbit a.tar b.tar 'n[1-31]:'" =>
            "Copy two files without disturbing others:";
    "probe":
        "ethbcast probe --answer" => "Answer probes; run this on the other hosts first:",
        "ethbcast probe -n 15 --out calibration.toml" =>
            "Measure the network to 15 hosts, for `send --calibration`:",
        "ethbcast probe --update calibration.toml n3" => "Measure one host again:",
        "ethbcast probe --discover -n 15 --out cluster.toml" =>
            "Find the switches between 16 hosts:";
    "perf":
        "ethbcast perf -n 8" => "Take part; run this on seven of eight hosts:",
        "ethbcast perf -n 8 --root --sizes 256,4K,1M" =>
            "Time broadcasts of three sizes, on the eighth host:",
        "ethbcast perf -n 8 --root --op allgather --iterations 100" =>
            "Time 100 allgathers of each size:";
    "lab":
        "ethbcast lab demo" => "Send 64 MiB to 7 hosts by both paths, and remove the lab:",
        "ethbcast lab up 8 --rate 1gbit --loss 0.01" =>
            "Create 8 hosts, n0 to n7, on cables that lose 1 % of frames:",
        "ethbcast lab each --except n0 -- ethbcast recv /tmp/{}.raw" =>
            "Receive on all hosts but n0:",
        "ethbcast lab exec n0 -- ethbcast send -n 7 image.raw" => "Send from n0:";
};

pub fn examples(command: &str) -> &'static [Example] {
    EXAMPLES
        .iter()
        .find(|(name, _)| *name == command)
        .map_or(&[], |(_, examples)| examples)
}

pub fn text(command: &str) -> String {
    let lines = examples(command)
        .iter()
        .map(|(line, words)| format!("\n  {words}\n    {line}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::args::{HOW, MEASURED, PRINTED, TROUBLE, WHAT, WHO, WRITTEN};
    use clap::{CommandFactory, Parser};

    /// Splits a line at blanks as a shell does, where nothing but single quotes quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for (index, part) in line.split('\'').enumerate() {
            let mut pieces = part.split(' ').filter(|_| index % 2 == 0);
            let first = if index % 2 == 0 {
                pieces.next().unwrap_or_default()
            } else {
                part
            };
            words.last_mut().expect("one word at least").push_str(first);
            words.extend(pieces.map(str::to_owned));
        }
        words
    }

    #[test]
    fn every_example_is_a_command_line() {
        for (command, examples) in EXAMPLES {
            assert!(
                (3..=5).contains(&examples.len()),
                "{command} has {} examples",
                examples.len()
            );
            for (line, says) in examples {
                assert!(
                    says.ends_with(':') && line.starts_with(&format!("ethbcast {command} ")),
                    "{line}: {says}"
                );
                let words = words(line);
                // In `lab each -- ethbcast …` another command line follows the dashes.
                let inner = words
                    .iter()
                    .position(|word| word == "--")
                    .map(|dashes| words[dashes + 1..].to_vec());
                for words in [Some(words.clone()), inner].into_iter().flatten() {
                    if let Err(error) = Cli::try_parse_from(&words) {
                        panic!("{line}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_short_help_of_send_and_recv_fits_on_twenty_lines_of_a_terminal() {
        for name in ["send", "recv"] {
            let program = Cli::command().term_width(80);
            let help = program
                .try_get_matches_from(["ethbcast", name, "-h"])
                .expect_err("help is no run")
                .to_string();
            assert!(
                help.lines().count() <= 20,
                "{} lines:\n{help}",
                help.lines().count()
            );
            assert!(
                help.trim_end()
                    .ends_with(&format!("all options: ethbcast {name} --help")),
                "{help}"
            );
        }
    }

    #[test]
    fn every_option_of_a_command_with_headings_is_under_one_and_they_stand_in_order() {
        let order = [WHO, WHAT, WRITTEN, MEASURED, HOW, TROUBLE, PRINTED];
        let mut program = Cli::command();
        program.build();
        for name in ["send", "recv", "relay", "cp", "probe", "perf"] {
            let command = program.find_subcommand(name).expect("a command");
            let mut headings = Vec::new();
            for arg in command
                .get_arguments()
                .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help")
            {
                let heading = arg
                    .get_help_heading()
                    .unwrap_or_else(|| panic!("{name}: no heading for {}", arg.get_id()));
                if !headings.contains(&heading) {
                    headings.push(heading);
                }
            }
            let place = |heading: &str| {
                order
                    .iter()
                    .position(|known| *known == heading)
                    .expect("a heading")
            };
            assert!(
                headings.is_sorted_by_key(|heading| place(heading)),
                "{name}: {headings:?}"
            );
        }
    }
}
