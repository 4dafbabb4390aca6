#!/usr/bin/env bash
# man formats each manual page without a warning.
#
#   manual_test.sh TAR
set -euo pipefail
manual=$(mktemp -d "${TEST_TMPDIR:-/tmp}/manual.XXXXXX")
trap 'rm -rf "$manual"' EXIT
tar -x -C "$manual" -f "$1"

pages=0
for page in "$manual"/man*/*; do
  said=$(cd "$manual" && MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
  [[ -z $said ]] || { echo "FAILED: ${page##*/}: $said" >&2; exit 1; }
  pages=$((pages + 1))
done
[[ $pages -ge 80 ]] || { echo "FAILED: only $pages pages" >&2; exit 1; }
echo "$pages pages"
