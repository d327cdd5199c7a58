use crate::exit::{Code, Failure, fail};
use crate::session::MAX_GROUP_BYTES;
use ethbcast_planning::topology::nodeset;
use std::collections::BTreeSet;

/// Limit on the ports of this process, each of which has a receive ring of 8 MiB.
const MAX_GROUPS: usize = 256;

/// Returns the groups of `--allow-group`, without duplicates and in order, or that of `-g`.
///
/// # Errors
/// A failure with code 2 if a name cannot be one, or there are too many.
pub fn served(group: &str, allowed: &[String]) -> anyhow::Result<Vec<String>> {
    if allowed.is_empty() {
        return Ok(vec![group.to_owned()]);
    }
    let (mut groups, mut known) = (Vec::new(), BTreeSet::new());
    for names in allowed {
        let expanded = nodeset::expand(names);
        let names = expanded.map_err(|error| Failure::new(Code::Usage, format!("--allow-group {names}: {error}")))?;
        groups.extend(names.into_iter().filter(|name| known.insert(name.clone())));
    }
    if let Some(name) = groups.iter().find(|name| name.is_empty() || name.len() > MAX_GROUP_BYTES) {
        let text = format!("the group name {name} has {} bytes: choose one of 1 to {MAX_GROUP_BYTES}", name.len());
        return fail(Code::Usage, text);
    }
    if groups.is_empty() || groups.len() > MAX_GROUPS {
        return fail(Code::Usage, format!("{} groups: serve 1 to {MAX_GROUPS} with --allow-group", groups.len()));
    }
    Ok(groups)
}

/// Formats the groups as `group images` or `3 groups (rack[1-3])`.
pub fn shown(groups: &[String]) -> String {
    match groups {
        [group] => format!("group {group}"),
        groups => format!("{} groups ({})", groups.len(), nodeset::fold(groups)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_one_by_one_or_as_a_set_and_each_counts_once() {
        let allowed = ["images", "rack[1-3]", "rack2,images"].map(str::to_owned);
        assert_eq!(served("g", &allowed).expect("names"), ["images", "rack1", "rack2", "rack3"]);
        assert_eq!(served("g", &[]).expect("a name"), ["g"]);
        assert_eq!(shown(&["g".to_owned()]), "group g");
        assert_eq!(shown(&served("g", &["rack[1-3]".to_owned()]).expect("names")), "3 groups (rack[1-3])");
        let refused = |allowed: &str| served("g", &[allowed.to_owned()]).expect_err("it cannot be").to_string();
        assert!(refused("rack[1-").contains("--allow-group rack[1-"), "{}", refused("rack[1-"));
        assert!(refused("a[1-257]").contains("257 groups: serve 1 to 256"), "{}", refused("a[1-257]"));
        assert!(refused(&"a".repeat(65)).contains("65 bytes"), "{}", refused(&"a".repeat(65)));
    }
}
