//! Tests of cost in frames: many small simulated broadcasts, compared with a reviewed table.
//!
//! The other tests check guarantees under many seeds. A change that only sends one more heartbeat,
//! serves children in another order or waits a little longer breaks none of them; here it changes a
//! figure. To accept another table, review the difference and run `ETHBCAST_ACCEPT=1 cargo test -p
//! ethbcast-transport --test prices`.

#[path = "../common/accepted.rs"]
mod accepted;
#[path = "../common/case.rs"]
mod case;
mod changes;
#[path = "../common/gaps.rs"]
mod gaps;
#[path = "../common/guard.rs"]
mod guard;
mod host;
mod scenario;
mod scenarios;
mod world;

use case::Path;
use scenario::Scenario;
use std::fs;
use std::path::{Path as FilePath, PathBuf};

const HEADING: &str = "\
What streams cost in the simulator, exactly. Each host has a cable of 100 Mbit/s and 5 us to one switch and a feed of 64
frames of up to 100 bytes, unless the name says otherwise. Of each scenario, after its name:

done      us until the last application had the last frame it takes
quiet     us until nothing was left to do
mean      us from a frame's push at the root until an application had it, over all frames and applications
lost      how often a frame of a cast was lost, as far as the root knows
orphans   how often somebody said that it lacks what its parent has not any more
turns     calls of all hosts' applications, and in how many of them a stream was urgent, level (nobody needs anything),
          settled (all acknowledged), halfway in a segment or pausing in one
next      sum of the numbers of the frames that were next for children whose turn it was, over all turns
held      sum of the ranks (one more of each) that were named as holding a stream up, over all turns; crowded: the same
          of those for whom a feed was crowded

and by role (the root, hosts with children, hosts without), all hosts of it together:

role, hosts | sent: new data to one, new to all, data again to one, again to all, acknowledgements, questions to one,
to all; of the data those that ask for an answer | received: new data, data that was there, beyond credit, out of order
and thrown away, acknowledgements, questions; acknowledgements sent for a loss; frames of strangers; malformed or forged
| the most frames in flight to one, the widest window (0: credit alone) | most bytes kept: payloads, slots and stamps;
readers; repairs; ends of messages and orphans
";

const SHOWN: u32 = 3;

fn copies(scenario: &Scenario) -> u64 {
    match scenario.case.path {
        Path::Cast | Path::TunedCast | Path::AckTree(_) => 1,
        _ => scenario.case.hosts as u64 - 1,
    }
}

/// Whether the file begins with `text`; true while another table is being accepted.
fn begins_with(path: &FilePath, text: &str) -> bool {
    std::env::var_os("ETHBCAST_ACCEPT").is_some() || fs::read_to_string(path).is_ok_and(|all| all.starts_with(text))
}

#[test]
fn every_broadcast_costs_what_was_accepted() {
    let groups = [
        scenarios::paths(),
        scenarios::protocols(),
        scenarios::hazards(),
        scenarios::numbers(),
        changes::deaths(),
        changes::moves(),
        changes::reroutes(),
        scenarios::parity(),
    ];
    let accepted = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/prices.txt");
    let (mut text, mut changed) = (HEADING.to_string(), 0);
    for scenario in groups.into_iter().flatten() {
        let (name, clean, steady) = (scenario.name.clone(), scenario.clean, scenario.steps.is_empty());
        let new_frames = copies(&scenario) * scenario.case.frames;
        let price = world::play(scenario);
        if clean {
            assert_eq!(price.again(), 0, "{name}: nothing was lost, and nothing is to be sent again");
        }
        if steady {
            assert_eq!(price.new_frames(), new_frames, "{name}: what is new is sent once");
            assert_eq!(price.suspected(), 0, "{name}: everybody is known and says what is true");
        }
        text += &price.text(&name);
        changed += u32::from(!begins_with(&accepted, &text));
        if changed == SHOWN {
            break; // What else is another can be seen once it is accepted.
        }
    }
    accepted::compare(&accepted, &text, "prices");
}
