#!/usr/bin/env bash
# The README's commands on a bare machine: a fresh clone, an empty home, and a PATH that holds only python, git and the
# core utilities (no Java, no Maven, no compiler).
#
# bash tests/support/bare.sh [--with-java]
#
# Runs, in their order, the fenced `sh` blocks of README.md that call tox. Exit status 0: all of them passed.
# --with-java puts java and mvn on the PATH, too.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools="python3 git bash sh env
    [ basename cat chmod cp cut date df dirname du echo expr false find grep head hostname id ln ls mkdir mkfifo mktemp mv
    nproc ps pwd readlink realpath rm rmdir sed sleep sort stat tail tee test touch tr true uname uniq wc xargs"
[ "${1:-}" = --with-java ] && tools="$tools java javac mvn"
mkdir "$work/bin" "$work/home"
for tool in $tools; do
    path=$(type -P "$tool" || true)
    [ -z "$path" ] || printf '#!/bin/sh\nexec "%s" "$@"\n' "$path" >"$work/bin/$tool"
done
chmod +x "$work"/bin/*
[ "${1:-}" = --with-java ] || ! PATH="$work/bin" command -v java

git clone --quiet "$repository" "$work/clone"
awk '/^```sh$/ { block = ""; inside = 1; next }
     /^```$/   { if (inside && block ~ /tox/) printf "%s", block; inside = 0; next }
     inside    { block = block $0 "\n" }' "$work/clone/README.md" >"$work/commands"
[ -s "$work/commands" ] || { echo "README.md has no sh block with tox" >&2; exit 1; }
echo "-- commands:" && cat "$work/commands"

# What the machine needs to reach its package index stays; everything else of the environment does not.
kept=$(env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_|[a-z]*_proxy=|[A-Z]*_PROXY=)' || true)
mapfile -t kept <<<"$kept"
[ -n "${kept[0]}" ] || kept=()
cd "$work/clone"
start=$SECONDS
env -i "${kept[@]}" PATH="$work/bin" HOME="$work/home" LANG=C.UTF-8 sh -eux "$work/commands" </dev/null
echo "-- passed in $((SECONDS - start)) s"
