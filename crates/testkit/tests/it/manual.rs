//! What the manual tells readers to look for is there: metrics, kinds of errors, lines of the log, tables of the console,
//! options.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder's files that end so, those of folders in it included.
fn files(folder: &str, end: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                let text = fs::read_to_string(&path).expect("a text");
                found.push((path, text));
            }
        }
    }
    found
}

/// What a pattern of the manual names, with the page that does.
fn named<'a>(
    pages: &'a [(PathBuf, String)],
    begin: &str,
    is_in: impl Fn(char) -> bool,
) -> Vec<(String, &'a Path)> {
    let mut found = Vec::new();
    for (path, text) in pages {
        for (at, _) in text.match_indices(begin) {
            let rest = &text[at + begin.len()..];
            let end = rest.find(|it| !is_in(it)).unwrap_or(rest.len());
            found.push((rest[..end].to_owned(), path.as_path()));
        }
    }
    found
}

/// The sources of a crate, with texts that go on in the next line put together.
fn source(folder: &str) -> String {
    let mut text = String::new();
    for (_, source) in files(folder, ".rs") {
        let mut parts = source.split("\\\n");
        text += parts.next().unwrap_or_default();
        parts.for_each(|part| text += part.trim_start());
    }
    text
}

/// All names of a kind that the manual has are these; some must be there, or the pattern is wrong.
fn check(what: &str, names: Vec<(String, &Path)>, least: usize, is_known: impl Fn(&str) -> bool) {
    assert!(names.len() >= least, "only {} {what}", names.len());
    for (name, page) in names {
        assert!(is_known(&name), "{}: there is no {what} {name:?}", page.display());
    }
}

#[test]
fn metrics_of_the_manual_are_those_of_the_code() {
    let pages = files("docs/manual", ".md");
    let code = source("crates/proxy/src/admin");
    let names = named(&pages, "flifo_", |it| it.is_ascii_lowercase() || it == '_');
    // A package is called flifo_VERSION.deb; `flifo_worker_..._total` stands for several.
    let names = names.into_iter().filter(|(name, _)| !name.is_empty() && !name.ends_with('_'));
    check("metric", names.collect(), 25, |name| {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        code.contains(&format!("\"flifo_{base}\""))
    });
    let faults = source("crates/proxy/src");
    let mut kinds = named(&pages, "kind=~\"", |it| it.is_ascii_lowercase() || "_|".contains(it));
    kinds.extend(named(&pages, "kind=\"", |it| it.is_ascii_lowercase() || it == '_'));
    let each = |(kinds, page): (String, _)| {
        kinds.split('|').map(|kind| (kind.to_owned(), page)).collect::<Vec<_>>()
    };
    let kinds = kinds.into_iter().filter(|(kinds, _)| !kinds.is_empty()).flat_map(each);
    check("kind", kinds.collect(), 6, |kind| faults.contains(&format!("=> \"{kind}\"")));
}

#[test]
fn lines_of_the_log_that_the_manual_names_are_said() {
    let pages = files("docs/manual", ".md");
    let code = source("crates/proxy/src") + &source("crates/flifo/src");
    let mut lines = Vec::new();
    for begin in ["log: `", "log: `… ", "line `"] {
        lines.extend(named(&pages, begin, |it| it != '`'));
    }
    // A line is a sentence; a single word in such a place is a name of something else.
    lines.retain(|(line, _)| line.matches(' ').count() > 1 && !line.starts_with(['…', '-']));
    lines.retain(|(line, _)| !line.starts_with(|it: char| it.is_ascii_uppercase() && it != 'F'));
    check("line of the log", lines, 8, |line| {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        code.contains(&line)
    });
}

#[test]
fn tables_of_the_console_that_the_manual_names_are_there() {
    let pages = files("docs/manual", ".md");
    let code = source("crates/proxy/src/admin");
    let of_servers = ["FULL", "HELP", "TABLES", "COLUMNS", "STATUS", "VARIABLES"];
    let names = named(&pages, "SHOW ", |it| it.is_ascii_uppercase()).into_iter();
    let names = names.filter(|(name, _)| !name.is_empty() && !of_servers.contains(&name.as_str()));
    // What servers are asked themselves, and a right there.
    let names =
        names.filter(|(name, _)| !["CREATE", "ALL", "SLAVE", "GRANTS", "VIEW"].contains(&&**name));
    check("table", names.collect(), 60, |name| {
        code.contains(&format!("\"{}\"", name.to_lowercase()))
    });
}

#[test]
fn options_that_the_manual_names_are_in_the_reference() {
    let pages = files("docs/manual", ".md");
    let reference = fs::read_to_string(root().join("docs/reference/configuration.md")).unwrap();
    let sections = ["limits", "checks", "routing", "console", "http", "tls", "server", "users"];
    let mut names = Vec::new();
    for section in sections {
        let begin = format!("`{section}.");
        let found = named(&pages, &begin, |it| it.is_ascii_lowercase() || it == '_');
        names.extend(found.into_iter().map(|(name, page)| (format!("{section}.{name}"), page)));
    }
    // What a reload prints names a user.
    names.retain(|(name, _)| name != "users.app" && name != "users.report");
    check("option", names, 60, |name| reference.contains(&format!("### `{name}`\n")));
}

#[test]
fn files_that_are_written_are_those_that_security_names() {
    let text = |path: &str| fs::read_to_string(root().join(path)).expect("a text");
    let (reference, security) = (text("docs/reference/configuration.md"), text("SECURITY.md"));
    let options = reference.lines().filter_map(|it| it.strip_prefix("### `")?.strip_suffix('`'));
    let is_written = |name: &&str| {
        name.ends_with(".state_file") || name.starts_with("logs.") && name.ends_with("file")
    };
    let written: Vec<_> = options.filter(is_written).collect();
    assert!(written.len() >= 5, "only {written:?}");
    for name in written {
        let is_named = security.contains(&format!("`{name}`"));
        assert!(is_named, "SECURITY.md does not say what is in {name}");
    }
}

/// Configurations that a page shows: blocks of code that begin with a table of options.
fn examples(page: &str) -> Vec<String> {
    let (mut found, mut block, mut fence) = (Vec::new(), Vec::new(), None);
    for line in page.lines().chain(["."]) {
        let opens = line.strip_prefix("```");
        let code = match fence {
            Some(kind) => Some(line).filter(|_| opens.is_none() && kind == "toml"),
            None if line.is_empty() && !block.is_empty() => Some(line),
            None => line.strip_prefix("    "),
        };
        match code {
            Some(code) => block.push(code),
            None => found.push(std::mem::take(&mut block).join("\n")),
        }
        fence = if fence.is_some() { fence.filter(|_| opens.is_none()) } else { opens };
    }
    found.retain(|it| it.starts_with('['));
    found
}

#[test]
fn configurations_that_the_manual_shows_are_accepted() {
    let pages = files("docs/manual", ".md");
    let of_page = |(path, page): &(PathBuf, String)| {
        examples(page).into_iter().map(|it| (path.clone(), it)).collect::<Vec<_>>()
    };
    let all = pages.iter().flat_map(of_page).collect::<Vec<_>>();
    assert!(all.len() >= 15, "only {} examples are found", all.len());
    for (path, example) in all {
        // What a page need not say again: a user that can ask servers.
        let whole = format!("{example}\n[[users]]\nname = \"flifo\"\npassword = \"of flifo\"\n");
        if let Err(problems) = proxy::config::parse(&whole, "flifo.toml") {
            let told = problems.iter().map(|it| it.message.as_str()).collect::<Vec<_>>();
            panic!("{}:\n{example}\n{}", path.display(), told.join("\n"));
        }
    }
}
