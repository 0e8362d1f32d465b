//! Lists of users as PgBouncer has them: lines of `"name" "password"`.

use std::sync::Arc;

use crate::draft::User;
use crate::password::Password;
use crate::report::Place;
use crate::syntax::SyntaxError;
use crate::work::{Item, Work};

/// Converts a list.
pub(crate) fn convert(file: &Arc<str>, text: &str, work: &mut Work) -> Result<(), SyntaxError> {
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let parsed = quoted(text).and_then(|(name, rest)| {
            let (secret, rest) = quoted(rest.trim_start())?;
            // What stands behind is left unread there, too.
            let _ = rest;
            Some((name, secret))
        });
        let Some((name, secret)) = parsed else {
            return Err(SyntaxError {
                line,
                why: "a line is \"name\" \"password\", with quotes doubled inside".to_owned(),
            });
        };
        let item = Item { place: Place::new(Arc::clone(file), line), what: format!("user {name}") };
        add(&item, name, &secret, work);
    }
    Ok(())
}

fn add(item: &Item, name: String, secret: &str, work: &mut Work) {
    if name.is_empty() {
        return work.lost(item, "a user has a name");
    }
    if is_postgres(secret) {
        return work.lost(
            item,
            "this is a hash of PostgreSQL's: write the password, or a hash of mysql.user",
        );
    }
    let told = format!("users {name:?}");
    let mut user = User::new(name, Some(Password::read(secret)));
    user.comments.push(item.comment());
    match work.draft.add_user(user) {
        true => work.converted(item, &told),
        false => work.lost(item, "there is a user of this name already"),
    }
}

fn is_postgres(secret: &str) -> bool {
    let is_md5 =
        |digits: &str| digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    secret.starts_with("SCRAM-SHA-256$") || secret.strip_prefix("md5").is_some_and(is_md5)
}

/// A text in double quotes, which are doubled inside, and what stands behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut inside = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        inside += part;
        match behind.strip_prefix('"') {
            Some(behind) => {
                inside.push('"');
                rest = behind;
            }
            None => return Some((inside, behind)),
        }
    }
}
