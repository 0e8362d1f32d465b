//! Whatever is read, nothing panics, the result is TOML, and time and memory keep in proportion.

use std::fs;
use std::path::Path;

use import::{Contents, Kind, Source};
use proptest::prelude::*;

const KINDS: [Kind; 5] =
    [Kind::ProxySql, Kind::ProxySqlDump, Kind::MaxScale, Kind::HaProxy, Kind::UserList];

fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("is there").map(|it| it.expect("reads").path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|it| ["cnf", "cfg", "txt", "sql"].iter().any(|kind| *it == **kind))
    });
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("reads")).collect()
}

/// Imports, and checks that what comes out can be read.
fn import(bytes: Vec<u8>, kind: Option<Kind>) {
    let source = Source { name: "a\nb".to_owned(), contents: Contents::File { bytes, kind } };
    let Ok(made) = import::import(&[source]) else { return };
    let read = made.text.parse::<toml::Table>();
    assert!(read.is_ok(), "{:?}\n{}", read.err(), made.text);
    let report = made.report.to_string();
    assert_eq!(report.lines().count(), made.report.findings().len() + 1);
}

#[test]
fn files_that_are_cut_are_read_or_refused() {
    for sample in samples() {
        for end in (0..sample.len()).step_by(61) {
            import(sample[..end].to_vec(), None);
        }
        for kind in KINDS {
            import(sample.clone(), Some(kind));
        }
    }
}

#[test]
fn large_files_take_time_in_proportion() {
    let many = |line: &dyn Fn(usize) -> String| (0..5_000).map(line).collect::<String>();
    let servers = many(&|at| format!("{{ address=\"h{at}\", hostgroup={} }},\n", at % 1000));
    let users = many(&|at| format!("{{ username=\"u{at}\", password=\"p\" }},\n"));
    let rules = many(&|at| {
        format!(
            "{{ rule_id={at}, flagIN={}, match_digest=\"^SELECT\", destination_hostgroup=1 }},\n",
            at % 50
        )
    });
    import(
        format!("mysql_servers=({servers})\nmysql_users=({users})\nmysql_query_rules=({rules})")
            .into_bytes(),
        None,
    );
    import(many(&|at| format!("\"u{at}\" \"p\"\n")).into_bytes(), None);
    import(
        many(&|at| format!("[s{at}]\ntype=server\naddress=h\nport={}\n", at % 60_000 + 1))
            .into_bytes(),
        None,
    );
    let lines = many(&|at| format!(" server same 10.0.{}.{}:3306 check\n", at / 250, at % 250));
    import(format!("listen mysql\n mode tcp\n bind :3306\n{lines}").into_bytes(), None);
    import("(".repeat(1 << 20).into_bytes(), Some(Kind::ProxySql));
    import(format!("a={}", "{a=".repeat(1 << 20)).into_bytes(), Some(Kind::ProxySql));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn changed_files_are_read_or_refused(
        sample in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
    ) {
        let samples = samples();
        let mut bytes = sample.get(&samples).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        import(bytes.clone(), None);
        for kind in KINDS {
            import(bytes.clone(), Some(kind));
        }
    }

    #[test]
    fn words_in_any_order_are_read_or_refused(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..60),
        kind in prop::sample::select(KINDS.to_vec()),
    ) {
        import(words.join(" ").into_bytes(), Some(kind));
    }
}

/// What stands in files of all kinds.
const WORDS: &[&str] = &[
    "mysql_servers",
    "mysql_users",
    "mysql_query_rules",
    "mysql_variables",
    "mysql_replication_hostgroups",
    "=",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    "\n",
    "hostgroup=1",
    "hostname=\"a\"",
    "username=\"b\"",
    "password=\"c\"",
    "rule_id=1",
    "flagOUT=2",
    "match_digest=\"(\"",
    "replace_pattern=\"\\1\"",
    "destination_hostgroup=-1",
    "writer_hostgroup=1",
    "reader_hostgroup=1",
    "99999999999999999999",
    "-1",
    "\"",
    "'",
    "[maxscale]\n",
    "[a]\n",
    "type=server\n",
    "type=service\n",
    "type=listener\n",
    "type=monitor\n",
    "type=filter\n",
    "servers=a,a\n",
    "address=h\n",
    "port=0\n",
    "port=3306\n",
    "router=readwritesplit\n",
    "service=a\n",
    "listen x\n",
    "frontend y\n",
    "backend x\n",
    "defaults\n",
    "mode tcp\n",
    "bind :3306\n",
    "server a b:1 weight 0\n",
    "server a b:3306 weight 256 backup\n",
    "default_backend x\n",
    "use_backend x if { src 1.2.3.4 }\n",
    "\u{0}",
    "ä",
    "#",
    "\\",
];
