//! What Flifo has been told: reads a configuration, or tells everything that is wrong with it.
//!
//! A text becomes values with positions ([`reader`]), one option after the other, each by its row
//! in one table ([`options`]); the values together must make sense ([`check`]), and so must the
//! files that they name ([`files`]). The reference and the sample are written from the same table.
//! What comes out is a [`Plan`]. Nothing here listens, connects or runs.

mod address;
mod allowance;
mod check;
mod clusters;
mod difference;
mod files;
mod form;
mod in_force;
mod live;
mod options;
mod plan;
mod problem;
mod reader;
mod reference;
mod rules;
mod suggest;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeValue;
use wire::auth::Secret;
use zeroize::Zeroizing;

pub(crate) use self::allowance::allowance;
pub(crate) use self::difference::{Change, What};
pub(crate) use self::in_force::{InForce, MayPlace, in_force};
pub(crate) use self::live::Live;
pub(crate) use self::options::Applies;
pub(crate) use self::plan::{AcceptedClient, Governing};
pub use self::plan::{
    AccountTerms, AuditLog, CacheOptions, CheckKind, CheckOptions, ClassRule, ClientTls,
    ClientTlsMode, ClusterOptions, ClusterRule, Console, Freshness, Hardening, Http, Limits,
    Listen, LogFormat, LogLevel, Logs, Mode, Network, Parking, PassThroughTls, Password,
    Permission, Pins, Plan, ProxyProtocol, ReadsBy, RecordOptions, RouteRule, Routing, Sandbox,
    ServerOptions, ServerRule, SlowLog, Unseen, UserOptions,
};
pub use self::problem::{Position, Problem, ProblemPlace, Severity, Warning};
pub(crate) use self::reader::is_option;
pub(crate) use self::reference::shown;
pub use self::reference::{reference, sample};

use self::problem::Source;
use self::reader::Reading;

/// What the command line says on top of the file, or instead of it.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--listen`, which replaces the file's list.
    pub listen: Vec<String>,
    pub server: Option<String>,
    pub workers: Option<String>,
    /// `--allow-privileged-user`.
    pub allow_privileged_user: bool,
}

/// Options that were set on the console, by their names in full.
pub(crate) type Settings = BTreeMap<String, Secret>;

/// Where a plan comes from, and comes from again when it is read anew.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    /// Without one, all is as by default.
    pub file: Option<PathBuf>,
    pub overrides: Overrides,
}

impl Instructions {
    /// Reads them; see [`load`].
    pub fn load(&self) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
        load(self.file.as_deref(), &self.overrides)
    }

    /// Reads the text that a plan was made of, and the files that it names as they are now, with these settings on top.
    pub(crate) fn load_again(
        &self,
        plan: &Plan,
        settings: &Settings,
    ) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
        let file = self.file.as_deref();
        let name = file.map_or_else(|| NO_FILE.to_owned(), |it| it.display().to_string());
        let text = String::from_utf8_lossy(plan.text.as_bytes());
        read(&text, (file, &name), &self.overrides, settings)
    }
}

/// Reads a configuration from its text; `file` is what it is called. Looks at no other file.
///
/// If anything is wrong, tells all that is, and what else is odd.
pub fn parse(text: &str, file: &str) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
    let mut reading = Reading::of(Source::new(file, text));
    clusters::read(&mut reading);
    check::contradictions(&mut reading);
    finish(reading)
}

/// Reads a configuration and looks at the files that it names. Without a file, all is as by
/// default.
pub fn load(
    path: Option<&Path>,
    overrides: &Overrides,
) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
    let (text, file) = match path {
        None => (String::new(), NO_FILE.to_owned()),
        Some(path) => {
            let text = files::read(path).map_err(|problem| vec![problem])?;
            (text, path.display().to_string())
        }
    };
    let text = Zeroizing::new(text);
    read(&text, (path, &file), overrides, &Settings::default())
}

fn read(
    text: &str,
    (path, name): (Option<&Path>, &str),
    overrides: &Overrides,
    settings: &Settings,
) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
    let mut reading = Reading::of(Source::new(name, text));
    overrides.apply(&mut reading);
    for (option, value) in settings {
        reading.setting(option, &String::from_utf8_lossy(value.as_bytes()));
    }
    // What is set above holds in all clusters that do not say otherwise.
    clusters::read(&mut reading);
    check::contradictions(&mut reading);
    files::look(&mut reading);
    if let Some(path) = path {
        files::privacy(&mut reading, path);
    }
    finish(reading)
}

fn finish(reading: Reading<'_>) -> Result<(Plan, Vec<Warning>), Vec<Problem>> {
    let Reading { mut plan, written, report, .. } = reading;
    plan.sources = written.sources();
    plan.text = Arc::new(Secret::from(report.source.text));
    report.finish().map(|warnings| (plan, warnings))
}

impl Overrides {
    fn apply(&self, reading: &mut Reading<'_>) {
        if !self.listen.is_empty() {
            let listen = DeValue::Array(self.listen.iter().map(|it| spanless(text(it))).collect());
            reading.argument("--listen", "listen", &listen);
        }
        if let Some(address) = &self.server {
            reading.argument("--server", "server.address", &text(address));
        }
        if let Some(workers) = &self.workers {
            // A number, or else the word that stands for none.
            let number = DeValue::parse(workers).ok().filter(|it| it.get_ref().is_integer());
            let value = number.map_or_else(|| text(workers), toml::Spanned::into_inner);
            reading.argument("--workers", "workers", &value);
        }
        if self.allow_privileged_user {
            let option = "hardening.privileged_user";
            reading.argument("--allow-privileged-user", option, &text("allowed"));
        }
    }
}

fn text(text: &str) -> DeValue<'_> {
    DeValue::String(text.into())
}

fn spanless(value: DeValue<'_>) -> toml::Spanned<DeValue<'_>> {
    toml::Spanned::new(0..0, value)
}

/// What a configuration without a file is called.
const NO_FILE: &str = "no file";
