//! What stands behind `FROM`: tables, subqueries and joins, as rows under headings.

use sqlparser::ast::{JoinConstraint, JoinOperator, ObjectName, TableFactor, TableWithJoins};

use super::compile::{Compiler, Scope};
use super::node::{Node, is_true};
use super::run::{Heading, Relation, Run, SHOWN, SqlError, TableName, deeper, parts};
use super::select;
use crate::narrow::Narrow;
use crate::table::{Table, Value};

fn table_name(name: &ObjectName, shown: Option<&TableName>) -> Option<TableName> {
    let parts = parts(name);
    let (last, schema) = parts.split_last()?;
    if *last == SHOWN {
        return shown.cloned();
    }
    if schema.is_empty() && last.eq_ignore_ascii_case("dual") {
        return None;
    }
    Some(TableName {
        schema: schema.last().map(|it| (*it).to_owned()),
        name: last.to_ascii_lowercase(),
        ..TableName::default()
    })
}

/// What stands behind `FROM`. Without one there is a row of nothing.
pub(super) fn from(
    run: &Run<'_>,
    from: &[TableWithJoins],
    depth: usize,
) -> Result<Relation, SqlError> {
    let mut whole = Relation { headings: Vec::new(), rows: vec![Vec::new()] };
    for (at, one) in from.iter().enumerate() {
        let next = joined(run, one, depth)?;
        whole = match at {
            0 => next,
            _ => join(run, whole, next, &JoinConstraint::None, Outer::No, depth)?,
        };
    }
    Ok(whole)
}

fn joined(run: &Run<'_>, one: &TableWithJoins, depth: usize) -> Result<Relation, SqlError> {
    let depth = deeper(depth)?;
    let mut whole = factor(run, &one.relation, depth)?;
    for next in &one.joins {
        let (constraint, outer) = match &next.join_operator {
            JoinOperator::Join(it)
            | JoinOperator::Inner(it)
            | JoinOperator::CrossJoin(it)
            | JoinOperator::StraightJoin(it) => (it, Outer::No),
            JoinOperator::Left(it) | JoinOperator::LeftOuter(it) => (it, Outer::Left),
            _ => return Err(SqlError::unsupported("join but JOIN, CROSS JOIN and LEFT JOIN")),
        };
        let right = factor(run, &next.relation, depth)?;
        whole = join(run, whole, right, constraint, outer, depth)?;
    }
    Ok(whole)
}

fn factor(run: &Run<'_>, factor: &TableFactor, depth: usize) -> Result<Relation, SqlError> {
    let depth = deeper(depth)?;
    match factor {
        TableFactor::Table { name, alias, .. } => {
            let Some(table) = table_name(name, run.shown) else {
                return Ok(Relation { headings: Vec::new(), rows: vec![Vec::new()] });
            };
            let found = run.source.table(&table).ok_or_else(|| {
                let message = format!("Table '{name}' doesn't exist");
                SqlError::new(1146, b"42S02", message)
            })?;
            let titles = run.source.titles(&table);
            let alias = alias.as_ref().map_or(table.name, |alias| alias.name.value.clone());
            of_table(run, found, titles, &alias)
        }
        TableFactor::Derived { subquery, alias, .. } => {
            let mut answer = select::query(run, subquery, depth)?;
            let alias = alias.as_ref().map(|alias| alias.name.value.clone()).unwrap_or_default();
            answer.columns.iter_mut().for_each(|column| column.table.clone_from(&alias));
            Ok(answer.into())
        }
        TableFactor::NestedJoin { table_with_joins, .. } => joined(run, table_with_joins, depth),
        other => Err(SqlError::unsupported(format!("table of the form {other}"))),
    }
}

fn of_table(
    run: &Run<'_>,
    table: &Table,
    titles: &[Narrow],
    alias: &str,
) -> Result<Relation, SqlError> {
    let heading = |column: &crate::table::Column| Heading {
        table: alias.to_owned(),
        name: column.name.to_owned(),
        kind: column.kind,
        is_merged: false,
        titles: titles.iter().filter(|it| it.from == column.name).map(|it| it.title).collect(),
    };
    for row in &table.rows {
        run.fuel.copy(row)?;
    }
    Ok(Relation { headings: table.columns.iter().map(heading).collect(), rows: table.rows.clone() })
}

/// Whether a row that fits none of the other table stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    No,
    Left,
}

fn join(
    run: &Run<'_>,
    left: Relation,
    mut right: Relation,
    constraint: &JoinConstraint,
    outer: Outer,
    depth: usize,
) -> Result<Relation, SqlError> {
    let width = left.headings.len();
    let mut equal = Vec::new();
    match constraint {
        JoinConstraint::Using(names) => {
            for name in names {
                let name = parts(name).last().copied().unwrap_or_default().to_owned();
                equal.push(merge(&left, &mut right, &name)?);
            }
        }
        JoinConstraint::On(_) | JoinConstraint::None => {}
        _ => return Err(SqlError::unsupported("NATURAL JOIN")),
    }
    let headings: Vec<_> = left.headings.into_iter().chain(right.headings).collect();
    let scope = Scope::of(&headings);
    let on = match constraint {
        JoinConstraint::On(on) => Some(Compiler::new(run, scope).expression(on, depth)?),
        _ => None,
    };
    let padding = vec![Value::Null; headings.len() - width];
    let mut rows = Vec::new();
    for one in left.rows {
        let before = rows.len();
        for two in &right.rows {
            run.fuel.burn(1)?;
            let fits = equal.iter().all(|(here, there): &(usize, usize)| {
                one[*here].compare(&two[*there]).is_some_and(std::cmp::Ordering::is_eq)
            });
            if !fits {
                continue;
            }
            run.fuel.copy(&one)?;
            run.fuel.copy(two)?;
            let row: Vec<_> = one.iter().chain(two).cloned().collect();
            if keeps(run, on.as_ref(), &row)? {
                rows.push(row);
            }
        }
        if outer == Outer::Left && rows.len() == before {
            rows.push(one.into_iter().chain(padding.iter().cloned()).collect());
        }
    }
    Ok(Relation { headings, rows })
}

fn keeps(run: &Run<'_>, on: Option<&Node>, row: &[Value]) -> Result<bool, SqlError> {
    match on {
        Some(on) => Ok(is_true(&on.of_row(run, row)?) == Some(true)),
        None => Ok(true),
    }
}

/// The places of a column that both sides have; it is shown once.
fn merge(left: &Relation, right: &mut Relation, name: &str) -> Result<(usize, usize), SqlError> {
    let at = |headings: &[Heading]| {
        headings.iter().position(|heading| heading.name.eq_ignore_ascii_case(name))
    };
    match (at(&left.headings), at(&right.headings)) {
        (Some(here), Some(there)) => {
            right.headings[there].is_merged = true;
            Ok((here, there))
        }
        _ => Err(super::compile::unknown_column(name, &left.headings)),
    }
}
