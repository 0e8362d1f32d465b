//! The tree of an expression as a [`Node`]: names become places, and what the console does not have is refused.

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, InTarget, UnaryOperator, Value as Literal,
};

use super::functions;
use super::node::{Aggregate, Arithmetic, Comparison, Node, Summary, Target};
use super::run::{FIRST, Heading, Run, SqlError, deeper, parts};
use super::select;
use crate::table::Value;

/// What names mean.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    headings: &'a [Heading],
    /// The expressions that a `SELECT` gives names to, which may be used behind it.
    aliases: &'a [(String, &'a Expr)],
}

impl<'a> Scope<'a> {
    pub(super) const fn of(headings: &'a [Heading]) -> Self {
        Self { headings, aliases: &[] }
    }

    pub(super) const fn with_aliases(self, aliases: &'a [(String, &'a Expr)]) -> Self {
        Self { aliases, ..self }
    }
}

pub(super) struct Compiler<'a> {
    run: &'a Run<'a>,
    scope: Scope<'a>,
    /// An aggregate has been met.
    pub(super) has_aggregate: bool,
}

pub(super) fn unknown_column(name: &str, headings: &[Heading]) -> SqlError {
    let names: Vec<_> = headings.iter().map(|heading| heading.name.as_str()).collect();
    let there = match names.is_empty() {
        true => "no table is named behind FROM".to_owned(),
        false => format!("there are {}", names.join(", ")),
    };
    SqlError::new(1054, b"42S22", format!("Unknown column '{name}'; {there}"))
}

impl<'a> Compiler<'a> {
    pub(super) const fn new(run: &'a Run<'a>, scope: Scope<'a>) -> Self {
        Self { run, scope, has_aggregate: false }
    }

    pub(super) fn expression(&mut self, tree: &Expr, depth: usize) -> Result<Node, SqlError> {
        let depth = deeper(depth)?;
        self.run.fuel.burn(1)?;
        match tree {
            Expr::Identifier(name) => self.name(&[&name.value], depth),
            Expr::CompoundIdentifier(names) => {
                let names: Vec<_> = names.iter().map(|name| name.value.as_str()).collect();
                self.name(&names, depth)
            }
            Expr::Value(literal) => constant(&literal.value),
            Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => {
                self.expression(inner, depth)
            }
            // `_utf8'x'`, `BINARY x`
            Expr::Prefixed { value, .. } => self.expression(value, depth),
            Expr::BinaryOp { .. } => self.chain(tree, depth),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr, depth),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), depth)
            }
            Expr::Exists { subquery, negated } => {
                let is_any = !select::query(self.run, subquery, depth)?.rows.is_empty();
                Ok(Node::truth(is_any != *negated))
            }
            Expr::Subquery(query) => self.single(query, depth),
            Expr::Function(function) => self.function(function, depth),
            _ => self.comparison(tree, depth),
        }
    }

    /// What asks something of one value.
    fn comparison(&mut self, tree: &Expr, depth: usize) -> Result<Node, SqlError> {
        let null = |node| Node::IsNull(Box::new(node));
        Ok(match tree {
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => null(self.expression(inner, depth)?),
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => {
                null(self.expression(inner, depth)?).negated(true)
            }
            Expr::IsTrue(inner) => Node::Is(Box::new(self.expression(inner, depth)?), true),
            Expr::IsFalse(inner) => Node::Is(Box::new(self.expression(inner, depth)?), false),
            Expr::Like { negated, expr, pattern, escape_char: None, any: false } => {
                let (text, pattern) =
                    (self.expression(expr, depth)?, self.expression(pattern, depth)?);
                Node::Like(Box::new(text), Box::new(pattern)).negated(*negated)
            }
            Expr::Between { expr, negated, low, high } => {
                let text = self.expression(expr, depth)?;
                let (low, high) = (self.expression(low, depth)?, self.expression(high, depth)?);
                let above = Node::compare(Comparison::AtLeast, text.clone(), low);
                let below = Node::compare(Comparison::AtMost, text, high);
                Node::All(vec![above, below]).negated(*negated)
            }
            Expr::In { expr, target, negated, .. } => {
                let value = self.expression(expr, depth)?;
                let list = match target {
                    InTarget::List(list) => self.list(list, depth)?,
                    InTarget::Subquery(query) => {
                        let rows = select::query(self.run, query, depth)?.rows;
                        let firsts = rows.into_iter().filter_map(|row| row.into_iter().next());
                        firsts.map(Node::Constant).collect()
                    }
                    _ => return Err(SqlError::unsupported(format!("condition {tree}"))),
                };
                Node::In(Box::new(value), list).negated(*negated)
            }
            other => self.special(other, depth)?,
        })
    }

    /// What looks like a function and has words of its own.
    fn special(&mut self, tree: &Expr, depth: usize) -> Result<Node, SqlError> {
        match tree {
            Expr::Cast { expr, data_type, .. } => self.cast(expr, data_type, depth),
            Expr::Convert { expr, data_type, charset, .. } => match (data_type, charset) {
                (Some(data_type), _) => self.cast(expr, data_type, depth),
                (None, _) => self.expression(expr, depth),
            },
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let given = [Some(expr), substring_from.as_ref(), substring_for.as_ref()];
                let given: Vec<_> = given.into_iter().flatten().map(|it| &**it).collect();
                self.call("SUBSTRING", &given, depth)
            }
            Expr::Position { expr, r#in } => self.call("LOCATE", &[expr, r#in], depth),
            Expr::Trim { trim_where: None, trim_what: None, trim_characters: None, expr } => {
                self.call("TRIM", &[expr], depth)
            }
            Expr::Ceil { expr, .. } => self.call("CEIL", &[expr], depth),
            Expr::Floor { expr, .. } => self.call("FLOOR", &[expr], depth),
            other => Err(SqlError::unsupported(format!("expression of the form {other}"))),
        }
    }

    fn call(
        &mut self,
        name: &'static str,
        given: &[&Expr],
        depth: usize,
    ) -> Result<Node, SqlError> {
        let given = given.iter().map(|it| self.expression(it, depth)).collect::<Result<_, _>>()?;
        functions::call(name, given)
    }

    fn list(&mut self, list: &[Expr], depth: usize) -> Result<Vec<Node>, SqlError> {
        list.iter().map(|one| self.expression(one, depth)).collect()
    }

    /// A column, a name given by the `SELECT`, or a variable of the server.
    fn name(&mut self, names: &[&str], depth: usize) -> Result<Node, SqlError> {
        let (last, before) = names.split_last().ok_or_else(|| SqlError::syntax("an empty name"))?;
        if let Some(variable) = names[0].strip_prefix("@@") {
            let name = if before.is_empty() { variable } else { last };
            let name = name.to_ascii_lowercase();
            let value = self.run.source.variable(&name).ok_or_else(|| {
                SqlError::new(1193, b"HY000", format!("Unknown system variable '{name}'"))
            })?;
            return Ok(Node::Constant(value));
        }
        if names[0].starts_with('@') {
            return Err(SqlError::unsupported("variables of a user"));
        }
        let headings = self.scope.headings;
        if *last == FIRST && !headings.is_empty() {
            return Ok(Node::Column(0));
        }
        let fits = |heading: &Heading| {
            heading.name.eq_ignore_ascii_case(last)
                && before.last().is_none_or(|table| heading.table.eq_ignore_ascii_case(table))
                && (!heading.is_merged || !before.is_empty())
        };
        let mut found = headings.iter().enumerate().filter(|(_, heading)| fits(heading));
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                Err(SqlError::new(1052, b"23000", format!("Column '{last}' is ambiguous")))
            }
            (Some((at, _)), None) => Ok(Node::Column(at)),
            (None, _) => self.alias(names, depth),
        }
    }

    fn alias(&mut self, names: &[&str], depth: usize) -> Result<Node, SqlError> {
        let scope = self.scope;
        let aliased = scope
            .aliases
            .iter()
            .find(|(name, _)| matches!(names, [one] if name.eq_ignore_ascii_case(one)));
        let Some((_, tree)) = aliased else {
            let titled = |name: &str| {
                let has = |heading: &Heading| {
                    heading.titles.iter().any(|it| it.eq_ignore_ascii_case(name))
                };
                scope.headings.iter().position(has)
            };
            if let [one] = names
                && let Some(at) = titled(one)
            {
                return Ok(Node::Column(at));
            }
            // Servers take these for functions.
            return match names {
                [one] if functions::needs_no_parentheses(one) => functions::call(one, Vec::new()),
                _ => Err(unknown_column(&names.join("."), scope.headings)),
            };
        };
        // A name cannot be made of itself.
        self.scope = Scope::of(scope.headings);
        let node = self.expression(tree, depth);
        self.scope = scope;
        node
    }

    /// Operators between values. Those of the same rank stand in the tree one inside the other, as deep as there are
    /// values: so they are read in a loop.
    fn chain(&mut self, tree: &Expr, depth: usize) -> Result<Node, SqlError> {
        let (mut first, mut rest) = (tree, Vec::new());
        while let Expr::BinaryOp { left, op, right } = first {
            rest.push((op, &**right));
            first = left;
        }
        let mut whole = self.expression(first, depth)?;
        let mut height = depth;
        for (operator, right) in rest.into_iter().rev() {
            let right = self.expression(right, depth)?;
            whole = match (operator, whole) {
                (BinaryOperator::And, Node::All(mut parts)) => {
                    parts.push(right);
                    Node::All(parts)
                }
                (BinaryOperator::Or | BinaryOperator::StringConcat, Node::Any(mut parts)) => {
                    parts.push(right);
                    Node::Any(parts)
                }
                (BinaryOperator::And, left) => Node::All(vec![left, right]),
                (BinaryOperator::Or | BinaryOperator::StringConcat, left) => {
                    Node::Any(vec![left, right])
                }
                (operator, left) => {
                    height = deeper(height)?;
                    operation(operator, left, right)?
                }
            };
        }
        Ok(whole)
    }

    fn unary(&mut self, op: UnaryOperator, inner: &Expr, depth: usize) -> Result<Node, SqlError> {
        let node = self.expression(inner, depth)?;
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => Ok(node.negated(true)),
            UnaryOperator::Plus => Ok(node),
            UnaryOperator::Minus => {
                let zero = Box::new(Node::Constant(0_u32.into()));
                Ok(Node::Arithmetic(Arithmetic::Minus, zero, Box::new(node)))
            }
            other => Err(SqlError::unsupported(format!("operator {other}"))),
        }
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[sqlparser::ast::CaseWhen],
        otherwise: Option<&Expr>,
        depth: usize,
    ) -> Result<Node, SqlError> {
        let operand = operand.map(|it| self.expression(it, depth)).transpose()?;
        let mut arms = Vec::new();
        for arm in conditions {
            let mut condition = self.expression(&arm.condition, depth)?;
            if let Some(operand) = &operand {
                condition = Node::compare(Comparison::Equal, operand.clone(), condition);
            }
            arms.push((condition, self.expression(&arm.result, depth)?));
        }
        let otherwise = match otherwise {
            Some(tree) => self.expression(tree, depth)?,
            None => Node::Constant(Value::Null),
        };
        Ok(Node::Case(arms, Box::new(otherwise)))
    }

    fn cast(&mut self, inner: &Expr, wanted: &DataType, depth: usize) -> Result<Node, SqlError> {
        let node = self.expression(inner, depth)?;
        let name = wanted.to_string().to_ascii_uppercase();
        let begins = |names: &[&str]| names.iter().any(|it| name.starts_with(it));
        let target = if begins(&["UNSIGNED", "SIGNED", "INT", "BIGINT"]) {
            Target::Whole
        } else if begins(&["DECIMAL", "DEC", "DOUBLE", "FLOAT", "REAL", "NUMERIC"]) {
            Target::Real
        } else if begins(&["CHAR", "BINARY", "VARCHAR", "NCHAR", "TEXT", "CHARACTER"]) {
            Target::Text
        } else {
            return Err(SqlError::unsupported(format!("type {wanted} to cast to")));
        };
        Ok(Node::Cast(target, Box::new(node)))
    }

    /// The value of a subquery.
    fn single(&self, query: &sqlparser::ast::Query, depth: usize) -> Result<Node, SqlError> {
        let answer = select::query(self.run, query, depth)?;
        if answer.columns.len() != 1 {
            return Err(SqlError::new(1241, b"21000", "Operand should contain 1 column(s)"));
        }
        let mut rows = answer.rows.into_iter();
        let value = rows.next().and_then(|row| row.into_iter().next()).unwrap_or(Value::Null);
        match rows.next() {
            None => Ok(Node::Constant(value)),
            Some(_) => Err(SqlError::new(1242, b"21000", "Subquery returns more than 1 row")),
        }
    }

    fn function(&mut self, function: &Function, depth: usize) -> Result<Node, SqlError> {
        let name = parts(&function.name).join(".").to_ascii_uppercase();
        if function.over.is_some() || function.filter.is_some() {
            return Err(SqlError::unsupported("window functions"));
        }
        let mut given = Vec::new();
        let (mut is_distinct, mut is_star, mut separator) = (false, false, ",".to_owned());
        match &function.args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("such a call")),
            FunctionArguments::List(list) => {
                is_distinct =
                    list.duplicate_treatment == Some(sqlparser::ast::DuplicateTreatment::Distinct);
                for argument in &list.args {
                    match argument {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(tree)) => given.push(tree),
                        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => is_star = true,
                        _ => return Err(SqlError::unsupported("such an argument")),
                    }
                }
                for clause in &list.clauses {
                    match clause {
                        FunctionArgumentClause::Separator(text) => {
                            separator = text.value.clone().into_string().unwrap_or_default();
                        }
                        FunctionArgumentClause::OrderBy(_) => {}
                        _ => return Err(SqlError::unsupported("such a clause in a call")),
                    }
                }
            }
        }
        let summary = Summary::named(&name, separator).filter(|_| is_star || given.len() == 1);
        let given = given.into_iter().map(|it| self.expression(it, depth));
        let mut given = given.collect::<Result<Vec<_>, _>>()?;
        match summary {
            Some(summary) => {
                if std::mem::replace(&mut self.has_aggregate, true)
                    && given.iter().any(Node::is_aggregate)
                {
                    return Err(SqlError::new(1111, b"HY000", "Invalid use of group function"));
                }
                let of = if is_star { None } else { given.pop() };
                let counts_rows = matches!(summary, Summary::Count);
                if of.is_none() && !counts_rows {
                    return Err(SqlError::syntax(format!("{name}(*) means nothing")));
                }
                Ok(Node::Aggregate(Box::new(Aggregate { summary, of, is_distinct })))
            }
            None if is_star => Err(SqlError::syntax(format!("{name}(*) means nothing"))),
            None => functions::call(&name, given),
        }
    }
}

fn constant(literal: &Literal) -> Result<Node, SqlError> {
    let value = match literal {
        Literal::Number(number, _) => match (number.parse(), number.parse::<f64>()) {
            (Ok(count), _) => Value::Count(count),
            (_, Ok(real)) => Value::Real(real),
            _ => return Err(SqlError::syntax(format!("{number} is no number"))),
        },
        Literal::SingleQuotedString(text)
        | Literal::DoubleQuotedString(text)
        | Literal::NationalStringLiteral(text)
        | Literal::EscapedStringLiteral(text) => Value::from(text.clone()),
        Literal::Boolean(is) => Value::Count(u64::from(*is)),
        Literal::Null => Value::Null,
        other => return Err(SqlError::unsupported(format!("literal of the form {other}"))),
    };
    Ok(Node::Constant(value))
}

fn operation(operator: &BinaryOperator, left: Node, right: Node) -> Result<Node, SqlError> {
    let comparison = match operator {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::Unequal,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::AtMost,
        BinaryOperator::Gt => Comparison::More,
        BinaryOperator::GtEq => Comparison::AtLeast,
        BinaryOperator::Spaceship => Comparison::Same,
        other => {
            let (left, right) = (Box::new(left), Box::new(right));
            let arithmetic = match other {
                BinaryOperator::Plus => Arithmetic::Plus,
                BinaryOperator::Minus => Arithmetic::Minus,
                BinaryOperator::Multiply => Arithmetic::Times,
                BinaryOperator::Divide => Arithmetic::Divided,
                BinaryOperator::MyIntegerDivide => Arithmetic::Whole,
                BinaryOperator::Modulo => Arithmetic::Modulo,
                other => return Err(SqlError::unsupported(format!("operator {other}"))),
            };
            return Ok(Node::Arithmetic(arithmetic, left, right));
        }
    };
    Ok(Node::compare(comparison, left, right))
}
