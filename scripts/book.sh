#!/bin/sh
# Writes docs/commands.md, which is made from the definitions of the commands and not kept, and builds the book where mdBook is
# installed.
set -eu
cd "$(dirname "$0")/.."
HEAPTRIAL_COMMANDS_PAGE="$PWD/docs/commands.md" ${CARGO:-cargo} test --locked --quiet -p heaptrial --bins the_page_of_commands
if command -v mdbook >/dev/null; then
    mdbook build docs
else
    echo "docs/commands.md is written; mdbook is not installed, so there is no book"
fi
