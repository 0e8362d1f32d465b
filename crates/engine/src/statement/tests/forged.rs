//! Statements that are made to be taken for others: with the digest of another one, or alike but for what rules read.

use super::*;

/// The multiplier of the digest's hash, and what undoes it.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn inverse() -> u64 {
    (0..6).fold(MULTIPLIER, |found, _| {
        found.wrapping_mul(2_u64.wrapping_sub(MULTIPLIER.wrapping_mul(found)))
    })
}

fn number(text: &str) -> u64 {
    Digest::of(Lexed::default().text(text.as_bytes(), Dialect::default())).hash()
}

/// A statement that reads another table, with the digest of this one: a name at its end makes up for all else.
fn forged(target: &str) -> String {
    let begins = (0..1 << 20).map(|at| format!("SELECT secret AS c{at} FROM vault AS "));
    let mut all = begins.filter_map(|begin| {
        let hash = (number(&begin).rotate_left(5) ^ 4).wrapping_mul(MULTIPLIER);
        let name = number(target).wrapping_mul(inverse()) ^ hash.rotate_left(5);
        let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'`';
        let name = name.to_le_bytes();
        name.iter()
            .all(is_name)
            .then(|| format!("{begin}`{}`", name.map(char::from).iter().collect::<String>()))
    });
    all.next().expect("one of so many")
}

const KNOWN: &str = "SELECT a FROM t WHERE id = 1";

fn lets_pass(condition: Condition) -> Vec<Rule> {
    let passes = Rule { then: Some(Then::Stop), ..rule("passes", vec![condition]) };
    vec![passes, refusing(rule("all others", vec![]))]
}

#[test]
fn a_digest_can_be_forged_and_no_decision() {
    let forged = forged(KNOWN);
    assert_eq!(number(&forged), number(KNOWN), "{forged}");
    let by_number = Condition::Digest(vec![DigestPattern::Number(number(KNOWN))]);
    for condition in
        [digest(KNOWN), by_number, table("t"), Condition::DigestMatches("from t".into())]
    {
        let shown = format!("{condition:?}");
        let mut judge = judge(&lets_pass(condition));
        let mut readings = Readings::default();
        for _ in 0..4 {
            let moment = Moment::default();
            assert_eq!(hit(&mut judge, &app(), KNOWN, &moment), [[0]], "{shown}");
            assert_eq!(hit(&mut judge, &app(), &forged, &moment), [[1]], "{shown}");
            let mut hit =
                |text: &str| hit_on_the_road(&mut judge, &mut readings, &app(), text, &moment);
            assert_eq!((hit(KNOWN), hit(&forged)), (vec![vec![0]], vec![vec![1]]), "{shown}");
        }
    }
}

#[test]
fn what_has_a_refused_number_is_refused_whichever_comes_first() {
    let (known, forged) = (KNOWN.to_owned(), forged(KNOWN));
    for first_and_second in [[&known, &forged], [&forged, &known]] {
        let condition = Condition::Digest(vec![DigestPattern::Number(number(KNOWN))]);
        let mut judge = judge(&[refusing(rule("it", vec![condition]))]);
        for text in first_and_second.iter().chain(&first_and_second) {
            assert_eq!(hit(&mut judge, &app(), text, &Moment::default()), [[0]], "{text}");
        }
    }
}

#[test]
fn a_number_means_what_it_meant_when_rules_are_read_again() {
    let condition = Condition::Digest(vec![DigestPattern::Number(number(KNOWN))]);
    let rules = lets_pass(condition);
    let first = Arc::new(Rules::new(&rules, None, Instant::now()).expect("good rules"));
    let moment = Moment::default();
    assert_eq!(hit(&mut Judge::new(Arc::clone(&first)), &app(), KNOWN, &moment), [[0]]);
    let again = Rules::new(&rules, Some(&first), Instant::now()).expect("good rules");
    let mut judge = Judge::new(Arc::new(again));
    assert_eq!(hit(&mut judge, &app(), &forged(KNOWN), &moment), [[1]]);
    assert_eq!(hit(&mut judge, &app(), KNOWN, &moment), [[0]]);
}

#[test]
fn what_rules_read_tells_statements_of_one_digest_apart() {
    // Under ANSI_QUOTES, what stands in double quotes is a name.
    let mut judge = judge(&[refusing(rule("it", vec![table("vault")]))]);
    for _ in 0..2 {
        for (text, is_hit) in [
            ("SELECT 1 FROM \"t\"", false),
            ("SELECT 1 FROM \"vault\"", true),
            ("SELECT 1 FROM \"t\", \"vault\"", true),
            ("SELECT 1 FROM t FOR SYSTEM_TIME AS OF '2026-01-01' vault", false),
            ("SELECT 1 FROM t, vault", true),
        ] {
            let found = hit(&mut judge, &app(), text, &Moment::default());
            assert_eq!(!found.is_empty(), is_hit, "{text}");
        }
    }
    // A comma behind a literal is part of no list if no literal follows.
    let mut judge = self::judge(&lets_pass(digest("SELECT 1 name FROM t")));
    for (text, hits) in [
        ("SELECT 1 name FROM t", [[0]]),
        ("SELECT 1, name FROM t", [[1]]),
        ("SELECT 1, 2 name FROM t", [[0]]),
    ] {
        assert_eq!(hit(&mut judge, &app(), text, &Moment::default()), hits, "{text}");
    }
}

#[test]
fn decisions_are_those_of_the_rules_in_force_and_bounded() {
    let mut readings = Readings::default();
    let moment = Moment::default();
    let users = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut refused = users;
    for _ in 0..3 {
        let rules: Vec<_> = refused.iter().map(|it| refusing(rule(it, vec![user(it)]))).collect();
        let mut judge = judge(&rules);
        for user in users.iter().chain(&["other"]).cycle().take(80) {
            let session = SessionFacts { user: user.as_bytes(), ..app() };
            let wanted: Vec<Vec<usize>> =
                refused.iter().position(|it| it == user).map(|at| vec![at]).into_iter().collect();
            let found = hit_on_the_road(&mut judge, &mut readings, &session, "SELECT 1", &moment);
            assert_eq!(found, wanted, "{user}");
        }
        refused.rotate_left(3);
    }
}
