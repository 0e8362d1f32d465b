//! What is known of what each server holds, scene by scene; then worlds in which writes, checks, losses and promotions
//! come as chance says, and nothing may be believed that is not so.

use std::time::Duration;

use super::*;
use crate::checks::health::{CheckRules, Sign, State};
use crate::cluster::writes::Writes;
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
        let said = Said { position: &position, view: None, takes_writes: at == 0 };
        self.knowledge.hear(at, said, self.start + MILLI * millis);
    }

    /// A node was asked, in this view.
    fn node(&mut self, at: usize, number: u64, view: u64, millis: u32) {
        let position = Position::Commit { cluster: 1, number };
        let said = Said { position: &position, view: Some(view), takes_writes: true };
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
    scene.hear(1, "", 50);
    assert_eq!(scene.until(1, 0), Some(30), "what was proved stays so");
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
            let said = Said { position: &position, view: None, takes_writes };
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

/// Numbers by chance, the same for a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Which write it is: the server that took it, and its number.
type Id = (usize, u64);

/// What a client was told of a write.
struct Acknowledged {
    id: Id,
    /// Its server was killed since, or an operator has decided that it is given up.
    may_be_lost: bool,
}

#[derive(Default)]
struct Author {
    writes: Writes,
    acknowledged: Vec<Acknowledged>,
}

/// A check that is under way: when it began, and what was said, if it was asked.
struct Check {
    begun: Instant,
    said: Option<Role>,
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Replication,
    Galera,
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
    on_readers: u64,
    gaps: u64,
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
            read_only: kind == Kind::Replication && at > 0,
            follows: (kind == Kind::Replication && at > 0).then_some(0),
            ..Server::default()
        };
        Self {
            kind,
            chance: Chance(seed),
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
            on_readers: 0,
            gaps: 0,
        }
    }

    fn role(&self, at: usize) -> Role {
        let server = &self.servers[at];
        let (position, node, view) = match self.kind {
            Kind::Replication => {
                let gtids = server.log.iter().map(|(by, number)| format!("0-{by}-{number}"));
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
        };
        Role { read_only: server.read_only, position, node, view, flow: Flow::default() }
    }

    fn step(&mut self) {
        self.now += MILLI;
        let at = self.chance.below(SERVERS);
        match self.chance.below(100) {
            0..40 => self.check(at),
            40..65 => self.apply(at),
            65..90 => self.write(),
            90..97 => self.befall(at),
            _ => self.mend(at),
        }
        self.look();
    }

    /// A check begins, is answered, or is heard of.
    fn check(&mut self, at: usize) {
        match self.checks[at].take() {
            None => self.checks[at] = Some(Check { begun: self.now, said: None }),
            Some(_) if !self.servers[at].is_alive => {
                let sign = Sign::Failed("no answer".to_owned());
                self.cluster.see(at, sign, self.now);
            }
            Some(Check { begun, said: None }) => {
                self.checks[at] = Some(Check { begun, said: Some(self.role(at)) });
            }
            Some(Check { begun, said: Some(role) }) => {
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
        if self.kind == Kind::Galera {
            return self.work_off(at);
        }
        let Some(from) = server.follows.filter(|from| self.servers[*from].is_alive) else { return };
        let (own, theirs) = (&server.log, &self.servers[from].log);
        // One that has what the other one has not does not go on.
        if own.len() < theirs.len() && theirs.starts_with(own) {
            let next = theirs[own.len()];
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
        let stays = self.chance.one_in(4).then(|| self.authors[author].writes.taker()).flatten();
        let Some(at) = stays.or_else(|| self.layout.writer.clone().ok()) else { return };
        let server = &self.servers[at];
        // Backends to a server that is down are closed.
        let is_linked = server.is_alive && self.cluster.health(at).state() != State::Down;
        if !is_linked || server.read_only || !server.applies {
            return;
        }
        let id = self.take(at);
        if self.kind == Kind::Replication && self.chance.one_in(2) {
            let position = Position::from_gtids(&format!("0-{}-{}", id.0, id.1));
            self.cluster.acknowledge(at, position);
        }
        let author = &mut self.authors[author];
        author.writes.note(at, self.now);
        author.acknowledged.push(Acknowledged { id, may_be_lost: false });
    }

    /// A server takes a write, for a client or beside Flifo.
    fn take(&mut self, at: usize) -> Id {
        match self.kind {
            Kind::Replication => {
                let number = self.servers[at].log.iter().map(|id| id.1).max().unwrap_or(0) + 1;
                self.servers[at].log.push((at, number));
                (at, number)
            }
            Kind::Galera => {
                while self.applied[at] < self.order.len() {
                    self.work_off(at);
                }
                self.numbers += 1;
                self.order.push(Some((at, self.numbers)));
                self.work_off(at);
                (at, self.numbers)
            }
        }
    }

    fn befall(&mut self, at: usize) {
        let mut others = (0..SERVERS).filter(|other| *other != at);
        let others_live = others.any(|other| self.servers[other].is_alive);
        match (self.kind, self.chance.below(8)) {
            // Of two nodes that go between two checks, it cannot be told which view lacks which.
            (_, 0) if others_live && self.servers[at].is_alive && self.is_heard_of(at) => {
                self.servers[at].is_alive = false;
                self.forgive(|id| id.0 == at);
                if self.kind == Kind::Galera {
                    self.order.push(None);
                }
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
                if self.servers[at].is_alive && !self.servers[at].read_only =>
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

    /// Whether Flifo knows of the view in which a node is.
    fn is_heard_of(&self, at: usize) -> bool {
        let views = self.order.iter().filter(|it| it.is_none()).count() as u64;
        self.kind == Kind::Replication || self.cluster.knowledge.servers[at].view == Some(views)
    }

    fn forgive(&mut self, which: impl Fn(Id) -> bool) {
        for write in self.authors.iter_mut().flat_map(|author| &mut author.acknowledged) {
            write.may_be_lost |= which(write.id);
        }
    }

    fn mend(&mut self, at: usize) {
        let kind = self.kind;
        let from = self.servers.iter().position(|server| server.is_alive && !server.read_only);
        let Some(from) = from.filter(|from| *from != at) else {
            let server = &mut self.servers[at];
            (server.applies, server.desynced, server.is_alive) = (true, false, true);
            return;
        };
        let theirs = self.servers[from].log.clone();
        let server = &mut self.servers[at];
        let has_more = server.follows.is_some() && !theirs.starts_with(&server.log);
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
                self.checks[at] = None;
                for _ in 0..3 {
                    let sign = Sign::Failed("it is set up anew".to_owned());
                    self.cluster.see(at, sign, self.now);
                }
                self.layout = self.cluster.layout(self.now);
                if self.cluster.health(at).state() == State::Down {
                    (self.servers[at].log, self.servers[at].is_alive) = (theirs, true);
                    self.forgive(|id| id.0 == at);
                }
            }
            _ => self.servers[at].is_alive = true,
        }
    }

    /// Where a client's reads may go, all of its writes are, but for those that the writer has lost.
    fn look(&mut self) {
        let has = |at: usize, id: &Id| self.servers[at].log.contains(id);
        for author in &self.authors {
            for at in (0..SERVERS).filter(|at| self.servers[*at].is_alive) {
                let holds = |taker: usize| self.layout.places[at].holds[taker];
                if !author.writes.are_held(holds, self.now, Duration::MAX) {
                    continue;
                }
                self.held += 1;
                self.on_readers += u64::from(author.writes.taker().is_some_and(|it| it != at));
                for write in &author.acknowledged {
                    assert!(
                        has(at, &write.id) || write.may_be_lost,
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
                if self.layout.places[at].gap.is_some() {
                    let _ = self.cluster.confirm(at, self.now);
                    self.forgive(|_| true);
                }
                self.look();
            }
        }
        let Ok(writer) = self.layout.writer else { return };
        for author in &self.authors {
            let holds = |taker: usize| self.layout.places[writer].holds[taker];
            let is_held = author.writes.are_held(holds, self.now, Duration::ZERO);
            let text = || format!("{:?}: {:?}", author.writes, self.layout);
            assert!(is_held, "the writer {writer} is not believed to have what it has: {}", text());
        }
    }
}

fn run(kind: Kind) {
    let (mut held, mut on_readers, mut gaps) = (0, 0, 0);
    for seed in 1..400_u64 {
        let mut world = World::new(kind, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for _ in 0..400 {
            world.step();
        }
        world.settle_down();
        held += world.held;
        on_readers += world.on_readers;
        gaps += world.gaps;
    }
    assert!(gaps > 0 || kind == Kind::Galera, "nothing was confirmed");
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
