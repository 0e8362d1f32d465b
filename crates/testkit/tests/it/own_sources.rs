//! The project's own files, and what a source is made of: code, comments, strings, tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the whole project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files that git knows or would take, as paths from the root.
pub(crate) fn sources() -> Vec<String> {
    listed(&[".rs", ".js", ".py", ".sh"])
}

/// The project's files whose names end so.
pub(crate) fn listed(ends: &[&str]) -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let list = String::from_utf8(output.stdout).unwrap();
    let is_one =
        |path: &&str| ends.iter().any(|end| path.ends_with(end)) && root().join(path).exists();
    list.lines().filter(is_one).map(str::to_owned).collect()
}

/// A source without its modules of tests, each of which ends with the first brace at the start of a line.
pub(crate) fn without_tests(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, module)) = rest.split_once("#[cfg(test)]\nmod ") {
        kept += before;
        let is_inline = module.lines().next().is_some_and(|line| line.ends_with('{'));
        let end = if is_inline { module.find("\n}").unwrap_or(module.len()) } else { 0 };
        rest = &module[end..];
    }
    kept + rest
}

/// The strings of a source as they are written in it.
pub(crate) fn strings(text: &str) -> Vec<&str> {
    let strings = pieces(text).into_iter().filter(|(kind, _)| *kind == Piece::Text);
    strings.map(|(_, inside)| inside).collect()
}

/// A source without its strings and its comments.
pub(crate) fn without_strings(text: &str) -> String {
    let code = pieces(text).into_iter().filter(|(kind, _)| *kind == Piece::Code);
    code.map(|(_, piece)| piece).collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    /// What stands in the quotes of a string.
    Text,
}

/// The parts of a source, in their order.
fn pieces(text: &str) -> Vec<(Piece, &str)> {
    let (mut found, mut rest, mut code) = (Vec::new(), text, text);
    while let Some(first) = rest.chars().next() {
        let marks = rest[first.len_utf8()..].bytes().take_while(|byte| *byte == b'#').count();
        let (length, piece) = match first {
            '/' if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                (length, Some((Piece::Comment, &rest[..length])))
            }
            'r' if rest[1 + marks..].starts_with('"') => {
                let end = format!("\"{}", "#".repeat(marks));
                let inside = rest[marks + 2..].split(&end).next().unwrap_or_default();
                (marks + 2 + inside.len() + end.len(), Some((Piece::Text, inside)))
            }
            '"' => {
                let mut is_escaped = false;
                let ends = |letter: char| {
                    let was_escaped = std::mem::take(&mut is_escaped);
                    is_escaped = letter == '\\' && !was_escaped;
                    letter == '"' && !was_escaped
                };
                let inside = rest[1..].split(ends).next().unwrap_or_default();
                (inside.len() + 2, Some((Piece::Text, inside)))
            }
            // A letter in quotes, which may be a quote itself; or a lifetime.
            '\'' if rest.starts_with("'\\") => {
                (rest[3..].find('\'').map_or(1, |end| end + 4), None)
            }
            '\'' => {
                let letter = rest[1..].chars().next().map_or(0, char::len_utf8);
                (if rest[1 + letter..].starts_with('\'') { letter + 2 } else { 1 }, None)
            }
            _ => (first.len_utf8(), None),
        };
        let behind = rest.get(length..).unwrap_or_default();
        if let Some(piece) = piece {
            found.extend([(Piece::Code, &code[..code.len() - rest.len()]), piece]);
            code = behind;
        }
        rest = behind;
    }
    found.push((Piece::Code, code));
    found
}

/// Whether a line has this word, and not only as a part of another one.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|it| it == word)
}

#[test]
fn a_source_is_cut_into_its_pieces() {
    let source =
        "f('\"', '\\'', \"a \\\"b\\\"\\\n who\"); // \"c\"\nr#\"d \"e\" \"#; b\"f\"; 'x: r\"g\"";
    assert_eq!(strings(source), ["a \\\"b\\\"\\\n who", "d \"e\" ", "f", "g"]);
    let source = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod tests {\n    c\n}\nd\n";
    let kept = without_tests(source);
    assert!(["a", "b", "d"].iter().all(|it| has_word(&kept, it)) && !has_word(&kept, "c"));
}
