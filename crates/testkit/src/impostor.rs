//! Servers that are not the server: what they demand in logins, by chance, and which passwords they hear then.
//!
//! An impostor ([`server`]) greets, offers TLS or not, and demands methods, keys and answers as its [`Conduct`] says; it
//! keeps what it hears. Clients ([`client`]) come through Flifo to it, of users that Flifo knows and of others. The
//! judge ([`judge`]) looks for the password in what was heard: as it is, or under the impostor's own key. It is there only
//! where `server.tls` says so. Invariants: each client hears an answer or an error, and Flifo serves others meanwhile.

mod client;
mod judge;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use backend::tls::Mode;
use wire::auth::sha_crypt::CryptStored;

use self::client::{Client, End, Habit, connect};
use self::judge::judge;
use self::server::{Heard, Impostor, Lies};
use crate::differ::generate::Random;
use crate::flifo::Flifo;
use crate::logins::certificates;
use crate::scene::wait_for;

/// Not to be found in anything by chance.
const PASSWORD: &str = "pa55-of-nobody-else";

/// What an impostor does in one connection.
#[derive(Clone, Debug)]
struct Conduct {
    /// The plugin of its greeting.
    greets_with: &'static str,
    offer: Offer,
    demands: Vec<Demand>,
    last: Last,
}

/// What is behind the greeting's word about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    None,
    /// A certificate that no authority has signed.
    MadeUp,
    /// One that Flifo's authority has signed, for another host.
    OfAnother,
    /// One that it has signed for this host: it is the server.
    Signed,
    /// It is offered; then these bytes come, and what the peer says is read.
    Broken(&'static [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Switch(&'static str, Data),
    /// The full login of caching_sha2_password, and more bytes behind the one that asks for it.
    Full(&'static [u8]),
    Fast,
    /// The impostor's public key, asked for or not.
    Key,
    More(&'static [u8]),
    Bare(&'static [u8]),
    /// What comes next is numbered wrongly, by so much.
    Misnumbered(u8),
}

/// What comes with a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Nonce,
    None,
    Prompt,
}

/// How a login ends where the peer has answered all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Ok,
    Denied,
    Close,
    Silence,
}

const PLUGINS: [&str; 8] = [
    "mysql_clear_password",
    "mysql_clear_password",
    "caching_sha2_password",
    "sha256_password",
    "dialog",
    "mysql_native_password",
    "client_ed25519",
    "no_such_plugin",
];

impl Conduct {
    /// That of the server itself. It asks each client: on a socket, it would else know Flifo, and not the client.
    fn honest() -> Self {
        Self {
            greets_with: "mysql_native_password",
            offer: Offer::Signed,
            demands: vec![Demand::Switch("mysql_native_password", Data::Nonce)],
            last: Last::Ok,
        }
    }

    fn of(lies: Lies, connection: u32) -> Self {
        match lies {
            Lies::FullLogin => Self { demands: FULL_LOGIN.to_vec(), ..Self::honest() },
            Lies::FullLoginInPlain => {
                Self { demands: FULL_LOGIN.to_vec(), offer: Offer::None, ..Self::honest() }
            }
            Lies::Seed(seed) => Self::by_chance(seed, connection),
        }
    }

    /// The one of this seed and this connection.
    fn by_chance(seed: u64, connection: u32) -> Self {
        let random = &mut Random::new(seed.wrapping_mul(64) + u64::from(connection % 64));
        let plugin = |random: &mut Random| PLUGINS[random.below(PLUGINS.len())];
        let offer = match random.below(9) {
            0..3 => Offer::None,
            3..5 => Offer::MadeUp,
            5 => Offer::OfAnother,
            6 | 7 => Offer::Signed,
            _ => Offer::Broken(BROKEN[random.below(BROKEN.len())]),
        };
        let mut demands = Vec::new();
        for _ in 0..1 + random.below(3) {
            demands.extend(demand(random));
        }
        // Silence takes as long as a login may.
        let last = match random.below(32) {
            0 => Last::Silence,
            1..6 => Last::Close,
            6..16 => Last::Denied,
            _ => Last::Ok,
        };
        Self { greets_with: plugin(random), offer, demands, last }
    }
}

const FULL_LOGIN: [Demand; 2] =
    [Demand::Switch("caching_sha2_password", Data::Nonce), Demand::Full(b"")];

const BROKEN: [&[u8]; 8] = [
    b"",
    b"this is not TLS",
    b"this is not TLS either",
    b"\x15\x03\x03\0\x02\x02\x28",
    b"\x15\x03\x03\0\x02\x02\x50",
    b"\x16\0\0\x02\xfemysql_clear_password\0",
    b"\x02\0\0\x02\x01\x04",
    b"\x07\0\0\x02\0\0\0\x02\0\0\0",
];

fn demand(random: &mut Random) -> Vec<Demand> {
    let data = [Data::Nonce, Data::Nonce, Data::None, Data::Prompt][random.below(4)];
    let plugin = PLUGINS[random.below(PLUGINS.len())];
    let switch = Demand::Switch(plugin, data);
    let sha2 = Demand::Switch("caching_sha2_password", Data::Nonce);
    match random.below(16) {
        0..5 => vec![switch],
        5..8 => vec![sha2, Demand::Full(b"")],
        8 => vec![Demand::Full(b"")],
        9 => vec![sha2, Demand::Full(b"\0")],
        10 => vec![sha2, Demand::Fast, Demand::Full(b"")],
        11 => vec![switch, Demand::Key],
        12 => vec![switch, Demand::More(b"\x04Password: ")],
        13 => vec![switch, Demand::Bare(b"Password: ")],
        14 => vec![switch, Demand::Full(b" please")],
        _ => vec![Demand::Misnumbered(1 + random.below(254) as u8), switch],
    }
}

/// A client that comes to an impostor.
#[derive(Clone, Copy, Debug)]
struct Visit {
    user: &'static str,
    client: Client,
    entry: Entry,
}

/// How a client becomes this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Login,
    /// By `COM_CHANGE_USER`, as a client of this user, whose login the server itself has answered.
    ChangeUser(&'static str),
}

impl Visit {
    fn of(seed: u64) -> Self {
        let random = &mut Random::new(!seed);
        let client = Client {
            is_tls: !random.once_in(3),
            first: FIRST[random.below(FIRST.len())],
            habit: if random.once_in(3) { Habit::Hasty } else { Habit::Exact },
        };
        // Those that pass through have a name for each kind of connection: a late one is not taken for another.
        let user = match (random.below(7), client.is_tls) {
            (0, _) => "plain",
            (1, _) => "sha2",
            (2, _) => "hash",
            (3, _) => "stored",
            (_, true) => "through_tls",
            (_, false) => "through",
        };
        let entry = match (random.below(6), client.is_tls) {
            (0, _) => Entry::ChangeUser("plain"),
            (1, true) => Entry::ChangeUser("through_tls"),
            (1, false) => Entry::ChangeUser("through"),
            _ => Entry::Login,
        };
        Self { user, client, entry }
    }

    /// Whether Flifo itself logs in on its server.
    fn is_pooled(self) -> bool {
        !self.user.starts_with("through")
    }
}

/// What clients answer the greeting by.
const FIRST: [&str; 3] = ["mysql_native_password", "caching_sha2_password", "mysql_clear_password"];

/// What came of a series.
#[derive(Debug, Default)]
pub struct Report {
    pub visits: u64,
    /// Connections that impostors have seen.
    pub connections: u64,
    /// Passwords that were told where the configuration allows it, by mode: the judge is not blind.
    pub told: BTreeMap<&'static str, u64>,
    /// How clients ended.
    pub ends: BTreeMap<String, u64>,
    /// Promises that were broken.
    pub findings: Vec<String>,
}

impl Report {
    pub fn add(&mut self, other: Self) {
        self.visits += other.visits;
        self.connections += other.connections;
        for (mode, count) in other.told {
            *self.told.entry(mode).or_default() += count;
        }
        for (end, count) in other.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.findings.extend(other.findings);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { visits, connections, told, ends, findings } = self;
        write!(
            f,
            "{visits} clients, {connections} connections to an impostor; passwords told as \
             server.tls says: {told:?}; clients' ends: {ends:?}; {} findings",
            findings.len()
        )
    }
}

/// What differs in what is told: `server.tls`, `server.pass_through_tls`, and the way to the server.
const LANES: [(Mode, &str, Way); 10] = [
    (Mode::Off, "as-client", Way::Tcp),
    (Mode::Preferred, "as-client", Way::Tcp),
    (Mode::Preferred, "always", Way::Tcp),
    (Mode::Required, "as-client", Way::Tcp),
    (Mode::Required, "always", Way::Tcp),
    (Mode::VerifyCa, "as-client", Way::Tcp),
    (Mode::VerifyFull, "as-client", Way::Tcp),
    (Mode::VerifyFull, "always", Way::Tcp),
    (Mode::Preferred, "as-client", Way::Socket),
    (Mode::VerifyFull, "always", Way::Socket),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    /// A Unix socket: no other server than that of its path can have it.
    Socket,
}

/// Has clients of these seeds come to impostors, in each mode of TLS.
///
/// # Panics
/// If a Flifo does not start, or a client of the server itself is not served any more.
pub fn run(program: &Path, seeds: &Range<u64>, is_over: impl Fn() -> bool + Sync) -> Report {
    let mut total = Report::default();
    thread::scope(|scope| {
        let is_over = &is_over;
        let lanes = LANES.map(|of| scope.spawn(move || lane(program, of, seeds, is_over)));
        for lane in lanes {
            total.add(lane.join().unwrap_or_else(|why| resume_unwind(why)));
        }
    });
    total
}

/// No client waits longer, however busy the machine is.
const LATE: Duration = Duration::from_secs(150);

/// `limits.login`: on a busy machine it may pass between two packets, and Flifo closes.
const LOGIN: Duration = Duration::from_secs(1);

/// How a visit to this impostor ends. One that found no time may come again: no client finds none for ever.
fn patient_visit(port: u16, visit: Visit, impostor: &Impostor, (lies, first): (Lies, u32)) -> End {
    let mut end = End::Closed;
    for _ in 0..8 {
        let begun = Instant::now();
        end = match visit.entry {
            Entry::Login => {
                impostor.lie(lies, first);
                client::visit(port, visit)
            }
            Entry::ChangeUser(from) => {
                impostor.lie_no_more();
                let exact =
                    Client { first: "mysql_native_password", habit: Habit::Exact, ..visit.client };
                match connect(port, from, exact) {
                    Ok(client) => {
                        impostor.lie(lies, first);
                        client::change(client, visit)
                    }
                    // Without TLS it may not come where the server's own leg must have it.
                    Err(end) => end,
                }
            }
        };
        if end != End::Closed || begun.elapsed() < LOGIN {
            break;
        }
    }
    end
}

fn lane(
    program: &Path,
    (mode, through, way): (Mode, &'static str, Way),
    seeds: &Range<u64>,
    is_over: impl Fn() -> bool,
) -> Report {
    let folder = tempfile::tempdir().expect("a temporary folder");
    certificates::make(folder.path());
    let impostor = Impostor::start(folder.path());
    let address = match way {
        Way::Tcp => format!("127.0.0.1:{}", impostor.port()),
        Way::Socket => impostor.socket().display().to_string(),
    };
    let text = configuration(mode, through, &address, folder.path());
    let flifo = Flifo::start_program(program, &text);
    let mut report = Report::default();
    report.told.insert(mode.name(), 0);
    let sound = Client { is_tls: true, first: "mysql_native_password", habit: Habit::Exact };
    if !mode.is_required() {
        // Flifo makes its own key when the first client asks for it, which takes long.
        let client = Client { is_tls: false, first: "caching_sha2_password", ..sound };
        impostor.lie(Lies::FullLogin, 0);
        let visit = Visit { user: "through", client, entry: Entry::Login };
        wait_for("a full login", || client::visit(flifo.port(), visit) == End::Served);
        impostor.leave();
        impostor.lie_no_more();
    }
    let mut witness = None;
    wait_for("an honest login", || {
        witness = connect(flifo.port(), "through_tls", sound).ok();
        witness.is_some()
    });
    let mut witness = witness.expect("a client");
    // First a conduct that chance seldom has for users whose backends Flifo logs in.
    let plain = ["plain", "sha2"]
        .map(|user| (Lies::FullLoginInPlain, Visit { user, client: sound, entry: Entry::Login }));
    let drawn = seeds.clone().map(|seed| (Lies::Seed(seed), Visit::of(seed)));
    for (lies, visit) in plain.into_iter().chain(drawn) {
        if is_over() {
            break;
        }
        if visit.is_pooled() {
            // An honest connection at rest would serve it.
            impostor.end(visit.user);
        }
        let begun = Instant::now();
        // Twice: the next connection finds another key, another offer, other demands.
        let visits = [0, 32];
        let ends = visits.map(|first| patient_visit(flifo.port(), visit, &impostor, (lies, first)));
        let took = begun.elapsed();
        let heard = impostor.leave();
        impostor.lie_no_more();
        report.visits += 2;
        report.connections += heard.len() as u64;
        let at = format!("{mode}, {through}, {way:?}, {lies:?}, {visit:?}");
        for end in ends {
            // As directly, where the server's own numbers are passed on.
            let is_misled = end == End::OutOfOrder && heard.iter().any(Heard::misnumbers);
            if end == End::Closed || end == End::OutOfOrder && !is_misled || took > LATE {
                report.findings.push(format!("{at}: after {took:?} {end:?}: {heard:?}"));
            }
            *report.ends.entry(end.to_string()).or_default() += 1;
        }
        for heard in &heard {
            let judgement = judge((mode, way), visit.client.is_tls, heard);
            *report.told.entry(mode.name()).or_default() += judgement.allowed;
            report.findings.extend(judgement.broken.map(|why| format!("{at}: {why}: {heard:?}")));
        }
        // One that was there before is served, and one that comes now.
        client::ask(&mut witness).expect("the witness is served");
        wait_for("a client of the honest server", || {
            client::visit(flifo.port(), Visit { client: sound, ..visit }) == End::Served
        });
    }
    drop(witness);
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    report
}

fn configuration(mode: Mode, through: &str, address: &str, folder: &Path) -> String {
    let hash = wire::auth::native::NativeStage1::of(PASSWORD.as_bytes()).stored().reveal();
    let stored = CryptStored::of(PASSWORD.as_bytes(), *b"a salt of 20 letters").reveal();
    let stored = String::from_utf8(stored).expect("letters");
    let ca = match mode.verifies() {
        true => {
            let ca = folder.join("ca.pem");
            format!("tls_ca = {ca:?}\ntls_server_name = \"localhost\"\n")
        }
        false => String::new(),
    };
    format!(
        "checks.kind = \"none\"\nworkers = 1\n[server]\naddress = {address:?}\n\
         tls = \"{mode}\"\n{ca}account_terms = \"flifo\"\nread_definitions = \"off\"\n\
         pass_through_tls = \"{through}\"\n[limits]\nconnect = \"1s\"\nlogin = \"{LOGIN:?}\"\n\
         [[users]]\nname = \"plain\"\npassword = \"{PASSWORD}\"\n\
         [[users]]\nname = \"sha2\"\npassword = \"{PASSWORD}\"\nplugin = \"caching_sha2_password\"\n\
         [[users]]\nname = \"hash\"\npassword_hash = \"{hash}\"\n\
         [[users]]\nname = \"stored\"\npassword_hash = {stored:?}\n"
    )
}
