//! What real servers said, byte for byte: read, compared with what they meant, and written again.
//!
//! `golden/*.txt` are recorded conversations. `#` begins a comment; `capabilities` says what both
//! ends have agreed on; `<` is a packet of the server and `>` one of the client, in hexadecimal,
//! header included, where lines without a mark go on. Passwords are `golden`.
//!
//! Invariants: each recorded reply ends with its last byte, in whatever pieces it comes; what is
//! decoded and encoded again is what the server had sent.

use std::fs;
use std::path::Path;

use wire::auth::{Nonce, caching_sha2, native};
use wire::command::{Opcode, Shape};
use wire::frame::{HEADER, Header};
use wire::handshake::{AuthPacket, FirstPacket, Greeting, Login};
use wire::reply::{Follower, Kind, Step};
use wire::response::{EofPacket, ErrPacket, OkPacket, Status};
use wire::statement::{Execute, asks_for_cursor, id};
use wire::tracker::{Change, Changes};
use wire::{Capabilities, Malformed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A recorded conversation.
struct Conversation {
    capabilities: Capabilities,
    packets: Vec<(Side, Vec<u8>)>,
}

/// A command and what the server sent until the next one.
struct Exchange<'a> {
    command: &'a [u8],
    reply: Vec<&'a [u8]>,
}

impl Conversation {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(name).with_extension("txt")).expect(name);
        let mut conversation = Self { capabilities: Capabilities::NONE, packets: Vec::new() };
        for line in text.lines() {
            if let Some(bits) = line.strip_prefix("capabilities 0x") {
                let bits = u64::from_str_radix(bits, 16).expect("hexadecimal");
                conversation.capabilities = Capabilities(bits);
                continue;
            }
            let (mark, digits) = line.split_at(1);
            match mark {
                "#" => continue,
                "<" => conversation.packets.push((Side::Server, Vec::new())),
                ">" => conversation.packets.push((Side::Client, Vec::new())),
                _ => {}
            }
            let bytes = digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
            let (_, packet) = conversation.packets.last_mut().expect("a mark comes first");
            packet.extend(bytes.map(|byte| byte.expect("hexadecimal")));
        }
        for (_, packet) in &conversation.packets {
            let header = Header::peek(packet).expect("a header");
            assert_eq!(header.len, packet.len() - HEADER, "{name}");
        }
        conversation
    }

    fn exchanges(&self) -> Vec<Exchange<'_>> {
        let mut exchanges: Vec<Exchange<'_>> = Vec::new();
        for (from, packet) in &self.packets {
            let (header, payload) = packet.split_at(HEADER);
            if *from == Side::Client && header[3] == 0 {
                exchanges.push(Exchange { command: payload, reply: Vec::new() });
            } else if let (Side::Server, Some(exchange)) = (from, exchanges.last_mut()) {
                exchange.reply.push(packet);
            }
        }
        exchanges
    }

    fn from(&self, side: Side) -> Vec<&[u8]> {
        let packets = self.packets.iter().filter(|(from, _)| *from == side);
        packets.map(|(_, packet)| &packet[HEADER..]).collect()
    }

    /// The login's three parts: the greeting, the answer, and what the server said to that.
    fn login(&self) -> (Greeting, Login, AuthPacket<'_>) {
        let (server, client) = (self.from(Side::Server), self.from(Side::Client));
        let greeting = Greeting::decode(server[0]).expect("a greeting");
        let Ok(FirstPacket::Login(login)) = FirstPacket::decode(client[0]) else {
            panic!("not a login")
        };
        (greeting, login, AuthPacket::decode(server[1]).expect("an answer"))
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// All recordings, in order.
fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the recordings");
    let stem = |entry: fs::DirEntry| entry.path().file_stem().map(|it| it.to_owned());
    let stems = entries.filter_map(|entry| stem(entry.expect("reads")));
    let mut names: Vec<_> = stems.map(|stem| stem.into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Follows a reply in pieces, writes again what it points out, and names each packet with a letter.
fn follow(
    exchange: &Exchange<'_>,
    capabilities: Capabilities,
    piece: usize,
) -> Result<String, Malformed> {
    let shape = Opcode::decode(exchange.command[0]).map_or(Shape::Simple, Opcode::shape);
    let mut follower = Follower::new(shape, capabilities);
    let (mut held, mut letters) = (Vec::new(), String::new());
    let bytes = exchange.reply.concat();
    let mut ended = shape == Shape::None && bytes.is_empty();
    for chunk in bytes.chunks(piece) {
        assert!(!ended, "ended too early");
        held.extend_from_slice(chunk);
        let mut at = 0;
        loop {
            match follower.advance(&mut held, at)? {
                Step::More { from } => {
                    held.drain(..from);
                    break;
                }
                Step::Packet { kind, start, end } => {
                    let payload = &held[start + HEADER..end];
                    letters.push(letter(kind, payload, capabilities)?);
                    at = end;
                }
                Step::End { at } => {
                    assert_eq!(at, held.len(), "ended too early");
                    ended = true;
                    break;
                }
            }
        }
    }
    assert!(ended, "did not end: {letters}");
    let last = exchange.reply.last().and_then(|packet| Header::peek(packet));
    let next = last.map_or(1, |header| header.sequence.wrapping_add(1));
    assert_eq!(follower.next_sequence(), next);
    Ok(letters)
}

/// Names a packet, having checked that it is written as it was read.
fn letter(kind: Kind, payload: &[u8], capabilities: Capabilities) -> Result<char, Malformed> {
    let mut again = Vec::new();
    let letter = match kind {
        Kind::Ok => {
            OkPacket::decode(payload, capabilities)?.encode(payload[0], capabilities, &mut again);
            'o'
        }
        Kind::Eof => {
            again.extend(EofPacket::decode(payload)?.encode());
            'e'
        }
        Kind::Err => {
            ErrPacket::decode(payload)?.encode(&mut again);
            '!'
        }
        Kind::Authentication => {
            match AuthPacket::decode(payload)? {
                AuthPacket::Switch { plugin, data } => {
                    let data = data.strip_suffix(&[0]).unwrap_or(data);
                    AuthPacket::encode_switch(plugin, data, &mut again);
                }
                AuthPacket::More(data) => AuthPacket::encode_more(data, &mut again),
                AuthPacket::Bare(data) => again.extend_from_slice(data),
                AuthPacket::Ok | AuthPacket::Err => {}
            }
            'a'
        }
        Kind::Progress => return Ok('%'),
        Kind::LocalInfile => return Ok('f'),
        Kind::Prepared => return Ok('p'),
        Kind::Text => return Ok('t'),
    };
    assert_eq!(again, payload);
    Ok(letter)
}

/// What the replies to each recording's commands say, a word each; `-` is none. `o` is OK, `e` EOF,
/// `!` an error, `%` progress, `p` a prepared statement, `t` text, `f` a request for a file, `a` a
/// step of a login.
const REPLIES: &[(&str, &str)] = &[
    ("auth_switch", ""),
    ("bulk", "p o"),
    ("change_user", "ao"),
    ("commands", "o o t o ! o o o o o ! -"),
    ("commands_old", "o o t e ! e e o o ee ! -"),
    ("cursor", "p o o o ! o"),
    ("cursor_cached", "p o o o ! o"),
    ("cursor_old", "pe e e e ! o"),
    ("error_in_rows", "!"),
    ("error_in_rows_old", "e!"),
    ("errors", "! ! ! ! ! !"),
    ("local_infile", "fo fo"),
    ("local_infile_old", "fo fo"),
    ("login", ""),
    ("login_extended", ""),
    ("login_old", ""),
    ("login_refused", ""),
    ("login_unknown_schema", ""),
    ("multi", "oooo! ooo ooo"),
    ("multi_old", "eeooee! eeeeo eeeeo"),
    ("mysql_auth_switch", ""),
    ("mysql_commands", "o o t o o o o aao fo"),
    ("mysql_cursor", "p o o o - p o"),
    ("mysql_cursor_old", "pee e e e - pe e"),
    ("mysql_login_fast", ""),
    ("mysql_login_full", ""),
    ("mysql_rows", "o o ooo !"),
    ("mysql_rows_old", "ee o eeeeo"),
    ("mysql_trackers", "o o o o o o o o o o o"),
    ("ok", "o o o o o o o o o o"),
    ("ok_old", "o o o o"),
    ("prepared", "p o o o p o p - o p - ! !"),
    ("prepared_cached", "p o o o p o p - o p - ! !"),
    ("prepared_old", "pee ee ee o p o pe - o pe - ! !"),
    ("progress", "%%o"),
    ("text_rows", "o o o"),
    ("text_rows_extended", "o"),
    ("text_rows_old", "ee ee"),
    ("trackers", "o o o o o o o o o o o o o o o o o o o o"),
];

#[test]
fn every_reply_ends_with_its_last_byte() {
    let known: Vec<_> = REPLIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(), known);
    for (name, want) in REPLIES {
        let conversation = Conversation::read(name);
        let exchanges = conversation.exchanges();
        for piece in [1, 2, 3, 5, 7, 64, 65_536] {
            let letters = exchanges.iter().map(|exchange| {
                let letters = follow(exchange, conversation.capabilities, piece);
                let letters = letters.unwrap_or_else(|error| panic!("{name}: {error}"));
                if letters.is_empty() { "-".to_owned() } else { letters }
            });
            assert_eq!(letters.collect::<Vec<_>>().join(" "), *want, "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn greetings_and_logins_are_written_as_they_were_read() {
    let mut seen = 0;
    for name in names() {
        let conversation = Conversation::read(&name);
        let server = conversation.from(Side::Server);
        if server[0][0] != 10 {
            continue;
        }
        let (greeting, login, _) = conversation.login();
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        greeting.encode(&mut hello);
        login.encode(&mut answer);
        assert_eq!(hello, server[0], "{name}");
        assert_eq!(answer, conversation.from(Side::Client)[0], "{name}");
        assert_eq!(login.capabilities, conversation.capabilities, "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} logins");
}

#[test]
fn a_mariadb_greets() {
    let conversation = Conversation::read("login");
    let (greeting, login, answer) = conversation.login();
    assert_eq!(greeting.version, b"5.5.5-10.11.19-MariaDB-0+deb12u1");
    assert!(greeting.is_mariadb());
    assert_eq!((greeting.connection_id, greeting.collation), (5, 8));
    assert_eq!(greeting.status, Status::AUTOCOMMIT);
    assert_eq!((&greeting.nonce[..], &greeting.plugin[..]), NONCE_AND_PLUGIN);
    let extended = Capabilities::PROGRESS
        | Capabilities::BULK
        | Capabilities::EXTENDED_METADATA
        | Capabilities::CACHE_METADATA;
    assert_eq!(greeting.capabilities.extended(), extended.extended());
    assert!(greeting.capabilities.has(Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK));
    assert!(!greeting.capabilities.has(Capabilities::LONG_PASSWORD));

    assert_eq!((&login.user[..], login.schema.as_deref()), (&b"golden"[..], Some(&b"golden"[..])));
    assert_eq!((login.packet_max, login.collation), (1 << 24, 45));
    assert_eq!(login.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
    assert_eq!(login.attributes, b"\x03_os\x05Linux\x0c_client_name\x06golden");
    assert_eq!(answer, AuthPacket::Ok);

    let (_, login, _) = Conversation::read("login_extended").login();
    assert_eq!(login.capabilities.extended(), extended.extended());
}

const NONCE_AND_PLUGIN: (&[u8], &[u8]) = (b"yTwxwi-@<J??\\4-&t;df", b"mysql_native_password");

#[test]
fn a_mysql_greets() {
    let conversation = Conversation::read("mysql_login_full");
    let (greeting, login, answer) = conversation.login();
    assert_eq!((&greeting.version[..], greeting.connection_id), (&b"9.7.4-2"[..], 10));
    assert!(!greeting.is_mariadb());
    assert!(
        greeting.capabilities.has(Capabilities::LONG_PASSWORD | Capabilities::QUERY_ATTRIBUTES)
    );
    assert_eq!((greeting.nonce.len(), greeting.capabilities.extended()), (Nonce::LEN, 0));
    assert_eq!(greeting.plugin, b"caching_sha2_password");
    assert_eq!(login.plugin.as_deref(), Some(&b"caching_sha2_password"[..]));
    assert_eq!(answer, AuthPacket::More(&[4]), "the whole password is asked for");
    let conversation = Conversation::read("mysql_login_fast");
    let (_, _, answer) = conversation.login();
    assert_eq!(answer, AuthPacket::More(&[3]), "the server remembers");
}

/// Servers have let these answers in (all but one, where the password was another).
#[test]
fn answers_to_nonces_are_what_servers_took() {
    const PASSWORD: &[u8] = b"golden";
    let native = |nonce: &Nonce| native::NativeStage1::of(PASSWORD).respond(nonce).to_vec();
    let sha2 = |nonce: &Nonce| caching_sha2::Sha2Stage1::of(PASSWORD).respond(nonce).to_vec();
    for name in ["login", "login_old", "login_extended", "login_unknown_schema", "login_refused"] {
        let (greeting, login, _) = Conversation::read(name).login();
        let nonce = Nonce::from_server(&wire::auth::Plugin::NativePassword, &greeting.nonce);
        let is_same = login.response == native(&nonce.expect("a nonce"));
        assert_eq!(is_same, name != "login_refused", "{name}");
    }
    for name in ["mysql_login_full", "mysql_login_fast"] {
        let (greeting, login, _) = Conversation::read(name).login();
        let nonce = Nonce::from_server(&wire::auth::Plugin::CachingSha2, &greeting.nonce);
        assert_eq!(login.response, sha2(&nonce.expect("a nonce")), "{name}");
    }
    for (name, plugin) in [
        ("auth_switch", "mysql_native_password"),
        ("change_user", "mysql_native_password"),
        ("mysql_auth_switch", "caching_sha2_password"),
    ] {
        let conversation = Conversation::read(name);
        let switches = conversation.from(Side::Server).into_iter().filter_map(|payload| {
            match AuthPacket::decode(payload) {
                Ok(AuthPacket::Switch { plugin, data }) => Some((plugin, data)),
                _ => None,
            }
        });
        let [(named, data)] = switches.collect::<Vec<_>>()[..] else { panic!("{name}") };
        assert_eq!(named, plugin.as_bytes(), "{name}");
        let plugin = wire::auth::Plugin::from_name(named);
        let nonce = Nonce::from_server(&plugin, data).expect("a nonce");
        let want =
            if plugin == wire::auth::Plugin::CachingSha2 { sha2(&nonce) } else { native(&nonce) };
        assert_eq!(conversation.from(Side::Client)[1], want, "{name}");
    }
}

/// The OK packets of a recording, in order.
fn oks(conversation: &Conversation) -> Vec<OkPacket<'_>> {
    let packets = conversation.from(Side::Server);
    let oks = packets.iter().filter(|payload| matches!(payload[0], 0 | 0xfe));
    oks.map(|payload| OkPacket::decode(payload, conversation.capabilities).expect("OK")).collect()
}

#[test]
fn counts_and_infos() {
    let conversation = Conversation::read("ok");
    let read: Vec<_> = oks(&conversation)
        .iter()
        .map(|ok| (ok.affected_rows, ok.insert_id, ok.warnings, ok.info))
        .collect();
    let want: [(u64, u64, u16, &[u8]); 10] = [
        (3, 2, 0, b"Records: 3  Duplicates: 0  Warnings: 0"),
        (1, 0, 0, b"Rows matched: 2  Changed: 1  Warnings: 0"),
        (1, 0, 0, b"Rows matched: 1  Changed: 1  Warnings: 0"),
        (300, 70_003, 0, b"Records: 300  Duplicates: 0  Warnings: 0"),
        (300, 0, 0, b""),
        (0, 0, 1, b""),
        (0, 0, 0, b""),
        (1, 70_514, 0, b""),
        (0, 0, 1, b""),
        (0, 0, 0, b"Records: 0  Duplicates: 0  Warnings: 0"),
    ];
    assert_eq!(read, want);
    let old = Conversation::read("ok_old");
    let infos: Vec<_> = oks(&old).iter().map(|ok| ok.info).collect();
    let want: [&[u8]; 4] = [
        b"Records: 2  Duplicates: 0  Warnings: 0",
        b"Rows matched: 6  Changed: 3  Warnings: 0",
        b"",
        b"",
    ];
    assert_eq!(infos, want);
}

#[test]
fn errors_tell_number_state_and_message() {
    let conversation = Conversation::read("errors");
    let errors = conversation.from(Side::Server).into_iter().map(|payload| {
        let err = ErrPacket::decode(payload).expect("an error");
        (err.code, err.sqlstate, String::from_utf8_lossy(err.message).into_owned())
    });
    let errors: Vec<_> = errors.collect();
    let numbers: Vec<_> = errors.iter().map(|(code, state, _)| (*code, state)).collect();
    let want = [
        (1146, b"42S02"),
        (1064, b"42000"),
        (30_001, b"45000"),
        (1062, b"23000"),
        (1047, b"08S01"),
        (1049, b"42000"),
    ];
    assert_eq!(numbers, want);
    assert_eq!(errors[2].2, "mine");
    assert_eq!(errors[3].2, "Duplicate entry '1' for key 'PRIMARY'");
}

#[test]
fn progress_is_no_error() {
    let conversation = Conversation::read("progress");
    let [first, second, ok] = conversation.from(Side::Server)[..] else { panic!("three packets") };
    for (report, stage) in [(first, "copy to tmp table"), (second, "Enabling keys")] {
        let report = ErrPacket::decode(report).expect("like an error");
        assert_eq!(report.code, ErrPacket::PROGRESS);
        assert!(report.message.ends_with(stage.as_bytes()), "{report:?}");
    }
    let ok = OkPacket::decode(ok, conversation.capabilities).expect("OK");
    assert_eq!(ok.affected_rows, 700_000);
}

/// What each OK packet of a recording says has changed.
fn changes(conversation: &Conversation) -> Vec<Vec<Change<'_>>> {
    let read = oks(conversation).into_iter().map(|ok| Changes::new(ok.changes).collect());
    read.collect::<Result<_, _>>().expect("changes")
}

#[test]
fn a_mariadb_tells_what_changes() {
    use Change::{Schema, State, TransactionCharacteristics, TransactionState, Variable};
    let conversation = Conversation::read("trackers");
    let read = changes(&conversation);
    assert_eq!(read.len(), 20);
    assert!(read[0].contains(&Variable { name: b"session_track_system_variables", value: b"*" }));
    assert_eq!(read[1], [Variable { name: b"sql_mode", value: b"" }, State(b"1")]);
    assert_eq!(read[3], [Variable { name: b"autocommit", value: b"ON" }, State(b"1")]);
    assert_eq!(read[4], [Schema(b"golden"), State(b"1")]);
    for (statement, what) in [(5, "user variable"), (6, "temporary table"), (18, "prepared")] {
        assert_eq!(read[statement], [State(b"1")], "{what}");
    }
    let isolation = b"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;";
    assert_eq!(read[8], [TransactionCharacteristics(isolation)]);
    assert_eq!(read[9][0], TransactionState(b"T_R_____"));
    assert_eq!(read[10], [TransactionState(b"________"), TransactionCharacteristics(b"")]);
    assert_eq!(read[13], [TransactionState(b"T_R_W_S_")], "the OK that ends rows");
    assert_eq!(read[15], [TransactionState(b"_______L")], "LOCK TABLES");
    assert_eq!(read[16], [TransactionState(b"________")]);
    assert_eq!(read[17].len(), 4, "SET NAMES sets three variables");
    assert!(read[19].is_empty(), "GET_LOCK is reported nowhere");

    let oks = oks(&conversation);
    assert!(oks[9].status.has(Status::IN_TRANSACTION));
    assert!(oks[9].status.has(Status::IN_READONLY_TRANSACTION));
    assert!(!oks[10].status.has(Status::IN_TRANSACTION));
    assert!(!oks[2].status.has(Status::AUTOCOMMIT) && oks[3].status.has(Status::AUTOCOMMIT));
}

#[test]
fn a_mysql_tells_what_changes_and_counts() {
    use Change::{Schema, State, TransactionState, Variable};
    let conversation = Conversation::read("mysql_trackers");
    let read = changes(&conversation);
    let counted = |value| Variable { name: b"statement_id", value };
    assert_eq!(read[2], [counted(b"14"), Schema(b"golden"), State(b"1")]);
    assert_eq!(read[3], [counted(b"15"), State(b"1")]);
    assert_eq!(read[4], [counted(b"16"), State(b"1")]);
    assert_eq!(read[7], [counted(b"19"), TransactionState(b"_______L")]);
    for told in &read[1..] {
        let is_count =
            |change: &&Change<'_>| matches!(change, Variable { name: b"statement_id", .. });
        assert_eq!(told.iter().filter(is_count).count(), 1, "{told:?}");
    }
}

#[test]
fn executes_name_their_statement_and_types() {
    let conversation = Conversation::read("prepared");
    let exchanges = conversation.exchanges();
    let (prepare, first, second) = (&exchanges[0], &exchanges[1], &exchanges[2]);
    let prepared = id(&prepare.reply[0][HEADER..]);
    assert_eq!((prepared, id(first.command), id(second.command)), (Some(2), Some(2), Some(2)));
    let types = Execute::decode(first.command, 2).expect("an execute").types;
    assert_eq!(types, Some(&[3, 0, 0xfd, 0][..]));
    let short = Execute::decode(second.command, 2).expect("an execute");
    assert_eq!(short.types, None);
    let mut full = Vec::new();
    short.put_with_types(second.command, &[6, 0, 0xfd, 0], &mut full);
    assert_eq!(full.len(), second.command.len() + 4);
    assert_eq!(Execute::decode(&full, 2).expect("an execute").types, Some(&[6, 0, 0xfd, 0][..]));

    for name in ["cursor", "cursor_old", "mysql_cursor", "mysql_cursor_old"] {
        let conversation = Conversation::read(name);
        let exchanges = conversation.exchanges();
        assert!(asks_for_cursor(exchanges[1].command) && !asks_for_cursor(first.command), "{name}");
        let last = |exchange: &Exchange<'_>| Some(exchange.reply.last()?.to_vec());
        let statuses: Vec<_> = exchanges[1..4]
            .iter()
            .filter_map(last)
            .map(|packet| {
                if packet.len() > HEADER + EofPacket::LEN {
                    OkPacket::decode(&packet[HEADER..], conversation.capabilities)
                        .expect("OK")
                        .status
                } else {
                    EofPacket::decode(&packet[HEADER..]).expect("EOF").status
                }
            })
            .collect();
        let has = |flag| statuses.iter().map(|status| status.has(flag)).collect::<Vec<_>>();
        assert_eq!(has(Status::CURSOR_EXISTS), [true, true, false], "{name}");
        assert_eq!(has(Status::LAST_ROW_SENT), [false, false, true], "{name}");
    }
}
