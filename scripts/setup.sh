#!/bin/sh
# Installs what is missing, through apt and cargo: `setup.sh run` for building and `make demo`, `setup.sh deb` for
# `make deb` as well, `setup.sh test` for all. Says in one line what to do where it cannot.
set -eu

MINIMUM_RUST=1.85
RUN_PACKAGES="ca-certificates gcc g++ libc6-dev git tor"
DEB_PACKAGES="$RUN_PACKAGES dpkg-dev"
TEST_PACKAGES="$DEB_PACKAGES chromium python3 python3-venv iproute2 libjemalloc2 systemd-container mmdebstrap strace ansible-core openssh-client openssl prometheus victoria-metrics"
# A kernel with control groups of version 2, as a process; for x86 alone.
[ "$(uname -m)" != x86_64 ] || TEST_PACKAGES="$TEST_PACKAGES user-mode-linux"
# Services of `docs/lab-services.md` with their loads.
TEST_PACKAGES="$TEST_PACKAGES postgresql postgresql-contrib nginx-light redis-server redis-tools wrk memcached libmemcached-tools gunicorn apache2-utils"
command -v node >/dev/null || TEST_PACKAGES="$TEST_PACKAGES nodejs"
command -v javac >/dev/null || TEST_PACKAGES="$TEST_PACKAGES default-jdk-headless"

cd "$(dirname "$0")/.."
case "${1:-run}" in
    run) packages=$RUN_PACKAGES ;;
    deb) packages=$DEB_PACKAGES ;;
    test) packages=$TEST_PACKAGES ;;
    *) echo "usage: $0 run|deb|test" >&2; exit 2 ;;
esac

missing=
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done

# Whether `$1 --version` prints at least $MINIMUM_RUST.
new_enough() {
    found=$("$1" --version 2>/dev/null | awk '{ print $2 }') || return 1
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$MINIMUM_RUST" "$found" | sort -V | head -n 1)" = "$MINIMUM_RUST" ]
}

# Packages that bring a new enough cargo, best first. Debian 12 has only `cargo-web`, a newer one for browsers.
toolchain_packages() {
    for package in cargo cargo-web; do
        candidate=$(apt-cache policy "$package" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
        # cargo was numbered 0.66 when rustc was 1.63; from 1.74 on both have one number.
        if [ -n "$candidate" ] && [ "$candidate" != "(none)" ] &&
            dpkg --compare-versions "$candidate" ge "$MINIMUM_RUST"; then
            if [ "$package" = cargo ]; then echo "cargo rustc rustfmt rust-clippy"; else echo "cargo-web rustc-web rustfmt-web rust-web-clippy"; fi
            return
        fi
    done
}

need_toolchain=
new_enough cargo && new_enough rustc || need_toolchain=1

if [ -n "$missing$need_toolchain" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup needs root for: apt-get install$missing ${need_toolchain:+and a Rust toolchain of $MINIMUM_RUST or newer}" >&2
        exit 3
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    if [ -n "$need_toolchain" ]; then
        toolchain=$(toolchain_packages)
        if [ -z "$toolchain" ] && [ -n "$(apt-cache madison rustup 2>/dev/null)" ]; then
            toolchain=rustup
        fi
        if [ -z "$toolchain" ]; then
            echo "no Rust toolchain of $MINIMUM_RUST or newer in this host's packages: install one from https://rustup.rs and run make again" >&2
            exit 3
        fi
        missing="$missing $toolchain"
    fi
    # The packages' own services are not started now (the next boot starts those that are enabled).
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM HUP
    fi
    # shellcheck disable=SC2086 # a list of words
    apt-get install -y -qq --no-install-recommends $missing
    if [ "${toolchain:-}" = rustup ]; then
        rustup toolchain install --profile minimal --component rustfmt --component clippy stable
    fi
fi

if ! new_enough cargo; then
    echo "cargo is older than $MINIMUM_RUST and comes first in PATH ($(command -v cargo)): remove it or update it" >&2
    exit 3
fi
