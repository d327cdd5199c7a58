//! Check of the machine: a cloud network without Ethernet, and a wrong clock.

use super::{Fault, Findings, Fix};
use serde_json::Value;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Vendor names in a virtual machine's firmware, with their cloud: these networks are of layer 3,
/// and carry neither other EtherTypes nor multicast.
const CLOUDS: [(&str, &str); 5] = [
    ("Amazon EC2", "Amazon's"),
    ("Google Compute Engine", "Google's"),
    ("Microsoft Corporation Virtual Machine", "Microsoft's"),
    ("OracleCloud.com", "Oracle's"),
    ("Alibaba Cloud", "Alibaba's"),
];
const FIRMWARE: [&str; 3] = ["sys_vendor", "product_name", "chassis_asset_tag"];

/// Date 2026-01-01, before which no correct clock can be.
const NOT_BEFORE: Duration = Duration::from_secs(1_767_225_600);

/// Checks the machine; `link` is iproute2's description of the interface.
pub fn check(link: &Value, findings: &mut Findings) {
    let says = |what: &&str| fs::read_to_string(format!("/sys/class/dmi/id/{what}")).ok();
    let firmware: Vec<String> = FIRMWARE.iter().filter_map(says).map(|text| text.trim().to_owned()).collect();
    if let Some(cloud) = cloud(&firmware.join(" "), link) {
        let what = format!("this machine is in {cloud} cloud, whose network carries IP and no other frames");
        let words = "send among machines of your own; or by an overlay of layer 2 between these, then -i ov0: ip link \
                     add name ov0 type vxlan id 1 dev IFACE dstport 4789, and `bridge fdb append` for each other host";
        findings.add(Fault::Cloud, what, Fix::Words(words.to_owned()));
    }
    clock(SystemTime::now(), findings);
}

/// Returns the cloud of this firmware, unless the interface is virtual, such as an overlay.
fn cloud(firmware: &str, link: &Value) -> Option<&'static str> {
    let is_made = !link["linkinfo"]["info_kind"].is_null();
    let found = CLOUDS.iter().find(|(words, _)| firmware.contains(words));
    found.filter(|_| !is_made).map(|&(_, cloud)| cloud)
}

/// Checks the clock, because files get the sender's times, by which later changes are detected.
fn clock(now: SystemTime, findings: &mut Findings) {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since < NOT_BEFORE {
        let what = format!("the clock says {} days since 1970, and this program is younger", since.as_secs() / 86_400);
        let fix = "timedatectl set-ntp true || date -s \"$(ssh OTHER date -Is)\"";
        findings.add(Fault::Clock, what, Fix::Command(fix.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cloud_is_known_by_its_firmware_unless_frames_go_by_an_overlay() {
        let azure = "Microsoft Corporation Virtual Machine 7783-7084-3265-9085-8269-3286-77";
        assert_eq!(cloud(azure, &Value::Null), Some("Microsoft's"));
        assert_eq!(cloud("Amazon EC2 m7i.large Amazon EC2", &json!({ "ifname": "ens5" })), Some("Amazon's"));
        assert_eq!(cloud(azure, &json!({ "linkinfo": { "info_kind": "vxlan" } })), None);
        assert_eq!(cloud("Dell Inc. PowerEdge R650", &Value::Null), None);
        assert_eq!(cloud("QEMU Standard PC (Q35 + ICH9, 2009)", &Value::Null), None);
    }

    #[test]
    fn a_clock_that_has_lost_its_battery_is_found_and_one_of_today_is_not() {
        let count = |now| {
            let mut findings = Findings::default();
            clock(now, &mut findings);
            findings.count()
        };
        assert_eq!(count(UNIX_EPOCH + Duration::from_secs(86_400)), 1);
        assert_eq!(count(SystemTime::now()), 0);
    }
}
