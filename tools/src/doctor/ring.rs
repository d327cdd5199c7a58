//! The card's receive ring: how many frames it holds until a processor comes.

use super::outside::text_of;
use super::{Fault, Findings, Fix, quoted};

/// At 10 Gbit/s these are full in 0.3 ms, which a processor may well be busy elsewhere.
const LEAST_SLOTS: u64 = 256;

/// Looks at the ring, if the interface is a card that has one.
pub fn check(name: &str, findings: &mut Findings) {
    let text = match text_of("ethtool", &["-g", name]) {
        Ok(text) => text,
        // Cables of namespaces, bridges and the like have none.
        Err(why) if why.contains("not supported") => return,
        Err(why) => return findings.skip(format!("the card's ring: {why}")),
    };
    let Some((most, now)) = slots(&text) else { return };
    if now < LEAST_SLOTS && now < most {
        let what = format!("the receive ring of {name} has {now} slots, and could have {most}");
        findings.add(Fault::Ring, what, Fix::Command(format!("ethtool -G {} rx {most}", quoted(name))));
    }
}

/// The most slots there can be, and those there are: the first RX of either part.
fn slots(text: &str) -> Option<(u64, u64)> {
    let (most, now) = text.split_once("Current hardware settings:")?;
    let first = |part: &str| part.lines().find_map(|line| line.trim().strip_prefix("RX:")?.trim().parse().ok());
    Some((first(most)?, first(now)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_read_as_ethtool_writes_it() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n\
                    Current hardware settings:\nRX:\t\t64\nRX Mini:\tn/a\nTX:\t\t512\n";
        assert_eq!(slots(text), Some((4096, 64)));
        assert_eq!(slots(&text.replace("RX:\t\t64", "RX:\t\tn/a")), None);
        assert_eq!(slots(""), None);
    }
}
