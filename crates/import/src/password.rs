//! Passwords of other proxies' files: as they are, or hashes of MySQL's plugins.

use wire::auth::native::NativeStored;
use wire::auth::sha_crypt::CryptStored;

/// What a file says of a user's password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Password {
    Plain(String),
    /// As `users.password_hash` takes it.
    Hash(String),
}

impl Password {
    /// Takes a text for a hash if it has the form of one.
    pub(crate) fn read(text: &str) -> Self {
        let is_native = text.starts_with('*') && NativeStored::parse(text.as_bytes()).is_ok();
        if !is_native && CryptStored::parse_written(text.as_bytes()).is_err() {
            return Self::Plain(text.to_owned());
        }
        // A salt may hold any of 128 characters.
        let needs_digits = text.chars().any(char::is_control);
        let digits = || text.bytes().map(|byte| format!("{byte:02X}")).collect();
        Self::Hash(if needs_digits { digits() } else { text.to_owned() })
    }

    pub(crate) const fn as_plain(&self) -> Option<&String> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Hash(_) => None,
        }
    }
}

/// Passwords are not shown.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Hash(_) => "Hash",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_told_from_passwords() {
        let native = "*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29";
        let salt = "0123456789\u{1}'\"\\aaaaaa";
        let sha = format!("$A$005${salt}{}", "a".repeat(43));
        let hash = |text: &str| Password::Hash(text.to_owned());
        let plain = |text: &str| Password::Plain(text.to_owned());
        let hex: String = sha.bytes().map(|byte| format!("{byte:02X}")).collect();
        let cases = [
            (native, hash(native)),
            (&*sha, hash(&hex)),
            (&hex, hash(&hex)),
            ("", plain("")),
            ("secret", plain("secret")),
            ("*secret", plain("*secret")),
            ("$A$005$short", plain("$A$005$short")),
            ("deadbeef", plain("deadbeef")),
        ];
        for (text, want) in cases {
            assert!(Password::read(text) == want, "{text}");
        }
    }
}
