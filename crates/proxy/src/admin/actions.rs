//! What the console does to Flifo: holding statements back, killing, setting the limit.
//!
//! Owns what each order means; the console decides which client may give one. Orders reach workers by mail.

use std::rc::Rc;

use view::command::{Verb, Victim};
use view::table::{Table, count, text};

use crate::admin::Outside;
use crate::cluster::facts::{Standing, Takers};
use crate::cluster::post::News;
use crate::cluster::servers::Server;
use crate::config::{self, Change, What};
use crate::road::kill_orders;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// What was done, in a sentence; or why not.
pub(super) type Done = Result<String, String>;

impl Outside {
    /// Changes what may start on the server.
    pub(super) async fn stand(&self, verb: Verb, name: Option<&str>) -> Done {
        let server = self.named(name)?;
        let standing = match verb {
            Verb::Resume | Verb::Enable => Standing::Up,
            Verb::Pause => Standing::Paused,
            Verb::Drain => Standing::Drain,
            Verb::Disable => Standing::Maintenance,
        };
        let takers = self.takers_for(server);
        server.facts.stand(standing);
        let wake = |worker| self.shared.mail(worker, Mail::SlotFree(server.id));
        // Where there are other servers, new statements go to them, and a client that is bound to this one goes on.
        let waits = match self.shared.cluster.is_routed() {
            true => standing == Standing::Paused,
            false => standing != Standing::Up,
        };
        server.slots.pause(waits, wake);
        if let Some(members) = self.shared.cluster.routes_at(server.id) {
            members.order(server.id, standing);
        }
        if standing == Standing::Up {
            self.shared.mail_all(|| Mail::SlotFree(server.id));
        }
        if matches!(standing, Standing::Drain | Standing::Maintenance) {
            self.shared.mail_all(|| Mail::News(News::CloseIdle(server.id)));
        }
        self.survey.forget().await;
        tracing::info!(server = server.name, state = standing.name(), "set on the console");
        let running = server.slots.held();
        Ok(format!("{}: {}; {running} statements run", server.name, standing.means(takers)))
    }

    /// What becomes of the statements that a server would take, if it takes nothing new.
    fn takers_for(&self, server: &Server) -> Takers {
        match self.shared.cluster.routes_at(server.id) {
            None => Takers::None,
            Some(members) if members.is_writer(server.id) => Takers::Wait,
            Some(_) => Takers::Read,
        }
    }

    /// A server is to be the writer although it lacks what the one before it had.
    pub(super) async fn confirm(&self, name: &str) -> Done {
        let server = self.named(Some(name))?;
        let Some(members) = self.shared.cluster.routes_at(server.id) else {
            return Err("there is one server, and nothing to confirm".to_owned());
        };
        let done = members.confirm(server.id);
        done.map_err(|why| format!("nothing to confirm of {name}: {why}"))?;
        self.survey.forget().await;
        tracing::info!(server = server.name, "confirmed on the console as the writer");
        Ok(format!("{name}: it may be the writer, whatever it lacks"))
    }

    /// The server of this name; without one, the only one there is.
    fn named(&self, name: Option<&str>) -> Result<&Server, String> {
        let servers = &self.shared.cluster.servers;
        let names = || servers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            None if servers.len() == 1 => Ok(self.shared.cluster.first()),
            None => Err(format!("name one of the servers: {}", names())),
            Some(name) => {
                let found = servers.iter().find(|server| server.name == name);
                found
                    .map(|it| &**it)
                    .ok_or_else(|| format!("there is no server {name:?}; there is {}", names()))
            }
        }
    }

    pub(super) async fn kill(&self, victim: Victim, id: u32) -> Done {
        let ask = |at| self.shared.ask(at, move |worker| kill(worker, id, victim));
        let answers: Vec<_> = (0..self.shared.worker_count()).map(ask).collect();
        let mut done = None;
        for answer in answers {
            done = answer.await.ok().flatten();
            if done.is_some() {
                break;
            }
        }
        self.survey.forget().await;
        match done {
            Some(Ok(())) => Ok(format!("client {id}")),
            Some(Err(error)) => Err(error),
            None => Err(format!("Unknown thread id: {id}; SHOW CLIENTS lists them")),
        }
    }

    /// Sets an option until the next reload.
    pub(super) async fn set(&self, name: &str, value: Option<&str>) -> Done {
        let lower = name.to_ascii_lowercase();
        if matches!(&*lower, "server.limit" | "limit") {
            return self.set_limit(value.unwrap_or("auto")).await;
        }
        let name = if config::is_option(&lower) { &*lower } else { name };
        let changes = self.reloader.set(name, value).await?;
        self.survey.forget().await;
        let quiet = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
        let tell = |change: Change| match change.what {
            What::Changed(was, is) => format!(
                "{}: {} -> {} ({})",
                change.path,
                quiet(was),
                quiet(is),
                change.applies.name()
            ),
            What::Added | What::Removed | What::Renewed => format!("{} too", change.path),
        };
        let told: Vec<_> = changes.into_iter().map(tell).collect();
        tracing::info!(option = name, changes = told.join("; "), "set on the console");
        Ok(match &told[..] {
            [] => format!("{name}: no change"),
            _ => told.join("; "),
        })
    }

    /// Sets the limit of all servers, whatever the configuration and their agents say.
    async fn set_limit(&self, value: &str) -> Done {
        let limit = match value.to_ascii_lowercase().as_str() {
            "auto" => None,
            number => match number.parse() {
                Ok(limit @ 1..=LIMIT_MAX) => Some(limit),
                _ => return Err(format!("{value:?} is no limit: auto, or 1 to {LIMIT_MAX}")),
            },
        };
        let mut now = 1;
        for server in self.shared.cluster.servers.iter() {
            now = self.shared.cluster.set_limit(server, limit);
        }
        self.survey.forget().await;
        tracing::info!(limit = now, by_hand = limit.is_some(), "server.limit set on the console");
        Ok(format!("server.limit is {now}"))
    }
}

impl Outside {
    /// Reads the configuration again: what has changed, and when that is in force.
    pub(super) async fn reload(&self) -> Result<Table, String> {
        let changes = self.reloader.reload().await?;
        let mut table =
            Table::new(const { &[text("name"), text("old"), text("new"), text("in_force")] });
        for change in changes {
            let (was, is) = match change.what {
                What::Added => (None, Some("added".to_owned())),
                What::Removed => (Some("removed".to_owned()), None),
                What::Renewed => (None, Some("renewed".to_owned())),
                What::Changed(was, is) => (was, is),
            };
            let in_force = change.applies.name();
            table.add([change.path.into(), was.into(), is.into(), in_force.into()]);
        }
        self.survey.forget().await;
        Ok(table)
    }
}

impl Outside {
    /// Has another Flifo take over.
    pub(super) async fn upgrade(&self) -> Result<Table, String> {
        let done = self.upgrader.upgrade().await?;
        let mut table = Table::new(
            const { &[count("pid"), text("version"), count("moved"), count("left"), text("why")] },
        );
        let (moved, left) = (done.moved as u64, done.left as u64);
        table.add([
            u64::from(done.pid).into(),
            done.version.into(),
            moved.into(),
            left.into(),
            done.why.into(),
        ]);
        Ok(table)
    }
}

/// More than a server takes connections.
const LIMIT_MAX: u32 = 100_000;

/// Kills this client, or what it runs. `None`: it is not on this worker.
fn kill(worker: &Rc<Worker>, id: u32, victim: Victim) -> Option<Result<(), String>> {
    let client = worker.clients.borrow().get(&id).cloned()?;
    let done = match victim {
        Victim::Client => {
            client.drop_outbox();
            client.close();
            Ok(())
        }
        Victim::Statement if client.has_key() => {
            kill_orders::interrupt(worker, &client);
            Ok(())
        }
        Victim::Statement => Err(format!(
            "client {id} is passed through: Flifo cannot log in as its user to kill its statement; KILL CLIENT ends its \
             connection"
        )),
    };
    tracing::info!(client = id, what = ?victim, ok = done.is_ok(), "killed on the console");
    Some(done)
}
