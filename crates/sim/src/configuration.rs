//! The configurations of a world: what a process begins with, and what it reads again.

use testkit::differ::generate::fill;
use testkit::differ::peer;
use testkit::differ::program::USERS;

use crate::dice::Dice;
use crate::net::host_of_server;
use crate::world::Shape;

/// Of all users.
pub(crate) const PASSWORD: &str = "secret";

/// That which a world begins with.
pub fn first(shape: &Shape) -> String {
    draw(shape, &mut Dice::of(shape.seed, "reloads"))
}

/// One for a world: what may be another one after a reload is drawn.
pub(crate) fn draw(shape: &Shape, drawn: &mut Dice) -> String {
    let mut fixed = Dice::of(shape.seed, "configuration");
    let workers = *fixed.pick(&[1, 1, 2, 3]);
    // Users that are not named are passed through.
    let named = *fixed.pick(&[USERS, USERS, USERS - 1, 1]);
    let users: String = (0..named)
        .map(|user| {
            let name = peer::user(user);
            format!("[[users]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\n")
        })
        .collect();
    let connections = 1 + drawn.below(4);
    let limit = 1 + drawn.below(connections + 2);
    let pipeline = *drawn.pick(&[1, 1, 2, 4, 8]);
    let wait = if shape.faults { *drawn.pick(&["120s", "1s", "300ms", "20ms"]) } else { "120s" };
    let shares = *drawn.pick(&["off", "off", "on"]);
    let rules = rules(drawn, shape.faults);
    let (address, servers) = match shape.readers {
        0 => ("address = \"10.0.0.2:3306\"\n", String::new()),
        readers => ("", servers(readers)),
    };
    format!(
        "listen = \"10.0.0.1:6033\"\nworkers = {workers}\n[server]\n{address}tls = \"off\"\n\
         connections_max = {connections}\nlimit = {limit}\npipeline = {pipeline}\n\
         share_reads = \"{shares}\"\n[tls]\nmode = \"off\"\n\
         [limits]\nwait = \"{wait}\"\n[console]\nlisten = []\n[http]\nlisten = []\n{users}{CLASSES}{servers}{rules}"
    )
}

/// The server that is written to, and those that are read from.
fn servers(readers: usize) -> String {
    let servers = (0..=readers).map(|at| {
        format!("[[servers]]\nname = \"s{at}\"\naddress = \"{}:3306\"\n", host_of_server(at))
    });
    // A client that has connected anew finds what it wrote before.
    let routing = "[routing]\nmode = \"split\"\nreads_by = \"user\"\n";
    format!("{}{routing}", servers.collect::<String>())
}

const CLASSES: &str =
    "[[classes]]\nname = \"low\"\nmaximum = 1\n[[classes]]\nname = \"late\"\nweight = 1\n";

/// What no client sees of rules.
const RULES: &[&str] = &[
    "delay = \"{1|5|40}ms\"\nmatch.kind = \"{read|write|ddl}\"\n",
    "delay = \"{1|20}ms\"\nmatch.table = \"{t|u|absent}\"\n",
    "at_once = {1|2}\nmatch.kind = \"{read|write}\"\n",
    "at_once = 1\nmatch.table = \"{t|u|hot0}\"\n",
    "class = \"{low|late}\"\nmatch.table = \"{t|u}\"\n",
    "retries = {0|1|3}\n",
    "cache = \"1m\"\nmatch.table = \"{t|u}\"\n",
    "share_reads = \"{on|off}\"\nmatch.table = \"{t|u}\"\n",
    "connection = \"{keep|share}\"\nmatch.table = \"{t|u}\"\n",
    "queue_timeout = \"{queue}\"\nmatch.kind = \"{read|write}\"\n",
    "rewrite.from = \"SELECT ?a\"\nrewrite.to = \"SELECT ?a\"\n",
];

/// Rules that are in force in the midst of what clients do.
fn rules(dice: &mut Dice, faults: bool) -> String {
    let count = *dice.pick(&[0, 0, 1, 3]);
    let rule = |number| {
        let text = *dice.pick(RULES);
        let text = fill(text, |inside| {
            // A statement that waits for too long is refused.
            let inside = match inside {
                "queue" if faults => "10m|300ms|20ms",
                "queue" => "10m",
                inside => inside,
            };
            let choices: Vec<_> = inside.split('|').collect();
            (*dice.pick(&choices)).to_owned()
        });
        format!("[[rules]]\nname = \"{number}\"\n{text}")
    };
    (0..count).map(rule).collect()
}
