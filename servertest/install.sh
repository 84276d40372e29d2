#!/usr/bin/env bash
# Installs the servers that the tests start, where they are missing: Debian's
# redis-server and postgresql. Only the programs are wanted: no service is
# started, and what a package's own service thinks of that does not matter.
set -euo pipefail

missing() {
	command -v redis-server >/dev/null || echo redis-server
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || echo postgresql
}

# give_up says what a person has to do.
give_up() {
	local names
	mapfile -t names < <(missing)
	echo "The tests start Redis and Postgres servers, and $1. Install: ${names[*]}" >&2
	exit 1
}

[ -n "$(missing)" ] || exit 0
command -v apt-get >/dev/null || give_up 'there is no apt-get here'

if [ "$(id -u)" -ne 0 ]; then
	sudo -n true 2>/dev/null || give_up 'neither root nor sudo without a password is at hand'
	exec sudo -n "$0"
fi

# Debian asks this file before it starts a service; 101 is no. One that is there
# already has its reasons and stays.
readonly policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

install_missing() {
	mapfile -t packages < <(missing)
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
}

# The lists of packages may be old, or absent as in an image. A package that is
# unpacked and could not start its service will do.
install_missing || [ -z "$(missing)" ] || { apt-get update -q && install_missing; } || true
[ -z "$(missing)" ] || give_up 'apt-get does not bring them'
