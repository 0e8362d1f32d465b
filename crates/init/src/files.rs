//! The texts of the files that a set-up writes.

use crate::facts::Facts;
use crate::{Layout, NAME, Wishes};

/// The configuration.
pub(crate) fn config(facts: &Facts, wishes: &Wishes) -> String {
    let Wishes { layout, listen, console, http, .. } = wishes;
    let (socket, own, password) = (layout.socket(), layout.console(), layout.password());
    let accounts = match facts.is_mariadb {
        true => "users of mysql_native_password",
        false => "users of caching_sha2_password",
    };
    let tls = match facts.is_mariadb {
        true => tls(layout),
        false => String::new(),
    };
    let run_as = match facts.starts_itself(layout) && facts.is_root {
        true => format!(
            "\n[hardening]\n# root starts it; it serves as this user.\nrun_as = \"{NAME}\"\n"
        ),
        false => String::new(),
    };
    format!(
        "\
# Written by `flifo init`. All options, explained: flifo config-sample
# After a change: flifo reload --config {config}

# Where applications connect: the same users and passwords as at the server itself.
listen = [\"{listen}\", \"{socket}\"]

[server]
# {brand}
address = \"{address}\"
# Reads the server's table of accounts: clients of {accounts} share backend connections.
accounts_user = \"{NAME}\"

[console]
# mariadb --socket {own}: only root and Flifo's own user can open this socket, and may change things.
listen = [\"{console}\", \"{own}\"]

[http]
# /metrics, /health
listen = [\"{http}\"]

{tls}[[users]]
name = \"{NAME}\"
password_file = \"{password}\"
{run_as}",
        config = layout.config().display(),
        socket = socket.display(),
        own = own.display(),
        password = password.display(),
        brand = facts.brand,
        address = facts.server,
    )
}

/// What is to be done for clients that verify, as a comment.
fn tls(layout: &Layout) -> String {
    format!(
        "\
# [tls]
# Clients of MariaDB from 11.4 on verify by default when they come from another machine. Flifo makes a certificate up,
# and the password vouches for it where the method is mysql_native_password, ed25519 or parsec. For users of other
# methods (pam, gssapi, ...), give it a certificate that their clients trust:
# cert = \"{cert}\"
# key = \"{key}\"

",
        cert = layout.folder.join("cert.pem").display(),
        key = layout.folder.join("key.pem").display(),
    )
}

/// The systemd unit: that of the package, with this program and this configuration.
pub(crate) fn unit(facts: &Facts, layout: &Layout) -> String {
    let (program, config) = (&facts.program, layout.config());
    let unit = PACKAGED_UNIT
        .replace("/usr/bin/flifo", &program.display().to_string())
        .replace("/etc/flifo/flifo.toml", &config.display().to_string());
    let homes = ["/home", "/root", "/run/user"];
    let unit = match homes.iter().any(|home| program.starts_with(home)) {
        // Else systemd would hide the program that it is to start.
        true => unit.replace("ProtectHome=yes", "ProtectHome=read-only"),
        false => unit,
    };
    format!("# Written by `flifo init`.\n{unit}")
}

/// The unit that the package installs.
const PACKAGED_UNIT: &str = include_str!("../../../packaging/systemd/flifo.service");

/// The configuration that the package installs, of which nothing is lost if another one takes its place.
pub(crate) const PACKAGED_CONFIG: &str = include_str!("../../../packaging/deb/flifo.toml");
