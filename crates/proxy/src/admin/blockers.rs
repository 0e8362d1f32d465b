//! SHOW BLOCKERS: which client's transaction holds a row that another client's statement waits for.
//!
//! Each server is asked on a connection of its own, which ends with the answer, as the user that checks log in as
//! (`checks.user`). A client that blocks others and waits for none itself is a root. What the server calls by its own numbers is joined with the clients that have those connections
//! now. Where a server does not tell, a row says why.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;
use crate::cluster::checks;
use crate::cluster::servers::{Server, ServerId};
use crate::upkeep::report::{LIKE_OTHERS, Person};

pub(super) const NAME: &str = "blockers";

pub(super) const COLUMNS: &[Column] = &[
    text("server"),
    count("waiting_client"),
    count("waiting_thread"),
    text("waiting_user"),
    text("waiting_statement"),
    real("waiting_seconds"),
    count("blocking_client"),
    count("blocking_thread"),
    text("blocking_user"),
    text("blocking_state"),
    text("blocking_statement"),
    real("blocking_seconds"),
    text("root"),
    text("note"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("server", 8),
    shown("waiting", "waiting_client", Form::AsItIs),
    shown("user", "waiting_user", Form::Cut(8)),
    shown("since", "waiting_seconds", Form::Seconds),
    shown("statement", "waiting_statement", Form::Cut(14)),
    shown("blocked_by", "blocking_client", Form::AsItIs),
    plain("root"),
    shown("its_state", "blocking_state", Form::Cut(9)),
    cut("note", 20),
];

/// What waits for what, as numbers of connections.
const MARIADB: &str = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
    FROM information_schema.innodb_lock_waits w \
    JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id \
    JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id";

const MYSQL: &str = "SELECT DISTINCT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
    FROM performance_schema.data_lock_waits w \
    JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_engine_transaction_id \
    JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_engine_transaction_id";

/// Bytes of numbers that a server may answer with.
const BYTES_MAX: usize = 1 << 20;

/// For one server to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the servers, and fills the table.
pub(super) async fn fill_now(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let clients: HashMap<_, _> = surveyed
        .reports
        .iter()
        .flat_map(|report| &report.clients)
        .filter_map(|person| Some(((person.server, person.backend?), person)))
        .collect();
    for server in outside.shared.cluster.servers.iter() {
        let asked = tokio::time::timeout(PATIENCE, ask(outside, server)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
        match asked {
            Ok(pairs) => {
                let pairs = roots_first(pairs).into_iter();
                let rows = pairs.map(|(pair, root)| row(server, &clients, pair, root));
                table.rows.extend(rows);
            }
            Err(why) => {
                let mut row = vec![Value::Null; COLUMNS.len()];
                row[0] = server.name.clone().into();
                row[COLUMNS.len() - 1] = why.into();
                table.rows.push(row);
            }
        }
        let people = surveyed.reports.iter().flat_map(|report| &report.clients);
        let held_back = |it: &&Person| it.server == server.id && it.wait == Some(LIKE_OTHERS);
        table.rows.extend(people.filter(held_back).map(|person| held_back_row(server, person)));
    }
}

/// What waits for what. Those that wait for none themselves come first: they are what all others wait for.
fn roots_first(pairs: Vec<(u32, u32)>) -> Vec<((u32, u32), &'static str)> {
    let waiting: HashSet<u32> = pairs.iter().map(|(waiting, _)| *waiting).collect();
    let is_root = |blocking: &u32| if waiting.contains(blocking) { "no" } else { "yes" };
    let mut told: Vec<_> = pairs.into_iter().map(|pair| (pair, is_root(&pair.1))).collect();
    told.sort_by_key(|(_, root)| *root == "no");
    told
}

/// A client whose statement is held back in Flifo: it would wait as well.
fn held_back_row(server: &Server, person: &Person) -> Vec<Value> {
    let mut row = vec![Value::Null; COLUMNS.len()];
    row[0] = server.name.clone().into();
    row[1] = Some(person.id).into();
    row[3] = Some(person.user.clone()).into();
    row[4] = person.work.as_ref().and_then(|work| work.text.clone()).into();
    row[5] = Some(person.changed.as_secs_f64()).into();
    row[COLUMNS.len() - 1] =
        "held back in Flifo: statements like it wait for this lock".to_owned().into();
    row
}

fn row(
    server: &Server,
    clients: &HashMap<(ServerId, u32), &Person>,
    (waiting, blocking): (u32, u32),
    root: &'static str,
) -> Vec<Value> {
    let (waits, blocks) = (clients.get(&(server.id, waiting)), clients.get(&(server.id, blocking)));
    let text_of = |person: &&&Person| person.work.as_ref().and_then(|work| work.text.clone());
    let note = blocks.is_none().then_some("no client of Flifo has the blocking connection");
    vec![
        server.name.clone().into(),
        waits.map(|it| it.id).into(),
        waiting.into(),
        waits.map(|it| it.user.clone()).into(),
        waits.as_ref().and_then(text_of).into(),
        waits.map(|it| it.changed.as_secs_f64()).into(),
        blocks.map(|it| it.id).into(),
        blocking.into(),
        blocks.map(|it| it.user.clone()).into(),
        blocks.map(|it| it.state.name()).into(),
        blocks.as_ref().and_then(text_of).into(),
        blocks.map(|it| it.changed.as_secs_f64()).into(),
        root.into(),
        note.into(),
    ]
}

/// What waits for what on a server, or why that is not known.
async fn ask(outside: &Outside, server: &Server) -> Result<Vec<(u32, u32)>, String> {
    let plan = outside.shared.plan();
    let (user, password) = checks::account(&plan, plan.governing(&server.cluster).checks)
        .ok_or_else(|| {
            "no user has a password that Flifo can log in with; name one with checks.user"
                .to_owned()
        })?;
    let cluster = &outside.shared.cluster;
    let mut asked = checks::log_in(cluster, server, user, password)
        .await
        .map_err(|error| format!("cannot log in as {user}: {error}"))?;
    let question = if asked.is_mariadb { MARIADB } else { MYSQL };
    let told = asked.rows_within(question, BYTES_MAX).await.map_err(|error| {
        format!("{user} may not read what waits (GRANT PROCESS ON *.* TO {user:?}): {error}")
    })?;
    asked.quit().await;
    Ok(told.rows.iter().filter_map(|(one, two)| Some((number(one)?, number(two)?))).collect())
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_waits_for_none_itself() {
        let told = roots_first(vec![(3, 2), (2, 1), (4, 2), (5, 1), (7, 8), (8, 7)]);
        let want = [
            ((2, 1), "yes"),
            ((5, 1), "yes"),
            ((3, 2), "no"),
            ((4, 2), "no"),
            // A deadlock that the server has still to end.
            ((7, 8), "no"),
            ((8, 7), "no"),
        ];
        assert_eq!(told, want);
        assert!(roots_first(Vec::new()).is_empty());
    }
}
