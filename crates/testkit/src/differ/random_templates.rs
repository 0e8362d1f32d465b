//! Templates made by chance, statements that fit them, and what must become of these: the reference puts the values into
//! the other form's text, without reading anything.

use std::fmt::Write;
use std::path::Path;

use backend::Address;
use bench::private_server::PrivateServer;
use wire::Capabilities;

use super::random_rules::Chance;
use crate::client::Client;
use crate::flifo::Flifo;

/// A template, as a rule has it.
#[derive(Clone, Debug)]
pub struct RandomTemplate {
    pub from: String,
    pub to: String,
    holes: Vec<Hole>,
    from_pieces: Vec<Piece>,
    to_pieces: Vec<Piece>,
}

/// A statement of the one form, and the same statement in the other form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub statement: String,
    pub reference: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    Value,
    Number,
    Column,
    Several,
}

#[derive(Clone, Debug)]
enum Piece {
    Token(String),
    Hole(usize),
}

const COLUMNS: &[&str] = &["id", "a", "s"];
const OPERATORS: &[&str] = &["=", "<", "<>", ">=", "LIKE"];

/// Literals that a careless reader would misread.
const VALUES: &[&str] = &[
    "1",
    "0",
    "-7",
    "+3",
    "2.5",
    "1e3",
    "'x'",
    "'it''s'",
    "'it\\'s'",
    "\"double\"",
    "\"it's\"",
    "'?a'",
    "'-- '",
    "'/* '",
    "'*/'",
    "';'",
    "'FROM t'",
    "'\\\\'",
    "''",
    "'ü'",
    "x'41'",
    "0x41",
    "_utf8mb4'u'",
    "'a' 'b'",
    "NULL",
    "TRUE",
    "id",
    "`a`",
    "@v",
    "@@sql_mode",
];

/// What may stand between two tokens.
const GAPS: &[&str] =
    &[" ", "  ", "\n", "\t ", " /* ?h0 */ ", " /* 'open */ ", " -- \"open\n", " # ?\n"];

impl RandomTemplate {
    /// The template of this number, which no other one's statements fit.
    pub fn new(chance: &mut Chance, number: usize) -> Self {
        let mut made = Self {
            from: String::new(),
            to: String::new(),
            holes: Vec::new(),
            from_pieces: Vec::new(),
            to_pieces: Vec::new(),
        };
        let token = |text: &str| Piece::Token(text.to_owned());
        let mut columns: Vec<Vec<Piece>> = Vec::new();
        for _ in 0..1 + chance.below(3) {
            columns.push(match chance.below(3) {
                0 => vec![token(chance.one_of(COLUMNS))],
                1 => vec![made.hole(Hole::Column)],
                _ => vec![made.hole(Hole::Value)],
            });
        }
        let mut conditions =
            vec![vec![token(&number.to_string()), token("="), token(&number.to_string())]];
        for _ in 0..1 + chance.below(3) {
            let column = token(chance.one_of(COLUMNS));
            conditions.push(match chance.below(4) {
                0 => {
                    let list = made.hole(Hole::Several);
                    vec![column, token("IN"), token("("), list, token(")")]
                }
                1 => {
                    let (low, high) = (made.hole(Hole::Number), made.hole(Hole::Value));
                    vec![column, token("BETWEEN"), low, token("AND"), high]
                }
                _ => vec![column, token(chance.one_of(OPERATORS)), made.hole(Hole::Value)],
            });
        }
        made.from_pieces = statement("t", &columns, &conditions);
        columns.reverse();
        let turn = chance.below(conditions.len());
        conditions.rotate_left(turn);
        if chance.below(2) == 0 {
            conditions.push(vec![token("'?x'"), token("="), token("'?x'")]);
        }
        made.to_pieces = statement("u", &columns, &conditions);
        made.from = made.form(&made.from_pieces);
        made.to = made.form(&made.to_pieces);
        made
    }

    fn hole(&mut self, hole: Hole) -> Piece {
        self.holes.push(hole);
        Piece::Hole(self.holes.len() - 1)
    }

    /// A form with its holes.
    fn form(&self, pieces: &[Piece]) -> String {
        let shown = |piece: &Piece| match piece {
            Piece::Token(text) => text.clone(),
            Piece::Hole(at) if self.holes[*at] == Hole::Several => format!("?h{at}..."),
            Piece::Hole(at) => format!("?h{at}"),
        };
        pieces.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// A statement of the one form.
    pub fn sample(&self, chance: &mut Chance) -> Sample {
        let values: Vec<String> = self
            .holes
            .iter()
            .map(|hole| match hole {
                Hole::Value => chance.one_of(VALUES).to_owned(),
                Hole::Number => chance.below(1000).to_string(),
                Hole::Column => chance.one_of(COLUMNS).to_owned(),
                Hole::Several => {
                    let count = 1 + chance.below(4);
                    let all: Vec<_> = (0..count).map(|_| chance.one_of(VALUES)).collect();
                    all.join([", ", ","][chance.below(2)])
                }
            })
            .collect();
        let text = |piece: &Piece| match piece {
            Piece::Token(text) => text.clone(),
            Piece::Hole(at) => values[*at].clone(),
        };
        let mut written = String::new();
        for (at, piece) in self.from_pieces.iter().enumerate() {
            if at > 0 {
                written.push_str(chance.one_of(GAPS));
            }
            let is_word = matches!(piece, Piece::Token(text) if text.bytes().all(|it| it.is_ascii_alphabetic()));
            match text(piece) {
                text if is_word && chance.below(2) == 0 => written.push_str(&text.to_lowercase()),
                text => written.push_str(&text),
            }
        }
        let reference: Vec<_> = self.to_pieces.iter().map(text).collect();
        Sample { statement: written, reference: reference.join(" ") }
    }

    /// A rule of a configuration.
    pub fn rule(&self, name: usize) -> String {
        let quoted = |text: &str| format!("'''{text}'''");
        let mut out = format!("[[rules]]\nname = \"{name}\"\n");
        let (from, to) = (quoted(&self.from), quoted(&self.to));
        let _ = writeln!(out, "rewrite = {{ from = {from}, to = {to} }}");
        out
    }
}

/// The tables that templates read.
const TABLES: &str = "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, a INT, s VARCHAR(20)); \
    CREATE TABLE IF NOT EXISTS u LIKE t; REPLACE INTO u VALUES (1, 10, 'x'), (2, -7, \"it's\"), (3, NULL, '?a'), \
    (4, 2, ''), (5, 1000, 'FROM t'), (6, 0, 'ab')";

/// What came of comparing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub statements: usize,
    pub rows: usize,
}

/// Sends statements through a Flifo with templates of chance, and the references directly. An error shows the first pair
/// whose replies differ.
pub fn compare(
    server: &PrivateServer,
    program: &Path,
    chance: &mut Chance,
    (templates, samples): (usize, usize),
) -> Result<Compared, String> {
    server.sql(TABLES).map_err(|error| error.to_string())?;
    let made: Vec<_> = (0..templates).map(|at| RandomTemplate::new(chance, 7000 + at)).collect();
    let rules: String = made.iter().enumerate().map(|(at, it)| it.rule(at)).collect();
    let flifo = Flifo::start_program(
        program,
        &format!(
            "workers = 1\n[server]\naddress = {:?}\n[[users]]\nname = {:?}\npassword = {:?}\n{rules}",
            server.socket(),
            PrivateServer::USER,
            server.password()
        ),
    );
    let connect = |address| {
        let builder = Client::builder(address, PrivateServer::USER, server.password());
        let builder = builder.schema(PrivateServer::DATABASE).with(Capabilities::MULTI_RESULTS);
        let mut client = builder.connect().expect("a login");
        client.query("SET @v = 2").expect("a variable");
        client
    };
    let mut direct = connect(Address::Unix(server.socket()));
    let through = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let (mut through, mut compared) = (connect(through), Compared::default());
    for template in &made {
        for _ in 0..samples {
            let Sample { statement, reference } = template.sample(chance);
            let [is, wanted] = [(&mut through, &statement), (&mut direct, &reference)]
                .map(|(client, text)| client.query(text).map_err(|problem| problem.to_string()));
            if is != wanted {
                let rule = template.rule(0);
                return Err(format!("{rule}\n{statement}\n{is:?}\n\n{reference}\n{wanted:?}"));
            }
            compared.statements += 1;
            compared.rows += is.map_or(0, |rows| rows.len());
        }
    }
    Ok(compared)
}

fn statement(table: &str, columns: &[Vec<Piece>], conditions: &[Vec<Piece>]) -> Vec<Piece> {
    let token = |text: &str| Piece::Token(text.to_owned());
    let mut pieces = vec![token("SELECT")];
    for (at, column) in columns.iter().enumerate() {
        pieces.extend((at > 0).then(|| token(",")));
        pieces.extend(column.iter().cloned());
    }
    pieces.extend([token("FROM"), token(table), token("WHERE")]);
    for (at, condition) in conditions.iter().enumerate() {
        pieces.extend((at > 0).then(|| token("AND")));
        pieces.extend(condition.iter().cloned());
    }
    pieces.extend(["ORDER", "BY", "id"].map(token));
    pieces
}

#[cfg(test)]
mod tests {
    use engine::statement::part::parts;
    use engine::statement::template::Template;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    use super::*;

    #[test]
    fn templates_make_what_the_reference_makes() {
        let mut chance = Chance::new(1);
        for number in 0..2000 {
            let made = RandomTemplate::new(&mut chance, number);
            let template = Template::read(&made.from, &made.to).expect("a template");
            for _ in 0..50 {
                let Sample { statement, reference } = made.sample(&mut chance);
                let lexed = Lexed::default();
                let parts = parts(lexed.text(statement.as_bytes(), Dialect::default()));
                let parts = parts.unwrap_or_else(|| panic!("{statement}"));
                assert_eq!(parts.len(), 1, "{statement}");
                let out = template.apply(&parts[0]).expect("in order");
                let out = out.unwrap_or_else(|| panic!("{}\n{statement}", made.from));
                assert_eq!(String::from_utf8_lossy(&out), reference, "{}\n{statement}", made.from);
            }
        }
    }
}
