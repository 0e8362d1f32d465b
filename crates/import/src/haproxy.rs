//! What HAProxy's configuration means, as far as it is about MySQL.

mod addresses;
mod backends;
mod frontends;
mod lines;
mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::report::Place;
use crate::syntax::SyntaxError;
use crate::work::{Item, Work};

use self::backends::Backends;
use self::lines::{Line, Part, PartKind};

/// Converts a whole file.
pub(crate) fn convert(file: &Arc<str>, text: &str, work: &mut Work) -> Result<(), SyntaxError> {
    let parts = lines::parse(text)?;
    let reader = Reader { file, parts: &parts };
    let chosen = reader.chosen();
    let mut told = BTreeSet::new();
    for part in &parts {
        let is_chosen = chosen.contains(&*part.name);
        match part.kind {
            PartKind::Global => settings::convert(&reader, part, settings::GLOBAL, work),
            PartKind::Defaults => {}
            PartKind::Frontend | PartKind::Backend | PartKind::Listen if is_chosen => {
                // Defaults count where they are used.
                if let Some(at) = part.defaults.filter(|at| told.insert(*at)) {
                    settings::convert(&reader, &parts[at], settings::PROXY, work);
                }
            }
            PartKind::Frontend | PartKind::Backend | PartKind::Listen => {
                reader.left_out(part, work)
            }
            PartKind::Other => reader.other(part, work),
        }
    }
    let backends = Backends::of(&reader, &chosen, work);
    frontends::convert(&reader, &chosen, &backends, work);
    Ok(())
}

/// The parts of a file.
struct Reader<'a> {
    file: &'a Arc<str>,
    parts: &'a [Part],
}

impl<'a> Reader<'a> {
    fn item(&self, part: &Part, line: &Line) -> Item {
        let is_secret = line.word(0) == "stats" && line.word(1) == "auth";
        let text =
            if is_secret { "stats auth (not shown)".to_owned() } else { line.words.join(" ") };
        Item { place: self.place(line.number), what: format!("{}: {text}", part.title()) }
    }

    fn whole(&self, part: &Part) -> Item {
        Item { place: self.place(part.line), what: part.title() }
    }

    fn place(&self, line: u32) -> Place {
        Place::new(Arc::clone(self.file), line)
    }

    /// The last line of a part that begins with this word; else that of its defaults.
    fn last(&self, part: &'a Part, word: &str) -> Option<&'a Line> {
        let find = |part: &'a Part| part.lines.iter().rev().find(|line| line.word(0) == word);
        find(part).or_else(|| find(self.parts.get(part.defaults?)?))
    }

    fn is_tcp(&self, part: &'a Part) -> bool {
        self.last(part, "mode").is_none_or(|line| line.word(1) == "tcp")
    }

    /// Names of the proxies that are about MySQL, by what stands in them; of all that speak TCP, if none shows it.
    fn chosen(&self) -> BTreeSet<&'a str> {
        let is_proxy = |part: &&Part| {
            matches!(part.kind, PartKind::Frontend | PartKind::Backend | PartKind::Listen)
        };
        let tcp: Vec<&Part> =
            self.parts.iter().filter(is_proxy).filter(|part| self.is_tcp(part)).collect();
        let mut chosen: BTreeSet<&str> =
            tcp.iter().filter(|part| self.shows_mysql(part)).map(|part| &*part.name).collect();
        if chosen.is_empty() {
            return tcp.iter().map(|part| &*part.name).collect();
        }
        // A frontend is about what its backends are about, and the other way round.
        for _ in 0..2 {
            for part in &tcp {
                let targets: Vec<&str> = frontends::targets(part).collect();
                if targets.iter().any(|it| chosen.contains(it)) {
                    chosen.insert(&part.name);
                } else if chosen.contains(&*part.name) {
                    chosen.extend(targets);
                }
            }
        }
        chosen
    }

    fn shows_mysql(&self, part: &'a Part) -> bool {
        let has_check = self.last_option(part, "mysql-check").is_some();
        let words = ["mysql", "maria", "galera", "percona", "pxc", "innodb"];
        let name = part.name.to_ascii_lowercase();
        let is_port = |line: &Line| {
            let address = match line.word(0) {
                "bind" => line.word(1),
                "server" => line.word(2),
                _ => return false,
            };
            let port = address.rsplit(':').next().and_then(|it| it.parse::<u16>().ok());
            port.is_some_and(|it| (3300..3400).contains(&it))
        };
        has_check || words.iter().any(|it| name.contains(it)) || part.lines.iter().any(is_port)
    }

    /// The line of an option that is set in a part or in its defaults.
    fn last_option(&self, part: &'a Part, option: &str) -> Option<&'a Line> {
        let is_it = |line: &&Line| line.word(0) == "option" && line.word(1) == option;
        let defaults = part.defaults.and_then(|at| self.parts.get(at));
        part.lines.iter().rev().find(is_it).or_else(|| defaults?.lines.iter().rev().find(is_it))
    }

    fn left_out(&self, part: &'a Part, work: &mut Work) {
        let item = self.whole(part);
        let has_stats = part.lines.iter().any(|line| line.word(0) == "stats");
        match (self.is_tcp(part), has_stats) {
            (false, true) => {
                work.needless(&item, "Flifo's HTTP port has /stats;csv and /metrics: [http]")
            }
            (false, false) => work.lost(&item, "HTTP stays with HAProxy"),
            (true, _) => {
                work.lost(&item, "it does not seem to be about MySQL, and stays with HAProxy")
            }
        }
    }

    fn other(&self, part: &Part, work: &mut Work) {
        let item = self.whole(part);
        match &*part.word {
            "resolvers" => {
                work.needless(&item, "names are resolved again by themselves: server.resolve")
            }
            "peers" | "mailers" | "cache" | "ring" | "http-errors" | "log-forward" | "fcgi-app"
            | "userlist" | "traces" => {
                work.needless(&item, "a proxy of MySQL's protocol needs none");
            }
            _ => work.lost(&item, "a part of this name is not known"),
        }
    }
}
