//! Every option: one row each. What is read, checked, documented and shown as a sample comes from
//! these rows; a default is what the plan itself has in the place that the row names.

mod cache;
mod classes;
mod clients;
mod clusters;
mod hardening;
mod limits;
mod logs;
mod outside;
mod paths;
mod placement;
mod records;
mod server;
mod servers;
mod users;

use super::form::Form;
use super::plan::{ClassRule, ClusterRule, Plan, RouteRule, ServerRule, UserOptions};

/// One option of `T`: of the plan, of one user, of one class.
pub(super) struct Row<T: 'static> {
    pub(super) name: &'static str,
    pub(super) form: Form<T>,
    /// What one might write, as TOML; needed where nothing is the default.
    pub(super) example: Option<&'static str>,
    /// What it does and why its default is what it is; one paragraph.
    pub(super) doc: &'static str,
    /// What does the same elsewhere: program and option. The message about such a name tells ours.
    pub(super) elsewhere: &'static [(&'static str, &'static str)],
    /// The version that had it first.
    pub(super) since: &'static str,
    pub(super) applies: Applies,
}

/// When a new value of an option is in force that comes with a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applies {
    Now,
    /// To clients and backend connections that connect later.
    NewConnections,
    /// When Flifo is started again, for this reason.
    Restart(&'static str),
}

impl Applies {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::NewConnections => "for new connections",
            Self::Restart(_) => "when Flifo is started again",
        }
    }
}

/// Options that stand together, and what they are about.
pub(super) struct Section<T: 'static> {
    /// Empty for what stands at the top of the file.
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) rows: &'static [Row<T>],
}

impl<T> Section<T> {
    /// How an option is named in full: `limits.wait`.
    pub(super) fn path(&self, option: &str) -> String {
        match self.name {
            "" => option.to_owned(),
            section => format!("{section}.{option}"),
        }
    }
}

/// The sections of the plan, in the order in which they are documented.
pub(super) static SECTIONS: [&Section<Plan>; 15] = [
    &clients::TOP,
    &server::SERVER,
    &servers::CHECKS,
    &servers::ROUTING,
    &cache::CACHE,
    &clients::TLS,
    &clients::PROXY_PROTOCOL,
    &limits::LIMITS,
    &logs::LOGS,
    &records::SLOW,
    &records::AUDIT,
    &outside::CONSOLE,
    &outside::HTTP,
    &placement::PLACEMENT,
    &hardening::HARDENING,
];

/// The sections that are lists.
pub(super) static USERS: &Section<UserOptions> = &users::USERS;
pub(super) static CLASSES: &Section<ClassRule> = &classes::CLASSES;
pub(super) static SERVERS: &Section<ServerRule> = &servers::SERVERS;
pub(super) static ROUTES: &Section<RouteRule> = &servers::ROUTES;

pub(super) static CLUSTERS: &Section<ClusterRule> = &clusters::CLUSTERS;

/// What they are called.
pub(super) const LISTS: [&str; 5] = [
    users::USERS.name,
    classes::CLASSES.name,
    clusters::CLUSTERS.name,
    servers::SERVERS.name,
    servers::ROUTES.name,
];

/// The first version there is.
const FIRST: &str = "0.1";
