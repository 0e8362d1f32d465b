//! The transactions of sysbench 1.0's scripts, under the scripts' names.
//!
//! And two that are not sysbench's: `stampede`, the same expensive read, asked by all clients at once; and `hot-row`, a
//! write of a row that no client holds, while others wait for one that a client holds.
//!
//! Owns their texts and their order. What a placeholder means is said in `statement`.

use super::Shape;
use super::statement::Statement;

/// The scripts that are known.
pub const NAMES: [&str; 11] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_insert",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_delete",
    "select_random_points",
    "select_random_ranges",
    "stampede",
];

/// How many times which statements are run on one table.
type Steps = Vec<(u32, Vec<Statement>)>;

/// What the script of this name does in one event.
pub(super) fn steps(name: &str, shape: &Shape) -> Option<Steps> {
    let once = |text: &str| vec![(1, vec![statement(text)])];
    Some(match name {
        "oltp_point_select" => once(POINT_SELECT),
        "oltp_read_only" => transaction(reads(shape), shape),
        "oltp_read_write" => transaction([reads(shape), writes()].concat(), shape),
        "oltp_write_only" => transaction(writes(), shape),
        // The only one that sysbench does not prepare.
        "oltp_insert" => vec![(1, vec![statement(INSERT_NEW).text_only()])],
        "oltp_update_index" => once(UPDATE_INDEX),
        "oltp_update_non_index" => once(UPDATE_NON_INDEX),
        "oltp_delete" => once(DELETE),
        "select_random_points" => once(&random_points(shape.random_points)),
        "stampede" => once(STAMPEDE),
        "hot-row" => once(HOT_ROW),
        "select_random_ranges" => once(&random_ranges(shape.number_of_ranges, shape.delta)),
        _ => return None,
    })
}

fn reads(shape: &Shape) -> Steps {
    let mut steps = vec![(shape.point_selects, vec![statement(POINT_SELECT)])];
    let last = shape.range_size.saturating_sub(1);
    for (what, rest) in
        [("c", ""), ("SUM(k)", ""), ("c", " ORDER BY c"), ("DISTINCT c", " ORDER BY c")]
    {
        let text = format!(
            "SELECT {what} FROM sbtest{{table}} WHERE id BETWEEN {{id}} AND {{id+{last}}}{rest}"
        );
        steps.push((1, vec![statement(&text)]));
    }
    steps
}

fn writes() -> Steps {
    vec![
        (1, vec![statement(UPDATE_INDEX)]),
        (1, vec![statement(UPDATE_NON_INDEX)]),
        (1, vec![statement(DELETE), statement(INSERT_AGAIN)]),
    ]
}

fn transaction(steps: Steps, shape: &Shape) -> Steps {
    if shape.skip_trx {
        return steps;
    }
    let [begin, commit] = ["BEGIN", "COMMIT"].map(|text| vec![(1, vec![statement(text)])]);
    [begin, steps, commit].concat()
}

fn random_points(count: u32) -> String {
    let points = vec!["{segment}"; count.max(1) as usize].join(", ");
    format!("SELECT id, k, c, pad FROM sbtest1 WHERE k IN ({points})")
}

fn random_ranges(count: u32, delta: u32) -> String {
    let range = format!("k BETWEEN {{segment}} AND {{segment+{delta}}}");
    let ranges = vec![range; count.max(1) as usize].join(" OR ");
    format!("SELECT count(k) FROM sbtest1 WHERE {ranges}")
}

fn statement(text: &str) -> Statement {
    Statement::parse(text).expect("a text of this file has none but known placeholders")
}

const HOT_ROW: &str = "UPDATE sbtest1 SET k=k+1 WHERE id={id}";
const STAMPEDE: &str = "SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN 1 AND 2000";
const POINT_SELECT: &str = "SELECT c FROM sbtest{table} WHERE id={id}";
const UPDATE_INDEX: &str = "UPDATE sbtest{table} SET k=k+1 WHERE id={id}";
const UPDATE_NON_INDEX: &str = "UPDATE sbtest{table} SET c={c} WHERE id={id}";
const DELETE: &str = "DELETE FROM sbtest{table} WHERE id={id}";
/// Of the row that was deleted before.
const INSERT_AGAIN: &str =
    "INSERT INTO sbtest{table} (id, k, c, pad) VALUES ({id+0}, {k}, {c}, {pad})";
const INSERT_NEW: &str = "INSERT INTO sbtest{table} (id, k, c, pad) VALUES (0, {k}, {c}, {pad})";
