//! Check of the network card: steering rules, interrupt coalescing, offloads and queues.

use super::outside::text_of;
use super::{Fault, Findings, Fix, quoted};
use ethbcast_transport::wire::EtherType;
use std::path::Path;

/// Limit on interrupt coalescing, whose delay adds up at every hop of a chain.
const MAX_WAIT_MICROS: u64 = 250;
/// Number of receive queues above which the frames still use a single one.
const ONE_QUEUE: usize = 1;

pub fn check(name: &str, ether_type: EtherType, findings: &mut Findings) {
    ask("-n", name, findings, |text, findings| rules(name, ether_type, text, findings));
    ask("-c", name, findings, |text, findings| interrupts(name, text, findings));
    ask("-k", name, findings, |text, findings| offloads(name, text, findings));
    // Virtual interfaces such as veth and bridges have no card.
    if Path::new(&format!("/sys/class/net/{name}/device")).exists() {
        queues(name, findings);
    }
}

fn ask(option: &str, name: &str, findings: &mut Findings, judge: impl FnOnce(&str, &mut Findings)) {
    match text_of("ethtool", &[option, name]) {
        Ok(text) => judge(&text, findings),
        Err(why) if why.contains("not supported") => {}
        Err(why) => findings.skip(format!("the card: {why}")),
    }
}

/// Checks for rules on frames of our EtherType, which may drop them or steer them to another queue.
fn rules(name: &str, ether_type: EtherType, text: &str, findings: &mut Findings) {
    for Rule { number, proto, mask, action } in Rule::all(text) {
        let is_ours = (u64::from(ether_type.number()) ^ proto) & !mask & 0xffff == 0;
        if is_ours && action == "Drop" {
            let what = format!("rule {number} of the card of {name} drops frames of EtherType 0x{proto:04x}");
            let fix = format!("ethtool -N {} delete {number}", quoted(name));
            findings.add(Fault::Steering, what, Fix::Command(fix));
        }
    }
}

struct Rule<'a> {
    number: u64,
    proto: u64,
    mask: u64,
    action: &'a str,
}

impl Rule<'_> {
    fn all(text: &str) -> Vec<Rule<'_>> {
        let parts = text.split("Filter: ").skip(1);
        parts
            .filter(|part| part.contains("Rule Type: Raw Ethernet"))
            .filter_map(|part| {
                let after = |name: &str| part.lines().find_map(|line| line.trim().strip_prefix(name));
                let number = part.lines().next()?.trim().parse().ok()?;
                let (proto, mask) = after("Ethertype: ")?.split_once(" mask: ")?;
                let hex = |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
                Some(Rule { number, proto: hex(proto)?, mask: hex(mask)?, action: after("Action: ")?.trim() })
            })
            .collect()
    }
}

fn interrupts(name: &str, text: &str, findings: &mut Findings) {
    let is_adaptive = text.lines().any(|line| line.starts_with("Adaptive RX: on"));
    let micros = text.lines().find_map(|line| line.strip_prefix("rx-usecs:")?.trim().parse::<u64>().ok());
    if let Some(micros) = micros.filter(|&micros| !is_adaptive && micros > MAX_WAIT_MICROS) {
        let what = format!("{name} says that frames have come {micros} us later");
        findings.add(Fault::Interrupts, what, Fix::Command(format!("ethtool -C {} rx-usecs 50", quoted(name))));
    }
}

/// Checks for offloads that deliver unwanted frames; those for TCP and UDP do not affect our
/// frames.
fn offloads(name: &str, text: &str, findings: &mut Findings) {
    let is_on = |feature: &str| {
        let state = text.lines().find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(':'));
        state.is_some_and(|state| state.split_whitespace().next() == Some("on"))
    };
    for (feature, does) in [
        ("rx-all", "hands over frames whose check sequence is wrong"),
        ("loopback", "hears what it sends, and nothing else"),
    ] {
        if is_on(feature) {
            let fix = format!("ethtool -K {} {feature} off", quoted(name));
            findings.add(Fault::Offload, format!("{name} {does} ({feature} is on)"), Fix::Command(fix));
        }
    }
}

/// Notes that a card with several queues puts frames of an unknown EtherType into one.
fn queues(name: &str, findings: &mut Findings) {
    let Ok(entries) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else { return };
    let queues = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
    if queues > ONE_QUEUE {
        findings.skip(format!(
            "which processor takes the frames: of the {queues} queues of {name} all come to one; `grep {name} \
             /proc/interrupts` shows it, and `ps -eLo psr,pcpu,comm --sort -pcpu` what else runs there"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(judge: impl FnOnce(&mut Findings)) -> Vec<(String, String)> {
        let mut findings = Findings::default();
        judge(&mut findings);
        let said = findings.json(None);
        let text = |finding: &serde_json::Value, name: &str| finding[name].as_str().expect("a text").to_owned();
        let list = said["findings"].as_array().expect("a list");
        list.iter().map(|one| (text(one, "code"), text(one, "fix"))).collect()
    }

    #[test]
    fn a_rule_that_drops_the_ether_type_is_told_from_all_others() {
        let rule = |number: u32, proto: &str, mask: &str, action: &str| {
            format!(
                "Filter: {number}\n\tRule Type: Raw Ethernet\n\tSrc MAC addr: 00:00:00:00:00:00 mask: \
                 FF:FF:FF:FF:FF:FF\n\tDest MAC addr: 00:00:00:00:00:00 mask: FF:FF:FF:FF:FF:FF\n\tEthertype: {proto} \
                 mask: {mask}\n\tAction: {action}\n\n"
            )
        };
        let text = format!(
            "4 RX rings available\nTotal 3 rules\n\nFilter: 9\n\tRule Type: TCP over IPv4\n\tAction: Drop\n\n{}{}{}{}",
            rule(1021, "0x88B5", "0x0", "Drop"),
            rule(1022, "0x88B6", "0x0", "Drop"),
            rule(1023, "0x88B5", "0x0", "Direct to queue 3"),
            rule(7, "0x0", "0xFFFF", "Drop"),
        );
        let ether_type = "88b5".parse().expect("one");
        let found = found(|findings| rules("eth0", ether_type, &text, findings));
        let fix = |number: u32| ("E-STEERING".to_owned(), format!("ethtool -N eth0 delete {number}"));
        assert_eq!(found, [fix(1021), fix(7)]);
    }

    #[test]
    fn interrupts_that_wait_long_and_frames_that_came_wrong_are_found() {
        let waits = |text: &str| found(|findings| interrupts("eth0", text, findings)).len();
        assert_eq!(waits("Coalesce parameters for eth0:\nAdaptive RX: off  TX: off\nrx-usecs:\t3000\n"), 1);
        assert_eq!(waits("Adaptive RX: on  TX: on\nrx-usecs:\t3000\n"), 0);
        assert_eq!(waits("Adaptive RX: n/a  TX: n/a\nrx-usecs:\t8\nrx-frames:\tn/a\n"), 0);
        let wrong = |text: &str| found(|findings| offloads("eth0", text, findings));
        let fix = ("E-OFFLOAD".to_owned(), "ethtool -K eth0 rx-all off".to_owned());
        assert_eq!(wrong("Features for eth0:\nrx-checksumming: on\nrx-all: on\nloopback: off [fixed]\n"), [fix]);
        assert_eq!(wrong("rx-all: off [requested on]\nloopback: off\n"), []);
    }
}
