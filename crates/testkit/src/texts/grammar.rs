//! Texts that are easily misread.

/// Makes texts by chance; the same ones for the same seed.
#[derive(Debug)]
pub(super) struct Grammar {
    random: u64,
}

/// What does something wherever an expression may stand.
const EXPRESSIONS: &[&str] = &[
    "GET_LOCK('h',0)",
    "@texts:=1",
    "LAST_INSERT_ID(7)",
    "last_insert_id()",
    "@@session . last_insert_id",
    "@@last_insert_id",
    "@@session/* a.b */./**/identity",
    "'k77k'",
    "(SELECT MAX(a) FROM secret)",
    "(SELECT MAX(a) FROM .secret)",
    "(SELECT MAX(a) FROM {oj secret LEFT JOIN plain ON 1=1})",
    "(SELECT MAX(a) FROM texts.`secret`)",
];

/// What may hide what stands behind it, or seem to.
const TRICKS: &[&[u8]] = &[
    b"/*!99999 ' */",
    b"/*!99999 \" */",
    b"/*!50701 ' */",
    b"/*!50701 1, */",
    b"/*!40101 1, */",
    b"/*!40101 ' */",
    b"/*M!100100 1, */",
    b"/*M!999999 ' */",
    b"/*m! ' */",
    b"/*! ' */",
    b"/*!99999 /* ' */ */",
    b"/*!100100 1, */",
    b"/*!999999 ` */",
    b"/*+ QB_NAME(`*/",
    b"/* ' */",
    b"--\x7f '\n",
    b"--\xa0 '\n",
    b"--\xff '\n",
    b"--\x80 '\n",
    b"--\x01 '\n",
    b"--x '\n",
    b"# '\n",
    b"-- `\n",
    b"'\xbf\\',",
    b"'\xbf\\'',",
    b"\"\xa1\\\",",
    b"'\x95\\',",
    b"'\xbf'',",
    b"'a\\',",
    b"'a\\'',",
    b"\"a\\\",",
    b"\"a\\\"\",",
    b"'it''s',",
    b"1 AS `\xbf`,",
    b"1 AS `a``b`,",
    b"1 AS \"a\",",
    b"1.,",
    b"1e0,",
    b".1,",
    b"\\N,",
    b"0x1F,",
    b"x'41',",
    b"N'a',",
    b"_latin1'a',",
    b"$$,",
    b"",
];

/// What a text may end with.
const TAILS: &[&[u8]] =
    &[b"", b"", b" -- '", b" -- \"", b" # `", b" /* ' */", b" -- `", b"/*' */", b";", b" -- ')"];

/// What may stand where a blank must.
const BLANKS: &[&[u8]] = &[
    b" ",
    b" ",
    b"\t",
    b"\n",
    b"/**/",
    b"\xa0",
    b"\xff",
    b"\x0b",
    b"/*!40101 */",
    b"/*!99999 */",
    b"--\x7f\n",
];

/// A number or a name that a word may stand behind without a blank.
const GLUED: &[&str] =
    &["1.", "1e0", "1e+5", ".1", "\\N", "1.5e3", "0x1 ", "'a'", "(1)", "@a", "1"];

const TABLES: &[&str] = &[
    "secret",
    ".secret",
    "{oj secret LEFT JOIN plain ON 1=1}",
    "`secret`",
    "\"secret\"",
    "texts.secret",
    "texts . secret",
    "plain value, secret",
    "plain FOR SYSTEM_TIME ALL, secret",
    "plain USE INDEX FOR ORDER BY (), secret",
    "texts.2024 x, secret",
    "plain JOIN secret",
    "(plain, secret)",
    "(SELECT a FROM secret) x",
];

/// What writes the table or changes rights: `~` stands for a blank.
const STATEMENTS: &[&str] = &[
    "DELETE~FROM~secret",
    "REPLACE~INTO~secret~VALUES(3)",
    "INSERT~secret~VALUES(3)",
    "INSERT~INTO~secret~SELECT~4",
    "UPDATE~secret~SET~a=a+1",
    "DELETE~secret~FROM~secret~JOIN~plain",
    "DELETE~FROM~secret~USING~secret~LEFT~JOIN~plain~ON~1=1",
    "GRANT~PROCESS~ON~*.*~TO~texts_u",
];

/// What a statement may be within: `#` stands for it, `$` for its text in quotes.
const WITHIN: &[&str] = &[
    "#",
    "#",
    "SELECT 1; #",
    "BEGIN NOT ATOMIC #; END",
    "IF 1 THEN #; END IF",
    "CASE WHEN 1 THEN #; END CASE",
    "FOR i IN 1..1 DO #; END FOR",
    "texts: LOOP #; LEAVE texts; END LOOP",
    "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION #; SIGNAL SQLSTATE '45000'; END",
    "SET STATEMENT max_statement_time=10 FOR #",
    "EXECUTE IMMEDIATE $",
    "PREPARE s FROM $; EXECUTE s",
    "EXECUTE IMMEDIATE CONCAT('', $)",
    "ANALYZE #",
    "ANALYZE FORMAT=JSON #",
    "/*!99999 SELECT 1; */ #",
    "/*!50701 SELECT */ #",
    "/*!40101 # */",
    "/*!100100 # */",
    "/*!99999 ' */ # -- '",
    "/*M!100100 # */",
    "SELECT 1 --\x7f '\n; # -- '",
    "SELECT 1 /*! ; # */",
];

impl Grammar {
    pub(super) const fn new(seed: u64) -> Self {
        Self { random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % n
    }

    pub(super) fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(super) fn text(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 | 1 => self.expressions(),
            2 => self.glued(),
            _ => self.statement(),
        }
    }

    /// A list of expressions with tricks between them, and one at least that does something.
    fn expressions(&mut self) -> Vec<u8> {
        let mut text = b"SELECT".to_vec();
        text.extend_from_slice(self.one_of(BLANKS));
        for _ in 0..=self.below(3) {
            text.extend_from_slice(self.one_of(TRICKS));
            text.push(b' ');
        }
        text.extend_from_slice(self.one_of(EXPRESSIONS).as_bytes());
        for _ in 0..self.below(3) {
            text.push(b',');
            text.extend_from_slice(self.one_of(TRICKS));
            text.extend_from_slice(self.one_of(EXPRESSIONS).as_bytes());
        }
        text.extend_from_slice(self.one_of(TAILS));
        text
    }

    /// A read whose `FROM` stands directly behind something.
    fn glued(&mut self) -> Vec<u8> {
        let mut text = b"SELECT ".to_vec();
        text.extend_from_slice(self.one_of(GLUED).as_bytes());
        if self.below(3) == 0 {
            text.extend_from_slice(self.one_of(BLANKS));
        }
        text.extend_from_slice(b"FROM");
        text.extend_from_slice(self.one_of(BLANKS));
        text.extend_from_slice(self.one_of(TABLES).as_bytes());
        text.extend_from_slice(self.one_of(TAILS));
        text
    }

    /// A statement that writes, perhaps within another one.
    fn statement(&mut self) -> Vec<u8> {
        let mut inner = Vec::new();
        for byte in self.one_of(STATEMENTS).bytes() {
            match byte {
                b'~' => inner.extend_from_slice(self.one_of(BLANKS)),
                byte => inner.push(byte),
            }
        }
        let mut text = Vec::new();
        for byte in self.one_of(WITHIN).bytes() {
            match byte {
                b'#' => text.extend_from_slice(&inner),
                b'$' => text.extend_from_slice(&self.quoted(&inner)),
                byte => text.push(byte),
            }
        }
        text.extend_from_slice(self.one_of(TAILS));
        text
    }

    /// A text as a string, whole, with an escape, or in two pieces.
    fn quoted(&mut self, inner: &[u8]) -> Vec<u8> {
        let (first, second) = inner.split_at(3.min(inner.len()));
        let between: &[u8] = match self.below(3) {
            0 => b"",
            1 => b"\\",
            _ => b"' '",
        };
        [b"'", first, between, second, b"'"].concat()
    }
}
