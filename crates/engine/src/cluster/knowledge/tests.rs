//! What is known of what each server holds, scene by scene; then worlds in which writes, checks, losses and promotions
//! come as chance says, and nothing may be believed that is not so.

use std::cell::Cell;
use std::time::Duration;

use fastrand::Rng;

use super::*;
use crate::checks::health::{CheckRules, HealthOrder, Sign, State};
use crate::cluster::past::{Past, PastView};
use crate::cluster::writes::Tells;
use crate::cluster::{Cluster, ClusterBounds, Flow, Group, Layout, Member, Node, Role};
use crate::time_limits::Bound;

const MILLI: Duration = Duration::from_millis(1);

struct Scene {
    knowledge: Knowledge,
    start: Instant,
}

impl Scene {
    fn of(count: usize) -> Self {
        let mut knowledge = Knowledge::default();
        (0..count).for_each(|_| knowledge.add());
        Self { knowledge, start: Instant::now() }
    }

    fn at(&self, millis: u32) -> Instant {
        self.start + MILLI * millis
    }

    /// A server was asked at this millisecond.
    fn hear(&mut self, at: usize, gtids: &str, millis: u32) {
        let position = Position::from_gtids(gtids);
        let said =
            Said { position: &position, view: None, takes_writes: at == 0, read_only: at != 0 };
        self.knowledge.hear(at, said, self.start + MILLI * millis);
    }

    /// A node was asked, in this view.
    fn node(&mut self, at: usize, number: u64, view: u64, millis: u32) {
        let position = Position::Commit { cluster: 1, number };
        let said =
            Said { position: &position, view: Some(view), takes_writes: true, read_only: false };
        self.knowledge.hear(at, said, self.start + MILLI * millis);
    }

    fn until(&self, at: usize, taker: usize) -> Option<u128> {
        match self.knowledge.holds(at, taker) {
            Holds::Until(moment) => Some((moment - self.start).as_millis()),
            Holds::Nothing => None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_holds_what_the_other_had_before_it_was_asked() {
    let mut scene = Scene::of(2);
    assert_eq!(scene.knowledge.holds(1, 0), Holds::Untold);
    assert_eq!(scene.knowledge.holds(1, 1), Holds::All);
    scene.hear(0, "0-1-10", 5);
    assert_eq!(scene.knowledge.holds(1, 0), Holds::Untold);
    scene.hear(1, "0-1-9", 6);
    assert_eq!(scene.until(1, 0), None, "it tells, and has not got so far");
    scene.hear(1, "0-1-10", 20);
    assert_eq!(scene.until(1, 0), Some(5), "what was taken since is not known");
    scene.hear(0, "0-1-10", 30);
    assert_eq!(scene.until(1, 0), Some(30));
    scene.hear(0, "0-1-12", 40);
    assert_eq!(scene.until(1, 0), Some(30));
    scene.hear(1, "0-1-11", 50);
    assert_eq!(scene.until(1, 0), Some(30), "what was proved stays so");
    scene.hear(1, "", 60);
    assert_eq!(scene.until(1, 0), None, "it has less than before");
}

#[test]
fn what_is_known_of_a_server_ends_when_it_is_down() {
    let mut scene = Scene::of(2);
    scene.hear(0, "0-1-10", 5);
    scene.hear(1, "0-1-10", 6);
    scene.knowledge.lose(1, scene.at(7));
    assert_eq!(scene.until(1, 0), None, "not even after a while: it has told before");
    scene.hear(0, "0-1-10", 8);
    assert_eq!(scene.until(1, 0), None, "where it was is forgotten as well");
    scene.hear(1, "0-1-9", 9);
    assert_eq!(scene.until(1, 0), None, "it has come back with less");
}

#[test]
fn numbers_that_begin_anew_are_others() {
    let mut scene = Scene::of(2);
    scene.hear(0, "0-1-10", 5);
    scene.hear(1, "0-1-10", 6);
    assert_eq!(scene.until(1, 0), Some(5));
    // It was set up anew, and the other one still has the old numbers.
    scene.hear(0, "0-7-3", 10);
    assert_eq!(scene.until(1, 0), None);
    scene.hear(1, "0-7-3", 11);
    assert_eq!(scene.until(1, 0), None, "what it took before is not there either");
    scene.knowledge.forget_past(0);
    scene.hear(1, "0-7-3", 12);
    assert_eq!(scene.until(1, 0), Some(10));
}

#[test]
fn of_a_server_that_is_not_asked_nobody_knows_what_it_took() {
    let mut scene = Scene::of(2);
    scene.hear(0, "0-1-10", 5);
    scene.hear(1, "0-1-9", 6);
    scene.knowledge.leave(0);
    assert_eq!(scene.knowledge.holds(1, 0), Holds::Untold);
    assert_eq!(scene.knowledge.holds(0, 0), Holds::All);
    scene.hear(0, "0-1-10", 7);
    assert_eq!(scene.knowledge.holds(1, 0), Holds::Nothing);
}

#[test]
fn what_a_lost_server_took_is_what_the_next_one_has() {
    let mut scene = Scene::of(4);
    scene.hear(0, "0-1-10", 5);
    for at in 1..4 {
        scene.hear(at, "0-1-9", 6);
    }
    assert!(!scene.knowledge.is_unsettled(0));
    scene.knowledge.lose(0, scene.at(10));
    assert!(scene.knowledge.is_unsettled(0));
    scene.knowledge.settle(0, 1, scene.at(12));
    assert!(!scene.knowledge.is_unsettled(0));
    assert_eq!((scene.until(1, 0), scene.until(2, 0)), (Some(12), None));
    // What breaks later was under way when it was lost.
    scene.knowledge.keep_settled(0, scene.at(13));
    assert_eq!(scene.until(1, 0), Some(13));
    // Those that follow the next one have as much, once they are where it was then.
    let follow = |scene: &mut Scene, at: usize, taker: usize, millis: u32| {
        let position = Position::from_gtids("0-1-9,0-2-11");
        for (at, asked) in [(taker, millis), (at, millis + 1)] {
            let takes_writes = at == taker;
            let said =
                Said { position: &position, view: None, takes_writes, read_only: !takes_writes };
            scene.knowledge.hear(at, said, scene.start + MILLI * asked);
        }
    };
    follow(&mut scene, 2, 1, 12);
    assert_eq!(scene.until(2, 0), None, "it was asked when it was settled, not after");
    follow(&mut scene, 2, 1, 13);
    assert_eq!(scene.until(2, 0), Some(13));
    // The next one is lost in its turn.
    scene.knowledge.lose(1, scene.at(20));
    scene.knowledge.settle(1, 3, scene.at(21));
    assert_eq!((scene.until(3, 1), scene.until(3, 0)), (Some(21), Some(13)));
    assert_eq!(scene.until(2, 1), Some(13), "by where it was");
    scene.knowledge.settle(3, 1, scene.at(20));
    assert_eq!(scene.until(1, 3), Some(20), "there is no circle");
}

#[test]
fn a_cluster_that_has_gone_on_without_a_node_has_all_of_it() {
    let mut scene = Scene::of(3);
    for at in 0..3 {
        scene.node(at, 10, 4, 5);
    }
    scene.node(0, 12, 4, 8);
    assert_eq!(scene.until(1, 0), Some(5));
    scene.node(1, 11, 5, 9);
    scene.knowledge.lose(0, scene.at(10));
    assert_eq!(scene.until(1, 0), Some(5), "it was asked before the other one was gone");
    scene.node(2, 11, 4, 11);
    assert_eq!(scene.until(2, 0), Some(5), "it is in the old view");
    scene.node(1, 13, 5, 12);
    assert_eq!((scene.until(1, 0), scene.until(2, 0)), (Some(12), Some(5)));
    // It comes back, and takes writes: it is asked again.
    scene.node(0, 20, 6, 30);
    assert_eq!(scene.until(1, 0), Some(12));
    scene.node(1, 20, 6, 31);
    assert_eq!(scene.until(1, 0), Some(30));
}

#[test]
fn a_server_that_cannot_work_tells_what_it_took_last() {
    let mut scene = Scene::of(2);
    (0..2).for_each(|at| scene.node(at, 10, 4, 5));
    scene.knowledge.lose(0, scene.at(10));
    let at = |number| Position::Commit { cluster: 1, number };
    scene.knowledge.hear_last(0, &at(12), scene.at(11));
    assert_eq!(scene.until(1, 0), Some(5));
    scene.node(1, 12, 4, 20);
    assert_eq!(scene.until(1, 0), Some(11));
    // It gets all data anew, and tells numbers from before.
    scene.knowledge.hear_last(0, &at(3), scene.at(30));
    assert_eq!(scene.until(1, 0), Some(11));
}

#[test]
fn a_cluster_that_was_begun_anew_has_all_there_is() {
    let mut scene = Scene::of(3);
    (0..3).for_each(|at| scene.node(at, 10, 37, 5));
    (0..3).for_each(|at| scene.knowledge.lose(at, scene.at(10)));
    // Of the first one nothing is heard again. The other two number their views from the beginning.
    scene.node(1, 12, 1, 20);
    assert_eq!(scene.until(1, 0), Some(20));
    scene.node(1, 12, 2, 21);
    scene.node(2, 12, 2, 22);
    assert_eq!((scene.until(1, 0), scene.until(2, 0)), (Some(21), Some(22)));
    assert_eq!(scene.until(2, 1), Some(21), "it is there, and was asked");
}

/// Numbers by chance, the same for a seed.
struct Chance(Rng);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0.usize(..below)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Which write it is: the server that took it, the number that it gave, and one that no other write has.
type Id = (usize, u64, u64);

/// What a client was told of a write.
struct Acknowledged {
    id: Id,
    /// Its server was killed since, or an operator has decided that it is given up.
    may_be_lost: bool,
}

/// A client, or several that count as one.
#[derive(Default)]
struct Author {
    past: Past,
    acknowledged: Vec<Acknowledged>,
    /// All that was there where it read.
    seen: Marks,
}

/// A check that is under way: when it began, and what was said, if it was asked.
struct Check {
    begun: Instant,
    said: Option<Role>,
    /// It was asked for the first time since it went back.
    is_first: bool,
}

/// What servers have, in the order in which they have it.
#[derive(Clone, Default)]
struct Server {
    log: Vec<Id>,
    is_alive: bool,
    read_only: bool,
    follows: Option<usize>,
    /// It applies what it gets.
    applies: bool,
    view: u64,
    desynced: bool,
    /// It answers, and is no member of its group any more.
    is_expelled: bool,
    /// Its binary log begins behind so many of its writes: it tells no numbers of those before.
    reset_at: usize,
    /// It was restored or reset, and was not asked since: that it went back shows only before it has come as far again.
    is_unasked: bool,
    /// It was restored, and another writer may stand for what it took since.
    is_given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Replication,
    Galera,
    /// One member takes writes, all apply them in one order, and what is left of them chooses the next one.
    Group,
}

impl Kind {
    const fn is_ordered(self) -> bool {
        matches!(self, Self::Galera | Self::Group)
    }
}

const SERVERS: usize = 3;
const AUTHORS: usize = 4;

struct World {
    kind: Kind,
    chance: Chance,
    now: Instant,
    cluster: Cluster,
    layout: Layout,
    servers: Vec<Server>,
    checks: Vec<Option<Check>>,
    authors: Vec<Author>,
    /// In a cluster: what was ordered, writes and new views without the nodes that are gone.
    order: Vec<Option<Id>>,
    /// How far each node has come in that.
    applied: Vec<usize>,
    /// The numbers of a cluster's writes, or of each server's.
    numbers: u64,
    held: u64,
    /// Of these, what was found by the number of the last write alone.
    by_number: u64,
    on_readers: u64,
    gaps: u64,
    handed_over: u64,
    restored: u64,
}

impl World {
    fn new(kind: Kind, seed: u64) -> Self {
        let now = Instant::now();
        let members =
            [Member { group: Group::Auto, backup: false, lag_max: Bound::Inherited }; SERVERS];
        let bounds = ClusterBounds::default();
        let cluster = Cluster::new(&members, &CheckRules::default(), bounds, now);
        let server = |at: usize| Server {
            is_alive: true,
            applies: true,
            read_only: kind != Kind::Galera && at > 0,
            follows: (kind == Kind::Replication && at > 0).then_some(0),
            ..Server::default()
        };
        Self {
            kind,
            chance: Chance(Rng::with_seed(seed)),
            now,
            layout: cluster.layout(now),
            cluster,
            servers: (0..SERVERS).map(server).collect(),
            checks: (0..SERVERS).map(|_| None).collect(),
            authors: (0..AUTHORS).map(|_| Author::default()).collect(),
            order: Vec::new(),
            applied: vec![0; SERVERS],
            numbers: 0,
            held: 0,
            by_number: 0,
            on_readers: 0,
            gaps: 0,
            handed_over: 0,
            restored: 0,
        }
    }

    fn role(&self, at: usize) -> Role {
        let server = &self.servers[at];
        let (position, node, view) = match self.kind {
            Kind::Replication => {
                let told = &server.log[server.reset_at..];
                let gtids = told.iter().map(|(by, number, _)| format!("0-{by}-{number}"));
                let gtids = gtids.collect::<Vec<_>>().join(",");
                (Position::from_gtids(&gtids), Node::None, None)
            }
            Kind::Galera => {
                let number = server.log.len() as u64;
                let node = match server.desynced {
                    true => Node::Desynced("it is desynced".to_owned()),
                    false => Node::Ready,
                };
                (Position::Commit { cluster: 1, number }, node, Some(server.view))
            }
            Kind::Group => {
                let number = server.log.len() as u64;
                let node = match server.is_expelled {
                    true => Node::NotReady("its state in the group is ERROR".to_owned()),
                    false => Node::None,
                };
                (Position::Commit { cluster: 1, number }, node, None)
            }
        };
        let has_backlog = self.kind == Kind::Group && self.applied[at] < self.order.len();
        let (read_only, flow) = (server.read_only, Flow::default());
        Role { read_only, position, has_backlog, node, view, flow }
    }

    fn step(&mut self) {
        self.now += MILLI;
        let at = self.chance.below(SERVERS);
        match self.chance.below(100) {
            0..40 => self.check(at),
            40..65 => self.apply(at),
            65..80 => self.write(),
            80..90 => self.read(),
            90..97 => self.befall(at),
            _ => self.mend(at),
        }
        self.look();
    }

    /// A check begins, is answered, or is heard of.
    fn check(&mut self, at: usize) {
        match self.checks[at].take() {
            None => {
                self.checks[at] = Some(Check { begun: self.now, said: None, is_first: false });
            }
            Some(_) if !self.servers[at].is_alive => {
                let sign = Sign::Failed("no answer".to_owned());
                self.cluster.see(at, sign, self.now);
            }
            Some(Check { begun, said: None, .. }) => {
                let is_first = self.servers[at].is_unasked;
                self.checks[at] = Some(Check { begun, said: Some(self.role(at)), is_first });
            }
            Some(Check { begun, said: Some(role), is_first }) => {
                self.servers[at].is_unasked &= !is_first;
                self.cluster.hear(at, role, begun, self.now);
            }
        }
        self.layout = self.cluster.layout(self.now);
    }

    fn apply(&mut self, at: usize) {
        let server = &self.servers[at];
        if !server.is_alive || !server.applies {
            return;
        }
        if server.is_expelled {
            return;
        }
        if self.kind.is_ordered() {
            return self.work_off(at);
        }
        let Some(from) = server.follows.filter(|from| self.servers[*from].is_alive) else { return };
        // It goes on behind the number of its last one, whatever that number means there.
        let (own, theirs) = (&server.log[server.reset_at..], &self.servers[from]);
        let theirs = &theirs.log[theirs.reset_at..];
        let next = match own.last() {
            None => Some(0),
            Some(last) => {
                theirs.iter().position(|it| it.0 == last.0 && it.1 == last.1).map(|it| it + 1)
            }
        };
        if let Some(next) = next.and_then(|next| theirs.get(next)).copied() {
            self.servers[at].log.push(next);
        }
    }

    /// A node takes the next of what was ordered.
    fn work_off(&mut self, at: usize) {
        let Some(next) = self.order.get(self.applied[at]).copied() else { return };
        self.applied[at] += 1;
        match next {
            Some(id) => self.servers[at].log.push(id),
            None => self.servers[at].view += 1,
        }
    }

    /// A client writes where it is sent, or where it was sent before: its transaction goes on there.
    fn write(&mut self) {
        let author = self.chance.below(AUTHORS);
        let stays =
            self.chance.one_in(4).then(|| self.authors[author].past.writes.taker()).flatten();
        let Some(at) = stays.or_else(|| self.layout.writer.clone().ok()) else { return };
        let server = &self.servers[at];
        // Backends to a server that is down are closed, and transactions end on one that cannot work.
        let is_linked = server.is_alive && self.layout.places[at].answers;
        if !is_linked || server.read_only || !server.applies || server.is_unasked {
            return;
        }
        let id = self.take(at);
        let is_told = self.kind == Kind::Replication && self.chance.one_in(2);
        let author = &mut self.authors[author];
        if is_told {
            let gtid = format!("0-{}-{}", id.0, id.1);
            self.cluster.acknowledge(at, Position::from_gtids(&gtid));
            author.past.writes.tell(at, Gtid::read(&gtid).unwrap(), || self.now);
        }
        let tells = if is_told { Tells::Numbers } else { Tells::Nothing };
        author.past.writes.note(at, self.now, tells);
        author.acknowledged.push(Acknowledged { id, may_be_lost: false });
    }

    /// A client reads where it may. Now and then nothing of it is remembered.
    fn read(&mut self) {
        let (author, at) = (self.chance.below(AUTHORS), self.chance.below(SERVERS));
        let forgets = self.chance.one_in(20);
        let Self { authors, servers, layout, now, .. } = self;
        let author = &mut authors[author];
        if forgets {
            let writer = layout.writer.clone().ok();
            author.past = Past::of_several(*now, writer);
            // What counts is what the writer has then.
            let log = writer.map_or(&[][..], |writer| &servers[writer].log);
            author.acknowledged.retain(|write| log.contains(&write.id));
            author.seen = both(&author.seen, &marks(log));
        }
        let view = Place::new(at, layout, *now);
        if !servers[at].is_alive || !layout.places[at].answers || !author.past.is_found(&view) {
            return;
        }
        author.past.read(&view);
        author.seen = marks(&servers[at].log);
    }

    /// A server takes a write, for a client or beside Flifo.
    fn take(&mut self, at: usize) -> Id {
        match self.kind {
            Kind::Replication => {
                self.numbers += 1;
                let server = &mut self.servers[at];
                let told = &server.log[server.reset_at..];
                let last = told.iter().map(|id| id.1).max().unwrap_or(0);
                let id = (at, last + 1, self.numbers);
                server.log.push(id);
                id
            }
            Kind::Galera | Kind::Group => {
                while self.applied[at] < self.order.len() {
                    self.work_off(at);
                }
                self.numbers += 1;
                let id = (at, self.numbers, self.numbers);
                self.order.push(Some(id));
                self.work_off(at);
                id
            }
        }
    }

    fn befall(&mut self, at: usize) {
        let mut others = (0..SERVERS).filter(|other| *other != at);
        let others_live = others.any(|other| self.servers[other].is_alive);
        match (self.kind, self.chance.below(13)) {
            (_, 10) if self.chance.one_in(4) => self.hand_over(),
            (Kind::Replication, 11) if self.servers[at].is_alive => self.restore(at),
            (Kind::Replication, 12) if self.servers[at].is_alive => self.reset(at),
            // Of two nodes that go between two checks, it cannot be told which view lacks which.
            (_, 0) if others_live && self.servers[at].is_alive && self.is_heard_of(at) => {
                self.servers[at].is_alive = false;
                match self.kind {
                    Kind::Replication => self.forgive(|id| id.0 == at),
                    Kind::Galera => {
                        self.forgive(|id| id.0 == at);
                        self.order.push(None);
                    }
                    Kind::Group => self.choose_primary(),
                }
            }
            (Kind::Group, 3) if others_live && self.servers[at].is_alive => {
                (self.servers[at].is_expelled, self.servers[at].read_only) = (true, true);
                self.choose_primary();
            }
            (_, 1 | 2) => self.servers[at].applies = false,
            (Kind::Galera, 3) => self.servers[at].desynced = true,
            (Kind::Replication, 3) => self.servers[at].read_only = true,
            // A script promotes any server, whatever it lacks, and the others follow.
            (Kind::Replication, 4) if self.servers[at].is_alive => {
                for server in &mut self.servers {
                    (server.read_only, server.follows) = (true, Some(at));
                }
                (self.servers[at].read_only, self.servers[at].follows) = (false, None);
                self.servers[at].applies = true;
            }
            // A script writes beside Flifo.
            (Kind::Replication, 5 | 6)
                if self.servers[at].is_alive
                    && !self.servers[at].read_only
                    && !self.servers[at].is_unasked =>
            {
                self.take(at);
            }
            (Kind::Replication, 7) if self.layout.places[at].gap.is_some() => {
                self.gaps += 1;
                let writer = self.cluster.confirm(at, self.now);
                self.layout = self.cluster.layout(self.now);
                if writer.is_ok() && self.layout.lost.is_some() {
                    self.forgive(|_| true);
                }
            }
            _ => {}
        }
    }

    /// Whether Flifo has heard of all that a server has.
    fn is_told(&self, at: usize) -> bool {
        self.cluster.knowledge.servers[at].last == self.role(at).position
    }

    /// A server is restored from older data, which takes so long that it is found to be down.
    fn restore(&mut self, at: usize) {
        if !self.is_told(at) {
            return;
        }
        self.find_down(at);
        let server = &self.servers[at];
        if self.cluster.health(at).state() != State::Down || server.log.len() <= server.reset_at {
            return;
        }
        let kept = server.reset_at + self.chance.below(server.log.len() - server.reset_at);
        let server = &mut self.servers[at];
        server.log.truncate(kept);
        (server.is_unasked, server.is_given_up) = (true, true);
        self.restored += 1;
        self.unread(at);
    }

    /// A server's binary log begins anew, and its numbers with it. The data stay.
    fn reset(&mut self, at: usize) {
        let server = &self.servers[at];
        let is_writer = server.follows.is_none() && server.log.len() > server.reset_at;
        if is_writer && self.is_told(at) {
            let server = &mut self.servers[at];
            (server.reset_at, server.is_unasked) = (server.log.len(), true);
            self.restored += 1;
        }
    }

    /// What is not on this server any more is not what clients have read for certain.
    fn unread(&mut self, at: usize) {
        let left = marks(&self.servers[at].log);
        self.authors.iter_mut().for_each(|author| author.seen = both(&author.seen, &left));
    }

    /// Another process takes over. When clients wrote is not known to its clock: at the latest now.
    fn hand_over(&mut self) {
        let members =
            [Member { group: Group::Auto, backup: false, lag_max: Bound::Inherited }; SERVERS];
        let memory = self.cluster.memory();
        self.cluster =
            Cluster::new(&members, &CheckRules::default(), ClusterBounds::default(), self.now);
        let places: Vec<_> = (0..SERVERS).map(Some).collect();
        self.cluster.remember(memory, &places, self.now);
        self.checks.fill_with(|| None);
        for author in &mut self.authors {
            let mut takers: Vec<_> = author.past.writes.takers().collect();
            // The newest one comes first.
            takers.reverse();
            let writer = self.layout.writer.clone().ok();
            author.past = Past::of_several(self.now, writer);
            let log = writer.map_or(&[][..], |writer| &self.servers[writer].log);
            author.seen = both(&author.seen, &marks(log));
            // Of what is not remembered, that counts which the writer has.
            author.acknowledged.retain(|it| takers.contains(&it.id.0) || log.contains(&it.id));
            for taker in takers {
                author.past.writes.note(taker, self.now, Tells::Nothing);
            }
        }
        self.layout = self.cluster.layout(self.now);
        self.handed_over += 1;
    }

    /// A server does not answer for so long that it is down. The others are asked meanwhile.
    fn find_down(&mut self, at: usize) {
        self.checks[at] = None;
        for _ in 0..3 {
            let sign = Sign::Failed("no answer".to_owned());
            self.cluster.see(at, sign, self.now);
        }
        self.now += MILLI;
        for other in (0..SERVERS).filter(|other| *other != at) {
            if self.servers[other].is_alive {
                (self.servers[other].is_unasked, self.checks[other]) = (false, None);
                self.cluster.hear(other, self.role(other), self.now, self.now);
            }
        }
        self.layout = self.cluster.layout(self.now);
    }

    /// What is left of a group has one primary, which may still have something to apply.
    fn choose_primary(&mut self) {
        let is_member = |server: &Server| server.is_alive && !server.is_expelled;
        let is_primary = |server: &Server| is_member(server) && !server.read_only;
        if !self.servers.iter().any(is_primary)
            && let Some(next) = self.servers.iter().position(is_member)
        {
            self.servers[next].read_only = false;
        }
    }

    /// Whether Flifo knows of the view in which a node is.
    fn is_heard_of(&self, at: usize) -> bool {
        let views = self.order.iter().filter(|it| it.is_none()).count() as u64;
        self.kind != Kind::Galera || self.cluster.knowledge.servers[at].view == Some(views)
    }

    fn forgive(&mut self, which: impl Fn(Id) -> bool) {
        for write in self.authors.iter_mut().flat_map(|author| &mut author.acknowledged) {
            write.may_be_lost |= which(write.id);
        }
    }

    fn mend(&mut self, at: usize) {
        let kind = self.kind;
        if kind == Kind::Group {
            let server = &mut self.servers[at];
            let joins = !server.is_alive || server.is_expelled;
            server.read_only |= joins;
            (server.applies, server.is_alive, server.is_expelled) = (true, true, false);
            return self.choose_primary();
        }
        let from = self.servers.iter().position(|server| server.is_alive && !server.read_only);
        let Some(from) = from.filter(|from| *from != at) else {
            let server = &mut self.servers[at];
            (server.applies, server.desynced, server.is_alive) = (true, false, true);
            return;
        };
        let theirs = self.servers[from].log.clone();
        let server = &mut self.servers[at];
        let is_other = !theirs.starts_with(&server.log);
        let has_more = server.follows.is_some() && is_other;
        (server.applies, server.desynced) = (true, false);
        match kind {
            Kind::Galera if !server.is_alive => {
                // It is ready once it has all.
                server.is_alive = true;
                while self.applied[at] < self.order.len() {
                    self.work_off(at);
                }
            }
            Kind::Replication if has_more => {
                // It is set up anew, which takes so long that it is found to be down.
                self.find_down(at);
                if self.cluster.health(at).state() == State::Down {
                    let reset_at = self.servers[from].reset_at;
                    let server = &mut self.servers[at];
                    (server.log, server.is_alive, server.reset_at) = (theirs, true, reset_at);
                    server.is_unasked = false;
                    self.unread(at);
                    self.forgive(|id| id.0 == at);
                    // An operator says so.
                    self.cluster.order(at, HealthOrder::None, "", self.now);
                    self.layout = self.cluster.layout(self.now);
                }
            }
            _ => self.servers[at].is_alive = true,
        }
    }

    /// Where a client's reads may go, all of its writes are, but for those that the writer has lost.
    fn look(&mut self) {
        if let Ok(writer) = self.layout.writer {
            // What replication had not sent on is gone with a server, once there is another writer.
            for at in 0..SERVERS {
                let is_given_up = std::mem::take(&mut self.servers[at].is_given_up);
                if is_given_up && at != writer {
                    self.forgive(|id| id.0 == at);
                }
            }
        }
        let is_at = |at: usize, id: &Id| self.servers[at].log.contains(id);
        let acknowledged = self.authors.iter().flat_map(|author| &author.acknowledged);
        let kept = acknowledged.filter(|write| !write.may_be_lost).map(|write| &write.id);
        let (kept, shown) = (marks(kept), self.servers.iter().map(|server| marks(&server.log)));
        let shown: Vec<_> = shown.collect();
        let first = self.authors.iter().flat_map(|author| author.acknowledged.last());
        for write in first.filter(|it| self.kind == Kind::Replication && !it.may_be_lost) {
            // A client names it, of this process or another one.
            let (by, number, _) = write.id;
            let named = Position::named(format!("0-{by}-{number}").as_bytes());
            for at in (0..SERVERS).filter(|at| self.cluster.has_come_to(*at, &named)) {
                let is_there = is_at(at, &write.id) || !self.servers[at].is_alive;
                assert!(is_there, "server {at} has not come to {named}");
            }
        }
        for author in &self.authors {
            let answers =
                |at: &usize| self.servers[*at].is_alive && self.layout.places[*at].answers;
            for at in (0..SERVERS).filter(answers) {
                let by_number = Cell::new(false);
                let view = Place::new(at, &self.layout, self.now);
                let has = |taker: usize, gtid: Option<Gtid>| {
                    let is_there = self.cluster.has_write(at, taker, gtid);
                    let mut own = author.acknowledged.iter().rev();
                    if is_there && let Some(last) = own.find(|write| write.id.0 == taker) {
                        // Its server is gone, and it is known to be here all the same.
                        assert!(
                            is_at(at, &last.id),
                            "{at} has no {:?}: {:?}",
                            last.id,
                            self.layout
                        );
                        by_number.set(true);
                    }
                    is_there
                };
                if !author.past.is_found(&Place { has: &has, ..view }) {
                    continue;
                }
                let is_held = author.past.is_found(&Place { has: &|_, _| false, ..view });
                self.by_number += u64::from(by_number.get() && !is_held);
                self.held += 1;
                self.on_readers += u64::from(author.past.writes.taker().is_some_and(|it| it != at));
                // Members of a group apply each at its own pace, the next primary as well.
                let mut lacks = (0..kept.0.len())
                    .filter(|word| author.seen.0[*word] & kept.0[*word] & !shown[at].0[*word] != 0);
                let text = || format!("{:?} {:?}", author.past, self.layout);
                let lacks = lacks.next().filter(|_| self.kind != Kind::Group);
                assert_eq!(lacks, None, "server {at} shows less than was read: {}", text());
                for write in &author.acknowledged {
                    assert!(
                        is_at(at, &write.id) || write.may_be_lost,
                        "server {at} is believed to hold {:?}, and has not got it: {:?}",
                        write.id,
                        self.layout
                    );
                }
            }
        }
    }

    /// Everything is mended, applied, and asked: the writer has what everybody wrote.
    fn settle_down(&mut self) {
        for round in 0..200 {
            for at in 0..SERVERS {
                if round < 100 {
                    self.mend(at);
                }
                self.now += MILLI;
                self.apply(at);
                self.check(at);
                let is_open = self.layout.writer == Ok(at) && self.layout.lacks.is_some();
                if self.layout.places[at].gap.is_some() || is_open {
                    let _ = self.cluster.confirm(at, self.now);
                    self.forgive(|_| true);
                    self.layout = self.cluster.layout(self.now);
                }
                self.look();
            }
        }
        let Ok(writer) = self.layout.writer else { return };
        if self.layout.places.iter().any(|place| place.went_back.is_some()) {
            // Numbers were given twice: what clients are refused for, an operator decides, as they are told.
            let _ = self.cluster.confirm(writer, self.now);
            self.layout = self.cluster.layout(self.now);
        }
        for author in &self.authors {
            let view = Place::new(writer, &self.layout, self.now);
            let view = Place { stay: Duration::ZERO, ..view };
            let is_held = author.past.is_held(&view);
            // What a script has written beside Flifo is found where it was read, and perhaps never elsewhere.
            let mut places = (0..SERVERS).map(|at| Place { server: at, ..view });
            let is_found = places.any(|place| author.past.is_found(&place));
            assert!(is_found, "{:?} is found nowhere: {:?}", author.past, self.layout);
            let text = || format!("{:?}: {:?}", author.past, self.layout);
            assert!(is_held, "the writer {writer} is not believed to have what it has: {}", text());
        }
    }
}

/// Which writes these are.
#[derive(Clone, Default)]
struct Marks([u64; 16]);

fn marks<'a>(ids: impl IntoIterator<Item = &'a Id>) -> Marks {
    let mut marks = Marks::default();
    ids.into_iter().for_each(|id| marks.0[id.2 as usize / 64] |= 1 << (id.2 % 64));
    marks
}

fn both(some: &Marks, others: &Marks) -> Marks {
    Marks(std::array::from_fn(|word| some.0[word] & others.0[word]))
}

/// A server, for reads.
#[derive(Clone, Copy)]
struct Place<'a> {
    server: usize,
    layout: &'a Layout,
    has: &'a dyn Fn(usize, Option<Gtid>) -> bool,
    now: Instant,
    stay: Duration,
}

impl<'a> Place<'a> {
    fn new(server: usize, layout: &'a Layout, now: Instant) -> Self {
        Self { server, layout, has: &|_, _| false, now, stay: Duration::MAX }
    }
}

impl PastView for Place<'_> {
    fn server(&self) -> usize {
        self.server
    }

    fn writer(&self) -> Option<usize> {
        self.layout.writer.clone().ok()
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        0..SERVERS
    }

    fn holds(&self, taker: usize) -> Holds {
        self.layout.places[self.server].holds[taker]
    }

    fn has(&self, taker: usize, gtid: Option<Gtid>) -> bool {
        (self.has)(taker, gtid)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn stay(&self) -> Duration {
        self.stay
    }
}

fn run(kind: Kind) {
    let (mut held, mut on_readers, mut gaps) = (0, 0, 0);
    let (mut handed_over, mut by_number, mut restored) = (0, 0, 0);
    for seed in 1..400_u64 {
        let mut world = World::new(kind, seed);
        for _ in 0..400 {
            world.step();
        }
        world.settle_down();
        held += world.held;
        by_number += world.by_number;
        on_readers += world.on_readers;
        gaps += world.gaps;
        handed_over += world.handed_over;
        restored += world.restored;
    }
    assert!(handed_over > 100, "{handed_over} processes took over");
    assert!(restored > 100 || kind.is_ordered(), "{restored} servers went back");
    assert!(by_number > 400 || kind.is_ordered(), "{by_number} by their numbers");
    assert!(gaps > 0 || kind.is_ordered(), "nothing was confirmed");
    assert!(held > 100_000 && on_readers > 10_000, "{held} held, {on_readers} elsewhere");
}

#[test]
fn in_replication_nothing_is_believed_that_is_not_so() {
    run(Kind::Replication);
}

#[test]
fn in_a_cluster_nothing_is_believed_that_is_not_so() {
    run(Kind::Galera);
}

#[test]
fn in_a_group_nothing_is_believed_that_is_not_so() {
    run(Kind::Group);
}
