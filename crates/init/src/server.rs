//! The server, as its administrator: through the Unix socket, as the user of this process.

use std::time::Duration;

use backend::Address;
use backend::login::{Blocking, BlockingError, LoginError};

use crate::NAME;
use crate::facts::Follows;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Users of a Unix socket alone are this machine's.
const UNVOUCHED: &str = "SELECT IFNULL(GROUP_CONCAT(CONCAT(User, ' (', plugin, ')') SEPARATOR ', '), '') FROM \
    (SELECT DISTINCT User, IFNULL(JSON_VALUE(Priv,'$.plugin'),'') AS plugin FROM mysql.global_priv \
    WHERE User<>'' AND Host NOT IN ('localhost','127.0.0.1','::1') AND NOT JSON_EXISTS(Priv,'$.is_role') \
    AND JSON_EXTRACT(Priv,'$.plugin','$.auth_or[*].plugin') NOT REGEXP 'mysql_native_password|ed25519|parsec' \
    AND JSON_EXTRACT(Priv,'$.plugin','$.auth_or[*].plugin')<>'[\"unix_socket\"]' ORDER BY User LIMIT 5) AS accounts";

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

    /// Whether this server copies another one, as far as it says.
    pub(crate) fn follows(&mut self) -> Follows {
        let mut rows = |statement: &'static str| {
            self.server.ask(async |server| server.rows(statement).await).ok()
        };
        // Each server knows one of these. The second column is the host; of the last one's it is not.
        let Some(found) = rows("SHOW SLAVE STATUS").or_else(|| rows("SHOW REPLICA STATUS")) else {
            return Follows::Unasked;
        };
        if let Some((_, host)) = found.into_iter().next() {
            return Follows::Primary(String::from_utf8_lossy(&host).into_owned());
        }
        match rows("SHOW ALL SLAVES STATUS").is_some_and(|found| !found.is_empty()) {
            true => Follows::Primary("other servers (SHOW ALL SLAVES STATUS)".to_owned()),
            false => Follows::Nothing,
        }
    }

    /// Whether clients without special rights cannot write.
    pub(crate) fn is_read_only(&mut self) -> bool {
        // A number, or, where there are more ways to be read-only than one, a word.
        let text = "SELECT CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF')";
        matches!(self.text(text), Ok(Some(is)) if is == "1")
    }

    /// The first users of other machines whose methods vouch for no certificate, as MariaDB has them; `None` if this
    /// user may not ask.
    pub(crate) fn unvouched(&mut self) -> Option<String> {
        self.text(UNVOUCHED).ok().flatten()
    }

    /// Whether it may make accounts, and give them what Flifo's needs.
    pub(crate) fn makes_accounts(&mut self) -> bool {
        let grants = "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES \
                      WHERE PRIVILEGE_TYPE IN ('CREATE USER','SELECT') AND IS_GRANTABLE='YES' \
                      AND GRANTEE=CONCAT('''',REPLACE(CURRENT_USER(),'@','''@'''),'''')";
        matches!(self.text(grants), Ok(Some(count)) if count == "2")
    }
}
