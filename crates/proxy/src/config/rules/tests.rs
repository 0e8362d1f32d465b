//! Rules in files: what is wrong is told with its place, and what is right means what it says.

use std::time::Duration;

use engine::statement::rule::{
    RatePer, RuleAnswer, RuleConnection, RuleLog, RuleRole, RuleRoute, RuleTarget, Then,
};

use crate::config::parse;

mod proxysql;

/// Line, column and message of each mistake in a rule, whose first line is the second of the file.
fn wrong(rule: &str) -> Vec<String> {
    let text = format!("[[rules]]\n{rule}");
    let problems = parse(&text, "f").expect_err(rule);
    problems.iter().map(ToString::to_string).collect()
}

/// A rule, and what is told of it.
const MISTAKES: &[(&str, &str)] = &[
    ("refuse = true", "f:1:1: rules.name: a rule needs a name"),
    ("name = 7", "f:2:8: rules.name: this must be a text"),
    (
        "name = 'a'\nrefsue = true",
        "f:3:1: rules.refsue: there is no such option; did you mean refuse?",
    ),
    ("name = 'a'\nmatch = 7", "f:3:9: rules.match: this must be a table: { ... }"),
    (
        "name = 'a'\nmatch.usr = 'x'",
        "f:3:7: rules.match.usr: there is no such option; did you mean user?",
    ),
    ("name = 'a'\nmatch.user = ['x', 7]", "f:3:20: rules.match.user: this must be a text"),
    ("name = 'a'\nmatch.user = []", "f:3:14: rules.match.user: an empty list matches nothing"),
    ("name = 'a'\nmatch.address = '10.0.0.0/40'", "f:3:17: rules.match.address:"),
    ("name = 'a'\nmatch.kind = 'reads'", "f:3:14: rules.match.kind: \"reads\" is none of \"read\""),
    ("name = 'a'\nmatch.digest = '0x12'", "f:3:16: rules.match.digest: a digest's number has"),
    (
        "name = 'a'\nmatch.digest = \"SELECT 'a\"",
        "f:3:16: rules.match.digest: a quote or comment never ends",
    ),
    (
        "name = 'a'\nmatch.digest_matches = '('",
        "f:3:24: rules.match.digest_matches: this is no regular expression",
    ),
    (
        "name = 'a'\nmatch.text_matches = '(a{1000}){1000}'",
        "f:3:22: rules.match.text_matches: the expression takes more than",
    ),
    (
        "name = 'a'\nmatch.in_transaction = 'no'",
        "f:3:24: rules.match.in_transaction: this must be true or false",
    ),
    (
        "name = 'a'\nmatch.time = 'noon'",
        "f:3:14: rules.match.time: \"noon\" is no time of the week",
    ),
    ("name = 'a'\nmatch.share = 1.5", "f:3:15: rules.match.share: this must be a number above 0"),
    (
        "name = 'a'\nmatch.not = { share = 0.5 }",
        "f:3:15: rules.match.share: a share is that of the whole rule",
    ),
    ("name = 'a'\nmatch.any = { user = 'x' }", "f:3:13: rules.match.any: this must be a list"),
    (
        "name = 'a'\nmatch.any = [{ tabel = 'x' }]",
        "f:3:16: rules.match.tabel: there is no such option; did you mean table?",
    ),
    (
        "name = 'a'\nrewrite = { from = 'SELECT ?a', to = 'SELECT 1' }",
        "f:3:11: rules.rewrite: `to` loses the parameter ?a",
    ),
    ("name = 'a'\nrewrite = { from = 'SELECT 1' }", "f:3:11: rules.rewrite.to: this is missing"),
    (
        "name = 'a'\nreplace = { find = '[', with = 'b' }",
        "f:3:20: rules.replace.find: this is no regular expression",
    ),
    (
        "name = 'a'\nreplace = { find = '(a)', with = '$2' }",
        "f:3:34: rules.replace.with: $2 stands for nothing",
    ),
    ("name = 'a'\nlog = 'general'", "f:3:7: rules.log: it is one of \"slow\", \"audit\""),
    (
        "name = 'a'\nconnection = 'pin'",
        "f:3:14: rules.connection: it is one of \"keep\", \"share\"",
    ),
    ("name = 'a'\nnext = 'jump'", "f:3:8: rules.next: it is \"start\" or \"jump LABEL\""),
    ("name = 'a'\nnext = 'jump b'", "f:3:8: rules.next: no rule has the label \"b\""),
    ("name = 'a'\nretries = 11", "f:3:11: rules.retries: this must be a number from 0 to 10"),
    ("name = 'a'\nstatement_time = '0s'", "f:3:18: rules.statement_time: this must be from 1ms to"),
    ("name = 'a'\nmatch.role = 'primary'", "f:3:14: rules.match.role: \"primary\" is no role"),
    (
        "name = 'a'\nroute = { cluster = 'b' }",
        "f:3:9: rules.route: there is no cluster \"b\": name one of [[clusters]]",
    ),
    (
        "name = 'a'\nmirror = { cluster = 'b' }",
        "f:3:10: rules.mirror: there is no cluster \"b\": name one of [[clusters]]",
    ),
    ("name = 'a'\nmirror = { writes = true }", "f:3:10: rules.mirror.cluster: this is missing"),
    (
        "name = 'a'\nmirror = { cluster = 'main', at_once = 0 }",
        "f:3:40: rules.mirror.at_once: this must be a number from 1 to 1000",
    ),
    (
        "name = 'a'\nmirror = { cluster = 'main', memory = '1KiB' }",
        "f:3:39: rules.mirror.memory: this must be from 64KiB to 1GiB",
    ),
    (
        "name = 'a'\nmirror = { cluster = 'main' }\nanswer = 'ok'",
        "f:3:10: rules.mirror: a statement that Flifo itself answers is not mirrored",
    ),
    (
        "name = 'a'\nmirror = { cluster = 'main' }\nmatch.cluster = 'main'",
        "f:3:10: rules.mirror: its statements run in the cluster \"main\": a mirror is another one",
    ),
    ("name = 'a'\nroute = {}", "f:3:9: rules.route: it names a cluster, a role or a server"),
    ("name = 'a'\ncomment = 'a */ b'", "f:3:11: rules.comment: it stands in a comment"),
    ("name = 'a'\nhint = 'a */ b'", "f:3:8: rules.hint: it stands in a comment"),
    (
        "name = 'a'\nrefuse = { number = 2013 }",
        "f:3:21: rules.refuse.number: numbers from 2000 to 2999",
    ),
    (
        "name = 'a'\nrefuse = { number = 7 }",
        "f:3:21: rules.refuse.number: this must be a number from 1000",
    ),
    ("name = 'a'\nrefuse = { state = '4200' }", "f:3:20: rules.refuse.state: an SQLSTATE has five"),
    ("name = 'a'\nrefuse = { text = 'x' }", "f:3:12: rules.refuse.text: there is no such option"),
    ("name = 'a'\nanswer = 'yes'", "f:3:10: rules.answer: it is \"ok\""),
    (
        "name = 'a'\nanswer = { columns = ['a'], rows = [['1', '2']] }",
        "f:3:37: rules.answer.rows: there are 2 values for 1 columns",
    ),
    (
        "name = 'a'\nrefuse = true\nanswer = 'ok'",
        "f:4:10: rules.answer: a statement that is refused",
    ),
    ("name = 'a'\nroute = { role = 'both' }", "f:3:18: rules.route.role: a role is"),
    (
        "name = 'a'\nroute = { role = 'reader', server = 'b' }",
        "f:3:9: rules.route: it names a cluster, a role or a server",
    ),
    ("name = 'a'\nroute = { server = 'b' }", "f:3:9: rules.route: there is no server \"b\""),
    (
        "name = 'a'\nroute = { role = 'reader', fallback = 'writer' }",
        "f:3:39: rules.route.fallback: it stands beside a server",
    ),
    (
        "name = 'a'\nroute = { server = 'b', fallback = 'c' }",
        "f:3:36: rules.route.fallback: a role is",
    ),
    ("name = 'a'\nclass = 'b'", "f:3:9: rules.class: there is no class \"b\""),
    ("name = 'a'\nrate = { within = '1s' }", "f:3:8: rules.rate.statements: this is missing"),
    (
        "name = 'a'\nrate = { statements = 1, per = 'table' }",
        "f:3:32: rules.rate.per: it is one of",
    ),
    ("name = 'a'\ndelay = '2h'", "f:3:9: rules.delay: this must be from 1ms to 1m"),
    ("name = 'a'\nat_once = 0", "f:3:11: rules.at_once: this must be a number from 1"),
    ("name = 'a'\nthen = 'go'", "f:3:8: rules.then: it is \"next\""),
    ("name = 'a'\nthen = 'jump b'", "f:3:8: rules.then: no rule has the label \"b\""),
    ("name = 'a'\nlabel = 'b'\nthen = 'jump b'", "f:4:8: rules.then: rules go on further down"),
    ("name = 'a'\n[[rules]]\nname = 'a'", "f:4:8: rules.name: there is already a rule \"a\""),
];

#[test]
fn each_mistake_is_told_with_its_place() {
    for (rule, want) in MISTAKES {
        let told = wrong(rule);
        assert!(told.iter().any(|line| line.starts_with(want)), "{rule}: {told:#?}");
    }
    let told = parse("rules = 7", "f").expect_err("no list");
    assert_eq!(
        told[0].to_string(),
        "f:1:9: rules: each rule stands in a section of its own: write [[rules]]"
    );
    // What nests without end is no danger.
    let deep = format!("name = 'a'\nmatch = {}{}", "{ not = ".repeat(20), "}".repeat(20));
    assert!(!wrong(&deep).is_empty());
}

#[test]
fn rules_mean_what_they_say() {
    let text = "
        [[rules]]
        name = 'one'
        note = 'why'
        enabled = false
        rate = { statements = 100, within = '10s', per = 'digest', burst = 7 }
        delay = '100ms'
        hint = 'MAX_EXECUTION_TIME(1000)'
        comment = 'app=billing'
        class = 'default'
        then = 'jump there'
        [rules.match]
        user = ['report', 'bi\\_%']
        digest = ['SELECT ? FROM t WHERE x = ?', '0x0123456789abcdef', 'fedcba9876543210']
        table = 'shop.orders'
        tag = { app = 'billing' }
        time = 'mon-fri 08:00-18:00'
        share = 0.01
        not = { in_transaction = true }
        any = [{ kind = 'read' }, { address = '10.0.0.0/8' }]

        [[rules]]
        name = 'two'
        label = 'there'
        answer = { columns = ['a'], rows = [['1'], ['2']] }
        [[rules]]
        name = 'three'
        route.role = 'reader'
        [[rules]]
        name = 'four'
        route = { cluster = 'main', role = 'writer' }
        statement_time = '2s'
        queue_timeout = '50ms'
        log = ['slow', 'audit']
        connection = 'keep'
        retries = 2
        [rules.match]
        listener = '%:6033'
        program = ['mysqldump', 'psql']
        cluster = 'main'
        role = 'reader'
    ";
    let (plan, warnings) = parse(text, "f").expect("good rules");
    let [one, two, three, four] = &plan.rules[..] else { panic!("four rules") };
    assert!(one.off && one.label.is_none() && one.note == "why");
    assert_eq!((one.conditions.len(), one.share), (7, Some(0.01)));
    assert_eq!(one.then, Some(Then::Jump("there".to_owned())));
    let rate = one.acts.rate.expect("a rate");
    assert_eq!((rate.per, rate.statements, rate.burst), (RatePer::Digest, 100, 7));
    assert_eq!(one.acts.names(), ["hint", "comment", "class", "rate", "delay"]);
    assert!(matches!(&two.acts.answer, Some(RuleAnswer::Rows { rows, .. }) if rows.len() == 2));
    assert_eq!(
        three.acts.route,
        Some(RuleRoute {
            cluster: None,
            target: Some(RuleTarget::Role(RuleRole::Reader)),
            fallback: None
        })
    );
    let acts = &four.acts;
    let target = Some(RuleTarget::Role(RuleRole::Writer));
    assert_eq!(
        acts.route,
        Some(RuleRoute { cluster: Some("main".to_owned()), target, fallback: None })
    );
    assert_eq!(acts.statement_time, Some(Duration::from_secs(2)));
    assert_eq!(acts.queue_timeout, Some(Duration::from_millis(50)));
    assert_eq!(acts.log, [RuleLog::Slow, RuleLog::Audit]);
    assert_eq!((acts.connection, acts.retries), (Some(RuleConnection::Keep), Some(2)));
    assert_eq!(four.conditions.len(), 4);
    let names = ["route", "statement_time", "queue_timeout", "log", "connection", "retries"];
    assert_eq!(acts.names(), names);
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    for told in [
        "rules.route: this has no effect",
        "rules.log: this has no effect without logs.slow.file",
        "rules.log: this has no effect without logs.audit.file",
    ] {
        assert!(warnings.iter().any(|it| it.contains(told)), "{told}: {warnings:?}");
    }
}
