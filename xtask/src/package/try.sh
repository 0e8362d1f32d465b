#!/bin/sh
# Tries Flifo's package in a tree in which systemd and MariaDB run: as its administrator, command by command. Each that
# fails ends the trial.
set -eux

older=$(ls /trial/flifo_*-1_*.deb)
newer=$(ls /trial/flifo_*-2_*.deb)

# is WHAT WANTED: the unit's property.
is() { [ "$(systemctl show flifo.service --property "$1" --value)" = "$2" ]; }
query() { mariadb -h127.0.0.1 -P6033 -uapp -papp --batch --skip-column-names -e "$1"; }

mariadb -e "CREATE USER app@localhost IDENTIFIED BY 'app'; CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app'"

# Installed: it serves at once, every client passed through.
dpkg --install "$older"
systemctl is-active flifo.service
systemctl is-enabled flifo.service
is Type notify
is StatusText 'serving on 127.0.0.1:6033, in front of /run/mysqld/mysqld.sock'
[ "$(query 'SELECT 1')" = 1 ]
[ "$(stat -c '%a %U %G' /etc/flifo/flifo.toml)" = '640 root flifo' ]
[ "$(ps -o user= -p "$(systemctl show flifo.service --property MainPID --value)")" = flifo ]
systemd-analyze verify --man=no flifo.service flifo.socket
systemd-analyze security --threshold=15 flifo.service
flifo health --ready --config /etc/flifo/flifo.toml

# Reloaded: a bad file is refused by name, and changes nothing.
systemctl reload flifo.service
echo '[servr]' >>/etc/flifo/flifo.toml
if systemctl reload flifo.service; then exit 1; fi
systemctl is-active flifo.service
sed -i '/servr/d' /etc/flifo/flifo.toml
systemctl reload flifo.service
if [ "$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')" -ge 253 ]; then
    install -D -m 644 /usr/share/doc/flifo/examples/notify-reload.conf /etc/systemd/system/flifo.service.d/reload.conf
    systemctl daemon-reload
    systemctl restart flifo.service
    is Type notify-reload
    systemctl reload flifo.service
    journalctl --unit flifo.service --no-pager | grep -q 'SIGHUP'
    rm -r /etc/systemd/system/flifo.service.d
    systemctl daemon-reload
    systemctl restart flifo.service
fi

# Set up, and that taken back.
flifo init --yes
[ "$(query 'SELECT 2')" = 2 ]
mariadb --socket /run/flifo/console.sock -e 'SHOW CLIENTS' >/dev/null
grep -q accounts_user /etc/flifo/flifo.toml

# Upgraded: a changed configuration stays, and the new Flifo takes over, with a client that is in the middle of something.
before=$(systemctl show flifo.service --property MainPID --value)
{
    echo 'SET @own = 7; BEGIN;'
    while [ ! -e /tmp/upgraded ]; do sleep 1; done
    echo 'COMMIT; SELECT @own;'
} | mariadb -h127.0.0.1 -P6033 -uapp -papp --batch --skip-column-names --unbuffered --skip-ssl >/tmp/answer &
client=$!
sleep 3
dpkg --install "$newer"
systemctl is-active flifo.service
# What a server asks of its user the new one knows from a client that logs in.
[ "$(query 'SELECT 3')" = 3 ]
for _ in $(seq 60); do
    if [ "$(systemctl show flifo.service --property MainPID --value)" != "$before" ]; then break; fi
    sleep 1
done
[ "$(systemctl show flifo.service --property MainPID --value)" != "$before" ]
is NRestarts 0
touch /tmp/upgraded
wait "$client"
[ "$(cat /tmp/answer)" = 7 ]
grep -q accounts_user /etc/flifo/flifo.toml
[ "$(stat -c '%a %U %G' /etc/flifo/flifo.toml)" = '640 root flifo' ]
flifo init --undo
systemctl is-active flifo.service
[ "$(query 'SELECT 4')" = 4 ]
[ "$(mariadb --batch --skip-column-names -e "SELECT COUNT(*) FROM mysql.user WHERE User = 'flifo'")" = 0 ]

# Without a server it is started again until there is one. A wrong configuration is not tried again.
systemctl stop mariadb.service
if systemctl restart flifo.service; then exit 1; fi
systemctl start mariadb.service
for _ in $(seq 60); do
    if is SubState running; then break; fi
    sleep 1
done
[ "$(query 'SELECT 5')" = 5 ]
echo '[servr]' >>/etc/flifo/flifo.toml
if systemctl restart flifo.service; then exit 1; fi
is ActiveState failed
sed -i '/servr/d' /etc/flifo/flifo.toml
systemctl start flifo.service

# By systemd's sockets: a client comes while Flifo does not run, and has it started.
systemctl stop flifo.service
systemctl start flifo.socket
[ "$(query 'SELECT 6')" = 6 ]
systemctl is-active flifo.service
systemctl stop flifo.socket flifo.service
systemctl start flifo.service

# The watchdog: a Flifo that stands still is killed, and started again.
mkdir -p /etc/systemd/system/flifo.service.d
printf '[Service]\nWatchdogSec=2\n' >/etc/systemd/system/flifo.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart flifo.service
sleep 5
is NRestarts 0
kill -STOP "$(systemctl show flifo.service --property MainPID --value)"
for _ in $(seq 60); do
    if is NRestarts 1 && is SubState running; then break; fi
    sleep 1
done
is NRestarts 1
journalctl --no-pager | grep -q 'Watchdog timeout'
rm -r /etc/systemd/system/flifo.service.d
systemctl daemon-reload

# Removed: stopped; the configuration stays. Purged: nothing does.
dpkg --remove flifo
if systemctl is-active flifo.service; then exit 1; fi
[ -e /etc/flifo/flifo.toml ]
dpkg --install "$newer"
systemctl is-active flifo.service
flifo init --yes
dpkg --purge flifo 2>&1 | grep 'DROP USER flifo@localhost'
if getent passwd flifo; then exit 1; fi
left=$(find / -xdev -name '*flifo*' -not -path '/proc/*' -not -path '/trial/*' -not -path '/var/log/journal/*')
[ -z "$left" ]
