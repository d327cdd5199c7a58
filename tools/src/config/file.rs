//! The configuration file: TOML with a table for each command, and shared options above them.

use crate::exit::{Code, WithCode};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

#[derive(Clone, Debug, Default)]
pub struct File {
    pub name: String,
    /// Settings by command (none: above the tables) and long option: a value for each occurrence,
    /// or a switch.
    pub options: BTreeMap<Option<String>, BTreeMap<String, Setting>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Switch(bool),
    Values(Vec<String>),
    /// A value of an unsupported type.
    Strange,
}

impl File {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// A failure with code 4 if it cannot be read, 2 if it is no TOML.
    pub fn load(path: &Path) -> anyhow::Result<File> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {name}; name another with ETHBCAST_CONFIG"))
            .map_err(|error| format!("{error:#}"))
            .code(Code::System)?;
        File::parse(&name, &text).map_err(|error| format!("{name}: {error}")).code(Code::Usage)
    }

    pub fn parse(name: &str, text: &str) -> Result<File, toml::de::Error> {
        let mut options = BTreeMap::new();
        for (key, value) in text.parse::<Table>()? {
            match value {
                Value::Table(table) => {
                    let settings = table.iter().map(|(key, value)| (key.clone(), setting(value)));
                    options.insert(Some(key), settings.collect());
                }
                value => drop(options.entry(None).or_insert_with(BTreeMap::new).insert(key, setting(&value))),
            }
        }
        Ok(File { name: name.to_owned(), options })
    }

    /// Returns the setting of a command's option, and the table that contains it.
    pub fn setting(&self, command: &str, option: &str, is_shared: bool) -> Option<(&Setting, String)> {
        let of = |table: Option<String>| self.options.get(&table)?.get(option);
        let own = of(Some(command.to_owned())).map(|setting| (setting, format!("[{command}] of {}", self.name)));
        own.or_else(|| of(None).filter(|_| is_shared).map(|setting| (setting, self.name.clone())))
    }
}

fn setting(value: &Value) -> Setting {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Boolean(is_on) => Setting::Switch(*is_on),
        Value::Array(values) => {
            values.iter().map(text).collect::<Option<_>>().map_or(Setting::Strange, Setting::Values)
        }
        value => text(value).map_or(Setting::Strange, |text| Setting::Values(vec![text])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_own_table_counts_before_what_stands_above_all() {
        let text = "interface = \"eth0\"\nquiet = true\nhosts = \"a\"\n[recv]\ninterface = \"eth1\"\nmax-sessions = 4\n\
                    patience = 2.5\nallow-group = [\"a\", \"b\"]\n";
        let file = File::parse("f", text).expect("TOML");
        let says = |command, option, shared| file.setting(command, option, shared).map(|(setting, _)| setting.clone());
        let values = |values: &[&str]| Some(Setting::Values(values.iter().map(|&value| value.to_owned()).collect()));
        assert_eq!(says("recv", "interface", true), values(&["eth1"]));
        assert_eq!(says("send", "interface", true), values(&["eth0"]));
        assert_eq!(says("send", "quiet", true), Some(Setting::Switch(true)));
        assert_eq!(says("send", "hosts", false), None, "it is not every command's");
        assert_eq!(
            (says("recv", "max-sessions", false), says("recv", "patience", false)),
            (values(&["4"]), values(&["2.5"]))
        );
        assert_eq!(says("recv", "allow-group", false), values(&["a", "b"]));
        assert_eq!(file.setting("recv", "interface", true).map(|(_, place)| place), Some("[recv] of f".to_owned()));
        assert!(File::parse("f", "interface = ").is_err());
    }
}
