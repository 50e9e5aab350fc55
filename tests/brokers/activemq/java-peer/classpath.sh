#!/usr/bin/env bash
# Prints the class path of the plain Java consumer of ActiveMQ, lockstep.peer.Post, which is built into the cache where it
# is not there.

name=activemq-java-peer
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"

java_peer "$name" "$here"
