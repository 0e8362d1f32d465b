#!/bin/sh
# Gives a new node of a Galera cluster the data of another one, both on this machine.
#
# A node calls this as `wsrep_sst_copy`: in its role as the one that joins, or as the donor. The one that joins says
# where it wants to have the files; the donor holds still, copies them there, and tells where in the cluster's history
# they are. With --bypass the joiner has data that are good, and is told no more than that.
#
# It needs neither daemons nor ports, and works for any user: what Galera brings for this needs one of its own.
set -eu

main() {
    bypass=
    while [ $# -gt 0 ]; do
        case $1 in
            --bypass) bypass=1; shift; continue ;;
            --role) role=$2 ;;
            --address) address=$2 ;;
            --datadir) datadir=${2%/} ;;
            --gtid) gtid=$2 ;;
            --gtid-domain-id) domain=$2 ;;
            # What follows is the server's.
            --mysqld-args) break ;;
        esac
        shift
    done
    "$role"
}

joiner() {
    inbox=$datadir/../inbox
    rm -rf "$inbox"
    mkdir "$inbox"
    # Part of an address, as far as the server can see.
    echo "ready 127.0.0.1:1$inbox"
    await "$inbox/done"
    if [ -d "$inbox/data" ]; then
        ours "$datadir" -exec rm -rf {} +
        cp -R "$inbox/data/." "$datadir"
    fi
    cat "$inbox/done"
    rm -rf "$inbox"
}

donor() {
    inbox=/${address#*/}
    if [ -z "$bypass" ]; then
        rm -f "$datadir/tables_flushed"
        echo 'flush tables'
        await "$datadir/tables_flushed"
        gtid=$(cat "$datadir/tables_flushed")
        rm -f "$datadir/tables_flushed"
        mkdir "$inbox/data"
        ours "$datadir" -exec cp -R {} "$inbox/data" \;
        # A test may want to look at a donor for longer.
        while [ -e "$datadir/../hold" ]; do sleep 0.1; done
    fi
    echo 'continue'
    echo "$gtid $domain" > "$inbox/done.new"
    mv "$inbox/done.new" "$inbox/done"
    echo "done $gtid"
}

# What one node may have of another: all but its own notes on where it is.
ours() {
    folder=$1
    shift
    find "$folder" -mindepth 1 -maxdepth 1 \
        ! -name 'galera.cache' ! -name 'grastate.dat' ! -name 'gvwstate.dat' ! -name '*.pid' "$@"
}

await() {
    turns=0
    until [ -e "$1" ]; do
        turns=$((turns + 1))
        if [ $turns -gt 1200 ]; then
            echo "wsrep_sst_copy: waited in vain for $1" >&2
            exit 110
        fi
        sleep 0.05
    done
}

main "$@"
