#!/bin/sh
# Makes Heaptrial's Debian package of a program that is built: `deb.sh PROGRAM FOLDER [OPTION OF DPKG-DEB...]`. Prints the
# package's path. Man pages, completions and the agent's unit come from the program itself.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 PROGRAM FOLDER [OPTION OF DPKG-DEB...]" >&2
    exit 2
fi
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
if ! command -v dpkg-shlibdeps >/dev/null; then
    echo "dpkg-shlibdeps is missing: \`apt-get install dpkg-dev\`" >&2
    exit 3
fi

umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root
doc=$root/usr/share/doc/heaptrial
install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/share/man/man1" "$doc/docs/images" "$doc/docs/examples"
strip -o "$root/usr/bin/heaptrial" "$program"
"$program" agent --print-unit >"$root/usr/lib/systemd/system/heaptrial-agent.service"
"$program" man "$root/usr/share/man/man1"
gzip -9 -n "$root"/usr/share/man/man1/*.1
for completion in bash:bash-completion/completions/heaptrial zsh:zsh/vendor-completions/_heaptrial fish:fish/vendor_completions.d/heaptrial.fish; do
    file=$root/usr/share/${completion#*:}
    install -d "$(dirname "$file")"
    "$program" completions "${completion%%:*}" >"$file"
done
install -m 644 README.md packaging/deb/copyright "$doc"
install -m 644 docs/*.md docs/*.json "$doc/docs"
install -m 644 docs/images/* "$doc/docs/images"
install -m 644 docs/examples/* "$doc/docs/examples"
gzip -9 -n -c CHANGELOG.md >"$doc/changelog.gz"

version=$("$program" --version | cut -d ' ' -f 2)-1
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
gzip -9 -n >"$doc/changelog.Debian.gz" <<CHANGELOG
heaptrial ($version) unstable; urgency=medium

  * See /usr/share/doc/heaptrial/changelog.gz.

 -- The Heaptrial developers <nobody@heaptrial.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

# dpkg-shlibdeps wants the control file of a source package.
mkdir "$stage/debian"
printf 'Source: heaptrial\n\nPackage: heaptrial\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O "$root/usr/bin/heaptrial" | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<CONTROL
Package: heaptrial
Version: $version
Architecture: $architecture
Maintainer: The Heaptrial developers <nobody@heaptrial.invalid>
Installed-Size: $(du -sk --exclude DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: systemd, dbus
Suggests: tor
Section: admin
Priority: optional
Description: Controlled trials of memory allocators for long-running services
 Runs the same workload under several memory allocators in a lab, then a
 randomised trial on the services of a host; proves for each running process
 which allocator it uses, and reports with intervals who needs how much memory.
 Every change to a service is journaled and can be put back.
CONTROL
install -m 755 packaging/deb/postinst packaging/deb/prerm packaging/deb/postrm "$root/DEBIAN"

file=$out/heaptrial_${version}_$architecture.deb
dpkg-deb --root-owner-group "$@" --build "$root" "$file" >/dev/null
echo "$file"
