//! `flifo reload`: a running Flifo reads its configuration again.

use proxy::remote::{self, ReloadedOption, RemoteError};
use shell::{CONFIG, OK, UNAVAILABLE, complain, print};

use crate::console::{Console, print_json};

pub(crate) fn run(console: &Console, json: bool) -> u8 {
    let (plan, address) = match console.find() {
        Ok(found) => found,
        Err(status) => return status,
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
        return print_json(changed);
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
