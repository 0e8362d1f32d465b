//! A configuration is taken, or refused with places that exist, without repeating what may be
//! secret.

use proxy::config::{Problem, Severity, parse};

const FILE: &str = "flifo.toml";

/// Problems are bounded, so that a file of nonsense does not fill the memory.
const PROBLEMS_MAX: usize = 200;
const MESSAGE_MAX: usize = 1000;

/// The bytes are a configuration's text.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = parse(text, FILE);
    match &read {
        Ok((_, warnings)) => {
            assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning));
            check(text, warnings);
        }
        Err(problems) => {
            assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
            check(text, problems);
        }
    }
    keeps_a_secret(text);
}

fn check(text: &str, problems: &[Problem]) {
    assert!(problems.len() <= PROBLEMS_MAX);
    assert!(problems.is_sorted());
    let lines: Vec<_> = text.split('\n').collect();
    for problem in problems {
        assert_eq!(problem.place.file, FILE);
        assert!(!problem.message.is_empty() && problem.message.len() <= MESSAGE_MAX);
        let shown = problem.to_string();
        assert!(!shown.contains('\x1b'), "a terminal would obey {shown:?}");
        if let Some(at) = problem.place.at {
            let line = at.line.checked_sub(1).and_then(|line| lines.get(line));
            let line = line.unwrap_or_else(|| panic!("{shown}: there is no such line"));
            assert!((1..=line.chars().count() + 1).contains(&at.column), "{shown}: column");
        }
    }
}

/// A password that stands in the text is told nowhere, whatever is wrong around it.
fn keeps_a_secret(text: &str) {
    const SECRET: &str = "hunter2hunter2";
    if text.contains(SECRET) || text.contains(['"', '\'']) {
        // An open quotation would make the password part of something else, such as a key.
        return;
    }
    let user = format!("[[users]]\nname = \"app\"\npassword = \"{SECRET}\"\n");
    let whole = format!("{user}{text}");
    let (Ok((_, problems)) | Err(problems)) = parse(&whole, FILE);
    for problem in problems {
        assert!(!problem.to_string().contains(SECRET), "{problem}");
    }
}
