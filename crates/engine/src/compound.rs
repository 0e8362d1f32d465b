//! Compound statements: what their parts begin with.

/// What a part of a compound statement begins with that is no statement of its own, or has others within. `BEGIN`, which
/// may begin a transaction as well, and labels are not among them.
pub(crate) const CONTROL: [&str; 22] = [
    "IF",
    "CASE",
    "WHILE",
    "LOOP",
    "REPEAT",
    "FOR",
    "DECLARE",
    "THEN",
    "ELSE",
    "ELSEIF",
    "ELSIF",
    "WHEN",
    "END",
    "UNTIL",
    "LEAVE",
    "ITERATE",
    "OPEN",
    "FETCH",
    "CLOSE",
    "RETURN",
    "GOTO",
    "EXCEPTION",
];
