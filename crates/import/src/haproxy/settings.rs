//! Lines that need no more than a table: what each becomes.

use crate::value::{Value, time};
use crate::work::{Item, Work};

use super::Reader;
use super::addresses::{self, milliseconds};
use super::lines::{Line, Part};

/// What becomes of a line, by how it begins.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// Told with others.
    Elsewhere,
    Count(&'static str, u64),
    /// At most so many milliseconds.
    Time(&'static str, u64),
    Needless(&'static str),
    Differs(&'static str),
    Lost(&'static str),
}

use Way::{Count, Differs, Elsewhere, Lost, Needless, Time};

/// Beginnings of lines; the longest one that fits counts, and so they stand first.
pub(super) type Ways = &'static [(&'static str, Way)];

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

pub(super) const GLOBAL: Ways = &[
    ("maxconn", Count("clients_max", 1_000_000)),
    ("nbthread", Count("workers", 256)),
    ("user", Needless("the unit of Flifo names its user; without one, hardening.run_as does")),
    ("hard-stop-after", Time("limits.stop", DAY)),
    ("close-spread-time", Time("limits.upgrade_waves", YEAR)),
    ("stats", Needless("there are a console (SHOW SERVERS, DRAIN) and an HTTP port (/stats;csv)")),
    (
        "cpu-map",
        Lost("the CPUs of workers: placement.worker_cpus, with placement.policy = \"cpus\""),
    ),
    ("external-check", Lost("Flifo starts no programs: let an agent tell (servers.agent)")),
    ("lua-load", Lost("there are no programs in Flifo: see [[rules]]")),
    ("ca-base", Lost("write the paths of certificates in full")),
    ("crt-base", Lost("write the paths of certificates in full")),
    ("group", Needless("the user's own groups hold")),
    ("", Needless("nothing here depends on it")),
];

pub(super) const PROXY: Ways = &[
    ("bind", Elsewhere),
    ("server", Elsewhere),
    ("default-server", Elsewhere),
    ("default_backend", Elsewhere),
    ("use_backend", Elsewhere),
    ("acl", Elsewhere),
    ("mode", Elsewhere),
    ("option mysql-check", Elsewhere),
    (
        "balance leastconn",
        Needless("of readers, the one that has least to do for its weight is asked"),
    ),
    (
        "balance roundrobin",
        Needless("of readers, the one that has least to do for its weight is asked"),
    ),
    (
        "balance static-rr",
        Needless("of readers, the one that has least to do for its weight is asked"),
    ),
    ("balance first", Needless("of several servers that may be written to, the first is")),
    (
        "balance",
        Differs(
            "of readers, the one that has least to do for its weight is asked; a client has no server of its own",
        ),
    ),
    ("maxconn", Count("clients_max", 1_000_000)),
    ("backlog", Count("backlog", 65_535)),
    ("timeout connect", Time("limits.connect", HOUR)),
    ("timeout queue", Time("limits.wait", DAY)),
    ("timeout client-fin", Needless("a client that leaves is gone")),
    ("timeout client", Time("limits.idle_client", YEAR)),
    ("timeout check", Time("checks.timeout", HOUR)),
    (
        "timeout server",
        Needless("it bounded idle connections; limits.statement bounds the time of statements"),
    ),
    ("timeout", Needless("a proxy of MySQL's protocol has no such time")),
    (
        "option httpchk",
        Differs(
            "servers are asked by MySQL's protocol; name checks.user, so that they tell their role",
        ),
    ),
    ("option external-check", Lost("Flifo starts no programs: let an agent tell (servers.agent)")),
    ("option tcp-check", Needless("servers are asked by MySQL's protocol")),
    ("option allbackups", Differs("one server is written to at a time")),
    ("option clitcpka", Needless(CLIENTS_GONE)),
    ("option srvtcpka", Needless(SERVERS_GONE)),
    (
        "option tcpka",
        Needless("machines that are gone are found: limits.client_silence, limits.server_silence"),
    ),
    ("option", Needless("nothing here depends on it")),
    ("clitcpka-idle", Differs(CLIENTS_GONE)),
    ("clitcpka-intvl", Differs(CLIENTS_GONE)),
    ("clitcpka-cnt", Differs(CLIENTS_GONE)),
    ("srvtcpka-idle", Differs(SERVERS_GONE)),
    ("srvtcpka-intvl", Differs(SERVERS_GONE)),
    ("srvtcpka-cnt", Differs(SERVERS_GONE)),
    ("http-check", Needless("servers are asked by MySQL's protocol")),
    ("tcp-check", Needless("servers are asked by MySQL's protocol")),
    ("stick-table", Needless("one server is written to, by all clients")),
    ("stick", Needless("one server is written to, by all clients")),
    ("retries", Needless("connections are tried again until limits.wait has passed")),
    ("fullconn", Needless("the limit of statements finds itself: server.limit")),
    ("log", Needless("logs go to standard error, or to logs.file")),
    ("no log", Needless("logs go to standard error, or to logs.file")),
    ("no option", Needless("nothing here depends on it")),
    ("stats", Needless("there are a console (SHOW SERVERS, DRAIN) and an HTTP port (/stats;csv)")),
    ("description", Needless("it is a text")),
    ("id", Needless("it is a number for statistics")),
    ("errorfile", Needless("errors are those of MySQL's protocol")),
    ("http-", Needless("a proxy of MySQL's protocol has nothing of HTTP")),
    ("default", Needless("a proxy of MySQL's protocol has nothing of HTTP")),
    (
        "tcp-request connection expect-proxy",
        Lost("name the hosts that may say where clients come from: proxy_protocol.from"),
    ),
    (
        "tcp-request",
        Lost(
            "clients are kept out by the server's accounts and a firewall of the kernel; see also [[classes]] and [[rules]]",
        ),
    ),
    ("tcp-response", Lost("replies pass unchanged")),
    ("server-template", Lost("write each server in [[servers]]")),
    ("use-server", Lost("write a rule that names the server")),
    ("source", Lost("the kernel chooses the address of connections to servers")),
    ("rate-limit", Lost("logins are bounded by logins_max")),
    ("email-alert", Lost("let Prometheus and its alerts notice changes (docs/manual/alerting.md)")),
    ("filter", Lost("see [[rules]]")),
    ("disabled", Lost("leave its servers out, or DISABLE them on the console")),
    ("cookie", Needless("there are no cookies in MySQL's protocol")),
    ("", Lost("it is not known; look for what it did in the reference of the configuration")),
];

const CLIENTS_GONE: &str =
    "limits.client_silence is the whole time after which a client that is gone is disconnected";
const SERVERS_GONE: &str = "limits.server_silence is the whole time after which connections to a server that is gone are closed";

/// Converts the lines of a part by a table.
pub(super) fn convert(reader: &Reader<'_>, part: &Part, ways: Ways, work: &mut Work) {
    for line in &part.lines {
        let text = line.words.join(" ");
        let begins = |begin: &str| {
            text.strip_prefix(begin).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(' ') || begin.is_empty() || begin.ends_with('-')
            })
        };
        if let Some((begin, way)) = ways.iter().find(|(begin, _)| begins(begin)) {
            one(line, begin, &reader.item(part, line), *way, work);
        }
    }
}

fn one(line: &Line, begin: &str, item: &Item, way: Way, work: &mut Work) {
    let value = line.word(begin.split(' ').count());
    match way {
        Elsewhere => {}
        Needless(why) => work.needless(item, why),
        Differs(told) => work.differs(item, told),
        Lost(instead) => work.lost(item, instead),
        Count(option, most) => match value.parse::<u64>() {
            Ok(0) | Err(_) => work.lost(item, "this is no number that could be set"),
            Ok(number) => largest(item, option, number.min(most), work),
        },
        Time(option, most) => match milliseconds(value) {
            Some(0) | None => work.lost(item, "this is no time that could be set"),
            Some(it) => longest(item, option, it.clamp(least(option), most), work),
        },
    }
}

/// What options allow at least, in milliseconds.
fn least(option: &str) -> u64 {
    match option {
        "limits.idle_client" => 1000,
        "checks.timeout" => 10,
        _ => 1,
    }
}

/// Of several times of parts, the longest holds for all of Flifo.
fn longest(item: &Item, option: &'static str, milliseconds: u64, work: &mut Work) {
    let before = match work.draft.option(option) {
        Some(Value::Text(text)) => addresses::milliseconds(text),
        _ => None,
    };
    let Some(before) = before else { return work.set(item, option, time(milliseconds)) };
    if before < milliseconds {
        work.draft.unset(option);
        work.draft.set(option, time(milliseconds), &item.comment());
    }
    let told = format!("{option} = {}, for all of Flifo", time(before.max(milliseconds)));
    if before == milliseconds { work.converted(item, &told) } else { work.differs(item, &told) }
}

/// Of several bounds of parts, the largest holds for all of Flifo.
fn largest(item: &Item, option: &'static str, number: u64, work: &mut Work) {
    let before = match work.draft.option(option) {
        Some(Value::Number(before)) => *before,
        _ => return work.set(item, option, number.into()),
    };
    if before < number {
        work.draft.unset(option);
        work.draft.set(option, number.into(), &item.comment());
    }
    let told = format!("{option} = {}, for all of Flifo", before.max(number));
    if before == number { work.converted(item, &told) } else { work.differs(item, &told) }
}
