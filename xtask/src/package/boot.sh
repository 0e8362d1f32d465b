#!/bin/sh
# Starts systemd as the first process of a tree, runs /trial/try.sh in it, and ends all of it. The exit status is the trial's.
#
# Usage: boot.sh TREE
#
# The tree has name spaces of its own for everything, and a control group of its own, in the hierarchy of version 2 even
# where this machine's controllers are in those of version 1.
set -eu

tree=$1
unified=/sys/fs/cgroup
[ -e $unified/cgroup.controllers ] || unified=$unified/unified
group=$unified/flifo-tree-$$
# A trial that was interrupted leaves empty groups behind; those in use cannot be removed.
find "$unified" -depth -type d -path '*/flifo-tree-*' -exec rmdir {} + 2>/dev/null || true
mkdir "$group"
rm -f "$tree/trial/status"
: >"$tree/etc/machine-id"

# The trial is a unit of the tree, which switches the machine off behind it.
cat >"$tree/etc/systemd/system/try.service" <<'UNIT'
[Unit]
After=multi-user.target mariadb.service
Wants=mariadb.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c "sh /trial/try.sh >/trial/try.log 2>&1; echo $? >/trial/status"
ExecStopPost=/bin/systemctl --no-block exit
UNIT
mkdir -p "$tree/etc/systemd/system/default.target.wants"
ln -sf ../try.service "$tree/etc/systemd/system/default.target.wants/try.service"

# All of it dies with this script: unshare hears no request to end, and systemd would not either.
sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$group" \
    setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup sh -ec '
    tree=$0
    mount --make-rprivate /
    mount --bind "$tree" "$tree"
    mount -t proc proc "$tree/proc"
    mount -t sysfs sysfs "$tree/sys"
    mount -t tmpfs tmpfs "$tree/sys/fs"
    mkdir "$tree/sys/fs/cgroup"
    mount -t cgroup2 cgroup2 "$tree/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
    for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
        set -- $device
        mknod -m 666 "$tree/dev/$1" c "$2" "$3"
    done
    mkdir "$tree/dev/pts" "$tree/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$tree/dev/pts"
    ln -s pts/ptmx "$tree/dev/ptmx"
    ln -s /proc/self/fd "$tree/dev/fd"
    mount -t tmpfs tmpfs "$tree/run"
    cd "$tree"
    mkdir -p old
    pivot_root . old
    umount -l /old
    hostname tree
    exec env -i container=flifo PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal </dev/null
    ' "$tree" >/dev/null || true

# What has ended may be counted for a moment.
for _ in 1 2 3 4 5; do
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
    sleep 1
done
status=$(cat "$tree/trial/status" 2>/dev/null || echo 'none: systemd has ended early')
[ "$status" = 0 ] || { echo "the trial ended with status $status" >&2; exit 1; }
