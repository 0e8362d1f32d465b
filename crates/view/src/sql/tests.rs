//! Statements and their answers, over tables that are always the same.

use proptest::prelude::*;

use super::*;
use crate::table::{Column, Kind, Table, Value, count, real, text};

/// Three tables, and what a session knows.
struct Fixed {
    tables: Vec<(&'static str, Table)>,
    session: Session,
}

impl Source for Fixed {
    fn table(&self, name: &TableName) -> Option<&Table> {
        let of = name.of.as_deref().unwrap_or(&name.name);
        let found = self.tables.iter().find(|(known, _)| of.eq_ignore_ascii_case(known));
        found.map(|(_, table)| table)
    }

    fn variable(&self, name: &str) -> Option<Value> {
        match name {
            "version_comment" | "admin-version" => Some("a console".into()),
            "max_allowed_packet" => Some(65_536_u32.into()),
            _ => None,
        }
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

fn fixed() -> Fixed {
    let mut clients =
        Table::new(const { &[count("id"), text("user"), real("seconds"), text("pin")] });
    for (id, user, seconds, pin) in [
        (1_u32, "app", 0.5, None),
        (2, "App", 1.5, Some("temporary table")),
        (10, "report", 20.0, None),
        (7, "batch", 3.0, Some("lock")),
    ] {
        clients.add([id.into(), user.into(), seconds.into(), pin.into()]);
    }
    let mut users = Table::new(const { &[text("user"), count("most")] });
    users.add(["app".into(), 5_u32.into()]);
    users.add(["batch".into(), Value::Null]);
    let session = Session {
        schema: Some("flifo".into()),
        user: "console@flifo".into(),
        id: 3,
        version: "8.0.0".into(),
        now: 1_764_180_366.0,
    };
    let words: &'static [Column] = const { &[text("word")] };
    let empty = Table::new(words);
    Fixed { tables: vec![("clients", clients), ("users", users), ("empty", empty)], session }
}

/// An answer as a line for its columns and one for each row; or an error as its number and what it says.
fn ask(statement: &str) -> String {
    match Query::read(statement).and_then(|query| query.run(&fixed())) {
        Ok(answer) => {
            let names: Vec<_> = answer.columns.iter().map(|it| it.name.as_str()).collect();
            let shown = |value: &Value| match value {
                Value::Null => "NULL".to_owned(),
                value => value.to_string(),
            };
            let row = |row: &Vec<Value>| row.iter().map(shown).collect::<Vec<_>>().join("|");
            let rows = answer.rows.iter().map(row);
            std::iter::once(names.join("|")).chain(rows).collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

fn table_of_cases(cases: &[(&str, &str)]) {
    for (statement, want) in cases {
        assert_eq!(ask(statement), *want, "{statement}");
    }
}

#[test]
fn single_values_are_answered() {
    table_of_cases(&[
        ("select @@version_comment limit 1", "@@version_comment; a console"),
        ("SELECT @@admin-version", "@@admin-version; a console"),
        ("SELECT @@global.max_allowed_packet AS `m`", "m; 65536"),
        ("/* app */SELECT DATABASE(), USER(), 1", "DATABASE()|USER()|1; flifo|console@flifo|1"),
        ("SELECT CURRENT_USER", "CURRENT_USER; console@flifo"),
        ("select now()", "now(); 2025-11-26 18:06:06"),
        ("select 'it''s' as x from dual", "x; it's"),
        ("select 1 - 3, 7 div 2, 7 % 4, 1/4, -1", "1 - 3|7 DIV 2|7 % 4|1 / 4|-1; -2|3|3|0.250|-1"),
        (
            "select concat('a', 1, NULL), concat_ws('-', 'a', NULL, 2)",
            "concat('a', 1, NULL)|concat_ws('-', 'a', NULL, 2); NULL|a-2",
        ),
        ("select if(1 > 2, 'a', 'b') x, ifnull(null, 3) y, nullif(1, 1) z", "x|y|z; b|3|NULL"),
        (
            "select substring_index('a.b.c', '.', 2) x, substr('abcd', -2) y, left('abc', 2) z",
            "x|y|z; a.b|cd|ab",
        ),
        ("select case 2 when 1 then 'one' when 2 then 'two' end x", "x; two"),
        (
            "select cast('12x' as unsigned) x, cast(3 as char) y, cast('1.5' as decimal) z",
            "x|y|z; 12|3|1.500",
        ),
        ("select 1 union select 2 union all select 2", "1; 1; 2; 2"),
        ("select (select max(id) from clients) x, exists(select 1 from empty) y", "x|y; 10|0"),
        ("select @@nothing", "1193 Unknown system variable 'nothing'"),
        ("select nonsense(1)", "1305 FUNCTION NONSENSE does not exist on the console"),
    ]);
}

#[test]
fn rows_are_kept_sorted_and_counted_off() {
    table_of_cases(&[
        ("select id from clients where seconds > '1' order by seconds desc", "id; 10; 7; 2"),
        (
            "SELECT `id`, user AS `u` FROM `main`.`clients` ORDER BY u, id DESC LIMIT 1, 2",
            "id|u; 1|app; 7|batch",
        ),
        ("select id from clients order by 1 limit 2 offset 1", "id; 2; 7"),
        ("select user from clients where pin is null and user like 'A%'", "user; app"),
        ("select distinct user from clients order by user", "user; app; batch; report"),
        ("select id from clients where not (id in (1, 2)) and id between 7 and 10", "id; 10; 7"),
        ("select id from clients where pin <=> null order by id", "id; 1; 10"),
        ("select id from clients where pin not in ('lock', null)", "id"),
        ("select c.* from clients c where c.id = 1", "id|user|seconds|pin; 1|app|0.500|NULL"),
        (
            "select id from clients where id in (select id from clients where seconds > 2)",
            "id; 10; 7",
        ),
        (
            "select size from clients",
            "1054 Unknown column 'size'; there are id, user, seconds, pin",
        ),
        ("select 1 from nothing", "1146 Table 'nothing' doesn't exist"),
        ("select * from main.clients where id > 7", "id|user|seconds|pin; 10|report|20.000|NULL"),
    ]);
}

#[test]
fn rows_are_grouped() {
    table_of_cases(&[
        (
            "select count(*), count(pin), sum(id), max(seconds), min(user), avg(id) from clients",
            "count(*)|count(pin)|sum(id)|max(seconds)|min(user)|avg(id); 4|2|20|20.000|app|5.000",
        ),
        ("select count(*) n, sum(word) s from empty", "n|s; 0|NULL"),
        ("select user, count(*) n from clients group by user having n > 1", "user|n; app|2"),
        (
            "select user u, count(*) from clients group by u order by count(*) desc, u limit 2",
            "u|count(*); app|2; batch|1",
        ),
        ("select count(distinct user) n from clients", "n; 3"),
        ("select group_concat(id separator '+') x from clients where id < 5", "x; 1+2"),
        ("select user from clients where count(*) > 1", "1111 Invalid use of group function"),
    ]);
}

#[test]
fn tables_are_joined() {
    table_of_cases(&[
        (
            "select c.id, most from clients c join users u on c.user = u.user order by 1",
            "id|most; 1|5; 2|5; 7|NULL",
        ),
        (
            "select id, most from clients left join users using (user) where id > 5 order by id",
            "id|most; 7|NULL; 10|NULL",
        ),
        (
            "select * from users join clients using (user) where id = 7",
            "user|most|id|seconds|pin; batch|NULL|7|3.000|lock",
        ),
        ("select count(*) n from clients, users", "n; 8"),
        ("select user from clients join users on id = most", "1052 Column 'user' is ambiguous"),
        ("select n from (select count(*) as n from clients) t", "n; 4"),
    ]);
}

#[test]
fn show_is_a_select() {
    table_of_cases(&[
        (
            "show clients",
            "id|user|seconds|pin; 1|app|0.500|NULL; 2|App|1.500|temporary table; 10|report|20.000|NULL; 7|batch|3.000|lock",
        ),
        (
            "show full clients like '1%';",
            "id|user|seconds|pin; 1|app|0.500|NULL; 10|report|20.000|NULL",
        ),
        ("show users where most is null", "user|most; batch|NULL"),
        ("show users order by user desc limit 1", "user|most; batch|NULL"),
        ("describe users most", "user|most"),
        ("show columns from users", "user|most; app|5; batch|NULL"),
        (
            "show clients where size = 1",
            "1054 Unknown column 'size'; there are id, user, seconds, pin",
        ),
        ("show columns", "1064 FROM is missing at the end"),
        ("show clients 7", "1064 nothing more was expected before 7"),
    ]);
    let about = |text: &str| Query::read(text).unwrap().shown.unwrap();
    let name = |schema: Option<&str>, name: &str, of: Option<&str>, form| TableName {
        schema: schema.map(str::to_owned),
        name: name.to_owned(),
        of: of.map(str::to_owned),
        form,
    };
    let (shown, full) = (TableForm::Shown, TableForm::ShownInFull);
    for (text, want) in [
        ("show full tables from `stats` like 'x%'", name(Some("stats"), "tables", None, full)),
        ("show columns from a.b", name(Some("a"), "columns", Some("b"), shown)),
        ("show full columns from `b` from `a`", name(Some("a"), "columns", Some("b"), full)),
        ("desc a.b", name(Some("a"), "columns", Some("b"), shown)),
        ("show create table a.b", name(Some("a"), "create table", Some("b"), shown)),
        ("show character set where charset = 'x'", name(None, "character set", None, shown)),
        ("show table status from main", name(Some("main"), "table status", None, shown)),
        ("show grants for current_user()", name(None, "grants", None, shown)),
        ("show help 'reload'", name(None, "help", Some("reload"), shown)),
        ("show session variables like 'x'", name(None, "variables", None, shown)),
    ] {
        assert_eq!(about(text), want, "{text}");
    }
}

#[test]
fn a_condition_narrows_a_table() {
    let found = |condition| {
        let query = Query::of_table("CLIENTS", condition)?;
        query.run(&fixed()).map(|answer| answer.rows.len())
    };
    assert_eq!(found(None), Ok(4));
    assert_eq!(found(Some("user = 'APP' or id = 7")), Ok(3));
    for wrong in ["size = 1", "((((((", "", "id = 1; id", "id = 1 order by 1"] {
        assert!(found(Some(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn an_answer_is_a_list_of_objects_in_json() {
    let query = Query::of_table("users", Some("most is null or user = 'app'")).unwrap();
    let want = serde_json::json!([{"user": "app", "most": 5}, {"user": "batch", "most": null}]);
    assert_eq!(query.run(&fixed()).unwrap().to_json(), want);
}

#[test]
fn columns_without_rows_have_kinds() {
    let query = Query::read("select id, user, seconds, 1 - 2 from clients where 1 = 0").unwrap();
    let kinds: Vec<_> = query.run(&fixed()).unwrap().columns.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Count, Kind::Text, Kind::Real, Kind::Text]);
    let query = Query::read("select 1 - 2, id from clients limit 1").unwrap();
    let kinds: Vec<_> = query.run(&fixed()).unwrap().columns.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Signed, Kind::Count]);
}

#[test]
fn what_is_too_much_is_refused() {
    // Half of what the console has.
    let builder = std::thread::Builder::new().stack_size(STACK / 2);
    builder.spawn(refuse_too_much).unwrap().join().unwrap();
}

fn refuse_too_much() {
    let long_chain = format!("select 1 from clients where {} 1", "id = 1 and ".repeat(400));
    let long_sum = format!("select 1{}", "+1".repeat(500));
    let nested = format!("select {}1{}", "(".repeat(500), ")".repeat(500));
    let negated = format!("select {}1", "not ".repeat(1000));
    let unions = format!("select 1{}", " union select 1".repeat(200));
    let derived = format!("{}select 1{}", "select * from (".repeat(60), ") t".repeat(60));
    let joins = format!("select count(*) from clients a{}", ", clients".repeat(30));
    let texts = format!("select {}'x'{}", "concat(x, x, ".repeat(20), ")".repeat(20));
    let tokens = "select ".to_owned() + &"1,".repeat(TOKENS_MAX);
    assert_eq!(ask(&long_chain), "1; 1");
    for (text, code) in [
        (long_sum, "1064"),
        (nested, "1064"),
        (negated, "1064"),
        (unions, "1064"),
        (derived, "1064"),
        (joins, "1104"),
        (texts, "1054"),
        (tokens, "1064"),
    ] {
        let said = ask(&text);
        assert!(said.starts_with(code), "{}: {said}", &text[..40]);
    }
    let doubled = "select length(concat(x, x, x, x, x, x, x, x, x, x)) from (".repeat(3)
        + "select replace(replace(replace('aaaaaaaaaaaaaaaaaaaa', 'a', 'bbbbbbbbbbbbbbbbbbbb'), 'b', 'cccccccccccccccccccc'), 'c', 'dddddddddddddddddddd') x"
        + &") t".repeat(3);
    assert!(ask(&doubled).starts_with("1054"), "{}", ask(&doubled));
}

proptest! {
    #[test]
    fn no_order_of_words_makes_it_panic(
        words in prop::collection::vec(
            prop::sample::select(&[
                "SHOW", "SELECT", "*", "FROM", "clients", "users", "LIKE", "'%'", "WHERE", "(", ")", "AND",
                "NOT", "ORDER", "BY", "LIMIT", "1", "-", "=", "<", "IN", ",", "id", "user", "COUNT", "GROUP",
                "JOIN", "USING", "ON", "LEFT", "UNION", "DISTINCT", "CASE", "WHEN", "THEN", "END", "IS", "NULL",
                "SUBSTRING", "ROUND", "REPLACE", "BETWEEN", "HAVING", "DIV", "%", "@@version", ".", "AS", "t",
            ][..]),
            0..30,
        )
    ) {
        let text = words.join(" ");
        for text in [format!("SELECT {text}"), format!("SHOW {text}"), text] {
            if let Ok(query) = Query::read(&text) {
                let _ = query.run(&fixed());
            }
        }
    }

    #[test]
    fn functions_take_any_values(
        name in prop::sample::select(&[
            "ROUND", "SUBSTRING", "LEFT", "RIGHT", "SUBSTRING_INDEX", "LOCATE", "REPLACE", "FLOOR",
            "CEIL", "ABS", "SEC_TO_TIME", "FROM_UNIXTIME", "HEX", "GREATEST", "IF", "NULLIF", "TRIM",
        ][..]),
        given in prop::collection::vec(
            prop::sample::select(&[
                "NULL", "0", "-1", "1e308", "-1e308", "18446744073709551615", "-9223372036854775808",
                "''", "'ab'", "'1.5x'", "'\u{e4}\u{1f600}'", "'e'", "'-'", "0.5",
            ][..]),
            0..4,
        )
    ) {
        let call = format!("SELECT {name}({0}), CAST({name}({0}) AS SIGNED) * -3 DIV 2 % 7", given.join(", "));
        if let Ok(query) = Query::read(&call) {
            let _ = query.run(&fixed());
        }
    }
}
