//! `flifo upgrade`: the program that is installed now takes over from the Flifo that runs.

use proxy::remote::{self, TakenOver};
use shell::{OK, UNAVAILABLE, complain, print};

use crate::console::{Console, print_json};

pub(crate) fn run(console: &Console, json: bool) -> u8 {
    let (plan, address) = match console.find() {
        Ok(found) => found,
        Err(status) => return status,
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
        return print_json(done);
    }
    print(&line(done));
    OK
}

fn line(done: &TakenOver) -> String {
    let TakenOver { pid, version, moved, left, why } = done;
    let left = match left {
        0 => String::new(),
        left => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            format!("; {left} are served by the old one until they can go, or end{why}")
        }
    };
    format!("Flifo {version} has taken over as process {pid}, with {moved} clients{left}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told() {
        let mut done =
            TakenOver { pid: 7, version: "0.1.0".into(), moved: 100, left: 0, why: String::new() };
        assert_eq!(line(&done), "Flifo 0.1.0 has taken over as process 7, with 100 clients\n");
        done.left = 2;
        assert!(line(&done).ends_with("; 2 are served by the old one until they can go, or end\n"));
        done.why = "2 with TLS".into();
        assert!(
            line(&done).ends_with("until they can go, or end: 2 with TLS\n"),
            "{}",
            line(&done)
        );
    }
}
