# shellcheck shell=bash disable=SC2034
# What the scripts of Classic and Artemis share beside ../lib.sh: what Maven serves, and the MBeans over HTTP.

name=${name:?}
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

dependency=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
agent=$cache/jolokia-2.1.2
inactivity=${BROKER_INACTIVITY:-30000}

# copy_artifact GROUP:NAME:VERSION:TYPE:CLASSIFIER FOLDER
copy_artifact() { mvn -B -q "$dependency:copy" "-Dartifact=$1" "-DoutputDirectory=$2"; }

copy_agent() { copy_artifact org.jolokia:jolokia-agent-jvm:2.1.2:jar:javaagent "$1"; }

# The JVM's argument that serves its MBeans at this port.
agent_flag() { echo "-javaagent:$agent/jolokia-agent-jvm-2.1.2-javaagent.jar=host=$reach,port=$1,discoveryEnabled=false"; }

# must_be_free PORT : a stranger's server there would be taken for ours.
must_be_free() { ! port_open "$reach" "$1" || die "port $1 of $reach is taken: choose another"; }

# start_again : stop, then start.
start_again() {
  stop_node broker
  start
}
