//! `flifo placement restore`: undoes what a Flifo that was killed has left behind.

use std::path::{Path, PathBuf};

use proxy::config::{self, Overrides};
use proxy::placement::{self, Undone};
use shell::{CONFIG, OK, UNAVAILABLE, complain, print};

use crate::arguments::PlacementCommand;

pub(crate) fn run(command: PlacementCommand) -> u8 {
    let PlacementCommand::Restore { config, state } = command;
    let path = match state.map_or_else(|| configured(config.as_deref()), Ok) {
        Ok(path) => path,
        Err(code) => return code,
    };
    match placement::restore(&path) {
        Ok(None) => {
            print(&format!("{}: nothing is changed\n", path.display()));
            OK
        }
        Ok(Some(undone)) => tell(&undone),
        Err(error) => {
            complain(format_args!("placement restore: {error}"));
            UNAVAILABLE
        }
    }
}

fn configured(file: Option<&Path>) -> Result<PathBuf, u8> {
    match config::load(file, &Overrides::default()) {
        Ok((plan, _)) => Ok(placement::journal_path(&plan)),
        Err(problems) => {
            problems.iter().for_each(complain);
            Err(CONFIG)
        }
    }
}

fn tell(undone: &Undone) -> u8 {
    let Undone { changes, others, failed } = undone;
    let mut text = format!("{changes} changes undone\n");
    for other in others {
        text += &format!("not undone, because another process has changed it since: {other}\n");
    }
    print(&text);
    for why in failed {
        complain(format_args!("placement restore: not undone: {why}"));
    }
    if failed.is_empty() { OK } else { UNAVAILABLE }
}
