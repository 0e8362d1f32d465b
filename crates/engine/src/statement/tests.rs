//! Rules as a whole: what is hit, what is remembered, and what is not.

mod forged;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use wire::lex::Dialect;
use wire::text::Lexed;

use super::judge::{Judge, Ruling};
use super::kind::StatementKind;
use super::part::parts;
use super::reading::{LOOKED_THROUGH_MAX, comparable};
use super::rule::*;
use super::rules::{Moment, Rules, SessionFacts, expression};
use super::template::Template;
use super::window::{TimeWindow, WeekMinute};
use crate::form_notes::FormNotes;
use crate::intent::{Digest, Readings};
use wire::like::{NameCase, NamePattern};

fn name(text: &str) -> Vec<NamePattern> {
    vec![NamePattern::new(text, NameCase::Counts)]
}

fn user(text: &str) -> Condition {
    Condition::User(name(text))
}

fn table(text: &str) -> Condition {
    let pattern = |text: &str| NamePattern::new(text, NameCase::Ignored);
    let (schema, table) = match text.split_once('.') {
        Some((schema, table)) => (Some(pattern(schema)), pattern(table)),
        None => (None, pattern(text)),
    };
    Condition::Table(vec![TablePattern { schema, table }])
}

fn digest(text: &str) -> Condition {
    let lexed = Lexed::default();
    let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
    let text = String::from_utf8(comparable(&parts[0])).expect("UTF-8");
    Condition::Digest(vec![DigestPattern::Text(text)])
}

fn rule(name: &str, conditions: Vec<Condition>) -> Rule {
    Rule { name: name.to_owned(), conditions, ..Rule::default() }
}

fn refusing(rule: Rule) -> Rule {
    let refusal = RuleRefusal { number: 1227, state: *b"42000", message: "no".to_owned() };
    Rule { acts: RuleActs { refuse: Some(refusal), ..rule.acts }, ..rule }
}

fn judge(rules: &[Rule]) -> Judge {
    Judge::new(Arc::new(Rules::new(rules, None, Instant::now()).expect("good rules")))
}

fn app() -> SessionFacts<'static> {
    SessionFacts {
        user: b"app",
        schema: Some(b"shop"),
        address: "10.0.0.7".parse().ok(),
        listener: b"127.0.0.1:6033",
        program: b"mysqldump",
    }
}

/// The places of the rules that a text hits, of each statement.
fn hit(
    judge: &mut Judge,
    session: &SessionFacts<'_>,
    text: &str,
    moment: &Moment<'_>,
) -> Vec<Vec<usize>> {
    let lexed = Lexed::default();
    let text = lexed.text(text.as_bytes(), Dialect::default());
    places(judge.judge(session, Digest::of(text), Some(text), moment))
}

fn places(ruling: Ruling) -> Vec<Vec<usize>> {
    match ruling {
        Ruling::Silent => Vec::new(),
        Ruling::One(hit) => vec![hit.to_vec()],
        Ruling::Several(hit) => hit.iter().map(|hit| hit.to_vec()).collect(),
        Ruling::Long => panic!("these texts are short"),
    }
}

/// The same, as a worker finds it: what it remembers of a text bears what rules have said of that.
fn hit_on_the_road(
    judge: &mut Judge,
    readings: &mut Readings<Rc<FormNotes>>,
    session: &SessionFacts<'_>,
    text: &str,
    moment: &Moment<'_>,
) -> Vec<Vec<usize>> {
    let lexed = Lexed::default();
    let text = lexed.text(text.as_bytes(), Dialect::default());
    let (intent, notes) = readings.read_noted(text);
    let decisions = notes.as_ref().map(|notes| &notes.decisions);
    let view = judge.view(session);
    assert!(judge.knows(view));
    let is_silent = decisions.is_some_and(|it| it.are_silent(view));
    let ruling = judge.judge_in(view, intent.digest, Some(text), decisions, moment);
    assert!(!is_silent || moment.label.is_some() || ruling == Ruling::Silent);
    places(ruling)
}

#[test]
fn conditions_match_what_they_name() {
    let night = Moment {
        local: WeekMinute(60),
        utc: WeekMinute(13 * 60),
        in_transaction: true,
        cluster: Some("archive"),
        role: RuleRole::Reader,
        label: None,
        ..Moment::default()
    };
    let window = |text| Condition::Time(vec![TimeWindow::read(text).expect("a time")]);
    let network = RuleNetwork { address: "10.0.0.0".parse().expect("an address"), bits: 8 };
    for (condition, text, is) in [
        (user("app"), "SELECT 1", true),
        (user("a%"), "SELECT 1", true),
        (user("report"), "SELECT 1", false),
        (Condition::Schema(name("shop")), "SELECT 1", true),
        (Condition::Address(vec![network]), "SELECT 1", true),
        (Condition::Listener(name("%:6033")), "SELECT 1", true),
        (Condition::Listener(name("%:3306")), "SELECT 1", false),
        (Condition::Program(name("mysqldump")), "SELECT 1", true),
        (Condition::Program(name("%")), "SELECT 1", true),
        (Condition::Program(name("mysql")), "SELECT 1", false),
        (Condition::Cluster(name("arch%")), "SELECT 1", true),
        (Condition::Cluster(name("shop")), "SELECT 1", false),
        (Condition::Role(vec![RuleRole::Reader]), "SELECT 1", true),
        (Condition::Role(vec![RuleRole::Writer]), "SELECT 1", false),
        (Condition::Kind(vec![StatementKind::Read]), "SELECT 1", true),
        (Condition::Kind(vec![StatementKind::Read]), "DELETE FROM t", false),
        (table("orders"), "SELECT * FROM orders", true),
        (table("shop.orders"), "SELECT * FROM orders", true),
        (table("shop.orders"), "SELECT * FROM shop.ORDERS", true),
        (table("shop.orders"), "SELECT * FROM other.orders", false),
        (table("orders"), "SELECT 'FROM orders'", false),
        (digest("SELECT ? FROM t WHERE x = ?"), "select 7 from t  where x='a'", true),
        (digest("SELECT ? FROM t WHERE x = ?"), "SELECT ? FROM t WHERE x = ?", true),
        (digest("SELECT ? FROM t WHERE x = ?"), "SELECT 1 FROM t WHERE x = 1 OR 1", false),
        (digest("SELECT a FROM t WHERE x IN (1, 2)"), "SELECT a FROM t WHERE x IN (?)", true),
        (
            Condition::DigestMatches("^select .* for update$".into()),
            "SELECT a FROM t FOR UPDATE",
            true,
        ),
        (Condition::DigestMatches("secret".into()), "SELECT 'secret'", false),
        (Condition::DigestMatches("secret".into()), "SELECT @secret", false),
        (digest("SELECT @a"), "SELECT @b", true),
        (Condition::TextMatches("secret".into()), "SELECT 'secret'", true),
        (Condition::TextMatches("^select".into()), " SELECT 1", true),
        (Condition::Tag("app".into(), name("bill%")), "SELECT 1 /* app='billing' */", true),
        (Condition::Tag("app".into(), name("bill%")), "SELECT 1", false),
        (Condition::InTransaction(true), "SELECT 1", true),
        (Condition::InTransaction(false), "SELECT 1", false),
        (window("mon 00:00-06:00"), "SELECT 1", true),
        (window("00:00-06:00 UTC"), "SELECT 1", false),
        (Condition::Not(vec![user("app"), table("t")]), "SELECT 1 FROM t", false),
        (Condition::Not(vec![user("app"), table("t")]), "SELECT 1", true),
        (Condition::Any(vec![vec![user("x")], vec![table("t")]]), "SELECT 1 FROM t", true),
        (Condition::All(vec![vec![user("app")], vec![table("t")]]), "SELECT 1", false),
    ] {
        let shown = format!("{condition:?} {text}");
        let mut judge = judge(&[rule("it", vec![condition])]);
        for _ in 0..2 {
            assert_eq!(hit(&mut judge, &app(), text, &night) == [[0]], is, "{shown}");
        }
    }
}

#[test]
fn what_a_rule_rewrites_it_matches() {
    let template = Template::read("SELECT ?a FROM t WHERE x = ?b", "SELECT ?a FROM u WHERE x = ?b");
    let mut rewriting = rule("it", vec![]);
    rewriting.acts.rewrite = Some(template.expect("a template"));
    let mut judge = judge(&[rewriting]);
    let moment = Moment::default();
    for _ in 0..2 {
        assert_eq!(hit(&mut judge, &app(), "SELECT a FROM t WHERE x = 1", &moment), [[0]]);
        // Of the same digest, and not of the form.
        assert!(hit(&mut judge, &app(), "SELECT a FROM t WHERE x = 1, 2", &moment).is_empty());
        assert!(hit(&mut judge, &app(), "SELECT a FROM v WHERE x = 1", &moment).is_empty());
    }
}

#[test]
fn a_digest_is_named_by_its_number_as_well() {
    let lexed = Lexed::default();
    let number = Digest::of(lexed.text(b"SELECT 1", Dialect::default())).hash();
    let mut judge =
        judge(&[rule("it", vec![Condition::Digest(vec![DigestPattern::Number(number)])])]);
    assert_eq!(hit(&mut judge, &app(), "SELECT 7", &Moment::default()), [[0]]);
    assert!(hit(&mut judge, &app(), "SELECT 7, 8, a", &Moment::default()).is_empty());
}

#[test]
fn rules_are_gone_through_once_as_they_say() {
    let mut rules =
        ["any", "jumps", "skipped", "labelled", "stops", "behind"].map(|it| rule(it, vec![]));
    rules[1].conditions = vec![table("t")];
    rules[1].then = Some(Then::Jump("there".to_owned()));
    rules[3].label = Some("there".to_owned());
    rules[4].label = Some("there".to_owned());
    rules[4].then = Some(Then::Stop);
    rules[5].label = Some("there".to_owned());
    let mut judge = judge(&rules);
    let moment = Moment::default();
    assert_eq!(hit(&mut judge, &app(), "SELECT 1", &moment), [[0, 2]]);
    assert_eq!(hit(&mut judge, &app(), "SELECT 1 FROM t", &moment), [[0, 1, 3, 4]]);
    rules[0] = refusing(rules[0].clone());
    let mut judge = self::judge(&rules);
    assert_eq!(hit(&mut judge, &app(), "SELECT 1 FROM t", &moment), [[0]], "a refusal ends it");
    rules[0].off = true;
    let mut judge = self::judge(&rules);
    assert_eq!(hit(&mut judge, &app(), "SELECT 1", &moment), [[2]]);
}

#[test]
fn a_decision_is_not_remembered_for_another_spelling() {
    let expression = |text: &str| vec![Condition::DigestMatches(text.to_owned())];
    let mut judge =
        judge(&[rule("close", expression("x=\\?")), rule("apart", expression("x = \\?"))]);
    for _ in 0..2 {
        for (text, hits) in [
            ("SELECT 1 FROM t WHERE x=7", vec![0]),
            ("SELECT 1 FROM t WHERE x = 7", vec![1]),
            ("SELECT 1 FROM t WHERE x /* c */ = 7", vec![1]),
            (" SELECT  1 FROM t WHERE x=7 ", vec![0]),
        ] {
            assert_eq!(hit(&mut judge, &app(), text, &Moment::default()), [hits], "{text}");
        }
        assert!(
            hit(&mut judge, &app(), "SELECT 1 FROM t WHERE x= 7", &Moment::default()).is_empty()
        );
    }
}

#[test]
fn rules_begin_at_the_label_that_earlier_statements_have_left() {
    let labelled =
        |name: &str, label: &str| Rule { label: Some(label.to_owned()), ..rule(name, vec![]) };
    let jumps = Rule { then: Some(Then::Jump("y".to_owned())), ..labelled("jumps", "x") };
    let mut judge = judge(&[rule("start", vec![]), jumps, labelled("x", "x"), labelled("y", "y")]);
    let at = |label| Moment { label, ..Moment::default() };
    for _ in 0..2 {
        for (label, text, hits) in [
            (None, "SELECT 1", vec![0]),
            (Some("x"), "SELECT 1", vec![1, 3]),
            (Some("y"), "SELECT 1", vec![3]),
            (Some("gone"), "SELECT 1", vec![0]),
            (Some("y"), "SELECT 1; SELECT 2", vec![3]),
        ] {
            let found = hit(&mut judge, &app(), text, &at(label));
            assert!(found.iter().all(|it| *it == hits), "{label:?} {text}: {found:?}");
        }
    }
}

#[test]
fn a_share_is_the_same_number_of_so_many() {
    let mut shared = rule("some", vec![]);
    shared.share = Some(0.01);
    let mut judge = judge(&[shared]);
    let hits = |judge: &mut Judge| {
        (0..1000).filter(|_| !hit(judge, &app(), "SELECT 1", &Moment::default()).is_empty()).count()
    };
    assert_eq!((hits(&mut judge), hits(&mut judge)), (10, 10));
}

#[test]
fn each_statement_of_a_text_is_judged() {
    let mut judge = judge(&[rule("t", vec![table("t")]), refusing(rule("u", vec![table("u")]))]);
    let moment = Moment::default();
    assert!(hit(&mut judge, &app(), "SELECT 1; SELECT 2", &moment).is_empty());
    let found = hit(&mut judge, &app(), "SELECT 1 FROM t; SELECT ';'; DROP TABLE u", &moment);
    assert_eq!(found, [vec![0], vec![], vec![1]]);
}

#[test]
fn what_cannot_be_read_is_refused_by_rules_that_refuse() {
    let refuses = refusing(rule("refuses", vec![user("app"), table("t")]));
    let mut judge = judge(&[rule("routes", vec![table("t")]), refuses]);
    let moment = Moment::default();
    assert_eq!(hit(&mut judge, &app(), "SELECT 'a", &moment), [[1]]);
    let other = SessionFacts { user: b"other", ..app() };
    assert!(hit(&mut judge, &other, "SELECT 'a", &moment).is_empty());
    let lexed = Lexed::default();
    let digest = Digest::of(lexed.text(b"SELECT 1", Dialect::default()));
    assert_eq!(judge.judge(&app(), digest, None, &moment), Ruling::One([1].into()));
}

#[test]
fn counts_stay_with_the_name_of_a_rule() {
    let start = Instant::now();
    let first =
        Rules::new(&[rule("a", vec![]), rule("b", vec![])], None, start).expect("good rules");
    let ready = first.get(1).expect("b");
    first.count_hit(ready, start + Duration::from_secs(5));
    ready.counts.add_time(Duration::from_micros(7));
    let second = Rules::new(
        &[rule("b", vec![]), rule("c", vec![])],
        Some(&first),
        start + Duration::from_secs(9),
    );
    let second = second.expect("good rules");
    let (kept, new) = (second.get(0).expect("b"), second.get(1).expect("c"));
    assert_eq!((kept.counts.hits(), kept.counts.micros()), (1, 7));
    assert_eq!(second.last_hit(kept), Some(start + Duration::from_secs(5)));
    assert_eq!((new.counts.hits(), second.last_hit(new)), (0, None));
}

#[test]
fn what_is_found_in_a_long_text_elsewhere_is_what_would_be_found_here() {
    let matches = |text: &str| Condition::TextMatches(text.to_owned());
    let rules = [
        refusing(rule("a", vec![matches("^delete.*secret$")])),
        rule("b", vec![matches("x{5}")]),
        rule("c", vec![user("nobody"), matches("update")]),
    ];
    let filler = "x".repeat(LOOKED_THROUGH_MAX);
    for (text, hit) in [
        (format!("SELECT '{filler}'"), vec![vec![1]]),
        (format!("DELETE FROM t WHERE a = '{filler}' OR secret"), vec![vec![0]]),
        (
            format!("SELECT 1; UPDATE t SET a = '{filler}'; DELETE FROM secret"),
            vec![vec![], vec![1], vec![0]],
        ),
        (format!("SELECT '{filler}"), vec![vec![0]]),
    ] {
        let mut judge = judge(&rules);
        let lexed = Lexed::default();
        let text = lexed.text(text.as_bytes(), Dialect::default());
        let digest = Digest::of(text);
        let is_read = parts(text).is_some();
        let first = judge.judge(&app(), digest, Some(text), &Moment::default());
        assert_eq!(first == Ruling::Long, is_read);
        let found = judge.rules().look_through(text);
        let moment = Moment { found: Some(&found), ..Moment::default() };
        assert_eq!(places(judge.judge(&app(), digest, Some(text), &moment)), hit);
    }
    // Of a session that no expression can hit, nothing is looked for.
    let mut judge = judge(&rules[2..]);
    let text = format!("UPDATE t SET a = '{filler}'");
    assert_eq!(hit(&mut judge, &app(), &text, &Moment::default()), Vec::<Vec<usize>>::new());
}

#[test]
fn expressions_are_bounded() {
    for (text, why) in [
        ("(", "is no regular expression"),
        ("(a{1000}){1000}", "bytes when it is compiled"),
        (r"(a)\1", "is no regular expression"),
    ] {
        let error = expression(text).expect_err(text);
        assert!(error.contains(why) && !error.contains('\n'), "{text}: {error}");
    }
    // Linear, whatever the text.
    assert!(!expression("(a*)*b").expect("an expression").is_match(&[b'a'; 100_000]));
    // A byte that is no UTF-8 hides nothing.
    assert!(
        expression("^select.*update$")
            .expect("an expression")
            .is_match(b"SELECT \xff\n FOR UPDATE")
    );
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["app", "report", "%"]).prop_map(user),
        prop::sample::select(vec!["t", "u", "shop.t"]).prop_map(table),
        prop::sample::select(vec!["SELECT ? FROM t", "DELETE FROM u"]).prop_map(digest),
        Just(Condition::Kind(vec![StatementKind::Read])),
        prop::sample::select(vec!["from t", "^DELETE", "[0-9]", "x=\\?", "x = \\?$"])
            .prop_map(|it| Condition::DigestMatches(it.to_owned())),
        prop::sample::select(vec!["from t", "7"])
            .prop_map(|it| Condition::TextMatches(it.to_owned())),
        any::<bool>().prop_map(Condition::InTransaction),
        Just(Condition::Schema(name("shop"))),
        Just(Condition::Program(name("mysql%"))),
        Just(Condition::Role(vec![RuleRole::Reader])),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            list().prop_map(Condition::Not),
            prop::collection::vec(list(), 0..3).prop_map(Condition::Any),
            prop::collection::vec(list(), 0..3).prop_map(Condition::All),
        ]
    })
}

proptest! {
    /// What is remembered says the same as what is asked anew, in any order of sessions, statements and moments.
    #[test]
    fn memory_changes_no_answer(
        all in prop::collection::vec((prop::collection::vec(any_condition(), 0..3), 0..5_usize, 0..3_usize), 1..6),
        asked in prop::collection::vec((0..2_usize, 0..2_usize, 0..16_usize, any::<bool>()), 1..48),
    ) {
        let rules: Vec<_> = all.iter().enumerate().map(|(at, (conditions, then, label))| {
            let rule = Rule {
                label: [None, Some("x".to_owned()), None][*label].clone(),
                then: [None, Some(Then::Next), Some(Then::Stop), Some(Then::Jump("x".to_owned())), None][*then].clone(),
                ..rule(&at.to_string(), conditions.clone())
            };
            if *then == 4 { refusing(rule) } else { rule }
        }).collect();
        let (mut judge, mut on_the_road) = (judge(&rules), judge(&rules));
        let mut readings = Readings::default();
        let texts = [
            "SELECT 1 FROM t", "select 7 from shop.t", "DELETE FROM u", "SELECT 2", "SELECT 'from t'",
            "SELECT 1 FROM t; DELETE FROM u", "SELECT 'no end", "", "SELECT 1 FROM t WHERE x=7", "SELECT 1 FROM t WHERE x = 7",
            "SELECT 1 FROM t WHERE x /**/ =7", "select 1 from t where x=8", "SELECT 1 FROM \"t\"", "SELECT 1 FROM \"u\"",
            "SELECT 1 u FROM v", "SELECT 1, u FROM v",
        ];
        for (user, schema, text, in_transaction) in asked {
            let session = SessionFacts {
                user: [&b"app"[..], b"report"][user],
                schema: [None, Some(&b"shop"[..])][schema],
                program: [&b"psql"[..], b"mysqldump"][schema],
                ..SessionFacts::default()
            };
            let moment = Moment { in_transaction, ..Moment::default() };
            let lexed = Lexed::default();
            let explained = judge.rules().explain(&session, lexed.text(texts[text].as_bytes(), Dialect::default()), &moment);
            let mut wanted: Vec<Vec<usize>> = explained.iter().map(|it| {
                (0..it.whys.len()).filter(|at| it.whys[*at].is_hit()).collect()
            }).collect();
            if wanted.iter().all(Vec::is_empty) {
                wanted.clear();
            }
            let found = hit_on_the_road(&mut on_the_road, &mut readings, &session, texts[text], &moment);
            prop_assert_eq!(&found, &wanted);
            prop_assert_eq!(hit(&mut judge, &session, texts[text], &moment), wanted);
        }
    }
}

#[test]
fn shares_of_what_runs_and_of_what_is_prepared_are_taken_apart() {
    let rule = Rule { name: "a".to_owned(), share: Some(0.5), ..Rule::default() };
    let rules = Arc::new(Rules::new(&[rule], None, Instant::now()).expect("rules"));
    let mut judge = Judge::new(Arc::clone(&rules));
    let lexed = Lexed::default();
    let text = lexed.text(b"SELECT 1", Dialect::default());
    let mut is_hit = |is_prepared| {
        let moment = Moment { is_prepared, ..Moment::default() };
        let digest = Digest::of(text);
        judge.judge(&SessionFacts::default(), digest, Some(text), &moment) != Ruling::Silent
    };
    // A client that prepares each statement and executes it once.
    let hits: Vec<_> = (0..4).map(|_| (is_hit(true), is_hit(false))).collect();
    assert_eq!(hits, [(false, false), (true, true), (false, false), (true, true)]);
}

#[test]
fn what_a_mirror_has_done_stays_while_it_leads_into_the_same_cluster() {
    let rule = |name: &str, cluster: &str, off| {
        let mut rule = Rule { name: name.to_owned(), off, ..Rule::default() };
        rule.acts.mirror = Some(RuleMirror::into(cluster.to_owned()));
        rule
    };
    let now = Instant::now();
    let all =
        |rules: &[Rule], earlier: Option<&Rules>| Rules::new(rules, earlier, now).expect("rules");
    let before = all(
        &[
            rule("a", "x", false),
            rule("b", "x", false),
            rule("c", "x", false),
            rule("d", "x", true),
        ],
        None,
    );
    let state = |rules: &Rules, at: usize| rules.get(at).and_then(|it| it.mirror.clone());
    assert!(state(&before, 3).is_none(), "it is not enabled");
    let mut wider = rule("a", "x", false);
    wider.acts.mirror.as_mut().expect("a mirror").at_once = 9;
    let after = all(&[wider, rule("b", "y", false), Rule::default()], Some(&before));
    let is_same = |at: usize| match (state(&before, at), state(&after, at)) {
        (Some(one), Some(other)) => Arc::ptr_eq(&one, &other),
        _ => false,
    };
    assert_eq!((is_same(0), is_same(1)), (true, false));
    assert_eq!(before.mirrors_beyond(&after).count(), 2);
    assert_eq!(after.mirrors_beyond(&before).count(), 1);
}
