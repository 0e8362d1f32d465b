//! `flifo health`: whether a running Flifo serves, as an exit status.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use proxy::config::{self, Overrides};
use proxy::health::{self, HealthAnswer, Question};
use shell::{CONFIG, OK, UNAVAILABLE, complain, print};

pub(crate) fn run(
    file: Option<&Path>,
    address: Option<SocketAddr>,
    ready: bool,
    patience: Duration,
) -> u8 {
    let plan = match config::load(file, &Overrides::default()) {
        Ok((plan, _)) => plan,
        Err(problems) => {
            problems.iter().for_each(complain);
            return CONFIG;
        }
    };
    let question = if ready { Question::Ready } else { Question::Health };
    match health::ask(&plan, address, question, patience) {
        Ok(HealthAnswer::Well) => {
            print("ok\n");
            OK
        }
        Ok(HealthAnswer::Unwell(why)) => {
            complain(why);
            UNAVAILABLE
        }
        Err(error) => {
            complain(error);
            UNAVAILABLE
        }
    }
}
