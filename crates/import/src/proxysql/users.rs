//! Rows of `mysql_users`.

use std::collections::BTreeSet;

use crate::draft::{Route, User};
use crate::password::Password;
use crate::tables::{Row, Tables};
use crate::work::{Item, Work};

use super::homes::Homes;
use super::topology::{Duty, Topology};

pub(super) fn convert(tables: &Tables, topology: &Topology, homes: &Homes, work: &mut Work) {
    let rows = tables.rows("mysql_users");
    let schema = default_schema(tables);
    let is_off = |row: &Row, column: &str| row.written(column).is_some() && !row.is_on(column);
    // A running ProxySQL has each user twice: for clients and for servers.
    let fronts =
        rows.iter().filter(|row| !is_off(row, "frontend")).filter_map(|row| row.text("username"));
    let fronts: BTreeSet<&str> = fronts.collect();
    for row in rows {
        let item = row.whole(&["username"]);
        let Some(name) = row.text("username") else {
            work.lost(&item, "a user has a name");
            continue;
        };
        if is_off(row, "frontend") {
            if !fronts.contains(name) {
                work.lost(
                    &item,
                    "it was for servers only: users have the same name and password there and here",
                );
            }
            continue;
        }
        if is_off(row, "active") {
            work.lost(&item, "it is not active there; a user that is not listed here is passed through to the server");
            continue;
        }
        let user = draft(row, name, schema);
        add(row, user, topology, homes, work);
        rest(row, work);
    }
    if let Some(row) = rows.first() {
        let item =
            Item { place: row.place().of_file(), what: "users that are not listed".to_owned() };
        work.differs(
            &item,
            "ProxySQL refuses them; Flifo passes them through, and the server decides",
        );
    }
}

/// The schema of users that name none.
fn default_schema(tables: &Tables) -> Option<&str> {
    let mut rows = tables.rows("global_variables").iter();
    let row = rows.find(|row| row.text("variable_name") == Some("mysql-default_schema"))?;
    row.text("variable_value").filter(|it| *it != "information_schema")
}

fn draft(row: &Row, name: &str, schema: Option<&str>) -> User {
    let item = row.whole(&["username"]);
    let is_fast = row.is_on("fast_forward");
    let password = (!is_fast).then(|| Password::read(row.written("password").unwrap_or_default()));
    let mut user = User::new(name.to_owned(), password);
    user.comments.push(item.comment());
    user.comments.extend(row.text("comment").map(str::to_owned));
    let bound = row.number("max_connections").filter(|it| 0 < *it && *it != CLIENTS_DEFAULT);
    if let Some(bound) = bound {
        user.more.push(("clients_max", bound.clamp(1, 1_000_000).unsigned_abs().into()));
    }
    if let Some(schema) = row.text("default_schema").or(schema) {
        user.more.push(("schema", schema.into()));
    }
    user
}

fn add(row: &Row, mut user: User, topology: &Topology, homes: &Homes, work: &mut Work) {
    let (item, name) = (row.whole(&["username"]), user.name.clone());
    let membership = topology.member(row.number("default_hostgroup").unwrap_or(0));
    let cluster = homes.user(&name).filter(|it| *it != 0);
    user.cluster = cluster.and_then(|it| topology.cluster(it));
    let how = match &user.password {
        None => "; passed through, as with fast_forward",
        Some(Password::Plain(_)) => "",
        Some(Password::Hash(_)) => {
            "; pooled once a client has proved the password, of which only the hash is known"
        }
    };
    if !work.draft.add_user(user) {
        return work.lost(&item, "there is a user of this name already");
    }
    work.converted(&item, &format!("users {name:?}{how}"));
    match membership.map(|it| it.duty) {
        Some(Duty::Reader) => {
            let item = row.item("default_hostgroup");
            let mut route = Route::new("readers", item.comment());
            route.users.push(name.clone());
            work.draft.routes.push(route);
            work.converted(&item, &format!("routes: {name:?} reads from readers"));
        }
        Some(Duty::Writer) => {}
        _ => work.lost(
            &row.item("default_hostgroup"),
            "this hostgroup has no servers: the user goes to the writer",
        ),
    }
}

/// What is not said of single users here.
fn rest(row: &Row, work: &mut Work) {
    if row.is_on("use_ssl") {
        let told = "TLS is demanded of all clients by tls.mode = \"required\", or of one by REQUIRE SSL of its account \
                    at the server, to which Flifo holds it";
        work.lost(&row.item("use_ssl"), told);
    }
    if row.is_on("schema_locked") {
        work.lost(&row.item("schema_locked"), "grant the user rights in that schema only");
    }
    if row.text("transaction_persistent").is_some() && !row.is_on("transaction_persistent") {
        work.differs(
            &row.item("transaction_persistent"),
            "a transaction stays on its server, always",
        );
    }
    if let Some(attributes) = row.text("attributes").filter(|it| !matches!(*it, "{}" | "null")) {
        let told = match attributes.contains("isolation") {
            true => {
                "set it at the beginning of sessions: users.init_connect = \"SET tx_isolation = 'READ-COMMITTED'\" \
                 (transaction_isolation on MySQL)"
            }
            false => "there are no such attributes",
        };
        work.lost(&row.item("attributes"), told);
    }
}

const CLIENTS_DEFAULT: i64 = 10_000;
