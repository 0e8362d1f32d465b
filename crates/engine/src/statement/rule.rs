//! What a rule is: what it matches, and what it does.
//!
//! Plain values, as a configuration gives them; [`super::rules`] makes of them what is asked for each statement.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::firewall::FirewallMode;
use super::kind::StatementKind;
use super::template::Template;
use super::window::TimeWindow;
use crate::mirror::fit::MirrorTakes;
use crate::mirror::queue::MirrorBounds;
use crate::sharing::ShareReads;
use wire::like::NamePattern;

/// A rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub name: String,
    pub note: String,
    pub off: bool,
    /// It is looked at only behind a jump to this label; without one, only if no jump was made.
    pub label: Option<String>,
    /// All of it must hold.
    pub conditions: Vec<Condition>,
    /// Of what matches, only this share.
    pub share: Option<f64>,
    pub acts: RuleActs,
    /// Where it goes on; by default, nowhere if this rule routes, refuses or answers, else at the next rule.
    pub then: Option<Then>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    Next,
    Stop,
    Jump(String),
}

/// Something that a statement is, or is not.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    User(Vec<NamePattern>),
    Schema(Vec<NamePattern>),
    Address(Vec<RuleNetwork>),
    /// The address that the client came in by.
    Listener(Vec<NamePattern>),
    /// What the client's program calls itself.
    Program(Vec<NamePattern>),
    /// Where it would go if no rule sent it.
    Cluster(Vec<NamePattern>),
    Role(Vec<RuleRole>),
    Kind(Vec<StatementKind>),
    Table(Vec<TablePattern>),
    /// One of these statements.
    Digest(Vec<DigestPattern>),
    /// An expression over the text with `?` for each literal.
    DigestMatches(String),
    /// An expression over the text.
    TextMatches(String),
    Tag(String, Vec<NamePattern>),
    InTransaction(bool),
    Time(Vec<TimeWindow>),
    /// Its digest does not say that it cannot be of this form; and it is of this form. What a rule rewrites, it matches.
    MayFit(Template),
    Fits(Template),
    Not(Vec<Self>),
    Any(Vec<Vec<Self>>),
    All(Vec<Vec<Self>>),
}

impl Condition {
    /// What it is called in a configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Schema(_) => "schema",
            Self::Address(_) => "address",
            Self::Listener(_) => "listener",
            Self::Program(_) => "program",
            Self::Cluster(_) => "cluster",
            Self::Role(_) => "role",
            Self::Kind(_) => "kind",
            Self::Table(_) => "table",
            Self::Digest(_) => "digest",
            Self::DigestMatches(_) => "digest_matches",
            Self::TextMatches(_) => "text_matches",
            Self::Tag(..) => "tag",
            Self::InTransaction(_) => "in_transaction",
            Self::Time(_) => "time",
            Self::MayFit(_) | Self::Fits(_) => "rewrite",
            Self::Not(_) => "not",
            Self::Any(_) => "any",
            Self::All(_) => "all",
        }
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleNetwork {
    pub address: IpAddr,
    /// How many leading bits count.
    pub bits: u8,
}

impl RuleNetwork {
    /// Whether an address is one of these. An IPv4 address may be written as an IPv6 one.
    pub fn holds(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(it) => (u128::from(it.to_bits()) << 96, 32),
            IpAddr::V6(it) => (it.to_bits(), 128),
        };
        let ((own, of), (other, as_many)) = (bits(self.address), bits(address.to_canonical()));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        of == as_many && (own ^ other) & mask == 0
    }
}

/// A table, of any schema if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    pub schema: Option<NamePattern>,
    pub table: NamePattern,
}

/// A statement whose literals do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestPattern {
    Number(u64),
    /// Its text.
    Text(String),
}

/// What a rule does with what it matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleActs {
    pub rewrite: Option<Template>,
    /// An expression, and what stands in the place of what it finds.
    pub replace: Option<(String, String)>,
    pub hint: Option<String>,
    pub comment: Option<String>,
    pub refuse: Option<RuleRefusal>,
    pub answer: Option<RuleAnswer>,
    pub route: Option<RuleRoute>,
    pub class: Option<String>,
    pub rate: Option<RuleRate>,
    pub delay: Option<Duration>,
    /// So many at once.
    pub at_once: Option<u32>,
    pub firewall: Option<RuleFirewall>,
    /// How long it may run.
    pub statement_time: Option<Duration>,
    /// How long it may wait before it runs.
    pub queue_timeout: Option<Duration>,
    /// Logs that have it, whatever time it takes.
    pub log: Vec<RuleLog>,
    pub connection: Option<RuleConnection>,
    /// How often it is run again if it is a read whose connection is lost.
    pub retries: Option<u32>,
    /// Where rules begin for the client's next statements.
    pub next: Option<Next>,
    /// For how long its reply is kept.
    pub cache: Option<RuleCache>,
    /// A copy of it runs in another cluster.
    pub mirror: Option<RuleMirror>,
    /// Whether equal reads that wait are run once.
    pub share_reads: ShareReads,
}

/// How a reply is kept for clients that ask the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCache {
    /// For so long it is as good as a new one.
    pub keep: Duration,
    /// So much longer others get it while one client's statement fetches a new one.
    pub stale: Duration,
    /// Long replies are kept as well.
    pub is_large: bool,
}

/// Where copies of statements run whose replies are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMirror {
    pub cluster: String,
    /// Statements that change rows are mirrored as well.
    pub writes: bool,
    /// So many run at once.
    pub at_once: u32,
    /// So many wait.
    pub queue: u32,
    /// Memory of those that are held.
    pub memory: u64,
    /// How long one may take, its wait among it.
    pub within: Duration,
}

impl RuleMirror {
    /// What holds where a configuration says nothing else.
    pub const fn into(cluster: String) -> Self {
        Self {
            cluster,
            writes: false,
            at_once: 4,
            queue: 100,
            memory: 16 << 20,
            within: Duration::from_secs(5),
        }
    }

    pub const fn takes(&self) -> MirrorTakes {
        if self.writes { MirrorTakes::ReadsAndWrites } else { MirrorTakes::Reads }
    }

    pub const fn bounds(&self) -> MirrorBounds {
        MirrorBounds {
            at_once: self.at_once as usize,
            queue: self.queue as usize,
            within: self.within,
        }
    }
}

/// Where rules begin for a client's next statements, until a rule says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// At the first rule without a label.
    Start,
    /// At the first rule with this label.
    Jump(String),
}

impl Next {
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Start => None,
            Self::Jump(label) => Some(label),
        }
    }
}

/// A log that has a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleLog {
    Slow,
    Audit,
}

impl RuleLog {
    pub const ALL: [(&'static str, Self); 2] = [("slow", Self::Slow), ("audit", Self::Audit)];
}

/// What becomes of a client's backend connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleConnection {
    /// The client keeps it from now on.
    Keep,
    /// It is shared, as soon as nothing else keeps it.
    Share,
}

impl RuleConnection {
    pub const ALL: [(&'static str, Self); 2] = [("keep", Self::Keep), ("share", Self::Share)];
}

/// Statements of a known form pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFirewall {
    pub mode: FirewallMode,
    /// Where their forms are kept.
    pub file: PathBuf,
    /// Those that stand there.
    pub forms: Arc<[String]>,
}

/// The error that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRefusal {
    pub number: u16,
    pub state: [u8; 5],
    pub message: String,
}

/// What a client is told in the server's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAnswer {
    Ok,
    Rows { columns: Vec<String>, rows: Vec<Vec<String>> },
}

/// Where a statement goes: into a cluster, and there where it would go anyway unless a target is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleRoute {
    /// `None`: the one that it would go to anyway, or that of the server.
    pub cluster: Option<String>,
    pub target: Option<RuleTarget>,
    /// Where it goes instead while the server that is named cannot take it.
    pub fallback: Option<RuleRole>,
}

/// Where in a cluster a statement goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    Role(RuleRole),
    Server(String),
}

/// What a server of a cluster is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleRole {
    #[default]
    Writer,
    Reader,
}

impl RuleRole {
    pub const ALL: [(&'static str, Self); 2] = [("writer", Self::Writer), ("reader", Self::Reader)];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }
}

/// How many statements there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleRate {
    pub per: RatePer,
    pub statements: u32,
    pub within: Duration,
    /// So many at once, behind a rest.
    pub burst: u32,
}

/// What has a rate of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RatePer {
    #[default]
    All,
    User,
    Schema,
    Address,
    Digest,
}

impl RatePer {
    pub const ALL: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("user", Self::User),
        ("schema", Self::Schema),
        ("address", Self::Address),
        ("digest", Self::Digest),
    ];
}

impl RuleActs {
    /// Whether the statement's way ends with it: nothing that stands behind could matter as much.
    pub const fn ends(&self) -> bool {
        self.refuse.is_some() || self.answer.is_some() || self.route.is_some()
    }

    /// Whether it may refuse a statement for what it is: then it refuses what cannot be read, too.
    pub fn refuses(&self) -> bool {
        let protects = |it: &RuleFirewall| it.mode == FirewallMode::Protect;
        self.refuse.is_some() || self.firewall.as_ref().is_some_and(protects)
    }

    pub const fn edits(&self) -> bool {
        self.rewrite.is_some()
            || self.replace.is_some()
            || self.hint.is_some()
            || self.comment.is_some()
    }

    /// What it does, by the names of a configuration.
    pub fn names(&self) -> Vec<&'static str> {
        let acts = [
            ("rewrite", self.rewrite.is_some()),
            ("replace", self.replace.is_some()),
            ("hint", self.hint.is_some()),
            ("comment", self.comment.is_some()),
            ("refuse", self.refuse.is_some()),
            ("answer", self.answer.is_some()),
            ("route", self.route.is_some()),
            ("class", self.class.is_some()),
            ("rate", self.rate.is_some()),
            ("delay", self.delay.is_some()),
            ("at_once", self.at_once.is_some()),
            ("firewall", self.firewall.is_some()),
            ("statement_time", self.statement_time.is_some()),
            ("queue_timeout", self.queue_timeout.is_some()),
            ("log", !self.log.is_empty()),
            ("connection", self.connection.is_some()),
            ("retries", self.retries.is_some()),
            ("next", self.next.is_some()),
            ("cache", self.cache.is_some()),
            ("mirror", self.mirror.is_some()),
            ("share_reads", self.share_reads != ShareReads::AsAbove),
        ];
        acts.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }
}

impl RuleAnswer {
    /// The same answer as a statement with so many values to be bound, for clients that prepare what they ask. The
    /// server makes it of constants.
    pub fn as_statement(&self, placeholders: usize) -> Vec<u8> {
        let holes = |before: &str, between: &str| {
            (0..placeholders).map(|at| if at == 0 { before } else { between }).collect::<String>()
        };
        match self {
            Self::Ok => format!("DO 0{}", holes(", ?", ", ?")).into_bytes(),
            Self::Rows { columns, rows } => {
                // Written so that no mode of the server reads it otherwise.
                let literal = |text: &str| {
                    let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
                    format!("_utf8mb4 X'{hex}'")
                };
                let name = |name: &str| format!("`{}`", name.replace('`', "``"));
                let select = |values: &mut dyn Iterator<Item = String>| {
                    format!("SELECT {}", values.collect::<Vec<_>>().join(", "))
                };
                let empty =
                    columns.iter().map(|column| format!("{} AS {}", literal(""), name(column)));
                let nothing = format!("{} FROM DUAL WHERE FALSE{}", select(&mut empty.clone()), {
                    holes(" AND ? IS NULL", " AND ? IS NULL")
                });
                let named =
                    rows.iter().map(|row| {
                        let values = columns.iter().zip(row);
                        select(&mut values.map(|(column, value)| {
                            format!("{} AS {}", literal(value), name(column))
                        }))
                    });
                let all: Vec<_> = std::iter::once(nothing).chain(named).collect();
                all.join(" UNION ALL ").into_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let network = |address: &str, bits| RuleNetwork {
            address: address.parse().expect("an address"),
            bits,
        };
        for (network, address, holds) in [
            (network("10.0.0.0", 8), "10.255.1.2", true),
            (network("10.0.0.0", 8), "11.0.0.1", false),
            (network("0.0.0.0", 0), "1.2.3.4", true),
            (network("0.0.0.0", 0), "::1", false),
            (network("10.0.0.1", 32), "10.0.0.1", true),
            (network("10.0.0.1", 32), "::ffff:10.0.0.1", true),
            (network("fd00::", 8), "fd12::1", true),
            (network("fd00::", 8), "fe00::1", false),
        ] {
            assert_eq!(
                network.holds(address.parse().expect("an address")),
                holds,
                "{network:?} {address}"
            );
        }
    }

    #[test]
    fn an_answer_is_a_statement_of_constants() {
        let text = |answer: &RuleAnswer, holes| {
            String::from_utf8(answer.as_statement(holes)).expect("UTF-8")
        };
        assert_eq!(text(&RuleAnswer::Ok, 0), "DO 0");
        assert_eq!(text(&RuleAnswer::Ok, 2), "DO 0, ?, ?");
        let rows =
            RuleAnswer::Rows { columns: vec!["a`b".to_owned()], rows: vec![vec!["1'".to_owned()]] };
        assert_eq!(
            text(&rows, 1),
            "SELECT _utf8mb4 X'' AS `a``b` FROM DUAL WHERE FALSE AND ? IS NULL UNION ALL SELECT _utf8mb4 X'3127' AS `a``b`"
        );
    }
}
