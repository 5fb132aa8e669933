#!/bin/sh
# Installs the Debian packages that tests use, where they are missing and apt can be used; says loudly where not.
# usage: tests/services.sh PACKAGE...
set -u
missing=""
for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
    # A service may be there without Debian's package of that name.
    [ "$package" = postgresql ] && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && continue
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null && sudo="sudo -n"
    [ -z "$sudo" ] && { echo "*** NOT INSTALLED:$missing (no root): tests that need them are SKIPPED" >&2; [ "${CI:-}" = true ] && exit 1; exit 0; }
fi
command -v apt-get >/dev/null || { echo "*** NOT INSTALLED:$missing (no apt): tests that need them are SKIPPED" >&2; [ "${CI:-}" = true ] && exit 1; exit 0; }
echo "installing$missing"
$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq $missing >/dev/null
