//! `SELECT` and `UNION`: rows are taken from what stands behind `FROM`, kept, grouped, computed, sorted and counted off.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, LimitClause, OrderBy, OrderByExpr, OrderByKind,
    OrderBySort, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier, Value as Literal,
};

use super::compile::{Compiler, Scope};
use super::node::{Node, is_true, key};
use super::relation;
use super::run::{Answer, AnswerColumn, Heading, Relation, Run, SqlError, deeper, parts};
use crate::table::{Kind, Value};

/// Columns of an answer.
const COLUMNS_MAX: usize = 512;

/// A column that is to be computed.
struct Output {
    table: String,
    name: String,
    /// What its table says that it holds; `None`: its values say it.
    kind: Option<Kind>,
    node: Node,
}

/// How rows are sorted.
struct Order {
    node: Node,
    is_descending: bool,
}

/// A row of the answer, and what it is sorted by.
type Sorted = (Vec<Value>, Vec<Value>);

pub(super) fn query(run: &Run<'_>, query: &Query, depth: usize) -> Result<Answer, SqlError> {
    let depth = deeper(depth)?;
    if query.with.is_some() {
        return Err(SqlError::unsupported("WITH"));
    }
    let order = match &query.order_by {
        None => &[][..],
        Some(OrderBy { kind: OrderByKind::Expressions(list), .. }) => list,
        Some(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
    };
    let mut answer = match &*query.body {
        SetExpr::Select(tree) => select(run, tree, order, depth)?,
        other => {
            let whole = set(run, other, depth)?;
            sort(run, whole, order, depth)?
        }
    };
    limit(&mut answer.rows, query.limit_clause.as_ref())?;
    Ok(answer)
}

fn set(run: &Run<'_>, tree: &SetExpr, depth: usize) -> Result<Answer, SqlError> {
    let depth = deeper(depth)?;
    match tree {
        SetExpr::Select(tree) => select(run, tree, &[], depth),
        SetExpr::Query(inner) => query(run, inner, depth),
        SetExpr::SetOperation { left, right, op: SetOperator::Union, set_quantifier } => {
            let (mut one, two) = (set(run, left, depth)?, set(run, right, depth)?);
            if one.columns.len() != two.columns.len() {
                let message = "The used SELECT statements have a different number of columns";
                return Err(SqlError::new(1222, b"21000", message));
            }
            one.rows.extend(two.rows);
            if *set_quantifier != SetQuantifier::All {
                distinct(&mut one.rows, |row| row);
            }
            for (at, column) in one.columns.iter_mut().enumerate() {
                column.kind = settled(Some(column.kind), one.rows.iter().map(|row| &row[at]));
            }
            Ok(one)
        }
        other => Err(SqlError::unsupported(format!("statement of the form {other}"))),
    }
}

/// Sorts what has no tables any more, by its own columns.
fn sort(
    run: &Run<'_>,
    answer: Answer,
    order: &[OrderByExpr],
    depth: usize,
) -> Result<Answer, SqlError> {
    let columns = answer.columns.clone();
    let relation = Relation::from(answer);
    let plan = Plan { outputs: Vec::new(), order: Vec::new() };
    let order = plan.order_of(run, order, Scope::of(&relation.headings), depth)?.0;
    let mut rows = Vec::new();
    for row in relation.rows {
        let keys = order.iter().map(|one| one.node.of_row(run, &row)).collect::<Result<_, _>>()?;
        rows.push((row, keys));
    }
    sort_rows(&mut rows, &order);
    Ok(Answer { columns, rows: rows.into_iter().map(|(row, _)| row).collect() })
}

struct Plan {
    outputs: Vec<Output>,
    order: Vec<Order>,
}

fn select(
    run: &Run<'_>,
    tree: &Select,
    order: &[OrderByExpr],
    depth: usize,
) -> Result<Answer, SqlError> {
    let depth = deeper(depth)?;
    refuse_what_is_rare(tree)?;
    let mut relation = relation::from(run, &tree.from, depth)?;
    let headings = std::mem::take(&mut relation.headings);
    let scope = Scope::of(&headings);
    if let Some(condition) = &tree.selection {
        let mut compiler = Compiler::new(run, scope);
        let node = compiler.expression(condition, depth)?;
        if compiler.has_aggregate {
            return Err(SqlError::new(1111, b"HY000", "Invalid use of group function"));
        }
        let rows = std::mem::take(&mut relation.rows);
        for row in rows {
            if is_true(&node.of_row(run, &row)?) == Some(true) {
                relation.rows.push(row);
            }
        }
    }
    let mut plan = Plan { outputs: Vec::new(), order: Vec::new() };
    let mut is_grouped = plan.outputs(run, tree, &headings, depth)?;
    let aliases = aliases(tree);
    let scope = scope.with_aliases(&aliases);
    let (sorted_by, has_aggregate) = plan.order_of(run, order, scope, depth)?;
    plan.order = sorted_by;
    is_grouped |= has_aggregate;
    let having = match &tree.having {
        None => None,
        Some(condition) => {
            let mut compiler = Compiler::new(run, scope);
            let node = compiler.expression(condition, depth)?;
            is_grouped |= compiler.has_aggregate;
            Some(node)
        }
    };
    let group = plan.group_of(run, &tree.group_by, scope, depth)?;
    let mut rows = match group {
        None if !is_grouped => plan.each_row(run, relation.rows, having.as_ref())?,
        group => {
            plan.each_group(run, relation.rows, group.as_deref().unwrap_or(&[]), having.as_ref())?
        }
    };
    if matches!(tree.distinct, Some(Distinct::Distinct)) {
        distinct(&mut rows, |(row, _)| row);
    }
    sort_rows(&mut rows, &plan.order);
    let rows: Vec<_> = rows.into_iter().map(|(row, _)| row).collect();
    let columns = plan.outputs.into_iter().enumerate().map(|(at, output)| AnswerColumn {
        table: output.table,
        name: output.name,
        kind: settled(output.kind, rows.iter().map(|row| &row[at])),
    });
    Ok(Answer { columns: columns.collect(), rows })
}

fn refuse_what_is_rare(tree: &Select) -> Result<(), SqlError> {
    let is_rare = tree.into.is_some()
        || tree.qualify.is_some()
        || tree.top.is_some()
        || !tree.named_window.is_empty()
        || matches!(tree.distinct, Some(Distinct::On(_)));
    if is_rare { Err(SqlError::unsupported("SELECT of this form")) } else { Ok(()) }
}

/// The names that a `SELECT` gives.
fn aliases(tree: &Select) -> Vec<(String, &Expr)> {
    let aliased = tree.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr)),
        _ => None,
    });
    aliased.collect()
}

impl Plan {
    /// Finds the columns of the answer. Whether one of them is about a group of rows.
    fn outputs(
        &mut self,
        run: &Run<'_>,
        tree: &Select,
        headings: &[Heading],
        depth: usize,
    ) -> Result<bool, SqlError> {
        let mut has_aggregate = false;
        for item in &tree.projection {
            match item {
                SelectItem::Wildcard(_) => self.add_all(headings, |heading| !heading.is_merged),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let table = parts(name).last().copied().unwrap_or_default().to_owned();
                    self.add_all(headings, |heading| heading.table.eq_ignore_ascii_case(&table));
                }
                SelectItem::UnnamedExpr(expr) => {
                    has_aggregate |= self.add(run, expr, None, headings, depth)?;
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    has_aggregate |= self.add(run, expr, Some(alias), headings, depth)?;
                }
                other => return Err(SqlError::unsupported(format!("column of the form {other}"))),
            }
            if self.outputs.len() > COLUMNS_MAX {
                return Err(SqlError::new(1117, b"HY000", "Too many columns"));
            }
        }
        match self.outputs.is_empty() {
            true => Err(SqlError::new(1096, b"HY000", "No tables used")),
            false => Ok(has_aggregate),
        }
    }

    fn add_all(&mut self, headings: &[Heading], fits: impl Fn(&Heading) -> bool) {
        let all = headings.iter().enumerate().filter(|(_, heading)| fits(heading));
        self.outputs.extend(all.map(|(at, heading)| Output {
            table: heading.table.clone(),
            name: heading.name.clone(),
            kind: Some(heading.kind),
            node: Node::Column(at),
        }));
    }

    fn add(
        &mut self,
        run: &Run<'_>,
        expr: &Expr,
        alias: Option<&Ident>,
        headings: &[Heading],
        depth: usize,
    ) -> Result<bool, SqlError> {
        let mut compiler = Compiler::new(run, Scope::of(headings));
        let node = compiler.expression(expr, depth)?;
        let (table, own_name, kind) = match &node {
            Node::Column(at) => {
                let heading = &headings[*at];
                (heading.table.clone(), Some(heading.name.clone()), Some(heading.kind))
            }
            _ => (String::new(), None, None),
        };
        let name = alias.map(|alias| alias.value.clone()).or(own_name);
        let name = name.unwrap_or_else(|| name_of(expr));
        self.outputs.push(Output { table, name, kind, node });
        Ok(compiler.has_aggregate)
    }

    /// What rows are sorted by: a number is a column's place. Whether it is about groups of rows.
    fn order_of(
        &self,
        run: &Run<'_>,
        order: &[OrderByExpr],
        scope: Scope<'_>,
        depth: usize,
    ) -> Result<(Vec<Order>, bool), SqlError> {
        let mut compiler = Compiler::new(run, scope);
        let mut all = Vec::new();
        for one in order {
            let node = match position(&one.expr) {
                Some(at) => self.at(at, &one.expr)?,
                None => compiler.expression(&one.expr, depth)?,
            };
            let is_descending = matches!(one.options.sort, Some(OrderBySort::Desc));
            all.push(Order { node, is_descending });
        }
        Ok((all, compiler.has_aggregate))
    }

    fn at(&self, at: usize, tree: &Expr) -> Result<Node, SqlError> {
        let output = at.checked_sub(1).and_then(|at| self.outputs.get(at));
        let unknown = || SqlError::new(1054, b"42S22", format!("Unknown column '{tree}'"));
        output.map(|output| output.node.clone()).ok_or_else(unknown)
    }

    fn group_of(
        &self,
        run: &Run<'_>,
        group: &GroupByExpr,
        scope: Scope<'_>,
        depth: usize,
    ) -> Result<Option<Vec<Node>>, SqlError> {
        let GroupByExpr::Expressions(list, modifiers) = group else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("GROUP BY ... WITH ROLLUP"));
        }
        let mut compiler = Compiler::new(run, scope);
        let nodes = list.iter().map(|tree| match position(tree) {
            Some(at) => self.at(at, tree),
            None => compiler.expression(tree, depth),
        });
        let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
        if nodes.iter().any(Node::is_aggregate) {
            return Err(SqlError::new(1056, b"42000", "Can't group on an aggregate"));
        }
        Ok((!nodes.is_empty()).then_some(nodes))
    }

    fn each_row(
        &self,
        run: &Run<'_>,
        rows: Vec<Vec<Value>>,
        having: Option<&Node>,
    ) -> Result<Vec<Sorted>, SqlError> {
        let mut out = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(having) = having
                && is_true(&having.of_row(run, &row)?) != Some(true)
            {
                continue;
            }
            out.push(self.of(|node| node.of_row(run, &row))?);
        }
        Ok(out)
    }

    fn each_group(
        &self,
        run: &Run<'_>,
        rows: Vec<Vec<Value>>,
        by: &[Node],
        having: Option<&Node>,
    ) -> Result<Vec<Sorted>, SqlError> {
        let mut places = HashMap::new();
        let mut groups: Vec<Vec<Vec<Value>>> = Vec::new();
        for row in rows {
            let keys = by.iter().map(|node| Ok(key(&node.of_row(run, &row)?)));
            let keys = keys.collect::<Result<Vec<_>, SqlError>>()?;
            let place = *places.entry(keys).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(row);
        }
        if by.is_empty() && groups.is_empty() {
            // Of no rows there are still a count and a sum.
            groups.push(Vec::new());
        }
        let mut out = Vec::with_capacity(groups.len());
        for group in groups {
            if let Some(having) = having
                && is_true(&having.of_group(run, &group)?) != Some(true)
            {
                continue;
            }
            out.push(self.of(|node| node.of_group(run, &group))?);
        }
        Ok(out)
    }

    fn of(
        &self,
        mut compute: impl FnMut(&Node) -> Result<Value, SqlError>,
    ) -> Result<Sorted, SqlError> {
        let row =
            self.outputs.iter().map(|output| compute(&output.node)).collect::<Result<_, _>>()?;
        let keys = self.order.iter().map(|order| compute(&order.node)).collect::<Result<_, _>>()?;
        Ok((row, keys))
    }
}

/// The name of a column without one: its text, as it was written.
fn name_of(tree: &Expr) -> String {
    match tree {
        Expr::Value(literal) => match &literal.value {
            Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// A number that stands for a column's place.
fn position(tree: &Expr) -> Option<usize> {
    match tree {
        Expr::Value(literal) => match &literal.value {
            Literal::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The sort keeps the order of equals. Nothing comes before everything.
fn sort_rows(rows: &mut [Sorted], order: &[Order]) {
    rows.sort_by(|(_, one), (_, two)| {
        let each = one.iter().zip(two).zip(order).map(|((one, two), order)| {
            let compared = one.sort_order(two);
            if order.is_descending { compared.reverse() } else { compared }
        });
        each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}

fn distinct<T>(rows: &mut Vec<T>, row: impl Fn(&T) -> &Vec<Value>) {
    let mut seen = HashSet::new();
    rows.retain(|one| seen.insert(row(one).iter().map(key).collect::<Vec<_>>()));
}

fn limit(rows: &mut Vec<Vec<Value>>, clause: Option<&LimitClause>) -> Result<(), SqlError> {
    let (limit, offset) = match clause {
        None => return Ok(()),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(_) => return Err(SqlError::unsupported("LIMIT ... BY")),
    };
    let count = |tree: &Expr| {
        let wrong = || SqlError::syntax(format!("LIMIT takes numbers, not {tree}"));
        position(tree).ok_or_else(wrong)
    };
    if let Some(offset) = offset {
        rows.drain(..count(offset)?.min(rows.len()));
    }
    if let Some(limit) = limit {
        rows.truncate(count(limit)?);
    }
    Ok(())
}

/// What a column holds: what its values are, and where there are none, what its table says.
fn settled<'a>(known: Option<Kind>, values: impl Iterator<Item = &'a Value>) -> Kind {
    let mut found = None;
    for value in values {
        let one = match value {
            Value::Null => continue,
            Value::Text(_) => Kind::Text,
            Value::Count(_) => Kind::Count,
            Value::Signed(_) => Kind::Signed,
            Value::Real(_) => Kind::Real,
        };
        found = Some(match (found, one) {
            (Some(Kind::Text), _) | (_, Kind::Text) => Kind::Text,
            (Some(Kind::Real), _) | (_, Kind::Real) => Kind::Real,
            (Some(Kind::Signed), _) | (_, Kind::Signed) => Kind::Signed,
            (Some(Kind::Count) | None, Kind::Count) => Kind::Count,
        });
    }
    match (known, found) {
        // Whole numbers may stand in a column of numbers with a fraction.
        (Some(Kind::Real), Some(Kind::Count | Kind::Signed)) => Kind::Real,
        (_, Some(found)) => found,
        (known, None) => known.unwrap_or(Kind::Text),
    }
}
