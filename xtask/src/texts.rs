//! `cargo xtask texts`: random texts that are easily misread, each run on a real server, whose effects are compared with
//! what was read.
//!
//! What is run and compared is [`testkit::texts`]'s; this owns the command line and what is printed.

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use testkit::texts::Site;

/// How much is run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How many texts.
    #[arg(long, default_value_t = 50_000)]
    texts: u64,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// So many texts between two looks at whether to stop.
const STEP: u64 = 10_000;

pub(crate) fn run(extent: &Extent, interrupt: &Interrupt) -> Result<()> {
    let mut site = Site::start(extent.seed);
    let (mut texts, mut ran, mut did, mut misread) = (0, 0, 0, 0);
    while texts < extent.texts {
        interrupt.check()?;
        let outcome = site.run(STEP.min(extent.texts - texts));
        for told in &outcome.misread {
            println!("{told}");
        }
        (texts, ran, did) = (texts + outcome.texts, ran + outcome.ran, did + outcome.did);
        misread += outcome.misread.len();
    }
    println!("{texts} texts, of which {ran} ran and {did} did something; {misread} were misread");
    ensure!(misread == 0, "{misread} texts were read as less than they did");
    Ok(())
}
