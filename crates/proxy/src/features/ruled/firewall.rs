//! A rule's firewall meets a text: what it learns is kept in its file, what is strange to it is logged or refused.
//!
//! Invariants: a form is written once, and not on the worker's thread; lines of the log are bounded.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use engine::statement::firewall::{FirewallMode, Passage};
use engine::statement::rule::RuleFirewall;
use engine::statement::rules::ReadyRule;
use wire::text::Text;

use crate::fault::{Fault, Kind};
use crate::state::client::Client;
use crate::state::worker::Worker;

/// `text`: nothing, if not all of it is there. An error says why it does not pass.
pub(super) fn pass(
    worker: &Worker,
    client: &Client,
    (ready, ruled): (&ReadyRule, &RuleFirewall),
    text: Option<Text<'_>>,
) -> Result<(), Fault> {
    let now = crate::worker::clock::now();
    let user = client.user.borrow();
    let (why, is_first) = match ready.firewall.judge(ruled.mode, text, user.as_bytes(), now) {
        Passage::Known => return Ok(()),
        Passage::Learnt(form) => {
            keep(&ready.rule.name, &ruled.file, form);
            return Ok(());
        }
        Passage::Strange { why, is_first } => (why, is_first),
    };
    let name = &ready.rule.name;
    if is_first && let Some(left_out) = worker.upkeep.limit_lines.borrow_mut().write(now) {
        tracing::warn!(
            rule = name,
            mode = ruled.mode.name(),
            client = client.id,
            user = %user,
            address = client.peer.map(|peer| tracing::field::display(peer.ip())),
            why,
            left_out,
            "a firewall does not know a statement (SHOW STRANGERS)"
        );
    }
    match ruled.mode {
        FirewallMode::Protect => {
            let message = format!("Flifo did not run this statement: the rule {name:?}: {why}");
            Err(Fault::relayed(1227, "42000", &message).of_kind(Kind::RuleRefused))
        }
        FirewallMode::Learn | FirewallMode::Detect => Ok(()),
    }
}

/// Writes a form down.
fn keep(rule: &str, file: &Path, form: String) {
    let (rule, file) = (rule.to_owned(), file.to_owned());
    tokio::task::spawn_blocking(move || {
        if let Err(error) = append(&file, &form) {
            let file = file.display();
            tracing::error!(
                rule,
                %file,
                %error,
                "a form of a statement was learnt and cannot be kept: change the file's or its folder's rights, or start \
                 Flifo again, whose sandbox (hardening.sandbox) keeps it from folders that were not named when it started"
            );
        }
    });
}

/// A line in one write: workers do not break each other's.
#[expect(clippy::disallowed_methods, reason = "it runs on a thread that may block")]
fn append(file: &Path, form: &str) -> io::Result<()> {
    // Statements are users' data: others do not read them.
    let mut file = OpenOptions::new().append(true).create(true).mode(0o640).open(file)?;
    file.write_all(format!("{form}\n").as_bytes())
}
