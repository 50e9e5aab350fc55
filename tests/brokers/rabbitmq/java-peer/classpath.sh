#!/usr/bin/env bash
# Prints the class path of the plain Java consumer of RabbitMQ, lockstep.peer.Post, which is built into the cache where it
# is not there.

name=rabbitmq-java-peer
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"

build() {
  mkdir -p "$1"
  cp -r "$here/." "$1"
  mvn -B -q -f "$1/pom.xml" package dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$1/target/lib"
}

peer=$cache/$name-$(cat "$here/pom.xml" "$here"/src/main/java/lockstep/peer/*.java | sha256sum | cut -c1-16)
once "$peer" build
printf '%s\n' "$peer/target/classes:$peer/target/lib/*"
