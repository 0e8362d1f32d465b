//! How evenly a hundred clients are served that share one to four backend connections, with two to four workers.
//!
//! `cargo run --release -p testkit --example fairness [PROGRAM] [SECONDS] [REST]` starts a private MariaDB and, for
//! each row, a Flifo (this PROGRAM instead of the built one, if that is named and not "-"; REST is more of `[server]`).
//! The exit status is 1 if Jain's index over the clients is below 0.95 anywhere.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench::private_server::PrivateServer;
use testkit::fairness::{Work, serve};
use testkit::flifo::{Flifo, program};

const CLIENTS: usize = 100;
const PROMISED: f64 = 0.95;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let named = arguments.next().filter(|it| it != "-").map(PathBuf::from);
    let program = named.unwrap_or_else(|| program().to_owned());
    let seconds = arguments.next().map_or(4.0, |it| it.parse().expect("seconds"));
    let rest = arguments.next().unwrap_or_default();
    let server = PrivateServer::start_default().expect("a private MariaDB starts");
    let (name, password) = (PrivateServer::USER, server.password());
    let mut least = f64::MAX;
    println!("work          workers  backends    least  median    most  a second   Jain  errors");
    for work in Work::ALL {
        for workers in 2..=4 {
            for backends in 1..=4 {
                let flifo = Flifo::start_program(
                    &program,
                    &format!(
                        "workers = {workers}\n[server]\naddress = {:?}\nconnections_max = {backends}\n{rest}\n\
                         [[users]]\nname = {name:?}\npassword = {password:?}\n",
                        server.socket().display().to_string()
                    ),
                );
                let length = Duration::from_secs_f64(seconds);
                let served = serve(flifo.port(), (name, password), CLIENTS, work, length);
                let (counts, jain) = (&served.counts, served.jain());
                let [low, median, high] = [0, CLIENTS / 2, CLIENTS - 1].map(|at| counts[at]);
                println!(
                    "{:<13} {workers:>7} {backends:>6} {low:>8} {median:>7} {high:>7} {:>9.0} {jain:>6.3} {:>7}",
                    work.name(),
                    served.sum() as f64 / seconds,
                    served.errors
                );
                least = least.min(jain);
            }
        }
    }
    if least >= PROMISED { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
