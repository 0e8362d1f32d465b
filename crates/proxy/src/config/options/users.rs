//! Options of one user.

use engine::init_connect::InitConnect;
use engine::sharing::ShareReads;
use wire::auth::{Plugin, Secret, native, sha_crypt};

use super::limits::{DAY, MILLISECOND, SECOND, YEAR};
use super::{FIRST, Row, Section, paths};
use crate::config::form::{Form, Named};
use crate::config::options::Applies::{NewConnections, Now};
use crate::config::plan::{Password, Pins, Unseen, UserOptions};

/// Of users.
const SHARE_READS: [(&str, ShareReads); 3] =
    [("server", ShareReads::AsAbove), ("off", ShareReads::Off), ("on", ShareReads::On)];

pub(in crate::config) static USERS: Section<UserOptions> = Section {
    name: "users",
    doc: "Users whose clients share backend connections. A user that is not named here works as \
          well: its clients are passed through, which means that Flifo relays their logins and \
          each client keeps its own backend connection.",
    rows: &[
        Row {
            name: "name",
            form: Form::Text {
                allowed: "a user's name as the server knows it, without a host",
                show: |user| Some(user.name.clone()).filter(|name| !name.is_empty()),
                set: |user, text| {
                    if text.is_empty() || USER_NAME_MAX < text.chars().count() {
                        return Err(format!("a user's name has 1 to {USER_NAME_MAX} characters"));
                    }
                    text.clone_into(&mut user.name);
                    Ok(())
                },
            },
            example: Some("\"app\""),
            doc: "The user's name. It is the same at Flifo and at the server; the server must let \
                  this user in from where Flifo runs. Needed.",
            elsewhere: &[("ProxySQL", "mysql_users.username")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "password",
            form: Form::Secret {
                allowed: "a text",
                get: |user| plain(user.password.as_ref()),
                set: |user, text| {
                    user.password = Some(Password::Plain(Secret::from(text)));
                    Ok(())
                },
            },
            example: Some("\"a long random text\""),
            doc: "The user's password. The file should then be readable by Flifo's user alone. \
                  Write one of `password`, `password_hash` and `password_file`.",
            elsewhere: &[("ProxySQL", "mysql_users.password")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "password_hash",
            form: Form::Secret {
                allowed: HASH,
                get: |user| hashed(user.password.as_ref()),
                set: |user, text| {
                    user.password = Some(hash(text.as_bytes())?);
                    Ok(())
                },
            },
            example: Some(HASH_EXAMPLE),
            doc: "Instead of the password, its hash as mysql.user stores it, which tells the \
                  plugin as well. mysql_native_password: `SELECT PASSWORD('...')` on MariaDB gives \
                  it. caching_sha2_password: `SELECT HEX(authentication_string) FROM mysql.user` \
                  gives it, or SHOW CREATE USER with print_identified_with_as_hex = ON; what that \
                  prints otherwise is taken as well where TOML's single quotes can hold it. A \
                  hash is enough for its plugin alone: once a client has proved the password, \
                  Flifo can log in with what it learnt by that, which it keeps in memory only. \
                  With caching_sha2_password that is the password \
                  itself, for which the first client is asked.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "password_file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |user| paths::show(user.password_file.as_ref()),
                set: |user, text| paths::set(&mut user.password_file, text),
            },
            example: Some("\"/etc/flifo/app.password\""),
            doc: "Instead of the password, a file that contains it. One line end behind it does \
                  not count. Secrets of systemd and of containers come as such files.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "second_password",
            form: Form::Secret {
                allowed: "a text",
                get: |user| plain(user.second_password.as_ref()),
                set: |user, text| {
                    user.second_password = Some(Password::Plain(Secret::from(text)));
                    Ok(())
                },
            },
            example: Some("\"the one before\""),
            doc: "One more password that clients may prove, while an application changes from one \
                  to the other. Flifo itself logs in with the first, or, where the server refuses that, \
                  with this one. Write one of `second_password`, `second_password_hash` and `second_password_file`.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "second_password_hash",
            form: Form::Secret {
                allowed: HASH,
                get: |user| hashed(user.second_password.as_ref()),
                set: |user, text| {
                    user.second_password = Some(hash(text.as_bytes())?);
                    Ok(())
                },
            },
            example: Some(HASH_EXAMPLE),
            doc: "Instead of the second password, its hash: see `password_hash`.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "second_password_file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |user| paths::show(user.second_password_file.as_ref()),
                set: |user, text| paths::set(&mut user.second_password_file, text),
            },
            example: Some("\"/etc/flifo/app.password.old\""),
            doc: "Instead of the second password, a file that contains it: see `password_file`.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "plugin",
            form: Form::Choice(&Named {
                values: &[
                    ("mysql_native_password", Plugin::NativePassword),
                    ("caching_sha2_password", Plugin::CachingSha2),
                ],
                place: |user: &mut UserOptions| &mut user.plugin,
            }),
            example: None,
            doc: "How clients prove the password to Flifo; the server decides for itself how Flifo \
                  proves it to the server. mysql_native_password is the default since every client \
                  knows it, caching_sha2_password the stronger one. A hash goes with its own.",
            elsewhere: &[("ProxySQL", "mysql-default_authentication_plugin")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "mode",
            form: Form::Choice(&Named {
                values: &[("pooled", true), ("pass-through", false)],
                place: |user: &mut UserOptions| &mut user.pooled,
            }),
            example: None,
            doc: "\"pooled\": clients share backend connections, for which Flifo needs the \
                  password. \"pass-through\": each client has its own backend connection, as if \
                  the user were not named here, but the bounds below hold.",
            elsewhere: &[("PgBouncer", "pool_mode")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "clients_max",
            form: Form::CountOr {
                word: "none",
                range: 1..=1_000_000,
                place: |user| &mut user.clients_max,
            },
            example: None,
            doc: "Clients of this user that may be connected at once, so that one application \
                  cannot take the places of all.",
            elsewhere: &[
                ("ProxySQL", "mysql_users.max_connections"),
                ("PgBouncer", "max_user_client_connections"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "connections_max",
            form: Form::CountOr {
                word: "share",
                range: 1..=100_000,
                place: |user| &mut user.connections_max,
            },
            example: None,
            doc: "Backend connections that this user's clients may hold at once, to all servers \
                  together. \"share\": seven eighths of what `connections_max` allows to each \
                  server, added up; no bound where a server has fewer than 16. So clients of one \
                  user that keep their connections, in transactions or otherwise, leave some to \
                  the clients of other users.",
            elsewhere: &[("PgBouncer", "max_user_connections")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "routines",
            form: Form::Choice(&Named {
                values: &[("pin", Unseen::Pin), ("trust", Unseen::Trust), ("reset", Unseen::Reset)],
                place: |user: &mut UserOptions| &mut user.routines,
            }),
            example: None,
            doc: "What happens to a backend connection after CALL, and after a statement with \
                  stored functions: the statement does not show what they do, and the server does \
                  not report all of it. \"pin\" keeps the connection with its client. \"trust\" \
                  believes what the server reports, and is right where routines set no user \
                  variables in expressions, and leave no locks and no temporary tables made from a \
                  SELECT. \"reset\" resets the session before any client, including the same one, \
                  uses the connection again.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "triggers",
            form: Form::Choice(&Named {
                values: &[
                    ("read", Unseen::Read),
                    ("trust", Unseen::Trust),
                    ("reset", Unseen::Reset),
                    ("pin", Unseen::Pin),
                ],
                place: |user: &mut UserOptions| &mut user.triggers,
            }),
            example: None,
            doc: "What happens to a backend connection after a statement that may fire triggers \
                  (INSERT, REPLACE, UPDATE, DELETE, LOAD). \"read\" looks at the triggers' \
                  definitions (`server.read_definitions`): where one does what no server reports \
                  (GET_LOCK, SELECT INTO @x), or cannot be read, the connection stays with its \
                  client; where Flifo cannot even see the names of triggers (on MySQL, without the \
                  privilege TRIGGER), it is as \"reset\". \"trust\" believes what the server \
                  reports. \"reset\" resets the session before any client, including the same one, \
                  uses the connection again, at the cost of one more round trip between the server \
                  and Flifo. \"pin\" keeps the connection with its client.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "share_reads",
            form: Form::Choice(&Named {
                values: &SHARE_READS,
                place: |user: &mut UserOptions| &mut user.share_reads,
            }),
            example: None,
            doc: "Whether identical reads of this user's clients that wait are run once: see \
                  `server.share_reads`, which holds where this says \"server\".",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "pins",
            form: Form::Choice(&Named {
                values: &[("allow", Pins::Allow), ("refuse", Pins::Refuse)],
                place: |user: &mut UserOptions| &mut user.pins,
            }),
            example: None,
            doc: "\"refuse\" answers a statement that would pin its client to a backend connection \
                  with error 1290, so that the application's authors notice it. Transactions, \
                  cursors and parameters sent in pieces keep a connection only while they last, \
                  and are not refused; nor is a statement whose effect the server reports only \
                  after it has run.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "schema",
            form: Form::Text {
                allowed: "a schema's name",
                show: |user| user.schema.clone(),
                set: |user, text| {
                    if text.is_empty() {
                        return Err("a schema's name is not empty".to_owned());
                    }
                    user.schema = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"shop\""),
            doc: "The schema of a client that names none when it logs in or becomes this user \
                  (COM_CHANGE_USER). A login fails if the server does not let the user into it. A \
                  pass-through client that becomes the same user again asks its server itself, and \
                  is in no schema then.",
            elsewhere: &[("ProxySQL", "mysql_users.default_schema")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "cluster",
            form: Form::Text {
                allowed: "a cluster's name",
                show: |user| user.cluster.clone(),
                set: |user, text| {
                    user.cluster = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"main\""),
            doc: "The cluster that serves this user's clients, unless they enter a schema that \
                  another one names (`clusters.schemas`). By default, the first of `[[clusters]]`. \
                  The servers of each cluster that a user comes to must know the user by the same \
                  password.",
            elsewhere: &[("ProxySQL", "mysql_users.default_hostgroup")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "init_connect",
            form: Form::Text {
                allowed: "one SET of session variables, or nothing",
                show: |user| user.init_connect.as_ref().map(|it| it.text().to_owned()),
                set: |user, text| {
                    user.init_connect = Some(InitConnect::read(text)?);
                    Ok(())
                },
            },
            example: Some("\"SET sql_mode = 'ANSI'\""),
            doc: "What the sessions of this user's clients begin with, in the place of \
                  `server.init_connect`. An empty text: with nothing.",
            elsewhere: &[("ProxySQL", "mysql-init_connect")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "statement",
            form: Form::Bound { range: MILLISECOND..=DAY, place: |user| &mut user.times.statement },
            example: None,
            doc: "Time that a statement of this user may run on the server, pooled or passed through. \
                  \"inherit\": as the class of the statement has it (`classes.statement`), else as \
                  `limits.statement`. \"none\", or 0, is no limit, whatever these say.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "transaction",
            form: Form::Bound {
                range: MILLISECOND..=DAY,
                place: |user| &mut user.times.transaction,
            },
            example: None,
            doc: "Time that a transaction of this user may be open, in the place of \
                  `classes.transaction` and `limits.transaction`.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "idle_transaction",
            form: Form::Bound {
                range: MILLISECOND..=DAY,
                place: |user| &mut user.times.idle_transaction,
            },
            example: None,
            doc: "Time that a client of this user may ask nothing while its transaction is open, in the \
                  place of `classes.idle_transaction` and `limits.idle_transaction`.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "client_age",
            form: Form::Bound {
                range: MILLISECOND..=YEAR,
                place: |user| &mut user.times.client_age,
            },
            example: None,
            doc: "Time that a client of this user may stay connected, in the place of \
                  `classes.client_age` and `limits.client_age`.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "backend_age",
            form: Form::Bound { range: SECOND..=YEAR, place: |user| &mut user.backend_age },
            example: None,
            doc: "Age at which a backend connection of this user is closed as soon as no client uses \
                  it, in the place of `limits.backend_age`. Connections belong to users and to no \
                  class. One that a client keeps, pinned or passed through, stays as long as that.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};

/// Of options whose value is a hash.
const HASH: &str = "what the server stores: '*' and 40 hexadecimal digits, or '$A$005$' and 63 \
                    characters, or these in hexadecimal";
const HASH_EXAMPLE: &str = "\"*0123456789ABCDEF0123456789ABCDEF01234567\"";

/// A password that is given by itself.
fn plain(password: Option<&Password>) -> Option<Password> {
    password.filter(|it| matches!(it, Password::Plain(_))).cloned()
}

/// One that is given by its hash.
fn hashed(password: Option<&Password>) -> Option<Password> {
    password.filter(|it| !matches!(it, Password::Plain(_))).cloned()
}

/// Reads the hash of either plugin.
fn hash(text: &[u8]) -> Result<Password, String> {
    if text.starts_with(b"*") {
        let stored = native::NativeStored::parse(text).map_err(|error| error.to_string())?;
        return Ok(Password::Native(stored));
    }
    match sha_crypt::CryptStored::parse_written(text) {
        Ok(stored) => Ok(Password::CachingSha2(stored)),
        Err(error) => Err(format!("{}; {error}", native::NotNative)),
    }
}

/// MariaDB's bound; MySQL's is 32.
const USER_NAME_MAX: usize = 128;
