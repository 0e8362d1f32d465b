//! What clients, drivers and tools ask any server for: variables, the list of tables, what stands in
//! `information_schema`. Most of it is empty here, and has the columns that a server's answer has.

use std::time::SystemTime;

use view::sql::{Session, SqlError, TableForm, TableName};
use view::table::{Column, Kind, Table, Value, count, text};

use super::catalog::{self, INFORMATION, Listed, OWN_SCHEMA, SCHEMAS};
use super::resultset::texts;
use super::tables::{NUMBERS, total, whole};
use super::{Outside, proxysql};

/// What the console says that it is. Clients look at the number to know what they may ask.
pub(super) const VERSION: &str = concat!("8.0.0-Flifo-", env!("CARGO_PKG_VERSION"));

/// Tables that are there for the tools that ask for them: schema, name, columns. In the order of their names.
pub(super) static TABLES: [(&str, &str, &[Column]); 27] = [
    (INFORMATION, "character_sets", CHARACTER_SETS),
    (
        INFORMATION,
        "check_constraints",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("TABLE_NAME"),
            text("CONSTRAINT_NAME"),
            text("CHECK_CLAUSE"),
        ],
    ),
    (
        INFORMATION,
        "collation_character_set_applicability",
        &[text("COLLATION_NAME"), text("CHARACTER_SET_NAME")],
    ),
    (INFORMATION, "collations", COLLATIONS),
    (
        INFORMATION,
        "column_privileges",
        &[
            text("GRANTEE"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("COLUMN_NAME"),
            text("PRIVILEGE_TYPE"),
            text("IS_GRANTABLE"),
        ],
    ),
    (INFORMATION, "columns", COLUMNS),
    (INFORMATION, "engines", ENGINES),
    (
        INFORMATION,
        "events",
        &[
            text("EVENT_SCHEMA"),
            text("EVENT_NAME"),
            text("DEFINER"),
            text("EVENT_DEFINITION"),
            text("STATUS"),
        ],
    ),
    (INFORMATION, "global_status", &[text("VARIABLE_NAME"), text("VARIABLE_VALUE")]),
    (INFORMATION, "global_variables", &[text("VARIABLE_NAME"), text("VARIABLE_VALUE")]),
    (
        INFORMATION,
        "key_column_usage",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("CONSTRAINT_NAME"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("COLUMN_NAME"),
            count("ORDINAL_POSITION"),
            count("POSITION_IN_UNIQUE_CONSTRAINT"),
            text("REFERENCED_TABLE_SCHEMA"),
            text("REFERENCED_TABLE_NAME"),
            text("REFERENCED_COLUMN_NAME"),
        ],
    ),
    (
        INFORMATION,
        "parameters",
        &[
            text("SPECIFIC_SCHEMA"),
            text("SPECIFIC_NAME"),
            count("ORDINAL_POSITION"),
            text("PARAMETER_MODE"),
            text("PARAMETER_NAME"),
            text("DATA_TYPE"),
            text("DTD_IDENTIFIER"),
        ],
    ),
    (
        INFORMATION,
        "partitions",
        &[
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("PARTITION_NAME"),
            text("SUBPARTITION_NAME"),
            count("PARTITION_ORDINAL_POSITION"),
            text("PARTITION_METHOD"),
        ],
    ),
    (
        INFORMATION,
        "plugins",
        &[text("PLUGIN_NAME"), text("PLUGIN_VERSION"), text("PLUGIN_STATUS"), text("PLUGIN_TYPE")],
    ),
    (
        INFORMATION,
        "referential_constraints",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("CONSTRAINT_NAME"),
            text("UNIQUE_CONSTRAINT_SCHEMA"),
            text("UNIQUE_CONSTRAINT_NAME"),
            text("UPDATE_RULE"),
            text("DELETE_RULE"),
            text("TABLE_NAME"),
            text("REFERENCED_TABLE_NAME"),
        ],
    ),
    (
        INFORMATION,
        "routines",
        &[
            text("SPECIFIC_NAME"),
            text("ROUTINE_SCHEMA"),
            text("ROUTINE_NAME"),
            text("ROUTINE_TYPE"),
            text("DTD_IDENTIFIER"),
            text("ROUTINE_DEFINITION"),
            text("ROUTINE_COMMENT"),
            text("DEFINER"),
        ],
    ),
    (
        INFORMATION,
        "schema_privileges",
        &[text("GRANTEE"), text("TABLE_SCHEMA"), text("PRIVILEGE_TYPE"), text("IS_GRANTABLE")],
    ),
    (INFORMATION, "schemata", SCHEMATA),
    (INFORMATION, "statistics", STATISTICS),
    (
        INFORMATION,
        "table_constraints",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("CONSTRAINT_NAME"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("CONSTRAINT_TYPE"),
        ],
    ),
    (
        INFORMATION,
        "table_privileges",
        &[
            text("GRANTEE"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("PRIVILEGE_TYPE"),
            text("IS_GRANTABLE"),
        ],
    ),
    (INFORMATION, "tables", TABLES_COLUMNS),
    (
        INFORMATION,
        "triggers",
        &[
            text("TRIGGER_SCHEMA"),
            text("TRIGGER_NAME"),
            text("EVENT_MANIPULATION"),
            text("EVENT_OBJECT_SCHEMA"),
            text("EVENT_OBJECT_TABLE"),
            text("ACTION_STATEMENT"),
            text("ACTION_TIMING"),
            text("DEFINER"),
        ],
    ),
    (
        INFORMATION,
        "user_privileges",
        &[text("GRANTEE"), text("TABLE_CATALOG"), text("PRIVILEGE_TYPE"), text("IS_GRANTABLE")],
    ),
    (
        INFORMATION,
        "views",
        &[
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("VIEW_DEFINITION"),
            text("CHECK_OPTION"),
            text("IS_UPDATABLE"),
            text("DEFINER"),
            text("SECURITY_TYPE"),
        ],
    ),
    ("mysql", "help_topic", &[count("help_topic_id"), text("name"), text("description")]),
    ("mysql", "user", &[text("Host"), text("User")]),
];

const CHARACTER_SETS: &[Column] = &[
    text("CHARACTER_SET_NAME"),
    text("DEFAULT_COLLATE_NAME"),
    text("DESCRIPTION"),
    count("MAXLEN"),
];

const COLLATIONS: &[Column] = &[
    text("COLLATION_NAME"),
    text("CHARACTER_SET_NAME"),
    count("ID"),
    text("IS_DEFAULT"),
    text("IS_COMPILED"),
    count("SORTLEN"),
];

const COLUMNS: &[Column] = &[
    text("TABLE_CATALOG"),
    text("TABLE_SCHEMA"),
    text("TABLE_NAME"),
    text("COLUMN_NAME"),
    count("ORDINAL_POSITION"),
    text("COLUMN_DEFAULT"),
    text("IS_NULLABLE"),
    text("DATA_TYPE"),
    count("CHARACTER_MAXIMUM_LENGTH"),
    count("CHARACTER_OCTET_LENGTH"),
    count("NUMERIC_PRECISION"),
    count("NUMERIC_SCALE"),
    count("DATETIME_PRECISION"),
    text("CHARACTER_SET_NAME"),
    text("COLLATION_NAME"),
    text("COLUMN_TYPE"),
    text("COLUMN_KEY"),
    text("EXTRA"),
    text("PRIVILEGES"),
    text("COLUMN_COMMENT"),
    text("GENERATION_EXPRESSION"),
];

const ENGINES: &[Column] = &[
    text("ENGINE"),
    text("SUPPORT"),
    text("COMMENT"),
    text("TRANSACTIONS"),
    text("XA"),
    text("SAVEPOINTS"),
];

const SCHEMATA: &[Column] = &[
    text("CATALOG_NAME"),
    text("SCHEMA_NAME"),
    text("DEFAULT_CHARACTER_SET_NAME"),
    text("DEFAULT_COLLATION_NAME"),
    text("SQL_PATH"),
    text("SCHEMA_COMMENT"),
];

const STATISTICS: &[Column] = &[
    text("TABLE_CATALOG"),
    text("TABLE_SCHEMA"),
    text("TABLE_NAME"),
    count("NON_UNIQUE"),
    text("INDEX_SCHEMA"),
    text("INDEX_NAME"),
    count("SEQ_IN_INDEX"),
    text("COLUMN_NAME"),
    text("COLLATION"),
    count("CARDINALITY"),
    count("SUB_PART"),
    text("PACKED"),
    text("NULLABLE"),
    text("INDEX_TYPE"),
    text("COMMENT"),
    text("INDEX_COMMENT"),
];

const TABLES_COLUMNS: &[Column] = &[
    text("TABLE_CATALOG"),
    text("TABLE_SCHEMA"),
    text("TABLE_NAME"),
    text("TABLE_TYPE"),
    text("ENGINE"),
    count("VERSION"),
    text("ROW_FORMAT"),
    count("TABLE_ROWS"),
    count("AVG_ROW_LENGTH"),
    count("DATA_LENGTH"),
    count("MAX_DATA_LENGTH"),
    count("INDEX_LENGTH"),
    count("DATA_FREE"),
    count("AUTO_INCREMENT"),
    text("CREATE_TIME"),
    text("UPDATE_TIME"),
    text("CHECK_TIME"),
    text("TABLE_COLLATION"),
    count("CHECKSUM"),
    text("CREATE_OPTIONS"),
    text("TABLE_COMMENT"),
];

const COLLATION: &str = "utf8mb4_general_ci";

/// A table of `information_schema` or `mysql`.
pub(super) async fn table(outside: &Outside, listed: Listed) -> Table {
    let mut table = Table::new(listed.columns);
    match (listed.schema, listed.name) {
        (INFORMATION, "global_status") => {
            for (name, value) in status(outside).await {
                table.add([name.into(), value.to_string().into()]);
            }
        }
        (INFORMATION, "global_variables") => {
            VARIABLES.iter().for_each(|(name, value)| table.add([(*name).into(), (*value).into()]));
        }
        (INFORMATION, "schemata") => {
            for schema in SCHEMAS {
                let (set, collation) = ("utf8mb4".into(), COLLATION.into());
                table.add(["def".into(), schema.into(), set, collation, Value::Null, "".into()]);
            }
        }
        (INFORMATION, "tables") => catalog::all().for_each(|it| table.rows.push(of_table(&it))),
        (INFORMATION, "columns") => {
            for listed in catalog::all() {
                let columns = listed.columns.iter().enumerate();
                table.rows.extend(columns.map(|(at, column)| of_column(&listed, at, column)));
            }
        }
        (INFORMATION, "character_sets") => {
            table.add(["utf8mb4".into(), COLLATION.into(), "UTF-8 Unicode".into(), 4_u32.into()]);
        }
        (INFORMATION, "collations") => {
            let yes = Value::from("Yes");
            table.add([
                COLLATION.into(),
                "utf8mb4".into(),
                45_u32.into(),
                yes.clone(),
                yes,
                1_u32.into(),
            ]);
        }
        (INFORMATION, "collation_character_set_applicability") => {
            table.add([COLLATION.into(), "utf8mb4".into()]);
        }
        (INFORMATION, "engines") => table.add(engine()),
        (INFORMATION, "user_privileges") => {
            table.add(["'console'@'flifo'".into(), "def".into(), "USAGE".into(), "NO".into()]);
        }
        ("mysql", "user") => table.add(["flifo".into(), "console".into()]),
        _ => {}
    }
    table
}

fn engine() -> [Value; 6] {
    ["Flifo", "DEFAULT", "What Flifo counts", "NO", "NO", "NO"].map(Value::from)
}

fn of_table(listed: &Listed) -> Vec<Value> {
    let kind = if listed.schema == INFORMATION { "SYSTEM VIEW" } else { "BASE TABLE" };
    let mut row = vec![Value::Null; TABLES_COLUMNS.len()];
    let mut set = |name: &str, value: Value| {
        let at = TABLES_COLUMNS.iter().position(|column| column.name == name);
        row[at.unwrap_or_default()] = value;
    };
    set("TABLE_CATALOG", "def".into());
    set("TABLE_SCHEMA", listed.schema.into());
    set("TABLE_NAME", listed.name.into());
    set("TABLE_TYPE", kind.into());
    set("ENGINE", "Flifo".into());
    set("VERSION", 10_u32.into());
    set("ROW_FORMAT", "Dynamic".into());
    for name in ["TABLE_ROWS", "AVG_ROW_LENGTH", "DATA_LENGTH", "INDEX_LENGTH", "DATA_FREE"] {
        set(name, 0_u32.into());
    }
    set("TABLE_COLLATION", COLLATION.into());
    set("CREATE_OPTIONS", "".into());
    set("TABLE_COMMENT", "".into());
    row
}

/// The type of a column, without and with its width.
const fn type_of(column: &Column) -> (&'static str, &'static str) {
    match column.kind {
        Kind::Text => ("varchar", "varchar(1024)"),
        Kind::Count => ("bigint", "bigint(20) unsigned"),
        Kind::Signed => ("bigint", "bigint(20)"),
        Kind::Real => ("double", "double"),
    }
}

fn of_column(listed: &Listed, at: usize, column: &Column) -> Vec<Value> {
    let (short, long) = type_of(column);
    let is_text = column.kind == Kind::Text;
    let of_text = |value: u32| -> Value { is_text.then_some(value).into() };
    vec![
        "def".into(),
        listed.schema.into(),
        listed.name.into(),
        column.name.into(),
        (at + 1).into(),
        Value::Null,
        "YES".into(),
        short.into(),
        of_text(1024),
        of_text(4096),
        (!is_text).then_some(20_u32).into(),
        (!is_text).then_some(0_u32).into(),
        Value::Null,
        is_text.then_some("utf8mb4").into(),
        is_text.then_some(COLLATION).into(),
        long.into(),
        "".into(),
        "".into(),
        "select".into(),
        "".into(),
        Value::Null,
    ]
}

/// What `SHOW` of this name shows on any server; `None`: it is Flifo's own, or unknown.
pub(super) async fn shown(
    outside: &Outside,
    session: &Session,
    schema: Option<&'static str>,
    name: &TableName,
) -> Result<Option<Table>, SqlError> {
    let here = || {
        let here = session.schema.as_deref().and_then(catalog::schema);
        schema.or(here).unwrap_or(OWN_SCHEMA)
    };
    Ok(Some(match name.name.as_str() {
        "tables" | "open tables" => tables(here()),
        "table status" => table_status(here()),
        "columns" | "fields" => columns(&of(session, schema, name)?, name.form),
        "create table" | "create view" => create_table(&of(session, schema, name)?),
        "index" | "indexes" | "keys" => {
            of(session, schema, name)?;
            Table::new(INDEXES)
        }
        "databases" | "schemas" => {
            let mut table = Table::new(const { &[text("Database")] });
            SCHEMAS.into_iter().for_each(|schema| table.add([schema.into()]));
            table
        }
        "variables" => {
            let mut table = texts(PAIR, &VARIABLES.map(|(name, value)| [name, value]));
            for (name, value) in proxysql::global_variables(outside) {
                table.add([name.into(), value.into()]);
            }
            table
        }
        "status" => {
            let mut table = Table::new(PAIR);
            for (name, value) in status(outside).await {
                table.add([name.into(), value.to_string().into()]);
            }
            table
        }
        other => match fixed(other) {
            Some(table) => table,
            None => return Ok(None),
        },
    }))
}

const PAIR: &[Column] = &[text("Variable_name"), text("Value")];

const INDEXES: &[Column] = &[
    text("Table"),
    count("Non_unique"),
    text("Key_name"),
    count("Seq_in_index"),
    text("Column_name"),
    text("Collation"),
    count("Cardinality"),
    count("Sub_part"),
    text("Packed"),
    text("Null"),
    text("Index_type"),
    text("Comment"),
    text("Index_comment"),
];

/// What is the same for ever.
fn fixed(name: &str) -> Option<Table> {
    Some(match name {
        "warnings" => Table::new(const { &[text("Level"), count("Code"), text("Message")] }),
        "collation" => {
            let columns = const {
                &[
                    text("Collation"),
                    text("Charset"),
                    count("Id"),
                    text("Default"),
                    text("Compiled"),
                    count("Sortlen"),
                ]
            };
            let mut table = Table::new(columns);
            let yes = Value::from("Yes");
            table.add([
                COLLATION.into(),
                "utf8mb4".into(),
                45_u32.into(),
                yes.clone(),
                yes,
                1_u32.into(),
            ]);
            table
        }
        "character set" | "charset" => {
            let columns = const {
                &[text("Charset"), text("Description"), text("Default collation"), count("Maxlen")]
            };
            let mut table = Table::new(columns);
            table.add(["utf8mb4".into(), "UTF-8 Unicode".into(), COLLATION.into(), 4_u32.into()]);
            table
        }
        "engines" => {
            let columns = const {
                &[
                    text("Engine"),
                    text("Support"),
                    text("Comment"),
                    text("Transactions"),
                    text("XA"),
                    text("Savepoints"),
                ]
            };
            let mut table = Table::new(columns);
            table.add(engine());
            table
        }
        "grants" => texts(
            const { &[text("Grants for console@flifo")] },
            &[["GRANT USAGE ON *.* TO `console`@`flifo`"]],
        ),
        "create database" | "create schema" => texts(
            const { &[text("Database"), text("Create Database")] },
            &[["flifo", "CREATE DATABASE `flifo` /*!40100 DEFAULT CHARACTER SET utf8mb4 */"]],
        ),
        other => return empty(other),
    })
}

/// What is empty, and has the columns that a server's answer has.
fn empty(name: &str) -> Option<Table> {
    Some(match name {
        "plugins" => Table::new(
            const { &[text("Name"), text("Status"), text("Type"), text("Library"), text("License")] },
        ),
        "privileges" => {
            Table::new(const { &[text("Privilege"), text("Context"), text("Comment")] })
        }
        "triggers" => Table::new(
            const {
                &[
                    text("Trigger"),
                    text("Event"),
                    text("Table"),
                    text("Statement"),
                    text("Timing"),
                    text("Created"),
                ]
            },
        ),
        "events" => {
            Table::new(const { &[text("Db"), text("Name"), text("Definer"), text("Status")] })
        }
        "procedure status" | "function status" => Table::new(
            const {
                &[
                    text("Db"),
                    text("Name"),
                    text("Type"),
                    text("Definer"),
                    text("Modified"),
                    text("Created"),
                    text("Comment"),
                ]
            },
        ),
        "master status" => Table::new(
            const { &[text("File"), count("Position"), text("Binlog_Do_DB"), text("Binlog_Ignore_DB")] },
        ),
        "slave status" | "replica status" => {
            Table::new(const { &[text("Slave_IO_State"), text("Master_Host")] })
        }
        "binary logs" => Table::new(const { &[text("Log_name"), count("File_size")] }),
        _ => return None,
    })
}

/// The table that `SHOW COLUMNS` and the like are about.
fn of(session: &Session, schema: Option<&str>, name: &TableName) -> Result<Listed, SqlError> {
    let of = name.of.as_deref().unwrap_or_default();
    catalog::find(schema, of, session).ok_or_else(|| {
        let message = format!("Table '{of}' doesn't exist; SHOW TABLES lists them");
        SqlError { code: 1146, sqlstate: b"42S02", message }
    })
}

/// The columns of `SHOW TABLES`, whose first is named after the schema.
fn tables_columns(schema: &str) -> &'static [Column] {
    match schema {
        INFORMATION => const { &[text("Tables_in_information_schema"), text("Table_type")] },
        "main" => const { &[text("Tables_in_main"), text("Table_type")] },
        "mysql" => const { &[text("Tables_in_mysql"), text("Table_type")] },
        "stats" => const { &[text("Tables_in_stats"), text("Table_type")] },
        _ => const { &[text("Tables_in_flifo"), text("Table_type")] },
    }
}

fn tables(schema: &'static str) -> Table {
    let mut table = Table::new(tables_columns(schema));
    let kind = if schema == INFORMATION { "SYSTEM VIEW" } else { "BASE TABLE" };
    for listed in catalog::all().filter(|listed| listed.schema == schema) {
        table.add([listed.name.into(), kind.into()]);
    }
    table
}

fn table_status(schema: &'static str) -> Table {
    let columns = const {
        &[
            text("Name"),
            text("Engine"),
            count("Version"),
            text("Row_format"),
            count("Rows"),
            count("Avg_row_length"),
            count("Data_length"),
            count("Max_data_length"),
            count("Index_length"),
            count("Data_free"),
            count("Auto_increment"),
            text("Create_time"),
            text("Update_time"),
            text("Check_time"),
            text("Collation"),
            count("Checksum"),
            text("Create_options"),
            text("Comment"),
        ]
    };
    let mut table = Table::new(columns);
    for listed in catalog::all().filter(|listed| listed.schema == schema) {
        let mut row = of_table(&listed);
        // The same as of `information_schema.tables`, without catalogue, schema and type.
        row.drain(..2);
        row.remove(1);
        table.rows.push(row);
    }
    table
}

/// Without `FULL`, a server leaves out three of the columns, and scripts count them.
fn columns(listed: &Listed, form: TableForm) -> Table {
    if form == TableForm::Shown {
        let columns = const {
            &[
                text("Field"),
                text("Type"),
                text("Null"),
                text("Key"),
                text("Default"),
                text("Extra"),
            ]
        };
        let mut table = Table::new(columns);
        for column in listed.columns {
            let (kind, nothing) = (type_of(column).1.into(), || Value::from(""));
            table.add([column.name.into(), kind, "YES".into(), nothing(), Value::Null, nothing()]);
        }
        return table;
    }
    let columns = const {
        &[
            text("Field"),
            text("Type"),
            text("Collation"),
            text("Null"),
            text("Key"),
            text("Default"),
            text("Extra"),
            text("Privileges"),
            text("Comment"),
        ]
    };
    let mut table = Table::new(columns);
    for column in listed.columns {
        let collation = (column.kind == Kind::Text).then_some(COLLATION);
        table.add([
            column.name.into(),
            type_of(column).1.into(),
            collation.into(),
            "YES".into(),
            "".into(),
            Value::Null,
            "".into(),
            "select".into(),
            "".into(),
        ]);
    }
    table
}

fn create_table(listed: &Listed) -> Table {
    let mut table = Table::new(const { &[text("Table"), text("Create Table")] });
    let column = |column: &Column| format!("  `{}` {}", column.name, type_of(column).1);
    let columns: Vec<_> = listed.columns.iter().map(column).collect();
    let text = format!("CREATE TABLE `{}` (\n{}\n) ENGINE=Flifo", listed.name, columns.join(",\n"));
    table.add([listed.name.into(), text.into()]);
    table
}

/// What servers count under these names.
async fn status(outside: &Outside) -> Vec<(&'static str, u64)> {
    let surveyed = outside.survey.ask(&outside.shared, NUMBERS).await;
    let of = |name| total(&surveyed, name);
    let whole = whole(&surveyed);
    let clients = of("clients_pooled") + of("clients_pass_through");
    let up = SystemTime::now().duration_since(outside.started).unwrap_or_default();
    vec![
        ("Bytes_received", of("bytes_in")),
        ("Bytes_sent", of("bytes_out")),
        ("Connections", clients),
        ("Queries", of("statements")),
        ("Questions", of("statements")),
        ("Threads_cached", whole.backends.saturating_sub(whole.backends_busy)),
        ("Threads_connected", whole.clients),
        ("Threads_created", of("backends_opened")),
        ("Threads_running", whole.running()),
        ("Uptime", up.as_secs()),
    ]
}

/// A variable by its name in lower case.
pub(super) fn variable(name: &str) -> Option<Value> {
    if name == "admin-version" {
        return Some(VERSION.into());
    }
    let (_, value) = VARIABLES.iter().find(|(known, _)| *known == name)?;
    Some(value.parse().map_or_else(|_| Value::from(*value), Value::Count))
}

/// Variables that clients and drivers ask for when they connect.
const VARIABLES: [(&str, &str); 44] = [
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
    ("foreign_key_checks", "1"),
    ("have_ssl", "YES"),
    ("hostname", "flifo"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("lc_messages", "en_US"),
    ("license", "MIT OR Apache-2.0"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "65536"),
    ("max_connections", "64"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("performance_schema", "0"),
    ("port", "6032"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "0"),
    ("server_id", "0"),
    ("socket", ""),
    ("sql_auto_is_null", "0"),
    ("sql_mode", ""),
    ("sql_safe_updates", "0"),
    ("system_time_zone", "UTC"),
    ("time_zone", "UTC"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("version", VERSION),
    ("version_comment", "Flifo console"),
    ("version_compile_os", "Linux"),
    ("wait_timeout", "28800"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_sorted_and_told_apart() {
        assert!(VARIABLES.is_sorted_by(|one, two| one.0 < two.0));
    }

    #[test]
    fn tables_are_in_order_and_told_apart() {
        assert!(TABLES.is_sorted_by(|one, two| (one.0, one.1) < (two.0, two.1)));
    }
}
