//! What befalls servers of a cluster, one after the other, and that they come back from it: with what an operator does
//! then, as the manual says.

mod taken;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use backend::Address;
use bench::interrupt::Interrupt;
use clap::ValueEnum;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::{Client, Problem};
use testkit::flifo::take_over;
use testkit::lan::Cable;

use super::Kind;
use super::machines::Machines;
use super::own_writes::Ledgers;

/// By default it is any server, of Galera and groups more often the one that is written to; in replication a reader, as
/// what dies with the writer was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(super) enum Fault {
    /// The writer is desynced for two seconds.
    Desync,
    /// All tables of one server are locked for reading (`FLUSH TABLES WITH READ LOCK`), for four seconds.
    Ftwrl,
    /// The writer is `read_only` for two seconds; in replication while a reader is behind.
    ReadOnly,
    /// Readers stop to apply for two seconds.
    Lag,
    /// The writer gives its place to a reader that has all.
    Switchover,
    /// A reader that lacks what was acknowledged can be written to while the writer is frozen, and must not be.
    Promotion,
    /// A server is killed, and comes back.
    Kill,
    /// The same, but it is stopped.
    Stop,
    /// A server answers nothing for a second.
    Freeze,
    /// The writer, or a reader, is drained for two seconds.
    Drain,
    /// Any server is set back to what its disk had some seconds before. The writer is confirmed, or a reader promoted.
    Restore,
    /// The binary log of any server begins anew (`RESET MASTER`).
    Reset,
    /// The writer goes, and a reader that lacks acknowledged writes takes its place for good, as an operator confirms; a
    /// cluster, or group, is begun anew with it.
    Gap,
    /// A member is frozen until the others have expelled it, or leaves.
    Expel,
    /// A member, or two of three, cannot hear the others.
    NonPrimary,
    /// Another Flifo takes over.
    Upgrade,
    /// The account by which servers are checked is locked, at one server or at all, for three seconds.
    Lock,
    /// All packets from and to any server are dropped, for some seconds.
    Hole,
    /// The network of any server is slow and loses packets, for five seconds.
    Slow,
}

use Kind::{Galera, Group, Replication};

/// Which servers a fault suits.
const SUITS: [(Fault, &[Kind]); 19] = [
    (Fault::Desync, &[Galera]),
    (Fault::Ftwrl, &[Replication, Galera, Group]),
    (Fault::ReadOnly, &[Replication, Group]),
    (Fault::Lag, &[Replication]),
    (Fault::Switchover, &[Replication, Group]),
    (Fault::Promotion, &[Replication]),
    (Fault::Kill, &[Replication, Galera, Group]),
    (Fault::Stop, &[Replication, Galera, Group]),
    (Fault::Freeze, &[Replication, Galera, Group]),
    (Fault::Drain, &[Replication, Galera, Group]),
    (Fault::Restore, &[Replication, Galera, Group]),
    (Fault::Reset, &[Replication, Group]),
    (Fault::Gap, &[Replication, Galera, Group]),
    (Fault::Expel, &[Galera, Group]),
    (Fault::NonPrimary, &[Galera, Group]),
    (Fault::Upgrade, &[Replication, Galera, Group]),
    (Fault::Lock, &[Replication, Galera, Group]),
    (Fault::Hole, &[Replication, Galera, Group]),
    (Fault::Slow, &[Replication, Galera, Group]),
];

impl Fault {
    /// All that befall servers of this kind.
    pub(super) fn all(kind: Kind) -> Vec<Self> {
        let suiting = SUITS.iter().filter(|(_, kinds)| kinds.contains(&kind));
        suiting.map(|(fault, _)| *fault).collect()
    }

    /// Those after which all goes on as before: they take nothing away, and need no network, user or console of their own.
    pub(super) fn plain(kind: Kind) -> Vec<Self> {
        Self::all(kind).into_iter().filter(|it| *it <= Self::Drain).collect()
    }

    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|it| it.get_name().to_owned()).unwrap_or_default()
    }
}

/// Chance, by a seed.
pub(super) struct Chance(Rng);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A number below this one.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound.max(1))
    }
}

/// The console of whichever Flifo serves it.
pub(super) struct Console {
    socket: PathBuf,
    client: Option<Client>,
}

impl Console {
    pub(super) const fn at(socket: PathBuf) -> Self {
        Self { socket, client: None }
    }

    /// Asks again on a new connection if the one that answered has given its place to another Flifo.
    pub(super) fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>> {
        let begun = Instant::now();
        loop {
            let address = Address::Unix(self.socket.clone());
            let client = match self.client.take() {
                Some(client) => Ok(client),
                None => Client::builder(address, "admin", "").connect(),
            };
            let problem = match client {
                Ok(mut client) => match client.query(text) {
                    Ok(rows) => {
                        self.client = Some(client);
                        return Ok(rows);
                    }
                    Err(problem) => problem,
                },
                Err(problem) => problem,
            };
            // 1053: it is the console of a Flifo that has given its place to another one.
            let is_final = matches!(problem, Problem::Refused { code, .. } if code != 1053);
            if is_final || begun.elapsed() > Duration::from_secs(20) {
                return Err(anyhow!("{text}: {problem}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it says of a server: its state, its role.
    pub(super) fn seen(&mut self, name: &str) -> Result<(String, String)> {
        let rows = self.query(&format!("SHOW FULL SERVERS WHERE name = '{name}'"))?;
        let row = rows.first().with_context(|| format!("there is no {name}"))?;
        let (Some(state), Some(role)) = (row.get(2), row.get(16)) else {
            return Err(anyhow!("SHOW FULL SERVERS has other columns"));
        };
        Ok((state.clone(), role.clone()))
    }
}

/// Has another Flifo take over, again and again; the last one ends with this value.
pub(super) struct Successions {
    program: PathBuf,
    socket: PathBuf,
    last: std::sync::Mutex<Vec<Pid>>,
}

impl Successions {
    pub(super) const fn of(program: PathBuf, socket: PathBuf) -> Self {
        Self { program, socket, last: std::sync::Mutex::new(Vec::new()) }
    }

    pub(super) fn next(&self) -> Result<()> {
        // One at a time.
        let mut last = self.last.lock().expect("no thread panics with it");
        let taken = take_over(&self.program, &self.socket).map_err(|why| anyhow!("{why}"))?;
        last.push(taken.pid);
        Ok(())
    }
}

impl Drop for Successions {
    fn drop(&mut self) {
        for pid in self.last.lock().into_iter().flat_map(|mut all| std::mem::take(&mut *all)) {
            let is_flifo = std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()))
                .is_ok_and(|exe| exe == self.program);
            if is_flifo {
                // It may have ended already.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Where a fault strikes.
pub(super) struct Scene<'a> {
    pub(super) servers: &'a mut Machines,
    pub(super) console: &'a mut Console,
    pub(super) interrupt: &'a Interrupt,
    pub(super) kind: Kind,
    /// What the names of its servers begin with.
    pub(super) name: &'a str,
    /// What more than the plain faults need.
    pub(super) more: Option<(&'a Ledgers, &'a Successions)>,
}

/// The account by which servers are checked where it is locked.
pub(super) const CHECKER: &str = "checker";

impl Scene<'_> {
    pub(super) fn befall(&mut self, fault: Fault, chance: &mut Chance) -> Result<()> {
        let writer = self.wait_for_all()?;
        let reader = (writer + 1 + chance.below(2)) % 3;
        let third = 3 - writer - reader;
        let any = match self.kind {
            Galera | Group if chance.below(3) > 0 => writer,
            _ => reader,
        };
        let whichever = chance.below(3);
        match fault {
            Fault::Desync => {
                self.sql(writer, "SET GLOBAL wsrep_desync = ON")?;
                self.sleep(2000)?;
                self.sql(writer, "SET GLOBAL wsrep_desync = OFF")
            }
            Fault::Ftwrl => {
                // The lock is its session's.
                self.sql(any, "FLUSH TABLES WITH READ LOCK; DO SLEEP(4); UNLOCK TABLES")
            }
            Fault::ReadOnly => self.make_read_only(writer, reader),
            Fault::Lag => {
                self.sql(reader, "STOP SLAVE SQL_THREAD")?;
                self.sleep(500)?;
                self.sql(third, "STOP SLAVE SQL_THREAD")?;
                self.sleep(2000)?;
                self.sql(reader, "START SLAVE SQL_THREAD")?;
                self.sql(third, "START SLAVE SQL_THREAD")
            }
            Fault::Switchover => self.switch_over(writer, reader, third),
            Fault::Promotion => self.promote_behind(writer, reader),
            Fault::Kill => {
                self.servers.kill(any)?;
                self.come_back(any)
            }
            Fault::Stop => {
                if self.kind == Group {
                    // Else it waits long for commits that the group will not answer any more.
                    self.sql(any, "STOP GROUP_REPLICATION")?;
                }
                self.servers.stop(any)?;
                self.come_back(any)
            }
            Fault::Freeze => self.freeze(any, 1000),
            Fault::Drain => {
                self.order(&format!("DRAIN {}{}", self.name, any + 1))?;
                self.sleep(2000)?;
                self.order(&format!("ENABLE {}{}", self.name, any + 1))
            }
            Fault::Restore => self.restore(whichever, writer, chance),
            Fault::Reset => self.reset(whichever, writer),
            Fault::Gap => self.lose_writer(writer, reader, chance),
            Fault::Expel => self.expel(any, chance),
            Fault::NonPrimary => self.part(writer, any, chance),
            Fault::Upgrade => self.more()?.1.next(),
            Fault::Lock => self.lock_checks(whichever, chance),
            Fault::Hole => {
                self.servers.set_cable(whichever, Cable::Dead)?;
                let slept = self.sleep([1000, 3000, 8000][chance.below(3)]);
                self.servers.set_cable(whichever, Cable::Good)?;
                slept
            }
            Fault::Slow => {
                self.servers.set_cable(whichever, Cable::Slow)?;
                let slept = self.sleep(5000);
                self.servers.set_cable(whichever, Cable::Good)?;
                slept
            }
        }
    }

    fn more(&self) -> Result<(&Ledgers, &Successions)> {
        self.more.context("this fault needs ledgers")
    }

    fn make_read_only(&mut self, writer: usize, reader: usize) -> Result<()> {
        if self.kind == Group {
            self.sql(writer, "SET GLOBAL super_read_only = 1")?;
            self.sleep(2000)?;
            return self.sql(writer, "SET GLOBAL read_only = 0");
        }
        self.sql(reader, "STOP SLAVE SQL_THREAD")?;
        self.sleep(300)?;
        self.sql(writer, "SET GLOBAL read_only = 1")?;
        self.sleep(2000)?;
        self.sql(writer, "SET GLOBAL read_only = 0")?;
        self.sleep(300)?;
        self.sql(reader, "START SLAVE SQL_THREAD")
    }

    fn switch_over(&mut self, writer: usize, reader: usize, third: usize) -> Result<()> {
        if self.kind == Group {
            let next = self.servers.sql(reader, "SELECT @@server_uuid")?;
            let text = format!("SELECT group_replication_set_as_primary('{}')", next.trim());
            if let Err(problem) = self.sql(writer, &text) {
                // A member may be on its way out of the group, or into it.
                eprintln!("  no switchover: {problem:#}");
            }
            return Ok(());
        }
        self.sql(writer, "SET GLOBAL read_only = 1")?;
        // Statements that run are let go on by read_only.
        self.sleep(300)?;
        let cluster = self.servers.cluster()?;
        cluster.wait_for(reader, writer);
        cluster.promote(reader, &[writer, third]);
        Ok(())
    }

    /// A server that has ended is started again.
    fn come_back(&mut self, at: usize) -> Result<()> {
        self.sleep(2000)?;
        self.start(at)?;
        if self.kind == Replication {
            // It was started as it was set up, and goes on to follow.
            self.sql(at, "SET GLOBAL read_only = 1")?;
        }
        Ok(())
    }

    /// Starts a server, and again if it ends meanwhile, as a Galera node does whose donor has gone.
    fn start(&mut self, at: usize) -> Result<()> {
        for _ in 0..3 {
            match self.servers.start(at) {
                Ok(()) => return Ok(()),
                Err(_) => self.sleep(2000)?,
            }
        }
        self.servers.start(at)
    }

    fn freeze(&self, at: usize, millis: u64) -> Result<()> {
        self.servers.signal(at, Signal::STOP)?;
        let slept = self.sleep(millis);
        self.servers.signal(at, Signal::CONT)?;
        slept
    }

    /// A reader that is behind is made to be written to while the writer does not answer: it must not be used.
    fn promote_behind(&mut self, writer: usize, reader: usize) -> Result<()> {
        self.sql(reader, "STOP SLAVE SQL_THREAD")?;
        self.sleep(1500)?;
        self.servers.signal(writer, Signal::STOP)?;
        let promoted = self.sql(reader, "SET GLOBAL read_only = 0");
        let slept = self.sleep(3000);
        let role = self.role(reader);
        let followed = self.sql(reader, "SET GLOBAL read_only = 1; START SLAVE SQL_THREAD");
        self.servers.signal(writer, Signal::CONT)?;
        promoted.and(slept).and(followed)?;
        let role = role?;
        ensure!(role.contains(LACKS), "the reader is {role:?}");
        Ok(())
    }

    fn expel(&mut self, at: usize, chance: &mut Chance) -> Result<()> {
        // It is expelled after about ten seconds, or six.
        if self.kind == Galera || chance.below(2) == 0 {
            return self.freeze(at, 12_000);
        }
        self.sql(at, "STOP GROUP_REPLICATION")?;
        self.sleep(2000)
    }

    /// One member cannot hear the others, or none can hear another one.
    fn part(&mut self, writer: usize, any: usize, chance: &mut Chance) -> Result<()> {
        let apart = match chance.below(2) {
            0 => vec![any],
            _ => vec![writer, (writer + 1) % 3],
        };
        let isolate = |is: u8| format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={is}'");
        for at in &apart {
            match self.kind {
                Galera => self.sql(*at, &isolate(1))?,
                _ => self.servers.set_cable(*at, Cable::Dead)?,
            }
        }
        let slept = self.sleep(4000);
        for at in &apart {
            match self.kind {
                Galera => self.sql(*at, &isolate(0))?,
                _ => self.servers.set_cable(*at, Cable::Good)?,
            }
        }
        slept
    }

    /// Checks that have logged in already are ended, so that they must log in anew.
    fn lock_checks(&mut self, at: usize, chance: &mut Chance) -> Result<()> {
        let places = if chance.below(3) == 0 { vec![0, 1, 2] } else { vec![at] };
        let alone = match self.kind {
            Replication | Group => "SET sql_log_bin = 0",
            Galera => "SET wsrep_on = OFF",
        };
        let writable = |of: &Self, at: usize, is: bool| match of.kind {
            Group => {
                let role = of.servers.sql(at, "SELECT @@super_read_only")?;
                let text = if is {
                    "SET GLOBAL super_read_only = 0"
                } else {
                    "SET GLOBAL super_read_only = 1"
                };
                of.sql(at, text)?;
                anyhow::Ok(role.trim() == "1")
            }
            _ => Ok(false),
        };
        let set = |of: &Self, at: usize, lock: &str| {
            let was_read_only = writable(of, at, true)?;
            let done = of.sql(at, &format!("{alone}; ALTER USER {CHECKER}@'%' ACCOUNT {lock}"));
            if was_read_only {
                writable(of, at, false)?;
            }
            done
        };
        for at in &places {
            set(self, *at, "LOCK")?;
            let of = if self.kind == Group { "performance_schema" } else { "information_schema" };
            let ids = format!("SELECT id FROM {of}.processlist WHERE user = '{CHECKER}'");
            for id in self.servers.sql(*at, &ids)?.lines() {
                // It may have ended already.
                let _ = self.sql(*at, &format!("KILL {id}"));
            }
        }
        let slept = self.sleep(3000);
        for at in &places {
            set(self, *at, "UNLOCK")?;
        }
        slept
    }

    /// Waits until all servers are up and of some use. Answers with which is the writer.
    pub(super) fn wait_for_all(&mut self) -> Result<usize> {
        let begun = Instant::now();
        let mut mended = Instant::now();
        loop {
            let roles: Vec<_> = (0..3).map(|at| self.role(at)).collect::<Result<_>>()?;
            let writer = roles.iter().position(|role| role == "writer");
            let readers = roles.iter().filter(|role| role.starts_with("reader")).count();
            match writer {
                Some(writer) if readers == 2 => return Ok(writer),
                _ if begun.elapsed() > PATIENCE * if self.kind == Group { 3 } else { 1 } => {
                    let status = match self.kind {
                        Replication => "SHOW ALL SLAVES STATUS\\G",
                        Galera => "SHOW STATUS LIKE 'wsrep_%'",
                        Group => "SELECT * FROM performance_schema.replication_group_members",
                    };
                    let of_each = |at| {
                        let said = self.servers.sql(at, status).unwrap_or_default();
                        format!("{said}\n{}", self.servers.log_tail(at))
                    };
                    let status: Vec<_> = (0..3).map(of_each).collect();
                    bail!("they do not come back: {roles:?}\n{}", status.join("\n"))
                }
                _ => self.sleep(50)?,
            }
            if mended.elapsed() > Duration::from_secs(3) {
                self.mend(&roles, writer)?;
                mended = Instant::now();
            }
        }
    }

    /// What an operator does where servers do not come back by themselves: what their roles say.
    fn mend(&mut self, roles: &[String], writer: Option<usize>) -> Result<()> {
        match (self.kind, writer) {
            (Group, _) => self.rejoin(),
            (Replication, Some(writer)) => {
                let is_asked_for = |at: &usize| roles[*at].contains("set it up anew");
                let doubted: Vec<_> = (0..3).filter(is_asked_for).collect();
                if !doubted.is_empty() {
                    eprintln!("  {doubted:?} are set up anew: {}", roles[doubted[0]]);
                    self.set_up_anew(&doubted, writer)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Clients are refused for what they wrote on a server that does not have it any more: the log asks for this.
    pub(super) fn confirm_present(&mut self, writer: usize) -> Result<()> {
        let name = format!("{}{}", self.name, writer + 1);
        match self.console.query(&format!("CONFIRM WRITER {name}")) {
            Ok(_) => eprintln!("  clients do not go on: {name} is confirmed, which is the writer"),
            Err(problem) => {
                eprintln!("  clients do not go on, and nothing is to be confirmed: {problem}")
            }
        }
        Ok(())
    }

    /// Has members that are not in their group, or were thrown out, join it again; where none is left, it is begun anew
    /// with one that has all that any other has.
    fn rejoin(&self) {
        const MEMBERS: &str = "performance_schema.replication_group_members";
        // One that cannot reach as many as it reaches does not know that it is alone for good.
        let own = format!(
            "SELECT IF((SELECT SUM(member_state = 'UNREACHABLE') * 2 >= COUNT(*) FROM {MEMBERS}), 'APART', member_state) \
             FROM {MEMBERS} WHERE member_id = @@server_uuid OR member_id = ''"
        );
        let states: Vec<_> = (0..3).map(|at| self.servers.sql(at, &own)).collect();
        let states: Vec<_> = states.iter().map(|it| it.as_deref().unwrap_or("").trim()).collect();
        if states.iter().all(|state| matches!(*state, "OFFLINE" | "ERROR" | "APART")) {
            eprintln!("  no group is left: {states:?}");
            let executed: Vec<_> =
                (0..3).map(|at| self.servers.sql(at, "SELECT @@global.gtid_executed")).collect();
            let has_all = |at: &usize| {
                executed.iter().flatten().all(|other| {
                    let own = executed[*at].as_deref().unwrap_or("");
                    let text = format!("SELECT GTID_SUBSET('{}', '{}')", other.trim(), own.trim());
                    self.servers.sql(*at, &text).is_ok_and(|is| is.trim() == "1")
                })
            };
            if let Some(at) = (0..3).find(has_all) {
                // Those that are out already say so.
                (0..3).for_each(|at| drop(self.sql(at, "STOP GROUP_REPLICATION")));
                if let Ok(group) = self.servers.group() {
                    group.bootstrap(at);
                }
            }
            return;
        }
        for (at, state) in states.iter().enumerate() {
            if matches!(*state, "OFFLINE" | "ERROR") {
                // Tried again soon.
                let joined = self.sql(at, "STOP GROUP_REPLICATION; START GROUP_REPLICATION");
                if let Err(problem) = joined {
                    eprintln!("  {}{} does not join its group: {problem:#}", self.name, at + 1);
                }
            }
        }
    }

    fn role(&mut self, at: usize) -> Result<String> {
        Ok(self.console.seen(&format!("{}{}", self.name, at + 1))?.1)
    }

    fn sql(&self, at: usize, text: &str) -> Result<()> {
        self.servers.sql(at, text).map(drop)
    }

    fn order(&mut self, text: &str) -> Result<()> {
        self.console.query(text).map(drop)
    }

    fn sleep(&self, millis: u64) -> Result<()> {
        self.interrupt.sleep(Duration::from_millis(millis))
    }
}

/// What is said of a server that is not written to for what it lacks.
const LACKS: &str = "lacks what was acknowledged";

/// A node that was killed gets its data and works off what it has missed.
const PATIENCE: Duration = Duration::from_secs(90);
