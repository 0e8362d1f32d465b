//! The server, as its administrator: through the Unix socket, as the user of this process.

use std::time::Duration;

use backend::login::{self, Credential, LoggedIn, Request};
use backend::{Address, dial};
use tokio::runtime::{Builder, Runtime};
use wire::Capabilities;
use wire::handshake::UTF8MB4;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that blocks.
pub(crate) struct Administrator {
    runtime: Runtime,
    server: LoggedIn,
}

/// What a user of the machine may be called at its server.
pub(crate) fn own_name() -> String {
    let (uid, name) = sys::process::user();
    let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
    name.unwrap_or_else(|| if uid == 0 { "root".to_owned() } else { uid.to_string() })
}

/// Logs in, and waits for that.
pub(crate) fn log_in(
    address: &Address,
    (user, password): (&str, &str),
    patience: Duration,
) -> Result<(Runtime, LoggedIn), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let credential = Credential::Password(password.into());
    let request = Request {
        user: user.as_bytes(),
        credential: &credential,
        capabilities: Capabilities::QUESTIONS,
        collation: UTF8MB4,
        packet_max: 1 << 24,
        schema: None,
    };
    let login = async {
        let stream = dial::dial(address).await.map_err(|error| error.to_string())?;
        let greeted = login::greet(stream).await.map_err(|error| error.to_string())?;
        greeted.login(&request, None).await.map_err(|error| error.to_string())
    };
    let server = runtime.block_on(async { tokio::time::timeout(patience, login).await });
    let server = server.map_err(|_| "no answer".to_owned())??;
    Ok((runtime, server))
}

impl Administrator {
    pub(crate) fn log_in(address: &Address) -> Result<Self, String> {
        let (runtime, server) = log_in(address, (&own_name(), ""), PATIENCE)?;
        Ok(Self { runtime, server })
    }

    pub(crate) fn run(&mut self, statement: &str) -> Result<(), String> {
        let run = self.server.run(statement);
        let run = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, run).await });
        run.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())
    }

    fn text(&mut self, statement: &str) -> Result<Option<String>, String> {
        let ask = self.server.text(statement);
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, ask).await });
        let answer = answer.map_err(|_| "no answer".to_owned())?;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(answer.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Whether there is an account of this name for this machine.
    pub(crate) fn has_account(&mut self, name: &str) -> Result<bool, String> {
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
