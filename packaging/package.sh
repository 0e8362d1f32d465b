#!/bin/sh
# Makes the Debian package of programs that are built already. Needs no root, and leaves the programs as they are.
#
# Usage: package.sh [--revision N] [--unstripped] PROGRAMS FOLDER
#
# The maintainer is DEBFULLNAME <DEBEMAIL>, as Debian's own tools have it.
# PROGRAMS is the folder that has flifo and flifo-bench; the package is made in FOLDER, and its name is printed.
set -eu

main() {
    revision=1
    strips=yes
    while [ $# -gt 2 ]; do
        case $1 in
            --revision) revision=$2; shift 2 ;;
            # Quickly: for tests.
            --unstripped) strips=no; shift ;;
            *) fail "unknown: $1" ;;
        esac
    done
    [ $# -eq 2 ] || fail 'say where the programs are, and where the package goes'
    programs=$1
    folder=$2
    own=$(cd "$(dirname "$0")" && pwd)
    top=$(dirname "$own")
    mkdir -p "$folder"
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT

    version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' "$top/Cargo.toml")-$revision
    architecture=$(dpkg --print-architecture)
    maintainer="${DEBFULLNAME:-The authors of Flifo} <${DEBEMAIL:-flifo@localhost}>"
    # The same programs give the same package.
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || echo 0)}
    export SOURCE_DATE_EPOCH

    umask 022
    chmod 755 "$tree"
    put_programs
    put_manuals
    put_completions
    put_rest
    put_documents
    put_control
    find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
    package=$folder/flifo_${version}_$architecture.deb
    pack=-Zxz
    [ $strips = yes ] || pack=-Znone
    dpkg-deb --root-owner-group "$pack" --build "$tree" "$package" >/dev/null
    echo "$package"
}

# install MODE SOURCE PLACE: a file of the package.
put() {
    install -D -m "$1" "$2" "$tree/$3"
}

put_programs() {
    for program in flifo flifo-bench; do
        put 0755 "$programs/$program" usr/bin/$program
        [ $strips = no ] || strip --strip-unneeded --remove-section=.comment "$tree/usr/bin/$program"
    done
}

# A page for each program and for each of its commands.
put_manuals() {
    mkdir -p "$tree/usr/share/man/man1"
    for program in flifo flifo-bench; do
        "$programs/$program" man | gzip -9n >"$tree/usr/share/man/man1/$program.1.gz"
        for command in $(commands $program); do
            "$programs/$program" man "$command" | gzip -9n >"$tree/usr/share/man/man1/$program-$command.1.gz"
        done
    done
}

# The commands of a program, as its manual pages are asked for: run, placement-restore.
commands() {
    "$programs/$1" cli-reference | sed -n "s/^## \`$1 \(.*\)\`\$/\1/p" | tr ' ' -
}

put_completions() {
    share=$tree/usr/share
    mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
    # Debian has no folder for those of PowerShell: they are named in a profile.
    mkdir -p "$share/elvish/lib" "$share/flifo"
    for program in flifo flifo-bench; do
        "$programs/$program" completions bash >"$share/bash-completion/completions/$program"
        "$programs/$program" completions zsh >"$share/zsh/vendor-completions/_$program"
        "$programs/$program" completions fish >"$share/fish/vendor_completions.d/$program.fish"
        "$programs/$program" completions elvish >"$share/elvish/lib/$program-completions.elv"
        "$programs/$program" completions powershell >"$share/flifo/$program.ps1"
    done
}

put_rest() {
    put 0644 "$own/systemd/flifo.service" usr/lib/systemd/system/flifo.service
    put 0644 "$own/systemd/flifo.socket" usr/lib/systemd/system/flifo.socket
    put 0640 "$own/deb/flifo.toml" etc/flifo/flifo.toml
    put 0644 "$own/deb/lintian-overrides" usr/share/lintian/overrides/flifo
}

put_documents() {
    documents=$tree/usr/share/doc/flifo
    mkdir -p "$documents/examples"
    gzip -9nc "$top/CHANGELOG.md" >"$documents/changelog.gz"
    {
        echo "flifo ($version) unstable; urgency=medium"
        echo
        echo "  * See changelog.gz, which says in a user's words what is new."
        echo
        echo " -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$documents/changelog.Debian.gz"
    # The text of the licence, without its title, in the form of Debian's file.
    sed -n '3,$p' "$top/LICENSE-MIT" | sed 's/^$/./; s/^/ /' >"$tree/licence"
    sed -e "/^@MIT@\$/{r $tree/licence" -e 'd}' "$own/deb/copyright" >"$documents/copyright"
    rm "$tree/licence"
    install -m 0644 "$own"/systemd/examples/* "$documents/examples/"
}

put_control() {
    mkdir "$tree/DEBIAN"
    size=$(du -k -s --apparent-size "$tree" | cut -f 1)
    libc=$(objdump -T "$tree"/usr/bin/* | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
    sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/; s/@LIBC@/$libc/; s/@MAINTAINER@/$maintainer/" \
        "$own/deb/control" >"$tree/DEBIAN/control"
    for script in postinst prerm postrm; do
        install -m 0755 "$own/deb/$script" "$tree/DEBIAN/$script"
    done
    echo /etc/flifo/flifo.toml >"$tree/DEBIAN/conffiles"
    (cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
}

fail() {
    echo "package: $1" >&2
    exit 1
}

main "$@"
