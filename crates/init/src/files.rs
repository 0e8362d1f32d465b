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

[[users]]
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

/// The systemd unit.
pub(crate) fn unit(facts: &Facts, layout: &Layout) -> String {
    format!(
        "\
# Written by `flifo init`.
[Unit]
Description=Flifo, a proxy for MySQL and MariaDB that schedules
After=network-online.target mariadb.service mysql.service
Wants=network-online.target

[Service]
ExecStart={program} run --config {config}
ExecReload=/bin/kill -HUP $MAINPID
User={NAME}
RuntimeDirectory={NAME}
RuntimeDirectoryMode=0755
LimitNOFILE=1048576
LimitMEMLOCK=16M
Restart=on-failure
# limits.stop, and some more.
TimeoutStopSec=40
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
",
        program = facts.program.display(),
        config = layout.config().display(),
    )
}
