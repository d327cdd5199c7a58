//! The configuration file `ethbcast.toml`: reading, and the command that checks it.

use super::{ConfiguredOption, commands, given, options, program, shared};
use crate::exit::{Code, WithCode, fail, print_line};
use anyhow::Context;
use clap::Command;
use clap::error::ErrorKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Once;
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
    Strange,
}

impl File {
    pub fn load(path: &Path) -> anyhow::Result<File> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| {
                format!("cannot read the configuration {name}; name another with ETHBCAST_CONFIG")
            })
            .map_err(|error| format!("{error:#}"))
            .code(Code::System)?;
        File::parse(&name, &text)
            .map_err(|error| format!("{name}: {error}"))
            .code(Code::Usage)
    }

    pub fn parse(name: &str, text: &str) -> Result<File, toml::de::Error> {
        let mut options = BTreeMap::new();
        for (key, value) in text.parse::<Table>()? {
            match value {
                Value::Table(table) => {
                    let settings = table
                        .iter()
                        .map(|(key, value)| (key.clone(), setting(value)));
                    options.insert(Some(key), settings.collect());
                }
                value => drop(
                    options
                        .entry(None)
                        .or_insert_with(BTreeMap::new)
                        .insert(key, setting(&value)),
                ),
            }
        }
        Ok(File {
            name: name.to_owned(),
            options,
        })
    }

    pub fn setting(
        &self,
        command: &str,
        option: &str,
        is_shared: bool,
    ) -> Option<(&Setting, String)> {
        let of = |table: Option<String>| self.options.get(&table)?.get(option);
        let own = of(Some(command.to_owned()))
            .map(|setting| (setting, format!("[{command}] of {}", self.name)));
        own.or_else(|| {
            of(None)
                .filter(|_| is_shared)
                .map(|setting| (setting, self.name.clone()))
        })
    }

    /// Gives options that the file calls by an alias their own names. Returns a sentence for each.
    fn use_own_names(&mut self, program: &Command) -> Vec<String> {
        let mut renamed = Vec::new();
        for (table, settings) in &mut self.options {
            let of_table = |command: &&Command| table.as_deref() == Some(command.get_name());
            for (name, arg) in commands(program).filter(of_table).flat_map(options) {
                for alias in arg.get_all_aliases().unwrap_or_default() {
                    if let Some(setting) = settings.remove(alias) {
                        settings.entry(name.to_owned()).or_insert(setting);
                        renamed.push(format!("{alias} is called {name} here"));
                    }
                }
            }
        }
        renamed
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
        Value::Array(values) => values
            .iter()
            .map(text)
            .collect::<Option<_>>()
            .map_or(Setting::Strange, Setting::Values),
        value => text(value).map_or(Setting::Strange, |text| Setting::Values(vec![text])),
    }
}

/// Similarity below which a name is not suggested for a misspelt one.
const MIN_LIKENESS: f64 = 0.75;

/// Reads a file for a command. An alias in it is reported once, an unknown name is an error.
pub fn read(path: &Path) -> anyhow::Result<File> {
    static REPORTED: Once = Once::new();
    let mut file = File::load(path)?;
    let renamed = file.use_own_names(&program());
    if !renamed.is_empty() {
        REPORTED.call_once(|| {
            print_line(format_args!(
                "ethbcast: {}: {}",
                file.name,
                renamed.join("; ")
            ))
        });
    }
    match names(&file).first() {
        None => Ok(file),
        Some(problem) => fail(Code::Usage, format!("{}: {problem}", file.name)),
    }
}

pub fn names(file: &File) -> Vec<String> {
    let program = program();
    let shared = shared();
    let mut problems = Vec::new();
    for (table, settings) in &file.options {
        let Some(table) = table else {
            let unknown = settings.keys().filter(|key| !shared.contains(*key));
            problems.extend(
                unknown.map(|key| not_shared(&program, key, shared.iter().map(String::as_str))),
            );
            continue;
        };
        let Some(command) = commands(&program).find(|command| command.get_name() == table) else {
            let near = nearest(table, commands(&program).map(Command::get_name));
            problems.push(format!(
                "[{table}] is no command with options{}",
                meant(near.map(|near| format!("[{near}]")))
            ));
            continue;
        };
        let known = || options(command).map(|(name, _)| name);
        let unknown = settings
            .keys()
            .filter(|key| !known().any(|name| name == *key));
        problems.extend(unknown.map(|key| {
            format!(
                "[{table}] {key} is no option of {table}{}",
                meant(nearest(key, known()).map(str::to_owned))
            )
        }));
    }
    problems
}

fn not_shared<'a>(program: &Command, key: &str, shared: impl Iterator<Item = &'a str>) -> String {
    let has = |command: &&Command| options(command).any(|(name, _)| name == key);
    let owners: Vec<String> = commands(program)
        .filter(has)
        .map(|command| format!("[{}]", command.get_name()))
        .collect();
    if owners.is_empty() {
        let near = nearest(key, shared).map(str::to_owned);
        return format!(
            "{key} is no option that all commands on the wire share{}",
            meant(near)
        );
    }
    format!(
        "{key} is not every command's: put it under {}",
        owners.join(" or ")
    )
}

/// Returns all problems: names, values, and contradicting options of a command.
pub fn problems(file: &File) -> Vec<String> {
    let program = program();
    let mut file = file.clone();
    file.use_own_names(&program);
    let mut problems = names(&file);
    let above: BTreeMap<String, Setting> = file.options.get(&None).cloned().unwrap_or_default();
    for command in commands(&program) {
        let name = command.get_name();
        let own = file
            .options
            .get(&Some(name.to_owned()))
            .cloned()
            .unwrap_or_default();
        if own.is_empty() && (above.is_empty() || name != "send") {
            continue;
        }
        let mut all = Vec::new();
        for (option, arg) in options(command) {
            let Some((setting, place)) = file.setting(name, option, above.contains_key(option))
            else {
                continue;
            };
            match given(option, arg, setting.clone(), &place) {
                Err(error) => problems.push(error.to_string()),
                Ok(given) => match refusal(&program, name, &given) {
                    Some(text) => problems.push(format!("[{name}] {option}: {text}")),
                    None => all.extend(given),
                },
            }
        }
        problems.extend(refusal(&program, name, &all).map(|text| format!("[{name}] {text}")));
    }
    problems.dedup();
    problems
}

/// Returns the command-line parser's objection to these options; missing ones are ignored.
fn refusal(program: &Command, command: &str, given: &[ConfiguredOption]) -> Option<String> {
    let arguments = ["ethbcast".into(), command.into()]
        .into_iter()
        .chain(given.iter().map(ConfiguredOption::argument));
    let error = program.clone().try_get_matches_from(arguments).err()?;
    let is_missing = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand
    );
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    (!is_missing).then(|| first.trim_start_matches("error: ").to_owned())
}

fn meant(name: Option<String>) -> String {
    name.map_or_else(
        || "; `ethbcast COMMAND --help` lists them".to_owned(),
        |name| format!(": is {name} meant?"),
    )
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let like = |known: &str| strsim::jaro_winkler(name, known);
    let best = known.max_by(|a, b| like(a).total_cmp(&like(b)))?;
    (like(best) >= MIN_LIKENESS).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_own_table_counts_before_what_stands_above_all() {
        let text = "interface = \"eth0\"\nquiet = true\nhosts = \"a\"\n[recv]\ninterface = \"eth1\"\nmax-sessions = 4\n\
                    patience = 2.5\nallow-group = [\"a\", \"b\"]\n";
        let file = File::parse("f", text).expect("TOML");
        let says = |command, option, shared| {
            file.setting(command, option, shared)
                .map(|(setting, _)| setting.clone())
        };
        let values = |values: &[&str]| {
            Some(Setting::Values(
                values.iter().map(|&value| value.to_owned()).collect(),
            ))
        };
        assert_eq!(says("recv", "interface", true), values(&["eth1"]));
        assert_eq!(says("send", "interface", true), values(&["eth0"]));
        assert_eq!(says("send", "quiet", true), Some(Setting::Switch(true)));
        assert_eq!(
            says("send", "hosts", false),
            None,
            "it is not every command's"
        );
        assert_eq!(
            (
                says("recv", "max-sessions", false),
                says("recv", "patience", false)
            ),
            (values(&["4"]), values(&["2.5"]))
        );
        assert_eq!(says("recv", "allow-group", false), values(&["a", "b"]));
        assert_eq!(
            file.setting("recv", "interface", true)
                .map(|(_, place)| place),
            Some("[recv] of f".to_owned())
        );
        assert!(File::parse("f", "interface = ").is_err());
    }

    fn wrong(text: &str) -> Vec<String> {
        problems(&File::parse("f", text).expect("TOML"))
    }

    #[test]
    fn a_valid_configuration_causes_no_message() {
        let text = "interface = \"eth0\"\nhost = \"n1\"\n[recv]\nserve = true\nmax-sessions = 4\nforce = true\n\
                    allow-group = [\"images\", \"rack[1-4]\"]\n[send]\nvia = \"cast\"\nmax-wait = 30\n\
                    [perf]\nranks = 8\n";
        assert_eq!(wrong(text), [""; 0]);
        assert_eq!(wrong(""), [""; 0]);
    }

    #[test]
    fn an_alias_of_an_option_is_read_as_the_option() {
        let text = "[send]\nmax-bitrate = \"10mbit\"\n[recv]\nreceive-timeout = 3\n";
        let mut file = File::parse("f", text).expect("TOML");
        let renamed = file.use_own_names(&program());
        assert_eq!(
            renamed,
            [
                "receive-timeout is called patience here",
                "max-bitrate is called rate here"
            ]
        );
        assert!(
            file.setting("send", "rate", false).is_some()
                && file.setting("recv", "patience", false).is_some()
        );
        assert_eq!(wrong(text), [""; 0]);
    }

    #[test]
    fn a_name_that_is_none_is_answered_with_the_nearest_that_is_one() {
        let says = |text: &str, parts: &[&str]| {
            let problems = wrong(text);
            assert_eq!(problems.len(), 1, "{problems:?}");
            parts
                .iter()
                .for_each(|part| assert!(problems[0].contains(part), "{part}: {problems:?}"));
        };
        says(
            "interfaces = \"eth0\"",
            &["interfaces is no option", "is interface meant?"],
        );
        says(
            "[recv]\nmax-session = 4",
            &["[recv] max-session", "is max-sessions meant?"],
        );
        says(
            "[receive]\nforce = true",
            &["[receive] is no command", "is [recv] meant?"],
        );
        says(
            "hosts = \"n[1-3]\"",
            &["not every command's", "[send] or [simulate]"],
        );
        says("[recv]\nzzz = 1", &["--help"]);
    }

    #[test]
    fn a_value_that_cannot_be_and_options_that_exclude_each_other_are_named() {
        for (text, part) in [
            ("[recv]\nmax-sessions = 0", "from 1 to 1024"),
            ("[recv]\nforce = \"yes\"", "true or false"),
            ("[recv]\nexec = true", "needs a value"),
            ("[recv]\nbasis = [1, [2]]", "needs a value"),
            ("ether-type = \"0800x\"", "hexadecimal"),
            (
                "[send]\nvia = \"cast\"\nplan = \"p.toml\"",
                "cannot be used with",
            ),
            ("[recv]\nserve = true\nonce = true", "cannot be used with"),
        ] {
            let problems = wrong(text);
            assert!(
                problems.len() == 1 && problems[0].contains(part),
                "{text}: {problems:?}"
            );
        }
    }
}
