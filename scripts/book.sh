#!/bin/sh
# Writes docs/commands.md, which is made from the definitions of the commands and not kept, and builds the book in target/book
# where mdBook is installed. What pages refer to outside of docs is in the book as text.
set -eu
cd "$(dirname "$0")/.."
HEAPTRIAL_COMMANDS_PAGE="$PWD/docs/commands.md" ${CARGO:-cargo} test --locked --quiet -p heaptrial --bins the_page_of_commands
if ! command -v mdbook >/dev/null; then
    echo "docs/commands.md is written; mdbook is not installed, so there is no book"
    exit 0
fi
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
cp -R docs/. "$pages"
sed -i -E 's,\]\(\.\./([^)#]*)\.md(#[^)]*)?\),](sources/\1.txt),g' "$pages"/*.md
for page in README CONTRIBUTING ansible/README $(ls notebook/*.md); do
    page=${page%.md}
    mkdir -p "$pages/sources/$(dirname "$page")"
    cp "$page.md" "$pages/sources/$page.txt"
done
mdbook build "$pages" --dest-dir "$PWD/target/book"
