//! A client whose login is under way: what it asks for, and why it does not get in.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use backend::Talk;
use backend::talk::TalkError;
use engine::account::name::{Brand, Packet, UserName};
use wire::capability::Capabilities;
use wire::handshake::Login;

use crate::cluster::servers::ServerId;
use crate::config::{Listen, Plan};
use crate::fault::{self, Fault, Kind};
use crate::users::Cap;

/// Why a client did not get in.
#[derive(Debug)]
pub(crate) enum NoLogin {
    /// It has been told, or can be told with this.
    Fault(Fault),
    /// The server refused it with this error, which it has been told.
    Told(Vec<u8>),
    /// Its connection broke.
    Talk(TalkError),
    /// It asked only whether it would be let in, and was told that it would.
    Asked,
}

impl From<TalkError> for NoLogin {
    fn from(error: TalkError) -> Self {
        Self::Talk(error)
    }
}

/// What is known of a client that logs in, for the logs: it outlives a login that fails.
#[derive(Debug, Default)]
pub(crate) struct Applicant {
    pub(crate) user: RefCell<Option<String>>,
    pub(crate) peer: Cell<Option<SocketAddr>>,
}

/// A client whose login is under way.
pub(crate) struct PendingLogin {
    pub(crate) applicant: Rc<Applicant>,
    pub(crate) talk: Talk,
    /// Where it came from, as the server is told.
    pub(crate) peer: Option<SocketAddr>,
    /// The capabilities that it was offered.
    pub(crate) offered: Capabilities,
    /// By which of the plan's listeners it came.
    pub(crate) listen: Arc<Listen>,
    /// The server whose words it is greeted with, and where a pass-through client logs in.
    pub(crate) server: ServerId,
    /// Of what kind that is.
    pub(crate) brand: Brand,
}

/// What a client asks for, and as whom.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The user, as the server will read its name.
    pub(crate) user: UserName,
    /// All else that it says; the name as it came is gone.
    pub(crate) login: Login,
}

impl Claim {
    /// Reads the name by the rules of this brand of server.
    pub(crate) fn read(mut login: Login, packet: Packet, brand: Brand) -> Result<Self, Fault> {
        let sent = std::mem::take(&mut login.user);
        let user = UserName::read(&sent, login.collation.into(), packet, brand);
        match user {
            Ok(user) => Ok(Self { user, login }),
            Err(why) => Err(fault::unsure(&String::from_utf8_lossy(&sent), why)),
        }
    }

    /// The same in the schema that the configuration has for the user, if it names none.
    pub(crate) fn in_schema(mut self, plan: &Plan) -> Self {
        if self.login.schema.is_none()
            && let Some(schema) = plan.default_schema(&self.user)
        {
            self.login.schema = Some(schema.as_bytes().to_vec());
            self.login.capabilities = self.login.capabilities | Capabilities::CONNECT_WITH_DB;
        }
        self
    }
}

/// A user has as many clients, or backends, as it may.
pub(crate) fn too_many_of_user(name: &UserName, bound: &str, cap: &Cap) -> Fault {
    let message = format!(
        "User '{}' has exceeded its {bound} in Flifo's configuration (current value: {})",
        name,
        cap.max().unwrap_or_default()
    );
    Fault::new(Kind::UserLimit, message)
}

/// Whether letters of this collation's character set may contain a quote or a backslash as their second byte, so that
/// a lexer that does not know them would be misled: big5, sjis, gbk, cp932, gb18030.
pub(crate) const fn has_hidden_quotes(collation: u8) -> bool {
    matches!(collation, 1 | 84 | 13 | 88 | 28 | 87 | 95 | 96 | 248..=250)
}

/// Sends an error as the login's answer.
pub(crate) async fn tell(mut pending_login: PendingLogin, fault: Fault) -> NoLogin {
    let _ = pending_login.talk.write(&fault.payload()).await;
    NoLogin::Fault(fault)
}
