//! What may be asked of a run, and what must not.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use backend::Address;
use backend::login::{BackendTls, Credential};
use backend::tls::{ForBackends, Mode, server_name};

use crate::load::Account;
use crate::results::{Layout, Pacing, Protocol, Role};
use crate::targets::TargetKind;
use crate::topology::{self, TopologyKind};
use crate::workloads::random::Distribution;
use crate::workloads::{Shape, Workload};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Names and addresses.
    pub targets: Vec<(String, String)>,
    /// To be started for the run, with a private server.
    pub start: Vec<TargetKind>,
    /// Workers of a Flifo and threads of a HAProxy that are started; else each one's own default.
    pub workers: Option<u32>,
    /// The program that is started as Flifo, where one is to be started.
    pub flifo: PathBuf,
    /// Topologies that take turns; none has everything stay where it is.
    pub places: Vec<TopologyKind>,
    pub workloads: Vec<String>,
    pub shape: Shape,
    pub clients: Vec<u32>,
    pub idle: u32,
    /// How often each target has its turn in each start.
    pub rounds: u32,
    /// How often what is to be started is started.
    pub restarts: u32,
    /// How often a disturbed round is run again.
    pub repeats: u32,
    pub seconds: f64,
    pub warm_up: f64,
    pub ramp: f64,
    pub pacing: Pacing,
    pub protocol: Protocol,
    pub threads: u32,
    pub tables: Option<u32>,
    pub rows: Option<u32>,
    pub distribution: Distribution,
    pub seed: u64,
    pub user: String,
    pub password: String,
    pub schema: String,
    pub tls: Mode,
    /// Processes whose figures are wanted, beside those that are found.
    pub processes: Vec<(Role, u32)>,
}

/// A topology on this machine.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) name: String,
    /// Absent where nothing is bound.
    pub(super) layout: Option<Layout>,
}

/// Arguments that make no sense, as opposed to a world that is not as it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

/// A short turn of one client: what is not asked for otherwise.
impl Default for RunOptions {
    fn default() -> Self {
        Self {
            command: std::env::args().collect(),
            targets: Vec::new(),
            start: Vec::new(),
            workers: None,
            flifo: "flifo".into(),
            places: Vec::new(),
            workloads: vec!["oltp_point_select".into()],
            shape: Shape::default(),
            clients: vec![1],
            idle: 0,
            rounds: 1,
            restarts: 1,
            repeats: 0,
            seconds: 1.0,
            warm_up: 0.0,
            ramp: 0.0,
            pacing: Pacing::Closed { think_ms: 0.0 },
            protocol: Protocol::Prepared,
            threads: 1,
            tables: None,
            rows: None,
            distribution: Distribution::default(),
            seed: 1,
            user: "sbtest".into(),
            password: String::new(),
            schema: "sbtest".into(),
            tls: Mode::Off,
            processes: Vec::new(),
        }
    }
}

impl RunOptions {
    /// Judges everything that can be judged without looking around. Returns the workloads.
    pub(super) fn check(&self) -> Result<Vec<Workload>> {
        self.check_target()?;
        let number = |name: &str, value: f64, low: f64, high: f64| {
            let fits = value.is_finite() && low <= value && value <= high;
            let why = format!("{name} {value} is not between {low} and {high}");
            if fits { Ok(()) } else { Err(Wrong(why)) }
        };
        number("--seconds", self.seconds, 0.1, 86_400.0)?;
        number("--warm-up", self.warm_up, 0.0, 86_400.0)?;
        number("--ramp", self.ramp, 0.0, 86_400.0)?;
        number("--rounds", f64::from(self.rounds), 1.0, 1000.0)?;
        number("--restarts", f64::from(self.restarts), 1.0, 1000.0)?;
        if self.start.is_empty() && self.restarts != 1 {
            let why = "--restarts is for what the run starts itself (--start): it cannot start a \
                       --target anew";
            return Err(Wrong(why.into()).into());
        }
        number("--workers", f64::from(self.workers.unwrap_or(1)), 1.0, 256.0)?;
        number("--threads", f64::from(self.threads), 1.0, 256.0)?;
        number("--idle", f64::from(self.idle), 0.0, CLIENTS_MAX)?;
        match self.pacing {
            Pacing::Closed { think_ms } => number("--think", think_ms, 0.0, 3.6e6)?,
            Pacing::Open { rate, .. } => number("--rate", rate, 0.001, 1e7)?,
        }
        if self.clients.is_empty() || self.workloads.is_empty() {
            return Err(Wrong("there is nothing to do: no clients, or no workload".into()).into());
        }
        for clients in &self.clients {
            number("--clients", f64::from(*clients), 1.0, CLIENTS_MAX)?;
        }
        let parse = |name: &String| Workload::parse(name, &self.shape);
        let workloads: Result<Vec<_>, _> = self.workloads.iter().map(parse).collect();
        Ok(workloads.map_err(|error| Wrong(error.to_string()))?)
    }

    /// What the topologies mean on this machine; one without a layout if none is asked for.
    pub(super) fn stages(&self) -> Result<Vec<Stage>> {
        if self.places.is_empty() {
            return Ok(vec![Stage { name: String::new(), layout: None }]);
        }
        let given = topology::given()?;
        topology::try_to_bind(&given)?;
        let mut stages: Vec<Stage> = Vec::new();
        for kind in &self.places {
            let wrong = |why: String| Wrong(format!("--place {kind}: {why}"));
            let layout = kind.layout(&given).map_err(|error| wrong(error.to_string()))?;
            let name = kind.to_string();
            if stages.iter().any(|stage| stage.name == name) {
                return Err(wrong("it is named twice".into()).into());
            }
            stages.push(Stage { name, layout: Some(layout) });
        }
        Ok(stages)
    }

    /// Names and addresses of all targets, in the order of their turns.
    pub(super) fn names(&self) -> Vec<(String, String)> {
        let started = self.start.iter().map(|kind| (kind.name().into(), kind.name().into()));
        started.chain(self.targets.iter().cloned()).collect()
    }

    /// There must be a target, and their names must tell them apart.
    pub(super) fn check_target(&self) -> Result<()> {
        let wrong = |why: String| Err(Wrong(why).into());
        if self.targets.is_empty() && self.start.is_empty() {
            return wrong(
                "no target: name one, such as --target direct=unix:/run/mysqld/mysqld.sock, or let \
                 some be started, such as --start direct,flifo"
                    .into(),
            );
        }
        let mut names: Vec<String> = self.names().into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        if names.len() < count {
            return wrong("two targets have the same name; write --target NAME=ADDRESS".into());
        }
        for (name, address) in &self.targets {
            if let Err(error) = Address::from_str(address) {
                return wrong(format!("target {name}: {error}"));
            }
        }
        Ok(())
    }

    /// How clients log in at each target that is named.
    pub(super) fn addresses(&self) -> Result<Vec<(Account, Address)>> {
        let each = |(name, address): &(String, String)| {
            let address = Address::from_str(address).context("an address that was checked")?;
            let account = self.account(&address, &self.password);
            Ok((account.with_context(|| format!("target {name}"))?, address))
        };
        self.targets.iter().map(each).collect()
    }

    pub(super) fn account(&self, address: &Address, password: &str) -> Result<Account> {
        let settings = ForBackends { mode: self.tls, ..ForBackends::default() };
        let tls = settings.config()?.map(|config| {
            let host = match address {
                Address::Tcp { host, .. } => host.as_str(),
                Address::Unix(_) => "localhost",
            };
            let name = server_name(host)?;
            anyhow::Ok(BackendTls { mode: self.tls, config: Arc::clone(&config), name })
        });
        Ok(Account {
            user: self.user.clone(),
            credential: Credential::Password(password.into()),
            schema: self.schema.clone(),
            tls: tls.transpose()?,
        })
    }
}

/// What a machine with two addresses has in ports.
const CLIENTS_MAX: f64 = 100_000.0;
