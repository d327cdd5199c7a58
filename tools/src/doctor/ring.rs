//! Check of the card's receive ring size.

use super::outside::text_of;
use super::{Fault, Findings, Fix, quoted};

/// Size that is filled in 0.3 ms at 10 Gbit/s, during which a processor may be busy.
const MIN_SLOTS: u64 = 256;

pub fn check(name: &str, findings: &mut Findings) {
    let text = match text_of("ethtool", &["-g", name]) {
        Ok(text) => text,
        // Virtual interfaces have no ring.
        Err(why) if why.contains("not supported") => return,
        Err(why) => return findings.skip(format!("the card's ring: {why}")),
    };
    let Some((most, now)) = slots(&text) else { return };
    if now < MIN_SLOTS && now < most {
        let what = format!("the receive ring of {name} has {now} slots, and could have {most}");
        findings.add(Fault::Ring, what, Fix::Command(format!("ethtool -G {} rx {most}", quoted(name))));
    }
}

/// Returns the maximum and the present number of slots: the first RX line of either part.
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
