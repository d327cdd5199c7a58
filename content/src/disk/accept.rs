//! Privileges that a sender may decide about at a receiver.

use crate::manifest::{Node, Special, Xattr};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Namespaces of extended attributes that give rights, or belong to the system: accepted by name
/// alone.
const PRIVILEGED: [&[u8]; 3] = [b"security.", b"trusted.", b"system."];

/// Privileges that a receiver accepts. The rest is left out and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Whether files and directories get the sender's owners.
    pub owners: bool,
    /// Whether set-user-id and set-group-id bits are kept, with the owner.
    pub setid: bool,
    /// Whether device nodes are made.
    pub devices: bool,
    /// Whether extended attributes are set, but for the namespaces security, trusted and system.
    pub xattrs: bool,
    /// Extended attributes of any namespace that are set.
    pub named_xattrs: Vec<String>,
    /// Whether a packed content is unpacked here.
    pub unpack: bool,
}

impl Accept {
    /// Acceptance of nothing.
    pub const NONE: Accept =
        Accept { owners: false, setid: false, devices: false, xattrs: false, named_xattrs: Vec::new(), unpack: false };
    /// Privileges at a receiver that stays, to which anybody may send.
    pub const SERVED: Accept =
        Accept { owners: false, setid: false, devices: false, xattrs: false, named_xattrs: Vec::new(), unpack: true };

    pub(crate) fn takes_xattr(&self, xattr: &Xattr) -> bool {
        let is_privileged = PRIVILEGED.iter().any(|namespace| xattr.name.starts_with(namespace));
        self.xattrs && !is_privileged || self.named_xattrs.iter().any(|name| name.as_bytes() == &*xattr.name)
    }

    pub(crate) fn takes_xattrs(&self) -> bool {
        self.xattrs || !self.named_xattrs.is_empty()
    }

    pub(crate) fn takes_node(&self, node: &Node) -> bool {
        self.devices || !matches!(node, Node::Special(Special::Character(..) | Special::Block(..)))
    }
}

impl Default for Accept {
    fn default() -> Accept {
        Accept { owners: true, setid: true, ..Accept::SERVED }
    }
}

impl FromStr for Accept {
    type Err = String;

    fn from_str(list: &str) -> Result<Accept, String> {
        let mut accept = Accept::NONE;
        for word in list.split(',') {
            match word {
                "owner" => accept.owners = true,
                "setid" => accept.setid = true,
                "devices" => accept.devices = true,
                "xattrs" => accept.xattrs = true,
                "unpack" => accept.unpack = true,
                "all" => {
                    let named_xattrs = std::mem::take(&mut accept.named_xattrs);
                    accept = Accept { devices: true, xattrs: true, named_xattrs, ..Accept::default() };
                }
                "none" if list == "none" => {}
                _ => match word.strip_prefix("xattrs=").filter(|name| !name.is_empty()) {
                    Some(name) => accept.named_xattrs.push(name.to_owned()),
                    None => {
                        return Err(format!(
                            "`{word}` is no privilege: give owner, setid, devices, xattrs, xattrs=NAME and unpack with \
                             commas between them, or all, or none"
                        ));
                    }
                },
            }
        }
        Ok(accept)
    }
}

/// Kind of privilege that a sender decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// The owner of a file or directory.
    Owner,
    /// Set-user-id or set-group-id bits of a file or directory.
    SetId,
    /// A device node.
    Device,
    /// An extended attribute.
    Xattr,
}

impl Privilege {
    /// All kinds.
    pub const ALL: [Privilege; 4] = [Privilege::Owner, Privilege::SetId, Privilege::Device, Privilege::Xattr];

    /// The word for it in a list of privileges.
    pub fn word(self) -> &'static str {
        match self {
            Privilege::Owner => "owner",
            Privilege::SetId => "setid",
            Privilege::Device => "devices",
            Privilege::Xattr => "xattrs",
        }
    }
}

/// Counts of what was left out because it is not accepted.
#[derive(Clone, Debug, Default)]
pub struct LeftOut(BTreeMap<Privilege, (u64, String)>);

impl LeftOut {
    pub(crate) fn add(&mut self, privilege: Privilege, name: &str) {
        self.0.entry(privilege).or_insert_with(|| (0, name.to_owned())).0 += 1;
    }

    /// Returns the number of omissions of a kind.
    pub fn count(&self, privilege: Privilege) -> u64 {
        self.0.get(&privilege).map_or(0, |(count, _)| *count)
    }

    /// Returns a sentence for each kind, with the option that accepts it.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(privilege, (count, name)): (&Privilege, &(u64, String))| {
            let (noun, nouns) = match privilege {
                Privilege::Owner => ("owner of a file or directory", "owners of files and directories"),
                Privilege::SetId => ("set-user-id or set-group-id mode", "set-user-id or set-group-id modes"),
                Privilege::Device => ("device node", "device nodes"),
                Privilege::Xattr => ("extended attribute", "extended attributes"),
            };
            let what = if *count == 1 { format!("1 {noun} was") } else { format!("{count} {nouns} were") };
            let is_privileged = PRIVILEGED.iter().any(|namespace| name.as_bytes().starts_with(namespace));
            let by_name = if is_privileged { format!("={name}") } else { String::new() };
            format!("{what} left out: --accept {}{by_name}", privilege.word())
        };
        self.0.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(list: &str) -> Vec<&'static str> {
        let accept: Accept = list.parse().expect("a list");
        let xattr = |name: &str| Xattr { name: name.as_bytes().into(), value: Box::default() };
        let device = Node::Special(Special::Block(7, 0));
        let all = [
            (accept.owners, "owner"),
            (accept.setid, "setid"),
            (accept.takes_node(&device), "devices"),
            (accept.takes_xattr(&xattr("user.x")), "user"),
            (accept.takes_xattr(&xattr("security.capability")), "capability"),
            (accept.takes_xattr(&xattr("security.selinux")), "selinux"),
            (accept.unpack, "unpack"),
        ];
        all.into_iter().filter(|(is_taken, _)| *is_taken).map(|(_, word)| word).collect()
    }

    #[test]
    fn each_word_accepts_what_it_names_and_rights_in_attributes_are_named_one_by_one() {
        assert_eq!(taken("none"), [""; 0]);
        assert_eq!(taken("owner,devices"), ["owner", "devices"]);
        assert_eq!(taken("xattrs"), ["user"]);
        assert_eq!(
            taken("xattrs=security.capability,all"),
            ["owner", "setid", "devices", "user", "capability", "unpack"]
        );
        assert_eq!(taken("setid,xattrs=security.selinux,unpack"), ["setid", "selinux", "unpack"]);
        for wrong in ["", "owners", "xattrs=", "none,owner", "owner, setid"] {
            assert!(wrong.parse::<Accept>().is_err_and(|text| text.contains("is no privilege")), "{wrong}");
        }
        assert!(Accept::default().takes_node(&Node::Special(Special::Fifo)), "a fifo gives no rights");
    }

    #[test]
    fn what_is_left_out_is_said_with_the_option_that_accepts_it() {
        let mut left_out = LeftOut::default();
        (0..3).for_each(|_| left_out.add(Privilege::Device, ""));
        left_out.add(Privilege::Xattr, "security.capability");
        let said = [
            "3 device nodes were left out: --accept devices",
            "1 extended attribute was left out: --accept xattrs=security.capability",
        ];
        assert_eq!(left_out.sentences(), said);
        assert_eq!(Privilege::ALL.map(|one| left_out.count(one)), [0, 0, 3, 1]);
    }
}
