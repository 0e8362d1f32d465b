//! Numbers that documents repeat are those of the code, or of the reference, which a test holds to the code.

use std::path::Path;

/// A number in a document, and where it is from.
struct Entry {
    document: &'static str,
    /// Words of the document, however they are broken into lines. The number stands between square brackets.
    phrase: &'static str,
    source: Source,
}

enum Source {
    /// In this file the number follows these characters, up to what ends an expression.
    Code(&'static str, &'static str),
    /// The default of this option in the reference.
    Default(&'static str),
}

use Source::{Code, Default};

const fn entry(document: &'static str, phrase: &'static str, source: Source) -> Entry {
    Entry { document, phrase, source }
}

const CLAIMS: Source = Code("crates/engine/src/budget.rs", "const LONGEST: usize = ");
const PACKET: Source = Code("crates/wire/src/reply.rs", "const CONTROL_MAX: usize = ");
const READ: Source = Code("crates/proxy/src/worker/buffers.rs", "const BUFFER: usize = ");
const PIECE: Source = Code("crates/proxy/src/worker/buffers.rs", "const PIECE: usize = ");
const SHARED: Source = Code("crates/proxy/src/state/shared_run.rs", "const REPLY_MAX: usize = ");
const SHARED_OF_ALL: Source =
    Code("crates/proxy/src/state/shared_run.rs", "const HELD_MAX: usize = ");
const TEXTS: Source = Code("crates/engine/src/budget.rs", "const TEXTS_MOST: usize = ");
const KEPT: Source = Code("crates/proxy/src/features/cached.rs", "const SMALL_MAX: usize = ");
const KEPT_AT_MOST: Source =
    Code("crates/proxy/src/features/cached.rs", "const LARGE_MAX: usize = ");

const ENTRIES: &[Entry] = &[
    entry("README.md", "listens on [127.0.0.1:6033]", Default("listen")),
    entry("README.md", "curl http://[127.0.0.1:6034]/metrics", Default("http.listen")),
    entry(
        "CHANGELOG.md",
        "A console over MySQL's protocol (`[127.0.0.1:6032]`)",
        Default("console.listen"),
    ),
    entry("CHANGELOG.md", "and up to [32 MiB], such as an insert", CLAIMS),
    entry(
        "CHANGELOG.md",
        "may keep [16 MiB] of texts",
        Code("crates/engine/src/statements.rs", "pub const BYTES_MAX: usize = "),
    ),
    entry("CHANGELOG.md", "sends less than a MiB within [30 s]", Default("limits.upload")),
    entry("docs/glossary.md", "Up to [32 MiB] it is read completely", CLAIMS),
    entry("ARCHITECTURE.md", "as a whole, up to [1 MiB]", PACKET),
    entry("ARCHITECTURE.md", "one read from the server ([128 KiB])", READ),
    entry("ARCHITECTURE.md", "as the command before is kept, up to [64 KiB]", PIECE),
    entry("ARCHITECTURE.md", "[16 MiB], and 64 MiB of all of a worker", SHARED),
    entry("ARCHITECTURE.md", "16 MiB, and [64 MiB] of all of a worker", SHARED_OF_ALL),
    entry("ARCHITECTURE.md", "[256 KiB], or 8 MiB with `large`", KEPT),
    entry("ARCHITECTURE.md", "256 KiB, or [8 MiB] with `large`", KEPT_AT_MOST),
    entry(
        "ARCHITECTURE.md",
        "or if [32] kills are under way",
        Code("crates/proxy/src/road/kill.rs", "const KILLERS_MAX: u64 = "),
    ),
    entry(
        "SECURITY.md",
        "a login: at most [64 KiB] a packet",
        Code("crates/backend/src/talk.rs", "pub const HANDSHAKE_MAX: usize = "),
    ),
    entry("SECURITY.md", "for `limits.login` ([10 s])", Default("limits.login")),
    entry("SECURITY.md", "`clients_max` ([10 000])", Default("clients_max")),
    entry("SECURITY.md", "`limits.packet_max` ([1 GiB])", Default("limits.packet_max")),
    entry(
        "SECURITY.md",
        "tries [32] attacks",
        Code("xtask/src/hostile/attacks.rs", "const ATTACKS: [Attack; "),
    ),
    entry(
        "docs/release-notes/0.1.md",
        "[32] attacks are tried",
        Code("xtask/src/hostile/attacks.rs", "const ATTACKS: [Attack; "),
    ),
    entry(
        "SECURITY.md",
        "[Ten] lines a second of each kind",
        Code("crates/engine/src/repeats.rs", "pub const BURST: u32 = "),
    ),
    entry(
        "SECURITY.md",
        "an eighth ([256] at most) for administration",
        Code("crates/engine/src/descriptors.rs", "pub const ADMINISTRATION_MAX: u64 = "),
    ),
    entry(
        "SECURITY.md",
        "from one address, [five] wrong passwords are tried at once",
        Code("crates/engine/src/account/guessing.rs", "const PAIR: Rule = Rule { free: "),
    ),
    entry(
        "SECURITY.md",
        "the delay grows to one each [5 s]",
        Code("crates/engine/src/account/guessing.rs", "const PAIR: Rule = Rule { free: 5, max: "),
    ),
    entry(
        "SECURITY.md",
        "together, [thirty] are tried at once",
        Code("crates/engine/src/account/guessing.rs", "const ADDRESS: Rule = Rule { free: "),
    ),
    entry(
        "SECURITY.md",
        "up to [16 382] statements",
        Code("crates/engine/src/statements.rs", "pub const STATEMENTS_MAX: usize = "),
    ),
    entry("SECURITY.md", "a part of a command of up to [32 MiB] holds neither", CLAIMS),
    entry("SECURITY.md", "end a reply as a whole, up to [1 MiB]", PACKET),
    entry("SECURITY.md", "at most [64 MiB] in a worker", TEXTS),
    entry(
        "SECURITY.md",
        "at most [1 MiB] of an event is held",
        Code("crates/wire/src/binlog/intake.rs", "pub const KEPT_MAX: usize = "),
    ),
    entry("SECURITY.md", "has not arrived completely, [64 KiB], or all", PIECE),
    entry("SECURITY.md", "what one read brings ([128 KiB])", READ),
    entry(
        "SECURITY.md",
        "user variables ([16 KiB])",
        Code("crates/engine/src/user_variables.rs", "const BYTES_MAX: usize = "),
    ),
    entry(
        "SECURITY.md",
        "diagnostics ([64 KiB])",
        Code("crates/engine/src/kept.rs", "pub const BYTES_MAX: usize = "),
    ),
    entry("SECURITY.md", "has taken them ([64 MiB] of a worker)", SHARED_OF_ALL),
    entry("SECURITY.md", "`console.digests` ([500])", Default("console.digests")),
    entry(
        "SECURITY.md",
        "up to [50 000] that a firewall knows",
        Code("crates/engine/src/statement/firewall.rs", "pub const FORMS_MAX: usize = "),
    ),
    entry(
        "SECURITY.md",
        "within `server.rights_bound`, [60 s] by default",
        Default("server.rights_bound"),
    ),
    entry(
        "docs/manual/console.md",
        "The console has [32] places",
        Code("crates/proxy/src/admin/console.rs", "const CLIENTS_MAX: usize = "),
    ),
    entry(
        "docs/manual/console.md",
        "There are [64] places for connections",
        Code("crates/proxy/src/admin/http.rs", "const CONNECTIONS_MAX: usize = "),
    ),
    entry("docs/manual/console.md", "`console.digests` ([500])", Default("console.digests")),
    entry(
        "docs/manual/sizing.md",
        "up to [16 MiB] for each client",
        Code("crates/engine/src/statements.rs", "pub const BYTES_MAX: usize = "),
    ),
    entry(
        "docs/manual/sizing.md",
        "an eighth ([256] at most) for the console",
        Code("crates/engine/src/descriptors.rs", "pub const ADMINISTRATION_MAX: u64 = "),
    ),
    entry("docs/manual/gate.md", "has not reached the server | [10 s] |", Default("limits.wait")),
    entry("docs/manual/gate.md", "1 turns it off | [8] |", Default("server.pipeline")),
    entry(
        "docs/manual/servers.md",
        "held back for `routing.hold` ([10 s])",
        Default("routing.hold"),
    ),
    entry(
        "docs/manual/servers.md",
        "further behind than `routing.lag_max` ([10 s])",
        Default("routing.lag_max"),
    ),
    entry(
        "docs/manual/servers.md",
        "caught up after `routing.stay` ([5 s])",
        Default("routing.stay"),
    ),
    entry("docs/manual/servers.md", "down after [three] failed checks", Default("checks.fall")),
    entry(
        "docs/manual/servers.md",
        "[two] more checks have passed (`checks.rise`)",
        Default("checks.rise"),
    ),
    entry(
        "docs/manual/servers.md",
        "a name every [ten seconds] (`server.resolve`)",
        Default("server.resolve"),
    ),
    entry("docs/manual/servers.md", "connects every [two seconds]", Default("checks.agent_inter")),
    entry(
        "docs/manual/servers.md",
        "longer than [512] bytes",
        Code("crates/engine/src/checks/agent.rs", "pub const LINE_MAX: usize = "),
    ),
    entry(
        "docs/design/admission.md",
        "Bounds: [20 ms] at least",
        Code("crates/engine/src/parked.rs", "const OLD: Duration = "),
    ),
    entry(
        "docs/design/admission.md",
        "Parked are at most [four] times the limit",
        Code("crates/engine/src/slots.rs", "const PARKED: u32 = "),
    ),
    entry(
        "docs/design/limit.md",
        "**Target [0.08].**",
        Code("crates/engine/src/limit/steer.rs", "const TARGET: f64 = "),
    ),
    entry(
        "docs/design/pipelining.md",
        "it runs for [50 ms]",
        Code("crates/engine/src/pace.rs", "const LONG: Duration = "),
    ),
    entry(
        "docs/design/pipelining.md",
        "up to [400 ms]",
        Code("crates/engine/src/pace.rs", "const LONG_MAX: Duration = "),
    ),
    entry(
        "docs/design/placement.md",
        "Waiting above [10 %]",
        Code("crates/engine/src/placement/verdict.rs", "const WAITED: f64 = "),
    ),
    entry(
        "docs/design/session-state.md",
        "A backend keeps [256] statements",
        Code("crates/engine/src/statements.rs", "pub const KNOWN_MAX: usize = "),
    ),
    entry(
        "docs/design/users-and-rights.md",
        "begin at a rate: [600] a second",
        Code("crates/engine/src/arrivals.rs", "const RATE: f64 = "),
    ),
    entry(
        "docs/design/users-and-rights.md",
        "[1.15] times as many after each second",
        Code("crates/engine/src/arrivals.rs", "const GROWTH: f64 = "),
    ),
];

const REFERENCE: &str = "docs/reference/configuration.md";

#[test]
fn documented_numbers_are_those_of_the_code() {
    let wrong: Vec<_> = ENTRIES
        .iter()
        .filter_map(|entry| {
            let file = match entry.source {
                Code(file, _) => file,
                Default(_) => REFERENCE,
            };
            let fault = fault(entry, &read(entry.document), &read(file))?;
            Some(format!("{} and {file}: {fault}", entry.document))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The README's table is one that was measured, and the page of that day has it.
#[test]
fn the_table_of_the_demo_was_measured() {
    let (readme, measured) = (read("README.md"), read("docs/measurements/2026-11-28.md"));
    let shown = ratios(&readme, "## Try it\n");
    assert_eq!(shown.len(), 6, "{shown:?}");
    assert_eq!(shown, ratios(&measured, "## `make demo`\n"));
}

/// The rows of the tables of a section: of each, the numbers with a point that stand in it.
fn ratios<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let section = page.split_once(heading).map_or("", |(_, rest)| rest);
    let rows = section.split("\n## ").next().unwrap_or_default().lines();
    let numbers = rows.filter(|row| row.starts_with('|')).map(|row| {
        let words = row.split(|it: char| !it.is_ascii_digit() && it != '.');
        words.filter(|it| it.contains('.')).collect::<Vec<_>>()
    });
    numbers.filter(|row| !row.is_empty()).collect()
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// What is wrong with an entry, by the texts of its document and its source.
fn fault(entry: &Entry, document: &str, source: &str) -> Option<String> {
    let phrase = entry.phrase;
    let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
    if !document.contains(&phrase.replace(['[', ']'], "")) {
        return Some(format!("{phrase:?} is not in the document any more"));
    }
    let said = phrase.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let (said, _) = said.expect("a number in brackets");
    let expression = match entry.source {
        Code(_, before) => {
            source.split_once(before).and_then(|(_, rest)| rest.split([';', ',', '}', ']']).next())
        }
        Default(option) => source
            .split_once(&format!("### `{option}`\n"))
            .and_then(|(_, rest)| rest.split("\n### ").next())
            .and_then(|own| own.split_once("- Default: `"))
            .and_then(|(_, rest)| rest.split('`').next())
            .map(|value| value.trim_matches(['[', ']', '"'])),
    };
    let Some(expression) = expression.map(str::trim) else {
        return Some(format!("{phrase:?}: the source has no such number any more"));
    };
    let is_same = match (of_words(said), of_expression(expression)) {
        (Some(said), Some(meant)) => (said - meant).abs() <= 1e-9 * meant.abs(),
        _ => said == expression,
    };
    (!is_same).then(|| format!("{phrase:?}, where the source says {expression}"))
}

/// A number as documents write it: "32 MiB", "16 382", "10 %", "ten seconds". Times are in seconds.
fn of_words(text: &str) -> Option<f64> {
    const WORDS: [(&str, f64); 6] = [
        ("two", 2.0),
        ("three", 3.0),
        ("four", 4.0),
        ("five", 5.0),
        ("ten", 10.0),
        ("thirty", 30.0),
    ];
    let text = text.to_lowercase();
    let split =
        text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | ' ')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    if digits.trim().is_empty() {
        let (word, unit) = unit.split_once(' ').unwrap_or((unit, ""));
        let number = WORDS.into_iter().find(|(it, _)| *it == word)?.1;
        return Some(number * of_unit(unit)?);
    }
    Some(digits.replace(' ', "").parse::<f64>().ok()? * of_unit(unit)?)
}

fn of_unit(unit: &str) -> Option<f64> {
    Some(match unit.trim() {
        "" | "s" | "seconds" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "%" => 0.01,
        "kib" => 1024.0,
        "mib" => f64::from(1 << 20),
        "gib" => f64::from(1 << 30),
        _ => return None,
    })
}

/// A number as the code writes it, or a configuration: `32 << 20`, `Duration::from_millis(50)`, `10s`, `1GiB`.
fn of_expression(text: &str) -> Option<f64> {
    if let Some((unit, number)) =
        text.strip_prefix("Duration::from_").and_then(|it| it.split_once('('))
    {
        let of_one = match unit {
            "millis" => 0.001,
            "secs" => 1.0,
            "mins" => 60.0,
            "hours" => 3600.0,
            _ => return None,
        };
        return Some(of_expression(number.trim_end_matches(')'))? * of_one);
    }
    if let Some((number, shift)) = text.split_once(" << ") {
        return Some(of_expression(number)? * 2_f64.powi(shift.parse().ok()?));
    }
    of_words(&text.replace('_', ""))
}

#[test]
fn documented_numbers_can_be_wrong() {
    let code = |phrase| entry("x.md", phrase, Code("x.rs", "const MOST: usize = "));
    let option = |phrase| entry("x.md", phrase, Default("limits.wait"));
    let check =
        |entry: Entry, document: &str, source: &str| fault(&entry, document, source).is_some();
    let source = "pub const MOST: usize = 32 << 20;\n";
    assert!(!check(code("up to [32 MiB]"), "texts of up\nto 32 MiB pass", source));
    assert!(check(code("up to [32 MiB]"), "texts pass", source));
    assert!(check(
        code("up to [32 MiB]"),
        "texts of up to 32 MiB",
        "const MOST: usize = 16 << 20;"
    ));
    assert!(check(
        code("up to [32 MiB]"),
        "texts of up to 32 MiB",
        "const LEAST: usize = 32 << 20;"
    ));
    let source = "### `limits.idle`\n- Default: `\"8h\"`\n### `limits.wait`\n\nTime.\n- Default: `\"10s\"`\n";
    assert!(!check(option("for [ten seconds]"), "for ten seconds", source));
    assert!(check(option("for [8 h]"), "for 8 h", source));
    assert!(check(option("at [10.0.0.1]"), "at 10.0.0.1", source));

    let page = "## A\n| x | 8 | 1.07 (0.96–1.2, *y*) |\n|---|\n9.9\n\n## B\n| 3.1 |\n";
    assert_eq!(ratios(page, "## A\n"), [["1.07", "0.96", "1.2"]]);

    let all = [
        ("16 382", "16_382"),
        ("10 %", "0.10"),
        ("50 ms", "Duration::from_millis(50)"),
        ("60 s", "1m"),
    ];
    for (said, meant) in all {
        assert!(
            of_words(said).is_some() && of_words(said) == of_expression(meant),
            "{said} is {meant}"
        );
    }
    assert!(of_words("127.0.0.1:6033").is_none() && of_expression("Duration::MAX").is_none());
}
