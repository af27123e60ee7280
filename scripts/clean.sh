#!/bin/sh
# `cargo clean`, and never through a mount: what an interrupted `make test` left mounted below the target folder is
# unmounted first, and anything else that is mounted there is a reason to refuse.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$("$cargo" metadata --no-deps --format-version 1 --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
[ -n "$target" ] || { echo "clean: cargo names no target folder" >&2; exit 1; }

# Mount points at and below a folder, the last one first; blanks are octal in mountinfo.
mounts() {
	folder=$(realpath -m "$1")
	awk '{ print $5 }' /proc/self/mountinfo | while read -r place; do
		place=$(printf '%b' "$(printf %s "$place" | sed 's/\\/\\0/g')")
		case "$place" in "$folder" | "$folder"/*) printf '%s\n' "$place" ;; esac
	done | tac
}

# Unmounts what a build of the test bed's root file system left, and prints the rest.
free() {
	mounts "$1" | while read -r place; do
		case "$place" in */base-*.unfinished*) umount -l "$place" ;; esac
	done
	left=$(mounts "$1")
	# What killed tests left beside that, if there is the program that knows it.
	if [ -n "$left" ] && [ -x "$target/debug/testbed" ]; then
		HEAPTRIAL_TESTBED_DIR="$(realpath "$1")/testbed" "$target/debug/testbed" tidy || true
		left=$(mounts "$1")
	fi
	[ -z "$left" ] && return
	echo "clean: nothing is removed, since these are mounted below $1:" >&2
	printf '%s\n' "$left" >&2
	echo "clean: \`cargo run -p heaptrial-testbed -- tidy\` removes what killed tests left, \`-- down NAME\` a host that was kept; else umount" >&2
	exit 3
}

# Earlier versions could make a second test bed below a crate.
for folder in "$target" crates/*/target; do
	[ ! -d "$folder" ] || free "$folder"
done
for folder in crates/*/target/testbed; do
	[ ! -d "$folder" ] || rm -rf --one-file-system "$folder"
done
"$cargo" clean
