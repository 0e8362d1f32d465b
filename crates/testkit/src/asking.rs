//! A server that can do nothing but ask for passwords, and that tells what it was answered.
//!
//! It stands in where no real server asks so, or where none is to be had: any plugin, TLS or none.
//! It lets everybody in and answers each command with OK. Invariants: it listens on 127.0.0.1; it
//! ends when this value is dropped.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use backend::tls::ForClients;
use backend::{Address, Stream, Talk};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use wire::Capabilities;
use wire::auth::rsa::RsaEnd;
use wire::auth::{Nonce, Plugin, caching_sha2};
use wire::handshake::{AuthPacket, FirstPacket, Greeting};
use wire::response::{OK, OkPacket, Status};
use wire::tracker::{Change, put_change};

/// What a client gave away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// With the login, before anything was asked.
    First(Vec<u8>),
    /// By the plugin that was asked for.
    Answer(Vec<u8>),
    /// The password itself, on a secure connection.
    Clear(Vec<u8>),
    /// The password under the server's key; `None` where it cannot be decrypted.
    Encrypted(Option<Vec<u8>>),
}

/// The running server.
#[derive(Debug)]
pub struct Asking {
    pub address: Address,
    heard: mpsc::Receiver<Heard>,
    _end: oneshot::Sender<()>,
}

impl Asking {
    /// Starts a server that asks everybody by this plugin; never remembering, if it is
    /// `caching_sha2_password`.
    ///
    /// # Panics
    /// If there is no port or no thread.
    pub fn start(plugin: &Plugin) -> Self {
        Self::offering(plugin, Capabilities::SSL)
    }

    /// The same without TLS, as one that reads along takes it out of a server's greeting.
    ///
    /// # Panics
    /// If there is no port or no thread.
    pub fn without_tls(plugin: &Plugin) -> Self {
        Self::offering(plugin, Capabilities::NONE)
    }

    fn offering(plugin: &Plugin, more: Capabilities) -> Self {
        let (tell, heard) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let plugin = plugin.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let serve = async {
                tokio::select! {
                    () = accept(listener, plugin, more, tell) => {}
                    _ = ended => {}
                }
            };
            LocalSet::new().block_on(&runtime.expect("a runtime"), serve);
        });
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        Self { address, heard, _end: end }
    }

    /// All that was heard since this was asked last.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.try_iter().collect()
    }
}

async fn accept(
    listener: std::net::TcpListener,
    plugin: Plugin,
    more: Capabilities,
    tell: mpsc::Sender<Heard>,
) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    let rsa = Rc::new(RsaEnd::generate().expect("a key"));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (plugin, rsa, tell) = (plugin.clone(), Rc::clone(&rsa), tell.clone());
        // A client that errs is simply gone.
        tokio::task::spawn_local(async move {
            serve(stream.into(), (&plugin, more), &rsa, &tell).await
        });
    }
}

async fn serve(
    stream: Stream,
    (plugin, more): (&Plugin, Capabilities),
    rsa: &RsaEnd,
    tell: &mpsc::Sender<Heard>,
) -> Option<()> {
    let say = |heard: Heard| tell.send(heard).ok();
    let nonce = Nonce::from_random([7; Nonce::LEN]);
    let mut talk = Talk::new(stream);
    let mut out = Vec::new();
    greeting(plugin, more, &nonce).encode(&mut out);
    talk.write(&out).await.ok()?;
    let mut first = FirstPacket::decode(&talk.read().await.ok()?).ok()?;
    if let FirstPacket::TlsRequest { .. } = first {
        let sequence = talk.sequence();
        let (stream, unread) = talk.into_parts();
        let tls = ForClients::default().config().ok()?;
        talk = Talk::resume(stream.accept_tls(tls, &unread).await.ok()?, Vec::new(), sequence);
        first = FirstPacket::decode(&talk.read().await.ok()?).ok()?;
    }
    let FirstPacket::Login(login) = first else { return None };
    say(Heard::First(login.response))?;
    if login.plugin.as_deref() != Some(plugin.name()) {
        let mut switch = Vec::new();
        AuthPacket::encode_switch(plugin.name(), nonce.as_bytes(), &mut switch);
        talk.write(&switch).await.ok()?;
        say(Heard::Answer(talk.read().await.ok()?))?;
    }
    if *plugin == Plugin::CachingSha2 {
        ask_fully(&mut talk, rsa, &nonce, tell).await?;
    }
    let (mut ok, mut changes) = (Vec::new(), Vec::new());
    OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::EMPTY }.encode(
        OK,
        login.capabilities,
        &mut ok,
    );
    // To whatever it is asked then it reports a variable, as a server does that reports its changes.
    put_change(&mut changes, Change::Variable { name: b"session_track_schema", value: b"ON" });
    let mut reporting = Vec::new();
    OkPacket { changes: &changes, status: Status::AUTOCOMMIT, ..OkPacket::EMPTY }.encode(
        OK,
        login.capabilities,
        &mut reporting,
    );
    talk.write(&ok).await.ok()?;
    talk.set_sequence(0);
    talk.read().await.ok()?;
    loop {
        talk.write(&reporting).await.ok()?;
        talk.set_sequence(0);
        talk.read().await.ok()?;
    }
}

/// The full login: the password itself, or under the key.
async fn ask_fully(
    talk: &mut Talk,
    rsa: &RsaEnd,
    nonce: &Nonce,
    tell: &mpsc::Sender<Heard>,
) -> Option<()> {
    let mut more = Vec::new();
    AuthPacket::encode_more(&[caching_sha2::FULL], &mut more);
    talk.write(&more).await.ok()?;
    let mut sent = talk.read().await.ok()?;
    let heard = if talk.stream().is_secure() {
        Heard::Clear(sent)
    } else {
        if sent == [caching_sha2::REQUEST_PUBLIC_KEY] {
            let mut key = Vec::new();
            AuthPacket::encode_more(rsa.public_pem().as_bytes(), &mut key);
            talk.write(&key).await.ok()?;
            sent = talk.read().await.ok()?;
        }
        Heard::Encrypted(rsa.decrypt(&sent, nonce).map(|it| it.as_bytes().to_vec()))
    };
    tell.send(heard).ok()
}

fn greeting(plugin: &Plugin, more: Capabilities, nonce: &Nonce) -> Greeting {
    Greeting {
        version: b"8.4.0".to_vec(),
        connection_id: 9,
        nonce: nonce.as_bytes().to_vec(),
        capabilities: Capabilities(
            Capabilities::LONG_PASSWORD.0
                | Capabilities::PROTOCOL_41.0
                | Capabilities::SECURE_CONNECTION.0
                | Capabilities::PLUGIN_AUTH.0
                | Capabilities::LENENC_AUTH.0
                | Capabilities::SESSION_TRACK.0
                | Capabilities::QUERY_ATTRIBUTES.0
                | more.0,
        ),
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: plugin.name().to_vec(),
    }
}
