//! Reads `COM_CHANGE_USER`: what it names, and whether a pass-through client's must become a login of its own
//! ([`crate::frontend::change_user`]).

use backend::login;
use engine::account::name::{Brand, Packet, UserName};
use wire::auth::Plugin;
use wire::bytes::Reader;

use crate::fault::{Fault, unsure};
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::worker::Worker;

/// What the command names. Its proof is ignored: it was made for a nonce that has been used.
pub(crate) struct Wanted {
    pub(crate) user: Vec<u8>,
    pub(crate) schema: Vec<u8>,
    pub(crate) collation: u16,
    pub(crate) plugin: Plugin,
}

pub(crate) fn read(payload: &[u8]) -> Result<Wanted, wire::Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8("command")?;
    let user = reader.nul_bytes("user name")?.to_vec();
    let len = reader.u8("password response")?;
    reader.take(usize::from(len), "password response")?;
    let schema = reader.rest_until_nul().to_vec();
    let collation = if reader.len() >= 2 { reader.u16("collation")? } else { 0 };
    let plugin = match reader.rest_until_nul() {
        b"" => Plugin::NativePassword,
        name => Plugin::from_name(name),
    };
    Ok(Wanted { user, schema, collation, plugin })
}

impl Wanted {
    /// The user, as this server will read its name.
    pub(crate) fn name(&self, brand: Brand) -> Result<UserName, Fault> {
        UserName::read(&self.user, self.collation, Packet::ChangeUser, brand)
            .map_err(|why| unsure(&String::from_utf8_lossy(&self.user), why))
    }
}

pub(crate) fn brand(worker: &Worker, client: &Client) -> Brand {
    worker.at(client.routing.server.get()).server.facts.brand()
}

/// Whether a pass-through client's command must become a login of its own: its password would go from one kind of leg
/// to another, or in clear text to a server that may be another one, or it is to be another user.
pub(crate) fn needs_login(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    payload: &[u8],
) -> bool {
    let is_same_user = || {
        let wanted = read(payload).ok()?;
        // Without a collation, the server reads the name in a character set that is not known here.
        let name = wanted.name(brand(worker, client)).ok().filter(|_| wanted.collation != 0)?;
        Some(name == *client.user.borrow())
    };
    let may_be_relayed = match client.stream.is_secure() {
        false => !backend.stream.is_secure(),
        // The client trusts its own leg, and tells its password in clear text where it is asked for it.
        true => {
            let tls = worker.at(backend.server).server.tls();
            login::is_verified(&backend.stream, tls.pass_through.as_ref())
        }
    };
    !may_be_relayed || is_same_user() != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_read_with_and_without_its_tail() {
        let full = b"\x11bob\0\x02xxshop\0\x2d\0caching_sha2_password\0";
        let wanted = read(full).unwrap();
        assert_eq!((&wanted.user[..], &wanted.schema[..]), (&b"bob"[..], &b"shop"[..]));
        assert_eq!((wanted.collation, wanted.plugin), (45, Plugin::CachingSha2));
        let short = read(b"\x11bob\0\x00\0").unwrap();
        assert_eq!((short.schema.len(), short.plugin), (0, Plugin::NativePassword));
        for cut in 0..7 {
            assert!(read(&full[..cut]).is_err(), "{cut}");
        }
    }
}
