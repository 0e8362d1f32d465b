//! The server, as its administrator: through the Unix socket, as the user of this process.

use std::time::Duration;

use backend::Address;
use backend::login::{Blocking, BlockingError, LoginError};

use crate::NAME;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that blocks.
pub(crate) struct Administrator {
    server: Blocking,
}

/// What a user of the machine may be called at its server.
pub(crate) fn own_name() -> String {
    let (uid, name) = sys::process::user();
    let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
    name.unwrap_or_else(|| if uid == 0 { "root".to_owned() } else { uid.to_string() })
}

/// Whether the server's account of Flifo has this password.
pub(crate) fn has_password(address: &Address, password: &str) -> Result<bool, BlockingError> {
    match Blocking::log_in(address, NAME, password.into(), PATIENCE) {
        Ok(_) => Ok(true),
        Err(BlockingError::Login(LoginError::Refused { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Administrator {
    pub(crate) fn log_in(address: &Address) -> Result<Self, BlockingError> {
        let server = Blocking::log_in(address, &own_name(), "".into(), PATIENCE)?;
        Ok(Self { server })
    }

    pub(crate) fn run(&mut self, statement: &str) -> Result<(), BlockingError> {
        self.server.ask(async |server| server.run(statement).await)
    }

    fn text(&mut self, statement: &str) -> Result<Option<String>, BlockingError> {
        let answer = self.server.ask(async |server| server.text(statement).await)?;
        Ok(answer.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Whether there is an account of this name for this machine.
    pub(crate) fn has_account(&mut self, name: &str) -> Result<bool, BlockingError> {
        let text = format!("SELECT User FROM mysql.user WHERE User='{name}' AND Host='localhost'");
        Ok(self.text(&text)?.is_some())
    }

    /// Whether it may make accounts, and give them what Flifo's needs.
    pub(crate) fn makes_accounts(&mut self) -> bool {
        let grants = "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES \
                      WHERE PRIVILEGE_TYPE IN ('CREATE USER','SELECT') AND IS_GRANTABLE='YES' \
                      AND GRANTEE=CONCAT('''',REPLACE(CURRENT_USER(),'@','''@'''),'''')";
        matches!(self.text(grants), Ok(Some(count)) if count == "2")
    }
}
