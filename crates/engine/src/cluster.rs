//! Several servers that belong together: which one is written to, which ones are read from, and why not the others.
//!
//! Owns the health of each, what each has said of its role, and the choice of the writer. Knows no addresses and no
//! clients; what it decides is a [`Layout`]. Invariants:
//!
//! * At most one writer at a time, but where all nodes of a cluster take writes and several are asked for. Where servers
//!   are found by role, two servers that both take writes are a mistake in their set-up: the one that is the writer
//!   already stays the writer, and without one, none is taken.
//! * A server is not the writer unless it was asked for its role since it came up.
//! * A server that has been replaced as the writer is not one again before it was seen `read_only`, or an operator says
//!   so: it may lack what was written in the meantime, and have what no other server has.
//! * A server that is known to lack what the writer before it had (a *gap*) is not the writer before an operator has
//!   confirmed it, or the configuration says so.

pub mod knowledge;
pub mod memory;
pub mod past;
pub mod position;
pub mod writes;

use std::time::{Duration, Instant};

use crate::checks::agent::Report;
use crate::checks::health::{CheckRules, Health, HealthOrder, Others, Sign, State};
use crate::cluster::knowledge::{Holds, Knowledge, Said};
use crate::cluster::memory::{Remembered, ServersMemory};
use crate::cluster::position::{Gtid, Lag, Position};
use crate::time_limits::Bound;

/// Why a server is not used that could be written to beside the writer.
const SECOND_WRITER: &str = "it can be written to, and is not the writer";

/// What a server is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// What it says itself.
    #[default]
    Auto,
    Writer,
    Readers,
    /// It is the only server: it is written to and read from, whatever it says.
    Sole,
}

/// A server, as an operator has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub group: Group,
    /// It is used while no other server can be.
    pub backup: bool,
    /// Further behind than this, it is not read from.
    pub lag_max: Bound,
}

/// What a server has said of its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub read_only: bool,
    pub position: Position,
    /// It was sent what others took, and has not applied all of that.
    pub has_backlog: bool,
    /// Whether it is a node of a cluster, and able to work in it.
    pub node: Node,
    /// The number of the view of its cluster: another one when a node has gone or come.
    pub view: Option<u64>,
    pub flow: Flow,
}

/// What a node has counted of flow control since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// So often it has asked the cluster to wait for it.
    pub asked: u64,
    /// For so long the cluster has waited, for whomever.
    pub paused: Duration,
}

/// A server in a cluster, all nodes of which can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// It is in none.
    None,
    Ready,
    /// It works, but gives to another one or keeps apart for another reason: it is used while no other node can be.
    Desynced(String),
    /// Why it is not ready.
    NotReady(String),
}

/// What is asked of the servers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterBounds {
    /// A reader further behind than this is not read from.
    pub lag_max: Option<Duration>,
    pub gaps: Gaps,
    /// So many readers are read from however far they are behind: those that are least.
    pub readers_min: u32,
    /// So many nodes of a cluster are written to at once. Of other servers it is one.
    pub writers: u32,
    pub writer_reads: WriterReads,
}

impl Default for ClusterBounds {
    fn default() -> Self {
        let (gaps, writer_reads) = (Gaps::default(), WriterReads::default());
        Self { lag_max: None, gaps, readers_min: 0, writers: 1, writer_reads }
    }
}

/// Whether writers are read from by statements that may go to readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriterReads {
    /// While there is no reader for them.
    #[default]
    WithoutReader,
    /// As readers are.
    Always,
    Never,
}

/// What becomes of a server that can be written to and lacks what the writer before it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// It is not used before an operator confirms it.
    #[default]
    Confirm,
    /// It is used.
    Accept,
}

/// What is to be done with each server.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The one that is written to, or why there is none.
    pub writer: Result<usize, String>,
    /// What the writer lacked of what the one before it had, when it took its place.
    pub lost: Option<String>,
    /// What it lacks of what a server had that is gone and was written to before: known only since.
    pub lacks: Option<String>,
    pub places: Vec<ServerPlace>,
}

/// Which statements go to a server, of those that are not bound to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// What may go to a reader.
    Reads,
    /// What may not.
    Writes,
    All,
}

impl Takes {
    pub const fn reads(self) -> bool {
        matches!(self, Self::Reads | Self::All)
    }

    pub const fn writes(self) -> bool {
        matches!(self, Self::Writes | Self::All)
    }
}

/// What is to be done with one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlace {
    pub takes: Takes,
    /// What it is, or why it is nothing.
    pub role: String,
    /// It can be asked, and is able to work in its cluster if it is in one, whatever it is used for.
    pub answers: bool,
    /// What it holds of what each server took.
    pub holds: Vec<Holds>,
    /// It could be the writer, but for what it lacks.
    pub gap: Option<String>,
    /// It had less than it had before, when that was seen last.
    pub went_back: Option<String>,
    pub second: Second,
    pub lag: Option<Duration>,
    /// How much of its weight counts: less than 1 while its load grows, as much as its agent says.
    pub share: f64,
    /// How much of its limit it may use, from 0 (one statement) to 1.
    pub growth: f64,
    /// It has come up, and must show first that it can bear load.
    pub is_on_trial: bool,
    /// Statements at once, if its agent says that.
    pub limit: Option<u32>,
    /// The share of time, from 0 to 1, in which its cluster was held up by flow control, between two checks.
    pub paused: Option<f64>,
}

/// Whether a server can be written to beside the writer, so that nothing keeps them the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Second {
    #[default]
    No,
    /// It has said so. The writer was not asked since, and may be gone.
    Perhaps,
    /// The writer was asked since, and can still be written to.
    Yes,
}

/// All servers.
#[derive(Clone, Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    writer: Option<usize>,
    knowledge: Knowledge,
    lost: Option<String>,
    bounds: ClusterBounds,
}

#[derive(Clone, Debug)]
struct Server {
    member: Member,
    health: Health,
    /// What it has said since it came up.
    role: Option<Role>,
    /// When it was asked first whether it can be written to, of the answers since that all said yes.
    writable_since: Option<Instant>,
    /// Another one has become the writer in its place.
    replaced: bool,
    /// An operator wants it as the writer, whatever it lacks.
    confirmed: bool,
    /// Where it went back to last, and from where.
    went_back: Option<String>,
    /// It was asked once, or is down.
    is_known: bool,
    flow: FlowSeen,
}

/// What two checks have shown of a node's flow control.
#[derive(Clone, Copy, Debug, Default)]
struct FlowSeen {
    last: Option<(Flow, Instant)>,
    paused: Option<f64>,
    /// When it was seen last to have the cluster wait for it.
    slowed: Option<Instant>,
}

/// A node that has had its cluster wait for it is spared for so long.
const SPARED: Duration = Duration::from_secs(5);

/// Its share of the load meanwhile.
const SPARED_SHARE: f64 = 0.1;

impl Cluster {
    pub fn new(
        members: &[Member],
        rules: &CheckRules,
        bounds: ClusterBounds,
        now: Instant,
    ) -> Self {
        let (knowledge, servers) = (Knowledge::default(), Vec::new());
        let mut cluster = Self { servers, writer: None, knowledge, lost: None, bounds };
        members.iter().for_each(|member| cluster.add(*member, rules, now));
        cluster
    }

    /// One more server, behind those that there are: nothing is known of it yet.
    pub fn add(&mut self, member: Member, rules: &CheckRules, now: Instant) {
        self.knowledge.add();
        self.servers.push(Server::new(member, rules, now));
    }

    /// A server is not one of them any more. It keeps its place, and takes nothing new.
    pub fn retire(&mut self, at: usize, reason: &str, now: Instant) {
        let server = &mut self.servers[at];
        server.health.set_order(HealthOrder::Maintenance, reason, now);
        server.role = None;
        self.knowledge.leave(at);
        self.knowledge.lose(at, now);
        self.elect(now);
    }

    /// A server is one of them again: nothing is known of it.
    pub fn revive(&mut self, at: usize, member: Member, rules: &CheckRules, now: Instant) {
        self.servers[at] = Server::new(member, rules, now);
        self.elect(now);
    }

    /// Goes by other rules from now on. What was counted by the old rules counts.
    pub fn reconfigure(&mut self, rules: &CheckRules, bounds: ClusterBounds, now: Instant) {
        self.bounds = bounds;
        self.servers.iter_mut().for_each(|server| server.health.set_rules(rules.clone()));
        self.elect(now);
    }

    /// Writes down what is known, for another process.
    pub fn memory(&self) -> ServersMemory {
        let describe = |(at, server): (usize, &Server)| Remembered {
            replaced: server.replaced,
            confirmed: server.confirmed,
            ..self.knowledge.describe(at)
        };
        let servers = self.servers.iter().enumerate().map(describe).collect();
        ServersMemory { writer: self.writer, servers }
    }

    /// Takes in what another process has known, of servers that are at these places here: those that are `None` are not
    /// among them. A writer that is not known here is waited for until it was asked or is down.
    pub fn remember(&mut self, memory: ServersMemory, places: &[Option<usize>], now: Instant) {
        let here = |there: usize| places.get(there).copied().flatten();
        if let Some(writer) = memory.writer.and_then(here) {
            self.writer = Some(writer);
        }
        for (there, mut known) in memory.servers.into_iter().enumerate() {
            let Some(at) = here(there).filter(|at| *at < self.servers.len()) else { continue };
            let server = &mut self.servers[at];
            (server.replaced, server.confirmed) = (known.replaced, known.confirmed);
            known.doubted = known.doubted.into_iter().filter_map(here).collect();
            self.knowledge.inherit(at, known, now);
        }
        self.elect(now);
    }

    /// Takes a server for something else.
    pub fn regroup(&mut self, at: usize, member: Member, now: Instant) {
        self.servers[at].member = member;
        self.elect(now);
    }

    pub fn health(&self, at: usize) -> &Health {
        &self.servers[at].health
    }

    /// How long until its next check; `None`: it is not checked. While no server is written to, each that may become the
    /// writer is asked sooner.
    pub fn check_interval(&self, at: usize) -> Option<Duration> {
        match self.able_writer().is_some() || self.servers[at].member.group == Group::Readers {
            true => self.health(at).interval(),
            false => self.health(at).short_interval(),
        }
    }

    /// Whether a server is able to work in its cluster, or group, as far as it has said.
    pub fn is_able(&self, at: usize) -> bool {
        !matches!(&self.servers[at].role, Some(Role { node: Node::NotReady(_), .. }))
    }

    /// Whether a check of this server is wanted at once. Asking takes the wish back.
    pub fn takes_check(&mut self, at: usize) -> bool {
        self.servers[at].health.takes_check()
    }

    /// Takes in what something has shown of a server. True: what it is used for may have changed.
    pub fn see(&mut self, at: usize, sign: Sign, now: Instant) -> bool {
        let is_alive = matches!(sign, Sign::Passed | Sign::Busy);
        let changed = self.count(at, sign, now);
        let server = &mut self.servers[at];
        // A server that does not answer at all is waited for until it is down.
        server.is_known |= is_alive || server.health.state() == State::Down;
        self.elect(now);
        changed
    }

    /// Takes in what a server has said, when asked at `begun`; then the check has passed as well.
    pub fn hear(&mut self, at: usize, role: Role, begun: Instant, now: Instant) -> bool {
        let changed = self.count(at, Sign::Passed, now);
        match role.node {
            Node::NotReady(_) => {
                self.knowledge.lose(at, now);
                self.knowledge.hear_last(at, &role.position, begun);
            }
            _ => {
                let takes_writes = !role.read_only || self.writer == Some(at);
                let (position, read_only) = (&role.position, role.read_only);
                let said = Said { position, view: role.view, takes_writes, read_only };
                if let Some(place) = self.knowledge.hear(at, said, begun) {
                    self.servers[at].went_back = Some(place);
                }
            }
        }
        let server = &mut self.servers[at];
        // A node of a cluster gets what it lacks before it is ready.
        server.replaced &= !role.read_only && role.node == Node::None;
        server.confirmed &= !role.read_only;
        server.is_known = true;
        server.writable_since = match role.read_only {
            true => None,
            false => server.writable_since.or(Some(begun)),
        };
        match role.node {
            Node::None => {}
            _ => server.flow.see(role.flow, now),
        }
        let before = server.role.replace(role);
        if !server.health.is_usable() {
            // It is asked again once it is up.
            server.role = None;
        }
        let changed = changed || before != server.role;
        self.elect(now);
        changed
    }

    fn count(&mut self, at: usize, sign: Sign, now: Instant) -> bool {
        let mut others = self.servers.iter().enumerate().filter(|(other, _)| *other != at);
        let others = match others.any(|(_, other)| other.health.is_usable()) {
            true => Others::AreUp,
            false => Others::AreDown,
        };
        let server = &mut self.servers[at];
        let changed = server.health.see(sign, others, now);
        if matches!(server.health.state(), State::Down | State::GoingUp) {
            (server.role, server.writable_since) = (None, None);
            server.flow = FlowSeen::default();
            self.knowledge.lose(at, now);
        }
        changed
    }

    /// An operator's order. To put a server back into service is also to vouch for it.
    pub fn order(&mut self, at: usize, order: HealthOrder, reason: &str, now: Instant) {
        let server = &mut self.servers[at];
        server.health.set_order(order, reason, now);
        match order {
            HealthOrder::None => {
                server.replaced = false;
                self.knowledge.trust(at);
            }
            HealthOrder::Maintenance => self.knowledge.leave(at),
            HealthOrder::Drain => {}
        }
        self.elect(now);
    }

    /// An operator wants a server as the writer although it lacks what the one before it had, or was replaced. An
    /// error: why there is nothing to confirm.
    pub fn confirm(&mut self, at: usize, now: Instant) -> Result<(), String> {
        let server = &self.servers[at];
        if !server.health.is_usable() {
            return Err(server.why_unusable());
        }
        if self.writer == Some(at) && self.may_write(at).is_ok() {
            return self.confirm_present(at, now);
        }
        match &server.role {
            Some(Role { read_only: true, .. }) => return Err("it is read_only".to_owned()),
            _ if self.gap(at).is_none() && !server.replaced => {
                return Err("it lacks nothing that is known".to_owned());
            }
            _ => {}
        }
        let server = &mut self.servers[at];
        (server.confirmed, server.replaced) = (true, false);
        self.elect(now);
        Ok(())
    }

    /// An operator decides that what other servers took is what the writer has: one of them never tells its last
    /// position, or tells one that the writer will not have.
    fn confirm_present(&mut self, writer: usize, now: Instant) -> Result<(), String> {
        let others = (0..self.servers.len()).filter(|at| *at != writer);
        let open: Vec<_> = others.filter(|at| !self.knowledge.has_all(writer, *at)).collect();
        if open.is_empty() {
            return Err("it is the writer".to_owned());
        }
        for at in open {
            self.knowledge.settle(at, writer, now);
            self.knowledge.forget_past(at);
        }
        self.elect(now);
        Ok(())
    }

    /// Takes in what a server's agent says of it. True: something is not as it was.
    pub fn hear_agent(&mut self, at: usize, report: &Report, now: Instant) -> bool {
        let changed = self.servers[at].health.hear_agent(report, now);
        self.elect(now);
        changed
    }

    /// A statement has ended well on a server that is on trial.
    pub fn tried(&mut self, at: usize, now: Instant) {
        self.servers[at].health.tried(now);
    }

    /// A client was told that its write is on this server, at this position.
    pub fn acknowledge(&mut self, at: usize, position: Position) {
        self.knowledge.acknowledge(at, position);
    }

    /// Whether a server has come to a place that was named, as far as its numbers are believed.
    pub fn has_come_to(&self, at: usize, named: &Position) -> bool {
        self.servers[at].health.is_usable() && self.knowledge.has_come_to(at, named)
    }

    /// Whether a server has what another one took before it was gone, up to this number; without one, nothing.
    pub fn has_write(&self, at: usize, taker: usize, gtid: Option<Gtid>) -> bool {
        self.servers[at].health.is_usable() && self.knowledge.has_write(at, taker, gtid)
    }

    fn elect(&mut self, now: Instant) {
        let is_synced = |at: usize| self.may_write(at).is_ok() && !self.servers[at].is_desynced();
        let stays = self.writer.is_some_and(|at| {
            is_synced(at) || self.may_write(at).is_ok() && !(0..self.servers.len()).any(is_synced)
        });
        let before = self.writer;
        // Until another takes its place, the last one is the one that may come back.
        if !stays && let Some(next) = self.candidate().ok().filter(|next| before != Some(*next)) {
            self.lost = self.lack(next);
            if let Some(before) = before {
                self.servers[before].replaced = self.servers[before].is_asynchronous();
                if self.lost.is_some() {
                    // Clients that have written there get what there is.
                    self.knowledge.settle(before, next, now);
                }
            }
            self.servers.iter_mut().for_each(|server| server.confirmed = false);
            self.writer = Some(next);
            self.knowledge.forget_past(next);
        }
        self.keep_rewound_writer();
        self.settle(now);
    }

    /// The writer went back, and is the writer all the same: it has again what it lacked, or that was decided.
    fn keep_rewound_writer(&mut self) {
        let Some(writer) = self.writer.filter(|at| self.may_write(*at).is_ok()) else { return };
        if self.knowledge.went_back(writer).is_some() {
            self.lost = self.lack(writer);
            self.knowledge.forget_past(writer);
            self.servers[writer].confirmed = false;
        }
    }

    /// What servers took that are down, or cannot work, is what the writer has; a cluster knows more (see
    /// [`Knowledge`]).
    fn settle(&mut self, now: Instant) {
        let Some(writer) = self.writer.filter(|at| self.may_write(*at).is_ok()) else { return };
        let role = self.servers[writer].role.as_ref();
        if role.is_some_and(|role| role.view.is_some() || role.has_backlog) {
            return;
        }
        for at in (0..self.servers.len()).filter(|at| *at != writer) {
            let is_open =
                self.knowledge.is_unsettled(at) && self.knowledge.was_asked_since(writer, at);
            if is_open && self.lacks(writer, at).is_none() {
                self.knowledge.settle_lost(at, writer, now);
            }
            self.knowledge.keep_settled(at, now);
        }
    }

    /// What a server lacks of what another one is known to have had, or of what it had itself. `None`: nothing that is
    /// known. Nodes of a cluster have the same or are not ready, unless it was begun anew.
    fn lacks(&self, at: usize, other: usize) -> Option<String> {
        let has = self.knowledge.position(at);
        if *has == Position::Unknown {
            return None;
        }
        let had = match self.knowledge.lost_past(at, other) {
            Some(past) => past,
            None if at == other => return None,
            None if self.servers[at].is_node()
                && !self.knowledge.was_begun_anew_since(at, other) =>
            {
                return None;
            }
            None => self.knowledge.lost(at, other)?,
        };
        Some(match at == other {
            true => format!("it has {has}, and had {had} before"),
            false => format!("it has {has}, and the writer before it had {had}"),
        })
    }

    /// What a server lacks of what the writer, or the last one, had.
    fn lack(&self, at: usize) -> Option<String> {
        self.writer.and_then(|before| self.lacks(at, before))
    }

    /// What keeps a server from being the writer.
    fn gap(&self, at: usize) -> Option<String> {
        let is_accepted = self.bounds.gaps == Gaps::Accept || self.servers[at].confirmed;
        self.lack(at).filter(|_| !is_accepted)
    }

    /// Whether a server can be written to, as far as itself is concerned; or why not.
    fn may_write(&self, at: usize) -> Result<(), String> {
        let server = &self.servers[at];
        if !server.health.is_usable() {
            return Err(server.why_unusable());
        }
        match (server.member.group, &server.role) {
            (Group::Sole, _) => return Ok(()),
            (Group::Readers, _) => return Err("it is a reader".to_owned()),
            (Group::Auto, None) => return Err("its role is not known".to_owned()),
            (Group::Writer, None) => {}
            (_, Some(Role { node: Node::NotReady(why), .. })) => return Err(why.clone()),
            (_, Some(Role { read_only: true, .. })) => return Err("it is read_only".to_owned()),
            (_, Some(_)) => {}
        }
        if server.replaced {
            return Err(
                "another server was the writer in its place, and it was not seen read_only \
                        since"
                    .to_owned(),
            );
        }
        match self.gap(at) {
            Some(gap) => Err(format!("it lacks what was acknowledged: {gap}")),
            None => Ok(()),
        }
    }

    /// The server that can be the writer, or why there is none.
    fn candidate(&self) -> Result<usize, String> {
        let is_waited_for =
            |it: &&Server| !it.is_known && it.health.is_usable() && it.member.group == Group::Auto;
        let knows_writer = self.writer.is_some_and(|at| !is_waited_for(&&self.servers[at]));
        if !knows_writer && self.servers.iter().any(|server| is_waited_for(&server)) {
            // The first answer is not the whole picture; nor is another one's, where there was a writer before.
            return Err("not all servers have been asked for their roles".to_owned());
        }
        let can: Vec<usize> =
            (0..self.servers.len()).filter(|at| self.may_write(*at).is_ok()).collect();
        let best = can.iter().map(|at| self.servers[*at].rank()).min();
        let can: Vec<_> =
            can.into_iter().filter(|at| Some(self.servers[*at].rank()) == best).collect();
        // What an operator says comes before what a server says.
        let is_named =
            |at: &usize| matches!(self.servers[*at].member.group, Group::Writer | Group::Sole);
        if let Some(named) = can.iter().copied().find(is_named) {
            return Ok(named);
        }
        match &*can {
            [] if (0..self.servers.len()).any(|at| self.is_kept_back(at)) => {
                Err("the server that can be written to lacks what the writer before it had: \
                     SHOW SERVERS says what; CONFIRM WRITER takes it all the same"
                    .to_owned())
            }
            [] => Err("no server can be written to".to_owned()),
            [only] => Ok(*only),
            [first, ..] if can.iter().all(|at| !self.servers[*at].is_asynchronous()) => Ok(*first),
            _ => {
                Err("several servers can be written to, and none of them was the writer: set all \
                      but one of them read_only, or name it by group = \"writer\""
                    .to_owned())
            }
        }
    }

    /// Whether a server could be the writer, but for what it lacks.
    fn is_kept_back(&self, at: usize) -> bool {
        let server = &self.servers[at];
        let can = server.health.is_usable() && !server.replaced;
        let writes = server.role.as_ref().is_some_and(|role| !role.read_only);
        can && writes && server.member.group != Group::Readers && self.gap(at).is_some()
    }

    /// The writer, while it can be written to.
    fn able_writer(&self) -> Option<usize> {
        self.writer.filter(|at| self.may_write(*at).is_ok())
    }

    /// What is to be done with each server now.
    pub fn layout(&self, now: Instant) -> Layout {
        let writer = match self.able_writer() {
            Some(at) => Ok(at),
            None => Err(match (self.candidate(), self.writer) {
                (Err(why), _) => why,
                (Ok(_), _) => "the next one is being chosen".to_owned(),
            }),
        };
        let writers = self.writers(writer.as_ref().ok().copied());
        let mut places: Vec<_> =
            (0..self.servers.len()).map(|at| self.place(at, &writers, now)).collect();
        self.keep_readers(&mut places);
        let readers = places.iter().zip(&self.servers).filter(|(place, _)| place.takes.reads());
        let best = readers.map(|(_, server)| server.rank()).min();
        for (place, server) in places.iter_mut().zip(&self.servers) {
            if place.takes.reads() && Some(server.rank()) != best {
                if place.takes == Takes::All {
                    place.takes = Takes::Writes;
                    continue;
                }
                place.takes = Takes::Nothing;
                place.role = match &server.role {
                    Some(Role { node: Node::Desynced(why), .. }) => format!("not used: {why}"),
                    _ => "backup".to_owned(),
                };
            }
        }
        let lacks = writer.as_ref().ok().and_then(|writer| self.lacks_of_gone(*writer));
        Layout { writer, lost: self.lost.clone(), lacks, places }
    }

    /// What the writer lacks of what a server had that is gone, and what nothing has been decided of.
    fn lacks_of_gone(&self, writer: usize) -> Option<String> {
        let others = (0..self.servers.len()).filter(|at| *at != writer);
        let mut open = others.filter(|at| self.knowledge.is_unsettled(*at));
        open.find_map(|at| self.lacks(writer, at))
    }

    /// All that are written to: the writer, and other nodes of its cluster that are as able.
    fn writers(&self, writer: Option<usize>) -> Vec<usize> {
        let Some(first) = writer else { return Vec::new() };
        let mut writers = vec![first];
        if self.servers[first].is_node() {
            let rank = self.servers[first].rank();
            let may = |at: &usize| {
                let server = &self.servers[*at];
                *at != first && server.is_node() && server.rank() == rank
            };
            let others = (0..self.servers.len()).filter(may);
            let others = others.filter(|at| self.may_write(*at).is_ok());
            writers.extend(others.take((self.bounds.writers as usize).saturating_sub(1)));
        }
        writers
    }

    /// Where too few servers can be read from, those that are only too far behind are, the least late ones first.
    fn keep_readers(&self, places: &mut [ServerPlace]) {
        let are_read = places.iter().filter(|place| place.takes == Takes::Reads).count();
        let missing = (self.bounds.readers_min as usize).saturating_sub(are_read);
        if missing == 0 {
            return;
        }
        let is_late = |at: &usize| {
            let place = &places[*at];
            let is_free = place.takes == Takes::Nothing && place.gap.is_none();
            is_free && self.may_read(*at).is_ok()
        };
        let mut late: Vec<_> = (0..places.len()).filter(is_late).collect();
        late.sort_by_key(|at| (self.servers[*at].rank(), places[*at].lag.unwrap_or(Duration::MAX)));
        for at in late.into_iter().take(missing) {
            places[at].takes = Takes::Reads;
            places[at].role = match places[at].lag {
                Some(lag) => format!("reader, {:.1} s behind", lag.as_secs_f64()),
                None => "reader, behind".to_owned(),
            };
        }
    }

    fn place(&self, at: usize, writers: &[usize], now: Instant) -> ServerPlace {
        let server = &self.servers[at];
        let lag = match self.writer.filter(|_| server.role.is_some()) {
            Some(writer) => self.knowledge.lag(at, writer, now),
            None => Lag::Unknown,
        };
        let lag = match lag {
            Lag::Unknown => None,
            Lag::Behind { by, .. } => Some(by),
        };
        let went_back = server.went_back.clone().or_else(|| self.knowledge.went_back(at));
        let kept_back = writers.is_empty() && self.is_kept_back(at);
        let holds: Vec<_> =
            (0..self.servers.len()).map(|taker| self.knowledge.holds(at, taker)).collect();
        let is_able = match &server.role {
            Some(role) => !matches!(role.node, Node::NotReady(_)),
            // What it is for is told by hand: checks need not ask it.
            None => server.member.group != Group::Auto,
        };
        let answers = server.health.is_usable() && is_able;
        let gap = if kept_back { self.gap(at) } else { None };
        let is_spared = server.flow.is_slow(now);
        let share = server.health.share(now) * if is_spared { SPARED_SHARE } else { 1.0 };
        let paused = server.flow.paused;
        let health = &server.health;
        let (growth, is_on_trial) = (health.growth(now), health.is_on_trial());
        let limit = health.agent().limit;
        let place = |takes, role: String| ServerPlace {
            takes,
            role,
            answers,
            holds: holds.clone(),
            gap: gap.clone(),
            went_back: went_back.clone(),
            second: self.second(at, writers),
            lag,
            share,
            growth,
            is_on_trial,
            limit,
            paused,
        };
        if writers.contains(&at) {
            let takes = match self.bounds.writer_reads {
                WriterReads::Always => Takes::All,
                WriterReads::WithoutReader | WriterReads::Never => Takes::Writes,
            };
            return place(takes, "writer".to_owned());
        }
        if let Some(gap) = &gap {
            return place(
                Takes::Nothing,
                format!("not used: it lacks what was acknowledged: {gap}"),
            );
        }
        match self.may_read(at).and_then(|()| self.is_fresh(at, lag)) {
            Ok(()) if is_spared => place(Takes::Reads, "reader, slows its cluster".to_owned()),
            Ok(()) => place(Takes::Reads, "reader".to_owned()),
            Err(why) => place(Takes::Nothing, format!("not used: {why}")),
        }
    }

    /// Whether a server can be read from, however far it is behind; or why not.
    fn may_read(&self, at: usize) -> Result<(), String> {
        let server = &self.servers[at];
        if !server.health.is_usable() {
            return Err(server.why_unusable());
        }
        match (&server.role, server.member.group) {
            (_, Group::Writer | Group::Sole) => {
                Err("it is for writing, and not the writer".to_owned())
            }
            (None, Group::Auto) => Err("its role is not known".to_owned()),
            (None, Group::Readers) => Ok(()),
            (Some(Role { node: Node::NotReady(why), .. }), _) => Err(why.clone()),
            _ if server.is_written_beside() => Err(SECOND_WRITER.to_owned()),
            _ => Ok(()),
        }
    }

    fn second(&self, at: usize, writers: &[usize]) -> Second {
        let server = &self.servers[at];
        let Some(writer) = writers.first().filter(|_| !writers.contains(&at)) else {
            return Second::No;
        };
        let said = server.writable_since.filter(|_| server.is_written_beside());
        match said.map(|since| self.knowledge.was_asked_behind(*writer, since)) {
            None => Second::No,
            Some(false) => Second::Perhaps,
            Some(true) => Second::Yes,
        }
    }

    /// Whether a server is not too far behind; or how far it is.
    fn is_fresh(&self, at: usize, lag: Option<Duration>) -> Result<(), String> {
        if self.writer.is_some_and(|writer| self.knowledge.is_doubted(at, writer)) {
            return Err(
                "it may have numbers from before the writer went back: set it up anew, and \
                        ENABLE it"
                    .to_owned(),
            );
        }
        if let Some(max) = self.servers[at].member.lag_max.or(self.bounds.lag_max) {
            match lag {
                Some(lag) if lag <= max => {}
                Some(lag) => return Err(format!("it is {:.1} s behind", lag.as_secs_f64())),
                // Without a writer no server gets further behind.
                None if self.writer.is_none_or(|at| self.knowledge.took(at).is_empty()) => {}
                None => return Err("it is behind, and it is not known how far".to_owned()),
            }
        }
        Ok(())
    }
}

impl Server {
    fn new(member: Member, rules: &CheckRules, now: Instant) -> Self {
        Self {
            member,
            health: Health::new(rules.clone(), now),
            role: None,
            writable_since: None,
            replaced: false,
            confirmed: false,
            went_back: None,
            is_known: false,
            flow: FlowSeen::default(),
        }
    }

    /// Whether it is found by a role that is its own, and not a node's like all others.
    fn is_asynchronous(&self) -> bool {
        self.member.group == Group::Auto && !self.is_node()
    }

    /// Whether it can be written to, if it is not the writer: nothing keeps what is written there from other servers.
    fn is_written_beside(&self) -> bool {
        let writes = matches!(self.role, Some(Role { node: Node::None, read_only: false, .. }));
        writes && self.health.is_usable() && self.member.group == Group::Auto
    }

    /// Whether it is a node of a cluster, as far as it has said.
    fn is_node(&self) -> bool {
        self.role.as_ref().is_some_and(|role| role.node != Node::None)
    }

    fn is_desynced(&self) -> bool {
        matches!(&self.role, Some(Role { node: Node::Desynced(_), .. }))
    }

    /// Servers of a higher rank are used while there are none of a lower one.
    fn rank(&self) -> u8 {
        match (self.is_desynced(), self.member.backup) {
            (false, false) => 0,
            (false, true) => 1,
            (true, _) => 2,
        }
    }

    fn why_unusable(&self) -> String {
        let (reason, _) = self.health.reason();
        let state = match self.health.name() {
            "up" | "going down" => "down",
            name => name,
        };
        format!("{state}: {reason}")
    }
}

impl FlowSeen {
    fn see(&mut self, flow: Flow, now: Instant) {
        if let Some((before, at)) = self.last.replace((flow, now)) {
            let (time, paused) =
                (now.saturating_duration_since(at), flow.paused.saturating_sub(before.paused));
            self.paused =
                Some((paused.as_secs_f64() / time.as_secs_f64().max(1e-9)).clamp(0.0, 1.0));
            if flow.asked > before.asked {
                self.slowed = Some(now);
            }
        }
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.slowed.is_some_and(|at| now.saturating_duration_since(at) < SPARED)
    }
}

#[cfg(test)]
mod tests;
