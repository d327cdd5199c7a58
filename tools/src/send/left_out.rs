//! Hosts that did not take part in a session: those that were refused, and those that never sent a
//! join request.

use ethbcast_collectives::session::{MemberReport, Refusal, TurnedAway};
use ethbcast_planning::HostNames;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::MacAddr;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const REFUSED: &str = "refused";
/// Status of a named host that never sent a join request.
pub const ABSENT: &str = "absent";
/// Status of a refused host that was not wanted, or whose name another host has.
const UNWANTED: &str = "unwanted";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Host name, with the MAC address if another host has the same name.
    pub host: String,
    mac: Option<MacAddr>,
    status: &'static str,
    reason: String,
}

impl LeftOut {
    /// Returns the refused hosts without a participating receiver, and the named hosts that are
    /// absent.
    pub fn of(turned_away: &[TurnedAway], receivers: &[MemberReport], named: &[String]) -> Vec<LeftOut> {
        let took_part = HostNames::new(receivers.iter().map(|one| one.host.as_str()));
        let mut names = BTreeSet::new();
        let mut shared: BTreeSet<String> = receivers.iter().map(|one| one.host.to_ascii_lowercase()).collect();
        for away in turned_away {
            let name = away.host.to_ascii_lowercase();
            if !names.insert(name.clone()) {
                shared.insert(name);
            }
        }
        let mut all = Vec::new();
        let mut there: BTreeSet<usize> = BTreeSet::new();
        let wanted = HostNames::new(named.iter().map(String::as_str));
        there.extend(receivers.iter().filter_map(|one| wanted.find(&one.host)));
        for TurnedAway { host, mac, why, text } in turned_away {
            let node = format!("{host}@{mac}");
            there.extend(wanted.find(&node));
            let is_unwanted = matches!(why, Refusal::NotWanted | Refusal::Twin);
            // A receiver that joined later, or a second one on its host.
            if !is_unwanted && took_part.find(&node).is_some() {
                continue;
            }
            let is_known_by_address = wanted.find(&node) != wanted.find(host);
            let is_shared = shared.contains(&host.to_ascii_lowercase()) || is_known_by_address;
            let (status, reason) = (if is_unwanted { UNWANTED } else { REFUSED }, text.clone());
            let host = if is_shared { node } else { host.clone() };
            all.push(LeftOut { host, mac: Some(*mac), status, reason });
        }
        let absent = named.iter().enumerate().filter(|(at, _)| !there.contains(at));
        all.extend(absent.map(|(_, host)| {
            let reason = "it never asked to join: is `ethbcast recv` running there, in this group?".to_owned();
            LeftOut { host: host.clone(), mac: None, status: ABSENT, reason }
        }));
        all
    }

    pub fn is_wanted(&self) -> bool {
        self.status != UNWANTED
    }

    pub fn to_line(&self) -> String {
        let address = self.mac.filter(|_| !self.host.contains('@')).map_or(String::new(), |mac| format!(" ({mac})"));
        format!("{:<16} left out: {}{address}\n", self.host, self.reason)
    }

    pub fn to_json(&self) -> Value {
        let mac = self.mac.map(|mac| mac.to_string());
        json!({ "host": self.host, "mac": mac, "status": self.status, "reason": self.reason })
    }
}

/// Returns the final message about wanted hosts that are missing, if there are some.
pub fn summary(all: &[LeftOut]) -> Option<String> {
    let hosts: Vec<&str> = all.iter().filter(|one| one.is_wanted()).map(|one| one.host.as_str()).collect();
    let (they, have) = if hosts.len() == 1 { ("it", "has not got it") } else { ("them", "have not got it") };
    let text =
        format!("{} {have}: with --report FILE, `send --only-missing` sends to {they} alone", nodeset::fold(&hosts));
    (!hosts.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::session::Outcome;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

    #[test]
    fn who_asked_and_did_not_get_in_is_refused_who_never_asked_is_absent_and_each_is_named_once() {
        let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
        let away = |host: &str, last, why| TurnedAway { host: host.to_owned(), mac: mac(last), why, text: "x".into() };
        let receiver = |host: &str| MemberReport {
            host: host.to_owned(),
            rank: Rank(1),
            outcome: Outcome::Delivered,
            bytes: 1,
            digest: [1; 32],
            text: String::new(),
            took: Duration::ZERO,
            taken: None,
        };
        let named = ["n1", "n2", "n3", "n4", "pc@02:00:00:00:00:07"].map(str::to_owned);
        let turned_away = [
            away("n2.lab", 2, Refusal::NoSpace),
            away("n1", 1, Refusal::Late),
            away("n9", 9, Refusal::NotWanted),
            away("pc", 7, Refusal::Path),
            away("pc", 8, Refusal::NotWanted),
        ];
        let all = LeftOut::of(&turned_away, &[receiver("n1.lab"), receiver("n4")], &named);
        let told: Vec<_> = all.iter().map(|one| (one.host.as_str(), one.status)).collect();
        let expected = [
            ("n2.lab", REFUSED),
            ("n9", UNWANTED),
            ("pc@02:00:00:00:00:07", REFUSED),
            ("pc@02:00:00:00:00:08", UNWANTED),
            ("n3", ABSENT),
        ];
        assert_eq!(told, expected);
        let word = summary(&all).expect("some");
        assert!(word.starts_with("n2.lab,pc@02:00:00:00:00:07,n3 have not got it"), "{word}");
        assert_eq!(summary(&LeftOut::of(&turned_away[1..3], &[receiver("n1")], &[])), None);
    }
}
