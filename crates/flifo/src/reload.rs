//! `flifo reload`: a running Flifo reads its configuration again.

use std::path::Path;

use proxy::Address;
use proxy::config::{self, Overrides};
use proxy::remote::{self, ReloadedOption, RemoteError};
use shell::{CONFIG, OK, SOFTWARE, UNAVAILABLE, USAGE, complain, print};

pub(crate) fn run(file: Option<&Path>, console: Option<&str>, json: bool) -> u8 {
    let plan = match config::load(file, &Overrides::default()) {
        Ok((plan, _)) => plan,
        Err(problems) => {
            problems.iter().for_each(complain);
            complain("nothing has changed");
            return CONFIG;
        }
    };
    let address = match console.map(str::parse::<Address>).transpose() {
        Ok(address) => address,
        Err(error) => {
            complain(format_args!("--console: {error}"));
            return USAGE;
        }
    };
    match remote::reload(&plan, address) {
        Ok(changed) => tell(&changed, json),
        Err(error) => {
            complain(&error);
            if matches!(error, RemoteError::Refused(_)) { CONFIG } else { UNAVAILABLE }
        }
    }
}

fn tell(changed: &[ReloadedOption], json: bool) -> u8 {
    if json {
        return match serde_json::to_string_pretty(changed) {
            Ok(text) => {
                print(&format!("{text}\n"));
                OK
            }
            Err(error) => {
                complain(format_args!("the changes cannot be written as JSON: {error}"));
                SOFTWARE
            }
        };
    }
    print(&changed.iter().map(line).collect::<String>());
    if changed.is_empty() {
        print("no changes\n");
    }
    OK
}

/// One change: `server.limit: 8 -> 9 (now)`.
fn line(change: &ReloadedOption) -> String {
    let ReloadedOption { name, old, new, in_force } = change;
    let what = match (old.as_deref(), new.as_deref()) {
        (None, Some(new @ ("added" | "renewed"))) => new.to_owned(),
        (Some("removed"), None) => "removed".to_owned(),
        (old, new) => format!("{} -> {}", old.unwrap_or("none"), new.unwrap_or("none")),
    };
    format!("{name}: {what} ({in_force})\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line() {
        let told = |old: Option<&str>, new: Option<&str>| {
            line(&ReloadedOption {
                name: "x".to_owned(),
                old: old.map(str::to_owned),
                new: new.map(str::to_owned),
                in_force: "now".to_owned(),
            })
        };
        assert_eq!(told(Some("8"), Some("9")), "x: 8 -> 9 (now)\n");
        assert_eq!(told(None, Some("9")), "x: none -> 9 (now)\n");
        assert_eq!(told(None, Some("added")), "x: added (now)\n");
        assert_eq!(told(Some("removed"), None), "x: removed (now)\n");
        assert_eq!(told(None, Some("renewed")), "x: renewed (now)\n");
    }
}
