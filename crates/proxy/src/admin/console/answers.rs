//! What each statement to the console is answered with: tables, deeds, and what clients ask of any server.

use view::command::{self, Asks, Command, Item, Show, Verb};
use view::table::{Kind, Table, Value, text};

use super::{ConsoleSession, Refusal, Rights};
use crate::admin::resultset::{Packets, texts};
use crate::admin::tables::{SHOWN, Shown};

/// What the console says that it is. Clients look at the number to know what they may ask.
pub(super) const VERSION: &str = concat!("8.0.0-Flifo-", env!("CARGO_PKG_VERSION"));

impl ConsoleSession {
    /// Answers a statement.
    pub(super) async fn answer(&self, text: &[u8], packets: &mut Packets) -> Result<(), Refusal> {
        let command = command::read(text).map_err(|error| Refusal(1064, b"42000", error))?;
        let done = self.carry_out(&command, packets).await;
        self.tell_order(text, &command, &done);
        done
    }

    async fn carry_out(&self, command: &Command, packets: &mut Packets) -> Result<(), Refusal> {
        match command {
            Command::Nothing => packets.put_ok(),
            Command::Show(show) => packets.put_table(&self.table(show).await?),
            Command::Select(items) => select(items, self.id, packets)?,
            Command::Help(about) => packets.put_table(&help(about.as_deref())?),
            Command::Set(name, value) => {
                self.may_change()?;
                let done = self.outside.set(name, value).await;
                packets.put_table(&said(done)?);
            }
            Command::Server(verb, name) => {
                self.may_change()?;
                let done = self.outside.stand(*verb, name.as_deref()).await;
                packets.put_table(&said(done)?);
            }
            Command::ConfirmWriter(name) => {
                self.may_change()?;
                let done = self.outside.confirm(name).await;
                packets.put_table(&said(done)?);
            }
            Command::Kill(victim, id) => {
                self.may_change()?;
                let done = self.outside.kill(*victim, *id).await;
                done.map_err(|error| Refusal(1094, b"HY000", error))?;
                packets.put_ok();
            }
            Command::Reload => {
                self.may_change()?;
                let changes = self.outside.reload().await;
                packets.put_table(&changes.map_err(|error| Refusal(1105, b"HY000", error))?);
            }
        }
        Ok(())
    }

    fn may_change(&self) -> Result<(), Refusal> {
        if self.rights == Rights::Change {
            return Ok(());
        }
        let message = "Access denied: here the console only shows; set console.password, or come \
                       by its Unix socket, to change anything";
        Err(Refusal(1227, b"42000", message.to_owned()))
    }

    async fn table(&self, show: &Show) -> Result<Table, Refusal> {
        let mut table = match Shown::named(&show.what) {
            Some(shown) => shown.make(&self.outside).await,
            None => of_any_server(&show.what).ok_or_else(|| {
                let names: Vec<_> = SHOWN.iter().map(|shown| shown.name).collect();
                let message = format!("there is no {}; SHOW knows {}", show.what, names.join(", "));
                Refusal(1146, b"42S02", message)
            })?,
        };
        let narrowed = show.narrow_down(&mut table);
        narrowed.map_err(|error| Refusal(1054, b"42S22", error))?;
        Ok(table)
    }
}

/// What was done, as a table of one row.
fn said(done: Result<String, String>) -> Result<Table, Refusal> {
    let message = done.map_err(|error| Refusal(1105, b"HY000", error))?;
    let mut table = Table::new(const { &[text("message")] });
    table.add([message.into()]);
    Ok(table)
}

/// Tables that clients ask any server for.
fn of_any_server(name: &str) -> Option<Table> {
    Some(match name {
        "TABLES" => {
            let mut table = Table::new(const { &[text("Tables_in_flifo")] });
            SHOWN.iter().for_each(|shown| table.add([shown.name.to_lowercase().into()]));
            table
        }
        "DATABASES" | "SCHEMAS" => texts(const { &[text("Database")] }, &[["flifo"]]),
        "VARIABLES" => {
            let columns = const { &[text("Variable_name"), text("Value")] };
            texts(columns, &VARIABLES.map(|(name, value)| [name, value]))
        }
        "WARNINGS" => Table::new(const { &[text("Level"), text("Code"), text("Message")] }),
        "COLLATION" => {
            let columns = const { &[text("Collation"), text("Charset"), text("Id")] };
            texts(columns, &[["utf8mb4_general_ci", "utf8mb4", "45"]])
        }
        "CHARACTER" | "CHARSET" => {
            texts(const { &[text("Charset"), text("Description")] }, &[["utf8mb4", "UTF-8"]])
        }
        "ENGINES" => Table::new(const { &[text("Engine"), text("Support"), text("Comment")] }),
        "PLUGINS" => Table::new(const { &[text("Name"), text("Status"), text("Type")] }),
        _ => return None,
    })
}

/// Variables that clients and drivers ask for when they connect.
const VARIABLES: [(&str, &str); 34] = [
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_storage_engine", "Flifo"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("license", "MIT OR Apache-2.0"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "65536"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("performance_schema", "0"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "0"),
    ("socket", ""),
    ("sql_mode", ""),
    ("sql_safe_updates", "0"),
    ("system_time_zone", "UTC"),
    ("time_zone", "UTC"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("version", VERSION),
    ("version_comment", "Flifo console"),
    ("wait_timeout", "28800"),
];

/// Single values.
fn select(items: &[Item], id: u32, packets: &mut Packets) -> Result<(), Refusal> {
    let mut columns = Vec::with_capacity(items.len());
    let mut row = Vec::with_capacity(items.len());
    for item in items {
        let value = match &item.asks {
            Asks::Literal(value) => value.clone(),
            Asks::Variable(name) => {
                let known = VARIABLES.iter().find(|(known, _)| known == name);
                let unknown =
                    || Refusal(1193, b"HY000", format!("Unknown system variable '{name}'"));
                let (_, value) = known.ok_or_else(unknown)?;
                value.parse().map_or_else(|_| Value::from(*value), Value::Count)
            }
            Asks::Function(name) => match name.as_str() {
                "VERSION" => VERSION.into(),
                "DATABASE" | "SCHEMA" => "flifo".into(),
                "USER" | "CURRENT_USER" | "SESSION_USER" => "console@flifo".into(),
                "CONNECTION_ID" => id.into(),
                _ => {
                    let message =
                        format!("{name} is no function of this console; HELP lists statements");
                    return Err(Refusal(1305, b"42000", message));
                }
            },
        };
        let kind = match value {
            Value::Count(_) => Kind::Count,
            Value::Real(_) => Kind::Real,
            Value::Null | Value::Text(_) => Kind::Text,
        };
        columns.push((item.name.as_str(), kind));
        row.push(value);
    }
    packets.put_rows(&columns, &[row]);
    Ok(())
}

/// The statements there are, or those about one thing.
fn help(about: Option<&str>) -> Result<Table, Refusal> {
    let mut table = Table::new(const { &[text("statement"), text("what_it_does")] });
    for shown in &SHOWN {
        table.add([format!("SHOW {}", shown.name).into(), shown.help.into()]);
    }
    for (statement, what) in STATEMENTS {
        table.add([statement.into(), what.into()]);
    }
    let Some(about) = about else { return Ok(table) };
    table.rows.retain(|row| row[0].to_string().to_uppercase().split(' ').any(|word| word == about));
    if table.rows.is_empty() {
        return Err(Refusal(
            1064,
            b"42000",
            format!("there is no help about {about}; HELP lists all"),
        ));
    }
    Ok(table)
}

const STATEMENTS: [(&str, &str); 15] = [
    ("SHOW x LIKE 'pattern'", "only rows whose first column is like it"),
    (
        "SHOW x WHERE condition",
        "only rows of which it is true: = <> < > LIKE IN IS NULL AND OR NOT",
    ),
    ("SHOW x ORDER BY column [DESC] LIMIT n", "in this order, and so many of them"),
    ("SELECT * FROM x WHERE condition", "the same as SHOW x"),
    ("PAUSE [server]", means(Verb::Pause)),
    ("RESUME [server]", means(Verb::Resume)),
    ("DRAIN [server]", means(Verb::Drain)),
    ("DISABLE [server]", means(Verb::Disable)),
    ("ENABLE [server]", means(Verb::Enable)),
    (
        "CONFIRM WRITER server",
        "it is written to although it lacks what the writer before it had, or was replaced",
    ),
    (
        "SET server.limit = n",
        "statements that may run at once; auto is what the configuration says",
    ),
    ("KILL [CLIENT] id", "ends a client's connection, and what it runs"),
    ("KILL QUERY id", "ends what a pooled client runs or waits with"),
    ("RELOAD", "reads the configuration again; says what has changed, and what of it is in force"),
    ("HELP [word]", "these lines, or those with the word"),
];

const fn means(verb: Verb) -> &'static str {
    match verb {
        Verb::Pause => "new statements wait; transactions that have begun go on",
        Verb::Drain => "the same, and idle backend connections are closed",
        Verb::Disable => "the same, but new statements are refused instead of queued",
        Verb::Resume | Verb::Enable => "statements start again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_sorted_and_told_apart() {
        assert!(VARIABLES.is_sorted_by(|one, two| one.0 < two.0));
    }

    #[test]
    fn help_is_about_what_is_asked() {
        assert_eq!(help(Some("PAUSE")).unwrap().rows.len(), 1);
        assert!(help(Some("SHOW")).unwrap().rows.len() > SHOWN.len());
        assert!(help(Some("NONSENSE")).is_err());
        assert_eq!(help(None).unwrap().rows.len(), SHOWN.len() + STATEMENTS.len());
    }
}
