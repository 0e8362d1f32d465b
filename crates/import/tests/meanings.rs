//! What servers are for and where statements go, as far as it must be guessed from a configuration.

use import::{Contents, Source};
use toml::{Table, Value};

fn import(text: &str) -> Table {
    let contents = Contents::File { bytes: text.as_bytes().to_vec(), kind: None };
    let made = import::import(&[Source { name: "x".to_owned(), contents }]).expect("is right");
    made.text.parse().expect("is TOML")
}

/// Servers as `address group cluster`, rules as their names, and where statements go.
fn summary(made: &Table) -> String {
    let list = |name: &str| made.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let servers = list("servers")
        .iter()
        .map(|server| {
            let of =
                |key: &str, default: &str| text(server, key).unwrap_or_else(|| default.to_owned());
            format!("{} {} {}", of("address", ""), of("group", "auto"), of("cluster", "-"))
        })
        .collect::<Vec<_>>();
    let rules = list("rules").iter().filter_map(|rule| text(rule, "name")).collect::<Vec<_>>();
    let told = |route: &Value| {
        let mode = text(route, "mode").unwrap_or_default();
        text(route, "cluster").map_or_else(|| mode.clone(), |cluster| format!("{mode}@{cluster}"))
    };
    let routes = list("routes").iter().map(told).collect::<Vec<_>>();
    let mode = made.get("routing").and_then(|it| text(it, "mode")).unwrap_or_default();
    format!("{} | {mode} {} | {}", servers.join(", "), routes.join(" "), rules.join(" "))
}

/// ProxySQL's servers as `host hostgroup`, users' hostgroups, and rules as `expression hostgroup`.
fn proxysql(servers: &[(&str, u32)], users: &[u32], rules: &[(&str, u32)]) -> String {
    let servers =
        servers.iter().map(|(host, group)| format!("{{ address=\"{host}\", hostgroup={group} }},"));
    let users = users.iter().enumerate().map(|(at, group)| {
        format!("{{ username=\"u{at}\", password=\"p\", default_hostgroup={group} }},")
    });
    let rules = rules.iter().enumerate().map(|(at, (expression, group))| {
        let id = at + 1;
        format!("{{ rule_id={id}, match_digest=\"{expression}\", destination_hostgroup={group}, apply=1 }},")
    });
    let (servers, users, rules) =
        (servers.collect::<String>(), users.collect::<String>(), rules.collect::<String>());
    format!("mysql_servers=({servers}) mysql_users=({users}) mysql_query_rules=({rules})")
}

#[test]
fn hostgroups_that_no_table_pairs() {
    let split = &[("^SELECT.*FOR UPDATE", 0), ("^SELECT", 1)];
    let cases = [
        (
            proxysql(&[("a", 0), ("b", 1), ("c", 1)], &[0], split),
            "a:3306 writer -, b:3306 readers -, c:3306 readers - | split  | ",
        ),
        // The writer is read from as well.
        (
            proxysql(&[("a", 0), ("a", 1), ("b", 1)], &[0], split),
            "a:3306 writer -, b:3306 readers - | split  | ",
        ),
        // Two applications that have nothing in common.
        (
            proxysql(&[("a", 0), ("b", 5)], &[0, 5], &[]),
            "a:3306 writer hostgroup-0, b:3306 writer hostgroup-5 |   | ",
        ),
        // Something that is written goes elsewhere.
        (
            proxysql(&[("a", 0), ("b", 1)], &[0], &[("^INSERT INTO log", 1)]),
            "a:3306 writer hostgroup-0, b:3306 writer hostgroup-1 |   | rule-1",
        ),
        // Rules behind reads keep all of them as they are.
        (
            proxysql(&[("a", 0), ("b", 1)], &[0], &[("^SELECT", 1), ("^SELECT 1$", 0)]),
            "a:3306 writer -, b:3306 readers - |   | rule-1 rule-2",
        ),
        // Rules before them stay, too.
        (
            proxysql(&[("a", 0), ("b", 1)], &[0], &[("^SELECT x FROM y", 0), ("^SELECT", 1)]),
            "a:3306 writer -, b:3306 readers - | split  | rule-1",
        ),
        // A user that reads only.
        (
            proxysql(&[("a", 0), ("b", 1), ("a", 1)], &[0, 0, 1], split),
            "a:3306 writer -, b:3306 readers - | split readers | ",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(summary(&import(&text)), want, "{text}");
    }
}

#[test]
fn backends_that_belong_together() {
    let server = |name: &str| format!(" server {name} {name}:3306 check\n");
    let backend = |name: &str, servers: &[&str]| {
        let servers: String = servers.iter().map(|it| server(it)).collect();
        format!("backend {name}\n mode tcp\n option mysql-check\n{servers}")
    };
    let frontend = |port: u32, name: &str| {
        format!("frontend in_{name}\n mode tcp\n bind :{port}\n default_backend {name}\n")
    };
    let all = |parts: &[(u32, &str, &[&str])]| {
        let parts = parts.iter();
        parts
            .map(|(port, name, servers)| frontend(*port, name) + &backend(name, servers))
            .collect::<String>()
    };
    let cases = [
        (
            all(&[(3306, "db_rw", &["a"]), (3307, "db_ro", &["b", "c"])]),
            "a:3306 writer -, b:3306 readers -, c:3306 readers - |  readers | ",
        ),
        (
            all(&[
                (3307, "shop-read", &["b"]),
                (3306, "shop-write", &["a"]),
                (3308, "crm-write", &["c"]),
                (3309, "crm-read", &["d"]),
            ]),
            "b:3306 readers shop-write, a:3306 writer shop-write, c:3306 writer crm-write, d:3306 readers crm-write \
             |  readers writer@crm-write readers@crm-write | ",
        ),
        // All for reads: one must be written to.
        (
            all(&[(3306, "one_replicas", &["a", "b"]), (3307, "two_replicas", &["a", "c"])]),
            "a:3306 writer -, b:3306 readers -, c:3306 readers - |  readers readers | ",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(summary(&import(&text)), want, "{text}");
    }
}

/// What stands in `[server]` and in each of `[[servers]]`, of these keys.
fn by_server(made: &Table, keys: &[&str]) -> String {
    let of = |table: &Value| {
        let found = keys.iter().filter_map(|key| Some(format!("{key}={}", table.get(key)?)));
        found.collect::<Vec<_>>().join(" ")
    };
    let all = made.get("server").map(of).unwrap_or_default();
    let servers = made.get("servers").and_then(Value::as_array).cloned().unwrap_or_default();
    let each = servers.iter().map(of).collect::<Vec<_>>();
    format!("{all} | {}", each.join(" | ")).replace('"', "")
}

#[test]
fn what_one_server_has_is_not_what_all_have() {
    let keys = &["connections_max", "send_proxy", "tls", "tls_ca", "tls_cert", "tls_key"];
    let haproxy = |servers: [&str; 2]| {
        let [one, other] = servers;
        format!(
            "listen db\n mode tcp\n bind :3306\n server a 10.0.0.1:3306 {one}\n server b 10.0.0.2:3306 {other}\n"
        )
    };
    let maxscale = |servers: [&str; 2]| {
        let [one, other] = servers.map(|it| it.replace(' ', "\n"));
        format!(
            "[a]\ntype=server\naddress=10.0.0.1\n{one}\n\n[b]\ntype=server\naddress=10.0.0.2\n{other}\n\n\
             [s]\ntype=service\nrouter=readwritesplit\nservers=a,b\nuser=u\npassword=p\n\n\
             [l]\ntype=listener\nservice=s\nport=3306\n"
        )
    };
    for (text, want) in [
        (haproxy(["send-proxy-v2", "check"]), " | send_proxy=v2 | "),
        (haproxy(["send-proxy", "send-proxy-v2"]), "send_proxy=v2 |  | "),
        (haproxy(["maxconn 10", "maxconn 20"]), " | connections_max=10 | connections_max=20"),
        (haproxy(["ssl verify none", "check"]), " | tls=required | "),
        (
            haproxy(["ssl ca-file /ca.pem", "ssl verify none crt /both.pem"]),
            " | tls=verify-ca tls_ca=/ca.pem | tls=required tls_cert=/both.pem tls_key=/both.pem",
        ),
        (maxscale(["ssl=true", ""]), " | tls=required | "),
        (maxscale(["ssl=true", "ssl=true"]), "tls=required |  | "),
        (maxscale(["proxy_protocol=true", "ssl=false ssl_ca=/ca.pem"]), " | send_proxy=v2 | "),
        (
            maxscale(["ssl=true ssl_ca=/ca.pem ssl_verify_peer_host=true", "ssl=true"]),
            " | tls=verify-full tls_ca=/ca.pem | tls=required",
        ),
    ] {
        assert_eq!(by_server(&import(&text), keys), want, "{text}");
    }
}

#[test]
fn how_long_machines_may_be_silent() {
    let of = |text: &str| {
        let made = import(text);
        let limits = made.get("limits").cloned();
        ["client_silence", "server_silence"].map(|name| {
            let limit = limits.as_ref().and_then(|it| it.get(name)).and_then(Value::as_str);
            limit.unwrap_or("-").to_owned()
        })
    };
    let haproxy = |bind: &str, server: &str| {
        of(&format!(
            "listen db\n mode tcp\n option clitcpka\n clitcpka-idle 10s\n bind 10.0.0.1:3306 {bind}\n \
             server a 10.0.0.2:3306 check {server}\n"
        ))
    };
    assert_eq!(haproxy("", ""), ["-", "-"]);
    assert_eq!(haproxy("tcp-ut 30s", "tcp-ut 20s"), ["30s", "20s"]);
    assert_eq!(haproxy("tcp-ut 1s", ""), ["5s", "-"]);
    let proxysql = |seconds: u32| {
        of(&format!(
            "mysql_servers=({{ address=\"a\", hostgroup=0 }}) \
             mysql_variables={{ use_tcp_keepalive=\"true\" tcp_keepalive_time={seconds} }}"
        ))
    };
    assert_eq!(proxysql(120), ["-", "-"], "its default");
    assert_eq!(proxysql(300), ["5m", "5m"]);
}
