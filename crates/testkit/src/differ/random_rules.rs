//! Flifo with rules, made by chance, that change nothing a client can see: statements become what they are, get
//! comments, go to the only server there is, to another class, through labels, and under bounds that nothing meets, and are
//! copied.

use std::fmt::Write;
use std::path::PathBuf;

use super::campaign::Between;
use super::peer::Door;
use super::site::Server;
use crate::flifo::Flifo;

/// Acts that no client can tell from none.
const ACTS: &[&str] = &[
    "replace = { find = \"(.)\", with = \"$1\" }",
    "replace = { find = \"^\", with = \"\" }",
    "rewrite = { from = \"SELECT ?a\", to = \"SELECT ?a\" }",
    "rewrite = { from = \"SELECT ?a...\", to = \"SELECT ?a...\" }",
    "rewrite = { from = \"SELECT * FROM ?t ORDER BY id\", to = \"SELECT * FROM ?t ORDER BY id\" }",
    "rewrite = { from = \"INSERT INTO t (b) VALUES (?v)\", to = \"INSERT INTO t (b) VALUES (?v)\" }",
    "rewrite = { from = \"UPDATE t SET b = ?v WHERE id = ?i\", to = \"UPDATE t SET b = ?v WHERE id = ?i\" }",
    "class = \"other\"",
    "rate = { statements = 1000000, within = \"1s\" }",
    "rate = { statements = 1000000, within = \"1s\", per = \"digest\" }",
    "at_once = 1000",
    "statement_time = \"1h\"",
    "queue_timeout = \"1h\"",
    "connection = \"share\"",
    "retries = 0",
    "share_reads = \"on\"",
    "share_reads = \"off\"",
    "log = [\"slow\", \"audit\"]",
    "route = { role = \"writer\" }",
    "route = { role = \"writer\" }\nthen = \"next\"",
    "next = \"jump chain\"",
    "then = \"jump chain\"",
    "then = \"stop\"",
    // Copied and summed up, and then left out: it is the same cluster.
    "mirror = { cluster = \"main\" }",
    "mirror = { cluster = \"main\", writes = true, memory = \"64KiB\" }",
];

/// What the comment of a rule adds to a text. It shows in errors; see `compare`.
pub(super) const ADDED: &str = " /* rule=one */";

/// A comment stands where an error would show it, unless the first word is a good one.
const COMMENT: &str = "comment = \"rule=one\"\n\
    match.digest_matches = \"^(SELECT|INSERT|UPDATE|DELETE|REPLACE|CALL|DO|SHOW) \"";

/// What rules ask for, each answered by a part of all statements.
const CONDITIONS: &[&str] = &[
    "",
    "match.kind = \"read\"",
    "match.kind = [\"write\", \"transaction\"]",
    "match.in_transaction = true",
    "match.in_transaction = false",
    "match.digest_matches = \"[aeiou]$\"",
    "match.text_matches = \"[0-4]\"",
    "match.table = [\"t\", \"d%.k\"]",
    "match.share = 0.5",
    "match.user = [\"f0\", \"f2\"]",
    "match.not = { schema = \"d0\" }",
    "match.any = [{ kind = \"read\" }, { text_matches = \"b\" }]",
];

/// Rules of chance in front of a server.
pub struct ThroughRules {
    program: PathBuf,
    rules: String,
    running: Option<Flifo>,
}

impl ThroughRules {
    pub fn of(program: PathBuf, seed: u64) -> Self {
        Self { program, rules: rules(seed), running: None }
    }

    /// Sections of a configuration.
    pub fn rules(&self) -> &str {
        &self.rules
    }
}

impl Between for ThroughRules {
    fn door(&mut self, server: &Server, backends: u32) -> Door {
        // The one before is gone before the next one logs in.
        self.running = None;
        let started = server.flifo_with(&self.program, backends, "", &self.rules);
        server.door_of(self.running.insert(started))
    }
}

/// The same for the same seed.
pub fn rules(seed: u64) -> String {
    let mut chance = Chance::new(seed);
    let mut out = "[[classes]]\nname = \"other\"\nweight = 2\n".to_owned();
    for at in 0..4 + chance.below(12) {
        let _ = writeln!(out, "[[rules]]\nname = \"{at}\"");
        if chance.below(4) == 0 {
            out.push_str("label = \"chain\"\n");
        }
        let act = match chance.below(6) {
            0 => COMMENT.to_owned(),
            _ => format!("{}\n{}", chance.one_of(ACTS), chance.one_of(CONDITIONS)),
        };
        out.push_str(&act);
        out.push('\n');
    }
    // What jumps finds this one further down.
    out + "[[rules]]\nname = \"last\"\nlabel = \"chain\"\nnext = \"start\"\n"
}

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % bound
    }

    pub fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_chance_are_good_rules() {
        for seed in 0..200 {
            let text = format!("[server]\naddress = \"127.0.0.1:3306\"\n{}", rules(seed));
            assert!(proxy::config::parse(&text, "rules").is_ok(), "{text}");
        }
        assert_ne!(rules(1), rules(2));
    }
}
