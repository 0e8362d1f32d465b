//! What the project promises about its own files. Each rule is a function of texts, and has a test that it can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::own_sources::{has_word, listed, root, sources, strings, without_tests};

/// The crates, and which other ones each may use. Arrows go down only.
const EDGES: &[(&str, &[&str])] = &[
    // `sys` finds flifo-bench, which it starts; `backend` and `wire` for the administration that an import asks.
    ("flifo", &["backend", "doctor", "import", "init", "proxy", "shell", "sys", "wire"]),
    // What a hash of a password is.
    ("import", &["wire"]),
    // Looks for the server as `run` does, and writes a configuration for it.
    ("init", &["backend", "proxy", "sys", "wire"]),
    ("flifo-bench", &["bench", "shell"]),
    ("shell", &[]),
    // The demo speaks to servers itself; the generator encodes what it sends.
    ("bench", &["engine", "backend", "sys", "wire"]),
    // `wire` for what a login is made of.
    ("doctor", &["backend", "sys", "wire"]),
    ("proxy", &["engine", "backend", "sys", "view", "wire"]),
    ("engine", &["wire"]),
    ("backend", &["wire"]),
    ("view", &["wire"]),
    // Memory for secrets.
    ("wire", &["sys"]),
    ("sys", &[]),
];

/// Crates that do not ship may use anything.
const NOT_SHIPPED: &[&str] = &["sim", "testkit", "xtask"];

/// Lines of a source file, but for tables of data.
const LINES_MAX: usize = 1000;

/// Tables of data may be longer.
const TABLES: &[&str] = &[];

/// A dependency tree that grows beyond this grows by decision.
const PACKAGES_MAX: usize = 250;

/// The crates of this project that each of them uses, but for its tests.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |of: &serde_json::Value| of["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let used = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let product = all.filter(|it| it["kind"] != "dev").map(name);
        product.filter(|it| ours.contains(it)).collect()
    };
    packages.iter().map(|it| (name(it), used(it))).collect()
}

#[test]
fn crates_use_only_those_below_them() {
    let uses = uses();
    let edges = uses.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
    let found: Vec<_> = edges.filter_map(|(from, to)| bad_edge(from, to)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_server_need_not_have_the_load_generator() {
    let uses = uses();
    assert!(reached(&uses, "flifo-bench").contains("bench"));
    let server = reached(&uses, "flifo");
    assert!(server.contains("engine") && !server.contains("bench"), "{server:?}");
}

/// All crates that one uses, itself or by others.
fn reached(uses: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(name) = next.pop() {
        next.extend(uses[name].iter().filter(|it| seen.insert((*it).clone())).map(|it| &**it));
    }
    seen
}

fn bad_edge(from: &str, to: &str) -> Option<String> {
    if NOT_SHIPPED.contains(&from) {
        return None;
    }
    let allowed = EDGES.iter().find(|(name, _)| *name == from).map(|(_, allowed)| *allowed);
    match allowed {
        Some(allowed) if allowed.contains(&to) => None,
        _ => Some(format!("{from} must not use {to}")),
    }
}

#[test]
fn sources_keep_the_rules() {
    let mut found = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        found.extend(faults(&path, &text));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// All that is wrong with a file.
fn faults(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(format!("{path}: {what}"));
    let lines = text.lines().count();
    if lines > LINES_MAX && !TABLES.contains(&path) {
        say(format!("{lines} lines, of at most {LINES_MAX}: which better rooms are there?"));
    }
    let is_rust = path.ends_with(".rs");
    let is_mine = path.ends_with("tidy.rs");
    if is_rust && !text.starts_with("//!") {
        say("does not open with what it owns (`//!`)".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let code = line.split("//").next().unwrap_or_default();
        if is_rust && has_word(code, "unsafe") && !path.starts_with("crates/sys/") && !is_mine {
            say(format!("line {number}: `unsafe` outside crates/sys"));
        }
        for mark in ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "#[ignore"] {
            if line.contains(mark) && !is_mine {
                say(format!("line {number}: {mark}"));
            }
        }
        for place in ["/home/", "/Users/", "/mnt/"] {
            if line.contains(&format!("\"{place}")) && !is_mine {
                say(format!("line {number}: a path of one machine"));
            }
        }
    }
    let is_driven =
        ["crates/proxy/src/", "crates/backend/src/"].iter().any(|it| path.starts_with(it));
    for arms in text.split("select! {").skip(1).filter(|_| is_driven) {
        let first =
            arms.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"));
        if first != Some("biased;") {
            say("`select!` without `biased;`: chance decides what comes first, and no seed does"
                .to_owned());
        }
    }
    if path.starts_with("crates/sys/") {
        let blocks = text.matches("unsafe {").count();
        let reasons = text.matches("SAFETY:").count();
        if reasons < blocks {
            say(format!("{blocks} unsafe blocks, {reasons} reasons (`SAFETY:`)"));
        }
    }
    found
}

/// Words that hide the subject of a sentence: it is a client, a connection, a statement, a user.
const SUBJECTLESS: [&str; 5] = ["who", "whoever", "somebody", "nobody", "anybody"];

#[test]
fn comments_name_their_subjects() {
    let mut found = Vec::new();
    for path in sources().iter().filter(|path| path.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| is_subjectless(line));
        found.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn is_subjectless(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && hides_subject(line)
}

fn hides_subject(text: &str) -> bool {
    SUBJECTLESS.iter().any(|word| has_word(&text.to_lowercase(), word))
}

/// Letters in a line of a document that is in no table and no example.
const DOCUMENT_WIDTH: usize = 124;

#[test]
fn documents_keep_the_rules() {
    let is_written = |path: &&String| {
        // The reference is made from the program; figures of a day are not edited later.
        !path.starts_with("docs/reference/") && !path.starts_with("docs/measurements/")
    };
    let mut found = Vec::new();
    for path in listed(&[".md"]).iter().filter(is_written) {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        found.extend(faults_of_document(&text).into_iter().map(|what| format!("{path}:{what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// All that is wrong with a document: lines that are too long, sentences that hide their subjects.
fn faults_of_document(text: &str) -> Vec<String> {
    let (mut found, mut is_example) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_example = !is_example;
        }
        if is_example {
            continue;
        }
        let length = line.chars().count();
        if length > DOCUMENT_WIDTH && !line.trim_start().starts_with('|') {
            found.push(format!("{}: {length} letters", number + 1));
        }
        let prose: String = line.split('`').step_by(2).collect();
        if hides_subject(&prose) {
            found.push(format!("{}: {}", number + 1, line.trim()));
        }
    }
    found
}

#[test]
fn commands_for_maintainers_are_those_of_the_documents() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let tasks = commands(&read("xtask/src/main.rs"), "Task");
    let parts = commands(&read("xtask/src/servers.rs"), "Part");
    assert!(tasks.len() > 20 && parts.len() > 5, "{tasks:?} {parts:?}");
    let contributing = read("CONTRIBUTING.md");
    for task in &tasks {
        let is_told = contributing.contains(&format!("`cargo xtask {task}"));
        assert!(is_told, "CONTRIBUTING.md does not tell of {task}");
    }
    // Figures of a day are those of the commands of that day.
    let documents = listed(&[".md"]).into_iter().filter(|it| !it.starts_with("docs/measurements/"));
    for path in documents {
        let unknown = unknown_commands(&read(&path), &tasks, &parts);
        assert!(unknown.is_empty(), "{path}: there is no {unknown:?}");
    }
}

/// What the variants of an enum are called as commands.
fn commands(source: &str, name: &str) -> BTreeSet<String> {
    let body = source.split_once(&format!("enum {name} {{\n")).map_or("", |(_, rest)| rest);
    let lines = body.split("\n}").next().unwrap_or_default().lines();
    let variants = lines.filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        line.split(|it: char| !it.is_alphanumeric()).next()
    });
    variants.filter(|it| it.starts_with(|it: char| it.is_uppercase())).map(kebab).collect()
}

fn kebab(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Commands behind `cargo xtask`, and behind its `servers`, that are none of these.
fn unknown_commands(text: &str, tasks: &BTreeSet<String>, parts: &BTreeSet<String>) -> Vec<String> {
    let of = |word: &str| word.trim_end_matches(|it: char| !it.is_ascii_lowercase()).to_owned();
    let words: Vec<_> = text.split_whitespace().chain([""]).collect();
    let mut unknown = Vec::new();
    for three in words.windows(3).filter(|three| three[0] == "xtask") {
        let (task, part) = (of(three[1]), of(three[2]));
        let has_part = three[1] == "servers" && three[2].starts_with(|it: char| it.is_lowercase());
        if has_part && !parts.contains(&part) {
            unknown.push(part);
        }
        if !tasks.contains(&task) {
            unknown.push(task);
        }
    }
    unknown
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut lost = Vec::new();
    for path in listed(&[".md"]) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        let bad = links(&text).filter(|link| !leads_somewhere(&path, &text, link));
        lost.extend(bad.map(|link| format!("{path}: {link}")));
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// Where links of a document lead within the project.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|it| !it.is_empty() && !it.contains("://") && !it.contains(char::is_whitespace))
}

/// Whether a link of this document leads to a file that is there, and to a heading that is in it.
fn leads_somewhere(document: &str, own: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = root().join(document).with_file_name("").join(file);
    let has = |text: &str| heading.is_empty() || headings(text).any(|it| it == heading);
    match file {
        "" => has(own),
        _ if file.ends_with(".md") => std::fs::read_to_string(path).is_ok_and(|text| has(&text)),
        _ => path.exists(),
    }
}

/// What links call the headings of a document.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |it: &char| it.is_alphanumeric() || matches!(it, '-' | '_' | ' ');
        words.chars().filter(is_kept).collect::<String>().replace(' ', "-")
    })
}

/// Messages, logs, help texts and the docs of options: all strings of the crates that ship, outside of tests.
#[test]
fn strings_name_their_subjects() {
    let is_shipped = |path: &str| {
        let mut parts = path.split('/');
        let name = parts.nth(1).unwrap_or_default();
        path.ends_with(".rs")
            && EDGES.iter().any(|(shipped, _)| *shipped == name)
            && parts.next() == Some("src")
            && !path.contains("/tests/")
            && !path.ends_with("tests.rs")
    };
    let mut found = Vec::new();
    for path in sources().iter().filter(|path| is_shipped(path)) {
        let text = without_tests(&std::fs::read_to_string(root().join(path)).unwrap());
        let bad = strings(&text).into_iter().filter(|it| hides_subject(&it.replace("\\n", " ")));
        found.extend(bad.map(|it| format!("{path}: {it}")));
    }
    assert!(found.is_empty(), "{} strings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_road_exists() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let entries: Vec<_> = road(&text).collect();
    assert!(entries.len() >= 12, "the road is a table of `path:function`");
    let lost: Vec<_> = entries
        .iter()
        .filter(|(path, function)| {
            let source = std::fs::read_to_string(root().join(path)).unwrap_or_default();
            !defines(&source, function)
        })
        .collect();
    assert!(lost.is_empty(), "no longer there: {lost:?}");
}

/// Every `path.rs:function` in back-ticks.
fn road(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|code| {
        let (path, function) = code.split_once(".rs:")?;
        Some((&code[..path.len() + 3], function))
    })
}

fn defines(source: &str, function: &str) -> bool {
    let call = format!("fn {function}");
    source.match_indices(&call).any(|(at, _)| source[at + call.len()..].starts_with(['(', '<']))
}

#[test]
fn checks_of_the_invariants_are_those_that_are_named() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let source = root().join("crates/proxy/src/road/invariants.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let made = checks_made(&source);
    assert!(made.len() >= 8, "{made:?}");
    assert_eq!(checks_named(&document), made, "`*Checked by*` in ARCHITECTURE.md");
}

/// The functions that look whether an invariant holds: all private ones.
fn checks_made(source: &str) -> BTreeSet<&str> {
    source.lines().filter_map(|line| line.strip_prefix("fn ")?.split('(').next()).collect()
}

/// What a document says in back-ticks behind `*Checked by*`, up to the end of the sentence.
fn checks_named(document: &str) -> BTreeSet<&str> {
    let begins = document.split("*Checked by*").skip(1);
    let sentences =
        begins.filter_map(|rest| rest.trim_start().strip_prefix('`')?.split('.').next());
    sentences.flat_map(|sentence| sentence.split('`').step_by(2)).collect()
}

/// What stands in for the network, the clock and chance is in no program that users run.
#[test]
fn no_program_that_ships_is_built_for_simulation() {
    let read = |folder: &Path| std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|it| it.unwrap().path());
    let folders: Vec<_> = crates.chain([root().join("xtask")]).collect();
    assert!(folders.len() > 10);
    let mut users = Vec::new();
    for folder in folders {
        let (name, manifest) = (folder.file_name().unwrap().to_owned(), read(&folder));
        let asks = |line: &str| line.contains("features = [") && line.contains("\"simulation\"");
        assert!(name == "sim" || !manifest.lines().any(asks), "{name:?}");
        if manifest.lines().any(|line| line.starts_with("sim.") || line.starts_with("sim = ")) {
            users.push(name);
        }
    }
    assert_eq!(users, ["xtask"]);
}

#[test]
fn dependencies_have_reasons() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let bare = without_reason(&manifest);
    assert!(bare.is_empty(), "no reason above {bare:?} in Cargo.toml");
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= PACKAGES_MAX, "{packages} packages in Cargo.lock");
}

/// Outside crates in `[workspace.dependencies]` that do not stand below a comment, alone or in a group.
fn without_reason(manifest: &str) -> Vec<&str> {
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let table = table.split("\n[").next().unwrap_or_default();
    let mut has_reason = false;
    let mut bare = Vec::new();
    for line in table.lines() {
        match line.split_once(" = ") {
            _ if line.starts_with('#') => has_reason = true,
            Some(_) if line.contains("path = ") => {}
            Some((name, _)) if !has_reason => bare.push(name),
            Some(_) => {}
            None => has_reason = false,
        }
    }
    bare
}

#[test]
fn the_rules_can_fail() {
    assert!(bad_edge("wire", "engine").is_some() && bad_edge("engine", "proxy").is_some());
    assert!(bad_edge("proxy", "bench").is_some() && bad_edge("proxy", "wire").is_none());
    assert!(bad_edge("unheard_of", "wire").is_some());

    let check = |path: &str, text: &str| faults(path, text).len();
    assert_eq!(check("crates/wire/src/a.rs", "//! Fine.\nfn a() {}\n"), 0);
    assert_eq!(check("crates/wire/src/a.rs", "fn a() {}\n"), 1);
    assert_eq!(check("crates/wire/src/a.rs", "//! x\nunsafe fn a() {}\n"), 1);
    assert_eq!(check("crates/wire/src/a.rs", "//! x\n// not unsafe\n"), 0);
    assert_eq!(check("crates/sys/src/a.rs", "//! x\nunsafe { }\n"), 1);
    assert_eq!(check("crates/sys/src/a.rs", "//! x\n// SAFETY: so\nunsafe { }\n"), 0);
    let select = |first| format!("//! x\ntokio::select! {{\n    // y\n    {first}\n}}\n");
    assert_eq!(check("crates/proxy/src/a.rs", &select("a = b => c,")), 1);
    assert_eq!(check("crates/proxy/src/a.rs", &select("biased;")), 0);
    assert_eq!(check("a.sh", "# TODO\n"), 1);
    assert_eq!(check("a.py", "open(\"/home/x\")\n"), 1);
    assert_eq!(check("a.js", &"x\n".repeat(LINES_MAX + 1)), 1);

    assert!(is_subjectless("    /// Who waits is let in.") && is_subjectless("// Nobody's turn."));
    assert!(!is_subjectless("let who = 1; // who") && !is_subjectless("// The whole of it."));
    assert!(hides_subject("who listens") && !hides_subject("whose it is"));
    let long = "x".repeat(DOCUMENT_WIDTH + 1);
    let document = format!("Nobody is here.\n`who` is\n```\n{long} who\n```\n| {long} |\n{long}\n");
    assert_eq!(faults_of_document(&document).len(), 2);
    let source =
        "enum Task {\n    /// It.\n    Ci,\n    SetUp {\n        At,\n    },\n}\nfn A() {}\n";
    let tasks = commands(source, "Task");
    assert_eq!(tasks, BTreeSet::from(["ci".to_owned(), "set-up".to_owned()]));
    let text =
        "`cargo xtask set-up`, cargo xtask servers stale, `cargo xtask` runs; cargo\nxtask cy.";
    assert_eq!(unknown_commands(text, &tasks, &tasks), ["stale", "servers", "cy"]);

    let document = "# A `b` c\n[x](#a-b-c) [y](#gone) [z](https://a.b) [v](gone.md#a)";
    let lost = |link: &&str| !leads_somewhere("README.md", document, link);
    assert_eq!(links(document).filter(lost).collect::<Vec<_>>(), ["#gone", "gone.md#a"]);

    let table =
        "[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n\nc = \"1\"\n[x]\nd = \"1\"\n";
    assert_eq!(without_reason(table), ["c"]);

    let source = "/// One.\nfn one(a: u8) {\n    fn inner() {}\n}\npub fn all() {}\nfn two() {}\n";
    assert_eq!(checks_made(source), BTreeSet::from(["one", "two"]));
    let document = "*Checked by* names `x`. *Checked by*\n `one`,\n `two` (all). `y` stands here.";
    assert_eq!(checks_named(document), BTreeSet::from(["one", "two"]));

    let entries: Vec<_> = road("see `crates/a.rs:go` and `x`").collect();
    assert_eq!(entries, [("crates/a.rs", "go")]);
    assert!(defines("pub fn go<T>(x: T) {}", "go") && !defines("fn gone() {}", "go"));
}
