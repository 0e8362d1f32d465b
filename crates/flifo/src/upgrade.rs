//! `flifo upgrade`: the program that is installed now takes over from the Flifo that runs.

use std::path::Path;

use proxy::Address;
use proxy::config::{self, Overrides};
use proxy::remote::{self, TakenOver};
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
    match remote::upgrade(&plan, address) {
        Ok(done) => tell(&done, json),
        Err(error) => {
            complain(&error);
            UNAVAILABLE
        }
    }
}

fn tell(done: &TakenOver, json: bool) -> u8 {
    if json {
        return match serde_json::to_string_pretty(done) {
            Ok(text) => {
                print(&format!("{text}\n"));
                OK
            }
            Err(error) => {
                complain(format_args!("what was done cannot be written as JSON: {error}"));
                SOFTWARE
            }
        };
    }
    print(&line(done));
    OK
}

fn line(done: &TakenOver) -> String {
    let TakenOver { pid, version, moved, left } = done;
    let left = match left {
        0 => String::new(),
        left => format!("; {left} are served by the old one until they can go, or end"),
    };
    format!("Flifo {version} has taken over as process {pid}, with {moved} clients{left}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told() {
        let mut done = TakenOver { pid: 7, version: "0.1.0".into(), moved: 100, left: 0 };
        assert_eq!(line(&done), "Flifo 0.1.0 has taken over as process 7, with 100 clients\n");
        done.left = 2;
        assert!(line(&done).ends_with("; 2 are served by the old one until they can go, or end\n"));
    }
}
